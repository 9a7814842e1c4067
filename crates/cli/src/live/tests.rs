//! Tests of the display on terminals of several sizes, without a terminal.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use plimsoll_analysis::live::{LiveGoal, LiveSums};
use plimsoll_analysis::slices::SliceRow;
use plimsoll_record::data::{FaultKind, FaultSpan, PhaseKind};
use plimsoll_trial::{CellsSoFar, Told};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::keys::LiveKeys;
use super::state::{LiveFrame, LiveRun};
use super::{FRAME_MIN, view};

/// Returns slice `at` of a drive, a second long, with these times.
pub(crate) fn slice(at: u32, times_ns: &[(u64, u64)]) -> SliceRow {
    let count: u64 = times_ns.iter().map(|(_, count)| count).sum();
    let percentile = |share: f64| {
        let mut left = (count as f64 * share) as u64;
        let at = times_ns.iter().find(|(_, count)| {
            let is_there = left < *count;
            left = left.saturating_sub(*count);
            is_there
        });
        at.map(|(ns, _)| *ns)
    };
    SliceRow {
        trial_ordinal: 0,
        trial: "1/1 null".to_owned(),
        store: "null".to_owned(),
        phase_ordinal: 0,
        phase: "drive".to_owned(),
        phase_kind: PhaseKind::Drive,
        slice: at,
        warmup: false,
        drain: false,
        start_s: f64::from(at),
        end_s: f64::from(at) + 1.0,
        wall_ns: 0,
        op: "all".to_owned(),
        measure: "response",
        count,
        rejected: 0,
        unknown: 0,
        unfinished: 0,
        rate_per_s: Some(count as f64),
        mean_ns: 0.0,
        stddev_ns: 0.0,
        percentiles_ns: [0.5, 0.9, 0.95, 0.99, 0.999].map(percentile),
        max_ns: times_ns.last().map_or(0, |(ns, _)| *ns),
        due_unsent: 0,
        in_flight: 8,
        lag_p99_ns: 0,
        worker_cpu_ns: 0,
        disturbed: None,
        undisturbed_p99_ns: None,
        disturbed_ns: None,
        silent_ns: [0; 3],
        times_ns: times_ns.to_vec(),
    }
}

/// Figures of a run in which everything is seen that the display can show.
struct Full {
    done: LiveSums,
    newest: VecDeque<SliceRow>,
    goals: Vec<LiveGoal>,
    faults: Vec<FaultSpan>,
    remarks: Vec<String>,
}

impl Full {
    fn new() -> Self {
        // Response times from 300 µs to 40 ms, with a long tail.
        let time = |step: u64| (300_000 + step * step * 2_700, 400 / (step + 1) + 1);
        let times: Vec<(u64, u64)> = (0..120).map(time).collect();
        let newest: VecDeque<SliceRow> = (0..600)
            .map(|at| {
                let mut row = slice(at, &times);
                row.rate_per_s = row.rate_per_s.map(|rate| rate + f64::from(at % 60) * 10.0);
                row
            })
            .collect();
        let mut done = LiveSums::default();
        newest.iter().for_each(|row| done.add(row));
        (done.failed, done.rejected, done.unknown) = (15, 12, 3);
        let goal = |name: &str, limit: f64, unit: &str, at_least: bool, seen: f64, holds: bool| LiveGoal {
            name: name.to_owned(),
            limit,
            unit: unit.to_owned(),
            at_least,
            seen: Some(seen),
            open: false,
            holds: Some(holds),
            at_end: false,
        };
        let goals = vec![
            goal("p99", 20e6, "ns", false, 12.4e6, true),
            goal("rate", 1_000.0, "1/s", true, 900.0, false),
            goal("errors", 0.1, "%", false, 0.012, true),
        ];
        let fault = FaultSpan {
            phase: 1,
            taken_ns: Some(590_100_000_000),
            ..FaultSpan::begun(FaultKind::Kill, "kill primary at 40%", "node 1, the primary", 590_000_000_000)
        };
        let healed = FaultSpan { healed_ns: Some(1), fault: "pause primary".to_owned(), ..fault.clone() };
        let remarks = (1..=9).map(|number| format!("remark {number}")).collect();
        Full { done, newest, goals, faults: vec![healed, fault], remarks }
    }

    fn frame(&self) -> LiveFrame<'_> {
        LiveFrame {
            position: "1/1 null",
            step: "",
            elapsed: Duration::from_secs(600),
            takes: Some(Duration::from_secs(900)),
            loaded: None,
            cells: None,
            phase: Some("drive"),
            is_over: false,
            selected: None,
            done: Some(&self.done),
            newest: Some(&self.newest),
            slice: 599,
            silence_s: None,
            goals: &self.goals,
            faults: &self.faults,
            moments: vec!["592.0 s · p99 480 ms, usually 12.0 ms · kill primary, node 1".to_owned()],
            unusual: vec!["cpu iowait 41.0 %, usually 2.50 %".to_owned()],
            servers: (1..=3).map(|node| format!("null {node}: rate 900/s, mean time 310 µs")).collect(),
            remarks: &self.remarks,
        }
    }
}

/// Draws `frame` on a terminal of that size.
fn drawn((width, height): (u16, u16), frame: &LiveFrame<'_>, keys: &LiveKeys, colour: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|screen| view::draw(screen, frame, keys, colour)).unwrap();
    terminal
}

/// Returns the lines of the display on a terminal of that size.
fn lines((width, height): (u16, u16), frame: &LiveFrame<'_>, keys: &LiveKeys) -> Vec<String> {
    let terminal = drawn((width, height), frame, keys, true);
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..width).filter_map(|x| Some(buffer.cell((x, y))?.symbol())).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

#[track_caller]
fn has(lines: &[String], words: &[&str]) {
    for word in words {
        assert!(lines.iter().any(|line| line.contains(word)), "no {word:?} in\n{}", lines.join("\n"));
    }
}

#[test]
fn a_goal_that_is_missed_by_far_names_the_factor() {
    let mut full = Full::new();
    (full.goals[0].seen, full.goals[0].holds) = (Some(20e6 * 954.2), Some(false));
    let lines = lines((80, 24), &full.frame(), &LiveKeys::default());
    assert!(lines[1].contains(" · 954 times the limit · ≤ 20.0 ms"), "{lines:?}");
}

#[test]
fn a_silence_that_goes_on_is_a_lower_bound_beside_the_throughput_and_as_a_goal() {
    let mut full = Full::new();
    full.goals[0] =
        LiveGoal { name: "outage".to_owned(), limit: 5e9, open: true, seen: Some(4e9), ..full.goals[0].clone() };
    let frame = LiveFrame { silence_s: Some(4.0), ..full.frame() };
    let shown = lines((80, 24), &frame, &LiveKeys::default());
    has(&shown, &["outage > 4.00 s · 20 % left · ≤ 5.00 s", " · no answer for > 4.00 s"]);
    full.goals[0].open = false;
    let shown = lines((80, 24), &full.frame(), &LiveKeys::default());
    has(&shown, &["outage 4.00 s · 20 % left"]);
    assert!(shown.iter().all(|line| !line.contains("no answer")), "{shown:?}");
}

#[test]
fn everything_fits_a_terminal_of_80_by_24() {
    let full = Full::new();
    let lines = lines((80, 24), &full.frame(), &LiveKeys::default());
    assert!(lines[0].starts_with("1/1 null · drive · 600 s · 300 s left"), "{lines:?}");
    // The goal with the least margin is first.
    assert_eq!(lines[1], "rate 900/s · 10 % short · ≥ 1,000/s");
    has(
        &lines,
        &[
            "p99 12.4 ms · 38 % left · ≤ 20.0 ms",
            "errors 0.0120 % · 88 % left · ≤ 0.100 %",
            "Throughput ",
            "/s · 8 in flight · 0 due and not sent",
            "p50",
            "p95",
            "max",
            "slice ",
            "phase ",
            "Errors 15 of ",
            ": 12 rejected, 3 unknown; newest slice 0",
            "Fault kill primary · node 1, the primary · since 590 s of the run · in effect",
            "Response time, 1.00 s a column",
            "Slow moments so far",
            "592.0 s · p99 480 ms, usually 12.0 ms · kill primary, node 1",
            "null 1: rate 900/s, mean time 310 µs",
            "cpu iowait 41.0 %, usually 2.50 %",
            "remark 9",
            "█",
        ],
    );
    assert!(lines[23].starts_with("q leave") && lines[23].ends_with("Ctrl-C end run"), "{}", lines[23]);
    assert!(lines.iter().all(|line| !line.contains('…')), "something is cut off:\n{}", lines.join("\n"));
    assert!(lines[..23].iter().all(|line| !line.contains("pause")), "a healed fault is over");
}

#[test]
fn a_terminal_of_40_by_12_has_fewer_panels_and_says_what_all_of_them_need() {
    let full = Full::new();
    let lines = lines((40, 12), &full.frame(), &LiveKeys::default());
    has(&lines, &["rate 900/s · 10 % short · ≥ 1,000/s · +2", "Throughput ", "p50", "slice ", "Errors 15 of "]);
    has(&lines, &["remark 9"]);
    assert_eq!(lines[11], "40 × 12: all panels need 80 × 24");
    assert!(lines.iter().all(|line| !line.contains("Response time")), "{lines:?}");
    // Smaller ones never fail.
    for size in [(1, 1), (3, 40), (200, 2), (12, 5)] {
        drawn(size, &full.frame(), &LiveKeys::default(), false);
    }
}

#[test]
fn a_terminal_of_200_by_60_is_used() {
    let full = Full::new();
    let lines = lines((200, 60), &full.frame(), &LiveKeys::default());
    has(&lines, &["rate 900/s", "p99 12.4 ms", "errors 0.0120 %", "Servers", "null 3:", "Unusual now", "remark 3"]);
    let heat = lines.iter().position(|line| line.contains("Response time")).unwrap();
    let servers = lines.iter().position(|line| line == "Servers").unwrap();
    assert!(servers - heat > 20, "the heat map has the rest:\n{}", lines.join("\n"));
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap();
    assert_eq!(widest, 200, "plots reach the right edge");
}

#[test]
fn keys_hide_percentiles_zoom_and_show_help() {
    let full = Full::new();
    let shown = |keys: LiveKeys| lines((80, 24), &full.frame(), &keys).join("\n");
    let usual = shown(LiveKeys::default());
    let hidden = shown(LiveKeys { percentiles: false, ..LiveKeys::default() });
    assert!(usual.contains("p95") && !hidden.contains("p95"), "{hidden}");
    assert!(shown(LiveKeys { zoom: 4, ..LiveKeys::default() }).contains("4.00 s a column"));
    let help = shown(LiveKeys { help: true, ..LiveKeys::default() });
    assert!(help.contains("next operation type") && help.contains("end the run") && !help.contains("Throughput"));
    let selected = LiveFrame { selected: Some("read"), ..full.frame() };
    assert!(lines((80, 24), &selected, &LiveKeys::default())[0].ends_with("· only read"));
}

#[test]
fn a_paused_display_keeps_what_it_shows() {
    let mut run = LiveRun::new();
    run.take(&Told::Note("opening null".to_owned()));
    let frozen = run.frozen();
    run.take(&Told::Note("loading".to_owned()));
    let keys = LiveKeys { paused: true, ..LiveKeys::default() };
    let (shown, elapsed) = (frozen.frame(&keys, &[]), frozen.frame(&keys, &[]).elapsed);
    assert_eq!((shown.step, shown.elapsed, run.frame(&keys, &[]).step), ("opening null", elapsed, "loading"));
    let lines = lines((80, 24), &shown, &keys);
    assert_eq!(lines[0], "PAUSED · opening null");
    assert!(lines[23].contains("space pause"), "{}", lines[23]);
}

#[test]
fn a_type_without_operations_in_the_newest_slice_shows_no_older_figures_as_new() {
    let full = Full::new();
    let stalled = LiveFrame { selected: Some("read"), slice: 602, ..full.frame() };
    let lines = lines((80, 24), &stalled, &LiveKeys::default());
    has(&lines, &["Throughput 0/s, mean "]);
    let slice = lines.iter().find(|line| line.starts_with("slice ")).unwrap();
    assert_eq!(slice.matches('–').count(), 4, "{slice}");
}

#[test]
fn errors_of_a_warmup_are_seen_before_any_slice_counts() {
    let full = Full::new();
    let mut row = slice(0, &[(1_000_000, 90)]);
    (row.warmup, row.unknown) = (true, 7);
    let (done, newest) = (LiveSums::default(), VecDeque::from([row]));
    let frame = LiveFrame { done: Some(&done), newest: Some(&newest), slice: 0, ..full.frame() };
    let lines = lines((80, 24), &frame, &LiveKeys::default());
    assert!(lines[0].ends_with("· warm-up"), "{}", lines[0]);
    has(&lines, &["; newest slice 7"]);
}

#[test]
fn before_the_first_slice_the_activity_is_shown_and_cells_have_their_steps() {
    let full = Full::new();
    let before = LiveFrame { phase: None, done: None, newest: None, step: "opening null", ..full.frame() };
    assert_eq!(lines((80, 24), &before, &LiveKeys::default())[0], "1/1 null · opening null");
    let over = LiveFrame { is_over: true, step: "stopping null", ..full.frame() };
    assert_eq!(lines((80, 24), &over, &LiveKeys::default())[0], "1/1 null · drive · ended · stopping null");
    let now = vec![("null buffered".to_owned(), "check".to_owned())];
    let cells = CellsSoFar { done: 3, of: 12, left_out: 2, broken: 1, left: Some(Duration::from_secs(30)), now };
    let lines = lines((80, 24), &LiveFrame { cells: Some(&cells), ..before }, &LiveKeys::default());
    assert!(lines[0].starts_with("3/12 cuts · 2 left out · 1 broken · 30 s left"), "{lines:?}");
    has(&lines, &["null buffered: check"]);
}

#[test]
fn only_the_sixteen_colours_of_the_terminal_are_used_and_none_without_colour() {
    let full = Full::new();
    let colours = |colour: bool| {
        let terminal = drawn((80, 24), &full.frame(), &LiveKeys::default(), colour);
        let buffer = terminal.backend().buffer();
        let mut used: Vec<Color> = buffer.content().iter().flat_map(|cell| [cell.fg, cell.bg]).collect();
        used.retain(|colour| *colour != Color::Reset);
        used
    };
    assert!(colours(false).is_empty());
    let used = colours(true);
    assert!(used.contains(&Color::Red) && used.contains(&Color::Green));
    assert!(used.iter().all(|colour| matches!(colour, Color::Red | Color::Green)), "{used:?}");
}

#[test]
fn a_frame_takes_at_most_a_tenth_of_the_time_between_two() {
    let full = Full::new();
    for (size, zoom) in [((80, 24), 1), ((200, 60), 4)] {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        let keys = LiveKeys { zoom, ..LiveKeys::default() };
        let times = (0..31).map(|_| {
            let begun = Instant::now();
            terminal.draw(|screen| view::draw(screen, &full.frame(), &keys, true)).unwrap();
            begun.elapsed()
        });
        // The shortest one: tests beside this one take the processor from the others.
        let shortest = times.min().unwrap();
        println!("{size:?}, zoom {zoom}: {shortest:?}");
        assert!(shortest <= FRAME_MIN / 10, "{size:?}, zoom {zoom}: {shortest:?}");
    }
}
