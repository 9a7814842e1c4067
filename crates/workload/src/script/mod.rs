//! The user's own scripts, in the language of pgbench.
//!
//! Each script is a kind of operation with a share of its own. Its statements are steps, each timed as a kind of its
//! own; a script that is one statement and needs nothing of an answer is one plain operation. `docs/src/scripts.md`
//! describes the language, what is the same as in pgbench and what differs.
//!
//! | module | what |
//! |---|---|
//! | `language` | what statements are: SQL, or commands of a line each |
//! | `scan` | a script's text, cut into statements and meta commands |
//! | `parse`, `expression`, `scalar` | expressions: read, worked out, and their values |
//! | `random` | pgbench's random numbers, hashes and permutation |
//! | `names` | the columns of a statement's answer, for `\gset` |
//! | `statement` | where parameters may stand, and what opens a transaction |
//! | `symbols`, `variables` | variables: their places, and their values while scripts run |
//! | `program`, `types` | a script as commands with jumps |
//! | `csv_file` | variables that are columns of CSV files |
//! | `compiled` | scripts with their operation kinds, and the stream |
//! | `plain`, `steps` | how a script runs: as one operation, or step by step |

mod compiled;
mod csv_file;
pub(crate) mod expression;
pub(crate) mod language;
pub(crate) mod mistake;
mod names;
pub(crate) mod parse;
mod plain;
pub(crate) mod program;
mod random;
pub(crate) mod scalar;
mod scan;
pub(crate) mod statement;
mod steps;
pub(crate) mod symbols;
#[cfg(test)]
mod tests;
mod types;
mod variables;

use std::sync::Arc;

use plimsoll_core::{
    Interface, KindId, Layout, LayoutStatement, OpKind, ParamSpec, Params, Script, Stream, StreamSpec, Workload,
    WorkloadError, WorkloadSpec, command,
};

pub(crate) use compiled::{Compiled, Source};
pub(crate) use csv_file::columns;
pub(crate) use language::Language;
pub(crate) use random::{Xoroshiro, hash_fnv1a};

/// The parameter that bounds the tries of an operation.
pub(crate) const MAX_TRIES: ParamSpec = ParamSpec::int(
    "max_tries",
    1..=1_000,
    "1",
    "tries of an operation that gives way to another (deadlock, serialization failure)",
);

const SCALE: ParamSpec = ParamSpec::int("scale", 1..=1_000_000, "1", "value of :scale");
const DEFINE: ParamSpec = ParamSpec::text("define", "", "further variables: \"name=value, name=value\"");

const PARAMS: &[ParamSpec] = &[
    SCALE,
    DEFINE,
    ParamSpec::text("setup", "", "statements that make and fill the tables, with variables written in"),
    ParamSpec::one_of(
        "substitute",
        &["parameters", "text"],
        "how values get into statements: as parameters where they may stand, or always as text",
    ),
    MAX_TRIES,
];

const COMMANDS_PARAMS: &[ParamSpec] = &[
    SCALE,
    DEFINE,
    ParamSpec::text("setup", "", "commands that run once before, with variables written in"),
    MAX_TRIES,
];

/// Returns the specification for scripts whose statements are commands.
pub fn commands_spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "commands",
        summary: "your own commands (hashes, lists, streams …), with pgbench's variables",
        interfaces: &[Interface::Commands],
        params: COMMANDS_PARAMS,
        make: |seed, params, scripts| Ok(Box::new(Scripts::new(Language::Commands, seed, params, scripts)?)),
        ..spec()
    }
}

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "script",
        summary: "your own scripts, in pgbench's language",
        interfaces: &[Interface::Sql],
        dialects: &[],
        kinds: &[],
        params: PARAMS,
        presets: &[],
        make: |seed, params, scripts| {
            let language = if params.text("substitute") == "text" { Language::SqlText } else { Language::Sql };
            Ok(Box::new(Scripts::new(language, seed, params, scripts)?))
        },
    }
}

/// A workload of scripts or requests of the user.
pub(crate) struct Scripts {
    pub(crate) name: &'static str,
    pub(crate) layout: Layout,
    pub(crate) compiled: Arc<Compiled>,
}

impl Scripts {
    fn new(language: Language, seed: u64, params: &Params, scripts: &[Script]) -> Result<Self, WorkloadError> {
        let name = if language == Language::Commands { "commands" } else { "script" };
        if scripts.is_empty() {
            return Err(WorkloadError::new(format!("the workload `{name}` has no script"), "give it one or more"));
        }
        let source = Source {
            seed,
            scale: params.int("scale").max(1),
            defines: defines(params.text("define"))?,
            columns: columns(seed, scripts)?,
            tries_max: params.int("max_tries").clamp(1, 1_000) as u32,
            language,
            // Only their author knows what they are to find.
            finds_rows: false,
            scripts,
        };
        let compiled = Compiled::shared(&source)?;
        let statements = setup(params.text("setup"), &source)?;
        let layout = Layout { statements, names_keys: language == Language::Commands, ..Layout::default() };
        Ok(Self { name, layout, compiled })
    }
}

/// The variables of `name=value, name=value`; a semicolon or a line's end does as well as a comma.
pub(crate) fn defines(text: &str) -> Result<Vec<(String, String)>, WorkloadError> {
    let mut defines = Vec::new();
    // A semicolon does on a command line, where a comma makes a list of values to try.
    for part in text.split([',', ';', '\n']).map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some((name, value)) if symbols::is_name(name) => defines.push((name.to_owned(), value.to_owned())),
            _ => {
                let help = "define = \"name=value, name=value\"; a name is letters, digits and `_`";
                return Err(WorkloadError::new(format!("`{part}` defines no variable"), help));
            }
        }
    }
    Ok(defines)
}

/// The statements of `setup`, with the values of the variables that are known from the start.
fn setup(text: &str, source: &Source<'_>) -> Result<Vec<LayoutStatement>, WorkloadError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let script = Script { name: "setup".to_owned(), weight: 1, text: text.to_owned(), ..Script::default() };
    let place = |range: &std::ops::Range<usize>| {
        let before = text.get(..range.start).unwrap_or("");
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("line {}, column {column} of `setup`", before.matches('\n').count() + 1)
    };
    let language = if source.language == Language::Sql { Language::SqlText } else { source.language };
    let read = program::read(&source.variables(), language, &[script]).map_err(|(_, mistake)| WorkloadError {
        what: format!("{}: {}", place(&mistake.range), mistake.what),
        place: None,
        help: mistake.help,
    })?;
    let refuse = |what: &str| {
        let help = "it runs once, before any client is there: give it statements only";
        WorkloadError::new(format!("`setup` {what}"), help)
    };
    let mut statements = Vec::new();
    for program in read.scripts {
        if program.commands.iter().any(|command| !matches!(command, program::Command::Sql(_))) {
            return Err(refuse("has a meta command"));
        }
        for sql in program.statements {
            match sql.text {
                statement::StatementText::Prepared(text, slots) if slots.is_empty() && sql.take.is_none() => {
                    statements.push(LayoutStatement::any(text));
                }
                statement::StatementText::Command(words, slots) if slots.is_empty() && sql.take.is_none() => {
                    statements.push(LayoutStatement::any(command::line(&words)));
                }
                _ => return Err(refuse("uses :client_id, a column of a CSV file or the answer of a statement")),
            }
        }
    }
    Ok(statements)
}

impl Workload for Scripts {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn kinds(&self) -> &[OpKind] {
        &self.compiled.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        self.compiled.stream(self.name, spec)
    }

    fn place(&self, kind: KindId) -> Option<String> {
        self.compiled.place(kind)
    }
}
