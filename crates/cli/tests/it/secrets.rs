//! A password goes nowhere but to the server.

use std::time::Duration;

use crate::bench::{Guarded, Place, Ran, wait_for};
use crate::requests::kept_nowhere;

/// Starts `args`, whose URL is made of `url` with a port that accepts and says nothing, which keeps the program waiting. Its command line,
/// as others see it, is to have `shown`, and neither that nor what was said the password.
fn is_overwritten(url: &str, args: &[&str], shown: &str) {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = url.replace("PORT", &listener.local_addr().unwrap().port().to_string());
    let mut child = Guarded(place.command(&[args, &["--on", &url]].concat()).spawn().unwrap());
    let (_held, _) = listener.accept().unwrap();
    let line = std::fs::read(format!("/proc/{}/cmdline", child.0.id())).unwrap();
    let line = String::from_utf8_lossy(&line);
    assert!(shown.split(" … ").all(|words| line.contains(words)), "{line}");
    assert!(!line.contains("Tr0mbone"), "{line}");
    wait_for("the recording", Duration::from_secs(100), || !place.all_runs().is_empty());
    child.0.kill().unwrap();
    let ran = child.ended();
    assert!(!url.contains('@') || ran.err.contains("a password in a URL can be seen"), "{ran:?}");
    kept_nowhere(&place, &ran, &["Tr0mbone"]);
}

#[test]
fn a_password_in_a_url_or_a_request_is_overwritten_and_kept_nowhere() {
    let url = "postgres://me:Tr0mbone@127.0.0.1:PORT/db";
    is_overwritten(url, &["run", "coupons"], "postgres://me:********@127.0.0.1");
    is_overwritten("nats://Tr0mbone@127.0.0.1:PORT", &["drive", "kv:a"], "nats://********@127.0.0.1");
    let request = ["drive", "http", "-H", "Authorization: Bearer Tr0mbone", "--body", "user=a&password=Tr0mbone"];
    is_overwritten("http://127.0.0.1:PORT", &request, "Authorization: * … user=a&password=*");
    is_overwritten("http://127.0.0.1:PORT/?token=Tr0mbone", &["drive", "http"], "/?token=*");
    let options = "postgres://127.0.0.1:PORT/db?options=-c%20app.key%3DTr0mbone";
    is_overwritten(options, &["run", "coupons"], "/db?options=*");
}

/// Fails if a message or a text of `ran` has one of `secrets`.
fn is_silent(ran: &Ran, secrets: &[&str]) {
    assert!(secrets.iter().all(|secret| !ran.out.contains(secret) && !ran.err.contains(secret)), "{ran:?}");
}

#[test]
fn a_url_in_which_a_blank_or_a_quote_hides_the_password_is_refused_and_not_repeated() {
    let place = Place::new();
    for url in ["redis://:a Tr0mbone@127.0.0.1:1", "postgres://u:a\"Tr0mbone@127.0.0.1:1/db", "etcd://u x:Tr0mbone@h"] {
        for args in
            [&["drive", "kv:a", "--on", url][..], &["run", url], &["report", url], &["check", "kv", "--on", url]]
        {
            let ran = place.run(args).expect(2).says("write %20");
            is_silent(&ran, &["Tr0mbone"]);
        }
    }
}

#[test]
fn a_password_in_a_mistyped_url_is_not_repeated() {
    let place = Place::new();
    for store in ["u:Tr0mbone@127.0.0.1:1/db", "//u:Tr0,mbone@127.0.0.1:1/db", "postgres:u:Tr0mbone@127.0.0.1:1/db"] {
        for args in [["drive", "kv:a", "--on", store], ["run", "coupons", "--on", store]] {
            let ran = place.run(&args).expect(2).says("unknown store");
            is_silent(&ran, &["Tr0", "mbone"]);
        }
    }
}

#[test]
fn a_printed_plan_has_no_token() {
    let place = Place::new();
    let ran = place.line("drive kv:a --on nats://Tr0mbone@127.0.0.1:1 --print-plan").expect(0);
    assert!(ran.out.contains("\"nats://127.0.0.1:1\""), "{ran:?}");
    is_silent(&ran, &["Tr0mbone"]);
}

#[test]
fn a_password_in_a_url_that_stands_in_the_wrong_place_is_not_repeated() {
    let place = Place::new();
    let url = "postgres://me:Tr0m,bone@127.0.0.1:1/db";
    for (args, code) in [
        (&["run", url][..], 2),
        (&["run", "coupons", url], 2),
        (&["run", "coupons", "--seed", url], 2),
        (&["report", url], 10),
        (&["run", "coupons", "--on", url], 3),
        (&["run", "coupons", "--on", "sqlite,nothing", "--on", url], 2),
    ] {
        let ran = place.run(args).expect(code);
        assert!(!ran.err.contains("Tr0m") && !ran.err.contains("bone"), "{args:?}: {}", ran.err);
        assert!(!ran.out.contains("Tr0m") && !ran.out.contains("bone"), "{args:?}: {}", ran.out);
    }
}
