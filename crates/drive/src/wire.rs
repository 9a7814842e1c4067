//! The wire executor: many sessions on one thread, over a [`Reactor`].
//!
//! A wait in a closed loop has no timeout: a timer ticks every 10 ms for everything that is due by the
//! clock (a timer armed and cancelled with each wait would cost more than the wait). In an open loop the
//! wait ends when the next operation is due.

mod branches;
mod losses;
mod outgoing;
mod put_off;

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use hdrhistogram::Histogram;
use plimsoll_core::pace::{Io, WakeMode};
use plimsoll_core::{Answer, AnswerTally, CompletionSink, OpKind, Outcome, StoreError, Ticket, WireState};
use rustix::io::Errno;

use crate::alarm::Alarms;
use crate::clock::Ticker;
use crate::control::{Message, WorkerReport};
use crate::histogram::Digits;
use crate::link::{LostConnections, SessionLink, Stage};
use crate::reactor::{Epoll, Event, Reactor, Uring};
use crate::result::IoUsed;
use crate::spec::SPIN_NS;
use crate::worker::{Busy, CHECK_NS, Start, WorkerCore};
use branches::BranchTable;
use losses::Loss;
use outgoing::Lanes;
use put_off::ANSWER_NS;

/// A wait that takes longer has slept: without, it takes less than a microsecond.
const SLEPT_NS: u64 = 5_000;
/// Sessions of one worker that connect, greet and prepare at the same time: enough to keep a server busy, and not so
/// many that it times out on some of them.
const OPENING_MAX: usize = 64;
/// Sessions of a worker, its socket loop and its core.
pub(crate) struct WireWorker<R> {
    core: WorkerCore,
    ticker: Ticker,
    kinds: Arc<[OpKind]>,
    links: Vec<SessionLink>,
    lanes: Lanes,
    branches: BranchTable,
    reactor: R,
    io: IoUsed,
    /// Time before which no operation in flight is overdue.
    deadline_ns: u64,
    /// Time before which no operation is sent again that a server has put off.
    again_ns: u64,
    /// Sessions that are not ready.
    not_ready: usize,
    /// True before the phase's start, when the first lost connection ends it.
    starting: bool,
    first_error: Option<StoreError>,
    /// Reason for which operations end or are put off, in memory that is used again.
    failure: Answer,
    lost_connections: LostConnections,
    /// Connections that servers ended gracefully.
    ended_connections: u64,
    /// Connections that could not be opened.
    failed_connects: u64,
    /// Operations to a connection, and how long each but the first took to be opened; none where connections stay.
    reconnects: Option<(u32, Histogram<u64>)>,
    down_ns: u64,
    slice: u32,
    ticks_from_ns: u64,
    alarms: Alarms,
    /// Time of the next tick, and the tick that the reactor is set to: in an open loop it is set to one at a time, and
    /// not to those that an arrival precedes.
    next_tick_ns: u64,
    set_tick_ns: u64,
    /// Start and end of the last wait.
    waited_ns: (u64, u64),
}

/// Parts of a wire worker.
pub(crate) struct Wire {
    pub core: WorkerCore,
    pub links: Vec<SessionLink>,
    pub kinds: Arc<[OpKind]>,
    pub ticker: Ticker,
    pub io: Io,
    pub reconnect: Option<u32>,
}

impl Wire {
    /// Drives the worker's sessions over whichever reactor is wanted and to be had.
    pub fn run(self, worker: usize, go: &Receiver<Start>, to_control: &Sender<Message>) {
        if let Err(error) = self.try_run(worker, go, to_control) {
            let _ = to_control.send(Message::Opened(Err(error)));
        }
    }

    fn try_run(mut self, worker: usize, go: &Receiver<Start>, to_control: &Sender<Message>) -> Result<(), StoreError> {
        let branches = BranchTable::of(&mut self.links);
        let slots = self.links.len() + branches.len();
        let why_not = match self.io {
            Io::Epoll => None,
            Io::Auto | Io::IoUring => match Uring::new(slots) {
                Ok(reactor) => {
                    self.over(reactor, branches, IoUsed::Uring).run(worker, go, to_control);
                    return Ok(());
                }
                Err(error) if self.io == Io::IoUring => {
                    return Err(StoreError::io("setting up io_uring", &error)
                        .next("use epoll instead (io = \"epoll\"), or Linux 6.1 or later with io_uring allowed"));
                }
                Err(error) => Some(error.to_string()),
            },
        };
        let reactor =
            Epoll::new(slots).map_err(|error| StoreError::io("making an epoll instance and a timer", &error))?;
        self.over(reactor, branches, IoUsed::Epoll(why_not)).run(worker, go, to_control);
        Ok(())
    }
}

struct Completions<'a> {
    core: &'a mut WorkerCore,
    lanes: Range<usize>,
    /// True if a lane takes another operation when its last one has ended.
    releases: bool,
    now_ns: u64,
    /// The number of the server that answers, where a session asks several.
    server: Option<usize>,
    /// False if the session has other connections, which go on when this one ends.
    is_only: bool,
    /// `None` if operations that the server puts off are not sent again.
    put_off: Option<PutOff<'a>>,
    /// True if the server has put one off.
    has_put_off: bool,
    /// Operations that have ended, and those of them whose lane was kept.
    finished: u32,
    kept: u32,
    /// The lane of an operation of several steps that may get further.
    stepped: Option<usize>,
}

/// Operations that the server puts off.
struct PutOff<'a> {
    /// Longest wait before they are sent again.
    wait_max_ns: u64,
    /// The newest answer by which it has put one off.
    refusal: &'a mut Answer,
}

impl<'a> Completions<'a> {
    #[inline]
    fn new(core: &'a mut WorkerCore, lanes: Range<usize>, releases: bool, now_ns: u64) -> Self {
        let (server, is_only, put_off, has_put_off) = (None, true, None, false);
        let (finished, kept, stepped) = (0, 0, None);
        Self { core, lanes, releases, now_ns, server, is_only, put_off, has_put_off, finished, kept, stepped }
    }
}

impl CompletionSink for Completions<'_> {
    #[inline]
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer) {
        // A session that answers what was not asked, or twice, is broken; its word counts for nothing here.
        let lane = ticket.0 as usize;
        if !self.lanes.contains(&lane) {
            return;
        }
        if let Some(server) = self.server {
            self.core.asks_server(lane, server);
        }
        match self.core.busy(lane) {
            Busy::Op => {
                self.core.finish(lane, self.now_ns, outcome, answer);
                if self.releases {
                    self.core.release(lane, self.now_ns);
                    self.finished += 1;
                } else {
                    self.kept += 1;
                }
            }
            Busy::Steps => {
                self.core.answered(lane, self.now_ns, outcome, answer);
                self.stepped = Some(lane);
            }
            Busy::No => {}
        }
    }

    fn not_begun(&mut self, ticket: Ticket) -> bool {
        let lane = ticket.0 as usize;
        self.is_only && self.lanes.contains(&lane) && self.core.wait_for_connection(lane)
    }

    /// Puts the operation off if it can be sent again before its time-out.
    #[cold]
    fn put_off(&mut self, ticket: Ticket, refusal: &Answer) -> bool {
        let lane = ticket.0 as usize;
        let is_own = self.lanes.contains(&lane);
        let Some(put_off) = self.put_off.as_mut().filter(|_| is_own) else { return false };
        // The wait ends with a tick, and a tick is left for the answer.
        let again_ns = self.now_ns.saturating_add(put_off.wait_max_ns).saturating_add(CHECK_NS + ANSWER_NS);
        let is_in_time = self.core.deadline_ns(lane).is_some_and(|deadline_ns| again_ns < deadline_ns);
        let waits = is_in_time && self.core.wait_for_connection(lane);
        if waits {
            put_off.refusal.fail(Outcome::Rejected, &refusal.code, &refusal.message);
            self.has_put_off = true;
        }
        waits
    }
}

impl Wire {
    fn over<R>(self, reactor: R, branches: BranchTable, io: IoUsed) -> WireWorker<R> {
        let Wire { core, links, kinds, ticker, reconnect, .. } = self;
        WireWorker {
            lanes: Lanes::new(links.len(), core.lane_count()),
            alarms: Alarms::new(match core.settings.wake {
                WakeMode::Precise => None,
                WakeMode::Spin => Some(SPIN_NS),
                WakeMode::Coarse => Some(0),
            }),
            next_tick_ns: u64::MAX,
            set_tick_ns: 0,
            waited_ns: (0, 0),
            core,
            ticker,
            kinds,
            not_ready: links.len(),
            links,
            branches,
            reactor,
            io,
            deadline_ns: u64::MAX,
            again_ns: u64::MAX,
            starting: true,
            first_error: None,
            failure: Answer::default(),
            lost_connections: LostConnections::default(),
            ended_connections: 0,
            failed_connects: 0,
            reconnects: reconnect.map(|each| (each, Digits::Three.empty())),
            down_ns: 0,
            slice: 0,
            ticks_from_ns: 0,
        }
    }
}

impl<R: Reactor> WireWorker<R> {
    /// Opens all sessions, waits for the phase to start, and drives it to its end.
    pub fn run(mut self, worker: usize, go: &Receiver<Start>, to_control: &Sender<Message>) {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let opened = match self.open_all() {
            Ok(true) => Ok(()),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        let failed = opened.is_err();
        if to_control.send(Message::Opened(opened)).is_err() || failed {
            return;
        }
        let Ok(start) = go.recv() else { return };
        self.starting = false;
        let start_ns = self.core.begin(start);
        self.tick_from(start_ns);
        self.ticker.sleep_until(start_ns);
        self.ticker.anchor_again();
        self.drive();
        let end_ns = self.ticker.now_ns();
        for (slot, link) in self.links.iter_mut().enumerate() {
            self.down_ns += link.connection.down_ns(end_ns);
            let is_ready = link.connection.stage == Stage::Ready;
            if is_ready && link.out.is_empty() && link.hung_up.is_none() && !link.is_branched {
                link.session.close(&mut link.out);
                self.reactor.say_goodbye(slot, &link.out);
            }
            self.reactor.close(slot);
        }
        self.leave_branches(end_ns);
        let by_sessions: u64 = self.links.iter().map(|link| link.session.asked_again()).sum();
        let asked_again = self.core.asked_again() + by_sessions;
        let mut answers = None::<AnswerTally>;
        let tallies = self.links.iter().filter_map(|link| link.session.tally());
        tallies.for_each(|more| answers.get_or_insert_default().add(&more));
        let report = WorkerReport {
            core: self.core.report(),
            io: Some(self.io),
            lost_connections: self.lost_connections,
            ended_connections: self.ended_connections,
            failed_connects: self.failed_connects,
            asked_again,
            answers,
            connects: self.reconnects.map(|(_, times)| times),
            down_ns: self.down_ns,
        };
        let _ = to_control.send(Message::Done { worker, report: Box::new(report) });
    }

    /// False when the phase is not wanted any more.
    fn open_all(&mut self) -> Result<bool, StoreError> {
        let start_ns = self.ticker.now_ns();
        self.tick_from(start_ns);
        self.keep_time(start_ns);
        while self.not_ready > 0 && self.first_error.is_none() && !self.core.must_end() {
            self.poll(None);
            let now_ns = self.ticker.now_ns();
            self.keep_time(now_ns);
        }
        self.first_error.take().map_or(Ok(self.not_ready == 0), Err)
    }

    fn drive(&mut self) {
        let now_ns = self.ticker.now_ns();
        for lane in self.lanes.first_order(self.core.is_open()) {
            self.core.release(lane, now_ns);
        }
        let mut now_ns = now_ns;
        loop {
            let wake_at_ns = self.dispatch(now_ns);
            if self.core.has_ended() && self.core.in_flight() == 0 {
                return;
            }
            self.poll(wake_at_ns);
            now_ns = self.ticker.now_ns();
        }
    }

    /// Waits for sockets or for `wake_at_ns`. In an open loop it tells the core when there was nothing to do, which is
    /// what lateness is told from.
    #[inline]
    fn wait(&mut self, wake_at_ns: Option<u64>) -> Result<(), Errno> {
        if !self.core.is_open() {
            let wait_ns = wake_at_ns.map(|at_ns| at_ns.saturating_sub(self.ticker.now_ns()));
            return self.reactor.wait(wait_ns);
        }
        let before_ns = self.ticker.now_ns();
        let left_ns = wake_at_ns.map(|at_ns| at_ns.saturating_sub(before_ns));
        let wait_ns = match (wake_at_ns, left_ns) {
            (_, Some(0)) => Some(0),
            (_, Some(left_ns)) if left_ns <= self.alarms.lead_ns() => {
                self.core.caught_up(before_ns);
                self.waited_ns = (before_ns, before_ns);
                return self.reactor.wait(Some(0));
            }
            (Some(at_ns), Some(left_ns)) => {
                let clock = self.ticker.clock();
                let is_set = self.alarms.set(before_ns, at_ns, &mut self.core, clock, &mut self.reactor);
                (!is_set).then(|| left_ns.saturating_sub(self.alarms.lead_ns()))
            }
            _ => None,
        };
        if wake_at_ns.is_none_or(|at_ns| at_ns > self.next_tick_ns) && self.set_tick_ns != self.next_tick_ns {
            self.set_tick_ns = self.next_tick_ns;
            self.reactor.tick(self.ticker.clock().timespec(self.next_tick_ns), 0);
        }
        self.reactor.wait(wait_ns)?;
        let after_ns = self.ticker.now_ns();
        self.waited_ns = (before_ns, after_ns);
        if after_ns.saturating_sub(before_ns) > SLEPT_NS {
            // Had it been running, it would have been awake by then.
            let ticks = before_ns.saturating_sub(self.ticks_from_ns) / CHECK_NS + 1;
            let tick_ns = self.ticks_from_ns.saturating_add(ticks * CHECK_NS);
            self.core.caught_up(after_ns.min(tick_ns).min(wake_at_ns.unwrap_or(u64::MAX)));
        }
        Ok(())
    }

    /// Waits for sockets or for `wake_at_ns`, and does what came.
    fn poll(&mut self, wake_at_ns: Option<u64>) {
        if let Err(errno) = self.wait(wake_at_ns) {
            // A kernel or a container without this call is found out about while sessions are opened: later calls
            // fail no more.
            let error = StoreError::io("waiting for sockets (epoll_pwait2 or io_uring_enter)", &errno.into());
            self.first_error.get_or_insert(error.next("use Linux 5.11 or later with this call allowed"));
        }
        if self.waited_ns.1 >= self.next_tick_ns {
            let now_ns = self.waited_ns.1;
            self.next_tick_ns += (now_ns - self.next_tick_ns) / CHECK_NS * CHECK_NS + CHECK_NS;
            self.keep_time(now_ns);
        }
        while let Some(event) = self.reactor.next() {
            let now_ns = self.ticker.now_ns();
            if event.slot().is_some_and(|slot| slot >= self.links.len()) {
                self.on_branch(event, now_ns);
                continue;
            }
            match event {
                Event::Arrived { slot } => self.receive(slot, now_ns),
                Event::Room { slot } => self.send(slot, now_ns),
                Event::Tick if self.core.is_open() && !self.starting => {}
                Event::Tick => self.keep_time(now_ns),
                Event::Alarm { alarm } => self.alarms.went_off(alarm, self.waited_ns),
                Event::Connected { slot, result: Ok(()) } => {
                    self.links[slot].connected(now_ns, &self.kinds);
                    match self.links[slot].session.state() {
                        WireState::Ready => self.ready(slot, now_ns),
                        WireState::Failed(error) => {
                            // It was not asked what it could not be.
                            let error = error.clone();
                            self.lose(slot, now_ns, Loss::Session(error));
                            continue;
                        }
                        WireState::Opening | WireState::Ended => {}
                    }
                    self.send(slot, now_ns);
                }
                Event::Connected { slot, result: Err(errno) } => self.lose(slot, now_ns, Loss::System(errno)),
                Event::Closed { slot } => self.end_of_words(slot, now_ns, Loss::Closed),
                Event::Unsent { slot, errno } => self.hang_up(slot, now_ns, errno),
                Event::Broken { slot, errno } => self.end_of_words(slot, now_ns, Loss::System(errno)),
            }
        }
    }

    #[inline]
    fn receive(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        let releases = link.hung_up.is_none() && link.left != 1;
        let put_off = match self.core.has_ended() {
            true => None,
            false => Some(PutOff { wait_max_ns: link.connection.attempts.longest_ns(), refusal: &mut self.failure }),
        };
        let done = Completions::new(&mut self.core, self.lanes.of(slot), releases, now_ns);
        let mut done = Completions { put_off, ..done };
        link.feed(self.reactor.arrived(), &mut done);
        let (finished, kept, stepped, has_put_off) = (done.finished, done.kept, done.stepped, done.has_put_off);
        if has_put_off {
            self.again_ns = self.again_ns.min(link.put_off(now_ns, &self.failure));
        } else if link.is_putting_off && (finished + kept > 0 || stepped.is_some()) {
            link.takes_again();
        }
        link.left -= finished.min(link.left);
        match link.session.state() {
            WireState::Ready if link.connection.stage == Stage::Ready => {}
            WireState::Ready => self.ready(slot, now_ns),
            WireState::Opening => {}
            WireState::Ended => return self.open_again(slot, now_ns),
            WireState::Failed(error) => {
                let error = error.clone();
                return self.lose(slot, now_ns, Loss::Session(error));
            }
        }
        if self.links[slot].hung_up.is_some() {
            return self.hear_on(slot, now_ns);
        }
        if kept > 0 {
            return self.leave(slot, now_ns);
        }
        // A session that became idle goes on at once where something is due, before other sockets are looked at.
        if finished > 0 || stepped.is_some_and(|lane| self.advance(lane, now_ns)) {
            self.links[slot].silent_since_ns = None;
            self.fill(now_ns, finished.max(1));
        }
        if !self.links[slot].out.is_empty() {
            self.send(slot, now_ns);
        }
    }

    /// The session takes operations, for the first time on this connection.
    #[cold]
    fn ready(&mut self, slot: usize, now_ns: u64) {
        let link = &mut self.links[slot];
        if let Some((each, times)) = &mut self.reconnects {
            link.left = *each;
            if !self.starting {
                times.saturating_record(now_ns.saturating_sub(link.connection.begun_ns).max(1));
            }
        }
        self.down_ns += link.connection.ready(now_ns);
        self.not_ready -= 1;
        if !self.starting {
            self.ask_again(slot);
            for lane in self.lanes.of(slot) {
                // One that is asked again is not free.
                if self.core.busy(lane) == Busy::No {
                    self.core.release(lane, now_ns);
                }
            }
        }
    }

    #[inline]
    fn send(&mut self, slot: usize, now_ns: u64) {
        if self.links[slot].is_branched {
            return self.grant(slot, now_ns);
        }
        if let Err(errno) = self.reactor.send(slot, &mut self.links[slot].out) {
            self.hang_up(slot, now_ns, errno);
        }
    }

    /// Handles the events that are due by the clock: slices, the end, time-outs, new attempts.
    fn keep_time(&mut self, now_ns: u64) {
        if !self.starting {
            self.core.check_if_due(now_ns);
            if self.slice != self.core.slice() {
                self.slice = self.core.slice();
                self.ticker.anchor_again();
            }
            // Before time-outs are looked at: what is put off waits for no answer.
            if now_ns >= self.again_ns {
                self.send_put_off(now_ns);
            }
            let drains = self.core.has_ended() && self.core.has_steps() || self.core.is_cancelled();
            if now_ns >= self.deadline_ns || drains {
                self.give_up_overdue(now_ns);
            }
        }
        self.tend_branches(now_ns);
        if self.not_ready == 0 {
            return;
        }
        let is_opening = |link: &&SessionLink| matches!(link.connection.stage, Stage::Connecting | Stage::Opening);
        let mut opening = self.links.iter().filter(is_opening).count();
        for slot in 0..self.links.len() {
            let connection = &self.links[slot].connection;
            // A time-out of clients is for the whole connection, up to a session that takes operations.
            let has_own = self.core.settings.reopen_timeout_ns.is_some() && !self.starting;
            let waited_ns = now_ns.saturating_sub(if has_own { connection.begun_ns } else { connection.since_ns });
            let timeout_ns = self.core.settings.connect_timeout_ns(self.starting);
            match connection.stage {
                Stage::Down { retry_ns } if now_ns >= retry_ns && opening < OPENING_MAX && !self.core.has_ended() => {
                    opening += 1;
                    self.connect(slot, now_ns);
                }
                Stage::Connecting | Stage::Opening if waited_ns >= timeout_ns => {
                    self.lose(slot, now_ns, Loss::Silent(waited_ns));
                }
                _ => {}
            }
        }
    }

    /// Ticks every 10 ms from `start_ns` on, so that a tick falls on every slice's end.
    fn tick_from(&mut self, start_ns: u64) {
        let (first_ns, one_by_one) = (start_ns + CHECK_NS, !self.starting && self.core.is_open());
        self.ticks_from_ns = start_ns;
        (self.next_tick_ns, self.set_tick_ns) = if one_by_one { (first_ns, first_ns) } else { (u64::MAX, 0) };
        self.reactor.tick(self.ticker.clock().timespec(first_ns), if one_by_one { 0 } else { CHECK_NS });
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
