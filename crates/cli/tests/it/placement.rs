//! Placement of data: in the directory that was named, or nowhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::bench::{Guarded, Place, small_coupons, wait_for};

/// Longest time that a busy machine takes to start a server.
const BOUND: Duration = Duration::from_secs(200);

/// An empty directory.
fn directory(place: &Place) -> PathBuf {
    let path = place.path().join("elsewhere");
    fs::create_dir(&path).unwrap();
    path
}

fn entries(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Returns all directories of `depth` levels below `path`.
fn below(path: &Path, depth: usize) -> Vec<PathBuf> {
    (0..depth).fold(vec![path.to_owned()], |level, _| level.iter().flat_map(|path| entries(path)).collect())
}

#[test]
fn data_is_where_it_was_asked_to_be_and_gone_afterwards() {
    let place = Place::new();
    // Others may get there, as whom a server may run.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let dir = directory(&place);
    for (store, depth, file) in [("postgres", 4, "PG_VERSION"), ("sqlite", 2, "store.sqlite")] {
        let drive = format!("drive kv --on {store} --mix read=1 --set records=100 --think 2ms --for 2s --quiet");
        let mut command = place.command(&drive.split(' ').collect::<Vec<_>>());
        let mut run = Guarded(command.args(["--dir", dir.to_str().unwrap()]).spawn().unwrap());
        wait_for("the data", BOUND, || {
            let found = below(&dir, depth).iter().any(|data| data.join(file).exists());
            assert!(found || run.0.try_wait().unwrap().is_none(), "{store}: it ended before its data was there");
            found
        });
        assert!(run.0.wait().unwrap().success());
        assert!(entries(&dir).is_empty(), "{:?}", entries(&dir));
    }
    for run in place.all_runs() {
        assert!(run.join("data").symlink_metadata().is_err(), "no link is left");
    }
}

#[test]
fn a_directory_that_the_servers_user_cannot_enter_is_an_error_that_says_which_to_open() {
    // Root's server runs as another user.
    let place = Place::new();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let (dir, closed) = (directory(&place), place.path().canonicalize().unwrap());
    let drive = "drive kv --mix read=1 --set records=100 --ops 5 --on postgres";
    let ran = place.line(&format!("{drive} --dir {}", dir.display())).expect(8);
    ran.says(&format!("user postgres may not enter {0}; chmod o+x {0} lets it … --dir", closed.display()));
    assert!(entries(&dir).is_empty());
    // Without being asked for, another place will do.
    place.line(drive).expect(0);
}

#[test]
fn the_next_start_removes_what_a_killed_run_left_elsewhere() {
    let place = Place::new();
    let dir = directory(&place);
    let plan = place.plan(&small_coupons(r#"["sqlite"]"#, 20_000, 5));
    let mut run = place.recording(&["run", &plan, "--quiet", "--dir", dir.to_str().unwrap()]);
    wait_for("the data", BOUND, || below(&dir, 2).iter().any(|store| store.join("store.sqlite").exists()));
    run.kill();
    assert_eq!(entries(&dir).len(), 1);
    place.line("drive kv --on null --mix read=1 --ops 1").says("removed the data of the killed");
    assert!(entries(&dir).is_empty(), "{:?}", entries(&dir));
}

#[test]
fn data_elsewhere_is_removed_though_a_user_removed_the_run_and_never_while_it_is_used() {
    let place = Place::new();
    let dir = directory(&place);
    let drive = format!("drive kv --on sqlite --mix read=1 --set records=100 --dir {}", dir.display());
    let long = format!("{drive} --think 2ms --for 60s --slice 100ms --quiet");
    let long: Vec<&str> = long.split(' ').collect();
    // While it goes on.
    let run = place.started(&long, 3);
    let data = below(&dir, 2);
    place.line(&format!("{drive} --ops 1")).expect(0);
    assert_eq!(below(&dir, 2), data, "another run removes its own only");
    let is_its = |run: &PathBuf| run.join("data").exists();
    let directory = place.all_runs().into_iter().find(is_its).unwrap();
    fs::remove_dir_all(directory).unwrap();
    run.signal(Signal::INT);
    run.ended().says("was removed or moved while it was written");
    assert!(entries(&dir).is_empty(), "{:?}", entries(&dir));
    // After it was killed.
    let mut run = place.started(&long, 3);
    run.kill();
    fs::remove_dir_all(place.runs()).unwrap();
    assert_eq!(entries(&dir).len(), 1);
    place.line(&format!("{drive} --ops 1")).expect(0).says("removed the data of the killed run");
    assert!(entries(&dir).is_empty(), "{:?}", entries(&dir));
}

#[test]
fn the_supervisors_variable_alone_makes_no_supervisor() {
    let place = Place::new();
    let mut command = place.command(&["list", "stores"]);
    let said = command.env("PLIMSOLL_SUPERVISOR_OF", std::process::id().to_string()).output().unwrap();
    assert!(said.status.success() && String::from_utf8(said.stdout).unwrap().contains("sqlite"));
}
