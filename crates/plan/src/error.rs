//! Mistakes in a plan, with their locations.

use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, MietteError, MietteSpanContents, NamedSource, SourceCode, SourceSpan, SpanContents};
use plimsoll_core::shown::{clean, lines};

/// All mistakes in a plan: at least one [`Problem`], in the order of the text.
///
/// As a [`Diagnostic`] it shows each mistake with its line; show a single mistake as the [`Problem`] itself.
/// Passwords in the text are masked before anything is shown.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{}", self.words())]
pub struct PlanError {
    name: String,
    #[related]
    problems: Vec<Problem>,
}

/// A mistake in a plan.
#[derive(Debug, Clone, thiserror::Error, Diagnostic)]
#[error("{what}")]
pub struct Problem {
    what: String,
    #[help]
    help: Option<String>,
    #[source_code]
    text: Arc<SourceText>,
    span: Range<usize>,
    /// Underlined part of the text; shortened in a very long line.
    #[label]
    shown: SourceSpan,
}

/// A text that mistakes refer to.
#[derive(Debug)]
pub(crate) struct SourceText {
    /// Source without passwords.
    pub(crate) text: String,
    shown: NamedSource<String>,
}

/// Longest line in bytes that is shown whole.
const LINE_BYTES_MAX: usize = 240;
/// Characters that are shown of a longer line, on each side of the start of the mistake.
const AROUND: usize = 60;

/// Shows only the part of a very long line around the mistake, without adjacent lines.
impl SourceCode for SourceText {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let whole = self.shown.read_span(span, lines_before, lines_after)?;
        if lines_before == 0 || whole.data().split(|byte| *byte == b'\n').all(|line| line.len() <= LINE_BYTES_MAX) {
            return Ok(whole);
        }
        let place = self.shown.read_span(span, 0, 0)?;
        let (before, after) = self.shown.inner().split_at_checked(span.offset()).unwrap_or_default();
        let before = before.rsplit('\n').next().unwrap_or_default();
        let before: usize = before.chars().rev().take(AROUND).map(char::len_utf8).sum();
        let after: usize = after.chars().take_while(|c| *c != '\n').take(AROUND).map(char::len_utf8).sum();
        let start = span.offset() - before;
        let data = self.shown.inner().as_bytes().get(start..span.offset() + after).unwrap_or_default();
        let contents = MietteSpanContents::new_named(
            self.shown.name().to_owned(),
            data,
            (start, data.len()).into(),
            place.line(),
            place.column().saturating_sub(before),
            1,
        );
        Ok(Box::new(contents.with_language("TOML")))
    }
}

/// Replaces control characters in `text`, without moving the other characters.
fn without_control(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.push(c),
            c if c.is_control() => shown.extend(std::iter::repeat_n('.', c.len_utf8())),
            c => shown.push(c),
        }
    }
    shown
}

impl SourceText {
    pub(crate) fn new(name: &str, text: &str) -> SourceText {
        SourceText {
            text: text.to_owned(),
            shown: NamedSource::new(clean(name), without_control(text)).with_language("TOML"),
        }
    }
}

impl PlanError {
    pub(crate) fn new(name: &str, mut problems: Vec<Problem>) -> PlanError {
        problems.sort_by_key(|problem| problem.span.start);
        PlanError { name: name.to_owned(), problems }
    }

    fn words(&self) -> String {
        match self.problems.as_slice() {
            [only] => only.what.clone(),
            several => format!("{} mistakes in `{}`", several.len(), self.name),
        }
    }

    /// The mistakes, in the order of the text.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl Problem {
    /// Moves `span` into the text and onto character boundaries.
    pub(crate) fn new(source: &Arc<SourceText>, span: Range<usize>, what: String, help: Option<String>) -> Problem {
        let text = &source.text;
        let boundary =
            |from: usize| (0..=from.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let start = boundary(span.start);
        let end = boundary(span.end).max(start);
        let meant = &text[start..end];
        let is_long = meant.len() > LINE_BYTES_MAX && !meant.contains('\n');
        let shown_bytes = if is_long { meant.chars().take(AROUND).map(char::len_utf8).sum() } else { meant.len() };
        let shown = (start, shown_bytes).into();
        let help = help.map(|help| clean(&help));
        Problem { what: lines(what), help, text: Arc::clone(source), span: start..end, shown }
    }

    /// Description, in one sentence without a full stop.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Correction, if there is an obvious one.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Byte range of the mistake in the text.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Text of the mistake.
    pub fn meant(&self) -> &str {
        self.text.text.get(self.span.clone()).unwrap_or_default()
    }

    /// Name of the text that `span` refers to: the plan's, or `--on`.
    pub fn source_name(&self) -> &str {
        self.text.shown.name()
    }
}
