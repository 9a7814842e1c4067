//! Data of others on attached servers: their size, what may change them, and what is not done to their servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use plimsoll_core::{
    Answer, BlockingSession, Call, Dialect, Durability, Footprint, Interface, Layout, Op, OpKind, OpenOptions, Outcome,
    SessionShape, SessionSpec, Sessions, Store, StoreDescription, StoreError, StoreErrorKind, StoreKind, StoreSpec,
    Value,
};
use plimsoll_record::data::{About, PhaseState, Run, RunState};
use plimsoll_testkit::simulated::Simulated;

use crate::simulation::{Heard, Simulation, Sort, fast, phase};

/// A server of others in this process, with so many records of any kind.
#[derive(Default)]
struct Far {
    records: AtomicU64,
    created: AtomicU32,
    closed: AtomicU32,
}

struct FarKind(StoreSpec, Arc<Far>);

struct FarStore(Arc<Far>);

struct FarSession(Vec<OpKind>, Arc<Far>);

impl StoreKind for FarKind {
    fn spec(&self) -> &StoreSpec {
        &self.0
    }

    fn announce(&self, _: &OpenOptions) -> Result<Vec<String>, StoreError> {
        Ok(vec!["over there".to_owned(), "makes a schema".to_owned()])
    }

    fn open(&self, options: OpenOptions, _: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        options.target.url()?;
        Ok(Box::new(FarStore(Arc::clone(&self.1))))
    }
}

impl Store for FarStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let place = "far://there/db".to_owned();
        Ok(StoreDescription { version: "1".to_owned(), place, settings: Vec::new() })
    }

    fn create(&mut self, _: &Layout) -> Result<(), StoreError> {
        self.0.created.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn sessions(&mut self, count: u32, _: Durability) -> Result<Sessions, StoreError> {
        let session = |_| -> Box<dyn BlockingSession> { Box::new(FarSession(Vec::new(), Arc::clone(&self.0))) };
        Ok(Sessions::Blocking((0..count).map(session).collect()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        Ok(Footprint::default())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.0.closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl BlockingSession for FarSession {
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.0 = kinds.to_vec();
        Ok(())
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let records = self.1.records.load(Ordering::SeqCst) as i64;
        (answer.rows, answer.columns) = (1, 1);
        match &self.0[usize::from(op.kind)].call {
            Call::Ldap(_) => match op.params.get(0) {
                Value::Int(id) if id < records => Outcome::Ok,
                _ => {
                    answer.rows = 0;
                    Outcome::NotFound
                }
            },
            _ => {
                answer.values.push(Value::Int(records));
                Outcome::Ok
            }
        }
    }
}

/// Result of a plan on the server of others.
struct Ran {
    far: Arc<Far>,
    heard: Heard,
    error: Option<StoreError>,
    /// The recording; `None` if the plan was refused.
    run: Option<Run>,
}

impl Ran {
    /// Runs a plan where there are so many records. `top` are keys of the plan; `params` of the workload.
    fn of(records: u64, top: &str, workload: &str, phases: &str) -> Self {
        let far = Arc::<Far>::default();
        far.records.store(records, Ordering::SeqCst);
        let spec = StoreSpec {
            name: "far",
            schemes: &["far"],
            interfaces: &[Interface::Sql, Interface::Ldap],
            dialect: Some(Dialect::Postgres),
            sessions: SessionSpec::new(SessionShape::Blocking, 1 << 10),
            ..StoreSpec::PLAIN
        };
        let simulation = Simulation::with(vec![Box::new(FarKind(spec, Arc::clone(&far)))]);
        let text = format!("stores = [\"far://there/db\"]\nsamplers = []\n{top}\n[workload]\n{workload}\n{phases}");
        let (heard, driver) = (Heard::default(), Simulated::new(|_| fast()));
        let ended = simulation.try_run(&simulation.plan(&text), &Sort::default(), &heard, &driver);
        let (error, run) = match ended {
            Ok(ended) => (ended.result.err(), Some(Run::load(&ended.recording).unwrap())),
            Err(error) => (Some(error), None),
        };
        Self { far, heard, error, run }
    }

    /// Returns true if a notice has these words.
    fn notices(&self, words: &str) -> bool {
        self.heard.notices.lock().unwrap().iter().any(|notice| notice.contains(words))
    }
}

const AS_IS: &str = "start = \"as-is\"";
const SEARCH: &str = "[[phase]]\ndo = \"drive\"\nops = 5\nmix = { search = 1 }\n";
const COLD: &str = "[[phase]]\ndo = \"cold\"\n";

#[test]
fn the_size_of_data_of_others_is_read_from_them_unless_the_plan_says_a_part() {
    for (records, given, phases, wanted) in [
        // One record after the other is looked for: the ends of ranges of powers of two, and beside them.
        (1, "name = \"ldap\"", SEARCH, Ok(1)),
        (2, "name = \"ldap\"", SEARCH, Ok(2)),
        (1_000, "name = \"ldap\"", SEARCH, Ok(1_000)),
        (1_024, "name = \"ldap\"", SEARCH, Ok(1_024)),
        (1_025, "name = \"ldap\"", SEARCH, Ok(1_025)),
        (123_457, "name = \"ldap\"", SEARCH, Ok(123_457)),
        // A part of them is enough.
        (137, "name = \"ldap\"\nentries = 100", SEARCH, Ok(100)),
        (137, "name = \"ldap\"\nentries = 138", SEARCH, Err(("`entries` is 138, and ", "write entries=137"))),
        (0, "name = \"ldap\"", SEARCH, Err((" holds no entries, which the workload needs", "leave --no-load"))),
        // A scale is what it is.
        (1, "name = \"select\"", COLD, Ok(100_000)),
        (3, "name = \"select\"\nscale = 3", COLD, Ok(300_000)),
        (3, "name = \"select\"\nscale = 2", COLD, Err(("`scale` is 2, and ", "write scale=3"))),
        (0, "name = \"select\"", COLD, Err((" holds no rows of pgbench_branches", "leave --no-load"))),
    ] {
        let ran = Ran::of(records, AS_IS, given, phases);
        let what = format!("{given} where there are {records}: {:?}", ran.error);
        match (wanted, &ran.error) {
            (Ok(count), None) => {
                let run = ran.run.as_ref().unwrap();
                assert_eq!((run.trials[0].header.record_count, &run.state), (count, &RunState::Complete), "{what}");
                let is_found = given == "name = \"ldap\"";
                assert_eq!(ran.notices(&format!(": entries = {count}, as there ")), is_found, "{what}");
            }
            (Err((words, next)), Some(error)) => {
                assert_eq!(error.kind, StoreErrorKind::Usage, "{what}");
                assert!(error.what.contains(words) && error.next.as_ref().unwrap().contains(next), "{what}");
            }
            _ => panic!("{what}"),
        }
        assert_eq!(ran.far.created.load(Ordering::SeqCst), 0, "{what}: nothing is made");
        // Whatever a run comes to, what it has on a server of others is removed.
        assert_eq!(ran.far.closed.load(Ordering::SeqCst), 1, "{what}");
    }
}

#[test]
fn data_of_others_are_changed_only_if_the_plan_allows_it_and_that_is_announced() {
    let modify = "[[phase]]\ndo = \"drive\"\nops = 5\nmix = { search = 1, modify = 1 }\n";
    let ran = Ran::of(10, AS_IS, "name = \"ldap\"", modify);
    let error = ran.error.unwrap();
    assert!(error.what.contains("this may change data on ") && error.what.contains("modify of entries"), "{error:?}");
    assert!(error.next.unwrap().contains("--allow-writes") && ran.run.is_none(), "nothing is recorded");
    assert_eq!(ran.far.closed.load(Ordering::SeqCst), 0, "it was not opened");
    let ran = Ran::of(10, &format!("{AS_IS}\nallow_writes = true"), "name = \"ldap\"", modify);
    assert_eq!(ran.error, None);
    assert!(ran.notices("creates nothing there, and CHANGES EXISTING DATA by: modify of entries"));
    let ran = Ran::of(10, AS_IS, "name = \"ldap\"", SEARCH);
    assert_eq!(ran.error, None);
    assert!(ran.notices("creates nothing there, and its sessions are read-only"));
    assert!(ran.notices(": over there") && !ran.notices("makes a schema"), "{:?}", ran.heard.notices);
    assert!(!ran.run.unwrap().events.iter().any(|event| event.text.contains("CHANGES")));
}

#[test]
fn an_attached_server_is_neither_restarted_nor_made_cold() {
    let restart = format!("[[phase]]\ndo = \"restart\"\n{SEARCH}");
    let ran = Ran::of(10, AS_IS, "name = \"ldap\"", &restart);
    let error = ran.error.unwrap();
    assert_eq!(error.kind, StoreErrorKind::Usage);
    assert_eq!(error.what, "Plimsoll does not restart an attached far server");
    let run = ran.run.unwrap();
    assert!(matches!(&phase(&run, "restart").end.state, PhaseState::Failed(_)), "{run:?}");
    let cold = format!("{COLD}{SEARCH}");
    let ran = Ran::of(10, AS_IS, "name = \"ldap\"", &cold);
    let run = ran.run.unwrap();
    assert_eq!((ran.error, &run.state), (None, &RunState::Complete));
    let remarks = &phase(&run, "cold").end.remarks;
    assert!(remarks.contains(&(About::NotCold, "Plimsoll does not stop an attached server".to_owned())), "{remarks:?}");
}
