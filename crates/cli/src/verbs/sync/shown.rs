//! Results of `plimsoll sync`, as they are printed: the answer first.

use plimsoll_analysis::number::{bytes, count, nanoseconds, significant};
use plimsoll_disk::group::Group;
use plimsoll_disk::judge::Verdict;
use plimsoll_disk::latency::{Measured, Outcome};
use plimsoll_disk::portable::Step;
use plimsoll_disk::times::Times;
use plimsoll_disk::ways::{Flushing, Point, Writing};
use plimsoll_report::cells;
use plimsoll_report::document::{Cell, Table, Tone, numbers, words};
use plimsoll_trial::TrialError;

use super::{Answer, Row};
use crate::verbs::report;

/// Mark for too few samples.
const UNDECIDED: &str = "–";

/// `4.00 KiB overwrite fdatasync, loaded`.
pub(super) fn named(point: Point) -> String {
    let load = if point.loaded { ", loaded" } else { "" };
    format!("{} {} {}{load}", bytes(point.size_bytes as f64), point.writing.name(), point.flushing.name())
}

/// Prints it all.
pub(super) fn answer(answer: &Answer) -> Result<u8, TrialError> {
    let mut first = Table::new("Answer", vec![words(""), words("")]);
    let tone = match answer.judgement.verdict {
        Verdict::Reach => Tone::Good,
        Verdict::CannotBeReal => Tone::Bad,
        Verdict::CannotBeTold => Tone::Open,
    };
    let verdict = match answer.judgement.verdict {
        Verdict::CannotBeReal => format!("{} because {}", Verdict::CannotBeReal.name(), answer.judgement.because),
        verdict => format!("{}: {}", verdict.name(), answer.judgement.because),
    };
    first.row(cells!["verdict", tone.text(verdict)]);
    for (name, text) in costs(&answer.points) {
        first.row(cells![name, text]);
    }
    if answer.interrupted {
        first.row(cells!["", Tone::Open.text("interrupted: this is what was seen until then")]);
    }
    let mut reasons = Table::new("Reasons", vec![words(""), words("")]);
    answer.judgement.reasons.iter().for_each(|reason| reasons.row(cells!["-", reason.clone()]));
    let told =
        "whether a device keeps what it was asked to keep shows when its power is cut: --listen, --report-to, --verify";
    reasons.row(cells!["→", told]);
    let few = format!("{UNDECIDED} undecided: p50 needs n ≥ 20, p99 n ≥ 1,000 (--for)");
    let mut tables = vec![(answer.path.as_str(), "", first), ("Why", "", reasons)];
    if !answer.points.is_empty() {
        tables.push(("Write + flush", &few, points(&answer.points)));
    }
    if !answer.group.is_empty() {
        tables.push(("Group commit", "4 KiB and fdatasync by threads at the same time", group(&answer.group)));
    }
    let filler =
        format!("each line does what those before it do, too; filler is {}", bytes(answer.filler_bytes as f64));
    if !answer.portable.is_empty() {
        tables.push(("1 MiB to disk, portably", &filler, portable(&answer.portable)));
    }
    report::print_tables(&tables)
}

/// The sentences that say most.
fn costs(rows: &[Row]) -> Vec<(&'static str, String)> {
    let of = |flushing, loaded| {
        rows.iter().find_map(|Row { point, outcome }| match outcome {
            Outcome::Measured(measured)
                if (point.writing, point.flushing, point.loaded) == (Writing::Overwrite, flushing, loaded) =>
            {
                Some((bytes(point.size_bytes as f64), measured))
            }
            _ => None,
        })
    };
    let (idle, loaded) = (of(Flushing::Fdatasync, false), of(Flushing::Fdatasync, true));
    let mut all = Vec::new();
    if let Some((size, Measured { times, .. })) = &idle {
        let rate = count((1e9 / times.mean_ns).round() as u64);
        all.push(("write + flush", format!("{size} overwritten and fdatasync: {}, {rate}/s", typical(times))));
    }
    if let Some((_, Measured { times, load_bytes_per_s })) = &loaded {
        let load = load_bytes_per_s.map_or(String::new(), |rate| format!(" of {}/s", bytes(rate)));
        all.push(("loaded", format!("{} beside a background writer{load}", typical(times))));
    }
    if let Some((_, Measured { times, .. })) = of(Flushing::Nothing, false) {
        let beside =
            of(Flushing::Nothing, true).map_or(String::new(), |(_, of)| format!("; loaded {}", typical(&of.times)));
        all.push(("without flush", format!("{}{beside}: that is kept in memory only", typical(times))));
    }
    all
}

/// `p50 2.31 ms (n 430)`, or the mean where there are too few.
fn typical(times: &Times) -> String {
    let n = count(times.n);
    match times.p50_ns {
        Some(p50) => format!("p50 {} (n {n})", nanoseconds(p50)),
        None => format!("mean {} (n {n})", nanoseconds(times.mean_ns as u64)),
    }
}

fn percentile(ns: Option<u64>) -> Cell {
    ns.map_or_else(|| Tone::Dim.text(UNDECIDED).into(), |ns| nanoseconds(ns).into())
}

fn points(rows: &[Row]) -> Table {
    let columns = vec![
        numbers("size"),
        words("write"),
        words("flush"),
        words("load"),
        numbers("n"),
        numbers("mean"),
        numbers("p50"),
        numbers("p99"),
        numbers("max"),
        words(""),
    ];
    let mut table = Table::new("Write + flush", columns);
    for Row { point, outcome } in rows {
        let load = match outcome {
            Outcome::Measured(Measured { load_bytes_per_s: Some(rate), .. }) => format!("{}/s", bytes(*rate)),
            _ if point.loaded => "loaded".to_owned(),
            _ => "idle".to_owned(),
        };
        let named = cells![bytes(point.size_bytes as f64), point.writing.name(), point.flushing.name(), load];
        let seen = match outcome {
            Outcome::Measured(Measured { times, .. }) => {
                let remark = match point.flushing {
                    Flushing::Range => "no device flush",
                    Flushing::Nothing => "no flush",
                    _ => "",
                };
                [timed(times), cells![Tone::Dim.text(remark)]].concat()
            }
            Outcome::NotHere(why) => {
                cells!["", "", "", "", "", Tone::Open.text(format!("not here: {why}"))]
            }
        };
        table.row([named, seen].concat());
    }
    table
}

fn timed(times: &Times) -> Vec<Cell> {
    let mean = nanoseconds(times.mean_ns as u64);
    [
        cells![count(times.n), mean],
        vec![percentile(times.p50_ns), percentile(times.p99_ns), nanoseconds(times.max_ns).into()],
    ]
    .concat()
}

fn group(rows: &[Group]) -> Table {
    let columns = vec![
        numbers("threads"),
        words("files"),
        numbers("flushes/s"),
        numbers("× one"),
        numbers("per device flush"),
        numbers("n"),
        numbers("mean"),
        numbers("p50"),
        numbers("p99"),
        numbers("max"),
    ];
    let mut table = Table::new("Group commit", columns);
    for row in rows {
        let one = rows.iter().find(|other| other.threads == 1 && other.shared == row.shared);
        let times_one = one.map_or(String::new(), |one| significant(row.flushes_per_s / one.flushes_per_s));
        let cells = cells![
            row.threads.to_string(),
            if row.shared { "one" } else { "own" },
            count(row.flushes_per_s.round() as u64),
            times_one,
            row.per_device_flush.map_or_else(|| "not counted".to_owned(), significant),
        ];
        table.row([cells, timed(&row.times)].concat());
    }
    table
}

fn portable(steps: &[Step]) -> Table {
    let columns = vec![
        words(""),
        numbers("n"),
        numbers("mean"),
        numbers("p50"),
        numbers("max"),
        numbers("change"),
        numbers("written"),
        words(""),
    ];
    let mut table = Table::new("1 MiB to disk, portably", columns);
    let mut before: Option<f64> = None;
    for step in steps {
        let name = if before.is_none() { step.adds.to_owned() } else { format!("+ {}", step.adds) };
        let written = bytes(step.written_bytes as f64);
        match &step.times {
            Some(times) => {
                let change =
                    before.map_or(String::new(), |before| format!("× {}", significant(times.mean_ns / before)));
                let mean = nanoseconds(times.mean_ns as u64);
                let max = nanoseconds(times.max_ns);
                let cells = cells![name, count(times.n), mean, percentile(times.p50_ns), max, change, written, ""];
                table.row(cells);
                before = Some(times.mean_ns);
            }
            None => {
                let why = step.not_here.as_deref().unwrap_or("interrupted");
                table.row(cells![name, "", "", "", "", "", "", Tone::Open.text(format!("not here: {why}"))]);
            }
        }
    }
    table
}
