//! The cookies that a client was given (RFC 6265), as far as load needs them: kept by their names, for the server and not
//! for its paths, until they are taken back or expire.

use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_core::Utc;

/// Most cookies that are kept, and most bytes of one.
const COOKIES_MAX: usize = 50;
const COOKIE_BYTES_MAX: usize = 4 << 10;

/// Cookies of a client.
#[derive(Debug, Default)]
pub(crate) struct Cookies(Vec<Cookie>);

#[derive(Debug)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    /// End of its validity, in seconds since 1970; `None` without one.
    until_s: Option<i64>,
}

/// Seconds since 1970.
fn now_s() -> i64 {
    #[cfg(test)]
    tests::CLOCK_READS.set(tests::CLOCK_READS.get() + 1);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl Cookies {
    /// Takes what a field `Set-Cookie` says.
    pub(crate) fn take(&mut self, field: &[u8]) {
        let mut parts = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let Some(pair) = parts.next().filter(|pair| pair.len() <= COOKIE_BYTES_MAX) else { return };
        let Some(equals) = pair.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) else { return };
        let (name, value) = (pair[..equals].trim_ascii_end(), pair[equals + 1..].trim_ascii_start());
        let (mut expires_s, mut max_age_s) = (None, None);
        for part in parts {
            let at = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
            let (name, value) =
                (part[..at].trim_ascii_end(), part.get(at + 1..).unwrap_or_default().trim_ascii_start());
            if name.eq_ignore_ascii_case(b"expires") {
                expires_s = date(value).or(expires_s);
            } else if name.eq_ignore_ascii_case(b"max-age") {
                max_age_s = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).or(max_age_s);
            }
        }
        // The age goes before the date (RFC 6265, 5.3).
        let until_s = max_age_s.map(|age_s: i64| now_s().saturating_add(age_s)).or(expires_s);
        let is_gone = until_s.is_some_and(|until_s| until_s <= now_s());
        let known = self.0.iter().position(|known| known.name == name);
        match (known, is_gone) {
            (Some(at), true) => drop(self.0.remove(at)),
            (Some(at), false) => {
                let known = &mut self.0[at];
                known.value.clear();
                known.value.extend_from_slice(value);
                known.until_s = until_s;
            }
            (None, false) if self.0.len() < COOKIES_MAX => {
                self.0.push(Cookie { name: name.to_vec(), value: value.to_vec(), until_s });
            }
            (None, _) => {}
        }
    }

    /// Appends what the field says that gives them back. Returns false if there is none to give back. Reads the clock once,
    /// if one of them expires.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> bool {
        let (mut now, mut any) = (None, false);
        let mut is_valid = |until_s: i64| *now.get_or_insert_with(now_s) < until_s;
        for cookie in self.0.iter().filter(|cookie| cookie.until_s.is_none_or(&mut is_valid)) {
            if std::mem::replace(&mut any, true) {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(&cookie.name);
            out.push(b'=');
            out.extend_from_slice(&cookie.value);
        }
        any
    }
}

/// Reads a date as RFC 6265, 5.1.1, has it, in seconds since 1970: time, day, month and year in any order that keeps day
/// before year, whatever stands between them. `None` for anything else.
fn date(text: &[u8]) -> Option<i64> {
    const MONTHS: [&[u8]; 12] =
        [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b':';
    for token in text.split(|byte| !is_of_token(byte)).filter(|token| !token.is_empty()) {
        let number = || std::str::from_utf8(token).ok()?.parse::<i64>().ok();
        if time.is_none() && token.contains(&b':') {
            let mut parts = std::str::from_utf8(token).ok()?.split(':').map(|part| part.parse::<i64>().ok());
            let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
            time = Some((hour, minute, second));
        } else if day.is_none() && token.len() <= 2 && number().is_some() {
            day = number();
        } else if month.is_none() && token.len() >= 3 && !token[0].is_ascii_digit() {
            month = MONTHS.iter().position(|name| token[..3].eq_ignore_ascii_case(name));
        } else if year.is_none() && number().is_some() {
            year = number();
        }
    }
    let (year, (hour, minute, second)) = (year?, time?);
    let year = match year {
        70..=99 => year + 1_900,
        0..=69 => year + 2_000,
        year => year,
    };
    let (month, day) = (month? as i64 + 1, day?);
    let is_date = (1..=31).contains(&day) && (1_601..10_000).contains(&year);
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    (is_date && is_time).then_some(())?;
    Some(Utc { year, month, day, hour, minute, second, us: 0 }.since_1970_us()? / 1_000_000)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::part::{self, Part};

    thread_local! {
        /// Number of times that the clock was read.
        pub static CLOCK_READS: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn dates_are_read_in_every_form_that_servers_write() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        for text in ["", "1994", "Sun, 46 Nov 1994 08:49:37 GMT", "06 Nov 1994 25:49:37", "06 Nov 1994 08:49", "é"] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_cookie_is_given_back_until_it_expires() {
        let mut cookies = Cookies::default();
        cookies.take(b"a=1; Max-Age=1");
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        let mut out = Vec::new();
        assert!(!cookies.write(&mut out) && out.is_empty());
    }

    #[test]
    fn a_request_reads_the_clock_once_at_most_and_has_no_field_without_cookies() {
        let mut cookies = Cookies::default();
        let request = |cookies: &Cookies, part: Part| {
            let (before, mut out) = (CLOCK_READS.get(), Vec::new());
            part::write(&[Part::Bytes(b"x".to_vec()), part], Default::default(), cookies, 0, &mut out);
            (CLOCK_READS.get() - before, out)
        };
        let sized = || Part::Sized(vec![Part::Cookies]);
        assert_eq!(request(&cookies, Part::Cookies), (0, b"x".to_vec()));
        cookies.take(b"a=1");
        assert_eq!(request(&cookies, Part::Cookies), (0, b"xCookie: a=1\r\n".to_vec()));
        cookies.take(b"b=2; Max-Age=60");
        cookies.take(b"c=3; Max-Age=60");
        assert_eq!(request(&cookies, Part::Cookies), (1, b"xCookie: a=1; b=2; c=3\r\n".to_vec()));
        assert_eq!(request(&cookies, sized()).0, 1);
        for name in ["a", "b", "c"] {
            cookies.take(format!("{name}=; Max-Age=0").as_bytes());
        }
        assert_eq!(request(&cookies, sized()), (0, b"x".to_vec()));
    }

    #[test]
    fn cookies_are_kept_changed_and_taken_back() {
        let mut cookies = Cookies::default();
        let shown = |cookies: &Cookies| {
            let mut out = Vec::new();
            cookies.write(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(&cookies), "");
        for (field, wanted) in [
            ("a=1; Path=/; HttpOnly", "a=1"),
            ("b = x=y ;Max-Age=60", "a=1; b=x=y"),
            ("a=2", "a=2; b=x=y"),
            ("=nameless", "a=2; b=x=y"),
            ("noise", "a=2; b=x=y"),
            ("a=; max-age=0", "b=x=y"),
            ("b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", ""),
            ("c=1; expires=Sun, 06-Nov-94 08:49:37 GMT", ""),
            ("c=1; expires=Fri, 31 Dec 9999 23:59:59 GMT", "c=1"),
            ("c=2; Expires=Tue, 19 Jan 2021 03:14:07 GMT", ""),
            ("c=3; Expires=Tue, 19 Jan 2021 03:14:07 GMT; Max-Age=60", "c=3"),
            ("c=4; Expires=Fri, 31 Dec 9999 23:59:59 GMT; Max-Age=-1", ""),
            ("c=5; Expires=whenever", "c=5"),
            ("c=6; Max-Age=0", ""),
        ] {
            cookies.take(field.as_bytes());
            assert_eq!(shown(&cookies), wanted, "{field}");
        }
        (0..1_000).for_each(|n| cookies.take(format!("n{n}={}", "x".repeat(n * 10)).as_bytes()));
        assert_eq!(cookies.0.len(), COOKIES_MAX);
    }
}
