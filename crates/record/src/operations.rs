//! Operations of a driven phase one by one, and their form as bytes.
//!
//! An operation is five numbers in LEB128: the time from the end of the operation before to its own end, from its due
//! time to its end, and from its due time to its sending; 4 times its type plus the position of its outcome; its client.

use plimsoll_core::{KindId, Outcome};

use crate::leb128;

/// Number of outcomes.
const OUTCOMES: u64 = Outcome::ALL.len() as u64;

/// Operations of a driven phase that were kept one by one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operations {
    /// The operations, in the order of their ends.
    pub each: Vec<Operation>,
    /// Time before which an operation must have ended to be in `each`; `None` if all are in it.
    pub until_ns: Option<u64>,
}

/// Operation of a driven phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Position of its kind.
    pub kind: KindId,
    /// Number of its client.
    pub client: u32,
    /// Outcome of the operation.
    pub outcome: Outcome,
    /// Scheduled start; in a closed loop equal to `sent_ns`.
    pub due_ns: u64,
    /// Time of the sending, not before `due_ns`.
    pub sent_ns: u64,
    /// Time of the answer, or at which the operation was given up.
    pub end_ns: u64,
}

/// Returns the bytes of `each`, which are in the order of their ends.
pub(crate) fn encode(each: &[Operation]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(each.len() * 12);
    let mut before_ns = 0;
    for op in each {
        let numbers = [
            op.end_ns.saturating_sub(before_ns),
            op.end_ns.saturating_sub(op.due_ns),
            op.sent_ns.saturating_sub(op.due_ns),
            u64::from(op.kind) * OUTCOMES + op.outcome as u64,
            u64::from(op.client),
        ];
        numbers.into_iter().for_each(|number| leb128::push(&mut bytes, number));
        before_ns = op.end_ns;
    }
    bytes
}

/// Returns the operations in `bytes`; `None` if they are damaged.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Operation>> {
    let (mut each, mut end_ns) = (Vec::new(), 0u64);
    while !bytes.is_empty() {
        let bytes = &mut bytes;
        end_ns = end_ns.checked_add(leb128::take(bytes, u64::BITS)?)?;
        let due_ns = end_ns.checked_sub(leb128::take(bytes, u64::BITS)?)?;
        let sent_ns = due_ns.checked_add(leb128::take(bytes, u64::BITS)?).filter(|sent_ns| *sent_ns <= end_ns)?;
        let both = leb128::take(bytes, u32::BITS)?;
        let (kind, outcome) = (KindId::try_from(both / OUTCOMES).ok()?, Outcome::ALL[(both % OUTCOMES) as usize]);
        let client = leb128::take(bytes, u32::BITS)? as u32;
        each.push(Operation { kind, client, outcome, due_ns, sent_ns, end_ns });
    }
    Some(each)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Operation> {
        let op = |kind, client, outcome, due_ns, sent_ns, end_ns| Operation {
            kind,
            client,
            outcome,
            due_ns,
            sent_ns,
            end_ns,
        };
        vec![
            op(0, 0, Outcome::Ok, 0, 0, 0),
            op(3, 70_000, Outcome::NotFound, 1_000, 1_500, 9_000_000_000),
            op(KindId::MAX, u32::MAX, Outcome::Unknown, 5, 8_999_999_999, 9_000_000_000),
            op(1, 2, Outcome::Rejected, 9_000_000_000, 9_000_000_001, 9_000_000_500),
        ]
    }

    #[test]
    fn operations_are_read_back_and_a_usual_one_takes_a_few_bytes() {
        let each = some();
        assert_eq!(decode(&encode(&each)), Some(each.clone()));
        assert_eq!(decode(&[]), Some(Vec::new()));
        // An operation of 300 µs, 20 µs after the one before, in a closed loop with some clients.
        let usual = Operation { kind: 1, client: 7, due_ns: 720_000, sent_ns: 720_000, end_ns: 1_020_000, ..each[0] };
        let before = Operation { end_ns: 1_000_000, ..each[0] };
        assert_eq!(encode(&[before, usual]).len() - encode(&[before]).len(), 9);
    }

    #[test]
    fn bytes_that_no_operations_have_are_damage() {
        let bytes = encode(&some());
        let whole = (0..bytes.len()).filter(|length| decode(&bytes[..*length]).is_some()).count();
        assert_eq!(whole, 4, "none, or up to the end of an operation");
        // Due after its end, sent after its end, and an operation type that has no number.
        for bytes in [&[5, 6, 0, 0, 0][..], &[5, 4, 5, 0, 0], &[5, 4, 0, 0x80, 0x80, 0x10, 0]] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }
}
