//! What the ledger takes of the throughput: the same drive with and without it, in turn and in an order drawn by lot, by `plimsoll ab`.
//!
//! Durabilities are those that leave the processor the limit: where each write waits for a disk, the ledger costs nothing that shows.

use std::error::Error;
use std::process::Command;

/// What is driven, the largest loss that is to be, and the options.
const CASES: [(&str, &str, &[&str]); 2] = [
    (
        "PostgreSQL, point writes",
        "3%",
        &[
            "--on",
            "postgres",
            "--clients",
            "8",
            "--durability",
            "as-configured",
            "--set",
            "postgres.settings=synchronous_commit=off",
            "--set",
            "records=100000",
        ],
    ),
    (
        "Redis, SET in pipelines of 16",
        "8%",
        &[
            "--on",
            "redis",
            "--clients",
            "32",
            "--depth",
            "16",
            "--durability",
            "buffered",
            "--set",
            "records=100000",
            "--set",
            "field_count=1",
        ],
    ),
];

/// Prints the report of each case; the argument is the time for each, `10min`.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let budget = arguments.first().map_or("10min", String::as_str);
    let root = crate::root();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "plimsoll"])
        .current_dir(&root)
        .status()?;
    if !built.success() {
        return Err("plimsoll could not be built".into());
    }
    for (name, target, options) in CASES {
        println!("{name}; target: a loss of at most {target}");
        let mut command = Command::new(root.join("target/release/plimsoll"));
        command
            .args(["ab", "kv", "--quiet", "--mix", "update=1", "--a", "ledger=off", "--b", "ledger=on"])
            .args(options);
        command.args(["--metric", "rate", "--metric", "cpu", "--difference", target, "--budget", budget]);
        // 11 is undecided within that time, which the report says.
        if !matches!(command.status()?.code(), Some(0 | 11)) {
            return Err(format!("{command:?} failed").into());
        }
    }
    Ok(())
}
