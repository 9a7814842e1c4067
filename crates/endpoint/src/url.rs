//! `scheme://user:password@host:port/path?name=value`, taken apart and percent-decoded.
//!
//! No error shows a part of the URL: it may be a piece of a password.

use std::borrow::Cow;

use plimsoll_core::StoreError;

use crate::usage;

/// The parts of a URL, percent-encoded still: [`decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Url<'u> {
    /// Text before `://`.
    pub scheme: &'u str,
    /// The user; `None` without an `@`.
    pub user: Option<&'u str>,
    /// Text between the user's `:` and the `@`.
    pub password: Option<&'u str>,
    /// Host and port, or several.
    pub hosts: &'u str,
    /// Text between the first `/`, which is left out, and the `?`.
    pub path: Option<&'u str>,
    /// Text after the `?`.
    pub query: &'u str,
}

impl<'u> Url<'u> {
    /// Takes a URL apart. `form` says how one is written.
    ///
    /// # Errors
    /// `Usage`, when its scheme is none of `schemes`, an `@` stands where it would cut a password in the middle, or
    /// several hosts have a user each.
    pub fn split(url: &'u str, schemes: &[&str], form: &str) -> Result<Url<'u>, StoreError> {
        let known = url.split_once("://").filter(|(scheme, _)| schemes.contains(scheme));
        let Some((scheme, rest)) = known else {
            let (last, first) = schemes.split_last().unwrap_or((&"", &[]));
            let first: Vec<String> = first.iter().map(|scheme| format!("{scheme}://")).collect();
            let or = if first.is_empty() { "" } else { " or " };
            return Err(usage(format!("the URL does not begin with {}{or}{last}://", first.join(", ")), form));
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
        // Then a password may have been cut in the middle: nothing of it must be shown.
        if !authority.contains('@') && (path.is_some_and(|path| path.contains('@')) || query.contains('@')) {
            return Err(usage(
                "the URL has an `@` after its first `/` or `?`",
                "Write `/` as %2F, `?` as %3F and `@` as %40 inside user, password, path and parameters.",
            ));
        }
        let (user, hosts) = authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
        // The first host would be taken for a part of the user, and its password sent to the last.
        if user.and_then(|user| user.split_once('@')).is_some_and(|(_, after)| after.contains(',')) {
            return Err(usage(
                "the URL has a comma between two `@`",
                "Name the user once, before the first host, and write `@` inside user and password as %40.",
            ));
        }
        let (user, password) = match user.and_then(|user| user.split_once(':')) {
            Some((user, password)) => (Some(user), Some(password)),
            None => (user, None),
        };
        Ok(Url { scheme, user, password, hosts, path, query })
    }

    /// Names and values of the parameters, decoded, in their order.
    ///
    /// # Errors
    /// `Usage`, when one has no value, or cannot be decoded.
    pub fn parameters(&self) -> Result<Vec<(String, String)>, StoreError> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| match pair.split_once('=') {
                Some((name, value)) => Ok((decode(name)?, decode(value)?)),
                None => {
                    Err(usage("a parameter of the URL has no value", "Write it as name=value, with & between two."))
                }
            })
            .collect()
    }
}

/// `%41` is `A`.
///
/// # Errors
/// `Usage`, when it is no UTF-8, has a zero byte, or a `%` of no number.
pub fn decode(text: &str) -> Result<String, StoreError> {
    let wrong = || {
        usage("the URL has a `%` that is not followed by two hexadecimal digits of UTF-8", "Write `%` itself as %25.")
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(wrong()) };
        match (high * 16 + low) as u8 {
            0 => return Err(usage("the URL has a %00", "Leave it out: no name, password or path has one.")),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// A host and its port, where it has one; an IPv6 address without its brackets. `example` has both.
///
/// # Errors
/// `Usage`, when brackets are missing.
pub fn host_and_port<'u>(text: &'u str, example: &str) -> Result<(&'u str, Option<&'u str>), StoreError> {
    let Some(bracketed) = text.strip_prefix('[') else {
        return match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                Err(usage("the URL's host has several colons", format!("Write an IPv6 address in brackets: {example}")))
            }
            Some((host, port)) => Ok((host, Some(port))),
            None => Ok((text, None)),
        };
    };
    match bracketed.split_once(']') {
        Some((host, "")) => Ok((host, None)),
        Some((host, port)) if port.starts_with(':') => Ok((host, Some(&port[1..]))),
        _ => Err(usage("the URL's IPv6 address has no closing bracket before the port", format!("Write {example}"))),
    }
}

/// A port. `form` says how a URL with one is written.
///
/// # Errors
/// `Usage`, when it is none.
pub fn port(text: &str, form: &str) -> Result<u16, StoreError> {
    let port = text.parse().ok().filter(|port| *port > 0);
    let what = if text.is_empty() {
        "the URL's host has a colon behind it and no port"
    } else {
        "the port is not a number from 1 to 65535"
    };
    port.ok_or_else(|| usage(what, form))
}

/// The host, if it is a single one.
///
/// # Errors
/// `Usage`, when there are several.
pub fn one_host(host: String) -> Result<String, StoreError> {
    if host.contains(',') {
        return Err(usage("several hosts are named, and one server is measured at a time", "Name one host."));
    }
    Ok(host)
}

/// Returns a URL for each host of `url`, whose hosts are separated by commas.
///
/// # Errors
/// `Usage` if one of several hosts is empty.
pub fn each_host(url: &str) -> Result<Vec<String>, StoreError> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    let start = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    let (before, hosts, after) = (&url[..start], &url[start..end], &url[end..]);
    if hosts.contains(',') && hosts.split(',').any(str::is_empty) {
        return Err(usage("the URL has a comma without a host beside it", "Write a host on each side: a:1,b:2."));
    }
    Ok(hosts.split(',').map(|host| format!("{before}{host}{after}")).collect())
}

/// A host as a URL shows it: an IPv6 address in brackets.
pub fn shown_host(host: &str) -> Cow<'_, str> {
    if host.contains(':') { Cow::Owned(format!("[{host}]")) } else { Cow::Borrowed(host) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "Write it so";

    #[test]
    fn a_url_falls_into_its_parts() {
        let url = Url::split("x://ada:a:b@h:1,i/p/q?a=%41&&b=c%3Dd", &["w", "x"], FORM).unwrap();
        let Url { scheme, user, password, hosts, path, .. } = url;
        assert_eq!((scheme, user, password, hosts, path), ("x", Some("ada"), Some("a:b"), "h:1,i", Some("p/q")));
        assert_eq!(url.parameters().unwrap(), [("a", "A"), ("b", "c=d")].map(|(n, v)| (n.to_owned(), v.to_owned())));
        let bare = Url::split("x://", &["x"], FORM).unwrap();
        assert_eq!((bare.user, bare.password, bare.hosts, bare.path), (None, None, "", None));
        assert_eq!(Url::split("x://p@ss@h", &["x"], FORM).unwrap().user, Some("p@ss"));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_it() {
        let split = |url: &str| Url::split(url, &["a", "b", "c"], FORM).unwrap_err();
        assert_eq!(split("d://secret@h").what, "the URL does not begin with a://, b:// or c://");
        assert_eq!(split("a:/secret").next.as_deref(), Some(FORM));
        for url in [
            "a://u:se/cret@h",
            "a://u:se?cret@h",
            "a://u:cret@h:1,v:cret@i:2/",
            "a://u@h,cret@i",
            "a://cret@h,i,j@k",
            "a://u@,@h",
        ] {
            let error = split(url);
            assert!(error.what.contains("`@`") && !format!("{error:?}").contains("cret"), "{error:?}");
        }
        assert!(Url::split("a://h?secret", &["a"], FORM).unwrap().parameters().unwrap_err().what.contains("no value"));
    }

    #[test]
    fn a_url_with_several_hosts_is_one_url_for_each() {
        let each = |url: &str| each_host(url).unwrap();
        let two = ["x://u,v:p,q@a:1/p,q?r=s,t", "x://u,v:p,q@[::1]:2/p,q?r=s,t"];
        assert_eq!(each("x://u,v:p,q@a:1,[::1]:2/p,q?r=s,t"), two);
        assert_eq!(each("x://a,b"), ["x://a", "x://b"]);
        for alone in ["x://", "x:///p,q", "x://a?b,c@d", "none"] {
            assert_eq!(each(alone), [alone]);
        }
        for url in ["x://a,", "x://,a/p", "x://u@a,,b"] {
            assert!(each_host(url).unwrap_err().what.contains("comma"), "{url}");
        }
    }

    #[test]
    fn percent_signs_stand_for_bytes() {
        assert_eq!(decode("a%20%c3%A4%25").unwrap(), "a ä%");
        for text in ["%", "%4", "%zz", "%+1", "%ff", "%00", "%é1"] {
            assert!(decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_and_ports_are_parted() {
        for (text, host, port) in [
            ("h", "h", None),
            ("h:1", "h", Some("1")),
            ("[::1]", "::1", None),
            ("[::1]:2", "::1", Some("2")),
            ("", "", None),
        ] {
            assert_eq!(host_and_port(text, "e").unwrap(), (host, port));
        }
        for text in ["::1", "[::1", "[::1]2"] {
            assert!(host_and_port(text, "e").is_err(), "{text}");
        }
        assert_eq!((port("65535", FORM), shown_host("::1"), shown_host("h")), (Ok(65535), "[::1]".into(), "h".into()));
        for text in ["0", "65536", "-1", "x", ""] {
            assert!(port(text, FORM).is_err(), "{text}");
        }
        assert!(one_host("a,b".into()).is_err() && one_host("a".into()).is_ok());
    }
}
