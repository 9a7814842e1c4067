//! The user's own scripts, in the language of pgbench.
//!
//! Each script is a kind of operation with a share of its own. Its statements are steps, each timed as a kind of its
//! own; a script that is one statement and needs nothing of an answer is one plain operation. `docs/src/scripts.md`
//! describes the language, what is the same as in pgbench and what differs.
//!
//! | module | what |
//! |---|---|
//! | `scan` | a script's text, cut into statements and meta commands |
//! | `parse`, `expression`, `scalar` | expressions: read, worked out, and their values |
//! | `random` | pgbench's random numbers, hashes and permutation |
//! | `names` | the columns of a statement's answer, for `\gset` |
//! | `statement` | where parameters may stand, and what opens a transaction |
//! | `symbols`, `variables` | variables: their places, and their values while scripts run |
//! | `program`, `types` | a script as commands with jumps |
//! | `compiled` | scripts with their operation kinds, and the stream |
//! | `plain`, `steps` | how a script runs: as one operation, or step by step |

mod compiled;
mod expression;
mod mistake;
mod names;
mod parse;
mod plain;
mod program;
mod random;
mod scalar;
mod scan;
mod statement;
mod steps;
mod symbols;
#[cfg(test)]
mod tests;
mod types;
mod variables;

use std::sync::Arc;

use plimsoll_core::{
    Interface, KindId, Layout, OpKind, ParamSpec, Params, Script, Statement, Stream, StreamSpec, Workload,
    WorkloadError, WorkloadSpec,
};

pub(crate) use compiled::{Compiled, Source};
pub(crate) use random::{Random, hash_fnv1a};

/// The parameter that bounds the tries of an operation.
pub(crate) const MAX_TRIES: ParamSpec = ParamSpec::int(
    "max_tries",
    1..=1_000,
    "1",
    "tries of an operation that gives way to another (deadlock, serialization failure)",
);

const PARAMS: &[ParamSpec] = &[
    ParamSpec::int("scale", 1..=1_000_000, "1", "value of :scale"),
    ParamSpec::text("define", "", "further variables: \"name=value, name=value\""),
    ParamSpec::text("setup", "", "statements that make and fill the tables, with variables written in"),
    ParamSpec::one_of(
        "substitute",
        &["parameters", "text"],
        "how values get into statements: as parameters where they may stand, or always as text",
    ),
    MAX_TRIES,
];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "script",
        summary: "your own scripts, in pgbench's language",
        interfaces: &[Interface::Sql],
        dialects: &[],
        takes_scripts: true,
        kinds: &[],
        params: PARAMS,
        make: |seed, params, scripts| Ok(Box::new(Scripts::new(seed, params, scripts)?)),
    }
}

struct Scripts {
    layout: Layout,
    compiled: Arc<Compiled>,
}

impl Scripts {
    fn new(seed: u64, params: &Params, scripts: &[Script]) -> Result<Self, WorkloadError> {
        if scripts.is_empty() {
            return Err(WorkloadError::new("the workload `script` has no script", "give it one or more"));
        }
        for (position, script) in scripts.iter().enumerate() {
            if scripts[..position].iter().any(|other| other.name == script.name) {
                return Err(WorkloadError::new(
                    format!("two scripts have the name `{}`", script.name),
                    "rename one of them",
                ));
            }
        }
        let source = Source {
            seed,
            scale: params.int("scale").max(1),
            defines: defines(params.text("define"))?,
            tries_max: params.int("max_tries").clamp(1, 1_000) as u32,
            as_text: params.text("substitute") == "text",
            // Only their author knows what they are to find.
            finds_rows: false,
            scripts,
        };
        let compiled = Compiled::new(&source).map_err(|(script, mistake)| WorkloadError {
            what: mistake.what,
            place: Some((script, mistake.range)),
            help: mistake.help,
        })?;
        let statements = setup(params.text("setup"), &source)?;
        Ok(Self { layout: Layout { statements, ..Layout::default() }, compiled: Arc::new(compiled) })
    }
}

/// The variables of `name=value, name=value`; a semicolon or a line's end does as well as a comma.
fn defines(text: &str) -> Result<Vec<(String, String)>, WorkloadError> {
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
fn setup(text: &str, source: &Source<'_>) -> Result<Vec<Statement>, WorkloadError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let script = Script { name: "setup".to_owned(), weight: 1, text: text.to_owned(), file: None };
    let scripts = std::slice::from_ref(&script);
    let reading = program::Reading { variables: source.variables(), as_text: true, scripts };
    let place = |range: &std::ops::Range<usize>| {
        let before = text.get(..range.start).unwrap_or("");
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("line {}, column {column} of `setup`", before.matches('\n').count() + 1)
    };
    let read = program::read(&reading).map_err(|(_, mistake)| WorkloadError {
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
                statement::Text::Prepared(text, slots) if slots.is_empty() && sql.take.is_none() => {
                    statements.push(Statement::any(text));
                }
                _ => return Err(refuse("uses :client_id or the answer of a statement")),
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
        self.compiled.kinds()
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        self.compiled.stream("script", spec)
    }

    fn place(&self, kind: KindId) -> Option<String> {
        self.compiled.place(kind)
    }
}
