//! Group commit: one sync for all sessions that wait for one.
//!
//! fjall syncs its journal under the lock that every write needs, so sessions that each sync their own write
//! queue up for one sync each. Here the first session that finds no leader takes what all others have queued
//! meanwhile, writes it as one batch, syncs once, and wakes them: as many writes to a sync as there are sessions
//! waiting, as databases with a commit queue do it. A write becomes visible after the sync, and is acknowledged after that.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use fjall::{Database, Keyspace, PersistMode, UserKey, UserValue};
use plimsoll_core::KvError;

use crate::errors::kv_error;

/// A put, or a delete where there is no value.
pub(crate) type Write = (Keyspace, UserKey, Option<UserValue>);

#[derive(Default)]
pub(crate) struct GroupCommit {
    state: Mutex<State>,
    led: Condvar,
}

#[derive(Default)]
struct State {
    /// Writes of the next leader.
    queued: Vec<Write>,
    /// The group that is being queued. All before it have been taken by a leader.
    queueing: u64,
    /// Groups below this one are through.
    through: u64,
    leading: bool,
    /// The group whose commit failed, and how. No later one can succeed: fjall stops taking writes.
    failed: Option<(u64, String)>,
}

impl GroupCommit {
    /// Returns when `writes` are on the disk, all together with whatever else stood in the queue.
    pub(crate) fn commit(&self, db: &Database, writes: impl Iterator<Item = Write>) -> Result<(), KvError> {
        let mut state = self.state();
        state.queued.extend(writes);
        let group = state.queueing;
        loop {
            if state.through > group {
                return match &state.failed {
                    Some((failed, what)) if *failed <= group => Err(unknown(what)),
                    _ => Ok(()),
                };
            }
            if state.leading {
                state = self.led.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // There is no leader, so no session has taken this group.
            state.leading = true;
            state.queueing += 1;
            let writes = std::mem::take(&mut state.queued);
            drop(state);
            let done = write(db, writes);
            state = self.state();
            state.leading = false;
            state.through = group + 1;
            if let Err(error) = &done {
                state.failed.get_or_insert_with(|| (group, format!("{error:?}")));
            }
            drop(state);
            self.led.notify_all();
            return done.map_err(|error| kv_error(&error));
        }
    }

    /// Every change of the state is whole when its lock is released, also by a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(db: &Database, writes: Vec<Write>) -> fjall::Result<()> {
    let mut batch =
        fjall::OwnedWriteBatch::with_capacity(db.clone(), writes.len()).durability(Some(PersistMode::SyncData));
    for (keyspace, key, value) in writes {
        match value {
            Some(value) => batch.insert(&keyspace, key, value),
            None => batch.remove(&keyspace, key),
        }
    }
    batch.commit()
}

fn unknown(what: &str) -> KvError {
    use plimsoll_core::StoreError;
    KvError::Unknown(StoreError::broken("the commit that this write was part of failed").detail(what))
}
