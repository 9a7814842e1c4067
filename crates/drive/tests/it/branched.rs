//! Sessions with a connection to each of two servers, one of which ends it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::pace::ThinkTime;
use plimsoll_core::{
    Branches, CompletionSink, Op, OpKind, Sessions, StoreError, Ticket, WireClient, WireSession, WireState, Wish,
};
use plimsoll_drive::{DriveSpec, Io};

use crate::seen::{drive, endless};
use crate::toy::{Act, Server, client_of_depth};
use crate::wire::{for_ms, over_both};

const MS: Duration = Duration::from_millis(1);

over_both! {
    an_idle_connection_beside_a_busy_one_ends_without_a_loss,
    a_server_that_ends_each_connection_at_once_is_tried_again_after_a_wait,
    slices_have_the_parts_of_the_keys_that_sessions_know,
}

/// Session that asks the first of two servers, and is connected to both. All operations are for the second part of its
/// keys.
struct Pair {
    state: WireState,
    sides: [Side; 2],
    wishes: VecDeque<Wish>,
    kinds: Vec<OpKind>,
}

struct Side {
    client: WireClient,
    out: Vec<u8>,
    is_ready: bool,
}

impl WireSession for Pair {
    fn open(&mut self, kinds: &[OpKind], _: &mut Vec<u8>) {
        (self.kinds, self.state) = (kinds.to_vec(), WireState::Opening);
        self.wishes.clear();
        for (branch, side) in self.sides.iter_mut().enumerate() {
            side.is_ready = false;
            self.wishes.push_back(Wish::Connect { branch, address: side.client.address.clone() });
        }
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, _: usize) {}

    fn depth_max(&self) -> u32 {
        self.sides[0].client.session.depth_max()
    }

    fn start(&mut self, ticket: Ticket, op: &Op<'_>, _: &mut Vec<u8>) {
        let [side, _] = &mut self.sides;
        side.client.session.start(ticket, op, &mut side.out);
        self.wishes.push_back(Wish::Send { branch: 0 });
    }

    fn flush(&mut self, _: &mut Vec<u8>) {
        let [side, _] = &mut self.sides;
        side.client.session.flush(&mut side.out);
        self.wishes.push_back(Wish::Send { branch: 0 });
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, _: &mut dyn CompletionSink) -> usize {
        bytes.len()
    }

    fn close(&mut self, _: &mut Vec<u8>) {}

    fn key_parts(&self) -> u8 {
        3
    }

    fn key_part(&self) -> u8 {
        1
    }

    fn branches(&mut self) -> Option<&mut dyn Branches> {
        Some(self)
    }
}

impl Branches for Pair {
    fn count_max(&self) -> usize {
        2
    }

    fn next_wish(&mut self) -> Option<Wish> {
        self.wishes.pop_front()
    }

    fn connected(&mut self, branch: usize) {
        let side = &mut self.sides[branch];
        side.out.clear();
        side.client.session.open(&self.kinds, &mut side.out);
        self.wishes.push_back(Wish::Send { branch });
    }

    fn feed(&mut self, branch: usize, bytes: &[u8], done: &mut dyn CompletionSink) -> Result<usize, StoreError> {
        let side = &mut self.sides[branch];
        let used = side.client.session.feed(bytes, &mut side.out, done);
        side.is_ready = *side.client.session.state() == WireState::Ready;
        if self.sides.iter().all(|side| side.is_ready) {
            self.state = WireState::Ready;
        }
        Ok(used)
    }

    fn lost(&mut self, branch: usize, error: &StoreError, _: &mut dyn CompletionSink) {
        let was_ready = std::mem::take(&mut self.sides[branch].is_ready);
        // Nothing is in flight on the other one, and one that cannot be made is tried at the name's next address.
        if branch == 0 && was_ready {
            self.state = WireState::Failed(error.clone());
        }
    }

    fn out(&mut self, branch: usize) -> &mut Vec<u8> {
        &mut self.sides[branch].out
    }
}

fn pair(servers: [&Server; 2], depth: usize) -> Sessions {
    let sides = servers.map(|server| Side {
        client: client_of_depth(server.address.clone(), 0, depth),
        out: Vec::new(),
        is_ready: false,
    });
    let address = servers[0].address.clone();
    let session = Pair { state: WireState::Opening, sides, wishes: VecDeque::new(), kinds: Vec::new() };
    Sessions::Wire(vec![WireClient { address, session: Box::new(session) }])
}

fn an_idle_connection_beside_a_busy_one_ends_without_a_loss(io: Io) {
    let [busy, idle] = [(); 2].map(|()| Server::tcp(|_, _, _| Act::Answer));
    idle.manner.idle_ms.store(200, SeqCst);
    for depth in [1, 2] {
        let spec = DriveSpec { depth, ..for_ms(io, 1_100) };
        let (driven, log) = drive(&spec, pair([&busy, &idle], depth as usize), endless());
        let result = &driven.result;
        assert_eq!((result.lost_connections, result.down_ns), (0, 0), "depth {depth}");
        assert!((1..=6).contains(&result.ended_connections), "{}", result.ended_connections);
        assert!(result.errors.is_empty(), "{:?}", result.errors);
        log.check_cycles(1);
    }
}

fn a_server_that_ends_each_connection_at_once_is_tried_again_after_a_wait(io: Io) {
    let [busy, idle] = [(); 2].map(|()| Server::tcp(|_, _, _| Act::Answer));
    idle.manner.idle_ms.store(300, SeqCst);
    let manner = Arc::clone(&idle.manner);
    let setter = std::thread::spawn(move || {
        while manner.connections.load(SeqCst) == 0 {
            std::thread::sleep(MS);
        }
        std::thread::sleep(MS * 100);
        manner.idle_ms.store(1, SeqCst);
    });
    // While its client thinks, nothing is in flight.
    let spec = DriveSpec { think: Some(ThinkTime::Constant(10_000_000_000)), ..for_ms(io, 1_500) };
    let (driven, _) = drive(&spec, pair([&busy, &idle], 1), endless());
    setter.join().unwrap();
    let tried = idle.manner.connections.load(SeqCst);
    assert!((2..=150).contains(&tried), "{tried} connections in 1.2 s");
    assert!(driven.result.lost_connections > 0 && driven.result.ops == 1, "{:?}", driven.result);
}

fn slices_have_the_parts_of_the_keys_that_sessions_know(io: Io) {
    let [busy, idle] = [(); 2].map(|()| Server::tcp(|_, _, _| Act::Answer));
    for depth in [1, 2] {
        let spec = DriveSpec { depth, ..for_ms(io, 300) };
        let (driven, _) = drive(&spec, pair([&busy, &idle], depth as usize), endless());
        let (mut asked, mut answered) = (0u64, 0u64);
        for slice in &driven.slices {
            let parts = slice.key_parts.as_ref().unwrap();
            assert_eq!((parts.of, parts.ticks.len()), (3, slice.ticks.len()), "slice {}", slice.ordinal);
            for (tick, of_all) in parts.ticks.iter().zip(&slice.ticks) {
                assert_eq!(tick.answered != 0, of_all.answered > 0, "slice {}", slice.ordinal);
                (asked, answered) = (asked | tick.asked, answered | tick.answered);
            }
        }
        assert_eq!((asked & !0b010, answered), (0, 0b010), "depth {depth}");
    }
}
