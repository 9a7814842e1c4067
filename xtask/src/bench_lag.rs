//! How late the generator itself is at 5,000 operations a second: for each way of waking up, with the server limited to
//! one processor and the worker on the other, and with both where the system puts them.
//!
//! Beside it stands how late a thread with nothing to do is woken up in the same seconds: nobody on this machine is
//! earlier than that.

use std::error::Error;
use std::num::NonZeroU64;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use plimsoll_core::{Layout, ParamValue, Params, Sessions, StreamSpec, WireClient};
use plimsoll_drive::{Clock, Drive, DriveResult, DriveSpec, Io, Limit, Pace, Wake};
use plimsoll_lab::Cluster;
use plimsoll_store_postgres::PostgresRecipe;
use plimsoll_store_postgres::wire::PgSession;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};

const RATE_PER_S: f64 = 5_000.0;
const RUN: Duration = Duration::from_secs(3);
const RUNS: usize = 9;
const CLIENTS: usize = 8;
const TICK_NS: u64 = 1_000_000;
/// Of lag, with the server on one processor and the worker on the other.
const TARGETS_US: (f64, f64) = (10.0, 100.0);

/// One run, in microseconds.
struct Run {
    p50: f64,
    p99: f64,
    cpu_per_op: f64,
    idle_p50: f64,
    idle_p99: f64,
    void: bool,
}

/// Prints lag and CPU by way of waking up.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let runs = arguments.first().map_or(Ok(RUNS), |runs| runs.parse())?;
    let bases = [std::env::temp_dir(), "/var/tmp".into()];
    let recipe = Box::new(PostgresRecipe::default());
    let server = Cluster::start(recipe, &bases, &std::env::temp_dir(), &Default::default(), &mut |_| {})?;
    make_tables(&server)?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "PostgreSQL, point select at {RATE_PER_S}/s, {CLIENTS} clients on a Unix socket, one worker over epoll; n = \
         {runs} interleaved runs of {RUN:?} each; load at start {}",
        load.split(' ').next().unwrap_or_default()
    );
    println!("target with processors apart: lag p50 {} µs, p99 {} µs", TARGETS_US.0, TARGETS_US.1);
    println!(
        "| wake | processors | lag p50 µs, median (least … most) | lag p99 µs | idle thread late p50, p99 µs | CPU µs/op | void |"
    );
    println!("|---|---|---|---|---|---|---|");
    let wakes = [Wake::Precise, Wake::Spin, Wake::Coarse];
    let cases: Vec<(Wake, bool)> = wakes.into_iter().flat_map(|wake| [(wake, true), (wake, false)]).collect();
    let mut all: Vec<Vec<Run>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for ((wake, apart), runs) in cases.iter().zip(&mut all) {
            runs.push(once(&server, *wake, *apart)?);
        }
    }
    for ((wake, apart), runs) in cases.iter().zip(&all) {
        let spread = |of: fn(&Run) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            format!("{:.1} ({:.1} … {:.1})", values[values.len() / 2], values[0], values[values.len() - 1])
        };
        let processors = if *apart { "apart" } else { "shared" };
        println!(
            "| {wake:?} | {processors} | {} | {} | {}, {} | {} | {} |",
            spread(|run| run.p50),
            spread(|run| run.p99),
            spread(|run| run.idle_p50),
            spread(|run| run.idle_p99),
            spread(|run| run.cpu_per_op),
            runs.iter().filter(|run| run.void).count(),
        );
    }
    server.close()?;
    Ok(())
}

fn once(server: &Cluster, wake: Wake, apart: bool) -> Result<Run, Box<dyn Error>> {
    let pid = server.pids().first().and_then(|pid| Pid::from_raw(*pid as i32)).ok_or("the server has no process")?;
    // What the server starts for a connection stays where the server itself is.
    sched_setaffinity(Some(pid), &set(if apart { &[1] } else { &[0, 1] }))?;
    let stop = Arc::new(AtomicBool::new(false));
    let idle = std::thread::spawn({
        let stop = stop.clone();
        move || idle(&stop, apart)
    });
    let spec = DriveSpec {
        limit: Limit::Duration(RUN),
        warmup: Duration::from_millis(300),
        pace: Pace::even(RATE_PER_S),
        wake,
        pin: if apart { vec![0] } else { Vec::new() },
        io: Io::Epoll,
        ..DriveSpec::default()
    };
    let result = drive(server, &spec)?;
    stop.store(true, Relaxed);
    let late = idle.join().map_err(|_| "the idle thread panicked")?;
    let us = |ns: u64| ns as f64 / 1e3;
    let not_ok: u64 = result.kinds.iter().flat_map(|kind| &kind[1..]).sum();
    if not_ok > 0 {
        return Err(format!("{not_ok} operations went wrong: {:?}", result.errors).into());
    }
    Ok(Run {
        p50: us(result.lag.p50_ns),
        p99: us(result.lag.p99_ns),
        cpu_per_op: result.busiest_worker * RUN.as_secs_f64() * 1e6 / result.ops as f64,
        idle_p50: us(late[late.len() / 2]),
        idle_p99: us(late[late.len() * 99 / 100]),
        void: result.late.is_some(),
    })
}

fn drive(server: &Cluster, spec: &DriveSpec) -> Result<DriveResult, Box<dyn Error>> {
    let select = plimsoll_workload::all().into_iter().find(|spec| spec.name == "select").ok_or("no select workload")?;
    let params = Params([("scale".to_owned(), ParamValue::Int(1))].into());
    let workload = (select.make)(7, &params, &[]).map_err(|error| error.to_string())?;
    let stream = workload.stream(&StreamSpec::One { kind: "select".to_owned(), clients: CLIENTS as u32 })?;
    let endpoint = PostgresRecipe::default().endpoint(&server.first());
    let layout = Arc::new(Layout::default());
    let client = |_| WireClient {
        address: endpoint.address.clone(),
        session: Box::new(PgSession::new(endpoint.login.clone(), layout.clone(), "")),
    };
    let clock = Clock::start();
    let drive = Drive {
        clock: &clock,
        spec,
        sessions: Sessions::Wire((0..CLIENTS).map(client).collect()),
        kinds: workload.kinds(),
        stream: stream.into(),
        observers: Vec::new(),
        stop: Arc::default(),
    };
    Ok(drive.run(&mut |_| {})?)
}

fn make_tables(server: &Cluster) -> Result<(), Box<dyn Error>> {
    let pgbench = plimsoll_store_postgres::server::POSTGRES.find()?.with_file_name("pgbench");
    let mut command = Command::new(pgbench);
    command.arg("-h").arg(&server.first().socket_dir).args(["-U", "postgres", "-i", "-q", "-s", "1"]);
    let made = command.arg("postgres").stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if made.success() { Ok(()) } else { Err("pgbench could not make its tables".into()) }
}

/// Wakes up a thousand times a second and does nothing. Returns how late each time, in ascending order.
fn idle(stop: &AtomicBool, apart: bool) -> Vec<u64> {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    if apart {
        let _ = sched_setaffinity(None, &set(&[0]));
    }
    let clock = Clock::start();
    let mut late_ns = Vec::new();
    let mut at_ns = clock.now_ns() + TICK_NS;
    while !stop.load(Relaxed) {
        clock.sleep_until(at_ns);
        late_ns.push(clock.now_ns().saturating_sub(at_ns));
        at_ns += TICK_NS;
    }
    late_ns.sort_unstable();
    late_ns
}

fn set(processors: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    processors.iter().for_each(|&processor| set.set(processor));
    set
}
