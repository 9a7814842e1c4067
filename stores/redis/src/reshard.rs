//! Planned work `reshard` of a cluster: slots move with their keys from one master to the next while clients go on, as
//! by `redis-cli --cluster reshard` (Redis documentation, "Scale with Redis Cluster").
//!
//! Redis has no command for that: this process moves slot after slot, and knows the progress. All masters are told the
//! new owner of each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::{Member, Node, Progress, StoreError, Waits};

use crate::control::Control;
use crate::reply::Node as Reply;
use crate::server::RedisRecipe;
use crate::slots::SLOTS;

/// Name of the work.
pub(crate) const RESHARD: &str = "reshard";
/// Most slots that one reshard moves: a tenth of all.
const SLOTS_MAX: usize = SLOTS as usize / 10;
/// Keys of one MIGRATE, as of redis-cli.
const KEYS_AT_ONCE: &[u8] = b"10";
/// Time-out of MIGRATE, in milliseconds. The source serves no client while it waits.
const MIGRATE_TIMEOUT_MS: &[u8] = b"5000";
/// Pause before a MIGRATE is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Longest wait for the source's reply after a stop. It is longer than MIGRATE's time-out, so that its result is known.
const STOP_GRACE: Duration = Duration::from_secs(7);
/// Longest time of the reply of a master that takes no part.
const TELL_BOUND: Duration = Duration::from_secs(1);
/// Limits of the source and the target while a slot is settled after a failure or a stop.
const SETTLE_BOUNDS: [Duration; 2] = [Duration::from_secs(6), Duration::from_secs(2)];

/// Progress of the reshard of a recipe's servers, by the number of the node that gives slots away; one at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reshards(Arc<Mutex<BTreeMap<usize, Progress>>>);

impl Reshards {
    /// Returns the progress of the reshard of a node, if one runs.
    pub fn of(&self, node: usize) -> Option<Progress> {
        self.all().get(&node).cloned()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<usize, Progress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, node: usize) -> Result<Noted<'_>, StoreError> {
        let mut all = self.all();
        // Each has the target take a new epoch of the configuration, and two at once may take the same.
        if let Some(other) = all.keys().next() {
            let what = format!("a reshard of node {} has not ended: a cluster has one at a time", other + 1);
            return Err(StoreError::usage(what).next("wait until it has ended: plimsoll lab status"));
        }
        all.insert(node, Progress::new(node, RESHARD));
        Ok(Noted { all: self, node })
    }
}

/// A reshard that runs, until the value is dropped.
struct Noted<'r> {
    all: &'r Reshards,
    node: usize,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.all.all().remove(&self.node);
    }
}

/// Moves a tenth of all slots, but at most half of those of `node`, from `node` to the next master that runs.
///
/// # Errors
/// `Usage` if the node is no master or no other one runs; `Interrupted`; a refusal by a server. The error
/// describes the state of the slot that was moving.
pub(crate) fn run(recipe: &RedisRecipe, node: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
    let noted = recipe.reshards.begin(node.number)?;
    let mut source = Control::open(&recipe.endpoint(&node), waits.with_grace(STOP_GRACE))?;
    let known = masters(&source.command(&[b"CLUSTER", b"NODES"])?.text());
    let number = node.number + 1;
    let own = known.iter().find(|master| master.is_asked && master.slots.len() > 1);
    let own = own.ok_or_else(|| StoreError::usage(format!("node {number} is no master with several slots now")))?;
    let later = node.nodes.iter().filter(|other| other.number > node.number);
    let mut others = later.chain(node.nodes.iter().filter(|other| other.number < node.number));
    let next = others.find_map(|other| {
        let address = other.listens_at(0).to_string();
        Some((other, known.iter().find(|master| master.address == address)?))
    });
    let no_other = || StoreError::usage(format!("node {number} knows no other master that runs"));
    let (target, other) = next.ok_or_else(no_other)?;
    // A target that did not answer took them later, and the source heard of that from others.
    for (slot, _) in own.moving.iter().filter(|(slot, _)| !own.slots.contains(slot)) {
        source.command(&[b"CLUSTER", b"SETSLOT", slot.to_string().as_bytes(), b"STABLE"])?;
    }
    let slots = own.movable(&other.id);
    let mut mover = Mover {
        recipe,
        nodes: [node.node, target],
        ids: [&own.id, &other.id].map(String::as_str),
        noted,
        done: 0,
        total: slots.len() as u64,
        slot: SLOTS,
        keys: 0,
        is_split: false,
        is_empty: false,
    };
    let is_third = |other: &&Arc<Node>| {
        let address = other.listens_at(0).to_string();
        let is_known = || known.iter().any(|master| master.address == address);
        other.number != node.number && other.number != target.number && is_known()
    };
    let looks = waits.with_answer(TELL_BOUND);
    let others =
        node.nodes.iter().filter(is_third).filter_map(|other| Control::open(&recipe.endpoint(other), &looks).ok());
    let others = others.collect();
    let mut links = Links { source, target: Control::open(&recipe.endpoint(target), waits)?, others };
    for slot in slots {
        (mover.slot, mover.keys, mover.is_split, mover.is_empty) = (slot, 0, false, false);
        if let Err(error) = mover.move_slot(&mut links) {
            let state = mover.settled();
            let detail = error.detail.iter().chain([&state]).cloned().collect::<Vec<_>>().join("; ");
            return Err(error.detail(detail));
        }
        mover.done += 1;
    }
    Ok(())
}

/// A running master, as CLUSTER NODES lists it.
#[derive(Debug, PartialEq, Eq)]
struct Master {
    id: String,
    /// Host and port of clients: `127.0.0.1:7000`.
    address: String,
    /// True for the node that was asked.
    is_asked: bool,
    slots: Vec<u16>,
    /// Slots that are moving to another master, and its id.
    moving: Vec<(u16, String)>,
}

impl Master {
    /// Returns the slots that one reshard moves to the master `to`, without those that are moving to a third one.
    fn movable(&self, to: &str) -> Vec<u16> {
        let count = SLOTS_MAX.min(self.slots.len() / 2);
        let elsewhere = |slot: u16| self.moving.iter().any(|(moving, other)| *moving == slot && other != to);
        self.slots.iter().copied().filter(|slot| !elsewhere(*slot)).take(count).collect()
    }
}

/// Reads the reply to CLUSTER NODES: masters that are not taken for failed.
fn masters(text: &str) -> Vec<Master> {
    let master = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [id, address, flags, _, _, _, _, _, slots @ ..] = &words[..] else { return None };
        let has = |flag: &str| flags.split(',').any(|one| one == flag);
        if !has("master") || has("fail") || has("fail?") {
            return None;
        }
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((*word, *word));
            Some(first.parse::<u16>().ok()?..=last.parse().ok()?)
        };
        let open = |word: &&str| {
            let (slot, id) = word.strip_prefix('[')?.strip_suffix(']')?.split_once("->-")?;
            Some((slot.parse::<u16>().ok()?, id.to_owned()))
        };
        Some(Master {
            id: (*id).to_owned(),
            address: address.split('@').next().unwrap_or_default().to_owned(),
            is_asked: has("myself"),
            slots: slots.iter().filter_map(range).flatten().collect(),
            moving: slots.iter().filter_map(open).collect(),
        })
    };
    text.lines().filter_map(master).collect()
}

/// Connections to the masters.
struct Links {
    source: Control,
    target: Control,
    /// Masters that take no part.
    others: Vec<Control>,
}

/// The move of slots from one master, the first of each pair, to another.
struct Mover<'a> {
    recipe: &'a RedisRecipe,
    nodes: [&'a Node; 2],
    ids: [&'a str; 2],
    noted: Noted<'a>,
    /// Number of slots that have moved, and of all.
    done: u64,
    total: u64,
    /// The slot that moves, and the number of its keys that have moved.
    slot: u16,
    keys: u64,
    /// True if keys of the slot may be with the target.
    is_split: bool,
    /// True if the source has no key of the slot left.
    is_empty: bool,
}

impl Mover<'_> {
    /// Moves the slot, or the rest of a move that was begun.
    fn move_slot(&mut self, links: &mut Links) -> Result<(), StoreError> {
        let (began, slot, [from, to]) = (Instant::now(), self.slot.to_string(), self.ids);
        if !self.is_empty {
            // The target first, because the source then sends clients there.
            self.set_slot(&mut links.target, 1, &[b"IMPORTING", from.as_bytes()])?;
            self.set_slot(&mut links.source, 0, &[b"MIGRATING", to.as_bytes()])?;
        }
        while !self.is_empty {
            links.source.waits().check_whole(began, "the move of a slot")?;
            let ask: [&[u8]; 4] = [b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), KEYS_AT_ONCE];
            let answer = links.source.long_command(&ask)?;
            let key = |key: &Reply| if let Reply::Text(key) = key { Some(key.clone()) } else { None };
            let keys: Vec<Vec<u8>> = answer.list().iter().filter_map(key).collect();
            if keys.is_empty() {
                self.is_empty = true;
            } else {
                self.migrate(&keys, links)?;
            }
        }
        self.set_slot(&mut links.target, 1, &[b"NODE", to.as_bytes()])?;
        self.set_slot(&mut links.source, 0, &[b"NODE", to.as_bytes()])?;
        // One that does not answer learns it from the others.
        let set: [&[u8]; 5] = [b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"NODE", to.as_bytes()];
        links.others.retain_mut(|other| other.command(&set).is_ok());
        links.source.waits().check()
    }

    /// Moves some keys. Returns without an error if the source has not reached the target: it keeps these keys.
    fn migrate(&mut self, keys: &[Vec<u8>], links: &mut Links) -> Result<(), StoreError> {
        let [source, target] = self.nodes;
        let (host, port) = (target.address.to_string(), target.listens_at(0).port().to_string());
        self.note(&format!("MIGRATE on node {}", source.number + 1));
        let to: [&[u8]; 6] = [b"MIGRATE", host.as_bytes(), port.as_bytes(), b"", b"0", MIGRATE_TIMEOUT_MS];
        // A copy that an earlier time-out has left at the target is older.
        let how: [&[u8]; 4] = [b"REPLACE", b"AUTH", source.secret.as_bytes(), b"KEYS"];
        let words: Vec<&[u8]> = to.into_iter().chain(how).chain(keys.iter().map(Vec::as_slice)).collect();
        self.is_split = true;
        match links.source.long_command(&words) {
            Ok(_) => {
                self.keys += keys.len() as u64;
                Ok(())
            }
            Err(error) if error.detail.as_deref().is_some_and(|words| words.starts_with("IOERR")) => {
                let words = error.detail.unwrap_or_default();
                self.note(&format!("PING on node {} after {words}", target.number + 1));
                links.target.long_command(&[b"PING"])?;
                links.source.waits().pause(RETRY_PAUSE)
            }
            Err(error) => Err(error),
        }
    }

    /// Sets the state of the slot on one of the two nodes.
    fn set_slot(&self, link: &mut Control, at: usize, state: &[&[u8]]) -> Result<(), StoreError> {
        let slot = self.slot.to_string();
        self.note(&format!("CLUSTER SETSLOT on node {}", self.nodes[at].number + 1));
        let set: [&[u8]; 3] = [b"CLUSTER", b"SETSLOT", slot.as_bytes()];
        let words: Vec<&[u8]> = set.into_iter().chain(state.iter().copied()).collect();
        link.long_command(&words).map(drop)
    }

    /// Notes the position, and the present wait.
    fn note(&self, waits_for: &str) {
        let [source, target] = self.nodes.map(|node| node.number);
        let keys = if self.keys > 0 { format!(", {} keys", self.keys) } else { String::new() };
        let progress = Progress::new(source, RESHARD)
            .step(format!("slot {} to node {}{keys}", self.slot, target + 1))
            .done(self.done, Some(self.total), "slots")
            .waiting_for(waits_for);
        self.noted.all.all().insert(source, progress);
    }

    /// Ends the move of the slot after a failure or a stop, and describes its state: moved, or not begun. If the nodes
    /// do not answer, it stays half moved.
    fn settled(&mut self) -> String {
        let ([from, to], moved) = (self.nodes.map(|node| node.number + 1), self.done);
        let (state, moved) = match self.settle() {
            Ok(true) => (format!("slot {} was the last of them", self.slot), moved + 1),
            Ok(false) => (format!("slot {} is with node {from} as before", self.slot), moved),
            Err(_) => {
                let state = "may stay open: clients are redirected to keys that have moved";
                (format!("slot {} {state}; redis-cli --cluster fix ends that", self.slot), moved)
            }
        };
        format!("{moved} of {} slots have moved to node {to}; {state}", self.total)
    }

    /// Finishes the move of the slot, or undoes it as long as no key may have moved. Returns true if it has moved.
    fn settle(&mut self) -> Result<bool, StoreError> {
        let open = |at: usize| Control::open(&self.recipe.endpoint(self.nodes[at]), SETTLE_BOUNDS[at]);
        let target = open(1);
        let mut source = open(0)?;
        let error = match target {
            Err(error) => error,
            Ok(target) => {
                let mut links = Links { source, target, others: Vec::new() };
                match self.move_slot(&mut links) {
                    Ok(()) => return Ok(true),
                    Err(error) => {
                        source = Control::open(&self.recipe.endpoint(self.nodes[0]), SETTLE_BOUNDS[0])?;
                        error
                    }
                }
            }
        };
        if self.is_split || self.is_empty {
            return Err(error);
        }
        // If the target takes the slot for one that comes, the next reshard sets that anew.
        self.set_slot(&mut source, 0, &[b"STABLE"]).map(|()| false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        aa :7000@17000 myself,master - 0 0 1 connected 0-3 9 [2->-cc] [3->-bb] [77-<-bb]\n\
        bb 127.0.0.1:7001@17001,host master - 0 1700000000000 2 connected 4-8\n\
        cc 127.0.0.1:7002@17002 master,fail? - 0 1700000000000 3 connected 10-16383\n\
        dd 127.0.0.1:7003@17003 slave aa 0 1700000000000 1 connected\n";

    #[test]
    fn masters_that_run_are_read_with_their_slots() {
        let found = masters(NODES);
        let [own, other] = &found[..] else { panic!("{found:?}") };
        assert_eq!((own.id.as_str(), own.is_asked, &own.slots[..]), ("aa", true, &[0, 1, 2, 3, 9][..]));
        assert_eq!(own.moving, [(2, "cc".to_owned()), (3, "bb".to_owned())]);
        assert_eq!((other.address.as_str(), other.is_asked, other.slots.len()), ("127.0.0.1:7001", false, 5));
        assert!(masters("aa :7000@17000 myself").is_empty());
    }

    #[test]
    fn half_of_a_masters_slots_move_at_most_and_none_that_is_on_its_way_elsewhere() {
        let own = masters(NODES).remove(0);
        assert_eq!((own.movable("bb"), own.movable("cc")), (vec![0, 1], vec![0, 1]));
        let busy = Master { moving: vec![(0, "cc".to_owned())], ..masters(NODES).remove(0) };
        assert_eq!((busy.movable("bb"), busy.movable("cc")), (vec![1, 2], vec![0, 1]));
        let all = Master { slots: (0..SLOTS).collect(), moving: Vec::new(), ..own };
        assert_eq!(all.movable("bb").len(), 1_638);
    }

    #[test]
    fn a_cluster_has_one_reshard_at_a_time() {
        let all = Reshards::default();
        let first = all.begin(0).unwrap();
        for node in [0, 1] {
            let error = all.begin(node).err().unwrap();
            assert!(error.what.contains("a reshard of node 1 has not ended"), "{error}");
            assert!(error.next.unwrap().contains("plimsoll lab status"));
        }
        assert!(all.of(1).is_none());
        assert_eq!(all.of(0), Some(Progress::new(0, RESHARD)));
        drop(first);
        assert!(all.of(0).is_none());
        assert!(all.begin(0).is_ok());
    }
}
