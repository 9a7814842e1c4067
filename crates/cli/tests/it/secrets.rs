//! A password goes nowhere but to the server.

use std::time::Duration;

use crate::bench::{Guarded, Place, wait_for};
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
    wait_for("the recording", Duration::from_secs(10), || !place.all_runs().is_empty());
    child.0.kill().unwrap();
    let ran = child.ended();
    assert!(!url.contains('@') || ran.err.contains("a password in a URL can be seen"), "{ran:?}");
    kept_nowhere(&place, &ran, &["Tr0mbone"]);
}

#[test]
fn a_password_in_a_url_or_a_request_is_overwritten_and_kept_nowhere() {
    let url = "postgres://me:Tr0mbone@127.0.0.1:PORT/db";
    is_overwritten(url, &["run", "coupons"], "postgres://me:********@127.0.0.1");
    let request = ["drive", "http", "-H", "Authorization: Bearer Tr0mbone", "--body", "user=a&password=Tr0mbone"];
    is_overwritten("http://127.0.0.1:PORT", &request, "Authorization: * … user=a&password=*");
    is_overwritten("http://127.0.0.1:PORT/?token=Tr0mbone", &["drive", "http"], "/?token=*");
    let options = "postgres://127.0.0.1:PORT/db?options=-c%20app.key%3DTr0mbone";
    is_overwritten(options, &["run", "coupons"], "/db?options=*");
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
