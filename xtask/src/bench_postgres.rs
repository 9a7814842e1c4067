//! PostgreSQL point selects: CPU time of this program's client against pgbench's, on one private server.
//!
//! Both are whole processes on their own, with user and system time as the kernel accounts them, in
//! interleaved pairs: the machine's drift is in both halves of a pair.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Address, Layout, Observer, ParamValue, Params, Sessions, StreamSpec, WireClient};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};
use plimsoll_store_postgres::PrivatePostgres;
use plimsoll_store_postgres::wire::{Login, PgSession};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::bench_drive::Noting;

const CLIENTS: usize = 8;
const RUN: Duration = Duration::from_secs(3);
const PAIRS: usize = 12;
const TARGET: f64 = 0.80;
/// Makes this program the measured client instead of the bench.
const AS_CLIENT: &str = "as-client";

/// What one run of a client cost.
struct Cost {
    cpu_us_per_op: f64,
    ops_per_s: f64,
}

/// `cargo xtask bench postgres [PAIRS]`.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    if let [word, socket] = arguments
        && word == AS_CLIENT
    {
        return be_client(Path::new(socket));
    }
    let pairs: usize = arguments.first().map_or(Ok(PAIRS), |pairs| pairs.parse())?;
    let logs = std::env::temp_dir();
    let bases = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    let server = PrivatePostgres::start(&bases, &logs, &[], &mut |_| {})?;
    let Address::Unix(socket) = server.address() else { return Err("the private server has a Unix socket".into()) };
    let pgbench = plimsoll_store_postgres::server::find_postgres()?.with_file_name("pgbench");
    let host = socket.parent().ok_or("a socket stands in a directory")?;
    let pgbench = |arguments: &[&str]| {
        let mut command = Command::new(&pgbench);
        command.arg("-h").arg(host).args(["-U", server.user()]).args(arguments).arg(server.database());
        command
    };
    let made = pgbench(&["-i", "-q", "-s", "1"]).stderr(Stdio::null()).stdout(Stdio::null()).status()?;
    if !made.success() {
        return Err("pgbench could not make its tables".into());
    }
    let (clients, seconds) = (CLIENTS.to_string(), RUN.as_secs().to_string());
    let theirs = || {
        measure(pgbench(&["-n", "-S", "-M", "prepared", "-c", &clients, "-j", "1", "-T", &seconds]), |out| {
            out.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: ")?.parse().ok())
        })
    };
    let this = std::env::current_exe()?;
    let ours = || {
        let mut command = Command::new(&this);
        command.args(["bench", "postgres", AS_CLIENT]).arg(&socket);
        measure(command, |out| out.lines().find_map(|line| line.strip_prefix("ops: ")?.parse().ok()))
    };
    // The first run of each fills caches and counts for nothing.
    theirs()?;
    ours()?;
    let mut both = Vec::new();
    for pair in 0..pairs {
        both.push(if pair % 2 == 0 {
            let theirs = theirs()?;
            (ours()?, theirs)
        } else {
            (ours()?, theirs()?)
        });
    }
    print(&server, &both);
    server.close()?;
    Ok(())
}

fn print(server: &PrivatePostgres, both: &[(Cost, Cost)]) {
    println!(
        "PostgreSQL {}: SELECT by primary key, prepared, Unix socket, {CLIENTS} clients, one worker, histograms and \
         an observer on; n = {} pairs of {RUN:?}",
        server.version(),
        both.len()
    );
    println!("| client | CPU µs/op, median | least | most | ops/s, median |");
    println!("|---|---|---|---|---|");
    let row = |name: &str, costs: Vec<&Cost>| {
        let cpu = sorted(costs.iter().map(|cost| cost.cpu_us_per_op));
        let rate = sorted(costs.iter().map(|cost| cost.ops_per_s));
        println!(
            "| {name} | {:.2} | {:.2} | {:.2} | {:.0} |",
            median(&cpu),
            cpu.first().unwrap_or(&f64::NAN),
            cpu.last().unwrap_or(&f64::NAN),
            median(&rate)
        );
    };
    row("pgbench", both.iter().map(|(_, theirs)| theirs).collect());
    row("plimsoll", both.iter().map(|(ours, _)| ours).collect());
    let ratios = sorted(both.iter().map(|(ours, theirs)| ours.cpu_us_per_op / theirs.cpu_us_per_op));
    let (low, high) = median_interval(&ratios);
    println!(
        "ratio: median {:.3}, 95 % interval of the median {low:.3} … {high:.3}; target at most {TARGET:.2}: {}",
        median(&ratios),
        if high <= TARGET { "met" } else { "not met" }
    );
}

/// Drives the same question for [`RUN`] and prints how many operations it was.
fn be_client(socket: &Path) -> Result<(), Box<dyn Error>> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == "select").ok_or("no select workload")?;
    let params = Params([("scale".to_owned(), ParamValue::Int(1))].into());
    let workload = (spec.make)(std::process::id().into(), &params, &[]).map_err(|error| error.to_string())?;
    let stream = workload.stream(&StreamSpec::One { kind: "select".to_owned(), clients: CLIENTS as u32 })?;
    let login = Arc::new(Login {
        user: "postgres".to_owned(),
        database: "postgres".to_owned(),
        password: None,
        no_password_because: None,
        application_name: "plimsoll bench".to_owned(),
        options: None,
        place: socket.display().to_string(),
    });
    let layout = Arc::new(Layout::default());
    let client = |_| WireClient {
        address: Address::Unix(socket.to_owned()),
        session: Box::new(PgSession::new(login.clone(), layout.clone(), "")),
    };
    let clock = Clock::start();
    let drive_spec = DriveSpec { limit: Limit::Duration(RUN), ..DriveSpec::default() };
    let drive = Drive {
        clock: &clock,
        spec: &drive_spec,
        sessions: Sessions::Wire((0..CLIENTS).map(client).collect()),
        kinds: workload.kinds(),
        stream: stream.into(),
        observers: vec![Box::new(Noting::new(CLIENTS)) as Box<dyn Observer>],
        stop: Arc::default(),
    };
    let result = drive.run(&mut |_| {})?;
    let not_ok: u64 = result.kinds.iter().flat_map(|kind| &kind[1..]).sum();
    if not_ok > 0 {
        return Err(format!("{not_ok} operations went wrong: {:?}", result.errors).into());
    }
    println!("ops: {}", result.ops);
    Ok(())
}

/// Runs a client to its end: its CPU time over the operations that `ops` finds in what it printed.
fn measure(mut command: Command, ops: impl Fn(&str) -> Option<u64>) -> Result<Cost, Box<dyn Error>> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let id = child.id();
    // Ended and not yet waited for: the kernel still says what the process and its threads used.
    waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let cpu_us =
        cpu_us(&std::fs::read_to_string(format!("/proc/{id}/stat"))?).ok_or("/proc/PID/stat is not as known")?;
    let output = child.wait_with_output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let ops = ops(&printed).filter(|ops| *ops > 0 && output.status.success()).ok_or_else(|| {
        format!("{} failed: {}{}", command.get_program().display(), printed, String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(Cost { cpu_us_per_op: cpu_us / ops as f64, ops_per_s: ops as f64 / RUN.as_secs_f64() })
}

/// User and system time of a process, from its `/proc/PID/stat` (proc(5)); the kernel counts in ticks of 10 ms.
fn cpu_us(stat: &str) -> Option<f64> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * 10_000.0)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// An interval that holds the true median with at least 95 %, by the binomial distribution of how many values lie
/// below it (Conover, Practical Nonparametric Statistics, 3.2); all values when there are too few.
fn median_interval(sorted: &[f64]) -> (f64, f64) {
    let n = sorted.len();
    let (mut below, mut tail, mut term) = (0, 0.0, 0.5f64.powi(n as i32));
    while below < n / 2 && tail + term <= 0.025 {
        tail += term;
        term *= (n - below) as f64 / (below + 1) as f64;
        below += 1;
    }
    let rank = below.saturating_sub(1);
    match sorted {
        [] => (f64::NAN, f64::NAN),
        all => (all[rank], all[n - 1 - rank]),
    }
}
