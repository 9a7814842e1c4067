//! Number of operations that a drive has ended, for faults that begin at a number of operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket};

/// Observer of a worker that counts, and tells another one of everything.
struct EndedOps {
    ended: Arc<AtomicU64>,
    inner: Option<Box<dyn Observer>>,
}

impl Observer for EndedOps {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        if let Some(inner) = &mut self.inner {
            inner.sent(ticket, at_ns, client, cycle, op);
        }
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if let Some(inner) = &mut self.inner {
            inner.finished(ticket, at_ns, outcome, answer);
        }
    }

    fn step_sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        if let Some(inner) = &mut self.inner {
            inner.step_sent(ticket, at_ns, client, cycle, op);
        }
    }

    fn step_finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        if let Some(inner) = &mut self.inner {
            inner.step_finished(ticket, at_ns, outcome, answer);
        }
    }
}

/// Returns observers, one for each of `workers`, that count in `ended` and tell `observers`, if there are any.
pub(crate) fn counting(
    observers: Vec<Box<dyn Observer>>,
    workers: usize,
    ended: &Arc<AtomicU64>,
) -> Vec<Box<dyn Observer>> {
    let mut inner = observers.into_iter();
    let all = (0..workers).map(|_| EndedOps { ended: Arc::clone(ended), inner: inner.next() });
    all.map(|observer| Box::new(observer) as Box<dyn Observer>).collect()
}

#[cfg(test)]
mod tests {
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
            observer.finished(Ticket(1), 13, Outcome::NotFound, &answer);
        }
        assert_eq!(ended.load(Ordering::Relaxed), 2);
        let wanted = ["sent 2 5 3: 1 at 10", "step 2 5 4: 1 at 11", "step ok: 1 at 12", "finished not_found: 1 at 13"];
        assert_eq!(*heard.lock().unwrap(), wanted);
    }
}
