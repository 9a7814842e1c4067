use std::time::{Duration, Instant};

use plimsoll_trace::{TraceError, WaitTracer};

use crate::child::Told;
use crate::ways::directory;

#[test]
fn waits_for_a_device_are_timed_and_waits_for_work_and_those_of_others_are_none() {
    let place = directory();
    let file = place.path().join("file");
    let (mut child, mut other) = (Told::start(), Told::start());
    let mut tracer = WaitTracer::start(&[child.pid()]).unwrap_or_else(|error| panic!("{error}\n{}", error.next()));
    tracer.read().unwrap();
    // A child that waits for words sleeps as well, but can be interrupted.
    std::thread::sleep(Duration::from_millis(200));
    other.does(&format!("fsync 20 {}", file.display()));
    let idle = tracer.read().unwrap();
    assert!(idle.new.sum_ns() < 100_000_000, "{idle:?}");
    let began = Instant::now();
    child.does(&format!("fsync 20 {}", file.display()));
    child.does(&format!("fork fsync 20 {}", file.display()));
    let took_ns = began.elapsed().as_nanos() as u64;
    let seen = tracer.read().unwrap();
    // A sync of a device that answers at once may not wait.
    assert!(seen.new.len() + seen.lost >= 20, "{seen:?}");
    assert!(seen.new.len() >= 3 * idle.new.len(), "{idle:?} {seen:?}");
    // The child waits for its own child, which is a wait for work; each of both may wait at once while one starts.
    let sum_ns = seen.new.sum_ns();
    assert!(sum_ns > 20_000 && sum_ns < 2 * took_ns, "{sum_ns} of {took_ns} ns");
    assert_eq!(seen.times.len(), idle.times.len() + seen.new.len());
}

#[test]
fn a_process_that_is_not_there_has_no_waits() {
    assert!(matches!(WaitTracer::start(&[4_194_305]).err(), Some(TraceError::NoProcess { pid: 4_194_305 })));
}
