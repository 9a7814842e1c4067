//! Connections that are opened anew while a store is driven.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Place, once_below, result, wait_for};
use crate::servers::{Postgres, Redis};

#[test]
fn connections_are_opened_anew_after_as_many_operations_as_was_asked() {
    let place = Place::new();
    let postgres = Postgres::start(place.path());
    let sessions = "SELECT sessions FROM pg_stat_database WHERE datname = 'postgres'";
    let drive = ["drive", "tpcb", "--on", &postgres.url(), "--clients", "3", "--ops", "20"];
    let before: u64 = postgres.sql(sessions).parse().unwrap();
    place.run(&[&drive[..], &["--reconnect", "each", "--full"]].concat()).expect(0).says(" new connections · mean ");
    let phase = place.driven();
    assert_eq!(phase["ops"]["count"], 60);
    // After a client's last operation another may have been begun.
    let connects = result(&phase, "connects");
    assert!((57.0..=60.0).contains(&connects), "{phase}");
    assert!(result(&phase, "connect_p50") > 1e4 && result(&phase, "connect_p99") < 60e9, "{phase}");
    wait_for("the server to have counted them", Duration::from_secs(100), || {
        postgres.sql(sessions).parse::<u64>().unwrap() >= before + 60
    });
    place.run(&[&drive[..], &["--reconnect", "7"]].concat()).expect(0);
    assert_eq!(result(&place.driven(), "connects"), 6.0);
    // Plain operations too; with a rate, the time of an operation has that of its connection in it.
    let redis = Redis::start(place.path());
    let kv = ["drive", "kv", "--mix", "read=1", "--set", "records=100", "--on", &redis.url(), "--ops", "50"];
    place.run(&[&kv[..], &["--reconnect", "10"]].concat()).expect(0);
    let connects = result(&place.driven(), "connects");
    assert!((4.0..=5.0).contains(&connects), "{connects}");
    // A session that the server ends while its client thinks costs a connection, and no operation and no time.
    redis.ask(&["CONFIG", "SET", "timeout", "1"]);
    place.run(&[&kv[..8], &["--clients", "2", "--think", "2500ms", "--ops", "3"]].concat()).expect(0);
    let phase = place.driven();
    assert_eq!((phase["ops"]["count"].as_u64(), result(&phase, "lost_connections")), (Some(6), 0.0), "{phase}");
    assert!(result(&phase, "ended_connections") >= 2.0, "{phase}");
    redis.ask(&["CONFIG", "SET", "timeout", "0"]);
    // By number, as a busy machine does not send every operation in time.
    place.run(&[&kv[..], &["--rate", "200", "--clients", "4", "--reconnect", "each"]].concat()).expect(0);
    let phase = place.driven();
    assert_eq!(phase["ops"]["count"], 200);
    assert!(result(&phase, "connects") > 100.0, "{phase}");
}

#[test]
fn clients_of_a_paused_server_give_up_operations_and_connections_in_time() {
    let place = Place::new();
    let drive = "drive kv --mix read=1 --set records=200 --on postgres --clients 4 --think 2ms --for 7s --full \
                 --goal errors=100% --op-timeout 200ms --connect-timeout 300ms --backoff 100ms..400ms";
    let words: Vec<&str> = drive.split_whitespace().chain(["--fault", "pause all at 1s for 4s"]).collect();
    // Without a time-out operations take four seconds. A busy machine may delay one by as long.
    once_below(3.5, || {
        let ran = place.run(&words).expect(0);
        ran.says("no answer within 0.2 … no session within 0.3 … connections could not be opened");
        longest_of_paused_s(&place.driven())
    });
}

/// Returns the longest time of an operation of a drive whose server was paused, in seconds.
fn longest_of_paused_s(phase: &Value) -> f64 {
    let (lost, failed) = (result(phase, "lost_connections"), result(phase, "failed_connects"));
    // A connection that is accepted and not greeted takes 300 ms, and there are 3.8 s for each client.
    assert!(lost >= 4.0 && failed >= 4.0, "{phase}");
    let rows = phase["latencies"].as_array().unwrap();
    let longest_ns = rows.iter().map(|row| row["max_ns"].as_u64().unwrap()).max().unwrap();
    longest_ns as f64 / 1e9
}

#[test]
fn clients_send_operations_again_that_a_paused_server_left_without_an_answer() {
    let place = Place::new();
    let drive = "drive kv --mix read=1,update=1 --set records=200 --on redis --clients 4 --think 2ms --for 4s --full \
                 --goal errors=100% --goal lost=0 --goal wrong=0 --op-timeout 200ms --retry idempotent --tries 30";
    let words: Vec<&str> = drive.split_whitespace().chain(["--fault", "pause all at 1s for 1s"]).collect();
    place.run(&words).expect(0).says(" retries, 0 given up");
    let phase = place.driven();
    // Each client had one operation in flight. What the server does for the clients that have gone is no loss.
    assert!(result(&phase, "retries") >= 4.0, "{phase}");
    assert_eq!(result(&phase, "given_up"), 0.0, "{phase}");
    place.line("drive kv --mix read=1 --on redis --ops 1 --tries 5").expect(2).says("retry = \"idempotent\"");
}

#[test]
fn clients_of_a_paused_server_stop_asking_and_say_so() {
    let place = Place::new();
    let drive = "drive kv --mix read=1,update=1 --set records=200 --on redis --clients 4 --rate 100 --for 4s \
                 --goal errors=100% --goal lost=0 --goal wrong=0 --full --op-timeout 100ms --connect-timeout 100ms \
                 --breaker 2 --breaker-wait 500ms";
    let words: Vec<&str> = drive.split_whitespace().chain(["--fault", "pause all at 1s for 2s"]).collect();
    place.run(&words).expect(0).says("circuit breakers opened … operations were not sent (");
    let phase = place.driven();
    assert!(result(&phase, "breaker_opened") >= 4.0, "each client has a circuit: {phase}");
    assert!(result(&phase, "breaker_rejected") >= 40.0, "{phase}");
}

#[test]
fn connections_that_cannot_be_opened_again_are_counted_and_said() {
    let place = Place::new();
    let redis = Redis::start(place.path());
    let url = redis.url();
    let drive =
        ["drive", "kv", "--mix", "read=1", "--set", "records=100", "--on", &url, "--clients", "4", "--for", "300s"];
    let anew = [&drive[..], &["--think", "2ms", "--reconnect", "each", "--full"]].concat();
    let child = place.recording(&anew);
    let received = || {
        let stats = redis.ask(&["INFO", "stats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap().to_owned();
        line.trim().parse::<u64>().unwrap()
    };
    wait_for("connections that are opened anew", Duration::from_secs(200), || received() > 100);
    redis.ask(&["CONFIG", "SET", "maxclients", "1"]);
    // The slice in which it was set, and one after it.
    let before = place.slices().len();
    wait_for("slices", Duration::from_secs(100), || place.slices().len() >= before + 2);
    child.signal(Signal::INT);
    let ran = child.ended();
    assert!(ran.out.contains("max number of clients reached"), "{} {}", ran.out, ran.err);
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert!(words.join(" ").contains(" could not be opened"), "{}", ran.out);
}
