//! Faults on the clock of a load: what happens to which nodes, when, and for how long.
//!
//! Plans, command lines, recordings and reports share the syntax: `kill primary at 40%`,
//! `pause node 2 at 10s for 3s every 20s`, `promote replica when lag < 1s`.

mod commands;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use plimsoll_core::fault::Fault;
use plimsoll_core::quoted;
use plimsoll_core::random::{below, mix};
use plimsoll_core::{ClockChange, LimitChange, Link, NodeChoice, OBSERVED_LEAST_NS};
use serde::{Serialize, Serializer};

use words::{action, after, at_ops, misplaced, time};

pub use crate::clock::parse_clock;
pub use crate::condition::FaultCondition;
pub use crate::disturbance::{NeighbourUse, STORM_CONNECTIONS_MAX};
use crate::document::short;
use crate::drawn;
use crate::quantity::show_ns;
pub use words::{parse_limit, parse_link};

/// Most occurrences of a repeated fault, and of all repeated faults of a phase.
pub const REPEATS_MAX: usize = 1_000;
/// Shortest interval of a repeated fault. Each takes a while to begin and to be healed.
const EVERY_MIN_NS: u64 = 100_000_000;
/// Shortest time that a fault may be planned to last. Its beginning and its healing take longer.
const LASTS_MIN_NS: u64 = 1_000_000;
/// Share of the interval in which the beginning of a repeated fault is drawn.
const DRAWN: u64 = 4;
/// Share of the interval for which a repeated fault may last: the rest is for its beginning and its healing.
const LASTS: u64 = 2;
/// Verbs of faults.
pub(crate) const VERBS: &[&str] = &[
    "kill",
    "stop",
    "pause",
    "hang",
    "restart",
    "promote",
    "cut",
    "reset",
    "link",
    "limit",
    "clock",
    "disk",
    "add",
    "remove",
    "replace",
    "work",
    "storm",
    "neighbour",
    commands::RUN,
];

/// A mistake, and advice if there is any.
type Mistake = (String, Option<String>);

/// A fault of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedFault {
    /// Words of the plan, with single spaces: `kill primary at 40%`.
    text: String,
    /// Kind of fault, and its nodes.
    pub what: FaultAction,
    /// Beginning; that of a fault after another is the earliest possible one, once [`chained`] has added the times of both.
    pub at: FaultTime,
    /// Number of operations that have to end first, instead of a time.
    pub at_ops: Option<u64>,
    /// Condition that has to hold first, instead of a time.
    pub when: Option<FaultCondition>,
    /// Fault that has to be healed first.
    pub after: Option<FaultAfter>,
    /// Time until the fault is healed; `None` for the end of the phase, or of the trial for a fault of the disk.
    pub lasts: Option<FaultTime>,
    /// Interval in nanoseconds after which the fault is repeated.
    pub every_ns: Option<u64>,
    /// Weight of a fault whose time `at` the seed draws; `None` for a fault with a time of its own.
    pub drawn: Option<u64>,
}

/// Kinds of faults.
#[derive(Debug, Clone, PartialEq)]
pub enum FaultAction {
    /// Kills servers; healed by a start.
    Kill(NodeChoice),
    /// Stops servers gracefully; healed by a start.
    Stop(NodeChoice),
    /// Suspends servers; healed when they continue.
    Pause(NodeChoice),
    /// Stops one thread or process that serves clients; healed when it continues.
    Hang(NodeChoice),
    /// Stops and starts servers, with another program if one is given: the same store's in another version.
    Restart(NodeChoice, Option<PathBuf>),
    /// Restarts all servers one after the other, with another program if one is given.
    RestartInTurn(Option<PathBuf>),
    /// Makes a replica the primary.
    Promote(NodeChoice),
    /// Resets the TCP connections to servers.
    Reset(NodeChoice),
    /// Changes the network link of nodes. A [cut](Link::is_cut) link carries nothing, nothing in one direction, or
    /// nothing of some hosts.
    Link(NodeChoice, Link),
    /// Changes a limit of nodes.
    Limit(NodeChoice, LimitChange),
    /// Makes the wall clock of nodes wrong.
    Clock(NodeChoice, ClockChange),
    /// Starts a fault of the disks of nodes; of the store's disk if it has no nodes.
    Disk(NodeChoice, Fault),
    /// Adds a node, until the end of the trial.
    Add,
    /// Removes the node that joined last.
    Remove,
    /// Replaces a node by an empty one, which joins with all data.
    Replace(NodeChoice),
    /// Starts planned work of this name on nodes: a backup, a vacuum. Their servers run meanwhile.
    Work(String, NodeChoice),
    /// Opens so many connections to each of the nodes, and sends nothing; closed when the fault is healed.
    Storm(NodeChoice, u32),
    /// Uses a resource of each of the nodes beside its server.
    Neighbour(NodeChoice, NeighbourUse),
    /// Runs a command of the user on this machine. A fault without a command that heals it ends with the first.
    Command {
        /// Command that begins the fault, for `sh`.
        begin: String,
        /// Command that heals it.
        heal: Option<String>,
    },
}

/// Time in a phase, from its start: the sum of a time and a share.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultTime {
    /// Nanoseconds.
    pub ns: u64,
    /// Per cent of the length of the phase, with its warm-up.
    pub percent: f64,
}

/// Beginning of a fault after another of the same phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultAfter {
    /// Position of the other one in the list of the phase, from 0.
    pub fault: usize,
    /// Time from the end of its healing.
    pub by: FaultTime,
}

/// An occurrence of a fault. Times are nanoseconds from the start of the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultMoment {
    /// Beginning.
    pub at_ns: u64,
    /// Beginning of the healing; `None` for the end of a phase of unknown length, or of the trial.
    pub until_ns: Option<u64>,
}

impl FaultAction {
    /// Returns the verb of the fault.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Kill(_) => "kill",
            Self::Stop(_) => "stop",
            Self::Pause(_) => "pause",
            Self::Hang(_) => "hang",
            Self::Restart(..) | Self::RestartInTurn(_) => "restart",
            Self::Promote(_) => "promote",
            Self::Reset(_) => "reset",
            Self::Link(_, link) if link.is_cut() => "cut",
            Self::Link(..) => "link",
            Self::Limit(..) => "limit",
            Self::Clock(..) => "clock",
            Self::Disk(..) => "disk",
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Replace(_) => "replace",
            Self::Work(..) => "work",
            Self::Storm(..) => "storm",
            Self::Neighbour(..) => "neighbour",
            Self::Command { .. } => commands::RUN,
        }
    }

    /// Returns the nodes of the fault; `None` for a fault of all disks, a node that joins or leaves, and a command.
    pub fn nodes(&self) -> Option<NodeChoice> {
        match self {
            Self::Kill(on) | Self::Stop(on) | Self::Pause(on) | Self::Hang(on) | Self::Restart(on, _) => Some(*on),
            Self::Promote(on) | Self::Reset(on) | Self::Link(on, _) | Self::Limit(on, _) | Self::Work(_, on) => {
                Some(*on)
            }
            Self::Replace(on) => Some(*on),
            Self::Clock(on, _) | Self::Storm(on, _) | Self::Neighbour(on, _) => Some(*on),
            Self::RestartInTurn(_) => Some(NodeChoice::All),
            Self::Disk(on, _) => Some(*on).filter(|on| !on.is_all()),
            Self::Add | Self::Remove | Self::Command { .. } => None,
        }
    }

    /// Returns true for a fault that ends by itself.
    pub fn is_brief(&self) -> bool {
        let is_of_server =
            matches!(self, Self::Restart(..) | Self::RestartInTurn(_) | Self::Promote(_) | Self::Reset(_));
        let is_of_members = matches!(self, Self::Add | Self::Remove | Self::Replace(_));
        is_of_server || is_of_members || matches!(self, Self::Work(..) | Self::Command { heal: None, .. })
    }

    /// Returns the nodes that restart with another program, and the program.
    pub fn program(&self) -> Option<(NodeChoice, &Path)> {
        match self {
            Self::Restart(on, program) => Some((*on, program.as_deref()?)),
            Self::RestartInTurn(program) => Some((NodeChoice::All, program.as_deref()?)),
            _ => None,
        }
    }

    /// Returns true if the faults cannot be in effect together.
    fn excludes(&self, other: &Self) -> bool {
        let is_of_server = |one: &Self| {
            let is_brief = matches!(one, Self::Restart(..) | Self::RestartInTurn(_) | Self::Replace(_));
            is_brief || matches!(one, Self::Kill(_) | Self::Stop(_) | Self::Pause(_) | Self::Hang(_))
        };
        let is_same_thing = match (self, other) {
            (Self::Link(..), Self::Link(..)) | (Self::Clock(..), Self::Clock(..)) => true,
            (Self::Limit(_, one), Self::Limit(_, other)) => one.name() == other.name(),
            (Self::Disk(_, one), Self::Disk(_, other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
            (Self::Command { .. }, Self::Command { .. }) => self == other,
            _ => is_of_server(self) && is_of_server(other),
        };
        is_same_thing
            && match (self.nodes(), other.nodes()) {
                (Some(one), Some(other)) => one.meets(other),
                // A fault of all disks names no nodes.
                _ => true,
            }
    }
}

impl FaultTime {
    /// Returns the time in nanoseconds in a phase of `length_ns`; `None` for a share of an unknown length.
    pub fn ns(self, length_ns: Option<u64>) -> Option<u64> {
        let share_ns = |length_ns: u64| (length_ns as f64 * self.percent / 100.0) as u64;
        let share_ns = if self.percent == 0.0 { Some(0) } else { length_ns.map(share_ns) };
        share_ns.map(|share_ns| self.ns.saturating_add(share_ns))
    }

    fn plus(self, other: Self) -> Self {
        Self { ns: self.ns.saturating_add(other.ns), percent: self.percent + other.percent }
    }
}

impl PlannedFault {
    /// Parses a fault in the syntax of plans.
    ///
    /// # Errors
    /// The mistake, with advice.
    pub fn parse(text: &str) -> Result<Self, (String, Option<String>)> {
        let command = commands::split(text)?;
        let words: Vec<&str> = command.as_ref().map_or(text, |(_, rest)| *rest).split_whitespace().collect();
        let is_time = |word: &&str| ["at", "when", "after", "for", "every", drawn::DRAWN].contains(word);
        let (named, times) = words.split_at(words.iter().position(is_time).unwrap_or(words.len()));
        let (what, name) = match command {
            Some((what, _)) => commands::named(what, named)?,
            None => match misplaced(named, times) {
                Some(mistake) => return Err(mistake),
                None => (action(named)?, named.join(" ")),
            },
        };
        let given = [&[name.as_str()], times].concat().join(" ");
        let (times, drawn) = drawn::weight(times)?;
        let (times, when) = FaultCondition::split(&times)?;
        let (times, after) = after(&times)?;
        let (times, at_ops) = at_ops(times)?;
        let [mut at, mut lasts, mut every] = [None; 3];
        for pair in times.chunks(2) {
            let (key, value) = (pair[0], pair.get(1).copied().unwrap_or_default());
            let place = match key {
                "at" => &mut at,
                "for" => &mut lasts,
                "every" => &mut every,
                other => {
                    let help = "write the times last: at 10s for 3s every 30s".to_owned();
                    return Err((format!("`{}` is not a time of a fault", short(other)), Some(help)));
                }
            };
            if place.is_some() {
                return Err((format!("`{key}` is given twice"), Some("leave one of them out".to_owned())));
            }
            *place = Some((time(key, value)?, value));
        }
        let shown = |(key, given): (&str, Option<(FaultTime, &str)>)| {
            given.map_or_else(String::new, |(_, value)| format!(" {key} {value}"))
        };
        let after_text = after.map_or_else(String::new, |fault| format!(" after fault {}", fault + 1));
        let ops_text = at_ops.map_or_else(String::new, |ops| format!(" at {ops} ops"));
        let drawn_text = drawn.map_or_else(String::new, drawn::words);
        let when_text = when.as_ref().map_or_else(String::new, |when| format!(" when {when}"));
        let [at_text, lasts_text, every_text] = [("at", at), ("for", lasts), ("every", every)].map(shown);
        let begins_text = format!("{at_text}{ops_text}{when_text}{after_text}{drawn_text}");
        let text = format!("{name}{begins_text}{lasts_text}{every_text}");
        let [at, lasts, every] = [at, lasts, every].map(|given: Option<(FaultTime, &str)>| given.map(|(time, _)| time));
        let begins_at = at.is_some() || at_ops.is_some();
        if begins_at && when.is_some() {
            let help = Some("leave `at` or `when` out".to_owned());
            return Err(("a fault begins at a time, or by a condition".to_owned(), help));
        }
        let Some(at) = at.or((begins_at || when.is_some() || drawn.is_some()).then(FaultTime::default)) else {
            // Commands have double quotes.
            let quote = if given.contains('"') { '\'' } else { '"' };
            let help = format!("write {quote}{given} at 10s{quote}, or {quote}at 40%{quote} of the phase");
            return Err(("the time of the fault is missing".to_owned(), Some(help)));
        };
        if lasts.is_some() && what.is_brief() {
            let help = match what {
                FaultAction::Command { .. } => "leave `for` out, or add a command that ends it: heal \"COMMAND\"",
                _ => "leave `for` out",
            };
            return Err((format!("`{}` ends by itself", what.verb()), Some(help.to_owned())));
        }
        if drawn.is_some() {
            drawn::has_end(&what, lasts)?;
        }
        if lasts.is_some_and(|lasts| lasts.percent == 0.0 && lasts.ns < LASTS_MIN_NS) {
            let help = Some("write how long it lasts, for 3s, or leave `for` out".to_owned());
            return Err((format!("`for` needs a time of {} or more", show_ns(LASTS_MIN_NS)), help));
        }
        let every_ns = match every {
            None => None,
            Some(_) if at_ops.is_some() || when.is_some() || after.is_some() => {
                let how = match (at_ops, &when) {
                    (Some(_), _) => "at a number of operations",
                    (None, Some(_)) => "with a condition",
                    (None, None) => "after another",
                };
                let help = Some("leave `every` out, or write times from the start of the phase".to_owned());
                return Err((format!("a fault {how} is not repeated"), help));
            }
            Some(FaultTime { ns, .. }) if ns >= EVERY_MIN_NS => Some(ns),
            Some(FaultTime { ns, .. }) if ns > 0 => {
                let least = show_ns(EVERY_MIN_NS);
                let help = Some(format!("write every {least}, or more"));
                return Err((
                    format!("`every {}` is too short: repeats are {least} apart at least", show_ns(ns)),
                    help,
                ));
            }
            Some(_) => {
                let help = Some("write every 30s".to_owned());
                return Err(("`every` needs a time above 0, and no share of the phase".to_owned(), help));
            }
        };
        match (every_ns, lasts) {
            (Some(_), None) if !what.is_brief() => {
                let help = Some("write how long it lasts: for 3s every 30s".to_owned());
                return Err(("a fault that is repeated has to be healed between".to_owned(), help));
            }
            (Some(_), Some(lasts)) if lasts.percent > 0.0 => {
                let help = Some("write how long it lasts: for 3s every 30s".to_owned());
                return Err(("a repeated fault lasts for a time, and for no share of the phase".to_owned(), help));
            }
            (Some(every_ns), Some(lasts)) if lasts.ns > every_ns / LASTS => {
                let most = show_ns(every_ns / LASTS);
                let help =
                    Some(format!("write for {most}, or less: its beginning is drawn in the interval's first quarter"));
                return Err((format!("`for` is too long for a fault every {}", show_ns(every_ns)), help));
            }
            _ => {}
        }
        let after = after.map(|fault| FaultAfter { fault, by: at });
        Ok(Self { text, what, at, at_ops, when, after, lasts, every_ns, drawn })
    }

    /// Returns a drawn fault with its time, in milliseconds from the start of the phase.
    pub(crate) fn drawn_at(&self, at_ms: u64) -> Self {
        let words = self.drawn.map_or_else(String::new, drawn::words);
        let (named, rest) = self.text.rsplit_once(words.as_str()).unwrap_or((self.text.as_str(), ""));
        let text = format!("{named} at {}s{rest}", at_ms as f64 / 1e3);
        Self { text, at: FaultTime { ns: at_ms.saturating_mul(1_000_000), percent: 0.0 }, ..self.clone() }
    }

    /// Returns true for a fault that begins at a number of operations or by a condition, and so at any time.
    pub fn begins_by_load(&self) -> bool {
        self.at_ops.is_some() || self.when.is_some()
    }

    /// Returns true for a fault that is repeated, or drawn and so may come again.
    pub fn is_repeated(&self) -> bool {
        self.every_ns.is_some() || self.drawn.is_some()
    }

    /// Returns true for a fault of the store's disk.
    pub fn is_of_disk(&self) -> bool {
        matches!(self.what, FaultAction::Disk(..))
    }

    /// Returns true for a command of the user, which needs no servers.
    pub fn is_of_user(&self) -> bool {
        matches!(self.what, FaultAction::Command { .. })
    }

    /// Returns true for a change of a limit.
    pub fn is_of_limit(&self) -> bool {
        matches!(self.what, FaultAction::Limit(..))
    }

    /// Returns true for a fault that lasts until the end of the trial: what comes of it shows in later phases.
    pub fn outlasts_phase(&self) -> bool {
        self.lasts.is_none() && matches!(self.what, FaultAction::Disk(..) | FaultAction::Add)
    }

    /// Returns true for a single fault that is healed within its phase.
    pub(crate) fn ends_once(&self) -> bool {
        self.every_ns.is_none()
            && !matches!(self.what, FaultAction::Add)
            && (self.what.is_brief() || self.lasts.is_some())
    }

    /// Returns true if the end of a phase of `length_ns` heals this fault before its `for` is over, and it begins once.
    pub(crate) fn is_cut_short(&self, length_ns: u64) -> bool {
        let times = self.at.ns(Some(length_ns)).zip(self.lasts.and_then(|lasts| lasts.ns(Some(length_ns))));
        let is_once = !self.begins_by_load() && !self.is_repeated();
        is_once && times.is_some_and(|(at_ns, lasts_ns)| at_ns.saturating_add(lasts_ns) > length_ns)
    }

    /// Returns the fault without its times: `kill primary`.
    pub fn name(&self) -> &str {
        quoted::before(&self.text, &[" at ", " when ", " drawn"])
    }

    /// Returns the occurrences in a phase of `length_ns`, or of an unknown length. `seed` and interval determine the
    /// beginnings of a repeated fault: each in the first quarter of its interval, so that none keeps in step with a
    /// server's timers. Faults of one interval stay as far apart as their first beginnings.
    pub fn moments(&self, length_ns: Option<u64>, seed: u64) -> Vec<FaultMoment> {
        let Some(first_ns) = self.at.ns(length_ns) else { return Vec::new() };
        let lasts_ns = self.lasts.and_then(|lasts| lasts.ns(length_ns));
        let moment = |at_ns: u64| {
            let healed_ns = lasts_ns.map(|lasts_ns| at_ns.saturating_add(lasts_ns));
            let phase_ns = length_ns.filter(|_| healed_ns.is_some() || !self.outlasts_phase());
            FaultMoment { at_ns, until_ns: healed_ns.into_iter().chain(phase_ns).min() }
        };
        let Some(every_ns) = self.every_ns else { return vec![moment(first_ns)] };
        let seed = seed ^ mix(every_ns);
        // The first begins as planned.
        let drawn = |turn: u64| if turn == 0 { 0 } else { below(mix(seed ^ mix(turn)), (every_ns / DRAWN).max(1)) };
        let begin = |turn: u64| first_ns.saturating_add(turn.saturating_mul(every_ns)).saturating_add(drawn(turn));
        let all = (0..REPEATS_MAX as u64).map(begin);
        // A repeat just before the end would not be observed.
        let is_observed = |at_ns: &u64| {
            let left_ns = if *at_ns == first_ns { 1 } else { OBSERVED_LEAST_NS };
            length_ns.is_none_or(|length_ns| at_ns.saturating_add(left_ns) <= length_ns)
        };
        all.take_while(is_observed).map(moment).collect()
    }

    /// Returns the number of intervals that begin in a phase of `length_ns`: the most occurrences of a repeated fault. 0
    /// for a fault that is not repeated.
    pub fn repeats(&self, length_ns: u64) -> u64 {
        let Some((first_ns, every_ns)) = self.at.ns(Some(length_ns)).zip(self.every_ns) else { return 0 };
        length_ns.saturating_sub(first_ns).div_ceil(every_ns)
    }

    /// Returns the time from the first beginning to the last healing; `None` for an unknown end.
    fn extent(&self, length_ns: Option<u64>) -> (u64, Option<u64>) {
        if self.begins_by_load() {
            return (0, length_ns);
        }
        let from_ns = self.at.ns(length_ns).unwrap_or(0);
        let lasts_ns = self.lasts.and_then(|lasts| lasts.ns(length_ns));
        match (self.every_ns, self.what.is_brief()) {
            (None, true) => (from_ns, Some(from_ns.saturating_add(1))),
            (None, false) if self.outlasts_phase() => (from_ns, None),
            (None, false) => (from_ns, lasts_ns.map(|ns| from_ns.saturating_add(ns)).or(length_ns)),
            (Some(_), _) => (from_ns, length_ns),
        }
    }
}

/// Returns true if the text of a fault has commands of the user.
pub fn is_command(text: &str) -> bool {
    commands::split(text).is_ok_and(|command| command.is_some())
}

/// Returns the faults of a phase, with the earliest beginning of each that follows another. All follow an earlier one of
/// the list.
pub fn chained(mut faults: Vec<PlannedFault>) -> Vec<PlannedFault> {
    for at in 0..faults.len() {
        let (before, rest) = faults.split_at_mut(at);
        let Some((after, other)) = rest[0].after.and_then(|after| Some((after, before.get(after.fault)?))) else {
            continue;
        };
        rest[0].at = other.at.plus(other.lasts.unwrap_or_default()).plus(after.by);
    }
    faults
}

/// Returns two faults that would be in effect together and exclude each other; none in a list that can be carried out.
pub fn overlap(faults: &[PlannedFault], length_ns: Option<u64>) -> Option<(&PlannedFault, &PlannedFault)> {
    let mut pairs = faults.iter().enumerate().flat_map(|(at, one)| faults[at + 1..].iter().map(move |two| (one, two)));
    pairs.find(|(one, other)| meet(one, other, length_ns))
}

/// Returns true if the faults would be in effect together and exclude each other.
pub(crate) fn meet(one: &PlannedFault, other: &PlannedFault, length_ns: Option<u64>) -> bool {
    let is_before = |until_ns: Option<u64>, from_ns: u64| until_ns.is_some_and(|until_ns| until_ns <= from_ns);
    let ((from_a, until_a), (from_b, until_b)) = (one.extent(length_ns), other.extent(length_ns));
    one.what.excludes(&other.what) && !is_before(until_a, from_b) && !is_before(until_b, from_a)
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for PlannedFault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
