//! Plimsoll's side of a comparison: this program again, as a child that drives an attached server.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Answer, Durability, Observer, Op, OpenOptions, Outcome, ParamValue, Sessions, Store, StreamSpec, Target, Ticket,
    Workload,
};
use plimsoll_drive::{Clock, Drive, DriveResult, DriveSpec, Io, Limit, Pace, WakeMode};
use serde::{Deserialize, Serialize};

use crate::Result;

/// First argument of the child.
pub const AS_CLIENT: &str = "as-client";
/// Length of a run.
pub const SECONDS: u64 = 2;

/// Load that the child drives.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ClientSpec {
    pub store: String,
    /// `None` for a store that runs inside the child.
    pub url: Option<String>,
    pub workload: String,
    pub op: String,
    pub params: Vec<(String, String)>,
    pub clients: u32,
    pub depth: u32,
    /// Poisson arrivals; 0 is a closed loop.
    pub rate_per_s: f64,
    pub seconds: u64,
    pub io: Io,
    pub wake: WakeMode,
    /// Processor that the worker is bound to.
    pub pin: Option<u32>,
    /// Percentiles of the response time are printed too.
    pub has_times: bool,
}

impl ClientSpec {
    /// Returns the command of the child that drives this load.
    pub fn command(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(AS_CLIENT).arg(serde_json::to_string(self)?);
        Ok(command)
    }

    fn make(&self) -> Result<Box<dyn Workload>> {
        let all = plimsoll_workload::all();
        let spec = all.into_iter().find(|spec| spec.name == self.workload).ok_or("there is no such workload")?;
        let mut values = plimsoll_plan::defaults(spec.params);
        for (name, value) in &self.params {
            let value = value.parse().map_or_else(|_| ParamValue::Text(value.clone()), ParamValue::Int);
            values.0.insert(name.clone(), value);
        }
        Ok((spec.make)(std::process::id().into(), &values, &[]).map_err(|error| error.to_string())?)
    }

    fn open(&self) -> Result<Box<dyn Store>> {
        let kind = match &*self.store {
            "postgres" => plimsoll_store_postgres::kind(),
            "mariadb" => plimsoll_store_mariadb::kind(),
            "redis" => plimsoll_store_redis::kind(),
            "http" => plimsoll_store_http::kind(),
            "null" => plimsoll_store_null::kind(),
            other => return Err(format!("there is no store `{other}`").into()),
        };
        let nowhere =
            || Target::Private { data_dir: "/nonexistent".into(), said: false, log_dir: "/nonexistent".into() };
        let target = self.url.clone().map_or_else(nowhere, |url| Target::Attach { url, password: None });
        let params = plimsoll_plan::defaults(kind.spec().params);
        let options = OpenOptions { target, params, run_id: "bench".to_owned(), waits: Default::default() };
        Ok(kind.open(options, &mut |_| {})?)
    }

    /// Fills the store with the records of the workload, and leaves it filled.
    pub fn load(&self) -> Result {
        let (mut store, workload) = (self.open()?, self.make()?);
        store.create(workload.layout())?;
        let sessions = store.sessions(4, Durability::Buffered)?;
        let stream = StreamSpec::Load { batch: 100, clients: 4 };
        drive(&*workload, &stream, &DriveSpec::default(), sessions)?;
        // Closed, it would drop the records.
        std::mem::forget(store);
        Ok(())
    }
}

/// Drives the load of `spec`, and prints its figures.
pub fn be(spec: &str) -> Result {
    let spec: ClientSpec = serde_json::from_str(spec)?;
    let (mut store, workload) = (spec.open()?, spec.make()?);
    // As the other clients: they do not ask Redis for durable writes, and other servers write durably by default.
    let durability = if spec.store == "redis" { Durability::Buffered } else { Durability::Durable };
    let sessions = store.sessions(spec.clients, durability)?;
    let drive_spec = DriveSpec {
        limit: Limit::Duration(Duration::from_secs(spec.seconds)),
        depth: spec.depth.max(1),
        pace: if spec.rate_per_s > 0.0 { Pace::poisson(spec.rate_per_s) } else { Pace::Closed },
        wake: spec.wake,
        io: spec.io,
        pin: spec.pin.into_iter().collect(),
        each_max: if spec.has_times { 1 << 20 } else { 0 },
        seed: 1,
        ..DriveSpec::default()
    };
    let stream = StreamSpec::One { kind: spec.op, clients: drive_spec.clients(spec.clients) };
    let result = drive(&*workload, &stream, &drive_spec, sessions)?;
    println!("ops: {}", result.ops);
    if let Some(why) = &result.late {
        println!("void: {why}");
    }
    if result.lag.n > 0 {
        println!("lag: {} {}", result.lag.p50_ns, result.lag.p99_ns);
    }
    if spec.has_times {
        let times = result.each.iter().map(|time| time.end_ns.saturating_sub(time.scheduled_ns));
        let mut times: Vec<u64> = times.collect();
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!("times: {} {}", at(0.95), at(0.99));
    }
    // Closed, it would tidy up.
    std::mem::forget(store);
    Ok(())
}

fn drive(workload: &dyn Workload, stream: &StreamSpec, spec: &DriveSpec, sessions: Sessions) -> Result<DriveResult> {
    let tickets = spec.clients(sessions.len() as u32) as usize;
    let observers = (0..spec.worker_count(&sessions)).map(|_| Box::new(Notes::new(tickets)) as Box<dyn Observer>);
    let drive = Drive {
        clock: &Clock::start(),
        spec,
        observers: observers.collect(),
        sessions,
        kinds: workload.kinds(),
        stream: workload.stream(stream)?.into(),
        stop: Arc::default(),
    };
    let result = drive.run(&mut |_| {})?;
    match result.errors.first() {
        None => Ok(result),
        Some(error) => Err(format!("{} operations failed: {} {}", error.count, error.code, error.message).into()),
    }
}

/// Reads the number of operations that a child printed.
pub fn ops(printed: &str) -> Option<f64> {
    field(printed, "ops: ")?.parse().ok()
}

/// True if a child printed that its generator was the limit.
pub fn is_void(printed: &str) -> bool {
    field(printed, "void: ").is_some()
}

/// Reads p50 and p99 of the scheduling delay that a child printed, in microseconds.
pub fn lag_us(printed: &str) -> Option<(f64, f64)> {
    two(field(printed, "lag: ")?, 1e3)
}

/// Reads p95 and p99 of the response time that a child printed, in milliseconds.
pub fn times_ms(printed: &str) -> Option<(f64, f64)> {
    two(field(printed, "times: ")?, 1e6)
}

fn field<'p>(printed: &'p str, name: &str) -> Option<&'p str> {
    printed.lines().find_map(|line| line.strip_prefix(name))
}

fn two(ns: &str, unit_ns: f64) -> Option<(f64, f64)> {
    let (low, high) = ns.split_once(' ')?;
    Some((low.parse::<f64>().ok()? / unit_ns, high.parse::<f64>().ok()? / unit_ns))
}

/// Observer that writes as much per operation as the ledger does, into memory taken beforehand.
struct Notes {
    sent: Vec<Note>,
    kept: Vec<Note>,
    next: usize,
}

/// Sent, ended, cycle; client, kind and outcome.
type Note = [u64; 4];

const NOTES: usize = 1 << 14;

impl Notes {
    /// Notes of one worker whose tickets are below `tickets`.
    fn new(tickets: usize) -> Self {
        Self { sent: vec![[0; 4]; tickets], kept: vec![[0; 4]; NOTES], next: 0 }
    }
}

impl Observer for Notes {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        self.sent[ticket.0 as usize] = [at_ns, 0, cycle, (u64::from(client) << 32) | (u64::from(op.kind) << 8)];
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, _: &Answer) {
        let [sent_ns, _, cycle, who] = self.sent[ticket.0 as usize];
        self.kept[self.next % NOTES] = [sent_ns, at_ns, cycle, who | outcome as u64];
        self.next += 1;
    }
}
