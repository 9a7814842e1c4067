//! Options of `cost`.

use std::path::PathBuf;

use clap::Args;

/// End of the help: examples.
pub const EXAMPLES: &str = "Examples:
  plimsoll cost --example > prices.toml     a file of prices to change
  plimsoll cost prices.toml";

/// Options of `cost`.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// File of sizes and prices.
    #[arg(value_name = "PRICES.toml", required_unless_present = "example")]
    pub prices: Option<PathBuf>,
    /// Print an example of such a file.
    #[arg(long, conflicts_with = "prices")]
    pub example: bool,
}
