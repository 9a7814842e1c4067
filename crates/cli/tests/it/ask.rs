//! Questions about recordings: `explain`, `ask`, and a client of the Model Context Protocol.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::bench::{Guarded, Place, result};

/// A client of `plimsoll mcp`.
struct Client {
    program: Guarded,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Client {
    /// Starts the server, and introduces itself.
    fn start(place: &Place) -> Self {
        let mut child = place.command(&["mcp"]).stdin(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Client { program: Guarded(child), input, output, id: 0 };
        let about = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        let welcome = client.ask("initialize", &about);
        assert_eq!(welcome["result"]["protocolVersion"], "2025-06-18", "{welcome}");
        writeln!(client.input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
        client
    }

    /// Sends a request, and returns the next message.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        writeln!(self.input, "{request}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).expect(&line);
        assert_eq!(answer["id"], self.id, "{answer}");
        answer
    }

    /// Calls a tool, and returns its text and true if it is an error.
    fn call(&mut self, tool: &str, arguments: &Value) -> (String, bool) {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        assert_eq!(result["content"][0]["type"], "text", "{answer}");
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"].as_bool().unwrap())
    }

    /// Returns the answer of a tool.
    #[track_caller]
    fn tool(&mut self, tool: &str, arguments: &Value) -> Value {
        let (text, is_error) = self.call(tool, arguments);
        assert!(!is_error, "{tool}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Closes the input, and expects the end of the server.
    fn end(mut self) {
        drop(self.input);
        assert_eq!(self.program.0.wait().unwrap().code(), Some(0));
    }
}

const DRIVE: &str = "drive kv --set records=500 --mix read=3,update=1 --clients 4 --slice 200ms \
                     --durability as-configured --goal p50=20s -q";

/// Returns the time of the largest value of a panel's line.
fn time_of_largest(panel: &Value, line: &str) -> f64 {
    let line = panel["lines"].as_array().unwrap().iter().find(|one| one["name"] == line).unwrap();
    let values = line["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap_or(0.0));
    let (at, _) = values.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    panel["t_s"][at].as_f64().unwrap()
}

#[test]
fn ten_questions_about_a_recording_are_answered_by_the_protocol_alone() {
    let place = Place::new();
    let fault = "pause all at 1500ms for 1200ms".replace(' ', "\u{a0}");
    place.line(&format!("{DRIVE} --think 500us --on postgres --for 4s --fault {fault}")).expect(0);
    let report = place.report();
    let driven = place.driven();
    let mut client = Client::start(&place);
    let tools = client.ask("tools/list", &json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    let is_described = |tool: &Value| tool["inputSchema"]["type"] == "object" && tool["description"].is_string();
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true && is_described(tool)), "{tools:?}");

    // Which runs are there?
    let listed = client.tool("list", &json!({}));
    assert_eq!(listed["runs"][0]["id"], report["run"]["id"]);
    // Which store was it, in which version?
    let described = client.tool("describe", &json!({ "run": "latest" }));
    assert_eq!(described["stores"], report["stores"]);
    assert_eq!(described["trials"][0]["version"], report["trials"][0]["version"]);
    // How many operations?
    let mut figure = |name: &str| client.tool("figures", &json!({ "names": [name] }))["figures"][0].clone();
    assert_eq!(figure("drive.ops")["value"].as_f64().unwrap(), result(&driven, "ops"));
    // How many a second?
    let rate = figure("drive.rate");
    assert_eq!((&rate["value"], &rate["unit"]), (&driven["ops"]["rate_per_s"], &json!("1/s")));
    // What is the p99 of reads?
    let p99 = figure("drive.p99[op=read]")["value"].as_f64().map(|seconds| (seconds * 1e9).round() as u64);
    let rows = driven["latencies"].as_array().unwrap();
    let reads = rows.iter().find(|row| row["op"] == "read" && row["outcome"] == "ok").unwrap();
    let of_report = reads["percentiles"].as_array().unwrap().iter().find(|one| one["name"] == "p99").unwrap();
    assert_eq!(p99, of_report["ns"].as_u64());
    // Did the goals hold?
    assert_eq!((&described["goals"], &described["goals"][0]["state"]), (&report["goals"], &json!("held")));
    // Was anything lost?
    assert_eq!(described["summary"][0]["lost"], report["summary"][0]["lost"]);
    assert_eq!(described["trials"][0]["ledgers"][0]["lost"], 0);
    // When was the worst second?
    let latency = client.tool("series", &json!({ "names": ["latency"] }));
    let worst_s = time_of_largest(&latency["panels"][0], "max");
    assert_eq!(worst_s, time_of_largest(&report["plots"]["latency"][0], "max"));
    // Which fault was it, and how long was nothing answered?
    assert_eq!(client.tool("findings", &json!({}))["findings"], report["findings"]);
    let faults = client.tool("faults", &json!({}));
    let (fault, of_report) = (&faults["faults"][0], &report["faults"][0]);
    assert_eq!((&fault["name"], &fault["outage_s"]), (&of_report["name"], &of_report["outage_s"]));
    assert!(fault["outage_s"].as_f64().unwrap() > 0.4, "{fault}");
    // What differs when operations are slow?
    let explained = client.tool("explain", &json!({ "above": "300ms" }));
    let name = fault["name"].as_str().unwrap();
    let acts = explained["acts"].as_array().unwrap();
    assert!(acts.iter().any(|act| act.as_str().unwrap().starts_with(name)), "{explained}");
    assert!(explained["selected"].as_u64().unwrap() >= 1, "{explained}");
    assert!(explained["to_s"].as_f64().unwrap() >= worst_s, "{explained}");
    client.end();

    place.line("explain latest --above 300ms").expect(0).says("At the same time … Differences").says(name);
}

#[test]
fn questions_are_answered_in_json_under_the_names_of_the_report() {
    let place = Place::new();
    for _ in 0..2 {
        place.line(&format!("{DRIVE} --think 2ms --on sqlite --for 2s")).expect(0);
    }
    let report = place.report();
    let answer = |question: &str| place.line(&format!("ask {question} --json")).expect(0).last_json();
    assert_eq!(answer("list")["runs"].as_array().unwrap().len(), 2);
    let described = answer("describe");
    for field in ["run", "verdict", "goals", "stores", "warnings", "environment"] {
        assert_eq!(described[field], report[field], "{field}");
    }
    assert!(described["trials"][0]["phases"][0]["latencies"].is_null(), "{described}");
    let figures = answer("latest figures rate drive.p50");
    let figures = figures["figures"].as_array().unwrap();
    let names: Vec<&str> = figures.iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"drive.rate") && names.contains(&"drive.p50[op=update]"), "{names:?}");
    assert!(!names.contains(&"drive.p99"), "{names:?}");
    assert_eq!(answer("latest events")["events"], report["events"]);
    let panel = &answer("latest series")["panels"][0];
    assert!(panel["name"] == "Throughput" && panel["t_s"].is_null(), "{panel}");
    assert!(panel["lines"][0]["median"].is_number(), "{panel}");
    let first = place.all_runs()[0].file_name().unwrap().to_str().unwrap().to_owned();
    let compared = answer(&format!("{first} compare latest"));
    assert_eq!(compared["b"]["id"], report["run"]["id"]);
    // A part of the drive is beside the rest of it.
    let drive = place.driven();
    let from_s = drive["start_s"].as_f64().unwrap();
    let part = format!("--from {:.3}s --to {:.3}s", from_s, from_s + 1.0);
    let explained = answer(&format!("latest explain {part}"));
    let counts = ["selected", "others"].map(|name| explained[name].as_u64().unwrap());
    assert!(counts.iter().all(|count| *count > 0), "{explained}");
    let same = place.line(&format!("explain latest {part} --json")).expect(0).out;
    assert_eq!(serde_json::from_str::<Value>(&same).unwrap(), explained);
}

#[test]
fn a_question_that_cannot_be_answered_is_refused_with_the_next_step() {
    let place = Place::new();
    place.line("explain latest").expect(10).says("there is no run");
    place.line("ask latest describe").expect(10).says("there is no run");
    place.line("ask list").expect(0).says("\"runs\": []");
    place.line(&format!("{DRIVE} --think 2ms --on sqlite --for 1s")).expect(0);
    place.line("explain 19990101").expect(10).says("there is no run … plimsoll runs");
    place.refuses(&[
        ("explain latest --from 00:20 --to 00:10", "20.0 s to 10.0 s does not begin before it ends … from 0 s to"),
        ("explain latest --from 10:00", "600 s is after the end of the run … choose times of the run's clock"),
        ("explain latest --from soon", "--from soon"),
        ("explain latest --from 1:75", "--from 1:75 is no time … 00:30, 01:00:30 or 30s"),
        ("explain latest --from -5s", "--from -5s"),
        ("explain latest --above 20", "--above 20: needs a unit: \"20ms\" or \"20s\""),
        ("explain latest --from -1", "`-1` is not a time … write a number and a unit"),
        ("explain latest --from 1,5s", "`,5s` is not a unit of time"),
        ("ask latest figures nothing", "has no figure nothing … it has: … rate"),
        ("ask latest series nothing", "there are no series nothing … → panels of series are: … 'Latency'"),
        ("ask latest compare latest", "both are the same run"),
        ("ask latest explain --from 00:20 --to 00:10", "does not begin before it ends"),
        (
            "ask latest",
            "`plimsoll ask latest`: a word is missing … → `plimsoll ask` takes one of: list, describe, figures",
        ),
        ("ask why", "`plimsoll ask why`: a word is missing … for example: plimsoll ask latest figures"),
        ("ask latest why", "unknown word 'why' … → `plimsoll ask` takes one of: list, describe"),
        ("runs why", "unknown word 'why' … → `plimsoll runs` takes one of: list, show, remove"),
    ]);
    let mut client = Client::start(&place);
    for (tool, arguments, words) in [
        ("describe", json!({ "run": "nothing" }), "the tool `list` lists what there is"),
        ("explain", json!({ "from": "00:20", "to": "00:10" }), "→ choose times of the run's clock"),
        ("figures", json!({ "names": ["nothing"] }), "→ it has: "),
        ("compare", json!({ "other": "latest" }), "→ name two"),
    ] {
        let (text, is_error) = client.call(tool, &arguments);
        assert!(is_error && text.contains(words), "{tool}: {text}");
    }
    let unknown = client.ask("tools/call", &json!({ "name": "remove", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], -32_602, "{unknown}");
    // After all of these it still answers.
    assert!(client.ask("ping", &json!({}))["result"].is_object());
    client.end();
}
