use std::sync::Mutex;

use plimsoll_core::ValueBuf;

use super::*;

/// Observer that writes down what it is told.
struct Noted(Arc<Mutex<Vec<String>>>);

impl Noted {
    fn note(&self, what: &str, ticket: Ticket, at_ns: u64) {
        self.0.lock().unwrap().push(format!("{what} {} at {at_ns}", ticket.0));
    }
}

impl Observer for Noted {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        self.note(&format!("sent {client} {cycle} {}:", op.kind), ticket, at_ns);
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, _: &Answer) {
        self.note(&format!("finished {}:", outcome.name()), ticket, at_ns);
    }

    fn answered_by(&mut self, ticket: Ticket, server: u32) {
        self.note(&format!("server {server}:"), ticket, 0);
    }

    fn step_sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        self.note(&format!("step {client} {cycle} {}:", op.kind), ticket, at_ns);
    }

    fn step_finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, _: &Answer) {
        self.note(&format!("step {}:", outcome.name()), ticket, at_ns);
    }
}

#[test]
fn operations_are_counted_and_steps_are_not_and_the_other_observer_is_told_of_both() {
    let (ended, heard) = (Arc::<AtomicU64>::default(), Arc::<Mutex<Vec<String>>>::default());
    // Of two workers one has an observer besides.
    let mut all = counting(vec![Box::new(Noted(Arc::clone(&heard)))], 2, &ended);
    assert_eq!(all.len(), 2);
    let (params, answer) = (ValueBuf::new(), Answer::default());
    let (whole, step) = (Op::new(3, params.values()), Op::new(4, params.values()));
    for observer in &mut all {
        observer.sent(Ticket(1), 10, 2, 5, &whole);
        observer.step_sent(Ticket(1), 11, 2, 5, &step);
        observer.step_finished(Ticket(1), 12, Outcome::Ok, &answer);
        observer.answered_by(Ticket(1), 7);
        observer.finished(Ticket(1), 13, Outcome::NotFound, &answer);
    }
    assert_eq!(ended.load(Ordering::Relaxed), 2);
    let wanted = [
        "sent 2 5 3: 1 at 10",
        "step 2 5 4: 1 at 11",
        "step ok: 1 at 12",
        "server 7: 1 at 0",
        "finished not_found: 1 at 13",
    ];
    assert_eq!(*heard.lock().unwrap(), wanted);
}
