use crate::with_own_mounts;

#[test]
fn a_full_disk_ends_the_run_with_a_clear_error_and_a_readable_recording() {
    let place = tempfile::tempdir().unwrap();
    // A device of 3 MiB holds some hundred slices.
    let script = r#"mount -t tmpfs -o size=3m,mode=700 none "$0"
        "$1" write "$0" 100000 1
        "$1" read "$0"/*/run.sqlite"#;
    let output = with_own_mounts(script, place.path());
    let words = String::from_utf8_lossy(&output.stdout);
    let line = |start: &str| {
        let found = words.lines().find_map(|line| line.strip_prefix(start));
        found.unwrap_or_else(|| panic!("no line {start:?}: {words} {}", String::from_utf8_lossy(&output.stderr)))
    };
    assert!(line("put: ").starts_with("Err(DiskFull("), "{}", line("put: "));
    assert!(line("finished: ").starts_with("Err(DiskFull("), "{}", line("finished: "));
    assert!(line("state: ").starts_with(r#"Failed("no space left on the device that holds"#), "{}", line("state: "));
    let committed = words.lines().filter(|line| line.starts_with("committed ")).count();
    assert!(committed > 20, "{committed}");
    assert_eq!(line("slices: "), format!("{committed}, samples: {committed}"));
}

#[test]
fn a_file_that_may_not_grow_ends_the_run_like_a_full_disk() {
    let place = tempfile::tempdir().unwrap();
    // Blocks of 512 bytes: 3 MiB.
    let script = r#"trap '' XFSZ; ulimit -f 6144
        "$1" write "$0" 100000 1
        "$1" read "$0"/*/run.sqlite"#;
    let output = with_own_mounts(script, place.path());
    let words = String::from_utf8_lossy(&output.stdout);
    let line = |start: &str| {
        let found = words.lines().find_map(|line| line.strip_prefix(start));
        found.unwrap_or_else(|| panic!("no line {start:?}: {words} {}", String::from_utf8_lossy(&output.stderr)))
    };
    assert!(line("put: ").starts_with("Err(FileLimit("), "{}", line("put: "));
    assert!(line("finished: ").starts_with("Err(FileLimit("), "{}", line("finished: "));
    let state = line("state: ");
    assert!(state.contains("has come to the largest size that a file may have here"), "{state}");
    let committed = words.lines().filter(|line| line.starts_with("committed ")).count();
    assert!(committed > 20, "{committed}");
    assert_eq!(line("slices: "), format!("{committed}, samples: {committed}"));
}
