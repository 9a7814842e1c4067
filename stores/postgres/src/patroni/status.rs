//! State of a cluster as the REST interface of each node's Patroni reports it.
//!
//! A primary that was suspended takes itself for the primary until its Patroni has asked etcd, and the connections of
//! its replicas may still be open. Patroni replies to `GET /primary` with 200 if the node holds the primary's key, which
//! has not expired, and with 503 otherwise; the body is the node's status either way:
//! <https://patroni.readthedocs.io/en/latest/rest_api.html>. The primary's Patroni takes the request for a switchover.

use std::sync::Arc;

use plimsoll_core::{Address, Node, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::Channel;
use serde_json::{Value, json};

use super::{PATRONI_AT, patroni_name};

/// The request for a node's status; Patroni closes the connection after the reply.
const REQUEST: &[u8] = b"GET /primary HTTP/1.0\r\n\r\n";
/// Longest reply, in bytes.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// State of a server that takes connections.
const RUNNING: &str = "running";
/// State of a replica's connection to the primary, of Patroni 3.1 and later.
const STREAMING: &str = "streaming";

/// A node's status.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Status {
    /// The node holds the primary's key.
    holds_key: bool,
    role: String,
    state: String,
    /// `None` if PostgreSQL does not run, or a replica does not know it.
    timeline: Option<u64>,
    /// State of a replica's connection to the primary; `None` if Patroni does not report it.
    replication: Option<String>,
}

impl Status {
    /// Reads a reply; `None` if it is incomplete or malformed.
    fn parse(reply: &[u8]) -> Option<Self> {
        let (head, body) = std::str::from_utf8(reply).ok()?.split_once("\r\n\r\n")?;
        let holds_key = head.split(' ').nth(1)? == "200";
        let body: Value = serde_json::from_str(body).ok()?;
        let words = |name: &str| body[name].as_str().map(str::to_owned);
        Some(Self {
            holds_key,
            role: words("role")?,
            state: words("state")?,
            timeline: body["timeline"].as_u64(),
            replication: words("replication_state"),
        })
    }

    /// Reports whether a node is a running replica that follows `primary`.
    fn follows(&self, primary: &Self) -> bool {
        let is_replica = self.role == "replica" && self.state == RUNNING;
        let is_on = self.timeline.is_none() || self.timeline == primary.timeline;
        is_replica && is_on && self.replication.as_deref().is_none_or(|state| state == STREAMING)
    }
}

/// Returns why the nodes are not one primary and its replicas, if so.
///
/// # Errors
/// `Unreachable` if a Patroni does not reply; `Interrupted`.
pub(crate) fn look(nodes: &[Arc<Node>], waits: &Waits) -> Result<Result<(), String>, StoreError> {
    let status = |node: &Arc<Node>| {
        let (at, place) = rest(node);
        ask(&at, &place, REQUEST, waits, Status::parse).map(|status| (node.number + 1, status))
    };
    Ok(agreed(&nodes.iter().map(status).collect::<Result<Vec<_>, StoreError>>()?))
}

/// Makes `primary` hand over to `to`, and returns when the other node holds the primary's key.
///
/// # Errors
/// `Store` if Patroni refuses, with its words as detail; `Unreachable` if it does not reply; `Interrupted`.
pub(crate) fn switch_over(primary: &Node, to: &Node, waits: &Waits) -> Result<(), StoreError> {
    let body = json!({ "leader": patroni_name(primary.number), "candidate": patroni_name(to.number) }).to_string();
    let head = "POST /switchover HTTP/1.0\r\nContent-Type: application/json";
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (at, place) = rest(primary);
    let (code, words) = ask(&at, &place, request.as_bytes(), waits, outcome)?;
    // Patroni also accepts the request if another node takes over in the end.
    if code == "200" && !words.contains("instead of") {
        return Ok(());
    }
    let what = format!("{place} did not hand over to node {}", to.number + 1);
    Err(StoreError::new(StoreErrorKind::Store, what)
        .detail(words)
        .next("promote a replica that follows the primary, of a synchronous cluster a synchronous one"))
}

/// Returns the address of a node's Patroni, and its name in messages.
fn rest(node: &Node) -> (Address, String) {
    let at = node.listens_at(PATRONI_AT);
    (Address::Tcp(at.ip().to_string(), at.port()), format!("Patroni of node {}", node.number + 1))
}

/// Reads the reply to a request for a switchover: its code and its words; `None` if it is incomplete. Patroni sends the
/// words, a single sentence, in one piece.
fn outcome(reply: &[u8]) -> Option<(String, String)> {
    let (head, words) = std::str::from_utf8(reply).ok()?.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?;
    (!words.is_empty()).then(|| (code.to_owned(), words.to_owned()))
}

/// Sends a request, and returns the reply as `parse` reads it; `parse` returns `None` if it is incomplete.
fn ask<T>(
    at: &Address,
    place: &str,
    request: &[u8],
    waits: &Waits,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<T, StoreError> {
    let mut channel = Channel::connect(at, place, waits)?;
    channel.write(|out| out.extend_from_slice(request));
    let mut reply = Vec::new();
    while reply.len() <= REPLY_BYTES_MAX {
        channel.turn(&mut |bytes, _| {
            reply.extend_from_slice(bytes);
            bytes.len()
        })?;
        if let Some(parsed) = parse(&reply) {
            return Ok(parsed);
        }
    }
    let what = format!("{place} sent more than {REPLY_BYTES_MAX} bytes");
    Err(StoreError::broken(what).next("Check that Patroni listens there."))
}

/// Returns which of the nodes, by their numbers, is not in its place yet, if any.
fn agreed(all: &[(usize, Status)]) -> Result<(), String> {
    let holders: Vec<&(usize, Status)> = all.iter().filter(|(_, status)| status.holds_key).collect();
    let &[(leads, primary)] = holders.as_slice() else {
        return Err(format!("{} nodes hold Patroni's key of the primary", holders.len()));
    };
    if primary.state != RUNNING {
        return Err(format!("node {leads} holds Patroni's key of the primary, and is {}", primary.state));
    }
    match all.iter().find(|(number, status)| number != leads && !status.follows(primary)) {
        None => Ok(()),
        Some((number, Status { role, state, .. })) => {
            Err(format!("node {number} does not follow node {leads}: Patroni reports {role}, {state}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::path::PathBuf;
    use std::time::Duration;

    use plimsoll_core::Limits;

    use super::*;

    /// Returns a reply as Patroni 3.0.2 sends it.
    fn reply(code: u16, body: &Value) -> Vec<u8> {
        let head = "Server: BaseHTTP/0.6 Python/3.11.2\r\nContent-Type: application/json";
        format!("HTTP/1.0 {code} Words\r\n{head}\r\n\r\n{body}").into_bytes()
    }

    fn node(number: usize, code: u16, body: &Value) -> (usize, Status) {
        (number, Status::parse(&reply(code, body)).unwrap())
    }

    fn primary(number: usize, timeline: u64) -> (usize, Status) {
        let body = serde_json::json!({
            "state": "running", "role": "master", "timeline": timeline, "xlog": { "location": 872_983_100 },
        });
        node(number, 200, &body)
    }

    fn replica(number: usize, timeline: u64) -> (usize, Status) {
        node(number, 503, &serde_json::json!({ "state": "running", "role": "replica", "timeline": timeline }))
    }

    #[test]
    fn a_cluster_is_whole_if_all_others_follow_the_node_with_the_key_on_its_timeline() {
        assert_eq!(agreed(&[replica(1, 5), primary(2, 5), replica(3, 5)]), Ok(()));
        let unknown = node(3, 503, &serde_json::json!({ "state": "running", "role": "replica", "timeline": null }));
        assert_eq!(agreed(&[replica(1, 5), primary(2, 5), unknown]), Ok(()), "its timeline is not known");
        let behind = agreed(&[replica(1, 4), primary(2, 5), replica(3, 5)]);
        assert_eq!(behind, Err("node 1 does not follow node 2: Patroni reports replica, running".to_owned()));
    }

    #[test]
    fn a_former_primary_is_no_part_of_the_cluster_until_it_is_a_replica() {
        let said = |body: Value| agreed(&[node(1, 503, &body), primary(2, 5), replica(3, 5)]).unwrap_err();
        // It was suspended for longer than its key lasts.
        let resumed = said(serde_json::json!({ "state": "running", "role": "master", "timeline": 4 }));
        assert_eq!(resumed, "node 1 does not follow node 2: Patroni reports master, running");
        let rewound = said(serde_json::json!({ "state": "running pg_rewind", "role": "replica" }));
        assert_eq!(rewound, "node 1 does not follow node 2: Patroni reports replica, running pg_rewind");
        let body = serde_json::json!({
            "state": "running", "role": "replica", "timeline": 5, "replication_state": "in archive recovery",
        });
        assert_eq!(said(body), "node 1 does not follow node 2: Patroni reports replica, running");
    }

    #[test]
    fn a_cluster_without_a_key_or_with_two_of_them_is_not_whole() {
        let keys =
            |count: usize| -> Result<(), String> { Err(format!("{count} nodes hold Patroni's key of the primary")) };
        assert_eq!(agreed(&[replica(1, 5), replica(2, 5)]), keys(0));
        assert_eq!(agreed(&[primary(1, 4), primary(2, 5)]), keys(2));
        let starting = node(1, 200, &serde_json::json!({ "state": "starting", "role": "master" }));
        let still = agreed(&[starting, replica(2, 5)]).unwrap_err();
        assert_eq!(still, "node 1 holds Patroni's key of the primary, and is starting");
    }

    #[test]
    fn a_reply_in_pieces_is_read_to_its_end_and_half_of_it_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let whole = reply(503, &serde_json::json!({ "state": "running", "role": "replica", "timeline": 5 }));
        let (first, rest) = whole.split_at(whole.len() - 10);
        let (first, rest) = (first.to_vec(), rest.to_vec());
        let server = std::thread::spawn(move || {
            for pieces in [vec![first.clone(), rest], vec![first]] {
                let (mut peer, _) = listener.accept().unwrap();
                let mut request = vec![0; REQUEST.len()];
                peer.read_exact(&mut request).unwrap();
                assert_eq!(request, REQUEST);
                pieces.iter().for_each(|piece| peer.write_all(piece).unwrap());
            }
        });
        let waits = Waits::from(Duration::from_secs(60));
        let asked = || ask(&address, "Patroni of node 1", REQUEST, &waits, Status::parse);
        assert_eq!(asked(), Ok(replica(1, 5).1));
        let error = asked().unwrap_err();
        assert_eq!(
            (error.kind, &*error.what),
            (StoreErrorKind::Unreachable, "Patroni of node 1 closed the connection")
        );
        server.join().unwrap();
    }

    /// Asks a node that replies with `code` and `words` to hand over to the third node. Returns the request, too.
    fn switched_over(code: u16, words: &str) -> (Result<(), StoreError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let node = |number: usize| Node {
            number,
            data_dir: PathBuf::new(),
            socket_dir: PathBuf::new(),
            log_dir: None,
            address: Ipv4Addr::LOCALHOST,
            ports: vec![0, port],
            secret: String::new(),
            limits: Limits::default(),
        };
        let reply = format!("HTTP/1.0 {code} Words\r\nContent-Type: text/html\r\n\r\n{words}");
        let server = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                let mut byte = [0];
                peer.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            peer.write_all(reply.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        });
        let done = switch_over(&node(0), &node(2), &Waits::from(Duration::from_secs(60)));
        (done, server.join().unwrap())
    }

    #[test]
    fn a_switchover_names_both_nodes_and_ends_with_the_words_of_a_refusal() {
        let (done, request) = switched_over(200, "Successfully switched over to \"node-3\"");
        assert_eq!(done, Ok(()));
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /switchover ") && head.ends_with(&format!("Length: {}", body.len())), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body, serde_json::json!({ "leader": "node-1", "candidate": "node-3" }));
        for (code, words) in [
            (412, "candidate name does not match with sync_standby"),
            (200, "Switched over to \"node-2\" instead of \"node-3\""),
        ] {
            let error = switched_over(code, words).0.unwrap_err();
            assert_eq!((error.kind, error.detail.as_deref()), (StoreErrorKind::Store, Some(words)));
            assert_eq!(error.what, "Patroni of node 1 did not hand over to node 3");
        }
    }
}
