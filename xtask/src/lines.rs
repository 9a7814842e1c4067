//! `cargo xtask lines N ARGUMENTS …`: the same search for the load line N times, and whether the searches agree.
//!
//! Every search runs `plimsoll line ARGUMENTS --seed n` in a directory of its own for its recording, one after the other. Printed are each
//! search's line, its 95 % interval and its exit code, and of all that were decided the median, the quartiles over the
//! median, and how many intervals hold the median.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::{cargo, output, run};

/// Exit code of a search that decided.
const DECIDED: i32 = 0;

/// Result of a search.
struct Searched {
    code: i32,
    rate_per_s: Option<f64>,
    low_per_s: f64,
    high_per_s: f64,
    took_s: f64,
    sentence: String,
}

/// Searches as often as the first of `arguments` says.
pub fn lines(root: &Path, arguments: &[String]) -> Result {
    let usage = || "cargo xtask lines N WORKLOAD --on STORE … : N searches with seeds 1 … N".to_owned();
    let (n, rest) = arguments.split_first().ok_or_else(usage)?;
    let n: u64 = n.parse().map_err(|_| usage())?;
    run(cargo().args(["build", "--release", "--package", "plimsoll"]).current_dir(root))?;
    println!("# plimsoll line {}", rest.join(" "));
    println!("| seed | line, op/s | 95 % interval | exit | took, s | |");
    println!("|---|---|---|---|---|---|");
    let mut all = Vec::new();
    for seed in 1..=n {
        let one = search(root, rest, seed)?;
        println!(
            "| {seed} | {} | {:.0} … {:.0} | {} | {:.0} | {} |",
            one.rate_per_s.map_or("–".to_owned(), |rate| format!("{rate:.0}")),
            one.low_per_s,
            one.high_per_s,
            one.code,
            one.took_s,
            one.sentence
        );
        all.push(one);
    }
    summarise(&all);
    Ok(())
}

fn search(root: &Path, arguments: &[String], seed: u64) -> Result<Searched> {
    let place = std::env::temp_dir().join(format!("plimsoll-lines-{}-{seed}", std::process::id()));
    let plimsoll = |verb: &str| {
        let mut command = Command::new(root.join("target/release/plimsoll"));
        command.arg(verb).env("XDG_STATE_HOME", &place);
        command
    };
    let done = plimsoll("line")
        .args(arguments)
        .args(["--seed", &seed.to_string()])
        .output()
        .map_err(|error| format!("plimsoll line: {error}"))?;
    let code = done.status.code().unwrap_or(-1);
    let text = output(plimsoll("report").args(["latest", "--format", "json"]))
        .map_err(|what| format!("{what}\n{}", String::from_utf8_lossy(&done.stderr)))?;
    std::fs::remove_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let report: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let result = report.pointer("/lines/0/result").ok_or("the report has no line")?;
    let number = |name: &str| result.get(name).and_then(serde_json::Value::as_f64);
    let (rate_per_s, half) = (number("rate_per_s"), number("uncertainty_per_s").unwrap_or(0.0));
    Ok(Searched {
        code,
        rate_per_s,
        low_per_s: number("low_per_s").or_else(|| Some(rate_per_s? - half)).unwrap_or(0.0),
        high_per_s: number("high_per_s").or_else(|| Some(rate_per_s? + half)).unwrap_or(0.0),
        took_s: number("took_s").unwrap_or(0.0),
        sentence: result.get("sentence").and_then(|text| text.as_str()).unwrap_or_default().to_owned(),
    })
}

fn summarise(all: &[Searched]) {
    let decided: Vec<&Searched> = all.iter().filter(|one| one.code == DECIDED).collect();
    let mut rates: Vec<f64> = decided.iter().filter_map(|one| one.rate_per_s).collect();
    rates.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * (rates.len().saturating_sub(1)) as f64;
        let (low, high) = (rates.get(place.floor() as usize), rates.get(place.ceil() as usize));
        low.zip(high).map_or(f64::NAN, |(low, high)| low + (high - low) * place.fract())
    };
    let median = at(0.5);
    let holds = decided.iter().filter(|one| one.low_per_s <= median && median <= one.high_per_s).count();
    println!();
    println!(
        "{} of {} decided; median {median:.0}/s; quartiles {:.0} … {:.0}, {:.1} % of the median; {holds} of {} intervals \
         hold the median",
        decided.len(),
        all.len(),
        at(0.25),
        at(0.75),
        (at(0.75) - at(0.25)) * 100.0 / median,
        decided.len()
    );
}
