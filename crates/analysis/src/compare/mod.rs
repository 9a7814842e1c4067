//! Two runs side by side: what was configured differently, then every number with its change, its interval and
//! whether it is more than noise.
//!
//! | module | what |
//! |---|---|
//! | `config` | what differs between the runs before anything was measured |
//! | `measured` | the numbers of matching trials, with the observations that tell how sure they are |
//! | `lines` | the load lines of two searches |
//! | `judge` | change, interval and significance of one number |
//! | [`rule`] | conditions under which a comparison fails |
//!
//! Trials are matched by store and labels; repeats of one point are taken together. A change is called significant
//! when its 95 % interval does not hold zero and it is larger than the machine's noise floor.

mod config;
mod judge;
mod lines;
mod measured;
pub mod rule;

use plimsoll_record::data::Run;
use serde::Serialize;

/// Version of the comparison's JSON.
pub const FORMAT: u32 = 1;

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`FORMAT`].
    pub format: u32,
    /// The run that is compared with.
    pub a: Side,
    /// The run that is compared.
    pub b: Side,
    /// Changes smaller than this are not called any.
    pub noise_floor: NoiseFloor,
    /// What differs in configuration, environment and version.
    pub differences: Vec<ConfigDifference>,
    /// The numbers, by trial and phase.
    pub groups: Vec<Group>,
    /// Of two searches: whether the load line of B is higher or lower, or that it cannot be told; a sentence for each store.
    pub lines: Vec<String>,
    /// Trials and phases of one run that the other does not have, and trials that were asked something else.
    pub unmatched: Vec<String>,
    /// What was asked not to happen.
    pub rules: Vec<RuleResult>,
}

/// By how much equal runs differ on this machine, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct NoiseFloor {
    /// Operations a second, and everything that is neither of the following.
    pub throughput_percent: f64,
    /// Median and 90th percentile.
    pub p50_percent: f64,
    /// 99th percentile and above.
    pub p99_percent: f64,
}

impl NoiseFloor {
    /// The same for everything.
    pub fn flat(percent: f64) -> Self {
        NoiseFloor { throughput_percent: percent, p50_percent: percent, p99_percent: percent }
    }

    /// What a recording's environment says of its machine: `throughput 1.8 %, p50 2.1 %, p99 9.0 %: …`.
    fn of(run: &Run) -> Self {
        let entry = run.header.environment.iter().find(|(name, _)| name == "noise floor");
        let after = |name: &str| {
            let rest = entry?.1.split_once(name)?.1;
            rest.split('%').next()?.trim().parse().ok()
        };
        NoiseFloor {
            throughput_percent: after("throughput").unwrap_or(0.0),
            p50_percent: after("p50").unwrap_or(0.0),
            p99_percent: after("p99").unwrap_or(0.0),
        }
    }

    fn larger(self, other: Self) -> Self {
        NoiseFloor {
            throughput_percent: self.throughput_percent.max(other.throughput_percent),
            p50_percent: self.p50_percent.max(other.p50_percent),
            p99_percent: self.p99_percent.max(other.p99_percent),
        }
    }

    /// For the number `name`.
    fn percent(&self, name: &str) -> f64 {
        match name {
            "p50" | "p90" | "p95" => self.p50_percent,
            "p99" | "p999" | "undisturbed_p99" | "undisturbed_p999" => self.p99_percent,
            // What equal runs take does not hang on how fast they are.
            "data_bytes" | "index_bytes" | "total_bytes" => 0.0,
            _ => self.throughput_percent,
        }
    }
}

/// One of the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The run's id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its start, as text.
    pub started: String,
    /// `complete`, `interrupted`, `failed` or `killed`.
    pub state: String,
}

/// Something that was not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigDifference {
    /// `plan`, `environment`, or the name of a trial.
    pub place: String,
    /// What.
    pub name: String,
    /// In A; empty where it was not there.
    pub a: String,
    /// In B.
    pub b: String,
}

/// The numbers of one phase (or of the trial as a whole).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Name of the trial, with both names where they differ.
    pub trial: String,
    /// Name of the phase; `space` for the footprint, `figures` for named figures.
    pub phase: String,
    /// Its numbers.
    pub metrics: Vec<Metric>,
}

/// A number in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    /// `rate`, `p99`, `errors`, `seconds` … or a figure's name.
    pub name: String,
    /// Kind of operation; `all` for all together, empty where it has none.
    pub op: String,
    /// Unit.
    pub unit: String,
    /// In A.
    pub a: Cell,
    /// In B.
    pub b: Cell,
    /// B against A in per cent; `None` where A is zero or one is missing.
    pub change_percent: Option<f64>,
    /// 95 % interval of the change; `None` where too little was observed for one.
    pub interval_percent: Option<(f64, f64)>,
    /// How the interval was made.
    pub method: &'static str,
    /// Whether the change is more than noise; `None` where nothing tells: of a number that was seen once, and where the
    /// interval holds zero and differences that matter to anybody.
    pub significant: Option<bool>,
    /// True where less is better.
    pub lower_is_better: bool,
}

/// A number of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// In the metric's unit.
    pub value: Option<f64>,
    /// As text, or why there is none.
    pub text: String,
    /// A late generator may have moved it.
    pub late: bool,
    /// Observations behind it.
    pub n: u64,
    /// Repeats of the trial behind it.
    pub repeats: u64,
}

/// What came of a condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleResult {
    /// As it was given.
    pub rule: String,
    /// Numbers that it is about.
    pub checked: u64,
    /// Sentences, one for each number that meets it.
    pub failures: Vec<String>,
    /// Sentences, one for each number of which it cannot be told whether it meets it.
    pub undecided: Vec<String>,
}

impl RuleResult {
    /// What came of it, in a word: `ok`, `failed` or `undecided`.
    pub fn word(&self) -> &'static str {
        match (self.failures.is_empty(), self.undecided.is_empty()) {
            (false, _) => "failed",
            (true, false) => "undecided",
            (true, true) => "ok",
        }
    }
}

impl Comparison {
    /// True when a condition was met under which it is to fail.
    pub fn failed(&self) -> bool {
        self.rules.iter().any(|rule| !rule.failures.is_empty())
    }

    /// True when it cannot be told whether a condition was met under which it is to fail.
    pub fn undecided(&self) -> bool {
        self.rules.iter().any(|rule| !rule.undecided.is_empty())
    }

    /// `~` for what is not significant, `better`, `worse`, `?` where nothing tells (seen once, with too wide an interval, or
    /// with a late generator), or `missing`.
    pub fn mark(metric: &Metric) -> &'static str {
        let (Some(a), Some(b)) = (metric.a.value, metric.b.value) else { return "missing" };
        if metric.a.late || metric.b.late {
            return "?";
        }
        match (metric.significant, metric.change_percent) {
            (significant, _) if a == b && significant != Some(true) && metric.interval_percent.is_none() => "~",
            (None, _) | (_, None) => "?",
            (Some(false), _) => "~",
            (Some(true), Some(change)) if (change < 0.0) == metric.lower_is_better => "better",
            (Some(true), _) => "worse",
        }
    }
}

/// Compares `b` with `a`. Without `noise_floor` it is the larger of what the two recordings say, or 0.
pub fn compare(a: &Run, b: &Run, rules: &[rule::Rule], noise_floor: Option<NoiseFloor>) -> Comparison {
    let noise_floor = noise_floor.unwrap_or_else(|| NoiseFloor::of(a).larger(NoiseFloor::of(b)));
    let (lines, groups, unmatched, pairs) = match lines::of(a, b, noise_floor) {
        Some(lines) => (lines.sentences, lines.groups, lines.unmatched, lines.pairs),
        None => {
            let (groups, unmatched, pairs) = measured::groups(a, b, noise_floor);
            (Vec::new(), groups, unmatched, pairs)
        }
    };
    let mut comparison = Comparison {
        format: FORMAT,
        a: side(a),
        b: side(b),
        noise_floor,
        differences: config::differences(a, b, &pairs),
        groups,
        lines,
        unmatched,
        rules: Vec::new(),
    };
    comparison.rules = rules.iter().map(|rule| rule.check(&comparison.groups, noise_floor)).collect();
    if !rules.is_empty() {
        comparison.rules.extend([("A", &comparison.a), ("B", &comparison.b)].into_iter().filter_map(ended_early));
    }
    comparison
}

/// What differs between two trials of one run, and between the plans that they are of.
pub(crate) fn side_differences(
    run: &Run,
    a: &plimsoll_record::data::Trial,
    b: &plimsoll_record::data::Trial,
    plans: &[String; 2],
) -> Vec<ConfigDifference> {
    let mut all = Vec::new();
    // A line may stand in several phases.
    for one in config::plan_lines(&plans[0], &plans[1]).into_iter().chain(config::differences(run, run, &[(a, b)])) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// A run that did not come to its end meets every condition: nobody has seen what it would have measured.
fn ended_early((name, side): (&str, &Side)) -> Option<RuleResult> {
    (side.state != "complete").then(|| RuleResult {
        rule: format!("{name} is complete"),
        checked: 1,
        failures: vec![format!("run {} was {}: what it did not measure cannot be judged", side.id, side.state)],
        undecided: Vec::new(),
    })
}

fn side(run: &Run) -> Side {
    let facts = crate::trial::run_facts(run, 0);
    Side { id: facts.id, title: facts.title, started: facts.started, state: facts.state }
}

/// Names of all numbers there are, for messages: `mixed.p99`.
pub fn names(comparison: &Comparison) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for group in &comparison.groups {
        for metric in &group.metrics {
            let name = match group.phase.as_str() {
                "figures" => format!("\"{}\"", metric.name),
                phase => format!("{phase}.{}", metric.name),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}
