//! Escaped text and tables: the only places where a text from outside becomes HTML.

use std::fmt;

/// A text from outside, escaped for element content and for attributes in double quotes.
pub struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => write!(f, "{c}")?,
                // Control characters are no HTML; marks that turn the direction of text would deceive.
                c if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) => f.write_str("\u{fffd}")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// `text`, escaped.
pub fn esc(text: &str) -> String {
    Text(text).to_string()
}

/// A column's head.
pub struct Column {
    head: String,
    number: bool,
}

/// A column of words.
pub fn words(head: &str) -> Column {
    Column { head: esc(head), number: false }
}

/// A column of numbers, set flush right.
pub fn numbers(head: &str) -> Column {
    Column { head: esc(head), number: true }
}

/// A table. Its cells are HTML; the first of each row is the row's head.
pub struct Table {
    label: String,
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table that assistive technology calls `label`.
    pub fn new(label: &str, columns: Vec<Column>) -> Self {
        Table { label: esc(label), columns, rows: Vec::new() }
    }

    /// Adds a row of HTML cells.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table in a region that scrolls sideways, with the keyboard too, where the page is narrow. Nothing without
    /// rows.
    pub fn html(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut out = format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\"><table><caption class=\"unseen\">{0}</caption><thead><tr>",
            self.label
        );
        for column in &self.columns {
            let class = if column.number { " class=\"n\"" } else { "" };
            out.push_str(&format!("<th scope=\"col\"{class}>{}</th>", column.head));
        }
        out.push_str("</tr></thead><tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (at, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                let class = if column.number { " class=\"n\"" } else { "" };
                if at == 0 {
                    out.push_str(&format!("<th scope=\"row\"{class}>{cell}</th>"));
                } else {
                    out.push_str(&format!("<td{class}>{cell}</td>"));
                }
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}

/// A list of names and texts.
pub fn pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::from("<dl class=\"pairs\">");
    for (name, value) in pairs {
        out.push_str(&format!("<div><dt>{}</dt><dd>{}</dd></div>", Text(name), Text(value)));
    }
    out.push_str("</dl>\n");
    out
}

/// A list of sentences; nothing without any.
pub fn list(class: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>", Text(item))).collect();
    format!("<ul class=\"{class}\">{items}</ul>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_stays_markup() {
        assert_eq!(esc("</script><b a=\"1\" c='2'>&"), "&lt;/script&gt;&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
        assert_eq!(esc("a\u{0}b\u{202e}c\nd"), "a\u{fffd}b\u{fffd}c\nd");
    }

    #[test]
    fn a_table_without_rows_is_not_there() {
        assert_eq!(Table::new("x", vec![words("a")]).html(), "");
    }
}
