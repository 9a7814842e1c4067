//! What one operation costs the generator when there is nothing behind it.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Answer, Call, Durability, KindId, Observer, Op, OpKind, OpenOptions, Outcome, Params, Stream, Target, Ticket,
    Value, ValueBuf, ValueType,
};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};
use rustix::time::{ClockId, clock_gettime};

const RUNS: usize = 7;
const RUN: Duration = Duration::from_millis(700);
const TARGET_NS: f64 = 30.0;

/// Asks for one of 100,000 keys at random.
struct RandomKey;

impl Stream for RandomKey {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let mut mixed = (cycle ^ (u64::from(client) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        params.push(Value::Int(((u128::from(mixed) * 100_000) >> 64) as i64));
        Some(0)
    }
}

/// As much as a ledger does for an operation that it keeps: who, which, when and what, in memory taken beforehand.
pub struct Noting {
    sent: Vec<Note>,
    kept: Vec<Note>,
    next: usize,
}

/// Sent, ended, cycle; client, kind and outcome.
type Note = [u64; 4];

const NOTES: usize = 1 << 14;

impl Noting {
    /// For one worker with this many sessions.
    pub fn new(sessions: usize) -> Self {
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

/// Prints CPU time per operation with one and two workers, with and without an observer.
pub fn run(_: &[String]) -> Result<(), Box<dyn Error>> {
    let clock = Clock::start();
    println!("clock: {}", if clock.uses_counter() { "time-stamp counter" } else { "CLOCK_MONOTONIC" });
    println!("CPU time of the process per operation, n = {RUNS} runs of {RUN:?}; target {TARGET_NS} ns with both");
    println!("| workers | observer | median ns/op | least | most | Mop/s |");
    println!("|---|---|---|---|---|---|");
    for workers in [1, 2] {
        for observed in [false, true] {
            let mut costs = Vec::new();
            let mut rates = Vec::new();
            for _ in 0..RUNS {
                let (cost_ns, rate) = once(&clock, workers, observed)?;
                costs.push(cost_ns);
                rates.push(rate);
            }
            costs.sort_by(f64::total_cmp);
            rates.sort_by(f64::total_cmp);
            println!(
                "| {workers} | {} | {:.1} | {:.1} | {:.1} | {:.1} |",
                if observed { "on" } else { "off" },
                costs[RUNS / 2],
                costs[0],
                costs[RUNS - 1],
                rates[RUNS / 2] / 1e6,
            );
        }
    }
    Ok(())
}

/// One run: nanoseconds of CPU per operation, and operations per second.
fn once(clock: &Clock, workers: u32, observed: bool) -> Result<(f64, f64), Box<dyn Error>> {
    let target = Target::Private { data_dir: "/nonexistent".into(), said: false, log_dir: "/nonexistent".into() };
    let options =
        OpenOptions { target, params: Params::default(), run_id: "bench".to_owned(), waits: Default::default() };
    let mut store = plimsoll_store_null::kind().open(options, &mut |_| {})?;
    let sessions = store.sessions(workers, Durability::AtEnd)?;
    let kinds = [OpKind {
        name: "nothing".to_owned(),
        call: Call::Nothing,
        params: vec![ValueType::Int],
        keep_answer: false,
        step_of: None,
    }];
    let spec = DriveSpec { limit: Limit::Duration(RUN), ..DriveSpec::default() };
    let observers = (0..if observed { workers } else { 0 }).map(|_| Box::new(Noting::new(1)) as Box<dyn Observer>);
    let drive = Drive {
        clock,
        spec: &spec,
        sessions,
        kinds: &kinds,
        stream: Arc::new(RandomKey),
        observers: observers.collect(),
        stop: Arc::default(),
    };
    let before_ns = process_cpu_ns();
    let result = drive.run(&mut |_| {})?;
    let cpu_ns = process_cpu_ns() - before_ns;
    let seconds = (result.end_ns - result.start_ns) as f64 / 1e9;
    Ok((cpu_ns as f64 / result.ops as f64, result.ops as f64 / seconds))
}

fn process_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}
