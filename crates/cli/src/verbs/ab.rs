//! `plimsoll ab`: two sides in turn until their difference is decided. A side is a plan: made by `drive`
//! from options for both sides and for this side, or a file.

use std::path::Path;

use plimsoll_analysis::ab::{AbMetric, AbRule, AbSpec, SIDES, fewest_pairs};
use plimsoll_analysis::compare::rule::Rule;
use plimsoll_core::Catalogue;
use plimsoll_core::shown::clean;
use plimsoll_plan::Dimension;
use plimsoll_plan::model::{Pace, Plan, PlannedTrial};
use plimsoll_trial::TrialError;

use crate::args::{AbArgs, DriveArgs};
use crate::options;
use crate::plans::{self, Passwords, PlanText};
use crate::verbs::run::How;
use crate::verbs::{drive, line, run};

/// Time for all turns, by default.
const BUDGET: &str = "5min";
/// Length of a turn.
const TURN: &str = "5s";
/// Warm-up of a turn.
const WARMUP: &str = "1s";
/// Smallest difference that matters.
const DIFFERENCE: &str = "3%";

/// Texts of a side.
struct SideText {
    /// Text in the words of the command line.
    words: String,
    from: PlanText,
    /// Stores that replace those of a plan file.
    on: Vec<String>,
}

/// Runs `plimsoll ab`. Returns the exit code: whether the difference was decided, and how.
pub fn run(catalogue: &Catalogue, args: &AbArgs) -> Result<u8, TrialError> {
    refuse(args)?;
    let sides = [side(catalogue, args, 0)?, side(catalogue, args, 1)?];
    if args.drive.print_plan {
        return crate::print(&plimsoll_plan::without_secrets(&both(
            &sides.each_ref().map(|SideText { from, .. }| plans::with_absolute_paths(&from.text, &from.beside)),
        )));
    }
    let stores = [&args.drive.on[..], &args.a, &args.b];
    let mut passwords = Passwords::of_options(args.drive.password_file.as_deref(), &stores)?;
    let mut read = |side: SideText| -> Result<(String, Plan, String), TrialError> {
        let (plan, text) = plans::read_plan(catalogue, side.from, &side.on, args.drive.seed, &mut passwords)?;
        Ok((side.words, plan, text))
    };
    let [a, b] = sides;
    let (a, b) = (read(a)?, read(b)?);
    let spec = spec(args, &a, &b)?;
    let plan = together(args, a.1, &b.1, &spec)?;
    let how = How { ab: Some(&spec), ..How::strict(args.drive.strict) };
    run::run_plan(catalogue, &plan, &both(&spec.plans), &how, &passwords, &args.drive.telling)
}

/// Options of `drive` that have no place here.
fn refuse(args: &AbArgs) -> Result<(), TrialError> {
    let drive = &args.drive;
    let keys = [
        ("for", "--turn is the length of a turn, --budget bounds them all"),
        ("ops", "--turn is the length of a turn, --budget bounds them all"),
        ("repeats", "turns repeat until the difference is decided; --budget bounds them"),
    ];
    let goal = ("goal", "the sides are compared with each other: --fail-if 'p99 > +5%' makes it fail");
    let given = keys.into_iter().find(|(key, _)| drive.plan.get(key).is_some());
    match given.or(Some(goal).filter(|_| !drive.goal.is_empty())) {
        None => Ok(()),
        Some((option, next)) => {
            Err(TrialError::usage(format!("--{option} is not an option of `plimsoll ab`")).next(next))
        }
    }
}

/// Returns the side at `at`.
fn side(catalogue: &Catalogue, args: &AbArgs, at: usize) -> Result<SideText, TrialError> {
    let given = [&args.a, &args.b][at];
    let is_file = |name: &str| name.ends_with(".toml");
    let named = match &args.other {
        Some(other) => [args.drive.workload.as_ref(), Some(other)][at].cloned(),
        None => args.drive.workload.clone().filter(|workload| is_file(workload)),
    };
    let (files, given): (Vec<String>, Vec<String>) = given.iter().cloned().partition(|one| is_file(one));
    let mut words: Vec<String> = given.iter().map(|one| plimsoll_plan::split_password(one).0).collect();
    let Some(file) = files.into_iter().next().or(named) else {
        let from = drive::plan_text(catalogue, &with(&args.drive, &given)?)?;
        return Ok(SideText { words: words.join(", "), from, on: Vec::new() });
    };
    let letter = SIDES[at].to_lowercase();
    let from = line::file_text(&file, &args.drive, &["allow_writes", "allow_fault", "warmup"])?;
    if let Some(setting) = given.iter().find(|one| assignment(one).is_some()) {
        let what = format!("--{letter} {setting} was given beside the plan file {file}");
        return Err(TrialError::usage(what).next("write it in a plan file of that side's own"));
    }
    if args.other.is_some() || words.is_empty() {
        words.insert(0, Path::new(&from.name).file_stem().map_or(String::new(), |stem| clean(&stem.to_string_lossy())));
    }
    let on = if given.is_empty() { args.drive.on.clone() } else { given };
    Ok(SideText { words: words.join(", "), from, on })
}

/// Splits `name=value`; `None` for others, and for URLs that contain `=`.
fn assignment(given: &str) -> Option<(&str, &str)> {
    let (name, value) = given.split_once('=')?;
    (!name.contains("://")).then_some((name, value))
}

/// Returns the options with those of a side: a setting replaces that of the same name, a store replaces the stores.
fn with(base: &DriveArgs, given: &[String]) -> Result<DriveArgs, TrialError> {
    let mut args = base.clone();
    let mut stores = Vec::new();
    for one in given {
        let Some((name, value)) = assignment(one) else {
            stores.push(one.clone());
            continue;
        };
        // The length of a turn is common to both sides.
        let key = name.replace('-', "_");
        if ["for", "ops", "warmup"].contains(&key.as_str()) || !args.plan.replace(&key, value) {
            args.set.retain(|known| known.split_once('=').is_none_or(|(known, _)| known != name));
            args.set.push(one.clone());
        }
    }
    if !stores.is_empty() {
        args.on = stores;
        // What is set for a store that the other side has is not for this one.
        let schemes: Vec<String> = plans::whole_urls(&args.on)
            .iter()
            .map(|store| store.split_once("://").map_or(store.as_str(), |(scheme, _)| scheme).to_owned())
            .collect();
        let own = |set: &String| given.contains(set);
        let fits = |set: &String| set.split_once('.').is_none_or(|(kind, _)| schemes.iter().any(|known| known == kind));
        args.set.retain(|set| own(set) || fits(set));
    }
    Ok(args)
}

/// Both plans in one text.
fn both(plans: &[String; 2]) -> String {
    format!("# Side A\n{}\n# Side B\n{}", plans[0], plans[1])
}

fn time_s(option: &str, given: &str, least_s: f64) -> Result<f64, TrialError> {
    let seconds = options::quantity(option, given, Dimension::Time)? / 1e9;
    if seconds >= least_s {
        return Ok(seconds);
    }
    let least = plimsoll_analysis::number::seconds(least_s);
    Err(TrialError::usage(format!("--{option} {given} is too short")).next(format!("write at least {least}")))
}

/// Returns the metrics to decide and their bounds.
fn spec(
    args: &AbArgs,
    (words_a, a, text_a): &(String, Plan, String),
    (words_b, b, text_b): &(String, Plan, String),
) -> Result<AbSpec, TrialError> {
    let fail_if = args.fail_if.iter().map(|text| rule(text)).collect::<Result<Vec<_>, _>>()?;
    let named = |name: &String| {
        AbMetric::parse(name)
            .map_err(|help| TrialError::usage(format!("--metric {name}: there is no such number")).next(help))
    };
    let mut metrics = args.metric.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    metrics.extend(fail_if.iter().map(|rule| rule.metric));
    if metrics.is_empty() {
        let mut drives = a.trials.iter().chain(&b.trials).flat_map(PlannedTrial::drives);
        let open = drives.any(|(_, drive)| drive.pace != Pace::Closed);
        metrics.push(if open { AbMetric::P99 } else { AbMetric::Rate });
    }
    let metrics: Vec<AbMetric> = AbMetric::ALL.into_iter().filter(|metric| metrics.contains(metric)).collect();
    let difference = args.difference.as_deref().unwrap_or(DIFFERENCE);
    let percent = options::quantity("difference", difference, Dimension::Share)?;
    if !(0.1..=50.0).contains(&percent) {
        return Err(TrialError::usage(format!("--difference {difference}: it must be 0.1% to 50%"))
            .next("write a share of the metric, for example --difference 2%"));
    }
    let unchanged = |words: &String| if words.is_empty() { "unchanged".to_owned() } else { words.clone() };
    let budget = args.budget.as_deref().unwrap_or(BUDGET);
    let spec = AbSpec {
        sides: [unchanged(words_a), unchanged(words_b)],
        plans: [text_a.clone(), text_b.clone()],
        metrics,
        difference: percent / 100.0,
        fail_if,
        budget_s: time_s("budget", budget, 0.0)?,
        turn_s: time_s("turn", args.turn.as_deref().unwrap_or(TURN), 0.2)?,
        warmup_s: time_s("warmup", args.drive.plan.get("warmup").unwrap_or(WARMUP), 0.0)?,
        seed: a.trials.first().map_or(0, |trial| trial.seed),
    };
    let pairs = (spec.budget_s / spec.pair_s()) as usize;
    if pairs < fewest_pairs(&spec) {
        let wanted = (fewest_pairs(&spec) as f64 * spec.pair_s() * 1.2).ceil();
        let what = format!(
            "--budget {budget} has room for {pairs} pairs of turns of {} s, and fewer than {} decide nothing",
            spec.turn_s + spec.warmup_s,
            fewest_pairs(&spec)
        );
        return Err(TrialError::usage(what).next(format!("give it --budget {wanted}s or more, or a shorter --turn")));
    }
    Ok(spec)
}

/// A condition on a change.
fn rule(text: &str) -> Result<AbRule, TrialError> {
    let wrong = |what: String| {
        TrialError::usage(what).next("write a number's name, > or <, and a change with its sign: 'p99 > +5%'")
    };
    let parsed = Rule::parse(text)
        .map_err(|error| wrong(format!("--fail-if `{text}` is not a condition")).detail(error.to_string()))?;
    let (name, above, percent) = parsed
        .on_change()
        .ok_or_else(|| wrong(format!("--fail-if `{text}` does not compare a change of the whole turn")))?;
    let metric = AbMetric::parse(name)
        .map_err(|help| wrong(format!("--fail-if `{text}`: there is no number `{name}`")).detail(help))?;
    Ok(AbRule { text: text.trim().to_owned(), metric, above, percent })
}

/// Joins the plans of both sides into a plan with two trials.
fn together(args: &AbArgs, a: Plan, b: &Plan, spec: &AbSpec) -> Result<Plan, TrialError> {
    for (letter, plan) in SIDES.into_iter().zip([&a, b]) {
        let what = match &plan.trials[..] {
            [trial] if trial.drives().count() == 1 => continue,
            [trial] => format!("side {letter} has {} `drive` phases, not one", trial.drives().count()),
            several => format!("side {letter} has {} trials: a side takes one point", several.len()),
        };
        return Err(TrialError::usage(what).next("give every key one value, and name one store for each side"));
    }
    let shared = [
        ("slice", a.slice_ns == b.slice_ns),
        ("samplers", a.samplers == b.samplers),
        ("timeouts", a.timeouts == b.timeouts),
        ("start", a.start == b.start),
        ("server_pin", a.server_pin == b.server_pin),
        ("dir", a.dir == b.dir),
    ];
    if let Some((key, _)) = shared.into_iter().find(|(_, same)| !same) {
        let what = format!("the two plans differ in `{key}`, which both sides share");
        return Err(TrialError::usage(what).next("give it the same value in both"));
    }
    let mut sides = [&a.trials[..], &b.trials[..]].concat();
    for (trial, letter) in sides.iter_mut().zip(SIDES) {
        // Labels give two servers of a kind separate directories.
        trial.store.label = letter.to_owned();
        trial.labels = [("store".to_owned(), letter.to_owned())].into();
    }
    if let [a, b] = &mut sides[..] {
        b.ordinal = 1;
        let same = a.store.kind == b.store.kind
            && (&a.store.url, &a.store.params) == (&b.store.url, &b.store.params)
            && (&a.workload, &a.phases, a.seed) == (&b.workload, &b.phases, b.seed);
        if same && !args.same {
            let next = "say what differs with --a and --b, for example --b durability=buffered; or with --same see what is \
                        called a difference where there is none";
            return Err(TrialError::usage("both sides are the same").next(next));
        }
    }
    let name = if a.name == b.name { a.name.clone() } else { format!("{} and {}", a.name, b.name) };
    Ok(Plan {
        title: format!("{name}: B ({}) against A ({})", spec.sides[1], spec.sides[0]),
        name,
        goals: Vec::new(),
        figures: Vec::new(),
        allow_writes: args.drive.plan.get("allow_writes").is_some() || (a.allow_writes && b.allow_writes),
        allow_fault: args.drive.plan.get("allow_fault").is_some() || (a.allow_fault && b.allow_fault),
        repeats: 1,
        line: None,
        trials: sides,
        ..a
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Verb};

    fn sides(options: &str) -> Result<[String; 2], String> {
        let words = ["plimsoll", "ab"].into_iter().chain(options.split_whitespace());
        let Verb::Ab(args) = Cli::try_parse_from(words).map_err(|error| error.to_string())?.verb else { panic!() };
        let catalogue = crate::catalogue::assemble();
        let text = |at| side(&catalogue, &args, at).map(|side| side.from.text).map_err(|error| error.to_string());
        Ok([text(0)?, text(1)?])
    }

    #[test]
    fn a_side_is_a_setting_an_option_of_the_drive_or_a_store() {
        let [a, b] = sides(
            "kv --on redis --mix read=1 --set records=10 --set redis.io_threads=2 --clients 8 \
             --a records=20 --a redis.io_threads=1 --b clients=16 --b durability=buffered",
        )
        .unwrap();
        assert!(a.contains("records = 20") && a.contains("io_threads = 1") && a.contains("clients = 8"), "{a}");
        assert!(b.contains("records = 10") && b.contains("io_threads = 2") && b.contains("clients = 16"), "{b}");
        assert!(b.contains("durability = \"buffered\"") && !a.contains("durability"), "{a}{b}");
        let [a, b] =
            sides("kv --mix read=1 --set redis.io_threads=2 --on redis --a redis --b postgres://me:secret@h/d?a=b")
                .unwrap();
        assert!(a.contains("{ store = \"redis\", io_threads = 2 }"), "{a}");
        assert!(b.contains("stores = [\"postgres://me@h/d?a=b\"]"), "{b}");
        let [a, b] = sides("kv --on redis --mix read=1 --a fault=kill").unwrap();
        assert!(a.contains("fault = [\"kill\"]") && !b.contains("fault ="), "{a}{b}");
    }

    #[test]
    fn a_condition_is_about_a_change_of_a_known_number() {
        for tail in ["p99.9 > +5%", " p999 > +5% "] {
            assert_eq!(rule(tail).unwrap().metric, AbMetric::P999);
        }
        assert_eq!(rule("p95 > +5%").unwrap().metric, AbMetric::P95);
        let below = rule("rate < -3%").unwrap();
        assert_eq!((below.above, below.percent, below.text.as_str()), (false, -3.0, "rate < -3%"));
        for (text, what) in [
            ("p99 > 20ms", "does not compare a change"),
            ("speed < -3%", "no number `speed`"),
            ("rate", "is not a condition"),
        ] {
            let error = rule(text).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
