//! Faults that the stores of a plan cannot have, before anything is started.

use std::ops::Range;

use plimsoll_core::{Catalogue, NodeChoice, Recipe};
use plimsoll_lab::described;
use plimsoll_plan::model::{Plan, PlannedTrial, StoreUse};
use plimsoll_plan::timeline::{FaultAction, PlannedFault, STORM_CONNECTIONS_MAX};

use crate::error::TrialError;
use crate::precheck::no_such_node;

/// Refuses a plan with a fault that its stores cannot have, before anything is started.
///
/// # Errors
/// Which store it is, and why.
pub(crate) fn possible(plan: &Plan, catalogue: &Catalogue) -> Result<(), TrialError> {
    for trial in &plan.trials {
        let of_servers = trial.drives().flat_map(|(name, drive)| drive.faults.iter().map(move |fault| (name, fault)));
        let of_servers: Vec<_> = of_servers.filter(|(_, fault)| !fault.is_of_disk()).collect();
        if of_servers.is_empty() {
            continue;
        }
        let recipe = recipe(&trial.store, catalogue)?;
        for (phase, fault) in of_servers {
            let refused = |(what, next): (String, String)| {
                TrialError::usage(format!("phase {phase}: {fault}: {what}")).next(next)
            };
            match (&recipe, &fault.what) {
                // A lab says so itself.
                (_, FaultAction::Add) if trial.store.lab().is_some() => {}
                (Some(recipe), FaultAction::Add) => recipe.takes_more()?,
                (Some(recipe), _) => {
                    mistake(fault, trial, &**recipe, catalogue).map_or(Ok(()), |found| Err(refused(found)))?;
                }
                (None, _) => {
                    let what = format!("{} has no private servers", trial.store.label);
                    let next = "leave `fault` out, or name a store whose servers Plimsoll starts: plimsoll list stores"
                        .to_owned();
                    return Err(refused((what, next)));
                }
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
    let found = match (lab, fault.what.nodes()) {
        // Nodes of a lab come and go.
        (Some(lab), Some(NodeChoice::Number(number))) if !lab.nodes.contains(&number) => {
            let numbers: Vec<String> = lab.nodes.iter().map(u32::to_string).collect();
            Some((format!("{label} has no node {number}"), format!("its nodes are {}", numbers.join(", "))))
        }
        (Some(_), Some(NodeChoice::Number(_))) => None,
        (_, nodes) => nodes.and_then(|nodes| no_such_node(nodes, label, recipe)),
    };
    if found.is_some() {
        return found;
    }
    match &fault.what {
        FaultAction::Promote(NodeChoice::All | NodeChoice::Primary) => {
            let what = "one node becomes the primary, and was not before".to_owned();
            Some((what, "write promote replica, or promote node 2".to_owned()))
        }
        FaultAction::Promote(_) => {
            let refused = recipe.promotes().err()?;
            Some((refused.what, refused.next.unwrap_or_default()))
        }
        FaultAction::Work(name, on) => {
            let promotes = |fault: &PlannedFault| matches!(fault.what, FaultAction::Promote(_));
            let may_change = lab.is_some() || trial.drives().any(|(_, drive)| drive.faults.iter().any(promotes));
            no_such_work(name, *on, label, recipe, may_change)
        }
        FaultAction::Storm(..) if trial.store.server.as_ref().is_some_and(|server| !server.url.contains("{port}")) => {
            let what = format!("a storm needs a port, and the URL of {label} has no {{port}}");
            Some((what, "write {port} in the server's URL (`store`), or leave the storm out".to_owned()))
        }
        FaultAction::Storm(..) => {
            let nodes = lab.map_or(recipe.spec().nodes, |lab| lab.nodes.len());
            let connections = storm_connections(fault, nodes);
            let most = STORM_CONNECTIONS_MAX;
            let what =
                format!("a storm has at most {most} connections, and this one has {connections} to {nodes} nodes");
            let next = format!("write connections={}, or less", most / nodes.max(1) as u64);
            (connections > most).then_some((what, next))
        }
        FaultAction::Hang(on) => {
            let refused = numbers(*on, recipe).map(|number| recipe.hangs(number)).reduce(Result::or)?.err()?;
            Some((refused.what, refused.next.unwrap_or_default()))
        }
        FaultAction::Reset(on) if !numbers(*on, recipe).any(|number| recipe.takes_tcp(number)) => {
            let what = format!("{label} serves its sessions over a Unix socket, where no TCP connection can be reset");
            let next = "use a store that clients reach over TCP, such as a cluster with replicas: plimsoll list stores";
            Some((what, next.to_owned()))
        }
        FaultAction::Link(..) if recipe.spec().hosts == 0 => {
            let what = format!("{label} is on this machine's own network, which has no links");
            Some((what, "use a store with several nodes: plimsoll list stores".to_owned()))
        }
        FaultAction::Limit(_, change) => {
            let limits = plimsoll_core::Limits::of(&trial.store.params).ok()?;
            if !limits.changes().iter().any(|one| one.name() == change.name()) {
                let what = format!("{label} has no limit `{}` to change", change.name());
                return Some((what, format!("give the store a limit to begin with: --set {}=…", change.name())));
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

/// Returns the numbers, from 0, of the nodes that a fault names, by the roles that nodes begin with.
fn numbers(on: NodeChoice, recipe: &dyn Recipe) -> Range<usize> {
    match on {
        NodeChoice::All => 0..recipe.spec().nodes,
        NodeChoice::Primary => 0..1,
        NodeChoice::Replica => 1..2,
        NodeChoice::Number(number) => (number as usize).saturating_sub(1)..number as usize,
    }
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
    let is_any = matches!(on, NodeChoice::Number(_)) && may_change && recipe.promotes().is_ok();
    let numbers = numbers(if is_any { NodeChoice::All } else { on }, recipe);
    let mut works: Vec<&str> = numbers.flat_map(|number| recipe.works(number)).copied().collect();
    works.sort_unstable();
    works.dedup();
    match works.as_slice() {
        [] => {
            let what = format!("{label} has no planned work of `{on}`");
            Some((what, "leave the fault out, or write another one: restart all".to_owned()))
        }
        works if works.contains(&name) => None,
        works => {
            let what = format!("{label} has no planned work `{name}` of `{on}`");
            Some((what, format!("there are: {}", works.join(", "))))
        }
    }
}

/// Returns the connections of a fault's storm on a store of so many nodes; 0 for another fault.
fn storm_connections(fault: &PlannedFault, nodes: usize) -> u64 {
    match fault.what {
        FaultAction::Storm(NodeChoice::All, connections) => u64::from(connections) * nodes as u64,
        FaultAction::Storm(_, connections) => u64::from(connections),
        _ => 0,
    }
}

/// Returns the connections of all storms of a drive together.
///
/// # Errors
/// Those of the store's recipe.
pub(crate) fn all_storms(faults: &[PlannedFault], store: &StoreUse, catalogue: &Catalogue) -> Result<u64, TrialError> {
    // Only a storm needs the number of nodes.
    if faults.iter().all(|fault| storm_connections(fault, 1) == 0) {
        return Ok(0);
    }
    let lab = store.url.as_deref().and_then(|url| catalogue.lab(url));
    let nodes = match lab {
        Some(lab) => lab.nodes.len(),
        None => recipe(store, catalogue)?.map_or(1, |recipe| recipe.spec().nodes),
    };
    Ok(faults.iter().map(|fault| storm_connections(fault, nodes)).sum())
}

/// Returns the recipe of the store's servers; `None` if they are neither private nor a lab's.
fn recipe(store: &StoreUse, catalogue: &Catalogue) -> Result<Option<Box<dyn Recipe>>, TrialError> {
    match catalogue.store(&store.kind) {
        Some(kind) if store.is_ours() => Ok(described::recipe(store.server.as_ref(), kind, &store.params)?),
        _ => Ok(None),
    }
}
