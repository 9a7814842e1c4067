//! Where servers under test live: private ones on this machine, started, guarded and removed.
//!
//! What is made here is removed here: when it is closed, when Plimsoll dies however it may, and, if whoever
//! should have removed it was killed as well, by the next start. What was not made here is never touched.
//!
//! Knows no server by name: which programs one consists of and how it is told to be ready stands in the
//! recipe in its store's folder.
//!
//! | module | what |
//! |---|---|
//! | [`cluster`] | [`Cluster`]: the servers of a store's recipe, one or more, and what can be done to them |
//! | [`described`] | [`DescribedServer`](described::DescribedServer): a server that a user describes in a plan |
//! | [`holders`] | who holds a port, a device or a directory that is wanted |
//! | [`hosts`] | [`Network`](hosts::Network), [`Host`](hosts::Host): network namespaces on a bridge |
//! | `limits` | what a server may have of the machine, by control groups |
//! | `open_store` | [`OpenStore`]: a store with the servers that it is on: restarting it and making it cold, whichever it is |
//! | [`standing`] | [`Lab`](standing::Lab): a cluster that stands until somebody ends it; `hold`, the process that has it |
//! | [`private_server`] | [`PrivateServer`]: directories, a supervisor that guards them, a program that runs in them |
//! | [`supervisor`] | [`Supervisor`]: this program executed again, what it is asked for; `process`, what runs in it |
//! | `disks` | [`PowerSwitch`]: the disks that a store has its data on, one for each of its machines, and whose power goes |
//! | `power` | one such disk, and its power |
//! | [`proxy`] | [`Proxied`](proxy::Proxied): a recipe with an HAProxy in front |
//! | `place` | where those directories may be, and how they are recognised |
//! | [`orphans`] | [`sweep_orphans`]: what a killed supervisor left; [`before_removing`]: what a store has to say to it |
//! | [`user`] | [`ServerUser`]: whom a server runs as |
//! | [`packages`] | [`Program`]: where a server's program is, or which package it comes in |
//! | [`ending`] | [`Ending`]: how a program ended, and which class of trouble that is |
//! | [`page_cache`] | [`drop_files`]: drops the files of one directory tree from the page cache, counts what stayed |

pub mod cluster;
pub mod described;
mod disks;
pub mod ending;
mod file_system_errors;
pub mod holders;
pub mod hosts;
mod limits;
mod open_store;
pub mod orphans;
pub mod packages;
pub mod page_cache;
mod place;
mod power;
pub mod private_server;
pub mod proxy;
pub mod standing;
pub mod supervisor;
mod tree;
pub mod user;

pub use cluster::{Bases, Cluster, ClusterHandle};
pub use disks::{PowerSwitch, sweep_disks};
pub use ending::Ending;
pub use open_store::{OpenStore, open};
pub use orphans::{before_removing, sweep_orphans};
pub use packages::Program;
pub use page_cache::{PageCache, drop_files};
pub use place::{FALLBACK_BASES, SOCKET_DIR_BYTES_MAX};
pub use power::{PowerCutSeen, PowerOn};
pub use private_server::PrivateServer;
pub use supervisor::Supervisor;
pub use tree::{remove_tree, tree_bytes};
pub use user::ServerUser;
