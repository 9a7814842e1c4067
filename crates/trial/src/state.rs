//! State of a trial's store between phases: the condition of its servers, and that of its data.
//!
//! Lasting facts of a trial are no part of that, because they go together with one another and with any condition: a
//! fault of the disk, a power cut that the store survived, operations that found the disk full. The disk itself is
//! asked if it has power: a cut comes with any request to it, also between phases.

use plimsoll_record::data::PhaseKind;

/// Condition of the servers of a store, or of the store itself if it is embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServersState {
    /// Working, as far as is known.
    Whole,
    /// Failed, or without some connections. After a fault of the disk the store is opened again before the next phase.
    Hurt,
    /// Not started again. The trial ends, because nothing more can be asked.
    Dead,
}

impl ServersState {
    /// Notes that servers failed, or that connections were lost.
    pub(crate) fn hurt(&mut self) {
        if *self == Self::Whole {
            *self = Self::Hurt;
        }
    }

    /// Returns true if they were hurt, and notes that the store is opened again.
    pub(crate) fn reopen(&mut self) -> bool {
        let was_hurt = *self == Self::Hurt;
        if was_hurt {
            *self = Self::Whole;
        }
        was_hurt
    }

    /// Notes that they did not start again.
    pub(crate) fn die(&mut self) {
        *self = Self::Dead;
    }

    /// Returns true if they did not start again.
    pub(crate) fn is_dead(self) -> bool {
        self == Self::Dead
    }
}

/// Condition of a store's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DataState {
    /// To be settled before the first operation that counts.
    Unsettled,
    /// As the plan wants them.
    Ready,
    /// Still in memory, or able to be: the reason that the preceding phase could not make the store cold.
    NotCold(String),
}

/// Work before a phase.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BeforePhase {
    /// No work.
    Nothing,
    /// Maintenance by the store.
    Settle,
    /// No work, and the phase is skipped for this reason.
    Skip(String),
}

impl DataState {
    /// Returns the work that precedes a phase of this kind, and notes its effect and that of the phase.
    pub(crate) fn before(&mut self, kind: PhaseKind) -> BeforePhase {
        use PhaseKind::{Ask, Check, Drive, Load};
        match (std::mem::replace(self, Self::Ready), kind) {
            (Self::Unsettled, Load | Check) => {
                *self = Self::Unsettled;
                BeforePhase::Nothing
            }
            (Self::Unsettled, Ask | Drive) => BeforePhase::Settle,
            // The answer of a store that was to be cold would be a wrong figure.
            (Self::NotCold(why), Ask) => BeforePhase::Skip(why),
            // Other phases settle the store, or settling it would undo them.
            _ => BeforePhase::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hurt_servers_are_opened_again_once_and_dead_ones_never() {
        use ServersState::{Dead, Hurt, Whole};
        for (from, hurt, reopened) in
            [(Whole, Hurt, (false, Whole)), (Hurt, Hurt, (true, Whole)), (Dead, Dead, (false, Dead))]
        {
            let after = |change: fn(&mut ServersState)| {
                let mut state = from;
                change(&mut state);
                state
            };
            assert_eq!((after(ServersState::hurt), after(ServersState::die)), (hurt, Dead), "{from:?}");
            let mut state = from;
            assert_eq!((state.reopen(), state), reopened, "{from:?}");
            assert_eq!(from.is_dead(), from == Dead);
        }
    }

    #[test]
    fn a_store_settles_before_its_first_operation_and_is_asked_nothing_if_it_should_be_cold_and_is_not() {
        use BeforePhase::{Nothing, Settle, Skip};
        use DataState::{NotCold, Ready, Unsettled};
        let why = || "it is in memory".to_owned();
        // A kind of phase; what precedes it and is left, of data that are unsettled; what precedes it if they are not cold.
        let table = [
            (PhaseKind::Load, (Nothing, Unsettled), Nothing),
            (PhaseKind::Ask, (Settle, Ready), Skip(why())),
            (PhaseKind::Drive, (Settle, Ready), Nothing),
            (PhaseKind::Settle, (Nothing, Ready), Nothing),
            (PhaseKind::Cold, (Nothing, Ready), Nothing),
            (PhaseKind::Restart, (Nothing, Ready), Nothing),
            (PhaseKind::Power, (Nothing, Ready), Nothing),
            (PhaseKind::Check, (Nothing, Unsettled), Nothing),
        ];
        assert_eq!(table.each_ref().map(|row| row.0), PhaseKind::ALL);
        for (kind, unsettled, not_cold) in table {
            let before = |mut state: DataState| (state.before(kind), state);
            assert_eq!(before(Unsettled), unsettled, "{kind:?}");
            assert_eq!(before(NotCold(why())), (not_cold, Ready), "{kind:?}");
            assert_eq!(before(Ready), (Nothing, Ready), "{kind:?}");
        }
    }
}
