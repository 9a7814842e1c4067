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
    let mut all = counting(vec![Box::new(Noted(Arc::clone(&heard)))], 2, &ended, &Arc::default());
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

/// Returns the silence that a condition reads, in seconds.
fn silence_s(answers: &NewestAnswers, condition: &str, since_ns: u64, now_ns: u64) -> Option<f64> {
    let fault = PlannedFault::parse(&format!("kill primary when {condition}")).unwrap();
    assert_eq!(are_awaited(&fault), condition.starts_with("clients."));
    answers.silence(&fault.when.unwrap(), since_ns, now_ns).map(|seen| {
        assert_eq!(seen.unit, "s");
        seen.value
    })
}

#[test]
fn the_silence_of_clients_begins_with_their_newest_answer_and_not_with_an_error() {
    const S: u64 = 1_000_000_000;
    let answers = Arc::new(NewestAnswers::of(2));
    let mut all = counting(Vec::new(), 3, &Arc::default(), &answers);
    let answer = Answer::default();
    // Workers 0 and 2 are on client host 1.
    let ends = [(0, 4, Outcome::Ok), (1, 5, Outcome::NotFound), (2, 3, Outcome::Ok), (1, 9, Outcome::Unknown)];
    for (worker, at_s, outcome) in ends {
        all[worker].finished(Ticket(0), at_s * S, outcome, &answer);
    }
    all[2].finished(Ticket(0), 9 * S, Outcome::Rejected, &answer);
    let silence_s = |condition: &str, since_s: u64| silence_s(&answers, condition, since_s * S, 10 * S);
    for (condition, wanted_s) in [
        ("clients.silence > 2s", Some(5.0)),
        ("clients.host 1.silence > 2s", Some(6.0)),
        ("clients.host 2.silence > 2s", Some(5.0)),
        ("clients.host 3.silence > 2s", None),
        ("store.silence > 2s", None),
    ] {
        assert_eq!(silence_s(condition, 0), wanted_s, "{condition}");
    }
    // Silence during the warm-up does not count.
    assert_eq!(silence_s("clients.silence > 2s", 8), Some(2.0));
    assert_eq!(silence_s("clients.silence > 2s", 11), None);
}
