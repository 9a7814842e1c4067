//! State of a cluster as the REST interface of each node's Patroni reports it.
//!
//! A primary that was suspended takes itself for the primary until its Patroni has asked etcd, and the connections of
//! its replicas may still be open. Patroni replies to `GET /primary` with 200 if the node holds the primary's key, which
//! has not expired, and with 503 otherwise; the body is the node's status either way:
//! <https://patroni.readthedocs.io/en/latest/rest_api.html>.

use std::sync::Arc;

use plimsoll_core::{Address, Node, StoreError, Waits};
use plimsoll_endpoint::Channel;
use serde_json::Value;

use super::PATRONI_AT;

/// The request; Patroni closes the connection after the reply.
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
        let (at, number) = (node.listens_at(PATRONI_AT), node.number + 1);
        let place = format!("Patroni of node {number}");
        ask(&Address::Tcp(at.ip().to_string(), at.port()), &place, waits).map(|status| (number, status))
    };
    Ok(agreed(&nodes.iter().map(status).collect::<Result<Vec<_>, StoreError>>()?))
}

fn ask(at: &Address, place: &str, waits: &Waits) -> Result<Status, StoreError> {
    let mut channel = Channel::connect(at, place, waits)?;
    channel.write(|out| out.extend_from_slice(REQUEST));
    let mut reply = Vec::new();
    while reply.len() <= REPLY_BYTES_MAX {
        channel.turn(&mut |bytes, _| {
            reply.extend_from_slice(bytes);
            bytes.len()
        })?;
        if let Some(status) = Status::parse(&reply) {
            return Ok(status);
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
    use std::net::TcpListener;
    use std::time::Duration;

    use plimsoll_core::StoreErrorKind;

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
        assert_eq!(ask(&address, "Patroni of node 1", &waits), Ok(replica(1, 5).1));
        let error = ask(&address, "Patroni of node 1", &waits).unwrap_err();
        assert_eq!(
            (error.kind, &*error.what),
            (StoreErrorKind::Unreachable, "Patroni of node 1 closed the connection")
        );
        server.join().unwrap();
    }
}
