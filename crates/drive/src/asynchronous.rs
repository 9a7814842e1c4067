//! The asynchronous executor: clients of others, on a tokio runtime of the worker's thread.
//!
//! Each session is one task for as long as the phase lasts; nothing is spawned for an operation. A task that has
//! completed its operation requests the next one from the core, and performs it if it is its own. Operations that are
//! due by the clock belong to another task, the *pump*: it gives operations to idle sessions, and handles slices, ends
//! and time-outs. It sleeps on a timer of the kernel's (timerfd), as tokio's own are only precise to a millisecond.

mod losses;
mod pump;
mod tasks;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};
use std::task::{Context, Poll, Waker};

use plimsoll_core::{AsyncSession, KindId, OpKind, StoreError, ValueBuf};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::task::{JoinHandle, spawn_local};

use crate::backoff::Attempts;
use crate::clock::{Clock, Ticker};
use crate::control::{Message, WorkerReport};
use crate::link::LostConnections;
use crate::worker::{CHECK_NS, Start, WorkerCore};
use losses::Losses;

/// A wait that takes longer has slept.
const SLEPT_NS: u64 = 5_000;
/// Sessions of one worker that are opened at the same time.
const OPENING_MAX: usize = 64;
/// Operations of one session that are answered without a wait, after which others have a turn.
const INSTANT_MAX: u32 = 64;

/// Next action of a session's task.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// An operation whose parameters are still where the core has them.
    Own(KindId),
    /// An operation whose parameters were copied.
    Given(KindId),
    /// Continues an operation of several steps.
    Steps,
    /// Gives up an operation that sleeps.
    GiveUp,
}

/// Result of an operation's step.
enum Came {
    /// The operation has ended.
    Over(u64),
    /// The operation sleeps before its next step.
    Sleeps,
    /// The connection is of no more use; the operation has ended.
    Lost(StoreError),
}

/// Place at which a session's task waits.
struct Seat {
    work: Cell<Option<Work>>,
    params: RefCell<ValueBuf>,
    waker: RefCell<Option<Waker>>,
    /// Time at which it is woken up, whatever else happens.
    alarm_ns: Cell<u64>,
    /// True after the alarm: the wait is given up.
    rang: Cell<bool>,
    losses: Losses,
    attempts: RefCell<Attempts>,
}

impl Seat {
    fn new(attempts: Attempts) -> Self {
        Self {
            work: Cell::new(None),
            params: RefCell::new(ValueBuf::with_capacity(16, 1024)),
            waker: RefCell::new(None),
            alarm_ns: Cell::new(u64::MAX),
            rang: Cell::new(false),
            losses: Losses::default(),
            attempts: RefCell::new(attempts),
        }
    }

    fn wait(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    fn ring(&self) {
        self.alarm_ns.set(u64::MAX);
        self.rang.set(true);
        self.wake();
    }
}

/// Sleeps of the runtime, reported by its hooks. The runtime requires that hooks can be shared by all threads.
#[derive(Default)]
struct Sleeps {
    /// True for an open loop, which alone is told.
    is_told: AtomicBool,
    armed_ns: AtomicU64,
    from_ns: AtomicU64,
    /// Time until which all due work is known to be done; 0 after it was reported.
    caught_up_ns: AtomicU64,
}

impl Sleeps {
    fn begin(&self, clock: &Clock) {
        if self.is_told.load(Relaxed) {
            self.from_ns.store(clock.now_ns(), Relaxed);
        }
    }

    fn end(&self, clock: &Clock) {
        if !self.is_told.load(Relaxed) {
            return;
        }
        let (from_ns, now_ns) = (self.from_ns.load(Relaxed), clock.now_ns());
        if now_ns.saturating_sub(from_ns) > SLEPT_NS {
            // Had it been running, it would have been awake by then.
            let armed_ns = self.armed_ns.load(Relaxed);
            self.caught_up_ns.store(now_ns.min(armed_ns).max(from_ns), Relaxed);
        }
    }
}

struct Worker {
    core: RefCell<WorkerCore>,
    ticker: RefCell<Ticker>,
    clock: Clock,
    kinds: Arc<[OpKind]>,
    seats: Box<[Seat]>,
    timer: AsyncFd<OwnedFd>,
    sleeps: Arc<Sleeps>,
    /// The pump's.
    waker: RefCell<Option<Waker>>,
    is_called: Cell<bool>,
    next_tick_ns: Cell<u64>,
    slice: Cell<u32>,
    /// Time before which no operation in flight is overdue.
    deadline_ns: Cell<u64>,
    /// The session that is opened next, and how many are not open.
    opens_next: Cell<usize>,
    not_ready: Cell<usize>,
    starting: Cell<bool>,
    first_error: RefCell<Option<StoreError>>,
    /// The lane of a task that panicked.
    panicked: Cell<Option<usize>>,
    lost_connections: Cell<LostConnections>,
    ended_connections: Cell<u64>,
    failed_connects: Cell<u64>,
    asked_again: Cell<u64>,
    down_ns: Cell<u64>,
}

/// Opens the sessions, waits for the phase to start, and drives it to its end.
pub(crate) fn run(
    number: usize,
    core: WorkerCore,
    sessions: Vec<Box<dyn AsyncSession>>,
    kinds: Arc<[OpKind]>,
    clock: Clock,
    go: &Receiver<Start>,
    to_control: &Sender<Message>,
) {
    // Without it the kernel may be 50 µs late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let sleeps = Arc::<Sleeps>::default();
    let ready = runtime(&sleeps, clock).and_then(|runtime| {
        let count = sessions.len();
        let worker = runtime.block_on(async { Worker::new(core, count, kinds, clock, sleeps) })?;
        Ok((runtime, Rc::new(worker)))
    });
    let (runtime, worker) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            let error = StoreError::io("making a tokio runtime and a timer", &error);
            return drop(to_control.send(Message::Opened(Err(error))));
        }
    };
    let mut tasks: Vec<JoinHandle<()>> = runtime.block_on(async {
        let task = |(lane, session)| spawn_local(Rc::clone(&worker).serve(lane, session));
        sessions.into_iter().enumerate().map(task).collect()
    });
    worker.run_pump(&runtime, &mut tasks);
    let opened = worker.first_error.take().map_or(Ok(()), Err);
    // Otherwise the phase is not wanted any more.
    if opened.is_ok() && worker.not_ready.get() > 0 {
        return;
    }
    let failed = opened.is_err();
    if to_control.send(Message::Opened(opened)).is_err() || failed {
        return;
    }
    let Ok(start) = go.recv() else { return };
    worker.begin(start);
    worker.run_pump(&runtime, &mut tasks);
    // The tasks go with their runtime, and the sessions with them.
    drop(tasks);
    drop(runtime);
    let Some(worker) = Rc::into_inner(worker) else { return };
    let end_ns = worker.now_ns();
    let down_ns: u64 = worker.seats.iter().map(|seat| seat.losses.down_ns(end_ns)).sum();
    let report = WorkerReport {
        core: worker.core.into_inner().report(),
        io: None,
        lost_connections: worker.lost_connections.get(),
        ended_connections: worker.ended_connections.get(),
        asked_again: worker.asked_again.get(),
        answers: None,
        failed_connects: worker.failed_connects.get(),
        connects: None,
        down_ns: worker.down_ns.get() + down_ns,
    };
    let _ = to_control.send(Message::Done { worker: number, report: Box::new(report) });
}

fn runtime(sleeps: &Arc<Sleeps>, clock: Clock) -> io::Result<LocalRuntime> {
    let (begin, end) = (Arc::clone(sleeps), Arc::clone(sleeps));
    Builder::new_current_thread()
        .enable_io()
        .on_thread_park(move || begin.begin(&clock))
        .on_thread_unpark(move || end.end(&clock))
        .build_local(LocalOptions::default())
}

impl Worker {
    /// Called within the runtime, which looks after the timer.
    fn new(
        core: WorkerCore,
        sessions: usize,
        kinds: Arc<[OpKind]>,
        clock: Clock,
        sleeps: Arc<Sleeps>,
    ) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: an owned descriptor is the same one, and open, for as long as its owner lives.
        let timer = unsafe { AsyncFd::register(timer) }?;
        let (backoff, seed) = (core.settings.backoff, core.settings.seed);
        let seat = |lane| Seat::new(Attempts::new(backoff, seed, core.client(lane).into()));
        let seats = (0..sessions).map(seat).collect();
        Ok(Self {
            core: RefCell::new(core),
            ticker: RefCell::new(clock.ticker()),
            next_tick_ns: Cell::new(clock.now_ns() + CHECK_NS),
            clock,
            kinds,
            seats,
            timer,
            sleeps,
            waker: RefCell::new(None),
            is_called: Cell::new(false),
            slice: Cell::new(0),
            deadline_ns: Cell::new(u64::MAX),
            opens_next: Cell::new(0),
            not_ready: Cell::new(sessions),
            starting: Cell::new(true),
            first_error: RefCell::new(None),
            panicked: Cell::new(None),
            lost_connections: Cell::default(),
            ended_connections: Cell::new(0),
            asked_again: Cell::new(0),
            failed_connects: Cell::new(0),
            down_ns: Cell::new(0),
        })
    }

    fn begin(&self, start: Start) {
        self.starting.set(false);
        let start_ns = self.core.borrow_mut().begin(start);
        self.sleeps.is_told.store(self.core.borrow().is_open(), Relaxed);
        self.next_tick_ns.set(start_ns + CHECK_NS);
        let mut ticker = self.ticker.borrow_mut();
        ticker.sleep_until(start_ns);
        ticker.anchor_again();
        drop(ticker);
        let now_ns = self.now_ns();
        let mut core = self.core.borrow_mut();
        (0..self.seats.len()).for_each(|lane| core.release(lane, now_ns));
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.ticker.borrow_mut().now_ns()
    }

    /// Runs the pump, and with it everything else, until it is done.
    fn run_pump(self: &Rc<Self>, runtime: &LocalRuntime, tasks: &mut [JoinHandle<()>]) {
        // A task of its own: what the runtime runs beside tasks costs a system call each time it is woken.
        let ended = runtime.block_on(async { spawn_local(Rc::clone(self).pump()).await });
        let panic = match (ended, self.panicked.get()) {
            (Err(error), _) => error.try_into_panic().ok(),
            (Ok(()), Some(lane)) => {
                tasks.get_mut(lane).and_then(|task| runtime.block_on(task).err()?.try_into_panic().ok())
            }
            (Ok(()), None) => None,
        };
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    }

    fn call(&self) {
        self.is_called.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Reports the runtime's last sleep to the core.
    #[inline]
    fn catch_up(&self, core: &mut WorkerCore) {
        let at_ns = self.sleeps.caught_up_ns.load(Relaxed);
        if at_ns > 0 {
            self.sleeps.caught_up_ns.store(0, Relaxed);
            core.caught_up(at_ns);
        }
    }

    fn give(&self, lane: usize, work: Work) {
        self.seats[lane].work.set(Some(work));
        self.seats[lane].wake();
    }

    fn give_operation(&self, core: &WorkerCore, lane: usize, kind: KindId) {
        let mut params = self.seats[lane].params.borrow_mut();
        params.clear();
        params.extend(core.op(kind).params);
        drop(params);
        self.give(lane, Work::Given(kind));
    }
}

/// Yields until all other runnable tasks have run.
async fn give_way() {
    let mut has = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
