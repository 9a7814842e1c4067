//! Silences of clients: times from the sending of an operation until one was answered.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_core::{AFFECTED_NS, ClientSilence, Outcome};

use crate::schedule::NEVER_NS;

/// Clients of a worker that wait for an answer, by lane.
#[derive(Debug)]
pub(crate) struct Unanswered(Box<[u64]>);

impl Unanswered {
    /// Makes that of so many lanes; 0 if silences are not looked for.
    pub fn of(lanes: usize) -> Self {
        Self(vec![NEVER_NS; lanes].into())
    }

    /// Notes the end of an operation that was sent at `sent_ns`. Returns start and end of the silence that ends with it,
    /// if that was long. Writes nothing if the operation, and the one before it, were answered. `unasked` returns the
    /// start of the time in which the client was ready and had nothing to ask, and its length.
    #[inline(always)]
    pub fn end(
        &mut self,
        lane: usize,
        (sent_ns, now_ns): (u64, u64),
        outcome: Outcome,
        unasked: impl FnOnce() -> (u64, u64),
    ) -> Option<(u64, u64)> {
        let since_ns = self.0.get_mut(lane)?;
        let (mut from_ns, mut before) = (sent_ns, None);
        if *since_ns != NEVER_NS {
            match unasked() {
                (ready_ns, length_ns) if length_ns >= AFFECTED_NS => before = long(*since_ns, ready_ns),
                _ => from_ns = *since_ns,
            }
        }
        let next_ns = if outcome.is_error() { from_ns } else { NEVER_NS };
        if *since_ns != next_ns {
            *since_ns = next_ns;
        }
        let now = if outcome.is_error() { None } else { long(from_ns, now_ns) };
        match (before, now) {
            (Some(one), Some(other)) => Some(if one.1 - one.0 > other.1 - other.0 { one } else { other }),
            (one, other) => one.or(other),
        }
    }

    /// Returns the lanes without an answer since their last failed operation, with the start of their silence.
    pub fn rest(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.0.iter().copied().enumerate().filter(|(_, since_ns)| *since_ns != NEVER_NS)
    }
}

/// Returns start and end of a time, if it is long.
fn long(from_ns: u64, until_ns: u64) -> Option<(u64, u64)> {
    (until_ns.saturating_sub(from_ns) >= AFFECTED_NS).then_some((from_ns, until_ns))
}

/// Longest silence of each lane of a worker that ended in a slice: client, start and end. The end is 0 without one.
#[derive(Debug)]
pub(crate) struct LongestSilences(Box<[[AtomicU64; 3]]>);

impl LongestSilences {
    /// Makes that of so many lanes.
    pub fn of(lanes: usize) -> Self {
        Self((0..lanes).map(|_| Default::default()).collect())
    }

    /// Notes a silence that ended at `until_ns`, if it is the longest of its lane.
    #[cold]
    pub fn note(&self, lane: usize, client: u32, from_ns: u64, until_ns: u64) {
        let Some([of, from, until]) = self.0.get(lane) else { return };
        let longest_ns = until.load(Relaxed).saturating_sub(from.load(Relaxed));
        if until_ns.saturating_sub(from_ns) > longest_ns {
            of.store(client.into(), Relaxed);
            from.store(from_ns, Relaxed);
            until.store(until_ns, Relaxed);
        }
    }

    /// Moves the silences into `all`: those of other workers. Leaves none.
    pub fn drain_into(&self, all: &mut Vec<ClientSilence>) {
        for [client, from, until] in self.0.iter() {
            let until_ns = until.load(Relaxed);
            if until_ns > 0 {
                let (client, from_ns) = (client.load(Relaxed) as u32, from.load(Relaxed));
                all.push(ClientSilence { client, from_ns, until_ns: Some(until_ns) });
                from.store(0, Relaxed);
                until.store(0, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Ends an operation of a client that is always asked. Times are milliseconds.
    fn end(clients: &mut Unanswered, lane: usize, sent: u64, now: u64, outcome: Outcome) -> Option<(u64, u64)> {
        let found = clients.end(lane, (sent * MS, now * MS), outcome, || (0, 0));
        found.map(|(from_ns, until_ns)| (from_ns / MS, until_ns / MS))
    }

    #[test]
    fn a_silence_is_from_the_first_operation_without_an_answer_to_the_next_answer() {
        let mut clients = Unanswered::of(2);
        assert_eq!(end(&mut clients, 0, 0, 99, Outcome::Ok), None, "shorter than 0.1 s");
        assert_eq!(end(&mut clients, 0, 100, 200, Outcome::NotFound), Some((100, 200)), "one slow answer");
        assert_eq!(end(&mut clients, 0, 300, 301, Outcome::Unknown), None);
        assert_eq!(end(&mut clients, 0, 350, 351, Outcome::Rejected), None);
        assert_eq!(end(&mut clients, 1, 350, 351, Outcome::Ok), None, "another client");
        assert_eq!(clients.rest().collect::<Vec<_>>(), [(0, 300 * MS)]);
        assert_eq!(end(&mut clients, 0, 399, 401, Outcome::Ok), Some((300, 401)));
        assert_eq!(clients.rest().count(), 0);
        // A short silence leaves nothing behind.
        assert_eq!(end(&mut clients, 0, 500, 501, Outcome::Rejected), None);
        assert_eq!(end(&mut clients, 0, 502, 503, Outcome::Ok), None);
        assert_eq!(end(&mut clients, 0, 700, 701, Outcome::Ok), None);
        // Silences are not looked for.
        let mut none = Unanswered::of(0);
        assert_eq!((end(&mut none, 0, 0, 500, Outcome::Ok), none.rest().count()), (None, 0));
    }

    #[test]
    fn a_client_that_is_not_asked_for_long_is_not_silent_meanwhile() {
        let mut clients = Unanswered::of(1);
        assert_eq!(end(&mut clients, 0, 0, 150, Outcome::Unknown), None);
        // Ready from 160 ms on, and not asked before a second.
        let unasked = || (160 * MS, 840 * MS);
        let found = clients.end(0, (1_000 * MS, 1_001 * MS), Outcome::Rejected, unasked);
        assert_eq!(found, Some((0, 160 * MS)));
        assert_eq!(clients.rest().collect::<Vec<_>>(), [(0, 1_000 * MS)]);
        // The longer of two that end with one operation.
        let found = clients.end(0, (1_500 * MS, 1_900 * MS), Outcome::Ok, || (1_150 * MS, 350 * MS));
        assert_eq!(found, Some((1_500 * MS, 1_900 * MS)));
        assert_eq!(clients.rest().count(), 0);
    }

    #[test]
    fn of_the_silences_of_a_client_that_ended_in_a_slice_the_longest_is_kept() {
        let worker = LongestSilences::of(2);
        worker.note(0, 7, 5, 105);
        worker.note(0, 7, 200, 350);
        worker.note(0, 7, 400, 520);
        worker.note(1, 9, 0, 100);
        worker.note(2, 3, 0, 100);
        let silence = |client, from_ns, until_ns| ClientSilence { client, from_ns, until_ns: Some(until_ns) };
        let mut all = vec![silence(0, 1, 2)];
        worker.drain_into(&mut all);
        assert_eq!(all, [silence(0, 1, 2), silence(7, 200, 350), silence(9, 0, 100)]);
        all.clear();
        worker.drain_into(&mut all);
        assert!(all.is_empty());
        worker.note(0, 7, 600, 710);
        worker.drain_into(&mut all);
        assert_eq!(all, [silence(7, 600, 710)], "shorter than one of the slice before");
    }
}
