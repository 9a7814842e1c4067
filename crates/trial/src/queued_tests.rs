use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::*;

/// Sink that waits before each event until the test lets it go on, and then writes it down.
struct Slow {
    may_go_on: Mutex<Receiver<()>>,
    seen: Mutex<Vec<String>>,
}

impl Sink for Slow {
    fn take(&self, told: &Told) {
        // The test's end lets all go on.
        let _ = self.may_go_on.lock().unwrap().recv();
        self.seen.lock().unwrap().push(match told {
            Told::Next(name) | Told::Note(name) => name.clone(),
            Told::Lost(lost) => format!("{lost} lost"),
            other => panic!("{other:?}"),
        });
    }
}

fn slow() -> (Arc<Slow>, Sender<()>, QueuedSink) {
    let (go_on, may_go_on) = channel();
    let slow = Arc::new(Slow { may_go_on: Mutex::new(may_go_on), seen: Mutex::default() });
    let queued = QueuedSink::start("slow", Arc::clone(&slow) as Arc<dyn Sink + Send>).unwrap();
    (slow, go_on, queued)
}

#[test]
fn a_sink_that_blocks_for_ever_delays_nothing_and_its_losses_are_counted() {
    let (slow, _go_on, queued) = slow();
    let begun = Instant::now();
    let events = WAITING_MAX + 1_000;
    (0..events).for_each(|number| queued.take(&Told::Note(number.to_string())));
    let missing = queued.end(Duration::from_millis(50));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!((events as u64 - 1..=events as u64).contains(&missing), "all but one that it may hold: {missing}");
    assert!(slow.seen.lock().unwrap().is_empty());
}

#[test]
fn a_slow_sink_loses_its_oldest_readings_and_no_headers_and_is_told_how_many() {
    let (slow, go_on, queued) = slow();
    queued.take(&Told::Next("trial".to_owned()));
    (0..WAITING_MAX + 9).for_each(|number| queued.take(&Told::Note(number.to_string())));
    drop(go_on);
    let lost = queued.end(Duration::from_secs(60));
    let seen = slow.seen.lock().unwrap();
    let told_of = |line: &String| line.strip_suffix(" lost").map(|lost| lost.parse::<u64>().unwrap());
    assert!((9..=10).contains(&lost), "{lost}: the thread may hold the first event already, or not");
    assert_eq!(seen.iter().filter_map(told_of).sum::<u64>(), lost, "{seen:?}");
    let received = seen.iter().filter(|line| told_of(line).is_none()).count();
    assert_eq!(received as u64 + lost, WAITING_MAX as u64 + 10, "everything is received or counted");
    assert!(seen.contains(&"trial".to_owned()), "{seen:?}");
    assert_eq!(seen.last(), Some(&(WAITING_MAX + 8).to_string()));
}

#[test]
fn a_sink_beside_slow_ones_receives_each_event_at_once() {
    let (direct, go_on, _of_direct) = slow();
    drop(go_on);
    let (_slow, _go_on, queued) = slow();
    let forked = ForkedSink { direct: &*direct, queued: &[queued] };
    ["one", "two"].iter().for_each(|name| forked.take(&Told::Next((*name).to_owned())));
    assert_eq!(*direct.seen.lock().unwrap(), ["one", "two"]);
}
