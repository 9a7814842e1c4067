#[path = "director_members_tests.rs"]
mod members;
#[path = "director_outside_tests.rs"]
mod outside;
#[path = "director_servers_tests.rs"]
mod servers;

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_core::Link;
use plimsoll_plan::timeline::chained;
use plimsoll_record::data::FaultKind;
use plimsoll_testkit::simulated::SimulatedTimer;

use super::*;
use crate::ended_ops::NewestAnswers;
use crate::readings::SeenReading;
use servers::{Noted, WORK_TIME};

/// Length of the warm-up of each phase.
const WARMUP: Duration = Duration::from_millis(100);

/// Time of the last answer to a client of each phase.
const ANSWERED: Duration = Duration::from_millis(400);

/// A director's work: its results, the calls by milliseconds since its start, and the newest record of each fault.
struct Directing {
    directed: Directed,
    calls: Vec<(u64, String)>,
    spans: Vec<FaultSpan>,
    /// Texts of events.
    events: Vec<String>,
    /// True if the phase was to end at once.
    is_ended: bool,
}

impl Directing {
    /// Carries out `faults` on `servers` in a phase that is planned for a time, and ends after another.
    fn of(servers: Noted, faults: &[&str], length_ms: Option<u64>, ends_ms: u64) -> Self {
        Self::opening(servers, faults, length_ms, ends_ms, 0)
    }

    /// Carries out faults, as [`Directing::of`], of a phase whose sessions take a time to open.
    fn opening(servers: Noted, faults: &[&str], length_ms: Option<u64>, ends_ms: u64, opens_ms: u64) -> Self {
        Self::until(servers, faults, length_ms, opens_ms, |_, now_ms| now_ms >= ends_ms)
    }

    /// Carries out faults of a phase that ends once so many of them are healed, however long they take.
    fn until_healed(servers: Noted, faults: &[&str], length_ms: Option<u64>, count: usize) -> Self {
        Self::until(servers, faults, length_ms, 0, |told, now_ms| {
            let healed = told.iter().filter(|span| span.healed_ns.is_some()).map(|span| span.ordinal);
            healed.collect::<BTreeSet<u32>>().len() >= count || now_ms >= HANG_MS
        })
    }

    /// Carries out faults of a phase that ends once `is_over` for the records of faults and the time in ms.
    fn until(
        servers: Noted,
        faults: &[&str],
        length_ms: Option<u64>,
        opens_ms: u64,
        is_over: impl Fn(&[FaultSpan], u64) -> bool,
    ) -> Self {
        let (servers, told, events) = (Arc::new(servers), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let (timer, ended_ops) = (Arc::clone(&servers.timer), Arc::<AtomicU64>::default());
        let (processes, started) = (ServerProcesses::default(), Arc::<OnceLock<u64>>::default());
        let (clock, is_unrecorded) = (timer.clock(), servers.is_unrecorded);
        let (recorder, recorded_in) = (Arc::clone(&timer), servers.recorded_in);
        let phase_stop = Arc::<AtomicBool>::default();
        // A level that is the time since the beginning, in ms.
        let level = move || SeenReading { value: (clock.now_ns() / 1_000_000) as f64, unit: String::new() };
        // All answers come before a time, and a silence follows.
        let answers = NewestAnswers::of(0);
        answers.answered(0, clock.now_ns() + ANSWERED.as_nanos() as u64);
        let director = Director {
            clock,
            timer: Arc::clone(&timer) as Arc<dyn Timer>,
            tell: Box::new(|event| {
                match event {
                    Told::Fault(_) if is_unrecorded => {
                        return Err(TrialError::new(StoreErrorKind::Recording, "the disk is full"));
                    }
                    Told::Fault(span) => {
                        if !recorded_in.is_zero() {
                            recorder.sleep(recorded_in);
                        }
                        told.lock().unwrap().push(span);
                    }
                    Told::Event(event) => events.lock().unwrap().push(event.text),
                    _ => {}
                }
                Ok(())
            }),
            recorder: None,
            place: (0, 2),
            ended_ops: Arc::clone(&ended_ops),
            warmup_ns: WARMUP.as_nanos() as u64,
            started: Arc::clone(&started),
            newest: Box::new(move |condition, since_ns| {
                let silence = answers.silence(condition, since_ns, clock.now_ns());
                silence.or_else(|| (clock.now_ns() >= since_ns).then(level))
            }),
            servers: servers.attached.is_none().then(|| Arc::clone(&servers) as Arc<dyn Servers>),
            in_use: servers.attached.clone().unwrap_or_default(),
            disk: None,
            processes: &processes,
            server_pin: &[],
            disturbances: Disturbances::default(),
            stop: Arc::clone(&servers.user_stop),
            phase_stop: Arc::clone(&phase_stop),
            directed: Mutex::default(),
        };
        let faults = chained(faults.iter().map(|text| PlannedFault::parse(text).unwrap()).collect());
        let (faults, (open, ended)) = (&faults[..], channel());
        let directed = std::thread::scope(|scope| {
            let length_ns = length_ms.map(|ms| ms * 1_000_000);
            let [of_phase, of_director] = [(); 2].map(|()| Entered::of(&*timer));
            let running = scope.spawn(move || {
                let _entered = of_director;
                director.run(faults, length_ns, 1, &ended)
            });
            loop {
                let now_ms = timer.now_ns() / 1_000_000;
                if now_ms >= opens_ms {
                    started.get_or_init(|| opens_ms * 1_000_000);
                }
                // An operation ends in each millisecond.
                ended_ops.store(now_ms, Ordering::Relaxed);
                if is_over(&told.lock().unwrap(), now_ms) {
                    break;
                }
                timer.sleep(Duration::from_millis(1));
            }
            drop((open, of_phase));
            running.join().unwrap()
        });
        let calls = servers.calls.lock().unwrap();
        let calls = calls.iter().map(|(what, at_ns)| (at_ns / 1_000_000, what.clone())).collect();
        let mut spans: Vec<FaultSpan> = Vec::new();
        for span in told.into_inner().unwrap() {
            spans.retain(|one| one.ordinal != span.ordinal);
            spans.push(span);
        }
        spans.sort_by_key(|span| span.ordinal);
        let (events, is_ended) = (events.into_inner().unwrap(), phase_stop.load(Ordering::SeqCst));
        Self { directed, calls, spans, events, is_ended }
    }

    fn names(&self) -> Vec<&str> {
        self.calls.iter().map(|(_, what)| what.as_str()).collect()
    }
}

/// Time in ms that only a hang takes.
const HANG_MS: u64 = 60_000;

/// True for a time in ms that is not early, and late by less than a few looks.
fn is_near(at_ms: u64, wanted_ms: u64) -> bool {
    (wanted_ms..wanted_ms + 50).contains(&at_ms)
}

#[test]
fn each_fault_begins_at_its_time_and_is_healed_after_its_own() {
    let faults = ["pause node 3 at 1200ms for 800ms", "kill primary at 10%", "cut all at 800ms for 2s"];
    let done = Directing::of(Noted::default(), &faults, Some(4_000), 4_000);
    assert_eq!(done.names(), ["kill 2", "cut all", "pause 3", "resume 3", "link all", "start 2", "start all"]);
    let wanted = [400, 800, 1_200, 2_000, 2_800, 4_000];
    let at = done.calls.iter().map(|(at_ms, _)| *at_ms);
    assert!(at.zip(wanted).all(|(at, wanted)| is_near(at, wanted)), "{:?}", done.calls);
    let seen = done.spans.iter().map(|span| (span.kind, span.subject.as_str(), span.fault.as_str()));
    let wanted = [
        (FaultKind::Kill, "node 2, the primary", "kill primary at 10%"),
        (FaultKind::Cut, "all nodes", "cut all at 800ms for 2s"),
        (FaultKind::Pause, "node 3", "pause node 3 at 1200ms for 800ms"),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), wanted);
    let details = done.spans.iter().map(|span| (span.detail.name.as_str(), span.detail.link));
    let wanted = [("kill primary", None), ("cut all", Some(Link::CUT)), ("pause node 3", None)];
    assert_eq!(details.collect::<Vec<_>>(), wanted);
    let nodes: Vec<_> = done.spans.iter().map(|span| span.detail.nodes).collect();
    assert_eq!(nodes, [Some(Nodes::One(1)), Some(Nodes::All), Some(Nodes::One(2))]);
    for FaultSpan { planned_ns, begun_ns, taken_ns, healing_ns, healed_ns, .. } in &done.spans {
        let all = [Some(*planned_ns), Some(*begun_ns), *taken_ns, *healing_ns, *healed_ns];
        assert!(all.iter().all(Option::is_some) && all.is_sorted(), "{all:?}");
    }
    assert_eq!((done.directed.begun, done.directed.missed.len()), (3, 0));
}

#[test]
fn a_minority_is_without_the_primary_and_a_majority_is_the_rest() {
    let faults =
        ["cut majority at 100ms for 100ms", "pause minority at 1s for 100ms", "kill nodes 1,3 at 2s for 100ms"];
    let done = Directing::of(Noted::default(), &faults, Some(3_000), 3_000);
    let wanted = ["cut 2,3", "link 2,3", "pause 1", "resume 1", "kill 1,3", "start 1,3", "start all"];
    assert_eq!(done.names(), wanted);
    let subjects: Vec<&str> = done.spans.iter().map(|span| span.subject.as_str()).collect();
    assert_eq!(subjects, ["nodes 2 and 3, the majority", "node 1, a minority", "nodes 1 and 3"]);
    assert!(done.spans.iter().all(|span| span.healed_ns.is_some() && span.error.is_none()), "{:?}", done.spans);
    let differ = Noted { differ: true, ..Noted::default() };
    let done = Directing::of(differ, &["cut nodes 2,3 at 100ms for 100ms"], Some(1_000), 1_000);
    assert_eq!(done.names(), ["cut 2,3", "link 1ms 2", "link 2ms 3", "start all"]);
}

#[test]
fn a_node_of_a_list_that_is_not_there_is_an_error_and_all_nodes_of_a_list_are_all() {
    let faults = ["pause nodes 2,4 at 50ms for 50ms", "kill nodes 1,2,3 at 500ms for 50ms"];
    let done = Directing::of(Noted::default(), &faults, Some(1_500), 1_500);
    assert_eq!(done.names(), ["kill all", "start all", "start all"]);
    assert_eq!(done.directed.failed.unwrap().what, "pause nodes 2,4 at 50ms for 50ms: there is no node 4");
    assert_eq!((done.spans[0].subject.as_str(), done.spans[1].subject.as_str()), ("2,4", "all nodes"));
}

#[test]
fn faults_wait_until_the_sessions_are_open() {
    let faults = ["pause node 3 at 100ms for 200ms"];
    let done = Directing::opening(Noted::default(), &faults, Some(1_000), 1_500, 400);
    assert!(is_near(done.calls[0].0, 500), "{:?}", done.calls);
    let never = Directing::opening(Noted::default(), &faults, Some(1_000), 300, 2_000);
    assert_eq!((never.directed.begun, never.directed.missed.len()), (0, 1));
}

/// Returns the faults of a phase of 3 s whose times the plan's seed draws.
fn drawn(faults: &[&str]) -> Vec<String> {
    let text = format!(
        "stores = [\"null\"]\n[workload]\nname = \"nothing\"\n[[phase]]\nname = \"faults\"\ndo = \"drive\"\n\
         for = \"3s\"\nfault_pause = \"300ms\"\nfault = {faults:?}\n"
    );
    let catalogue = plimsoll_core::Catalogue {
        labs: Vec::new(),
        stores: vec![plimsoll_store_null::kind()],
        workloads: plimsoll_workload::all(),
        samplers: Vec::new(),
    };
    let plan = plimsoll_plan::parse("drawn", &text, &catalogue, &plimsoll_plan::Overrides::default()).unwrap();
    plan.trials[0].drives().next().unwrap().1.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn drawn_faults_take_effect_one_after_the_other_at_their_times() {
    let drawn = drawn(&["kill node 1 drawn for 100ms", "pause node 2 drawn weight 2 for 150ms", "reset node 3 drawn"]);
    // The first of each kind.
    let mut verbs = BTreeSet::new();
    let texts: Vec<&str> = drawn.iter().map(String::as_str).filter(|text| verbs.insert(&text[..4])).collect();
    assert_eq!(verbs.into_iter().collect::<Vec<_>>(), ["kill", "paus", "rese"], "{drawn:?}");
    let done = Directing::until_healed(Noted::default(), &texts, Some(3_000), 3);
    assert!(done.directed.failed.is_none() && done.directed.missed.is_empty(), "{:?}", done.directed.missed);
    let spans = &done.spans;
    assert_eq!(spans.iter().map(|span| span.fault.as_str()).collect::<Vec<_>>(), texts);
    let at_ns: Vec<u64> = texts.iter().map(|text| PlannedFault::parse(text).unwrap().at.ns).collect();
    for (span, at_ns_of_span) in spans.iter().zip(&at_ns) {
        assert_eq!(span.planned_ns - spans[0].planned_ns, at_ns_of_span - at_ns[0], "{spans:?}");
        let all = [Some(span.planned_ns), Some(span.begun_ns), span.taken_ns, span.healed_ns];
        assert!(all.iter().all(Option::is_some) && all.is_sorted(), "{span:?}");
    }
    let place = |call: &str| done.names().iter().position(|name| *name == call).unwrap();
    assert!(place("kill 1") < place("start 1") && place("pause 2") < place("resume 2"), "{:?}", done.calls);
    assert_eq!((done.calls.len(), place("start all")), (6, 5), "{:?}", done.calls);
    for (text, at_ns) in texts.iter().zip(at_ns) {
        let call = done.calls.iter().find(|(_, call)| call[..4] == text[..4]).unwrap();
        assert!(is_near(call.0, at_ns / 1_000_000), "{text}: {:?}", done.calls);
    }
}

#[test]
fn a_phase_that_ends_early_heals_all_faults_and_names_those_that_did_not_begin() {
    let faults = ["stop node 1 at 100ms for 10s", "limit node 2 cpus=0.1 at 150ms", "pause node 2 at 5s"];
    let done = Directing::of(Noted::default(), &faults, Some(20_000), 1_200);
    let limit = |cpus: &str| format!("limit Cpus(Some({cpus})) 2");
    let mut names: Vec<&str> = done.names();
    names.sort_unstable();
    assert_eq!(names, [&*limit("0.1"), &*limit("2.0"), "start 1", "start all", "stop 1"]);
    assert!(done.spans.iter().all(|span| span.healed_ns.is_some()), "{:?}", done.spans);
    assert_eq!(done.directed.missed, ["pause node 2 at 5.00 s was not done: the phase had ended"]);
}

#[test]
fn a_fault_that_does_not_take_is_an_error_with_its_words_and_delays_no_other() {
    let stubborn = Noted { is_stubborn: true, ..Noted::default() };
    let done = Directing::of(stubborn, &["pause node 1 at 50ms", "kill node 2 at 100ms for 100ms"], None, 1_500);
    // Of several nodes some may have been paused.
    assert_eq!(done.names(), ["resume 1", "kill 2", "start 2", "start all"]);
    let error = done.directed.failed.unwrap();
    assert_eq!(error.what, "pause node 1 at 50ms: it keeps running");
    assert_eq!((done.spans[0].taken_ns, done.spans[0].error.as_deref()), (None, Some("it keeps running")));
    assert!(done.spans[1].error.is_none() && done.spans[1].healed_ns.is_some());
}

#[test]
fn a_fault_waits_until_another_is_healed_and_later_ones_keep_their_distance() {
    let slow = Noted { starts_in: Duration::from_millis(500), ..Noted::default() };
    let faults = ["kill node 1 at 0s for 100ms", "kill node 2 at 200ms for 100ms", "pause node 3 at 300ms for 50ms"];
    let done = Directing::until_healed(slow, &faults, Some(2_000), 3);
    let wanted = ["kill 1", "start 1", "kill 2", "pause 3", "resume 3", "start 2", "start all"];
    let begun = |name: &str| done.calls.iter().find(|(_, what)| what == name).unwrap().0;
    assert!(is_near(begun("kill 2"), 600) && begun("pause 3") >= 700 - 5, "{:?}", done.calls);
    // The healing of the second begins at the time of the third.
    let mut names = done.names();
    names.sort_unstable();
    let mut sorted = wanted;
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    assert!(done.directed.missed.is_empty() && done.directed.failed.is_none());
    assert!(done.spans.iter().all(|span| span.healed_ns.is_some()), "{:?}", done.spans);
}

#[test]
fn faults_that_leave_servers_alone_begin_while_one_starts_and_a_kill_waits() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = Some(listener.local_addr().unwrap().port());
    let slow = Noted { starts_in: Duration::from_secs(1), port, ..Noted::default() };
    let at_once = [
        "link node 1 delay=5ms at 200ms for 100ms",
        "limit all cpus=0.1 at 250ms for 100ms",
        "storm all connections=2 at 300ms for 100ms",
        "work backup node 2 at 350ms",
        "clock node 3 by=5s at 400ms for 100ms",
        "run \"true\" at 450ms",
    ];
    let (first, last) = ("kill node 1 at 0s for 100ms", "kill node 2 at 500ms for 100ms");
    let done = Directing::of(slow, &[&[first][..], &at_once, &[last]].concat(), Some(4_000), 4_000);
    assert!(done.directed.failed.is_none() && done.directed.missed.is_empty(), "{:?}", done.directed.failed);
    let late_ms = |fault: &str| {
        let span = done.spans.iter().find(|span| span.fault == fault).unwrap();
        (span.begun_ns - span.planned_ns) / 1_000_000
    };
    assert!(at_once.iter().all(|fault| is_near(late_ms(fault), 0)), "{:?}", done.spans);
    assert!(is_near(late_ms(last), 600), "{:?}", done.calls);
}

#[test]
fn faults_of_a_node_that_is_away_and_of_a_role_that_changes_wait() {
    let begun = |done: &Directing, name: &str| done.calls.iter().find(|(_, what)| what == name).unwrap().0;
    let slow = Noted { replaced_in: Duration::from_secs(1), ..Noted::default() };
    let faults =
        ["replace node 2 at 0s", "link node 3 delay=5ms at 100ms for 50ms", "link node 2 delay=5ms at 200ms for 50ms"];
    let done = Directing::of(slow, &faults, Some(3_000), 3_000);
    assert!(is_near(begun(&done, "link 5ms 3"), 100), "{:?}", done.calls);
    assert!(is_near(begun(&done, "link 5ms 2"), 1_000) && done.directed.failed.is_none(), "{:?}", done.calls);
    // Of each of three nodes two starts take their time: its own, and the wait until all are one cluster.
    let slow = Noted { starts_in: Duration::from_millis(200), ..Noted::default() };
    let faults = [
        "restart all rolling at 0s",
        "link node 3 delay=5ms at 100ms for 50ms",
        "link primary delay=5ms at 200ms for 50ms",
    ];
    let done = Directing::of(slow, &faults, Some(3_000), 3_000);
    assert!(is_near(begun(&done, "link 5ms 3"), 100), "{:?}", done.calls);
    assert!(is_near(begun(&done, "link 5ms 2"), 1_200) && done.directed.failed.is_none(), "{:?}", done.calls);
}

#[test]
fn links_and_limits_that_differ_are_healed_to_those_of_each_node() {
    let differ = Noted { differ: true, ..Noted::default() };
    let faults = ["cut all at 50ms for 50ms", "limit all cpus=0.1 at 1s for 50ms", "cut node 3 at 2s for 50ms"];
    let done = Directing::until_healed(differ, &faults, Some(3_000), 3);
    let limit = |cpus: &str, nodes: &str| format!("limit Cpus(Some({cpus})) {nodes}");
    let limits = [limit("0.1", "all"), limit("2.0", "1"), limit("3.0", "2"), limit("4.0", "3")];
    let links = ["cut all", "link 1", "link 1ms 2", "link 2ms 3"];
    let wanted = links.into_iter().chain(limits.iter().map(String::as_str)).chain(["cut 3", "link 2ms 3", "start all"]);
    assert_eq!(done.names(), wanted.collect::<Vec<_>>());
    assert!(done.directed.failed.is_none());
}

#[test]
fn of_two_restarts_at_one_moment_one_waits_for_the_other() {
    let slow = Noted { starts_in: Duration::from_millis(200), ..Noted::default() };
    let faults = ["restart node 1 at 100ms", "restart node 3 at 100ms"];
    let done = Directing::until_healed(slow, &faults, Some(2_000), 2);
    let turn = |number: u32| [format!("stop {number}"), format!("start {number}")];
    let [first, second] = if done.names()[0] == "stop 1" { [1, 3] } else { [3, 1] };
    let wanted = [turn(first), turn(second)].concat();
    assert_eq!(done.names().into_iter().take(4).collect::<Vec<_>>(), wanted, "{:?}", done.calls);
    assert!(done.directed.failed.is_none() && done.directed.missed.is_empty());
}

#[test]
fn a_fault_that_is_near_after_a_promotion_means_the_new_primary() {
    // Its nodes are looked up half a second before it: the first time before the promotion.
    let faults = ["promote node 3 at 600ms", "kill primary at 1050ms for 50ms"];
    let done = Directing::until_healed(Noted::default(), &faults, Some(2_000), 2);
    assert_eq!(done.names(), ["promote 3", "kill 3", "start 3", "start all"]);
    assert_eq!(done.spans[1].subject, "node 3, the primary");
}

#[test]
fn a_former_primary_that_was_cut_off_or_paused_starts_at_the_healing() {
    for (fault, healing) in [("cut", ["cut 2", "promote 1", "link 2"]), ("pause", ["pause 2", "promote 1", "resume 2"])]
    {
        let primary = format!("{fault} primary at 100ms for 500ms");
        let done = Directing::until_healed(Noted::default(), &[&primary, "promote replica at 300ms"], Some(2_000), 2);
        assert_eq!(done.names(), [&healing[..], &["start 2", "start all"]].concat());
        assert!(done.directed.failed.is_none(), "{:?}", done.directed.failed);
    }
    // A fault of its server starts it at a time of its own.
    let faults = ["cut node 2 at 100ms for 500ms", "kill node 2 at 200ms for 1s", "promote node 3 at 300ms"];
    let done = Directing::until_healed(Noted::default(), &faults, Some(2_000), 3);
    assert_eq!(done.names(), ["cut 2", "kill 2", "promote 3", "link 2", "start 2", "start all"]);
}

#[test]
fn a_repeated_fault_begins_in_the_first_quarter_of_each_interval() {
    let done = Directing::until_healed(Noted::default(), &["restart node 1 at 0s every 1s"], Some(5_000), 5);
    let begun = done.calls.iter().filter(|(_, what)| what.starts_with("stop")).count();
    assert_eq!((begun, done.spans.len()), (5, 5), "{:?}", done.calls);
    // All intervals begin as long after the start of the clock as the phase.
    let mut planned_ns: Vec<u64> = done.spans.iter().map(|span| span.planned_ns).collect();
    planned_ns.sort_unstable();
    let in_interval_ns = planned_ns.iter().zip(0..).map(|(at_ns, turn): (&u64, u64)| at_ns - 1_000_000_000 * turn);
    let (least_ns, most_ns) = (in_interval_ns.clone().min().unwrap(), in_interval_ns.max().unwrap());
    assert!(most_ns - least_ns <= 250_000_000, "{planned_ns:?}");
    assert!(done.spans.iter().all(|span| span.begun_ns >= span.planned_ns), "{:?}", done.spans);
    assert!(done.spans.iter().all(|span| span.healing_ns.is_none() && span.healed_ns == span.taken_ns));
}

/// Fault of the primary that is repeated in the first second of each 4 s.
const REPEATED: &str = "kill primary at 1s for 500ms every 4s";

/// Carries out a fault in a phase of 12 s, in a part of which no node is the primary.
fn without_primary(fault: &str, without_primary_ms: std::ops::Range<u64>) -> Directing {
    Directing::of(Noted { without_primary_ms, ..Noted::default() }, &[fault], Some(12_000), 12_000)
}

#[test]
fn a_repeat_waits_until_a_node_has_its_role() {
    let done = without_primary(REPEATED, 4_000..6_500);
    let wanted = ["kill 2", "start 2", "kill 2", "start 2", "kill 2", "start 2", "start all"];
    assert_eq!(done.names(), wanted, "{:?}", done.calls);
    let [begun, healed] = [2, 3].map(|at| done.calls[at].0);
    assert!((6_500..6_700).contains(&begun) && is_near(healed, begun + 500), "{:?}", done.calls);
    assert!(done.spans.iter().all(|span| span.error.is_none()), "{:?}", done.spans);
    assert!(done.directed.failed.is_none() && done.directed.missed.is_empty());
}

#[test]
fn a_repeat_without_a_node_of_its_role_is_skipped_before_the_next_one_is_due() {
    let done = without_primary(REPEATED, 4_000..10_500);
    assert_eq!(done.names(), ["kill 2", "start 2", "kill 2", "start 2", "start all"], "{:?}", done.calls);
    assert!((10_500..10_700).contains(&done.calls[2].0), "{:?}", done.calls);
    let [first, skipped, last] = &done.spans[..] else { panic!("{:?}", done.spans) };
    assert!(first.error.is_none() && last.error.is_none() && skipped.detail.is_skipped, "{:?}", done.spans);
    assert_eq!((skipped.error.as_deref(), skipped.taken_ns), (Some("no node was primary"), None));
    assert_eq!((skipped.subject.as_str(), skipped.healed_ns), ("primary", Some(skipped.begun_ns)));
    // The fault would have been healed half a second before the next look.
    assert!(skipped.begun_ns + 1_000_000_000 <= last.planned_ns + 10_000_000, "{:?}", done.spans);
    assert!(done.directed.failed.is_none() && done.directed.missed.is_empty(), "{:?}", done.directed.failed);
}

#[test]
fn a_fault_fails_if_no_node_has_its_role_at_any_of_its_times() {
    let done = without_primary(REPEATED, 0..HANG_MS);
    assert_eq!(done.directed.failed.unwrap().what, format!("{REPEATED}: no node leads just now"));
    assert!(done.calls.is_empty() && done.directed.missed.is_empty(), "{:?}", done.calls);
    assert_eq!((done.spans.len(), done.spans.iter().all(|span| span.detail.is_skipped)), (3, true), "{:?}", done.spans);
    let elected = without_primary("kill primary at 1s for 1s", 0..3_000);
    assert!((3_000..3_200).contains(&elected.calls[0].0) && elected.directed.failed.is_none(), "{:?}", elected.calls);
    let single = without_primary("kill primary at 1s", 0..6_500);
    assert_eq!(single.names(), ["start all"]);
    assert_eq!(single.directed.failed.unwrap().what, "kill primary at 1s: no node leads just now");
    assert_eq!(single.spans[0].error.as_deref(), Some("no node leads just now"));
}

#[test]
fn a_repeat_waits_while_an_earlier_one_still_holds_its_node() {
    for fault in ["kill node 1 at 100ms for 50ms every 400ms", "restart node 1 at 100ms every 400ms"] {
        let [starts_in, recorded_in] = [600, 50].map(Duration::from_millis);
        let slow = Noted { starts_in, recorded_in, ..Noted::default() };
        let done = Directing::of(slow, &[fault], Some(4_000), 4_000);
        assert!(done.directed.failed.is_none(), "{:?}", done.directed.failed);
        let begins = if fault.starts_with("kill") { "kill 1" } else { "stop 1" };
        let (turns, end) = done.calls.split_at(done.calls.len() - 1);
        let is_turn = |turn: &[(u64, String)]| turn[0].1 == begins && turn[1].1 == "start 1";
        assert!(turns.len() >= 6 && turns.chunks(2).all(is_turn) && end[0].1 == "start all", "{:?}", done.calls);
        assert!(done.spans.iter().all(|span| span.error.is_none()), "{:?}", done.spans);
    }
}

#[test]
fn after_the_users_stop_private_servers_are_not_made_whole_and_those_of_a_lab_are() {
    for (is_lab, wanted) in [(false, &["kill 1", "start 1"][..]), (true, &["kill 1", "start 1", "start all"][..])] {
        let user_stop = Arc::new(AtomicBool::new(true));
        let stopped = Noted { user_stop, is_lab, ..Noted::default() };
        let done = Directing::of(stopped, &["kill node 1 at 100ms for 5s"], Some(10_000), 500);
        assert_eq!(done.names(), wanted, "{:?}", done.calls);
    }
}

#[test]
fn repeated_faults_of_one_interval_keep_their_distance() {
    let faults = ["kill node 2 at 100ms for 400ms every 2s", "promote replica at 300ms every 2s"];
    let done = Directing::of(Noted::default(), &faults, Some(10_000), 10_500);
    let begun_ms = |kind: FaultKind| {
        let spans = done.spans.iter().filter(|span| span.kind == kind);
        spans.map(|span| span.begun_ns / 1_000_000).collect::<Vec<u64>>()
    };
    let (killed, promoted) = (begun_ms(FaultKind::Kill), begun_ms(FaultKind::Promote));
    assert_eq!((killed.len(), promoted.len()), (5, 5), "{:?}", done.spans);
    assert!(
        killed.iter().zip(&promoted).all(|(killed, promoted)| is_near(*promoted, killed + 199)),
        "{:?}",
        done.calls
    );
    assert!(done.directed.failed.is_none());
}

#[test]
fn a_hang_is_healed_and_a_reset_ends_by_itself_and_disturbs_no_other_fault() {
    let faults = ["hang primary at 200ms for 1600ms", "reset all at 600ms every 800ms", "kill node 2 at 1s for 200ms"];
    let done = Directing::of(Noted::default(), &faults, Some(2_000), 2_000);
    // A role may turn out to be a node that hangs.
    assert_eq!(done.names(), ["hang 2", "reset all", "reset all", "resume 2", "start all"], "{:?}", done.calls);
    let error = done.directed.failed.as_ref().unwrap();
    assert!(error.what.contains("node 2 has another fault of its server"), "{error:?}");
    let of_kind = |kind: FaultKind| done.spans.iter().filter(move |span| span.kind == kind);
    let hang = of_kind(FaultKind::Hang).next().unwrap();
    assert!(hang.subject == "node 2, the primary" && hang.healing_ns.is_some() && hang.healed_ns.is_some());
    assert!(of_kind(FaultKind::Reset).all(|span| span.healing_ns.is_none() && span.healed_ns == span.taken_ns));
    assert_eq!(of_kind(FaultKind::Reset).count(), 2);
}

#[test]
fn a_clock_is_healed_to_what_it_was_and_has_one_error_at_a_time() {
    let faults = ["clock primary by=5s at 150ms for 1500ms", "kill node 2 at 300ms for 200ms", "clock all by=1s at 1s"];
    let done = Directing::of(Noted::default(), &faults, Some(2_500), 2_500);
    assert_eq!(done.names(), ["clock by=5s 2", "kill 2", "start 2", "clock 2", "start all"], "{:?}", done.calls);
    let error = done.directed.failed.as_ref().unwrap();
    assert!(error.what.contains("node 2 has another fault of its clock"), "{error:?}");
    let done =
        Directing::of(Noted { differ: true, ..Noted::default() }, &["clock all by=-5s at 50ms"], Some(1_000), 1_000);
    let healed = ["clock 1", "clock drift=1ppm 2", "clock drift=2ppm 3", "start all"];
    assert!(done.names()[0] == "clock by=-5s all" && done.names()[1..] == healed, "{:?}", done.calls);
    assert_eq!((done.spans[0].kind, done.spans[0].healed_ns.is_some()), (FaultKind::Clock, true));
}

#[test]
fn planned_work_delays_no_other_fault_and_is_waited_for() {
    let faults = ["work backup at 50ms", "kill node 2 at 300ms for 50ms"];
    // The phase ends with the healing of the kill, and work takes longer than that.
    let servers = Noted { work_outlasts: Some("start 2"), ..Noted::default() };
    let done = Directing::until_healed(servers, &faults, Some(450), 1);
    let place = |call: &str| done.names().iter().position(|name| *name == call).unwrap();
    assert!(place("kill 2") < place("start 2") && place("start 2") < place("end backup 2"), "{:?}", done.calls);
    assert!(place("work backup 2") < place("end backup 2"), "{:?}", done.calls);
    assert_eq!((done.calls.len(), place("start all")), (5, 4), "{:?}", done.calls);
    let work = done.spans.iter().find(|span| span.kind == FaultKind::Work).unwrap();
    let FaultSpan { begun_ns, subject, taken_ns, healing_ns, healed_ns, error, .. } = work;
    assert_eq!((subject.as_str(), error), ("node 2, the primary", &None));
    assert_eq!(work.detail.object.as_deref(), Some("backup"));
    assert_eq!((*taken_ns, *healing_ns), (Some(*begun_ns), None));
    assert!(healed_ns.unwrap() - begun_ns >= WORK_TIME.as_nanos() as u64);
    assert!(done.directed.failed.is_none() && done.directed.missed.is_empty());
}

#[test]
fn a_fault_at_a_number_of_operations_waits_for_them() {
    let faults =
        ["pause node 1 at 200 ops for 100ms", "cut node 2 at 50ms after fault 1 for 50ms", "kill node 3 at 5000 ops"];
    let done = Directing::of(Noted::default(), &faults, None, 2_000);
    assert_eq!(done.names(), ["pause 1", "resume 1", "cut 2", "link 2", "start all"]);
    let [pause, cut] = [0, 2].map(|at| done.calls[at].0);
    assert!(is_near(pause, 200) && is_near(cut, 350), "{:?}", done.calls);
    assert_eq!(done.directed.missed, ["kill node 3 at 5,000 operations was not done: the phase had ended"]);
}

#[test]
fn a_fault_with_a_condition_waits_for_a_reading_after_the_warm_up_that_meets_it() {
    let faults = [
        "pause node 1 when level > 1000 for 100ms",
        "cut node 2 when level < 9000 for 50ms",
        "kill all when level > 5000",
    ];
    let done = Directing::of(Noted::default(), &faults, None, 2_500);
    assert_eq!(done.names(), ["cut 2", "link 2", "pause 1", "resume 1", "start all"]);
    let [cut, pause] = [0, 2].map(|at| done.calls[at].0);
    assert!(is_near(cut, 100) && is_near(pause, 1_001), "{:?}", done.calls);
    assert!(done.spans.iter().all(|span| span.planned_ns <= span.begun_ns && span.healed_ns.is_some()));
    let [missed] = &done.directed.missed[..] else { panic!("{:?}", done.directed.missed) };
    let nearest = missed.strip_prefix("kill all when level > 5000 was not done: the phase had ended; level was ");
    let nearest = nearest.and_then(|rest| rest.strip_suffix(" at the nearest")?.replace(',', "").parse::<u128>().ok());
    assert!(nearest.is_some_and(|level| level >= 500), "{missed}");
    assert_eq!(done.events.len(), 2, "{:?}", done.events);
    assert!(done.events[1].starts_with("pause node 1 when level > 1000 for 100ms: level was "), "{:?}", done.events);
}

#[test]
fn a_fault_that_waits_for_silent_clients_begins_that_long_after_their_last_answer() {
    let faults = ["pause node 1 when clients.silence > 600ms for 50ms", "kill all when clients.silence > 1h"];
    let done = Directing::until_healed(Noted::default(), &faults, None, 1);
    assert_eq!(done.names(), ["pause 1", "resume 1", "start all"]);
    assert!(is_near(done.calls[0].0, 1_000), "{:?}", done.calls);
    let [event] = &done.events[..] else { panic!("{:?}", done.events) };
    assert!(event.starts_with("pause node 1 when clients.silence > 600ms for 50ms: clients.silence was "), "{event}");
    let [missed] = &done.directed.missed[..] else { panic!("{:?}", done.directed.missed) };
    let words = "kill all when clients.silence > 1h was not done: the phase had ended; clients.silence was ";
    assert!(missed.starts_with(words), "{missed}");
}

#[test]
fn a_fault_after_another_waits_until_it_is_healed() {
    let faults = [
        "work backup at 50ms",
        "pause node 2 at 100ms after fault 1 for 50ms",
        "cut node 1 at 0s after fault 2 for 50ms",
    ];
    let done = Directing::until_healed(Noted::default(), &faults, Some(3_000), 3);
    assert_eq!(done.names(), ["work backup 2", "pause 2", "resume 2", "cut 1", "link 1", "start all"]);
    let [work, pause, cut] = [0, 1, 2].map(|at| &done.spans[at]);
    let since = |one: &FaultSpan, other: &FaultSpan| one.planned_ns - other.healed_ns.unwrap();
    assert!((100_000_000..2_000_000_000).contains(&since(pause, work)), "{:?}", done.spans);
    assert!(since(cut, pause) < 2_000_000_000 && pause.begun_ns >= pause.planned_ns, "{:?}", done.spans);
    let lasted_ns = pause.healing_ns.unwrap() - pause.taken_ns.unwrap();
    assert!((40_000_000..2_000_000_000).contains(&lasted_ns), "{lasted_ns}");
    assert!(done.directed.missed.is_empty() && done.directed.failed.is_none());
    let early = Directing::of(Noted::default(), &faults, Some(2_000), 200);
    let missed = early.directed.missed;
    assert!(missed.contains(&"pause node 2 after fault 1 was not done: the phase had ended".to_owned()), "{missed:?}");
}

#[test]
fn planned_work_that_a_fault_of_its_server_ends_is_no_failure_of_the_run() {
    let failing = |kind| Noted { work_fails: Some(kind), ..Noted::default() };
    let servers = || failing(StoreErrorKind::Broken);
    let ended = Directing::of(servers(), &["work save node 1 at 50ms", "kill node 1 at 200ms"], None, 1_500);
    let span = &ended.spans[0];
    assert_eq!(span.error.as_deref(), Some("the connection is lost"));
    assert!(span.healed_ns.is_some() && ended.directed.failed.is_none(), "{:?}", ended.directed.failed);
    let reset = Directing::of(servers(), &["work save node 1 at 50ms", "reset node 1 at 200ms"], None, 1_500);
    assert!(reset.spans[0].error.is_some() && reset.directed.failed.is_none(), "{:?}", reset.directed.failed);
    let failed = Directing::of(servers(), &["work save node 1 at 50ms", "kill node 3 at 200ms"], None, 1_500);
    assert_eq!(failed.directed.failed.unwrap().what, "work save node 1 at 50ms: the connection is lost");
    // Work of several nodes loses another one.
    let unreachable = || failing(StoreErrorKind::Unreachable);
    let lost = Directing::of(unreachable(), &["work save node 1 at 50ms", "kill node 3 at 200ms"], None, 1_500);
    assert!(lost.spans[0].error.is_some() && lost.directed.failed.is_none(), "{:?}", lost.directed.failed);
    let alone = Directing::of(unreachable(), &["work save node 1 at 50ms"], None, 1_500);
    assert!(alone.directed.failed.is_some());
}

#[test]
fn a_node_that_died_while_it_was_paused_is_started_and_its_end_is_told() {
    let died = Noted { has_died: true, ..Noted::default() };
    let done = Directing::of(died, &["pause node 2 at 50ms for 50ms"], Some(1_000), 1_000);
    assert_eq!(done.names(), ["pause 2", "resume 2", "start 2", "start all"]);
    assert_eq!(done.directed.ended.map(|ended| ended.what).as_deref(), Some("it was ended by signal 9"));
    assert!(done.directed.failed.is_none() && done.spans[0].healed_ns.is_some(), "{:?}", done.directed.failed);
    // A pause of all nodes: those that do not run are started when the phase ends.
    let died = Noted { has_died: true, ..Noted::default() };
    let done = Directing::of(died, &["pause all at 50ms for 50ms"], Some(1_000), 1_000);
    assert_eq!(done.names(), ["pause all", "resume all", "start all"]);
}

#[test]
fn a_fault_of_a_disk_that_no_request_met_names_the_request_that_was_missing() {
    for (fault, request) in [
        ("eio read once", "read"),
        ("delay write 500 0 1", "write"),
        ("ignore-flushes", "flush"),
        ("full", "write that makes a file longer"),
        ("bit-rot 1 0.5", "read"),
        ("speed 8000 150000000 single", "request"),
    ] {
        let error = no_request_met(fault.parse().unwrap());
        let wanted = format!("it did not take effect: no {request} came to the disk during the fault");
        assert_eq!((error.kind, error.what, error.next.is_some()), (StoreErrorKind::Usage, wanted, true));
    }
}

#[test]
fn a_fault_of_some_disks_names_their_nodes() {
    for (fault, wanted) in [
        ("disk primary full at 100ms", "node 2, the primary"),
        ("disk node 3 full at 100ms", "node 3"),
        ("disk nodes 1,3 full at 100ms", "nodes 1 and 3"),
        ("disk full at 100ms", "the disk"),
    ] {
        let done = Directing::of(Noted::default(), &[fault], Some(400), 400);
        let FaultSpan { kind, subject, error, .. } = &done.spans[0];
        assert_eq!((*kind, subject.as_str()), (FaultKind::Disk, wanted));
        // These servers have no disks.
        assert!(error.as_deref().is_some_and(|error| error.contains("disk cannot have faults")), "{error:?}");
    }
}

#[test]
fn a_fault_that_is_not_healed_is_the_error_of_the_run_and_all_others_are_healed() {
    let others = [
        ("limit node 2 cpus=0.1 at 60ms for 300ms", "limit Cpus(Some(2.0)) 2"),
        ("hang node 3 at 70ms", "resume 3"),
        ("cut node 2 at 80ms for 400ms", "link 2"),
        ("stop node 2 at 90ms for 200ms", "start 2"),
    ];
    for (fault, fails) in [("kill", "start 1"), ("pause", "resume 1"), ("cut", "link 1")] {
        let fault = format!("{fault} node 1 at 50ms for 100ms");
        let all: Vec<&str> = std::iter::once(fault.as_str()).chain(others.map(|(other, _)| other)).collect();
        let done = Directing::of(Noted { fails: Some(fails), ..Noted::default() }, &all, Some(1_500), 1_500);
        let error = done.directed.failed.as_ref().unwrap();
        assert_eq!((error.kind, error.what.as_str()), (StoreErrorKind::Broken, &*format!("{fault}: node 1 refuses")));
        assert_eq!(error.next.as_deref(), Some("read its log, /tmp/log"));
        let (failed, healed): (Vec<_>, Vec<_>) = done.spans.iter().partition(|span| span.error.is_some());
        let [failed] = failed[..] else { panic!("{:?}", done.spans) };
        assert_eq!((failed.fault.as_str(), failed.error.as_deref()), (fault.as_str(), Some("node 1 refuses")));
        assert!(failed.taken_ns.is_some() && failed.healing_ns.is_some() && failed.healed_ns.is_none(), "{failed:?}");
        assert!(healed.len() == 4 && healed.iter().all(|span| span.healed_ns.is_some()), "{healed:?}");
        let wanted = others.iter().map(|(_, heals)| *heals).chain(["start all"]);
        wanted.for_each(|call| assert!(done.names().contains(&call), "{fault}: no {call} in {:?}", done.calls));
    }
}

#[test]
fn a_recording_that_fails_keeps_no_fault_from_being_healed() {
    let unrecorded = Noted { is_unrecorded: true, ..Noted::default() };
    let faults = ["kill node 1 at 50ms for 50ms", "pause node 2 at 100ms for 50ms", "limit all cpus=0.1 at 150ms"];
    let done = Directing::of(unrecorded, &faults, Some(1_500), 1_500);
    let limit = |cpus: &str| format!("limit Cpus(Some({cpus})) all");
    let mut names = done.names();
    names.sort_unstable();
    assert_eq!(names, ["kill 1", &*limit("0.1"), &*limit("2.0"), "pause 2", "resume 2", "start 1", "start all"]);
    let error = done.directed.failed.unwrap();
    assert_eq!(error.kind, StoreErrorKind::Recording);
    assert!(error.what.ends_with(": the disk is full"), "{error:?}");
    assert_eq!((done.directed.begun, done.spans.len()), (3, 0));
}

#[test]
fn nothing_is_started_after_a_phase_in_which_no_fault_began() {
    let done = Directing::of(Noted::default(), &["kill node 1 at 5s", "restart all rolling at 50%"], Some(20_000), 100);
    assert!(done.names().is_empty() && done.spans.is_empty(), "{:?}", done.calls);
    let wanted = ["kill node 1 at 5.00 s", "restart all rolling at 10.0 s"];
    let wanted = wanted.map(|fault| format!("{fault} was not done: the phase had ended"));
    assert_eq!(done.directed.missed, wanted);
}
