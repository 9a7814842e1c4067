//! Latency events of a server: work of its own that took longer than its setting `latency-monitor-threshold`. A server's
//! default of 0 watches none.

use std::collections::BTreeMap;

use plimsoll_core::{Reading, StoreError, StoreErrorKind};

use crate::control::Control;
use crate::facts::config;
use crate::reply::Node;

/// The setting, and its value for private servers in milliseconds.
pub(crate) const THRESHOLD: &str = "latency-monitor-threshold";
pub(crate) const THRESHOLD_MS: &str = "5";

/// Beginnings of the names of events, and their readings. Slow commands are events as well: the slow log has them.
const EVENTS: [(&str, &str); 6] = [
    ("fork", "longest_fork"),
    ("aof-fsync", "longest_aof_fsync"),
    ("aof-", "longest_aof_write"),
    ("expire-", "longest_expiry"),
    ("eviction-", "longest_eviction"),
    ("active-defrag", "longest_defragmentation"),
];

/// Events of a server that are known.
#[derive(Default)]
pub(crate) struct LatencyEvents {
    /// True if the server watches events and the user may read them; `None` before the first reading.
    is_watched: Option<bool>,
    /// Newest event of each name; `None` before the first reading.
    before: Option<BTreeMap<String, NewestEvent>>,
}

/// Newest event of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NewestEvent {
    /// Time in Unix seconds.
    at_s: i64,
    /// Length in milliseconds.
    ms: i64,
    /// Longest of all events of the name, in milliseconds.
    max_ms: i64,
}

impl NewestEvent {
    /// Returns the longest event since `before` as far as it is known: events between both are listed only if they are
    /// longer than all before.
    fn longest_ms(self, before: Option<&Self>) -> i64 {
        let is_longer = before.is_none_or(|before| self.max_ms > before.max_ms);
        if is_longer { self.ms.max(self.max_ms) } else { self.ms }
    }
}

impl LatencyEvents {
    /// Returns the longest event of each group since the reading before, under the name `node`. Returns none if the server
    /// watches no events, or the user may not read them or the setting.
    ///
    /// # Errors
    /// A lost connection.
    pub fn read(&mut self, control: &mut Control, node: &str) -> Result<Vec<Reading>, StoreError> {
        let read = match self.is_watched {
            None => is_watched(control).map(|is_watched| self.is_watched = Some(is_watched)),
            Some(_) => Ok(()),
        };
        let answer = match (read, self.is_watched) {
            (Ok(()), Some(true)) => control.command(&[b"LATENCY", b"LATEST"]),
            (Ok(()), _) => return Ok(Vec::new()),
            (Err(error), _) => Err(error),
        };
        match answer {
            Ok(answer) => Ok(self.readings(&answer, node)),
            Err(error) if matches!(error.kind, StoreErrorKind::Permission | StoreErrorKind::Store) => {
                self.is_watched = Some(false);
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    fn readings(&mut self, answer: &Node, node: &str) -> Vec<Reading> {
        let newest: BTreeMap<String, NewestEvent> = answer.list().iter().filter_map(event).collect();
        let mut longest_ms = [0; EVENTS.len()];
        if let Some(before) = &self.before {
            for (name, event) in newest.iter().filter(|(name, event)| before.get(*name) != Some(*event)) {
                if let Some(group) = EVENTS.iter().position(|(begins, _)| name.starts_with(begins)) {
                    longest_ms[group] = longest_ms[group].max(event.longest_ms(before.get(name)));
                }
            }
        }
        self.before = Some(newest);
        let longest_s = longest_ms.map(|ms| ms as f64 / 1e3);
        EVENTS.iter().zip(longest_s).map(|((_, name), seconds)| reading(node, name, seconds)).collect()
    }
}

/// Returns an example of each reading.
pub(crate) fn examples() -> impl Iterator<Item = Reading> {
    EVENTS.into_iter().map(|(_, name)| reading("", name, 0.0))
}

fn reading(node: &str, name: &str, longest_s: f64) -> Reading {
    Reading::level(node, name, "s", longest_s)
}

/// Returns true if the server watches events.
fn is_watched(control: &mut Control) -> Result<bool, StoreError> {
    let threshold_ms = config(control, THRESHOLD)?.and_then(|text| text.parse::<i64>().ok());
    Ok(threshold_ms.is_some_and(|threshold_ms| threshold_ms > 0))
}

/// Returns the name of an event, and the newest of the name.
fn event(event: &Node) -> Option<(String, NewestEvent)> {
    match event.list() {
        [name, Node::Int(at_s), Node::Int(ms), Node::Int(max_ms), ..] => {
            Some((name.text(), NewestEvent { at_s: *at_s, ms: *ms, max_ms: *max_ms }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer with events of these names and times, the lengths of the newest, and the greatest lengths.
    fn answer(events: &[(&str, i64, i64, i64)]) -> Node {
        let event = |(name, at_s, ms, max_ms): &(&str, i64, i64, i64)| {
            let name = Node::Text(name.as_bytes().to_vec());
            Node::List(vec![name, Node::Int(*at_s), Node::Int(*ms), Node::Int(*max_ms)])
        };
        Node::List(events.iter().map(event).collect())
    }

    /// Returns the values of a reading.
    fn read(events: &mut LatencyEvents, all: &[(&str, i64, i64, i64)]) -> Vec<f64> {
        let readings = events.readings(&answer(all), "");
        assert!(readings.iter().map(|one| &one.name).eq(EVENTS.iter().map(|(_, name)| name)));
        readings.iter().map(Reading::number).collect()
    }

    #[test]
    fn only_new_events_are_told_each_group_by_its_longest() {
        let mut events = LatencyEvents::default();
        let mut read = |all: &[(&str, i64, i64, i64)]| read(&mut events, all);
        let (old, fork) = (("aof-write", 100, 700, 900), ("fork", 101, 40, 40));
        assert_eq!(read(&[old]), [0.0; 6], "those before the first reading are not new");
        assert_eq!(read(&[old, fork]), [0.04, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(read(&[old, fork]), [0.0; 6]);
        let written = [("aof-write-alone", 103, 20, 20), ("aof-write", 103, 30, 900), ("aof-fsync-always", 103, 9, 9)];
        assert_eq!(read(&[&written[..], &[("fork", 101, 60, 60)]].concat()), [0.06, 0.009, 0.03, 0.0, 0.0, 0.0]);
        let others = [("command", 104, 500, 500), ("expire-cycle", 104, 25, 25)];
        assert_eq!(read(&others), [0.0, 0.0, 0.0, 0.025, 0.0, 0.0]);
        assert_eq!(read(&[]), [0.0; 6], "they were reset");
    }

    #[test]
    fn a_longer_event_before_the_newest_is_told_once() {
        let mut events = LatencyEvents::default();
        let fork = |at_s: i64, ms: i64, max_ms: i64| [("fork", at_s, ms, max_ms)];
        for (all, longest_s) in [
            (&[][..], 0.0),
            // 300 ms, and then 40 ms.
            (&fork(101, 40, 300), 0.3),
            (&fork(102, 50, 300), 0.05),
            (&fork(103, 6, 310), 0.31),
            // A server that was started again, or numbers that cannot be.
            (&fork(90, 7, 7), 0.007),
            (&fork(0, -7, -7), 0.0),
        ] {
            assert_eq!(read(&mut events, all)[0], longest_s, "{all:?}");
        }
    }
}
