//! Clusters of equals: each server takes every request, as those of etcd and NATS do.
//!
//! | file | contents |
//! |---|---|
//! | `addresses` | [`ClusterSpec`], [`Addresses`]: hosts, ports and login, from a URL or from private nodes |
//! | `cluster` | [`Equals`]: one control connection to each server, and requests to one or to all of them |
//! | `reach` | connecting to a host with several addresses |
//! | `session` | [`sessions()`]: sessions that are dealt to the servers in turn, and move to the next one after a loss |

mod addresses;
mod cluster;
mod reach;
mod session;

pub use addresses::{Addresses, ClusterSpec, Login, ServerAddresses};
pub use cluster::{Equals, NODES, Scope};
pub use session::{Protocol, kv_call, sessions};
