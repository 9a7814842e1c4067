//! Names of trials, phases and faults in tables, plots and sentences.

use plimsoll_core::{Link, LinkPeers, LinkWays};
use plimsoll_record::data::{FaultKind, FaultSpan, TrialHeader};

use crate::phase::PhaseFacts;

/// The label of trials that are the same point of the sweep run again.
pub const REPEAT: &str = "repeat";

/// Label of a load step's trial: its number in the search, from 1.
pub const LOAD_STEP: &str = "load_step";
/// Label of it in earlier recordings.
const EARLIER_LOAD_STEP: &str = "rung";

/// A trial's name in tables and sentences: `sqlite · index=keyindex`.
pub fn trial(header: &TrialHeader) -> String {
    trial_without(header, &[])
}

/// Returns the name without some of its labels.
pub fn trial_without(header: &TrialHeader, without: &[&str]) -> String {
    labelled(&header.store_label, other_labels(header).filter(|(name, _)| !without.contains(&name.as_str())))
}

/// A store and labels: `sqlite · index=keyindex`.
pub fn labelled<'a>(store: &str, labels: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    if labels.is_empty() { store.to_string() } else { format!("{store} · {}", labels.join(", ")) }
}

/// A trial's name in plots: `sqlite keyindex`.
pub fn short(header: &TrialHeader) -> String {
    let values = other_labels(header).map(|(_, value)| format!(" {value}"));
    std::iter::once(header.store_label.clone()).chain(values).collect()
}

/// A phase with its trial, in sentences: `sqlite · index=keyindex, phase mixed`, `sqlite, load step 3`.
pub fn place(facts: &PhaseFacts<'_>) -> String {
    let (header, phase) = (&facts.trial.header, &facts.phase.header);
    let labelled = [LOAD_STEP, EARLIER_LOAD_STEP].into_iter().find_map(|label| header.labels.get_key_value(label));
    match labelled.filter(|_| phase.rung.is_some()) {
        Some((label, number)) => format!("{}, load step {number}", trial_without(header, &[label.as_str()])),
        None => format!("{}, phase {}", trial(header), phase.name),
    }
}

/// A fault without its time: `kill of node 1, the primary`, `disk eio write once`.
pub fn fault(span: &FaultSpan) -> String {
    let (link, object) = (span.detail.link.unwrap_or_default(), span.detail.object.as_deref().unwrap_or_default());
    match span.kind {
        FaultKind::Disk => format!("disk {}", disk_fault(span)),
        FaultKind::Cut => cut(link, &span.subject),
        FaultKind::Link => link_fault(link, &span.subject),
        FaultKind::Reset => format!("reset of connections to {}", span.subject),
        FaultKind::Promote => format!("promotion of {}", span.subject),
        FaultKind::Work => format!("work {object} of {}", span.subject),
        FaultKind::Clock => format!("wrong clock of {}", span.subject),
        FaultKind::Storm => format!("connection storm on {}", span.subject),
        FaultKind::Neighbour => format!("noisy neighbour ({object}) beside {}", span.subject),
        FaultKind::Command => format!("command {}", span.subject),
        kind => format!("{} of {}", kind.name(), span.subject),
    }
}

/// Returns the words of a cut: `cut between node 1, the primary, and node 3`.
fn cut(link: Link, subject: &str) -> String {
    match (link.ways, link.peers.name()) {
        (LinkWays::In, Some(other)) => format!("cut of traffic from {other} to {subject}"),
        (LinkWays::Out, Some(other)) => format!("cut of traffic from {subject}{} to {other}", comma(subject)),
        (LinkWays::Both, Some(node)) if matches!(link.peers, LinkPeers::Node(_)) => between("cut", subject, &node),
        (LinkWays::Both, Some(clients)) => format!("cut from {clients} of {subject}"),
        (LinkWays::In, None) => format!("cut of traffic to {subject}"),
        (LinkWays::Out, None) => format!("cut of traffic from {subject}"),
        (LinkWays::Both, None) => format!("cut of {subject}"),
    }
}

/// Returns the words of a slow or lossy link: `link fault between node 2 and client host 1`.
fn link_fault(link: Link, subject: &str) -> String {
    match link.peers.name() {
        Some(other) => between("link fault", subject, &other),
        None => format!("link fault of {subject}"),
    }
}

fn between(what: &str, subject: &str, other: &str) -> String {
    format!("{what} between {subject}{} and {other}", comma(subject))
}

/// Returns the comma that ends an apposition: `node 1, the primary,`.
fn comma(words: &str) -> &'static str {
    if words.contains(", ") { "," } else { "" }
}

/// Words of a disk's fault, without its time: `eio write once`, `eio write once of node 2, the primary`.
pub fn disk_fault(span: &FaultSpan) -> String {
    let words = span.detail.disk.clone().unwrap_or_default();
    if span.detail.nodes.is_some() { format!("{words} of {}", span.subject) } else { words }
}

/// An action with its time on the run's clock, in seconds: `kill of node 1, the primary, at 4.00 s`.
pub fn at(action: &str, at_s: f64) -> String {
    format!("{action}{} at {at_s:.2} s", comma(action))
}

fn other_labels(header: &TrialHeader) -> impl Iterator<Item = (&String, &String)> {
    header.labels.iter().filter(|(name, _)| name.as_str() != "store")
}
