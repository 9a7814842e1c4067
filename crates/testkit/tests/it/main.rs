//! The reference store conforms and tells the truth; every lie is caught.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod kv_lies;
mod lies;
mod phases;
mod reference;

use plimsoll_core::{OpenOptions, Params, Store, StoreKind, Target};

/// Opens a store that has no files.
fn opened(kind: &dyn StoreKind) -> Box<dyn Store> {
    let target = Target::Private { data_dir: "unused".into(), said: false, log_dir: "unused".into() };
    let (params, waits) = (Params::default(), Default::default());
    kind.open(OpenOptions { target, params, run_id: "test".into(), waits }, &mut |_| {}).unwrap()
}
