//! Assignment of sessions to workers, and of schedules to groups of sessions in a phase.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use plimsoll_core::Sessions;
use plimsoll_core::pace::Rate;

use crate::poisson::Random;
use crate::schedule::Schedule;
use crate::spec::{DriveError, DriveSpec, Group, INSTANT_WORKERS};

/// A group, and what it is of a phase.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub group: Group,
    pub sessions: Range<u32>,
    pub workers: Range<usize>,
    /// Seed of its arrivals and think times, which differ from those of the other groups.
    pub seed: u64,
}

/// The schedule of an open loop, and who keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub arrivals: Schedule,
    pub workers: Range<usize>,
    /// Arrivals that blocking workers have taken, each the next one; none where each worker has its own.
    pub taken: Option<Arc<AtomicU64>>,
}

impl DriveSpec {
    /// The groups of a phase on `sessions`: those that are asked for, or one of all.
    pub(crate) fn placed(&self, sessions: &Sessions) -> Vec<Placed> {
        let count = sessions.len() as u32;
        let one = [Group { sessions: count, workers: self.workers, pace: self.pace.clone(), think: self.think }];
        let groups = if self.groups.is_empty() { &one[..] } else { &self.groups };
        let (mut session, mut worker) = (0, 0);
        let place = |(at, group): (usize, &Group)| {
            let workers = match sessions {
                Sessions::Blocking(_) => group.sessions as usize,
                Sessions::Wire(_) | Sessions::Async(_) => group.sessions.min(group.workers.max(1)) as usize,
                Sessions::Instant(_) => (group.sessions as usize).min(INSTANT_WORKERS.max(group.workers as usize)),
            };
            let seed = if at == 0 { self.seed } else { Random::of([self.seed, at as u64, 0]).next() };
            let sessions = session..session + group.sessions;
            let workers = worker..worker + workers;
            (session, worker) = (sessions.end, workers.end);
            Placed { group: group.clone(), sessions, workers, seed }
        };
        groups.iter().enumerate().map(place).collect()
    }

    /// Checks that there is exactly one session for every place of its groups.
    pub(crate) fn check_groups(&self, sessions: &Sessions) -> Result<(), DriveError> {
        let wanted: u64 = self.groups.iter().map(|group| u64::from(group.sessions)).sum();
        let found = sessions.len() as u64;
        match self.groups.is_empty() || (wanted == found && self.groups.iter().all(|group| group.sessions > 0)) {
            true => Ok(()),
            false => Err(DriveError::Spec(format!("groups of {wanted} sessions do not share {found}"))),
        }
    }

    /// Returns true if any of its operations have scheduled times.
    pub(crate) fn is_open(&self) -> bool {
        match self.groups.is_empty() {
            true => self.pace.is_open(),
            false => self.groups.iter().any(|group| group.pace.is_open()),
        }
    }
}

impl Placed {
    /// The sessions of the worker at position `worker`, which is one of its own: dealt in turn.
    pub fn dealt(&self, worker: usize) -> impl Iterator<Item = u32> + use<> {
        let first = self.sessions.start + (worker - self.workers.start) as u32;
        (first..self.sessions.end).step_by(self.workers.len())
    }

    /// The most operations a second that it ever has due; `None` in a closed loop.
    pub fn peak_per_s(&self) -> Option<f64> {
        self.group.pace.rate().map(Rate::peak_per_s)
    }
}

pub(crate) fn worker_of(placed: &[Placed], session: u32) -> usize {
    let of = placed.partition_point(|one| one.sessions.end <= session);
    let Placed { sessions, workers, .. } = &placed[of];
    workers.start + (session - sessions.start) as usize % workers.len()
}
