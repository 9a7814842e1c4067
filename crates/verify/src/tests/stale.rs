//! Stale records by the time of their answer and its server.

use std::sync::Arc;

use plimsoll_core::{Answer, Op, Outcome, TICK_NS, Ticket, Version};

use super::row;
use super::twins::{PUT, READ, RECORDS, kv};
use crate::{Ledger, StaleReads};

#[test]
fn stale_records_are_told_by_tick_and_by_the_server_that_answered() {
    let workload = kv(RECORDS);
    let truth = workload.truth().unwrap();
    let mut ledger = Ledger::new(Arc::clone(&workload)).unwrap();
    ledger.loaded(0, 1, &|| false);
    let (written, new) = row(truth, 0, Version::Written { client: 0, cycle: 0 });
    let (_, old) = row(truth, 0, Version::Loaded);
    let mut observers = ledger.observers(3, 1, 2);
    observers[0].sent(Ticket(0), TICK_NS, 0, 0, &Op::new(PUT, written.values()));
    observers[0].finished(Ticket(0), TICK_NS + 1_000, Outcome::Ok, &Answer::default());
    // Its tick, the server that answers from then on if that changes, and the answer.
    let answers = [(2, None, &old), (3, Some(2), &old), (3, None, &old), (4, Some(70), &old), (5, Some(0), &new)];
    for ((tick, server, answer), cycle) in answers.into_iter().zip(0..) {
        let sent_ns = tick * TICK_NS + cycle * 500_000;
        observers[0].sent(Ticket(1), sent_ns, 1, cycle, &Op::new(READ, written.values().slice(0..1)));
        if let Some(server) = server {
            observers[0].answered_by(Ticket(1), server);
        }
        observers[0].finished(Ticket(1), sent_ns + 1_000, Outcome::Ok, answer);
    }
    drop(observers);
    ledger.drain();
    let reads = |tick, server, records| StaleReads { at_ns: tick * TICK_NS, server, records };
    assert_eq!(ledger.stale_reads(3, READ), [reads(2, 0, 1), reads(3, 2, 2), reads(4, 63, 1)]);
    assert!(ledger.stale_reads(2, READ).is_empty() && ledger.stale_reads(3, PUT).is_empty());
    assert_eq!(ledger.answers().iter().map(|one| one.stale).sum::<u64>(), 4);
}
