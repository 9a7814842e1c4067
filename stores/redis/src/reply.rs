//! Replies that own what they hold, for everything that is not measured.

use crate::resp::{self, Aggregate, Reply, Token};

/// A reply that owns what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A string or a status.
    Text(Vec<u8>),
    /// An integer.
    Int(i64),
    /// Null value.
    Null,
    /// An array, a set, or a map's keys and values in turn.
    List(Vec<Node>),
    /// An error within an array.
    Error(String),
}

impl Node {
    /// Returns the text; empty if the node is none.
    pub fn text(&self) -> String {
        match self {
            Node::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Node::Int(number) => number.to_string(),
            Node::Error(words) => words.clone(),
            Node::Null | Node::List(_) => String::new(),
        }
    }

    /// The elements of a list; none when it is no list.
    pub fn list(&self) -> &[Node] {
        match self {
            Node::List(all) => all,
            _ => &[],
        }
    }
}

/// The reply that `bytes` are, which is all there; `None` for what was said unasked. Deep nesting is cut off.
pub(crate) fn node(bytes: &[u8]) -> Option<Node> {
    fn inner(bytes: &[u8], at: &mut usize, depth: u32) -> Option<Node> {
        loop {
            match resp::token(bytes.get(*at..)?) {
                Token::Reply(reply, used) => {
                    *at += used;
                    return Some(match reply {
                        Reply::Bulk(bytes) | Reply::Simple(bytes) => Node::Text(bytes.to_vec()),
                        Reply::Null => Node::Null,
                        Reply::Int(number) => Node::Int(number),
                        Reply::Error(words) => Node::Error(String::from_utf8_lossy(words).into_owned()),
                    });
                }
                Token::Aggregate(_, _, _) if depth == 0 => return None,
                Token::Aggregate(sort, elements, used) => {
                    *at += used;
                    let all = (0..elements).map_while(|_| inner(bytes, at, depth - 1)).collect();
                    match sort {
                        Aggregate::Push => return None,
                        Aggregate::Attributes => {}
                        Aggregate::List | Aggregate::Map => return Some(Node::List(all)),
                    }
                }
                _ => return None,
            }
        }
    }
    inner(bytes, &mut 0, 16)
}
