//! Scripts as programs: every variable in its place, every statement an operation kind, branches as jumps.

use std::ops::Range;

use plimsoll_core::nearest::nearest;
use plimsoll_core::{KindId, Script};

use super::csv_file::Column;
use super::expression::Expression;
use super::language::Language;
use super::mistake::{Mistake, mistake};
use super::parse::expression;
use super::plain::Plain;
use super::scalar::Scalar;
use super::scan::{Raw, RawMeta, RawSql, words};
use super::statement::{BlockEffect, StatementText, Take};
use super::symbols::{Symbols, is_name};

/// Most parameters of a statement, as in pgbench.
const PARAMETERS_MAX: usize = 255;

/// All scripts of a workload.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) scripts: Vec<Program>,
    /// Names of the variables, by place.
    pub(crate) names: Vec<String>,
    /// True for each variable that a script assigns, by index.
    pub(crate) assigned: Vec<bool>,
    /// Initial values of the variables before the first script, by index.
    pub(crate) initial: Vec<Initial>,
}

/// Value of a variable before any script has set it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Initial {
    /// No value: reading it is an error.
    Unset,
    Value(Scalar),
    /// Text that is not a value in canonical form.
    Text(String),
    /// The client's number.
    Client,
    /// The number of the client's operation.
    Cycle,
    /// A number that no other operation of the phase has.
    Sequence,
    /// The value of a CSV file's column in the operation's row.
    Column(Column),
}

/// A script.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) commands: Vec<Command>,
    pub(crate) statements: Vec<ScriptStatement>,
    /// Plain operation equivalent to the script, if there is one; set later, with its operation types.
    pub(super) plain: Option<Plain>,
    /// The kind of operations that took more than one try.
    pub(super) retried: Option<KindId>,
    /// The kind of the ROLLBACK after an error.
    pub(super) rollback: Option<KindId>,
    /// The line of each command, from 1.
    lines: Vec<u32>,
    /// File of the script, or its name.
    from: String,
}

impl Program {
    /// Makes a program that sends `statements`, the first command of each being of the step of that number.
    pub(crate) fn of_requests(name: &str, commands: Vec<(Command, u32)>, statements: Vec<ScriptStatement>) -> Self {
        let (commands, lines) = commands.into_iter().unzip();
        let (name, from) = (name.to_owned(), name.to_owned());
        Program { name, commands, statements, plain: None, retried: None, rollback: None, lines, from }
    }

    /// Returns the position of the command: `transfer.sql:3`.
    pub(crate) fn place(&self, command: usize) -> String {
        format!("{}:{}", self.from, self.lines.get(command).copied().unwrap_or(1))
    }

    /// The command that sends the statement at this position.
    pub(crate) fn command_of(&self, statement: usize) -> usize {
        self.commands.iter().position(|command| *command == Command::Sql(statement)).unwrap_or(0)
    }
}

/// Next action of a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    /// `\set`
    Set(usize, Expression),
    /// The statement at this position.
    Sql(usize),
    /// `\sleep` for the expression's value times so many nanoseconds.
    Sleep(Expression, u64),
    /// Goes on at the position unless the condition holds.
    JumpUnless(Expression, usize),
    Jump(usize),
    StartPipeline,
    SyncPipeline,
    EndPipeline,
}

#[derive(Debug)]
pub(crate) struct ScriptStatement {
    /// Number of its operation type, assigned later.
    pub(crate) kind: KindId,
    /// Text that is sent.
    pub(crate) text: StatementText,
    /// First words of the statement, for the name of its operation type.
    pub(crate) head: String,
    /// Use of its answer.
    pub(crate) take: Option<Take>,
    pub(crate) block: BlockEffect,
    /// The next statement goes with it in one pipeline (`\;`).
    pub(crate) joined: bool,
}

/// A mistake in the script at this position.
pub(crate) type Misread = (usize, Mistake);

/// Reads `scripts`, whose statements are of `language`. `variables` have values before any of them runs.
pub(crate) fn read(
    variables: &[(String, Initial)],
    language: Language,
    scripts: &[Script],
) -> Result<Programs, Misread> {
    let mut symbols = Symbols::default();
    for (name, _) in variables {
        symbols.slot(name);
    }
    let mut drafts = Vec::new();
    for (position, script) in scripts.iter().enumerate() {
        symbols.script = position;
        drafts.push(Draft::read(&script.text, language, &mut symbols).map_err(|mistake| (position, mistake))?);
    }
    // A colon and a name in a statement is a variable when anybody gives it a value.
    for (position, draft) in drafts.iter().enumerate() {
        symbols.script = position;
        for (sql, _) in &draft.statements {
            for mention in sql.mentions.iter().filter(|mention| !mention.quoted) {
                let name = &scripts[position].text[mention.range.start + 1..mention.range.end];
                symbols.read(name, mention.range.clone());
            }
        }
    }
    let initial = initial_values(&symbols, variables);
    check_defined(&symbols, &initial)?;
    let known = |slot: usize| match initial.get(slot) {
        Some(Initial::Value(value)) if !symbols.is_assigned(slot) => Some(*value),
        Some(Initial::Text(text)) if !symbols.is_assigned(slot) => Scalar::of_text(text),
        _ => None,
    };
    let mut programs = Vec::new();
    for (position, (draft, script)) in drafts.into_iter().zip(scripts).enumerate() {
        let program = draft.finish(script, &symbols, &initial, &known);
        programs.push(program.map_err(|mistake| (position, mistake))?);
    }
    Ok(Programs { scripts: programs, names: symbols.names, assigned: symbols.assigned, initial })
}

fn initial_values(symbols: &Symbols, variables: &[(String, Initial)]) -> Vec<Initial> {
    let mut initial = vec![Initial::Unset; symbols.names.len()];
    for (name, value) in variables {
        if let Some(slot) = symbols.known(name) {
            initial[slot] = value.clone();
        }
    }
    initial
}

/// Finds the first variable that is read and never assigned.
fn check_defined(symbols: &Symbols, initial: &[Initial]) -> Result<(), Misread> {
    let has_value = |slot: usize| symbols.is_assigned(slot) || initial[slot] != Initial::Unset;
    let undefined = symbols.reads.iter().filter(|(_, slot, _)| !has_value(*slot));
    let Some((script, slot, range)) = undefined.min_by_key(|(script, _, range)| (*script, range.start)) else {
        return Ok(());
    };
    let name = &symbols.names[*slot];
    let defined = symbols.names.iter().enumerate().filter(|(slot, _)| has_value(*slot)).map(|(_, name)| name.as_str());
    let help = match nearest(name, defined) {
        Some(near) => format!("did you mean `:{near}`?"),
        None => "set it by \\set or \\gset, or define it: define = \"name=value\"".to_owned(),
    };
    Err((*script, mistake(range.clone(), format!("undefined variable `:{name}`")).with_help(help)))
}

/// A script whose variables are not all known yet.
struct Draft {
    language: Language,
    commands: Vec<(Command, Range<usize>)>,
    statements: Vec<(RawSql, Option<Take>)>,
}

/// An open `\if`.
struct Open {
    range: Range<usize>,
    /// The jump that leads to the next branch.
    unless: Option<usize>,
    /// The jumps that lead to the end.
    to_end: Vec<usize>,
    has_else: bool,
}

impl Draft {
    fn read(text: &str, language: Language, symbols: &mut Symbols) -> Result<Draft, Mistake> {
        let mut draft = Draft { language, commands: Vec::new(), statements: Vec::new() };
        let mut open = Vec::new();
        for raw in language.scan(text)? {
            match raw {
                Raw::Sql(sql) => {
                    draft.commands.push((Command::Sql(draft.statements.len()), sql.range.clone()));
                    draft.statements.push((sql, None));
                }
                Raw::Meta(meta) => draft.meta(text, &meta, symbols, &mut open)?,
            }
        }
        if let Some(open) = open.pop() {
            return Err(mistake(open.range, "\\if without matching \\endif".into()));
        }
        if draft.statements.is_empty() {
            return Err(mistake(0..text.len().min(1), "the script has no statement".into()));
        }
        Ok(draft)
    }

    fn push(&mut self, command: Command, meta: &RawMeta) {
        self.commands.push((command, meta.range.clone()));
    }

    fn meta(&mut self, text: &str, meta: &RawMeta, symbols: &mut Symbols, open: &mut Vec<Open>) -> Result<(), Mistake> {
        let name = text[meta.name.clone()].to_ascii_lowercase();
        let arguments = words(text, meta.arguments.clone());
        let most = match name.as_str() {
            "sleep" => 2,
            "gset" | "aset" => 1,
            "else" | "endif" | "startpipeline" | "syncpipeline" | "endpipeline" => 0,
            _ => usize::MAX,
        };
        if let Some(extra) = arguments.get(most) {
            return Err(mistake(extra.clone(), format!("\\{name} has an argument too many")));
        }
        let least = match name.as_str() {
            "set" | "sleep" | "if" | "elif" => 1,
            _ => 0,
        };
        if arguments.len() < least {
            return Err(mistake(meta.range.clone(), format!("\\{name}: missing argument")));
        }
        match name.as_str() {
            "set" => {
                let variable = arguments[0].clone();
                let slot = symbols.assign(checked_name(text, variable.clone())?);
                let value = expression(text, variable.end..meta.arguments.end, symbols)?;
                self.push(Command::Set(slot, value), meta);
            }
            "sleep" => {
                let (time, unit_ns) = sleep(text, &arguments, symbols)?;
                self.push(Command::Sleep(time, unit_ns), meta);
            }
            "gset" | "aset" => self.take(text, meta, &name, arguments.first(), symbols)?,
            "if" | "elif" | "else" | "endif" => self.branch(text, meta, &name, symbols, open)?,
            "startpipeline" => self.push(Command::StartPipeline, meta),
            "syncpipeline" => self.push(Command::SyncPipeline, meta),
            "endpipeline" => self.push(Command::EndPipeline, meta),
            "shell" | "setshell" => {
                let what =
                    format!("\\{name} would run a program on this machine, which Plimsoll never does for a script");
                return Err(mistake(meta.range.clone(), what)
                    .with_help("do it before the run, and hand its result over: define = \"name=value\""));
            }
            _ => return Err(unknown_command(text, meta)),
        }
        Ok(())
    }

    fn branch(
        &mut self,
        text: &str,
        meta: &RawMeta,
        name: &str,
        symbols: &mut Symbols,
        open: &mut Vec<Open>,
    ) -> Result<(), Mistake> {
        if name == "if" {
            let condition = expression(text, meta.arguments.clone(), symbols)?;
            let unless = Some(self.commands.len());
            open.push(Open { range: meta.range.clone(), unless, to_end: Vec::new(), has_else: false });
            self.push(Command::JumpUnless(condition, 0), meta);
            return Ok(());
        }
        let Some(current) = open.last_mut() else {
            return Err(mistake(meta.range.clone(), format!("\\{name} without matching \\if")));
        };
        if current.has_else && name != "endif" {
            return Err(mistake(meta.range.clone(), format!("\\{name} after \\else")));
        }
        if name != "endif" {
            current.to_end.push(self.commands.len());
            self.commands.push((Command::Jump(0), meta.range.clone()));
        }
        let here = self.commands.len();
        if let Some((Command::JumpUnless(_, target), _)) = current.unless.take().map(|at| &mut self.commands[at]) {
            *target = here;
        }
        match name {
            "elif" => {
                current.unless = Some(here);
                let condition = expression(text, meta.arguments.clone(), symbols)?;
                self.push(Command::JumpUnless(condition, 0), meta);
            }
            "else" => current.has_else = true,
            _ => {
                for at in open.pop().into_iter().flat_map(|open| open.to_end) {
                    self.commands[at].0 = Command::Jump(here);
                }
            }
        }
        Ok(())
    }

    /// `\gset` and `\aset` belong to the statement before them.
    fn take(
        &mut self,
        text: &str,
        meta: &RawMeta,
        name: &str,
        prefix: Option<&Range<usize>>,
        symbols: &mut Symbols,
    ) -> Result<(), Mistake> {
        let last = match self.commands.last() {
            Some((Command::Sql(statement), _)) => Some(*statement),
            _ => None,
        };
        let Some(last) = last.filter(|statement| self.statements[*statement].1.is_none()) else {
            return Err(mistake(meta.range.clone(), format!("\\{name} must follow {}", self.language.a_statement())));
        };
        let prefix = prefix.map_or("", |range| &text[range.clone()]);
        // `\aset` takes the answers of all statements that go together.
        let mut first = last;
        while name == "aset" && first > 0 && self.statements[first - 1].0.joined {
            first -= 1;
        }
        for statement in first..=last {
            let (sql, take) = &mut self.statements[statement];
            let columns = match self.language.columns(&text[sql.range.clone()]) {
                Ok(columns) => columns,
                // Of several, some may have no answer.
                Err(_) if statement < last => continue,
                Err(why) => {
                    let what = format!("\\{name} needs to know the columns of the statement before it: {why}");
                    return Err(mistake(sql.range.clone(), what));
                }
            };
            let mut slots = Vec::new();
            for column in columns {
                let variable = format!("{prefix}{column}");
                if !is_name(&variable) {
                    let what = format!("\\{name} cannot make a variable of the column `{variable}`");
                    return Err(mistake(meta.range.clone(), what)
                        .with_help("a name is letters, digits and `_`, and does not begin with a digit"));
                }
                slots.push(symbols.assign(&variable));
            }
            *take = Some(Take { slots, all: name == "aset" });
        }
        Ok(())
    }

    fn finish(
        self,
        script: &Script,
        symbols: &Symbols,
        initial: &[Initial],
        known: &impl Fn(usize) -> Option<Scalar>,
    ) -> Result<Program, Mistake> {
        let blocks: Vec<BlockEffect> = self
            .statements
            .iter()
            .map(|(sql, _)| self.language.block_effect(&script.text[sql.range.clone()]))
            .collect();
        check_flow(self.language, &self.commands, &self.statements, &blocks)?;
        let mut statements = Vec::new();
        for ((sql, take), block) in self.statements.into_iter().zip(blocks) {
            let (text, head) = self.language.texts(&script.text, &sql, symbols, initial);
            if let StatementText::Prepared(_, slots) | StatementText::Command(_, slots) = &text
                && slots.len() > PARAMETERS_MAX
            {
                let what = format!("the statement has {} parameters, of at most {PARAMETERS_MAX}", slots.len());
                return Err(mistake(sql.range, what).with_help("write values into its text: substitute = \"text\""));
            }
            statements.push(ScriptStatement { kind: 0, text, head, take, block, joined: sql.joined });
        }
        let fold = |command| match command {
            Command::Set(slot, value) => Command::Set(slot, value.folded(known)),
            Command::Sleep(time, unit_ns) => Command::Sleep(time.folded(known), unit_ns),
            Command::JumpUnless(condition, target) => Command::JumpUnless(condition.folded(known), target),
            other => other,
        };
        let line = |range: &Range<usize>| script.text[..range.start].matches('\n').count() as u32 + 1;
        let lines = self.commands.iter().map(|(_, range)| line(range)).collect();
        let commands = self.commands.into_iter().map(|(command, _)| fold(command)).collect();
        let from = script.file.as_ref().unwrap_or(&script.name).clone();
        let (plain, retried, rollback) = (None, None, None);
        Ok(Program { name: script.name.clone(), commands, statements, plain, retried, rollback, lines, from })
    }
}

/// Knowledge about a position before the script runs: yes, no, or dependent on the path to it.
type Surely = Option<bool>;

/// Follows all ways through a script, which only go forward, and finds pipelines and transactions that cannot be.
fn check_flow(
    language: Language,
    commands: &[(Command, Range<usize>)],
    statements: &[(RawSql, Option<Take>)],
    blocks: &[BlockEffect],
) -> Result<(), Mistake> {
    // In a pipeline, in a transaction block: on entry to each command, and at the end.
    let mut entries: Vec<Option<(Surely, Surely)>> = vec![None; commands.len() + 1];
    entries[0] = Some((Some(false), Some(false)));
    let reach = |entries: &mut Vec<Option<(Surely, Surely)>>, to: usize, (pipeline, block): (Surely, Surely)| {
        let both = |a: Surely, b: Surely| if a == b { a } else { None };
        entries[to] = Some(match entries[to] {
            None => (pipeline, block),
            Some((other_pipeline, other_block)) => (both(pipeline, other_pipeline), both(block, other_block)),
        });
    };
    let (mut started, mut begun) = (0..0, 0..0);
    for (at, (command, range)) in commands.iter().enumerate() {
        let Some((mut pipeline, mut block)) = entries[at] else { continue };
        let wrong = |what: &str| Err(mistake(range.clone(), what.to_owned()));
        match command {
            Command::StartPipeline if pipeline == Some(true) => return wrong("\\startpipeline in a pipeline"),
            Command::StartPipeline => {
                pipeline = Some(true);
                started = range.clone();
            }
            Command::SyncPipeline if pipeline == Some(false) => return wrong("\\syncpipeline without \\startpipeline"),
            Command::EndPipeline if pipeline == Some(false) => return wrong("\\endpipeline without \\startpipeline"),
            Command::EndPipeline => pipeline = Some(false),
            Command::Sql(statement) => {
                if pipeline == Some(true) && statements[*statement].1.is_some() {
                    return wrong("\\gset and \\aset cannot stand in a pipeline");
                }
                match blocks[*statement] {
                    BlockEffect::Opens => {
                        block = Some(true);
                        begun = range.clone();
                    }
                    BlockEffect::Closes | BlockEffect::Ends => block = Some(false),
                    BlockEffect::None => {}
                }
            }
            _ => {}
        }
        match command {
            Command::Jump(to) => reach(&mut entries, *to, (pipeline, block)),
            Command::JumpUnless(_, to) => {
                reach(&mut entries, *to, (pipeline, block));
                reach(&mut entries, at + 1, (pipeline, block));
            }
            _ => reach(&mut entries, at + 1, (pipeline, block)),
        }
    }
    match entries[commands.len()] {
        Some((Some(true), _)) => Err(mistake(started, "\\startpipeline without \\endpipeline".into())),
        Some((_, Some(true))) => Err(mistake(begun, "the script ends in the transaction that is begun here".into())
            .with_help(format!("end it by {}: the next operation may be another script", language.ends_of_block()))),
        _ => Ok(()),
    }
}

fn checked_name(text: &str, range: Range<usize>) -> Result<&str, Mistake> {
    let name = &text[range.clone()];
    if is_name(name) {
        return Ok(name);
    }
    Err(mistake(range, format!("invalid variable name `{name}`"))
        .with_help("a name is letters, digits and `_`, and does not begin with a digit"))
}

/// The time and the nanoseconds of its unit.
fn sleep(text: &str, arguments: &[Range<usize>], symbols: &mut Symbols) -> Result<(Expression, u64), Mistake> {
    let time = arguments[0].clone();
    let word = &text[time.clone()];
    let (value, glued) = match word.strip_prefix(':') {
        Some(name) if is_name(name) => (Expression::Variable(symbols.read(name, time.clone())), 0..0),
        _ => {
            let digits = word.bytes().take_while(u8::is_ascii_digit).count();
            let unit = time.start + digits..time.end;
            let number = word[..digits].parse::<i64>().ok();
            let Some(number) = number.filter(|_| unit.is_empty() || arguments.len() == 1) else {
                let what = format!("invalid sleep time `{word}`");
                return Err(mistake(time, what).with_help("a whole number that is not negative, or a variable"));
            };
            (Expression::Constant(Scalar::Int(number)), unit)
        }
    };
    let unit = arguments.get(1).cloned().or(Some(glued).filter(|unit| !unit.is_empty()));
    let unit_ns = match unit.as_ref().map(|unit| text[unit.clone()].to_ascii_lowercase()) {
        None => 1_000_000_000,
        Some(unit_name) => match unit_name.as_str() {
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            _ => {
                let what = format!("unrecognized time unit `{unit_name}`");
                return Err(mistake(unit.unwrap_or(time), what).with_help("there are us, ms and s"));
            }
        },
    };
    Ok((value, unit_ns))
}

fn unknown_command(text: &str, meta: &RawMeta) -> Mistake {
    const COMMANDS: [&str; 11] =
        ["set", "gset", "aset", "if", "elif", "else", "endif", "sleep", "startpipeline", "syncpipeline", "endpipeline"];
    let name = &text[meta.name.clone()];
    let near = nearest(name, COMMANDS).map(|near| format!("did you mean `\\{near}`? ")).unwrap_or_default();
    mistake(meta.range.start..meta.name.end, format!("invalid command `\\{name}`"))
        .with_help(format!("{near}there are \\{}", COMMANDS.join(", \\")))
}
