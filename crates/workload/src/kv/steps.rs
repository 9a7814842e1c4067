//! A read and a write of the same record, one after the other.

use plimsoll_core::{Answer, KindId, Outcome, Step, Steps, Value, ValueBuf, Values, Version};

use super::content::Content;
use super::{MODIFY, READ_MODIFY_WRITE, RMW_READ};

/// Progress of a client through a `read_modify_write`: it reads, and writes unless the read failed.
pub(super) struct ReadModifyWrite {
    content: Content,
    client: u32,
    cycle: u64,
    key: Vec<u8>,
    /// Number of the record, if the operation named it.
    record: Option<u64>,
    next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Read,
    Write,
    End(Outcome),
}

impl ReadModifyWrite {
    pub fn new(content: Content, client: u32) -> Self {
        Self { content, client, cycle: 0, key: Vec::new(), record: None, next: Next::End(Outcome::Ok) }
    }
}

impl Steps for ReadModifyWrite {
    fn begin(&mut self, cycle: u64, _: KindId, params: Values<'_>) {
        self.key.clear();
        if let Value::Bytes(key) = params.get(0) {
            self.key.extend_from_slice(key);
        }
        (self.cycle, self.record, self.next) = (cycle, params.record(), Next::Read);
    }

    fn next(&mut self, params: &mut ValueBuf) -> Step {
        let kind = match self.next {
            Next::Read => RMW_READ,
            Next::Write => MODIFY,
            Next::End(outcome) => return Step::End { kind: READ_MODIFY_WRITE, outcome },
        };
        params.push(Value::Bytes(&self.key));
        self.record.into_iter().for_each(|id| params.name_record(id));
        if kind == MODIFY {
            let version = Version::Written { client: self.client, cycle: self.cycle };
            params.push_bytes_with(|value| self.content.write_value_of(&self.key, version, value));
        }
        Step::Send { kind, more: false }
    }

    fn answered(&mut self, outcome: Outcome, _: &Answer) {
        self.next = match self.next {
            // What is not there can be written all the same, as in YCSB.
            Next::Read if !outcome.is_error() => Next::Write,
            _ => Next::End(outcome),
        };
    }
}
