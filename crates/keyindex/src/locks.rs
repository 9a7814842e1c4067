//! Locks on records, shared by the sessions of one process that write to one store.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

const WORDS: usize = 16;
const STRIPES: u64 = WORDS as u64 * 64;

/// A set of stripes; a key stands for the stripe that its hash falls on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stripes([u64; WORDS]);

impl Stripes {
    /// No stripe.
    const NONE: Stripes = Stripes([0; WORDS]);
    /// Every stripe, and with it every key.
    pub(crate) const ALL: Stripes = Stripes([u64::MAX; WORDS]);

    fn add(&mut self, key_hash: u64) {
        let stripe = key_hash % STRIPES;
        self.0[(stripe / 64) as usize] |= 1 << (stripe % 64);
    }
}

/// The hash of a key; the same in every session of a process.
fn key_hash(key: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key)
}

/// Locks that keep two writers of one process from working on the same record at a time.
///
/// An update reads a record before it writes; two of them at once on the same record would each remove
/// what it saw and leave index keys of a version that is no more. Sessions that share one `KeyLocks` wait
/// for each other there. 1,024 stripes are held as bits under one mutex, taken for some ten nanoseconds,
/// so that a batch takes all of its keys at once and there is no order to get wrong.
///
/// Writers in different processes are not kept apart: there, each key wants one owner.
#[derive(Debug)]
pub(crate) struct KeyLocks {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug)]
struct State {
    held: Stripes,
    waiting: u32,
    /// Number of threads that wait for all locks. While it is not zero no other thread gets one, or the wait might
    /// never end.
    waiting_for_all: u32,
}

impl Default for KeyLocks {
    fn default() -> Self {
        let state = State { held: Stripes::NONE, waiting: 0, waiting_for_all: 0 };
        KeyLocks { state: Mutex::new(state), released: Condvar::new() }
    }
}

impl KeyLocks {
    /// Locks these keys, after waiting for their holders. A thread must not hold two guards.
    pub(crate) fn lock_keys<'k>(self: &Arc<Self>, keys: impl IntoIterator<Item = &'k [u8]>) -> LockGuard {
        let mut stripes = Stripes::NONE;
        keys.into_iter().for_each(|key| stripes.add(key_hash(key)));
        self.lock(stripes)
    }

    /// Waits until all of `stripes` are free and takes them.
    pub(crate) fn lock(self: &Arc<Self>, stripes: Stripes) -> LockGuard {
        let all = stripes == Stripes::ALL;
        let mut state = self.state();
        state.waiting_for_all += u32::from(all);
        while overlap(&state.held, &stripes) || (!all && state.waiting_for_all > 0) {
            state.waiting += 1;
            state = self.released.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.waiting_for_all -= u32::from(all);
        for (held, wanted) in state.held.0.iter_mut().zip(stripes.0) {
            *held |= wanted;
        }
        LockGuard { locks: Arc::clone(self), stripes }
    }

    /// Returns the state. No code can panic while the mutex is held, so a poisoned one is valid.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn overlap(a: &Stripes, b: &Stripes) -> bool {
    a.0.iter().zip(b.0).any(|(a, b)| a & b != 0)
}

/// Gives its stripes back when dropped.
pub(crate) struct LockGuard {
    locks: Arc<KeyLocks>,
    stripes: Stripes,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut state = self.locks.state();
        for (held, ours) in state.held.0.iter_mut().zip(self.stripes.0) {
            *held &= !ours;
        }
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.locks.released.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn no_two_threads_hold_a_stripe_and_whoever_wants_all_gets_them() {
        let locks = Arc::new(KeyLocks::default());
        let inside: Vec<AtomicU32> = (0..3).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (locks, inside) = (&locks, &inside);
                scope.spawn(move || {
                    for round in 0..2_000u64 {
                        let mut stripes = Stripes::NONE;
                        let keys = if (round + thread).is_multiple_of(50) {
                            stripes = Stripes::ALL;
                            vec![0, 1, 2]
                        } else {
                            let (a, b) = (round % 3, (round + thread) % 3);
                            stripes.add(a);
                            stripes.add(b);
                            if a == b { vec![a] } else { vec![a, b] }
                        };
                        let guard = locks.lock(stripes);
                        for key in &keys {
                            assert_eq!(inside[*key as usize].fetch_add(1, Ordering::SeqCst), 0);
                        }
                        for key in &keys {
                            inside[*key as usize].fetch_sub(1, Ordering::SeqCst);
                        }
                        drop(guard);
                    }
                });
            }
        });
        assert_eq!(locks.state().held, Stripes::NONE);
    }
}
