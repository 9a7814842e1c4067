//! The cookies that a client was given (RFC 6265), as far as load needs them: kept by their names, for the server and not
//! for its paths, until they are taken back.

/// Most cookies that are kept, and most bytes of one.
const COOKIES_MAX: usize = 50;
const COOKIE_BYTES_MAX: usize = 4 << 10;

/// Cookies of a client: names and values.
#[derive(Debug, Default)]
pub(crate) struct Cookies(Vec<(Vec<u8>, Vec<u8>)>);

impl Cookies {
    /// Takes what a field `Set-Cookie` says.
    pub(crate) fn take(&mut self, field: &[u8]) {
        let mut parts = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let Some(pair) = parts.next().filter(|pair| pair.len() <= COOKIE_BYTES_MAX) else { return };
        let Some(equals) = pair.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) else { return };
        let (name, value) = (pair[..equals].trim_ascii_end(), pair[equals + 1..].trim_ascii_start());
        let is_gone = parts.any(|part| {
            let (name, value) = match part.iter().position(|byte| *byte == b'=') {
                Some(at) => (&part[..at], &part[at + 1..]),
                None => (part, &b""[..]),
            };
            // Servers that take a cookie back say one of these; other dates are beyond any run.
            name.eq_ignore_ascii_case(b"max-age") && matches!(value, [b'-', ..] | b"0")
                || name.eq_ignore_ascii_case(b"expires") && value.windows(4).any(|year| year == b"1970")
        });
        let known = self.0.iter().position(|(known, _)| known == name);
        match (known, is_gone) {
            (Some(at), true) => drop(self.0.remove(at)),
            (Some(at), false) => {
                self.0[at].1.clear();
                self.0[at].1.extend_from_slice(value);
            }
            (None, false) if self.0.len() < COOKIES_MAX => self.0.push((name.to_vec(), value.to_vec())),
            (None, _) => {}
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends what the field says that gives them back.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for (at, (name, value)) in self.0.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(name);
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            cookies.take(field.as_bytes());
            assert_eq!(shown(&cookies), wanted, "{field}");
        }
        (0..1_000).for_each(|n| cookies.take(format!("n{n}={}", "x".repeat(n * 10)).as_bytes()));
        assert_eq!(cookies.0.len(), COOKIES_MAX);
    }
}
