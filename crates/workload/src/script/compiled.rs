//! Scripts with their operation kinds, and the stream of operations that they make.

use std::sync::Arc;

use plimsoll_core::{Call, KindId, OpKind, Script, Steps, Stream, StreamSpec, ValueBuf, ValueType};

use super::plain::Plain;
use super::program::{Command, Initial, Misread, Program, Programs, Reading, read};
use super::random::Random;
use super::statement::{BlockEffect, Text};
use super::steps::ScriptSteps;
use super::types::types;
use crate::scramble::hash;
use crate::shares::{Lot, shares};

const CHOICE_SALT: u64 = 0x5c21;
const DEFAULT_SEED_SALT: u64 = 0x5c22;

/// What scripts are compiled from.
pub(crate) struct Source<'a> {
    pub(crate) seed: u64,
    /// `:scale`
    pub(crate) scale: i64,
    /// Further variables with their texts.
    pub(crate) defines: Vec<(String, String)>,
    /// Most tries of an operation.
    pub(crate) tries_max: u32,
    /// Whether values are written into the statements' texts.
    pub(crate) as_text: bool,
    /// Whether SELECT, UPDATE and DELETE ask for rows that have to be there.
    pub(crate) finds_rows: bool,
    pub(crate) scripts: &'a [Script],
}

/// Scripts, and a kind for each of them and for each of their statements. A script's kind has the script's position.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(super) seed: u64,
    pub(super) tries_max: u32,
    pub(super) programs: Programs,
    pub(super) kinds: Vec<OpKind>,
    entries: Vec<Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    /// The script as one plain operation.
    plain: Option<Plain>,
    /// The kind of operations that took more than one try.
    retried: Option<KindId>,
    /// The kind of the ROLLBACK after an error.
    rollback: Option<KindId>,
}

impl Source<'_> {
    /// The variables that have a value before any script runs.
    pub(super) fn variables(&self) -> Vec<(String, Initial)> {
        use super::scalar::Scalar;
        let int = |value: i64| Initial::Value(Scalar::Int(value));
        let mut variables = vec![
            ("client_id".to_owned(), Initial::Client),
            ("default_seed".to_owned(), int(hash(self.seed, DEFAULT_SEED_SALT, 0) as i64)),
            ("random_seed".to_owned(), int(self.seed as i64)),
            ("scale".to_owned(), int(self.scale)),
        ];
        for (name, text) in &self.defines {
            // A number is kept as one if it would be written the same again.
            let value = Scalar::of_text(text).filter(|value| {
                let mut written = String::new();
                value.write(&mut written);
                written == *text
            });
            let value = value.map_or_else(|| Initial::Text(text.clone()), Initial::Value);
            variables.retain(|(known, _)| known != name);
            variables.push((name.clone(), value));
        }
        variables
    }
}

impl Compiled {
    /// Reads and compiles scripts.
    pub(crate) fn new(source: &Source<'_>) -> Result<Self, Misread> {
        let reading = Reading { variables: source.variables(), as_text: source.as_text, scripts: source.scripts };
        let mut programs = read(&reading)?;
        let types = types(&programs);
        let carried = carried(&programs);
        let mut entries: Vec<Entry> = Vec::new();
        let mut kinds = Vec::new();
        let kind = |name: &str, call: Call| OpKind::new(name, call, &[]);
        for program in &programs.scripts {
            let plain = match source.tries_max {
                1 => Plain::of(program, &programs.initial, &|slot| carried[slot]),
                _ => None,
            };
            let mut own = kind(&program.name, Call::Steps);
            if let (Some(_), Some(statement)) = (&plain, program.statements.first()) {
                (own.call, own.params) = call(&statement.text, &types, source.finds_rows);
            }
            kinds.push(own);
            entries.push(Entry { plain, ..Entry::default() });
        }
        for (position, program) in programs.scripts.iter_mut().enumerate() {
            let entry = &mut entries[position];
            if entry.plain.is_some() {
                continue;
            }
            let name = program.name.clone();
            let push = |kinds: &mut Vec<OpKind>, kind: OpKind| {
                kinds.push(kind);
                (kinds.len() - 1) as KindId
            };
            if source.tries_max > 1 {
                entry.retried = Some(push(&mut kinds, kind(&format!("{name} retried"), Call::Steps)));
            }
            let step = |step: &str, (call, params): (Call, Vec<ValueType>), keep_answer: bool| OpKind {
                call,
                params,
                keep_answer,
                step_of: Some(position as KindId),
                ..kind(&format!("{name}/{step}"), Call::Nothing)
            };
            for (number, statement) in program.statements.iter_mut().enumerate() {
                let title = format!("{} {}", number + 1, statement.head);
                let made = step(&title, call(&statement.text, &types, source.finds_rows), statement.take.is_some());
                statement.kind = push(&mut kinds, made);
            }
            if program.statements.iter().any(|statement| statement.block == BlockEffect::Opens) {
                let made = step("rollback", (Call::Sql("ROLLBACK".to_owned()), Vec::new()), false);
                entry.rollback = Some(push(&mut kinds, made));
            }
        }
        Ok(Self { seed: source.seed, tries_max: source.tries_max, programs, kinds, entries })
    }

    /// The kind that an operation of the script is counted as.
    pub(super) fn kind(&self, script: usize, tries: u32) -> KindId {
        match self.entries[script].retried {
            Some(retried) if tries > 1 => retried,
            _ => script as KindId,
        }
    }

    /// The kind of the script's ROLLBACK.
    pub(super) fn rollback(&self, script: usize) -> Option<KindId> {
        self.entries[script].rollback
    }

    /// Where the statement of `kind` stands: of a script that is one plain operation, its only one.
    pub(super) fn place(&self, kind: KindId) -> Option<String> {
        let of = |program: &Program, statement: usize| program.place(program.command_of(statement));
        if let Some(program) = self.programs.scripts.get(usize::from(kind)) {
            return Some(of(program, 0));
        }
        self.programs.scripts.iter().find_map(|program| {
            let statement = program.statements.iter().position(|statement| statement.kind == kind)?;
            Some(of(program, statement))
        })
    }

    /// All kinds of operation, by position.
    pub(crate) fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    /// The stream of a phase of the workload `workload`.
    pub(crate) fn stream(self: &Arc<Self>, workload: &str, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        let names: Vec<&str> = self.programs.scripts.iter().map(|script| script.name.as_str()).collect();
        let shares = shares(workload, &names, spec)?;
        let any_steps = shares.iter().any(|(script, _)| self.entries[usize::from(*script)].plain.is_none());
        let lot = Lot::new(self.seed ^ CHOICE_SALT, &shares);
        Ok(Box::new(ScriptStream { scripts: Arc::clone(self), lot, any_steps }))
    }
}

/// What a statement asks of a store, and its parameters' types.
fn call(text: &Text, types: &[Option<ValueType>], finds_rows: bool) -> (Call, Vec<ValueType>) {
    match text {
        Text::Prepared(text, slots) => {
            let of = |slot: &usize| types.get(*slot).copied().flatten().unwrap_or(ValueType::Text);
            let finds_rows = finds_rows && ["SELECT", "UPDATE", "DELETE"].iter().any(|word| text.starts_with(word));
            let call = if finds_rows { Call::SqlRow(text.clone()) } else { Call::Sql(text.clone()) };
            (call, slots.iter().map(of).collect())
        }
        Text::Pieces(_) => (Call::SqlText, vec![ValueType::Text]),
    }
}

/// Which variables a script may read before it has set them itself, while some script sets them: they carry values
/// from one operation to another.
fn carried(programs: &Programs) -> Vec<bool> {
    let mut carried = vec![false; programs.names.len()];
    let mut assigned = vec![false; programs.names.len()];
    for program in &programs.scripts {
        carried_by(program, &mut carried, &mut assigned);
    }
    carried.iter().zip(&assigned).map(|(carried, assigned)| *carried && *assigned).collect()
}

fn carried_by(program: &Program, carried: &mut [bool], assigned: &mut [bool]) {
    use super::expression::Expression;
    // Where ways part, nothing that is set counts as set: it may not have been.
    let mut set: Vec<usize> = Vec::new();
    let mut branched = false;
    for command in &program.commands {
        let read = |value: &Expression, set: &[usize], carried: &mut [bool]| {
            value.visit(&mut |part| {
                if let Expression::Variable(slot) = part {
                    carried[*slot] |= !set.contains(slot);
                }
            });
        };
        match command {
            Command::Set(slot, value) => {
                read(value, &set, carried);
                assigned[*slot] = true;
                if !branched {
                    set.push(*slot);
                }
            }
            Command::Sleep(value, _) => read(value, &set, carried),
            Command::JumpUnless(value, _) => {
                read(value, &set, carried);
                branched = true;
            }
            Command::Sql(statement) => {
                let Some(statement) = program.statements.get(*statement) else { continue };
                for slot in statement.text.slots() {
                    carried[slot] |= !set.contains(&slot);
                }
                for slot in statement.take.iter().flat_map(|take| &take.slots) {
                    assigned[*slot] = true;
                }
            }
            _ => {}
        }
    }
}

struct ScriptStream {
    scripts: Arc<Compiled>,
    lot: Lot,
    any_steps: bool,
}

impl Stream for ScriptStream {
    #[inline]
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let script = self.lot.draw(client, cycle)?;
        if let Some(plain) = &self.scripts.entries.get(usize::from(script))?.plain {
            plain.write(client, Random::of_operation(self.scripts.seed, client, cycle), params);
        }
        Some(script)
    }

    fn steps(&self, client: u32) -> Option<Box<dyn Steps>> {
        self.any_steps.then(|| Box::new(ScriptSteps::new(Arc::clone(&self.scripts), client)) as Box<dyn Steps>)
    }
}
