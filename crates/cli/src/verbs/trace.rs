//! `plimsoll trace`: who has the kernel put data on a device, how long each call takes, and on which file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_analysis::number;
use plimsoll_core::{StoreErrorKind, shown};
use plimsoll_report::cells;
use plimsoll_report::document::{ColumnOf, Table, numbers, words};
use plimsoll_trace::{Call, Process, Slow, Times, TraceError, TraceSpec, Traced, Tracer, Way, is_there};
use plimsoll_trial::{TrialError, io_error};
use serde_json::{Value, json};

use crate::args::TraceArgs;
use crate::error::exit;
use crate::verbs::report;
use crate::{interrupt, options};

/// Rows of a table.
const ROWS_MAX: usize = 20;
/// Slow calls that are kept: the slowest.
const SLOW_MAX: usize = 1_000;
/// Percentiles that are shown.
const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// Between two lines.
const SECOND: Duration = Duration::from_secs(1);

/// Traces, and prints the calls.
pub fn run(args: &TraceArgs) -> Result<u8, TrialError> {
    let threshold = options::time("threshold", &args.threshold)?;
    let limit = args.duration.as_deref().map(|given| options::time("for", given)).transpose()?;
    let stop = interrupt::of_command();
    let own = std::process::id();
    let pids = match (args.all, args.command.is_empty()) {
        (true, _) => None,
        (_, true) => Some(args.pids.clone()),
        // A child of this process is followed from its birth on.
        (_, false) => Some(vec![own]),
    };
    let way = args.way.as_deref().and_then(|name| Way::ALL.into_iter().find(|way| way.name() == name));
    let mut tracer = Tracer::start(&TraceSpec { pids, threshold, way }).map_err(|error| failed(&error))?;
    said_how(&tracer);
    let mut child = start(&args.command, args.json)?.map(Started);
    let begin = Instant::now();
    let mut seen =
        Watched { json: args.json, threshold, slow: Vec::new(), own: (!args.command.is_empty()).then_some(own) };
    loop {
        let tick = Instant::now();
        let mut is_over = false;
        while tick.elapsed() < SECOND && !is_over {
            std::thread::sleep(Duration::from_millis(50));
            is_over = stop.load(Ordering::SeqCst)
                || limit.is_some_and(|limit| begin.elapsed() >= limit)
                || match &mut child {
                    Some(child) => child.0.try_wait().is_ok_and(|ended| ended.is_some()),
                    None => !args.all && args.pids.iter().all(|pid| !is_there(*pid)),
                };
        }
        let read = seen.read(&mut tracer)?;
        if is_over {
            seen.end(&read, begin.elapsed())?;
            return child.map_or(Ok(exit::OK), ended);
        }
        seen.line(&read)?;
    }
}

/// A command that was started: it goes with this, however the trace ends.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // One that has ended and was waited for takes neither.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Converts the error of a trace to an error with a remedy.
pub fn failed(error: &TraceError) -> TrialError {
    let kind = match error {
        TraceError::NoProcess { .. } | TraceError::Nothing | TraceError::Directory { .. } => StoreErrorKind::Usage,
        TraceError::Kernel { .. } | TraceError::PidNamespace => StoreErrorKind::Missing,
        _ => StoreErrorKind::Permission,
    };
    TrialError::new(kind, error.to_string()).next(error.next())
}

/// Prints the way of tracing, and the reason against the better one.
fn said_how(tracer: &Tracer) {
    if let Some(error) = tracer.why_not_bpf() {
        crate::say(&format!("bpf does not work here: {error}; {}", error.next()));
    }
    crate::say(match tracer.way() {
        Way::Bpf => "counting by programs in the kernel (bpf); Ctrl-C ends the trace",
        Way::Proc => {
            "seen by looking every 5 ms at what threads wait for (proc): shorter calls are mostly missed, and counts are too \
             low; Ctrl-C ends it"
        }
    });
}

fn start(command: &[OsString], json: bool) -> Result<Option<Child>, TrialError> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    // What it prints must not come between lines of JSON.
    let output = if json { Stdio::from(std::io::stderr()) } else { Stdio::inherit() };
    let child = Command::new(program).args(arguments).stdout(output).spawn();
    child.map(Some).map_err(|error| io_error(program.display(), &error))
}

/// Ends the command if it still runs, and reports its failure.
fn ended(mut started: Started) -> Result<u8, TrialError> {
    let child = &mut started.0;
    if child.try_wait().is_ok_and(|ended| ended.is_none()) {
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        // One that has ended by itself meanwhile needs no signal.
        let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
        let begin = Instant::now();
        while begin.elapsed() < 5 * SECOND && child.try_wait().is_ok_and(|ended| ended.is_none()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| io_error("the command", &error))?;
    if !status.success() {
        crate::say(&format!("the command ended with {status}"));
    }
    Ok(exit::OK)
}

/// Calls seen so far, and the form of the output.
struct Watched {
    json: bool,
    threshold: Duration,
    slow: Vec<Slow>,
    /// This process, if only its children are traced.
    own: Option<u32>,
}

impl Watched {
    fn read(&mut self, tracer: &mut Tracer) -> Result<Traced, TrialError> {
        let mut read = tracer.read().map_err(|error| failed(&error))?;
        read.processes.retain(|process| Some(process.pid) != self.own);
        self.slow.extend(read.slow.iter().cloned());
        self.slow.sort_by_key(|slow| std::cmp::Reverse(slow.time_ns));
        self.slow.truncate(SLOW_MAX);
        Ok(read)
    }

    /// Prints the line of a second.
    fn line(&self, read: &Traced) -> Result<(), TrialError> {
        let times = read.new_times();
        let rate = times.len() as f64 / read.elapsed.as_secs_f64().max(1e-9);
        if self.json {
            let slow: Vec<Value> = read.slow.iter().map(slow_json).collect();
            let line = json!({ "at_ns": read.at_ns, "elapsed_ns": read.elapsed.as_nanos() as u64, "calls": times.len(),
                "times": times_json(&times), "lost": read.lost, "slow": slow,
                "unfinished": read.unfinished.iter().map(slow_json).collect::<Vec<_>>() });
            return crate::print(&format!("{line}\n")).map(drop);
        }
        let shown = |share| times.quantile(share).map_or("-".to_owned(), number::nanoseconds);
        let lost = if read.lost > 0 { format!("  lost {}", shown::count(read.lost)) } else { String::new() };
        let stuck = read.unfinished.iter().max_by_key(|slow| slow.time_ns);
        let stuck = stuck.map_or(String::new(), |slow| {
            format!("  {} {} not done for {}", slow.name, slow.call, number::nanoseconds(slow.time_ns))
        });
        let text = format!(
            "{:>10}  p50 {:>8}  p99 {:>8}  max {:>8}  slow {}{lost}{stuck}\n",
            number::with_unit(rate, "1/s"),
            shown(0.5),
            shown(0.99),
            shown(1.0),
            read.slow.len(),
        );
        crate::print(&text).map(drop)
    }

    /// Prints the whole result.
    fn end(&self, read: &Traced, elapsed: Duration) -> Result<(), TrialError> {
        if self.json {
            let process = |process: &Process| {
                let calls = process.calls.iter().map(|calls| {
                    json!({ "call": calls.call.name(), "failed": calls.failed, "times": times_json(&calls.times) })
                });
                json!({ "pid": process.pid, "name": process.name, "calls": calls.collect::<Vec<_>>() })
            };
            let all = json!({ "way": read.way.name(), "elapsed_ns": elapsed.as_nanos() as u64, "lost": read.lost,
                "processes": read.processes.iter().map(process).collect::<Vec<_>>(),
                "times": times_json(&read.times()), "slow": self.slow.iter().map(slow_json).collect::<Vec<_>>(),
                "unfinished": read.unfinished.iter().map(slow_json).collect::<Vec<_>>() });
            return crate::print(&format!("{all}\n")).map(drop);
        }
        let times = read.times();
        crate::print(&format!("\n{}", quantize(&times)))?;
        if times.is_empty() {
            crate::print("no call was seen\n")?;
        } else {
            report::print_tables(&[("Processes", "", processes(read, elapsed))])?;
        }
        let unfinished: Vec<Slow> = read.unfinished.iter().filter(|slow| Some(slow.pid) != self.own).cloned().collect();
        if !self.slow.is_empty() {
            let note = format!(
                "{} and longer, of {} calls",
                number::nanoseconds(self.threshold.as_nanos() as u64),
                shown::count(times.len())
            );
            report::print_tables(&[("Slowest calls", &note, slowest(&self.slow, read.at_ns, elapsed))])?;
        }
        if !unfinished.is_empty() {
            report::print_tables(&[("Unfinished calls", "", slowest(&unfinished, read.at_ns, elapsed))])?;
        }
        crate::print(&format!("\nlost: {}\n", shown::count(read.lost))).map(drop)
    }
}

/// A histogram as DTrace's `quantize` prints one: by powers of two, each row named after its least value, in nanoseconds.
fn quantize(times: &Times) -> String {
    const WIDTH: u64 = 40;
    let powers = times.powers_of_two();
    let (Some((first, _)), Some((last, _))) = (powers.first(), powers.last()) else { return String::new() };
    let mut text = format!("{:>16}  {:-^40} count\n", "value [ns]", " Distribution ");
    let edges = [(first / 2, 0)].into_iter().chain(powers.iter().copied()).chain([(last * 2, 0)]);
    for (value, count) in edges {
        let bar = "@".repeat(((count * WIDTH + times.len() / 2) / times.len()) as usize);
        text.push_str(&format!("{value:>16} |{bar:<40} {count}\n"));
    }
    text
}

fn processes(read: &Traced, elapsed: Duration) -> Table {
    let heads = SHARES.map(|(name, _)| numbers(name));
    let columns =
        [words("process"), numbers("pid"), words("call"), numbers("n"), numbers("failed").spare(1), numbers("rate")];
    let mut table = Table::new("Processes", [columns.to_vec(), heads.to_vec(), vec![numbers("max")]].concat());
    // By process; where those are many, by their names.
    let mut rows: BTreeMap<(&str, u32, Call), (Times, u64, BTreeSet<u32>)> = BTreeMap::new();
    let is_many = read.processes.len() > ROWS_MAX;
    for process in &read.processes {
        for calls in &process.calls {
            let pid = if is_many { 0 } else { process.pid };
            let row = rows.entry((&process.name, pid, calls.call)).or_default();
            row.0.merge(&calls.times);
            row.1 += calls.failed;
            row.2.insert(process.pid);
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, (times, ..))| std::cmp::Reverse(times.sum_ns()));
    let row = |table: &mut Table, name: &str, pid: String, call: &str, times: &Times, failed: u64| {
        let rate = number::with_unit(times.len() as f64 / elapsed.as_secs_f64().max(1e-9), "1/s");
        let mut cells = cells![shown::clean(name), pid, call, shown::count(times.len()), shown::count(failed), rate];
        let shown = |share| times.quantile(share).map_or(String::new(), number::nanoseconds);
        cells.extend(SHARES.iter().map(|(_, share)| shown(*share).into()));
        cells.push(shown(1.0).into());
        table.row(cells);
    };
    for ((name, pid, call), (times, failed, pids)) in rows.iter().take(ROWS_MAX) {
        let pid = if is_many { format!("{} of them", pids.len()) } else { pid.to_string() };
        row(&mut table, name, pid, call.name(), times, *failed);
    }
    if let Some(others) = rows.get(ROWS_MAX..).filter(|others| !others.is_empty()) {
        let mut sum = Times::default();
        others.iter().for_each(|(_, (times, ..))| sum.merge(times));
        let failed = others.iter().map(|(_, (_, failed, _))| failed).sum();
        row(&mut table, &format!("{} others", others.len()), String::new(), "", &sum, failed);
    }
    table
}

fn slowest(slow: &[Slow], at_ns: u64, elapsed: Duration) -> Table {
    let begin_ns = at_ns.saturating_sub(elapsed.as_nanos() as u64);
    let path =
        |slow: &Slow| slow.path.as_ref().map_or("not known".to_owned(), |path| shown::clean(&path.to_string_lossy()));
    let failed = |slow: &Slow| if slow.result.is_some_and(|result| result < 0) { " (failed)" } else { "" };
    let columns: [ColumnOf<'_, Slow>; 6] = [
        (numbers("took"), &|slow| number::nanoseconds(slow.time_ns).into()),
        (numbers("at"), &|slow| format!("{:.3} s", slow.start_ns.saturating_sub(begin_ns) as f64 / 1e9).into()),
        (words("process"), &|slow| shown::clean(&slow.name).into()),
        (numbers("pid"), &|slow| slow.pid.to_string().into()),
        (words("call"), &|slow| format!("{}{}", slow.call, failed(slow)).into()),
        (words("file"), &|slow| path(slow).into()),
    ];
    Table::of("Slowest calls", &slow[..slow.len().min(ROWS_MAX)], &columns)
}

fn slow_json(slow: &Slow) -> Value {
    json!({ "pid": slow.pid, "tid": slow.tid, "name": slow.name, "call": slow.call.name(), "start_ns": slow.start_ns,
        "time_ns": slow.time_ns, "result": slow.result, "path": slow.path.as_ref().map(|path| path.to_string_lossy()) })
}

fn times_json(times: &Times) -> Value {
    let percentiles: serde_json::Map<String, Value> =
        SHARES.iter().map(|(name, share)| ((*name).to_owned(), json!(times.quantile(*share)))).collect();
    json!({ "count": times.len(), "percentiles_ns": percentiles, "max_ns": times.quantile(1.0),
        "powers_of_two_ns": times.powers_of_two() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_looks_as_that_of_dtrace() {
        let mut times = Times::default();
        (0..1_520).for_each(|_| times.record(100_000_000));
        (0..79).for_each(|_| times.record(200_000_000));
        times.record(300_000_000);
        let lines = [
            "      value [ns]  ------------- Distribution ------------- count",
            "        33554432 |                                         0",
            "        67108864 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@   1520",
            "       134217728 |@@                                       79",
            "       268435456 |                                         1",
            "       536870912 |                                         0",
        ];
        assert_eq!(quantize(&times).lines().collect::<Vec<_>>(), lines);
    }
}
