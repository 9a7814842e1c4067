//! `plimsoll mcp`: a server of the Model Context Protocol on standard input and output.
//!
//! Messages are JSON-RPC 2.0, one a line (<https://modelcontextprotocol.io/specification/2025-11-25>). The server only
//! has tools: see `tools`. It keeps no state between messages.

mod tools;

use std::collections::BTreeMap;
use std::io::{BufRead, ErrorKind, Read, Write};

use plimsoll_core::shown::short;
use plimsoll_trial::{TrialError, io_error};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::exit;

/// Versions of the protocol, the newest first. They do not differ in what this server uses.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Longest line that is read.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Most messages of a batch.
const BATCH_MAX: usize = 100;
/// Advice for programs that use the tools.
const INSTRUCTIONS: &str = "Plimsoll measures data stores under load and keeps each run in a recording. Begin with \
    `list` and `describe`. `figures` has every number with its unit and n; `faults` has outages; `explain` compares a \
    time, or the slow operations, with the rest. All times of a run are on its own clock.";

/// Id of an answer to a message without a valid one.
const NO_ID: &str = "null";
/// Code of a line that is not JSON.
const PARSE_ERROR: i64 = -32_700;
/// Code of a message that is not a request.
const INVALID_REQUEST: i64 = -32_600;
/// Code of an unknown method.
const METHOD_NOT_FOUND: i64 = -32_601;
/// Code of parameters that the method does not take, and of an unknown tool.
const INVALID_PARAMS: i64 = -32_602;

/// Runs a tool with its arguments: the answer, or an error for the user of the tool. `None` if there is no such tool.
type Call<'c> = dyn Fn(&str, Map<String, Value>) -> Option<Result<String, String>> + 'c;

/// Answers messages until the input ends, or the client closes the output.
pub fn run() -> Result<u8, TrialError> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    serve(&mut input, &mut output, &tools::call)
}

fn serve(input: &mut impl BufRead, output: &mut impl Write, call: &Call<'_>) -> Result<u8, TrialError> {
    let failed = |error: std::io::Error| io_error("standard input", &error);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        if input.by_ref().take(limit).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(exit::OK);
        }
        let answer = if line.len() > LINE_BYTES_MAX {
            if line.last() != Some(&b'\n') {
                input.skip_until(b'\n').map_err(failed)?;
            }
            Some(failure(NO_ID, INVALID_REQUEST, &format!("a line has {LINE_BYTES_MAX} bytes at most")))
        } else {
            reply(&line, call)
        };
        let Some(answer) = answer else { continue };
        match writeln!(output, "{answer}").and_then(|()| output.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(exit::OK),
            written => written.map_err(|error| io_error("standard output", &error))?,
        }
    }
}

/// Returns the answer to a line; `None` if it needs none.
fn reply(line: &[u8], call: &Call<'_>) -> Option<String> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let text = match serde_json::from_slice::<&RawValue>(line) {
        Ok(raw) => raw.get(),
        Err(error) => return Some(failure(NO_ID, PARSE_ERROR, &format!("the line is not JSON: {error}"))),
    };
    if !text.starts_with('[') {
        return message(text, call);
    }
    let batch: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    if batch.is_empty() || batch.len() > BATCH_MAX {
        return Some(failure(NO_ID, INVALID_REQUEST, &format!("a batch has 1 to {BATCH_MAX} messages")));
    }
    let replies: Vec<String> = batch.into_iter().filter_map(|one| message(one.get(), call)).collect();
    (!replies.is_empty()).then(|| format!("[{}]", replies.join(",")))
}

/// Returns the answer to a message; `None` for notifications, and for answers, which this server never asks for.
fn message(text: &str, call: &Call<'_>) -> Option<String> {
    let Ok(message) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else {
        return Some(failure(NO_ID, INVALID_REQUEST, "a message is an object"));
    };
    let member = |name: &str| message.get(name).map(|raw| raw.get());
    let string = |name: &str| member(name).and_then(|text| serde_json::from_str::<String>(text).ok());
    let is_answer = member("result").is_some() || member("error").is_some();
    let is_current = string("jsonrpc").is_some_and(|version| version == "2.0");
    if member("method").is_none() && is_answer {
        return None;
    }
    let (method, id) = match (string("method"), member("id")) {
        (Some(_), None) => return None,
        (Some(method), Some(id)) if is_current && is_id(id) => (method, id),
        (_, id) => {
            let id = id.filter(|id| is_id(id)).unwrap_or(NO_ID);
            let what = "a request has \"jsonrpc\": \"2.0\", a method, and an id that is a string or an integer";
            return Some(failure(id, INVALID_REQUEST, what));
        }
    };
    let params = match member("params") {
        None => Ok(Map::new()),
        Some(params) => serde_json::from_str::<Map<String, Value>>(params)
            .map_err(|_| (INVALID_PARAMS, "params is not an object, or cannot be read".to_owned())),
    };
    Some(match params.and_then(|params| request(&method, params, call)) {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err((code, what)) => failure(id, code, &what),
    })
}

/// Returns true if `id`, as JSON, is a string or an integer of any size. Answers have it as it was received.
fn is_id(id: &str) -> bool {
    let digits = id.strip_prefix('-').unwrap_or(id);
    serde_json::from_str::<String>(id).is_ok() || digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the result of a request, or the code and the description of its error.
fn request(method: &str, mut params: Map<String, Value>, call: &Call<'_>) -> Result<Value, (i64, String)> {
    let invalid = |what: String| (INVALID_PARAMS, what);
    match method {
        "initialize" => {
            let wanted = params.get("protocolVersion").and_then(Value::as_str);
            let wanted = wanted.ok_or_else(|| invalid("protocolVersion is missing, or no string".to_owned()))?;
            let [newest, ..] = VERSIONS;
            let version = VERSIONS.into_iter().find(|version| *version == wanted).unwrap_or(newest);
            Ok(json!({
                "protocolVersion": version,
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "plimsoll", "version": env!("CARGO_PKG_VERSION") },
                "instructions": INSTRUCTIONS,
            }))
        }
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": tools::list() })),
        "tools/call" => {
            let Some(Value::String(name)) = params.remove("name") else {
                return Err(invalid("name is missing, or no string".to_owned()));
            };
            let arguments = match params.remove("arguments") {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(arguments)) => arguments,
                Some(_) => return Err(invalid("arguments is an object".to_owned())),
            };
            let answer = call(&name, arguments).ok_or_else(|| invalid(format!("unknown tool: {}", short(&name))))?;
            let is_error = answer.is_err();
            let text = answer.unwrap_or_else(|what| what);
            Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
        }
        _ => Err((METHOD_NOT_FOUND, format!("unknown method: {}", short(method)))),
    }
}

fn failure(id: &str, code: i64, what: &str) -> String {
    let error = json!({ "code": code, "message": what });
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::random::SplitMix;

    use super::*;

    fn toy(name: &str, arguments: Map<String, Value>) -> Option<Result<String, String>> {
        match name {
            "echo" => Some(Ok(Value::Object(arguments).to_string())),
            "refuse" => Some(Err("refused\n  → ask again".to_owned())),
            _ => None,
        }
    }

    #[track_caller]
    fn answer(line: &str) -> Value {
        serde_json::from_str(&reply(line.as_bytes(), &toy).unwrap()).unwrap()
    }

    fn ask(method: &str, params: &str) -> Value {
        answer(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#))
    }

    #[test]
    fn a_client_gets_its_own_version_if_it_is_known_and_else_the_newest() {
        let versions = [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")];
        for (wanted, got) in versions {
            let params = format!(r#"{{"protocolVersion":"{wanted}","capabilities":{{}}}}"#);
            let result = &ask("initialize", &params)["result"];
            assert_eq!(result["protocolVersion"], got);
            assert!(result["capabilities"]["tools"].is_object() && result["serverInfo"]["name"] == "plimsoll");
        }
        assert_eq!(ask("initialize", "{}")["error"]["code"], INVALID_PARAMS);
    }

    #[test]
    fn an_answer_has_the_id_of_its_request_and_notifications_have_none() {
        let pong = answer(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#);
        assert_eq!(pong, json!({"jsonrpc": "2.0", "id": "a", "result": {}}));
        for silent in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}"#,
            r#"{"jsonrpc":"2.0","id":3,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":""}}"#,
            "  \r\n",
        ] {
            assert_eq!(reply(silent.as_bytes(), &toy), None, "{silent}");
        }
        let batch = answer(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},7]"#);
        assert_eq!((batch[0]["id"].clone(), batch[1]["error"]["code"].clone()), (json!(1), json!(INVALID_REQUEST)));
        assert_eq!(batch.as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn an_id_is_sent_back_digit_by_digit() {
        for id in ["123456789012345678901234567890", "-18446744073709551616", "0", r#""\u00e9 \"b\"""#] {
            let pong = reply(format!(r#"{{"jsonrpc":"2.0", "id" : {id} ,"method":"ping"}}"#).as_bytes(), &toy);
            assert_eq!(pong, Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)));
            let refused = reply(format!(r#"[{{"jsonrpc":"2.0","id":{id},"method":7}}]"#).as_bytes(), &toy).unwrap();
            assert!(refused.starts_with(&format!(r#"[{{"jsonrpc":"2.0","id":{id},"error":{{"#)), "{refused}");
        }
    }

    #[test]
    fn each_wrong_message_has_its_code() {
        for (line, code) in [
            ("{", PARSE_ERROR),
            ("\u{feff}{}", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            ("null", INVALID_REQUEST),
            ("{}", INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, METHOD_NOT_FOUND),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, INVALID_PARAMS),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, INVALID_PARAMS),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}"#, INVALID_PARAMS),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":1}}"#, -32_602),
        ] {
            assert_eq!(answer(line)["error"]["code"], code, "{line}");
        }
        let unknown = ask(&"x".repeat(100_000), "{}");
        assert!(unknown["error"]["message"].as_str().unwrap().len() < 2_000);
        assert_eq!(answer(&"[".repeat(100_000))["error"]["code"], PARSE_ERROR, "cut off");
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
        assert_eq!(ask("ping", &deep)["error"]["code"], INVALID_PARAMS, "nested too deeply");
    }

    #[test]
    fn a_tool_answers_with_text_and_its_errors_are_told_to_its_user() {
        let echoed = &ask("tools/call", r#"{"name":"echo","arguments":{"a":1}}"#)["result"];
        assert_eq!(*echoed, json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "isError": false}));
        let refused = &ask("tools/call", r#"{"name":"refuse"}"#)["result"];
        assert!(refused["isError"] == true && refused["content"][0]["text"].as_str().unwrap().contains("→ ask again"));
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_is_answered() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let input = format!("{}\n{ping}\n{}{ping}\n{ping}", "x".repeat(3 << 20), " ".repeat(LINE_BYTES_MAX));
        let mut output = Vec::new();
        assert_eq!(serve(&mut input.as_bytes(), &mut output, &toy).unwrap(), exit::OK);
        let text = String::from_utf8(output).unwrap();
        let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let codes: Vec<&Value> = answers.iter().map(|answer| &answer["error"]["code"]).collect();
        assert_eq!(codes, [&json!(INVALID_REQUEST), &Value::Null, &json!(INVALID_REQUEST), &Value::Null]);
    }

    #[test]
    fn garbage_never_panics_and_is_answered_by_one_message_at_most() {
        let mut dice = SplitMix::new(27);
        let good = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"run":"x"}}}"#;
        let pieces = ["{", "}", "[", "]", "\"", ":", ",", "null", "1e999", "\\u", "\u{0}", "id", "method", "\u{ff}"];
        for _ in 0..20_000 {
            let mut line = good.as_bytes().to_vec();
            for _ in 0..=dice.below(6) {
                let at = dice.below(line.len());
                let piece = pieces[dice.below(pieces.len())].as_bytes();
                match dice.below(4) {
                    0 => line[at] = dice.below(256) as u8,
                    1 => drop(line.splice(at..at, piece.iter().copied())),
                    2 => line.truncate(at.max(1)),
                    _ => {
                        line.remove(at);
                    }
                }
                if line.is_empty() {
                    line.push(b'{');
                }
            }
            if let Some(answer) = reply(&line, &toy) {
                let answer: Value = serde_json::from_str(&answer).unwrap();
                let first = answer.get(0).unwrap_or(&answer);
                assert_eq!(first["jsonrpc"], "2.0", "{}", String::from_utf8_lossy(&line));
            }
        }
    }
}
