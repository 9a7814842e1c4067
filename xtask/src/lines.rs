//! `cargo xtask lines N STEPS.csv ARGUMENTS …`: the same search for the load line N times, and whether they agree.
//!
//! Each search runs `plimsoll line ARGUMENTS --seed n` with recordings in a directory of its own, one after the other.
//! Printed are each search's rates and sentence, and of those that decided the quartiles, and how many have a rate in
//! common. `STEPS.csv` receives every load step.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Result;
use crate::process::{built, output};

/// Exit code of a search that decided.
const DECIDED: i32 = 0;

/// Result of a search.
struct Searched {
    code: i32,
    /// Rate that is carried and rate at which the store gives way, where both are shown.
    shown: Option<(f64, f64)>,
}

/// Searches as often as the first of `arguments` says.
pub fn lines(root: &Path, arguments: &[String]) -> Result {
    let usage = || "cargo xtask lines N STEPS.csv WORKLOAD --on STORE … : N searches with seeds 1 … N".to_owned();
    let [n, steps, rest @ ..] = arguments else { return Err(usage()) };
    let n: u64 = n.parse().map_err(|_| usage())?;
    let program = built(root, "release")?;
    let failed = |error: std::io::Error| format!("{steps}: {error}");
    let mut table =
        "seed,step,purpose,rate_per_s,warmup_s,seconds,state,done_per_s,reason,goal,limit,seen\n".to_owned();
    std::fs::write(steps, &table).map_err(failed)?;
    println!("# plimsoll line {}", rest.join(" "));
    println!(
        "| seed | exit | took, s | load steps | server, µs an operation (second lowest … second highest at comparable rates) | |\n|---|---|---|---|---|---|"
    );
    let mut all = Vec::new();
    for seed in 1..=n {
        all.push(search(&program, rest, seed, &mut table)?);
        std::fs::write(steps, &table).map_err(failed)?;
    }
    summarise(&all);
    Ok(())
}

/// Searches once, prints the result and adds the load steps to `table`.
fn search(program: &Path, arguments: &[String], seed: u64, table: &mut String) -> Result<Searched> {
    let place = std::env::temp_dir().join(format!("plimsoll-lines-{}-{seed}", std::process::id()));
    let plimsoll = |verb: &str| {
        let mut command = Command::new(program);
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
    let report: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let line = report.pointer("/lines/0").ok_or("the report has no line")?;
    let result = &line["result"];
    let shown = |side: &str| result[side]["rate_per_s"].as_f64().filter(|_| result[side]["decided"] == true);
    let sentence = result["sentence"].as_str().unwrap_or_default();
    let took_s = result["took_s"].as_f64().unwrap_or(0.0);
    // Tells whether the machine was as fast in one search as in another, and within one, in load steps at comparable rates.
    let us = |value: &Value| value.as_f64().map(|s| format!("{:.2}", s * 1e6));
    let spread = &result["server_cpu_spread"];
    let spread = us(&spread["low_s"]).zip(us(&spread["high_s"]));
    let spread = spread.map_or(String::new(), |(low, high)| format!(" ({low} … {high})"));
    let server = us(&result["server_cpu_per_op_s"]).map_or("–".to_owned(), |us| us + &spread);
    println!("| {seed} | {code} | {took_s:.0} | {} | {server} | {sentence} |", result["n"]);
    for step in line["rungs"].as_array().into_iter().flatten() {
        let rung = &step["rung"];
        let words = [&rung["ordinal"], &rung["purpose"], &rung["rate_per_s"], &rung["warmup_s"], &rung["seconds"]];
        let words = words.into_iter().chain([&step["state"], &step["rate_per_s"], &step["reason"]]).map(cell);
        let step_words = words.collect::<Vec<_>>().join(",");
        // A step without goals has one row all the same.
        let none = [Value::Null];
        let goals = step["goals"].as_array().filter(|goals| !goals.is_empty()).map_or(&none[..], Vec::as_slice);
        for goal in goals {
            let seen = [&goal["what"], &goal["limit"], &goal["value"]].map(cell).join(",");
            let _ = writeln!(table, "{seed},{step_words},{seen}");
        }
    }
    Ok(Searched { code, shown: shown("held").zip(shown("failed")) })
}

/// Returns a value as a cell of a CSV table: without quotes and commas, and empty if there is none.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.replace(['"', '\n'], " ").replace(',', ";"),
        other => other.to_string(),
    }
}

fn summarise(all: &[Searched]) {
    let decided: Vec<(f64, f64)> = all.iter().filter(|one| one.code == DECIDED).filter_map(|one| one.shown).collect();
    let mut rates: Vec<f64> = decided.iter().map(|(carries, _)| *carries).collect();
    rates.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * (rates.len().saturating_sub(1)) as f64;
        let (low, high) = (rates.get(place.floor() as usize), rates.get(place.ceil() as usize));
        low.zip(high).map_or(f64::NAN, |(low, high)| low + (high - low) * place.fract())
    };
    let holding = |rate: f64| decided.iter().filter(|(low, high)| (*low..=*high).contains(&rate)).count();
    // A rate that most have in common is the lower end of one of them.
    let common = rates.iter().map(|rate| (holding(*rate), *rate)).max_by(|a, b| a.0.cmp(&b.0));
    let (median, (n, rate)) = (at(0.5), common.unwrap_or_default());
    println!(
        "\n{} of {} decided; carried: median {median:.0}/s, quartiles {:.0} … {:.0}, {:.1} % of the median; {rate:.0}/s \
         lies between both rates of {n}",
        decided.len(),
        all.len(),
        at(0.25),
        at(0.75),
        (at(0.75) - at(0.25)) * 100.0 / median,
    );
}
