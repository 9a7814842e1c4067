//! Start of a phase: a core and a thread for each worker.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use plimsoll_core::panics::caught;
use plimsoll_core::{AsyncSession, OpKind, Sessions, StoreError, StoreErrorKind};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};

use super::{Message, RunningPhase, nanos};
#[cfg(feature = "async")]
use crate::asynchronous;
use crate::backoff::Attempts;
use crate::blocking;
use crate::board::{Board, BoardSizes, SERVERS_MAX, Shared};
use crate::clock::{Clock, thread_cpu_ns, thread_queued_ns};
use crate::control::Drive;
use crate::each;
use crate::grid::Grid;
use crate::group::{Placed, worker_of};
use crate::link::SessionLink;
use crate::place::ResolvedAddress;
use crate::spec::{DriveError, DriveSpec, Limit};
use crate::wire::Wire;
use crate::witness::Witness;
use crate::worker::{Rests, Settings, Setup, Start, WorkerCore};

/// Workers up to which each says how long it waited for a processor: that costs it some 5 µs a slice.
const QUEUED_WORKERS_MAX: usize = 256;

const NO_MEMORY: &str = "memory for the histograms of its threads: use fewer clients, or raise the limit on addresses \
                         (ulimit -v)";

/// A thread's work, with what it needs.
type Work = Box<dyn FnOnce(&Receiver<Start>, &Sender<Message>) + Send>;

impl<'a> RunningPhase<'a> {
    pub(super) fn launch(drive: Drive<'a>, placed: Vec<Placed>) -> Result<Self, DriveError> {
        let workers = placed.last().map_or(0, |last| last.workers.end);
        let Drive { clock, spec, mut sessions, kinds, stream, observers, stop } = drive;
        let (to_control, inbox) = channel();
        let tells_servers = go_to_several(&mut sessions);
        let servers = if tells_servers { SERVERS_MAX } else { 0 };
        let clients = spec.clients(sessions.len() as u32);
        let (is_watched, ticks) = (spec.witness.is_some(), spec.tick_count());
        let parts = if ticks > 0 { key_parts(&sessions) } else { 0 };
        let (kind_count, open) = (kinds.len(), spec.is_open());
        let depth = spec.depth as usize;
        let lanes = placed
            .iter()
            .flat_map(|placed| placed.workers.clone().map(move |worker| placed.dealt(worker).count() * depth));
        let sizes =
            |lanes| BoardSizes { kinds: kind_count, open, watched: is_watched, servers, ticks, clients, lanes, parts };
        let boards: io::Result<_> = lanes.map(|lanes| Board::new(&sizes(lanes))).collect();
        let no_memory = |error| DriveError::System { what: NO_MEMORY, error };
        let has_loop = matches!(sessions, Sessions::Wire(_) | Sessions::Async(_));
        let mut phase = RunningPhase {
            clock,
            spec,
            kinds: kinds.into(),
            blocking: matches!(sessions, Sessions::Blocking(_)),
            placed,
            boards: boards.map_err(no_memory)?,
            shared: Arc::new(Shared { stop, ..Shared::default() }),
            go: Vec::new(),
            threads: Vec::new(),
            inbox,
            reports: (0..workers).map(|_| None).collect(),
            hung: Vec::new(),
            stopped: 0,
            grid: Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 1, end_ns: None },
            flows: Vec::new(),
            halted: None,
        };
        let kinds = phase.kinds.clone();
        let mut observers: Vec<_> = observers.into_iter().map(Some).collect();
        observers.resize_with(workers, || None);
        let settings = Settings {
            ops_max: if let Limit::Ops(ops) = spec.limit { ops } else { u64::MAX },
            backlog_ns: nanos(spec.backlog),
            op_timeout_ns: nanos(spec.op_timeout),
            open_timeout_ns: nanos(spec.open_timeout),
            reopen_timeout_ns: spec.connect_timeout.map(nanos),
            backoff: spec.backoff,
            seed: spec.seed,
            ends_on_loss: spec.ends_on_loss,
            wake: spec.wake,
            cpu_ns: if has_loop { thread_cpu_ns } else { || 0 },
            queued_ns: if workers <= QUEUED_WORKERS_MAX { thread_queued_ns } else { || 0 },
        };
        let mut cores = Vec::with_capacity(workers);
        let crew = phase.placed.iter().flat_map(|placed| placed.workers.clone().map(move |worker| (placed, worker)));
        for ((placed, worker), observer) in crew.zip(observers) {
            let depth = spec.depth;
            let clients: Vec<u32> =
                placed.dealt(worker).flat_map(|session| session * depth..(session + 1) * depth).collect();
            let steps: Vec<_> = clients.iter().map(|&client| stream.steps(client)).collect();
            if depth > 1 && steps.iter().any(Option::is_some) {
                let what = format!(
                    "a depth of {depth} would mix the steps of several operations (transactions, scripts) on one \
                     session: use a depth of 1 and more clients"
                );
                return Err(DriveError::Spec(what));
            }
            if spec.retry.is_some() && steps.iter().any(Option::is_some) {
                let what = "operations of several steps (transactions, scripts) are not sent again: leave out `retry`";
                return Err(DriveError::Spec(what.to_owned()));
            }
            cores.push(WorkerCore::new(Setup {
                stream: stream.clone(),
                steps,
                kinds: kinds.clone(),
                observer,
                board: phase.boards[worker].clone(),
                shared: phase.shared.clone(),
                each_max: each::room(spec, clients.len(), workers),
                first_cycle: spec.first_cycle,
                rests: Rests::new(spec, placed.group.think, placed.seed, clients.len(), &kinds),
                settings,
                tells_servers,
                tells_parts: parts > 0,
                tells_silences: ticks > 0,
                clients,
                taint: spec.witness.as_ref().map(Witness::taint).unwrap_or_default(),
            }));
        }
        for (worker, work) in works(clock, spec, sessions, &phase.placed, &kinds, cores)?.into_iter().enumerate() {
            phase.spawn(worker, work, to_control.clone())?;
        }
        Ok(phase)
    }

    fn spawn(&mut self, worker: usize, work: Work, to_control: Sender<Message>) -> Result<(), DriveError> {
        let (go, gone) = sync_channel(1);
        self.go.push(go);
        let processor = self.spec.pin.get(worker % self.spec.pin.len().max(1)).copied();
        let network = self.spec.networks.get(worker % self.spec.networks.len().max(1)).cloned();
        let thread = std::thread::Builder::new()
            .name(format!("drive-{worker}"))
            .spawn(move || {
                let ready = || processor.map_or(Ok(()), pin).and_then(|()| network.as_deref().map_or(Ok(()), enter));
                let worked = caught(|| match ready() {
                    Ok(()) => work(&gone, &to_control),
                    // A control thread that does not listen any more has gone on without this worker.
                    Err(error) => drop(to_control.send(Message::Opened(Err(error)))),
                });
                let _ = worked.map_err(|panic| to_control.send(Message::Panicked(panic)));
            })
            .map_err(|error| DriveError::Threads { running: worker, wanted: self.boards.len(), error })?;
        self.threads.push(thread);
        Ok(())
    }
}

/// Returns true if the operations of `sessions` go to several servers.
fn go_to_several(sessions: &mut Sessions) -> bool {
    match sessions {
        Sessions::Blocking(_) | Sessions::Instant(_) => false,
        Sessions::Async(all) => {
            let mut addresses = all.iter().map(|session| session.address());
            let first = addresses.next();
            addresses.any(|other| Some(other) != first)
        }
        Sessions::Wire(all) => {
            let several = all.iter().any(|wire| wire.address != all[0].address);
            let mut sessions = all.iter_mut().map(|wire| &mut wire.session);
            several || sessions.any(|session| session.branches().is_some() || session.moves())
        }
    }
}

/// Returns the number of parts of the keys that all sessions know; 0 if one knows none, or others.
fn key_parts(sessions: &Sessions) -> u8 {
    let Sessions::Wire(all) = sessions else { return 0 };
    let mut parts = all.iter().map(|wire| wire.session.key_parts());
    let first = parts.next().unwrap_or(0);
    if parts.all(|other| other == first) { first } else { 0 }
}

fn works(
    clock: &Clock,
    spec: &DriveSpec,
    sessions: Sessions,
    placed: &[Placed],
    kinds: &Arc<[OpKind]>,
    cores: Vec<WorkerCore>,
) -> Result<Vec<Work>, DriveError> {
    let workers = cores.len();
    match sessions {
        Sessions::Blocking(sessions) | Sessions::Instant(sessions) => {
            let mut shares: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
            for (client, session) in sessions.into_iter().enumerate() {
                shares[worker_of(placed, client as u32)].push(session);
            }
            let work = |(worker, (sessions, core)): (usize, (Vec<_>, WorkerCore))| -> Work {
                let (kinds, ticker) = (kinds.clone(), clock.ticker());
                Box::new(move |go, to_control| {
                    blocking::run(worker, core, sessions, &kinds, ticker, go, to_control);
                })
            };
            Ok(shares.into_iter().zip(cores).enumerate().map(work).collect())
        }
        Sessions::Async(sessions) => asynchronous(clock, spec, sessions, placed, kinds, cores),
        Sessions::Wire(clients) => {
            let mut links: Vec<Vec<SessionLink>> = (0..workers).map(|_| Vec::new()).collect();
            let mut places = Vec::new();
            let mut cores = cores;
            for (client, mut wire) in clients.into_iter().enumerate() {
                let known = places.iter().find(|(address, _): &&(_, ResolvedAddress)| *address == wire.address);
                let place = match known {
                    Some((_, place)) => place.clone(),
                    None => {
                        let place = ResolvedAddress::resolve(&wire.address).map_err(DriveError::Store)?;
                        places.push((wire.address.clone(), place.clone()));
                        place
                    }
                };
                wire.session.limit_answers(spec.answer_max);
                let worker = worker_of(placed, client as u32);
                let (slot, depth) = (links[worker].len(), spec.depth as usize);
                if wire.session.branches().is_none() {
                    cores[worker].asks(slot * depth..(slot + 1) * depth, &wire.address);
                }
                let Settings { backoff, seed, .. } = cores[worker].settings;
                let link = SessionLink::new(wire, place, Attempts::new(backoff, seed, client as u64));
                if link.is_branched && spec.reconnect.is_some() {
                    let what = "sessions with several connections cannot be reopened: leave out `reconnect`";
                    return Err(DriveError::Spec(what.to_owned()));
                }
                links[worker].push(link);
            }
            let mut works: Vec<Work> = Vec::with_capacity(workers);
            for (worker, (core, links)) in cores.into_iter().zip(links).enumerate() {
                let io = spec.io_for(worker, placed);
                let (ticker, reconnect) = (clock.ticker(), spec.reconnect);
                let wire = Wire { core, links, kinds: kinds.clone(), ticker, io, reconnect };
                works.push(Box::new(move |go, to_control| wire.run(worker, go, to_control)));
            }
            Ok(works)
        }
    }
}

/// Moves the calling thread into the network namespace at `path`, until the thread ends. Its sockets stay there.
fn enter(path: &Path) -> Result<(), StoreError> {
    let entered = File::open(path).and_then(|namespace| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(io::Error::from)
    });
    entered.map_err(|error| StoreError::io(format_args!("the network {}", path.display()), &error))
}

#[cfg(not(feature = "async"))]
fn asynchronous(
    _: &Clock,
    _: &DriveSpec,
    _: Vec<Box<dyn AsyncSession>>,
    _: &[Placed],
    _: &Arc<[OpKind]>,
    _: Vec<WorkerCore>,
) -> Result<Vec<Work>, DriveError> {
    let what = "this build drives no asynchronous clients: build it with the feature `async` of plimsoll-drive";
    Err(DriveError::Spec(what.to_owned()))
}

#[cfg(feature = "async")]
fn asynchronous(
    clock: &Clock,
    spec: &DriveSpec,
    sessions: Vec<Box<dyn AsyncSession>>,
    placed: &[Placed],
    kinds: &Arc<[OpKind]>,
    cores: Vec<WorkerCore>,
) -> Result<Vec<Work>, DriveError> {
    let mut shares: Vec<Vec<_>> = cores.iter().map(|_| Vec::new()).collect();
    for (client, mut session) in sessions.into_iter().enumerate() {
        session.limit_answers(spec.answer_max);
        shares[worker_of(placed, client as u32)].push(session);
    }
    let work = |(worker, (sessions, core)): (usize, (Vec<_>, WorkerCore))| -> Work {
        let (kinds, clock) = (kinds.clone(), *clock);
        Box::new(move |go, to_control| asynchronous::run(worker, core, sessions, kinds, clock, go, to_control))
    };
    Ok(shares.into_iter().zip(cores).enumerate().map(work).collect())
}

pub(crate) fn pin(processor: u32) -> Result<(), StoreError> {
    let number = processor as usize;
    let bound = if number < CpuSet::MAX_CPU {
        let mut only = CpuSet::new();
        only.set(number);
        sched_setaffinity(None, &only)
    } else {
        Err(rustix::io::Errno::INVAL)
    };
    bound.map_err(|errno| {
        StoreError::new(StoreErrorKind::Usage, format!("a worker cannot be bound to processor {processor}: {errno}"))
            .next("name processors that this process may use: `nproc` says how many, /proc/self/status which")
    })
}
