//! Text for the terminal: aligned, wrapped, and the same without colours.

use owo_colors::{OwoColorize, Style};
use plimsoll_analysis::number;
use plimsoll_core::shown;
use unicode_width::UnicodeWidthStr;

use crate::document::{Block, Column, Document, Rank, Section, Sparks, Table, Text, Tone, Verdict};

/// Most lines of the verdict in a short report, and lines that each section has before any has more.
const VERDICT_LINES_MAX: usize = 20;
const SHARE_LINES: usize = 8;

/// The fewest columns that a text is wrapped to.
const WIDTH_MIN: usize = 16;
/// Characters of a value from nothing to the top of its scale, and how many of them a line over time has.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const SPARK: std::ops::RangeInclusive<usize> = 8..=60;

/// A document as text.
pub fn document(document: &Document<'_>, colour: bool, width: usize) -> String {
    let (verdict, sections) = parts(document, colour, width);
    sections.iter().fold(verdict.out, |all, section| all + "\n" + &section.out)
}

/// The first lines of a document, at most `lines_max` of them, and the titles of sections that are left out or cut. Each
/// section that belongs in a short report has a few lines before any section has more.
pub fn short(document: &Document<'_>, colour: bool, width: usize, lines_max: usize) -> (String, Vec<String>) {
    let (verdict, sections) = parts(document, colour, width);
    let mut out = verdict.cut(VERDICT_LINES_MAX);
    // A blank line stands before each section.
    let lengths: Vec<usize> = sections.iter().map(|section| 1 + section.out.lines().count()).collect();
    let mut by_rank: Vec<usize> = (0..sections.len()).filter(|at| document.sections[*at].rank != Rank::Aside).collect();
    by_rank.sort_by_key(|at| document.sections[*at].rank);
    let shares = shares(&lengths, &by_rank, lines_max.saturating_sub(out.lines().count()));
    let mut left_out = Vec::new();
    for (at, section) in sections.iter().enumerate() {
        if shares[at] > 0 {
            out.push('\n');
            out.push_str(&section.cut(shares[at] - 1));
        }
        if shares[at] < lengths[at] {
            left_out.push(document.sections[at].title.clone());
        }
    }
    (out, left_out)
}

/// Returns the lines that each section is given of `room`: those in `order` a few each, then what they need.
fn shares(lengths: &[usize], order: &[usize], mut room: usize) -> Vec<usize> {
    let mut shares = vec![0; lengths.len()];
    for share_max in [SHARE_LINES, usize::MAX] {
        for at in order {
            let wanted = lengths[*at].min(share_max);
            let more = wanted.saturating_sub(shares[*at]).min(room);
            // A title with a line below it says nothing.
            if shares[*at] + more >= wanted.min(SHARE_LINES) {
                shares[*at] += more;
                room -= more;
            }
        }
    }
    shares
}

/// The verdict and each section, written apart.
fn parts(document: &Document<'_>, colour: bool, width: usize) -> (Writer, Vec<Writer>) {
    let new = || Writer { out: String::new(), starts: Vec::new(), colour, width: width.max(40) };
    let mut verdict = new();
    verdict.verdict(&document.verdict);
    let section = |section: &Section<'_>| {
        let mut writer = new();
        writer.heading(&section.title.as_str().into(), &section.body.note);
        writer.blocks(&section.body.blocks);
        writer
    };
    (verdict, document.sections.iter().map(section).collect())
}

/// A paragraph as text, wrapped at `width` columns. The first line begins with `first`, the others with as many blanks.
pub fn paragraph(first: &str, text: &str, width: usize) -> String {
    let mut writer = Writer { out: String::new(), starts: Vec::new(), colour: false, width };
    writer.paragraph(&first.into(), &text.into());
    writer.out
}

/// Tables as text, each under a title, which may be empty, and what stands behind it. Lines have at most `width` columns
/// where that is possible; `colour` adds ANSI colours.
pub fn tables(tables: &[(&str, &str, Table)], colour: bool, width: usize) -> String {
    let mut writer = Writer { out: String::new(), starts: Vec::new(), colour, width };
    for (title, note, table) in tables {
        if !title.is_empty() {
            writer.heading(&(*title).into(), &(*note).into());
        }
        writer.table(table, "");
    }
    writer.out
}

struct Writer {
    out: String,
    /// Places in `out` where a paragraph or a row begins.
    starts: Vec<usize>,
    colour: bool,
    width: usize,
}

impl Writer {
    fn verdict(&mut self, verdict: &Verdict) {
        for notice in &verdict.notices {
            self.paragraph(&Text::default(), &Tone::Open.text(notice));
        }
        verdict.question.iter().for_each(|line| self.paragraph(&Text::default(), line));
        let word = verdict.word.to_uppercase();
        let mut first = if word.is_empty() { Text::default() } else { verdict.tone.text(format!("{word}  ")) };
        let indent = " ".repeat(width_of(&first));
        if verdict.is_reason_first() {
            self.reasons(&first, &indent, Tone::Strong, verdict);
            first = indent.as_str().into();
        }
        let places = verdict.answer.iter().map(|(place, _)| shown::clean(place).width()).max().unwrap_or(0);
        // Beside a long place the numbers would stand in a narrow column.
        let is_beside = (indent.len() + places) * 2 <= self.width;
        for (place, answer) in &verdict.answer {
            if is_beside {
                let pad = if places > 0 { places + 2 - shown::clean(place).width() } else { 0 };
                self.paragraph(&first.then(Tone::Dim, format!("{place}{}", " ".repeat(pad))), answer);
            } else {
                self.paragraph(&first, &Tone::Dim.text(place));
                self.paragraph(&format!("{indent}  ").into(), answer);
            }
            first = indent.as_str().into();
        }
        if !verdict.is_reason_first() {
            let tone = if verdict.answer.is_empty() { Tone::Strong } else { Tone::Plain };
            self.reasons(&first, &indent, tone, verdict);
        }
        let about = if verdict.about.is_empty() { String::new() } else { format!(" · {}", verdict.about) };
        self.paragraph(&indent.into(), &Tone::Dim.text(format!("{}{about}", verdict.title)));
    }

    /// Writes the sentence of the verdict, and its further reasons below it.
    fn reasons(&mut self, first: &Text, indent: &str, tone: Tone, verdict: &Verdict) {
        self.paragraph(first, &tone.text(&verdict.sentence));
        for reason in &verdict.reasons {
            self.paragraph(&format!("{indent}- ").into(), &reason.into());
        }
    }

    /// Returns at most `lines_max` lines, whole paragraphs and rows, and how many lines are left out.
    fn cut(&self, lines_max: usize) -> String {
        let all = self.out.lines().count();
        if all <= lines_max {
            return self.out.clone();
        }
        let lines_to = |end: &usize| self.out[..*end].lines().count();
        let end = self.starts.iter().rfind(|end| lines_to(end) < lines_max).copied().unwrap_or(0);
        format!(
            "{}  … {}\n",
            &self.out[..end],
            number::plural((all - lines_to(&end)) as u64, "more line", "more lines")
        )
    }

    fn heading(&mut self, heading: &Text, note: &Text) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.paragraph(&Tone::Strong.text(heading.plain()).then(Tone::Plain, "  "), &Tone::Dim.text(note.plain()));
    }

    fn blocks(&mut self, blocks: &[Block<'_>]) {
        for block in blocks {
            match block {
                Block::Heading(heading, note) => self.heading(heading, note),
                Block::Paragraph(text) => self.paragraph(&"  ".into(), text),
                Block::List(tone, items) => {
                    let mark = match tone {
                        Tone::Bad => "!",
                        Tone::Open => "?",
                        _ => "-",
                    };
                    let first = tone.text(format!("  {mark} "));
                    items.iter().for_each(|item| self.paragraph(&first, item));
                }
                Block::Pairs(pairs) => {
                    let rows = pairs.iter().map(|(name, value)| vec![name, value]).collect();
                    self.rows(rows, &[false, false]);
                }
                Block::Table(table) => self.table(table, " or on the page"),
                Block::Sparks(sparks) => self.sparks(sparks),
                Block::Fold(..) | Block::Code(_) | Block::Pictures(..) | Block::Timeline(_) => {}
            }
        }
    }

    /// A heading, and a line for each row: its name, its values over time, what is said of it where there is room.
    fn sparks(&mut self, sparks: &Sparks<'_>) {
        self.paragraph(&"  ".into(), &sparks.head);
        let widest = |of: fn(&str, &str) -> usize| {
            sparks.rows.iter().map(|(name, .., said)| of(&shown::clean(name), said)).max().unwrap_or(0)
        };
        let (names, said) = (widest(|name, _| name.width()), widest(|_, said| said.width()));
        let room = self.width.saturating_sub(4 + names + 2);
        let has_room = room >= said + 2 + SPARK.start();
        let room = if has_room { room - said - 2 } else { room };
        let width = room.clamp(*SPARK.start(), *SPARK.end());
        for (name, t_s, values, said) in &sparks.rows {
            let name = shown::clean(name);
            let pad = " ".repeat(names - name.width());
            let line = spark(t_s, values, sparks.span_s, sparks.top, width);
            let text = Text::from(format!("    {name}{pad}  {line}"));
            self.starts.push(self.out.len());
            self.line(&if has_room { text.then(Tone::Dim, format!("  {said}")) } else { text });
        }
        if let Some((_, t_s, ..)) = sparks.rows.first().filter(|_| !sparks.acts_s.is_empty()) {
            let marks = marks(t_s, &sparks.acts_s, sparks.span_s, width);
            self.line(&Tone::Dim.text(format!("    {}  {marks}", " ".repeat(names))));
        }
    }

    /// A table without the columns for which there is no room, and a line that names them. They are also `elsewhere`.
    fn table(&mut self, table: &Table, elsewhere: &str) {
        let heads: Vec<Text> = table.columns.iter().map(|column| Tone::Dim.text(&column.head)).collect();
        let mut rows: Vec<Vec<&Text>> = Vec::new();
        if heads.iter().any(|head| !head.is_empty()) {
            rows.push(heads.iter().collect());
        }
        rows.extend(table.rows.iter().map(|row| row.iter().map(|cell| &cell.text).collect()));
        let mut right: Vec<bool> = table.columns.iter().map(|column| column.right).collect();
        let mut columns: Vec<&Column> = table.columns.iter().collect();
        let needed = least_width(&rows, &right);
        while least_width(&rows, &right) > self.width {
            let ranks = columns.iter().enumerate().filter(|(_, column)| column.spare > 0);
            let Some((at, _)) = ranks.max_by_key(|(_, column)| column.spare) else { break };
            columns.remove(at);
            right.remove(at);
            for row in &mut rows {
                row.remove(at);
            }
        }
        let is_left_out = |column: &&Column| !columns.iter().any(|shown| std::ptr::eq(*shown, *column));
        let left_out: Vec<&str> = table.columns.iter().filter(is_left_out).map(|column| &*column.head).collect();
        self.rows(rows, &right);
        if !left_out.is_empty() {
            let count = number::plural(left_out.len() as u64, "more column", "more columns");
            let text = format!("{count} with COLUMNS={needed}{elsewhere}: {}", left_out.join(", "));
            self.paragraph(&"  ".into(), &Tone::Dim.text(text));
        }
    }

    /// Aligned rows. A last column of words is wrapped.
    fn rows(&mut self, rows: Vec<Vec<&Text>>, right: &[bool]) {
        let rows: Vec<Vec<Text>> = rows.into_iter().map(|row| row.into_iter().map(cleaned).collect()).collect();
        let mut widths = vec![0; right.len()];
        for row in &rows {
            for (cell, width) in row.iter().zip(&mut widths) {
                *width = width_of(cell).max(*width);
            }
        }
        for row in rows {
            let (mut first, mut last) = (Text::default(), Text::default());
            for (at, (cell, (width, right))) in row.into_iter().zip(widths.iter().zip(right)).enumerate() {
                let pad = " ".repeat(width - width_of(&cell));
                let before = if *right { format!("  {pad}") } else { "  ".to_string() };
                first = first.then(Tone::Plain, before);
                if at + 1 == widths.len() && !right {
                    last = cell;
                } else {
                    first.0.extend(cell.0);
                    first = first.then(Tone::Plain, if *right { "" } else { &pad });
                }
            }
            self.paragraph(&first, &last);
        }
    }

    /// A paragraph, wrapped; the first line begins with `first`, the others with as many blanks. Those of a text that is
    /// indented stand two columns further in than its first.
    fn paragraph(&mut self, first: &Text, text: &Text) {
        self.starts.push(self.out.len());
        let (mut first, mut text) = (cleaned(first), cleaned(text));
        let mut indent = width_of(&first);
        if let Some((_, piece)) = text.0.first_mut().filter(|(_, piece)| piece.starts_with(' ')) {
            let blanks = piece.len() - piece.trim_start_matches(' ').len();
            first = first.then(Tone::Plain, " ".repeat(blanks));
            piece.drain(..blanks);
            indent += blanks + 2;
        }
        for mut line in wrap(&text, self.width.saturating_sub(indent).max(WIDTH_MIN)) {
            first.0.append(&mut line.0);
            self.line(&first);
            first = " ".repeat(indent).into();
        }
    }

    /// A line, without blanks at its end.
    fn line(&mut self, text: &Text) {
        for (tone, piece) in &text.0 {
            match style(*tone).filter(|_| self.colour) {
                Some(style) => self.out.push_str(&piece.style(style).to_string()),
                None => self.out.push_str(piece),
            }
        }
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.out.push('\n');
    }
}

/// Draws the readings in the span of time with at most `width` characters, each the mean of as many readings; a blank
/// without a reading.
fn spark(t_s: &[f64], values: &[Option<f64>], span_s: (f64, f64), top: f64, width: usize) -> String {
    let is_inside = |at_s: f64| at_s > span_s.0 && at_s <= span_s.1;
    let inside = t_s.iter().zip(values).filter(|(at_s, _)| is_inside(**at_s));
    let read: Vec<Option<f64>> = inside.map(|(_, value)| *value).collect();
    let level = |mean: f64| ((mean / top * (LEVELS.len() - 1) as f64).round() as usize).min(LEVELS.len() - 1);
    let drawn = read.chunks(read.len().div_ceil(width).max(1)).map(|part| {
        let (sum, count) = part.iter().flatten().fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
        if count == 0 { ' ' } else { LEVELS[level(sum / f64::from(count))] }
    });
    drawn.collect()
}

/// Marks times below the line that [`spark`] draws of readings at `t_s`. A reading is of the time before it.
fn marks(t_s: &[f64], marked_s: &[f64], span_s: (f64, f64), width: usize) -> String {
    let inside: Vec<f64> = t_s.iter().copied().filter(|at_s| *at_s > span_s.0 && *at_s <= span_s.1).collect();
    let mut before_s = span_s.0;
    let drawn = inside.chunks(inside.len().div_ceil(width).max(1)).map(|part| {
        let until_s = part.last().copied().unwrap_or(before_s);
        let is_marked = marked_s.iter().any(|at_s| *at_s > before_s && *at_s <= until_s);
        before_s = until_s;
        if is_marked { '▲' } else { ' ' }
    });
    drawn.collect::<String>().trim_end().to_owned()
}

fn style(tone: Tone) -> Option<Style> {
    match tone {
        Tone::Plain => None,
        Tone::Strong => Some(Style::new().bold()),
        Tone::Good => Some(Style::new().green()),
        Tone::Bad => Some(Style::new().red().bold()),
        Tone::Open => Some(Style::new().yellow()),
        Tone::Dim => Some(Style::new().dimmed()),
    }
}

/// Removes control characters for a terminal.
fn cleaned(text: &Text) -> Text {
    Text(text.0.iter().map(|(tone, piece)| (*tone, shown::clean(piece))).collect())
}

/// Columns of the terminal that a table takes at least. A last column of words wraps.
fn least_width(rows: &[Vec<&Text>], right: &[bool]) -> usize {
    let fixed = right.len() - usize::from(right.last() == Some(&false));
    let widest = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| width_of(cell)).max().unwrap_or(0);
    (0..fixed).map(|at| widest(at) + 2).sum()
}

/// Columns of the terminal that a text takes.
fn width_of(text: &Text) -> usize {
    text.0.iter().map(|(_, piece)| piece.width()).sum()
}

/// Breaks a text into lines of at most `width`, between words; a longer word stands alone.
fn wrap(text: &Text, width: usize) -> Vec<Text> {
    let (mut lines, mut line, mut taken) = (Vec::new(), Text::default(), 0);
    for (tone, piece) in &text.0 {
        for (at, word) in piece.split(' ').enumerate() {
            // The first word of a piece goes on where the piece before it ended.
            if at > 0 {
                if taken > 0 && taken + 1 + word.width() > width {
                    lines.push(std::mem::take(&mut line));
                    taken = 0;
                } else {
                    line = line.then(*tone, " ");
                    taken += 1;
                }
            }
            line = line.then(*tone, word);
            taken += word.width();
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;
    use crate::document::{numbers, words};

    #[test]
    fn columns_align_and_the_last_one_wraps() {
        let mut of = Table::new("", vec![words("name"), numbers("µs"), words("published")]);
        of.row(cells!["read", "1.25", Text::from("495 s CouchDB").then(Tone::Dim, "; 358 s Riak")]);
        of.row(cells!["a longer one", "12", "–"]);
        of.row(cells!["数据库", "3", ""]);
        assert_eq!(
            tables(&[("", "", of)], false, 44).lines().collect::<Vec<_>>(),
            [
                "  name            µs  published",
                "  read          1.25  495 s CouchDB; 358 s",
                "                      Riak",
                "  a longer one    12  –",
                "  数据库           3",
            ]
        );
    }

    #[test]
    fn columns_without_room_are_named_with_the_width_that_shows_them() {
        let columns = vec![words("name"), numbers("took").spare(2), numbers("answers"), numbers("healed").spare(1)];
        let mut of = Table::new("", columns);
        of.row(cells!["kill of node 1, the primary", "5.00 ms", "1,000", "1.30 s"]);
        let written = |width: usize| {
            let mut writer = Writer { out: String::new(), starts: Vec::new(), colour: false, width };
            writer.table(&of, " or on the page");
            writer.out
        };
        let narrow = written(40);
        let named = "2 more columns with COLUMNS=55 or on the page: took, healed";
        assert!(narrow.split_whitespace().collect::<Vec<_>>().join(" ").ends_with(named), "{narrow}");
        let wide = written(55);
        assert!(wide.contains("healed") && wide.lines().count() == 2, "{wide}");
    }

    #[test]
    fn numbers_stand_beside_a_short_place_and_below_a_long_one() {
        let written = |place: &str| {
            let answer = vec![(place.to_owned(), "9 ops/s · p50 1 ms".into())];
            let mut writer = Writer { out: String::new(), starts: Vec::new(), colour: false, width: 50 };
            writer.verdict(&Verdict { word: "pass", answer, ..Verdict::default() });
            writer.out.lines().take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(written("one, 8 clients")[0], "PASS  one, 8 clients  9 ops/s · p50 1 ms");
        let long = ["PASS  two halves, 8 clients, durable", "        9 ops/s · p50 1 ms"];
        assert_eq!(written("two halves, 8 clients, durable"), long);
    }

    #[test]
    fn an_indented_text_wraps_further_in() {
        let mut of = Table::new("", vec![words(""), words("")]);
        of.row(cells!["kv", "  records = 100 (1 to 1000): how many values are loaded"]);
        let lines = ["  kv    records = 100 (1 to 1000): how", "          many values are loaded"];
        assert_eq!(tables(&[("", "", of)], false, 40).lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn lines_are_shared_by_rank_and_no_section_has_a_title_alone() {
        // Of 30 lines: the first two in order have eight each, the third too; what is left goes to the first.
        assert_eq!(shares(&[20, 5, 12], &[0, 1, 2], 30), [17, 5, 8]);
        assert_eq!(shares(&[20, 5, 12], &[2, 1, 0], 30), [13, 5, 12]);
        assert_eq!(shares(&[20, 5], &[0], 30), [20, 0]);
        assert_eq!(shares(&[20, 20], &[0, 1], 10), [10, 0]);
    }

    #[test]
    fn what_is_cut_ends_with_a_whole_paragraph_and_the_number_of_lines_left_out() {
        let mut of = Table::new("", vec![words(""), words("")]);
        of.row(cells!["a", "one two three four five six seven eight nine ten eleven twelve"]);
        of.row(cells!["b", "one two three four five six seven eight nine ten eleven twelve"]);
        let mut writer = Writer { out: String::new(), starts: Vec::new(), colour: false, width: 40 };
        writer.table(&of, "");
        assert_eq!(writer.out.lines().count(), 4);
        assert_eq!(writer.cut(4), writer.out);
        let cut = writer.cut(3);
        assert!(cut.lines().count() == 3 && cut.ends_with("  … 2 more lines\n"), "{cut}");
        assert_eq!(writer.cut(2), "  … 4 more lines\n");
    }

    #[test]
    fn values_over_time_are_characters_of_one_scale() {
        let t_s = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let values = [Some(0.0), Some(7.0), None, Some(3.0), Some(14.0), Some(14.0)];
        assert_eq!(spark(&t_s, &values, (0.0, 6.0), 14.0, 9), "▁▅ ▃██");
        assert_eq!(spark(&t_s, &values, (0.0, 6.0), 14.0, 3), "▃▃█");
        assert_eq!(spark(&t_s, &values, (0.0, 6.0), 14.0, 4), "▃▃█");
        assert_eq!(spark(&t_s, &values, (4.0, 6.0), 28.0, 2), "▅▅");
        assert_eq!(marks(&t_s, &[1.5, 2.0, 4.1], (0.0, 6.0), 9), " ▲  ▲");
        assert_eq!(marks(&t_s, &[1.5, 2.0, 4.1], (0.0, 6.0), 3), "▲ ▲");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut of = Table::new("", vec![words("")]);
        of.row(cells!["a\u{1b}[31mb\u{202e}\n"]);
        assert_eq!(tables(&[("", "", of)], false, 40), "  a\u{fffd}[31mb\u{fffd}\u{fffd}\n");
    }
}
