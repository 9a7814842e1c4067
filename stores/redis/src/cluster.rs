//! A session over all nodes of a cluster: one connection to each, and every key is asked where its slot is.
//!
//! The session keeps a copy of what it was asked until that is answered, because a node may say that the key is
//! elsewhere: MOVED, and the map of slots is mended and read anew; or ASK, for this one operation while a slot is on its
//! way. The node has done nothing then, so asking the other one is no retry: it is the same operation, whose time goes
//! on. [`Redirections`] counts them. Other errors (CROSSSLOT, TRYAGAIN, CLUSTERDOWN …) are rejections by their code.
//!
//! An operation for a node that is not connected waits, in the distribution, until the node is back or the map names
//! another one; operations for others go on meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_core::{
    ANSWER_BYTES_MAX, Address, Answer, Branches, CompletionSink, KEY_PARTS_MAX, Op, OpKind, Outcome, StoreError,
    StoreErrorKind, Ticket, Value, ValueBuf, WireSession, WireState, Wish,
};
use plimsoll_endpoint::tls::{TlsClient, session};

use crate::endpoint::Login;
use crate::flights::{Flights, MAP, Relay};
use crate::slots::{self, NOBODY, Redirection, SLOTS, slot_of};
use crate::wire::{Protocol, RedisSession};

/// Operations in flight on one session at most.
const DEPTH_MAX: u32 = 1 << 14;
/// Nodes that may come while a session lives, besides those that it was made with.
const NODES_MORE: usize = 8;
/// Slots of each of the parts of the keys that are told apart.
const PART_SLOTS: u16 = SLOTS / KEY_PARTS_MAX as u16;
/// Operations after which MOVED has the map read anew again: a slot after the other moves in a migration.
const MAP_AGE_OPS: u32 = 1_000;
/// Number of redirections by nodes, over all sessions of a store.
#[derive(Debug, Default)]
pub struct Redirections {
    /// Permanent redirections: MOVED.
    pub moved: AtomicU64,
    /// Redirections of one operation: ASK.
    pub asked: AtomicU64,
}

/// Common parts of the sessions over a cluster.
#[derive(Default)]
pub struct Members {
    /// Login at each node.
    pub login: Arc<Login>,
    /// Our side of TLS, where it is spoken.
    pub tls: Option<TlsClient>,
    /// Version of the protocol.
    pub protocol: Protocol,
    /// Begins every key.
    pub prefix: String,
    /// Nodes that are known.
    pub nodes: Vec<Address>,
    /// Counters of redirections.
    pub redirections: Arc<Redirections>,
}

/// See the module.
#[derive(Default)]
pub struct ClusterSession {
    members: Arc<Members>,
    state: WireState,
    kinds: Vec<OpKind>,
    nodes: Vec<Node>,
    nodes_max: usize,
    /// Most bytes that are kept of one answer.
    answer_max: usize,
    /// Position of each slot's master in `nodes`.
    owners: Box<[u16]>,
    /// Bytes of a key, put together to find its slot.
    key: Vec<u8>,
    /// Part of the keys of the operation that was started last.
    part: u8,
    flights: Flights,
    wishes: VecDeque<Wish>,
    /// The map has been read since the session was opened.
    is_mapped: bool,
    /// The session has been ready once: then it waits for no node.
    was_ready: bool,
    map_wanted: bool,
    /// The node that is asked for the map.
    map_asked: Option<usize>,
    ops_since_map: u32,
}

struct Node {
    address: Address,
    session: Box<dyn WireSession>,
    out: Vec<u8>,
    is_connected: bool,
    is_ready: bool,
    /// True if the connection was lost, or could not be made, since the session was opened.
    has_failed: bool,
    /// The map names it.
    is_named: bool,
    /// A connection is wished.
    is_wished: bool,
    /// True if `out` is to be sent.
    sends: bool,
    /// Operations that wait for it.
    waiting: Vec<u32>,
}

impl ClusterSession {
    /// A session over the nodes of `members`.
    pub fn new(members: Arc<Members>) -> Self {
        Self {
            nodes_max: members.nodes.len() + NODES_MORE,
            answer_max: ANSWER_BYTES_MAX,
            owners: vec![NOBODY; usize::from(SLOTS)].into_boxed_slice(),
            members,
            ..Self::default()
        }
    }

    /// The place of the node at `address`, which may be a new one; `None` when there are too many.
    fn node_at(&mut self, address: Address) -> Option<usize> {
        if let Some(place) = self.nodes.iter().position(|node| node.address == address) {
            return Some(place);
        }
        if self.nodes.len() >= self.nodes_max {
            return None;
        }
        let Members { login, tls, protocol, prefix, .. } = &*self.members;
        let mut login = Login::clone(login);
        if let Address::Tcp(host, port) = &address {
            login.place = format!("{host}:{port} of the cluster of {}", login.place);
        }
        let place = login.place.clone();
        let mut plain = RedisSession::new(Arc::new(login), *protocol, prefix.as_str());
        plain.in_cluster = true;
        let mut session = session(plain, tls.as_ref(), &address, &place).ok()?;
        session.limit_answers(self.answer_max);
        self.nodes.push(Node {
            address,
            session,
            out: Vec::with_capacity(1024),
            is_connected: false,
            is_ready: false,
            has_failed: false,
            is_named: false,
            is_wished: false,
            sends: false,
            waiting: Vec::new(),
        });
        Some(self.nodes.len() - 1)
    }

    fn wish_connection(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        if !node.is_wished {
            node.is_wished = true;
            self.wishes.push_back(Wish::Connect { branch: place, address: node.address.clone() });
        }
    }

    #[inline]
    fn wish_sending(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        if !node.sends && !node.out.is_empty() {
            node.sends = true;
            self.wishes.push_back(Wish::Send { branch: place });
        }
    }

    /// Any node that takes operations.
    fn any_ready(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.is_ready)
    }

    /// Sends an operation where its slot is.
    #[inline]
    fn route(&mut self, flight: u32) {
        let owner = self.owners[usize::from(self.flights.all[flight as usize].slot)];
        // A slot without a node: any node says so.
        let place = if owner == NOBODY { self.any_ready().unwrap_or(0) } else { usize::from(owner) };
        self.send(flight, place);
    }

    #[inline]
    fn send(&mut self, index: u32, place: usize) {
        let count = self.kinds.len() as u16;
        let flight = &mut self.flights.all[index as usize];
        flight.node = place as u16;
        let node = &mut self.nodes[place];
        flight.is_sent = node.is_ready;
        if !node.is_ready {
            node.waiting.push(index);
            return self.wish_connection(place);
        }
        let kind = if flight.asks { flight.kind + count } else { flight.kind };
        node.session.start(Ticket(index), &Op::new(kind, flight.params.values()), &mut node.out);
        self.wish_sending(place);
    }

    /// Asks those who know where they are: what nodes sent back.
    #[cold]
    fn send_elsewhere(&mut self, from: usize, done: &mut dyn CompletionSink) {
        for (index, redirection) in std::mem::take(&mut self.flights.elsewhere) {
            let Redirection { for_good, slot, ref node } = redirection;
            let counter = if for_good { &self.members.redirections.moved } else { &self.members.redirections.asked };
            counter.fetch_add(1, Relaxed);
            let address = slots::address(node, &self.nodes[from].address);
            let Some(place) = self.node_at(address) else {
                let words = "the cluster has more nodes than a session has room for; start the run again";
                self.refuse(index, words, done);
                continue;
            };
            if for_good {
                self.owners[usize::from(slot)] = place as u16;
                if self.ops_since_map >= MAP_AGE_OPS || !self.nodes[place].is_named {
                    self.map_wanted = true;
                }
            }
            self.flights.all[index as usize].asks = !for_good;
            self.send(index, place);
        }
        self.ask_map();
    }

    fn refuse(&mut self, index: u32, words: &str, done: &mut dyn CompletionSink) {
        let mut answer = Answer::default();
        let outcome = answer.fail(Outcome::Rejected, "NODES", words);
        done.push(self.flights.land(index), outcome, &answer);
    }

    /// Reads the map anew if that is wanted and no node has been asked for it.
    fn ask_map(&mut self) {
        if !self.map_wanted || self.map_asked.is_some() {
            return;
        }
        let Some(place) = self.any_ready() else { return };
        self.map_wanted = false;
        self.map_asked = Some(place);
        self.ops_since_map = 0;
        let kind = 2 * self.kinds.len() as u16;
        let node = &mut self.nodes[place];
        let nothing = ValueBuf::new();
        node.session.start(MAP, &Op::new(kind, nothing.values()), &mut node.out);
        self.wish_sending(place);
    }

    /// The map has been read: slots, nodes that are new and nodes that are gone.
    #[cold]
    fn take_map(&mut self, from: usize, bytes: &[u8]) -> Result<(), StoreError> {
        let ranges = slots::parse(bytes).ok_or_else(|| slots::no_answer(&self.members.login.place))?;
        self.owners.fill(NOBODY);
        self.nodes.iter_mut().for_each(|node| node.is_named = false);
        for range in ranges {
            let address = slots::address(&range.master, &self.nodes[from].address);
            let Some(place) = self.node_at(address) else { continue };
            self.nodes[place].is_named = true;
            self.owners[usize::from(range.first)..=usize::from(range.last)].fill(place as u16);
            self.wish_connection(place);
        }
        self.is_mapped = true;
        for place in 0..self.nodes.len() {
            // What waits for a node goes where its slot is now.
            for index in std::mem::take(&mut self.nodes[place].waiting) {
                self.flights.all[index as usize].asks = false;
                self.route(index);
            }
            let node = &mut self.nodes[place];
            if node.is_wished && !node.is_named && !node.is_connected {
                node.is_wished = false;
                self.wishes.push_back(Wish::Close { branch: place });
            }
        }
        Ok(())
    }

    /// A node takes operations: those that waited for it, too.
    #[cold]
    fn node_is_ready(&mut self, place: usize) {
        self.nodes[place].is_ready = true;
        for index in std::mem::take(&mut self.nodes[place].waiting) {
            self.send(index, place);
        }
        if !self.is_mapped {
            self.map_wanted = true;
        }
        self.ask_map();
    }

    /// Ready once the map is read and, the first time, every node that it names has been tried.
    fn look_whether_ready(&mut self) {
        let is_tried = |node: &Node| !node.is_named || node.is_ready || node.has_failed;
        if matches!(self.state, WireState::Opening)
            && self.is_mapped
            && (self.was_ready || self.nodes.iter().all(is_tried))
        {
            self.was_ready = true;
            self.state = WireState::Ready;
        }
    }

    fn slot_of(&mut self, key: Value<'_>) -> u16 {
        self.key.clear();
        self.key.extend_from_slice(self.members.prefix.as_bytes());
        key.with_bytes(|bytes| self.key.extend_from_slice(bytes));
        slot_of(&self.key)
    }
}

impl WireSession for ClusterSession {
    fn open(&mut self, kinds: &[OpKind], _: &mut Vec<u8>) {
        self.kinds = kinds.to_vec();
        self.state = WireState::Opening;
        self.wishes.clear();
        self.flights.clear();
        (self.is_mapped, self.map_wanted, self.map_asked) = (false, true, None);
        for node in &mut self.nodes {
            (node.is_connected, node.is_ready, node.has_failed, node.is_wished) = (false, false, false, false);
            node.sends = false;
            node.out.clear();
            node.waiting.clear();
        }
        for address in self.members.nodes.clone() {
            if let Some(place) = self.node_at(address) {
                self.wish_connection(place);
            }
        }
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.answer_max = bytes_max;
        self.nodes.iter_mut().for_each(|node| node.session.limit_answers(bytes_max));
    }

    fn depth_max(&self) -> u32 {
        DEPTH_MAX
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, _: &mut Vec<u8>) {
        let slot = self.slot_of(op.params.get(0));
        self.part = (slot / PART_SLOTS) as u8;
        let index = self.flights.start(ticket, op, slot);
        self.route(index);
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, _: &mut dyn CompletionSink) -> usize {
        bytes.len()
    }

    fn close(&mut self, _: &mut Vec<u8>) {}

    fn key_parts(&self) -> u8 {
        KEY_PARTS_MAX
    }

    #[inline]
    fn key_part(&self) -> u8 {
        self.part
    }

    fn branches(&mut self) -> Option<&mut dyn Branches> {
        Some(self)
    }
}

impl Branches for ClusterSession {
    fn count_max(&self) -> usize {
        self.nodes_max
    }

    #[inline]
    fn next_wish(&mut self) -> Option<Wish> {
        let wish = self.wishes.pop_front();
        if let Some(Wish::Send { branch }) = wish {
            self.nodes[branch].sends = false;
        }
        wish
    }

    fn connected(&mut self, branch: usize) {
        let node = &mut self.nodes[branch];
        node.is_connected = true;
        node.out.clear();
        node.session.open(&self.kinds, &mut node.out);
        self.wish_sending(branch);
    }

    fn feed(&mut self, branch: usize, bytes: &[u8], done: &mut dyn CompletionSink) -> Result<usize, StoreError> {
        let Some(node) = self.nodes.get_mut(branch) else { return Ok(bytes.len()) };
        let mut relay = Relay { flights: &mut self.flights, map: None, map_failed: false, ops: 0, done };
        let used = node.session.feed(bytes, &mut node.out, &mut relay);
        let Relay { map, map_failed, ops, .. } = relay;
        self.ops_since_map = self.ops_since_map.saturating_add(ops);
        match node.session.state() {
            WireState::Ready if !node.is_ready => self.node_is_ready(branch),
            WireState::Failed(error) => return Err(error.clone()),
            _ => {}
        }
        if map.is_some() || map_failed {
            self.map_asked = None;
            // A node that does not tell is not asked again at once.
            if let Some(map) = map {
                self.take_map(branch, &map)?;
            }
        }
        if !self.flights.elsewhere.is_empty() {
            self.send_elsewhere(branch, done);
        }
        self.wish_sending(branch);
        self.look_whether_ready();
        Ok(used)
    }

    fn lost(&mut self, branch: usize, error: &StoreError, done: &mut dyn CompletionSink) {
        use StoreErrorKind as K;
        let Some(node) = self.nodes.get_mut(branch) else { return };
        (node.is_connected, node.is_ready, node.has_failed, node.sends) = (false, false, true, false);
        node.out.clear();
        let mut answer = Answer::default();
        answer.fail(Outcome::Unknown, "connection", &error.to_string());
        for index in 0..self.flights.all.len() as u32 {
            let flight = &self.flights.all[index as usize];
            if !flight.is_free && flight.is_sent && usize::from(flight.node) == branch {
                done.push(self.flights.land(index), Outcome::Unknown, &answer);
            }
        }
        if self.map_asked == Some(branch) {
            self.map_asked = None;
        }
        let is_opening = matches!(self.state, WireState::Opening);
        let nobody_is_left = self.nodes.iter().all(|node| !node.is_wished || node.has_failed);
        if matches!(error.kind, K::Authentication | K::Permission | K::Usage | K::Missing)
            || is_opening && nobody_is_left
        {
            self.state = WireState::Failed(error.clone());
            return;
        }
        // Other nodes may know the node that has taken its place.
        self.map_wanted = true;
        self.ask_map();
        self.look_whether_ready();
    }

    fn awaited(&self) -> Option<&Address> {
        let mut nodes = self.flights.all.iter().filter(|flight| !flight.is_free).map(|flight| flight.node);
        let first = nodes.next()?;
        nodes.all(|node| node == first).then(|| self.nodes.get(usize::from(first)).map(|node| &node.address))?
    }

    fn out(&mut self, branch: usize) -> &mut Vec<u8> {
        &mut self.nodes[branch].out
    }
}
