//! The answer to a plan's question.

use serde::Serialize;

plimsoll_core::words! {
    /// State of an answer.
    pub enum AnswerState {
        /// Sentences are said, of all or some of the stores.
        Answered = "answered",
        /// The measurements do not decide it.
        Undecided = "undecided",
        /// The measurements cannot be right, or the plan says that they are worth nothing.
        Worthless = "worthless",
    }
}

/// Answer of a plan's figures to its question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyAnswer {
    /// State of the answer.
    pub state: AnswerState,
    /// First line: the sentences that are said, or the first reason that there are none.
    pub sentence: String,
    /// Sentences that are said.
    pub said: Vec<SaidSentence>,
    /// Reasons that stores have no answer: one sentence each.
    pub worthless: Vec<String>,
    /// Reasons that a sentence is undecided: one sentence each.
    pub undecided: Vec<String>,
}

impl StudyAnswer {
    /// Iterates over the lines below the first: all reasons that do not stand there.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.worthless.iter().chain(&self.undecided).filter(|reason| **reason != self.sentence)
    }
}

/// A sentence of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SaidSentence {
    /// The sentence, with values of figures.
    pub text: String,
    /// Values that were published for the figure that it compares with them; with the system that was measured.
    pub published: Vec<String>,
    /// Agreement of all stores with the published values; `null` without a comparison, or if they differ in it.
    pub agrees: Option<bool>,
}
