//! Operations on a directory: people below the `ou=People` that every directory has when it has been made.

use plimsoll_core::{
    Call, KindId, Layout, LdapCall, LdapChange, LdapChangeKind, LdapScope, OpKind, Outcome, Value, ValueType,
};

use super::Subject;
use super::life::outlives;
use crate::ask::{Reply, Script, ask};

const ADD: KindId = 0;
const SEARCH: KindId = 1;
const LOOK: KindId = 2;
const BELOW: KindId = 3;
const COMPARE: KindId = 4;
const REPLACE: KindId = 5;
const REMOVE: KindId = 6;
const DELETE: KindId = 7;

/// Names of people that mean something in DNs and filters.
const NAMES: [&str; 5] = ["plain", " a, b+c=\"d\"; #e ", "*(star)\\", "Käse 漢", "#hash"];

fn kinds() -> Vec<OpKind> {
    let text = ValueType::Text;
    let kind = |name: &str, call, params: &[ValueType], keep_answer| OpKind {
        name: name.into(),
        call: Call::Ldap(call),
        params: params.to_vec(),
        keep_answer,
        step_of: None,
    };
    let dn = || "cn={},ou=People".to_owned();
    let pairs = |all: &[(&str, &str)]| all.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let attributes = || vec!["cn".to_owned(), "SN".to_owned(), "description".to_owned()];
    let search = |base: String, scope, filter: &str| LdapCall::Search {
        base,
        scope,
        filter: filter.into(),
        attributes: attributes(),
    };
    let change = |how, value: Option<&str>| LdapCall::Modify {
        dn: dn(),
        changes: vec![LdapChange { how, attribute: "description".into(), value: value.map(str::to_owned) }],
    };
    let entry = pairs(&[("objectClass", "person"), ("cn", "{}"), ("sn", "{}"), ("description", "first")]);
    let people = || "ou=People".to_owned();
    vec![
        kind("add", LdapCall::Add { dn: dn(), attributes: entry }, &[text, text, text], true),
        kind("search", search(dn(), LdapScope::Base, "(objectClass=*)"), &[text], true),
        kind("look", search(dn(), LdapScope::Base, "(objectClass=*)"), &[text], false),
        kind(
            "below",
            search(people(), LdapScope::One, "(&(objectClass=person)(|(cn={})(sn={})))"),
            &[text, text],
            true,
        ),
        kind(
            "compare",
            LdapCall::Compare { dn: dn(), attribute: "sn".into(), value: "{}".into() },
            &[text, text],
            true,
        ),
        kind("replace", change(LdapChangeKind::Replace, Some("{}")), &[text, text], true),
        kind("remove", change(LdapChangeKind::Delete, None), &[text], true),
        kind("delete", LdapCall::Delete { dn: dn() }, &[text], true),
    ]
}

fn asked(subject: &mut Subject<'_>, script: &Script) -> Result<Vec<Reply>, String> {
    let durability = subject.durability();
    ask(&mut *subject.store, &kinds(), durability, script)
}

fn made(subject: &mut Subject<'_>) -> Result<(), String> {
    subject.store.create(&Layout::default()).map_err(|error| format!("making it: {error}"))
}

/// The values behind the DN of the only entry of an answer, as texts; nothing for null.
fn only(reply: &Reply) -> Option<Vec<Option<String>>> {
    if (reply.answer.rows, reply.answer.columns) != (1, 4) {
        return None;
    }
    let text = |value: Value<'_>| match value {
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    let mut row = reply.answer.row_iter().next()?.iter();
    matches!(row.next(), Some(Value::Text(_))).then(|| row.map(text).collect())
}

fn entry(name: &str, surname: &str, description: Option<&str>) -> Option<Vec<Option<String>>> {
    Some(vec![Some(name.to_owned()), Some(surname.to_owned()), description.map(str::to_owned)])
}

/// Checks that every operation type has its effect, whatever the names, and reports its outcome.
pub(super) fn operations(subject: &mut Subject<'_>) -> Result<(), String> {
    made(subject)?;
    for name in NAMES {
        let surname = format!("of {name}");
        // A directory's strings do not begin and end with spaces.
        let (shown, text, other) = (name, Value::Text(name), Value::Text(&surname));
        let mut script = Script::new();
        script.op(SEARCH, [text]).op(ADD, [text, text, other]).op(ADD, [text, text, other]).op(SEARCH, [text]);
        script.op(LOOK, [text]).op(BELOW, [text, Value::Text("nobody")]);
        script.op(COMPARE, [text, other]).op(COMPARE, [text, Value::Text("another")]);
        script.op(REPLACE, [text, Value::Text("second (*)")]).op(SEARCH, [text]);
        script.op(REMOVE, [text]).op(SEARCH, [text]).op(REMOVE, [text]);
        script.op(DELETE, [text]).op(DELETE, [text]).op(COMPARE, [text, other]).op(REPLACE, [text, other]);
        script.op(BELOW, [text, other]);
        let replies = asked(subject, &script)?;
        use Outcome::{NotFound, Ok as Done, Rejected};
        let outcomes = [
            NotFound, Done, Rejected, Done, Done, Done, Done, Done, Done, Done, Done, Done, Rejected, Done, NotFound,
            NotFound, NotFound, NotFound,
        ];
        for (at, (reply, outcome)) in replies.iter().zip(outcomes).enumerate() {
            if reply.outcome != outcome {
                return Err(format!("`{shown}`, operation {at} should come to {}: {reply:?}", outcome.name()));
            }
        }
        let wrong = |at: usize| Err(format!("`{shown}`, operation {at} has another answer: {:?}", replies[at]));
        let expected = [
            (3, entry(name, &surname, Some("first"))),
            (5, entry(name, &surname, Some("first"))),
            (9, entry(name, &surname, Some("second (*)"))),
            (11, entry(name, &surname, None)),
        ];
        for (at, expected) in expected {
            if only(&replies[at]) != expected {
                return wrong(at);
            }
        }
        let truth = |at: usize| replies[at].answer.values.values().get(0);
        if (truth(6), truth(7)) != (Value::Bool(true), Value::Bool(false)) {
            return wrong(7);
        }
        if !replies[4].answer.values.is_empty() || replies[4].answer.rows != 1 {
            return wrong(4);
        }
        if replies[2].answer.code != "entryAlreadyExists" || replies[17].answer.rows != 0 {
            return wrong(17);
        }
    }
    Ok(())
}

/// Adds people, and says how many of them there are.
fn filled(subject: &mut Subject<'_>, count: usize) -> Result<(), String> {
    made(subject)?;
    let mut script = Script::new();
    for number in 0..count {
        let name = format!("person {number}");
        script.op(ADD, [Value::Text(&name), Value::Text(&name), Value::Text("everybody")]);
    }
    let replies = asked(subject, &script)?;
    match replies.iter().find(|reply| reply.outcome != Outcome::Ok) {
        Some(reply) => Err(format!("an add came to {reply:?}")),
        None => Ok(()),
    }
}

fn holds(subject: &mut Subject<'_>, count: u64, when: &str) -> Result<(), String> {
    let mut script = Script::new();
    script.op(BELOW, [Value::Text("nobody"), Value::Text("everybody")]);
    let replies = asked(subject, &script)?;
    match replies[0].answer.rows {
        rows if rows == count => Ok(()),
        rows => Err(format!("{rows} of {count} entries are there {when}: {:?}", replies[0].outcome)),
    }
}

pub(super) fn made_again_is_empty(subject: &mut Subject<'_>) -> Result<(), String> {
    filled(subject, 120)?;
    holds(subject, 120, "after they were added")?;
    made(subject)?;
    holds(subject, 0, "in a directory that was made again")
}

pub(super) fn data_outlives(subject: &mut Subject<'_>) -> Result<(), String> {
    filled(subject, 40)?;
    outlives(subject, |subject, when| holds(subject, 40, when))
}
