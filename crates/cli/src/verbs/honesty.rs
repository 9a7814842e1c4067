//! `plimsoll doctor --honesty`: whether a pause of the server is fully visible.
//!
//! A private server is stopped (SIGSTOP) for a second while operations come at a fixed rate. Every operation that was
//! due in that second has waited for the rest of it, so what the response times must look like is known beforehand.
//! A generator that starts its clock when it gets round to sending sees almost none of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use plimsoll_core::{
    Catalogue, Dialect, Durability, Interface, Measure, OpenOptions, Store, StoreErrorKind, StoreKind, StreamSpec,
    Target, Waits, Workload, waits,
};
use plimsoll_drive::{Clock, Drive, DriveResult, DriveSpec, Limit, Pace};
use plimsoll_report::cells;
use plimsoll_report::document::{Table, numbers, words};
use plimsoll_trial::TrialError;

use crate::error::exit;
use crate::interrupt;

/// Beginning of a directory's name; the process id follows.
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
    let kind = catalogue.store(name).filter(|kind| !kind.spec().schemes.is_empty());
    let Some(kind) = kind else {
        let servers: Vec<&str> = catalogue
            .stores
            .iter()
            .map(|kind| kind.spec())
            .filter(|spec| !spec.schemes.is_empty())
            .map(|spec| spec.name)
            .collect();
        return Err(TrialError::usage(format!("`{name}` is not a server that can be started and stopped here"))
            .next(format!("name one of: {}", servers.join(", "))));
    };
    kind.installed()?;
    let stop = interrupt::of_run();
    let directory = runs_dir.join(format!("{DIRECTORY}{}", std::process::id()));
    let data_dir = directory.join(DATA);
    sweep(runs_dir);
    std::fs::create_dir_all(&data_dir).map_err(|error| TrialError::writing(data_dir.display(), &error))?;
    // The lock ends with this process: a later one removes the directory if it is unlocked.
    let held = std::fs::File::open(&directory).map_err(|error| TrialError::io(directory.display(), &error))?;
    held.lock().map_err(|error| TrialError::io(directory.display(), &error))?;
    let result = measure(catalogue, kind, &directory, &stop);
    let removed = std::fs::remove_dir_all(&directory).map_err(|error| TrialError::io(directory.display(), &error));
    if stop.load(Ordering::SeqCst) {
        return removed.map(|()| exit::INTERRUPTED);
    }
    let rows = result?;
    removed?;
    let honest = rows.iter().all(Row::is_right);
    crate::print(&text(name, &rows, honest))?;
    Ok(if honest { exit::OK } else { exit::GOAL_MISSED })
}

/// Removes what tests of honesty whose Plimsoll was killed have left in `runs_dir`. What cannot be removed is left for
/// the next time.
pub(super) fn sweep(runs_dir: &Path) {
    for found in std::fs::read_dir(runs_dir).into_iter().flatten().flatten() {
        let pid = found.file_name().to_string_lossy().strip_prefix(DIRECTORY).and_then(|pid| pid.parse::<u32>().ok());
        let path = found.path();
        if pid.is_none() || plimsoll_record::is_live(&path) {
            continue;
        }
        for store in std::fs::read_dir(path.join("data")).into_iter().flatten().flatten() {
            let _ = plimsoll_lab::sweep_orphans(&store.path());
        }
        let _ = std::fs::remove_dir_all(&path);
    }
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
    let mut store = plimsoll_lab::open(
        kind,
        OpenOptions { target, params, run_id: "honesty".to_owned(), waits: waits.clone() },
        &mut |_| {},
    )?;
    store.create(workload.layout())?;
    load(&mut *store, &*workload, stop)?;
    crate::say(&format!(
        "{RATE_PER_S}/s for {} s, the server stopped for {} s after {} s",
        WINDOW.as_secs(),
        STALL.as_secs(),
        STALL_AT.as_secs()
    ));
    let roots = store.processes();
    let measured = drive_through_a_stall(&mut *store, &roots, &*workload, &op, stop);
    waits.leave(measured.is_err());
    store.close()?;
    measured
}

/// The plainest question that the store can be asked, and which kind of operation it is.
fn question(catalogue: &Catalogue, kind: &dyn StoreKind) -> Result<(Box<dyn Workload>, String), TrialError> {
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
    let missing = || TrialError::usage(format!("there is no simple operation for {}", spec.name));
    let workload = catalogue.workload(name).ok_or_else(missing)?;
    let made = (workload.make)(1, &plimsoll_plan::defaults(workload.params), &[]).map_err(|_| missing())?;
    Ok((made, op.to_owned()))
}

fn load(store: &mut dyn Store, workload: &dyn Workload, stop: &Arc<AtomicBool>) -> Result<(), TrialError> {
    let stream = StreamSpec::Load { batch: 1_000, clients: 1 };
    if workload.stream(&stream).is_ok() {
        let spec =
            DriveSpec { limit: Limit::Exhausted, op_timeout: LOAD_TIMEOUT, ends_on_loss: true, ..DriveSpec::default() };
        drive(store, workload, &stream, &spec, stop, &mut |_| {})?;
    }
    Ok(store.after_load(workload.layout())?)
}

fn drive_through_a_stall(
    store: &mut dyn Store,
    roots: &[u32],
    workload: &dyn Workload,
    op: &str,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Row>, TrialError> {
    let stream = StreamSpec::One { kind: op.to_owned(), clients: CLIENTS };
    let spec = DriveSpec { limit: Limit::Duration(WINDOW), pace: Pace::even(RATE_PER_S), ..DriveSpec::default() };
    let mut both = [histogram(), histogram()];
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| stall(roots, &over));
        let driven = drive(store, workload, &stream, &spec, stop, &mut |slice| {
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
        driven
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

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds that a histogram can have")
}

/// Drives `store` with nothing recorded.
///
/// # Errors
/// It could not be driven, or an operation failed.
pub(crate) fn drive(
    store: &mut dyn Store,
    workload: &dyn Workload,
    stream: &StreamSpec,
    spec: &DriveSpec,
    stop: &Arc<AtomicBool>,
    on_slice: &mut dyn FnMut(plimsoll_core::Slice),
) -> Result<DriveResult, TrialError> {
    let drive = Drive {
        clock: &Clock::start(),
        spec,
        sessions: store.sessions(stream.clients(), Durability::Durable)?,
        kinds: workload.kinds(),
        stream: workload.stream(stream).map_err(TrialError::usage)?.into(),
        observers: Vec::new(),
        stop: Arc::clone(stop),
    };
    let result = drive.run(on_slice).map_err(|error| TrialError::new(StoreErrorKind::Store, error.to_string()))?;
    match result.errors.first() {
        None => Ok(result),
        Some(error) => Err(TrialError::new(StoreErrorKind::Store, format!("{} operations failed", error.count))
            .detail(format!("{} {}", error.code, error.message))),
    }
}

/// Stops the server's processes for a while, and lets them go on whatever happens.
fn stall(roots: &[u32], over: &AtomicBool) {
    let wait = |time: Duration| {
        let started = std::time::Instant::now();
        while started.elapsed() < time && !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1).min(time.saturating_sub(started.elapsed())));
        }
    };
    wait(STALL_AT);
    let stopped = plimsoll_sample::with_descendants(roots);
    signal(&stopped, rustix::process::Signal::STOP);
    wait(STALL);
    signal(&stopped, rustix::process::Signal::CONT);
}

fn signal(pids: &std::collections::BTreeSet<u32>, signal: rustix::process::Signal) {
    for pid in pids.iter().filter_map(|pid| rustix::process::Pid::from_raw(*pid as i32)) {
        // One that has ended meanwhile needs no signal.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

fn text(name: &str, rows: &[Row], honest: bool) -> String {
    let ms = |ns: f64| format!("{:.1} ms", ns / 1e6);
    let n = (RATE_PER_S * WINDOW.as_secs_f64()) as u64;
    let mut table = Table::new(
        "Percentiles",
        vec![
            words("percentile"),
            numbers("expected"),
            numbers("measured"),
            numbers("if the clock started at the send"),
            words(""),
        ],
    );
    for row in rows {
        let mark = if row.is_right() { "" } else { "← wrong" };
        let (percentile, expected) = (format!("p{}", row.percentile), ms(row.expected_ns));
        table.row(cells![percentile, expected, ms(row.response_ns as f64), ms(row.service_ns as f64), mark]);
    }
    let (stall, window) = (STALL.as_secs(), WINDOW.as_secs());
    let rows = plimsoll_report::tables(&[("", "", table)], false, 100);
    let conclusion = if honest {
        "The pause is fully visible: no wait is missing."
    } else {
        "The pause is not fully visible: do not trust percentiles from this machine."
    };
    format!(
        "{name}, stopped for {stall} s of {window} s at {RATE_PER_S}/s (n = {n}, {CLIENTS} clients)\n\n{rows}\n{conclusion}\n"
    )
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
