//! `warmup = "auto"`: what is warm-up is read from the slices, and counts for nothing.

use crate::bench::Place;

/// A client that waits 200 ms at first, less each time, and from its tenth operation on 10 ms: a second and then four
/// hundred even operations, which a busy machine hardly disturbs.
const RAMP: &str = "\\set n :n + 1\n\\set pause greatest(10, 219 - :n * 19)\n\\sleep :pause ms\nSELECT 1;\n";

#[test]
fn a_ramp_is_found_and_left_out_of_every_figure() {
    let place = Place::new();
    let plan = place.plan(&format!(
        r#"
title = "A slow start"
stores = ["sqlite"]
slice = "100ms"
[workload]
name = "script"
define = "n=0"
[[workload.script]]
name = "ramp"
text = '''
{RAMP}'''
[[phase]]
name = "found"
do = "drive"
for = "5s"
warmup = "auto"
"#
    ));
    // Where other work disturbs the even part, no warm-up is found, and rightly: that is tried again.
    let driven = || {
        let ran = place.run(&["run", &plan]).expect(0);
        (ran, place.report())
    };
    let is_found =
        |view: &serde_json::Value| view.pointer("/trials/0/phases/0/settled_after_s").is_some_and(|at| at.is_number());
    let (ran, view) =
        std::iter::repeat_with(driven).take(5).find(|(_, view)| is_found(view)).expect("found in one of five");
    let phase = &view["trials"][0]["phases"][0];
    let number = |path: &str| phase.pointer(path).and_then(|value| value.as_f64());
    let (counted_s, settled_s) = (number("/ops/seconds").unwrap(), number("/settled_after_s").unwrap());
    // MSER-5 leaves out multiples of five slices.
    assert!((1.0..=2.6).contains(&settled_s), "{settled_s} s: {ran:?}");
    assert!((counted_s + settled_s - 5.0).abs() < 0.15, "{counted_s} s counted after {settled_s} s");
    let (counted, with) = (number("/ops/rate_per_s").unwrap(), number("/rate_with_warmup_per_s").unwrap());
    assert!((80.0..=101.0).contains(&counted) && with < counted * 0.95, "{counted}/s, {with}/s with the warm-up");
    let ramp = view["plots"]["bands"][0]["warmup_end_s"].as_f64().unwrap();
    assert!((ramp - phase["start_s"].as_f64().unwrap() - settled_s).abs() < 0.15, "hatched until {ramp} s");
    let csv = place.run(&["report", "latest", "--format", "csv"]).expect(0).out;
    let column = csv.lines().next().unwrap().split(',').position(|name| name == "warmup").unwrap();
    let left_out =
        csv.lines().filter(|line| line.contains(",all,") && line.split(',').nth(column) == Some("1")).count();
    assert_eq!(left_out, (settled_s * 10.0).round() as usize, "slices that the table says are warm-up");
}
