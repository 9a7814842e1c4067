//! `plimsoll doctor --honesty`: whether a pause of the server is fully visible.
//!
//! A private server is stopped (SIGSTOP) for a second while operations come at a fixed rate. Every operation that was
//! due in that second has waited for the rest of it, so what the response times must look like is known beforehand.
//! A generator that starts its clock when it gets round to sending sees almost none of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use plimsoll_core::{
    Catalogue, Dialect, Interface, Measure, Nodes, OpenOptions, Servers, StoreError, StoreKind, StreamSpec, Target,
    Waits, Workload, waits,
};
use plimsoll_disk::scratch::{self, Scratch};
use plimsoll_drive::{DriveSpec, Limit, Pace};
use plimsoll_report::document::{ColumnOf, Table, numbers, words};
use plimsoll_trial::{TrialError, write_error};

use crate::error::exit;
use crate::interrupt;
use crate::measure::Bench;
use crate::verbs::report;

/// Beginning of a directory's name.
const DIRECTORY: &str = "honesty-";
/// Directory of the server's data in it.
const DATA: &str = "data/1";
const RATE_PER_S: f64 = 1_000.0;
const WINDOW: Duration = Duration::from_secs(10);
const STALL_AT: Duration = Duration::from_secs(4);
const STALL: Duration = Duration::from_secs(1);
const CLIENTS: u32 = 8;
/// Longest that an operation of the load may take.
const LOAD_TIMEOUT: Duration = Duration::from_secs(20);
/// Bounds of measured minus expected, as shares of the stall. A lower value means that part of the pause was missed;
/// a higher one includes the time in which the server works off the backlog.
const BELOW: f64 = 0.05;
const ABOVE: f64 = 0.2;

/// Percentile: expected, and measured as response and as service time.
struct Row {
    percentile: f64,
    expected_ns: f64,
    response_ns: u64,
    service_ns: u64,
}

/// Stops a private server of the kind `name` for a second, and prints expected beside measured.
pub fn run(catalogue: &Catalogue, name: &str, runs_dir: &Path) -> Result<u8, TrialError> {
    let is_server = |kind: &&dyn StoreKind| !kind.spec().schemes.is_empty();
    let Some(kind) = catalogue.store(name).filter(is_server) else {
        let servers = catalogue.stores.iter().map(|kind| &**kind).filter(is_server).map(|kind| kind.spec().name);
        let servers: Vec<&str> = servers.collect();
        return Err(TrialError::usage(format!("`{name}` is not a server that can be started and stopped here"))
            .next(format!("name one of: {}", servers.join(", "))));
    };
    kind.installed()?;
    let stop = interrupt::of_command();
    sweep(runs_dir);
    let made = |path: &Path| std::fs::create_dir_all(path).map_err(|error| write_error(path.display(), &error));
    made(runs_dir)?;
    let directory = Scratch::make(runs_dir, DIRECTORY)?;
    made(&directory.path().join(DATA))?;
    let result = measure(catalogue, kind, directory.path(), &stop);
    drop(directory);
    if stop.load(Ordering::SeqCst) {
        return Ok(exit::INTERRUPTED);
    }
    let rows = result?;
    let honest = rows.iter().all(Row::is_right);
    print(name, &rows, honest)?;
    Ok(if honest { exit::OK } else { exit::GOAL_MISSED })
}

/// Removes what tests of honesty whose Plimsoll was killed have left in `runs_dir`. What cannot be removed is left for
/// the next time.
pub(super) fn sweep(runs_dir: &Path) {
    scratch::sweep(runs_dir, DIRECTORY, &|left| {
        for store in std::fs::read_dir(left.join("data")).into_iter().flatten().flatten() {
            let _ = plimsoll_lab::sweep_orphans(&store.path());
        }
    });
}

impl Row {
    fn is_right(&self) -> bool {
        let difference = (self.response_ns as f64 - self.expected_ns) / STALL.as_nanos() as f64;
        (-BELOW..=ABOVE).contains(&difference)
    }
}

/// The percentile `p` of the response times: operations due in the stall wait for its rest, all others not at all.
fn expected_ns(percentile: f64) -> f64 {
    let waiting = STALL.as_secs_f64() / WINDOW.as_secs_f64();
    let above = 1.0 - percentile / 100.0;
    (STALL.as_nanos() as f64 * (1.0 - above / waiting)).max(0.0)
}

fn measure(
    catalogue: &Catalogue,
    kind: &dyn StoreKind,
    directory: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Row>, TrialError> {
    let (workload, op) = question(catalogue, kind)?;
    crate::say(&format!("starting a private {}", kind.spec().name));
    let target = Target::Private { data_dir: directory.join(DATA), said: false, log_dir: directory.to_owned() };
    let params = plimsoll_plan::defaults(kind.spec().params);
    let waits = Waits::new(waits::ANSWER, waits::WORK, Arc::clone(stop));
    let options = OpenOptions { target, params, run_id: "honesty".to_owned(), waits: waits.clone() };
    let mut store = plimsoll_lab::open(kind, options, &mut |_| {})?;
    store.create(workload.layout())?;
    let servers = store.servers();
    let mut bench = Bench { store: &mut *store, workload: &*workload, stop };
    let stream = StreamSpec::Load { batch: 1_000, clients: 1 };
    if workload.stream(&stream).is_ok() {
        let spec =
            DriveSpec { limit: Limit::Exhausted, op_timeout: LOAD_TIMEOUT, ends_on_loss: true, ..DriveSpec::default() };
        bench.drive(&stream, &spec, &mut |_| {})?;
    }
    bench.store.after_load(workload.layout())?;
    crate::say(&format!(
        "{RATE_PER_S}/s for {} s, the server stopped for {} s after {} s",
        WINDOW.as_secs(),
        STALL.as_secs(),
        STALL_AT.as_secs()
    ));
    let measured = drive_through_a_stall(&mut bench, servers.as_deref(), op);
    waits.leave(measured.is_err());
    store.close()?;
    measured
}

/// Returns the simplest workload that the store supports, and its operation type.
fn question(catalogue: &Catalogue, kind: &dyn StoreKind) -> Result<(Box<dyn Workload>, &'static str), TrialError> {
    let spec = kind.spec();
    let speaks = |interface| spec.interfaces.contains(&interface);
    let (name, op) = match spec.dialect {
        Some(Dialect::Mysql) => ("oltp", "point_select"),
        Some(_) => ("select", "select"),
        None if speaks(Interface::Kv) => ("kv", "read"),
        None if speaks(Interface::Http) => ("http", "get"),
        None if speaks(Interface::Ldap) => ("ldap", "search"),
        None => ("coupons", "read"),
    };
    let workload = catalogue.workload(name);
    let made = workload.and_then(|known| (known.make)(1, &plimsoll_plan::defaults(known.params), &[]).ok());
    made.map(|made| (made, op))
        .ok_or_else(|| TrialError::usage(format!("there is no simple operation for {}", spec.name)))
}

fn drive_through_a_stall(
    bench: &mut Bench<'_>,
    servers: Option<&dyn Servers>,
    op: &str,
) -> Result<Vec<Row>, TrialError> {
    let stream = StreamSpec::One { kind: op.to_owned(), clients: CLIENTS };
    let spec = DriveSpec { limit: Limit::Duration(WINDOW), pace: Pace::even(RATE_PER_S), ..DriveSpec::default() };
    let histogram = || Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds that a histogram can have");
    let mut both: [Histogram<u64>; 2] = [histogram(), histogram()];
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| servers.map_or(Ok(()), |servers| stall(servers, &over)));
        let driven = bench.drive(&stream, &spec, &mut |slice| {
            for one in &slice.histograms {
                let at = usize::from(one.measure == Measure::Service);
                // Equal bounds: nothing is out of range.
                let _ = both[at].add(&one.histogram);
            }
            if let Some(unfinished) = &slice.unfinished {
                let _ = both[0].add(unfinished);
            }
        });
        over.store(true, Ordering::Relaxed);
        // A panic of the thread is one of this program.
        let stalled = stalled.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        driven.and(stalled)
    })?;
    let [response, service] = both;
    let row = |percentile| Row {
        percentile,
        expected_ns: expected_ns(percentile),
        response_ns: response.value_at_percentile(percentile),
        service_ns: service.value_at_percentile(percentile),
    };
    Ok([50.0, 75.0, 95.0, 99.0, 99.9].map(row).into())
}

/// Pauses the servers for [`STALL`] after [`STALL_AT`], or until `over`. Resumes them in any case.
fn stall(servers: &dyn Servers, over: &AtomicBool) -> Result<(), StoreError> {
    let begin = Instant::now();
    let wait_until = |end: Duration| {
        while begin.elapsed() < end && !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_until(STALL_AT);
    let paused = servers.pause(Nodes::All);
    wait_until(STALL_AT + STALL);
    servers.resume(Nodes::All)?;
    paused.map(drop)
}

fn print(name: &str, rows: &[Row], honest: bool) -> Result<u8, TrialError> {
    let ms = |ns: f64| format!("{:.1} ms", ns / 1e6);
    let columns: [ColumnOf<'_, Row>; 5] = [
        (words("percentile"), &|row| format!("p{}", row.percentile).into()),
        (numbers("expected"), &|row| ms(row.expected_ns).into()),
        (numbers("measured"), &|row| ms(row.response_ns as f64).into()),
        (numbers("if the clock started at the send"), &|row| ms(row.service_ns as f64).into()),
        (words(""), &|row| if row.is_right() { "" } else { "← wrong" }.into()),
    ];
    let (stall, window, n) = (STALL.as_secs(), WINDOW.as_secs(), (RATE_PER_S * WINDOW.as_secs_f64()) as u64);
    let title = format!("{name}, stopped for {stall} s of {window} s at {RATE_PER_S}/s (n = {n}, {CLIENTS} clients)");
    report::print_tables(&[(&title, "", Table::of("Percentiles", rows, &columns))])?;
    crate::print(if honest {
        "\nThe pause is fully visible: no wait is missing.\n"
    } else {
        "\nThe pause is not fully visible: do not trust percentiles from this machine.\n"
    })
}

#[cfg(test)]
mod tests {
    use super::expected_ns;

    #[test]
    fn a_tenth_of_all_operations_waits() {
        assert_eq!(expected_ns(50.0), 0.0);
        assert!(expected_ns(90.0).abs() < 1.0);
        assert!((expected_ns(95.0) - 500e6).abs() < 1.0);
        assert!((expected_ns(99.0) - 900e6).abs() < 1.0);
    }
}
