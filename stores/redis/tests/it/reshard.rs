//! Slots that move as planned work: a target that is paused is called hung, a slow one is not, and a stop leaves no
//! slot half moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::random::SplitMix;
use plimsoll_core::{Link, Nodes, Progress, StoreError, StoreErrorKind, Waits, waits};
use plimsoll_lab::Cluster;
use plimsoll_store_redis::server::Shape;
use plimsoll_store_redis::slots::slot_of;
use plimsoll_store_redis::{Control, Node, RedisRecipe};
use plimsoll_testkit::private::base;

use crate::cluster::until;
use crate::fixture::TIMEOUT;

/// Time without progress after which a reshard is called hung.
const HUNG_AFTER: Duration = Duration::from_secs(4);
/// Slots with keys, and number and size of the keys of each.
const SLOTS: u16 = 4;
const KEYS: usize = 30;
const VALUE_BYTES: usize = 20_000;

/// Returns a value that cannot be compressed, because MIGRATE sends what a snapshot would hold.
fn value() -> Vec<u8> {
    let mut random = SplitMix::new(1);
    (0..VALUE_BYTES / 8).flat_map(|_| random.bits().to_le_bytes()).collect()
}

/// Servers, and connections to them.
struct Bench {
    recipe: RedisRecipe,
    cluster: Cluster,
}

impl Bench {
    fn ask(&self, number: usize, words: &[&[u8]]) -> Node {
        let endpoint = self.recipe.endpoint(&self.cluster.nodes()[number]);
        Control::open(&endpoint, TIMEOUT).unwrap().command(words).unwrap()
    }

    /// Returns the progress of the reshard of node 1, if one runs.
    fn progress(&self) -> Option<Progress> {
        self.cluster.in_progress().unwrap().into_iter().find(|one| one.node == 0 && one.what == "reshard")
    }

    fn moved(&self) -> u64 {
        self.progress().and_then(|progress| progress.done).unwrap_or_default()
    }

    /// Begins a reshard of node 1 on a thread of its own.
    fn begin(&self) -> std::thread::JoinHandle<Result<(), StoreError>> {
        let handle = self.cluster.handle();
        std::thread::spawn(move || handle.work(Nodes::One(0), "reshard"))
    }

    /// Returns the first slot of node 1, and true if no slot is half moved.
    fn first_slot(&self) -> (u16, bool) {
        let mine = self.ask(0, &[b"CLUSTER", b"NODES"]).text();
        let own = mine.lines().find(|line| line.contains("myself")).unwrap();
        let first = own.split(' ').nth(8).unwrap().split('-').next().unwrap().parse().unwrap();
        let theirs = self.ask(1, &[b"CLUSTER", b"NODES"]).text();
        (first, !mine.contains('[') && !theirs.contains('['))
    }
}

#[test]
fn a_reshard_whose_target_is_paused_is_called_hung_and_a_slow_one_is_not() {
    let base = base();
    let shape = Shape { masters: 3, replicas: 1, sentinels: 0 };
    let recipe = RedisRecipe::new(None, Vec::new(), shape).unwrap();
    let (bases, logs, stop) = ([base.path().to_owned()], base.path().join("logs"), Arc::new(AtomicBool::new(false)));
    let waits = Waits::new(waits::ANSWER, waits::WORK, Arc::clone(&stop)).with_hung_after(HUNG_AFTER);
    let cluster = Cluster::start(Box::new(recipe.clone()), &bases, &logs, &waits, &mut |_| {}).unwrap();
    let bench = Bench { recipe, cluster };

    let reshard = bench.begin();
    until("slots move", || bench.moved() > 0);
    bench.cluster.pause(Nodes::One(1)).unwrap();
    std::thread::sleep(HUNG_AFTER / 8);
    bench.cluster.resume(Nodes::One(1)).unwrap();
    let moved = bench.moved();
    until("slots move again", || bench.moved() > moved + 5);
    bench.cluster.pause(Nodes::One(1)).unwrap();
    let error = reshard.join().unwrap().unwrap_err();
    bench.cluster.resume(Nodes::One(1)).unwrap();
    // Node 2 reads what was sent to it meanwhile, and node 1 hears of that.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(error.kind, StoreErrorKind::Broken, "{error}");
    let says = |text: &str| error.what.contains(text);
    assert!(says("reshard of node 1 hung at ") && says(" %: slot ") && says(" to node 2; no progress for "), "{error}");
    assert!(says(", waiting for CLUSTER SETSLOT on node 2"), "{error}");
    assert!(error.detail.is_some_and(|detail| detail.contains(" of 1638 slots have moved to node 2; slot ")));
    assert!(bench.cluster.check(Nodes::All).is_ok(), "no server is killed");

    let (first, _) = bench.first_slot();
    assert!(first > 5, "{first}");
    // The one that was moving may be open.
    let slots = first + 2..first + 2 + SLOTS;
    let keys: Vec<String> = slots.flat_map(|slot| keys_of(slot).take(KEYS)).collect();
    let value = value();
    for key in &keys {
        bench.ask(0, &[b"SET", key.as_bytes(), &value]);
    }
    // Ten keys take 0.8 s.
    let slow = Link { rate_bits_per_s: Some(2_000_000), ..Link::default() };
    bench.cluster.set_link(Nodes::One(1), slow).unwrap();
    let (reshard, since) = (bench.begin(), Instant::now());
    while since.elapsed() < HUNG_AFTER * 3 / 2 {
        assert!(!reshard.is_finished(), "{:?}", reshard.join());
        std::thread::sleep(Duration::from_millis(50));
    }
    stop.store(true, Ordering::SeqCst);
    let error = reshard.join().unwrap().unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Interrupted, "{error}");
    bench.cluster.set_link(Nodes::One(1), Link::default()).unwrap();
    until("no slot is half moved", || bench.first_slot().1);
    let (now, _) = bench.first_slot();
    assert!(now > first + 2, "{now}: {error:?}");
    for key in &keys {
        let home = usize::from(slot_of(key.as_bytes()) < now);
        assert_eq!(bench.ask(home, &[b"GET", key.as_bytes()]), Node::Text(value.clone()), "{key}");
    }
    bench.cluster.close().unwrap();
}

/// Returns keys of a slot.
fn keys_of(slot: u16) -> impl Iterator<Item = String> {
    let tag = (0..).map(|number: u32| format!("{{{number}}}")).find(|tag| slot_of(tag.as_bytes()) == slot).unwrap();
    (0..).map(move |number: u32| format!("{tag}{number}"))
}
