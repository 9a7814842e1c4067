//! Everything a plan may name, put together from where it is made.

use plimsoll_core::Catalogue;

/// The catalogue of this build.
pub fn assemble() -> Catalogue {
    Catalogue {
        stores: plimsoll_stores::kinds(),
        workloads: plimsoll_workload::all(),
        samplers: plimsoll_sample::specs(),
    }
}
