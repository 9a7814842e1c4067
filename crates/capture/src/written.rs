//! The workload as a plan, and its values as CSV files.

use std::fmt::Write as _;

use plimsoll_core::{Dialect, StoreError, StoreErrorKind};

use crate::Captured;
use crate::draw::Drawn;

/// The share of the statement that was asked most, where it was asked more often.
const WEIGHT_MAX: u64 = 1_000_000;

/// A plan, and the files that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// TOML.
    pub plan: String,
    /// Names of CSV files as the plan has them, and their texts.
    pub files: Vec<(String, String)>,
}

/// Writes the workload down. `store` is what the plan runs on, without a password; CSV files stand in `folder`, which is named
/// relative to the plan.
///
/// # Errors
/// `Broken`, where a text cannot be written as CSV.
pub fn write(captured: &Captured, store: &str, folder: &str) -> Result<Written, StoreError> {
    let mut plan = String::new();
    let (kept, calls) = (captured.calls_kept(), captured.calls);
    let share = 100.0 * kept as f64 / calls.max(1) as f64;
    let mut line = |text: String| {
        // Writing to a text cannot fail.
        let _ = writeln!(plan, "{text}");
    };
    line("# Written by `plimsoll capture`.".to_owned());
    line(format!(
        "# {} statements with {kept} of {calls} calls ({share:.1} %), counted by {}.",
        captured.statements(),
        captured.counted_by
    ));
    if let Some(seconds) = captured.seconds.filter(|seconds| *seconds >= 1.0) {
        line(format!("# They came at {:.3} a second on average: the rate to begin with.", kept as f64 / seconds));
    }
    line(format!("stores = [{}]\nstart = \"as-is\"\n\n[workload]\nname = \"script\"", basic(store)));
    let most = captured.kept.iter().map(|kept| kept.calls).max().unwrap_or(1);
    let mut files = Vec::new();
    for one in &captured.kept {
        let Drawn { statement, rows, is_text, guessed } = &one.drawn;
        let weight = (u128::from(one.calls) * u128::from(WEIGHT_MAX.min(most)) / u128::from(most.max(1))).max(1);
        if !rows.is_empty() {
            let file = format!("{folder}/{}.csv", one.name);
            line(format!("\n[[workload.csv]]\nfile = {}\nprefix = {}", basic(&file), basic(&format!("{}_", one.name))));
            files.push((file, csv(rows)?));
        }
        line(format!("\n# {} calls", one.calls));
        if let Some(guessed) = guessed {
            line(format!("# {guessed} is a guess: the statistics do not show that value."));
        }
        // A text column compared with a number finds no index there, so what looks like one is made a text.
        let is_made_text = |at: usize| {
            let is_int = |row: &Vec<String>| row.get(at).is_some_and(|value| value.parse::<i64>().is_ok());
            captured.dialect == Dialect::Mysql && is_text.get(at) == Some(&true) && rows.iter().all(is_int)
        };
        let text = statement.with(|number| {
            let variable = format!(":{}_p{}", one.name, number + 1);
            if is_made_text(number) { format!("CONCAT({variable})") } else { variable }
        });
        line(format!(
            "[[workload.script]]\nname = {}\nweight = {weight}\ntext = {}",
            basic(&one.name),
            multiline(&text)
        ));
    }
    line("\n[[phase]]\ndo = \"drive\"\nclients = 8\nfor = \"60s\"".to_owned());
    Ok(Written { plan, files })
}

/// A text as TOML has it.
fn basic(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push('\t'),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(control))),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// A statement as TOML has it: as it is, where that can be.
fn multiline(text: &str) -> String {
    let is_plain = |letter: char| matches!(letter, '\n' | '\t') || !letter.is_control();
    match text.contains("'''") || text.ends_with('\'') || !text.chars().all(is_plain) {
        true => basic(&format!("{text};")),
        false => format!("'''\n{text};\n'''"),
    }
}

fn csv(rows: &[Vec<String>]) -> Result<String, StoreError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let broken = |error: &dyn std::fmt::Display| {
        StoreError::new(StoreErrorKind::Broken, format!("values cannot be written as CSV: {error}"))
    };
    let width = rows.first().map_or(0, Vec::len);
    writer.write_record((1..=width).map(|number| format!("p{number}"))).map_err(|error| broken(&error))?;
    for row in rows {
        writer.write_record(row).map_err(|error| broken(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| broken(&error))?;
    String::from_utf8(bytes).map_err(|error| broken(&error))
}
