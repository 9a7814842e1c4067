//! Stores in this process for simulated runs: a test sets what they answer, and sees what was asked of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_core::{
    Answer, BlockingSession, CacheSize, Call, Cycle, Durability, Footprint, KindId, KvCall, Layout, Op, OpKind,
    OpenOptions, Outcome, Probe, Reading, Sessions, Setting, Store, StoreDescription, StoreError, StoreKind, StoreSpec,
    ValueBuf, Values,
};
use plimsoll_testkit::lying_kv::Pairs;

/// Promise of a toy's settings.
pub const PROMISE: &str = "A write survives nothing.";

/// Misbehaviour of a toy, its answers, and what was done to it.
#[derive(Default)]
pub struct ToyState {
    /// Acknowledges writes without doing them.
    pub forgets: AtomicBool,
    /// Number of writes after which it refuses others; 0 for none.
    pub refuses_after: AtomicU64,
    /// Cannot be opened.
    pub is_locked: AtomicBool,
    /// Times that it was opened.
    pub opened: AtomicU32,
    /// Times that it was closed.
    pub closed: AtomicU32,
    /// Takes a load at once, without this record, if there is one.
    pub takes_loads: Mutex<Option<Option<u64>>>,
    /// Loses all data when it is opened again.
    pub empties: AtomicBool,
    /// Size of its cache.
    pub cache: Mutex<Option<CacheSize>>,
    /// Words of its integrity check.
    pub integrity: Mutex<Option<String>>,
    /// Counts its writes, as cycles of work, and tells a level.
    pub counts: AtomicBool,
    /// Cannot read its counters while it is driven.
    pub counts_badly: AtomicBool,
    /// Another node is silent until the counters of this one were read while it was driven.
    pub has_silent_node: AtomicBool,
    /// Number of readings of its counters while it was driven.
    pub reads_beside: AtomicU64,
    /// The silent node gave up.
    pub was_waited_for: AtomicBool,
    /// Tells settings of sessions, which depend on the durability.
    pub has_settings: AtomicBool,
    /// Cycle of its own work.
    pub cycle: Mutex<Option<Cycle>>,
    /// Errors of calls, by their names.
    errors: Mutex<BTreeMap<&'static str, StoreError>>,
    /// Calls that change the store, in order.
    calls: Mutex<Vec<&'static str>>,
    writes: AtomicU64,
}

impl ToyState {
    /// Makes all calls of this name fail.
    pub fn fails(&self, call: &'static str, error: StoreError) {
        self.errors.lock().unwrap().insert(call, error);
    }

    /// Returns the calls that changed the store, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the error of a call, if there is one.
    fn asked(&self, call: &str) -> Result<(), StoreError> {
        self.errors.lock().unwrap().get(call).cloned().map_or(Ok(()), Err)
    }

    /// Notes a call that changes the store.
    fn called(&self, call: &'static str) -> Result<(), StoreError> {
        self.calls.lock().unwrap().push(call);
        self.asked(call)
    }
}

/// Kind of store that keeps pairs in memory.
pub struct ToyKind {
    spec: StoreSpec,
    state: Arc<ToyState>,
}

impl ToyKind {
    /// Makes a kind of this name, whose stores share a state.
    pub fn named(name: &'static str, state: &Arc<ToyState>) -> Box<dyn StoreKind> {
        Self::with(StoreSpec { name, ..Pairs::honest().spec().clone() }, state)
    }

    /// Makes a kind with this description.
    pub fn with(spec: StoreSpec, state: &Arc<ToyState>) -> Box<dyn StoreKind> {
        Box::new(Self { spec, state: Arc::clone(state) })
    }
}

impl StoreKind for ToyKind {
    fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        if self.state.is_locked.load(Ordering::SeqCst) {
            return Err(StoreError::broken("the toy is locked"));
        }
        self.state.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Toy { pairs: Pairs::honest().open(options, progress)?, state: Arc::clone(&self.state) }))
    }
}

struct Toy {
    pairs: Box<dyn Store>,
    state: Arc<ToyState>,
}

impl Store for Toy {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        self.pairs.describe()
    }

    fn settings_in_force(&mut self, durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        let sync = if durability == Durability::Durable { "always" } else { "never" };
        let settings = [("sync", sync), ("cache", "2")].map(|(name, value)| Setting::new(name, value, None, "server"));
        Ok(self.state.has_settings.load(Ordering::SeqCst).then(|| settings.to_vec()))
    }

    fn demand(&mut self, durability: Durability) -> Result<(), StoreError> {
        if durability == Durability::Durable { self.state.asked("demand") } else { Ok(()) }
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        Ok(PROMISE.to_owned())
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.state.called("create")?;
        self.pairs.create(layout)
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        self.state.asked("sessions")?;
        let Sessions::Blocking(sessions) = self.pairs.sessions(count, durability)? else { panic!("its calls block") };
        let of = |pairs| -> Box<dyn BlockingSession> {
            Box::new(ToySession { pairs, kinds: Vec::new(), state: Arc::clone(&self.state) })
        };
        Ok(Sessions::Blocking(sessions.into_iter().map(of).collect()))
    }

    fn load_at_once(
        &mut self,
        kinds: &[OpKind],
        durability: Durability,
        next: &mut dyn FnMut(&mut ValueBuf) -> Option<KindId>,
    ) -> Result<Option<String>, StoreError> {
        let Some(without) = *self.state.takes_loads.lock().unwrap() else { return Ok(None) };
        let Sessions::Blocking(mut sessions) = self.pairs.sessions(1, durability)? else { panic!("its calls block") };
        sessions[0].prepare(kinds)?;
        let (mut params, mut answer) = (ValueBuf::new(), Answer::default());
        for number in 0.. {
            let Some(kind) = next(&mut params) else { break };
            if Some(number) != without {
                sessions[0].execute(&Op::new(kind, params.values()), &mut answer);
            }
        }
        Ok(Some("from a box".to_owned()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.state.called("sync")?;
        self.pairs.sync()
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        self.state.called("settle")
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.state.called("disconnect")
    }

    fn reconnect(&mut self) -> Result<(), StoreError> {
        self.state.called("reconnect")?;
        if self.state.empties.load(Ordering::SeqCst) { self.pairs.create(&Layout::NOTHING) } else { Ok(()) }
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        self.state.asked("footprint")?;
        self.pairs.footprint()
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        self.state.asked("cache")?;
        Ok(*self.state.cache.lock().unwrap())
    }

    fn explain(&mut self, kind: &OpKind, _: Values<'_>) -> Result<Option<String>, StoreError> {
        self.state.asked("explain")?;
        Ok(Some(format!("{} by hand", kind.name)))
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        self.state.asked("integrity")?;
        Ok(self.state.integrity.lock().unwrap().clone())
    }

    fn probes(&mut self) -> Vec<Probe> {
        let state = Arc::clone(&self.state);
        let read = move || {
            let is_beside = std::thread::current().name() == Some("counters");
            if is_beside && state.counts_badly.load(Ordering::SeqCst) {
                return Err(StoreError::broken("the toy cannot count"));
            }
            state.reads_beside.fetch_add(u64::from(is_beside), Ordering::SeqCst);
            let writes = state.writes.load(Ordering::SeqCst) as f64;
            Ok(vec![Reading::cycle("", "flushes", "", writes), Reading::level("", "dust", "B", 7.0)])
        };
        let state = Arc::clone(&self.state);
        let silent = move || -> Result<Vec<Reading>, StoreError> {
            let (began, is_beside) = (Instant::now(), std::thread::current().name() == Some("counters"));
            let is_first = || state.reads_beside.load(Ordering::SeqCst) == 0;
            while is_beside && is_first() && began.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(1));
            }
            state.was_waited_for.fetch_or(is_beside && is_first(), Ordering::SeqCst);
            Ok(Vec::new())
        };
        // The silent one first, for which the other would have to wait if they were asked in turn.
        let silent = self.state.has_silent_node.load(Ordering::SeqCst).then(|| -> Probe { Box::new(silent) });
        let own = self.state.counts.load(Ordering::SeqCst).then(|| -> Probe { Box::new(read) });
        silent.into_iter().chain(own).collect()
    }

    fn cycle(&mut self) -> Result<Option<Cycle>, StoreError> {
        Ok(self.state.cycle.lock().unwrap().clone())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.state.closed.fetch_add(1, Ordering::SeqCst);
        self.state.called("close")?;
        self.pairs.close()
    }
}

struct ToySession {
    pairs: Box<dyn BlockingSession>,
    kinds: Vec<OpKind>,
    state: Arc<ToyState>,
}

impl BlockingSession for ToySession {
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.kinds = kinds.to_vec();
        self.pairs.prepare(kinds)
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let writes = self.kinds[usize::from(op.kind)].call == Call::Kv(KvCall::Put);
        if writes && self.state.forgets.load(Ordering::SeqCst) {
            return Outcome::Ok;
        }
        let before = self.state.writes.fetch_add(u64::from(writes), Ordering::SeqCst);
        let most = self.state.refuses_after.load(Ordering::SeqCst);
        if writes && most > 0 && before >= most {
            return answer.fail(Outcome::Rejected, "full", "the toy takes no more");
        }
        self.pairs.execute(op, answer)
    }
}
