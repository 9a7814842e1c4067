//! Results of `plimsoll sync`, as they are printed: the answer first.

use plimsoll_analysis::number::{bytes, count, nanoseconds, significant};
use plimsoll_disk::group::WriterGroup;
use plimsoll_disk::judge::FlushVerdict;
use plimsoll_disk::latency::{Measured, Outcome};
use plimsoll_disk::times::FlushTimes;
use plimsoll_disk::ways::{Flushing, Point, Writing};
use plimsoll_report::document::{Cell, ColumnOf, Table, Tone, numbers, words};
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
    let tone = match answer.judgement.verdict {
        FlushVerdict::Reach => Tone::Good,
        FlushVerdict::CannotBeReal => Tone::Bad,
        FlushVerdict::CannotBeTold => Tone::Open,
    };
    let verdict = match answer.judgement.verdict {
        FlushVerdict::CannotBeReal => {
            format!("{} because {}", FlushVerdict::CannotBeReal.name(), answer.judgement.because)
        }
        verdict => format!("{}: {}", verdict.name(), answer.judgement.because),
    };
    let mut first = vec![("verdict", tone.text(verdict))];
    first.extend(costs(&answer.points).into_iter().map(|(name, text)| (name, text.into())));
    let cut_short = Tone::Open.text("interrupted: this is what was seen until then");
    first.extend(answer.interrupted.then_some(("", cut_short)));
    let told =
        "whether a device keeps what it was asked to keep shows when its power is cut: --listen, --report-to, --verify";
    let reasons = answer.judgement.reasons.iter().map(|reason| ("-", reason.as_str())).chain([("→", told)]);
    let few = format!("{UNDECIDED} undecided: p50 needs n ≥ 20, p99 n ≥ 1,000 (--for)");
    let mut tables = vec![(answer.path.as_str(), "", Table::pairs(first)), ("Why", "", Table::pairs(reasons))];
    if !answer.points.is_empty() {
        tables.push(("Write + flush", &few, points(&answer.points)));
    }
    if !answer.group.is_empty() {
        tables.push(("Group commit", "4 KiB and fdatasync by threads at the same time", group(&answer.group)));
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

/// Writes `p50 2.31 ms (n 430)`, or the mean with too few samples.
fn typical(times: &FlushTimes) -> String {
    let n = count(times.n);
    match times.p50_ns {
        Some(p50) => format!("p50 {} (n {n})", nanoseconds(p50)),
        None => format!("mean {} (n {n})", nanoseconds(times.mean_ns as u64)),
    }
}

/// Cells of a row's times.
type Of = fn(&FlushTimes) -> Cell;
const N: Of = |times| count(times.n).into();
const MEAN: Of = |times| nanoseconds(times.mean_ns as u64).into();
const P50: Of = |times| percentile(times.p50_ns);
const P99: Of = |times| percentile(times.p99_ns);
const MAX: Of = |times| nanoseconds(times.max_ns).into();

fn percentile(ns: Option<u64>) -> Cell {
    ns.map_or_else(|| Tone::Dim.text(UNDECIDED).into(), |ns| nanoseconds(ns).into())
}

fn points(rows: &[Row]) -> Table {
    let of = |row: &Row, cell: Of| match &row.outcome {
        Outcome::Measured(measured) => cell(&measured.times),
        Outcome::NotHere(_) => "".into(),
    };
    let load = |row: &Row| match &row.outcome {
        Outcome::Measured(Measured { load_bytes_per_s: Some(rate), .. }) => format!("{}/s", bytes(*rate)),
        _ if row.point.loaded => "loaded".to_owned(),
        _ => "idle".to_owned(),
    };
    let remark = |row: &Row| match (&row.outcome, row.point.flushing) {
        (Outcome::NotHere(why), _) => Tone::Open.text(format!("not here: {why}")),
        (_, Flushing::Range) => Tone::Dim.text("no device flush"),
        (_, Flushing::Nothing) => Tone::Dim.text("no flush"),
        _ => Tone::Dim.text(""),
    };
    let columns: [ColumnOf<'_, Row>; 10] = [
        (numbers("size"), &|row| bytes(row.point.size_bytes as f64).into()),
        (words("write"), &|row| row.point.writing.name().into()),
        (words("flush"), &|row| row.point.flushing.name().into()),
        (words("load"), &|row| load(row).into()),
        (numbers("n"), &|row| of(row, N)),
        (numbers("mean"), &|row| of(row, MEAN)),
        (numbers("p50"), &|row| of(row, P50)),
        (numbers("p99"), &|row| of(row, P99)),
        (numbers("max"), &|row| of(row, MAX)),
        (words(""), &|row| remark(row).into()),
    ];
    Table::of("Write + flush", rows, &columns)
}

fn group(rows: &[WriterGroup]) -> Table {
    let times_one = |row: &WriterGroup| {
        let one = rows.iter().find(|other| other.threads == 1 && other.shared == row.shared);
        one.map_or(String::new(), |one| significant(row.flushes_per_s / one.flushes_per_s))
    };
    let columns: [ColumnOf<'_, WriterGroup>; 10] = [
        (numbers("threads"), &|row| row.threads.to_string().into()),
        (words("files"), &|row| if row.shared { "one" } else { "own" }.into()),
        (numbers("flushes/s"), &|row| count(row.flushes_per_s.round() as u64).into()),
        (numbers("× one"), &|row| times_one(row).into()),
        (numbers("per device flush"), &|row| row.per_device_flush.map_or("not counted".into(), significant).into()),
        (numbers("n"), &|row| N(&row.times)),
        (numbers("mean"), &|row| MEAN(&row.times)),
        (numbers("p50"), &|row| P50(&row.times)),
        (numbers("p99"), &|row| P99(&row.times)),
        (numbers("max"), &|row| MAX(&row.times)),
    ];
    Table::of("Group commit", rows, &columns)
}
