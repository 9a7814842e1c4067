//! Texts in quotes among the words of a fault, such as commands with blanks.

/// Mistake of a quote in the middle of a text in quotes.
const NO_BLANK: &str = "a blank has to follow its quotes, and a quote inside them is written \\\"";

/// Returns `text` in double quotes, with a backslash before each quote and each backslash in it.
pub fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Splits the text in quotes from the beginning of `words`. Returns it without its quotes, and the rest. In double quotes
/// `\"` and `\\` stand for one character; in single quotes each character stands for itself.
///
/// # Errors
/// The mistake: no quote begins `words`, the quote is not closed, or no blank follows it.
pub fn unquote(words: &str) -> Result<(String, &str), &'static str> {
    let quote = words.chars().next().filter(|c| matches!(c, '"' | '\'')).ok_or("it is not in quotes")?;
    let mut text = String::new();
    let mut chars = words.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            let rest = &words[at + c.len_utf8()..];
            let is_end = rest.is_empty() || rest.starts_with(char::is_whitespace);
            return if is_end { Ok((text, rest)) } else { Err(NO_BLANK) };
        }
        let is_escape = quote == '"' && c == '\\';
        let escaped = chars.next_if(|(_, next)| is_escape && matches!(next, '"' | '\\'));
        text.push(escaped.map_or(c, |(_, next)| next));
    }
    Err("its quotes are not closed")
}

/// Returns the beginning of `text` before the first of `ends` that stands outside of double quotes.
pub fn before<'t>(text: &'t str, ends: &[&str]) -> &'t str {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        if !is_quoted && ends.iter().any(|end| text[at..].starts_with(end)) {
            return &text[..at];
        }
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = is_quoted && c == '\\' && !is_escaped;
    }
    text
}

/// Returns true for a command of a shell with a quote that is not closed. Substitutions, such as `$(…)`, have quotes of
/// their own: a command with one gives false.
pub fn has_open_quote(command: &str) -> bool {
    if ["$(", "${", "$'", "`", "<<"].iter().any(|substitution| command.contains(substitution)) {
        return false;
    }
    let (mut open, mut is_start) = (None, true);
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (open, c) {
            (None | Some('"'), '\\') => {
                chars.next();
            }
            // A comment.
            (None, '#') if is_start => {
                chars.find(|c| *c == '\n');
                continue;
            }
            (None, '"' | '\'') => open = Some(c),
            (Some(quote), c) if c == quote => open = None,
            _ => {}
        }
        is_start = c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')');
    }
    open.is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_are_of_two_kinds() {
        for (words, text, rest) in [
            (r#""ssh db1 true" heal"#, "ssh db1 true", " heal"),
            (r#""say \"a\\b\" \n""#, r#"say "a\b" \n"#, ""),
            (r#"'say "a\b"' at 1s"#, r#"say "a\b""#, " at 1s"),
            (r#""""#, "", ""),
        ] {
            assert_eq!(unquote(words), Ok((text.to_owned(), rest)), "{words}");
        }
        for (words, mistake) in [
            ("ls", "it is not in quotes"),
            ("", "it is not in quotes"),
            (r#""ls"#, "its quotes are not closed"),
            (r#""ls\""#, "its quotes are not closed"),
            (r#""ls"at 1s"#, NO_BLANK),
            (r#""/opt/a"b/server" at 1s"#, NO_BLANK),
        ] {
            assert_eq!(unquote(words), Err(mistake), "{words}");
        }
    }

    #[test]
    fn a_quote_of_a_command_is_closed_as_the_shell_reads_it() {
        for command in [
            "",
            r#"echo 'it'"'"'s'"#,
            r#"/opt/a\"b/server --name 'x"y'"#,
            "echo \"it's\" # that's all",
            "true;# it's\n# that's all",
            "(true)# it's",
            r#"echo "$(echo 'it"s')""#,
            "cat <<END\nit's\nEND",
        ] {
            assert!(!has_open_quote(command), "{command}");
        }
        for command in [r#"/opt/a"b/server"#, "echo it's", r#"echo "a\""#, r"echo 'a\''", "echo a# it's", "true # x\n'"]
        {
            assert!(has_open_quote(command), "{command}");
        }
    }

    #[test]
    fn words_inside_quotes_end_nothing() {
        let text = r#"run "ls at \" when x" heal "echo at" at 10s when"#;
        assert_eq!(before(text, &[" at ", " when "]), r#"run "ls at \" when x" heal "echo at""#);
        assert_eq!(before("kill primary when lag < 1s", &[" at ", " when "]), "kill primary");
        assert_eq!(before("kill primary", &[" at "]), "kill primary");
    }

    proptest! {
        #[test]
        fn a_text_is_read_as_it_was_quoted(text in "[\\PC\"'\\\\ a]{0,40}") {
            let quoted = quote(&text);
            prop_assert_eq!(unquote(&quoted), Ok((text, "")));
            let fault = format!("run {quoted} at 1s");
            prop_assert_eq!(before(&fault, &[" at "]), &fault[..fault.len() - " at 1s".len()]);
        }

        #[test]
        fn any_text_has_a_beginning_and_quotes_or_a_mistake(text in "[\\PC\"'\\\\ a]{0,40}") {
            prop_assert!(text.starts_with(before(&text, &["a", " "])));
            let _ = unquote(&text);
            let _ = has_open_quote(&text);
        }
    }
}
