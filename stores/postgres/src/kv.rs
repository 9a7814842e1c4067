//! PostgreSQL as a key-value store: one table of bytes under bytes. What `keyindex` keeps its records and
//! index keys in.

use std::ops::ControlFlow;
use std::sync::Arc;

use plimsoll_core::{
    Answer, Call, Kv, KvCall, KvCapabilities, KvError, Op, OpKind, Outcome, StoreError, Ticket, Value, ValueBuf,
    ValueType, Values, Waits, WriteBatch,
};
use plimsoll_endpoint::TextSession;

use crate::connection::Connection;
use crate::reach::Endpoint;
use crate::wire::PgSession;

/// Makes the table.
pub(crate) const CREATE: &str = "CREATE TABLE kv (k bytea PRIMARY KEY, v bytea NOT NULL)";

const GET: u16 = 0;
const GET_MANY: u16 = 1;
const PUT: u16 = 2;
const DELETE: u16 = 3;
const SCAN: u16 = 4;
const SCAN_TO_END: u16 = 5;
const PUT_ROWS: u16 = 6;

/// Rows of a page of a scan. A scan of fewer breaks off before the next page; a scan of
/// everything costs a round trip a page.
const PAGE_ROWS: u64 = 1_000;

/// Rows of a statement that puts several: with one for each row a load takes half as long again.
const ROWS: usize = 50;

/// Keys of one pipelined get, so that what is in flight stays bounded.
const KEYS_AT_ONCE: usize = 1_000;

/// The statement of a call of the `kv` interface, and whether no row means that nothing was there.
pub(crate) fn statement(call: KvCall) -> (&'static str, bool) {
    match call {
        KvCall::Get => (GET_TEXT, true),
        KvCall::Put => (PUT_TEXT, false),
        KvCall::Delete => (DELETE_TEXT, true),
        KvCall::Scan => ("SELECT k, v FROM kv WHERE k >= $1 ORDER BY k LIMIT $2", false),
    }
}

const GET_TEXT: &str = "SELECT v FROM kv WHERE k = $1";
const PUT_TEXT: &str = "INSERT INTO kv (k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v";
const DELETE_TEXT: &str = "DELETE FROM kv WHERE k = $1";

fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, text: String, params: &[ValueType]| OpKind::new(name, Call::Sql(text), params).kept();
    let bytes = ValueType::Bytes;
    vec![
        kind("kv get", GET_TEXT.into(), &[bytes]),
        kind("kv get_many", "SELECT $2::bigint, v FROM kv WHERE k = $1".into(), &[bytes, ValueType::Int]),
        kind("kv put", PUT_TEXT.into(), &[bytes, bytes]),
        kind("kv delete", DELETE_TEXT.into(), &[bytes]),
        kind(
            "kv scan",
            format!("SELECT k, v FROM kv WHERE k >= $1 AND k < $2 ORDER BY k LIMIT {PAGE_ROWS}"),
            &[bytes, bytes],
        ),
        kind("kv scan", format!("SELECT k, v FROM kv WHERE k >= $1 ORDER BY k LIMIT {PAGE_ROWS}"), &[bytes]),
        kind(
            "kv put_rows",
            format!(
                "INSERT INTO kv (k, v) VALUES {} ON CONFLICT (k) DO UPDATE SET v = excluded.v",
                (1..=ROWS).map(|at| format!("(${}, ${})", 2 * at - 1, 2 * at)).collect::<Vec<_>>().join(", ")
            ),
            &[bytes; 2 * ROWS],
        ),
    ]
}

/// Connection parameters of a [`PgKv`], also after its connection was lost.
#[derive(Clone)]
pub(crate) struct KvConnect {
    pub(crate) endpoint: Endpoint,
    /// `SET` statements, the schema of the table among them.
    pub(crate) settings: String,
    /// Limits of the wait for the server.
    pub(crate) waits: Waits,
}

/// A connection to the table `kv`. A batch is one transaction. Each page of a scan sees the store at one
/// moment of its own.
pub(crate) struct PgKv {
    connect: KvConnect,
    connection: Option<Connection>,
    params: ValueBuf,
    /// Kind and number of parameters of each operation of a batch.
    batch: Vec<(u16, usize)>,
}

impl PgKv {
    pub(crate) fn open(connect: KvConnect) -> Result<PgKv, StoreError> {
        let mut kv = PgKv { connect, connection: None, params: ValueBuf::new(), batch: Vec::new() };
        kv.connection = Some(kv.connected()?);
        Ok(kv)
    }

    fn connected(&self) -> Result<Connection, StoreError> {
        let KvConnect { endpoint, settings, waits } = &self.connect;
        let mut connection = endpoint.open(Arc::default(), settings, &kinds(), waits)?;
        connection.set_works(true);
        Ok(connection)
    }

    /// Runs all operations of the batch as one. A connection that was lost before is made again first, and
    /// what fails there has certainly not happened.
    fn run(&mut self, visit: &mut dyn FnMut(Values<'_>)) -> Result<(), KvError> {
        if !self.connection.as_ref().is_some_and(|connection| connection.is_ready()) {
            self.connection = Some(self.connected().map_err(KvError::Rejected)?);
        }
        let connection = self.connection.as_mut().expect("it was connected just now");
        let (params, place) = (self.params.values(), &self.connect.endpoint.login.place);
        let mut at = 0;
        let ops = self.batch.iter().map(|&(kind, count)| {
            at += count;
            Op::new(kind, params.slice(at - count..at))
        });
        let mut result = Ok(());
        let ended = connection.run(
            |session, out| session.write(false, out, |inner, out| inner.start_together(Ticket(0), ops, out)),
            &mut |_, outcome, answer: &Answer| match outcome {
                Outcome::Ok | Outcome::NotFound => answer.row_iter().for_each(&mut *visit),
                Outcome::Rejected => result = Err(KvError::Rejected(PgSession::rejected(place, answer))),
                Outcome::Unknown => result = Err(KvError::Unknown(PgSession::rejected(place, answer))),
            },
        );
        result.and(ended.map_err(KvError::Unknown))
    }

    /// Makes the batch one operation.
    fn one(&mut self, kind: u16, params: &[&[u8]]) {
        self.params.clear();
        for param in params {
            self.params.push(Value::Bytes(param));
        }
        self.batch.clear();
        self.batch.push((kind, params.len()));
    }
}

/// Most bytes of a B-tree's entry on a page of 8 KiB, 2,704 (`BTMaxItemSize`), without the entry's own 12. Some longer
/// keys would fit compressed, which is not known beforehand.
const KEY_BYTES_MAX: usize = 2_692;

impl Kv for PgKv {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities { atomic_batch: true, snapshot_scan: false, key_bytes_max: KEY_BYTES_MAX }
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, KvError> {
        value.clear();
        self.one(GET, &[key]);
        let mut found = false;
        self.run(&mut |row| {
            found = true;
            value.extend_from_slice(bytes(row, 0));
        })?;
        Ok(found)
    }

    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8])) -> Result<(), KvError> {
        for (chunk, first) in keys.chunks(KEYS_AT_ONCE).zip((0..).step_by(KEYS_AT_ONCE)) {
            self.params.clear();
            self.batch.clear();
            for (key, position) in chunk.iter().zip(first..) {
                self.params.push(Value::Bytes(key));
                self.params.push(Value::Int(position));
                self.batch.push((GET_MANY, 2));
            }
            let mut stray = false;
            self.run(&mut |row| match row.get(0) {
                Value::Int(position) if (0..keys.len() as i64).contains(&position) => {
                    visit(position as usize, bytes(row, 1));
                }
                _ => stray = true,
            })?;
            if stray {
                let what = format!("{} answered for a key that was not asked", self.connect.endpoint.login.place);
                return Err(KvError::Unknown(StoreError::broken(what)));
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.one(PUT, &[key, value]);
        self.run(&mut |_| {})
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), KvError> {
        self.one(DELETE, &[key]);
        self.run(&mut |_| {})
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), KvError> {
        self.params.clear();
        for (key, value) in batch.iter() {
            self.params.push(Value::Bytes(key));
            value.into_iter().for_each(|value| self.params.push(Value::Bytes(value)));
        }
        operations(batch, &mut self.batch);
        self.run(&mut |_| {})
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        let mut low = low.to_vec();
        loop {
            match high {
                Some(high) => self.one(SCAN, &[&low, high]),
                None => self.one(SCAN_TO_END, &[&low]),
            }
            let (mut rows, mut broke, mut goes_back) = (0, false, false);
            self.run(&mut |row| {
                rows += 1;
                // A page before the one that was asked for would be asked for without end.
                goes_back |= bytes(row, 0) < low.as_slice();
                if !broke && !goes_back {
                    broke = visit(bytes(row, 0), bytes(row, 1)).is_break();
                    low.clear();
                    low.extend_from_slice(bytes(row, 0));
                }
            })?;
            if goes_back {
                let what = format!("{} answered with keys before those asked for", self.connect.endpoint.login.place);
                return Err(KvError::Unknown(StoreError::broken(what)));
            }
            if broke || rows < PAGE_ROWS {
                return Ok(());
            }
            // The key that comes next after the last one.
            low.push(0);
        }
    }
}

/// Replaces `out` by the kinds, and numbers of parameters, of the operations that write `batch`: puts of ascending keys go
/// together, so that no statement puts one twice.
fn operations(batch: &WriteBatch, out: &mut Vec<(u16, usize)>) {
    out.clear();
    let (mut together, mut last): (usize, &[u8]) = (0, &[]);
    for (key, value) in batch.iter() {
        if value.is_none() {
            out.push((DELETE, 1));
            together = 0;
            continue;
        }
        out.push((PUT, 2));
        together = if together > 0 && key > last { together + 1 } else { 1 };
        last = key;
        if together == ROWS {
            out.truncate(out.len() - ROWS);
            out.push((PUT_ROWS, 2 * ROWS));
            together = 0;
        }
    }
}

fn bytes(row: Values<'_>, column: usize) -> &[u8] {
    match row.get(column) {
        Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_of_ascending_keys_go_together_and_no_key_twice() {
        let of = |keys: &[u8]| {
            let mut batch = WriteBatch::new();
            // 0 stands for a delete.
            keys.iter().for_each(|key| if *key == 0 { batch.delete(b"k") } else { batch.put(&[*key], b"v") });
            let mut all = Vec::new();
            operations(&batch, &mut all);
            let params: usize = batch.iter().map(|(_, value)| 1 + usize::from(value.is_some())).sum();
            assert_eq!(all.iter().map(|(_, params)| params).sum::<usize>(), params);
            all.iter().map(|(kind, _)| *kind).collect::<Vec<_>>()
        };
        let ascending: Vec<u8> = (1..=120).collect();
        assert_eq!(of(&ascending), [&[PUT_ROWS; 2][..], &[PUT; 20]].concat());
        assert_eq!(of(&[1; 60]), [PUT; 60], "one key again and again");
        let twice: Vec<u8> = (1..=40).chain(1..=40).collect();
        assert_eq!(of(&twice), [PUT; 80], "neither forty are enough, and together they have keys twice");
        let broken: Vec<u8> = (1..=30).chain([0]).chain(31..=60).collect();
        assert_eq!(of(&broken), [&[PUT; 30][..], &[DELETE], &[PUT; 30]].concat());
    }
}
