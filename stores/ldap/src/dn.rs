//! Distinguished names as text (RFC 4514).

/// Appends a value so that nothing in it means anything in a DN.
#[inline]
pub(crate) fn push_escaped(out: &mut Vec<u8>, value: &[u8]) {
    for (at, byte) in value.iter().enumerate() {
        let is_outer_space = *byte == b' ' && (at == 0 || at + 1 == value.len());
        if is_outer_space || matches!(byte, b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' | b'=' | b'#' | 0) {
            let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
            out.extend_from_slice(&[b'\\', digit(byte >> 4), digit(byte & 15)]);
        } else {
            out.push(*byte);
        }
    }
}

/// `dn` below `base`; either may be empty.
pub(crate) fn below(dn: &str, base: &str) -> String {
    match (dn, base) {
        ("", base) => base.to_owned(),
        (dn, "") => dn.to_owned(),
        (dn, base) => format!("{dn},{base}"),
    }
}

/// Returns the mistake in a DN, or `None`. Values may be anything, `{}` too.
pub(crate) fn mistake(dn: &str) -> Option<String> {
    if dn.is_empty() {
        return None;
    }
    rdns(dn).into_iter().find_map(mistake_of_rdn)
}

/// The parts between commas that are not escaped, and between `+`.
fn rdns(dn: &str) -> Vec<&str> {
    let (mut parts, mut from, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in dn.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' | b'+' => {
                parts.push(&dn[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&dn[from..]);
    parts
}

fn mistake_of_rdn(rdn: &str) -> Option<String> {
    let rdn = rdn.trim_start();
    let Some((name, value)) = rdn.split_once('=') else {
        return Some(format!("`{rdn}` is not attribute=value"));
    };
    if !is_attribute_name(name.trim_end()) {
        return Some(format!("`{name}` is not an attribute's name"));
    }
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b' ' | b'"' | b'#' | b'+' | b',' | b';' | b'<' | b'=' | b'>' | b'\\') => {}
                Some(first) if first.is_ascii_hexdigit() && bytes.next().is_some_and(|it| it.is_ascii_hexdigit()) => {}
                _ => return Some(format!("`{value}` has a backslash that escapes nothing")),
            },
            b'"' | b';' | b'<' | b'>' | 0 => {
                return Some(format!("`{value}` has a `{}` without a backslash before it", byte.escape_ascii()));
            }
            _ => {}
        }
    }
    None
}

/// Reports whether this is an attribute's name or number, without options (RFC 4512, 1.4).
pub(crate) fn is_attribute_name(name: &str) -> bool {
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    match name.bytes().next() {
        Some(first) if first.is_ascii_alphabetic() => is_word(name),
        Some(first) if first.is_ascii_digit() => {
            name.split('.').all(|arc| !arc.is_empty() && arc.bytes().all(|byte| byte.is_ascii_digit()))
        }
        _ => false,
    }
}

/// Reports whether this is an attribute's name with or without options: `userCertificate;binary`.
pub(crate) fn is_attribute(description: &str) -> bool {
    let mut words = description.split(';');
    let is_option =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    words.next().is_some_and(is_attribute_name) && words.all(is_option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(value: &str) -> String {
        let mut out = Vec::new();
        push_escaped(&mut out, value.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_escaped_where_they_mean_something() {
        assert_eq!(escaped("a b"), "a b");
        assert_eq!(escaped(" a,b=c "), "\\20a\\2cb\\3dc\\20");
        assert_eq!(mistake(&format!("cn={}", escaped("#\"\\+;<>\0"))), None);
    }

    #[test]
    fn a_dn_is_a_dn() {
        for dn in
            ["", "dc=example,dc=com", "cn=a\\, b+sn=c, o=x", "2.5.4.3=x", "uid=user.{},ou=People", "cn=Käse", "cn="]
        {
            assert_eq!(mistake(dn), None, "{dn}");
        }
        for dn in ["example", "dc=a,", ",dc=a", "=x", "d c=x", "cn=a\\", "cn=a\\zz", "cn=a;b", "1.=x", "cn=\"a\""] {
            assert!(mistake(dn).is_some(), "{dn}");
        }
    }

    #[test]
    fn what_is_below_nothing_is_itself() {
        assert_eq!(below("a=b", "c=d"), "a=b,c=d");
        assert_eq!((below("", "c=d"), below("a=b", "")), ("c=d".to_owned(), "a=b".to_owned()));
    }

    #[test]
    fn attributes_may_have_options() {
        assert!(is_attribute("cn") && is_attribute("userCertificate;binary") && is_attribute("2.5.4.3;lang-en"));
        assert!(!is_attribute("") && !is_attribute("c n") && !is_attribute("cn;") && !is_attribute("*"));
    }
}
