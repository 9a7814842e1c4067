//! A password goes nowhere but to the server.

use std::time::Duration;

use crate::bench::{Guarded, Place, wait_for};

#[test]
fn a_password_in_a_url_is_warned_of_overwritten_and_kept_nowhere() {
    let place = Place::new();
    // A listener that accepts and says nothing keeps the program waiting while we look at it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://me:Tr0mbone@127.0.0.1:{}/db", listener.local_addr().unwrap().port());
    let mut child = Guarded(place.command(&["run", "coupons", "--on", &url]).spawn().unwrap());
    let (_held, _) = listener.accept().unwrap();
    let command_line = std::fs::read(format!("/proc/{}/cmdline", child.0.id())).unwrap();
    let shown = String::from_utf8_lossy(&command_line);
    assert!(shown.contains("postgres://me:********@127.0.0.1"), "{shown}");
    assert!(!shown.contains("Tr0mbone"), "{shown}");
    wait_for("the recording", Duration::from_secs(10), || !place.all_runs().is_empty());
    child.0.kill().unwrap();
    let output = {
        use std::io::Read;
        let mut err = String::new();
        child.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        err
    };
    assert!(output.contains("a password in a URL can be seen"), "{output}");
    assert!(!output.contains("Tr0mbone"), "{output}");
    for run in place.all_runs() {
        for file in std::fs::read_dir(run).unwrap().flatten().filter(|file| file.path().is_file()) {
            let bytes = std::fs::read(file.path()).unwrap();
            let found = bytes.windows(8).any(|window| window == b"Tr0mbone");
            assert!(!found, "the password stands in {}", file.path().display());
        }
    }
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
