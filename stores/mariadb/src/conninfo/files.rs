//! The option file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use plimsoll_core::files::text_at_most;

use super::PARAMETERS;

/// Most bytes of an option file.
const FILE_MAX: u64 = 1 << 20;

/// Parameter for encryption, and the values that encrypt, and that also verify the server.
const SSL_MODE: &str = "ssl-mode";
const REQUIRED: &str = "REQUIRED";
const VERIFIED: &str = "VERIFY_IDENTITY";

/// Groups of options that are meant for every client.
const GROUPS: [&str; 3] = ["client", "client-server", "client-mariadb"];

/// Returns the known options of a file; none without the file. A file that everybody may write to
/// is not used, as by the servers' own clients: then the reason.
pub(super) fn options(file: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let Ok(metadata) = fs::metadata(file) else { return Ok(Vec::new()) };
    if metadata.mode() & 0o002 != 0 {
        return Err(format!("{} was not used, because everybody may write to it: chmod 600 it", file.display()));
    }
    let text = text_at_most(file, FILE_MAX).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(options_in(&text))
}

/// Returns the password of a file, if there is one.
pub(super) fn password(file: &Path) -> Option<String> {
    let options = fs::metadata(file).ok()?.is_file().then(|| options(file).ok())??;
    options.into_iter().find_map(|(name, value)| (name == "password" && !value.is_empty()).then_some(value))
}

/// A later line wins over an earlier one.
fn options_in(text: &str) -> Vec<(&'static str, String)> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(group) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            inside = GROUPS.contains(&group.trim());
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let (name, value) = (name.trim().replace('_', "-"), unquoted(value.trim()));
        let (name, value) = match ssl_mode(&name, &value) {
            // Verification also encrypts.
            Some(REQUIRED) if found.contains(&(SSL_MODE, VERIFIED.to_owned())) => continue,
            Some(mode) => (SSL_MODE.to_owned(), mode.to_owned()),
            None => (name, value),
        };
        let Some((known, _)) = PARAMETERS.iter().find(|(known, _)| inside && *known == name) else { continue };
        found.retain(|(earlier, _)| earlier != known);
        found.push((known, value));
    }
    found
}

/// Returns the value of `ssl-mode` for which MariaDB's clients have the option `name`.
fn ssl_mode(name: &str, value: &str) -> Option<&'static str> {
    let is_on = match value.to_ascii_lowercase().as_str() {
        "" | "1" | "true" | "on" => true,
        "0" | "false" | "off" => false,
        _ => return None,
    };
    match (name, is_on) {
        ("ssl-verify-server-cert", true) => Some(VERIFIED),
        ("ssl", true) => Some(REQUIRED),
        ("ssl", false) | ("skip-ssl", true) => Some("DISABLED"),
        _ => None,
    }
}

/// A value without its quotes, or without the comment after it, and with its escapes replaced ("Using Option Files").
fn unquoted(value: &str) -> String {
    let value = match value.chars().next() {
        Some(quote @ ('\'' | '"')) if value.len() >= 2 && value.ends_with(quote) => &value[1..value.len() - 1],
        _ => value.split(" #").next().unwrap_or_default().trim_end(),
    };
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(next) = chars.next() {
        if next != '\\' {
            out.push(next);
            continue;
        }
        match chars.next() {
            Some('b') => out.push('\u{8}'),
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('s') => out.push(' '),
            Some('\\') => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_for_clients_is_read() {
        let text = "user=nobody\n[mysqld]\nsocket=/theirs\n# [client]\n[client]\nuser = me\n; port=1\npassword=\"a#b 'c\"\n\
                    socket=/mine # theirs\nssl_mode=DISABLED\nquick\n[mysql]\nuser=other\n[client-mariadb]\nport=77\nport=78\n";
        let expected =
            [("user", "me"), ("password", "a#b 'c"), ("socket", "/mine"), ("ssl-mode", "DISABLED"), ("port", "78")]
                .map(|(name, value)| (name, value.to_owned()));
        assert_eq!(options_in(text), expected);
        for (text, mode) in [
            ("ssl", Some("REQUIRED")),
            ("ssl-verify-server-cert\nssl=1", Some("VERIFY_IDENTITY")),
            ("ssl=on\nssl_verify_server_cert = 1", Some("VERIFY_IDENTITY")),
            ("ssl-verify-server-cert=1\nssl-mode=VERIFY_CA", Some("VERIFY_CA")),
            ("ssl-verify-server-cert=0", None),
            ("skip-ssl", Some("DISABLED")),
        ] {
            let found = options_in(&format!("[client]\n{text}\n"));
            assert_eq!(found, mode.map(|mode| ("ssl-mode", mode.to_owned())).into_iter().collect::<Vec<_>>(), "{text}");
        }
        assert_eq!(unquoted(r"a\\b\sc\x"), "a\\b c\\x");
        assert_eq!(unquoted("'"), "'");
    }
}
