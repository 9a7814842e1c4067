//! Killed at any moment: the recording is complete, and nothing else is left.

use std::path::Path;
use std::time::Duration;

use crate::bench::{Guarded, Place, small_coupons, wait_for};

/// Ids of processes that have `text` in their command line or their working directory.
fn processes_with(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let directory = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(text) || directory.to_string_lossy().contains(text) {
            found.push(pid);
        }
    }
    found
}

/// Starts the small study, kills it `after`, and returns the recording's text report.
fn killed(place: &Place, on: &str, after: Duration) -> String {
    let plan = place.plan(&small_coupons(r#"["sqlite"]"#, 20_000, 5));
    let mut child = Guarded(place.command(&["run", &plan, "--quiet", "--on", on]).spawn().unwrap());
    wait_for("the recording", Duration::from_secs(20), || {
        place.all_runs().iter().any(|run| run.join("run.sqlite").exists())
    });
    std::thread::sleep(after);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    place.run(&["report", "latest", "--format", "text"]).expect(0).out
}

#[test]
fn a_recording_is_readable_after_a_kill_at_any_moment() {
    for moment in 0..10_u64 {
        let place = Place::new();
        let text = killed(&place, "sqlite", Duration::from_millis(100 + moment * 173));
        assert!(text.contains("killed") || text.contains("Coupons in small"), "{text}");
        assert!(!text.contains("complete"), "{text}");
        // The next start removes what the killed one could not.
        place.run(&["run", &place.plan(&small_coupons(r#"["fjall"]"#, 100, 1)), "--quiet"]).expect(0);
        for run in place.all_runs() {
            assert!(!run.join("data").exists(), "{} still has data", run.display());
        }
    }
}

#[test]
fn a_private_server_dies_with_the_program() {
    for moment in 0..10_u64 {
        let place = Place::new();
        let _ = killed(&place, "postgres", Duration::from_millis(150 + moment * 311));
        let state = place.path().to_str().unwrap().to_owned();
        wait_for("the private server's end", Duration::from_secs(5), || {
            processes_with(&state).is_empty() && no_server_directory(place.path())
        });
    }
}

/// True when no private server's data directory is left under the run.
fn no_server_directory(state: &Path) -> bool {
    let mut pending = vec![state.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name() == "PG_VERSION" {
                return false;
            }
            if entry.path().is_dir() {
                pending.push(entry.path());
            }
        }
    }
    true
}
