//! Words of a fault before and in its times: verbs, nodes, links, limits, and times.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_core::fault::Fault;
use plimsoll_core::link::bits;
use plimsoll_core::nearest::nearest;
use plimsoll_core::{LimitChange, Link, LinkPeers, LinkWays, NodeChoice, NodeSet, ParamSpec, ParamType, StoreError};

use super::{FaultAction, FaultTime, Mistake, VERBS};
use crate::clock::parse_clock;
use crate::document::short;
use crate::quantity::{self, Dimension, show_ns};
use crate::{disturbance, nearest as near, parse_count};

/// Returns the mistake of words in a wrong place: a size behind the times, or a condition without `when`.
pub(super) fn misplaced(named: &[&str], times: &[&str]) -> Option<Mistake> {
    if let Some(at) = named.iter().position(|word| *word == "if") {
        let (before, rest) = (named[..at].join(" "), named[at + 1..].iter().chain(times).copied());
        let rest = rest.collect::<Vec<_>>().join(" ");
        let help = format!("write \"{} when {}\"", short(&before), short(&rest));
        return Some(("a condition begins with `when`, and not with `if`".to_owned(), Some(help)));
    }
    let is_size = |word: &&&str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    };
    if times.contains(&"when") {
        return None;
    }
    let sizes: Vec<&str> = times.iter().filter(is_size).copied().collect();
    let word = sizes.first()?;
    let others: Vec<&str> = times.iter().filter(|word| !is_size(word)).copied().collect();
    let help = format!("write \"{}\"", short(&[named, &sizes, &others].concat().join(" ")));
    Some((format!("`{}` stands behind a time, and belongs before it", short(word)), Some(help)))
}

/// Parses the words of a fault before its times.
pub(super) fn action(words: &[&str]) -> Result<FaultAction, Mistake> {
    let Some((verb, rest)) = words.split_first() else {
        return Err(("the fault is missing".to_owned(), Some("write \"kill node 2 at 10s\"".to_owned())));
    };
    if !VERBS.contains(verb) {
        let help = match other_name(VERB_NAMES, verb) {
            Some(known) => format!("write `{known}` for it; faults: {}", VERBS.join(", ")),
            None => near::help(verb, "faults", VERBS),
        };
        return Err((format!("unknown fault `{}`", short(verb)), Some(help)));
    }
    match (*verb, rest) {
        ("add", [] | ["node"]) => return Ok(FaultAction::Add),
        ("add", _) => return Err(("`add` adds one node".to_owned(), Some("write \"add node at 10s\"".to_owned()))),
        ("remove", [] | ["node"]) => return Ok(FaultAction::Remove),
        ("remove", _) => {
            let help = Some("write \"remove node at 20s\"".to_owned());
            return Err(("`remove` removes the node that joined last".to_owned(), help));
        }
        ("disk", words) => return disk(words),
        ("work", words) => return work(words),
        _ => {}
    }
    let (on, rest) = nodes(verb, rest)?;
    // A neighbour may use the disk.
    if let Some(other) = rest.iter().find(|word| VERBS.contains(word) && *verb != "neighbour") {
        let help = Some("write a list of faults, each with its own times, or --fault again".to_owned());
        return Err((format!("`{other}` begins another fault"), help));
    }
    match (*verb, rest) {
        ("restart", rest) => return restart(on, rest),
        ("cut", ["in"]) => return Ok(FaultAction::Link(on, Link { ways: LinkWays::In, ..Link::CUT })),
        ("cut", ["out"]) => return Ok(FaultAction::Link(on, Link { ways: LinkWays::Out, ..Link::CUT })),
        ("cut", ["in", "from", words @ ..]) => return cut_from(on, LinkWays::In, "from", words),
        ("cut", ["out", "to", words @ ..]) => return cut_from(on, LinkWays::Out, "to", words),
        ("cut", ["from", words @ ..]) => return cut_from(on, LinkWays::Both, "from", words),
        ("cut", ["in" | "out", word, ..] | [word, ..]) => {
            return Err((format!("`{}` has no meaning in `cut`", short(word)), Some(CUTS.to_owned())));
        }
        ("link" | "limit" | "clock" | "storm" | "neighbour", _) => {}
        (verb, rest) => no_more(verb, rest)?,
    }
    Ok(match *verb {
        "kill" => FaultAction::Kill(on),
        "stop" => FaultAction::Stop(on),
        "pause" => FaultAction::Pause(on),
        "hang" => FaultAction::Hang(on),
        "promote" => FaultAction::Promote(on),
        "replace" => FaultAction::Replace(on),
        "reset" => FaultAction::Reset(on),
        "cut" => FaultAction::Link(on, Link::CUT),
        "link" => FaultAction::Link(on, link(on, rest)?),
        "clock" => FaultAction::Clock(on, parse_clock(rest)?),
        "storm" => FaultAction::Storm(on, disturbance::storm(rest)?),
        "neighbour" => FaultAction::Neighbour(on, disturbance::neighbour(rest)?),
        _ => match rest {
            [one] => FaultAction::Limit(on, parse_limit(one).map_err(|error| (error.what, error.next))?),
            _ => return Err(("a fault changes one limit".to_owned(), Some("write cpus=0.5".to_owned()))),
        },
    })
}

/// Names of faults and of roles elsewhere, and those here.
const VERB_NAMES: &[(&str, &str)] = &[
    ("partition", "cut"),
    ("isolate", "cut"),
    ("disconnect", "cut"),
    ("crash", "kill"),
    ("freeze", "pause"),
    ("suspend", "pause"),
    ("failover", "promote"),
    ("switchover", "promote"),
];
const ROLE_NAMES: &[(&str, &str)] = &[
    ("leader", "primary"),
    ("master", "primary"),
    ("follower", "replica"),
    ("standby", "replica"),
    ("secondary", "replica"),
    ("slave", "replica"),
];
/// Roles and groups of nodes. The first [`ROLES_OF_ONE`] are of one node.
const ROLES: &[&str] = &["primary", "replica", "minority", "majority", "all"];
const ROLES_OF_ONE: usize = 2;

/// Returns the name here of something that `word` names elsewhere; `None` for other words.
fn other_name(names: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    names.iter().find(|(name, _)| *name == word).map(|(_, known)| *known)
}

/// Advice on the words of cuts.
const CUTS: &str = "write \"cut node 2 at 10s\", \"cut node 2 in at 10s\" for one direction (in, out), \
                    \"cut node 2 from clients at 10s\", \"cut node 2 from client host 1 at 10s\", \
                    \"cut node 2 from node 3 at 10s\", or \"cut node 2 in from node 3 at 10s\" and \
                    \"cut node 2 out to node 3 at 10s\" for one direction of these";

/// Advice on the words of links.
const LINKS: &str = "write \"link node 2 delay=20ms at 10s\", \"link node 2 from clients delay=20ms at 10s\", \
                     \"link node 2 from client host 1 delay=20ms at 10s\" or \
                     \"link node 2 from node 3 delay=20ms at 10s\"";

/// Parses the other end of a cut in these directions, behind `joint`: `from` or `to`.
fn cut_from(on: NodeChoice, ways: LinkWays, joint: &str, words: &[&str]) -> Result<FaultAction, Mistake> {
    let (peers, rest) = other_end("cut", on, joint, words)?;
    match rest {
        [] => Ok(FaultAction::Link(on, Link { ways, peers, ..Link::CUT })),
        [word, ..] => Err((format!("`{}` has no meaning in `cut`", short(word)), Some(CUTS.to_owned()))),
    }
}

/// Splits the other end of the link of `on`, behind `joint`, from the words behind it: `clients`, `client host 1`, or
/// `node 3`.
fn other_end<'w>(
    verb: &str,
    on: NodeChoice,
    joint: &str,
    words: &'w [&'w str],
) -> Result<(LinkPeers, &'w [&'w str]), Mistake> {
    let wrong = |what: String| (what, Some((if verb == "cut" { CUTS } else { LINKS }).to_owned()));
    match words {
        ["clients", rest @ ..] => Ok((LinkPeers::Clients, rest)),
        ["client", "host", number, rest @ ..] => match number.parse::<usize>() {
            Ok(number) if number > 0 => Ok((LinkPeers::ClientHost(number - 1), rest)),
            _ => Err(wrong(format!("`{}` is no number of a client host", short(number)))),
        },
        ["node", number, rest @ ..] => match number.parse::<u32>() {
            Ok(number) if on.numbers().contains(&number) => {
                let help = Some(format!("name two nodes: {verb} node 1 from node 2"));
                Err((format!("node {number} has no link to itself"), help))
            }
            Ok(number) if number > 0 => Ok((LinkPeers::Node(number as usize - 1), rest)),
            _ => Err(wrong(format!("`{}` is no number of a node", short(number)))),
        },
        other => {
            let given = [&[joint], other].concat().join(" ");
            Err(wrong(format!("`{}` names neither clients nor a node", short(&given))))
        }
    }
}

/// Parses the words of a restart behind its nodes: `rolling`, `with /opt/newer/bin/server`, both or none.
fn restart(on: NodeChoice, words: &[&str]) -> Result<FaultAction, Mistake> {
    let (is_rolling, rest) = match words {
        ["rolling", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if is_rolling && on != NodeChoice::All {
        let help = Some("write \"restart all rolling at 10s\"".to_owned());
        return Err(("`rolling` restarts all nodes, one after the other".to_owned(), help));
    }
    let program = match rest {
        [] => None,
        ["with", path @ ..] if path.iter().any(|word| word.contains(['"', '\''])) => {
            let help = "write it without quotes; to a path with a quote or a space, make a link: ln -s PATH /opt/newer";
            return Err((format!("`{}` has quotes", short(&path.join(" "))), Some(help.to_owned())));
        }
        ["with", program] if Path::new(program).is_absolute() => Some(PathBuf::from(program)),
        ["with", other @ ..] => {
            let what = match other {
                [] => "the program is missing".to_owned(),
                other => format!("`{}` is not the path of a program", short(&other.join(" "))),
            };
            let help = "write an absolute path without spaces: restart all rolling with /opt/newer/bin/server";
            return Err((what, Some(help.to_owned())));
        }
        [word, ..] => {
            let help = "write \"restart node 2 at 10s\", \"restart all rolling at 10s\", or \
                        \"restart node 2 with /opt/newer/bin/server at 10s\" for another version";
            return Err((format!("`{}` has no meaning in `restart`", short(word)), Some(help.to_owned())));
        }
    };
    Ok(if is_rolling { FaultAction::RestartInTurn(program) } else { FaultAction::Restart(on, program) })
}

/// Parses a fault of disks: their nodes, by default all, and its words.
fn disk(words: &[&str]) -> Result<FaultAction, Mistake> {
    let (on, rest) = match words {
        ["node" | "nodes" | "primary" | "replica" | "minority" | "majority" | "all", ..] => nodes("disk", words)?,
        _ => (NodeChoice::All, words),
    };
    let words = rest.join(" ");
    let mistake = |_| (format!("`{}` is not a fault of a disk", short(&words)), Some(disk_faults()));
    words.parse().map(|fault| FaultAction::Disk(on, fault)).map_err(mistake)
}

/// Parses planned work: a name, and its nodes, by default the primary.
fn work(words: &[&str]) -> Result<FaultAction, Mistake> {
    let Some((name, rest)) = words.split_first() else {
        let help = Some("write \"work backup at 10s\", or \"work backup node 2 at 10s\"".to_owned());
        return Err(("the name of the work is missing".to_owned(), help));
    };
    let verb = format!("work {name}");
    let (on, rest) = if rest.is_empty() { (NodeChoice::Primary, rest) } else { nodes(&verb, rest)? };
    no_more(&verb, rest)?;
    Ok(FaultAction::Work((*name).to_owned(), on))
}

/// Refuses words after a complete fault.
fn no_more(verb: &str, rest: &[&str]) -> Result<(), Mistake> {
    rest.first().map_or(Ok(()), |word| {
        let help = Some(format!("write \"{verb} node 2 at 10s\""));
        Err((format!("`{}` has no meaning in `{verb}`", short(word)), help))
    })
}

fn disk_faults() -> String {
    format!("there are: {}", Fault::WORDS)
}

/// Splits the nodes of a fault from the words behind them.
fn nodes<'w>(verb: &str, words: &'w [&'w str]) -> Result<(NodeChoice, &'w [&'w str]), Mistake> {
    let (choice, rest) = match words {
        ["node", number, rest @ ..] => (number.parse().ok().filter(|number| *number > 0).map(NodeChoice::Number), rest),
        ["nodes", numbers, rest @ ..] => (listed(numbers), rest),
        ["minority", rest @ ..] => (Some(NodeChoice::Minority), rest),
        ["majority", rest @ ..] => (Some(NodeChoice::Majority), rest),
        [word, rest @ ..] => (NodeChoice::named(word).filter(|one| !matches!(one, NodeChoice::Number(_))), rest),
        [] => (None, words),
    };
    let roles = if ["promote", "replace"].contains(&verb) { &ROLES[..ROLES_OF_ONE] } else { ROLES };
    let known = |word: &&str| other_name(ROLE_NAMES, word).or_else(|| nearest(word, roles.iter().copied()));
    let meant = words.first().and_then(known).map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
    let help = || {
        let several = if roles.len() > ROLES_OF_ONE { format!(", \"{verb} nodes 1,2\"") } else { String::new() };
        Some(format!("{meant}write \"{verb} node 2\"{several}, or {}", roles.join(", ")))
    };
    if let ["nodes", list, ..] = words
        && let Some(number) = listed_twice(list)
    {
        let help = Some("leave one of them out".to_owned());
        return Err((format!("`nodes {}` has node {number} twice", short(list)), help));
    }
    choice.map(|choice| (choice, rest)).ok_or_else(|| match words {
        [] => (format!("the nodes of `{verb}` are missing"), help()),
        words => (format!("`{}` names no nodes", short(&words.join(" "))), help()),
    })
}

/// Returns the first number that a list of nodes has twice.
fn listed_twice(list: &str) -> Option<u32> {
    let mut seen = BTreeSet::new();
    list.split(',').filter_map(|one| one.parse().ok()).find(|number| !seen.insert(*number))
}

/// Parses the numbers of several nodes, `1,2`; `None` if one of them is 0, too large or no number.
fn listed(text: &str) -> Option<NodeChoice> {
    let numbers: Option<Vec<usize>> = text.split(',').map(|one| one.parse::<usize>().ok()?.checked_sub(1)).collect();
    let all = NodeSet::of(&numbers?)?;
    let mut numbers = all.numbers();
    match (numbers.next(), numbers.next()) {
        (Some(only), None) => Some(NodeChoice::Number(only as u32 + 1)),
        _ => Some(NodeChoice::Numbers(all)),
    }
}

/// Splits `at 5000 ops` from the times of a fault. Returns the other times, and the number.
pub(super) fn at_ops(times: Vec<&str>) -> Result<(Vec<&str>, Option<u64>), Mistake> {
    let Some(unit) = times.iter().position(|word| *word == "ops") else { return Ok((times, None)) };
    let number = match &times[..unit] {
        [.., "at", number] if times.iter().filter(|word| **word == "at").count() == 1 => {
            parse_count(number).filter(|ops| *ops > 0)
        }
        _ => None,
    };
    let Some(ops) = number else {
        let what = format!("`{}` is no number of operations", short(&times[..=unit].join(" ")));
        return Err((what, Some("write \"at 5000 ops\", once".to_owned())));
    };
    Ok((times[..unit - 2].iter().chain(&times[unit + 1..]).copied().collect(), Some(ops)))
}

/// Splits `after fault 2` from the times of a fault. Returns the other times, and the position from 0.
pub(super) fn after<'w>(times: &[&'w str]) -> Result<(Vec<&'w str>, Option<usize>), Mistake> {
    let Some(start) = times.iter().position(|word| *word == "after") else { return Ok((times.to_vec(), None)) };
    let (before, rest) = times.split_at(start);
    let number = match rest {
        [_, "fault", number, ..] => number.parse::<usize>().ok().filter(|number| *number > 0),
        _ => None,
    };
    let help = || Some("write \"at 2s after fault 1\" for 2s after the first fault of the list is healed".to_owned());
    let Some(number) = number else {
        return Err((format!("`{}` names no fault", short(&rest.join(" "))), help()));
    };
    if before.last().is_none_or(|_| before.len() % 2 != 0 || before[before.len() - 2] != "at") {
        return Err(("`after` follows a time".to_owned(), help()));
    }
    Ok((before.iter().chain(&rest[3..]).copied().collect(), Some(number - 1)))
}

pub(super) fn time(key: &str, value: &str) -> Result<FaultTime, Mistake> {
    let mistake = |(what, help): Mistake| (format!("`{key} {}`: {what}", short(value)), help);
    if value.ends_with('%') {
        let percent = quantity::parse(value, Dimension::Share).map_err(mistake)?;
        return if percent <= 100.0 {
            Ok(FaultTime { ns: 0, percent })
        } else {
            Err(mistake(("a phase has 100%".to_owned(), Some("write at 40%, or a time".to_owned()))))
        };
    }
    let ns = quantity::parse(value, Dimension::Time).map_err(mistake)?;
    if ns > quantity::TIME_NS_MAX as f64 {
        let help = Some(format!("write a time within the phase: {key} 10s"));
        return Err(mistake((format!("at most {}", show_ns(quantity::TIME_NS_MAX)), help)));
    }
    Ok(FaultTime { ns: ns.round() as u64, percent: 0.0 })
}

/// Parses the link of a fault, `delay=20ms loss=1%` or `from client host 1 delay=20ms`.
fn link(on: NodeChoice, words: &[&str]) -> Result<Link, Mistake> {
    let (peers, words) = match words {
        ["from", words @ ..] => other_end("link", on, "from", words)?,
        words => (LinkPeers::All, words),
    };
    let mistake = |what: &str| (what.to_owned(), Some(LINKS.to_owned()));
    if words.is_empty() {
        return Err(mistake("the link is missing"));
    }
    if words.contains(&"from") {
        return Err(mistake("`from` stands behind a property of the link, and belongs before it"));
    }
    let pairs = words.iter().map(|word| word.split_once('=').unwrap_or((word, ""))).collect::<Vec<_>>();
    let link = Link { peers, ..parse_link(&pairs)? };
    link.check().map_err(|error| (error.what, error.next))?;
    Ok(link)
}

/// Properties of a link.
const LINK_PROPERTIES: [&str; 8] = ["delay", "jitter", "loss", "duplicate", "reorder", "corrupt", "close", "rate"];

/// Parses a link, unchecked, from its properties by name, such as `delay` or `loss`.
///
/// # Errors
/// The mistake, with advice.
pub fn parse_link(properties: &[(&str, &str)]) -> Result<Link, (String, Option<String>)> {
    let mut link = Link::default();
    for (at, (name, value)) in properties.iter().enumerate() {
        if properties[..at].iter().any(|(other, _)| other == name) {
            return Err((format!("`{name}` of the link is given twice"), Some("leave one of them out".to_owned())));
        }
        let mistake = |(what, help): Mistake| (format!("{name} {value}: {what}"), help);
        let time =
            || quantity::parse(value, Dimension::Time).map(|ns| Duration::from_nanos(ns as u64)).map_err(mistake);
        match *name {
            "delay" => link.delay = time()?,
            "jitter" => link.jitter = time()?,
            "close" => link.close = time()?,
            "loss" | "duplicate" | "reorder" | "corrupt" => {
                let wrong = || ("no share".to_owned(), Some("write 10%, or 0.1".to_owned()));
                let share = share(value).ok_or_else(|| mistake(wrong()))?;
                match *name {
                    "loss" => link.loss = share,
                    "duplicate" => link.duplicate = share,
                    "reorder" => link.reorder = share,
                    _ => link.corrupt = share,
                }
            }
            "rate" => {
                let wrong = || ("not a number of bits a second".to_owned(), Some("write 50Mbit, or 1Gbit".to_owned()));
                link.rate_bits_per_s = Some(bits(value).ok_or_else(|| mistake(wrong()))?);
            }
            other => {
                let help = near::help(other, "properties", &LINK_PROPERTIES);
                return Err((format!("unknown property of a link `{}`", short(other)), Some(help)));
            }
        }
    }
    Ok(link)
}

/// `10%` or `0.1`.
fn share(given: &str) -> Option<f64> {
    let number = given.strip_suffix('%').unwrap_or(given).trim().parse::<f64>().ok()?;
    Some(if given.ends_with('%') { number / 100.0 } else { number })
}

/// Parses the change of a limit: `cpus=0.5`, `memory=1GiB`, `cpus=none`.
///
/// # Errors
/// `Usage` for names and values that cannot be parsed.
pub fn parse_limit(given: &str) -> Result<LimitChange, StoreError> {
    let number = |param: &ParamSpec, value: &str| match param.param_type {
        ParamType::Bytes => {
            quantity::parse(value, Dimension::Size).map(|bytes| bytes as u64).map_err(|(what, next)| StoreError {
                next,
                ..StoreError::usage(format!("{}={value}: {what}", param.name))
            })
        }
        _ => parse_count(value)
            .ok_or_else(|| StoreError::usage(format!("{}={value}: not a whole number", param.name)).next("write 500")),
    };
    LimitChange::parse(given, number)
}
