//! Resources of this machine that a run needs at its peak, and their availability: reported by `check`, and enforced
//! before anything is started.

use plimsoll_analysis::number::{self, count};
use plimsoll_core::{
    Call, Catalogue, IndexMode, KvCall, ParamSpec, ParamType, ParamValue, SessionShape, StoreSpec, Workload,
};
use plimsoll_drive::{INSTANT_WORKERS, worker_addresses};
use plimsoll_plan::model::{Drive, PhaseStep, Plan, PlannedTrial};
use plimsoll_sample::room::{self, Room};
use plimsoll_verify::Ledger;

use crate::drive_spec::has_steps;
use crate::error::TrialError;
use crate::fault_check::all_storms;
use crate::open::make_workload;
use crate::steps::load_depth;

/// The program, its recording and its samplers.
const OWN_BYTES: u64 = 64 << 20;
/// A thread of a session: its stacks, and what it touches of histograms.
const THREAD_BYTES: u64 = 128 << 10;
/// Addresses of a thread's stack.
const STACK_ADDRESSES: u64 = 2 << 20;
/// Addresses that the program takes and does not use: libraries, and what its allocator sets aside for threads.
const OWN_ADDRESSES: u64 = 512 << 20;
/// Memory of the drive loop for a client, and for an operation in a pipeline besides its record, bytes.
const CLIENT_BYTES: u64 = 256;
const PLACE_BYTES: u64 = 128;
/// A client's way through operations of several steps.
const STEPS_BYTES: u64 = 4 << 10;
/// Memory of a worker into which the kernel receives, at most.
const WORKER_BYTES: u64 = 64 << 20;
/// Threads of the program itself and of an engine inside it.
const OWN_THREADS: u64 = 24;
/// Files and sockets of the program itself and of the control plane; of a worker.
const OWN_DESCRIPTORS: u64 = 64;
const WORKER_DESCRIPTORS: u64 = 8;
/// Connections of our own that a server of our own takes beside sessions, and what servers keep for themselves.
const CONTROL_SESSIONS: u64 = 16;

/// Amount of a resource: a constant part, and a part for each client.
#[derive(Debug, Clone, Default)]
struct Amount {
    fixed: u64,
    each: u64,
    clients: u64,
    /// Trial and phase.
    place: String,
    /// Parts of the amount.
    parts: Vec<String>,
}

impl Amount {
    fn total(&self) -> u64 {
        self.fixed.saturating_add(self.each.saturating_mul(self.clients))
    }

    /// Clients for which `left` is enough; `None` where clients are not the point.
    fn clients_for(&self, left: u64) -> Option<u64> {
        left.checked_sub(self.fixed)?.checked_div(self.each).filter(|clients| *clients > 0)
    }
}

/// Peak use of memory, addresses, threads and file descriptors by a run.
#[derive(Debug, Clone, Default)]
pub struct Needs([Amount; 4]);

impl Needs {
    /// Adds the needs of the trial.
    ///
    /// # Errors
    /// Those of [`all_storms`].
    fn add(
        &mut self,
        trial: &PlannedTrial,
        workload: &dyn Workload,
        store: &StoreSpec,
        catalogue: &Catalogue,
    ) -> Result<(), TrialError> {
        for phase in &trial.phases {
            let (clients, depth, drive) = match &phase.step {
                PhaseStep::Load { clients, batch, .. } => (*clients, load_depth(*batch, workload), None),
                PhaseStep::Drive(drive) => (drive.clients, drive.depth, Some(drive)),
                PhaseStep::Check => (16, 1, None),
                _ => continue,
            };
            let clients = (u64::from(clients), u64::from(depth));
            let place = format!("trial {} ({}), phase {}", trial.ordinal + 1, trial.store.label, phase.name);
            let mut of_phase = amounts(clients, drive, trial, workload, store);
            let storms = match drive {
                Some(drive) => all_storms(&drive.faults, &trial.store, catalogue)?,
                None => 0,
            };
            if storms > 0 {
                let [.., descriptors] = &mut of_phase;
                descriptors.fixed = descriptors.fixed.saturating_add(storms);
                descriptors.parts.push(format!("{} connections of storms", count(storms)));
            }
            for (all, one) in self.0.iter_mut().zip(of_phase) {
                if one.total() > all.total() {
                    *all = Amount { place: place.clone(), ..one };
                }
            }
        }
        Ok(())
    }

    /// Formats the needs in one line.
    pub fn line(&self) -> String {
        let [memory, _, threads, descriptors] = self.0.each_ref().map(Amount::total);
        format!(
            "needs of this machine, about: {} of memory, {} threads, {} file descriptors",
            bytes(memory),
            count(threads),
            count(descriptors)
        )
    }

    /// Raises the limit of file descriptors of this process, and checks that all resources are sufficient.
    ///
    /// # Errors
    /// What there is too little of, how that was calculated, and what would fit.
    pub fn must_fit(&self) -> Result<(), TrialError> {
        // A server of our own has as many connections, and files of its own.
        let [.., descriptors] = &self.0;
        room::raise_descriptors(descriptors.total() + 1_024);
        self.must_fit_into(&Room::now())
    }

    fn must_fit_into(&self, room: &Room) -> Result<(), TrialError> {
        let sorts: [(_, &str, fn(u64) -> String); 4] = [
            (&room.memory, "memory", bytes),
            (&room.addresses, "addresses", bytes),
            (&room.threads, "threads", count),
            (&room.descriptors, "file descriptors", count),
        ];
        for (needed, (limit, what, shown)) in self.0.iter().zip(sorts) {
            let Some(limit) = limit.as_ref().filter(|limit| needed.total() > limit.left) else { continue };
            // An amount is of something; a count has no "of".
            let of = |n| format!("{}{}", shown(n), if matches!(what, "memory" | "addresses") { " of" } else { "" });
            let text = format!(
                "{} needs about {} {what}, and {} are available (by {})",
                needed.place,
                of(needed.total()),
                shown(limit.left),
                limit.by
            );
            let advice = match what {
                "file descriptors" => format!(
                    "raise the limit: ulimit -n {}, or LimitNOFILE= of a systemd unit; ",
                    needed.total().next_multiple_of(1_024)
                ),
                "threads" => format!("raise {}; ", limit.by),
                _ => String::new(),
            };
            let fewer = match needed.clients_for(limit.left) {
                Some(clients) => format!("at most {} clients fit", count(clients)),
                None if what == "memory" => "use fewer records or no ledger (ledger = \"off\")".to_owned(),
                None => "use fewer clients".to_owned(),
            };
            return Err(TrialError::usage(text).detail(needed.parts.join("\n")).next(format!("{advice}{fewer}")));
        }
        Ok(())
    }
}

/// Returns the needs of `plan` on this machine.
///
/// # Errors
/// A workload that cannot be made of what the plan says.
pub fn needs(catalogue: &Catalogue, plan: &Plan) -> Result<Needs, TrialError> {
    let mut needs = Needs::default();
    for trial in &plan.trials {
        let Some(kind) = catalogue.store(&trial.store.kind) else { continue };
        needs.add(trial, &*make_workload(catalogue, trial)?, kind.spec(), catalogue)?;
    }
    Ok(needs)
}

/// Returns true if sessions for `workload` are blocking: those of the store, or those of `keyindex` over connections of
/// the store.
pub(crate) fn is_blocking(workload: &dyn Workload, store: &StoreSpec) -> bool {
    let shape = store.sessions.shape;
    // Records over an asynchronous client are kept by keyindex, with or without indexes.
    let is_kept = shape == SessionShape::Async && !workload.layout().collections.is_empty();
    shape == SessionShape::Blocking || is_kept || workload.layout().index == IndexMode::Keyindex
}

/// Returns the number of threads that drive so many clients with so many workers.
pub(crate) fn driving_threads(workload: &dyn Workload, store: &StoreSpec, (clients, workers): (u64, u64)) -> u64 {
    match store.sessions.shape {
        _ if is_blocking(workload, store) => clients,
        SessionShape::Wire | SessionShape::Async => workers,
        _ => clients.min((INSTANT_WORKERS as u64).max(workers)),
    }
}

/// Memory, addresses, threads and file descriptors that so many clients with so many operations in flight each take, those
/// of a drive or of another phase.
fn amounts(
    (clients, depth): (u64, u64),
    drive: Option<&Drive>,
    trial: &PlannedTrial,
    workload: &dyn Workload,
    store: &StoreSpec,
) -> [Amount; 4] {
    let session = store.sessions;
    let params = &trial.store.params;
    let is_other =
        |name: &str| store.params.iter().any(|param| param.name == name && param.default != params.text(name));
    let times_of = |name: &&str| match params.0.get(*name) {
        Some(ParamValue::Text(_)) if is_other(name) => 2,
        _ => params.int(name).max(1) as u64,
    };
    let times: u64 = session.times.iter().map(times_of).product();
    let is_blocking = is_blocking(workload, store);
    let depth = if is_blocking { 1 } else { depth };
    let workers = driving_threads(workload, store, (clients, drive.map_or(1, |drive| u64::from(drive.workers))));
    let mut each = session.bytes * times + depth * (PLACE_BYTES + workload.record_bytes());
    each += if is_blocking { THREAD_BYTES } else { CLIENT_BYTES };
    if drive.is_some_and(|drive| has_steps(drive, workload)) {
        each += STEPS_BYTES;
    }
    let has_sockets = matches!(session.shape, SessionShape::Wire | SessionShape::Async);
    let sockets = if has_sockets && !is_blocking { workers * WORKER_BYTES } else { 0 };
    let ledger = ledger_bytes(drive, trial, workload, store, workers);
    let amount = |fixed, each, parts| Amount { fixed, each, clients, parts, place: String::new() };
    let fixed = OWN_BYTES + sockets + ledger;
    let parts = vec![
        format!("{} clients of {} each: {}", count(clients), bytes(each), bytes(clients.saturating_mul(each))),
        format!("sockets of the workers: {}", bytes(sockets)),
        format!("ledger of {} records: {}", count(workload.record_count()), bytes(ledger)),
        format!("the program itself: {}", bytes(OWN_BYTES)),
    ];
    let memory = amount(fixed, each, parts);
    let thread = STACK_ADDRESSES + worker_addresses(workload.kinds().len());
    let (of_each, of_workers) = if is_blocking { (thread, 0) } else { (0, workers.saturating_mul(thread)) };
    let own = fixed.saturating_add(OWN_ADDRESSES);
    let parts = vec![
        format!("{} clients of {} each", count(clients), bytes(each + of_each)),
        format!("stacks and counts of the workers: {}", bytes(of_workers)),
        format!("everything else: {}", bytes(own)),
    ];
    let addresses = amount(own.saturating_add(of_workers), each + of_each, parts);
    let of_workers = if is_blocking { 0 } else { workers };
    let part = match is_blocking {
        true => format!("one for each of {} clients, as {} blocks, and our own", count(clients), store.name),
        false => format!("{} workers, and our own", count(workers)),
    };
    let threads = amount(OWN_THREADS + of_workers, u64::from(is_blocking), vec![part]);
    let each = u64::from(session.descriptors) * times;
    let part = format!("{} clients with {each} each, and our own", count(clients));
    let descriptors = amount(OWN_DESCRIPTORS + of_workers * WORKER_DESCRIPTORS, each, vec![part]);
    [memory, addresses, threads, descriptors]
}

fn ledger_bytes(
    drive: Option<&Drive>,
    trial: &PlannedTrial,
    workload: &dyn Workload,
    store: &StoreSpec,
    workers: u64,
) -> u64 {
    if !store.keeps_data || workload.truth().is_none() || !trial.loads() {
        return 0;
    }
    let scans =
        |name: &str| workload.kinds().iter().any(|kind| kind.name == name && kind.call == Call::Kv(KvCall::Scan));
    let scans = drive.is_some_and(|drive| drive.mix.iter().any(|(kind, share)| *share > 0 && scans(kind)));
    Ledger::bytes(workload, workers, scans)
}

/// Sets in `plan` how many sessions its own servers have to take, where that is more than they take by default.
///
/// # Errors
/// A limit that the plan itself sets is too low, or no such server takes so many.
pub fn bound_sessions(catalogue: &Catalogue, plan: &mut Plan) -> Result<(), TrialError> {
    for at in 0..plan.trials.len() {
        let store = plan.trials[at].store.clone();
        let spec = catalogue.store(&store.kind).map(|kind| kind.spec());
        let Some((spec, name)) = spec.and_then(|spec| Some((spec, spec.sessions.bounded_by?))) else { continue };
        let Some(param) = spec.params.iter().find(|param| param.name == name).filter(|_| store.url.is_none()) else {
            continue;
        };
        // One server serves all trials that use the same store.
        let same = |trial: &&mut PlannedTrial| trial.store == store;
        let most = plan.trials.iter().filter(|trial| trial.store == store).map(most_sessions).max().unwrap_or(0);
        let wanted = most + CONTROL_SESSIONS;
        let given = store.params.int(name).max(0) as u64;
        if given >= wanted {
            continue;
        }
        must_take(param, &store.label, given, wanted, most)?;
        let raised = ParamValue::Int(wanted as i64);
        for trial in plan.trials.iter_mut().filter(same) {
            trial.store.params.0.insert(name.to_owned(), raised.clone());
        }
    }
    Ok(())
}

fn must_take(param: &ParamSpec, store: &str, given: u64, wanted: u64, clients: u64) -> Result<(), TrialError> {
    let name = param.name;
    let clients = count(clients);
    let refused = |what: String, next: String| Err(TrialError::usage(what).next(next));
    if let ParamType::Int { max, .. } = param.param_type
        && wanted > max.max(0) as u64
    {
        let what = format!("{clients} clients are more than a private {store} takes: `{name}` is at most {max}");
        return refused(
            what,
            format!("use at most {} clients", count((max.max(0) as u64).saturating_sub(CONTROL_SESSIONS))),
        );
    }
    if param.default != given.to_string() {
        let what = format!("{clients} clients need `{name}` = {wanted} of the private {store}, and it is {given}");
        return refused(what, format!("set {store}.{name}={wanted}, leave it out, or use fewer clients"));
    }
    Ok(())
}

fn most_sessions(trial: &PlannedTrial) -> u64 {
    let clients = trial.phases.iter().map(|phase| match &phase.step {
        PhaseStep::Load { clients, .. } => *clients,
        PhaseStep::Drive(drive) => drive.clients,
        _ => 1,
    });
    u64::from(clients.max().unwrap_or(0))
}

/// Describes the limit that prevents another thread.
pub fn threads_words() -> String {
    match Room::now().threads {
        Some(limit) => {
            format!("{} allows {} more: raise it, or use fewer clients", limit.by, count(limit.left))
        }
        None => "use fewer clients".to_owned(),
    }
}

fn bytes(count: u64) -> String {
    number::bytes(count as f64)
}

#[cfg(test)]
#[path = "needs_tests.rs"]
mod tests;
