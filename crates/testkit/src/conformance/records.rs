//! Single operations on records, against the model.

use plimsoll_core::{Access, Collection, Field, IndexMode, Layout, Outcome, RecordsCall, Value, ValueType};
use plimsoll_workload::scramble::hash;

use super::Subject;
use super::things::{
    ALL, COUNT, COUNT_ROWS, DELETE, GET, INDEXED, INSERT, Model, NOTE, UPDATE, all_came_to, asked, came_to, find, gave,
    kind, made_and_asked, text,
};
use crate::ask::{Script, ask};
use crate::draw::repeats;
use crate::owned::{Owned, Row};

/// First and last microsecond of the years 1 to 9999, beyond which some engines have no timestamps.
const FIRST_US: i64 = -62_135_596_800_000_000;
const LAST_US: i64 = 253_402_300_799_999_999;

/// Values at the ends of their types, in every field.
pub(super) fn values_come_back(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let mut model = Model::default();
    let mut add = |key: &str, change: &dyn Fn(&mut Row)| {
        let mut row = vec![Owned::Null; super::things::FIELDS.len()];
        row[0] = Owned::Text(key.into());
        change(&mut row);
        model.0.insert(key.to_owned(), row);
    };
    add("all null", &|_| {});
    add("", &|row| row[4] = Owned::Text("its key is empty".into()));
    add("ключ 🗝 'quoted' \"twice\" \\ /", &|row| row[1] = Owned::Bool(false));
    for value in [false, true] {
        add(&format!("bool {value}"), &|row| row[1] = Owned::Bool(value));
    }
    for value in [0, 1, -1, i64::MIN, i64::MAX, i64::from(i32::MIN) - 1, i64::from(u32::MAX) + 1] {
        add(&format!("int {value}"), &|row| row[2] = Owned::Int(value));
    }
    let floats =
        [0.0, -0.0, 0.1, -1.0, f64::MIN, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NEG_INFINITY];
    for (number, value) in floats.into_iter().chain([2f64.powi(53) + 2.0, 1e15 + 0.3]).enumerate() {
        add(&format!("float {number}"), &|row| row[3] = Owned::Float(value));
    }
    for value in
        ["", " ", "a\nb\tc\r", "\\x00", "NULL", "it's \"so\"", "中文 🦀 é e\u{301}", "\u{1}\u{7f}\u{10ffff}", "%_;--$1"]
    {
        add(&format!("text {value}"), &|row| (row[4], row[7]) = (Owned::Text(value.into()), Owned::Text(value.into())));
    }
    for value in [&b""[..], b"\0", b"\0\0a\0", b"\xff\xfe\x80", b"plain", b"\\x41", b"'"] {
        add(&format!("bytes {value:?}"), &|row| {
            (row[5], row[8]) = (Owned::Bytes(value.into()), Owned::Bytes(value.into()))
        });
    }
    for value in [0, 1, -1, FIRST_US, LAST_US, 1_300_000_000_123_456] {
        add(&format!("at {value}"), &|row| row[6] = Owned::Timestamp(value));
    }
    add("long", &|row| {
        row[7] = Owned::Text("0123456789abcdef".repeat(2_000).into());
        row[8] = Owned::Bytes((0..70_000u32).map(|place| place as u8).collect());
    });
    let mut script = Script::new();
    model.insert(&mut script, 1);
    for key in model.0.keys() {
        script.op(GET, [text(key)]);
    }
    script.op(ALL, []);
    let replies = made_and_asked(subject, mode, &script)?;
    let count = model.0.len();
    let mut refused = Vec::new();
    for (reply, (key, row)) in replies.iter().zip(&model.0) {
        // Some engines have no infinite numbers; those are refused then, and nothing else is.
        if reply.outcome == Outcome::Rejected && matches!(row[3], Owned::Float(value) if value.is_infinite()) {
            refused.push(key.clone());
        } else {
            came_to(reply, Outcome::Ok, &format!("inserting `{key}`"))?;
        }
    }
    for (reply, (key, row)) in replies[count..].iter().zip(&model.0) {
        if refused.contains(key) {
            came_to(reply, Outcome::NotFound, &format!("getting `{key}`, which was refused"))?;
        } else {
            gave(reply, &[row], &format!("getting `{key}`"))?;
        }
    }
    model.0.retain(|key, _| !refused.contains(key));
    gave(&replies[2 * count], &model.rows(), "all")
}

/// Collections whose keys are integers, bytes and timestamps.
pub(super) fn keys_of_every_type(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let keys: [(ValueType, Vec<Owned>); 3] = [
        (ValueType::Int, [0, -1, 1, i64::MIN, i64::MAX, 256].map(Owned::Int).into()),
        (
            ValueType::Bytes,
            [&b""[..], b"\0", b"\0\0", b"\0\x01", b"\xff", b"\xff\xff", b"a"].map(|b| Owned::Bytes(b.into())).into(),
        ),
        (ValueType::Timestamp, [0, -1, FIRST_US, LAST_US].map(Owned::Timestamp).into()),
    ];
    let (mut collections, mut kinds, mut script) = (Vec::new(), Vec::new(), Script::new());
    for (number, (value_type, keys)) in keys.iter().enumerate() {
        let number = number as u16;
        let field = |name: &str, value_type| Field { name: name.into(), value_type };
        collections.push(Collection {
            name: format!("keyed{number}"),
            // The key need not come first.
            fields: vec![field("name", ValueType::Text), field("id", *value_type)],
            key: 1,
            indexes: Vec::new(),
        });
        let first = kinds.len() as u16;
        kinds.push(kind(format!("insert{number}"), number, RecordsCall::Insert, vec![ValueType::Text, *value_type]));
        kinds.push(kind(format!("get{number}"), number, RecordsCall::Get, vec![*value_type]));
        kinds.push(kind(format!("all{number}"), number, RecordsCall::All, Vec::new()));
        for key in keys {
            script.op(first, [text(&format!("{key:?}")), key.value()]);
        }
        for key in keys {
            script.op(first + 1, [key.value()]);
        }
        script.op(first + 2, []);
    }
    let layout = Layout { collections, index: mode, ..Layout::default() };
    subject.store.create(&layout).map_err(|error| format!("create: {error}"))?;
    let durability = subject.durability();
    let mut replies = ask(&mut *subject.store, &kinds, durability, &script)?.into_iter();
    for (value_type, keys) in &keys {
        let rows: Vec<Row> = keys.iter().map(|key| vec![Owned::Text(format!("{key:?}").into()), key.clone()]).collect();
        for row in &rows {
            came_to(&replies.next().ok_or("too few replies")?, Outcome::Ok, &format!("inserting {row:?}"))?;
        }
        for row in &rows {
            gave(&replies.next().ok_or("too few replies")?, &[row], &format!("getting {row:?}"))?;
        }
        let all: Vec<&Row> = rows.iter().collect();
        gave(&replies.next().ok_or("too few replies")?, &all, &format!("all of {value_type:?} keys"))?;
    }
    Ok(())
}

pub(super) fn batches_are_whole(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let first = Model::random("first", 1_000, 1);
    let mut script = Script::new();
    first.insert(&mut script, 1_000);
    let mut second = Model::random("second", 5, 2);
    let taken = first.rows()[500];
    let with_taken: Vec<&Row> =
        second.rows()[..3].iter().copied().chain([taken]).chain(second.rows()[3..].iter().copied()).collect();
    script.op(INSERT, with_taken.iter().flat_map(|row| row.iter().map(Owned::value)));
    let twice: Vec<&Row> = second.rows().into_iter().chain([second.rows()[1]]).collect();
    script.op(INSERT, twice.iter().flat_map(|row| row.iter().map(Owned::value)));
    script.op(INSERT, taken.iter().map(Owned::value));
    script.op(ALL, []);
    second.insert(&mut script, 5);
    script.op(ALL, []);
    let replies = made_and_asked(subject, mode, &script)?;
    came_to(&replies[0], Outcome::Ok, "inserting 1,000 records at once")?;
    came_to(&replies[1], Outcome::Rejected, "inserting a batch of 6 with a key that is there already")?;
    came_to(&replies[2], Outcome::Rejected, "inserting a batch of 6 with one key twice")?;
    came_to(&replies[3], Outcome::Rejected, "inserting a record that is there already")?;
    if replies[1].answer.message.is_empty() {
        return Err("a refusal has no message".into());
    }
    gave(&replies[4], &first.rows(), "all, after three inserts were refused")?;
    came_to(&replies[5], Outcome::Ok, "inserting the batch without what stood in its way")?;
    second.0.extend(first.0);
    gave(&replies[6], &second.rows(), "all")
}

pub(super) fn not_found(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let model = Model::random("x", 1, 3);
    let Some((key, row)) = model.0.iter().next() else { return Ok(()) };
    let update = |script: &mut Script| {
        script.op(UPDATE, [text(key), Value::Int(1), text("new")]);
    };
    let mut script = Script::new();
    script.op(GET, [text(key)]).op(DELETE, [text(key)]);
    update(&mut script);
    script.op(ALL, []).op(find(COUNT, Access::Indexed), [Value::Null, Value::Null]);
    model.insert(&mut script, 1);
    script.op(DELETE, [text(key)]).op(GET, [text(key)]).op(DELETE, [text(key)]);
    update(&mut script);
    script.op(ALL, []).op(find(COUNT, Access::Indexed), [Value::Null, Value::Null]);
    model.insert(&mut script, 1);
    script.op(GET, [text(key)]);
    let replies = made_and_asked(subject, mode, &script)?;
    all_came_to(&replies[0..3], Outcome::NotFound, "get, delete and update in an empty store")?;
    replies[3..5].iter().try_for_each(|reply| gave(reply, &[], "all and find in an empty store"))?;
    all_came_to(&replies[5..7], Outcome::Ok, "insert and delete")?;
    all_came_to(&replies[7..10], Outcome::NotFound, "get, delete and update of a deleted record")?;
    replies[10..12].iter().try_for_each(|reply| gave(reply, &[], "all and find after the only record was deleted"))?;
    came_to(&replies[12], Outcome::Ok, "inserting a deleted record again")?;
    gave(&replies[13], &[row], "getting it")
}

pub(super) fn updates_change_their_fields(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let mut model = Model::random("u", 30, 4);
    let mut script = Script::new();
    model.insert(&mut script, 7);
    for (number, (key, row)) in model.0.iter_mut().enumerate() {
        // Every third to null, every third to what it is already.
        let (count, note) = match number % 3 {
            0 => (Owned::Null, Owned::Text("".into())),
            1 => (row[usize::from(COUNT)].clone(), Owned::Null),
            _ => (Owned::Int(-7 - number as i64), Owned::Text(format!("note {number} 'new'").into())),
        };
        script.op(UPDATE, [text(key), count.value(), note.value()]);
        (row[usize::from(COUNT)], row[usize::from(NOTE)]) = (count, note);
    }
    script.op(ALL, []);
    for access in [Access::Indexed, Access::Scan] {
        script.op(find(COUNT, access), [Value::Null, Value::Int(0)]);
    }
    let replies = made_and_asked(subject, mode, &script)?;
    let (last, written) = (replies.len() - 3, &replies[..replies.len() - 3]);
    all_came_to(written, Outcome::Ok, "inserts and updates")?;
    gave(&replies[last], &model.rows(), "all after updates")?;
    let matching = model.matching(COUNT, &Owned::Null, &Owned::Int(0));
    gave(&replies[last + 1], &matching, "the updated field by index")?;
    gave(&replies[last + 2], &matching, "the updated field by scan")
}

/// Finds by every indexed field, with bounds upon and between values, open, empty and turned round.
fn add_finds(model: &Model, seed: u64, script: &mut Script) -> Vec<(u16, Access, Owned, Owned)> {
    let mut asked = Vec::new();
    for field in INDEXED {
        let values: Vec<Owned> = model.0.values().map(|row| row[usize::from(field)].clone()).collect();
        let value = |salt| values[hash(seed, u64::from(field), salt) as usize % values.len()].clone();
        let (a, b) = (value(1), value(2));
        let bounds = [
            (Owned::Null, Owned::Null),
            (a.clone(), Owned::Null),
            (Owned::Null, a.clone()),
            (a.clone(), b.clone()),
            (b, a.clone()),
            (a.clone(), a),
        ];
        for (low, high) in bounds {
            for access in [Access::Indexed, Access::Scan] {
                script.op(find(field, access), [low.value(), high.value()]);
                asked.push((field, access, low.clone(), high.clone()));
            }
        }
    }
    asked
}

pub(super) fn finds_are_right(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let model = Model::random("f", 300, 5);
    let mut script = Script::new();
    model.insert(&mut script, 100);
    let inserts = script.len();
    let asked: Vec<_> = (0..repeats(1, 3) as u64).flat_map(|round| add_finds(&model, round, &mut script)).collect();
    let replies = made_and_asked(subject, mode, &script)?;
    all_came_to(&replies[..inserts], Outcome::Ok, "inserts")?;
    for (reply, (field, access, low, high)) in replies[inserts..].iter().zip(asked) {
        let what = format!("{:?} of {low:?} <= {} < {high:?}", access, super::things::FIELDS[usize::from(field)].0);
        gave(reply, &model.matching(field, &low, &high), &what)?;
    }
    Ok(())
}

pub(super) fn finds_stay_right(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let mut model = Model::random("s", 60, 6);
    let mut script = Script::new();
    model.insert(&mut script, 60);
    let mut expected: Vec<(usize, Vec<Row>, String)> = Vec::new();
    let keys: Vec<String> = model.0.keys().cloned().collect();
    for step in 0..repeats(60, 120) as u64 {
        let key = &keys[hash(7, step, 0) as usize % keys.len()];
        let count = Owned::Int((hash(7, step, 1) % 40) as i64 - 20);
        let there = model.0.get_mut(key);
        match (there, step % 4) {
            (Some(_), 0) => {
                script.op(DELETE, [text(key)]);
                model.0.remove(key);
            }
            (Some(row), _) => {
                script.op(UPDATE, [text(key), count.value(), Value::Null]);
                (row[usize::from(COUNT)], row[usize::from(NOTE)]) = (count, Owned::Null);
            }
            (None, _) => {
                let mut row = vec![Owned::Null; super::things::FIELDS.len()];
                (row[0], row[usize::from(COUNT)]) = (Owned::Text(key.as_str().into()), count);
                script.op(INSERT, row.iter().map(Owned::value));
                model.0.insert(key.clone(), row);
            }
        }
        let high = Owned::Int((hash(7, step, 2) % 40) as i64 - 20);
        for access in [Access::Indexed, Access::Scan] {
            let rows = model.matching(COUNT, &Owned::Null, &high).into_iter().cloned().collect();
            expected.push((script.len(), rows, format!("{access:?} of count < {high:?} after step {step}")));
            script.op(find(COUNT, access), [Value::Null, high.value()]);
        }
    }
    let replies = made_and_asked(subject, mode, &script)?;
    all_came_to(&replies, Outcome::Ok, "an operation on what is there")?;
    expected.iter().try_for_each(|(place, rows, what)| gave(&replies[*place], &rows.iter().collect::<Vec<_>>(), what))
}

pub(super) fn rows_are_counted(subject: &mut Subject<'_>, mode: IndexMode) -> Result<(), String> {
    let model = Model::random("c", 50, 8);
    let mut script = Script::new();
    model.insert(&mut script, 50);
    made_and_asked(subject, mode, &script)?;
    let mut script = Script::new();
    script.op(COUNT_ROWS, [Value::Int(0), Value::Null]);
    let replies = asked(subject, &script)?;
    came_to(&replies[0], Outcome::Ok, "a find whose rows are not kept")?;
    let expected = model.matching(COUNT, &Owned::Int(0), &Owned::Null).len() as u64;
    let counted = replies[0].answer.rows;
    if counted == expected { Ok(()) } else { Err(format!("{expected} rows expected, {counted} counted")) }
}
