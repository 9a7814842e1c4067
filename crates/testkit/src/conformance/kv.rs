//! Keys and values: what a store that speaks `kv` is held to, with keys in order where it speaks `kv-scan`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::{Call, Interface, KindId, KvCall, Layout, OpKind, Outcome, Value, ValueBuf, ValueType};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};
use plimsoll_workload::scramble::hash;

use super::Subject;
use super::life::outlives;
use super::things::{all_came_to, came_to};
use crate::ask::{OP_TIMEOUT, Reply, Script, ask};
use crate::draw::repeats;

const GET: KindId = 0;
const PUT: KindId = 1;
const DELETE: KindId = 2;
const LOOK: KindId = 3;
const SCAN: KindId = 4;

const CLIENTS: u32 = 8;
const KEYS_PER_CLIENT: u64 = 40;
/// Longer than any buffer that a session begins with.
const LONG_BYTES: usize = 3 << 20;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the operation types of keys and values: get, put, delete, a get whose value is not kept, and scan.
pub fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, call, params: &[ValueType]| OpKind::new(name, Call::Kv(call), params);
    let bytes = ValueType::Bytes;
    vec![
        kind("get", KvCall::Get, &[bytes]).kept(),
        kind("put", KvCall::Put, &[bytes, bytes]),
        kind("delete", KvCall::Delete, &[bytes]),
        kind("look", KvCall::Get, &[bytes]),
        kind("scan", KvCall::Scan, &[bytes, ValueType::Int]).kept(),
    ]
}

/// Returns the operation types that the store declares.
fn kinds_of(subject: &Subject<'_>) -> Vec<OpKind> {
    let count = if subject.spec.interfaces.contains(&Interface::KvScan) { 5 } else { 4 };
    kinds().into_iter().take(count).collect()
}

fn asked(subject: &mut Subject<'_>, script: &Script) -> Result<Vec<Reply>, String> {
    let (kinds, durability) = (kinds_of(subject), subject.durability());
    ask(&mut *subject.store, &kinds, durability, script)
}

fn made_and_asked(subject: &mut Subject<'_>, script: &Script) -> Result<Vec<Reply>, String> {
    subject.store.create(&Layout::default()).map_err(|error| format!("create: {error}"))?;
    asked(subject, script)
}

fn put<'a>(script: &mut Script, key: &'a [u8], value: &'a [u8]) {
    script.op(PUT, [Value::Bytes(key), Value::Bytes(value)]);
}

fn get(script: &mut Script, key: &[u8]) {
    script.op(GET, [Value::Bytes(key)]);
}

/// Holds a get's reply against what should be there.
fn gave(reply: &Reply, value: Option<&[u8]>, what: &str) -> Result<(), String> {
    let Some(value) = value else { return came_to(reply, Outcome::NotFound, what) };
    came_to(reply, Outcome::Ok, what)?;
    let answer = &reply.answer;
    if (answer.rows, answer.columns, answer.values.len()) != (1, 1, 1) {
        let (rows, columns, values) = (answer.rows, answer.columns, answer.values.len());
        return Err(format!("{what}: {rows} rows of {columns} columns and {values} values, where one value was put"));
    }
    match answer.values.values().get(0) {
        Value::Bytes(got) if got == value => Ok(()),
        Value::Bytes(got) => Err(format!("{what}: {} put, {} got", brief(value), brief(got))),
        other => Err(format!("{what}: a value is bytes, not {:?}", other.value_type())),
    }
}

fn brief(bytes: &[u8]) -> String {
    format!("{} bytes `{}`", bytes.len(), bytes[..bytes.len().min(40)].escape_ascii())
}

/// Keys and values at random: short and long, of any bytes, some keys beginning others.
fn random(count: u64, seed: u64) -> Model {
    let bytes = |number: u64, salt: u64, most: u64| -> Vec<u8> {
        let length = hash(seed, number, salt) % most;
        (0..length).map(|place| hash(seed, number, salt + 1 + place) as u8).collect()
    };
    let pair = |number: u64| {
        let mut key = number.to_be_bytes()[6..].to_vec();
        key.extend(bytes(number, 1_000, 30));
        (key, bytes(number, 2_000, 200))
    };
    (0..count).map(pair).collect()
}

fn filled(subject: &mut Subject<'_>, count: u64, seed: u64) -> Result<Model, String> {
    let model = random(count, seed);
    let mut script = Script::new();
    model.iter().for_each(|(key, value)| put(&mut script, key, value));
    all_came_to(&made_and_asked(subject, &script)?, Outcome::Ok, "puts")?;
    Ok(model)
}

fn holds(subject: &mut Subject<'_>, model: &Model, what: &str) -> Result<(), String> {
    let mut script = Script::new();
    model.keys().for_each(|key| get(&mut script, key));
    let replies = asked(subject, &script)?;
    replies.iter().zip(model.values()).try_for_each(|(reply, value)| gave(reply, Some(value), what))
}

pub(super) fn values_come_back(subject: &mut Subject<'_>) -> Result<(), String> {
    let every_byte: Vec<u8> = (0..=255).collect();
    let long: Vec<u8> =
        (0..LONG_BYTES as u64).map(|place| hash(1, place >> 3, 0).to_le_bytes()[place as usize & 7]).collect();
    let pairs: [(&[u8], &[u8]); 9] = [
        (b"a", b"1"),
        (b"empty", b""),
        (b"every byte", &every_byte),
        (&every_byte, b"under every byte"),
        (b"line\r\nbreak", b"$5\r\n-ERR\r\n"),
        (b"\0", b"\0"),
        (b"\0\0", b"a key that another begins"),
        ("käse".as_bytes(), "größe".as_bytes()),
        (b"long", &long),
    ];
    let mut script = Script::new();
    pairs.iter().for_each(|(key, value)| put(&mut script, key, value));
    pairs.iter().for_each(|(key, _)| get(&mut script, key));
    // The unwanted rest of a long value does not disturb the following reply.
    script.op(LOOK, [Value::Bytes(b"long")]).op(LOOK, [Value::Bytes(b"nothing")]);
    get(&mut script, b"a");
    let replies = made_and_asked(subject, &script)?;
    let (puts, gets) = replies.split_at(pairs.len());
    all_came_to(puts, Outcome::Ok, "a put")?;
    for ((key, value), reply) in pairs.iter().zip(gets) {
        gave(reply, Some(value), &format!("get of `{}`", key.escape_ascii()))?;
    }
    let [looked, nothing, after] = &gets[pairs.len()..] else { return Err("replies are missing".into()) };
    came_to(looked, Outcome::Ok, "a get whose value is not kept")?;
    if looked.answer.rows != 1 {
        return Err(format!("a get whose value is not kept counts {} rows", looked.answer.rows));
    }
    came_to(nothing, Outcome::NotFound, "a get of nothing whose value is not kept")?;
    gave(after, Some(b"1"), "the get after")
}

pub(super) fn writes_are_seen(subject: &mut Subject<'_>) -> Result<(), String> {
    let key = &b"key"[..];
    let mut script = Script::new();
    get(&mut script, key);
    script.op(DELETE, [Value::Bytes(key)]);
    put(&mut script, key, b"first");
    put(&mut script, key, b"another, longer one");
    get(&mut script, key);
    put(&mut script, key, b"");
    get(&mut script, key);
    script.op(DELETE, [Value::Bytes(key)]);
    get(&mut script, key);
    script.op(DELETE, [Value::Bytes(key)]);
    put(&mut script, key, b"again");
    get(&mut script, key);
    let replies = made_and_asked(subject, &script)?;
    came_to(&replies[0], Outcome::NotFound, "get in an empty store")?;
    came_to(&replies[1], Outcome::NotFound, "delete in an empty store")?;
    all_came_to(&replies[2..4], Outcome::Ok, "put and put over it")?;
    gave(&replies[4], Some(b"another, longer one"), "get of what was put over another")?;
    came_to(&replies[5], Outcome::Ok, "put of an empty value over another")?;
    gave(&replies[6], Some(b""), "get of an empty value")?;
    came_to(&replies[7], Outcome::Ok, "delete")?;
    gave(&replies[8], None, "get of what was deleted")?;
    came_to(&replies[9], Outcome::NotFound, "delete of what was deleted")?;
    came_to(&replies[10], Outcome::Ok, "put of what was deleted")?;
    gave(&replies[11], Some(b"again"), "get of what was put again")
}

pub(super) fn made_again_is_empty(subject: &mut Subject<'_>) -> Result<(), String> {
    let model = filled(subject, 100, 31)?;
    let mut script = Script::new();
    model.keys().for_each(|key| get(&mut script, key));
    let replies = made_and_asked(subject, &script)?;
    all_came_to(&replies, Outcome::NotFound, "get in a store that was made again")
}

pub(super) fn scans_are_right(subject: &mut Subject<'_>) -> Result<(), String> {
    let model = filled(subject, 300, 32)?;
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let after = |key: &[u8]| [key, &[0]].concat();
    let mut asks: Vec<(Vec<u8>, i64)> = vec![(vec![], 1), (vec![], 1_000), (vec![0xff; 40], 5), (keys[7].clone(), 0)];
    for round in 0..40 {
        let key = keys[hash(33, round, 0) as usize % keys.len()];
        let count = (hash(33, round, 1) % 60) as i64;
        asks.push((if round % 2 == 0 { key.clone() } else { after(key) }, count));
    }
    let mut script = Script::new();
    for (first, count) in &asks {
        script.op(SCAN, [Value::Bytes(first), Value::Int(*count)]);
    }
    let replies = asked(subject, &script)?;
    for ((first, count), reply) in asks.iter().zip(&replies) {
        let what = format!("scan of {count} from `{}`", first.escape_ascii());
        came_to(reply, Outcome::Ok, &what)?;
        let expected: Vec<_> = model.range(first.clone()..).take(*count as usize).collect();
        let got: Vec<_> = reply.answer.row_iter().map(|row| (row.get(0), row.get(1))).collect();
        let same =
            got.iter().zip(&expected).all(|(got, (key, value))| *got == (Value::Bytes(key), Value::Bytes(value)));
        if reply.answer.rows != expected.len() as u64 || got.len() != expected.len() || !same {
            let (counted, given, wanted) = (reply.answer.rows, got.len(), expected.len());
            return Err(format!("{what}: {wanted} pairs wanted, {counted} counted, {given} given, or others"));
        }
    }
    Ok(())
}

pub(super) fn data_outlives(subject: &mut Subject<'_>) -> Result<(), String> {
    let model = filled(subject, repeats(100, 300) as u64, 34)?;
    outlives(subject, |subject, when| holds(subject, &model, when))
}

pub(super) fn footprint_grows(subject: &mut Subject<'_>) -> Result<(), String> {
    let mut sizes = Vec::new();
    for count in [50, 1_000] {
        filled(subject, count, 35)?;
        subject.store.sync().map_err(|error| format!("sync: {error}"))?;
        subject.store.settle().map_err(|error| format!("settle: {error}"))?;
        sizes.push(subject.store.footprint().map_err(|error| format!("footprint: {error}"))?.data_bytes);
    }
    let grows = sizes[0] > 0 && sizes[1] > sizes[0];
    if grows { Ok(()) } else { Err(format!("{} bytes with 50 keys, {} with 1,000", sizes[0], sizes[1])) }
}

/// Every client puts, overwrites, deletes and puts keys of its own, in turn.
struct Busy;

fn key_of(client: u32, number: u64) -> Vec<u8> {
    format!("{number:04}-{client}").into_bytes()
}

/// Returns the value left by the third write of a key.
fn last_value(client: u32, number: u64) -> Option<Vec<u8>> {
    (!number.is_multiple_of(3)).then(|| format!("third of {client}, {number}").into_bytes())
}

// Not imported: its method would hide that of `Script`.
impl plimsoll_core::Stream for Busy {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let (number, turn) = (cycle / 3, cycle % 3);
        if number == KEYS_PER_CLIENT {
            return None;
        }
        params.push(Value::Bytes(&key_of(client, number)));
        let value = match turn {
            0 => b"first".to_vec(),
            1 => vec![b'2'; (number % 50) as usize],
            _ => match last_value(client, number) {
                Some(value) => value,
                None => return Some(DELETE),
            },
        };
        params.push(Value::Bytes(&value));
        Some(PUT)
    }
}

pub(super) fn many_sessions(subject: &mut Subject<'_>) -> Result<(), String> {
    subject.store.create(&Layout::default()).map_err(|error| format!("create: {error}"))?;
    let (kinds, durability) = (kinds_of(subject), subject.durability());
    let sessions = subject.store.sessions(CLIENTS, durability).map_err(|error| error.to_string())?;
    let drive = Drive {
        clock: &Clock::start(),
        spec: &DriveSpec { limit: Limit::Exhausted, op_timeout: OP_TIMEOUT, ..DriveSpec::default() },
        sessions,
        kinds: &kinds,
        stream: Arc::new(Busy),
        observers: Vec::new(),
        stop: Arc::new(AtomicBool::new(false)),
    };
    let result = drive.run(&mut |_| {}).map_err(|error| error.to_string())?;
    let done: u64 = result.kinds.iter().map(|kind| kind[Outcome::Ok as usize]).sum();
    if done != u64::from(CLIENTS) * KEYS_PER_CLIENT * 3 || done != result.ops {
        return Err(format!("{done} of {} operations were done: {:?}", result.ops, result.errors));
    }
    let all = || (0..CLIENTS).flat_map(|client| (0..KEYS_PER_CLIENT).map(move |number| (client, number)));
    let mut script = Script::new();
    all().for_each(|(client, number)| get(&mut script, &key_of(client, number)));
    let replies = asked(subject, &script)?;
    all().zip(&replies).try_for_each(|((client, number), reply)| {
        gave(reply, last_value(client, number).as_deref(), &format!("key {number} of client {client}"))
    })
}
