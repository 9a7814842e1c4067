//! Markdown for pull requests: what fits a comment, with the rest folded away.

use crate::document::{Block, Document, Rank, Text, Tone, Verdict};

/// A document as Markdown.
pub fn document(document: &Document<'_>) -> String {
    let verdict = &document.verdict;
    let icon = match (verdict.word, verdict.tone) {
        ("", _) => "",
        (_, Tone::Good) => "✅",
        (_, Tone::Bad) => "❌",
        ("Incomplete", _) => "⚠️",
        ("Measured", _) => "📏",
        _ => "❔",
    };
    let word = if icon.is_empty() { String::new() } else { format!("{icon} {}: ", verdict.word.to_lowercase()) };
    let mut out = String::new();
    verdict.notices.iter().for_each(|notice| out.push_str(&format!("**{}**\n\n", escaped(notice))));
    for (at, line) in verdict.question.iter().enumerate() {
        let mark = if at == 0 { "**" } else { "" };
        out.push_str(&format!("{mark}{}{mark}\n\n", text(line)));
    }
    out.push_str(&format!("### {word}{}\n\n", escaped(&verdict.title)));
    let mut parts = vec![answers(verdict), reasons(verdict)];
    if verdict.is_reason_first() {
        // Without words between them, two lists are one.
        parts.insert(1, "Results:\n".to_owned());
        parts.reverse();
    }
    parts.retain(|part| !part.is_empty());
    out.push_str(&parts.join("\n"));
    if let Some(warning) = &verdict.warning {
        out.push_str(&format!("\n**Warning**: {}\n", escaped(warning)));
    }
    for section in &document.sections {
        let (title, note) = (escaped(&section.title), text(&section.body.note));
        let head = if section.rank == Rank::Aside {
            format!("<details><summary>{title}</summary>\n\n")
        } else {
            format!("**{title}** ")
        };
        out.push_str(&format!("\n{}\n", (head + &note).trim_end()));
        section.body.blocks.iter().for_each(|one| block(&mut out, one));
        if section.rank == Rank::Aside {
            out.push_str("\n</details>\n");
        }
    }
    if !verdict.about.is_empty() {
        out.push_str(&format!("\n<sub>{}</sub>\n", escaped(&verdict.about)));
    }
    out
}

/// Returns the results, a line each.
fn answers(verdict: &Verdict) -> String {
    let mark = if verdict.answer.len() > 1 { "- " } else { "" };
    let line = |(place, answer): &(String, Text)| {
        let place = if place.is_empty() { String::new() } else { format!("{}: ", escaped(place)) };
        format!("{mark}{place}{}\n", text(answer))
    };
    verdict.answer.iter().map(line).collect()
}

/// Returns the sentence of the verdict, and its further reasons below it.
fn reasons(verdict: &Verdict) -> String {
    let reasons: String = verdict.reasons.iter().map(|reason| format!("- {}\n", escaped(reason))).collect();
    let between = if reasons.is_empty() { "" } else { "\n" };
    format!("{}\n{between}{reasons}", escaped(&verdict.sentence))
}

fn block(out: &mut String, block: &Block<'_>) {
    match block {
        Block::Heading(heading, note) => {
            out.push_str(&format!("\n{}\n", format!("**{}** {}", text(heading), text(note)).trim_end()));
        }
        Block::Paragraph(paragraph) => out.push_str(&format!("\n{}\n", text(paragraph))),
        Block::List(_, items) => {
            out.push('\n');
            items.iter().for_each(|item| out.push_str(&format!("- {}\n", text(item))));
        }
        Block::Pairs(pairs) => {
            out.push('\n');
            pairs.iter().for_each(|(name, value)| out.push_str(&format!("- {}: {}\n", text(name), text(value))));
        }
        Block::Table(table) => {
            let heads: Vec<_> = table.columns.iter().map(|column| escaped(&column.head)).collect();
            let sides = table.columns.iter().map(|column| if column.right { "--:" } else { "---" });
            out.push_str(&format!("\n{}|{}|\n", row(&heads), sides.collect::<Vec<_>>().join("|")));
            for cells in &table.rows {
                out.push_str(&row(&cells.iter().map(|cell| text(&cell.text)).collect::<Vec<_>>()));
            }
        }
        Block::Fold(..) | Block::Code(_) | Block::Pictures(..) | Block::Timeline(_) | Block::Sparks(_) => {}
    }
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Returns a text, with pieces of tone `Bad` in bold.
fn text(text: &Text) -> String {
    let piece = |(tone, piece): &(Tone, String)| match tone {
        Tone::Bad => format!("**{}**", escaped(piece)),
        _ => escaped(piece),
    };
    text.0.iter().map(piece).collect::<String>().trim().to_string()
}

/// Returns a text from outside without effect as markup, mathematics or HTML, and without line breaks.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '@' | '!' => out.extend(['\\', c]),
            // GitHub takes a `$` for mathematics also behind a backslash.
            '$' => out.push_str("<span>$</span>"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_outside_has_no_effect() {
        assert_eq!(escaped("a*b <i>\n"), "a\\*b &lt;i&gt; ");
        assert_eq!(escaped("$1 + $2"), "<span>$</span>1 + <span>$</span>2");
    }
}
