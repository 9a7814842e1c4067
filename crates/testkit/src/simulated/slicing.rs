//! Slices of a simulated drive: bounds as of a real one, and counts of the operations that ended in each.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use hdrhistogram::Histogram;
use plimsoll_core::{
    AFFECTED_NS, ClientSet, ClientSilence, KeyParts, KindId, Measure, Outcome, PartTick, Slice, SliceHistogram,
    TICK_NS, Tick,
};

/// Longest time that is told apart.
const TOP_NS: u64 = 3_600_000_000_000;

/// An operation that ended, or will. Its end comes first, so that they are ordered by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndedOp {
    pub end_ns: u64,
    pub sent_ns: u64,
    pub due_ns: u64,
    pub kind: KindId,
    pub client: u32,
    /// Position in [`Outcome::ALL`].
    pub outcome: usize,
    /// Part of the keys.
    pub part: u8,
}

/// Wait of a client for an answer.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    /// Sending of the first operation without an answer since the last one.
    since_ns: Option<u64>,
    /// End of the last operation.
    ended_ns: u64,
}

/// Slices of a drive, one after the other.
#[derive(Default)]
pub(super) struct Slicing {
    pub start_ns: u64,
    pub warmup_end_ns: u64,
    /// Planned end.
    pub planned_end_ns: Option<u64>,
    slice_ns: u64,
    has_ticks: bool,
    /// Number of clients.
    clients: u32,
    /// Waits of the clients for answers, if ticks are counted.
    waiting: Vec<Waiting>,
    /// Number of parts of the keys.
    key_parts: u8,
    is_open: bool,
    ordinal: u32,
    /// Start of the present slice.
    from_ns: u64,
    /// Operations that were sent, and whose end belongs to the present slice or a later one.
    sent: BinaryHeap<Reverse<EndedOp>>,
}

impl Slicing {
    /// Makes the slices of a drive that begins at `start_ns`; `is_open` is true if its operations have scheduled times.
    pub fn new(start_ns: u64, warmup_ns: u64, length_ns: Option<u64>, slice_ns: u64, is_open: bool) -> Self {
        let warmup_end_ns = start_ns + warmup_ns;
        Self {
            start_ns,
            warmup_end_ns,
            planned_end_ns: length_ns.map(|length_ns| warmup_end_ns + length_ns),
            slice_ns,
            is_open,
            from_ns: start_ns,
            ..Self::default()
        }
    }

    /// Counts operations also by ticks, the affected and silent ones of so many clients, and so many parts of the keys.
    pub fn with_ticks(self, has_ticks: bool, clients: u32, key_parts: u8) -> Self {
        let waiting = vec![Waiting::default(); if has_ticks { clients as usize } else { 0 }];
        Self { has_ticks, clients, waiting, key_parts, ..self }
    }

    /// Takes an operation that was sent.
    pub fn push(&mut self, op: EndedOp) {
        self.sent.push(Reverse(op));
    }

    /// Returns the start of the present slice.
    pub fn began_ns(&self) -> u64 {
        self.from_ns
    }

    /// Returns the end of the present slice.
    pub fn until_ns(&self) -> u64 {
        let seams = [Some(self.warmup_end_ns), self.planned_end_ns].into_iter().flatten();
        seams.filter(|seam_ns| *seam_ns > self.from_ns).fold(self.from_ns + self.slice_ns, u64::min)
    }

    /// Ends the present slice at `until_ns`. The last one takes all operations that are left. `due_unsent` are those
    /// whose times had come, in order.
    pub fn cut(&mut self, until_ns: u64, is_last: bool, due_unsent: impl Iterator<Item = u64>) -> Slice {
        let length_ns = until_ns - self.from_ns;
        let ticks = if self.has_ticks { length_ns.div_ceil(TICK_NS) as usize } else { 0 };
        let mut slice = Slice {
            ordinal: self.ordinal,
            warmup: self.from_ns < self.warmup_end_ns,
            drain: self.planned_end_ns.is_some_and(|end_ns| self.from_ns >= end_ns),
            start_ns: self.from_ns,
            end_ns: until_ns,
            wall_ns: until_ns as i64,
            ticks: vec![Tick::default(); ticks],
            affected: self.has_ticks.then(|| ClientSet::none_of(self.clients)),
            ..Slice::default()
        };
        let mut ended = Vec::new();
        while let Some(Reverse(op)) = self.sent.pop() {
            if !is_last && op.end_ns >= until_ns {
                self.sent.push(Reverse(op));
                break;
            }
            self.count(&mut slice, &op);
            ended.push(op);
        }
        slice.silences = self.has_ticks.then(|| self.silences(&ended, until_ns, is_last));
        let has_parts = ticks > 0 && self.key_parts > 0;
        slice.key_parts = has_parts.then(|| self.key_parts(&ended, (self.from_ns, until_ns), ticks));
        let mut oldest_ns = self.sent.iter().map(|Reverse(op)| op.due_ns).min().unwrap_or(until_ns);
        for due_ns in due_unsent.take_while(|due_ns| *due_ns < until_ns) {
            slice.due_unsent += 1;
            oldest_ns = oldest_ns.min(due_ns);
        }
        slice.in_flight = self.sent.len() as u64;
        slice.oldest_age_ns = until_ns.saturating_sub(oldest_ns);
        self.ordinal += 1;
        self.from_ns = until_ns;
        slice
    }

    /// Returns the longest silence of each client that ended with one of these operations; in the last slice also those
    /// that no answer ended.
    fn silences(&mut self, ended: &[EndedOp], until_ns: u64, is_last: bool) -> Vec<ClientSilence> {
        let is_open = self.is_open;
        let is_unasked = |client: &Waiting, at_ns: u64| is_open && at_ns.saturating_sub(client.ended_ns) >= AFFECTED_NS;
        let mut longest: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut note = |client: u32, from_ns: u64, end_ns: u64| {
            let known = longest.get(&client).map_or(0, |(from_ns, end_ns)| end_ns - from_ns);
            if end_ns - from_ns >= known.max(AFFECTED_NS) {
                longest.insert(client, (from_ns, end_ns));
            }
        };
        for op in ended {
            let Some(client) = self.waiting.get_mut(op.client as usize) else { continue };
            let mut from_ns = op.sent_ns;
            match client.since_ns {
                Some(since_ns) if is_unasked(&*client, op.due_ns) => note(op.client, since_ns, client.ended_ns),
                Some(since_ns) => from_ns = since_ns,
                None => {}
            }
            let is_error = Outcome::ALL[op.outcome].is_error();
            *client = Waiting { since_ns: is_error.then_some(from_ns), ended_ns: op.end_ns };
            if !is_error {
                note(op.client, from_ns, op.end_ns);
            }
        }
        let ended = longest.into_iter();
        let ended =
            ended.map(|(client, (from_ns, until_ns))| ClientSilence { client, from_ns, until_ns: Some(until_ns) });
        let rest = (0..).zip(&self.waiting).filter(|_| is_last).filter_map(|(client, waiting): (u32, &Waiting)| {
            let (from_ns, ended_ns) = (waiting.since_ns?, is_unasked(waiting, until_ns).then_some(waiting.ended_ns));
            let length_ns = ended_ns.unwrap_or(until_ns).saturating_sub(from_ns);
            (length_ns >= AFFECTED_NS).then_some(ClientSilence { client, from_ns, until_ns: ended_ns })
        });
        ended.chain(rest).collect()
    }

    /// Returns the parts of the keys in a slice with so many ticks, in which these operations ended.
    fn key_parts(&self, ended: &[EndedOp], (from_ns, until_ns): (u64, u64), ticks: usize) -> KeyParts {
        let in_flight = self.sent.iter().map(|Reverse(op)| op);
        let sent = ended.iter().chain(in_flight).filter(|op| (from_ns..until_ns).contains(&op.sent_ns));
        let answered = ended.iter().filter(|op| !Outcome::ALL[op.outcome].is_error());
        let sent = sent.map(|op| (op.sent_ns, false, op.part));
        let mut events: Vec<(u64, bool, u8)> = sent.chain(answered.map(|op| (op.end_ns, true, op.part))).collect();
        events.sort_unstable();
        let mut parts = KeyParts { of: self.key_parts, ticks: vec![PartTick::default(); ticks] };
        for (at_ns, is_answer, part) in events {
            let (at, bit) = ((at_ns - from_ns) / TICK_NS, 1u64 << part);
            let tick = &mut parts.ticks[(at as usize).min(ticks - 1)];
            match is_answer {
                true => (tick.asked, tick.answered) = (tick.asked & !bit, tick.answered | bit),
                false => tick.asked |= bit,
            }
        }
        parts
    }

    /// Counts an operation in its slice.
    fn count(&self, slice: &mut Slice, op: &EndedOp) {
        let outcome = Outcome::ALL[op.outcome];
        let last = slice.ticks.len().saturating_sub(1);
        let at = (op.end_ns.saturating_sub(slice.start_ns) / TICK_NS) as usize;
        if let Some(tick) = slice.ticks.get_mut(at.min(last)) {
            let count = if outcome.is_error() { &mut tick.failed } else { &mut tick.answered };
            *count += 1;
        }
        let is_affected = outcome.is_error() || op.end_ns - op.due_ns >= AFFECTED_NS;
        if let Some(affected) = slice.affected.as_mut().filter(|_| is_affected) {
            affected.insert(op.client);
        }
        let times = [(Measure::Service, op.end_ns - op.sent_ns), (Measure::Response, op.end_ns - op.due_ns)];
        for (measure, time_ns) in times.into_iter().take(if self.is_open { 2 } else { 1 }) {
            let is_same = |one: &SliceHistogram| (one.kind, one.outcome, one.measure) == (op.kind, outcome, measure);
            let at = slice.histograms.iter().position(is_same).unwrap_or_else(|| {
                let histogram = times_of(if outcome == Outcome::Ok { 3 } else { 2 });
                slice.histograms.push(SliceHistogram { kind: op.kind, outcome, measure, histogram });
                slice.histograms.len() - 1
            });
            record(&mut slice.histograms[at].histogram, time_ns);
        }
    }
}

/// Makes an empty histogram with so many significant digits, laid out as those of a drive.
pub(super) fn times_of(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, TOP_NS, digits).expect("bounds that hdrhistogram accepts")
}

/// Counts a time.
pub(super) fn record(times: &mut Histogram<u64>, time_ns: u64) {
    times.record(time_ns.min(TOP_NS)).expect("a time within the bounds");
}
