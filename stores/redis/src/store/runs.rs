//! Keys of runs in servers that others use too: which runs have some, and their removal.

use plimsoll_core::{Removal, StoreError, StoreErrorKind};

use super::RedisStore;
use crate::member::Member;
use crate::removal;
use crate::reply::Node;

/// Most rounds of a removal while keys move between nodes of a cluster.
const CLEAR_ROUNDS: u32 = 10;
/// Set in which attached servers, and those of labs, keep the ids of runs with keys there.
const RUNS_KEY: &[u8] = b"plimsoll:runs";

/// Prefix of the keys of a run in a server that others use too.
pub(crate) fn prefix_of(run_id: &str) -> String {
    format!("plimsoll:{}:", plain(run_id))
}

/// Removes the characters that a pattern of SCAN would take for more than themselves.
pub(super) fn plain(run_id: &str) -> String {
    run_id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

impl RedisStore {
    /// Tells of other runs that have keys there.
    pub(super) fn tell_runs(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
        for left in self.ask_whom_it_concerns(&[b"SMEMBERS", RUNS_KEY])?.list() {
            let left = left.text();
            progress(&Removal::note(&format!("key prefix {}", prefix_of(&left)), self.removal(&left).as_ref()));
        }
        Ok(())
    }

    /// Returns the command that removes the keys of a run, and its entry in [`RUNS_KEY`], from an attached server.
    pub(super) fn removal(&self, run_id: &str) -> Option<Removal> {
        if self.is_private || run_id.is_empty() || plain(run_id) != run_id {
            return None;
        }
        let runs_key = String::from_utf8_lossy(RUNS_KEY);
        let in_cluster = self.cluster.is_some();
        let of_member = |member: &Member| removal::of_keys(&member.endpoint, &prefix_of(run_id), in_cluster);
        let forget = removal::of_member(&self.members[0].endpoint, &runs_key, run_id, in_cluster)?;
        let all = self.members.iter().map(of_member).collect::<Option<Vec<_>>>()?;
        Some(all.into_iter().reduce(|all, next| all.then(&next))?.then(&forget))
    }

    /// Asks one member after the other until it is the one that has the key.
    pub(super) fn ask_whom_it_concerns(&mut self, words: &[&[u8]]) -> Result<Node, StoreError> {
        let mut last = StoreError::broken("the cluster has no nodes");
        for member in self.current() {
            match member.control.get()?.command(words) {
                Err(error) if error.detail.as_deref().is_some_and(|words| words.starts_with("MOVED ")) => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    /// Prefix of the keys of sessions. Without keys of the run, sessions use existing keys as they are.
    pub(super) fn prefix_in_use(&self) -> &str {
        if self.is_noted { &self.prefix } else { "" }
    }

    /// Removes what we made.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        if !self.is_shared {
            for member in self.current() {
                member.control.get()?.long_command(&[b"FLUSHALL", b"SYNC"])?;
            }
            return Ok(());
        }
        if !self.is_noted {
            return Ok(());
        }
        let pattern = format!("{}*", self.prefix).into_bytes();
        let in_cluster = self.cluster.is_some();
        for _ in 0..CLEAR_ROUNDS {
            match in_cluster {
                true if self.is_private => self.meet_ours(),
                true => self.meet()?,
                false => {}
            }
            let mut all = true;
            for member in self.current() {
                all &= member.unlink(&pattern, in_cluster)?;
            }
            if all {
                return Ok(());
            }
        }
        let what = "keys keep moving between the cluster's nodes while they are removed";
        Err(StoreError::new(StoreErrorKind::Store, what).next("Wait until its slots stay where they are."))
    }

    /// Adds this run to the ids of runs in servers that others use too, or removes it.
    pub(super) fn note(&mut self, is_there: bool) -> Result<(), StoreError> {
        if !self.is_shared || self.is_noted == is_there {
            return Ok(());
        }
        let run_id = self.run_id.clone();
        let command: &[u8] = if is_there { b"SADD" } else { b"SREM" };
        let noted = self.ask_whom_it_concerns(&[command, RUNS_KEY, run_id.as_bytes()]);
        self.is_noted = match &noted {
            Ok(_) => is_there,
            Err(error) if error.kind == StoreErrorKind::Permission => self.is_noted,
            // What was asked may have been done all the same.
            Err(_) => true,
        };
        noted.map(|_| ())
    }
}
