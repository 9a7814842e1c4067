//! The outline of a plan: what of it analysis needs to know besides what was done.

use plimsoll_core::nearest::nearest;
use plimsoll_core::quantity;
use plimsoll_core::study::{Goal, RepeatsUntil};
use serde::{Deserialize, Serialize};

/// Outline of a plan's trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outline {
    /// Trials of the expanded plan. Rungs of a search and turns of a comparison are not among them.
    pub trials: u32,
    /// Condition that ends the repeats of a point; `None` if all trials are run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<RepeatsUntil>,
    /// The load line is searched for.
    pub line: Option<LineSpec>,
    /// Specification of two sides that are compared in turn.
    pub ab: Option<AbSpec>,
    /// The promises that are tried, where each is a cell for itself; else none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<Cell>,
    /// True if nothing was driven: the run watched logs or processes, under the load of other clients.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watched: bool,
}

/// A promise under test: a store with its settings, on a disk whose power is cut at one moment after another, until a
/// loss is seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Name in reports: `sqlite · durability=durable, survivors=torn`.
    pub name: String,
    /// The store and what of it was swept: `sqlite · durability=durable`.
    pub store: String,
    /// Fault of the disk: `ext4 · torn`.
    pub fault: String,
    /// The moments, each with the position of its trial: `flush 123`.
    pub cuts: Vec<(u32, String)>,
    /// The command that tries the same again, but for the moments.
    pub command: String,
}

impl Cell {
    /// Returns the command that tries the moments of `trials` again, each up to `tries` times.
    pub fn repeat(&self, trials: &[u32], tries: usize) -> String {
        let mut moments: Vec<&str> = Vec::new();
        for (_, moment) in self.cuts.iter().filter(|(trial, _)| trials.contains(trial)) {
            if !moments.contains(&moment.as_str()) {
                moments.push(moment);
            }
        }
        let tries = if tries > 1 { format!(" --tries {tries}") } else { String::new() };
        format!("{} --cut '{}'{tries}", self.command, moments.join(","))
    }

    /// Returns the number of times that each moment is tried.
    pub fn tries(&self) -> usize {
        let first = self.cuts.first().map(|(_, moment)| moment);
        self.cuts.iter().filter(|(_, moment)| Some(moment) == first).count().max(1)
    }
}

/// A search for the load line: what is searched for, and within which bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineSpec {
    /// Goals. A single rung decides percentiles of response time and `errors`, through faults also `outage`, `recovery`,
    /// `unknown`, `lost` and `stale`. The verdict decides the others.
    pub goals: Vec<Goal>,
    /// Rate to start from; `None` measures what a closed loop reaches.
    pub start_rate_per_s: Option<f64>,
    /// Lowest rate that is tried.
    pub rate_min_per_s: f64,
    /// Highest rate that is tried.
    pub rate_max_per_s: f64,
    /// Largest distance between the rate that is carried and the one that is not, as a share of the first.
    pub precision: f64,
    /// Time for everything.
    pub budget_s: f64,
    /// Warm-up of each rung, in seconds; `None` for one that depends on the rung's length.
    pub warmup_s: Option<f64>,
    /// A deciding rung lasts through a cycle of the store in any case: the budget grows as far as that needs.
    pub thorough: bool,
    /// Faults of each rung, without their times: `kill primary`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Shortest time that counts of a rung, in seconds: what its faults need.
    #[serde(default)]
    pub rung_min_s: f64,
}

impl Default for LineSpec {
    fn default() -> Self {
        LineSpec {
            goals: Vec::new(),
            start_rate_per_s: None,
            rate_min_per_s: 1.0,
            rate_max_per_s: 1e8,
            precision: 0.1,
            budget_s: 300.0,
            warmup_s: None,
            thorough: false,
            faults: Vec::new(),
            rung_min_s: 0.0,
        }
    }
}

plimsoll_core::words! {
    /// Purpose of a rung of a search.
    #[derive(Default)]
    pub enum Purpose {
        /// Finds the rate that a closed loop reaches.
        #[default]
        Start = "start",
        /// On the ladder.
        Climb = "climb",
        /// Past the first failure.
        Beyond = "beyond",
        /// In the middle of a rate that held and one that failed.
        Bisect = "bisect",
        /// Near the line, below or above it.
        Decide = "decide",
        /// At a rate that holds, through a cycle of the store's maintenance.
        Cycle = "cycle",
        /// At a share of a rate that holds, for what faults cost there.
        Share = "share",
    }
}

/// A comparison of two sides in turn: in what, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbSpec {
    /// Description of the sides, in the words of the command line.
    pub sides: [String; 2],
    /// The plan of each side, TOML.
    pub plans: [String; 2],
    /// Numbers that are to be decided; the rate of false alarms is shared among them.
    pub metrics: Vec<AbMetric>,
    /// Smallest difference that matters, as a share.
    pub difference: f64,
    /// Conditions under which the comparison fails.
    pub fail_if: Vec<AbRule>,
    /// Time for all turns, in seconds. What is loaded before them comes on top.
    pub budget_s: f64,
    /// Length of a turn, without its warm-up.
    pub turn_s: f64,
    /// Warm-up of a turn.
    pub warmup_s: f64,
    /// Seed of the lots.
    pub seed: u64,
}

impl AbSpec {
    /// Seconds that a pair takes at least.
    pub fn pair_s(&self) -> f64 {
        2.0 * (self.turn_s + self.warmup_s)
    }
}

plimsoll_core::words! {
    /// A number that two sides are compared in, as formulas and conditions name it. In the order of tables.
    pub enum AbMetric {
        /// Operations that did not fail, a second.
        Rate = "rate",
        /// Mean response time.
        Mean = "mean",
        /// Standard deviation of the rate.
        Stddev = "stddev",
        /// Median response time.
        P50 = "p50",
        /// 90th percentile.
        P90 = "p90",
        /// 95th percentile.
        P95 = "p95",
        /// 99th percentile.
        P99 = "p99",
        /// 99.9th percentile.
        P999 = "p999",
        /// Share of operations that failed or were never sent, in per cent.
        Errors = "errors",
        /// Processor time of the store for an operation, in seconds.
        Cpu = "cpu",
    }
}

impl AbMetric {
    /// The unit of its values.
    pub fn unit(self) -> &'static str {
        match self {
            AbMetric::Rate => "1/s",
            AbMetric::Errors => "%",
            _ => "s",
        }
    }

    /// Returns true if the metric is a percentile of response times.
    pub fn is_percentile(self) -> bool {
        matches!(self, AbMetric::P50 | AbMetric::P90 | AbMetric::P95 | AbMetric::P99 | AbMetric::P999)
    }

    /// Parses the name of a metric; `p99.9` is another spelling.
    ///
    /// # Errors
    /// What could have been meant.
    pub fn parse(name: &str) -> Result<AbMetric, String> {
        AbMetric::named(&quantity::plain(name)).ok_or_else(|| {
            let names = AbMetric::ALL.map(AbMetric::name);
            let meant = nearest(name, names).map_or(String::new(), |name| format!("did you mean `{name}`? "));
            format!("{meant}there are {}", names.join(", "))
        })
    }
}

/// A condition under which a comparison fails: a number's change above or below a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbRule {
    /// Condition as given.
    pub text: String,
    /// The number.
    pub metric: AbMetric,
    /// Met above the limit; otherwise below.
    pub above: bool,
    /// Change of B against A, in per cent.
    pub percent: f64,
}
