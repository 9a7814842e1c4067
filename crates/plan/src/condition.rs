//! Conditions of faults: a reading of a sampler, of the store's own counters or of the clients, compared with a value.

use std::fmt;

use plimsoll_core::sampler::{CLIENTS, STORE};

use crate::document::short;
use crate::parse_count;
use crate::quantity::{self, Dimension};

/// Words that begin a time of a fault, and so end a condition.
const ENDS: [&str; 5] = ["at", "after", "for", "every", "when"];

/// A mistake, and advice if there is any.
type Mistake = (String, Option<String>);

/// Condition for the beginning of a fault: `store.connections > 100`.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultCondition {
    /// Reader of the reading, as the recording names it: `disk`, or `store` for the store's own counters. Of the clients
    /// it is [`CLIENTS`], and the recording does not have it.
    pub source: String,
    /// Subject of the reading, such as `vda` or `node 2`. `None` stands for the reading that has no subject, or for the
    /// greatest one of all subjects.
    pub subject: Option<String>,
    /// Name of the reading, as the recording has it.
    pub name: String,
    /// Words of the plan, with single spaces: `lag > 1s`.
    text: String,
    is_above: bool,
    /// True if the value itself meets the condition.
    is_inclusive: bool,
    value: f64,
    /// Unit of the value: `s`, `B`, `B/s`, `1/s`, `%`, or nothing for a number.
    unit: &'static str,
}

impl FaultCondition {
    /// Splits a condition from the times of a fault. Returns the other times.
    ///
    /// # Errors
    /// The mistake, with advice.
    pub(crate) fn split<'w>(times: &[&'w str]) -> Result<(Vec<&'w str>, Option<Self>), Mistake> {
        let Some(start) = times.iter().position(|word| *word == "when") else { return Ok((times.to_vec(), None)) };
        let (before, rest) = times.split_at(start);
        let words = &rest[1..];
        let (words, others) = words.split_at(words.iter().position(|word| ENDS.contains(word)).unwrap_or(words.len()));
        if others.contains(&"when") {
            return Err(("`when` is given twice".to_owned(), Some("leave one of them out".to_owned())));
        }
        let condition = Self::parse(&words.join(" "))?;
        Ok((before.iter().chain(others).copied().collect(), Some(condition)))
    }

    fn parse(text: &str) -> Result<Self, Mistake> {
        let mistake = |what: &str| {
            let help = "write \"when lag > 5s\", or \"when server.threads > 100\"";
            Err((format!("`{}` {what}", format!("when {}", short(text)).trim_end()), Some(help.to_owned())))
        };
        let Some((reading, value)) = text.split_once(['<', '>']) else { return mistake("compares nothing") };
        let is_above = text[reading.len()..].starts_with('>');
        let inclusive = value.strip_prefix('=');
        let (reading, value) = (reading.trim(), inclusive.unwrap_or(value).trim());
        let (source, rest) = reading.split_once('.').unwrap_or((STORE, reading));
        let (subject, name) = rest.rsplit_once('.').map_or((None, rest), |(subject, name)| (Some(subject), name));
        if [source, subject.unwrap_or(name), name].contains(&"") {
            return mistake("names no reading");
        }
        let Some((number, unit)) = amount(value) else {
            let what = format!("`{}` is no value for a reading", short(value));
            return Err((
                what,
                Some("write a number with its unit, if it has one: 5s, 64MiB, 90%, 500/s, 100".to_owned()),
            ));
        };
        let sign = format!("{}{}", if is_above { '>' } else { '<' }, if inclusive.is_some() { "=" } else { "" });
        Ok(Self {
            source: source.to_owned(),
            subject: subject.map(str::to_owned),
            name: name.to_owned(),
            text: format!("{reading} {sign} {value}"),
            is_above,
            is_inclusive: inclusive.is_some(),
            value: number,
            unit,
        })
    }

    /// Returns true if a reading of `value` in `unit` meets the condition. A unit is that of a recorded series.
    pub fn is_met(&self, value: f64, unit: &str) -> bool {
        self.limit(unit).is_some_and(|limit| match self.is_above {
            true => value > limit || self.is_inclusive && value == limit,
            false => value < limit || self.is_inclusive && value == limit,
        })
    }

    /// Returns true if readings in `unit` can be compared with the value of the condition.
    pub fn compares(&self, unit: &str) -> bool {
        self.limit(unit).is_some()
    }

    /// Returns true if the reading `value` is nearer to the condition than `other`, and neither meets it.
    pub fn is_nearer(&self, value: f64, other: f64) -> bool {
        if self.is_above { value > other } else { value < other }
    }

    /// Returns the reading, without the comparison: `store.connections`.
    pub fn reading(&self) -> &str {
        self.text.split(['<', '>']).next().unwrap_or_default().trim_end()
    }

    /// Returns the position, from 0, of the client host that a reading of [`CLIENTS`] is about: `clients.host 2.silence`.
    /// `None` for one of all clients, for another subject, and for other readings.
    pub fn client_host(&self) -> Option<usize> {
        let subject = self.subject.as_deref().filter(|_| self.source == CLIENTS)?;
        subject.strip_prefix("host ")?.parse::<usize>().ok()?.checked_sub(1)
    }

    /// Returns the value of the condition in the unit of a series; `None` if the units measure different things.
    fn limit(&self, unit: &str) -> Option<f64> {
        match (self.unit, unit) {
            (own, unit) if own == unit => Some(self.value),
            ("s", "ms") => Some(self.value * 1e3),
            ("", "tasks" | "requests") => Some(self.value),
            _ => None,
        }
    }
}

impl fmt::Display for FaultCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses a value in the syntax of plans. Returns it in the unit that recordings use for its dimension.
fn amount(text: &str) -> Option<(f64, &'static str)> {
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let number = parse_count(text).map(|count| count as f64).or_else(|| text.parse().ok());
    if let Some(number) = number {
        return Some((number, ""));
    }
    let of = |text: &str, dimension| quantity::parse(text, dimension).ok();
    if let Some(ns) = of(text, Dimension::Time) {
        return Some((ns / 1e9, "s"));
    }
    let size_per_s = text.strip_suffix("/s").and_then(|size| of(size, Dimension::Size)).map(|bytes| (bytes, "B/s"));
    let others = [(Dimension::Size, "B"), (Dimension::Share, "%"), (Dimension::Rate, "1/s")];
    let others = others.into_iter().find_map(|(dimension, unit)| of(text, dimension).map(|value| (value, unit)));
    size_per_s.or(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> FaultCondition {
        FaultCondition::parse(text).unwrap_or_else(|(what, _)| panic!("{text}: {what}"))
    }

    #[test]
    fn a_condition_names_a_reading_as_the_recording_does_and_a_store_s_counters_without_their_source() {
        let named = |text: &str| {
            let FaultCondition { source, subject, name, .. } = condition(text);
            (source, subject.unwrap_or_default(), name)
        };
        let wanted = |source: &str, subject: &str, name: &str| (source.to_owned(), subject.to_owned(), name.to_owned());
        assert_eq!(named("lag < 1s"), wanted("store", "", "lag"));
        assert_eq!(named("disk.vda.busy > 90%"), wanted("disk", "vda", "busy"));
        assert_eq!(named("network.eth0.100.drops > 0/s"), wanted("network", "eth0.100", "drops"));
        assert_eq!(named("store.node 2.lag>=1s"), wanted("store", "node 2", "lag"));
        assert_eq!(condition("store.node 2.lag>=1s").to_string(), "store.node 2.lag >= 1s");
        assert_eq!(condition("store.node 2.lag>=1s").reading(), "store.node 2.lag");
    }

    #[test]
    fn a_condition_on_clients_is_about_those_of_one_host_or_about_all() {
        for (text, wanted) in [
            ("clients.silence > 2s", None),
            ("clients.host 1.silence > 2s", Some(0)),
            ("clients.host 12.silence > 2s", Some(11)),
            ("clients.host 0.silence > 2s", None),
            ("clients.hosts.silence > 2s", None),
            ("store.host 2.silence > 2s", None),
        ] {
            assert_eq!(condition(text).client_host(), wanted, "{text}");
            assert_eq!(condition(text).to_string(), text);
        }
    }

    #[test]
    fn values_are_compared_in_the_unit_of_the_reading() {
        for (text, unit, met, not_met) in [
            ("lag < 1s", "s", 0.9, 1.0),
            ("lag <= 500ms", "s", 0.5, 0.6),
            ("disk.vda.read_time > 2ms", "ms", 2.1, 2.0),
            ("used_memory > 64MiB", "B", 67_108_865.0, 67_108_864.0),
            ("disk.vda.written >= 1MiB/s", "B/s", 1_048_576.0, 1_048_575.0),
            ("commits > 5k/s", "1/s", 5_001.0, 5_000.0),
            ("cpu.user > 90%", "%", 90.5, 90.0),
            ("connections > 1_000", "", 1_001.0, 1_000.0),
            ("tasks.load < 0.5", "tasks", 0.4, 0.5),
        ] {
            let condition = condition(text);
            assert!(condition.is_met(met, unit) && !condition.is_met(not_met, unit), "{text}");
            assert!(!condition.compares("of another kind") && !condition.is_met(met, "of another kind"), "{text}");
        }
        assert!(!condition("lag > 1s").compares("B") && !condition("connections > 5").compares("%"));
    }

    #[test]
    fn mistakes_in_conditions_are_named() {
        for (text, wanted) in [
            ("lag", "`when lag` compares nothing"),
            ("lag = 5", "`when lag = 5` compares nothing"),
            ("< 5", "`when < 5` names no reading"),
            ("disk. > 5", "`when disk. > 5` names no reading"),
            ("lag > soon", "`soon` is no value for a reading"),
            ("lag > 5x", "`5x` is no value for a reading"),
            ("lag > -1s", "`-1s` is no value for a reading"),
        ] {
            assert_eq!(FaultCondition::parse(text).unwrap_err().0, wanted);
        }
    }
}
