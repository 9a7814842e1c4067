//! Blocks as HTML: the only place, with `esc`, where a text from outside becomes HTML.

use std::fmt;

use plimsoll_analysis::view::{Chart, Plots};

use super::svg;
use crate::document::{Block, Cell, Picture, Table, Text, Tone};

/// A text from outside, escaped for element content and for attributes in double quotes.
pub struct Esc<'a>(pub &'a str);

impl fmt::Display for Esc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => write!(f, "{c}")?,
                // Control characters and non-characters are no HTML; marks that turn the direction of text would deceive.
                c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{fffe}'..='\u{ffff}') => {
                    f.write_str("\u{fffd}")?
                }
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// A sentence from outside, escaped, with code and options as elements that a line does not break.
///
/// Words between backticks are code; without a second backtick the first is an ordinary letter.
pub struct Prose<'a>(pub &'a str);

impl fmt::Display for Prose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((before, (code, behind))) =
            rest.split_once('`').and_then(|(before, behind)| Some((before, behind.split_once('`')?)))
        {
            options(f, before)?;
            write!(f, "<code>{}</code>", Esc(code))?;
            rest = behind;
        }
        options(f, rest)
    }
}

/// Longest option that is not broken: it fits into a narrow page.
const OPTION_BYTES_MAX: usize = 30;

/// Writes `text`, escaped, with each option (`--stores`) in an element of its own.
fn options(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for (at, word) in text.split(' ').enumerate() {
        f.write_str(if at > 0 { " " } else { "" })?;
        let is_option = word.trim_start_matches('(').starts_with("--") && word.len() <= OPTION_BYTES_MAX;
        match is_option {
            true => write!(f, "<span class=\"option\">{}</span>", Esc(word))?,
            false => write!(f, "{}", Esc(word))?,
        }
    }
    Ok(())
}

/// `text`, escaped, in the element that its tone has.
pub fn text(text: &Text) -> String {
    text.0.iter().map(|(tone, piece)| toned(*tone, &Esc(piece))).collect()
}

/// Sentences, escaped as [`Prose`], in the elements that their tones have. Statements and plans of stores are no prose.
pub fn prose(text: &Text) -> String {
    text.0.iter().map(|(tone, piece)| toned(*tone, &Prose(piece))).collect()
}

fn toned(tone: Tone, piece: &dyn fmt::Display) -> String {
    match tone {
        Tone::Plain => piece.to_string(),
        Tone::Strong => format!("<b>{piece}</b>"),
        tone => format!("<span class=\"{}\">{piece}</span>", class(tone)),
    }
}

/// The class of a tone in the page's style.
pub fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain | Tone::Strong => "",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Open => "open",
        Tone::Dim => "dim",
    }
}

/// A list of sentences; nothing without any.
pub fn list<'t>(class: &str, items: impl Iterator<Item = &'t Text>) -> String {
    let items: String = items.map(|item| format!("<li>{}</li>\n", prose(item))).collect();
    if items.is_empty() { items } else { format!("<ul class=\"{class}\">\n{items}</ul>\n") }
}

/// Writes blocks, and keeps the charts whose places it has written.
pub struct Writer<'a> {
    pub out: String,
    /// The charts that the page's script draws, by the number in their places.
    pub charts: Vec<&'a Chart>,
}

impl<'a> Writer<'a> {
    /// Writes `blocks`; headings in them are of `level`.
    pub fn blocks(&mut self, blocks: &[Block<'a>], level: u8) {
        for block in blocks {
            match block {
                Block::Heading(heading, note) => {
                    let note = text(&Tone::Dim.text(note.plain()));
                    self.push(&format!("<h{level}>{} {note}</h{level}>\n", text(heading)));
                }
                Block::Paragraph(paragraph) => self.push(&match paragraph.0.as_slice() {
                    [(Tone::Strong, whole)] => format!("<p class=\"finding\">{}</p>\n", Prose(whole)),
                    [(Tone::Dim, whole)] => format!("<p class=\"note\">{}</p>\n", Prose(whole)),
                    _ => format!("<p>{}</p>\n", prose(paragraph)),
                }),
                Block::List(tone, items) => {
                    let class = match tone {
                        Tone::Bad => "examples",
                        Tone::Open => "warning",
                        Tone::Dim => "left-out",
                        _ => "findings",
                    };
                    self.push(&list(class, items.iter()));
                }
                Block::Pairs(pairs) => {
                    self.push("<dl class=\"pairs\">");
                    for (name, value) in pairs {
                        self.push(&format!("<div><dt>{}</dt><dd>{}</dd></div>", text(name), text(value)));
                    }
                    self.push("</dl>\n");
                }
                Block::Table(of) => self.table(of),
                Block::Fold(title, open, blocks) => {
                    let open = if *open { " open" } else { "" };
                    self.push(&format!("<details{open}><summary>{}</summary>\n", Esc(title)));
                    self.blocks(blocks, level + 1);
                    self.push("</details>\n");
                }
                Block::Code(code) => self.push(&format!("<pre tabindex=\"0\">{}</pre>\n", Esc(code))),
                Block::Pictures(layout, pictures) => {
                    self.push(&format!("<div class=\"{layout}\">"));
                    pictures.iter().for_each(|picture| self.picture(picture));
                    self.push("</div>\n");
                }
                Block::Timeline(plots) => self.timeline(plots),
                Block::Sparks(_) => {}
            }
        }
    }

    fn push(&mut self, html: &str) {
        self.out.push_str(html);
    }

    /// A region that scrolls sideways, with the keyboard too, where the page is narrow.
    fn table(&mut self, table: &Table) {
        let label = Esc(&table.label);
        self.push(&format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{label}\"><table><caption class=\"unseen\">{label}</caption><thead><tr>"
        ));
        for column in &table.columns {
            self.push(&format!("<th scope=\"col\"{}>{}</th>", side(column.right), Esc(&column.head)));
        }
        self.push("</tr></thead><tbody>\n");
        for row in &table.rows {
            self.push("<tr>");
            for (at, (of, column)) in row.iter().zip(&table.columns).enumerate() {
                let (side, cell) = (side(column.right), cell(of));
                self.push(&match at {
                    0 => format!("<th scope=\"row\"{side}>{cell}</th>"),
                    _ => format!("<td{side}>{cell}</td>"),
                });
            }
            self.push("</tr>\n");
        }
        self.push("</tbody></table></div>\n");
    }

    fn picture(&mut self, picture: &Picture<'a>) {
        match picture {
            // Nothing where there is nothing to draw.
            Picture::Chart(chart) if chart.x.is_empty() || chart.lines.is_empty() => {}
            Picture::Chart(chart) => {
                let (id, name) = (self.charts.len(), Esc(&chart.name));
                self.push(&format!("<div class=\"chart\" id=\"chart-{id}\" data-name=\"{name}\"></div>"));
                self.charts.push(chart);
            }
            Picture::Bars(view, sweep) => self.push(&svg::bars(view, sweep)),
            Picture::Boxes(sweep) => self.push(&svg::boxes(sweep)),
        }
    }

    /// Writes the place of the plots. Without JavaScript the page says so; the tables hold the numbers.
    fn timeline(&mut self, plots: &Plots) {
        self.push(
            "<noscript><p class=\"note\">The plots need JavaScript, which is off. \
             All numbers of the run are in the tables.</p></noscript>\n\
             <div id=\"charts\" hidden>\n<div class=\"tools\">\n<label>Operation <select id=\"op\">",
        );
        for (at, op) in plots.ops.iter().enumerate() {
            let name = if at == 0 { "all operations" } else { op.as_str() };
            self.push(&format!("<option value=\"{at}\">{}</option>", Esc(name)));
        }
        self.push(
            "</select></label>\n<label>Show <select id=\"jump\"><option value=\"\">the whole run</option></select></label>\n</div>\n\
             <p id=\"readout\" role=\"status\" aria-live=\"polite\"></p>\n\
             <div id=\"stack\"></div>\n\
             <p class=\"note\">Drag to zoom, double-click to see the whole run. With the keyboard: Tab to a plot, then \
             ← → move the cursor, + − zoom, 0 shows the whole run. On the heat map a drag draws a box, which is compared with \
             the rest of its phases; with the keyboard Shift and ← → ↑ ↓ draw it, and Escape clears it. Shaded: \
             <span class=\"key load\">load</span> <span class=\"key ask\">ask</span> <span class=\"key drive\">drive</span>; \
             hatched: warm-up, which is not counted; dotted: the store ended a checkpoint or other \
             maintenance; <span class=\"key pause\">pause</span>: the machine paused, for the width of the bar at \
             the foot of the plot, its aftermath included; <span class=\"key act\">action</span>: a command for a lab, \
             shaded while it was in progress, or a fault of the plan, shaded until it was healed. A percentile of a second is drawn only with ten samples above it.</p>\n\
             <h3>Percentiles</h3>\n<div id=\"curves\"></div>\n<h3>The machine</h3>\n<div id=\"host\"></div>\n</div>\n",
        );
    }
}

fn side(right: bool) -> &'static str {
    if right { " class=\"n\"" } else { "" }
}

fn cell(cell: &Cell) -> String {
    let mut out =
        if cell.text.plain().contains('\n') { format!("<pre>{}</pre>", text(&cell.text)) } else { text(&cell.text) };
    if let Some(why) = &cell.why {
        out = format!("<span class=\"why\" title=\"{0}\">{out}<span class=\"unseen\"> {0}</span></span>", Esc(why));
    }
    cell.more.iter().for_each(|more| out.push_str(&format!("<br><small>{}</small>", Esc(more))));
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_from_outside_stays_markup() {
        let escaped = |text: &str| super::text(&text.into());
        assert_eq!(
            escaped("</script><b a=\"1\" c='2'>&"),
            "&lt;/script&gt;&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;"
        );
        let prose = |text: &str| super::prose(&text.into());
        assert_eq!(prose("set `a<b`"), "set <code>a&lt;b</code>");
        assert_eq!(prose("one ` only (--stores"), "one ` only <span class=\"option\">(--stores</span>");
        assert_eq!(escaped("`t`.`c`"), "`t`.`c`", "statements keep their letters");
        assert_eq!(escaped("a\u{0}b\u{202e}c\nd"), "a\u{fffd}b\u{fffd}c\nd");
    }
}
