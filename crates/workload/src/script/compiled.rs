//! Scripts with their operation kinds, and the stream of operations that they make.

use std::sync::Arc;

use plimsoll_core::{Call, KindId, OpKind, Script, Steps, Stream, StreamSpec, ValueBuf, ValueType, WorkloadError};

use super::expression::Expression;
use super::language::Language;
use super::mistake::Mistake;
use super::plain::{OperationNumber, Plain};
use super::program::{Command, Initial, Misread, Program, Programs, read};
use super::random::Xoroshiro;
use super::statement::{BlockEffect, StatementText};
use super::steps::ScriptSteps;
use super::types::types;
use crate::scramble::hash;
use crate::shares::{Lot, shares};

const CHOICE_SALT: u64 = 0x5c21;
const DEFAULT_SEED_SALT: u64 = 0x5c22;

/// Input from which scripts are compiled.
pub(crate) struct Source<'a> {
    pub(crate) seed: u64,
    /// `:scale`
    pub(crate) scale: i64,
    /// Further variables with their texts.
    pub(crate) defines: Vec<(String, String)>,
    /// The columns of CSV files.
    pub(crate) columns: Vec<(String, Initial)>,
    /// Most tries of an operation.
    pub(crate) tries_max: u32,
    /// Language of the scripts' statements.
    pub(crate) language: Language,
    /// True if SELECT, UPDATE and DELETE name rows that must exist.
    pub(crate) finds_rows: bool,
    pub(crate) scripts: &'a [Script],
}

/// Scripts, and a kind for each of them and for each of their statements. A script's kind has the script's position.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(super) seed: u64,
    pub(super) tries_max: u32,
    pub(super) programs: Programs,
    /// All kinds of operation, by position.
    pub(crate) kinds: Vec<OpKind>,
}

impl Source<'_> {
    /// The variables that have a value before any script runs.
    pub(crate) fn variables(&self) -> Vec<(String, Initial)> {
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
        variables.retain(|(known, _)| !self.columns.iter().any(|(name, _)| name == known));
        variables.extend_from_slice(&self.columns);
        variables
    }
}

impl Compiled {
    /// Reads and compiles scripts.
    pub(crate) fn new(source: &Source<'_>) -> Result<Self, Misread> {
        let programs = read(&source.variables(), source.language, source.scripts)?;
        Ok(Self::of(programs, source))
    }

    /// Kinds for programs that have been read.
    pub(crate) fn of(mut programs: Programs, source: &Source<'_>) -> Self {
        forget_unread(&mut programs);
        let types = types(&programs);
        let carried = carried(&programs);
        let mut kinds = Vec::new();
        let kind = |name: &str, call: Call| OpKind::new(name, call, &[]);
        for program in &mut programs.scripts {
            let plain = Plain::of(program, &programs.initial, &|slot| carried[slot]);
            program.plain = plain.filter(|_| source.tries_max == 1);
            let mut own = kind(&program.name, Call::Steps);
            if let (Some(_), Some(statement)) = (&program.plain, program.statements.first()) {
                (own.call, own.params) = call(&statement.text, &types, source.finds_rows);
            }
            kinds.push(own);
        }
        for (position, program) in programs.scripts.iter_mut().enumerate() {
            if program.plain.is_some() {
                continue;
            }
            let name = program.name.clone();
            let push = |kinds: &mut Vec<OpKind>, kind: OpKind| {
                kinds.push(kind);
                (kinds.len() - 1) as KindId
            };
            if source.tries_max > 1 {
                program.retried = Some(push(&mut kinds, kind(&format!("{name} retried"), Call::Steps)));
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
                let (name, back) = source.language.roll_back();
                let made = step(name, (back, Vec::new()), false);
                program.rollback = Some(push(&mut kinds, made));
            }
        }
        Self { seed: source.seed, tries_max: source.tries_max, programs, kinds }
    }

    /// Compiles scripts once for all clients of a workload.
    pub(crate) fn shared(source: &Source<'_>) -> Result<Arc<Self>, WorkloadError> {
        Self::new(source).map(Arc::new).map_err(|(script, Mistake { range, what, help })| WorkloadError {
            what,
            place: Some((script, range)),
            help,
        })
    }

    /// Returns the position of the statement of `kind`: of a script that is one plain operation, its only statement.
    pub(crate) fn place(&self, kind: KindId) -> Option<String> {
        let of = |program: &Program, statement: usize| program.place(program.command_of(statement));
        if let Some(program) = self.programs.scripts.get(usize::from(kind)) {
            return Some(of(program, 0));
        }
        self.programs.scripts.iter().find_map(|program| {
            let statement = program.statements.iter().position(|statement| statement.kind == kind)?;
            Some(of(program, statement))
        })
    }

    /// The stream of a phase of the workload `workload`.
    pub(crate) fn stream(self: &Arc<Self>, workload: &str, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        let names: Vec<&str> = self.programs.scripts.iter().map(|script| script.name.as_str()).collect();
        let shares = shares(workload, &names, spec)?;
        let any_steps = shares.iter().any(|(script, _)| self.programs.scripts[usize::from(*script)].plain.is_none());
        let lot = Lot::new(self.seed ^ CHOICE_SALT, &shares);
        Ok(Box::new(ScriptStream { scripts: Arc::clone(self), lot, any_steps, clients: spec.clients() }))
    }
}

/// Returns the call that a statement makes of a store, and its parameters' types.
fn call(text: &StatementText, types: &[Option<ValueType>], finds_rows: bool) -> (Call, Vec<ValueType>) {
    let of = |slot: &usize| types.get(*slot).copied().flatten().unwrap_or(ValueType::Text);
    match text {
        StatementText::Prepared(text, slots) => {
            let finds_rows = finds_rows && ["SELECT", "UPDATE", "DELETE"].iter().any(|word| text.starts_with(word));
            let call = if finds_rows { Call::SqlRow(text.clone()) } else { Call::Sql(text.clone()) };
            (call, slots.iter().map(of).collect())
        }
        StatementText::Command(words, slots) => (Call::Command(words.clone()), slots.iter().map(of).collect()),
        StatementText::Pieces(_) => (Call::SqlText, vec![ValueType::Text]),
        StatementText::Request(call, slots) => {
            let of = |slot: &usize| types.get(*slot).copied().flatten().unwrap_or(ValueType::Text);
            (Call::Http((**call).clone()), slots.iter().map(of).collect())
        }
    }
}

/// Calls `read` for each variable that a command of `program` reads.
fn reads(program: &Program, command: &Command, read: &mut impl FnMut(usize)) {
    match command {
        Command::Set(_, value) | Command::Sleep(value, _) | Command::JumpUnless(value, _) => {
            value.visit(&mut |part| {
                if let Expression::Variable(slot) = part {
                    read(*slot);
                }
            });
        }
        Command::Sql(statement) => program.statements[*statement].text.slots().into_iter().for_each(read),
        _ => {}
    }
}

/// Drops the columns that nothing reads: a step by step operation sets the others when it begins.
fn forget_unread(programs: &mut Programs) {
    let mut is_read = vec![false; programs.names.len()];
    for program in &programs.scripts {
        program.commands.iter().for_each(|command| reads(program, command, &mut |slot| is_read[slot] = true));
    }
    for (initial, is_read) in programs.initial.iter_mut().zip(is_read) {
        if !is_read && matches!(initial, Initial::Column(_)) {
            *initial = Initial::Unset;
        }
    }
}

/// Returns true for each variable that a script may read before setting it, while some script sets it: it carries
/// values from one operation to another.
fn carried(programs: &Programs) -> Vec<bool> {
    let mut carried = vec![false; programs.names.len()];
    for program in &programs.scripts {
        // Where ways part, nothing that is set counts as set: it may not have been.
        let (mut set, mut branched) = (Vec::new(), false);
        for command in &program.commands {
            reads(program, command, &mut |slot| carried[slot] |= programs.assigned[slot] && !set.contains(&slot));
            match command {
                Command::Set(slot, _) if !branched => set.push(*slot),
                Command::JumpUnless(..) => branched = true,
                _ => {}
            }
        }
    }
    carried
}

struct ScriptStream {
    scripts: Arc<Compiled>,
    lot: Lot,
    any_steps: bool,
    clients: u32,
}

impl Stream for ScriptStream {
    #[inline]
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let script = self.lot.draw(client, cycle)?;
        if let Some(plain) = &self.scripts.programs.scripts.get(usize::from(script))?.plain {
            let place = OperationNumber { client, clients: self.clients, cycle };
            plain.write(place, Xoroshiro::of_operation(self.scripts.seed, client, cycle), params);
        }
        Some(script)
    }

    fn steps(&self, client: u32) -> Option<Box<dyn Steps>> {
        self.any_steps
            .then(|| Box::new(ScriptSteps::new(Arc::clone(&self.scripts), client, self.clients)) as Box<dyn Steps>)
    }
}
