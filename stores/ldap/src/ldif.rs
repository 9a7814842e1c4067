//! Entries as LDIF (RFC 2849), out of the very requests that add them over the wire: so both ways make the same.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::ber::{INTEGER, Malformed, OCTETS, Reader, SEQUENCE, SET};
use crate::request::tag;

/// Appends the entry that a message with an add asks for.
///
/// # Errors
/// When it is no such message.
pub(crate) fn push(out: &mut String, message: &[u8]) -> Result<(), Malformed> {
    let mut message = Reader(Reader(message).expect(SEQUENCE)?);
    message.expect(INTEGER)?;
    let mut add = Reader(message.expect(tag::ADD)?);
    push_line(out, b"dn", add.expect(OCTETS)?);
    let mut attributes = Reader(add.expect(SEQUENCE)?);
    while let Some((_, attribute)) = attributes.next()? {
        let mut attribute = Reader(attribute);
        let name = attribute.expect(OCTETS)?;
        let mut values = Reader(attribute.expect(SET)?);
        while let Some((_, value)) = values.next()? {
            push_line(out, name, value);
        }
    }
    out.push('\n');
    Ok(())
}

/// A value goes as it is where LDIF allows that, else in base 64.
fn push_line(out: &mut String, name: &[u8], value: &[u8]) {
    out.push_str(&String::from_utf8_lossy(name));
    match std::str::from_utf8(value) {
        Ok(text) if is_safe(text) => {
            out.push_str(": ");
            out.push_str(text);
        }
        _ => {
            out.push_str(":: ");
            BASE64_STANDARD.encode_string(value, out);
        }
    }
    out.push('\n');
}

/// RFC 2849's SAFE-STRING, without a blank at its end.
fn is_safe(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii() && !matches!(byte, 0 | b'\n' | b'\r'))
        && !text.starts_with([' ', ':', '<'])
        && !text.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Call, LdapCall, OpKind, Value, ValueBuf, ValueType};

    use super::*;
    use crate::request::Request;

    #[test]
    fn an_entry_is_what_the_request_says() {
        let attributes = [("objectClass", "person"), ("objectClass", "top"), ("cn", "{}"), ("description", " {}")];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let kind = OpKind {
            name: "add".into(),
            call: Call::Ldap(LdapCall::Add { dn: "cn={}".into(), attributes }),
            params: vec![ValueType::Text; 3],
            keep_answer: false,
            step_of: None,
        };
        let (mut params, mut message, mut text) = (ValueBuf::new(), Vec::new(), String::new());
        for value in ["a,b", "ä", "x"] {
            params.push(Value::Text(value));
        }
        Request::new(&kind, "o=x").unwrap().template.write(7, params.values(), &mut message);
        push(&mut text, &message).unwrap();
        assert_eq!(text, "dn: cn=a\\2cb,o=x\nobjectClass: person\nobjectClass: top\ncn:: w6Q=\ndescription:: IHg=\n\n");
        assert!(push(&mut text, &message[..9]).is_err());
        assert!(!is_safe(":a") && !is_safe("<a") && !is_safe("a ") && !is_safe("a\nb") && is_safe("a: b"));
    }
}
