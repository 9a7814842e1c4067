//! Saturation of the network: interfaces and links near their speed, and segments that TCP sends again.

use plimsoll_core::link::{shown_limit, shown_rate};
use plimsoll_core::sampler::INTERFACES;
use plimsoll_core::{LinkPeers, LinkWays};
use plimsoll_record::data::{FaultKind, FaultSpan, Run, Series};

use super::moments::SlowPhase;
use super::series::middle;
use crate::number;

/// Share of its speed from which an interface or a link bounds a phase.
const SPEED_USED: f64 = 0.9;
/// Share of TCP segments that are sent again, from which losses bound a phase, and segments a second that show it.
const SENT_AGAIN: f64 = 0.01;
const SEGMENTS_MIN: f64 = 100.0;

/// Returns descriptions of the limits of the network in most slices; `all` has the values of the run's series in them.
pub fn texts(run: &Run, phase: &SlowPhase<'_, '_>, all: &[Vec<Option<f64>>]) -> Vec<String> {
    let each = || run.series.iter().zip(all);
    let used = each().filter_map(|(series, values)| used(run, phase, series, values));
    let again = each().filter(|(series, _)| series.source == "tcp" && series.name == "retransmits");
    let again = again.filter_map(|(series, values)| {
        let is_sent =
            |one: &Series| one.source == "tcp" && one.subject == series.subject && one.name == "sent_segments";
        let (_, sent) = each().find(|(one, _)| is_sent(one))?;
        sent_again(&series.subject, values, sent)
    });
    used.chain(again).collect()
}

/// Describes the traffic of an interface in one direction, if it is near the speed of the interface or of its link.
fn used(run: &Run, phase: &SlowPhase<'_, '_>, series: &Series, values: &[Option<f64>]) -> Option<String> {
    let is_to_host = match (series.source.as_str(), series.name.as_str()) {
        ("network", "received") => true,
        ("network", "sent") => false,
        _ => return None,
    };
    let (speed, limit) = match series.subject.rsplit_once(' ') {
        Some((_, "lo")) => return None,
        Some((node, _)) => (limit_of(phase, node, is_to_host)?, "the limit of its link"),
        None => (speed_of(run, &series.subject)?, "its speed"),
    };
    let carried = middle(values)? * 8.0;
    let share = carried / speed;
    (share >= SPEED_USED).then(|| {
        let (mbit, percent) = (number::significant(carried / 1e6), number::with_unit(share * 100.0, "%"));
        format!("{} {} {mbit} Mbit/s, {percent} of {limit}", series.subject, series.name)
    })
}

/// Describes the share of segments that TCP sent again, if it is large. An empty `subject` is the machine of the load.
fn sent_again(subject: &str, again: &[Option<f64>], sent: &[Option<f64>]) -> Option<String> {
    let shares = again.iter().zip(sent).map(|(again, sent)| {
        let (again, sent) = ((*again)?, (*sent)?);
        (sent >= SEGMENTS_MIN).then(|| again / (again + sent))
    });
    let share = middle(&shares.collect::<Vec<_>>()).filter(|share| *share >= SENT_AGAIN)?;
    let of = if subject.is_empty() { "the load's machine" } else { subject };
    Some(format!("TCP of {of} sent {} of its segments again", number::with_unit(share * 100.0, "%")))
}

/// Returns the most bits a second to or from a node in most slices: of the link that a fault gave it, or that it had at
/// the start of the trial.
fn limit_of(phase: &SlowPhase<'_, '_>, node: &str, is_to_host: bool) -> Option<f64> {
    let facts = phase.facts;
    let number = node.strip_prefix("node ").and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
    let is_of_node = |span: &FaultSpan| span.detail.nodes.zip(number).is_some_and(|(nodes, number)| nodes.has(number));
    let is_its = |span: &&FaultSpan| {
        span.kind == FaultKind::Link && span.phase == facts.phase.header.ordinal && is_of_node(span)
    };
    let is_long = |span: &&FaultSpan| {
        let (from_ns, until_ns) = (span.taken_ns.unwrap_or(u64::MAX), span.healing_ns.unwrap_or(u64::MAX));
        let inside = phase.slices.iter().filter(|(slice, _)| slice.start_ns >= from_ns && slice.end_ns <= until_ns);
        inside.count() * 2 > phase.slices.len()
    };
    if let Some(span) = facts.trial.faults.iter().filter(is_its).find(is_long) {
        let other_way = if is_to_host { LinkWays::Out } else { LinkWays::In };
        // A link for some hosts does not limit all frames.
        let link = span.detail.link.filter(|link| link.peers == LinkPeers::All && link.ways != other_way);
        return link?.rate_bits_per_s.map(|rate| rate as f64);
    }
    let name = format!("link of {node}");
    let link = facts.trial.header.settings.iter().find(|setting| setting.name == name)?;
    shown_limit(&link.value, is_to_host)
}

/// Returns the speed of an interface of the load's machine in bits a second, if it is known.
fn speed_of(run: &Run, interface: &str) -> Option<f64> {
    let (_, all) = run.header.environment.iter().find(|(name, _)| name == INTERFACES)?;
    let mut each = all.split(", ").filter_map(|one| one.split_once(' '));
    each.find(|(name, _)| *name == interface).and_then(|(_, speed)| shown_rate(speed))
}
