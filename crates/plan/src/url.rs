//! URLs of running stores, and the passwords that must not stay in them.

use std::ops::Range;

/// Takes the password out of a URL: the URL without it, and the password, percent-decoded, if there was one.
///
/// Both `scheme://user:password@host` and `?password=…` are looked at.
pub fn split_password(url: &str) -> (String, Option<String>) {
    let mut kept = url.to_owned();
    let mut password = None;
    for range in password_ranges(url).into_iter().rev() {
        password = Some(percent_decoded(url.get(range.clone()).unwrap_or_default()));
        // The `:` before goes with a password of the authority; an empty query parameter may stay.
        let start = if kept.get(..range.start).is_some_and(|before| before.ends_with(':')) {
            range.start - 1
        } else {
            range.start
        };
        kept.replace_range(start..range.end, "");
    }
    (kept, password)
}

/// The scheme of `text` if it looks like a URL.
pub(crate) fn scheme(text: &str) -> Option<&str> {
    text.split_once("://").map(|(scheme, _)| scheme)
}

/// Host and, if given, port of a URL. Empty where it has none.
pub(crate) fn host_and_port(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let host_end = match address.find(']') {
        Some(bracket) => bracket + 1,
        None => address.find(':').unwrap_or(address.len()),
    };
    let (host, port) = address.split_at(host_end);
    (host, port.strip_prefix(':').unwrap_or(port))
}

/// `text`, which may hold any number of URLs, with `*` for each byte of their passwords, and where they stand.
pub(crate) fn masked(text: &str) -> (String, Vec<Range<usize>>) {
    let ranges = password_ranges(text);
    let mut shown = text.to_owned();
    for range in &ranges {
        shown.replace_range(range.clone(), &"*".repeat(range.len()));
    }
    (shown, ranges)
}

/// Where passwords of URLs stand in `text`, in order, without overlaps. Empty passwords are none.
pub fn password_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.match_indices("://") {
        let start = at + 3;
        if ranges.last().is_some_and(|last| start < last.end) {
            continue;
        }
        let rest = text.get(start..).unwrap_or_default();
        let rest = rest.split(|c: char| c.is_whitespace() || c == '"' || c == '\'').next().unwrap_or_default();
        if let Some(range) = authority_password(rest) {
            ranges.push(start + range.start..start + range.end);
        }
        if let Some(query) = rest.find('?') {
            let after = rest.get(query..).unwrap_or_default();
            if let Some(found) = after.find("password=") {
                let from = query + found + "password=".len();
                let to = rest
                    .get(from..)
                    .and_then(|value| value.find(['&', '#']))
                    .map_or(rest.len(), |length| from + length);
                if from < to && ranges.last().is_none_or(|last| last.end <= start + from) {
                    ranges.push(start + from..start + to);
                }
            }
        }
    }
    ranges
}

/// The password in what follows `://`, relative to it.
fn authority_password(rest: &str) -> Option<Range<usize>> {
    let colon = rest.find(':')?;
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if colon > authority_end {
        return None;
    }
    let authority = rest.get(..authority_end)?;
    let at = match authority.rfind('@') {
        Some(at) => at,
        // A password with an unencoded `/` in it; `host:80/a@b` is none.
        None if !rest.get(colon + 1..authority_end)?.bytes().all(|byte| byte.is_ascii_digit()) => rest.rfind('@')?,
        None => return None,
    };
    (colon + 1 < at).then_some(colon + 1..at)
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| *byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_taken_out() {
        for (url, kept, password) in [
            ("postgres://u:secret@h:5432/db", "postgres://u@h:5432/db", Some("secret")),
            ("postgres://u:p%40ss%zz@h", "postgres://u@h", Some("p@ss%zz")),
            ("postgres://u:a/b@c@h/db", "postgres://u@h/db", Some("a/b@c")),
            ("postgres://h:5432/db?password=x&a=b", "postgres://h:5432/db?password=&a=b", Some("x")),
            ("postgres://u@h:5432/a@b", "postgres://u@h:5432/a@b", None),
            ("http://h:80/a@b", "http://h:80/a@b", None),
            ("postgres://u:@h", "postgres://u:@h", None),
            ("sqlite", "sqlite", None),
        ] {
            assert_eq!(split_password(url), (kept.to_owned(), password.map(str::to_owned)), "{url}");
        }
    }

    #[test]
    fn a_text_is_masked_at_its_length() {
        let (shown, ranges) = masked("a = \"x://u:pä@h\" # y://v:q@h?password=r z://h:1/");
        assert_eq!(shown, "a = \"x://u:***@h\" # y://v:*@h?password=* z://h:1/");
        assert_eq!(ranges.len(), 3);
    }

    #[test]
    fn host_and_port_are_found() {
        assert_eq!(host_and_port("postgres://u@h:5432/db"), ("h", "5432"));
        assert_eq!(host_and_port("x://[::1]:7/"), ("[::1]", "7"));
        assert_eq!(host_and_port("x:///db"), ("", ""));
    }
}
