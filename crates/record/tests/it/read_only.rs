use plimsoll_record::data::RunState;

use crate::{synthetic, with_own_mounts, writer};

const READ: &str = r#"mount --bind "$0" "$0"
    mount -o remount,bind,ro "$0"
    touch "$0"/x 2>/dev/null && { echo "it can be written"; exit 1; }
    "$1" read "$0"/*/"#;

#[test]
fn a_finished_recording_is_read_where_nothing_can_be_written() {
    let place = tempfile::tempdir().unwrap();
    let recorder = synthetic::recorder(place.path(), "20261121-202403-4f1c");
    recorder.begin_trial(synthetic::trial(0)).unwrap();
    recorder.finish(RunState::Complete, 5).unwrap();
    let output = with_own_mounts(READ, place.path());
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(words.starts_with("state: Complete\n"), "{words} {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_killed_recording_is_read_where_nothing_can_be_written() {
    for without_index in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let (mut child, mut lines) = writer(place.path());
        assert!(lines.any(|line| line == "committed 0 9"));
        child.kill().unwrap();
        child.wait().unwrap();
        if without_index {
            // As when only the file and its log were copied.
            let directory = place.path().read_dir().unwrap().next().unwrap().unwrap().path();
            std::fs::remove_file(directory.join("run.sqlite-shm")).unwrap();
        }
        let output = with_own_mounts(READ, place.path());
        let words = String::from_utf8_lossy(&output.stdout);
        let slices = words.strip_prefix("state: Unfinished\nslices: ").and_then(|rest| rest.split(',').next());
        // More may have been committed before the kill.
        assert!(slices.is_some_and(|slices| slices.parse().is_ok_and(|slices: u32| slices >= 10)), "{words}");
    }
}
