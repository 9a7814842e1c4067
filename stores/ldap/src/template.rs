//! Requests put together before they are asked: elements with places for a message's number and for parameters.
//!
//! An element without a parameter in it is bytes, with the shortest length. One with a parameter has a length of four
//! bytes, which is filled in when the parameters are known; BER allows that, and directory servers send such lengths
//! themselves.

use plimsoll_core::Values;

use crate::ber;
use crate::dn;

/// Elements within elements at most: many more than those of the deepest filter and what is around it.
const DEPTH_MAX: usize = 64;

/// A piece of an element's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Bytes(Vec<u8>),
    /// The message's number, of one byte.
    Id,
    /// The next parameter as it is.
    Param,
    /// The next parameter as a part of a DN.
    DnParam,
}

/// An element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// Element without children.
    Leaf(u8, Vec<Part>),
    /// Element with children.
    Group(u8, Vec<Node>),
}

impl Node {
    pub fn leaf(tag: u8, contents: impl Into<Vec<u8>>) -> Node {
        Node::Leaf(tag, vec![Part::Bytes(contents.into())])
    }

    pub fn octets(text: impl Into<Vec<u8>>) -> Node {
        Node::leaf(ber::OCTETS, text)
    }

    pub fn byte(tag: u8, byte: u8) -> Node {
        Node::leaf(tag, [byte])
    }

    /// Number of parameters.
    pub fn params(&self) -> usize {
        match self {
            Node::Leaf(_, parts) => parts.iter().filter(|part| matches!(part, Part::Param | Part::DnParam)).count(),
            Node::Group(_, nodes) => nodes.iter().map(Node::params).sum(),
        }
    }

    /// Bytes with its shortest length; only for one without parameters.
    fn bytes(&self) -> usize {
        let contents = self.contents_bytes();
        let mut length = Vec::new();
        ber::push_length(&mut length, contents);
        1 + length.len() + contents
    }

    fn contents_bytes(&self) -> usize {
        match self {
            Node::Leaf(_, parts) => {
                parts.iter().map(|part| if let Part::Bytes(bytes) = part { bytes.len() } else { 1 }).sum()
            }
            Node::Group(_, nodes) => nodes.iter().map(Node::bytes).sum(),
        }
    }
}

/// Text with `{}` as parts of an element; `param` stands where the braces are.
pub(crate) fn parts(text: &str, param: &Part) -> Vec<Part> {
    let mut parts = Vec::new();
    for (at, piece) in text.split("{}").enumerate() {
        if at > 0 {
            parts.push(param.clone());
        }
        if !piece.is_empty() {
            parts.push(Part::Bytes(piece.as_bytes().to_vec()));
        }
    }
    parts
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Id,
    /// A length of four bytes follows, and what it counts up to the `Close` that belongs to it.
    Open,
    Close,
    Param,
    DnParam,
}

/// A message, ready to be written.
#[derive(Debug, Default)]
pub(crate) struct Template {
    text: Vec<u8>,
    /// Parts between bytes of `text`, each with the position of the byte behind it.
    marks: Vec<(usize, What)>,
}

impl Template {
    pub fn new(node: &Node) -> Template {
        let mut template = Template::default();
        template.add(node);
        template
    }

    fn mark(&mut self, what: What) {
        self.marks.push((self.text.len(), what));
    }

    fn add(&mut self, node: &Node) {
        let (Node::Leaf(tag, _) | Node::Group(tag, _)) = node;
        self.text.push(*tag);
        let is_open = node.params() > 0;
        match is_open {
            true => self.mark(What::Open),
            false => ber::push_length(&mut self.text, node.contents_bytes()),
        }
        match node {
            Node::Group(_, nodes) => nodes.iter().for_each(|node| self.add(node)),
            Node::Leaf(_, parts) => {
                for part in parts {
                    match part {
                        Part::Bytes(bytes) => self.text.extend_from_slice(bytes),
                        Part::Id => self.mark(What::Id),
                        Part::Param => self.mark(What::Param),
                        Part::DnParam => self.mark(What::DnParam),
                    }
                }
            }
        }
        if is_open {
            self.mark(What::Close);
        }
    }

    /// Appends the message.
    #[inline]
    pub fn write(&self, id: u8, params: Values<'_>, out: &mut Vec<u8>) {
        let (mut from, mut param) = (0, 0);
        let (mut open, mut depth) = ([0; DEPTH_MAX], 0);
        for (at, what) in &self.marks {
            out.extend_from_slice(&self.text[from..*at]);
            from = *at;
            match what {
                What::Id => out.push(id),
                What::Open => {
                    out.extend_from_slice(&[0x84, 0, 0, 0, 0]);
                    open[depth] = out.len();
                    depth += 1;
                }
                What::Close => {
                    depth -= 1;
                    let start = open[depth];
                    let length = (out.len() - start) as u32;
                    out[start - 4..start].copy_from_slice(&length.to_be_bytes());
                }
                // Kinds have no parameters without bytes, and null is nothing.
                What::Param | What::DnParam => {
                    params.get(param).with_bytes(|bytes| match what {
                        What::DnParam => dn::push_escaped(out, bytes),
                        _ => out.extend_from_slice(bytes),
                    });
                    param += 1;
                }
            }
        }
        out.extend_from_slice(&self.text[from..]);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Value, ValueBuf};

    use super::*;

    #[test]
    fn lengths_are_filled_in_around_parameters_only() {
        let name = Node::Leaf(4, parts("uid={},x", &Part::DnParam));
        let message = Node::Group(0x30, vec![Node::Leaf(2, vec![Part::Id]), name, Node::octets("all")]);
        let template = Template::new(&message);
        let mut params = ValueBuf::new();
        params.push(Value::Text("a,b"));
        let mut out = vec![9];
        template.write(7, params.values(), &mut out);
        let expected = b"\x09\x30\x84\0\0\0\x19\x02\x01\x07\x04\x84\0\0\0\x0buid=a\\2cb,x\x04\x03all";
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}
