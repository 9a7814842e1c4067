//! URLs of attached stores, and the passwords and tokens that must be removed from them.

use std::borrow::Cow;
use std::ops::Range;

use plimsoll_core::http::{is_secret, quoted};
use plimsoll_core::shown::clean;
use plimsoll_core::{Catalogue, Interface, StoreSpec};

/// Schemes of URLs in which a user without a password is a token.
const OF_TOKENS: [&str; 2] = ["nats", "natss"];

/// Removes the secret from a URL. Returns the rest and the password, percent-decoded, if there was one.
///
/// Finds passwords in `scheme://user:password@host`, in `?password=…`, in `scheme://host=… password=…`, and in a
/// mistyped `user:password@host`. Also removes a token, which is a user without a password; it is not returned. Of a URL
/// in which several hosts have a user each nothing is returned: the rest is refused by every store.
pub fn split_password(url: &str) -> (String, Option<String>) {
    let mut kept = url.to_owned();
    let mut password = None;
    let Some((scheme, rest)) = url.split_once("://") else {
        if let Some((colon, at)) = url.find(':').zip(url.rfind('@')).filter(|(colon, at)| colon + 1 < *at) {
            kept.replace_range(colon..at, "");
        }
        return (kept, None);
    };
    if words(scheme, rest).is_some() {
        let start = scheme.len() + 3;
        for range in word_passwords(url.get(start..).unwrap_or_default()).into_iter().rev() {
            let range = start + range.start..start + range.end;
            password = Some(unescaped(url.get(range.clone()).unwrap_or_default()));
            kept.replace_range(range, "''");
        }
        return (kept, password);
    }
    for range in ranges(url, true, is_password).into_iter().rev() {
        if is_before_second_host(url.get(scheme.len() + 3..range.end).unwrap_or_default()) {
            // None of the hosts before the last `@` may be lost: two of them make the store refuse the URL.
            kept.replace_range(range, "@,");
            continue;
        }
        let is_value = kept.get(..range.start).is_some_and(|before| before.ends_with([':', '=']));
        if !is_value {
            // The token, with the `@` after it.
            kept.replace_range(range.start..=range.end, "");
            continue;
        }
        password = Some(percent_decoded(url.get(range.clone()).unwrap_or_default()));
        // The `:` before a password of the authority is removed too; an empty query parameter may stay.
        let start = if kept.get(..range.start).is_some_and(|before| before.ends_with(':')) {
            range.start - 1
        } else {
            range.start
        };
        kept.replace_range(start..range.end, "");
    }
    (kept, password)
}

/// True if the text between `://` and the last `@` of an authority has a host of its own, as `u:p@h:1,v:p` has.
fn is_before_second_host(text: &str) -> bool {
    !text.contains('?') && text.split_once('@').is_some_and(|(_, after)| after.contains(','))
}

/// Returns true if the password at `range` of `text` spans hosts with a user each: `p@h:1,v:p` of `u:p@h:1,v:p@i:2`.
pub(crate) fn is_of_several_hosts(text: &str, range: &Range<usize>) -> bool {
    let before = text.get(..range.start).and_then(|before| before.rfind("://"));
    let authority = before.and_then(|at| text.get(at + 3..range.end));
    authority.is_some_and(is_before_second_host)
}

/// The scheme of `text` if it looks like a URL.
pub(crate) fn scheme(text: &str) -> Option<&str> {
    text.split_once("://").map(|(scheme, _)| scheme)
}

/// Host and, if given, port of a URL. Empty if it has none.
pub(crate) fn host_and_port(url: &str) -> (&str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if words(scheme, rest).is_some() {
        return ("", "");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let host_end = match address.find(']') {
        Some(bracket) => bracket + 1,
        // The first of several hosts.
        None => address.find([':', ',']).unwrap_or(address.len()),
    };
    let (host, port) = address.split_at(host_end);
    (host, port.strip_prefix(':').map_or("", |port| port.split(',').next().unwrap_or_default()))
}

/// Name of an attached store: its host, preceded by the database if it `has_databases`, as in `shop@db.example`; for
/// a socket, the database alone. `None` if the URL names neither.
pub(crate) fn place(url: &str, has_databases: bool) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if scheme.ends_with("+unix") || words(scheme, rest).is_some() {
        return None;
    }
    let before = rest.split('?').next().unwrap_or_default();
    let path = before.split_once('/').map_or("", |(_, path)| path);
    let database = percent_decoded(path.split('/').next().unwrap_or_default());
    let host = Some(percent_decoded(host_and_port(url).0)).filter(|host| !host.is_empty() && !host.starts_with('/'));
    let database = Some(database).filter(|database| has_databases && !database.is_empty());
    let name = match (database, host) {
        (Some(database), Some(host)) => format!("{database}@{host}"),
        (database, host) => database.or(host)?,
    };
    Some(clean(&name))
}

/// Masks the passwords of all URLs in `text` with `*` for each byte; also returns their locations.
pub(crate) fn masked(text: &str) -> (String, Vec<Range<usize>>) {
    let ranges = password_ranges(text);
    let mut shown = text.to_owned();
    for range in &ranges {
        shown.replace_range(range.clone(), &"*".repeat(range.len()));
    }
    (shown, ranges)
}

/// Byte ranges of the passwords and tokens of URLs in `text`, in order and without overlaps. Empty ones do not count.
pub fn password_ranges(text: &str) -> Vec<Range<usize>> {
    ranges(text, is_value(text), is_password)
}

/// True if `text` is a URL, or an option with one, in which a blank, a quote or a control character hides where a
/// password ends.
pub fn is_unclear(text: &str) -> bool {
    is_value(text) && ranges(text, true, is_hidden) != ranges(text, false, is_hidden)
}

/// True if `text` is a URL, a list that begins with names or URLs, or an option with one: all of it belongs to URLs.
fn is_value(text: &str) -> bool {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+,=-".contains(&byte);
    text.split_once("://").is_some_and(|(before, _)| before.bytes().all(belongs))
}

/// True if the parameter `key` of a URL, as written, has a password.
fn is_password(key: &str) -> bool {
    percent_decoded(key).ends_with("password")
}

/// True if the parameter `key` of a URL, as written, has a secret. Unencoded keys of requests are left to
/// [`plimsoll_core::http`].
fn is_hidden(key: &str) -> bool {
    let name = percent_decoded(key);
    // What PostgreSQL's sessions are to set may be anything.
    is_password(key) || name == "options" || (name != key && is_secret(&name))
}

/// Byte ranges of the passwords of URLs in `text`, and of the parameters for which `is_hidden`. Without `is_whole`,
/// blanks and quotes end a URL.
fn ranges(text: &str, is_whole: bool, is_hidden: fn(&str) -> bool) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.match_indices("://") {
        let start = at + 3;
        if ranges.last().is_some_and(|last| start < last.end) {
            continue;
        }
        let (before, rest) = (text.get(..at).unwrap_or_default(), text.get(start..).unwrap_or_default());
        let words = words(before, rest);
        let end = if is_whole { rest.len() } else { words.unwrap_or_else(|| url_end(before, rest)) };
        let rest = rest.get(..end).unwrap_or_default();
        let found = match words {
            Some(_) => word_passwords(rest),
            None => of_url(last_scheme(before), rest, is_hidden),
        };
        ranges.extend(found.into_iter().map(|range| start + range.start..start + range.end));
    }
    ranges
}

/// Byte ranges of the secrets in the text after `://`, relative to it.
fn of_url(scheme: &str, rest: &str, is_hidden: fn(&str) -> bool) -> Vec<Range<usize>> {
    let mut found: Vec<_> = authority_password(rest).or_else(|| token(scheme, rest)).into_iter().collect();
    let mut at = rest.find('?').map_or(rest.len(), |query| query + 1);
    for pair in rest.get(at..).unwrap_or_default().split(['&', '#']) {
        let end = at + pair.len();
        if let Some((key, value)) = pair.split_once('=').filter(|(key, value)| !value.is_empty() && is_hidden(key))
            && found.last().is_none_or(|last| last.end <= end - value.len())
        {
            found.push(at + key.len() + 1..end);
        }
        at = end + 1;
    }
    found
}

/// Length of the URL in `rest`, whose scheme ends `before`: up to the quote that closes its string, else to the next
/// quote or blank.
fn url_end(before: &str, rest: &str) -> usize {
    let outside = before.strip_suffix(last_scheme(before)).unwrap_or_default();
    if let Some(quote) = outside.chars().next_back().filter(|c| matches!(c, '"' | '\'' | '`')) {
        let unquoted = outside.strip_suffix(quote).unwrap_or_default();
        let escapes = unquoted.len() - unquoted.trim_end_matches('\\').len();
        return quoted(rest.lines().next().unwrap_or_default(), quote, escapes);
    }
    // A DN may contain blanks. Masking too much is a lesser evil than showing a password.
    let blanks_belong = is_directory(before);
    let ends = |c: char| matches!(c, '"' | '\'' | '\n') || (c.is_whitespace() && !blanks_belong);
    before_escape(rest.find(ends).map_or(rest, |end| rest.get(..end).unwrap_or_default())).len()
}

/// Returns the text before a quote without the backslashes that escape it: `\"` ends a text in a string.
fn before_escape(text: &str) -> &str {
    text.trim_end_matches('\\')
}

/// Byte ranges of secrets in `text`, in order and without overlaps: passwords of URLs, and those of HTTP requests.
pub fn secret_ranges(text: &str) -> Vec<Range<usize>> {
    let mut all = ranges(text, is_value(text), is_hidden);
    all.extend(plimsoll_core::http::secret_ranges(text));
    all.sort_by_key(|range| range.start);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for range in all {
        match ranges.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => ranges.push(range),
        }
    }
    ranges
}

/// Returns `text` with its secrets replaced by `***`.
pub fn without_secrets(text: &str) -> String {
    let mut shown = text.to_owned();
    for range in secret_ranges(text).into_iter().rev() {
        shown.replace_range(range, "***");
    }
    shown
}

/// Alternatives for the password that begins at byte `at` of `text`, as the end of a sentence.
pub fn password_places(catalogue: &Catalogue, text: &str, at: usize) -> &'static str {
    let before = text.get(..at).and_then(|before| before.rsplit_once("://")).map_or("", |(before, _)| before);
    catalogue
        .store_for_scheme(last_scheme(before))
        .map_or(StoreSpec::PLAIN.password_places, |kind| kind.spec().password_places)
}

/// End of a key=value string after `://`: a plan's closing quote or the end of the line. `None` if there is no such
/// string. `before` ends with the scheme: the users of a directory are DNs, so `ldap://cn=admin,dc=example@host` is a
/// URL.
fn words(before: &str, rest: &str) -> Option<usize> {
    if is_directory(before) {
        return None;
    }
    let key_end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_'))?;
    let is_words = key_end > 0 && rest.get(key_end..)?.trim_start().starts_with('=');
    is_words.then(|| before_escape(rest.split(['"', '\n']).next().unwrap_or_default()).len())
}

/// True if `before` ends with the scheme of a directory: `ldap`, with or without a further letter.
fn is_directory(before: &str) -> bool {
    last_scheme(before).starts_with(Interface::Ldap.name())
}

/// The scheme at the end of `before`.
fn last_scheme(before: &str) -> &str {
    before.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '+')).next().unwrap_or_default()
}

/// Byte ranges of the values of `password` in a key=value string, quotes included. Empty values and values with
/// blanks are in single quotes; a backslash escapes.
fn word_passwords(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(equals) = text.get(at..).and_then(|rest| rest.find('=')).map(|found| at + found) {
        let key = text.get(at..equals).unwrap_or_default().trim();
        let after = text.get(equals + 1..).unwrap_or_default();
        let start = equals + 1 + (after.len() - after.trim_start().len());
        let value = text.get(start..).unwrap_or_default();
        let quoted = value.starts_with('\'');
        let mut escaped = false;
        let end = value.char_indices().skip(usize::from(quoted)).find_map(|(at, c)| match c {
            _ if escaped => {
                escaped = false;
                None
            }
            '\\' => {
                escaped = true;
                None
            }
            '\'' if quoted => Some(at + 1),
            c if !quoted && c.is_whitespace() => Some(at),
            _ => None,
        });
        at = start + end.unwrap_or(value.len());
        // The last word, in case of other words without a value before it.
        if key.rsplit(char::is_whitespace).next() == Some("password") && start < at {
            ranges.push(start..at);
        }
    }
    ranges
}

/// The value of a word, without its quotes and backslashes.
fn unescaped(word: &str) -> String {
    let inner = word.strip_prefix('\'').map_or(word, |rest| rest.strip_suffix('\'').unwrap_or(rest));
    let mut value = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        value.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    value
}

/// The password in the text after `://`, relative to it.
fn authority_password(rest: &str) -> Option<Range<usize>> {
    let colon = rest.find(':')?;
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if colon > authority_end {
        return None;
    }
    let authority = rest.get(..authority_end)?;
    let at = match authority.rfind('@') {
        Some(at) => at,
        // A password that contains an unencoded `/`; `host:80/a@b` contains none.
        None if !rest.get(colon + 1..authority_end)?.bytes().all(|byte| byte.is_ascii_digit()) => rest.rfind('@')?,
        None => return None,
    };
    (colon + 1 < at).then_some(colon + 1..at)
}

/// The token in the text after `://`, relative to it.
fn token(scheme: &str, rest: &str) -> Option<Range<usize>> {
    let authority = rest.split(['/', '?', '#']).next()?;
    let of_slash = || rest.rfind('@').filter(|_| !rest.contains(':'));
    let at = authority.rfind('@').or_else(of_slash).filter(|_| OF_TOKENS.contains(&scheme))?;
    (at > 0 && !rest.get(..at)?.contains(':')).then_some(0..at)
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Cow::into_owned)
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
            ("ldap://cn=J S,dc=x:pa=ss@h/dc=x", "ldap://cn=J S,dc=x@h/dc=x", Some("pa=ss")),
            ("postgres://h:5432/db?password=x&a=b", "postgres://h:5432/db?password=&a=b", Some("x")),
            ("postgres://u@h:5432/a@b", "postgres://u@h:5432/a@b", None),
            ("http://h:80/a@b", "http://h:80/a@b", None),
            ("postgres://u:@h", "postgres://u:@h", None),
            ("sqlite", "sqlite", None),
            ("pg://host=h password=a:b@c dbname=d", "pg://host=h password='' dbname=d", Some("a:b@c")),
            ("pg://password = 'it\\'s a' host=h", "pg://password = '' host=h", Some("it's a")),
            ("pg://host=h password='open", "pg://host=h password=''", Some("open")),
            ("pg://host=h passfile=/a user=password", "pg://host=h passfile=/a user=password", None),
            ("pg://host=h password=a\"b", "pg://host=h password=''", Some("a\"b")),
            ("redis://:a b c@h", "redis://@h", Some("a b c")),
            ("postgres://u x:a\"'b@h/d", "postgres://u x@h/d", Some("a\"'b")),
            ("pg://h/d?pass%77ord=a b&x=1", "pg://h/d?pass%77ord=&x=1", Some("a b")),
            ("nats://secret@h:1/b", "nats://h:1/b", None),
            ("natss://se cr/et@h", "natss://h", None),
            ("nats://u:secret@h", "nats://u@h", Some("secret")),
            ("nats://u:@h", "nats://u:@h", None),
            ("nats://h:1,i:1/b", "nats://h:1,i:1/b", None),
            ("u:secret@h:1/db", "u@h:1/db", None),
            ("//u:secret@h:1/db", "//u@h:1/db", None),
            ("pg:u:secret@h:1/db", "pg@h:1/db", None),
            ("lab:one", "lab:one", None),
            ("http://u:secret@h:1,v:other@i:2/", "http://u:@,@i:2/", None),
            ("http://u@h:1,v:other@i:2/", "http://u@h:@,@i:2/", None),
            ("nats://secret@h,other@i/b", "nats://@,@i/b", None),
            ("pg://u@h,i/d?password=a@b,c", "pg://u@h,i/d?password=", Some("a@b,c")),
        ] {
            assert_eq!(split_password(url), (kept.to_owned(), password.map(str::to_owned)), "{url}");
        }
    }

    #[test]
    fn a_secret_with_blanks_or_quotes_is_found_in_an_option_and_in_a_string() {
        for (text, shown) in [
            ("--on=redis://:a b s3@h", "--on=redis://:***@h"),
            ("sqlite,pg://u x:a\"'b@h/d", "sqlite,pg://u x:***@h/d"),
            ("pg://h/d?pass%77ord=a b&opt%69ons=c d", "pg://h/d?pass%77ord=***&opt%69ons=***"),
            ("stores = [\"redis://:a 'b@h\", 'pg://u:c\"d@h']", "stores = [\"redis://:***@h\", 'pg://u:***@h']"),
            ("no `redis://:a b@h` here, me@h", "no `redis://:***@h` here, me@h"),
            (
                "b = \"{\\\"u\\\": \\\"x://u:p@h\\\", \\\"m\\\": \\\"me@h\\\"}\"",
                "b = \"{\\\"u\\\": \\\"x://u:***@h\\\", \\\"m\\\": \\\"me@h\\\"}\"",
            ),
            ("at natss://s3cr3t@h:1, nats://me:@h", "at natss://***@h:1, nats://me:@h"),
            ("nats://a@h,redis://:b@h", "nats://***@h,redis://:***@h"),
            ("GET http://h:80 by me@h", "GET http://h:80 by me@h"),
            ("[\"run \\\"a x://u:p@h?password=q\\\" at 2s\"]", "[\"run \\\"a x://u:***@h?password=***\\\" at 2s\"]"),
            ("\"run \\\"a pg://host=h password=q\\\" at 2s\"", "\"run \\\"a pg://host=h password=***\\\" at 2s\""),
            ("pg:///x?options=-c%20a.key%3Dvalue&user=me", "pg:///x?options=***&user=me"),
            ("http://h/?token=value&x=1", "http://h/?token=***&x=1"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
        let unclear = |text: &&str| is_unclear(text);
        let all = ["--on=redis://:a b@h", "pg://u x:p@h", "pg://u:a'b@h", "pg://u:a\u{1}\nb@h", "pg://?password=a b"];
        assert_eq!(all.iter().filter(|text| unclear(text)).count(), all.len());
        for clear in ["redis://:a@h", "ldap://cn=J S,dc=x:p@h", "pg://host=h password='a b'", "Go to: http://h:a b@c"] {
            assert!(!is_unclear(clear), "{clear}");
        }
    }

    #[test]
    fn a_text_is_masked_at_its_length() {
        let (shown, ranges) = masked("a = \"x://u:pä@h\" # y://v:q@h?password=r z://h:1/");
        assert_eq!(shown, "a = \"x://u:***@h\" # y://v:*@h?password=* z://h:1/");
        assert_eq!(ranges.len(), 3);
        let (shown, ranges) = masked("[\"x://host=h password='a b'\", \"y://u:p@h\"]\npassword=kept");
        assert_eq!(shown, "[\"x://host=h password=*****\", \"y://u:*@h\"]\npassword=kept");
        assert_eq!(ranges.len(), 2);
    }

    #[test]
    fn a_running_store_is_called_by_its_database_and_host() {
        for (url, place) in [
            ("postgres://me@db.example:5432/shop?sslmode=require", Some("shop@db.example")),
            ("postgres://db.example", Some("db.example")),
            ("postgres://%2Frun%2Fpostgresql/shop", Some("shop")),
            ("postgres:///shop?user=me&host=/run/pg", Some("shop")),
            ("mariadb:///a%20b?socket=%2Ftmp%2Fs", Some("a b")),
            ("postgres://a:1,b:2/shop", Some("shop@a")),
            ("postgres:///shop", Some("shop")),
            ("postgres://host=h dbname=shop", None),
            ("postgres://h%0A/%1Bd", Some("\u{fffd}d@h\u{fffd}")),
        ] {
            assert_eq!(super::place(url, true).as_deref(), place, "{url}");
        }
        for (url, place) in [
            ("redis://h:6379/1", Some("h")),
            ("redis+unix:///tmp/x.sock", None),
            ("ldapi://%2Frun%2Fldapi/dc=example", None),
            ("http://[::1]:8080/a", Some("[::1]")),
        ] {
            assert_eq!(super::place(url, false).as_deref(), place, "{url}");
        }
    }

    #[test]
    fn host_and_port_are_found() {
        assert_eq!(host_and_port("postgres://u@h:5432/db"), ("h", "5432"));
        assert_eq!(host_and_port("x://[::1]:7/"), ("[::1]", "7"));
        assert_eq!(host_and_port("x:///db"), ("", ""));
        assert_eq!(host_and_port("x://a,b:7/"), ("a", ""));
        assert_eq!(host_and_port("x://a:6,b:7/"), ("a", "6"));
        assert_eq!(host_and_port("x://host=a port=7"), ("", ""));
    }
}
