//! [fjall](https://docs.rs/fjall), an embedded log-structured key-value store, as a store under test.
//!
//! It speaks the `kv` interface, and the `records` interface through `plimsoll-keyindex`. What a durability
//! means here, and what is not possible, stands in this folder's README.
//!
//! | module | what |
//! |---|---|
//! | `kind` | what it says of itself before it is opened |
//! | `store` | open, settle, cold, restart, footprint, integrity, close |
//! | `kv` | one connection: snapshots to read, atomic batches to write |
//! | `flushes` | what it counts of its background work, and its cycle |
//! | `group` | one sync for all sessions that wait for one |
//! | `errors` | fjall's errors in our words |

mod errors;
mod flushes;
mod group;
mod kind;
mod kv;
mod store;

pub use kind::{Sizes, kind};
pub use kv::FjallKv;
pub use store::FjallStore;
