//! Redis GETs: CPU time of this program's client against redis-benchmark's, on one private server, with and without a
//! pipeline.
//!
//! Both ask for one of the same 100,000 keys at random, over the server's Unix socket, and are whole processes, with user
//! and system time as the kernel accounts them when they end, in interleaved rounds.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use plimsoll_core::{
    Address, Call, KindId, KvCall, Observer, OpKind, Sessions, Stream, ValueBuf, ValueType, WireClient,
};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};
use plimsoll_store_redis::endpoint::Login;
use plimsoll_store_redis::wire::{Protocol, RedisSession};
use plimsoll_store_redis::{Control, PrivateRedis};
use plimsoll_workload::scramble::{below, hash};

use crate::bench_drive::Noting;
use crate::bench_postgres::{median, median_interval, sorted};
use crate::child_cost::{self, Cost};

const CLIENTS: u32 = 32;
const KEYS: u64 = 100_000;
const PAIRS: usize = 12;
/// Makes this program the measured client instead of the bench.
const AS_CLIENT: &str = "as-client";
const USAGE: &str = "cargo xtask bench redis [PAIRS]";

/// Operations in flight on a connection, operations of a run, and the most that we may cost of what redis-benchmark does.
const CASES: [(u32, u64, f64); 2] = [(1, 300_000, 0.65), (16, 2_000_000, 0.55)];

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Ours,
    RedisBenchmark,
}

/// `cargo xtask bench redis`; see [`USAGE`].
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    if let [word, depth, ops, socket] = arguments
        && word == AS_CLIENT
    {
        return be_client(depth.parse()?, ops.parse()?, socket);
    }
    let pairs: usize = arguments.first().map_or(Ok(PAIRS), |pairs| pairs.parse()).map_err(|_| USAGE)?;
    let bases = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    // As redis-benchmark's users have it: no file is written.
    let settings = [("appendonly".to_owned(), "no".to_owned())];
    let server = PrivateRedis::start(None, &bases, &std::env::temp_dir(), &settings, &mut |_| {})?;
    fill(&server)?;
    println!(
        "Redis: GET of one of {KEYS} keys at random, 3 bytes, Unix socket, {CLIENTS} clients, one thread, histograms and \
         an observer on; n = {pairs} rounds; CPU of the whole client process (wait4), load at start {}",
        load()
    );
    println!(
        "| in flight | client | CPU µs/op, median (least … most) | user µs | ours / theirs, median (95 % interval) | at most |"
    );
    println!("|---|---|---|---|---|---|");
    for (depth, ops, target) in CASES {
        compare(&server, (depth, ops, target), pairs)?;
    }
    println!("load at end {}", load());
    server.close()?;
    Ok(())
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

fn fill(server: &PrivateRedis) -> Result<(), Box<dyn Error>> {
    let mut control = Control::open(&server.endpoint(), std::time::Duration::from_secs(60))?;
    let text = "for i = 0, tonumber(ARGV[1]) - 1 do redis.call('SET', string.format('key:%012d', i), 'abc') end";
    control.command(&[b"EVAL", text.as_bytes(), b"0", KEYS.to_string().as_bytes()])?;
    Ok(())
}

fn compare(server: &PrivateRedis, (depth, ops, target): (u32, u64, f64), pairs: usize) -> Result<(), Box<dyn Error>> {
    let all = [Who::Ours, Who::RedisBenchmark];
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); all.len()];
    // The first round fills caches and counts for nothing.
    for round in 0..=pairs {
        for turn in 0..all.len() {
            // The order within a round goes round as well, so that nobody always comes after the same one.
            let place = (turn + round) % all.len();
            let cost = once(server, all[place], depth, ops)?;
            if round > 0 {
                costs[place].push(cost);
            }
        }
    }
    for (place, who) in all.iter().enumerate() {
        let per_op = |of: fn(&Cost) -> f64| sorted(costs[place].iter().map(|cost| of(cost) / ops as f64));
        let (cpu, user) = (per_op(Cost::cpu_us), per_op(|cost| cost.user_us));
        let ratio = if *who == Who::Ours {
            "| ".to_owned()
        } else {
            let ratios =
                sorted(costs[0].iter().zip(&costs[place]).map(|(ours, theirs)| ours.cpu_us() / theirs.cpu_us()));
            let (low, high) = median_interval(&ratios);
            let met = if high <= target {
                "met"
            } else if low > target {
                "missed"
            } else {
                "open"
            };
            format!("{:.3} ({low:.3} … {high:.3}) | {target:.2}: {met}", median(&ratios))
        };
        let (least, most) = (cpu.first().unwrap_or(&f64::NAN), cpu.last().unwrap_or(&f64::NAN));
        println!(
            "| {depth} | {who:?} | {:.3} ({least:.3} … {most:.3}) | {:.3} | {ratio} |",
            median(&cpu),
            median(&user)
        );
    }
    Ok(())
}

fn once(server: &PrivateRedis, who: Who, depth: u32, ops: u64) -> Result<Cost, Box<dyn Error>> {
    let Address::Unix(socket) = server.endpoint().address else { return Err("the server has a Unix socket".into()) };
    let (depth, clients) = (depth.to_string(), CLIENTS.to_string());
    let command = match who {
        Who::Ours => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["bench", "redis", AS_CLIENT, &depth, &ops.to_string()]).arg(socket);
            command
        }
        Who::RedisBenchmark => {
            let mut command = Command::new("redis-benchmark");
            command.args(["-q", "-t", "get", "-c", &clients, "-P", &depth, "-n", &ops.to_string()]);
            command.args(["-r", &KEYS.to_string(), "-s"]).arg(socket);
            command
        }
    };
    let (_, cost) = child_cost::run(command)?;
    Ok(cost)
}

/// `key:` and twelve digits, as redis-benchmark's.
struct RandomKey {
    ops_per_client: u64,
}

impl Stream for RandomKey {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        if cycle == self.ops_per_client {
            return None;
        }
        let mut key = *b"key:000000000000";
        let mut number = below(hash(7, client.into(), cycle), KEYS);
        for digit in key[4..].iter_mut().rev().take(6) {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        params.push_bytes_with(|bytes| bytes.extend_from_slice(&key));
        Some(0)
    }
}

/// Asks the same question `ops` times.
fn be_client(depth: u32, ops: u64, socket: &str) -> Result<(), Box<dyn Error>> {
    let login = Login { user: None, password: None, database: 0, place: "the private server".to_owned() };
    let login = Arc::new(login);
    let client = |_| WireClient {
        address: Address::Unix(socket.into()),
        session: Box::new(RedisSession::new(login.clone(), Protocol::Resp2, "")),
    };
    let kinds = [OpKind {
        name: "get".to_owned(),
        call: Call::Kv(KvCall::Get),
        params: vec![ValueType::Bytes],
        keep_answer: false,
        step_of: None,
    }];
    let clock = Clock::start();
    let spec = DriveSpec { limit: Limit::Exhausted, depth, ..DriveSpec::default() };
    let drive = Drive {
        clock: &clock,
        spec: &spec,
        sessions: Sessions::Wire((0..CLIENTS).map(client).collect()),
        kinds: &kinds,
        stream: Arc::new(RandomKey { ops_per_client: ops / u64::from(CLIENTS * depth) }),
        observers: vec![Box::new(Noting::new((CLIENTS * depth) as usize)) as Box<dyn Observer>],
        stop: Arc::default(),
    };
    let result = drive.run(&mut |_| {})?;
    let not_ok: u64 = result.kinds.iter().flat_map(|kind| &kind[1..]).sum();
    if not_ok > 0 || result.ops + u64::from(CLIENTS * depth) < ops {
        return Err(format!("{} operations, {not_ok} of them went wrong: {:?}", result.ops, result.errors).into());
    }
    Ok(())
}
