//! Filters of a search: read from text (RFC 4515), and put together as elements (RFC 4511, 4.5.1.7).
//!
//! `{}` in a value stands for a parameter. A value has its parentheses, asterisks, backslashes and nulls as `\` and two
//! digits; parameters need no such thing.

use crate::dn::is_attribute;
use crate::template::{Node, Part};

const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const NOT: u8 = 0xa2;
const EQUALITY: u8 = 0xa3;
const SUBSTRINGS: u8 = 0xa4;
const GREATER_OR_EQUAL: u8 = 0xa5;
const LESS_OR_EQUAL: u8 = 0xa6;
const PRESENT: u8 = 0x87;
const APPROXIMATE: u8 = 0xa8;
const EXTENSIBLE: u8 = 0xa9;
/// Filters within filters at most.
const DEPTH_MAX: usize = 24;

/// The filter that is written in `text`.
///
/// # Errors
/// What is wrong with it, in one sentence without a full stop.
pub(crate) fn parse(text: &str) -> Result<Node, String> {
    // As ldapsearch does, parentheses around the whole may be left out.
    if !text.starts_with('(') {
        return item(text);
    }
    let mut parser = Parser { text, at: 0 };
    let node = parser.filter(0)?;
    match &text[parser.at..] {
        "" => Ok(node),
        rest => Err(format!("`{rest}` stands behind the end of the filter")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn take(&mut self, letter: char) -> Result<(), String> {
        match self.rest().chars().next() {
            Some(found) if found == letter => {
                self.at += letter.len_utf8();
                Ok(())
            }
            Some(found) => Err(format!("`{found}` stands where `{letter}` should, at byte {}", self.at)),
            None => Err(format!("it ends where `{letter}` should stand")),
        }
    }

    fn filter(&mut self, depth: usize) -> Result<Node, String> {
        if depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} filters stand within each other"));
        }
        self.take('(')?;
        let first = self.rest().bytes().next();
        let node = match first {
            Some(letter @ (b'&' | b'|')) => {
                self.at += 1;
                let mut nodes = Vec::new();
                while self.rest().starts_with('(') {
                    nodes.push(self.filter(depth + 1)?);
                }
                Node::Group(if letter == b'&' { AND } else { OR }, nodes)
            }
            Some(b'!') => {
                self.at += 1;
                Node::Group(NOT, vec![self.filter(depth + 1)?])
            }
            _ => {
                let end = self.rest().find([')', '(']).unwrap_or(self.rest().len());
                let node = item(&self.rest()[..end])?;
                self.at += end;
                node
            }
        };
        self.take(')')?;
        Ok(node)
    }
}

/// Parses the text between innermost parentheses.
fn item(text: &str) -> Result<Node, String> {
    let (left, value) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`"))?;
    let (name, tag) = match left.char_indices().next_back() {
        Some((at, '~')) => (&left[..at], APPROXIMATE),
        Some((at, '>')) => (&left[..at], GREATER_OR_EQUAL),
        Some((at, '<')) => (&left[..at], LESS_OR_EQUAL),
        Some((at, ':')) => return extensible(&left[..at], value),
        _ => (left, EQUALITY),
    };
    if !is_attribute(name) {
        return Err(format!("`{name}` is not an attribute's name"));
    }
    if tag == EQUALITY && value == "*" {
        return Ok(Node::leaf(PRESENT, name));
    }
    let name = Node::octets(name);
    if tag != EQUALITY || !value.contains('*') {
        return Ok(Node::Group(tag, vec![name, Node::Leaf(crate::ber::OCTETS, unescaped(value)?)]));
    }
    let pieces: Vec<&str> = value.split('*').collect();
    let last = pieces.len() - 1;
    let mut nodes = Vec::new();
    for (at, piece) in pieces.into_iter().enumerate() {
        let tag = match at {
            0 => 0x80,
            at if at == last => 0x82,
            _ => 0x81,
        };
        match piece {
            "" if at == 0 || at == last => {}
            "" => return Err(format!("`{value}` has nothing between two asterisks")),
            piece => nodes.push(Node::Leaf(tag, unescaped(piece)?)),
        }
    }
    Ok(Node::Group(SUBSTRINGS, vec![name, Node::Group(crate::ber::SEQUENCE, nodes)]))
}

/// `attribute:dn:rule:=value`, without the last colon in `left`.
fn extensible(left: &str, value: &str) -> Result<Node, String> {
    let mut words: Vec<&str> = left.split(':').collect();
    let name = words.remove(0);
    let dn = words.first().is_some_and(|word| word.eq_ignore_ascii_case("dn"));
    if dn {
        words.remove(0);
    }
    let wrong = || Err(format!("`{left}:=` is not attribute:dn:rule:="));
    let rule = match words[..] {
        [] => None,
        [rule] if crate::dn::is_attribute_name(rule) => Some(rule),
        _ => return wrong(),
    };
    if (name.is_empty() && rule.is_none()) || !(name.is_empty() || is_attribute(name)) {
        return wrong();
    }
    let mut nodes = Vec::new();
    nodes.extend(rule.map(|rule| Node::leaf(0x81, rule)));
    nodes.extend((!name.is_empty()).then(|| Node::leaf(0x82, name)));
    nodes.push(Node::Leaf(0x83, unescaped(value)?));
    nodes.extend(dn.then(|| Node::byte(0x84, 0xff)));
    Ok(Node::Group(EXTENSIBLE, nodes))
}

/// A value with its `\28` as bytes, and its `{}` as parameters.
fn unescaped(value: &str) -> Result<Vec<Part>, String> {
    let (mut parts, mut bytes) = (Vec::new(), Vec::new());
    let mut rest = value.as_bytes();
    loop {
        match rest {
            [] => break,
            [b'{', b'}', after @ ..] => {
                if !bytes.is_empty() {
                    parts.push(Part::Bytes(std::mem::take(&mut bytes)));
                }
                parts.push(Part::Param);
                rest = after;
            }
            [b'\\', after @ ..] => {
                let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
                let byte = digits.filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()));
                let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                bytes.push(byte.ok_or_else(|| format!("`{value}` has a backslash without two hexadecimal digits"))?);
                rest = &after[2..];
            }
            [b'*' | b'(' | b')' | 0, ..] => {
                return Err(format!("`{value}` has a letter that has to be written as \\ and two digits"));
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    if !bytes.is_empty() {
        parts.push(Part::Bytes(bytes));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::ValueBuf;
    use proptest::prelude::*;

    use super::*;
    use crate::template::Template;

    fn written(node: &Node) -> Vec<u8> {
        let mut out = Vec::new();
        Template::new(node).write(1, ValueBuf::new().values(), &mut out);
        out
    }

    fn bytes(text: &str) -> Vec<u8> {
        written(&parse(text).unwrap_or_else(|what| panic!("{text}: {what}")))
    }

    #[test]
    fn filters_are_those_of_the_rfc() {
        for (text, expected) in [
            ("(objectClass=*)", &b"\x87\x0bobjectClass"[..]),
            ("cn=x", b"\xa3\x07\x04\x02cn\x04\x01x"),
            ("(&(a=b)(!(c=*)))", b"\xa0\x0d\xa3\x06\x04\x01a\x04\x01b\xa2\x03\x87\x01c"),
            ("(|)", b"\xa1\x00"),
            ("(a>=1)", b"\xa5\x06\x04\x01a\x04\x011"),
            ("(a<=1)", b"\xa6\x06\x04\x01a\x04\x011"),
            ("(a~=1)", b"\xa8\x06\x04\x01a\x04\x011"),
            ("(a=b*c*d)", b"\xa4\x0e\x04\x01a\x30\x09\x80\x01b\x81\x01c\x82\x01d"),
            ("(a=*c)", b"\xa4\x08\x04\x01a\x30\x03\x82\x01c"),
            ("(o=Parens R Us \\28for all\\29)", b"\xa3\x1a\x04\x01o\x04\x15Parens R Us (for all)"),
            ("(cn:caseExactMatch:=F)", b"\xa9\x17\x81\x0ecaseExactMatch\x82\x02cn\x83\x01F"),
            ("(:dn:2.4.6:=D)", b"\xa9\x0d\x81\x052.4.6\x83\x01D\x84\x01\xff"),
        ] {
            assert_eq!(bytes(text).escape_ascii().to_string(), expected.escape_ascii().to_string(), "{text}");
        }
    }

    #[test]
    fn braces_are_parameters_wherever_a_value_may_be() {
        let node = parse("(|(uid=user.{})(cn={}*{})(sn>={}))").unwrap();
        assert_eq!(node.params(), 4);
    }

    #[test]
    fn what_is_no_filter_is_told_why() {
        for text in [
            "",
            "(",
            "()",
            "(cn)",
            "(cn=x",
            "(cn=x))",
            "cn=x)",
            "(&cn=x)",
            "(!)",
            "(c n=x)",
            "(=x)",
            "(cn=a\\2)",
            "(cn=a**b)",
            "(cn=x)(cn=y)",
            "(!(a=b)(c=d))",
            "(cn>=a*b)",
            "(:=x)",
            "(cn=\\zz)",
            "(cn=a\\é)",
        ] {
            let what = parse(text).err().unwrap_or_else(|| panic!("{text} was taken"));
            assert!(!what.is_empty() && !what.ends_with('.'));
        }
        let deep = |count| format!("{}(a={{}}*{{}}){}", "(!".repeat(count), ")".repeat(count));
        assert!(parse(&deep(DEPTH_MAX + 1)).unwrap_err().contains("within each other"));
        assert_eq!(bytes(&deep(DEPTH_MAX)).len(), (DEPTH_MAX + 1) * 6 + 3 + 6 + 2 * 6, "the deepest can be written");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[()&|!=~<>:*\\\\a-f0-9 {}é]{0,40}") {
            if let Ok(node) = parse(&text) {
                prop_assert!(!written(&node).is_empty());
            }
        }

        #[test]
        fn a_value_comes_back_from_its_escapes(value in prop::collection::vec(any::<u8>(), 0..20)) {
            let text: String = value.iter().map(|byte| format!("\\{byte:02x}")).collect();
            let expected = Node::Group(EQUALITY, vec![Node::octets("cn"), Node::octets(value)]);
            prop_assert_eq!(bytes(&format!("(cn={text})")), written(&expected));
        }
    }
}
