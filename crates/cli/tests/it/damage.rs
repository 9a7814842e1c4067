//! Recordings that are damaged, none, or gone, and texts that are too long or drive a terminal: one message each, and an
//! exit code.

use std::fs;
use std::path::Path;

use plimsoll_testkit::draw::{Draw, repeats};

use crate::bench::{Place, Ran};

fn recorded() -> (Place, std::path::PathBuf) {
    let place = Place::new();
    place.run(&["drive", "kv", "--mix", "read=1", "--on", "null", "--clients", "1", "--ops", "1000"]).expect(0);
    let run = place.only_run();
    (place, run)
}

/// Expects equal verdicts from three readers: a report, or a message and exit code 10.
#[track_caller]
fn read_by_all(place: &Place, file: &Path, whole: &str, what: &str) -> bool {
    let path = file.to_str().unwrap();
    let report = place.run(&["report", path, "--format", "text"]);
    let compare = place.run(&["compare", whole, path]);
    let listed = place.run(&["runs"]).expect(0);
    let is_refused = report.code == Some(10);
    for ran in [&report, &compare] {
        assert!(!ran.err.contains("panicked"), "{what}: {ran:?}");
        assert_eq!(ran.code == Some(10), is_refused, "{what}: {report:?} {compare:?}");
        match ran.code {
            Some(10) => {
                assert_eq!(ran.err.matches("error:").count(), 1, "{what}: {ran:?}");
                assert!(ran.out.is_empty() && ran.err.lines().count() <= 3, "{what}: {ran:?}");
            }
            _ => assert!(!ran.out.is_empty() && [Some(0), Some(1), Some(11)].contains(&ran.code), "{what}: {ran:?}"),
        }
    }
    assert_eq!(listed.out.contains("not readable"), is_refused, "{what}: {listed:?} {report:?}");
    is_refused
}

#[test]
fn damaged_recordings_end_with_one_message_or_a_report_and_never_otherwise() {
    let ((_elsewhere, other), (place, run)) = (recorded(), recorded());
    let whole = other.to_str().unwrap();
    let bytes = fs::read(run.join("run.sqlite")).unwrap();
    let (file, mut draw) = (run.join("run.sqlite"), Draw::new("damage"));
    let mut below = |bound: usize| draw.below(bound as u64) as usize;
    for cut in (0..bytes.len()).step_by(bytes.len() / 6) {
        fs::write(&file, &bytes[..cut]).unwrap();
        assert!(read_by_all(&place, &file, whole, &format!("cut at {cut}")));
    }
    for copy in 0..repeats(15, 300) {
        let mut damaged = bytes.clone();
        // A bit here and there, or a block of a disk that holds something else.
        for _ in 0..=copy % 5 {
            let at = below(bytes.len());
            damaged[at] ^= 1 << below(8);
        }
        if copy % 3 == 0 {
            let at = below(bytes.len() / 4096) * 4096;
            let with = below(256) as u8;
            damaged[at..at + 4096].fill(with);
        }
        fs::write(&file, &damaged).unwrap();
        // Which of them are refused depends on what was recorded; that all who read it say the same does not.
        read_by_all(&place, &file, whole, &format!("copy {copy}"));
    }
    let mut headless = bytes;
    headless[..4096].fill(7);
    fs::write(&file, &headless).unwrap();
    assert!(read_by_all(&place, &file, whole, "another file's first page"));
    for what in ["fifo", "directory", "nothing"] {
        match what {
            "fifo" => {
                fs::remove_file(&file).unwrap();
                assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
            }
            "directory" => {
                fs::remove_file(&file).unwrap();
                fs::create_dir(&file).unwrap();
            }
            _ => fs::remove_dir(&file).unwrap(),
        }
        assert!(read_by_all(&place, &file, whole, what));
    }
}

#[test]
fn a_long_text_is_shown_around_the_place_that_is_meant() {
    let place = Place::new();
    let long = "x".repeat(900_000);
    for (plan, place_said) in [
        (format!("stores = [\"null\"]\nstore = \"{long}\"\n"), "plan.toml:2:"),
        (format!("stores = [\"null\", \"{long}\"]\n[workload]\nname = \"kv\"\n"), "plan.toml:1:19"),
        (format!("stores = [\"null\"]\nnote = \"{long}\n"), "plan.toml:2:"),
        (format!("stores = [\"null\"]\n[workload]\nname = \"kv\"\n{long} = 3\n"), "plan.toml:"),
        (format!("# {long}\nstores = [\"nul\"]\n"), "plan.toml:2:"),
    ] {
        let path = place.plan(&plan);
        let ran = place.run(&["check", &path]).expect(2);
        assert!(ran.err.len() < 4_000, "{} bytes", ran.err.len());
        assert!(ran.err.contains(place_said), "{place_said}: {ran:?}");
    }
    let long = &long[..100_000];
    for args in [
        &["check", long][..],
        &["report", long],
        &["drive", "kv", "--mix", "read=1", "--on", long],
        &["drive", "kv", "--mix", "read=1", "--on", &format!("redis://127.0.0.1:1/{long}")],
        &["drive", "kv", "--mix", "read=1", "--on", "null", "--set", long],
        &["drive", "kv", "--mix", "read=1", "--on", "null", "--set", &format!("distribution={long}")],
        &["drive", "kv", "--mix", long, "--on", "null"],
        &["drive", "kv", "--mix", "read=1", "--on", "null", "--for", long],
        &["drive", "-f", long, "--on", "null"],
        &["drive", "kv", "--mix", "read=1", "--on", "null", &format!("--{long}")],
    ] {
        let ran = place.run(args);
        assert!(ran.code != Some(0) && ran.err.len() + ran.out.len() < 4_000, "{} of {:?}", ran.err.len(), &args[..2]);
    }
    // A statement in a script.
    let script = place.path().join("long.sql");
    fs::write(&script, format!("SELECT 1;\n\\set n {long}(\nSELECT 2;\n")).unwrap();
    let ran = place.run(&["drive", "-f", script.to_str().unwrap(), "--on", "postgres://nobody@127.0.0.1:1/db"]);
    assert!(ran.code == Some(2) && ran.err.len() < 4_000, "{:?} {}", ran.code, ran.err.len());
}

#[test]
fn a_name_that_drives_a_terminal_is_shown_without_effect() {
    let place = Place::new();
    let path = place.path().join("a\x1b[31m\rb.toml");
    let path = path.to_str().unwrap();
    let is_plain = |ran: &Ran| {
        let text = format!("{}{}", ran.out, ran.err);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    };
    is_plain(&place.run(&["check", path]).expect(2));
    fs::write(path, "stores = [\"nul\"] # \x07\n").unwrap();
    is_plain(&place.run(&["check", path]).expect(2));
    let plan =
        "stores = [\"null\"]\n[workload]\nname = \"kv\"\n[[phase]]\ndo = \"drive\"\nmix = { read = 1 }\nops = 100\n";
    fs::write(path, plan).unwrap();
    is_plain(&place.run(&["check", path]).expect(0));
    is_plain(&place.run(&["run", path]).expect(0));
    is_plain(&place.run(&["runs"]).expect(0));
    is_plain(&place.run(&["report", path]).expect(10));
}
