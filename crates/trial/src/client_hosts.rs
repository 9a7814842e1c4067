//! Hosts of clients that the drives of a plan cannot have, before anything is started.

use plimsoll_core::{Link, LinkPeers, StoreKind, Workload};
use plimsoll_plan::model::{Drive, PlannedTrial, StoreUse};
use plimsoll_plan::timeline::{FaultAction, FaultCondition};

use crate::error::TrialError;
use crate::needs::is_blocking;

/// Refuses a trial if a fault of it names a client host that its drive does not have, or if a drive cannot have its
/// client hosts.
///
/// # Errors
/// `Usage` with the phase and a remedy; those of the store's recipe.
pub(crate) fn possible(trial: &PlannedTrial, workload: &dyn Workload, kind: &dyn StoreKind) -> Result<(), TrialError> {
    for (phase, drive) in trial.drives() {
        let found = match (unknown_host(drive), drive.client_hosts) {
            (Some(found), _) => found,
            (None, None) => continue,
            (None, Some(hosts)) if hosts > drive.clients => {
                let what = format!("client_hosts = {hosts}: there are more hosts than clients ({})", drive.clients);
                (what, format!("use {hosts} clients or more, or fewer hosts"))
            }
            (None, Some(hosts)) => match no_network(&trial.store, kind)? {
                Some(what) => {
                    let next = "leave `client_hosts` out, or use a store with several nodes: plimsoll list stores";
                    (format!("client_hosts = {hosts}: {what}"), next.to_owned())
                }
                None if is_blocking(workload, kind.spec()) => {
                    let label = &trial.store.label;
                    let what =
                        format!("client_hosts = {hosts}: sessions of {label} block, and connect where they are made");
                    let next = "leave `client_hosts` out, or use operations by key: kv";
                    (what, next.to_owned())
                }
                None => continue,
            },
        };
        let (what, next) = found;
        return Err(TrialError::usage(format!("phase {phase}: {what}")).next(next));
    }
    Ok(())
}

/// Returns the mistake of a fault that names a client host that is not there, and advice.
fn unknown_host(drive: &Drive) -> Option<(String, String)> {
    let hosts = drive.client_hosts.unwrap_or(0) as usize;
    drive.faults.iter().find_map(|fault| {
        let linked = match fault.what {
            FaultAction::Link(_, Link { peers: LinkPeers::ClientHost(number), .. }) => Some((number, "from clients")),
            _ => None,
        };
        let awaited = fault.when.as_ref().and_then(FaultCondition::client_host);
        let mut named = linked.into_iter().chain(awaited.map(|number| (number, "clients.silence")));
        let (number, of_all) = named.find(|(number, _)| *number >= hosts)?;
        let wanted = format!("client_hosts = {} (--client-hosts {})", number + 1, number + 1);
        let (what, next) = match hosts {
            0 => ("the drive has no client hosts".to_owned(), format!("set {wanted}, or write `{of_all}`")),
            1 => ("the drive has one client host".to_owned(), format!("name client host 1, or set {wanted}")),
            hosts => {
                let next = format!("name client host 1 to {hosts}, or set {wanted}");
                (format!("the drive has {hosts} client hosts"), next)
            }
        };
        Some((format!("{fault}: {what}"), next))
    })
}

/// Returns the reason that the servers of a store are on no network that client hosts can be added to.
fn no_network(store: &StoreUse, kind: &dyn StoreKind) -> Result<Option<String>, TrialError> {
    let label = &store.label;
    if !store.is_ours() {
        return Ok(Some(format!("{label} is attached, and clients reach it from this machine only")));
    }
    let recipe = if store.server.is_some() { None } else { kind.recipe(&store.params)? };
    let has_hosts = recipe.is_some_and(|recipe| recipe.spec().hosts > 0);
    Ok((!has_hosts).then(|| format!("{label} is on this machine's own network")))
}
