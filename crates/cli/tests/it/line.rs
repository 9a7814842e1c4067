//! The load line of a server whose capacity is known.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_record::data::{About, ResultName, Run};
use serde_json::Value;

use crate::bench::{Guarded, Place, Ran, wait_for};

/// GETs a second that the server answers, however it is asked. Few, so that neither the server nor the generator is
/// ever the machine's business.
const CAPACITY_PER_S: f64 = 200.0;

/// Time that the server makes up for: what came late because a thread was kept off its processor costs no capacity.
const CREDIT: Duration = Duration::from_millis(25);

/// Longest time that a GET waits; one that would wait longer is refused at once.
const LONGEST_WAIT: Duration = Duration::from_millis(25);

/// Largest distance of the line found from the true line. Searches on simulated time are held to less.
const TOLERANCE: f64 = 0.05;

/// Searches in all: whatever else runs on the machine may make the generator late, which voids rungs.
const SEARCHES: u32 = 4;
/// Longest time of the first search; each further one may take half as long again, if the machine is that noisy.
const BUDGET_S: f64 = 75.0;

/// A virtual server behind a port that speaks as much of Redis' protocol as Plimsoll needs. Its time is kept by the
/// clock: a GET departs one service time after it arrived (less [`CREDIT`]) or after the GET before it departed,
/// whatever is later, and is answered then. So it answers exactly [`CAPACITY_PER_S`] when there is more to do, however
/// late its threads wake up.
struct Server {
    port: u16,
}

impl Server {
    /// Listens until the test ends.
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let free_at = Arc::new(Mutex::new(Instant::now()));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let free_at = Arc::clone(&free_at);
                std::thread::spawn(move || serve(stream, &free_at));
            }
        });
        Self { port }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
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
            false => b"-BUSY there is too much to do\r\n".to_vec(),
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

/// Searches for the server's line, which is `true_per_s`, until the machine lets a search end. Searches that do not come to a
/// line because the generator was disturbed are tried again, and so are those whose interval holds the true one and is that
/// wide; what else is found is the answer, right or wrong.
fn search(goals: &[&str], true_per_s: f64) -> Found {
    let mut said = String::new();
    for search in 0..SEARCHES {
        let budget = format!("{:.0}s", BUDGET_S * 1.5_f64.powf(search.into()));
        let server = Server::start();
        let place = Place::new();
        let url = server.url();
        let mut args = vec!["line", "kv", "--on", &url, "--no-load", "--start", "as-is", "--set", "records=1000"];
        args.extend(["--mix", "read=1", "--clients", "32", "--arrivals", "even"]);
        args.extend(["--precision", "3%", "--budget", &budget, "-q"]);
        args.extend(goals.iter().flat_map(|goal| ["--goal", *goal]));
        let ran = place.run(&args);
        assert!(!place.all_runs().is_empty(), "{}", ran.err);
        let report = place.run(&["report", "latest", "--format", "json"]).expect(0);
        let view: Value = serde_json::from_str(&report.out).unwrap();
        let result = view["lines"][0]["result"].clone();
        let how = result["ending"]["how"].as_str().unwrap_or_default();
        let number = |name: &str| result[name].as_f64();
        let holds = number("low_per_s").zip(number("high_per_s")).is_some_and(|(a, b)| (a..=b).contains(&true_per_s));
        let is_off = number("rate_per_s").is_some_and(|rate| (rate / true_per_s - 1.0).abs() > TOLERANCE);
        if (ran.code == Some(0) || how != "generator") && !(holds && is_off) {
            return Found { ran, result };
        }
        said.push_str(&format!("{}\n", result["sentence"]));
    }
    panic!("no search of {SEARCHES} came to a line:\n{said}");
}

impl Found {
    /// The line is there and is `rate_per_s`.
    #[track_caller]
    fn is_at(&self, rate_per_s: f64) {
        let text = format!("{}\n{}\n{:#}", self.ran.out, self.ran.err, self.result);
        assert_eq!(self.ran.code, Some(0), "{text}");
        assert!(self.ran.out.contains(" carries "), "{text}");
        let found = self.result["rate_per_s"].as_f64().unwrap_or_else(|| panic!("{text}"));
        assert!((found / rate_per_s - 1.0).abs() <= TOLERANCE, "{found}/s found, {rate_per_s}/s true:\n{text}");
    }

    fn text(&self, name: &str) -> &str {
        self.result[name].as_str().unwrap_or_default()
    }
}

#[test]
fn the_line_of_a_server_that_refuses_is_where_errors_pass_their_goal() {
    let found = search(&["p50=200ms", "errors=10%"], CAPACITY_PER_S / 0.9);
    found.is_at(CAPACITY_PER_S / 0.9);
    assert_eq!(found.text("beyond"), "sheds", "{:#}", found.result);
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
    wait_for("the first rung", Duration::from_secs(60), || {
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
