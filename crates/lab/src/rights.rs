//! Rights that faults of servers need in the process that carries them out.

use plimsoll_core::{ServerSpec, StoreError};
use serde::{Deserialize, Serialize};

use crate::clock::clocks_must_be_permitted;
use crate::hang::hangs_must_be_permitted;
use crate::hosts::resets_must_be_possible;
use crate::user::ServerUser;

/// Fault that needs rights of the process that carries it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrivilegedFault {
    /// Hang of one thread of a server.
    Hang,
    /// Wrong clock of a server.
    Clock,
    /// Reset of TCP connections.
    Reset,
}

impl PrivilegedFault {
    /// Fails if this process may not carry out the fault on servers of `spec`.
    ///
    /// # Errors
    /// `Permission`, or `Missing` if the kernel cannot reset connections; an error if no program can be started as the
    /// servers' user.
    pub fn must_be_permitted(self, spec: &ServerSpec) -> Result<(), StoreError> {
        let user = || ServerUser::caller_or(spec.user, spec.package);
        match self {
            Self::Hang => user().and_then(|user| hangs_must_be_permitted(&user)),
            Self::Clock => user().and_then(|user| clocks_must_be_permitted(&user)),
            Self::Reset => resets_must_be_possible(spec.hosts > 0),
        }
    }
}
