//! Requests. What a server has is its own; that something stands at `/` is all that is presumed.

use plimsoll_core::{Call, HttpCall, KindId, OpKind, Outcome, Value, ValueType};

use super::Subject;
use crate::ask::{Reply, Script, ask};

const GET: KindId = 0;
const LOOK: KindId = 1;
const HEAD: KindId = 2;
/// Path that no server has.
const NOWHERE: &str = "/plimsoll conformance/no such path";

fn kinds() -> Vec<OpKind> {
    let kind = |name: &str, method: &str, keep_answer| OpKind {
        name: name.into(),
        call: Call::Http(HttpCall { method: method.into(), ..HttpCall::get("{}") }),
        params: vec![ValueType::Text],
        keep_answer,
        step_of: None,
    };
    vec![kind("get", "GET", true), kind("look", "GET", false), kind("head", "HEAD", true)]
}

/// Status and body of a kept answer.
fn kept(reply: &Reply) -> Option<(i64, &[u8])> {
    let values = reply.answer.values.values();
    if (reply.answer.rows, reply.answer.columns, values.len()) != (1, 2, 2) {
        return None;
    }
    match (values.get(0), values.get(1)) {
        (Value::Int(status), Value::Bytes(body)) => Some((status, body)),
        _ => None,
    }
}

/// Bodies are kept whole where they are wanted, dropped where not, and absent where HEAD asked; what is not there is
/// rejected, and the next request on the same connection is answered as the first was.
pub(super) fn requests(subject: &mut Subject<'_>) -> Result<(), String> {
    let mut script = Script::new();
    let asked = [(GET, "/"), (HEAD, "/"), (LOOK, "/"), (GET, NOWHERE), (HEAD, NOWHERE), (LOOK, NOWHERE), (GET, "/")];
    for (kind, path) in asked {
        script.op(kind, [Value::Text(path)]);
    }
    let durability = subject.durability();
    let replies = ask(&mut *subject.store, &kinds(), durability, &script)?;
    let wrong = |at: usize, what: &str| Err(format!("request {at} ({:?}): {what}: {:?}", asked[at], replies[at]));
    for (at, (_, path)) in asked.iter().enumerate() {
        let expected = if *path == NOWHERE { Outcome::Rejected } else { Outcome::Ok };
        if replies[at].outcome != expected {
            return wrong(at, &format!("it came to {}", replies[at].outcome.name()));
        }
    }
    match (kept(&replies[0]), kept(&replies[1]), kept(&replies[6])) {
        (Some((200, first)), Some((200, [])), Some((200, last))) if !first.is_empty() && first == last => {}
        _ => return wrong(0, "what was kept of it, of the same by HEAD, and of it again are not the same page"),
    }
    if !replies[2].answer.values.is_empty() || replies[2].answer.rows != 1 {
        return wrong(2, "it kept what was not wanted");
    }
    Ok(())
}
