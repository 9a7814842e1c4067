//! Once warm, an operation on a cluster allocates nothing.

use std::sync::Arc;

use plimsoll_core::{Address, Branches, Op, OpKind, Ticket, Value, ValueBuf, WireSession, WireState, Wish};
use plimsoll_store_redis::cluster::{ClusterSession, Members};
use plimsoll_store_redis::endpoint::Login;
use plimsoll_store_redis::slots::slot_of;
use plimsoll_store_redis::wire::Protocol;
use plimsoll_testkit::allocations::{ROUNDS, none};
use plimsoll_testkit::pieces::Counted;

use crate::fixture::kinds;

const NODES: u16 = 3;
/// Bytes of an operation's answer: of a read, and of a write.
const REPLIES: [&[u8]; 2] = [b"$3\r\nabc\r\n", b"+OK\r\n"];

fn node(place: u16) -> Address {
    Address::Tcp("127.0.0.1".to_owned(), 7_000 + place)
}

/// Slots in equal parts.
fn owner(slot: u16) -> usize {
    usize::from(slot / 5_462)
}

/// CLUSTER SLOTS, as such nodes answer it.
fn map() -> String {
    let range = |place: u16| {
        let (first, last) = (place * 5_462, (place * 5_462 + 5_461).min(16_383));
        format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$1\r\nx\r\n", 7_000 + place)
    };
    (0..NODES).fold(format!("*{NODES}\r\n"), |all, place| all + &range(place))
}

/// A session with a connection to each node, which have answered its greetings and told it the map.
fn ready(kinds: &[OpKind]) -> ClusterSession {
    let login = Login { user: None, password: None, database: 0, place: "redis://test".to_owned() };
    let members = Members {
        login: Arc::new(login),
        tls: None,
        protocol: Protocol::Resp2,
        prefix: "plimsoll:test:".to_owned(),
        nodes: (0..NODES).map(node).collect(),
        redirections: Arc::default(),
    };
    let mut session = ClusterSession::new(Arc::new(members));
    let mut done = Counted::default();
    session.open(kinds, &mut Vec::new());
    while let Some(wish) = session.next_wish() {
        let Wish::Connect { branch, .. } = wish else { continue };
        session.connected(branch);
    }
    while session.next_wish().is_some() {}
    for branch in 0..usize::from(NODES) {
        session.out(branch).clear();
        Branches::feed(&mut session, branch, b"+OK\r\n+PONG\r\n", &mut done).unwrap();
    }
    // The first that was ready is asked for the map.
    let asked = (0..usize::from(NODES)).find(|branch| !session.out(*branch).is_empty()).unwrap();
    Branches::feed(&mut session, asked, map().as_bytes(), &mut done).unwrap();
    assert_eq!(*session.state(), WireState::Ready);
    while session.next_wish().is_some() {}
    session
}

#[test]
fn operations_on_a_cluster_allocate_nothing() {
    let kinds = kinds();
    let mut session = ready(&kinds);
    let keys: Vec<String> = (0..30).map(|number| format!("key{number}")).collect();
    let (mut params, mut done, mut asked) = (ValueBuf::new(), Counted::default(), [0_u32; NODES as usize]);
    none(1, || {
        for (ticket, key) in (0..).zip(&keys) {
            let kind = (ticket % 2) as u16;
            params.clear();
            params.push(Value::Bytes(key.as_bytes()));
            if kind == 1 {
                params.push(Value::Bytes(b"value"));
            }
            session.start(Ticket(ticket), &Op::new(kind, params.values()), &mut Vec::new());
            let wish = session.next_wish();
            let Some(Wish::Send { branch }) = wish else { panic!("{wish:?}") };
            assert!(session.next_wish().is_none());
            session.out(branch).clear();
            asked[branch] += 1;
            Branches::feed(&mut session, branch, REPLIES[usize::from(kind)], &mut done).unwrap();
        }
    });
    assert_eq!(done.0, [30 * (ROUNDS + 1), 0, 0, 0]);
    let mut theirs = [0; NODES as usize];
    keys.iter().for_each(|key| theirs[owner(slot_of(format!("plimsoll:test:{key}").as_bytes()))] += ROUNDS as u32 + 1);
    assert_eq!(asked, theirs, "each where its slot is");
}

#[test]
fn the_node_that_all_operations_in_flight_wait_for_is_known() {
    let mut session = ready(&kinds());
    let keys = |place: usize| {
        let of_place = move |key: &String| owner(slot_of(format!("plimsoll:test:{key}").as_bytes())) == place;
        (0..).map(|number| format!("key{number}")).filter(of_place)
    };
    assert_eq!(session.awaited(), None);
    let mut params = ValueBuf::new();
    for (ticket, (place, key)) in
        keys(2).take(2).map(|key| (2, key)).chain(keys(1).take(1).map(|key| (1, key))).enumerate()
    {
        params.clear();
        params.push(Value::Bytes(key.as_bytes()));
        session.start(Ticket(ticket as u32), &Op::new(0, params.values()), &mut Vec::new());
        assert_eq!(session.awaited(), (place == 2).then_some(&node(2)));
    }
}
