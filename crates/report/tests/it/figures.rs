//! The page of figures of a run in progress (`--listen`) in a real browser.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::browser::Browser;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/src/listen/page.html");

/// Returns figures after slice `at` of a drive of 14 s that began 2.49 s after the run. A fault was healed in it, and the
/// fourth slice was slow.
fn figures(at: u32) -> Value {
    let goal = |name: &str, value: Value, at_end: bool| {
        json!({
            "name": name, "limit": 5e8, "unit": "ns", "at_least": false, "value": value, "holds": null, "margin": null,
            "at_end": at_end,
        })
    };
    let (start_s, end_s) = (2.49 + f64::from(at), 3.49 + f64::from(at));
    let moment = json!({
        "start_s": 5.49, "end_s": 6.49, "text": "p99 480 ms, usually 1.25 ms",
        "meanwhile": ["<b>cpu</b> iowait 41.0 %, usually 2.50 %"],
    });
    let moments = if at < 3 { json!([]) } else { json!([moment]) };
    json!({
        "run": {"id": "1", "plan": "drive", "title": "drive", "state": "running"},
        "trial": {"name": "1/1 redis"},
        "phase": {
            "name": "drive", "state": "running", "takes_s": 14, "elapsed_s": at + 1,
            "done": {"op": "all", "rate_per_s": 14_700, "count": 73_500, "failed": 4}, "types": [],
            "newest": {"slice": at, "start_s": start_s, "end_s": end_s, "rate_per_s": 14_700, "p99_ns": 1_250_000},
            "goals": [goal("outage", json!(6e8), false), goal("recovery", Value::Null, true)],
            "faults": [{"fault": "pause all", "subject": "the server", "begun_s": 4.51, "healed_s": 5.02}],
            "moments": moments,
        },
        "cells": null, "series": [], "events": [], "lost_observations": 0,
    })
}

/// Serves the page, and `events` as its events. Returns the address.
fn serve(events: Receiver<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let events = Arc::new(Mutex::new(events));
    std::thread::spawn(move || {
        // A browser may open a connection that it does not use.
        for stream in listener.incoming().map_while(Result::ok) {
            let events = Arc::clone(&events);
            std::thread::spawn(move || answer(stream, &events));
        }
    });
    address
}

/// Answers the request of a connection, if there is one: with the events as they come, or with the page.
fn answer(mut stream: TcpStream, events: &Mutex<Receiver<String>>) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let Some(request) = head.first() else { return };
    let is_events = request.starts_with("GET /events ");
    let kind = if is_events { "text/event-stream" } else { "text/html" };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
    if stream.write_all(head.as_bytes()).is_err() {
        return;
    }
    if is_events {
        let events = events.lock().unwrap();
        for figures in events.iter() {
            if write!(stream, "data: {figures}\n\n").is_err() {
                return;
            }
        }
    } else {
        // The browser may have left.
        let _ = stream.write_all(&std::fs::read(PAGE).unwrap());
    }
}

#[test]
fn the_page_of_a_run_in_progress_has_one_clock_and_scales_and_fits_the_window() {
    let mut browser = Browser::start();
    for width in [400, 1000, 1600] {
        browser.show(Path::new(PAGE), width, 800, "light", "typeof show === 'function'");
        (0..5).for_each(|at| drop(browser.eval(&format!("show({}); true", figures(at)))));
        let mut text = |id: &str| browser.eval(&format!("at('{id}').textContent")).as_str().unwrap().to_owned();
        let state = text("state");
        assert!(state.contains("at 7.49 s of the run, phase ends at 16.49 s"), "{state}");
        assert!(text("faults").contains("4.51 s"));
        let moments = text("moments");
        assert!(moments.contains("5.49 s") && moments.contains("p99 480 ms, usually 1.25 ms"), "{moments}");
        assert_eq!(text("rate-scale"), "0 to 14,700/s · 2.49 s to 7.49 s of the run");
        assert_eq!(text("p99-scale"), "0 to 1.25 ms · 2.49 s to 7.49 s of the run");
        let goals = text("goals");
        assert!(goals.contains("600 ms") && goals.contains("judged at the end"), "{goals}");
        let cut = "[...document.querySelectorAll('section')].filter(one => one.scrollWidth > one.clientWidth).length";
        // Tables of a narrow window are scrolled.
        if width > 400 {
            assert_eq!(browser.eval(cut), json!(0), "at {width}");
        }
        assert_eq!(browser.eval("document.documentElement.scrollWidth"), browser.eval("innerWidth"), "at {width}");
    }
    figures_move_and_a_slow_moment_appears_while_the_run_goes_on(&mut browser);
}

fn figures_move_and_a_slow_moment_appears_while_the_run_goes_on(browser: &mut Browser) {
    let (sender, events) = channel();
    let address = serve(events);
    browser.look(1000, 800, "light");
    browser.call("Page.navigate", json!({ "url": format!("http://{address}/") }));
    browser.wait_for("location.protocol === 'http:' && typeof show === 'function'");
    let points = "document.querySelector('#p99 polyline').getAttribute('points').split(' ').length";
    let hidden = "at('moments').parentElement.hidden";
    sender.send(figures(0).to_string()).unwrap();
    browser.wait_for("at('state').textContent.includes('at 3.49 s of the run')");
    assert_eq!((browser.eval(points), browser.eval(hidden)), (json!(1), json!(true)));
    for slice in 1..4 {
        sender.send(figures(slice).to_string()).unwrap();
    }
    browser.wait_for("at('state').textContent.includes('at 6.49 s of the run')");
    assert_eq!((browser.eval(points), browser.eval(hidden)), (json!(4), json!(false)));
    let row = browser.eval("[...at('moments').rows[1].cells].map(cell => cell.textContent)");
    // Names come from servers: they are no markup.
    let wanted = ["5.49 s", "6.49 s", "p99 480 ms, usually 1.25 ms", "<b>cpu</b> iowait 41.0 %, usually 2.50 %"];
    assert_eq!(row, json!(wanted));
}
