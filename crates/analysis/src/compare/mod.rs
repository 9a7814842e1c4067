//! Comparison of two runs: differences of configuration, then every number with its change, its interval and true if
//! the change is more than noise.
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

use indexmap::IndexSet;
use plimsoll_record::data::{Run, Trial};

use crate::phase::UNDISTURBED;
use crate::view::{Comparison, ConfigDifference, EndState, Group, Metric, MetricValue, NoiseFloor, RuleResult, Side};

/// Version of the comparison's JSON.
pub const FORMAT: u32 = 1;

impl NoiseFloor {
    /// Makes a noise floor that is the same for all numbers.
    pub fn flat(percent: f64) -> Self {
        NoiseFloor { throughput_percent: percent, p50_percent: percent, p99_percent: percent }
    }

    /// Reads the noise floor from a recording's environment: `throughput 1.8 %, p50 2.1 %, p99 9.0 %: …`.
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

    /// Returns the noise floor of the number `name`.
    fn percent(&self, name: &str) -> f64 {
        match name.strip_prefix(UNDISTURBED).unwrap_or(name) {
            "mean" | "p50" | "p90" | "p95" => self.p50_percent,
            "stddev" | "p99" | "p999" => self.p99_percent,
            // What equal runs take does not hang on how fast they are.
            "data_bytes" | "index_bytes" | "total_bytes" => 0.0,
            _ => self.throughput_percent,
        }
    }
}

/// Comparison of the parts that two runs share.
#[derive(Default)]
struct Matched<'a> {
    groups: Vec<Group>,
    /// Parts that only A has, compared with themselves.
    only_a: Vec<Group>,
    /// Parts of only one of them.
    unmatched: Vec<String>,
    /// Trials that belong together, first repeats.
    pairs: Vec<(&'a Trial, &'a Trial)>,
    /// Sentences on two searches, one for each store: the line of B is higher, lower, or neither is known.
    sentences: Vec<String>,
}

/// Compares `b` with `a`. Without `noise_floor` it is the larger of what the two recordings say, or 0.
pub fn compare(a: &Run, b: &Run, rules: &[rule::Rule], noise_floor: Option<NoiseFloor>) -> Comparison {
    let noise_floor = noise_floor.unwrap_or_else(|| NoiseFloor::of(a).larger(NoiseFloor::of(b)));
    let matched = lines::of(a, b, noise_floor).unwrap_or_else(|| measured::groups(a, b, noise_floor));
    let mut comparison = Comparison {
        format: FORMAT,
        a: side(a),
        b: side(b),
        noise_floor,
        differences: config::differences(a, b, &matched.pairs),
        groups: matched.groups,
        lines: matched.sentences,
        unmatched: matched.unmatched,
        rules: Vec::new(),
    };
    comparison.rules = rules.iter().map(|rule| rule.check(&comparison.groups, &matched.only_a, noise_floor)).collect();
    if !rules.is_empty() {
        comparison.rules.extend([("A", &comparison.a), ("B", &comparison.b)].into_iter().filter_map(ended_early));
    }
    comparison.rules.extend(comparison.groups.is_empty().then(nothing_compared));
    comparison
}

/// Returns an undecided condition for two runs without a common number.
fn nothing_compared() -> RuleResult {
    RuleResult {
        rule: "nothing is compared".to_string(),
        checked: 0,
        failures: Vec::new(),
        undecided: vec![
            "the runs have no number in common: name runs with the same stores, labels and phases, or with one trial \
             each; `plimsoll runs` lists the runs"
                .to_string(),
        ],
    }
}

/// Returns the differences between two trials of one run, and between their plans.
pub(crate) fn side_differences(run: &Run, a: &Trial, b: &Trial, plans: &[String; 2]) -> Vec<ConfigDifference> {
    let lines = config::plan_lines(&plans[0], &plans[1]);
    // A line may stand in several phases.
    let all: IndexSet<_> = lines.into_iter().chain(config::differences(run, run, &[(a, b)])).collect();
    all.into_iter().collect()
}

/// Returns a violated condition for a run that was not completed: its measurements are unknown.
fn ended_early((name, side): (&str, &Side)) -> Option<RuleResult> {
    (side.state != EndState::Complete).then(|| RuleResult {
        rule: format!("{name} is complete"),
        checked: 1,
        failures: vec![match side.state {
            EndState::Running => format!("run {} is still running: compare it when it has ended", side.id),
            state => {
                format!("run {} was {}: values that it did not measure cannot be judged", side.id, state.name())
            }
        }],
        undecided: Vec::new(),
    })
}

fn side(run: &Run) -> Side {
    let facts = crate::trial::run_facts(run, "", 0);
    Side { id: facts.id, title: facts.title, started: facts.started, state: facts.state }
}

/// Names of all numbers there are, for messages: `mixed.p99`.
pub fn names(comparison: &Comparison) -> Vec<String> {
    let name = |group: &Group, metric: &Metric| match group.phase.as_str() {
        "figures" => format!("\"{}\"", metric.name),
        phase => format!("{phase}.{}", metric.name),
    };
    let all = comparison.groups.iter().flat_map(|group| group.metrics.iter().map(move |metric| name(group, metric)));
    all.collect::<IndexSet<_>>().into_iter().collect()
}

/// Operation types that times can be restricted to, for messages. Empty if each phase has a single one.
pub fn operation_types(comparison: &Comparison) -> Vec<String> {
    let metrics = comparison.groups.iter().flat_map(|group| &group.metrics);
    let types = metrics.map(|metric| &metric.op).filter(|op| !op.is_empty() && *op != "all");
    types.cloned().collect::<IndexSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::NoiseFloor;

    #[test]
    fn a_percentile_has_the_same_noise_with_and_without_pauses() {
        let floor = NoiseFloor { throughput_percent: 1.0, p50_percent: 2.0, p99_percent: 3.0 };
        let of = |name: &str| (floor.percent(name), floor.percent(&format!("undisturbed_{name}")));
        assert_eq!(["p50", "p95", "p99", "p999"].map(of), [(2.0, 2.0), (2.0, 2.0), (3.0, 3.0), (3.0, 3.0)]);
        assert_eq!((floor.percent("rate"), floor.percent("data_bytes")), (1.0, 0.0));
    }
}
