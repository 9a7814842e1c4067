//! Changes of faults to a cluster that are undone after the trial: nodes that joined, and other programs.

use plimsoll_core::Nodes;
use plimsoll_lab::OpenStore;
use plimsoll_plan::model::PlannedTrial;
use plimsoll_record::data::{EventClass, Level};

use super::Directed;
use crate::error::TrialError;
use crate::phase::RunContext;
use crate::pin;

/// Removes the nodes that a trial's faults added, and starts others with their former programs, so that the next trial
/// starts with the same cluster. All other nodes have to run.
///
/// # Errors
/// Errors of the recording; that a node does not leave, or not start with its former program, is an event.
pub(crate) fn take_back(
    context: &RunContext<'_>,
    trial: &PlannedTrial,
    store: &OpenStore,
    directed: &Directed,
) -> Result<(), TrialError> {
    let Some(servers) = store.servers() else { return Ok(()) };
    // Private servers end with a run that the user stops. Some may be away, and no node leaves without them.
    if context.is_stopped() && !servers.outlive() {
        return Ok(());
    }
    let tell = |level, text: String| {
        context.sinks.event(Some(trial.ordinal), level, EventClass::Servers, &trial.store.label, text)
    };
    for number in directed.added.iter().rev() {
        match servers.remove(*number) {
            Ok(()) => tell(Level::Info, format!("node {} left", number + 1))?,
            Err(error) => tell(Level::Warning, format!("node {} could not be removed: {error}", number + 1))?,
        }
    }
    let changed = directed.programs.iter().filter(|(number, _)| !directed.added.contains(number));
    for (number, former) in changed {
        let node = number + 1;
        match servers.restart_with(Nodes::One(*number), former) {
            Ok(changes) => {
                let version = changes.first().map_or("its own version", |change| change.to.as_str());
                tell(Level::Info, format!("node {node} runs its former program again ({version})"))?;
            }
            Err(error) => tell(Level::Warning, format!("node {node} has another program from now on: {error}"))?,
        }
    }
    let sites = servers.sites();
    context.server.set(sites.clone());
    if directed.programs.is_empty() || sites.is_empty() {
        Ok(())
    } else {
        pin::server(&sites, &context.plan.server_pin)
    }
}
