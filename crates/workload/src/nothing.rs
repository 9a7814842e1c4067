//! Operations that do nothing: what the generator itself costs on this machine.

use plimsoll_core::{
    Call, Interface, KindId, Layout, OpKind, Stream, StreamSpec, Truth, ValueBuf, Workload, WorkloadSpec,
};

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "nothing",
        summary: "operations that do nothing, to measure the generator itself",
        interfaces: &[],
        dialects: &[],
        takes_scripts: false,
        kinds: &["nothing"],
        params: &[],
        make: |_, _, _| Ok(Box::new(Nothing::new())),
    }
}

struct Nothing {
    layout: Layout,
    kinds: Vec<OpKind>,
}

impl Nothing {
    fn new() -> Self {
        let kind = OpKind {
            name: "nothing".into(),
            call: Call::Nothing,
            params: Vec::new(),
            keep_answer: false,
            step_of: None,
        };
        Self { layout: Layout::default(), kinds: vec![kind] }
    }
}

impl Workload for Nothing {
    fn interfaces(&self) -> &[Interface] {
        &[]
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        match spec {
            StreamSpec::Load { .. } => Err("`nothing` has no records to load: leave the load phase out".into()),
            StreamSpec::One { kind, .. } if kind == "nothing" => Ok(Box::new(NothingStream)),
            StreamSpec::Mix { mix, .. } if mix.iter().all(|(kind, _)| kind == "nothing") => Ok(Box::new(NothingStream)),
            _ => Err("`nothing` has one kind of operation: `nothing`".into()),
        }
    }

    fn truth(&self) -> Option<&dyn Truth> {
        None
    }

    fn record_count(&self) -> u64 {
        0
    }

    fn record_bytes(&self) -> u64 {
        0
    }
}

struct NothingStream;

impl Stream for NothingStream {
    fn op(&self, _client: u32, _cycle: u64, _params: &mut ValueBuf) -> Option<KindId> {
        Some(0)
    }
}
