//! Faults that the stores of a plan cannot have, before anything is started.

mod conditions;

use std::path::Path;

use plimsoll_core::sampler::CLIENTS;
use plimsoll_core::{Catalogue, Link, LinkPeers, NodeChoice, Recipe};
use plimsoll_lab::{ServerUser, described, program_version};
use plimsoll_plan::model::{Plan, PlannedTrial, StoreUse};
use plimsoll_plan::secret_ranges;
use plimsoll_plan::timeline::{FaultAction, NeighbourUse, PlannedFault, STORM_CONNECTIONS_MAX};

use crate::attached;
use crate::error::TrialError;
use crate::precheck::no_such_node;
use conditions::{no_such_reading, no_such_silence, no_such_subject};

/// Advice to a fault that a plan has to allow.
pub(crate) const ALLOW: &str = "allow it with --allow-fault (in a plan: allow_fault = true)";
/// Advice to a `replace` of other nodes.
const REPLACE: &str = "write replace node 2";

/// Refuses a plan with a fault that its stores cannot have, before anything is started.
///
/// # Errors
/// Which store it is, and why.
pub(crate) fn possible(plan: &Plan, catalogue: &Catalogue) -> Result<(), TrialError> {
    for trial in &plan.trials {
        only_added_nodes_leave(trial)?;
        commands_are_allowed(plan, trial)?;
        for (phase, drive) in trial.drives() {
            for fault in &drive.faults {
                let Some(when) = &fault.when else { continue };
                let found = match no_such_reading(when, plan, &trial.store, catalogue) {
                    _ if when.source == CLIENTS => no_such_silence(when),
                    None => no_such_subject(when, trial, catalogue)?,
                    found => found,
                };
                if let Some((what, next)) = found {
                    return Err(TrialError::usage(format!("phase {phase}: {fault}: {what}")).next(next));
                }
            }
        }
        let of_servers = trial.drives().flat_map(|(name, drive)| drive.faults.iter().map(move |fault| (name, fault)));
        let is_of_all_disks = |fault: &PlannedFault| fault.is_of_disk() && fault.what.nodes().is_none();
        let of_servers: Vec<_> =
            of_servers.filter(|(_, fault)| !is_of_all_disks(fault) && !fault.is_of_user()).collect();
        if of_servers.is_empty() {
            continue;
        }
        let recipe = recipe(&trial.store, catalogue)?;
        for (phase, drive) in trial.drives() {
            let found = recipe.as_deref().and_then(|recipe| at_once(&drive.faults, recipe));
            if let Some((fault, what, next)) = found {
                return Err(TrialError::usage(format!("phase {phase}: {fault}: {what}")).next(next));
            }
        }
        for (phase, fault) in of_servers {
            let refused = |(what, next): (String, String)| {
                TrialError::usage(format!("phase {phase}: {fault}: {what}")).next(next)
            };
            match (&recipe, &fault.what) {
                // A lab says so itself.
                (_, FaultAction::Add | FaultAction::Remove) if trial.store.lab().is_some() => {}
                (Some(recipe), FaultAction::Add | FaultAction::Remove) => recipe.takes_more()?,
                (Some(recipe), _) => {
                    mistake(fault, trial, &**recipe, catalogue).map_or(Ok(()), |found| Err(refused(found)))?;
                }
                (None, _) if !trial.store.is_ours() => {
                    let url = trial.store.url.as_deref().unwrap_or_default();
                    attached::refused(fault, plan, &trial.store, url).map_or(Ok(()), |found| Err(refused(found)))?;
                }
                (None, _) => {
                    let what = format!("{} has no private servers", trial.store.label);
                    let next = "leave `fault` out, name a store whose servers Plimsoll starts (plimsoll list stores), or \
                                write commands of your own: run \"COMMAND\" heal \"COMMAND\" at 10s for 3s";
                    return Err(refused((what, next.to_owned())));
                }
            }
        }
    }
    Ok(())
}

/// Fails if a fault runs a command that the plan does not allow, or whose password is masked.
fn commands_are_allowed(plan: &Plan, trial: &PlannedTrial) -> Result<(), TrialError> {
    let faults = trial.drives().flat_map(|(phase, drive)| drive.faults.iter().map(move |fault| (phase, fault)));
    for (phase, fault) in faults {
        let FaultAction::Command { begin, heal } = &fault.what else { continue };
        let (what, next) = if !plan.allow_fault {
            ("this runs a command on this machine, with your rights", ALLOW)
        } else if is_masked(begin) || heal.as_deref().is_some_and(is_masked) {
            // A recorded command line has no passwords.
            ("the password in this command is masked", "leave --resume out, or keep the password in a file")
        } else {
            continue;
        };
        return Err(TrialError::usage(format!("phase {phase}: {fault}: {what}")).next(next));
    }
    Ok(())
}

/// Returns true if `***` stands for a secret of the command.
fn is_masked(command: &str) -> bool {
    secret_ranges(command).into_iter().any(|range| command.get(range) == Some("***"))
}

/// Fails if a node is removed and no fault before has added one.
fn only_added_nodes_leave(trial: &PlannedTrial) -> Result<(), TrialError> {
    let mut has_added = false;
    for (phase, drive) in trial.drives() {
        for fault in &drive.faults {
            match fault.what {
                FaultAction::Add => has_added = true,
                FaultAction::Remove if !has_added => {
                    let what = format!("phase {phase}: {fault}: no node has joined before that could leave");
                    return Err(TrialError::usage(what).next("write before it, with an earlier time: add node at 10s"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns the reason that servers of `recipe` cannot have the fault, and advice.
fn mistake(
    fault: &PlannedFault,
    trial: &PlannedTrial,
    recipe: &dyn Recipe,
    catalogue: &Catalogue,
) -> Option<(String, String)> {
    let label = &trial.store.label;
    let lab = trial.store.url.as_deref().and_then(|url| catalogue.lab(url));
    let no_such = |nodes: Option<NodeChoice>| {
        let nodes = nodes?;
        let named = nodes.numbers();
        match lab {
            // Nodes of a lab come and go.
            Some(lab) if !named.is_empty() => {
                let absent = named.iter().find(|number| !lab.nodes.contains(number))?;
                let numbers: Vec<String> = lab.nodes.iter().map(u32::to_string).collect();
                Some((format!("{label} has no node {absent}"), format!("its nodes are {}", numbers.join(", "))))
            }
            Some(lab)
                if nodes == NodeChoice::Minority && nodes.count(lab.nodes.len()) > 0 && recipe.all_nodes_vote() =>
            {
                None
            }
            _ => no_such_node(nodes, label, recipe),
        }
    };
    let peer = match &fault.what {
        FaultAction::Link(_, Link { peers: LinkPeers::Node(number), .. }) => {
            Some(NodeChoice::Number(*number as u32 + 1))
        }
        _ => None,
    };
    if let Some((what, next)) = no_such(fault.what.nodes()).or_else(|| no_such(peer)) {
        let is_replaced = matches!(fault.what, FaultAction::Replace(_));
        return Some((what, if is_replaced { REPLACE.to_owned() } else { next }));
    }
    if let Some((on, program)) = fault.what.program() {
        let refused = other_program(on, program, recipe).err()?;
        return Some((refused.what, refused.next.unwrap_or_default()));
    }
    match &fault.what {
        FaultAction::Promote(on) if !matches!(on, NodeChoice::Replica | NodeChoice::Number(_)) => {
            let what = "one node becomes the primary, and was not before".to_owned();
            Some((what, "write promote replica, or promote node 2".to_owned()))
        }
        FaultAction::Promote(_) => {
            let refused = recipe.promotes().err()?;
            Some((refused.what, refused.next.unwrap_or_default()))
        }
        FaultAction::Replace(_) if lab.is_some() => {
            let what = "nodes of a lab are not replaced in one step".to_owned();
            Some((what, "remove one and add another meanwhile: plimsoll lab remove, plimsoll lab add".to_owned()))
        }
        FaultAction::Replace(on) => {
            if let Err(refused) = recipe.takes_more() {
                return Some((refused.what, refused.next.unwrap_or_default()));
            }
            let what = match on {
                NodeChoice::All | NodeChoice::Numbers(_) | NodeChoice::Minority | NodeChoice::Majority => {
                    "one node is replaced at a time".to_owned()
                }
                // An empty node becomes a copy of the primary.
                NodeChoice::Primary | NodeChoice::Number(1) if recipe.has_primary() => {
                    format!("an empty node cannot replace the primary of {label}, or node 1, which was made as it")
                }
                NodeChoice::Primary | NodeChoice::Replica | NodeChoice::Number(_) => return None,
            };
            Some((what, REPLACE.to_owned()))
        }
        FaultAction::Work(name, on) => {
            let promotes = |fault: &PlannedFault| matches!(fault.what, FaultAction::Promote(_));
            let may_change = lab.is_some() || trial.drives().any(|(_, drive)| drive.faults.iter().any(promotes));
            no_such_work(name, *on, label, recipe, may_change)
        }
        FaultAction::Disk(on, _) if !numbers(*on, recipe).any(|number| recipe.keeps_data(number)) => {
            Some((format!("this node of {label} keeps no data"), "name another node".to_owned()))
        }
        FaultAction::Storm(..) if trial.store.server.as_ref().is_some_and(|server| !server.url.contains("{port}")) => {
            let what = format!("a storm needs a port, and the URL of {label} has no {{port}}");
            Some((what, "write {port} in the server's URL (`store`), or leave the storm out".to_owned()))
        }
        FaultAction::Storm(..) => too_many_connections(fault, lab.map_or(recipe.spec().nodes, |lab| lab.nodes.len())),
        FaultAction::Hang(on) => {
            let refused = numbers(*on, recipe).map(|number| recipe.hangs(number)).reduce(Result::or)?.err()?;
            Some((refused.what, refused.next.unwrap_or_default()))
        }
        FaultAction::Reset(on) if !numbers(*on, recipe).any(|number| recipe.takes_tcp(number)) => {
            let what = format!("{label} serves its sessions over a Unix socket, where no TCP connection can be reset");
            let next = "use a store that clients reach over TCP, such as a cluster with replicas: plimsoll list stores";
            Some((what, next.to_owned()))
        }
        FaultAction::Link(..) | FaultAction::Neighbour(_, NeighbourUse::Network(_)) if recipe.spec().hosts == 0 => {
            let what = format!("{label} is on this machine's own network, which has no links");
            Some((what, "use a store with several nodes: plimsoll list stores".to_owned()))
        }
        FaultAction::Limit(_, change) => {
            let limits = plimsoll_core::Limits::of(&trial.store.params).ok()?;
            if !limits.changes().iter().any(|one| one.name() == change.name()) {
                let what = format!("{label} has no limit `{}` to change", change.name());
                let (kind, name) = (&trial.store.kind, change.name());
                let set = match trial.store.lab() {
                    Some(_) => format!("plimsoll lab up {kind} --set {name}=… --keep"),
                    None => format!("{{ store = \"{kind}\", {name} = … }}, on the command line --set {kind}.{name}=…"),
                };
                return Some((what, format!("give the store a limit to begin with: {set}")));
            }
            let refused = plimsoll_lab::limits_must_be_possible(&limits.with(change)).err()?;
            Some((refused.what, refused.next.unwrap_or_default()))
        }
        FaultAction::Clock(..) => {
            let refused = plimsoll_lab::clocks_must_be_possible().err()?;
            Some((refused.what, refused.next.unwrap_or_default()))
        }
        _ => None,
    }
}

/// Fails if none of the nodes can be started with `program`, because the user of the servers cannot execute it or it is
/// not the store's.
fn other_program(on: NodeChoice, program: &Path, recipe: &dyn Recipe) -> Result<(), TrialError> {
    let marks = numbers(on, recipe).map(|number| recipe.version_marks(number)).reduce(Result::or).transpose()?;
    let spec = recipe.spec();
    let user = ServerUser::caller_or(spec.user, spec.package)?;
    program_version(program, (recipe.version_option(), marks.unwrap_or_default()), &user).map(drop)
}

/// Returns planned work that servers do one at a time and that may begin before other such work has ended, the reason,
/// and advice.
fn at_once<'f>(faults: &'f [PlannedFault], recipe: &dyn Recipe) -> Option<(&'f PlannedFault, String, String)> {
    let name = |fault: &'f PlannedFault| match &fault.what {
        FaultAction::Work(name, _) if recipe.works_alone(name) => Some(name),
        _ => None,
    };
    let before = |position: usize| faults.get(position)?.after.map(|after| after.fault).filter(|at| *at < position);
    let follows = |at: usize, other: usize| std::iter::successors(before(at), |at| before(*at)).any(|at| at == other);
    faults.iter().enumerate().find_map(|(at, fault)| {
        let name = name(fault)?;
        if fault.every_ns.is_some() {
            let what = format!("the next `{name}` may begin before this one has ended");
            return Some((
                fault,
                what,
                format!("leave `every` out, and chain others: work {name} at 0s after fault 1"),
            ));
        }
        let is_same = |other: &&'f PlannedFault| matches!(&other.what, FaultAction::Work(one, _) if one == name);
        let others = faults[..at].iter().enumerate().filter(|(_, other)| is_same(other));
        let (other, first) = others.into_iter().find(|(other, _)| !follows(at, *other))?;
        let what = format!("servers do one `{name}` at a time, and {first} may not have ended");
        let next = match fault.drawn.or(first.drawn) {
            Some(_) => format!("leave one of them out, or give both times: work {name} at 0s after fault 1"),
            None => format!("let it begin after the other: work {name} at 0s after fault {}", other + 1),
        };
        Some((fault, what, next))
    })
}

/// Returns the numbers, from 0, of the nodes that a fault names, by the roles that nodes begin with.
fn numbers(on: NodeChoice, recipe: &dyn Recipe) -> impl Iterator<Item = usize> {
    let nodes = recipe.spec().nodes;
    let minority = NodeChoice::Minority.count(nodes);
    let numbers: Vec<usize> = match on {
        NodeChoice::All => (0..nodes).collect(),
        NodeChoice::Primary => vec![0],
        NodeChoice::Replica => {
            vec![(1..nodes).find(|number| recipe.role(*number) == "replica").unwrap_or(1)]
        }
        NodeChoice::Number(number) => vec![(number as usize).saturating_sub(1)],
        NodeChoice::Numbers(all) => all.numbers().collect(),
        NodeChoice::Minority => (1..=minority).collect(),
        NodeChoice::Majority => (0..nodes).filter(|number| !(1..=minority).contains(number)).collect(),
    };
    numbers.into_iter()
}

/// Returns the reason that these nodes cannot do planned work of this name, and advice; `None` if one of them can. If
/// roles `may_change`, a node may have any role by then.
fn no_such_work(
    name: &str,
    on: NodeChoice,
    label: &str,
    recipe: &dyn Recipe,
    may_change: bool,
) -> Option<(String, String)> {
    let is_any = !on.numbers().is_empty() && may_change && recipe.promotes().is_ok() && !recipe.switches_over();
    let numbers = numbers(if is_any { NodeChoice::All } else { on }, recipe);
    let mut works: Vec<&str> = numbers.flat_map(|number| recipe.works(number)).copied().collect();
    works.sort_unstable();
    works.dedup();
    // Without nodes, a fault is of the primary.
    let of = match on {
        _ if recipe.spec().nodes == 1 => String::new(),
        NodeChoice::Number(number) => format!(" of node {number}"),
        NodeChoice::Primary => " of the primary".to_owned(),
        on => format!(" of `{on}`"),
    };
    match works.as_slice() {
        [] => {
            let what = format!("{label} has no planned work{of}");
            Some((what, "leave the fault out, or write another one: restart all".to_owned()))
        }
        works if works.contains(&name) => None,
        works => {
            let what = format!("{label} has no planned work `{name}`{of}");
            let can = (0..recipe.spec().nodes).filter(|number| recipe.works(*number).contains(&name));
            let can: Vec<String> = can.map(|number| format!("node {}", number + 1)).collect();
            let elsewhere =
                if can.is_empty() { String::new() } else { format!("; `{name}` is work of {}", can.join(", ")) };
            Some((what, format!("there are: {}{elsewhere}", works.join(", "))))
        }
    }
}

/// Returns the reason that a storm on a store of so many nodes cannot have its connections, and advice.
pub(crate) fn too_many_connections(fault: &PlannedFault, nodes: usize) -> Option<(String, String)> {
    let (connections, most) = (storm_connections(fault, nodes), STORM_CONNECTIONS_MAX);
    let what = format!("a storm has at most {most} connections, and this one has {connections} to {nodes} nodes");
    let next = format!("write connections={}, or less", most / nodes.max(1) as u64);
    (connections > most).then_some((what, next))
}

/// Returns the connections of a fault's storm on a store of so many nodes; 0 for another fault.
fn storm_connections(fault: &PlannedFault, nodes: usize) -> u64 {
    match fault.what {
        FaultAction::Storm(on, connections) => u64::from(connections) * on.count(nodes) as u64,
        _ => 0,
    }
}

/// Returns the connections that all storms of a drive may hold together.
///
/// # Errors
/// Those of the store's recipe.
pub(crate) fn all_storms(faults: &[PlannedFault], store: &StoreUse, catalogue: &Catalogue) -> Result<u64, TrialError> {
    // Only a storm needs the number of nodes.
    if !faults.iter().any(|fault| matches!(fault.what, FaultAction::Storm(..))) {
        return Ok(0);
    }
    let lab = store.url.as_deref().and_then(|url| catalogue.lab(url));
    let nodes = match lab {
        Some(lab) => lab.nodes.len(),
        None => match (recipe(store, catalogue)?, &store.url) {
            (Some(recipe), _) => recipe.spec().nodes,
            (None, url) => url.as_deref().map_or(1, attached::hosts_in),
        },
    };
    // Drawn storms come one after the other.
    let (drawn, fixed): (Vec<_>, Vec<_>) = faults.iter().partition(|fault| fault.drawn.is_some());
    let drawn = drawn.into_iter().map(|fault| storm_connections(fault, nodes)).max().unwrap_or(0);
    Ok(drawn + fixed.into_iter().map(|fault| storm_connections(fault, nodes)).sum::<u64>())
}

/// Returns the recipe of the store's servers; `None` if they are neither private nor a lab's.
///
/// # Errors
/// Invalid values of the store's parameters.
pub(crate) fn recipe(store: &StoreUse, catalogue: &Catalogue) -> Result<Option<Box<dyn Recipe>>, TrialError> {
    match catalogue.store(&store.kind) {
        Some(kind) if store.is_ours() => Ok(described::recipe(store.server.as_ref(), kind, &store.params)?),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_storms_need_the_connections_of_the_largest_of_them() {
        let catalogue = Catalogue {
            labs: Vec::new(),
            stores: vec![plimsoll_store_null::kind()],
            workloads: plimsoll_workload::all(),
            samplers: Vec::new(),
        };
        let text = "stores = [\"null\"]\n[workload]\nname = \"nothing\"\n[[phase]]\ndo = \"drive\"\nfor = \"60s\"\n\
                    fault_pause = \"1s\"\nfault = [\"storm all connections=4 drawn for 1s\", \
                    \"storm all connections=9 drawn for 1s\", \"storm all connections=5 at 1s for 1s\", \
                    \"storm all connections=6 at 1s for 1s\"]\n";
        let plan = plimsoll_plan::parse("storms", text, &catalogue, &plimsoll_plan::Overrides::default()).unwrap();
        let trial = &plan.trials[0];
        let (_, drive) = trial.drives().next().unwrap();
        assert!(drive.faults.iter().filter(|fault| fault.drawn.is_some()).count() > 10);
        assert_eq!(all_storms(&drive.faults, &trial.store, &catalogue).unwrap(), 9 + 5 + 6);
    }
}
