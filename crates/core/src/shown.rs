//! Text of users and servers, made fit for a terminal: without control characters, and shortened; and counts.

use std::borrow::Cow;

/// Longest line, in characters, that is shown whole.
const WHOLE_MAX: usize = 1_000;
/// Characters that are shown of a longer line, at its beginning and at its end.
const HEAD: usize = 240;
const TAIL: usize = 60;

/// Formats a count with all digits: `1,234,567`.
pub fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// Inserts commas between thousands.
pub fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Replaces control characters by U+FFFD: text from outside must not move the cursor, change its colour, or reverse
/// its direction.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_control(c) { '\u{fffd}' } else { c }).collect()
}

fn is_control(c: char) -> bool {
    c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c)
}

/// Returns `text` in full up to 1,000 characters; else its beginning and its end, with the number of characters left
/// out between them.
pub fn short(text: &str) -> Cow<'_, str> {
    // Bytes are at least as many as characters, and are counted already.
    let count = if text.len() <= WHOLE_MAX { 0 } else { text.chars().count() };
    if count <= WHOLE_MAX {
        return Cow::Borrowed(text);
    }
    let place = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(place, _)| place);
    let (head, tail) = (place(HEAD), place(count - TAIL));
    Cow::Owned(format!("{} … ({} characters) … {}", &text[..head], count - HEAD - TAIL, &text[tail..]))
}

/// Cleans and shortens each line of `text`.
pub fn lines<'a>(text: impl Into<Cow<'a, str>>) -> String {
    let text = text.into();
    text.lines().map(|line| short(&clean(line)).into_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_in_the_middle_and_what_is_not_is_whole() {
        let long = "é".repeat(WHOLE_MAX);
        assert_eq!(short(&long), long);
        let longer = format!("begin{}end", "é".repeat(1 << 20));
        let cut = short(&longer);
        assert!(cut.starts_with("beginé") && cut.ends_with("éend") && cut.chars().count() < WHOLE_MAX, "{cut}");
        assert!(cut.contains("… (1048284 characters) …"), "{cut}");
    }

    #[test]
    fn nothing_in_it_drives_a_terminal() {
        assert_eq!(lines("a\x1b[31mb\rc\n\u{202e}d"), "a\u{fffd}[31mb\u{fffd}c\n\u{fffd}d");
    }
}
