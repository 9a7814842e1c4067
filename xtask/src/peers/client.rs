//! Plimsoll's side of a comparison: this program again, as a child that drives an attached server for some seconds.

use std::error::Error;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Answer, Durability, Observer, Op, OpenOptions, Outcome, ParamValue, Params, Script, Sessions, Store, StreamSpec,
    Target, Ticket, Workload,
};
use plimsoll_drive::{Clock, Drive, DriveResult, DriveSpec, Io, Limit, Pace, Wake};

use super::commands::Asks;

/// Makes this program the measured client.
pub const AS_CLIENT: &str = "as-client";

/// The command that asks what `asks` says.
pub fn command(asks: &Asks) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["peers", AS_CLIENT]).args(words(asks));
    Ok(command)
}

/// `asks` as a child of this program is told of it: what [`Told::new`] reads.
pub fn words(asks: &Asks) -> Vec<String> {
    let or_none = |word: Option<String>| word.unwrap_or_else(|| "-".to_owned());
    let mut words = vec![asks.store.clone(), or_none(asks.url.clone()), asks.workload.to_owned(), asks.op.to_owned()];
    words.extend([asks.clients.to_string(), asks.depth.to_string(), asks.rate_per_s.to_string()]);
    words.extend([asks.seconds.to_string(), if asks.coarse { "coarse" } else { "precise" }.to_owned()]);
    words.push(or_none(asks.pin.map(|processor| processor.to_string())));
    words.extend([if asks.times { "times" } else { "-" }.to_owned(), asks.io.name().to_owned()]);
    words.extend(asks.params.iter().map(|(name, value)| format!("{name}={value}")));
    words
}

/// The backend of this name.
pub fn io_named(name: &str) -> Result<Io, String> {
    Io::named(name).ok_or_else(|| format!("there is no io `{name}`, only {}", Io::ALL.map(Io::name).join(", ")))
}

/// What a child was told, with its store open and nothing asked yet.
pub struct Told {
    store: Box<dyn Store>,
    pub workload: Box<dyn Workload>,
    op: String,
    durability: Durability,
    pub clients: u32,
    pub spec: DriveSpec,
}

impl Told {
    /// Reads what [`words`] wrote.
    pub fn new(words: &[String]) -> Result<Told, Box<dyn Error>> {
        let [name, url, workload, op, clients, depth, rate, seconds, wake, pin, times, io, params @ ..] = words else {
            return Err("a client is told more".into());
        };
        let rate_per_s: f64 = rate.parse()?;
        let spec = DriveSpec {
            limit: Limit::Duration(Duration::from_secs(seconds.parse()?)),
            depth: depth.parse()?,
            pace: if rate_per_s > 0.0 { Pace::poisson(rate_per_s) } else { Pace::Closed },
            wake: if wake == "coarse" { Wake::Coarse } else { Wake::Precise },
            io: io_named(io)?,
            pin: pin.parse().into_iter().collect(),
            keep_each: times == "times",
            seed: 1,
            ..DriveSpec::default()
        };
        Ok(Told {
            store: open(name, url)?,
            workload: make(workload, params)?,
            op: op.clone(),
            durability: durability(name),
            clients: clients.parse()?,
            spec,
        })
    }

    /// So many sessions of its store.
    pub fn sessions(&mut self, count: u32) -> Result<Sessions, Box<dyn Error>> {
        Ok(self.store.sessions(count, self.durability)?)
    }

    /// Drives `sessions` as it was told.
    pub fn drive(&self, sessions: Sessions) -> Result<DriveResult, Box<dyn Error>> {
        let spec = &self.spec;
        let clients = spec.clients(sessions.len() as u32);
        let stream = self.workload.stream(&StreamSpec::One { kind: self.op.clone(), clients })?;
        let workers = spec.worker_count(&sessions);
        let drive = Drive {
            clock: &Clock::start(),
            spec,
            sessions,
            kinds: self.workload.kinds(),
            stream: stream.into(),
            observers: (0..workers).map(|_| Box::new(Noting::new(clients as usize)) as Box<dyn Observer>).collect(),
            stop: Arc::default(),
        };
        let result = drive.run(&mut |_| {})?;
        match result.errors.first() {
            None => Ok(result),
            Some(error) => {
                Err(format!("{} operations went wrong: {} {}", error.count, error.code, error.message).into())
            }
        }
    }

    /// Leaves the store as it is: closed in good order, it would be asked to tidy up.
    pub fn leave(self) {
        std::mem::forget(self.store);
    }
}

/// Drives, and prints how many operations it was.
pub fn be(words: &[String]) -> Result<(), Box<dyn Error>> {
    let mut told = Told::new(words)?;
    if told.op == LOAD {
        return load(&mut *told.store, &*told.workload);
    }
    let sessions = told.sessions(told.clients)?;
    let result = told.drive(sessions)?;
    println!("ops: {}", result.ops);
    if let Some(why) = &result.late {
        println!("void: {why}");
    }
    if result.lag.n > 0 {
        println!("lag: {} {}", result.lag.p50_ns, result.lag.p99_ns);
    }
    if told.spec.keep_each {
        let mut response: Vec<u64> =
            result.each.iter().map(|time| time.end_ns.saturating_sub(time.scheduled_ns)).collect();
        response.sort_unstable();
        let at = |share: f64| response[((response.len() - 1) as f64 * share) as usize];
        println!("times: {} {} {}", at(0.5), at(0.95), at(0.99));
    }
    told.leave();
    Ok(())
}

/// What the peers' own clients leave to the server, where the store has a say.
fn durability(store: &str) -> Durability {
    if store == "redis" { Durability::Buffered } else { Durability::Durable }
}

/// A script's path as a parameter of the workload `script`, and the name of what it asks.
pub const SCRIPT: &str = "script";

/// Instead of a kind of operation: fills the store.
pub const LOAD: &str = "load";

fn load(store: &mut dyn Store, workload: &dyn Workload) -> Result<(), Box<dyn Error>> {
    store.create(workload.layout())?;
    let stream = workload.stream(&StreamSpec::Load { batch: 100, clients: 4 })?;
    let spec = DriveSpec::default();
    let drive = Drive {
        clock: &Clock::start(),
        spec: &spec,
        sessions: store.sessions(4, Durability::Buffered)?,
        kinds: workload.kinds(),
        stream: stream.into(),
        observers: Vec::new(),
        stop: Arc::default(),
    };
    println!("ops: {}", drive.run(&mut |_| {})?.ops);
    // What was filled is to stay: ended at once, nothing is dropped.
    std::process::exit(0);
}

fn make(name: &str, params: &[String]) -> Result<Box<dyn Workload>, Box<dyn Error>> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == name).ok_or("no such workload")?;
    let mut values = plimsoll_plan::defaults(spec.params);
    let mut scripts = Vec::new();
    for param in params {
        let (name, value) = param.split_once('=').ok_or("a parameter is NAME=VALUE")?;
        if name == SCRIPT {
            scripts.push(Script {
                name: SCRIPT.to_owned(),
                weight: 1,
                text: std::fs::read_to_string(value)?,
                ..Script::default()
            });
            continue;
        }
        let value = value.parse().map_or_else(|_| ParamValue::Text(value.to_owned()), ParamValue::Int);
        values.0.insert(name.to_owned(), value);
    }
    Ok((spec.make)(std::process::id().into(), &values, &scripts).map_err(|error| error.to_string())?)
}

fn open(name: &str, url: &str) -> Result<Box<dyn Store>, Box<dyn Error>> {
    let kinds = plimsoll_stores::kinds();
    let kind = kinds.iter().find(|kind| kind.spec().name == name).ok_or("no such store")?;
    let target = match url {
        "-" => Target::Private { data_dir: "/nonexistent".into(), said: false, log_dir: "/nonexistent".into() },
        url => Target::Attach { url: url.to_owned(), password: None },
    };
    let mut params: Params = plimsoll_plan::defaults(kind.spec().params);
    // Who may not look into a directory's configuration cannot find out: `servers` starts one that syncs.
    if name == "ldap" {
        params.0.insert("syncs".to_owned(), ParamValue::Text("yes".to_owned()));
    }
    Ok(kind.open(OpenOptions { target, params, run_id: "peers".to_owned(), waits: Default::default() }, &mut |_| {})?)
}

/// The operations that a client printed.
pub fn ops(printed: &str) -> Option<f64> {
    printed.lines().find_map(|line| line.strip_prefix("ops: ")?.parse().ok())
}

/// Whether a client printed that its run is void.
pub fn is_void(printed: &str) -> bool {
    printed.lines().any(|line| line.starts_with("void: "))
}

/// The lag that a client printed, in microseconds: p50 and p99.
pub fn lag(printed: &str) -> Option<(f64, f64)> {
    let (p50, p99) = printed.lines().find_map(|line| line.strip_prefix("lag: ")?.split_once(' '))?;
    Some((p50.parse::<f64>().ok()? / 1e3, p99.parse::<f64>().ok()? / 1e3))
}

/// The p95 and p99 of the response time that a client printed, in milliseconds.
pub fn times_ms(printed: &str) -> Option<(f64, f64)> {
    let line = printed.lines().find_map(|line| line.strip_prefix("times: "))?;
    let ms: Vec<f64> = line.split(' ').filter_map(|ns| Some(ns.parse::<f64>().ok()? / 1e6)).collect();
    Some((*ms.get(1)?, *ms.get(2)?))
}

/// As much as a ledger does for an operation that it keeps: who, which, when and what, in memory taken beforehand.
struct Noting {
    sent: Vec<Note>,
    kept: Vec<Note>,
    next: usize,
}

/// Sent, ended, cycle; client, kind and outcome.
type Note = [u64; 4];

const NOTES: usize = 1 << 14;

impl Noting {
    /// For one worker with this many sessions.
    fn new(sessions: usize) -> Self {
        Self { sent: vec![[0; 4]; sessions], kept: vec![[0; 4]; NOTES], next: 0 }
    }
}

impl Observer for Noting {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        self.sent[ticket.0 as usize] = [at_ns, 0, cycle, (u64::from(client) << 32) | (u64::from(op.kind) << 8)];
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, _: &Answer) {
        let [sent_ns, _, cycle, who] = self.sent[ticket.0 as usize];
        self.kept[self.next % NOTES] = [sent_ns, at_ns, cycle, who | outcome as u64];
        self.next += 1;
    }
}
