//! Progress of a client through its scripts.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::{Answer, KindId, Outcome, Step, Steps, StoreError, StoreErrorKind, ValueBuf, Values};

use super::compiled::Compiled;
use super::plain::OperationNumber;
use super::program::{Command, Initial, Program, ScriptStatement};
use super::random::Xoroshiro;
use super::scalar::{Evaluated, EvaluationError};
use super::statement::{BlockEffect, StatementText, Take};
use super::variables::Variables;

/// Stands for the ROLLBACK among the statements that are to be answered.
const ROLLBACK: usize = usize::MAX;

/// Scripts of a client on a session.
pub(super) struct ScriptSteps {
    scripts: Arc<Compiled>,
    run: Run,
}

impl ScriptSteps {
    pub(super) fn new(scripts: Arc<Compiled>, client: u32, clients: u32) -> Self {
        let initial = &scripts.programs.initial;
        let variables = Variables::new(initial, client);
        let is_of_operation =
            |initial: &Initial| matches!(initial, Initial::Cycle | Initial::Sequence | Initial::Column(_));
        let of_operation = (0..initial.len()).filter(|slot| is_of_operation(&initial[*slot])).collect();
        let run = Run {
            place: OperationNumber { client, clients, cycle: 0 },
            of_operation,
            before: variables.clone(),
            variables,
            script: 0,
            tries: 0,
            pass: Pass::default(),
            held_params: ValueBuf::new(),
            new_params: ValueBuf::new(),
            text: String::new(),
            unanswered: VecDeque::with_capacity(16),
            in_block: false,
        };
        Self { scripts, run }
    }
}

struct Run {
    place: OperationNumber,
    /// The places of the variables that say which operation this is.
    of_operation: Vec<usize>,
    variables: Variables,
    /// The variables as they were when the operation began.
    before: Variables,
    script: usize,
    tries: u32,
    pass: Pass,
    held_params: ValueBuf,
    new_params: ValueBuf,
    text: String,
    unanswered: VecDeque<usize>,
    /// A transaction block is open.
    in_block: bool,
}

/// Pass through a script from its first command on.
#[derive(Default)]
struct Pass {
    /// The command that is next.
    at: usize,
    pipeline: bool,
    /// A statement of a pipeline that is to be sent: when it is known whether another follows.
    held: Option<usize>,
    /// No statement follows the held one before its answer.
    release: bool,
    /// The pipeline goes on without the answers to what is sent now.
    sync: bool,
    failed: Option<Failed>,
    /// A statement did not find its rows.
    missed: bool,
    /// Error in the script itself, and the index of its command.
    fault: Option<(EvaluationError, usize)>,
}

#[derive(Debug, Clone, Copy)]
struct Failed {
    outcome: Outcome,
    /// Another try may work.
    again: bool,
}

impl Steps for ScriptSteps {
    fn begin(&mut self, cycle: u64, kind: KindId, _params: Values<'_>) {
        let run = &mut self.run;
        run.script = usize::from(kind);
        run.tries = 1;
        run.in_block = false;
        run.unanswered.clear();
        run.variables.random = Xoroshiro::of_operation(self.scripts.seed, run.place.client, cycle);
        run.place.cycle = cycle;
        for slot in &run.of_operation {
            if let Some(value) = run.place.value(&self.scripts.programs.initial[*slot]) {
                run.variables.take(*slot, value);
            }
        }
        if self.scripts.tries_max > 1 {
            run.before.copy_from(&run.variables);
        }
        run.pass = Pass::default();
    }

    fn next(&mut self, params: &mut ValueBuf) -> Step {
        self.run.next(&self.scripts, params)
    }

    fn answered(&mut self, outcome: Outcome, answer: &Answer) {
        let Some(statement) = self.run.unanswered.pop_front() else { return };
        if statement == ROLLBACK {
            return;
        }
        let program = &self.scripts.programs.scripts[self.run.script];
        self.run.take_answer(program, statement, outcome, answer);
    }

    fn failure(&self, answer: &mut Answer) {
        if let Some((fault, _)) = self.run.pass.fault {
            answer.code.push_str(fault.code());
            // Writing to a string cannot fail.
            let _ = fault.write(&self.scripts.programs.names, &mut answer.message);
        }
    }

    fn mistake(&self) -> Option<StoreError> {
        let (fault, command) = self.run.pass.fault?;
        let mut what = format!("{}: ", self.scripts.programs.scripts[self.run.script].place(command));
        // Writing to a string cannot fail.
        let _ = fault.write(&self.scripts.programs.names, &mut what);
        Some(StoreError::new(StoreErrorKind::Usage, what).next("correct the script: as in pgbench, this ends the run"))
    }
}

impl Run {
    fn next(&mut self, scripts: &Compiled, params: &mut ValueBuf) -> Step {
        let program = &scripts.programs.scripts[self.script];
        loop {
            if let Some(held) = self.pass.held.filter(|_| self.pass.release) {
                self.pass.release = false;
                self.pass.held = None;
                params.extend(self.held_params.values());
                return self.send(held, &program.statements[held], self.pass.sync);
            }
            if std::mem::take(&mut self.pass.sync) {
                return Step::Sync;
            }
            if let Some(failed) = self.pass.failed {
                match self.after_failure(program, scripts.tries_max, failed) {
                    Some(step) => return step,
                    None => continue,
                }
            }
            let Some(command) = program.commands.get(self.pass.at) else {
                if self.pass.held.is_some() {
                    self.pass.release = true;
                } else if self.pass.pipeline {
                    self.fail(
                        EvaluationError::Pipeline("end of script reached with pipeline open"),
                        self.pass.at.saturating_sub(1),
                    );
                } else {
                    let outcome = if self.pass.missed { Outcome::NotFound } else { Outcome::Ok };
                    return Step::End { kind: self.kind(program), outcome };
                }
                continue;
            };
            let at = self.pass.at;
            self.pass.at += 1;
            let done = match command {
                Command::Sql(statement) => self.statement(&program.statements, *statement, params),
                other => self.control(other),
            };
            match done {
                Ok(Some(step)) => return step,
                Ok(None) => {}
                Err(fault) => self.fail(fault, at),
            }
        }
    }

    /// Executes a command that is not a statement.
    fn control(&mut self, command: &Command) -> Evaluated<Option<Step>> {
        match command {
            Command::Set(slot, value) => {
                let value = value.evaluate(&mut self.variables)?;
                self.variables.set(*slot, value);
            }
            Command::JumpUnless(condition, target) => {
                if !condition.evaluate(&mut self.variables)?.is_true() {
                    self.pass.at = *target;
                }
            }
            Command::Jump(target) => self.pass.at = *target,
            Command::Sleep(time, unit_ns) => {
                let time = time.evaluate(&mut self.variables)?.to_int()?;
                let time_ns = u64::try_from(time).ok().and_then(|time| time.checked_mul(*unit_ns));
                let time_ns = time_ns.ok_or(EvaluationError::Sleep(time))?;
                return Ok(Some(Step::Sleep(time_ns)).filter(|_| time_ns > 0));
            }
            Command::StartPipeline if self.pass.pipeline => {
                return Err(EvaluationError::Pipeline("already in pipeline mode"));
            }
            Command::StartPipeline => self.pass.pipeline = true,
            Command::SyncPipeline | Command::EndPipeline if !self.pass.pipeline => {
                return Err(EvaluationError::Pipeline("not in pipeline mode"));
            }
            Command::SyncPipeline => {
                self.pass.sync = true;
                self.pass.release = self.pass.held.is_some();
            }
            Command::EndPipeline => {
                self.pass.pipeline = false;
                self.pass.release = self.pass.held.is_some();
            }
            Command::Sql(_) => {}
        }
        Ok(None)
    }

    /// Sends a statement, or the one before it that waited for this one.
    fn statement(
        &mut self,
        statements: &[ScriptStatement],
        position: usize,
        params: &mut ValueBuf,
    ) -> Evaluated<Option<Step>> {
        let statement = &statements[position];
        let more_may_follow = self.pass.pipeline || statement.joined;
        let Some(held) = self.pass.held else {
            if !more_may_follow {
                write_params(&statement.text, &self.variables, &mut self.text, params)?;
                return Ok(Some(self.send(position, statement, false)));
            }
            self.check_pipelined(statement)?;
            self.held_params.clear();
            write_params(&statement.text, &self.variables, &mut self.text, &mut self.held_params)?;
            self.pass.held = Some(position);
            return Ok(None);
        };
        self.check_pipelined(statement)?;
        self.new_params.clear();
        write_params(&statement.text, &self.variables, &mut self.text, &mut self.new_params)?;
        params.extend(self.held_params.values());
        std::mem::swap(&mut self.held_params, &mut self.new_params);
        self.pass.held = Some(position);
        self.pass.release = !more_may_follow;
        Ok(Some(self.send(held, &statements[held], true)))
    }

    fn check_pipelined(&self, statement: &ScriptStatement) -> Evaluated<()> {
        if self.pass.pipeline && statement.take.is_some() {
            return Err(EvaluationError::Pipeline("\\gset and \\aset are not allowed in pipeline mode"));
        }
        Ok(())
    }

    fn send(&mut self, position: usize, statement: &ScriptStatement, more: bool) -> Step {
        self.unanswered.push_back(position);
        Step::Send { kind: statement.kind, more }
    }

    /// Ends the operation with an error of the script itself.
    #[cold]
    fn fail(&mut self, fault: EvaluationError, command: usize) {
        // What waits is sent, as its pipeline must end.
        self.pass.release = self.pass.held.is_some();
        if self.pass.failed.is_none() {
            self.pass.failed = Some(Failed { outcome: Outcome::Rejected, again: false });
            self.pass.fault = Some((fault, command));
        }
    }

    /// Rolls back, tries again (`None`) or ends.
    #[cold]
    fn after_failure(&mut self, program: &Program, tries_max: u32, failed: Failed) -> Option<Step> {
        if let Some(kind) = program.rollback.filter(|_| self.in_block) {
            self.in_block = false;
            self.unanswered.push_back(ROLLBACK);
            return Some(Step::Send { kind, more: false });
        }
        if failed.again && self.tries < tries_max {
            self.tries += 1;
            self.variables.copy_from(&self.before);
            self.pass = Pass::default();
            return None;
        }
        Some(Step::End { kind: self.kind(program), outcome: failed.outcome })
    }

    /// The kind that the operation is counted as.
    fn kind(&self, program: &Program) -> KindId {
        program.retried.filter(|_| self.tries > 1).unwrap_or(self.script as KindId)
    }

    fn take_answer(&mut self, program: &Program, position: usize, outcome: Outcome, answer: &Answer) {
        let statement = &program.statements[position];
        if outcome.is_error() {
            if self.pass.failed.is_none() {
                let again = outcome == Outcome::Rejected && answer.gave_way;
                self.pass.failed = Some(Failed { outcome, again });
            }
            self.in_block &= statement.block != BlockEffect::Ends;
            return;
        }
        self.pass.missed |= outcome == Outcome::NotFound;
        match statement.block {
            BlockEffect::Opens => self.in_block = true,
            BlockEffect::Closes | BlockEffect::Ends => self.in_block = false,
            BlockEffect::None => {}
        }
        if let Some(take) = &statement.take
            && let Err(fault) = self.take_values(take, answer)
        {
            self.fail(fault, program.command_of(position));
        }
    }

    fn take_values(&mut self, take: &Take, answer: &Answer) -> Evaluated<()> {
        if take.all && answer.rows == 0 {
            return Ok(());
        }
        if !take.all && answer.rows != 1 {
            return Err(EvaluationError::Rows(answer.rows));
        }
        if answer.columns != take.slots.len() {
            return Err(EvaluationError::Columns(take.slots.len(), answer.columns));
        }
        let values = answer.values.values();
        let first = values.len().saturating_sub(answer.columns);
        for (column, slot) in take.slots.iter().enumerate() {
            self.variables.take(*slot, values.get(first + column));
        }
        Ok(())
    }
}

/// Writes a statement's parameters: its variables, or its whole text.
fn write_params(
    text: &StatementText,
    variables: &Variables,
    scratch: &mut String,
    params: &mut ValueBuf,
) -> Evaluated<()> {
    use super::statement::Piece;
    match text {
        StatementText::Prepared(_, slots) | StatementText::Command(_, slots) | StatementText::Request(_, slots) => {
            slots.iter().try_for_each(|slot| variables.push(*slot, params))
        }
        StatementText::Pieces(pieces) => {
            scratch.clear();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => scratch.push_str(text),
                    Piece::Variable(slot) => variables.write(*slot, scratch)?,
                }
            }
            params.push(plimsoll_core::Value::Text(scratch));
            Ok(())
        }
    }
}
