//! Waits of a session before it opens its lost connection again, as a pure function of the seed and the attempt.

use plimsoll_core::pace::Backoff;

use crate::poisson::Random;

/// Sets the waits apart from other uses of the seed.
const BACKOFF: u64 = 0x6261_636b_6f66_6600;

/// Attempts of a session to open its connection.
#[derive(Debug, Clone)]
pub(crate) struct Attempts {
    backoff: Backoff,
    seed: u64,
    session: u64,
    /// Waits so far.
    count: u64,
    /// Longest next wait.
    next_ns: u64,
}

impl Attempts {
    pub fn new(backoff: Backoff, seed: u64, session: u64) -> Self {
        let mut attempts = Self { backoff, seed, session, count: 0, next_ns: 0 };
        attempts.succeeded();
        attempts
    }

    /// Returns the attempts for one of the session's several connections. `former` are those of the connection before
    /// it, so that each draws its own waits.
    pub fn of_branch(&self, number: usize, former: Option<Self>) -> Self {
        let count = former.map_or(0, |former| former.count);
        Self { count, ..Self::new(self.backoff, self.seed, self.session | ((number as u64 + 1) << 32)) }
    }

    /// Begins with the first wait again.
    pub fn succeeded(&mut self) {
        let (Backoff::Constant(first_ns) | Backoff::Doubling(first_ns, _) | Backoff::Jittered(first_ns, _)) =
            self.backoff;
        self.next_ns = first_ns;
    }

    /// Returns the longest time that the next wait may take.
    pub fn longest_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns the wait before the next attempt.
    pub fn wait_ns(&mut self) -> u64 {
        let longest_ns = self.next_ns;
        self.count += 1;
        match self.backoff {
            Backoff::Constant(_) => longest_ns,
            Backoff::Doubling(_, most_ns) => {
                self.next_ns = longest_ns.saturating_mul(2).min(most_ns);
                longest_ns
            }
            Backoff::Jittered(_, most_ns) => {
                self.next_ns = longest_ns.saturating_mul(2).min(most_ns);
                let mut random = Random::of([self.seed ^ BACKOFF, self.session, self.count]);
                (random.uniform() * longest_ns as f64) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn waits_ms(attempts: &mut Attempts, count: usize) -> Vec<u64> {
        (0..count).map(|_| attempts.wait_ns() / MS).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest_and_begin_again_after_a_success() {
        let mut attempts = Attempts::new(Backoff::default(), 1, 0);
        assert_eq!(waits_ms(&mut attempts, 9), [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        attempts.succeeded();
        assert_eq!(waits_ms(&mut attempts, 2), [10, 20]);
        assert_eq!(waits_ms(&mut Attempts::new(Backoff::Constant(70 * MS), 1, 0), 3), [70, 70, 70]);
    }

    #[test]
    fn waits_with_jitter_follow_from_the_seed_and_differ_between_sessions() {
        let backoff = Backoff::Jittered(100 * MS, 800 * MS);
        let of = |seed, session| waits_ms(&mut Attempts::new(backoff, seed, session), 200);
        let waits = of(7, 3);
        assert_eq!(waits, of(7, 3));
        assert!(waits != of(7, 4) && waits != of(8, 3));
        let limits = [100, 200, 400].into_iter().chain(std::iter::repeat(800));
        assert!(waits.iter().zip(limits).all(|(wait, limit)| *wait <= limit), "{waits:?}");
        // 197 waits are uniformly distributed up to 800 ms: their mean has a standard deviation of 16 ms.
        let mean_ms = waits[3..].iter().sum::<u64>() as f64 / 197.0;
        assert!((320.0..480.0).contains(&mean_ms), "{mean_ms} ms");
    }

    #[test]
    fn connections_of_one_session_have_waits_of_their_own() {
        let session = Attempts::new(Backoff::Jittered(100 * MS, 100 * MS), 7, 3);
        let waits = [0, 1].map(|number| waits_ms(&mut session.of_branch(number, None), 20));
        assert_ne!(waits[0], waits[1]);
    }

    #[test]
    fn a_connection_in_place_of_another_begins_with_the_first_wait_and_draws_its_own() {
        let session = Attempts::new(Backoff::Jittered(100 * MS, 100 * MS), 7, 3);
        let mut former = session.of_branch(0, None);
        let before = waits_ms(&mut former, 20);
        let after = waits_ms(&mut session.of_branch(0, Some(former)), 20);
        assert_ne!(before, after);
        let session = Attempts::new(Backoff::default(), 7, 3);
        let mut former = session.of_branch(0, None);
        let before = waits_ms(&mut former, 3);
        assert_eq!(before, waits_ms(&mut session.of_branch(0, Some(former)), 3));
    }
}
