//! What the program knows of itself: its ceiling, the machine's noise, and whether it sees a pause whole.

use std::time::{Duration, Instant};

use crate::bench::Place;

#[test]
fn a_pause_of_the_server_is_seen_whole() {
    let place = Place::new();
    // A busy machine keeps the server from getting through what has piled up, which makes times longer, never shorter.
    let mut tries = (0..3).map(|_| place.run(&["doctor", "--honesty", "postgres"]));
    let ran = tries.find(|ran| ran.code == Some(0)).expect("one of three tries");
    let ran = ran.says("The pause is seen whole").says("p99.9");
    // What a generator that starts its clock at the send would have seen.
    assert!(ran.out.contains("if the clock started at the send"), "{ran:?}");
    let left: Vec<_> = std::fs::read_dir(place.runs()).map(|all| all.flatten().collect()).unwrap_or_default();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_a_killed_test_of_honesty_leaves_is_removed_by_the_next_run() {
    let place = Place::new();
    let mut doctor = place.command(&["doctor", "--honesty", "redis"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while place.all_runs().is_empty() {
        assert!(Instant::now() < deadline && doctor.try_wait().unwrap().is_none(), "it never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    let left = place.only_run();
    // While it lives, another run leaves it alone.
    place.run(&["drive", "nothing", "--on", "null", "--for", "100ms", "-q"]).expect(0);
    assert!(left.exists() && doctor.try_wait().unwrap().is_none());
    doctor.kill().unwrap();
    doctor.wait().unwrap();
    assert!(left.exists());
    place.run(&["drive", "nothing", "--on", "null", "--for", "100ms", "-q"]).expect(0);
    assert!(!left.exists(), "{left:?}");
}

#[test]
fn only_a_server_of_ones_own_can_be_stopped() {
    let place = Place::new();
    place.run(&["doctor", "--honesty", "sqlite"]).expect(2).says("`sqlite` is no server").says("postgres");
}

#[test]
fn a_calibration_is_kept_shown_and_noted_in_runs() {
    let place = Place::new();
    place.run(&["doctor", "--calibrate"]).expect(0).says("generator's ceiling, 1 worker").says("noise floor");
    let shown = place.run(&["doctor"]);
    assert!(shown.out.contains("noise floor: throughput"), "{shown:?}");
    place.run(&["drive", "nothing", "--on", "null", "--for", "200ms", "-q"]).expect(0);
    place.run(&["report", "latest", "--format", "json"]).expect(0).says("noise floor");
}

#[test]
fn the_doctor_says_how_sockets_are_driven_and_a_wrong_wish_is_refused() {
    let place = Place::new();
    place.run(&["doctor"]).says("sockets over ");
    let drive = ["drive", "nothing", "--on", "null", "--for", "100ms", "-q", "--io"];
    let with = |io: &'static str| place.run(&drive.iter().copied().chain([io]).collect::<Vec<_>>());
    with("kqueue").expect(2).says("kqueue").says("io_uring");
    with("epoll").expect(0);
    place.run(&["report", "latest", "--format", "json"]).expect(0).says("epoll, as asked for");
}
