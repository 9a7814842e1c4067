//! Passwords that came in by the command line: taken out of URLs, and out of what others can see of us.

use std::fs;
use std::path::Path;

use crate::error::{CliError, exit};

/// A password. Shows nothing of itself.
#[derive(Clone)]
pub struct Password(pub String);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(…)")
    }
}

/// A URL without its password, and the password.
pub struct SplitUrl {
    /// The URL, safe to show.
    pub url: String,
    /// The password it held, percent-decoded.
    pub password: Option<Password>,
}

/// Takes the password out of `scheme://user:password@host…` and out of `?password=…`.
pub fn split_url(text: &str) -> SplitUrl {
    let mut password = None;
    let mut url = text.to_owned();
    if let Some(range) = userinfo_password(text) {
        password = Some(Password(percent_decode(&text[range.clone()])));
        // The colon before it goes too.
        url.replace_range(range.start - 1..range.end, "");
    }
    if let Some(query) = url.find('?') {
        let (base, rest) = url.split_at(query);
        let mut kept = Vec::new();
        for pair in rest[1..].split('&') {
            match pair.split_once('=') {
                Some(("password", value)) => password = Some(Password(percent_decode(value))),
                _ => kept.push(pair),
            }
        }
        url = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
    }
    SplitUrl { url, password }
}

/// Where the password stands in `scheme://user:password@host`. The last `@` before the path ends it. A
/// password with a bare `/` in it is wrong in a URL, but must not be shown for that.
fn userinfo_password(text: &str) -> Option<std::ops::Range<usize>> {
    let authority_start = text.find("://")? + 3;
    let authority_end =
        text[authority_start..].find(['/', '?', '#']).map_or(text.len(), |offset| authority_start + offset);
    let colon = authority_start + text[authority_start..authority_end].find(':')?;
    let is_port = text[colon + 1..authority_end].bytes().all(|byte| byte.is_ascii_digit());
    let at = match text[authority_start..authority_end].rfind('@') {
        Some(at) => authority_start + at,
        None if is_port => return None,
        None => authority_end + text[authority_end..].rfind('@')?,
    };
    (colon < at).then_some(colon + 1..at)
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match hex {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The first line of a password file.
pub fn read_password_file(path: &Path) -> Result<Password, CliError> {
    let text = fs::read_to_string(path).map_err(|error| {
        CliError::io(format!("password file {}", path.display()), &error)
            .next("give --password-file a readable file whose first line is the password")
    })?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Password(line.to_owned())),
        _ => Err(CliError::new(exit::USAGE, format!("password file {} is empty", path.display()))
            .next("write the password on its first line")),
    }
}

/// Overwrites with `*` every password inside a URL of the command line as the process list shows it.
/// Returns true when there was one.
pub fn scrub_command_line() -> bool {
    let mut found = false;
    for argument in std::env::args() {
        // One argument may hold several URLs, as in `--on a,b`.
        for part in argument.split([',', '=']) {
            let split = split_url(part);
            if split.password.is_some() {
                found = true;
            }
        }
        if found {
            break;
        }
    }
    if found {
        overwrite_argv_passwords();
    }
    found
}

/// The command line as a recording may keep it: passwords inside URLs replaced by `***`.
pub fn shown_command_line() -> Vec<String> {
    std::env::args().map(|argument| argument.split(',').map(masked).collect::<Vec<_>>().join(",")).collect()
}

fn masked(text: &str) -> String {
    let mut shown = text.to_owned();
    if let Some(range) = userinfo_password(text) {
        shown.replace_range(range, "***");
    }
    if let Some(start) = shown.find("password=") {
        let value = start + "password=".len();
        let end = shown[value..].find('&').map_or(shown.len(), |offset| value + offset);
        shown.replace_range(value..end, "***");
    }
    shown
}

/// The kernel shows other users the memory between `arg_start` and `arg_end`; that is where the
/// characters have to go.
fn overwrite_argv_passwords() {
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else { return };
    // The second field may hold blanks and brackets; the last bracket ends it. After it, `arg_start` and
    // `arg_end` are fields 48 and 49 of proc(5), counted from 1.
    let Some((_, rest)) = stat.rsplit_once(')') else { return };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let (Some(start), Some(end)) = (
        fields.get(45).and_then(|field| field.parse::<usize>().ok()),
        fields.get(46).and_then(|field| field.parse::<usize>().ok()),
    ) else {
        return;
    };
    if start == 0 || end <= start || end - start > 4 << 20 {
        return;
    }
    // SAFETY: the kernel says that our own argument strings stand in [start, end); they are writable, live
    // as long as the process, and no other thread runs yet. std keeps no reference into them: it copies.
    let memory = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, end - start) };
    for argument in memory.split_mut(|byte| *byte == 0) {
        let Ok(text) = std::str::from_utf8(argument) else { continue };
        let mut offset = 0;
        let mut ranges = Vec::new();
        for part in text.split(',') {
            if let Some(range) = userinfo_password(part) {
                ranges.push(offset + range.start..offset + range.end);
            }
            if let Some(at) = part.find("password=").filter(|_| part.contains("://")) {
                let value = at + "password=".len();
                let stop = part[value..].find('&').map_or(part.len(), |found| value + found);
                ranges.push(offset + value..offset + stop);
            }
            offset += part.len() + 1;
        }
        for range in ranges {
            argument[range].fill(b'*');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_taken_out_of_a_url() {
        let split = split_url("postgres://me:s3%40cret@db:5432/shop?sslmode=disable");
        assert_eq!(split.url, "postgres://me@db:5432/shop?sslmode=disable");
        assert_eq!(split.password.unwrap().0, "s3@cret");
        let split = split_url("postgres:///shop?host=/run&password=x%20y&user=me");
        assert_eq!(split.url, "postgres:///shop?host=/run&user=me");
        assert_eq!(split.password.unwrap().0, "x y");
        let split = split_url("postgres://me:a/b?c@db/shop");
        assert_eq!((split.url.as_str(), split.password.unwrap().0.as_str()), ("postgres://me@db/shop", "a/b?c"));
        assert!(split_url("postgres://db:5432/shop?user=a@b").password.is_none());
        let split = split_url("postgres://me@[::1]:5432/shop");
        assert_eq!(split.url, "postgres://me@[::1]:5432/shop");
        assert!(split.password.is_none());
    }

    #[test]
    fn a_masked_argument_shows_no_password() {
        assert_eq!(masked("postgres://me:secret@db/shop"), "postgres://me:***@db/shop");
        assert_eq!(masked("postgres:///x?password=secret&user=me"), "postgres:///x?password=***&user=me");
        assert_eq!(masked("sqlite"), "sqlite");
    }
}
