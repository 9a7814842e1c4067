//! Keys and values as a caller has them, beside or instead of records: the `kv` interface over the same connection.

use std::ops::ControlFlow;

use plimsoll_core::{Answer, Kv, KvCall, Outcome, Value, Values};

use super::session::WRONG_TYPE;
use crate::IndexError;

/// Does one call. `value` is a buffer that is used again.
pub(super) fn execute<K: Kv>(
    kv: &mut K,
    call: KvCall,
    keep: bool,
    params: Values<'_>,
    value: &mut Vec<u8>,
    answer: &mut Answer,
) -> Result<Outcome, IndexError> {
    let Value::Bytes(key) = params.get(0) else { return Err(WRONG_TYPE) };
    match (call, params.get(1)) {
        (KvCall::Get, _) => {
            if !kv.get(key, value)? {
                return Ok(Outcome::NotFound);
            }
            answer.rows = 1;
            answer.columns = 1;
            if keep {
                answer.values.push(Value::Bytes(value));
            }
        }
        (KvCall::Put, Value::Bytes(value)) => kv.put(key, value)?,
        // The store's own delete does not say whether anything was there.
        (KvCall::Delete, _) if !kv.get(key, value)? => return Ok(Outcome::NotFound),
        (KvCall::Delete, _) => kv.delete(key)?,
        (KvCall::Scan, Value::Int(count)) => {
            answer.columns = 2;
            let mut left = u64::try_from(count).unwrap_or(0);
            if left == 0 {
                return Ok(Outcome::Ok);
            }
            kv.scan(key, None, &mut |key, value| {
                answer.rows += 1;
                if keep {
                    answer.values.push(Value::Bytes(key));
                    answer.values.push(Value::Bytes(value));
                }
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        (KvCall::Put | KvCall::Scan, _) => return Err(WRONG_TYPE),
    }
    Ok(Outcome::Ok)
}
