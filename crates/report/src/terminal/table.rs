//! Aligned columns without lines.

use owo_colors::{OwoColorize, Style};
use plimsoll_core::shown::clean;

/// Which side a column's cells stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A cell: its text, and a style that is applied when colours are wanted.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A plain cell.
    pub fn new(text: impl Into<String>) -> Self {
        Cell { text: clean(&text.into()), style: Style::new() }
    }

    /// A cell with a style.
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        Cell { text: clean(&text.into()), style }
    }
}

/// Number of columns that a text takes; every character takes one.
pub fn width_of(text: &str) -> usize {
    text.chars().count()
}

/// A table.
pub struct Table {
    head: Vec<(String, Side)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these column heads.
    pub fn new(head: Vec<(String, Side)>) -> Self {
        Table { head: head.into_iter().map(|(text, side)| (clean(&text), side)).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, indented by two. The last column is wrapped to stay within `width`, where that leaves it room.
    pub fn lines(&self, colour: bool, width: usize) -> Vec<String> {
        let mut widths: Vec<usize> = self.head.iter().map(|(text, _)| width_of(text)).collect();
        for row in &self.rows {
            for (cell, width) in row.iter().zip(widths.iter_mut()) {
                *width = (*width).max(width_of(&cell.text));
            }
        }
        let before_last: usize = 2 + widths.iter().rev().skip(1).map(|width| width + 2).sum::<usize>();
        let last_is_text = self.head.last().is_some_and(|(_, side)| *side == Side::Left);
        if let Some(last) = widths.last_mut().filter(|_| last_is_text) {
            *last = (*last).min(width.saturating_sub(before_last).max(16));
        }
        let head: Vec<Cell> =
            self.head.iter().map(|(text, _)| Cell { text: text.clone(), style: Style::new().dimmed() }).collect();
        let mut lines = Vec::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            self.push_row(row, &widths, colour, &mut lines);
        }
        lines
    }

    fn push_row(&self, row: &[Cell], widths: &[usize], colour: bool, lines: &mut Vec<String>) {
        let wrapped: Vec<Vec<String>> = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(
                |(at, (cell, width))| {
                    if at + 1 == widths.len() { wrap(&cell.text, *width) } else { vec![cell.text.clone()] }
                },
            )
            .collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        for line_at in 0..height {
            let mut line = String::from(" ");
            for (at, cell) in row.iter().enumerate() {
                let text = wrapped.get(at).and_then(|lines| lines.get(line_at)).map_or("", String::as_str);
                let width = widths.get(at).copied().unwrap_or(0);
                let side = self.head.get(at).map_or(Side::Left, |(_, side)| *side);
                let pad = " ".repeat(width.saturating_sub(width_of(text)));
                let shown =
                    if colour && !text.is_empty() { text.style(cell.style).to_string() } else { text.to_string() };
                line.push(' ');
                match side {
                    Side::Left => line.extend([shown.as_str(), pad.as_str()]),
                    Side::Right => line.extend([pad.as_str(), shown.as_str()]),
                }
                line.push(' ');
            }
            lines.push(line.trim_end().to_string());
        }
    }
}

/// Breaks a text into lines of at most `width`, between words; a longer word stands alone.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line_width = lines.last().map_or(0, |line| width_of(line));
        if line_width > 0 && line_width + 1 + width_of(word) > width {
            lines.push(word.to_string());
        } else if let Some(line) = lines.last_mut() {
            if line_width > 0 {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_the_last_one_wraps() {
        let mut table =
            Table::new(vec![("name".into(), Side::Left), ("µs".into(), Side::Right), ("published".into(), Side::Left)]);
        table.row(vec![Cell::new("read"), Cell::new("1.25"), Cell::new("495 s CouchDB; 358 s Riak")]);
        table.row(vec![Cell::new("a longer one"), Cell::new("12"), Cell::new("–")]);
        assert_eq!(
            table.lines(false, 44),
            [
                "  name            µs  published",
                "  read          1.25  495 s CouchDB; 358 s",
                "                      Riak",
                "  a longer one    12  –",
            ]
        );
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(Cell::new("a\u{1b}[31mb\u{202e}\n").text, "a\u{fffd}[31mb\u{fffd}\u{fffd}");
    }
}
