//! PostgreSQL point selects: CPU time of this program's client against pgbench's, on one private server.
//!
//! Both are whole processes on their own, with user and system time as the kernel accounts them when they end, in
//! interleaved rounds: the machine's drift is in both halves of a pair.

use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_analysis::stat::interval::{self, Interval};
use plimsoll_analysis::stat::median;
use plimsoll_core::{Address, Layout, Observer, ParamValue, Params, Sessions, StreamSpec, WireClient};
use plimsoll_drive::{Clock, Drive, DriveSpec, Io, IoUsed, Limit};
use plimsoll_store_postgres::PrivatePostgres;
use plimsoll_store_postgres::wire::{Login, PgSession};

use crate::bench_drive::Noting;
use crate::child_cost::{self, Cost};

const RUN: Duration = Duration::from_secs(2);
const PAIRS: usize = 12;
const TARGET: f64 = 0.70;
/// Makes this program the measured client instead of the bench.
const AS_CLIENT: &str = "as-client";
const USAGE: &str = "cargo xtask bench postgres [PAIRS [PLACE-CLIENTS …]], as in: 12 unix-8 tcp-32";

/// Where the clients are and how many.
#[derive(Debug, Clone)]
struct Case {
    tcp: bool,
    clients: usize,
}

impl Case {
    const ALL: [Case; 4] = [
        Case { tcp: false, clients: 8 },
        Case { tcp: false, clients: 32 },
        Case { tcp: true, clients: 8 },
        Case { tcp: true, clients: 32 },
    ];

    fn name(&self) -> String {
        format!("{}-{}", if self.tcp { "tcp" } else { "unix" }, self.clients)
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Pgbench,
    Epoll,
    Uring,
}

impl Who {
    const ALL: [Who; 3] = [Who::Pgbench, Who::Epoll, Who::Uring];

    fn name(self) -> &'static str {
        match self {
            Who::Pgbench => "pgbench",
            Who::Epoll => "epoll",
            Who::Uring => "io_uring",
        }
    }
}

/// One run of a client.
#[derive(Debug, Clone, Copy)]
struct Run {
    ops: f64,
    cost: Cost,
}

impl Run {
    fn cpu_us_per_op(&self) -> f64 {
        self.cost.cpu_us() / self.ops
    }
}

/// `cargo xtask bench postgres`; see [`USAGE`].
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    if let [word, io, clients, address] = arguments
        && word == AS_CLIENT
    {
        return be_client(io, clients.parse()?, address);
    }
    let pairs: usize = arguments.first().map_or(Ok(PAIRS), |pairs| pairs.parse()).map_err(|_| USAGE)?;
    let wanted = arguments.get(1..).unwrap_or_default();
    let cases: Vec<Case> =
        Case::ALL.into_iter().filter(|case| wanted.is_empty() || wanted.contains(&case.name())).collect();
    if cases.is_empty() {
        return Err(USAGE.into());
    }
    let bench = Bench::start()?;
    println!(
        "PostgreSQL {}: SELECT by primary key, prepared, one worker, histograms and an observer on; n = {pairs} rounds \
         of {RUN:?} each; CPU of the whole client process (wait4), load at start {}",
        bench.server.version(),
        load()
    );
    println!(
        "| case | client | CPU µs/op, median (least … most) | user µs | waits/op | ops/s | ratio, median (95 % interval) | at most {TARGET:.2} |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for case in &cases {
        bench.compare(case, pairs)?;
    }
    println!("load at end {}", load());
    bench.server.close()?;
    Ok(())
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// The server and the two programs.
struct Bench {
    server: PrivatePostgres,
    socket: PathBuf,
    port: u16,
    pgbench: PathBuf,
    this: PathBuf,
}

impl Bench {
    fn start() -> Result<Bench, Box<dyn Error>> {
        let logs = std::env::temp_dir();
        let bases = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let settings = [("listen_addresses", "127.0.0.1".to_owned()), ("port", port.to_string())];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        let server = PrivatePostgres::start(&bases, &logs, &settings, &Default::default(), &mut |_| {})?;
        let Address::Unix(socket) = server.address() else { return Err("the server has a Unix socket".into()) };
        let pgbench = plimsoll_store_postgres::server::find_postgres()?.with_file_name("pgbench");
        let bench = Bench { server, socket, port, pgbench, this: std::env::current_exe()? };
        let made =
            bench.pgbench(false, &["-i", "-q", "-s", "1"]).stderr(Stdio::null()).stdout(Stdio::null()).status()?;
        if !made.success() {
            return Err("pgbench could not make its tables".into());
        }
        Ok(bench)
    }

    fn pgbench(&self, tcp: bool, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.pgbench);
        let directory = self.socket.parent().unwrap_or(Path::new("/"));
        let host = if tcp { Path::new("127.0.0.1") } else { directory };
        command.arg("-h").arg(host).args(["-p", &self.port.to_string(), "-U", self.server.user()]);
        command.args(arguments).arg(self.server.database());
        command
    }

    fn once(&self, case: &Case, who: Who) -> Result<Run, Box<dyn Error>> {
        let (clients, seconds) = (case.clients.to_string(), RUN.as_secs().to_string());
        let (command, before) = if who == Who::Pgbench {
            let arguments = ["-n", "-S", "-M", "prepared", "-c", &clients, "-j", "1", "-T", &seconds];
            (self.pgbench(case.tcp, &arguments), "number of transactions actually processed: ")
        } else {
            let mut command = Command::new(&self.this);
            let address = if case.tcp { self.port.to_string() } else { self.socket.display().to_string() };
            command.args(["bench", "postgres", AS_CLIENT, who.name(), &clients, &address]);
            (command, "ops: ")
        };
        let (printed, cost) = child_cost::run(command)?;
        let ops = printed.lines().find_map(|line| line.strip_prefix(before)?.parse().ok());
        let ops = ops.filter(|ops| *ops > 0.0).ok_or_else(|| format!("no operations: {printed}"))?;
        Ok(Run { ops, cost })
    }

    /// The order within a round goes round as well, so that nobody always comes after the same one.
    fn compare(&self, case: &Case, pairs: usize) -> Result<(), Box<dyn Error>> {
        // The first run of each fills caches and counts for nothing.
        for who in Who::ALL {
            self.once(case, who)?;
        }
        let mut rounds: Vec<[Option<Run>; 3]> = Vec::new();
        for round in 0..pairs {
            let mut runs = [None; 3];
            for turn in 0..3 {
                let backwards = round % 2 == 1;
                let place = (round / 2 + if backwards { 3 - turn } else { turn }) % 3;
                runs[place] = Some(self.once(case, Who::ALL[place])?);
            }
            rounds.push(runs);
        }
        for (place, who) in Who::ALL.into_iter().enumerate() {
            let runs: Vec<Run> = rounds.iter().filter_map(|runs| runs[place]).collect();
            let pair = |runs: &[Option<Run>; 3]| Some((runs[0]?.cpu_us_per_op(), runs[place]?.cpu_us_per_op()));
            let pairs: Vec<(f64, f64)> = rounds.iter().filter_map(pair).collect();
            print(case, who, &runs, interval::of_paired_ratio(&pairs));
        }
        Ok(())
    }
}

fn print(case: &Case, who: Who, runs: &[Run], ratio: Option<Interval>) {
    let of = |part: fn(&Run) -> f64| runs.iter().map(part).collect::<Vec<f64>>();
    let cpu = of(Run::cpu_us_per_op);
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let ratio = match (who, ratio) {
        (Who::Pgbench, _) => "1 | ".to_owned(),
        (_, None) => "too few rounds for an interval | open".to_owned(),
        (_, Some(Interval { value, low, high, .. })) => {
            let met = if high <= TARGET {
                "met"
            } else if low > TARGET {
                "missed"
            } else {
                "open"
            };
            format!("{value:.3} ({low:.3} … {high:.3}) | {met}")
        }
    };
    println!(
        "| {} | {} | {:.2} ({:.2} … {:.2}) | {:.2} | {:.2} | {:.0} | {ratio} |",
        case.name(),
        who.name(),
        middle(&cpu),
        cpu.iter().copied().fold(f64::NAN, f64::min),
        cpu.iter().copied().fold(f64::NAN, f64::max),
        middle(&of(|run| run.cost.user_us / run.ops)),
        middle(&of(|run| run.cost.waits as f64 / run.ops)),
        middle(&of(|run| run.ops / RUN.as_secs_f64())),
    );
}

/// Drives the same question for [`RUN`] and prints how many operations it was.
fn be_client(io: &str, clients: usize, address: &str) -> Result<(), Box<dyn Error>> {
    let (io, wanted) = match io {
        "epoll" => (Io::Epoll, IoUsed::Epoll(None)),
        _ => (Io::Uring, IoUsed::Uring),
    };
    let address = match address.parse() {
        Ok(port) => Address::Tcp("127.0.0.1".to_owned(), port),
        Err(_) => Address::Unix(address.into()),
    };
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == "select").ok_or("no select workload")?;
    let params = Params([("scale".to_owned(), ParamValue::Int(1))].into());
    let workload = (spec.make)(std::process::id().into(), &params, &[]).map_err(|error| error.to_string())?;
    let stream = workload.stream(&StreamSpec::One { kind: "select".to_owned(), clients: clients as u32 })?;
    let login = Arc::new(Login {
        user: "postgres".to_owned(),
        database: "postgres".to_owned(),
        application_name: "plimsoll bench".to_owned(),
        place: "the private server".to_owned(),
        ..Login::default()
    });
    let layout = Arc::new(Layout::default());
    let client = |_| WireClient {
        address: address.clone(),
        session: Box::new(PgSession::new(login.clone(), layout.clone(), "")),
    };
    let clock = Clock::start();
    let drive_spec = DriveSpec { limit: Limit::Duration(RUN), io, ..DriveSpec::default() };
    let drive = Drive {
        clock: &clock,
        spec: &drive_spec,
        sessions: Sessions::Wire((0..clients).map(client).collect()),
        kinds: workload.kinds(),
        stream: stream.into(),
        observers: vec![Box::new(Noting::new(clients)) as Box<dyn Observer>],
        stop: Arc::default(),
    };
    let result = drive.run(&mut |_| {})?;
    let not_ok: u64 = result.kinds.iter().flat_map(|kind| &kind[1..]).sum();
    if not_ok > 0 {
        return Err(format!("{not_ok} operations went wrong: {:?}", result.errors).into());
    }
    if result.io != Some(wanted) {
        return Err(format!("driven with {:?}", result.io).into());
    }
    println!("ops: {}", result.ops);
    Ok(())
}
