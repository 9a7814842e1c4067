//! The page of figures of a run in progress (`--listen`) in a real browser.

use std::path::Path;

use serde_json::{Value, json};

use crate::browser::Browser;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/src/listen/page.html");

/// Returns figures after slice `at` of a drive of 14 s that began 2.49 s after the run. A fault was healed in it.
fn figures(at: u32) -> Value {
    let goal = |name: &str, value: Value, at_end: bool| {
        json!({
            "name": name, "limit": 5e8, "unit": "ns", "at_least": false, "value": value, "holds": null, "margin": null,
            "at_end": at_end,
        })
    };
    let (start_s, end_s) = (2.49 + f64::from(at), 3.49 + f64::from(at));
    json!({
        "run": {"id": "1", "plan": "drive", "title": "drive", "state": "running"},
        "trial": {"name": "1/1 redis"},
        "phase": {
            "name": "drive", "state": "running", "takes_s": 14, "elapsed_s": at + 1,
            "done": {"op": "all", "rate_per_s": 14_700, "count": 73_500, "failed": 4}, "types": [],
            "newest": {"slice": at, "start_s": start_s, "end_s": end_s, "rate_per_s": 14_700, "p99_ns": 1_250_000},
            "goals": [goal("outage", json!(6e8), false), goal("recovery", Value::Null, true)],
            "faults": [{"fault": "pause all", "subject": "the server", "begun_s": 4.51, "healed_s": 5.02}],
        },
        "cells": null, "series": [], "events": [], "lost_observations": 0,
    })
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
}
