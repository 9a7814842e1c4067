use super::*;

#[test]
fn a_longer_run_has_twice_the_time_and_slices_enough() {
    let lengths = [(20, 1.0), (69, 1.0), (300, 1.0), (20, 10.0), (60, 0.1)].map(|(n, s)| longer_s(n, s));
    assert_eq!(lengths, [120.0, 138.0, 600.0, 700.0, 120.0]);
}

fn watched(source: &str, meaning: Meaning) -> WatchedSeries {
    let values = (0..40).map(|at| Some(f64::from(at % 7))).collect();
    WatchedSeries::new("one".to_owned(), "%", source, meaning, values).unwrap()
}

#[test]
fn a_next_step_is_that_of_the_source() {
    for source in ["disk", "block"] {
        assert!(next(&watched(source, Meaning::Figure)).contains("disk of its own"));
    }
    assert!(next(&watched("generator", Meaning::Figure)).contains("more processors"));
    assert!(next(&watched(STORE, Meaning::Cycle)).contains("cycles rarer"));
    assert!(next(&watched(STORE, Meaning::Figure)).contains("plimsoll ab"));
    assert!(next(&watched("server", Meaning::Stopped)).contains("a debugger, SIGSTOP"));
}
