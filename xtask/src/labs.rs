//! `cargo xtask labs N [--debug] [STORE …]`: how long labs take until they stand, and until they are gone.
//!
//! Each is made and ended N times, in turn with the others, and twenty hosts with nothing on them beside them. Printed are medians
//! with the least and the most of each, beside what is wanted. With `--debug` it is the build that tests use, which needs no other.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::Result;
use crate::process::{built, cargo, output};

/// A lab, and how long it may take until it stands, in seconds, where that is wanted.
const LABS: [(&str, &[&str], Option<f64>); 12] = [
    ("postgres-replicas", &["--nodes", "3"], Some(5.0)),
    ("postgres-patroni", &[], None),
    ("postgres-pgbouncer", &[], None),
    ("galera", &["--nodes", "3"], Some(20.0)),
    ("mariadb-replicas", &["--nodes", "3"], None),
    ("redis-cluster", &["--nodes", "3"], Some(3.0)),
    ("redis-sentinel", &[], None),
    ("etcd", &["--nodes", "3"], Some(3.0)),
    ("nats", &["--nodes", "3"], Some(2.0)),
    ("postgres-haproxy", &[], None),
    ("galera-haproxy", &[], None),
    ("etcd-haproxy", &[], None),
];
/// Longest time that the removal of a lab may take, seconds.
const DOWN_S: f64 = 3.0;
/// The test that makes twenty hosts and says how long that took; what it says before that; and how long it may take.
const HOSTS: (&str, &str, f64) = ("twenty_hosts_are_made_at_once", "twenty hosts: ", 1.0);

/// Makes and ends labs as often as the first of `arguments` says: those that the others name, or all.
pub fn labs(root: &Path, arguments: &[String]) -> Result {
    let usage = || "cargo xtask labs N [--debug] [STORE …]: make and end labs N times".to_owned();
    let (n, names) = arguments.split_first().ok_or_else(usage)?;
    let (options, names): (Vec<&String>, Vec<&String>) = names.iter().partition(|word| word.starts_with("--"));
    let profile = match options.as_slice() {
        [] => "release",
        [only] if *only == "--debug" => "dev",
        _ => return Err(usage()),
    };
    let n: usize = n.parse().ok().filter(|n| *n > 0).ok_or_else(usage)?;
    if let Some(unknown) = names.iter().find(|name| !LABS.iter().any(|(lab, ..)| lab == **name)) {
        return Err(format!("there is no lab {unknown} here: {}", LABS.map(|(lab, ..)| lab).join(", ")));
    }
    let meant: Vec<_> =
        LABS.iter().filter(|(lab, ..)| names.is_empty() || names.iter().any(|name| *name == lab)).collect();
    let program = built(root, profile)?;
    let mut hosts = Vec::new();
    let mut times = vec![(Vec::new(), Vec::new()); meant.len()];
    for _ in 0..n {
        for ((store, options, _), (up, down)) in meant.iter().zip(&mut times) {
            let name = format!("bench-{}", std::process::id());
            up.push(timed(&program, &[&["lab", "up", store, "--keep", "--name", &name], *options].concat())?);
            down.push(timed(&program, &["lab", "down", &name])?);
        }
        if names.is_empty() {
            hosts.push(twenty_hosts(root, profile)?);
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("n = {n}, profile {profile}, load {}", load.split(' ').next().unwrap_or("?"));
    println!("| lab | stands after, s: median (least … most) | wanted | gone after, s | wanted |");
    println!("|---|---|---|---|---|");
    for ((store, options, wanted), (up, down)) in meant.iter().zip(&mut times) {
        let wanted = wanted.map_or("–".to_owned(), |wanted| wanted.to_string());
        println!("| {store} {} | {} | {wanted} | {} | {DOWN_S} |", options.join(" "), spread(up), spread(down));
    }
    if !hosts.is_empty() {
        println!("| twenty hosts with nothing on them | {} | {} | – | – |", spread(&mut hosts), HOSTS.2);
    }
    Ok(())
}

/// Seconds until twenty hosts are there, as the test of them says.
fn twenty_hosts(root: &Path, profile: &str) -> Result<f64> {
    let (test, before, _) = HOSTS;
    let test = ["test", "--profile", profile, "--package", "plimsoll-lab", "--test", "it", test, "--", "--nocapture"];
    let said = output(cargo().args(test).current_dir(root))?;
    let took = said.lines().find_map(|line| line.split_once(before)).map(|(_, took)| took.trim());
    let seconds = took.and_then(|took| match took.strip_suffix("ms") {
        Some(number) => number.parse::<f64>().ok().map(|number| number / 1e3),
        None => took.strip_suffix('s')?.parse().ok(),
    });
    seconds.ok_or_else(|| format!("the test of twenty hosts does not say how long they took: {said}"))
}

/// Seconds that `plimsoll` takes over this.
fn timed(program: &Path, arguments: &[&str]) -> Result<f64> {
    let since = Instant::now();
    output(Command::new(program).args(arguments))?;
    Ok(since.elapsed().as_secs_f64())
}

fn spread(seconds: &mut [f64]) -> String {
    seconds.sort_by(f64::total_cmp);
    match (seconds.first(), seconds.last()) {
        (Some(least), Some(most)) => format!("{:.2} ({least:.2} … {most:.2})", seconds[seconds.len() / 2]),
        _ => "–".to_owned(),
    }
}
