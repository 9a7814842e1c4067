//! Sessions that speak to several servers at a time: the connections that such a session wishes for.
//!
//! A session has room for so many connections from the start, so that the reactor's slots never move: the slots of
//! these connections stand behind those of the sessions themselves. One that is lost is tried again by itself, with the
//! same back-off as a session's only connection, and takes nothing down but what was in flight on it: the session goes on
//! with its others.

use plimsoll_core::{StoreError, WireState, Wish};
use rustix::io::Errno;

use super::{Completions, Loss, WireWorker};
use crate::backoff::Attempts;
use crate::link::{QUEUE_NS, ServerConnection, SessionLink, Stage};
use crate::place::ResolvedAddress;
use crate::reactor::{Event, Reactor};
use crate::worker::Busy;

/// All branches of a worker. Most workers have none.
pub(super) struct BranchTable {
    /// Reactor slot of the first.
    first: usize,
    all: Vec<Branch>,
    /// First branch of each session.
    starts: Vec<usize>,
}

/// A connection of a session that has several.
struct Branch {
    /// The session's slot.
    link: usize,
    /// Number of the connection within its session.
    number: usize,
    /// True if the session has no other connection.
    is_only: bool,
    /// Connection, if one is wished.
    connection: Option<ServerConnection>,
    /// Attempts of the connection before.
    former: Option<Attempts>,
    /// The number of its server.
    server: usize,
}

impl BranchTable {
    /// Room for what `links` may wish for.
    pub fn of(links: &mut [SessionLink]) -> BranchTable {
        let (mut all, mut starts) = (Vec::new(), Vec::with_capacity(links.len()));
        for (link, session) in links.iter_mut().enumerate() {
            starts.push(all.len());
            let count = session.session.branches().map_or(0, |branches| branches.count_max());
            let (is_only, server) = (count == 1, 0);
            let branch = |number| Branch { link, number, is_only, connection: None, former: None, server };
            all.extend((0..count).map(branch));
        }
        BranchTable { first: links.len(), all, starts }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The position of a session's connection.
    fn at(&self, link: usize, number: usize) -> Option<usize> {
        let index = self.starts.get(link)? + number;
        self.all.get(index).filter(|branch| branch.link == link).map(|_| index)
    }
}

impl<R: Reactor> WireWorker<R> {
    /// Performs the wishes of the session at `slot`, and updates its progress.
    pub(super) fn grant(&mut self, slot: usize, now_ns: u64) {
        while let Some(wish) = self.links[slot].session.branches().and_then(|branches| branches.next_wish()) {
            let (Wish::Connect { branch, .. } | Wish::Close { branch } | Wish::Send { branch }) = wish;
            let Some(index) = self.branches.at(slot, branch) else { continue };
            match wish {
                Wish::Send { .. } => self.send_branch(index, now_ns),
                Wish::Close { .. } => self.close_branch(index, now_ns),
                Wish::Connect { address, .. } => {
                    self.close_branch(index, now_ns);
                    match ResolvedAddress::resolve(&address) {
                        Ok(place) => {
                            let entry = &mut self.branches.all[index];
                            entry.server = self.core.server(&address);
                            let attempts = &self.links[slot].connection.attempts;
                            let attempts = attempts.of_branch(branch, entry.former.take());
                            entry.connection = Some(ServerConnection::new(place, attempts));
                            self.connect_branch(index, now_ns);
                        }
                        Err(error) => self.lose_branch(index, now_ns, &error),
                    }
                }
            }
        }
        let stage = self.links[slot].connection.stage;
        match self.links[slot].session.state() {
            WireState::Ready if stage != Stage::Ready => {
                self.ready(slot, now_ns);
                // Operations that are sent again are among its wishes now.
                self.grant(slot, now_ns);
            }
            WireState::Failed(error) if !matches!(stage, Stage::Down { .. }) => {
                let error = error.clone();
                self.lose(slot, now_ns, Loss::Session(error));
            }
            WireState::Ended => {
                self.ended_connections += 1;
                self.open_again(slot, now_ns);
            }
            _ => {}
        }
    }

    /// Handles an event of a branch.
    #[inline]
    pub(super) fn on_branch(&mut self, event: Event, now_ns: u64) {
        let Some(slot) = event.slot() else { return };
        let index = slot - self.branches.first;
        match event {
            Event::Arrived { .. } => self.receive_branch(index, now_ns),
            Event::Room { .. } => self.send_branch(index, now_ns),
            Event::Connected { result: Ok(()), .. } => {
                let Branch { link, number, connection, .. } = &mut self.branches.all[index];
                self.down_ns += connection.as_mut().map_or(0, |connection| connection.ready(now_ns));
                let (link, number) = (*link, *number);
                if let Some(branches) = self.links[link].session.branches() {
                    branches.connected(number);
                }
                self.grant(link, now_ns);
            }
            Event::Closed { .. } => self.lose_branch_by(index, now_ns, |place| place.closed()),
            Event::Connected { result: Err(errno), .. } | Event::Broken { errno, .. } | Event::Unsent { errno, .. } => {
                self.lose_branch_by(index, now_ns, |place| place.error(errno));
            }
            Event::Tick | Event::Alarm { .. } => {}
        }
    }

    #[inline]
    fn receive_branch(&mut self, index: usize, now_ns: u64) {
        let Branch { link: slot, number, is_only, connection, server, .. } = &mut self.branches.all[index];
        let (slot, number, is_only, server) = (*slot, *number, *is_only, Some(*server));
        let link = &mut self.links[slot];
        let is_ready = link.connection.stage == Stage::Ready;
        let mut done =
            Completions { server, is_only, ..Completions::new(&mut self.core, self.lanes.of(slot), is_ready, now_ns) };
        let (Some(branches), Some(connection)) = (link.session.branches(), connection) else { return };
        let used = connection.feed(self.reactor.arrived(), |bytes| branches.feed(number, bytes, &mut done));
        let (finished, stepped) = (done.finished, done.stepped);
        match used {
            Ok(()) => self.grant(slot, now_ns),
            Err(error) => self.lose_branch(index, now_ns, &error),
        }
        if finished > 0 || stepped.is_some_and(|lane| self.advance(lane, now_ns)) {
            self.fill(now_ns, finished.max(1));
        }
    }

    fn send_branch(&mut self, index: usize, now_ns: u64) {
        let Branch { link, number, connection, .. } = &self.branches.all[index];
        if connection.as_ref().is_none_or(|connection| connection.stage != Stage::Ready) {
            return;
        }
        let Some(branches) = self.links[*link].session.branches() else { return };
        if let Err(errno) = self.reactor.send(self.branches.first + index, branches.out(*number)) {
            self.lose_branch_by(index, now_ns, |place| place.error(errno));
        }
    }

    fn connect_branch(&mut self, index: usize, now_ns: u64) {
        let slot = self.branches.first + index;
        let Some(connection) = &mut self.branches.all[index].connection else { return };
        match connection.connect(now_ns).and_then(|socket| self.reactor.connect(slot, socket)) {
            Ok(()) => {}
            // The queue of a Unix socket is full: its server has not got round to us.
            Err(Errno::AGAIN) => connection.enter(Stage::Down { retry_ns: now_ns + QUEUE_NS }, now_ns),
            Err(errno) => self.lose_branch_by(index, now_ns, |place| place.error(errno)),
        }
    }

    #[cold]
    fn lose_branch_by(&mut self, index: usize, now_ns: u64, why: impl FnOnce(&ResolvedAddress) -> StoreError) {
        let Some(connection) = &self.branches.all[index].connection else { return };
        let error = why(&connection.place);
        self.lose_branch(index, now_ns, &error);
    }

    /// Gives up one connection of a session: operations in flight on it are unknown, and it is tried again after a
    /// while. One without operations is opened again at once, as servers end idle connections.
    #[cold]
    fn lose_branch(&mut self, index: usize, now_ns: u64, error: &StoreError) {
        let Branch { link: slot, number, .. } = self.branches.all[index];
        self.reactor.close(self.branches.first + index);
        let link = &mut self.links[slot];
        let is_ready = link.connection.stage == Stage::Ready;
        let mut done = Completions::new(&mut self.core, self.lanes.of(slot), is_ready, now_ns);
        if let Some(branches) = link.session.branches() {
            branches.out(number).clear();
            branches.lost(number, error, &mut done);
        }
        let (ended, stepped) = (done.finished + done.kept, done.stepped);
        let has_failed = matches!(link.session.state(), WireState::Failed(_));
        // An operation between two steps may depend on the connection.
        let has_steps = self.lanes.of(slot).any(|lane| self.core.busy(lane) == Busy::Steps);
        let is_idle = match has_failed {
            // Without this connection operations on the others end, too.
            true => self.is_idle_end(slot, now_ns),
            false => is_ready && self.is_under_way() && ended == 0 && !has_steps,
        };
        let is_again = self.count_loss(index, now_ns, is_idle);
        self.grant(slot, now_ns);
        let connection = self.branches.all[index].connection.as_ref();
        if is_again && connection.is_some_and(|connection| matches!(connection.stage, Stage::Down { .. })) {
            self.connect_branch(index, now_ns);
        }
        if let Some(lane) = stepped {
            self.advance(lane, now_ns);
        }
    }

    /// Counts a connection as ended if it was idle and had lasted, and otherwise as lost. Returns true if it ended.
    fn count_loss(&mut self, index: usize, now_ns: u64, is_idle: bool) -> bool {
        let Some(connection) = &mut self.branches.all[index].connection else { return false };
        let is_ready = connection.stage == Stage::Ready && !self.starting;
        if is_idle && connection.has_lasted(now_ns) {
            self.ended_connections += 1;
            connection.idle_end_ns = Some(now_ns);
            connection.ended(now_ns);
            return true;
        }
        if let Some(ended_ns) = connection.lose_after_idle() {
            self.ended_connections -= 1;
            self.lost_connections.note(ended_ns);
        }
        if is_ready {
            self.lost_connections.note(now_ns);
        }
        connection.lose(now_ns);
        false
    }

    fn close_branch(&mut self, index: usize, now_ns: u64) {
        let branch = &mut self.branches.all[index];
        if let Some(connection) = branch.connection.take() {
            self.down_ns += connection.down_ns(now_ns);
            branch.former = Some(connection.attempts);
        }
        self.reactor.close(self.branches.first + index);
    }

    /// Closes all connections of the session at `slot`.
    #[cold]
    pub(super) fn close_branches(&mut self, slot: usize) {
        let now_ns = self.ticker.now_ns();
        let count = self.links[slot].session.branches().map_or(0, |branches| branches.count_max());
        for index in (0..count).filter_map(|number| self.branches.at(slot, number)).collect::<Vec<_>>() {
            self.close_branch(index, now_ns);
        }
    }

    /// Tries again what was lost, and gives up what does not come about. After the phase's end too: what is in flight then
    /// may be waiting for it.
    #[inline]
    pub(super) fn tend_branches(&mut self, now_ns: u64) {
        for index in 0..self.branches.len() {
            let Some(connection) = &self.branches.all[index].connection else { continue };
            let timeout_ns = self.core.settings.connect_timeout_ns(self.starting);
            match connection.stage {
                Stage::Down { retry_ns } if now_ns >= retry_ns => self.connect_branch(index, now_ns),
                Stage::Connecting if now_ns.saturating_sub(connection.since_ns) >= timeout_ns => {
                    self.lose_branch_by(index, now_ns, |place| place.silent(timeout_ns));
                }
                _ => {}
            }
        }
    }

    pub(super) fn leave_branches(&mut self, now_ns: u64) {
        (0..self.branches.len()).for_each(|index| self.close_branch(index, now_ns));
    }
}
