//! The load line of a server whose capacity is known, with real clocks: `trial` tries searches on simulated time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use plimsoll_record::data::{About, ResultName, Run};
use serde_json::Value;

use crate::bench::{Guarded, Place, Ran, listener, wait_for};

/// GETs a second that the server answers, however it is asked. Few, so that neither the server nor the generator is
/// ever the machine's business.
const CAPACITY_PER_S: f64 = 200.0;

/// Time that the server makes up for: what came late because a thread was kept off its processor costs no capacity.
const CREDIT: Duration = Duration::from_millis(25);

/// Longest time that a GET waits; one that would wait longer is refused at once.
const LONGEST_WAIT: Duration = Duration::from_millis(25);

/// Precision that is asked for, in per cent, and the largest distance of a rate on the wrong side of the true line.
const PRECISION: f64 = 50.0;
const TOLERANCE: f64 = 0.02;

/// Searches in all: whatever else runs on the machine may make the generator late, which voids rungs.
const SEARCHES: u32 = 4;
/// Longest time of the first search, which needs some ten load steps of two seconds; each further one may take half as
/// long again, if the machine is that noisy.
const BUDGET_S: f64 = 40.0;

/// Starts a virtual server behind a port that speaks as much of Redis' protocol as Plimsoll needs, and returns its URL. Its
/// time is kept by the clock: a GET departs one service time after it arrived (less [`CREDIT`]) or after the GET before it
/// departed, whatever is later, and is answered then. So it answers exactly [`CAPACITY_PER_S`] when there is more to do,
/// however late its threads wake up.
fn server() -> String {
    let free_at = Mutex::new(Instant::now());
    format!("redis://127.0.0.1:{}", listener(move |stream| serve(stream, &free_at)))
}

/// Answers one connection until it is closed.
fn serve(mut stream: TcpStream, free_at: &Mutex<Instant>) {
    stream.set_nodelay(true).unwrap();
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        while let Some(words) = command(&mut bytes) {
            if stream.write_all(&answer(&words, free_at)).is_err() {
                return;
            }
        }
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return,
            Ok(n) => bytes.extend_from_slice(&part[..n]),
        }
    }
}

/// Takes the first command off `bytes` when all of it is there: an array of strings, as clients send them.
fn command(bytes: &mut Vec<u8>) -> Option<Vec<String>> {
    let mut at = 0;
    let number = |at: &mut usize| -> Option<usize> {
        let end = *at + bytes.get(*at..)?.windows(2).position(|two| two == b"\r\n")?;
        let number = std::str::from_utf8(&bytes[*at + 1..end]).unwrap().parse().unwrap();
        *at = end + 2;
        Some(number)
    };
    let mut words = Vec::new();
    for _ in 0..number(&mut at)? {
        let length = number(&mut at)?;
        words.push(String::from_utf8_lossy(bytes.get(at..at + length)?).into_owned());
        bytes.get(at + length..at + length + 2)?;
        at += length + 2;
    }
    bytes.drain(..at);
    Some(words)
}

fn answer(words: &[String], free_at: &Mutex<Instant>) -> Vec<u8> {
    let string = |text: &str| format!("${}\r\n{text}\r\n", text.len()).into_bytes();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["GET", _] => match served(free_at) {
            true => string("a value"),
            false => b"-ERR there is too much to do\r\n".to_vec(),
        },
        ["INFO"] => string("redis_version:7.0.15\r\nrole:master\r\nused_memory:1000000\r\n"),
        // Every write would be synced, if there were one.
        ["CONFIG", "GET", name @ ("appendonly" | "appendfsync" | "no-appendfsync-on-rewrite")] => {
            let value = match *name {
                "appendonly" => "yes",
                "appendfsync" => "always",
                _ => "no",
            };
            [b"*2\r\n".to_vec(), string(name), string(value)].concat()
        }
        ["CONFIG", "GET", _] | ["SMEMBERS", _] => b"*0\r\n".to_vec(),
        ["SCAN", ..] => b"*2\r\n$1\r\n0\r\n*0\r\n".to_vec(),
        ["SADD" | "SREM", ..] => b":1\r\n".to_vec(),
        ["PING"] => b"+PONG\r\n".to_vec(),
        ["CLIENT", ..] => b"+OK\r\n".to_vec(),
        [other, ..] => format!("-ERR unknown command '{other}'\r\n").into_bytes(),
        [] => b"-ERR empty command\r\n".to_vec(),
    }
}

/// Waits as long as a GET takes that arrives now; false at once when it is refused.
fn served(free_at: &Mutex<Instant>) -> bool {
    let arrived = Instant::now();
    let departs = {
        let mut free_at = free_at.lock().unwrap();
        let waits = free_at.saturating_duration_since(arrived);
        let service = Duration::from_secs_f64(1.0 / CAPACITY_PER_S);
        if waits > LONGEST_WAIT {
            return false;
        }
        *free_at = free_at.max(arrived - CREDIT) + service;
        *free_at
    };
    std::thread::sleep(departs.saturating_duration_since(Instant::now()));
    true
}

/// Result of a search.
struct Found {
    ran: Ran,
    /// The view's `line.result`.
    result: Value,
}

/// Searches for the server's line until the machine lets a search decide. What is stated must be right in each.
fn search(goals: &[&str], true_per_s: f64) -> Found {
    let mut said = String::new();
    for search in 0..SEARCHES {
        let budget = format!("{:.0}s", BUDGET_S * 1.5_f64.powf(search.into()));
        let (place, url) = (Place::new(), server());
        let mut args = vec!["line", "kv", "--on", &url, "--no-load", "--start", "as-is", "--set", "records=1000"];
        args.extend(["--mix", "read=1", "--clients", "32", "--arrivals", "even", "--budget", &budget, "-q"]);
        // A step up from this rate is beyond the line, and the one between is, too: few load steps decide.
        args.extend(["--from", "190/s", "--precision", "50%"]);
        args.extend(goals.iter().flat_map(|goal| ["--goal", *goal]));
        let ran = place.run(&args);
        assert!(!place.all_runs().is_empty(), "{}", ran.err);
        let found = Found { ran, result: place.report()["lines"][0]["result"].clone() };
        let (carries, gives_way) = (found.shown("held"), found.shown("failed"));
        let text = format!("{}\n{}\n{:#}", found.ran.out, found.ran.err, found.result);
        assert!(carries.is_none_or(|rate| rate <= true_per_s * (1.0 + TOLERANCE)), "{true_per_s}/s is true:\n{text}");
        assert!(gives_way.is_none_or(|rate| rate >= true_per_s * (1.0 - TOLERANCE)), "{true_per_s}/s is true:\n{text}");
        if found.ran.code == Some(0) {
            let [Some(carries), Some(gives_way)] = [carries, gives_way] else { panic!("PASS without both:\n{text}") };
            assert!(gives_way <= carries * (1.0 + PRECISION / 100.0) * 1.001, "{text}");
            let sentence = found.text("sentence");
            assert!(sentence.starts_with("Carries ") && sentence.contains(". It gives way at "), "{text}");
            return found;
        }
        assert_eq!(found.ran.code, Some(11), "{text}");
        said.push_str(&format!("{}\n", found.text("sentence")));
    }
    panic!("no search of {SEARCHES} came to a line:\n{said}");
}

impl Found {
    /// Returns the rate of `held` or `failed` if its load steps decide it.
    fn shown(&self, which: &str) -> Option<f64> {
        let one = &self.result[which];
        one["rate_per_s"].as_f64().filter(|_| one["decided"] == true)
    }

    fn text(&self, name: &str) -> &str {
        self.result[name].as_str().unwrap_or_default()
    }
}

#[test]
fn the_line_of_a_server_that_refuses_is_where_errors_pass_their_goal() {
    let found = search(&["p50=200ms", "errors=10%"], CAPACITY_PER_S / 0.9);
    // What other programs disturbed far beyond is not seen, and nothing else is said of it.
    assert!(["sheds", "not_seen"].contains(&found.text("beyond")), "{:#}", found.result);
    assert_eq!(found.result["broken"]["what"], "errors", "{:#}", found.result);
}

#[test]
fn a_rung_keeps_how_many_cycles_of_the_store_it_saw_and_how_much_work_one_takes() {
    let place = Place::new();
    let asked =
        ["line", "kv", "--on", "fjall", "--set", "fjall.memtable=256KiB", "--mix", "update=1", "--clients", "2"];
    let how = ["--set", "records=100", "--durability", "buffered", "--goal", "p50=10s", "--budget", "30s", "--quiet"];
    // Killed as soon as there is a rung: the others say nothing more of this.
    let _line = Guarded(place.command(&[&asked[..], &how].concat()).spawn().unwrap());
    let mut rung = None;
    wait_for("the first rung", Duration::from_secs(200), || {
        let run = place.all_runs().first().and_then(|run| Run::load(&run.join("run.sqlite")).ok());
        let phases = run.into_iter().flat_map(|run| run.trials).flat_map(|trial| trial.phases);
        rung = phases.map(|phase| phase.end).find(|end| end.result(ResultName::CycleOperations).is_some());
        rung.is_some()
    });
    let rung = rung.unwrap();
    let flushes = rung.result(ResultName::Cycles).unwrap();
    assert!(flushes.subject == "flushes" && flushes.value >= 1.0, "{:?}", rung.results);
    // A memtable of 256 KiB has room for some hundreds of records.
    let operations = rung.result(ResultName::CycleOperations).unwrap().value;
    assert!((50.0..50_000.0).contains(&operations), "{operations}");
    let (_, words) = rung.remarks.iter().find(|(about, _)| *about == About::Cycle).unwrap();
    assert!(words.starts_with("max_memtable_size is 256 KiB: "), "{words}");
}
