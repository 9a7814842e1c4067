//! Requests: messages of RFC 4511, 4.2 to 4.12.

use plimsoll_core::{Call, LdapCall, LdapChange, LdapChangeKind, LdapScope, OpKind, StoreError, ValueType, Values};

use crate::ber::{BOOLEAN, ENUMERATED, INTEGER, OCTETS, SEQUENCE, SET};
use crate::dn::{self, is_attribute};
use crate::endpoint::{Identity, Login};
use crate::filter;
use crate::template::{Node, Part, Template, parts};

/// StartTLS (RFC 4511, 4.14.1).
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// Tags of the protocol's operations.
pub(crate) mod tag {
    pub const BIND: u8 = 0x60;
    pub const BIND_RESPONSE: u8 = 0x61;
    pub const UNBIND: u8 = 0x42;
    pub const SEARCH: u8 = 0x63;
    pub const ENTRY: u8 = 0x64;
    pub const SEARCH_DONE: u8 = 0x65;
    pub const MODIFY: u8 = 0x66;
    pub const MODIFY_RESPONSE: u8 = 0x67;
    pub const ADD: u8 = 0x68;
    pub const ADD_RESPONSE: u8 = 0x69;
    pub const DELETE: u8 = 0x4a;
    pub const DELETE_RESPONSE: u8 = 0x6b;
    pub const COMPARE: u8 = 0x6e;
    pub const COMPARE_RESPONSE: u8 = 0x6f;
    pub const REFERENCE: u8 = 0x73;
    pub const EXTENDED: u8 = 0x77;
    pub const EXTENDED_RESPONSE: u8 = 0x78;
    pub const INTERMEDIATE: u8 = 0x79;
}

/// A kind of operation, ready to be asked.
#[derive(Debug)]
pub(crate) struct Request {
    pub template: Template,
    /// The tag of what answers it.
    pub answered_by: u8,
    /// The answer is wanted.
    pub keep: bool,
    /// True for an operation that changes the directory.
    pub writes: bool,
    /// Attributes of each entry that a kept search needs.
    pub attributes: Vec<String>,
}

impl Request {
    /// Builds the request of operation type `kind` below `base`.
    ///
    /// # Errors
    /// `Usage` when it is no operation on a directory, or one that cannot be said.
    pub fn new(kind: &OpKind, base: &str) -> Result<Request, StoreError> {
        let bad = |what: String| StoreError::usage(format!("operation `{}`: {what}", kind.name));
        let call = match &kind.call {
            Call::Ldap(call) => call,
            // The least that a server answers: whether it has a root.
            Call::Nothing | Call::Steps => &entries(String::new(), LdapScope::Base),
            _ => return Err(kind.refused("LDAP")),
        };
        let base = if matches!(kind.call, Call::Ldap(_)) { base } else { "" };
        let (node, answered_by) = operation(call, base).map_err(|Mistake { what, next }| bad(what).next(next))?;
        if node.params() != kind.params.len() || !kind.params.iter().all(ValueType::has_bytes) {
            return Err(bad("its parameters are not one text, integer or bytes for each {}".to_owned()));
        }
        let attributes = match call {
            LdapCall::Search { attributes, .. } => attributes.clone(),
            _ => Vec::new(),
        };
        let template = message(node);
        Ok(Request { template, answered_by, keep: kind.keep_answer, writes: kind.writes(), attributes })
    }
}

/// Asks for the DNs of all entries from `base` on. That of the root is empty, and every server has it.
pub(crate) fn entries(base: String, scope: LdapScope) -> LdapCall {
    LdapCall::Search { base, scope, filter: "(objectClass=*)".to_owned(), attributes: vec!["1.1".to_owned()] }
}

/// Mistake in an operation, and its remedy.
struct Mistake {
    what: String,
    next: &'static str,
}

/// The operation as an element, and the tag of its answer.
fn operation(call: &LdapCall, base: &str) -> Result<(Node, u8), Mistake> {
    let leaf = |tag, text: &str, param: &Part| Node::Leaf(tag, parts(text, param));
    let name = |dn: &str, tag| match dn::mistake(dn) {
        None => Ok(leaf(tag, &dn::below(dn, base), &Part::DnParam)),
        Some(what) => {
            let what = format!("`{dn}` is not a DN: {what}");
            Err(Mistake { what, next: "Write it as uid=user.{},ou=People, without the directory's base." })
        }
    };
    let value = |text: &str| leaf(OCTETS, text, &Part::Param);
    Ok(match call {
        LdapCall::Search { base, scope, filter, attributes } => {
            let filter = filter::parse(filter).map_err(|what| Mistake {
                what: format!("`{filter}` is not a filter: {what}"),
                next: "Write it as (objectClass=*), (uid=user.{}) or (&(sn=A*)(!(mail=*))).",
            })?;
            for one in attributes.iter().filter(|one| !matches!(one.as_str(), "*" | "+" | "1.1")) {
                attribute(one)?;
            }
            let wanted = attributes.iter().map(|one| Node::octets(one.as_str())).collect();
            let scope = match scope {
                LdapScope::Base => 0,
                LdapScope::One => 1,
                LdapScope::Sub => 2,
            };
            let nodes = vec![
                name(base, OCTETS)?,
                Node::byte(ENUMERATED, scope),
                // Aliases are not followed, as other clients have it by default.
                Node::byte(ENUMERATED, 0),
                // Neither the number of entries nor the time is limited by us.
                Node::byte(INTEGER, 0),
                Node::byte(INTEGER, 0),
                Node::byte(BOOLEAN, 0),
                filter,
                Node::Group(SEQUENCE, wanted),
            ];
            (Node::Group(tag::SEARCH, nodes), tag::SEARCH_DONE)
        }
        LdapCall::Compare { dn, attribute: of, value: text } => {
            let assertion = Node::Group(SEQUENCE, vec![attribute(of)?, value(text)]);
            (Node::Group(tag::COMPARE, vec![name(dn, OCTETS)?, assertion]), tag::COMPARE_RESPONSE)
        }
        LdapCall::Add { dn, attributes } => {
            let mut of_entry: Vec<(&str, Vec<Node>)> = Vec::new();
            for (of, text) in attributes {
                match of_entry.iter().position(|(before, _)| before == of) {
                    None => of_entry.push((of, vec![value(text)])),
                    Some(at) if at + 1 == of_entry.len() => of_entry[at].1.push(value(text)),
                    // Their parameters would change places.
                    Some(_) => {
                        let what = format!("the values of `{of}` do not stand together");
                        return Err(Mistake { what, next: "Write an attribute's values one after the other." });
                    }
                }
            }
            let of_entry = of_entry
                .into_iter()
                .map(|(of, values)| Ok(Node::Group(SEQUENCE, vec![attribute(of)?, Node::Group(SET, values)])));
            let of_entry = of_entry.collect::<Result<_, Mistake>>()?;
            let nodes = vec![name(dn, OCTETS)?, Node::Group(SEQUENCE, of_entry)];
            (Node::Group(tag::ADD, nodes), tag::ADD_RESPONSE)
        }
        LdapCall::Modify { dn, changes } => {
            let changes = changes.iter().map(|LdapChange { how, attribute: of, value: text }| {
                let how = match how {
                    LdapChangeKind::Add => 0,
                    LdapChangeKind::Delete => 1,
                    LdapChangeKind::Replace => 2,
                };
                let values = text.iter().map(|text| value(text)).collect();
                let of = Node::Group(SEQUENCE, vec![attribute(of)?, Node::Group(SET, values)]);
                Ok(Node::Group(SEQUENCE, vec![Node::byte(ENUMERATED, how), of]))
            });
            let changes = changes.collect::<Result<_, Mistake>>()?;
            (Node::Group(tag::MODIFY, vec![name(dn, OCTETS)?, Node::Group(SEQUENCE, changes)]), tag::MODIFY_RESPONSE)
        }
        LdapCall::Delete { dn } => (name(dn, tag::DELETE)?, tag::DELETE_RESPONSE),
    })
}

fn attribute(description: &str) -> Result<Node, Mistake> {
    if is_attribute(description) {
        return Ok(Node::octets(description));
    }
    let what = format!("`{description}` is not an attribute's name");
    Err(Mistake { what, next: "Write a name of the server's schema: uid, mail, userCertificate;binary." })
}

/// A whole message, whose number is said when it is written.
fn message(operation: Node) -> Template {
    Template::new(&Node::Group(SEQUENCE, vec![Node::Leaf(INTEGER, vec![Part::Id]), operation]))
}

/// Appends what says who we are, as message `id`.
pub(crate) fn bind(id: u8, login: &Login, out: &mut Vec<u8>) {
    let (dn, proof) = match &login.identity {
        Identity::Anonymous => ("", Node::leaf(0x80, "")),
        Identity::Simple { dn, password } => (dn.as_str(), Node::leaf(0x80, password.text().into_owned())),
        Identity::External => ("", Node::Group(0xa3, vec![Node::octets("EXTERNAL"), Node::octets("")])),
    };
    let operation = Node::Group(tag::BIND, vec![Node::byte(INTEGER, 3), Node::octets(dn), proof]);
    message(operation).write(id, Values::default(), out);
}

/// Appends what asks for TLS on a connection that begins without.
pub(crate) fn start_tls(id: u8, out: &mut Vec<u8>) {
    message(Node::Group(tag::EXTENDED, vec![Node::leaf(0x80, START_TLS)])).write(id, Values::default(), out);
}

/// Appends the good-bye.
pub(crate) fn unbind(id: u8, out: &mut Vec<u8>) {
    message(Node::leaf(tag::UNBIND, "")).write(id, Values::default(), out);
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{StoreErrorKind, Value, ValueBuf};

    use super::*;

    fn kind(call: LdapCall, params: &[ValueType]) -> OpKind {
        OpKind {
            name: "ask".into(),
            call: Call::Ldap(call),
            params: params.to_vec(),
            keep_answer: false,
            step_of: None,
        }
    }

    fn search(base: &str, filter: &str, attributes: &[&str]) -> LdapCall {
        LdapCall::Search {
            base: base.into(),
            scope: LdapScope::Base,
            filter: filter.into(),
            attributes: attributes.iter().map(|one| (*one).to_owned()).collect(),
        }
    }

    fn written(kind: &OpKind, params: &[Value<'_>]) -> Vec<u8> {
        let (mut buf, mut out) = (ValueBuf::new(), Vec::new());
        params.iter().for_each(|value| buf.push(*value));
        Request::new(kind, "o=x").unwrap().template.write(5, buf.values(), &mut out);
        out
    }

    fn shown(bytes: &[u8]) -> String {
        bytes.escape_ascii().to_string()
    }

    #[test]
    fn messages_are_those_of_the_rfc() {
        let plain = written(&kind(search("uid=a", "(cn=*)", &["sn"]), &[]), &[]);
        let expected = b"\x30\x29\x02\x01\x05\x63\x24\x04\x09uid=a,o=x\x0a\x01\0\x0a\x01\0\x02\x01\0\x02\x01\0\
            \x01\x01\0\x87\x02cn0\x04\x04\x02sn";
        assert_eq!(shown(&plain), shown(expected));
        let deleted =
            written(&kind(LdapCall::Delete { dn: "uid={}".into() }, &[ValueType::Text]), &[Value::Text("a,b")]);
        let expected = b"\x30\x84\0\0\0\x16\x02\x01\x05\x4a\x84\0\0\0\x0duid=a\\2cb,o=x";
        assert_eq!(shown(&deleted), shown(expected));
        let change = LdapChange { how: LdapChangeKind::Replace, attribute: "sn".into(), value: Some("{}".into()) };
        let modified = kind(LdapCall::Modify { dn: String::new(), changes: vec![change] }, &[ValueType::Int]);
        assert!(
            written(&modified, &[Value::Int(-7)])
                .ends_with(b"\x0a\x01\x020\x84\0\0\0\x12\x04\x02sn1\x84\0\0\0\x08\x04\x84\0\0\0\x02-7")
        );
        let mut out = Vec::new();
        unbind(3, &mut out);
        assert_eq!(shown(&out), "0\\x05\\x02\\x01\\x03B\\x00");
        out.clear();
        let login = Login { identity: Identity::External, ..Login::default() };
        bind(1, &login, &mut out);
        assert_eq!(shown(&out), shown(b"\x30\x18\x02\x01\x01\x60\x13\x02\x01\x03\x04\0\xa3\x0c\x04\x08EXTERNAL\x04\0"));
    }

    #[test]
    fn what_cannot_be_said_is_refused_with_what_to_do() {
        for call in [
            search("people", "(cn=*)", &[]),
            search("o=x", "(cn=", &[]),
            search("o=x", "(cn=*)", &["s n"]),
            LdapCall::Compare { dn: "o=x".into(), attribute: "*".into(), value: String::new() },
            LdapCall::Add {
                dn: "o=x".into(),
                attributes: [("o", ""), ("p", ""), ("o", "")].map(|(a, b)| (a.into(), b.into())).to_vec(),
            },
        ] {
            let error = Request::new(&kind(call.clone(), &[]), "").unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Usage);
            assert!(error.next.is_some(), "{call:?}: {error:?}");
        }
        let one_too_few = kind(LdapCall::Delete { dn: "uid={}".into() }, &[]);
        assert!(Request::new(&one_too_few, "").unwrap_err().what.contains("{}"));
    }
}
