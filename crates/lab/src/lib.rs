//! Private servers on this machine: starts, guards and removes them.
//!
//! Everything made here is removed here: on close, when Plimsoll dies for any reason, or, if the supervisor was killed
//! as well, by the next start. Nothing else is ever touched.
//!
//! This crate knows no server by name. The recipe in a store's folder says which programs a server consists of and how
//! it reports that it is ready.
//!
//! | module | what |
//! |---|---|
//! | [`cluster`] | [`Cluster`]: the servers of a store's recipe, one or more, and what can be done to them |
//! | [`described`] | [`DescribedServer`](described::DescribedServer): a server that a user describes in a plan |
//! | `clock` | wrong wall clocks of servers |
//! | `hang` | one thread of a server that is kept stopped while the others run |
//! | [`holders`] | processes, mounts and devices that hold a port, a device or a directory |
//! | [`hosts`] | [`Network`](hosts::Network), [`Host`](hosts::Host): network namespaces on a bridge |
//! | `caught` | a store whose panics are errors |
//! | `limits` | limits of a server's processors, memory and I/O, by control groups |
//! | `neighbour` | [`Neighbour`]: this program executed again, using processors, a disk or a link beside a server |
//! | `open_store` | [`OpenStore`]: a store with the servers that it runs on; restarts it and makes it cold |
//! | [`standing`] | [`Lab`](standing::Lab): a cluster that runs until it is ended by a command; `hold`, the process
//! that owns it |
//! | [`private_server`] | [`PrivateServer`]: directories, a supervisor that guards them, a program that runs in them |
//! | [`supervisor`] | [`Supervisor`]: this program executed again, and the requests to it; `process`, the code that
//! runs in it |
//! | `disks` | [`PowerSwitch`]: the disks that can lose power, one for each machine of a store |
//! | `power` | one such disk |
//! | [`proxy`] | [`Proxied`](proxy::Proxied): a recipe with an HAProxy in front |
//! | `rights` | [`PrivilegedFault`]: faults for which the process that carries them out needs rights |
//! | `directories` | directories of a private server: where they may be, and how they are recognised |
//! | [`orphans`] | [`sweep_orphans`]: removes files of killed supervisors; [`after_killing`]: a store's own cleaning
//! up after its processes |
//! | `user_command` | [`UserCommand`]: this program executed again, running commands that begin and heal a fault |
//! | [`user`] | [`ServerUser`]: the user that a server runs as |
//! | [`packages`] | [`Program`]: the path of a server's program, or the package that contains it |
//! | `version` | [`program_version`]: the version of a server's program, as it prints it |
//! | [`ending`] | [`Ending`]: how a program ended, and the kind of error that this is |
//! | [`page_cache`] | [`drop_files`]: drops the files of one directory tree from the page cache, and counts what stayed
//! |

mod caught;
mod clock;
pub mod cluster;
pub mod described;
mod directories;
mod disks;
pub mod ending;
mod file_system_errors;
mod hang;
pub mod holders;
pub mod hosts;
mod limits;
mod neighbour;
mod open_store;
pub mod orphans;
pub mod packages;
pub mod page_cache;
mod power;
pub mod private_server;
pub mod proxy;
mod rights;
pub mod standing;
pub mod supervisor;
mod tree;
pub mod user;
mod user_command;
mod version;

pub use clock::clocks_must_be_possible;
pub use cluster::{Bases, Cluster, ClusterHandle};
pub use directories::{FALLBACK_BASES, SOCKET_DIR_BYTES_MAX};
pub use disks::{PowerSwitch, must_be_possible, sweep_disks};
pub use ending::Ending;
pub use limits::limits_must_be_possible;
pub use neighbour::Neighbour;
pub use open_store::{OpenStore, Revival, open};
pub use orphans::{after_killing, sweep_orphans};
pub use packages::Program;
pub use page_cache::{PageCache, drop_files};
pub use power::{PowerCutState, PowerRecovery};
pub use private_server::PrivateServer;
pub use rights::PrivilegedFault;
pub use supervisor::Supervisor;
pub use tree::{remove_tree, tree_bytes};
pub use user::ServerUser;
pub use user_command::UserCommand;
pub use version::program_version;
