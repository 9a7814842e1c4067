//! A report before any form of it is written: sections of paragraphs, lists, pairs and tables.
//!
//! What a report says, in which order and in which words, is put together here, once. The writers (`terminal`, `html`,
//! `markdown`) write blocks and know nothing of runs. Texts may come from outside: it is the writers that escape them.
//!
//! | module | what it puts together |
//! |---|---|
//! | `run` | a run: its verdict and the order of its sections |
//! | `results` | goals, figures, answers and ledger |
//! | `promises` | what stores kept when the power went: a matrix, then each |
//! | `faults` | faults of the plan, and their effects on clients |
//! | `latency` | how long operations took: table, histogram, steps |
//! | `nodes` | nodes of a cluster: what each answered, and counted over time |
//! | `series` | load lines, two sides in turn, sweeps |
//! | `stages` | loads that change, stage by stage |
//! | `trials` | what data take, and each trial in detail |
//! | `comparison` | two runs side by side |
//! | `selection` | a part of a run beside the rest of its phases |

mod comparison;
mod faults;
mod latency;
mod nodes;
mod promises;
mod results;
mod run;
mod selection;
mod series;
mod stages;
mod trials;

use plimsoll_analysis::RunView;
use plimsoll_analysis::number;
use plimsoll_analysis::view::{Chart, Plots, SweepView};

pub use comparison::comparison;
pub use run::run;
pub use selection::selection;

/// Meaning of a text to its reader. Colours of the terminal and classes of the page follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// No special meaning.
    #[default]
    Plain,
    /// The value that readers look for.
    Strong,
    /// Value that meets its requirement.
    Good,
    /// Value that violates its requirement.
    Bad,
    /// Undecided, or to be looked at.
    Open,
    /// Beside the point.
    Dim,
}

impl Tone {
    /// `text` in this tone.
    pub fn text(self, text: impl Into<String>) -> Text {
        Text::default().then(self, text)
    }
}

/// A text: pieces, each with a tone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(pub(crate) Vec<(Tone, String)>);

impl Text {
    /// Appends `text`.
    pub fn then(mut self, tone: Tone, text: impl Into<String>) -> Self {
        let text = text.into();
        match self.0.last_mut() {
            Some((last, before)) if *last == tone => before.push_str(&text),
            _ if text.is_empty() => {}
            _ => self.0.push((tone, text)),
        }
        self
    }

    /// True without any character.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text without its tones.
    pub(crate) fn plain(&self) -> String {
        self.0.iter().map(|(_, piece)| piece.as_str()).collect()
    }

    fn joined(texts: Vec<Text>, between: &str) -> Text {
        texts.into_iter().fold(Text::default(), |all, text| {
            let all = if all.is_empty() { all } else { all.then(Tone::Plain, between) };
            text.0.into_iter().fold(all, |all, (tone, piece)| all.then(tone, piece))
        })
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Tone::Plain.text(text)
    }
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub struct Cell {
    pub(crate) text: Text,
    /// Explanation, which the page shows under the pointer.
    pub(crate) why: Option<String>,
    /// Supplements, which the page shows in small lines below.
    pub(crate) more: Vec<String>,
}

impl Cell {
    fn why(text: impl Into<Text>, why: Option<&String>) -> Self {
        Cell { why: why.cloned(), ..Cell::from(text) }
    }

    fn with(mut self, more: impl IntoIterator<Item = String>) -> Self {
        self.more.extend(more);
        self
    }
}

impl<T: Into<Text>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell { text: text.into(), why: None, more: Vec::new() }
    }
}

/// The cells of a row: a list of anything that a [`Cell`](crate::document::Cell) is made from.
#[macro_export]
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$($crate::document::Cell::from($cell)),*] };
}

/// A column of a table of rows `R`, and the cell of a row in it.
pub type ColumnOf<'f, R> = (Column, &'f dyn Fn(&R) -> Cell);

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// The terminal leaves it out where the table is too wide, those with the highest number first.
    pub(crate) spare: u8,
    pub(crate) head: String,
    /// Numbers stand on the right, words on the left.
    pub(crate) right: bool,
    shown: bool,
}

impl Column {
    /// The column where `shown`; else none, and its cells are left out.
    pub fn when(self, shown: bool) -> Self {
        Column { shown, ..self }
    }

    /// The column as one that a terminal may leave out where there is no room: those with the highest `rank` first.
    pub fn spare(self, rank: u8) -> Self {
        Column { spare: rank, ..self }
    }
}

/// A column of words.
pub fn words(head: impl Into<String>) -> Column {
    Column { head: head.into(), right: false, shown: true, spare: 0 }
}

/// A column of numbers.
pub fn numbers(head: impl Into<String>) -> Column {
    Column { head: head.into(), right: true, shown: true, spare: 0 }
}

/// A table. Without any head it is one of names and texts.
#[derive(Debug)]
pub struct Table {
    /// Name for assistive technology.
    pub(crate) label: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
    shown: Vec<bool>,
}

impl Table {
    /// A table without rows.
    pub fn new(label: impl Into<String>, columns: Vec<Column>) -> Self {
        let shown = columns.iter().map(|column| column.shown).collect();
        let columns = columns.into_iter().filter(|column| column.shown).collect();
        Table { label: label.into(), columns, rows: Vec::new(), shown }
    }

    /// Makes a table with a row for each of `rows`; each column has a function that makes its cells.
    pub fn of<R>(label: impl Into<String>, rows: &[R], columns: &[ColumnOf<'_, R>]) -> Self {
        let mut table = Table::new(label, columns.iter().map(|(column, _)| column.clone()).collect());
        rows.iter().for_each(|row| table.row(columns.iter().map(|(_, cell)| cell(row)).collect()));
        table
    }

    /// Makes a table of names and texts, without heads.
    pub fn pairs<N: Into<Cell>, V: Into<Cell>>(rows: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut table = Table::new("", vec![words(""), words("")]);
        rows.into_iter().for_each(|(name, value)| table.row(vec![name.into(), value.into()]));
        table
    }

    /// Adds a row: a cell for each column, also for those that are not shown.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells.into_iter().zip(&self.shown).filter_map(|(cell, shown)| shown.then_some(cell)).collect());
    }
}

/// Drawing of the page.
#[derive(Debug)]
pub enum Picture<'a> {
    /// Lines over a number.
    Chart(&'a Chart),
    /// Grouped bars of a sweep, ours and the published ones.
    Bars(&'a RunView, &'a SweepView),
    /// The spread in each row of a sweep.
    Boxes(&'a SweepView),
}

/// A part of a section.
#[derive(Debug)]
pub enum Block<'a> {
    /// A smaller heading, and what stands behind it.
    Heading(Text, Text),
    /// A paragraph.
    Paragraph(Text),
    /// Sentences; [`Tone::Bad`] and [`Tone::Open`] mark them.
    List(Tone, Vec<Text>),
    /// Names with texts.
    Pairs(Vec<(Text, Text)>),
    /// A table with rows.
    Table(Table),
    /// A title, and what opens under it; whether it is open. In the page alone, as are the following.
    Fold(String, bool, Vec<Block<'a>>),
    /// Lines as they are.
    Code(String),
    /// Pictures in a layout of the page's style.
    Pictures(&'static str, Vec<Picture<'a>>),
    /// The plots over the run's time.
    Timeline(&'a Plots),
    /// Lines of characters over time, in the terminal alone.
    Sparks(Sparks<'a>),
}

/// Lines of several nodes over time, one for each, all on one scale.
#[derive(Debug)]
pub struct Sparks<'a> {
    /// Name, range of values and time.
    pub(crate) head: Text,
    /// Start and end, on the run's clock in seconds.
    pub(crate) span_s: (f64, f64),
    /// Top of the scale; it begins at 0.
    pub(crate) top: f64,
    /// Times of actions.
    pub(crate) acts_s: Vec<f64>,
    /// Rows: the name, the times of readings, their values, and a word about them.
    pub(crate) rows: Vec<(&'a str, &'a [f64], &'a [Option<f64>], String)>,
}

/// Contents of a section. Empty parts are left out.
#[derive(Debug, Default)]
pub struct Body<'a> {
    /// Note after the title.
    pub(crate) note: Text,
    pub(crate) blocks: Vec<Block<'a>>,
}

impl<'a> Body<'a> {
    fn noted(note: impl Into<Text>) -> Self {
        Body { note: note.into(), blocks: Vec::new() }
    }

    fn push(&mut self, is_empty: bool, block: Block<'a>) {
        if !is_empty {
            self.blocks.push(block);
        }
    }

    fn heading(&mut self, heading: impl Into<Text>, note: impl Into<Text>) {
        self.push(false, Block::Heading(heading.into(), note.into()));
    }

    fn text(&mut self, text: impl Into<Text>) {
        let text = text.into();
        self.push(text.is_empty(), Block::Paragraph(text));
    }

    fn list(&mut self, tone: Tone, items: impl IntoIterator<Item: Into<Text>>) {
        let items: Vec<Text> = items.into_iter().map(Into::into).collect();
        self.push(items.is_empty(), Block::List(tone, items));
    }

    fn pairs<N: Into<Text>, V: Into<Text>>(&mut self, pairs: impl IntoIterator<Item = (N, V)>) {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        let pairs: Vec<_> = pairs.filter(|(_, value): &(Text, Text)| !value.is_empty()).collect();
        self.push(pairs.is_empty(), Block::Pairs(pairs));
    }

    fn table(&mut self, table: Table) {
        self.push(table.rows.is_empty(), Block::Table(table));
    }

    /// A table with a row or more for each trial: where there is little room, its first ones.
    fn first_rows(&mut self, mut table: Table, full: bool) {
        let more = if full { 0 } else { table.rows.len().saturating_sub(ROWS_MAX) };
        table.rows.truncate(table.rows.len() - more);
        self.table(table);
        self.left_out(more);
    }

    /// Notes the number of rows or items that only the page has, if there are any.
    fn left_out(&mut self, count: usize) {
        if count > 0 {
            self.text(format!("and {} more in the page", number::count(count as u64)));
        }
    }

    fn fold(&mut self, title: impl Into<String>, open: bool, inside: Body<'a>) {
        self.push(inside.blocks.is_empty(), Block::Fold(title.into(), open, inside.blocks));
    }

    fn pictures(&mut self, layout: &'static str, pictures: Vec<Picture<'a>>) {
        self.push(pictures.is_empty(), Block::Pictures(layout, pictures));
    }
}

/// Importance of a section where there is little room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Warnings about the answers.
    Warning,
    /// Answers and what limits them.
    Answer,
    /// Numbers behind the answers.
    Evidence,
    /// Folded away, and left out of a short report.
    Aside,
}

/// A section.
#[derive(Debug)]
pub struct Section<'a> {
    /// Anchor of the section within the page.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) rank: Rank,
    pub(crate) body: Body<'a>,
}

/// Verdict on a run.
#[derive(Debug, Default)]
pub struct Verdict {
    /// `Pass`, `Fail`, `Incomplete`, `Undecided`; empty where nothing was asked.
    pub(crate) word: &'static str,
    pub(crate) tone: Tone,
    /// Sentences before everything else.
    pub(crate) notices: Vec<String>,
    /// Lines above the verdict: the answer to the plan's question, and what limits it.
    pub(crate) question: Vec<Text>,
    /// Answer in the units of the job: its subject, if there are several, and the numbers.
    pub(crate) answer: Vec<(String, Text)>,
    /// Subject of the verdict.
    pub(crate) title: String,
    pub(crate) sentence: String,
    /// Reasons for the verdict.
    pub(crate) reasons: Vec<String>,
    /// First warning, and the number of others. A terminal shows the section with all of them on the same screen.
    pub(crate) warning: Option<String>,
    /// Run that the verdict is about.
    pub(crate) about: String,
}

impl Verdict {
    /// Returns whether the sentence and the reasons stand before the results: of several results, some are good.
    pub(crate) fn is_reason_first(&self) -> bool {
        matches!(self.tone, Tone::Bad) && self.answer.len() > 1
    }
}

/// A report.
#[derive(Debug)]
pub struct Document<'a> {
    pub(crate) verdict: Verdict,
    /// Sections that have contents.
    pub(crate) sections: Vec<Section<'a>>,
}

/// Sign for a missing value.
const NONE: &str = "–";
/// Rows of a table with some for each trial, where there is little room.
const ROWS_MAX: usize = 24;

/// `text`, or a dash.
fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| NONE.to_string())
}
