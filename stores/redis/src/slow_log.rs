//! Slow log of a server: commands that took longer than its setting `slowlog-log-slower-than`, by default 10 ms.

use plimsoll_core::{Reading, StoreError, StoreErrorKind};

use crate::control::Control;
use crate::reply::Node;

/// Entries that one question reads, the newest ones.
const ENTRIES: &[u8] = b"16";

/// Place in the slow log of a server.
#[derive(Default)]
pub(crate) struct SlowLog {
    /// Number of entries since the server was started; `None` before the first reading.
    count: Option<i64>,
    /// True if the user may not read the log.
    is_refused: bool,
}

impl SlowLog {
    /// Returns the number of slow commands, and the longest time of those since the reading before, under the name
    /// `node`. Returns none if the user may not read the log.
    ///
    /// # Errors
    /// A lost connection.
    pub fn read(&mut self, control: &mut Control, node: &str) -> Result<Vec<Reading>, StoreError> {
        if self.is_refused {
            return Ok(Vec::new());
        }
        match control.command(&[b"SLOWLOG", b"GET", ENTRIES]) {
            Ok(answer) => Ok(self.readings(&answer, node)),
            Err(error) if matches!(error.kind, StoreErrorKind::Permission | StoreErrorKind::Store) => {
                self.is_refused = true;
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    fn readings(&mut self, answer: &Node, node: &str) -> Vec<Reading> {
        let entries: Vec<(i64, i64)> = answer.list().iter().filter_map(entry).collect();
        // An entry's id is the number of those before it. The log may be empty because it was reset.
        let newest = entries.iter().map(|(id, _)| id.saturating_add(1)).max();
        let count = newest.or(self.count).unwrap_or(0);
        let before = self.count.replace(count).unwrap_or(count);
        let new = entries.iter().filter(|(id, _)| *id >= before);
        let longest_us = new.map(|(_, us)| *us).max().unwrap_or(0);
        readings(node, count as f64, longest_us as f64 / 1e6)
    }
}

/// Returns the readings of a slow log: the number of its entries, and the longest time in seconds.
pub(crate) fn readings(node: &str, count: f64, longest_s: f64) -> Vec<Reading> {
    vec![Reading::total(node, "slow_commands", "", count), Reading::level(node, "slowest_command", "s", longest_s)]
}

/// Returns the id and the time in microseconds of an entry.
fn entry(entry: &Node) -> Option<(i64, i64)> {
    match entry.list() {
        [Node::Int(id), _, Node::Int(us), ..] => Some((*id, *us)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer with entries of these ids and times, the newest first.
    fn answer(entries: &[(i64, i64)]) -> Node {
        let entry = |(id, us): &(i64, i64)| {
            Node::List(vec![Node::Int(*id), Node::Int(1_795_968_929), Node::Int(*us), Node::List(Vec::new())])
        };
        Node::List(entries.iter().map(entry).collect())
    }

    #[test]
    fn entries_count_since_the_start_and_the_longest_new_one_is_told() {
        let mut log = SlowLog::default();
        let mut read = |entries: &[(i64, i64)]| {
            log.readings(&answer(entries), "").iter().map(Reading::number).collect::<Vec<f64>>()
        };
        assert_eq!(read(&[(4, 900_000), (3, 15_000)]), [5.0, 0.0], "those before the first reading are not new");
        assert_eq!(read(&[(6, 12_000), (5, 20_000), (4, 900_000)]), [7.0, 0.02]);
        assert_eq!(read(&[]), [7.0, 0.0], "the log was reset");
        assert_eq!(SlowLog::default().readings(&Node::Null, "").len(), 2);
    }
}
