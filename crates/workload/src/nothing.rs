//! Operations that do nothing: what the generator itself costs on this machine.

use plimsoll_core::{Call, KindId, OpKind, Stream, StreamSpec, ValueBuf, Workload, WorkloadSpec};

use crate::shares::shares;

const KINDS: [&str; 1] = ["nothing"];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "nothing",
        summary: "operations that do nothing, to measure the generator itself",
        interfaces: &[],
        dialects: &[],
        kinds: &KINDS,
        params: &[],
        presets: &[],
        make: |_, _, _| Ok(Box::new(Nothing { kinds: [OpKind::new(KINDS[0], Call::Nothing, &[])] })),
    }
}

struct Nothing {
    kinds: [OpKind; 1],
}

impl Workload for Nothing {
    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        shares("nothing", &KINDS, spec).map(|_| Box::new(NothingStream) as Box<dyn Stream>)
    }
}

struct NothingStream;

impl Stream for NothingStream {
    fn op(&self, _client: u32, _cycle: u64, _params: &mut ValueBuf) -> Option<KindId> {
        Some(0)
    }
}
