use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use plimsoll_analysis::line::lines;
use plimsoll_analysis::view::{Ending, LineState, LineView};
use plimsoll_core::{Reading, Sampler, StoreErrorKind, StoreKind};
use plimsoll_drive::Limit;
use plimsoll_record::data::{FaultKind, FaultSpan};
use plimsoll_testkit::lying_kv::{KvLie, Pairs};
use plimsoll_testkit::simulated::{Simulated, SimulatedDrive, StoreModel};
use tempfile::TempDir;

use super::*;

/// Sink that drops everything.
struct Deaf;

impl Sink for Deaf {
    fn take(&self, _: &Told) {}
}

/// Result of the trials of a simulated run.
struct Simulation {
    result: Result<(), TrialError>,
    /// Number of drives.
    drives: u32,
    /// Time at the end.
    end_ns: u64,
    /// The recording, if it could be ended.
    recording: Result<PathBuf, TrialError>,
    _place: TempDir,
}

impl Simulation {
    /// Runs the trials of a plan. `model_of` also hears where events go. Nothing is refused before: a store in this
    /// process has no servers that a fault could kill.
    fn of(text: &str, model_of: impl Fn(&Sinks<'_>, &SimulatedDrive<'_>) -> StoreModel + Sync) -> Self {
        Self::on(plimsoll_store_null::kind(), text, model_of)
    }

    /// Runs the trials of a plan on a store of this kind, likewise.
    fn on(
        kind: Box<dyn StoreKind>,
        text: &str,
        model_of: impl Fn(&Sinks<'_>, &SimulatedDrive<'_>) -> StoreModel + Sync,
    ) -> Self {
        let (place, stop) = (tempfile::tempdir().unwrap(), Arc::default());
        let catalogue = Catalogue {
            labs: Vec::new(),
            stores: vec![kind],
            workloads: plimsoll_workload::all(),
            samplers: plimsoll_sample::specs(),
        };
        let plan = plimsoll_plan::parse("simulated", text, &catalogue, &Default::default()).unwrap();
        let clocked = Simulated::new(|_| StoreModel::default());
        let clock = clocked.clock(0);
        let header = header(&plan, &RunSpec::new(place.path(), &stop, &clocked), "run".to_owned(), 0, Io::Auto);
        let recorder = Recorder::create(place.path(), &header).unwrap();
        let (result, drives) = {
            let sinks = Sinks::new(clock, &recorder, &Deaf, Fold::new(true));
            let driver = clocked.with(|drive| {
                // Before the drive sets it: by this start the director begins no fault, for which it would need servers.
                let _ = drive.spec.started.set(u64::MAX);
                model_of(&sinks, drive)
            });
            let (spec, server) =
                (RunSpec::new(place.path(), &stop, &driver), plimsoll_sample::ServerProcesses::default());
            let mut context = RunContext::new((&plan, &catalogue, &spec), &sinks, &server, Io::Auto);
            (trials(&mut context), driver.drives())
        };
        let end_ns = clock.now_ns();
        let recording = recorder.finish(RunState::Complete, end_ns).map_err(TrialError::from);
        Self { result, drives, end_ns, recording, _place: place }
    }

    /// Returns the recording.
    fn run(&self) -> Run {
        assert_eq!(self.result, Ok(()));
        Run::load(self.recording.as_ref().unwrap()).unwrap()
    }

    /// Returns the search for the load line, as the recording has it.
    fn line(&self) -> LineView {
        let mut all = lines(&self.run());
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

/// A search whose load steps have a fault at 40 % of them.
fn plan(goals: &str, line: &str) -> String {
    format!(
        "stores = [\"null\"]\nsamplers = []\n[workload]\nname = \"kv\"\nrecords = 50\nfield_length = 10\n\
         ledger = \"off\"\n[goals]\n{goals}\n[line]\n{line}\n[[phase]]\ndo = \"load\"\n\
         [[phase]]\ndo = \"drive\"\nclients = 8\nrate = \"50/s\"\nfor = \"3s\"\nbacklog = \"30s\"\n\
         op_timeout = \"30s\"\nfault = \"kill all at 40% for 2s\"\nmix = {{ read = 1 }}\ndurability = \"buffered\"\n"
    )
}

/// Kills the server in drives with faults, and tells so. Returns the model of the drive.
fn killed(sinks: &Sinks<'_>, drive: &SimulatedDrive<'_>) -> StoreModel {
    let (Limit::Duration(length), true) = (drive.spec.limit, drive.spec.ticks) else { return StoreModel::default() };
    let (from, lasts) = ((drive.spec.warmup + length).mul_f64(0.4), Duration::from_secs(2));
    let begun_ns = drive.start_ns + from.as_nanos() as u64;
    let healed_ns = begun_ns + lasts.as_nanos() as u64;
    let phase = sinks.fold().trial().unwrap().0.phases.last().unwrap().header.clone();
    let span = FaultSpan {
        trial: phase.trial,
        phase: phase.ordinal,
        taken_ns: Some(begun_ns),
        healing_ns: Some(healed_ns),
        healed_ns: Some(healed_ns),
        ..FaultSpan::begun(FaultKind::Kill, "kill all at 40% for 2s", "the server", begun_ns)
    };
    sinks.tell(Told::Fault(span)).unwrap();
    StoreModel { outages: vec![(from, lasts)], ..StoreModel::default() }
}

#[test]
fn a_line_through_a_fault_lies_where_the_queue_of_its_outage_is_worked_off_in_time() {
    let text = plan("p50 = \"60s\"\noutage = \"5s\"", "budget = \"10min\"\nfrom = \"30/s\"");
    let line = Simulation::of(&text, killed).line();
    let result = &line.result;
    assert_eq!(result.state, LineState::Decided, "{}", result.sentence);
    let [carries, gives_way] = [&result.held, &result.failed].map(|one| one.as_ref().unwrap().rate_per_s);
    // A load step of 20 s has 11 s after an outage of two: they are enough for 85/s of the 100/s that are served.
    assert!((70.0..=92.0).contains(&carries) && gives_way > 78.0, "{carries} to {gives_way}: {}", result.sentence);
    let [least_s, _, most_s] = result.outages.unwrap();
    assert!(least_s >= 1.9 && most_s <= 2.1, "{least_s} to {most_s} s");
    assert!(result.sentence.contains(" through kill all: held in "), "{}", result.sentence);
    assert!(result.sentence.contains(", no answer for 2.0"), "{}", result.sentence);
    // Clients wait for as long as it takes.
    assert!(result.sentence.contains("; no outcome unknown. It gives way at "), "{}", result.sentence);
    assert!(result.noticed.is_some_and(|[least_s, _, most_s]| least_s >= 0.0 && most_s < 2.0), "{:?}", result.noticed);
    assert_eq!((result.unknown, result.lost), (Some(0), None), "the ledger is off");
    let [outage, back] = line.costs.as_slice() else { panic!("{:?}", line.costs) };
    assert!(outage.x.contains(&carries) && outage.x.len() == back.x.len(), "{outage:?}, {back:?}");
    assert!(outage.marks.iter().any(|mark| (mark.x, mark.name.as_str()) == (carries, "carries")), "{:?}", outage.marks);
    assert!(line.rungs.iter().all(|rung| rung.rung.seconds >= 18.0), "each is as long as its fault needs");
}

#[test]
fn a_fault_affects_all_clients_that_waited_for_the_end_of_its_outage() {
    let text = plan("p50 = \"60s\"\noutage = \"5s\"", "budget = \"10min\"\nfrom = \"30/s\"");
    let simulation = Simulation::of(&text, killed);
    assert_eq!(simulation.result, Ok(()));
    let run = Run::load(simulation.recording.as_ref().unwrap()).unwrap();
    let faults = plimsoll_analysis::view(&run).faults;
    assert!(!faults.is_empty());
    for one in &faults {
        let affected = one.affected.unwrap();
        assert_eq!((affected.clients, affected.of), (8, 8), "{one:?}");
        // Each client waits for its first answer after the outage.
        let silent = one.clients.unwrap();
        assert_eq!((silent.silent, silent.of, silent.longest_open), (8, 8, false), "{one:?}");
        let outage_s = one.outage_s.unwrap();
        assert!((outage_s - 0.5..=outage_s + 0.5).contains(&silent.longest_s), "{one:?}");
        assert!(silent.median_s > 0.5 && silent.median_s <= silent.longest_s, "{one:?}");
    }
    // The first load step is far below the capacity of the store.
    assert_eq!(faults[0].affected.unwrap().usual, 0);
    let words = "; 8 of 8 clients affected, no answer to 8 of 8 clients for up to ";
    assert!(faults[0].sentence.contains(words), "{}", faults[0].sentence);
}

#[test]
fn a_part_of_the_keys_without_answers_is_told_while_other_parts_have_answers() {
    let text = "stores = [\"null\"]\nsamplers = []\n[workload]\nname = \"kv\"\nrecords = 50\nfield_length = 10\n\
                ledger = \"off\"\n[[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nclients = 8\n\
                rate = \"400/s\"\nfor = \"20s\"\nfault = \"kill all at 40% for 2s\"\nmix = { read = 1 }\n\
                durability = \"buffered\"\n";
    let simulation = Simulation::of(text, |sinks, drive| {
        let model = killed(sinks, drive);
        let refused_part = model.outages.first().map(|(from, lasts)| (1, *from, *lasts));
        StoreModel { capacity_per_s: 1_000.0, outages: Vec::new(), key_parts: 4, refused_part, ..model }
    });
    assert_eq!(simulation.result, Ok(()));
    let run = Run::load(simulation.recording.as_ref().unwrap()).unwrap();
    let one = plimsoll_analysis::view(&run).faults.remove(0);
    let parts = one.key_parts.unwrap();
    assert_eq!((parts.silent, parts.of, parts.longest_open), (1, 4, false), "{one:?}");
    assert!((1.8..=2.2).contains(&parts.longest_s) && one.outage_s.unwrap() < 0.5, "{one:?}");
    assert!(one.sentence.contains("no answer for 1 of 4 parts of the keys for up to "), "{}", one.sentence);
}

#[test]
fn an_outage_that_is_longer_than_its_goal_breaks_it_at_every_rate() {
    let text = plan("p50 = \"60s\"\noutage = \"1s\"", "budget = \"10min\"\nfrom = \"30/s\"\nleast = \"20/s\"");
    let line = Simulation::of(&text, killed).line();
    let result = &line.result;
    assert_eq!((&result.ending, &result.state), (&Ending::NoPass, &LineState::NoLine), "{}", result.sentence);
    assert_eq!(result.broken.as_ref().unwrap().what.name(), "outage");
    assert!(result.sentence.contains("no operation is answered for 2.0"), "{}", result.sentence);
}

#[test]
fn outcomes_that_an_outage_leaves_unknown_break_their_goal() {
    let text = plan("p50 = \"60s\"\nunknown = 0", "budget = \"10min\"\nfrom = \"30/s\"\nleast = \"20/s\"");
    let text = text.replace("op_timeout = \"30s\"", "op_timeout = \"1s\"");
    let line = Simulation::of(&text, killed).line();
    let result = &line.result;
    assert_eq!((&result.ending, &result.state), (&Ending::NoPass, &LineState::NoLine), "{}", result.sentence);
    assert_eq!(result.broken.as_ref().unwrap().what.name(), "unknown");
    assert!(result.sentence.contains(": outcomes of operations are unknown ("), "{}", result.sentence);
}

#[test]
fn what_a_ledger_finds_in_a_load_step_through_a_fault_breaks_its_goal_there() {
    for (lie, goal, words) in [
        (KvLie::Lose, "lost", ": acknowledged writes are lost ("),
        (KvLie::Stale, "stale", ": answers have stale records ("),
    ] {
        let goals = format!("p50 = \"60s\"\n{goal} = 0");
        let text = plan(&goals, "budget = \"10min\"\nfrom = \"30/s\"\nleast = \"20/s\"");
        let text = text.replace("\"null\"", "\"pairs\"").replace("ledger = \"off\"\n", "");
        let text = text.replace("{ read = 1 }", "{ read = 1, update = 1 }");
        let text = format!("start = \"settled\"\n{text}[[phase]]\ndo = \"check\"\n");
        let simulation = Simulation::on(Box::new(Pairs::lying(lie, 3, 7)), &text, killed);
        let (run, line) = (simulation.run(), simulation.line());
        let result = &line.result;
        assert_eq!((&result.ending, &result.state), (&Ending::NoPass, &LineState::NoLine), "{}", result.sentence);
        assert_eq!(result.broken.as_ref().unwrap().what.name(), goal);
        assert!(result.sentence.contains(words), "{}", result.sentence);
        // The search itself saw the same: it ended when the lowest rate had failed three times.
        assert!((4..=5).contains(&run.trials.len()), "{goal}: {} load steps", run.trials.len());
        for pair in run.trials.windows(2) {
            // What one load step lost is not lost once more in the next, which begins with new data.
            let is_new = pair[1].header.params["start"].starts_with("fresh");
            assert_eq!(is_new, pair[0].ledgers.iter().any(|ledger| ledger.lost > 0), "{:?}", pair[0].ledgers);
        }
    }
}

#[test]
fn a_search_whose_faults_did_not_take_place_decides_nothing() {
    let text = plan("p50 = \"60s\"\noutage = \"5s\"", "budget = \"10min\"\nfrom = \"30/s\"");
    // The director begins no fault.
    let line = Simulation::of(&text, |_, _| StoreModel::default()).line();
    let result = &line.result;
    assert!(matches!(&result.ending, Ending::NotMeasured(why) if why.contains("no fault")), "{:?}", result.ending);
    assert!(matches!(result.state, LineState::Undecided(_)), "{:?}", result.state);
    assert_eq!(line.rungs.len(), 3, "it is asked again twice");
}

#[test]
fn an_error_of_the_recordings_disk_ends_the_drive_at_its_next_slice() {
    let text = plan("p50 = \"60s\"", "budget = \"10min\"\nfrom = \"30/s\"")
        .replace("fault = \"kill all at 40% for 2s\"\n", "");
    let began_ns = AtomicU64::new(0);
    let simulation = Simulation::of(&text, |sinks, drive| {
        // The load, and a load step.
        if drive.number == 2 {
            began_ns.store(drive.start_ns, Ordering::SeqCst);
            let again = sinks.fold().trial().unwrap().0.phases.last().unwrap().header.clone();
            sinks.recorder.begin_phase(again).unwrap();
            sinks.recorder.flush().unwrap_err();
        }
        StoreModel::default()
    });
    let error = simulation.result.unwrap_err();
    assert!(matches!(error.kind, StoreErrorKind::Permission | StoreErrorKind::Recording), "{error:?}");
    assert_eq!(simulation.drives, 3, "nothing is driven that is not recorded");
    let took_ns = simulation.end_ns - began_ns.into_inner();
    assert!(took_ns < 3_000_000_000, "{took_ns} ns of a load step of 20 s");
    assert!(simulation.recording.is_err());
}

/// Source that counts its readings. A slow one does not end its first before another source has been read five times.
struct Counting {
    reads: Arc<AtomicU64>,
    waits_for: Option<Arc<AtomicU64>>,
}

impl Sampler for Counting {
    fn sample(&mut self) -> Vec<Reading> {
        let began = Instant::now();
        let is_early = |others: &Arc<AtomicU64>| others.load(Ordering::SeqCst) < 5;
        while self.waits_for.as_ref().is_some_and(is_early) && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let reads = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        vec![Reading::level("", "reads", "", reads as f64)]
    }
}

/// Makes a recording without trials.
fn new_recording(place: &TempDir) -> Recorder {
    let stop = Arc::default();
    let catalogue = Catalogue {
        labs: Vec::new(),
        stores: vec![plimsoll_store_null::kind()],
        workloads: plimsoll_workload::all(),
        samplers: plimsoll_sample::specs(),
    };
    let plan = plan("p50 = \"60s\"", "budget = \"10min\"\nfrom = \"30/s\"");
    let plan = plimsoll_plan::parse("paced", &plan, &catalogue, &Default::default()).unwrap();
    let clocked = Simulated::new(|_| StoreModel::default());
    let header = header(&plan, &RunSpec::new(place.path(), &stop, &clocked), "run".to_owned(), 0, Io::Auto);
    Recorder::create(place.path(), &header).unwrap()
}

/// Waits until `is_met`, for a minute at most.
fn await_until(is_met: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_met() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_slow_source_delays_no_other_and_each_reading_has_its_own_time() {
    let place = tempfile::tempdir().unwrap();
    let recorder = new_recording(&place);
    let clock = plimsoll_drive::Clock::start();
    let sinks = Sinks::new(clock, &recorder, &Deaf, Fold::default());
    let [quick, slow] = [(); 2].map(|()| Arc::<AtomicU64>::default());
    let source = |reads: &Arc<AtomicU64>, waits_for: Option<&Arc<AtomicU64>>| -> Box<dyn Sampler> {
        Box::new(Counting { reads: Arc::clone(reads), waits_for: waits_for.map(Arc::clone) })
    };
    std::thread::scope(|scope| {
        let watch = ReadingRecorder { sinks: &sinks, label: "", slice: Duration::from_millis(10) };
        let groups = vec![vec![("slow", source(&slow, Some(&quick)))], vec![("quick", source(&quick, None))]];
        let following = watch.follow_each(scope, groups).unwrap();
        await_until(|| slow.load(Ordering::SeqCst) > 0);
        following.end();
    });
    drop(sinks);
    let run = Run::load(&recorder.finish(RunState::Complete, clock.now_ns()).unwrap()).unwrap();
    let times = |source: &str| -> Vec<u64> {
        let position = run.series.iter().position(|series| series.source == source).unwrap();
        run.samples.iter().filter(|sample| sample.value(position).is_some()).map(|sample| sample.at_ns).collect()
    };
    // Also the reading with which each ends.
    for (source, reads) in [("slow", &slow), ("quick", &quick)] {
        assert_eq!(times(source).len() as u64, reads.load(Ordering::SeqCst), "{source}");
    }
    let first_slow_ns = times("slow")[0];
    let before = times("quick").into_iter().filter(|at_ns| *at_ns <= first_slow_ns).count();
    // The fifth reading may be handed over after the slow source has seen it.
    assert!(before >= 4, "{before} readings of the quick source before the first of the slow one");
    let is_told = run.events.iter().any(|event| event.text.starts_with("readings of slow took up to "));
    assert!(is_told, "{:?}", run.events);
}

/// Source of a counter that grows by one between two readings of slices, and by one between two fine readings.
struct Refined {
    slices: Arc<AtomicU64>,
    fine: Arc<AtomicU64>,
}

impl Refined {
    fn read(reads: &AtomicU64) -> Vec<Reading> {
        vec![Reading::total("", "reads", "", reads.fetch_add(1, Ordering::SeqCst) as f64)]
    }
}

impl Sampler for Refined {
    fn sample(&mut self) -> Vec<Reading> {
        Self::read(&self.slices)
    }

    fn fine(&mut self) -> Vec<Reading> {
        Self::read(&self.fine)
    }
}

#[test]
fn readings_are_fine_after_a_fault_and_leave_those_of_slices_as_they_are() {
    let place = tempfile::tempdir().unwrap();
    let recorder = new_recording(&place);
    let clock = plimsoll_drive::Clock::start();
    let sinks = Sinks { fine: FineTimes::new(true), ..Sinks::new(clock, &recorder, &Deaf, Fold::default()) };
    let [slices, fine] = [(); 2].map(|()| Arc::<AtomicU64>::default());
    let source: Box<dyn Sampler> = Box::new(Refined { slices: Arc::clone(&slices), fine: Arc::clone(&fine) });
    let fault_ns = std::thread::scope(|scope| {
        let watch = ReadingRecorder { sinks: &sinks, label: "", slice: Duration::from_millis(200) };
        let following = watch.follow_each(scope, vec![vec![("refined", source)]]).unwrap();
        await_until(|| slices.load(Ordering::SeqCst) >= 2);
        assert_eq!(fine.load(Ordering::SeqCst), 0, "there was no fault yet");
        let fault_ns = clock.now_ns();
        sinks.fine.begin(fault_ns);
        await_until(|| fine.load(Ordering::SeqCst) >= 10 && slices.load(Ordering::SeqCst) >= 4);
        following.end();
        fault_ns
    });
    drop(sinks);
    let run = Run::load(&recorder.finish(RunState::Complete, clock.now_ns()).unwrap()).unwrap();
    // A counter that grew by one has its rate by the time between two readings.
    for samples in [&run.samples, &run.fine_samples] {
        for pair in samples.windows(2) {
            let growth = pair[1].value(0).unwrap() * (pair[1].at_ns - pair[0].at_ns) as f64 / 1e9;
            assert!((growth - 1.0).abs() < 1e-6, "{growth}: {pair:?}");
        }
    }
    assert!(run.samples.len() >= 2, "{:?}", run.samples);
    assert!(run.fine_samples.iter().all(|sample| sample.at_ns >= fault_ns), "{:?}", run.fine_samples);
    let mut gaps_ns: Vec<u64> = run.fine_samples.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns).collect();
    gaps_ns.sort_unstable();
    // Beside other tests a reading may be late.
    assert!((45_000_000..=400_000_000).contains(&gaps_ns[gaps_ns.len() / 2]), "{gaps_ns:?}");
}
