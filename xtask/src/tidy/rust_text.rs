//! The words and texts of a Rust file, as far as a rule of the house needs to know them.

/// A piece of a Rust file that is no comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'t> {
    /// A name or a keyword.
    Name(&'t str),
    /// Text between the quotes of a literal.
    Text(&'t str),
}

/// The pieces of `text` in order, each with its line and what stands before it. Comments, characters and numbers are left
/// out, and so is everything from the module of tests on, which comes last.
pub fn pieces(text: &str) -> Vec<(usize, &str, Piece<'_>)> {
    let text = production(text);
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (length, piece) = next(rest);
        found.extend(piece.map(|piece| (line, &text[..at], piece)));
        line += rest[..length].matches('\n').count();
        at += length;
    }
    found
}

/// A file without its module of tests.
fn production(text: &str) -> &str {
    let is_tests = |at: &usize| {
        let rest = text[*at..].trim_start_matches("#[cfg(test)]").trim_start();
        rest.starts_with("mod ") && rest.lines().next().is_some_and(|line| line.ends_with('{'))
    };
    let end = text.match_indices("#[cfg(test)]").map(|(at, _)| at).find(is_tests);
    &text[..end.unwrap_or(text.len())]
}

/// Returns the length of the first token of `rest` in bytes, and the piece if it is one of interest.
fn next(rest: &str) -> (usize, Option<Piece<'_>>) {
    let to = |end: &str, from: usize| rest[from..].find(end).map_or(rest.len(), |found| from + found + end.len());
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let first = rest.chars().next().unwrap_or_default();
    if rest.starts_with("//") {
        return (to("\n", 2), None);
    }
    if rest.starts_with("/*") {
        return (to("*/", 2), None);
    }
    // `r"…"`, `br#"…"#`: no escapes.
    let raw = rest.trim_start_matches(['b', 'c']).strip_prefix('r');
    if let Some(behind) = raw.filter(|behind| behind.trim_start_matches('#').starts_with('"')) {
        let hashes = behind.len() - behind.trim_start_matches('#').len();
        let from = rest.len() - behind.len() + hashes + 1;
        let end = to(&format!("\"{}", "#".repeat(hashes)), from);
        return (end, Some(Piece::Text(rest[from..end].trim_end_matches(['"', '#']))));
    }
    if first == '"' {
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let end = end.map_or(rest.len(), |(at, _)| at);
        return ((end + 1).min(rest.len()), Some(Piece::Text(&rest[1..end])));
    }
    if first == '\'' {
        // A character; otherwise a lifetime, whose name follows.
        let mut chars = rest.char_indices().skip(1);
        return match (chars.next(), chars.next()) {
            (Some((_, '\\')), Some((at, c))) => (to("'", at + c.len_utf8()), None),
            (_, Some((at, '\''))) => (at + 1, None),
            _ => (1, None),
        };
    }
    if is_name(first) {
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let is_number = first.is_ascii_digit();
        // The quote of `b"…"` comes next.
        return (end, (!is_number).then_some(Piece::Name(&rest[..end])));
    }
    (first.len_utf8(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_told_from_comments_characters_and_lifetimes() {
        let text = r####"// one "two"
fn three<'four>(five: &'four str) { /* six
*/ let c = ['"', '\'', '\\', 'ä']; let s = "se\"ven"; b"eight"; r#"ni"ne"#; br"ten" 11u8 }
#[cfg(test)]
use twelve;
#[cfg(test)]
mod tests {
    thirteen
"####;
        let found = pieces(text);
        let pieces: Vec<Piece<'_>> = found.iter().map(|(_, _, piece)| *piece).collect();
        use Piece::{Name, Text};
        let rest = ["let", "c", "let", "s"].map(Name);
        let expected = [
            &["fn", "three", "four", "five", "four", "str"].map(Name)[..],
            &rest,
            &[Text("se\\\"ven"), Name("b"), Text("eight"), Text("ni\"ne"), Text("ten")],
            &["cfg", "test", "use", "twelve"].map(Name),
        ];
        assert_eq!(pieces, expected.concat());
        let line_of = |wanted| found.iter().find(|(.., piece)| *piece == wanted).map(|(line, ..)| *line);
        assert_eq!((line_of(Name("three")), line_of(Text("ten"))), (Some(2), Some(3)));
    }
}
