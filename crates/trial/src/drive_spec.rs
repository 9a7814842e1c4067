//! A plan's phase in the words of the drive loop and of a workload: what is asked, when, and whether it can be.

use std::time::Duration;

use plimsoll_core::{StoreSpec, StreamSpec, Workload};
use plimsoll_drive::{DriveSpec, Limit, Undisturbed};
use plimsoll_plan::model::{self, Step};

use crate::error::TrialError;

/// How a drive of the plan is driven; `seed` is that of its arrivals, and `bench` says what the plan leaves open.
pub fn of(drive: &model::Drive, seed: u64, bench: &DriveSpec) -> DriveSpec {
    DriveSpec {
        limit: match drive.limit {
            model::Limit::DurationNs(ns) => Limit::Duration(Duration::from_nanos(ns)),
            model::Limit::OpsPerClient(ops) => Limit::Ops(ops),
        },
        undisturbed: undisturbed(drive),
        warmup: Duration::from_nanos(drive.warmup_ns),
        pace: pace(drive, seed),
        op_timeout: Duration::from_nanos(drive.op_timeout_ns),
        depth: drive.depth,
        backlog: Duration::from_nanos(drive.backlog_ns),
        wake: match drive.wake {
            model::Wake::Precise => plimsoll_drive::Wake::Precise,
            model::Wake::Spin => plimsoll_drive::Wake::Spin(plimsoll_drive::SPIN),
            model::Wake::Coarse => plimsoll_drive::Wake::Coarse,
        },
        io: match drive.io {
            model::Io::Auto => bench.io,
            model::Io::Epoll => plimsoll_drive::Io::Epoll,
            model::Io::IoUring => plimsoll_drive::Io::Uring,
        },
        pin: drive.pin.clone(),
        workers: drive.workers,
        ..bench.clone()
    }
}

/// How much of a drive with a length has to be undisturbed, where that is asked.
fn undisturbed(drive: &model::Drive) -> Option<Undisturbed> {
    match (drive.limit, drive.undisturbed_within_ns) {
        (model::Limit::DurationNs(ns), Some(within_ns)) => {
            Some(Undisturbed { at_least: Duration::from_nanos(ns), at_most: Duration::from_nanos(within_ns) })
        }
        _ => None,
    }
}

/// The drive's own words for when operations start. A ramp takes as long as its phase.
fn pace(drive: &model::Drive, seed: u64) -> plimsoll_drive::Pace {
    use plimsoll_drive::{Arrivals, Pace, Shape};
    let time = Duration::from_nanos;
    let model::Pace::Open { rate, arrivals } = &drive.pace else { return Pace::Closed };
    let shape = match rate {
        model::Rate::Recorded(times) => return Pace::Recorded(times.as_slice().into()),
        model::Rate::Constant(rate) => Shape::Constant { rate_per_s: *rate },
        model::Rate::Ramp(from, to) => {
            let over = match drive.limit {
                model::Limit::DurationNs(ns) => time(ns),
                // At the rates in between, this is how long that many operations take.
                model::Limit::OpsPerClient(ops) => {
                    Duration::from_secs_f64((ops * u64::from(drive.clients)) as f64 * 2.0 / (from + to))
                }
            };
            Shape::Ramp { from_per_s: *from, to_per_s: *to, over }
        }
        model::Rate::Steps { rates, each_ns } => {
            Shape::Steps(rates.iter().map(|rate| (time(*each_ns), *rate)).collect())
        }
        model::Rate::Spike { base, peak, at_ns, for_ns } => {
            Shape::Spike { base_per_s: *base, peak_per_s: *peak, at: time(*at_ns), length: time(*for_ns) }
        }
        model::Rate::Sine { mean, amplitude, period_ns } => {
            Shape::Sine { mean_per_s: *mean, amplitude_per_s: *amplitude, period: time(*period_ns) }
        }
    };
    let arrivals = match arrivals {
        model::Arrivals::Even => Arrivals::Even,
        model::Arrivals::Poisson => Arrivals::Poisson { seed },
    };
    Pace::Open { shape, arrivals }
}

/// Whether `workload` has what every phase of `trial` asks for, and the store speaks it; an error says which has not.
pub fn can_ask(trial: &model::Trial, workload: &dyn Workload, store: &StoreSpec) -> Result<(), TrialError> {
    for phase in &trial.phases {
        let spec = match &phase.step {
            Step::Load { batch, clients, .. } if !filled_by_statements(workload) => {
                StreamSpec::Load { batch: *batch, clients: *clients }
            }
            Step::Ask { op, .. } => StreamSpec::One { kind: op.clone(), clients: 1 },
            Step::Drive(drive) => mix(drive),
            _ => continue,
        };
        workload.stream(&spec).map_err(|why| TrialError::usage(format!("phase {}: {why}", phase.name)))?;
        if let Some((kind, interface)) = unspoken(&spec, workload, store) {
            let (phase, store) = (&phase.name, store.name);
            let what = format!("phase {phase}: the store `{store}` does not speak `{interface}`, which `{kind}` needs");
            return Err(TrialError::usage(what).next("name another store, or leave this kind out"));
        }
    }
    Ok(())
}

/// The operations of a drive. Each place in a pipeline is a client of its own.
pub(crate) fn mix(drive: &model::Drive) -> StreamSpec {
    StreamSpec::Mix { mix: drive.mix.clone(), clients: drive.clients.saturating_mul(drive.depth) }
}

/// A kind that `spec` asks for, and the interface it needs that the store does not speak. A workload may have kinds that
/// not every store of its own interfaces can do.
fn unspoken<'w>(spec: &StreamSpec, workload: &'w dyn Workload, store: &StoreSpec) -> Option<(&'w str, &'static str)> {
    let asked = |name: &str| match spec {
        StreamSpec::Load { .. } => false,
        StreamSpec::One { kind, .. } => kind == name,
        StreamSpec::Mix { mix, .. } => mix.iter().any(|(kind, share)| kind == name && *share > 0),
    };
    workload.kinds().iter().filter(|kind| asked(&kind.name)).find_map(|kind| {
        let interface = kind.interface().filter(|interface| !store.interfaces.contains(interface))?;
        Some((kind.name.as_str(), interface.name()))
    })
}

/// Whether there is nothing to load: no tables, no statements that fill them, no records.
pub(crate) fn nothing_to_load(workload: &dyn Workload) -> bool {
    workload.layout().statements.is_empty() && filled_by_statements(workload)
}

/// Whether making the layout is the whole load: its statements fill what they make, or there is nothing to fill.
pub(crate) fn filled_by_statements(workload: &dyn Workload) -> bool {
    workload.layout().collections.is_empty() && workload.stream(&StreamSpec::Load { batch: 1, clients: 1 }).is_err()
}
