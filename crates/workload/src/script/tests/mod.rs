//! Scripts run without a store: what they send, and what they make of the answers.

mod commands;
mod expressions;
mod fuzz;
mod mistakes;
mod runs;
mod statements;

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::{Answer, Call, KindId, Outcome, Script, Step, Steps, StreamSpec, Value, ValueBuf};

use super::compiled::{Compiled, Source};
use super::language::Language;
use super::program::Misread;

pub(super) fn script(text: &str) -> Script {
    Script { name: "s".into(), weight: 1, text: text.into(), ..Script::default() }
}

/// Setting in which a test compiles scripts.
pub(super) struct Setting {
    pub(super) seed: u64,
    pub(super) scale: i64,
    pub(super) defines: &'static [(&'static str, &'static str)],
    pub(super) tries_max: u32,
    pub(super) as_text: bool,
    /// The scripts are commands.
    pub(super) commands: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self { seed: 42, scale: 1, defines: &[], tries_max: 1, as_text: false, commands: false }
    }
}

impl Setting {
    pub(super) fn compile(&self, scripts: &[Script]) -> Result<Arc<Compiled>, Misread> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let defines = self.defines.iter().map(own).collect();
        let (seed, scale, tries_max) = (self.seed, self.scale, self.tries_max);
        let language = match (self.commands, self.as_text) {
            (true, _) => Language::Commands,
            (false, true) => Language::SqlText,
            (false, false) => Language::Sql,
        };
        let columns = super::columns(seed, scripts).unwrap();
        let source = Source { seed, scale, defines, columns, tries_max, language, finds_rows: false, scripts };
        Compiled::new(&source).map(Arc::new)
    }

    pub(super) fn one(&self, text: &str) -> Arc<Compiled> {
        self.compile(&[script(text)]).unwrap_or_else(|(_, mistake)| panic!("{text}: {mistake:?}"))
    }
}

/// An answer with one row of `values`.
pub(super) fn row(values: &[Value<'_>]) -> Answer {
    let mut answer = Answer { columns: values.len(), rows: 1, ..Answer::default() };
    values.iter().for_each(|value| answer.values.push(*value));
    answer
}

/// The code of a refusal that another try may get over.
pub(super) const GAVE_WAY: &str = "40001";

/// The store's refusal.
pub(super) fn refusal(code: &str) -> (Outcome, Answer) {
    let mut answer = Answer::default();
    let outcome = answer.fail(Outcome::Rejected, code, "words");
    answer.gave_way = code == GAVE_WAY;
    (outcome, answer)
}

/// A client of one script, step by step, and what it did in words.
pub(super) struct Client<'a> {
    pub(super) compiled: Arc<Compiled>,
    steps: Box<dyn Steps>,
    answer: Box<dyn FnMut(&str) -> (Outcome, Answer) + 'a>,
    pub(super) log: Vec<String>,
}

impl<'a> Client<'a> {
    /// Statements are answered by `answer`, which is handed their texts with the parameters after them.
    pub(super) fn new(
        compiled: Arc<Compiled>,
        client: u32,
        answer: impl FnMut(&str) -> (Outcome, Answer) + 'a,
    ) -> Self {
        let mix = vec![("s".to_owned(), 1)];
        let stream = compiled.stream("script", &StreamSpec::Mix { mix, clients: 1 }).unwrap();
        let steps = stream.steps(client).expect("a script of steps");
        Self { compiled, steps, answer: Box::new(answer), log: Vec::new() }
    }

    /// Runs operation `cycle`; returns what it came to.
    pub(super) fn run(&mut self, cycle: u64) -> (String, Outcome) {
        let mut params = ValueBuf::new();
        let mut unanswered = VecDeque::new();
        self.steps.begin(cycle, 0, params.values());
        for _ in 0..1_000 {
            params.clear();
            match self.steps.next(&mut params) {
                Step::Send { kind, more } => {
                    let text = self.text(kind, &params);
                    self.log.push(if more { format!("{text} …") } else { text.clone() });
                    unanswered.push_back(text);
                    if !more {
                        for text in unanswered.drain(..) {
                            let (outcome, answer) = (self.answer)(&text);
                            self.steps.answered(outcome, &answer);
                        }
                    }
                }
                Step::Sync => self.log.push("sync".to_owned()),
                Step::Gather => panic!("every pipeline ends with a statement after which the answers are awaited"),
                Step::Sleep(ns) => self.log.push(format!("sleep {ns}")),
                Step::End { kind, outcome } => {
                    let mut answer = Answer::default();
                    self.steps.failure(&mut answer);
                    if !answer.message.is_empty() {
                        self.log.push(format!("{}: {}", answer.code, answer.message));
                    }
                    return (self.compiled.kinds[usize::from(kind)].name.clone(), outcome);
                }
            }
        }
        panic!("the script does not end: {:?}", self.log);
    }

    fn text(&self, kind: KindId, params: &ValueBuf) -> String {
        let kind = &self.compiled.kinds[usize::from(kind)];
        let values: Vec<String> = params
            .values()
            .iter()
            .map(|value| match value {
                Value::Null => "NULL".to_owned(),
                Value::Int(value) => value.to_string(),
                Value::Float(value) => format!("{value:?}"),
                Value::Bool(value) => value.to_string(),
                Value::Text(value) => value.to_owned(),
                other => format!("{other:?}"),
            })
            .collect();
        match &kind.call {
            Call::Command(words) => {
                let shown = plimsoll_core::command::shown(words);
                if values.is_empty() { shown } else { format!("{shown} <- {}", values.join(", ")) }
            }
            Call::Sql(text) if values.is_empty() => text.clone(),
            Call::Sql(text) => {
                assert_eq!(kind.params.len(), values.len(), "{text}");
                format!("{text} <- {}", values.join(", "))
            }
            Call::SqlText => format!("text: {}", values.join("")),
            other => panic!("{other:?} is sent"),
        }
    }
}

/// Returns the statements that a script sends in its first operation if every answer succeeds.
pub(super) fn sent(setting: &Setting, text: &str) -> Vec<String> {
    let mut client = Client::new(setting.one(text), 0, |_| (Outcome::Ok, Answer::default()));
    client.run(0);
    client.log
}

/// The parameters of a script that is one plain operation.
pub(super) fn plain_params(compiled: &Arc<Compiled>, client: u32, cycle: u64) -> ValueBuf {
    let stream = compiled.stream("script", &StreamSpec::One { kind: "s".into(), clients: 1 }).unwrap();
    assert!(stream.steps(client).is_none(), "it needs no steps");
    let mut params = ValueBuf::new();
    assert_eq!(stream.op(client, cycle, &mut params), Some(0));
    params
}
