//! Operations of several steps, over sockets and on threads.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_core::{
    Answer, Call, KindId, Measure, Observer, OpKind, Outcome, Sessions, Step, Steps, Stream, Value, ValueBuf,
    ValueType, Values,
};
use plimsoll_drive::{Clock, DriveResult, DriveSpec, Io, Limit, Pace, StopReason};

use crate::allocations::{AllocationWatch, stop_when};
use crate::blocking::instant;
use crate::seen::{Driven, Log, Watcher, drive_on, number};
use crate::toy::{Act, Server};
use crate::wire::{for_ms, over_both};

const MS: Duration = Duration::from_millis(1);
const MS_NS: u64 = 1_000_000;

/// The operation, as it is when all goes well.
const TX: KindId = 0;
/// The operation when it took more than one try.
const TX_AGAIN: KindId = 1;
/// Steps of the operation.
const BEGIN: KindId = 2;
const WORK: KindId = 3;
const COMMIT: KindId = 4;
const ROLLBACK: KindId = 5;

fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, call: Call, step_of| OpKind {
        name: name.to_owned(),
        call,
        params: vec![ValueType::Int],
        keep_answer: true,
        step_of,
    };
    vec![
        kind("tx", Call::Steps, None),
        kind("tx_again", Call::Steps, None),
        kind("begin", Call::Nothing, Some(TX)),
        kind("work", Call::Nothing, Some(TX)),
        kind("commit", Call::Nothing, Some(TX)),
        kind("rollback", Call::Nothing, Some(TX)),
    ]
}

/// Steps of a client's operations, one line after the other.
pub type Script = &'static [Step];

const fn send(kind: KindId) -> Step {
    Step::Send { kind, more: false }
}

const fn pipe(kind: KindId) -> Step {
    Step::Send { kind, more: true }
}

const fn end(outcome: Outcome) -> Step {
    Step::End { kind: TX, outcome }
}

/// Seven steps, one after the other.
pub const SEVEN: Script =
    &[send(BEGIN), send(WORK), send(WORK), send(WORK), send(WORK), send(WORK), send(COMMIT), end(Outcome::Ok)];

/// Answer that a client received: cycle, the step's number within its operation, outcome and the number that came
/// back.
type Told = (u64, usize, Outcome, i64);

#[derive(Default)]
struct Notes {
    begun: Mutex<Vec<(u32, u64)>>,
    told: Mutex<Vec<Told>>,
}

pub struct Transactions {
    script: Script,
    /// Tries again, at most this often.
    tries: u32,
    notes: Option<Arc<Notes>>,
}

impl Transactions {
    pub fn new(script: Script) -> Arc<Self> {
        Arc::new(Self { script, tries: 1, notes: None })
    }

    fn noted(script: Script) -> (Arc<Self>, Arc<Notes>) {
        let notes = Arc::new(Notes::default());
        (Arc::new(Self { script, tries: 1, notes: Some(notes.clone()) }), notes)
    }
}

impl Stream for Transactions {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        params.push(Value::Int(number(1, client, cycle)));
        Some(TX)
    }

    fn steps(&self, client: u32) -> Option<Box<dyn Steps>> {
        Some(Box::new(Client {
            client,
            script: self.script,
            tries_max: self.tries,
            notes: self.notes.clone(),
            cycle: 0,
            number: 0,
            line: 0,
            answers: 0,
            tries: 0,
            refused: false,
            rolling_back: false,
        }))
    }
}

/// Follows its script. When the server refuses a step it rolls back, and begins again as often as it may.
struct Client {
    client: u32,
    script: Script,
    tries_max: u32,
    notes: Option<Arc<Notes>>,
    cycle: u64,
    number: i64,
    line: usize,
    answers: usize,
    tries: u32,
    refused: bool,
    rolling_back: bool,
}

impl Steps for Client {
    fn begin(&mut self, cycle: u64, kind: KindId, params: Values<'_>) {
        assert_eq!(kind, TX);
        let Value::Int(number) = params.get(0) else { panic!("no number") };
        (self.cycle, self.number) = (cycle, number);
        (self.line, self.answers, self.tries) = (0, 0, 1);
        (self.refused, self.rolling_back) = (false, false);
        if let Some(notes) = &self.notes {
            notes.begun.lock().unwrap().push((self.client, cycle));
        }
    }

    fn next(&mut self, params: &mut ValueBuf) -> Step {
        assert!(params.is_empty());
        params.push(Value::Int(self.number * 100 + self.line as i64));
        if self.refused && !self.rolling_back {
            self.rolling_back = true;
            return send(ROLLBACK);
        }
        if self.rolling_back {
            if self.tries == self.tries_max {
                return end(Outcome::Rejected);
            }
            self.tries += 1;
            (self.line, self.refused, self.rolling_back) = (0, false, false);
            params.clear();
            params.push(Value::Int(self.number * 100));
        }
        let step = self.script[self.line];
        self.line += 1;
        match step {
            Step::End { outcome, .. } if self.tries > 1 => Step::End { kind: TX_AGAIN, outcome },
            step => step,
        }
    }

    fn answered(&mut self, outcome: Outcome, answer: &Answer) {
        self.refused |= outcome.is_error() && !self.rolling_back;
        let Some(Value::Int(number)) = answer.row_iter().next().map(|row| row.get(0)) else { panic!("no answer") };
        if let Some(notes) = &self.notes {
            notes.told.lock().unwrap().push((self.cycle, self.answers, outcome, number));
        }
        self.answers += 1;
    }

    fn failure(&self, answer: &mut Answer) {
        if matches!(self.script.last(), Some(Step::End { outcome: Outcome::Unknown, .. })) {
            answer.fail(Outcome::Unknown, "divided", "by zero");
        }
    }
}

/// Blocking sessions whose operations take as long as they are told.
fn blocking(count: usize, script: fn(i64) -> Act) -> Sessions {
    crate::blocking::sessions(count, move |number, answer| {
        let outcome = match script(number) {
            Act::AnswerAfter(delay) => {
                std::thread::sleep(delay);
                Outcome::Ok
            }
            Act::Refuse => answer.fail(Outcome::Rejected, "40001", "would not"),
            _ => Outcome::Ok,
        };
        answer.values.push(Value::Int(number));
        (answer.columns, answer.rows) = (1, 1);
        outcome
    })
}

fn drive(spec: &DriveSpec, sessions: Sessions, stream: Arc<Transactions>) -> (Driven, Arc<Log>) {
    let log = Arc::new(Log::default());
    let observers = (0..spec.worker_count(&sessions)).map(|_| Box::new(Watcher(log.clone())) as Box<dyn Observer>);
    let driven =
        drive_on(&Clock::start(), &kinds(), spec, sessions, stream, observers.collect(), &Arc::default(), &mut |_| {})
            .unwrap();
    assert_eq!(log.sent.lock().unwrap().len(), log.finished.lock().unwrap().len(), "what was sent has ended");
    (driven, log)
}

fn ops(count: u64) -> DriveSpec {
    ops_over(Io::Auto, count)
}

fn ops_over(io: Io, count: u64) -> DriveSpec {
    DriveSpec { limit: Limit::Ops(count), each_max: 1 << 20, ticks: true, io, ..DriveSpec::default() }
}

over_both! {
    the_times_of_seven_steps_add_up_to_their_operations,
    a_pipeline_is_answered_in_order_before_the_next_step,
    a_sleep_is_part_of_the_operation_and_of_no_step,
    many_that_sleep_at_the_same_time_cost_little,
    a_connection_lost_in_the_middle_leaves_the_operation_unknown_and_the_next_begins_anew,
    the_timeout_is_each_answers_own,
    a_step_allocates_nothing,
}

/// Nanoseconds of all steps together, to the 3 digits of a histogram.
fn step_time_ns(driven: &Driven) -> f64 {
    let all = driven.slices.iter().flat_map(|slice| &slice.histograms);
    all.filter(|h| h.kind >= BEGIN).map(|h| h.histogram.mean() * h.histogram.len() as f64).sum()
}

fn op_time_ns(driven: &Driven) -> f64 {
    driven.result.each.iter().map(|op| (op.end_ns - op.sent_ns) as f64).sum()
}

fn the_times_of_seven_steps_add_up_to_their_operations(io: Io) {
    let server = Server::unix(|_, _, _| Act::AnswerAfter(MS));
    for sessions in [server.clients(3), blocking(3, |_| Act::AnswerAfter(MS))] {
        let (driven, log) = drive(&ops_over(io, 20), sessions, Transactions::new(SEVEN));
        let result = &driven.result;
        assert_eq!((result.ops, result.kinds[0]), (60, [60, 0, 0, 0]), "an operation counts once");
        assert_eq!(result.steps, [[0; 4], [0; 4], [60, 0, 0, 0], [300, 0, 0, 0], [60, 0, 0, 0], [0; 4]]);
        assert_eq!(result.stop, StopReason::Limit);
        assert_eq!(log.check_cycles(1).len(), 60, "an observer sees operations");
        assert_eq!(result.each.len(), 60, "and so does whoever wants each one's times");
        assert!(result.each.iter().all(|op| op.kind == TX && op.end_ns - op.sent_ns >= 7 * MS_NS));
        let (steps_ns, ops_ns) = (step_time_ns(&driven), op_time_ns(&driven));
        assert!((steps_ns / ops_ns - 1.0).abs() < 0.001, "steps took {steps_ns} ns, operations {ops_ns} ns");
    }
}

fn a_pipeline_is_answered_in_order_before_the_next_step(io: Io) {
    // The toy's server answers when it is told that nothing follows: a step that says so too early is never answered.
    const TWO_PIPES: Script = &[
        send(BEGIN),
        pipe(WORK),
        pipe(WORK),
        pipe(WORK),
        Step::Gather,
        pipe(WORK),
        pipe(WORK),
        send(WORK),
        pipe(COMMIT),
        end(Outcome::Ok),
    ];
    for depth in [1, 2, 3, 16] {
        let server = Server::unix(|_, _, _| Act::Answer);
        let (stream, notes) = Transactions::noted(TWO_PIPES);
        let (driven, log) = drive(&ops_over(io, 50), server.clients_of_depth(1, depth), stream);
        assert_eq!(driven.result.kinds[0], [50, 0, 0, 0], "depth {depth}");
        assert_eq!(driven.result.steps[3], [300, 0, 0, 0]);
        assert_eq!(log.check_cycles(1).len(), 50);
        let told = notes.told.lock().unwrap();
        // Lines 4 and 9 send nothing.
        const LINES: [i64; 8] = [0, 1, 2, 3, 5, 6, 7, 8];
        let wanted = (0..50).flat_map(|cycle| {
            let number = number(1, 0, cycle);
            LINES.into_iter().enumerate().map(move |(i, line)| (cycle, i, Outcome::Ok, number * 100 + line))
        });
        assert_eq!(*told, wanted.collect::<Vec<_>>(), "depth {depth}");
    }
    let (driven, _) = drive(&ops_over(io, 50), blocking(2, |_| Act::Answer), Transactions::new(TWO_PIPES));
    assert_eq!(driven.result.steps[3], [600, 0, 0, 0]);
}

fn a_sleep_is_part_of_the_operation_and_of_no_step(io: Io) {
    const SLEEPY: Script = &[
        Step::Sleep(0),
        send(BEGIN),
        Step::Sleep(20 * MS_NS),
        pipe(WORK),
        Step::Sleep(10 * MS_NS),
        send(COMMIT),
        Step::Sleep(10 * MS_NS),
        end(Outcome::Ok),
    ];
    let server = Server::unix(|_, _, _| Act::Answer);
    for sessions in [server.clients(2), blocking(2, |_| Act::Answer)] {
        let (driven, _) = drive(&ops_over(io, 5), sessions, Transactions::new(SLEEPY));
        assert_eq!(driven.result.kinds[0], [10, 0, 0, 0]);
        for op in &driven.result.each {
            let took_ns = op.end_ns - op.sent_ns;
            assert!((40 * MS_NS..60_000 * MS_NS).contains(&took_ns), "{took_ns} ns");
        }
        let steps_ns = step_time_ns(&driven);
        assert!(steps_ns < op_time_ns(&driven) - 10.0 * 39e6, "steps took {steps_ns} ns");
    }
}

fn many_that_sleep_at_the_same_time_cost_little(io: Io) {
    const NAP: Script = &[send(BEGIN), Step::Sleep(100 * MS_NS), send(COMMIT), end(Outcome::Ok)];
    let server = Server::unix(|_, _, _| Act::Answer);
    let sessions = |is_wire| match is_wire {
        true => server.clients(100),
        false => instant(blocking(100, |_| Act::Answer)),
    };
    for is_wire in [true, false] {
        let mut all_cpu_ns = Vec::new();
        // A processor that others use is slow, but not each time.
        let costs_little = (0..3).any(|_| {
            let (driven, _) = drive(&ops_over(io, 4), sessions(is_wire), Transactions::new(NAP));
            assert_eq!(driven.result.kinds[0], [400, 0, 0, 0]);
            assert!(driven.length() < MS * 35_000, "400 naps of 100 ms, 100 at a time: {:?}", driven.length());
            all_cpu_ns.push(driven.slices.iter().map(|slice| slice.worker_cpu_ns).sum::<u64>());
            all_cpu_ns.last().is_some_and(|cpu_ns| *cpu_ns < 400 * MS_NS)
        });
        assert!(costs_little, "{all_cpu_ns:?} ns of CPU for 800 steps");
    }
}

#[test]
fn an_operation_that_is_tried_again_counts_under_the_kind_that_its_end_names() {
    // Every third connection's fifth request is refused: a step of the first transaction.
    let server = Server::unix(|connection, request, _| match (connection % 3, request) {
        (0, 4) => Act::Refuse,
        _ => Act::Answer,
    });
    let stream = Arc::new(Transactions { script: SEVEN, tries: 3, notes: None });
    let (driven, _) = drive(&ops(10), server.clients(6), stream);
    let result = &driven.result;
    assert_eq!((result.kinds[0], result.kinds[1]), ([58, 0, 0, 0], [2, 0, 0, 0]));
    assert_eq!(result.steps[3], [300 + 6, 0, 2, 0], "the first tries' three and the refused one");
    assert_eq!(result.steps[5], [2, 0, 0, 0]);
    let errors: Vec<_> = result.errors.iter().map(|e| (e.outcome, e.code.as_str(), e.count)).collect();
    assert_eq!(errors, [(Outcome::Rejected, "40001", 2)], "the steps' errors, also where the operation got over them");
    let again = result.each.iter().filter(|op| op.kind == TX_AGAIN).count();
    assert_eq!(again, 2);
}

#[test]
fn an_error_is_counted_once_whether_a_step_or_the_end_has_it() {
    let (driven, _) = drive(
        &ops(10),
        blocking(1, |number| if number % 100 == 3 { Act::Refuse } else { Act::Answer }),
        Transactions::new(SEVEN),
    );
    assert_eq!(driven.result.kinds[0], [0, 0, 10, 0]);
    let errors = |driven: &Driven| -> Vec<(String, u64)> {
        driven.result.errors.iter().map(|e| (e.code.clone(), e.count)).collect()
    };
    assert_eq!(errors(&driven), [("40001".to_owned(), 10)], "the refused steps explain the operations' end");

    const GIVES_UP: Script = &[send(BEGIN), end(Outcome::Rejected)];
    let gives_up = Transactions::new(GIVES_UP);
    let (driven, _) = drive(&ops(10), blocking(1, |_| Act::Answer), gives_up);
    assert_eq!(errors(&driven), [("steps".to_owned(), 10)], "no step says why");

    const DIVIDES: Script = &[send(BEGIN), end(Outcome::Unknown)];
    let (driven, _) = drive(&ops(10), blocking(1, |_| Act::Answer), Transactions::new(DIVIDES));
    assert_eq!(errors(&driven), [("divided".to_owned(), 10)], "the operation says why itself");
}

fn a_connection_lost_in_the_middle_leaves_the_operation_unknown_and_the_next_begins_anew(io: Io) {
    for act in [Act::Close, Act::CloseHalfWay, Act::Reset] {
        // Each connection does one transaction and loses the second in its fourth step.
        let server = Server::tcp(move |_, request, _| if request == 10 { act } else { Act::Answer });
        let (stream, notes) = Transactions::noted(SEVEN);
        let (driven, log) = drive(&ops_over(io, 6), server.clients(2), stream);
        let result = &driven.result;
        assert_eq!((result.kinds[0], result.lost_connections), ([6, 0, 0, 6], 6), "{act:?}");
        assert_eq!(result.steps[3], [30 + 12, 0, 0, 6], "{act:?}: two went well before, and one is unknown");
        assert_eq!(result.steps[4], [6, 0, 0, 0], "no step is asked for after the loss");
        let errors: Vec<_> = result.errors.iter().map(|e| (e.code.as_str(), e.count)).collect();
        assert_eq!(errors, [("connection", 6)], "the operations', once");
        log.check_cycles(1);
        let mut begun = notes.begun.lock().unwrap().clone();
        begun.sort_unstable();
        assert_eq!(begun, (0..2).flat_map(|client| (0..6).map(move |cycle| (client, cycle))).collect::<Vec<_>>());
    }
}

fn the_timeout_is_each_answers_own(io: Io) {
    // A loaded machine may delay an answer by most of a second.
    let spec = DriveSpec { op_timeout: MS * 1_000, ..ops_over(io, 1) };
    let server = Server::unix(|_, _, _| Act::AnswerAfter(MS * 160));
    let (driven, _) = drive(&spec, server.clients(2), Transactions::new(SEVEN));
    assert_eq!(driven.result.kinds[0], [2, 0, 0, 0], "1,120 ms in seven steps are in time");

    const NAP: Script = &[send(BEGIN), Step::Sleep(1_100 * MS_NS), send(COMMIT), end(Outcome::Ok)];
    let (driven, _) = drive(&spec, server.clients(2), Transactions::new(NAP));
    assert_eq!(driven.result.kinds[0], [2, 0, 0, 0], "a sleep waits for no answer");

    let server = Server::unix(|_, request, _| if request == 2 { Act::Ignore } else { Act::Answer });
    let (driven, _) = drive(&spec, server.clients(2), Transactions::new(SEVEN));
    assert_eq!(driven.result.kinds[0], [0, 0, 0, 2]);
    assert!(driven.result.errors.iter().any(|e| e.code == "timeout" && e.count == 2));
    assert!(driven.result.each.iter().all(|op| (1_000 * MS_NS..60_000 * MS_NS).contains(&(op.end_ns - op.sent_ns))));
}

#[test]
fn an_operation_that_sleeps_on_is_given_up_after_the_end_of_the_phase() {
    const HIBERNATE: Script = &[send(BEGIN), Step::Sleep(3_600_000 * MS_NS), send(COMMIT), end(Outcome::Ok)];
    let server = Server::unix(|_, _, _| Act::Answer);
    for sessions in [server.clients(2), blocking(2, |_| Act::Answer)] {
        let spec = DriveSpec { op_timeout: MS * 200, ..for_ms(Io::Auto, 200) };
        let begin = Instant::now();
        let (driven, _) = drive(&spec, sessions, Transactions::new(HIBERNATE));
        assert_eq!(driven.result.kinds[0], [0, 0, 0, 2]);
        assert!(driven.length() >= MS * 400, "it was waited for: {:?}", driven.length());
        assert!(begin.elapsed() < Duration::from_secs(30), "took {:?}", begin.elapsed());
    }
}

#[test]
fn an_open_loop_charges_operations_from_their_schedule_and_steps_from_their_send() {
    let server = Server::unix(|_, _, _| Act::AnswerAfter(MS));
    let spec = DriveSpec { pace: Pace::even(300.0), ..for_ms(Io::Auto, 600) };
    // Some 140 a second go through: the rest waits.
    let (driven, _) = drive(&spec, server.clients(1), Transactions::new(SEVEN));
    let result = &driven.result;
    assert_eq!(result.ops + result.unfinished, 180);
    let of = |measure, steps: bool| driven.count(measure, |kind, _| (kind >= BEGIN) == steps);
    assert_eq!((of(Measure::Response, false), of(Measure::Response, true)), (result.ops, 0));
    assert_eq!(of(Measure::Service, true), result.ops * 7);
    assert!(driven.max_ns(Measure::Response) > 2 * driven.max_ns(Measure::Service), "operations waited in line");
}

#[test]
fn operations_that_send_nothing_keep_nobody_else_from_going_on() {
    const NOTHING: Script = &[end(Outcome::NotFound)];
    let server = Server::unix(|_, _, _| Act::Answer);
    struct Mixed(Arc<Transactions>, Arc<Transactions>);
    impl Stream for Mixed {
        fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
            self.0.op(client, cycle, params)
        }
        fn steps(&self, client: u32) -> Option<Box<dyn Steps>> {
            if client == 0 { self.0.steps(client) } else { self.1.steps(client) }
        }
    }
    let stream = Mixed(Transactions::new(NOTHING), Transactions::new(SEVEN));
    let stream: Arc<dyn Stream> = Arc::new(stream);
    // However busy the machine is, both come to something: it is over when they have.
    const ENOUGH: [u64; 2] = [200, 1_000];
    let (stop, mut done) = (Arc::new(AtomicBool::new(false)), [0; 2]);
    let driven = drive_on(
        &Clock::start(),
        &kinds(),
        &for_ms(Io::Auto, 60_000),
        server.clients(2),
        stream,
        Vec::new(),
        &stop.clone(),
        &mut |slice| {
            for of in slice.histograms.iter().filter(|of| of.measure == Measure::Service && of.kind == TX) {
                done[of.outcome as usize] += of.histogram.len();
            }
            stop.store(done[0] >= ENOUGH[0] && done[1] >= ENOUGH[1], SeqCst);
        },
    );
    let DriveResult { kinds, stop, .. } = driven.unwrap().result;
    assert_eq!(stop, StopReason::Cancelled, "one kept the other waiting: {kinds:?}");
    assert!(kinds[0][0] >= ENOUGH[0] && kinds[0][1] >= ENOUGH[1], "{kinds:?}");
}

fn a_step_allocates_nothing(io: Io) {
    const BUSY: Script =
        &[send(BEGIN), pipe(WORK), pipe(WORK), Step::Gather, Step::Sleep(1_000), send(COMMIT), end(Outcome::Ok)];
    let server = Server::unix(|_, request, _| if request % 50 == 7 { Act::Refuse } else { Act::Answer });
    let refusing = |number: i64| if number % 5_000 == 0 { Act::Refuse } else { Act::Answer };
    for sessions in [server.clients_of_depth(4, 4), blocking(1, refusing)] {
        let (watch, found) = AllocationWatch::between(200, 2_000);
        let stream = Arc::new(Transactions { script: BUSY, tries: 2, notes: None });
        let stop = Arc::<AtomicBool>::default();
        let driven = drive_on(
            &Clock::start(),
            &kinds(),
            &for_ms(io, 30_000),
            sessions,
            stream,
            vec![watch],
            &stop,
            &mut stop_when(&found, &stop),
        );
        let driven = driven.unwrap();
        assert!(driven.result.ops >= 2_000 && driven.result.steps[5][0] > 0, "{:?}", driven.result.steps);
        assert_eq!(found.load(SeqCst), 0, "allocations in 1,800 operations of four steps");
    }
}
