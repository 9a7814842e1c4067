//! The user's own requests: each an operation of its own, or several sent one after the other as one.
//!
//! Their texts hold `${…}`: a variable, or an expression of scripts' language. They become programs as scripts do, with
//! requests where scripts have statements, so that all that is known of variables, steps and answers is known there.

use std::sync::Arc;

use plimsoll_core::{HttpCall, HttpHeader, HttpRequest, HttpTake, Script, Template, TemplatePiece, WorkloadError};

use crate::script::expression::Expression;
use crate::script::parse::expression;
use crate::script::program::{Command, Initial, Program, Programs, ScriptStatement};
use crate::script::scalar::Scalar;
use crate::script::statement::{BlockEffect, StatementText, Take};
use crate::script::symbols::{Symbols, is_name};
use crate::script::{Compiled, Source};

/// Most parameters of a request.
const PARAMETERS_MAX: usize = 255;
const TEXT_HELP: &str = "a variable is ${name}, an expression ${random(1, 1000)}; write $${ for ${";

/// A mistake in a request, and its remedy.
type Wrong = (String, String);

/// Compiles the operations of `source`. With `cookies` clients keep those that they are given.
pub(super) fn compiled(source: &Source<'_>, cookies: bool) -> Result<Arc<Compiled>, WorkloadError> {
    let mut variables = source.variables();
    variables.push(("cycle".to_owned(), Initial::Cycle));
    variables.push(("sequence".to_owned(), Initial::Sequence));
    let mut reading = Reading { symbols: Symbols::default(), variables: &variables, cookies, commands: Vec::new() };
    for (name, _) in &variables {
        reading.symbols.slot(name);
    }
    let mut drafts = Vec::new();
    for (position, script) in source.scripts.iter().enumerate() {
        reading.symbols.script = position;
        drafts.push(reading.operation(script).map_err(|(what, help)| mistake(script, position, &what, &help))?);
    }
    let initial = reading.initial();
    reading.must_be_set(&initial, source.scripts)?;
    let Symbols { names, assigned, .. } = reading.symbols;
    let known = |slot: usize| match initial.get(slot) {
        Some(Initial::Value(value)) if !assigned[slot] => Some(*value),
        Some(Initial::Text(text)) if !assigned[slot] => Scalar::of_text(text),
        _ => None,
    };
    let fold = |(command, step): (Command, u32)| match command {
        Command::Set(slot, value) => (Command::Set(slot, value.folded(&known)), step),
        other => (other, step),
    };
    let scripts = source.scripts.iter().zip(drafts).map(|(script, (commands, statements))| {
        Program::of_requests(&script.name, commands.into_iter().map(fold).collect(), statements)
    });
    let programs = Programs { scripts: scripts.collect(), names, assigned: assigned.clone(), initial: initial.clone() };
    Ok(Arc::new(Compiled::of(programs, source)))
}

fn mistake(script: &Script, position: usize, what: &str, help: &str) -> WorkloadError {
    WorkloadError {
        what: format!("the request `{}`: {what}", script.name),
        place: Some((position, 0..0)),
        help: Some(help.to_owned()),
    }
}

/// Requests on their way to being programs.
struct Reading<'v> {
    symbols: Symbols,
    variables: &'v [(String, Initial)],
    cookies: bool,
    /// Commands of the operation being read, with the step of each.
    commands: Vec<(Command, u32)>,
}

impl Reading<'_> {
    fn operation(&mut self, script: &Script) -> Result<(Vec<(Command, u32)>, Vec<ScriptStatement>), Wrong> {
        let mut statements = Vec::new();
        for (step, request) in (1..).zip(&script.requests) {
            let (call, slots, take) = self.request(request, step)?;
            if slots.len() > PARAMETERS_MAX {
                let what = format!("it has {} places for values, and may have {PARAMETERS_MAX}", slots.len());
                return Err((what, "set a variable once, and leave some out".to_owned()));
            }
            self.commands.push((Command::Sql(statements.len()), step));
            // A query may hold a secret.
            let path = request.path.split('?').next().filter(|path| !path.is_empty()).unwrap_or("/");
            let head: String = format!("{} {path}", request.method).chars().take(40).collect();
            let text = StatementText::Request(Box::new(call), slots);
            statements.push(ScriptStatement { kind: 0, text, head, take, block: BlockEffect::None, joined: false });
        }
        Ok((std::mem::take(&mut self.commands), statements))
    }

    fn request(&mut self, request: &HttpRequest, step: u32) -> Result<(HttpCall, Vec<usize>, Option<Take>), Wrong> {
        if !request.path.is_empty() && !request.path.starts_with(['/', '$']) {
            let help = "a path begins with `/`; host and port stand in the URL under --on".to_owned();
            return Err((format!("`{}` is not a path", request.path), help));
        }
        for (name, text) in &request.set {
            let value = self.expression(text).map_err(|(what, help)| (format!("`set`, {name}: {what}"), help))?;
            let slot = self.assigned(name)?;
            self.commands.push((Command::Set(slot, value), step));
        }
        let mut slots = Vec::new();
        let mut template = |this: &mut Self, text: &str, of: &str| {
            this.template(text, step, &mut slots).map_err(|(what, help)| (format!("{of}: {what}"), help))
        };
        let target = template(self, &request.path, "`path`")?;
        let mut headers = Vec::new();
        for header in &request.headers {
            let value = template(self, &header.value, &format!("the header {}", header.name))?;
            headers.push(HttpHeader { name: header.name.clone(), value });
        }
        let body = request.body.as_ref().map(|body| template(self, body, "`body`")).transpose()?;
        let (mut take, mut taken) = (Vec::new(), Vec::new());
        for (name, place) in &request.take {
            take.push(taken_from(place)?);
            taken.push(self.assigned(name)?);
        }
        let call = HttpCall {
            method: request.method.clone(),
            target,
            headers,
            body,
            expect: statuses(&request.expect)?,
            contains: request.contains.clone(),
            take,
            cookies: self.cookies,
        };
        Ok((call, slots, (!taken.is_empty()).then_some(Take { slots: taken, all: false })))
    }

    fn assigned(&mut self, name: &str) -> Result<usize, Wrong> {
        if is_name(name) {
            return Ok(self.symbols.assign(name));
        }
        let help = "a name is letters, digits and `_`, and does not begin with a digit".to_owned();
        Err((format!("`{name}` is not a name of a variable"), help))
    }

    /// Cuts a text at its `${…}`, whose values are worked out before the request is sent.
    fn template(&mut self, text: &str, step: u32, slots: &mut Vec<usize>) -> Result<Template, Wrong> {
        let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                literal.push_str(before);
                literal.push_str("${");
                rest = after;
                continue;
            }
            literal.push_str(before);
            let Some((inside, behind)) = after.split_once('}') else {
                return Err(("a `${` without its `}`".to_owned(), TEXT_HELP.to_owned()));
            };
            rest = behind;
            if !literal.is_empty() {
                pieces.push(TemplatePiece::Text(std::mem::take(&mut literal)));
            }
            let inside = inside.trim();
            if let Some(name) = inside.strip_prefix("env.") {
                pieces.push(TemplatePiece::Env(name.to_owned()));
                continue;
            }
            let slot = match self.expression(inside)? {
                Expression::Variable(slot) => slot,
                value => {
                    // No variable of the user's has such a name.
                    let slot = self.symbols.assign(&format!("${{{inside}}} {}", self.symbols.names.len()));
                    self.commands.push((Command::Set(slot, value), step));
                    slot
                }
            };
            slots.push(slot);
            pieces.push(TemplatePiece::Param);
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(TemplatePiece::Text(literal));
        }
        Ok(Template(pieces))
    }

    /// A name alone is the variable of that name.
    fn expression(&mut self, text: &str) -> Result<Expression, Wrong> {
        if is_name(text) {
            return Ok(Expression::Variable(self.symbols.read(text, 0..0)));
        }
        expression(text, 0..text.len(), &mut self.symbols).map_err(|mistake| {
            let help = mistake.help.unwrap_or_else(|| TEXT_HELP.to_owned());
            (format!("`{text}`: {}", mistake.what), help)
        })
    }

    fn initial(&self) -> Vec<Initial> {
        let mut initial = vec![Initial::Unset; self.symbols.names.len()];
        for (name, value) in self.variables {
            if let Some(slot) = self.symbols.known(name) {
                initial[slot] = value.clone();
            }
        }
        initial
    }

    /// Finds what is read and never given a value.
    fn must_be_set(&self, initial: &[Initial], scripts: &[Script]) -> Result<(), WorkloadError> {
        let has_value = |slot: usize| self.symbols.is_assigned(slot) || initial[slot] != Initial::Unset;
        let Some((script, slot, _)) = self.symbols.reads.iter().find(|(_, slot, _)| !has_value(*slot)) else {
            return Ok(());
        };
        let name = &self.symbols.names[*slot];
        let names = self.symbols.names.iter().enumerate();
        let set = names.filter(|(slot, name)| has_value(*slot) && is_name(name)).map(|(_, name)| name.as_str());
        let help = match plimsoll_core::nearest::nearest(name, set) {
            Some(near) => format!("did you mean ${{{near}}}?"),
            None => "set it under `set`, take it from an answer under `take`, or define = \"name=value\"".to_owned(),
        };
        Err(mistake(&scripts[*script], *script, &format!("nothing gives `{name}` a value"), &help))
    }
}

/// `json:data.token`, `header:Location`, `regex:id=(\d+)`, `status`, `body`.
fn taken_from(place: &str) -> Result<HttpTake, Wrong> {
    Ok(match place.split_once(':').map_or((place, ""), |(how, what)| (how.trim(), what.trim())) {
        ("json", path) if !path.is_empty() => HttpTake::Json(path.split('.').map(str::to_owned).collect()),
        ("header", name) if !name.is_empty() => HttpTake::Header(name.to_owned()),
        ("regex", text) if !text.is_empty() => HttpTake::Regex(text.to_owned()),
        ("status", "") => HttpTake::Status,
        ("body", "") => HttpTake::Body,
        _ => {
            let help = "write json:data.token, header:Location, regex:id=([0-9]+), status or body".to_owned();
            return Err((format!("`take`: `{place}` names nothing that can be taken"), help));
        }
    })
}

/// `200-299, 404`.
fn statuses(text: &str) -> Result<Vec<(u16, u16)>, Wrong> {
    let one = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let status = |text: &str| text.trim().parse().ok().filter(|status| (200..=599).contains(status));
        let range = status(first).zip(status(last)).filter(|(first, last)| first <= last);
        range.ok_or_else(|| {
            let help = "write statuses from 200 to 599, as in \"201\" or \"200-299, 404\"".to_owned();
            (format!("`expect`: `{part}` is not a status"), help)
        })
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(one).collect()
}
