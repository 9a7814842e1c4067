//! Conditions under which a comparison fails: `p99 > +5%`.
//!
//! ```text
//! [phase.]name[[op=kind]] (> | <) (+N% | -N% | N[unit])
//! ```
//!
//! With a sign it is about the change; it is met when the change passes it and is significant (or was seen only once,
//! so that nothing tells). Without a sign it is about the value in B. `name` is that of a number, or of a figure in
//! double quotes. A number that one of the runs did not measure meets it too: it may have changed.
//!
//! Whether it is met cannot be told of a change whose 95 % interval reaches beyond the condition on both sides, nor of one
//! that is asked about more finely than equal runs differ, nor where a late generator may have made the difference, nor
//! of an outage that had not ended when observation ended, nor of the rate of a watched load, which its clients decide.

use std::fmt;

use super::{Group, Metric, NoiseFloor, RuleResult};
use crate::number;

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    text: String,
    phase: Option<String>,
    name: String,
    op: Option<String>,
    above: bool,
    limit: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// Per cent of change.
    Change(f64),
    /// Value in a number's unit, which may be none.
    Value(f64, &'static str),
}

/// Error of a text that is not a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The text.
    pub text: String,
    /// Description of the mistake.
    pub what: String,
    /// Byte at which.
    pub at: usize,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        writeln!(f, "{}", self.text)?;
        write!(f, "{}^", " ".repeat(self.text.get(..self.at).map_or(0, |before| before.chars().count())))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rule {
    /// Reads a condition.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Rule, RuleError> {
        let fail = |at: usize, what: &str| RuleError { text: text.to_string(), what: what.to_string(), at };
        let quoted_end = match text.trim_start().starts_with('"') {
            true => text
                .rfind('"')
                .filter(|end| text.find('"') != Some(*end))
                .ok_or_else(|| fail(0, "the name's second \" is missing"))?,
            false => 0,
        };
        let sign = text.get(quoted_end..).and_then(|rest| rest.find(['<', '>'])).map(|at| at + quoted_end);
        let sign = sign.ok_or_else(|| fail(text.len(), "expected > or <, as in `p99 > +5%`"))?;
        let (left, right) = text.split_at(sign);
        let above = right.starts_with('>');
        let mut right = right.get(1..).unwrap_or("");
        // `>=` says the same of measured numbers.
        right = right.strip_prefix('=').unwrap_or(right);
        let (phase, name, op) = subject(left.trim()).map_err(|what| fail(0, what))?;
        let limit_at = text.len() - right.trim_start().len();
        let limit = limit(right.trim()).map_err(|what| fail(limit_at, what))?;
        Ok(Rule { text: text.trim().to_string(), phase, name, op, above, limit })
    }

    /// Name, whether above, and per cent, of a condition on a change of all kinds of operation in any phase; `None` of
    /// another.
    pub fn on_change(&self) -> Option<(&str, bool, f64)> {
        match self.limit {
            Limit::Change(percent) if self.phase.is_none() && self.op.is_none() => {
                Some((&self.name, self.above, percent))
            }
            _ => None,
        }
    }

    /// Evaluates the condition, if equal runs differ by `floor`. Numbers of `only_a` leave it undecided.
    pub fn check(&self, groups: &[Group], only_a: &[Group], floor: NoiseFloor) -> RuleResult {
        let about = |groups| Self::numbers(groups).filter(|(group, metric)| self.is_about(group, metric));
        let missing = about(only_a).map(|(group, metric)| {
            let (trial, phase) = (&group.trial, &group.phase);
            format!("{trial}, {phase}: {} is only in A; run B with the trials and phases of A", metric.name)
        });
        let about: Vec<_> = about(groups).collect();
        let mut result = RuleResult {
            rule: self.text.clone(),
            checked: about.len() as u64,
            failures: Vec::new(),
            undecided: missing.collect(),
        };
        for (group, metric) in about {
            let failure = self.failure(group, metric);
            match (self.undecided(group, metric, failure.is_some(), floor), failure) {
                (Some(why), _) => result.undecided.push(why),
                (None, failure) => result.failures.extend(failure),
            }
        }
        result
    }

    fn numbers(groups: &[Group]) -> impl Iterator<Item = (&Group, &Metric)> {
        groups.iter().flat_map(|group| group.metrics.iter().map(move |metric| (group, metric)))
    }

    /// Returns the reason that the result of the condition for `metric` is undecided; `met` is its apparent result.
    fn undecided(&self, group: &Group, metric: &Metric, met: bool, floor: NoiseFloor) -> Option<String> {
        let to = metric.b.value?;
        let change = matches!(self.limit, Limit::Change(_));
        let from = if change { metric.a.value? } else { to };
        let place = format!("{}, {}: {}", group.trial, group.phase, metric.name);
        // A late generator makes times longer and what was never sent more, and rates lower. So it may be what met the
        // condition, or what kept it from being met.
        let raises = metric.unit != "1/s";
        let one_way = group.phase != "figures";
        let by = |late: bool, upwards: bool| late && (!one_way || (raises == upwards));
        let moved = by(metric.b.late, self.above == met) || (change && by(metric.a.late, self.above != met));
        if moved {
            let seems = if met { "seems to meet it" } else { "seems not to meet it" };
            let seen = if change {
                format!("went from {} to {}", metric.a.text, metric.b.text)
            } else {
                format!("is {}", metric.b.text)
            };
            return Some(format!("{place} {seen}, which {seems}, but the generator was late for the values marked *"));
        }
        // A lower bound above the limit is decided: so is the outage.
        let is_above = |limit: f64, unit| in_unit(limit, unit, &metric.unit).is_some_and(|limit| to > limit);
        let of_open = match self.limit {
            Limit::Change(_) => metric.is_open().then(|| format!("went from {} to {}", metric.a.text, metric.b.text)),
            Limit::Value(limit, unit) => {
                let is_open = metric.b.is_of_open || metric.b.open && !is_above(limit, unit);
                is_open.then(|| format!("is {}", metric.b.text))
            }
        };
        if let Some(seen) = of_open {
            return Some(format!(
                "{place} {seen}: an outage had not ended when observation ended; drive the phase longer"
            ));
        }
        let Limit::Change(limit) = self.limit else { return None };
        if met && metric.lower_is_better.is_none() {
            return Some(format!(
                "{place} went from {} to {}, but the load was watched and its clients decide that; use a condition without a \
                 sign, which refers to the value in B",
                metric.a.text, metric.b.text
            ));
        }
        if let Some((low, high)) = metric.interval_percent.filter(|(low, high)| *low < limit && limit < *high) {
            return Some(format!(
                "{place} went from {} to {}{}, and by {} to {} with 95 % confidence, so that {} is undecided; run longer, with \
                 more repeats, or both in turn (plimsoll ab)",
                metric.a.text,
                metric.b.text,
                metric.change_percent.map_or(String::new(), |change| format!(" ({})", signed_percent(change))),
                signed_percent(low),
                signed_percent(high),
                signed_percent(limit)
            ));
        }
        let floor_percent = floor.percent(&metric.name);
        // Beyond the floor the other way it certainly is not met.
        let change = metric.change_percent?;
        let against = if self.above { change < limit - floor_percent } else { change > limit + floor_percent };
        // So it is met where the change passes the limit by more than the floor, or repeats tell it from noise.
        let passed = if self.above { change > limit + floor_percent } else { change < limit - floor_percent };
        let is_told = met && (passed || metric.significant == Some(true));
        if is_told || from == to || limit.abs() >= floor_percent || against {
            return None;
        }
        Some(format!(
            "{place} went from {} to {} ({}): equal runs differ by up to {} % here (noise floor), which is more than {}; \
             calibrate on a quieter machine, run more repeats and longer, or use a threshold above the floor",
            metric.a.text,
            metric.b.text,
            signed_percent(change),
            number::significant(floor_percent),
            signed_percent(limit)
        ))
    }

    fn is_about(&self, group: &Group, metric: &Metric) -> bool {
        let op = match &self.op {
            Some(op) => metric.op == *op,
            None => metric.op.is_empty() || metric.op == "all",
        };
        metric.name == self.name && op && self.phase.as_ref().is_none_or(|phase| group.phase == *phase)
    }

    /// Returns a message if the condition's value has another unit than a number that it names.
    pub fn misfit(&self, groups: &[Group]) -> Option<String> {
        let Limit::Value(limit, given) = self.limit else { return None };
        let mut about =
            groups.iter().flat_map(|group| group.metrics.iter().filter(|metric| self.is_about(group, metric)));
        let metric = about.find(|metric| in_unit(limit, given, &metric.unit).is_none())?;
        let such = match metric.unit.as_str() {
            "s" => "a time: 20ms",
            "%" => "a share: 0.1%",
            "B" => "a size: 64MiB",
            "1/s" => "a rate: 5000/s",
            _ => "a number without a unit: 2",
        };
        Some(format!("{} is {such}; a change has a sign: +5%", metric.name))
    }

    fn failure(&self, group: &Group, metric: &Metric) -> Option<String> {
        let passes = |value: f64, limit: f64| if self.above { value > limit } else { value < limit };
        let place = format!("{}, {}: {}", group.trial, group.phase, metric.name);
        let needed: &[_] = match self.limit {
            Limit::Change(_) => &[("A", &metric.a), ("B", &metric.b)],
            Limit::Value(..) => &[("B", &metric.b)],
        };
        if let Some((side, cell)) = needed.iter().find(|(_, cell)| cell.value.is_none()) {
            return Some(format!("{place} cannot be judged: {side} has none ({})", cell.text));
        }
        match self.limit {
            Limit::Change(_) if metric.a.value == Some(0.0) && metric.b.value > Some(0.0) && self.above => {
                Some(format!("{place} went from {} to {}", metric.a.text, metric.b.text))
            }
            Limit::Change(limit) => {
                let is_change = match metric.significant {
                    None => metric.interval_percent.is_none(),
                    Some(is_change) => is_change,
                };
                let change = metric.change_percent.filter(|_| is_change)?;
                passes(change, limit).then(|| {
                    format!("{place} went from {} to {} ({})", metric.a.text, metric.b.text, signed_percent(change))
                })
            }
            Limit::Value(limit, unit) => {
                let limit = in_unit(limit, unit, &metric.unit)?;
                let value = metric.b.value?;
                passes(value, limit).then(|| {
                    let relation = if self.above { "more" } else { "less" };
                    format!("{place} is {}, {relation} than {}", metric.b.text, number::with_unit(limit, &metric.unit))
                })
            }
        }
    }
}

/// A change with its sign: `+5.2 %`.
pub fn signed_percent(change: f64) -> String {
    let sign = if change > 0.0 { "+" } else { "" };
    format!("{sign}{} %", number::significant(change))
}

type Subject = (Option<String>, String, Option<String>);

fn subject(text: &str) -> Result<Subject, &'static str> {
    let (text, op) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        Some((name, op)) => {
            let op = op.strip_prefix("op=").ok_or("expected [op=…] with the operation type")?;
            (name.trim(), Some(op.trim().to_string()))
        }
        None => (text, None),
    };
    if let Some(figure) = text.strip_prefix('"') {
        return Ok((None, figure.trim_end_matches('"').to_string(), op));
    }
    let text = plimsoll_core::quantity::plain(text);
    let (phase, name) = match text.split_once('.') {
        Some((phase, name)) => (Some(phase.trim().to_string()), name.trim()),
        None => (None, text.as_str()),
    };
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !is_name(name) {
        return Err("expected the name of a number, as in `p99 > +5%`, or a figure's in double quotes");
    }
    Ok((phase, name.to_string(), op))
}

fn limit(text: &str) -> Result<Limit, &'static str> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))).unwrap_or(text.len());
    let (value, unit) = text.split_at(digits);
    let signed = value.starts_with(['+', '-']);
    let value: f64 = value.parse().map_err(|_| "expected a number, as in +5% or 20ms")?;
    match (unit.trim(), signed) {
        ("%", true) => Ok(Limit::Change(value)),
        ("%", false) => Ok(Limit::Value(value, "%")),
        (_, true) => Err("a change is in per cent: +5%"),
        ("", _) => Ok(Limit::Value(value, "")),
        ("ns", _) => Ok(Limit::Value(value / 1e9, "s")),
        ("us" | "µs", _) => Ok(Limit::Value(value / 1e6, "s")),
        ("ms", _) => Ok(Limit::Value(value / 1e3, "s")),
        ("s", _) => Ok(Limit::Value(value, "s")),
        ("B", _) => Ok(Limit::Value(value, "B")),
        ("KiB", _) => Ok(Limit::Value(value * 1024.0, "B")),
        ("MiB", _) => Ok(Limit::Value(value * 1_048_576.0, "B")),
        ("GiB", _) => Ok(Limit::Value(value * 1_073_741_824.0, "B")),
        ("/s", _) => Ok(Limit::Value(value, "1/s")),
        _ => Err("unknown unit: %, ns, us, ms, s, B, KiB, MiB, GiB and /s are known"),
    }
}

/// The limit in the number's own unit; `None` where the two do not go together.
fn in_unit(limit: f64, given: &str, unit: &str) -> Option<f64> {
    let fits_none = limit == 0.0 || !matches!(unit, "s" | "%" | "B" | "1/s");
    (given == unit || given.is_empty() && fits_none).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        let rule = Rule::parse("mixed.p99[op=read] > +5%").unwrap();
        assert_eq!(
            (rule.phase.as_deref(), rule.name.as_str(), rule.op.as_deref()),
            (Some("mixed"), "p99", Some("read"))
        );
        assert_eq!((rule.above, rule.limit), (true, Limit::Change(5.0)));
        let finest = Rule::parse("mixed.p99.9 > +5%").unwrap();
        assert_eq!((finest.phase.as_deref(), finest.name.as_str()), (Some("mixed"), "p999"));
        assert_eq!(Rule::parse("p99.9 > 20ms").unwrap().name, "p999");
        assert_eq!(Rule::parse("rate < -3 %").unwrap().limit, Limit::Change(-3.0));
        assert_eq!(Rule::parse("p99 >= 20ms").unwrap().limit, Limit::Value(0.02, "s"));
        let figure = Rule::parse("\"indexed / plain > all\" > +1%").unwrap();
        assert_eq!(figure.name, "indexed / plain > all");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, at, words) in [
            ("p99", 3, "expected > or <"),
            ("p99 > fast", 6, "expected a number"),
            ("p99 > +5ms", 6, "per cent"),
            ("p99 > 5 parsec", 6, "unknown unit"),
            ("p 99 > +5%", 0, "name of a number"),
            ("p99[read] > +5%", 0, "[op=…]"),
            ("\"half > +5%", 0, "second"),
        ] {
            let error = Rule::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{error}");
            assert!(error.what.contains(words), "{error}");
        }
        let drawn = Rule::parse("p99 > fast").unwrap_err().to_string();
        assert!(drawn.ends_with("p99 > fast\n      ^"), "{drawn}");
    }
}
