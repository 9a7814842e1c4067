//! A load that a store takes at once, without sessions.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::{Answer, Durability, Op, OpKind, Outcome, Stream, Ticket, ValueBuf};
use plimsoll_record::data::PhaseEnd;

use crate::error::CliError;
use crate::phase::{TrialRun, push};

/// Operations after which the ledger takes over what it was shown.
const DRAIN_OPS: u64 = 256;

impl TrialRun<'_, '_> {
    /// Hands all operations of a load over at once. The seconds that it took; `None` where the store is loaded through its
    /// sessions.
    pub(crate) fn load_at_once(
        &mut self,
        ordinal: u32,
        clients: u32,
        durability: Durability,
        stream: &Arc<dyn Stream>,
        end: &mut PhaseEnd,
    ) -> Result<Option<f64>, CliError> {
        let kinds: Vec<OpKind> = self.workload.kinds().to_vec();
        let (started, from_ns) = (Instant::now(), self.bench.clock.now_ns());
        let (mut client, mut cycle, mut operations) = (0, 0, 0_u64);
        let taken = self.store.load_at_once(&kinds, durability, &mut |params| {
            while client < clients {
                params.clear();
                if let Some(kind) = stream.op(client, cycle, params) {
                    cycle += 1;
                    operations += 1;
                    return Some(kind);
                }
                (client, cycle) = (client + 1, 0);
            }
            None
        })?;
        let Some(how) = taken else { return Ok(None) };
        let seconds = started.elapsed().as_secs_f64();
        // It was stopped meanwhile.
        self.server_is_new()?;
        self.show_to_ledger(ordinal, clients, stream, from_ns);
        push(end, "ops", "", operations as f64, 1);
        end.remarks.push(("load".to_owned(), how));
        Ok(Some(seconds))
    }

    /// All were sent when it began, and acknowledged when it was over.
    fn show_to_ledger(&mut self, ordinal: u32, clients: u32, stream: &Arc<dyn Stream>, from_ns: u64) {
        let Some(ledger) = &mut self.ledger else { return };
        let at_ns = self.bench.clock.now_ns();
        let mut observers = ledger.observers(ordinal as u16, 1, 1);
        let (mut params, mut shown) = (ValueBuf::new(), 0_u64);
        let answer = Answer::default();
        for client in 0..clients {
            for cycle in 0.. {
                params.clear();
                let Some(kind) = stream.op(client, cycle, &mut params) else { break };
                for observer in &mut observers {
                    observer.sent(Ticket(0), from_ns, client, cycle, &Op::new(kind, params.values()));
                    observer.finished(Ticket(0), at_ns, Outcome::Ok, &answer);
                }
                shown += 1;
                if shown.is_multiple_of(DRAIN_OPS) {
                    ledger.drain();
                }
            }
        }
        drop(observers);
        ledger.drain();
    }
}
