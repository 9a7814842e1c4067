//! Commands that test findings: the command of the run with other options.

use plimsoll_core::shell_word;
use plimsoll_record::data::{Phase, Run, Trial};

use super::moments::SlowPhase;

/// Options that no repeated run takes over.
const OF_ONE_RUN: &[&str] = &["--seed"];
/// Options for the number of clients.
const CLIENTS: &[&str] = &["--clients", "-c"];
/// Options for the length of a drive.
const LENGTH: &[&str] = &["--for", "--ops"];
/// Options for faults.
pub const FAULTS: &[&str] = &["--fault", "--fault-pause"];

/// Returns the next step `next` and the command that show `what` with less load. If no command of the run gives less
/// load, the next step says how to get it, and the command is empty.
pub fn with_less_load(run: &Run, phase: &SlowPhase<'_, '_>, next: &str, what: &str) -> (String, String) {
    if let Some(command) = halved(run, phase) {
        return (format!("{next} The command shows {what} with less load."), command);
    }
    let words = match phase.facts.open_loop {
        _ if run.header.outline.watched => format!("Watch again at a time of less load, and compare {what}."),
        true => format!("Repeat the run at half of the rate, and compare {what}."),
        false if phase.facts.phase.header.clients > 1 => {
            format!("Repeat the run with half of the clients, and compare {what}.")
        }
        false => format!("Repeat the run with pauses between operations (`think`), and compare {what}."),
    };
    (format!("{} {words}", of_run(run, next)), String::new())
}

/// Returns the command of the run with half of a phase's clients, or of an open loop at half of its rate; `None` unless
/// it is one drive under one load, or a plan whose phase has one load at a time.
fn halved(run: &Run, phase: &SlowPhase<'_, '_>) -> Option<String> {
    let header = &phase.facts.phase.header;
    let (key, half) = half_load(phase)?;
    let words = words_without(run, OF_ONE_RUN);
    let option = match words.first().map(String::as_str) {
        Some("drive") if run.trials.len() == 1 => format!("--{key} {half}"),
        // It chooses all sizes itself.
        Some("run") if words.iter().any(|word| word == "--quick") => return None,
        Some("run") if key == "clients" && words.iter().any(|word| is_option(word, CLIENTS)) => {
            format!("--clients {half}")
        }
        Some("run") => format!("--set {}.{key}={half}", header.name),
        _ => return None,
    };
    let replaced: &[&str] = if key == "rate" { &["--rate"] } else { CLIENTS };
    let set = format!("{}.{key}=", header.name);
    let mut all = words_without(run, &[OF_ONE_RUN, replaced].concat());
    while let Some(at) = all.windows(2).position(|pair| pair[0] == "--set" && pair[1].starts_with(&set)) {
        all.drain(at..at + 2);
    }
    all.retain(|word| word.strip_prefix("--set=").is_none_or(|given| !given.starts_with(&set)));
    Some(format!("plimsoll {} {option}", all.join(" ")))
}

/// Returns the option of half of a phase's clients, or of an open loop's rate, and its value; `None` if there are several
/// loads, or no half.
pub fn half_load(phase: &SlowPhase<'_, '_>) -> Option<(&'static str, String)> {
    let header = &phase.facts.phase.header;
    match header.rate_per_s {
        _ if !has_one_load(phase) => None,
        Some(rate) if rate >= 2.0 => Some(("rate", format!("{}/s", (rate / 2.0).ceil()))),
        None if header.clients > 1 => Some(("clients", (header.clients / 2).to_string())),
        _ => None,
    }
}

/// Returns true if a phase has one load that does not change. Scenarios have loads of their own.
pub fn has_one_load(phase: &SlowPhase<'_, '_>) -> bool {
    let facts = phase.facts;
    let has_scenarios = facts.histograms.keys().any(|(kind, ..)| facts.op_name(*kind).contains('/'));
    !has_scenarios && facts.phase.header.stages.is_empty()
}

/// Returns the command of the run with another seed; empty if it is not known. A cause that is one is named again by a
/// run of other operations. Of faults that are options the command has none, if `without_faults`.
pub fn again(run: &Run, without_faults: bool) -> String {
    let faults: &[&str] = if without_faults { FAULTS } else { &[] };
    let words = words_without(run, &[OF_ONE_RUN, faults].concat());
    // What runs already cannot be run again.
    match words.is_empty() || run.header.outline.watched {
        true => String::new(),
        false => format!("plimsoll {} --seed {}", words.join(" "), run.header.seed.wrapping_add(1)),
    }
}

/// Returns the command of the run with another seed, driven for `seconds`; empty unless it is one drive whose length is
/// not that of its stages.
pub fn longer(run: &Run, phase: &SlowPhase<'_, '_>, seconds: f64) -> String {
    let words = words_without(run, &[OF_ONE_RUN, LENGTH].concat());
    let is_drive = words.first().is_some_and(|verb| verb == "drive") && run.trials.len() == 1;
    match is_drive && phase.facts.phase.header.stages.is_empty() {
        true => format!("plimsoll {} --for {seconds}s --seed {}", words.join(" "), run.header.seed.wrapping_add(1)),
        false => String::new(),
    }
}

/// Returns the phases of `trial` whose faults stand in the text of a plan: no option of the command takes them out.
pub fn phases_with_planned_faults(run: &Run, trial: &Trial) -> Vec<String> {
    let words = words_without(run, &[]);
    let is_of_options = words.first().is_some_and(|verb| verb == "drive");
    if is_of_options || words.iter().any(|word| is_option(word, FAULTS)) {
        return Vec::new();
    }
    let is_faulty = |phase: &&Phase| trial.faults.iter().any(|fault| fault.phase == phase.header.ordinal);
    trial.phases.iter().filter(is_faulty).map(|phase| format!("phase {}", phase.header.name)).collect()
}

/// Returns a next step. What runs already is not run again, but watched.
pub fn of_run(run: &Run, next: &str) -> String {
    match run.header.outline.watched {
        true => next.replace("repeat the run", "watch again").replace("Repeat the run", "Watch again"),
        false => next.to_owned(),
    }
}

/// Returns true if a word of a command is one of these options, or one of them with its value.
fn is_option(word: &str, options: &[&str]) -> bool {
    let (option, _) = word.split_once('=').unwrap_or((word, ""));
    options.iter().any(|known| *known == option || is_joined(word, known))
}

/// Returns true if `word` is the short `option` with its value behind it: `-c8`.
fn is_joined(word: &str, option: &str) -> bool {
    option.len() == 2 && word.len() > 2 && word.starts_with(option)
}

/// Returns the words of the run's command after the program's name, as a shell takes them, without some options and
/// their values.
pub fn words_without(run: &Run, options: &[&str]) -> Vec<String> {
    let mut words = run.header.command_line.iter().skip(1).peekable();
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        let has_value = word.contains('=') || options.iter().any(|option| is_joined(word, option));
        match is_option(word, options) {
            true if has_value => {}
            true => {
                let _ = words.next_if(|value| !value.starts_with('-'));
            }
            false => all.push(shell_word(word).into_owned()),
        }
    }
    all
}
