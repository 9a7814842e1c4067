//! Prepared statements and settings that an operation drops, by DISCARD ALL or RESET ALL: prepared and set again.

use plimsoll_core::Ticket;

use super::session::{InFlight, PgSession, What};
use super::statement::Prepared;

impl PgSession {
    /// Makes each statement be prepared again before its next execution.
    #[cold]
    pub(super) fn prepare_again(&mut self) {
        self.parses_again = true;
        self.kinds.iter_mut().for_each(Prepared::prepare_again);
    }

    /// Notes that the server has parsed the statements of `kind`.
    #[cold]
    pub(super) fn note_parsed(&mut self, kind: u16) {
        // What was sent before an operation that drops statements does not outlast it.
        let kinds = &self.kinds;
        let drops = |op: &InFlight| matches!(op.what, What::Kind(kind) if kinds[usize::from(kind)].drops_statements);
        if !self.queue.iter().any(drops) {
            self.kinds[usize::from(kind)].parsed();
        }
    }

    /// Sends the settings of the session again, after a Sync. Their answer goes to no client. In a failed transaction, in
    /// which the settings were not reset, they fail.
    #[cold]
    pub(super) fn set_again(&mut self, out: &mut Vec<u8>) {
        self.must_set = false;
        self.query_settings(out);
        let settings = What::Settings;
        self.queue.push_back(InFlight { ticket: Ticket(0), what: settings, commands: 0, synced: true, joined: None });
    }
}
