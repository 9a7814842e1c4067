//! The pace of a drive: closed loop or schedule, rate, clients, and duration.

use std::ops::RangeInclusive;

use plimsoll_core::pace::{RATES_PER_S, Stage};

use crate::document::{NodeKind, PlanNode, PlanReader, Section, short};
use crate::keys::KeyType;
use crate::model::{Arrivals, Backoff, DriveLimit, Pace, Rate, ThinkTime};
use crate::quantity::{self, Dimension, TIME_NS_MAX, show_ns};
use crate::sweep::{Choices, Point};

/// Wait before a lost connection is opened again: executors look at it every 10 ms.
const WAIT_NS: RangeInclusive<u64> = 10_000_000..=60_000_000_000;
/// Most stages of a load.
const STAGES_MAX: usize = 10_000;

/// The loop of a drive, with a choice of values for each key.
pub(crate) struct PaceDraft {
    pub(crate) clients: Choices<u32>,
    pub(crate) limit: Choices<DriveLimit>,
    /// Number of clients over time; empty for a constant number.
    pub(crate) stages: Vec<Stage>,
    pub(crate) think: Option<Choices<ThinkTime>>,
    open: Choices<bool>,
    rate: Option<Choices<Rate>>,
    arrivals: Choices<Arrivals>,
}

/// Stages of a load, by the quantity that changes.
pub(crate) enum StageList {
    Rates(Vec<Stage>),
    Clients(Vec<Stage>),
}

impl PaceDraft {
    /// The pace at a point of the sweep.
    pub(crate) fn at(&self, point: &mut Point<'_>) -> Pace {
        match &self.rate {
            Some(rate) if self.open.at(point) => Pace::Open { rate: rate.at(point), arrivals: self.arrivals.at(point) },
            _ => Pace::Closed,
        }
    }
}

impl PlanReader<'_> {
    /// Reads the loop of a drive.
    pub(crate) fn pace(&self, phase: &str, section: &Section<'_>) -> Option<PaceDraft> {
        let span = section.key_span("stages");
        let staged = match section.get("stages") {
            Some(node) => Some(self.staged(&node, section)?),
            None => None,
        };
        let clients = match &staged {
            Some(StageList::Clients(stages)) => Some(Choices::fixed(peak(stages), span.clone())),
            _ => self.swept(section, phase, "clients", Self::count),
        };
        let shape = section.get("rate").map(|node| self.choices(phase, &node, |node| self.rate_shape(node)));
        let rate = match &staged {
            Some(StageList::Rates(stages)) => Some(Some(Choices::fixed(Rate::Stages(stages.clone()), span.clone()))),
            _ => shape,
        };
        let open = match section.get("loop") {
            Some(_) => {
                self.swept(section, phase, "loop", |this, node, takes| Some(this.one_of(node, takes)? == "open"))
            }
            // A rate implies an open loop.
            None => Some(Choices::fixed(rate.is_some(), section.span.clone())),
        };
        let arrivals = self.swept(section, phase, "arrivals", Self::named);
        let think = section.get("think").map(|node| self.choices(phase, &node, |node| self.think(node)));
        let (limit, stages) = match staged {
            Some(StageList::Rates(stages) | StageList::Clients(stages)) => {
                let length_ns = stages.iter().map(|stage| stage.for_ns).sum();
                let stages = if rate.is_some() { Vec::new() } else { stages };
                (Some(Choices::fixed(DriveLimit::DurationNs(length_ns), span)), stages)
            }
            None => (self.limit(phase, section), Vec::new()),
        };
        let open = open?;
        self.fit(section, &open, rate.is_some())?;
        let rate = rate.map_or(Some(None), |rate| rate.map(Some))?;
        let think = think.map_or(Some(None), |think| think.map(Some))?;
        Some(PaceDraft { clients: clients?, limit: limit?, stages, think, open, rate, arrivals: arrivals? })
    }

    /// Fails if loop, rate and think time contradict each other.
    fn fit(&self, section: &Section<'_>, open: &Choices<bool>, has_rate: bool) -> Option<()> {
        let is_open = open.values().any(|open| *open);
        if is_open && !has_rate {
            let help = Some("add `rate = \"1000/s\"`, the operations a second of all clients together".to_owned());
            return self.refuse(open.span(), "an open loop needs a rate", help);
        }
        if has_rate && !is_open {
            let key = if section.get("rate").is_some() { "rate" } else { "stages" };
            let what = "a closed loop has no rate: it goes as fast as the answers come";
            return self.refuse(section.key_span(key), what, Some("leave out the rate, or `loop`".to_owned()));
        }
        if is_open && section.get("think").is_some() {
            let what = "`rate` and `think` both determine when operations start";
            let help = "leave one of them out: clients think in a closed loop".to_owned();
            return self.refuse(section.key_span("think"), what, Some(help));
        }
        Some(())
    }

    fn limit(&self, phase: &str, section: &Section<'_>) -> Option<Choices<DriveLimit>> {
        match (section.get("for"), section.get("ops")) {
            (Some(_), None) => self
                .swept(section, phase, "for", |this, node, takes| this.whole(node, takes).map(DriveLimit::DurationNs)),
            (None, Some(_)) => self.swept(section, phase, "ops", |this, node, takes| {
                this.whole(node, takes).map(DriveLimit::OpsPerClient)
            }),
            (None, None) => {
                let help = "write `for = \"30s\"`, or `ops = 1000` for each client";
                self.refuse(section.span.clone(), "a drive needs an end", Some(help.to_owned()))
            }
            (Some(_), Some(node)) => {
                let what = "`for` and `ops` both end the phase: leave one out";
                self.refuse(section.key_span(node.key), what, None)
            }
        }
    }

    /// Reads the stages of a load, either all of rates or all of clients, and reports keys that contradict them.
    pub(crate) fn staged(&self, node: &PlanNode<'_>, section: &Section<'_>) -> Option<StageList> {
        let help = || {
            Some("write [\"500/s@10s\", \"500/s..2000/s@30s\"], or clients: [\"10@10s\", \"10..50@30s\"]".to_owned())
        };
        let Some(elements) = node.elements().filter(|all| (1..=STAGES_MAX).contains(&all.len())) else {
            return self.refuse(node.span.clone(), format!("`stages` is a list of 1 to {STAGES_MAX} texts"), help());
        };
        let (mut stages, mut of_rates): (Vec<Stage>, _) = (Vec::new(), None);
        for element in &elements {
            let text = self.text(element)?;
            let last = stages.last().map_or(0.0, |stage: &Stage| stage.to);
            let (stage, is_rate) = match stage(text, last, of_rates) {
                Ok(read) => read,
                Err(what) => {
                    let what = format!("`{}` is not a stage: {what}", short(text));
                    return self.refuse(element.span.clone(), what, help());
                }
            };
            stages.push(stage);
            of_rates = Some(is_rate);
        }
        let is_rate = of_rates.unwrap_or(true);
        let taken = [
            ("rate", "the rate"),
            (if is_rate { "rate" } else { "clients" }, "the number of clients"),
            ("for", "the length of the phase"),
            ("ops", "the length of the phase"),
        ];
        if let Some((key, what)) = taken.into_iter().find(|(key, _)| section.get(key).is_some()) {
            let what = format!("the stages determine {what}: leave out `{key}`");
            return self.refuse(section.key_span(key), what, None);
        }
        let length_ns: u128 = stages.iter().map(|stage| u128::from(stage.for_ns)).sum();
        if length_ns > u128::from(TIME_NS_MAX) {
            let what = format!("the stages last longer than {}", show_ns(TIME_NS_MAX));
            return self.refuse(node.span.clone(), what, None);
        }
        if stages.iter().all(|stage| stage.from.max(stage.to) == 0.0) {
            return self.refuse(node.span.clone(), "the stages have no load above 0", help());
        }
        Some(if is_rate { StageList::Rates(stages) } else { StageList::Clients(stages) })
    }

    /// Reads a think time: `100ms`, `50ms..200ms`, `exp:100ms`.
    pub(crate) fn think(&self, node: &PlanNode<'_>) -> Option<ThinkTime> {
        if matches!(node.kind, NodeKind::Int(_) | NodeKind::Float(_)) {
            return self.duration(node, 1..=3_600_000_000_000).map(ThinkTime::Constant);
        }
        let text = self.text(node)?;
        let time = |text: &str| time_ns(text, 1..=3_600_000_000_000);
        let read = match (text.strip_prefix("exp:"), text.split_once("..")) {
            (Some(mean), _) => time(mean).map(ThinkTime::Exponential),
            (None, Some((least, most))) => match (time_ns(least, 0..=3_600_000_000_000), time(most)) {
                (Ok(least), Ok(most)) if least >= most => Err("the second time must be the longer one".to_owned()),
                (Ok(least), Ok(most)) => Ok(ThinkTime::Uniform(least, most)),
                (Err(what), _) | (_, Err(what)) => Err(what),
            },
            (None, None) => time(text).map(ThinkTime::Constant),
        };
        read.map_err(|what| {
            let what = format!("`{}` is not a think time: {what}", short(text));
            let help =
                "write \"100ms\", \"50ms..200ms\" (anything between), or \"exp:100ms\" (exponential, by its mean)";
            self.problem(node.span.clone(), what, Some(help.to_owned()));
        })
        .ok()
    }
}

impl PlanReader<'_> {
    /// Reads the wait before a lost connection is opened again: `100ms`, `100ms..5s`.
    pub(crate) fn backoff(&self, node: &PlanNode<'_>) -> Option<Backoff> {
        if matches!(node.kind, NodeKind::Int(_) | NodeKind::Float(_)) {
            return self.duration(node, WAIT_NS).map(Backoff::Constant);
        }
        let text = self.text(node)?;
        let read = match text.split_once("..") {
            Some((first, most)) => match (time_ns(first, WAIT_NS), time_ns(most, WAIT_NS)) {
                (Ok(first), Ok(most)) if first >= most => Err("the second time must be the longer one".to_owned()),
                (Ok(first), Ok(most)) => Ok(Backoff::Jittered(first, most)),
                (Err(what), _) | (_, Err(what)) => Err(what),
            },
            None => time_ns(text, WAIT_NS).map(Backoff::Constant),
        };
        read.map_err(|what| {
            let what = format!("`{}` is not a back-off: {what}", short(text));
            let help = "write \"100ms\", or \"100ms..5s\" (a random wait up to 100ms, 200ms … 5s)";
            self.problem(node.span.clone(), what, Some(help.to_owned()));
        })
        .ok()
    }
}

/// The highest number of clients.
fn peak(stages: &[Stage]) -> u32 {
    stages.iter().map(|stage| stage.from.max(stage.to)).fold(1.0, f64::max) as u32
}

/// Parses a stage, `LEVEL@TIME` or `FROM..TO@TIME`; without `FROM` it begins with `last`. The result is true for a
/// stage of rates.
fn stage(text: &str, last: f64, of_rates: Option<bool>) -> Result<(Stage, bool), String> {
    let (levels, length) = text.split_once('@').ok_or("it has no length")?;
    let for_ns = time_ns(length, 1_000_000..=TIME_NS_MAX)?;
    let (from, to) = match levels.split_once("..") {
        Some((from, to)) => (Some(from).filter(|from| !from.trim().is_empty()), to),
        None => (Some(levels), levels),
    };
    let (to, is_rate) = level(to)?;
    let from = match from.map(level).transpose()? {
        Some((_, other)) if other != is_rate => return Err("one of its ends is a rate, the other is not".to_owned()),
        Some((from, _)) => from,
        None => last,
    };
    match of_rates {
        Some(true) if !is_rate => Err("it has clients, and the stages before have rates: a rate is 500/s".to_owned()),
        Some(false) if is_rate => Err("it has rates, and the stages before have clients".to_owned()),
        _ => Ok((Stage { from, to, for_ns }, is_rate)),
    }
}

/// Parses a number of clients, or a rate.
fn level(text: &str) -> Result<(f64, bool), String> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        let KeyType::Whole(_, most) = crate::keys::CLIENTS else { return Err(String::new()) };
        let clients = text.replace('_', "").parse::<i64>().ok().filter(|clients| *clients <= most);
        return clients
            .map(|clients| (clients as f64, false))
            .ok_or_else(|| format!("there are at most {most} clients"));
    }
    let rate = quantity::parse(text, Dimension::Rate).map_err(|(what, _)| what)?;
    match rate == 0.0 || RATES_PER_S.contains(&rate) {
        true => Ok((rate, true)),
        false => Err(format!("a rate is 0/s, or {}/s to {}/s", RATES_PER_S.start(), RATES_PER_S.end())),
    }
}

fn time_ns(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let ns = quantity::parse(text, Dimension::Time).map_err(|(what, _)| what)?.round();
    let (start, end) = range.into_inner();
    match ns >= start as f64 && ns <= end as f64 {
        true => Ok(ns as u64),
        false => Err(format!("`{}` is not {} to {}", text.trim(), show_ns(start), show_ns(end))),
    }
}
