//! A session over several servers that are asked different things: reads of replicas and writes of their primary, or each
//! key of the server that has it.
//!
//! It is made of whole sessions, one to each *side*. Each operation goes to one side and is answered from there; the steps
//! of an operation all go to one, so that a transaction is never in two places. A side may have several servers that do
//! equally well: it goes on to the next one when it has lost its connection. The session as a whole begins anew then, as a
//! session with one connection does: what a transaction had done before is gone with it.

use std::borrow::Cow;
use std::collections::VecDeque;

use plimsoll_core::{
    AnswerTally, Branches, Call, CompletionSink, KEY_PARTS_MAX, KvCall, Op, OpKind, ParamSpec, Params, StoreError,
    StoreErrorKind, Ticket, Value, WireClient, WireSession, WireState, Wish,
};

/// Attempts for a server that a side has not been connected to: a name may have two addresses.
const TRIES_EACH: usize = 2;

/// The parameter of stores whose replicas answer reads.
pub const READS: ParamSpec = ParamSpec::one_of(
    "reads",
    &["primary", "replicas", "any"],
    "servers that answer reads: the primary, replicas in turn, or all of them; replicas may be behind",
);

/// Servers that answer operations that only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// The server that takes the writes.
    #[default]
    Primary,
    /// Replicas, each session one of them in turn.
    Replicas,
    /// The primary for one session, a replica for the next.
    Any,
}

impl Reads {
    /// Reads the parameter [`READS`] of `params`.
    pub fn of(params: &Params) -> Self {
        match params.text(READS.name) {
            "replicas" => Reads::Replicas,
            "any" => Reads::Any,
            _ => Reads::Primary,
        }
    }

    /// Fails if replicas are to answer and there is none.
    ///
    /// # Errors
    /// `Usage`; `next` says how there would be some.
    pub fn must_have(self, replicas: usize, next: &str) -> Result<(), StoreError> {
        match (self, replicas) {
            (Reads::Replicas, 0) => {
                Err(StoreError::usage("reads go to replicas (reads = replicas), but there is none").next(next))
            }
            _ => Ok(()),
        }
    }

    /// A session that writes to the primary and reads where this says; `number` is the session's, and `replica` makes a
    /// session to one of so many `replicas`.
    ///
    /// # Errors
    /// As `primary` and `replica` say.
    pub fn session(
        self,
        number: usize,
        primary: impl FnOnce() -> Result<WireClient, StoreError>,
        replicas: usize,
        mut replica: impl FnMut(usize) -> Result<WireClient, StoreError>,
    ) -> Result<WireClient, StoreError> {
        let primary = primary()?;
        // With `any` every so many-th session reads of the primary.
        let turn = match self {
            Reads::Replicas if replicas > 0 => number % replicas,
            Reads::Any if !number.is_multiple_of(replicas + 1) => number % (replicas + 1) - 1,
            _ => return Ok(primary),
        };
        let readers =
            (0..replicas).map(|at| replica((turn + at) % replicas)).collect::<Result<Vec<_>, StoreError>>()?;
        Ok(Branched::client(vec![vec![primary], readers], Route::Reads))
    }
}

/// Side of the session that an operation is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Sends all operations to the only side.
    Only,
    /// Each key to the side that its hash says: the first parameter of an operation on bytes under bytes.
    Key,
    /// Sends operations of which every step is known to only read to the second branch; all others to the first.
    Reads,
}

/// See the module.
pub struct Branched {
    sides: Vec<Side>,
    route: Route,
    kinds: Vec<OpKind>,
    /// Side of each operation type with [`Route::Reads`].
    side_of: Vec<usize>,
    /// Side of the operation that was started last.
    branch: usize,
    state: WireState,
    wishes: VecDeque<Wish>,
}

/// Servers of which one is asked.
#[derive(Default)]
struct Side {
    /// Clients whose servers are acceptable.
    clients: Vec<WireClient>,
    /// The one that is asked now.
    at: usize,
    out: Vec<u8>,
    is_connected: bool,
    is_ready: bool,
    /// True if `out` is to be sent.
    sends: bool,
    /// Connections that did not come about since the session was opened.
    misses: usize,
}

impl Side {
    fn session(&mut self) -> &mut dyn WireSession {
        &mut *self.clients[self.at].session
    }

    /// Returns the target of the next connection.
    fn wish(&mut self, branch: usize) -> Wish {
        let WireClient { address, session } = &mut self.clients[self.at];
        let address = session.next_address().unwrap_or_else(|| address.clone());
        Wish::Connect { branch, address }
    }
}

impl Branched {
    /// A session with these sides, none of which is empty. Each begins with its first server.
    pub fn client(sides: Vec<Vec<WireClient>>, route: Route) -> WireClient {
        let side = |clients| Side { clients, out: Vec::with_capacity(1024), ..Side::default() };
        let sides: Vec<Side> = sides.into_iter().map(side).collect();
        let address = sides[0].clients[0].address.clone();
        let (kinds, side_of, wishes) = (Vec::new(), Vec::new(), VecDeque::new());
        let session = Branched { sides, route, kinds, side_of, branch: 0, state: WireState::Opening, wishes };
        WireClient { address, session: Box::new(session) }
    }

    /// Returns a session that is connected to one of `clients`, of which there is at least one. Each lost connection is
    /// followed by one to the next.
    pub fn in_turn(mut clients: Vec<WireClient>) -> WireClient {
        if clients.len() == 1 { clients.swap_remove(0) } else { Self::client(vec![clients], Route::Only) }
    }

    fn clients(&self) -> impl Iterator<Item = &WireClient> {
        self.sides.iter().flat_map(|side| &side.clients)
    }

    /// Notes whether all sides are ready.
    fn progress(&mut self) {
        if self.state == WireState::Opening && self.sides.iter().all(|side| side.is_ready) {
            self.state = WireState::Ready;
        }
    }

    #[inline]
    fn wish_sending(&mut self, branch: usize) {
        let side = &mut self.sides[branch];
        if !side.sends && !side.out.is_empty() {
            side.sends = true;
            self.wishes.push_back(Wish::Send { branch });
        }
    }
}

/// The side that has a key, of so many: by FNV-1a, folded.
fn side_of_key(key: Value<'_>, sides: usize) -> usize {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = key.with_bytes(|bytes| bytes.iter().fold(0xcbf2_9ce4_8422_2325, step));
    ((hash ^ (hash >> 32)) % sides as u64) as usize
}

/// Returns the side of each operation type with [`Route::Reads`]: 1 if the type, and with it all steps of its
/// operation, only read.
fn sides_of(kinds: &[OpKind]) -> Vec<usize> {
    let operation = |at: usize| kinds[at].step_of.map_or(at, usize::from);
    let mut writes = vec![false; kinds.len()];
    for (at, kind) in kinds.iter().enumerate() {
        // The operation that the steps belong to is not sent itself.
        if let Some(known) = writes.get_mut(operation(at)) {
            *known |= kind.call != Call::Steps && kind.writes();
        }
    }
    (0..kinds.len()).map(|at| usize::from(!writes.get(operation(at)).is_none_or(|writes| *writes))).collect()
}

impl WireSession for Branched {
    fn open(&mut self, kinds: &[OpKind], _: &mut Vec<u8>) {
        // The last attempt took too long: the next server of each side may take operations.
        let ran_out = self.state == WireState::Opening && !self.kinds.is_empty();
        self.kinds = kinds.to_vec();
        self.side_of = sides_of(kinds);
        self.state = WireState::Opening;
        self.wishes.clear();
        for (branch, side) in self.sides.iter_mut().enumerate() {
            if ran_out && !side.is_ready {
                side.at = (side.at + 1) % side.clients.len();
            }
            side.out.clear();
            (side.is_connected, side.is_ready, side.sends, side.misses) = (false, false, false, 0);
            let wish = side.wish(branch);
            self.wishes.push_back(wish);
        }
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        let clients = self.sides.iter_mut().flat_map(|side| &mut side.clients);
        clients.for_each(|client| client.session.limit_answers(bytes_max));
    }

    fn depth_max(&self) -> u32 {
        self.clients().map(|client| client.session.depth_max()).min().unwrap_or(1)
    }

    fn asked_again(&self) -> u64 {
        self.clients().map(|client| client.session.asked_again()).sum()
    }

    fn tally(&self) -> Option<Cow<'_, AnswerTally>> {
        let mut all = None::<AnswerTally>;
        let tallies = self.clients().filter_map(|client| client.session.tally());
        tallies.for_each(|more| all.get_or_insert_default().add(&more));
        all.map(Cow::Owned)
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, _: &mut Vec<u8>) {
        let branch = match self.route {
            Route::Only => 0,
            Route::Key if self.kinds[usize::from(op.kind)].call == Call::Kv(KvCall::Scan) => {
                let what = "adjacent keys are on different instances, and cannot be scanned";
                self.state = WireState::Failed(StoreError::usage(what).next("Leave `scan` out of the mix."));
                return;
            }
            Route::Key => side_of_key(op.params.get(0), self.sides.len()),
            Route::Reads => self.side_of[usize::from(op.kind)],
        };
        self.branch = branch;
        let side = &mut self.sides[branch];
        side.clients[side.at].session.start(ticket, op, &mut side.out);
        self.wish_sending(branch);
    }

    #[inline]
    fn flush(&mut self, _: &mut Vec<u8>) {
        for branch in 0..self.sides.len() {
            let side = &mut self.sides[branch];
            side.clients[side.at].session.flush(&mut side.out);
            self.wish_sending(branch);
        }
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, _: &mut dyn CompletionSink) -> usize {
        bytes.len()
    }

    fn close(&mut self, _: &mut Vec<u8>) {}

    fn key_parts(&self) -> u8 {
        let sides = u8::try_from(self.sides.len()).ok().filter(|sides| *sides <= KEY_PARTS_MAX);
        sides.filter(|_| self.route == Route::Key).unwrap_or(0)
    }

    #[inline]
    fn key_part(&self) -> u8 {
        self.branch as u8
    }

    fn branches(&mut self) -> Option<&mut dyn Branches> {
        Some(self)
    }
}

impl Branches for Branched {
    fn count_max(&self) -> usize {
        self.sides.len()
    }

    #[inline]
    fn next_wish(&mut self) -> Option<Wish> {
        let wish = self.wishes.pop_front();
        if let Some(Wish::Send { branch }) = wish {
            self.sides[branch].sends = false;
        }
        wish
    }

    fn connected(&mut self, branch: usize) {
        let side = &mut self.sides[branch];
        side.is_connected = true;
        side.out.clear();
        side.clients[side.at].session.open(&self.kinds, &mut side.out);
        // A protocol without a greeting is ready at once, or refuses the operation types.
        match side.session().state() {
            WireState::Failed(error) => self.state = WireState::Failed(error.clone()),
            state => side.is_ready = *state == WireState::Ready,
        }
        self.wish_sending(branch);
        self.progress();
    }

    fn feed(&mut self, branch: usize, bytes: &[u8], done: &mut dyn CompletionSink) -> Result<usize, StoreError> {
        let is_only = self.sides.len() == 1;
        let side = &mut self.sides[branch];
        let used = side.clients[side.at].session.feed(bytes, &mut side.out, done);
        match side.session().state() {
            WireState::Opening => {}
            WireState::Ready => side.is_ready = true,
            // As for a session with one connection: another one to the same server.
            WireState::Ended if is_only => self.state = WireState::Ended,
            WireState::Ended => {
                let what = "the server ended the connection";
                return Err(StoreError::new(StoreErrorKind::Unreachable, what));
            }
            WireState::Failed(error) => return Err(error.clone()),
        }
        self.wish_sending(branch);
        self.progress();
        Ok(used)
    }

    fn lost(&mut self, branch: usize, error: &StoreError, _: &mut dyn CompletionSink) {
        if matches!(self.state, WireState::Failed(_)) {
            return;
        }
        let side = &mut self.sides[branch];
        side.sends = false;
        if !side.is_connected {
            // The executor tries the same again by itself, at the next address of its name.
            side.misses += 1;
            if !side.misses.is_multiple_of(TRIES_EACH) {
                return;
            }
            if side.misses < TRIES_EACH * side.clients.len() {
                side.at = (side.at + 1) % side.clients.len();
                let wish = side.wish(branch);
                return self.wishes.push_back(wish);
            }
        }
        side.at = (side.at + 1) % side.clients.len();
        self.state = WireState::Failed(error.clone());
    }

    fn out(&mut self, branch: usize) -> &mut Vec<u8> {
        &mut self.sides[branch].out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_dealt_evenly() {
        let mut counts = [0; 3];
        (0..3_000).for_each(|number| counts[side_of_key(Value::Text(&format!("user{number}")), 3)] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    fn step(of: u16, text: &str) -> OpKind {
        OpKind { step_of: Some(of), ..OpKind::new("step", Call::Sql(text.to_owned()), &[]) }
    }

    #[test]
    fn an_operation_goes_to_replicas_only_where_none_of_its_steps_writes() {
        let kinds = [
            OpKind::new("read", Call::Kv(KvCall::Get), &[]),
            OpKind::new("update", Call::Kv(KvCall::Put), &[]),
            OpKind::new("looks", Call::Steps, &[]),
            step(2, "BEGIN"),
            step(2, "SELECT c FROM t WHERE id = $1"),
            step(2, "COMMIT"),
            OpKind::new("works", Call::Steps, &[]),
            step(6, "BEGIN"),
            step(6, "SELECT c FROM t WHERE id = $1"),
            step(6, "UPDATE t SET c = 1 WHERE id = $1"),
            OpKind::new("locks", Call::Sql("SELECT c FROM t FOR UPDATE".to_owned()), &[]),
            OpKind::new("calls", Call::Sql("SELECT mine()".to_owned()), &[]),
        ];
        assert_eq!(sides_of(&kinds), [1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    }
}
