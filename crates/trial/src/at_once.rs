//! A load that a store takes at once, without sessions.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::{Durability, OpKind, Stream};
use plimsoll_record::data::{About, PhaseEnd, ResultName};

use crate::error::TrialError;
use crate::phase::TrialRun;
use crate::sink::Told;
use crate::steps::load_operations;

/// Operations of a load between two words on how far it is.
const TOLD_EACH: u64 = 1 << 12;

impl TrialRun<'_, '_> {
    /// Passes all operations of a load to the store at once. Returns the duration in seconds; `None` if the store is
    /// loaded through its sessions. A ledger takes note that everything was loaded: contents follow from the seed.
    pub(crate) fn load_at_once(
        &mut self,
        (clients, batch): (u32, u32),
        durability: Durability,
        stream: &Arc<dyn Stream>,
        end: &mut PhaseEnd,
    ) -> Result<Option<f64>, TrialError> {
        let kinds: Vec<OpKind> = self.workload.kinds().to_vec();
        let (started, from_ns) = (Instant::now(), self.context.sinks.clock.now_ns());
        let (mut client, mut cycle, mut operations) = (0, 0, 0_u64);
        let context = &*self.context;
        let of = load_operations(batch, &*self.workload);
        let taken = self.store.load_at_once(&kinds, durability, &mut |params| {
            while client < clients && !context.is_stopped() {
                params.clear();
                if let Some(kind) = stream.op(client, cycle, params) {
                    cycle += 1;
                    operations += 1;
                    if operations % TOLD_EACH == 0 {
                        context.sinks.show(&Told::Loading(operations, of));
                    }
                    return Some(kind);
                }
                (client, cycle) = (client + 1, 0);
            }
            None
        })?;
        let Some(how) = taken else { return Ok(None) };
        let seconds = started.elapsed().as_secs_f64();
        if let Some(ledger) = &mut self.ledger {
            ledger.loaded(from_ns, context.sinks.clock.now_ns(), &|| context.is_stopped());
        }
        // It was stopped meanwhile.
        self.server_is_new()?;
        end.push(ResultName::Ops, operations as f64);
        end.remarks.push((About::Load, how));
        Ok(Some(seconds))
    }
}
