//! Assignment of keys to the nodes of a cluster: hash slots (Redis documentation, "Redis cluster specification").

use plimsoll_core::{Address, StoreError, StoreErrorKind};

use crate::reply::{Node, node};
use crate::resp;

/// Slots of a cluster.
pub const SLOTS: u16 = 16_384;
/// Stands for the node of a slot that no node has.
pub const NOBODY: u16 = u16::MAX;

/// The slot of a key: CRC16 (XMODEM) of what stands between its first `{` and the next `}`, if that is something, and
/// otherwise of all of it.
#[inline]
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        let index = usize::from((crc >> 8) as u8 ^ byte);
        (crc << 8) ^ CRC16[index]
    });
    crc % SLOTS
}

/// CRC16 with the polynomial 0x1021, byte by byte.
static CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// Slots that one node is the master of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
    /// Host and port of their master. An empty host is the one that was asked.
    pub master: (String, u16),
}

/// Parses the reply to CLUSTER SLOTS without replicas; `None` for a reply of another form.
pub fn parse(bytes: &[u8]) -> Option<Vec<Range>> {
    resp::whole(bytes).ok()??;
    ranges(&node(bytes)?)
}

/// Parses a reply that was taken apart.
pub(crate) fn ranges(answer: &Node) -> Option<Vec<Range>> {
    if let Node::List(ranges) = answer { ranges.iter().map(range).collect() } else { None }
}

fn range(node: &Node) -> Option<Range> {
    // Behind the master's port stand its id and other names, and behind it the replicas.
    let [Node::Int(first), Node::Int(last), Node::List(master), ..] = node.list() else { return None };
    let host = match master.first()? {
        Node::Text(host) => String::from_utf8(host.clone()).ok()?,
        Node::Null => String::new(),
        _ => return None,
    };
    let Some(Node::Int(port)) = master.get(1) else { return None };
    let number = |number: &i64| u16::try_from(*number).ok();
    let (first, last, port) = (number(first)?, number(last)?, number(port)?);
    (first <= last && last < SLOTS && port > 0).then_some(Range { first, last, master: (host, port) })
}

/// The error that it is none, of the node at `place`.
pub(crate) fn no_answer(place: &str) -> StoreError {
    StoreError::broken(format!("{place} answered CLUSTER SLOTS with a reply of another form"))
}

/// Reply of a node for a key that it does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// True if the slot has moved for good; otherwise only this operation is asked elsewhere.
    pub for_good: bool,
    /// The slot.
    pub slot: u16,
    /// Node to ask. An empty host is that of the node that replied.
    pub node: (String, u16),
}

/// Reads `MOVED 3999 127.0.0.1:6381` and `ASK 3999 127.0.0.1:6381`; `None` for every other error.
pub fn redirection(words: &str) -> Option<Redirection> {
    let mut words = words.split(' ');
    let for_good = match words.next()? {
        "MOVED" => true,
        "ASK" => false,
        _ => return None,
    };
    let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Some(Redirection { for_good, slot, node: (host, port.parse().ok()?) })
}

/// The address of a node that another one, which listens at `asked`, has named.
pub fn address((host, port): &(String, u16), asked: &Address) -> Address {
    let host = match (host.as_str(), asked) {
        ("" | "?", Address::Tcp(host, _)) => host.clone(),
        ("" | "?", Address::Unix(_)) => "127.0.0.1".to_owned(),
        (host, _) => host.to_owned(),
    };
    Address::Tcp(host, *port)
}

/// Fails if the ranges leave slots out.
///
/// # Errors
/// `Store`, with the number of slots that no node has.
pub fn demand_all(ranges: &[Range], place: &str) -> Result<(), StoreError> {
    let held: u32 = ranges.iter().map(|range| u32::from(range.last - range.first) + 1).sum();
    if held == u32::from(SLOTS) {
        return Ok(());
    }
    let what = format!("{place} is a node of a cluster that does not serve all keys");
    Err(StoreError::new(StoreErrorKind::Store, what)
        .detail(format!("{held} of {SLOTS} slots have a node"))
        .next("assign a node to every slot; redis-cli --cluster check HOST:PORT lists those without one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b""), 0);
        // As CLUSTER KEYSLOT of Redis 7.0 answers.
        for (key, slot) in [("foo", 12_182), ("foo{bar}", 5_061), ("bar", 5_061), ("{user1000}.following", 3_443)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_ne!(slot_of(b"foo{}{bar}"), slot_of(b"bar"), "the first braces hold nothing, so all of it counts");
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
    }

    #[test]
    fn an_answer_to_cluster_slots_is_read() {
        let text = b"*2\r\n*3\r\n:0\r\n:8191\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n*0\r\n\
            *4\r\n:8192\r\n:16383\r\n*3\r\n$-1\r\n:7001\r\n$2\r\nid\r\n*3\r\n$1\r\nh\r\n:7002\r\n$2\r\nid\r\n";
        let ranges = parse(text).unwrap();
        assert_eq!(ranges[0], Range { first: 0, last: 8191, master: ("127.0.0.1".to_owned(), 7000) });
        assert_eq!(ranges[1], Range { first: 8192, last: 16_383, master: (String::new(), 7001) });
        demand_all(&ranges, "here").unwrap();
        assert!(demand_all(&ranges[..1], "here").unwrap_err().detail.unwrap().starts_with("8192 of 16384"));
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), None);
        }
        assert_eq!(parse(b"*1\r\n*3\r\n:5\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n"), None);
    }

    #[test]
    fn redirections_name_a_node() {
        let moved = |for_good, host: &str, port| Redirection { for_good, slot: 3999, node: (host.to_owned(), port) };
        assert_eq!(redirection("MOVED 3999 127.0.0.1:6381"), Some(moved(true, "127.0.0.1", 6381)));
        assert_eq!(redirection("ASK 3999 ::1:6381"), Some(moved(false, "::1", 6381)));
        assert_eq!(redirection("MOVED 3999 :6381"), Some(moved(true, "", 6381)));
        for other in ["CROSSSLOT Keys in request", "MOVED 99999 h:1", "MOVED 1 h", "TRYAGAIN x", ""] {
            assert_eq!(redirection(other), None, "{other}");
        }
        let at = Address::Tcp("h".to_owned(), 1);
        assert_eq!(address(&(String::new(), 5), &at), Address::Tcp("h".to_owned(), 5));
        assert_eq!(address(&("g".to_owned(), 5), &at), Address::Tcp("g".to_owned(), 5));
    }
}
