//! The null store: takes every operation of every interface and keeps nothing.
//!
//! What driving it costs is the generator's own cost; a trial on a real store that needs as much is a trial
//! of the generator. It is not a model of a store: it never fails, waits or answers with a value.

use plimsoll_core::{
    Answer, BlockingSession, Durability, Footprint, IndexMode, Interface, Layout, Op, OpKind, OpenOptions, Outcome,
    SessionShape, SessionSpec, Sessions, Store, StoreDescription, StoreError, StoreKind, StoreSpec,
};

const SPEC: StoreSpec = StoreSpec {
    name: "null",
    summary: "takes everything and keeps nothing: measures the generator itself",
    interfaces: &[Interface::Kv, Interface::KvScan, Interface::Records, Interface::Sql, Interface::Commands],
    index_modes: &[IndexMode::None, IndexMode::Own, IndexMode::Keyindex],
    sessions: SessionSpec { descriptors: 0, ..SessionSpec::new(SessionShape::Instant, 16) },
    keeps_data: false,
    ..StoreSpec::PLAIN
};

/// The kind of store that keeps nothing.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(NullKind)
}

struct NullKind;

struct NullStore;

/// Session that discards every operation.
pub struct NullSession;

impl StoreKind for NullKind {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn open(&self, options: OpenOptions, _: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        options.target.data_dir()?;
        Ok(Box::new(NullStore))
    }
}

impl Store for NullStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        Ok(StoreDescription {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            place: "embedded".to_owned(),
            settings: Vec::new(),
        })
    }

    fn create(&mut self, _: &Layout) -> Result<(), StoreError> {
        Ok(())
    }

    fn sessions(&mut self, count: u32, _: Durability) -> Result<Sessions, StoreError> {
        Ok(Sessions::Instant((0..count).map(|_| Box::new(NullSession) as Box<dyn BlockingSession>).collect()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        Ok(Footprint { data_bytes: 0, index_bytes: Some(0), total_bytes: Some(0) })
    }
}

impl BlockingSession for NullSession {
    fn prepare(&mut self, _: &[OpKind]) -> Result<(), StoreError> {
        Ok(())
    }

    fn execute(&mut self, _: &Op<'_>, _: &mut Answer) -> Outcome {
        Outcome::Ok
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_conforms() {
        plimsoll_testkit::conformance::run(&*super::kind());
    }
}
