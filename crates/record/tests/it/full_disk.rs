use crate::with_own_mounts;

/// Writes a recording in a place made by `prepare` until nothing goes any more, which is told as `error`, and reads it. What
/// its state says.
fn written_until(prepare: &str, error: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    let script = format!(
        r#"{prepare}
        "$1" write "$0" 100000 1
        "$1" read "$0"/*/run.sqlite"#
    );
    let output = with_own_mounts(&script, place.path());
    let words = String::from_utf8_lossy(&output.stdout);
    let line = |start: &str| {
        let found = words.lines().find_map(|line| line.strip_prefix(start));
        found.unwrap_or_else(|| panic!("no line {start:?}: {words} {}", String::from_utf8_lossy(&output.stderr)))
    };
    let error = format!("Err({error}(");
    assert!(line("put: ").starts_with(&error), "{}", line("put: "));
    assert!(line("finished: ").starts_with(&error), "{}", line("finished: "));
    let committed = words.lines().filter(|line| line.starts_with("committed ")).count();
    assert!(committed > 20, "{committed}");
    // The disk may be full between the two.
    let either = [committed, committed + 1].map(|samples| format!("{committed}, samples: {samples}"));
    assert!(either.iter().any(|counts| line("slices: ") == counts), "{committed}: {}", line("slices: "));
    line("state: ").to_owned()
}

#[test]
fn a_full_disk_ends_the_run_with_a_clear_error_and_a_readable_recording() {
    // A device of 3 MiB holds some hundred slices.
    let state = written_until(r#"mount -t tmpfs -o size=3m,mode=700 none "$0""#, "DiskFull");
    assert!(state.starts_with(r#"Failed("no space left on the device that holds"#), "{state}");
}

#[test]
fn a_file_that_may_not_grow_ends_the_run_like_a_full_disk() {
    // Blocks of 512 bytes: 3 MiB.
    let state = written_until("trap '' XFSZ; ulimit -f 6144", "FileLimit");
    assert!(state.contains("has reached the largest size that a file may have here"), "{state}");
}
