//! Options that make a plan smaller.

use clap::Args;

/// Options that make a plan smaller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct SmallerArgs {
    /// Replace a value of the plan: a parameter of its workload (`records=1000`) or of a store (`sqlite.journal_mode=wal`), a
    /// key of a phase (`mixed.for=2s`; `for=2s` in all that have it), or of the plan (`repeats=1`); several may be given.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Replace the numbers of clients that the plan sweeps, or the one that it has.
    #[arg(long, short = 'c', value_name = "N,…")]
    pub clients: Option<String>,
    /// Replace the numbers of nodes that the plan sweeps, or the one that it has.
    #[arg(long, value_name = "N,…")]
    pub nodes: Option<String>,
    /// Run only on these stores of the plan, separated by commas.
    #[arg(long, value_name = "STORE,…", value_delimiter = ',', conflicts_with = "on")]
    pub stores: Vec<String>,
    /// Run a version that takes seconds, to see whether everything works: the ends of each sweep, short phases, few records. Its
    /// figures do not answer the plan's question.
    #[arg(long)]
    pub quick: bool,
}
