//! Sessions that speak to several servers at a time: the connections that such a session wishes for.
//!
//! A session has room for so many connections from the start, so that the reactor's slots never move: those behind the
//! slots of the sessions themselves are *twigs*, each one connection of one session. A twig that is lost is tried again
//! by itself, with the same back-off as a session's only connection, and takes nothing down but what was in flight on
//! it: the session goes on with its others.

use plimsoll_core::{StoreError, WireState, Wish};
use rustix::io::Errno;

use super::{Completions, Loss, WireWorker};
use crate::link::{BACKOFF_NS, Link, Place, Stage};
use crate::reactor::{Event, Reactor};

/// All twigs of a worker. Most workers have none.
pub(super) struct Twigs {
    /// Reactor slot of the first.
    first: usize,
    all: Vec<Twig>,
    /// By session: its first twig.
    starts: Vec<usize>,
}

/// One connection of a session that has several.
struct Twig {
    /// The session's slot.
    link: usize,
    /// Which of its connections it is.
    branch: usize,
    /// Where its server listens; none while no connection is wished.
    place: Option<Place>,
    stage: Stage,
    since_ns: u64,
    lost_ns: Option<u64>,
    backoff_ns: u64,
    tries: usize,
    /// Bytes that the session has not used.
    rest: Vec<u8>,
}

impl Twigs {
    /// Room for what `links` may wish for.
    pub fn of(links: &mut [Link]) -> Twigs {
        let (mut all, mut starts) = (Vec::new(), Vec::with_capacity(links.len()));
        for (link, session) in links.iter_mut().enumerate() {
            starts.push(all.len());
            let count = session.session.branches().map_or(0, |branches| branches.count_max());
            all.extend((0..count).map(|branch| Twig {
                link,
                branch,
                place: None,
                stage: Stage::Down { retry_ns: 0 },
                since_ns: 0,
                lost_ns: None,
                backoff_ns: BACKOFF_NS.start,
                tries: 0,
                rest: Vec::new(),
            }));
        }
        Twigs { first: links.len(), all, starts }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The twig of a session's connection.
    fn at(&self, link: usize, branch: usize) -> Option<usize> {
        let index = self.starts.get(link)? + branch;
        self.all.get(index).filter(|twig| twig.link == link).map(|_| index)
    }
}

impl<R: Reactor> WireWorker<R> {
    /// Does what the session at `slot` wishes, and looks how far it has come.
    pub(super) fn grant(&mut self, slot: usize, now_ns: u64) {
        while let Some(wish) = self.links[slot].session.branches().and_then(|branches| branches.next_wish()) {
            let (Wish::Connect { branch, .. } | Wish::Close { branch } | Wish::Send { branch }) = wish;
            let Some(twig) = self.twigs.at(slot, branch) else { continue };
            match wish {
                Wish::Send { .. } => self.send_branch(twig, now_ns),
                Wish::Close { .. } => self.close_branch(twig, now_ns),
                Wish::Connect { address, .. } => {
                    self.close_branch(twig, now_ns);
                    match Place::resolve(&address) {
                        Ok(place) => {
                            self.twigs.all[twig].place = Some(place);
                            self.connect_branch(twig, now_ns);
                        }
                        Err(error) => self.lose_branch(twig, now_ns, &error),
                    }
                }
            }
        }
        match self.links[slot].session.state() {
            WireState::Ready if self.links[slot].stage != Stage::Ready => self.ready(slot, now_ns),
            WireState::Failed(error) if !matches!(self.links[slot].stage, Stage::Down { .. }) => {
                let error = error.clone();
                self.lose(slot, now_ns, Loss::Session(error));
            }
            _ => {}
        }
    }

    /// Something came for a twig.
    #[inline]
    pub(super) fn on_branch(&mut self, event: Event, now_ns: u64) {
        let Some(slot) = event.slot() else { return };
        let twig = slot - self.twigs.first;
        match event {
            Event::Arrived { .. } => self.receive_branch(twig, now_ns),
            Event::Room { .. } => self.send_branch(twig, now_ns),
            Event::Connected { result: Ok(()), .. } => {
                let this = &mut self.twigs.all[twig];
                this.stage = Stage::Ready;
                this.backoff_ns = BACKOFF_NS.start;
                this.tries = this.tries.saturating_sub(1);
                if let Some(lost_ns) = this.lost_ns.take() {
                    self.down_ns += now_ns.saturating_sub(lost_ns);
                }
                let (link, branch) = (this.link, this.branch);
                if let Some(branches) = self.links[link].session.branches() {
                    branches.connected(branch);
                }
                self.grant(link, now_ns);
            }
            Event::Closed { .. } => self.lose_branch_by(twig, now_ns, |place| place.closed()),
            Event::Connected { result: Err(errno), .. } | Event::Broken { errno, .. } | Event::Unsent { errno, .. } => {
                self.lose_branch_by(twig, now_ns, |place| place.error(errno));
            }
            Event::Tick | Event::Alarm { .. } => {}
        }
    }

    #[inline]
    fn receive_branch(&mut self, index: usize, now_ns: u64) {
        let twig = &mut self.twigs.all[index];
        let slot = twig.link;
        let link = &mut self.links[slot];
        let releases = link.stage == Stage::Ready;
        let lanes = self.lanes.of(slot);
        let mut done = Completions { core: &mut self.core, lanes, releases, now_ns, finished: 0, stepped: None };
        let Some(branches) = link.session.branches() else { return };
        let arrived = self.reactor.arrived();
        let used = if twig.rest.is_empty() {
            let used = branches.feed(twig.branch, arrived, &mut done);
            if let Ok(used) = used {
                twig.rest.extend_from_slice(arrived.get(used..).unwrap_or_default());
            }
            used
        } else {
            twig.rest.extend_from_slice(arrived);
            let used = branches.feed(twig.branch, &twig.rest, &mut done);
            if let Ok(used) = used {
                twig.rest.drain(..used.min(twig.rest.len()));
            }
            used
        };
        let (finished, stepped) = (done.finished, done.stepped);
        match used {
            Ok(_) => self.grant(slot, now_ns),
            Err(error) => self.lose_branch(index, now_ns, &error),
        }
        if finished > 0 || stepped.is_some_and(|lane| self.advance(lane, now_ns)) {
            self.fill(now_ns, finished.max(1));
        }
    }

    fn send_branch(&mut self, index: usize, now_ns: u64) {
        let twig = &self.twigs.all[index];
        if twig.stage != Stage::Ready {
            return;
        }
        let Some(branches) = self.links[twig.link].session.branches() else { return };
        if let Err(errno) = self.reactor.send(self.twigs.first + index, branches.out(twig.branch)) {
            self.lose_branch_by(index, now_ns, |place| place.error(errno));
        }
    }

    fn connect_branch(&mut self, index: usize, now_ns: u64) {
        let twig = &mut self.twigs.all[index];
        let Some(place) = &twig.place else { return };
        twig.since_ns = now_ns;
        twig.tries += 1;
        let begun =
            place.connect(twig.tries - 1).and_then(|socket| self.reactor.connect(self.twigs.first + index, socket));
        match begun {
            Ok(()) => twig.stage = Stage::Connecting,
            // The queue of a Unix socket is full: its server has not got round to us.
            Err(Errno::AGAIN) => twig.stage = Stage::Down { retry_ns: now_ns + BACKOFF_NS.start },
            Err(errno) => self.lose_branch_by(index, now_ns, |place| place.error(errno)),
        }
    }

    #[cold]
    fn lose_branch_by(&mut self, index: usize, now_ns: u64, why: impl FnOnce(&Place) -> StoreError) {
        let Some(place) = &self.twigs.all[index].place else { return };
        let error = why(place);
        self.lose_branch(index, now_ns, &error);
    }

    /// Gives one connection of a session up: what was in flight on it is unknown, and it is tried again after a while.
    #[cold]
    fn lose_branch(&mut self, index: usize, now_ns: u64, error: &StoreError) {
        let twig = &mut self.twigs.all[index];
        let (slot, branch) = (twig.link, twig.branch);
        self.lost_connections += u64::from(twig.stage == Stage::Ready && !self.starting);
        twig.stage = Stage::Down { retry_ns: now_ns + twig.backoff_ns };
        twig.backoff_ns = (twig.backoff_ns * 2).min(BACKOFF_NS.end);
        twig.rest.clear();
        twig.lost_ns.get_or_insert(now_ns);
        self.reactor.close(self.twigs.first + index);
        let link = &mut self.links[slot];
        let releases = link.stage == Stage::Ready;
        let lanes = self.lanes.of(slot);
        let mut done = Completions { core: &mut self.core, lanes, releases, now_ns, finished: 0, stepped: None };
        if let Some(branches) = link.session.branches() {
            branches.out(branch).clear();
            branches.lost(branch, error, &mut done);
        }
        self.grant(slot, now_ns);
    }

    fn close_branch(&mut self, index: usize, now_ns: u64) {
        let twig = &mut self.twigs.all[index];
        if let Some(lost_ns) = twig.lost_ns.take() {
            self.down_ns += now_ns.saturating_sub(lost_ns);
        }
        twig.place = None;
        twig.stage = Stage::Down { retry_ns: u64::MAX };
        twig.backoff_ns = BACKOFF_NS.start;
        twig.tries = 0;
        twig.rest.clear();
        self.reactor.close(self.twigs.first + index);
    }

    /// Closes all connections of the session at `slot`.
    #[cold]
    pub(super) fn close_branches(&mut self, slot: usize) {
        let now_ns = self.ticker.now_ns();
        let count = self.links[slot].session.branches().map_or(0, |branches| branches.count_max());
        for index in (0..count).filter_map(|branch| self.twigs.at(slot, branch)).collect::<Vec<_>>() {
            self.close_branch(index, now_ns);
        }
    }

    /// Tries again what was lost, and gives up what does not come about. After the phase's end too: what is in flight then
    /// may be waiting for it.
    #[inline]
    pub(super) fn tend_branches(&mut self, now_ns: u64) {
        for index in 0..self.twigs.len() {
            let twig = &self.twigs.all[index];
            if twig.place.is_none() {
                continue;
            }
            match twig.stage {
                Stage::Down { retry_ns } if now_ns >= retry_ns => self.connect_branch(index, now_ns),
                Stage::Connecting if now_ns.saturating_sub(twig.since_ns) >= self.core.open_timeout_ns => {
                    let waited_ns = self.core.open_timeout_ns;
                    self.lose_branch_by(index, now_ns, |place| place.silent(waited_ns));
                }
                _ => {}
            }
        }
    }

    /// The phase is over.
    pub(super) fn leave_branches(&mut self, now_ns: u64) {
        (0..self.twigs.len()).for_each(|index| self.close_branch(index, now_ns));
    }
}
