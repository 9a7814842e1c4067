//! Loads: the records of a workload inserted, over several sessions and in batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{Call, Durability, SessionShape, Sessions, Stream, StreamSpec, ValueBuf, Workload};
use plimsoll_drive::{DEPTH_MAX, DriveSpec, Limit};
use plimsoll_record::data::{PhaseEnd, ResultName};

use crate::drive::Driven;
use crate::drive_spec::filled_by_statements;
use crate::error::TrialError;
use crate::phase::TrialRun;
use crate::sink::Told;

/// Sessions over which a load goes at least, where each of them takes several operations at a time.
const LOAD_SESSIONS: u32 = 4;
/// Most sessions of a load that each have one operation in flight, unless it has more clients.
const LOAD_SESSIONS_MAX: u32 = 64;

impl TrialRun<'_, '_> {
    /// Makes the layout, and inserts the records of the workload.
    pub(super) fn load(
        &mut self,
        ordinal: u32,
        batch: u32,
        clients: u32,
        durability: Durability,
        end: &mut PhaseEnd,
    ) -> Result<(), TrialError> {
        let mut written = self.written_bytes();
        let making = Instant::now();
        self.store.create(self.workload.layout())?;
        let mut seconds = making.elapsed().as_secs_f64();
        if !filled_by_statements(&*self.workload) {
            let (clients, depth) = match load_depth(batch, &*self.workload) {
                1 => (clients, 1),
                // Where a connection takes one at a time there are more of them.
                depth if self.store.spec().sessions.shape == SessionShape::Async => {
                    (clients.saturating_mul(depth).min(LOAD_SESSIONS_MAX).max(clients), 1)
                }
                depth => spread(clients, depth.min(self.depth_max(durability)?)),
            };
            let stream = self.stream(&StreamSpec::Load { batch, clients: clients.saturating_mul(depth) })?;
            written = self.written_bytes();
            let inserting = self.insert(ordinal, (clients, depth), batch, durability, &stream, end)?;
            let Some(inserting) = inserting else { return Ok(()) };
            seconds = inserting;
        }
        let finishing = Instant::now();
        self.store.after_load(self.workload.layout())?;
        seconds += finishing.elapsed().as_secs_f64();
        if durability == Durability::AtEnd {
            let syncing = Instant::now();
            self.store.sync()?;
            let sync_seconds = syncing.elapsed().as_secs_f64();
            seconds += sync_seconds;
            end.push(ResultName::SyncSeconds, sync_seconds);
        }
        end.push(ResultName::Seconds, seconds);
        let records = self.workload.record_count();
        if records > 0 {
            end.push(ResultName::Records, records as f64);
        }
        self.push_written(end, written);
        Ok(())
    }

    /// Operations that a session of the store takes at a time.
    fn depth_max(&mut self, durability: Durability) -> Result<u32, TrialError> {
        Ok(match self.store.sessions(1, durability)? {
            Sessions::Wire(sessions) => sessions.first().map_or(1, |client| client.session.depth_max()),
            _ => 1,
        })
    }

    /// Inserts what a load inserts, by so many clients with so many operations in flight each. The seconds that it took;
    /// `None` where the user wanted an end meanwhile.
    fn insert(
        &mut self,
        ordinal: u32,
        (clients, depth): (u32, u32),
        batch: u32,
        durability: Durability,
        stream: &Arc<dyn Stream>,
        end: &mut PhaseEnd,
    ) -> Result<Option<f64>, TrialError> {
        self.context.sinks.show(&Told::Loading(0, load_operations(batch, &*self.workload)));
        if let Some(seconds) = self.load_at_once((clients * depth, batch), durability, stream, end)? {
            return Ok(Some(seconds));
        }
        let op_timeout = Duration::from_nanos(self.context.plan.timeouts.load_ns);
        let spec = DriveSpec { limit: Limit::Exhausted, op_timeout, ends_on_loss: true, depth, ..self.spec() };
        let result = self.driven(Driven::measured(ordinal, clients, durability, stream, spec))?;
        self.push_totals(end, &result);
        if self.context.is_stopped() {
            return Ok(None);
        }
        self.must_have_succeeded("load", &result)?;
        // Opening the sessions is not part of the load: the drive's own clock says when the first insert was due.
        Ok(Some((result.end_ns - result.start_ns) as f64 / 1e9))
    }
}

/// Operations that each client of a load is to have in flight: where one cannot take `batch` records, that many go out
/// together.
pub fn load_depth(batch: u32, workload: &dyn Workload) -> u32 {
    match load_call(workload) {
        Some(Call::Kv(_)) => batch.clamp(1, DEPTH_MAX),
        _ => 1,
    }
}

/// Operations of a load, where those that can take `batch` records each do.
pub fn load_operations(batch: u32, workload: &dyn Workload) -> u64 {
    let records = workload.record_count();
    match load_call(workload) {
        Some(Call::Kv(_) | Call::Ldap(_)) => records,
        _ => records.div_ceil(u64::from(batch.max(1))),
    }
}

fn load_call(workload: &dyn Workload) -> Option<Call> {
    let stream = workload.stream(&StreamSpec::Load { batch: 1, clients: 1 }).ok()?;
    let kind = stream.op(0, 0, &mut ValueBuf::new())?;
    workload.kinds().get(usize::from(kind)).map(|kind| kind.call.clone())
}

/// Sessions of a load and operations that each has in flight, as many in all as `clients` with `depth` each: a server takes
/// only so much of one connection at a time, and one sync may serve what came over several.
fn spread(clients: u32, depth: u32) -> (u32, u32) {
    let sessions = clients.max(LOAD_SESSIONS.min(depth));
    (sessions, clients.saturating_mul(depth).div_ceil(sessions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_goes_over_a_few_sessions_where_they_take_several_operations() {
        for (asked, goes) in [((1, 1), (1, 1)), ((1, 1_000), (4, 250)), ((3, 100), (4, 75)), ((8, 10), (8, 10))] {
            assert_eq!(spread(asked.0, asked.1), goes, "{asked:?}");
        }
    }

    #[test]
    fn a_load_sends_records_one_by_one_or_in_batches_by_the_interface_of_its_operation() {
        let kv = plimsoll_testkit::trial::workload("kv", 1, &[("records", 100)], &[]);
        for (batch, depth) in [(0, 1), (1, 1), (30, 30), (5_000, DEPTH_MAX)] {
            assert_eq!((load_depth(batch, &*kv), load_operations(batch, &*kv)), (depth, 100), "{batch}");
        }
        let coupons = plimsoll_testkit::trial::workload("coupons", 1, &[("records", 100)], &[]);
        for (batch, operations) in [(0, 100), (1, 100), (30, 4), (100, 1), (5_000, 1)] {
            assert_eq!((load_depth(batch, &*coupons), load_operations(batch, &*coupons)), (1, operations), "{batch}");
        }
    }
}
