//! Names of trials, phases and faults in tables, plots and sentences.

use plimsoll_record::data::{FaultKind, FaultSpan, TrialHeader, fault_name};

use crate::phase::PhaseFacts;

/// The label of trials that are the same point of the sweep run again.
pub const REPEAT: &str = "repeat";

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

/// A phase with its trial, in sentences: `sqlite · index=keyindex, phase mixed`.
pub fn place(facts: &PhaseFacts<'_>) -> String {
    format!("{}, phase {}", trial(&facts.trial.header), facts.phase.header.name)
}

/// A fault without its time: `kill of node 1, the primary`, `disk eio write once`.
pub fn fault(span: &FaultSpan) -> String {
    match span.kind {
        FaultKind::Disk => format!("disk {}", disk_fault(span)),
        FaultKind::Cut => cut(fault_name(&span.fault), &span.subject),
        FaultKind::Link => link(fault_name(&span.fault), &span.subject),
        FaultKind::Reset => format!("reset of connections to {}", span.subject),
        FaultKind::Promote => format!("promotion of {}", span.subject),
        FaultKind::Work => {
            let work = span.fault.split_whitespace().nth(1).unwrap_or_default();
            format!("work {work} of {}", span.subject)
        }
        FaultKind::Clock => format!("wrong clock of {}", span.subject),
        FaultKind::Storm => format!("connection storm on {}", span.subject),
        FaultKind::Neighbour => {
            let resource = fault_name(&span.fault).rsplit(' ').next().unwrap_or_default();
            format!("noisy neighbour ({resource}) beside {}", span.subject)
        }
        FaultKind::Command => format!("command {}", span.subject),
        kind => format!("{} of {}", kind.name(), span.subject),
    }
}

/// Returns the words of a cut that was planned as `fault`: `cut between node 1, the primary, and node 3`.
fn cut(fault: &str, subject: &str) -> String {
    if let Some((_, other)) = fault.split_once(" in from ") {
        return format!("cut of traffic from {other} to {subject}");
    }
    if let Some((_, other)) = fault.split_once(" out to ") {
        return format!("cut of traffic from {subject}{} to {other}", comma(subject));
    }
    match (other_end(fault), fault.rsplit(' ').next()) {
        (Some(clients), _) if clients.starts_with("client") => format!("cut from {clients} of {subject}"),
        (Some(node), _) => between("cut", subject, node),
        (None, Some("in")) => format!("cut of traffic to {subject}"),
        (None, Some("out")) => format!("cut of traffic from {subject}"),
        (None, _) => format!("cut of {subject}"),
    }
}

/// Returns the words of a changed link that was planned as `fault`: `link fault between node 2 and client host 1`.
fn link(fault: &str, subject: &str) -> String {
    match other_end(fault) {
        Some(other) => between("link fault", subject, other),
        None => format!("link fault of {subject}"),
    }
}

/// Returns the other end of a link that was planned as `fault`, if that is not for all hosts: `client host 2`.
fn other_end(fault: &str) -> Option<&str> {
    let (_, words) = fault.split_once(" from ")?;
    // Properties of the link follow.
    let Some((before, _)) = words.split_once('=') else { return Some(words) };
    before.rsplit_once(' ').map(|(other, _)| other)
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
    if span.subject.starts_with("node") { format!("{words} of {}", span.subject) } else { words }
}

/// An action with its time on the run's clock, in seconds: `kill of node 1, the primary, at 4.00 s`.
pub fn at(action: &str, at_s: f64) -> String {
    format!("{action}{} at {at_s:.2} s", comma(action))
}

fn other_labels(header: &TrialHeader) -> impl Iterator<Item = (&String, &String)> {
    header.labels.iter().filter(|(name, _)| name.as_str() != "store")
}
