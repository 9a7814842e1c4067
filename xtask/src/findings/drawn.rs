//! Trials drawn from a seed: their stands, causes and moments.

use super::cause::{Cause, Stand, UNWATCHED, WATCHED};

/// Time before the first episode and after the last, in seconds.
pub const MARGIN_S: f64 = 4.0;
/// Shortest time between two episodes, in seconds: slow moments that are closer may become one.
pub const GAP_S: f64 = 1.5;
/// Episodes of each cause: what rises by chance is high at few of them.
const EPISODES: usize = 8;
/// Part of a drive for each episode, in seconds.
const PART_S: f64 = 5.5;
/// Trials of each share among 300: one cause, two causes, a cause that nothing watches.
const SHARES: [usize; 3] = [200, 60, 40];

/// Share of the trials that a trial belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// A cause that a series shows.
    Single,
    /// Two of them.
    Two,
    /// A cause that no series shows.
    Unwatched,
}

/// Time in which a cause is planted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episode {
    /// Cause.
    pub cause: Cause,
    /// Start, in seconds after that of the drive.
    pub at_s: f64,
    /// Length, in seconds.
    pub length_s: f64,
}

/// A trial before it is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Number, from 1.
    pub number: usize,
    /// Seed of the drive.
    pub seed: u64,
    /// Share.
    pub share: Share,
    /// Store and workload.
    pub stand: &'static Stand,
    /// Causes: one, or two.
    pub causes: Vec<Cause>,
    /// Episodes in order of time.
    pub episodes: Vec<Episode>,
}

/// Returns the length of a drive with these causes, in seconds.
pub fn drive_s(causes: &[Cause]) -> f64 {
    2.0 * MARGIN_S + PART_S * (EPISODES * causes.len()) as f64
}

/// Generator of random numbers: SplitMix64 (Steele, Lea & Flood, *OOPSLA* 2014).
struct Dice(u64);

impl Dice {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to below 1.
    fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a whole number below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        ((self.share() * n as f64) as usize).min(n.saturating_sub(1))
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last + 1));
        }
    }
}

/// Draws `n` trials: two thirds of one cause, a fifth of two, and the rest of a cause that nothing watches. Causes of a
/// share are equally frequent, and trials of all shares are mixed.
pub fn trials(n: usize, seed: u64) -> Vec<Trial> {
    let mut dice = Dice(seed);
    let of_300 = |count: usize| (n * count + 150) / 300;
    let single = of_300(SHARES[0]).min(n);
    let two = of_300(SHARES[1]).min(n - single);
    let mut drawn: Vec<(Share, &'static Stand, Vec<Cause>)> = Vec::new();
    for at in 0..n {
        drawn.push(if at < single {
            one(&mut dice, Share::Single, WATCHED[at % WATCHED.len()])
        } else if at < single + two {
            pair(&mut dice)
        } else {
            one(&mut dice, Share::Unwatched, UNWATCHED[(at - single - two) % UNWATCHED.len()])
        });
    }
    dice.shuffle(&mut drawn);
    let numbered = drawn.into_iter().enumerate();
    let trial = |(at, (share, stand, causes)): (usize, (Share, &'static Stand, Vec<Cause>))| {
        // A seed of a plan is a signed number.
        let seed = dice.bits() >> 1;
        let episodes = episodes(&mut dice, &causes);
        Trial { number: at + 1, seed, share, stand, causes, episodes }
    };
    numbered.map(trial).collect()
}

fn one(dice: &mut Dice, share: Share, cause: Cause) -> (Share, &'static Stand, Vec<Cause>) {
    let stands = cause.stands();
    (share, &stands[dice.below(stands.len())], vec![cause])
}

/// Draws a stand and two causes that can be planted there.
fn pair(dice: &mut Dice) -> (Share, &'static Stand, Vec<Cause>) {
    let mut all: Vec<(&'static Stand, Cause, Cause)> = Vec::new();
    for (at, first) in WATCHED.iter().enumerate() {
        for stand in first.stands() {
            let others = WATCHED[at + 1..].iter().filter(|other| other.stands().contains(stand));
            all.extend(others.map(|other| (stand, *first, *other)));
        }
    }
    let (stand, first, second) = all[dice.below(all.len())];
    (Share::Two, stand, vec![first, second])
}

/// Draws episodes: one in each of several equal parts of the drive, at a random moment. Two causes have as many each.
fn episodes(dice: &mut Dice, causes: &[Cause]) -> Vec<Episode> {
    let mut order = causes.repeat(EPISODES);
    dice.shuffle(&mut order);
    let episode = |(at, cause): (usize, Cause)| {
        let (least, most) = cause.length_s();
        let length_s = least + dice.share() * (most - least);
        let free_s = (PART_S - length_s - GAP_S).max(0.0);
        Episode { cause, at_s: MARGIN_S + at as f64 * PART_S + dice.share() * free_s, length_s }
    };
    order.into_iter().enumerate().map(episode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_one_list_of_trials_and_another_seed_another() {
        assert_eq!(trials(60, 7), trials(60, 7));
        assert_ne!(trials(60, 7), trials(60, 8));
    }

    #[test]
    fn shares_are_those_of_three_hundred_and_all_causes_are_planted() {
        let count = |all: &[Trial], share| all.iter().filter(|trial| trial.share == share).count();
        let shares = |all: &[Trial]| [Share::Single, Share::Two, Share::Unwatched].map(|share| count(all, share));
        let all = trials(300, 1);
        assert_eq!(shares(&all), [200, 60, 40]);
        assert_eq!(shares(&trials(30, 1)), [20, 6, 4]);
        assert_eq!(shares(&trials(1, 1)), [1, 0, 0]);
        assert!(trials(0, 1).is_empty());
        for cause in WATCHED.into_iter().chain(UNWATCHED) {
            assert!(all.iter().filter(|trial| trial.causes == [cause]).count() >= 13, "{cause:?}");
        }
    }

    #[test]
    fn episodes_are_apart_within_the_drive_and_can_be_planted_there() {
        for trial in trials(300, 3) {
            assert!(trial.causes.iter().all(|cause| cause.stands().contains(trial.stand)));
            for cause in &trial.causes {
                let own = trial.episodes.iter().filter(|episode| episode.cause == *cause).count();
                assert_eq!(own, EPISODES, "{trial:?}");
            }
            for pair in trial.episodes.windows(2) {
                assert!(pair[0].at_s + pair[0].length_s + GAP_S <= pair[1].at_s + 1e-9, "{trial:?}");
            }
            let (last, drive_s) = (trial.episodes[trial.episodes.len() - 1], drive_s(&trial.causes));
            assert!(trial.episodes[0].at_s >= MARGIN_S && last.at_s + last.length_s <= drive_s - MARGIN_S + 1e-9);
            // Of 180 slices of a quarter of a second at least.
            assert!((45.0..=100.0).contains(&drive_s), "{drive_s}");
        }
    }
}
