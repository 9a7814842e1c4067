//! A plan as plain text: the trials that would run, and their duration.

use plimsoll_core::Mix;
use plimsoll_core::study::{PlacedFindings, places_in};

use crate::duration;
use crate::model::{
    Arrivals, Backoff, Breaker, Drive, DriveLimit, Goal, GoalKind, Pace, PhaseStep, Plan, PlannedPhase, PlannedTrial,
    Rate, RepeatsUntil, Retry, RetryScope, Scenario, Stage, ThinkTime,
};
use crate::quantity::show_ns;

impl Plan {
    /// Describes the trials and their duration, line by line. Trials with the same phases share one list of them.
    /// `records` returns the number of records that a trial loads.
    pub fn outline(&self, records: &dyn Fn(&PlannedTrial) -> Option<u64>) -> Vec<String> {
        let mut lines = self.notices.clone();
        lines.push(self.title.clone());
        if !self.question.is_empty() {
            lines.push(self.question.clone());
        }
        lines.push(String::new());
        let stores: Vec<&str> = unique(self.trials.iter().map(|trial| trial.store.label.as_str()));
        let workloads: Vec<&str> = unique(self.trials.iter().map(|trial| trial.workload.name.as_str()));
        let (certain, most) = (self.certain().count(), counted(self.trials.len(), "trial"));
        lines.push(format!(
            "{} with the workload {} on {}",
            if certain < self.trials.len() { format!("{certain} to {most}") } else { most },
            workloads.join(", "),
            stores.join(", ")
        ));
        if let Some(line) = &self.line {
            let budget = show_ns(line.budget_ns);
            lines.push(format!("the load line of each, to {} %, within {budget}", line.precision * 100.0));
        }
        let (most, start) = (self.repeats, self.start.name());
        if let Some(RepeatsUntil { least, width }) = self.until {
            let percent = (width * 1e4).round() / 100.0;
            lines.push(format!(
                "each point {least} to {most} times, until times and rates of the answer vary by at most {percent} %; \
                 trials start {start}"
            ));
        } else if most > 1 {
            lines.push(format!("each point {most} times; trials start {start}"));
        }
        // The search itself determines the duration of load steps.
        if self.line.is_none() {
            lines.extend(duration::lines(self, records));
        }
        let mut groups: Vec<(Vec<String>, Vec<&PlannedTrial>)> = Vec::new();
        for trial in self.certain() {
            let phases: Vec<String> = trial.phases.iter().map(phase).collect();
            match groups.iter_mut().find(|(same, _)| *same == phases) {
                Some((_, trials)) => trials.push(trial),
                None => groups.push((phases, vec![trial])),
            }
        }
        for (phases, trials) in groups {
            lines.push(String::new());
            for trial in trials {
                lines.push(format!("trial {}: {}", trial.ordinal + 1, labels(trial)));
            }
            lines.extend(phases.into_iter().map(|phase| format!("    {phase}")));
        }
        if !self.left_out.is_empty() {
            lines.push(String::new());
            lines.extend(self.left_out.iter().map(|reason| format!("left out: {reason}")));
        }
        lines.push(String::new());
        if !self.goals.is_empty() {
            let goals: Vec<String> = self.goals.iter().map(goal).collect();
            lines.push(format!("goals: {}", goals.join(", ")));
        }
        if !self.figures.is_empty() {
            lines.push(format!("{} for each store", counted(self.figures.len(), "figure")));
        }
        let samplers = if self.samplers.is_empty() { "none".to_owned() } else { self.samplers.join(", ") };
        lines.push(format!("samplers: {samplers}, once every {}", show_ns(self.slice_ns)));
        if self.samplers.is_empty() {
            let is_figure = |name: &str| self.figures.iter().any(|figure| figure.name == name);
            for place in self.answers.iter().flat_map(|answer| places_in(&answer.say)) {
                if PlacedFindings::parse(place.figure).is_some() && !is_figure(place.figure) {
                    lines.push(format!("`{{{}}}` stays undecided: findings need samplers", place.written));
                }
            }
        }
        lines
    }
}

fn labels(trial: &PlannedTrial) -> String {
    let rest =
        trial.labels.iter().filter(|(label, _)| *label != "store").map(|(label, value)| format!("{label}={value}"));
    std::iter::once(trial.store.label.clone()).chain(rest).collect::<Vec<_>>().join(" ")
}

fn phase(phase: &PlannedPhase) -> String {
    let what = match &phase.step {
        PhaseStep::Load { batch, clients, durability } => {
            format!("{batch} records to an operation, {}, {}", counted(*clients as usize, "client"), durability.name())
        }
        PhaseStep::Ask { op, count, .. } => {
            format!("`{op}`, {}", if *count == 1 { "once".to_owned() } else { format!("{count} times") })
        }
        PhaseStep::Drive(drive) => driven(drive),
        _ => String::new(),
    };
    let step = phase.step.kind().name();
    let step = if phase.name == step { step.to_owned() } else { format!("{} ({step})", phase.name) };
    if what.is_empty() { step } else { format!("{step}: {what}") }
}

fn driven(drive: &Drive) -> String {
    let limit = match drive.limit {
        DriveLimit::DurationNs(ns) => format!("for {}", show_ns(ns)),
        DriveLimit::OpsPerClient(ops) => format!("{} of each client", counted(ops as usize, "operation")),
    };
    let warmup = if drive.warmup_is_found {
        ", warm-up detected".to_owned()
    } else if drive.warmup_ns == 0 {
        String::new()
    } else {
        format!(" after {} of warm-up", show_ns(drive.warmup_ns))
    };
    let mut durability = drive.durability.name().to_owned();
    for fault in &drive.faults {
        durability += &format!(", {fault}");
    }
    if let Some(most) = drive.keep_operations {
        durability += &format!(", up to {} recorded", counted(most as usize, "operation"));
    }
    if drive.scenarios.is_empty() {
        let clients = clients(drive, drive.clients, &drive.pace, drive.think);
        return format!("{clients}, {limit}{warmup}, {durability}; {}", shares(&drive.mix));
    }
    let scenario = |one: &Scenario| {
        format!("{}: {}, {}", one.name, clients(drive, one.clients, &one.pace, one.think), shares(&one.mix))
    };
    let scenarios: Vec<String> = drive.scenarios.iter().map(scenario).collect();
    format!("{limit}{warmup}, {durability}; {}", scenarios.join("; "))
}

/// Describes the number of clients and their pace.
fn clients(drive: &Drive, clients: u32, pace: &Pace, think: Option<ThinkTime>) -> String {
    let mut words = counted(clients as usize, "client");
    if drive.depth > 1 {
        words.push_str(&format!(" with {} operations under way", drive.depth));
    }
    if let Some(hosts) = drive.client_hosts {
        words.push_str(&format!(" on {}", counted(hosts as usize, "client host")));
    }
    match drive.reconnect {
        None => {}
        Some(1) => words.push_str(" with a new connection for each operation"),
        Some(each) => words.push_str(&format!(" with a new connection after {each} operations")),
    }
    if let Some(timeout_ns) = drive.connect_timeout_ns {
        words.push_str(&format!(", connect time-out {}", show_ns(timeout_ns)));
    }
    match drive.backoff {
        None => {}
        Some(Backoff::Constant(ns)) => words.push_str(&format!(", back-off {}", show_ns(ns))),
        Some(Backoff::Doubling(first, most)) => {
            words.push_str(&format!(", back-off {} doubled up to {}", show_ns(first), show_ns(most)));
        }
        Some(Backoff::Jittered(first, most)) => {
            words.push_str(&format!(", random back-off, limit {} doubled up to {}", show_ns(first), show_ns(most)));
        }
    }
    if let Some(Retry { scope, tries }) = drive.retry {
        let of = if scope == RetryScope::All { "all operations" } else { "idempotent operations" };
        words.push_str(&format!(", up to {tries} tries of {of}"));
    }
    if let Some(Breaker { failures, wait_ns }) = drive.breaker {
        let failures = if failures == 1 { "a failure".to_owned() } else { format!("{failures} failures in a row") };
        words.push_str(&format!(", circuit open for {} after {failures}", show_ns(wait_ns)));
    }
    let pace = match pace {
        Pace::Closed => {
            let stages =
                if drive.stages.is_empty() { String::new() } else { format!(" of {}", staged(&drive.stages, "")) };
            format!("closed loop{stages}{}", think.map_or(String::new(), thinking))
        }
        Pace::Open { rate, arrivals } => {
            let spaced = if *arrivals == Arrivals::Poisson { ", Poisson arrivals" } else { "" };
            format!("open loop at {}{spaced}", shown(rate))
        }
    };
    format!("{words}, {pace}")
}

fn shares(mix: &Mix) -> String {
    let sum: u64 = mix.iter().map(|(_, share)| u64::from(*share)).sum();
    let of = |(kind, share): &(String, u32)| format!("{kind} {:.0} %", f64::from(*share) * 100.0 / sum.max(1) as f64);
    mix.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn shown(rate: &Rate) -> String {
    match rate {
        Rate::Constant(rate) => format!("{rate}/s"),
        Rate::Stages(stages) => staged(stages, "/s"),
        Rate::Sine { mean, amplitude, period_ns } => {
            format!("{mean}/s ± {amplitude}/s with a period of {}", show_ns(*period_ns))
        }
        Rate::Recorded(times) => format!("{} recorded times", times.len()),
    }
}

fn staged(stages: &[Stage], unit: &str) -> String {
    let one = |Stage { from, to, for_ns }: &Stage| match from == to {
        true => format!("{to}{unit} for {}", show_ns(*for_ns)),
        false => format!("{from}{unit} to {to}{unit} in {}", show_ns(*for_ns)),
    };
    stages.iter().map(one).collect::<Vec<_>>().join(", then ")
}

fn thinking(think: ThinkTime) -> String {
    match think {
        ThinkTime::Constant(ns) => format!(", thinking for {}", show_ns(ns)),
        ThinkTime::Uniform(least, most) => format!(", thinking for {} to {}", show_ns(least), show_ns(most)),
        ThinkTime::Exponential(mean) => format!(", thinking for {} on average", show_ns(mean)),
    }
}

fn goal(goal: &Goal) -> String {
    let name = goal.name();
    match goal.what {
        GoalKind::Rate => format!("{name} at least {}/s", goal.limit),
        _ if goal.unit == "ns" => format!("{name} at most {}", show_ns(goal.limit as u64)),
        _ => format!("{name} at most {}{}", goal.limit, goal.unit),
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
}

fn unique<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    all
}
