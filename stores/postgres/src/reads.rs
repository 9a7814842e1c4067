//! Which operations only read, as far as that can be told without the server.

use plimsoll_core::{Call, Dialect, KvCall, OpKind, RecordsCall, sql};

/// True when the operation may stand in one transaction with others of its sort that belong to other clients: it changes
/// nothing and locks nothing, and its answer is short or is not kept.
pub(crate) fn may_share_a_sync(kind: &OpKind) -> bool {
    kind.step_of.is_none()
        && match &kind.call {
            Call::Records { call: RecordsCall::Get, .. } | Call::Kv(KvCall::Get) => true,
            Call::Sql(text) | Call::SqlRow(text) => {
                !kind.keep_answer && sql::only_selects(text, Some(Dialect::Postgres))
            }
            _ => false,
        }
}
