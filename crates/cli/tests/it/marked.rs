//! Numbers of a late generator are marked and not withheld, and no run passes without an operation.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use plimsoll_core::study::PhaseKind;
use rustix::process::Signal;

use crate::bench::{Guarded, Place, Ran, listener};

const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A server that answers every GET with `answer` and anything else with 200, on a port of its own, until the test ends.
fn always(answer: &'static str) -> String {
    slowly(answer, Duration::ZERO)
}

/// Answers as before, each after `pause`.
fn slowly(answer: &'static str, pause: Duration) -> String {
    let port = listener(move |stream: TcpStream| {
        let mut replies = stream.try_clone().unwrap();
        let mut reply = "";
        for line in BufReader::new(stream).lines() {
            match line.as_deref() {
                Ok("") => {
                    std::thread::sleep(pause);
                    if replies.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
                Ok(line) if line.ends_with(" HTTP/1.1") => reply = if line.starts_with("GET") { answer } else { FINE },
                Ok(_) => {}
                Err(_) => return,
            }
        }
    });
    format!("http://127.0.0.1:{port}")
}

fn drive(place: &Place, url: &str, more: &[&str]) -> Ran {
    let args = ["drive", "http", "--on", url, "--rate", "100/s", "--clients", "4", "--for", "2s", "--quiet", "--full"];
    place.run(&[&args[..], more].concat())
}

/// The row of the table of latencies that is about `op`: its cells.
fn row<'o>(out: &'o str, op: &str) -> Vec<&'o str> {
    let table = out.split_once("Latency under load").unwrap().1;
    let line = table.lines().find(|line| line.contains(op)).unwrap_or_else(|| panic!("no {op} in {out}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Returns the value under `p99`: columns of numbers end where their heads end.
fn p99<'o>(out: &'o str, op: &str) -> &'o str {
    let table = out.split_once("Latency under load").unwrap().1;
    let head = table.lines().find(|line| line.contains(" mean ")).unwrap();
    let end = head.split_once(" p99").unwrap().0.chars().count() + " p99".len();
    let line = table.lines().find(|line| line.contains(op)).unwrap_or_else(|| panic!("no {op} in {out}"));
    let end = line.char_indices().nth(end).map_or(line.len(), |(at, _)| at);
    line[..end].rsplit("  ").next().unwrap()
}

#[test]
fn a_server_that_answers_500_to_everything_ends_with_exit_code_1_and_its_p99() {
    let place = Place::new();
    let url = always("HTTP/1.1 500 Out of Order\r\nContent-Length: 0\r\n\r\n");
    // As many operations as a p99 needs, however long they take on a busy machine.
    let counted = ["drive", "http", "--on", &url, "--clients", "4", "--ops", "400", "--quiet", "--full"];
    let ran = place.run(&counted).expect(1).says("FAIL").says("rejected 500: Internal Server Error");
    let p99 = p99(&ran.out, "get, rejected");
    assert!(p99.ends_with("s") || p99.ends_with("s *"), "no p99 in {ran:?}");
    // Who says how many may fail has said so.
    drive(&place, &url, &["--goal", "errors=100%"]).expect(0);
    let coded = drive(&place, &url, &["--goal", "errors=100%", "--goal", "status.5xx=50%", "--goal", "status.404=0%"]);
    coded.expect(1).says("operations that failed with 5xx").says("operations that failed with 404").says("MISSED");
    let misspelt = drive(&place, &url, &["--goal", "gat.p99.9=1s"]).expect(2);
    assert!(misspelt.err.contains("no operation type or step of `http` is called `gat`"), "{misspelt:?}");
}

#[test]
fn a_server_that_goes_away_for_good_does_not_pass() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    let server = std::thread::spawn(move || {
        // It answers 300 requests, which are more than those before the drive. Then it is gone, with all its connections.
        let (until, mut answered) = (std::time::Instant::now() + Duration::from_secs(60), 0);
        let mut all: Vec<TcpStream> = Vec::new();
        while answered < 300 && std::time::Instant::now() < until {
            if let Ok((socket, _)) = listener.accept() {
                socket.set_nonblocking(true).unwrap();
                all.push(socket);
            }
            for socket in &mut all {
                let mut request = [0; 4096];
                if socket.read(&mut request).is_ok_and(|read| read > 0) {
                    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    answered += 1;
                }
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    let ran = place.run(&["drive", "http", "--on", &url, "--clients", "2", "--think", "2ms", "--for", "7s"]);
    server.join().unwrap();
    ran.expect(1).says("FAIL").says("Nothing was answered in the last");
}

#[test]
fn a_rate_that_a_store_does_not_carry_is_a_failure_with_the_rate_that_it_did() {
    let place = Place::new();
    // Two clients, each answered after 20 ms: at most 100 of 1,000 a second.
    let url = slowly(FINE, Duration::from_millis(20));
    let plan = format!(
        "stores = [\"{url}\"]\n[workload]\nname = \"http\"\n[[phase]]\nname = \"much\"\n\
         do = \"drive\"\nfor = \"30s\"\nloop = \"open\"\nrate = \"1000/s\"\nclients = 2\nbacklog = \"1s\"\n"
    );
    let ran = place.run(&["run", &place.plan(&plan), "-q"]).expect(1);
    ran.says("FAIL").says("does not carry 1,000/s in phase much").says("throughput was");
    let ran = place.run(&["report", "latest", "--format", "text"]).expect(0);
    assert!(row(&ran.out, "all operations").len() > 5, "{}", ran.out);
}

const PLAN: &str = r#"
stores = ["sqlite"]
[workload]
name = "kv"
records = 200
[[phase]]
do = "load"
[[phase]]
do = "settle"
[[phase]]
do = "ask"
op = "read"
count = 3
[[phase]]
name = "mixed"
do = "drive"
for = "1s"
loop = "open"
rate = "200/s"
mix = { read = 9, update = 1 }
[[phase]]
do = "check"
[goals]
# On a busy machine the last operations are not sent in time. A median needs a fifth of all.
errors = "100%"
[[figure]]
name = "what I meant"
formula = "mixed.p50[op=read] / ask.median_seconds"
"#;

#[test]
fn every_number_that_a_phase_records_can_be_named() {
    let place = Place::new();
    place.run(&["run", &place.plan(PLAN), "-q"]).expect(0);
    let json = place.report();
    assert!(json["figures"][0]["rows"][0]["cells"][0]["value"].is_f64(), "{}", json["figures"]);
    for phase in json["trials"][0]["phases"].as_array().unwrap() {
        let kind = PhaseKind::named(phase["kind"].as_str().unwrap()).unwrap();
        let names = phase["results"].as_array().unwrap().iter().map(|result| result["name"].as_str().unwrap());
        // A name with a blank is of the data's size, and no formula can hold it.
        let unknown: Vec<_> =
            names.filter(|name| !name.contains(' ') && !plimsoll_core::quantity::has(kind, name)).collect();
        assert!(unknown.is_empty(), "a {kind:?} phase records {unknown:?}, and no formula may name it");
    }
}

/// An open loop whose generator is stopped for half of the time: whatever the machine is, it is late.
fn stopped_and_going(place: &Place, more: &[&str]) -> Ran {
    let args = ["drive", "nothing", "--on", "null", "--rate", "1000/s", "--for", "3s", "--quiet", "--full"];
    stopped(place, &[&args[..], more].concat(), [100, 100])
}

/// Runs with these arguments, and stops the program again and again for the first time, and lets it go for the second, in
/// milliseconds.
fn stopped(place: &Place, args: &[&str], times_ms: [u64; 2]) -> Ran {
    let mut running = Guarded(place.command(args).spawn().unwrap());
    let [stopped, going] = times_ms.map(Duration::from_millis);
    while running.0.try_wait().unwrap().is_none() {
        running.signal(Signal::STOP);
        std::thread::sleep(stopped);
        running.signal(Signal::CONT);
        std::thread::sleep(going);
    }
    running.ended()
}

#[test]
fn a_phase_that_did_far_less_than_its_clients_had_time_for_is_undecided() {
    let place = Place::new();
    // 50 ms after each answer a client goes on: two of them some 120 times in 3 s, and in these few moments ten times.
    let args = ["drive", "nothing", "--on", "null", "--clients", "2", "--think", "50ms", "--for", "3s", "--quiet"];
    let ran = stopped(&place, &args, [570, 30]).expect(11).says("UNDECIDED");
    ran.says("did not do what its load requires").says(" operations were done instead of about 1");
    // With think times that are longer than the delays of a busy machine.
    let going = ["drive", "nothing", "--on", "null", "--clients", "2", "--think", "400ms", "--for", "4s", "--quiet"];
    place.run(&going).expect(0).says("MEASURED");
}

#[test]
fn a_late_generator_marks_its_numbers_and_the_exit_code_follows_the_goals() {
    let place = Place::new();
    let with = |more: &[&str]| stopped_and_going(&place, more);
    let ran = with(&[]).expect(0).says("MEASURED").says("the generator was").says("It affects the values marked *");
    assert!(p99(&ran.out, "nothing").ends_with(" *"), "p99 is not marked in {ran:?}");
    with(&["--goal", "p99=1h", "--goal", "errors=50%"]).expect(0).says("2 goals held");
    with(&["--goal", "p99=1ms"]).expect(11).says("UNDECIDED").says("is undecided").says("the generator was");
    let report = |more: &[&str]| place.run(&[&["report", "latest", "--format"][..], more].concat()).expect(0);
    report(&["md"]).says("\\* ").says("❔ undecided");
    report(&["text", "--strict"]).says("is void (its figures");
    with(&["--strict"]).expect(1).says("INCOMPLETE").says("is void (its figures");
    let json = place.report();
    let phases = json["trials"][0]["phases"].as_array().unwrap();
    assert!(phases.iter().any(|phase| phase["state"] == "void" && phase["ops"].is_null()), "{phases:?}");
}
