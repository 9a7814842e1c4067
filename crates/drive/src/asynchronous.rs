//! The asynchronous executor: clients of others, on a tokio runtime of the worker's thread.
//!
//! Each session is one task for as long as the phase lasts; nothing is spawned for an operation. A task that has ended
//! its operation asks the core for the next one, and goes on with it where that is its own. What is due by the clock is
//! another task's, the *pump*: it gives operations to idle sessions, and sees to slices, ends and timeouts. It sleeps on
//! a timer of the kernel's (timerfd), as tokio's own are only precise to a millisecond.

mod losses;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};
use std::task::{Context, Poll, Waker};

use plimsoll_core::{Answer, AsyncSession, KindId, Op, OpKind, Outcome, StoreError, ValueBuf};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::task::{JoinHandle, spawn_local};

use crate::clock::{Clock, Ticker};
use crate::control::{Message, WorkerReport};
use crate::worker::{Busy, CHECK_NS, Next, NextStep, Start, WorkerCore};
use losses::Losses;

/// A wait that takes longer has slept.
const SLEPT_NS: u64 = 5_000;
/// Sessions of one worker that are opened at the same time.
const OPENING_MAX: usize = 64;
/// Operations of one session that are answered without a wait, after which others have a turn.
const INSTANT_MAX: u32 = 64;

/// What a session's task is to do next.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// An operation whose parameters are still where the core has them.
    Own(KindId),
    /// One whose parameters were copied.
    Given(KindId),
    /// To go on with an operation of several steps.
    Steps,
    /// To give up one that sleeps.
    GiveUp,
}

/// What came of it.
enum Came {
    /// The operation has ended.
    Over(u64),
    /// It sleeps before its next step.
    Sleeps,
    /// The connection is of no more use; the operation has ended.
    Lost(StoreError),
}

/// Where a session's task waits.
struct Seat {
    work: Cell<Option<Work>>,
    params: RefCell<ValueBuf>,
    waker: RefCell<Option<Waker>>,
    /// When it is woken up, whatever else happens.
    alarm_ns: Cell<u64>,
    /// It was: what it waits for is given up.
    rang: Cell<bool>,
    losses: Losses,
}

impl Seat {
    fn new() -> Self {
        Self {
            work: Cell::new(None),
            params: RefCell::new(ValueBuf::with_capacity(16, 1024)),
            waker: RefCell::new(None),
            alarm_ns: Cell::new(u64::MAX),
            rang: Cell::new(false),
            losses: Losses::default(),
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

/// What the runtime tells of its sleeps. It wants its hooks to be anybody's.
#[derive(Default)]
struct Sleeps {
    /// Only an open loop is told.
    is_told: AtomicBool,
    armed_ns: AtomicU64,
    from_ns: AtomicU64,
    /// Until when everything there was to do is known to have been done; 0 when that has been told.
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
    /// No operation in flight is overdue before this.
    deadline_ns: Cell<u64>,
    /// The session that is opened next, and how many are not open.
    opens_next: Cell<usize>,
    not_ready: Cell<usize>,
    starting: Cell<bool>,
    first_error: RefCell<Option<StoreError>>,
    /// The lane of a task that panicked.
    panicked: Cell<Option<usize>>,
    lost_connections: Cell<u64>,
    failed_connects: Cell<u64>,
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
        ended_connections: 0,
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
        Ok(Self {
            core: RefCell::new(core),
            ticker: RefCell::new(clock.ticker()),
            next_tick_ns: Cell::new(clock.now_ns() + CHECK_NS),
            clock,
            kinds,
            seats: (0..sessions).map(|_| Seat::new()).collect(),
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
            lost_connections: Cell::new(0),
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

    async fn pump(self: Rc<Self>) {
        self.arm(0);
        let open_at_once = self.seats.len().min(OPENING_MAX);
        if self.starting.get() {
            (0..open_at_once).for_each(|_| self.open_next());
        }
        while self.panicked.get().is_none() {
            let now_ns = self.now_ns();
            if self.starting.get() {
                let must_end = self.core.borrow().must_end();
                if self.not_ready.get() == 0 || must_end || self.first_error.borrow().is_some() {
                    return;
                }
            }
            let mut wake_at_ns = self.next_tick_ns.get();
            if !self.starting.get() {
                let Some(due_ns) = self.dispatch(now_ns).await else { return };
                wake_at_ns = wake_at_ns.min(due_ns);
            }
            self.arm(wake_at_ns);
            self.wait().await;
            let now_ns = self.now_ns();
            if now_ns >= self.next_tick_ns.get() {
                let ticks = (now_ns - self.next_tick_ns.get()) / CHECK_NS + 1;
                self.next_tick_ns.set(self.next_tick_ns.get() + ticks * CHECK_NS);
                self.keep_time(now_ns);
            }
        }
    }

    /// Hands out whatever is due. Returns when the next operation or step is; `None` when the phase is over.
    async fn dispatch(&self, mut now_ns: u64) -> Option<u64> {
        loop {
            let next = {
                let mut core = self.core.borrow_mut();
                self.catch_up(&mut core);
                core.check_if_due(now_ns);
                while let Some(lane) = core.awake(now_ns) {
                    self.give(lane, Work::Steps);
                }
                if core.has_ended() && core.in_flight() == 0 {
                    return None;
                }
                let next = core.next(now_ns);
                if let Next::Send { lane, kind, .. } = next {
                    self.give_operation(&core, lane, kind);
                }
                next
            };
            let due_ns = match next {
                // It is sent before another one is asked for: that one's time is not this one's.
                Next::Send { .. } => {
                    give_way().await;
                    now_ns = self.now_ns();
                    continue;
                }
                Next::Steps { lane } => {
                    self.give(lane, Work::Steps);
                    give_way().await;
                    now_ns = self.now_ns();
                    continue;
                }
                Next::SleepUntil(at_ns) => at_ns,
                Next::Wait | Next::Stop => u64::MAX,
            };
            let core = self.core.borrow();
            if core.has_ended() && core.in_flight() == 0 {
                return None;
            }
            let due_ns = due_ns.min(core.awake_at_ns().unwrap_or(u64::MAX));
            // Before what is due it stays awake, and sees to the others.
            let spin_ns = core.spin_ns();
            drop(core);
            if due_ns.saturating_sub(now_ns) > spin_ns {
                return Some(due_ns - spin_ns);
            }
            give_way().await;
            now_ns = self.now_ns();
        }
    }

    /// Slices, ends and timeouts.
    fn keep_time(&self, now_ns: u64) {
        let mut core = self.core.borrow_mut();
        if !self.starting.get() {
            core.check_if_due(now_ns);
            if self.slice.get() != core.slice() {
                self.slice.set(core.slice());
                self.ticker.borrow_mut().anchor_again();
            }
        }
        let drains = core.has_ended() && core.has_steps() || core.is_cancelled();
        if now_ns < self.deadline_ns.get() && self.not_ready.get() == 0 && !drains {
            return;
        }
        let mut next_ns = u64::MAX;
        for (lane, seat) in self.seats.iter().enumerate() {
            let due_ns = core.deadline_ns(lane).unwrap_or(u64::MAX).min(seat.alarm_ns.get());
            if now_ns >= due_ns {
                seat.ring();
            } else {
                next_ns = next_ns.min(due_ns);
            }
        }
        self.deadline_ns.set(next_ns);
    }

    /// Sets the timer.
    fn arm(&self, at_ns: u64) {
        self.sleeps.armed_ns.store(at_ns, Relaxed);
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A time of 0 would take the alarm away.
        let value = Itimerspec { it_interval: never, it_value: self.clock.timespec(at_ns.max(1)) };
        // A descriptor that is there and a time that is one leave nothing to fail.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value);
    }

    /// Sets the timer to an earlier time.
    fn arm_before(&self, at_ns: u64) {
        if at_ns < self.sleeps.armed_ns.load(Relaxed) {
            self.arm(at_ns);
        }
    }

    /// Waits for the timer, or until somebody calls the pump.
    async fn wait(&self) {
        poll_fn(|context| {
            if self.is_called.replace(false) {
                return Poll::Ready(());
            }
            // It is not read: the runtime is told each time that it goes off, and no other.
            if let Poll::Ready(ready) = self.timer.poll_read_ready(context) {
                if let Ok(mut guard) = ready {
                    guard.clear_ready();
                }
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn call(&self) {
        self.is_called.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Tells the core of the runtime's last sleep.
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

/// The tasks of sessions.
impl Worker {
    async fn serve(self: Rc<Self>, lane: usize, mut session: Box<dyn AsyncSession>) {
        let _alarm = Alarm { worker: Rc::clone(&self), lane };
        if !self.open_first(lane, &mut *session).await {
            return;
        }
        let mut answer = Answer::default();
        let (mut next, mut instant) = (None, 0);
        loop {
            let work = match next.take() {
                Some(work) => work,
                None => self.turn(lane).await,
            };
            let (came, has_waited) = self.carry_out(lane, &mut *session, &mut answer, work).await;
            instant = if has_waited { 0 } else { instant + 1 };
            if instant == INSTANT_MAX {
                instant = 0;
                give_way().await;
            }
            next = match came {
                Came::Sleeps => None,
                Came::Over(now_ns) => self.go_on(lane, now_ns),
                Came::Lost(error) => {
                    let now_ns = self.open_again(lane, &mut *session, error).await;
                    self.go_on(lane, now_ns)
                }
            };
        }
    }

    /// Waits for something to do.
    async fn turn(&self, lane: usize) -> Work {
        let seat = &self.seats[lane];
        seat.rang.set(false);
        poll_fn(|context| {
            if let Some(work) = seat.work.take() {
                return Poll::Ready(work);
            }
            if seat.rang.replace(false) {
                return Poll::Ready(Work::GiveUp);
            }
            seat.wait(context);
            Poll::Pending
        })
        .await
    }

    /// What `future` comes to, or nothing when it is given up; and whether it had to be waited for.
    async fn watch<T>(&self, lane: usize, mut future: Pin<Box<dyn Future<Output = T> + '_>>) -> (Option<T>, bool) {
        let seat = &self.seats[lane];
        seat.rang.set(false);
        let mut has_waited = false;
        let came = poll_fn(|context| {
            if seat.rang.replace(false) {
                return Poll::Ready(None);
            }
            if let Poll::Ready(came) = future.as_mut().poll(context) {
                return Poll::Ready(Some(came));
            }
            has_waited = true;
            seat.wait(context);
            Poll::Pending
        })
        .await;
        (came, has_waited)
    }

    async fn carry_out(
        &self,
        lane: usize,
        session: &mut dyn AsyncSession,
        answer: &mut Answer,
        work: Work,
    ) -> (Came, bool) {
        answer.clear();
        let future = {
            let core = self.core.borrow();
            self.deadline_ns.set(self.deadline_ns.get().min(core.begun(lane).sent_ns + core.settings.op_timeout_ns));
            match work {
                Work::Own(kind) => session.execute(&core.op(kind), answer),
                Work::Given(kind) => session.execute(&Op::new(kind, self.seats[lane].params.borrow().values()), answer),
                Work::Steps => {
                    drop(core);
                    return (self.steps(lane, session, answer).await, true);
                }
                Work::GiveUp => {
                    let is_asleep = core.busy(lane) == Busy::Steps;
                    drop(core);
                    let came = if is_asleep { Came::Over(self.give_up(lane, "", answer)) } else { Came::Sleeps };
                    return (came, true);
                }
            }
        };
        let (outcome, has_waited) = self.watch(lane, future).await;
        let came = match outcome {
            Some(outcome) => {
                let now_ns = self.now_ns();
                let mut core = self.core.borrow_mut();
                self.catch_up(&mut core);
                core.finish(lane, now_ns, outcome, answer);
                self.seats[lane].losses.answered();
                session.lost().map_or(Came::Over(now_ns), Came::Lost)
            }
            None => self.unanswered(lane, session, answer),
        };
        (came, has_waited)
    }

    /// Takes an operation through its steps, to its end or to one before which it sleeps.
    async fn steps(&self, lane: usize, session: &mut dyn AsyncSession, answer: &mut Answer) -> Came {
        loop {
            let now_ns = self.now_ns();
            let future = {
                let mut core = self.core.borrow_mut();
                let awake_at_ns = core.awake_at_ns();
                match core.step(lane, 1, now_ns) {
                    NextStep::Send(op) => {
                        answer.clear();
                        session.execute(&op, answer)
                    }
                    NextStep::Wait => {
                        self.arm_before(core.awake_at_ns().or(awake_at_ns).unwrap_or(u64::MAX));
                        return Came::Sleeps;
                    }
                    NextStep::Over => return Came::Over(now_ns),
                }
            };
            let timeout_ns = self.core.borrow().settings.op_timeout_ns;
            self.deadline_ns.set(self.deadline_ns.get().min(now_ns + timeout_ns));
            let (outcome, _) = self.watch(lane, future).await;
            let Some(outcome) = outcome else { return self.unanswered(lane, session, answer) };
            let now_ns = self.now_ns();
            let mut core = self.core.borrow_mut();
            self.catch_up(&mut core);
            core.answered(lane, now_ns, outcome, answer);
            if let Some(error) = session.lost() {
                answer.fail(Outcome::Unknown, "connection", &error.to_string());
                core.give_up(lane, now_ns, answer);
                return Came::Lost(error);
            }
        }
    }

    /// The session of `lane` is free; what it does next.
    fn go_on(&self, lane: usize, now_ns: u64) -> Option<Work> {
        let mut core = self.core.borrow_mut();
        core.release(lane, now_ns);
        match core.next(now_ns) {
            Next::Send { lane: next, kind, .. } if next == lane => return Some(Work::Own(kind)),
            Next::Steps { lane: next } if next == lane => return Some(Work::Steps),
            Next::Send { lane: next, kind, .. } => self.give_operation(&core, next, kind),
            Next::Steps { lane: next } => self.give(next, Work::Steps),
            Next::SleepUntil(at_ns) => self.arm_before(at_ns.saturating_sub(core.spin_ns())),
            Next::Wait => {}
            Next::Stop if core.in_flight() == 0 => self.call(),
            Next::Stop => {}
        }
        None
    }
}

/// Has the pump know when the task of a session panicked.
struct Alarm {
    worker: Rc<Worker>,
    lane: usize,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.panicked.set(Some(self.lane));
            self.worker.call();
        }
    }
}

/// Lets all tasks run that can.
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
