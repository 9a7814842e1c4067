//! The files, with and without the kernel around them, against the simplest thing that could be right: names and contents that are durable, and
//! changes in order that are made to them again.

mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_core::FileSystem;
use plimsoll_core::fault::Survivors;
use plimsoll_core::random::SplitMix;

use crate::counters::{AtRisk, SECTOR_BYTES};
use crate::files::Tree;
use crate::files::survival::{Unit, choose};
use crate::model::survivors;
use crate::{DeviceSpec, FaultDevice};
use targets::{Bare, Mounted, Subject};

const PAGE: usize = 4096;
/// Sequences of the core alone.
const SEQUENCES: u64 = 10_000;
const STEPS: u64 = 40;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

type Id = usize;
/// A directory, and a name in it.
type DirectoryEntry = (Id, &'static str);
const ROOT: Id = 0;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    File,
    Directory,
    Link,
}

#[derive(Clone, Debug)]
enum Op {
    Name(DirectoryEntry, Id),
    Remove(DirectoryEntry, Id),
    Rename { from: DirectoryEntry, to: DirectoryEntry, displaced: Option<Id> },
    Exchange(DirectoryEntry, DirectoryEntry, Id, Id),
    Mode(Id, u32),
    Size(Id, usize, bool),
}

impl Op {
    fn concerns(&self, names: &Names) -> Vec<Id> {
        match self {
            Self::Name(place, id) | Self::Remove(place, id) => vec![place.0, *id],
            Self::Rename { from, to, displaced } => {
                // Replayed up to here, it is what has the old name.
                let moved = names.get(from).copied();
                [from.0, to.0].into_iter().chain(moved).chain(*displaced).collect()
            }
            Self::Exchange(one, other, a, b) => vec![one.0, other.0, *a, *b],
            Self::Mode(id, _) | Self::Size(id, ..) => vec![*id],
        }
    }
}

type Names = BTreeMap<DirectoryEntry, Id>;

/// State that would remain if power were cut now, without survivors.
#[derive(Clone, Default)]
struct DiskDevice {
    names: Names,
    modes: BTreeMap<Id, u32>,
    contents: BTreeMap<Id, Vec<u8>>,
}

impl DiskDevice {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Name(place, id) => _ = self.names.insert(*place, *id),
            Op::Remove(place, _) => _ = self.names.remove(place),
            Op::Rename { from, to, .. } => {
                let id = self.names.remove(from).unwrap();
                self.names.insert(*to, id);
            }
            Op::Exchange(one, other, ..) => {
                let (a, b) = (self.names[one], self.names[other]);
                self.names.insert(*one, b);
                self.names.insert(*other, a);
            }
            Op::Mode(id, mode) => _ = self.modes.insert(*id, *mode),
            Op::Size(id, size, _) => self.contents.entry(*id).or_default().resize(*size, 0),
        }
    }
}

#[derive(Clone, Default)]
struct Unsynced {
    pages: BTreeMap<usize, (u64, u8)>,
    writes: u64,
    bytes: u64,
}

#[derive(Clone, Default)]
struct Model {
    durable: DiskDevice,
    live: DiskDevice,
    kinds: Vec<Option<Kind>>,
    pending: Vec<(u64, Op)>,
    unsynced: BTreeMap<Id, Unsynced>,
    seq: u64,
    /// Such a state at a cut that froze.
    at_cut: Option<Box<Model>>,
    is_dead: bool,
}

impl Model {
    fn new() -> Self {
        let mut model = Self { kinds: vec![Some(Kind::Directory)], ..Self::default() };
        model.live.modes.insert(ROOT, 0o700);
        model.durable.modes.insert(ROOT, 0o700);
        model
    }

    fn note(&mut self, op: Op) {
        self.seq += 1;
        self.live.apply(&op);
        self.pending.push((self.seq, op));
    }

    fn kind(&self, id: Id) -> Kind {
        self.kinds[id].unwrap()
    }

    fn is_empty(&self, id: Id) -> bool {
        !self.live.names.keys().any(|(directory, _)| *directory == id)
    }

    fn make(&mut self, place: DirectoryEntry, kind: Kind) -> bool {
        if self.live.names.contains_key(&place) {
            return false;
        }
        let id = self.kinds.len();
        self.kinds.push(Some(kind));
        for disk in [&mut self.live, &mut self.durable] {
            disk.modes.insert(id, 0o640);
            if kind == Kind::File {
                disk.contents.insert(id, Vec::new());
            }
        }
        self.note(Op::Name(place, id));
        true
    }

    fn remove(&mut self, place: DirectoryEntry, is_dir: bool) -> bool {
        let Some(&id) = self.live.names.get(&place) else { return false };
        if is_dir != (self.kind(id) == Kind::Directory) || is_dir && !self.is_empty(id) {
            return false;
        }
        self.note(Op::Remove(place, id));
        true
    }

    /// Returns true if a directory is another one, or below it.
    fn is_below(&self, mut id: Id, above: Id) -> bool {
        loop {
            if id == above {
                return true;
            }
            let Some((place, _)) = self.live.names.iter().find(|(_, named)| **named == id) else { return false };
            id = place.0;
        }
    }

    fn rename(&mut self, from: DirectoryEntry, to: DirectoryEntry) -> bool {
        let Some(&id) = self.live.names.get(&from) else { return false };
        let target = self.live.names.get(&to).copied();
        let is_dir = |id| self.kind(id) == Kind::Directory;
        if is_dir(id) && self.is_below(to.0, id) {
            return false;
        }
        match target {
            Some(target) if target == id => return true,
            Some(target) if is_dir(id) != is_dir(target) || is_dir(target) && !self.is_empty(target) => return false,
            _ => {}
        }
        self.note(Op::Rename { from, to, displaced: target });
        true
    }

    fn exchange(&mut self, one: DirectoryEntry, other: DirectoryEntry) -> bool {
        let (Some(&a), Some(&b)) = (self.live.names.get(&one), self.live.names.get(&other)) else { return false };
        if self.kind(a) == Kind::Directory && self.is_below(other.0, a)
            || self.kind(b) == Kind::Directory && self.is_below(one.0, b)
        {
            return false;
        }
        if a != b {
            self.note(Op::Exchange(one, other, a, b));
        }
        true
    }

    fn write(&mut self, id: Id, offset: usize, data: &[u8]) {
        let unsynced = self.unsynced.entry(id).or_default();
        unsynced.writes += 1;
        unsynced.bytes += data.len() as u64;
        for sector in offset / 512..(offset + data.len()).div_ceil(512) {
            let (seq, sectors) = unsynced.pages.entry(sector / 8).or_default();
            if *sectors == 0 {
                self.seq += 1;
                *seq = self.seq;
            }
            *sectors |= 1 << (sector % 8);
        }
        let contents = self.live.contents.get_mut(&id).unwrap();
        if contents.len() < offset + data.len() {
            contents.resize(offset + data.len(), 0);
        }
        contents[offset..offset + data.len()].copy_from_slice(data);
    }

    fn truncate(&mut self, id: Id, size: usize) {
        let now = self.live.contents[&id].len();
        if now == size {
            return;
        }
        let unsynced = self.unsynced.entry(id).or_default();
        if size < now {
            for (number, (_, sectors)) in &mut unsynced.pages {
                let kept = size.saturating_sub(number * PAGE).div_ceil(512).min(8);
                *sectors &= ((1_u16 << kept) - 1) as u8;
            }
            unsynced.pages.retain(|_, (_, sectors)| *sectors != 0);
        }
        self.note(Op::Size(id, size, size < now));
    }

    /// Returns, for each file with only some of its shortenings up to `upto`, the first and the last of them.
    fn torn(&self, upto: u64) -> Option<(u64, u64)> {
        let ids: BTreeSet<Id> = self.pending.iter().filter_map(|(_, op)| shorter(op)).collect();
        ids.into_iter().find_map(|id| {
            let all = || self.pending.iter().filter(move |(_, op)| shorter(op) == Some(id)).map(|(seq, _)| *seq);
            let (first, last) = (all().min()?, all().max()?);
            (first <= upto && upto < last && self.unsynced.contains_key(&id)).then_some((first, last))
        })
    }

    fn sync(&mut self, id: Id, is_data_only: bool) {
        let mut upto = 0;
        let mut names = self.durable.clone();
        for (seq, op) in &self.pending {
            let counts = !(is_data_only && matches!(op, Op::Mode(..)));
            if counts && op.concerns(&names.names).contains(&id) {
                upto = *seq;
            }
            names.apply(op);
        }
        while let Some((_, last)) = self.torn(upto) {
            upto = last;
        }
        let (done, left) = std::mem::take(&mut self.pending).into_iter().partition(|(seq, _)| *seq <= upto);
        self.pending = left;
        done.into_iter().for_each(|(_, op): (u64, Op)| self.durable.apply(&op));
        self.unsynced.remove(&id);
        if let Some(contents) = self.live.contents.get(&id) {
            self.durable.contents.insert(id, contents.clone());
        }
        self.forget_gone();
    }

    /// Files without a name, now or after any cut, have nothing at risk.
    fn forget_gone(&mut self) {
        let named: BTreeSet<Id> = self.live.names.values().chain(self.durable.names.values()).copied().collect();
        let between = self.pending.iter().filter_map(|(_, op)| if let Op::Name(_, id) = op { Some(*id) } else { None });
        let named: BTreeSet<Id> = named.into_iter().chain(between).collect();
        self.unsynced.retain(|id, _| named.contains(id));
    }

    fn at_risk(&self) -> AtRisk {
        let all = || self.unsynced.values();
        AtRisk {
            writes: all().map(|file| file.writes).sum::<u64>() + self.pending.len() as u64,
            sectors: all().flat_map(|file| file.pages.values()).map(|page| u64::from(page.1.count_ones())).sum(),
            bytes: all().map(|file| file.bytes).sum(),
        }
    }

    fn power_on(&mut self, survivors: Survivors) {
        if let Some(at_cut) = self.at_cut.take() {
            *self = *at_cut;
        }
        self.is_dead = false;
        let pages = self.unsynced.iter().flat_map(|(id, file)| {
            file.pages.iter().map(|(number, (seq, sectors))| (*seq, Unit::Page(*id as u64, *number as u64, *sectors)))
        });
        let mut units: Vec<(u64, Unit)> =
            self.pending.iter().map(|(seq, _)| (*seq, Unit::Change)).chain(pages).collect();
        units.sort_by_key(|(seq, _)| *seq);
        // What is drawn by lot, by the drawing that has tests of its own.
        let choice = choose(&units, survivors);
        let mut upto = choice.upto;
        while let Some((first, _)) = self.torn(upto) {
            upto = first - 1;
        }
        let mut after = self.durable.clone();
        let (kept, lost): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|(seq, _)| *seq <= upto);
        kept.iter().for_each(|(_, op)| after.apply(op));
        for (id, file) in std::mem::take(&mut self.unsynced) {
            if lost.iter().any(|(_, op)| shorter(op) == Some(id)) {
                continue;
            }
            let (live, contents) = (&self.live.contents[&id], after.contents.get_mut(&id).unwrap());
            for number in file.pages.keys() {
                let sectors = choice.pages.get(&(id as u64, *number as u64)).copied().unwrap_or(0);
                for sector in (0..8).filter(|sector| sectors & (1 << sector) != 0).map(|sector| number * 8 + sector) {
                    let bytes = sector * 512..((sector + 1) * 512).min(live.len());
                    contents.resize(contents.len().max(bytes.end), 0);
                    contents[bytes.clone()].copy_from_slice(&live[bytes]);
                }
            }
        }
        self.durable = after.clone();
        self.live = after;
    }

    /// Directories, with their paths.
    fn directories(&self) -> Vec<(PathBuf, Id)> {
        let mut found = vec![(PathBuf::new(), ROOT)];
        let mut at = 0;
        while at < found.len() {
            let (path, id) = found[at].clone();
            let below = self
                .live
                .names
                .iter()
                .filter(|((directory, _), named)| *directory == id && self.kind(**named) == Kind::Directory);
            found.extend(below.map(|((_, name), named)| (path.join(name), *named)));
            at += 1;
        }
        found
    }

    /// Returns the whole state, in the form of [`found`].
    fn all(&self) -> Found {
        let mut all = Found::new();
        let mut first = BTreeMap::new();
        for (path, directory) in self.directories() {
            for ((_, name), id) in self.live.names.iter().filter(|((named_in, _), _)| *named_in == directory) {
                let path = path.join(name);
                let contents = match self.kind(*id) {
                    Kind::File => self.live.contents[id].clone(),
                    Kind::Directory => b"directory".to_vec(),
                    Kind::Link => b"link".to_vec(),
                };
                let mode = if self.kind(*id) == Kind::Link { 0o777 } else { self.live.modes[id] };
                all.insert(path.clone(), (mode, contents, PathBuf::new()));
                first.entry(*id).or_insert_with(BTreeSet::new).insert(path);
            }
        }
        for paths in first.into_values() {
            let first = paths.first().unwrap().clone();
            paths.into_iter().for_each(|path| all.get_mut(&path).unwrap().2 = first.clone());
        }
        all
    }
}

fn shorter(op: &Op) -> Option<Id> {
    if let Op::Size(id, _, true) = op { Some(*id) } else { None }
}

/// Mode, contents, and the first path of the same file, by path.
type Found = BTreeMap<PathBuf, (u32, Vec<u8>, PathBuf)>;

/// Runs a sequence; returns the number of bytes and changes at risk at its cuts.
fn run(target: &mut dyn Subject, model: &mut Model, seed: u64) -> u64 {
    let mut random = SplitMix::new(seed);
    let mut at_risk = 0;
    for step in 0..STEPS {
        let what = format!("seed {seed} step {step}");
        let directories = model.directories();
        let mut place = || {
            let (path, id) = &directories[random.bits() as usize % directories.len()];
            let name = NAMES[random.bits() as usize % NAMES.len()];
            ((path.clone(), *id), name)
        };
        let (((path, id), name), ((to_path, to_id), to_name)) = (place(), place());
        let named = model.live.names.get(&(id, name)).copied();
        let file = named.filter(|named| model.kind(*named) == Kind::File);
        let whole = path.join(name);
        match random.bits() % 24 {
            20.. if model.is_dead || model.at_cut.is_some() => {
                let survivors = survivors(&mut random, 16);
                target.power_on(survivors);
                model.power_on(survivors);
                assert_eq!(target.all(), model.all(), "{what} {survivors}");
            }
            _ if model.is_dead => assert!(!target.sync(Path::new(""), false), "{what}"),
            22.. => {
                let freezes = random.bits().is_multiple_of(2);
                let (mut found, wanted) = (target.cut(freezes), model.at_risk());
                if target.splits_writes() && found.writes >= wanted.writes {
                    found.writes = wanted.writes;
                }
                assert_eq!(found, wanted, "{what}");
                at_risk += found.writes;
                match freezes {
                    true => model.at_cut = Some(Box::new(model.clone())),
                    false => model.is_dead = true,
                }
            }
            0..=3 => {
                let kind = [Kind::File, Kind::File, Kind::Directory, Kind::Link][random.bits() as usize % 4];
                assert_eq!(target.make(&path, name, kind), model.make((id, name), kind), "{what}");
            }
            4 => {
                let Some(named) = named.filter(|named| model.kind(*named) != Kind::Directory) else { continue };
                let is_free = !model.live.names.contains_key(&(to_id, to_name));
                assert_eq!(target.link(&whole, &to_path, to_name), is_free, "{what}");
                if is_free {
                    model.note(Op::Name((to_id, to_name), named));
                }
            }
            5 => assert_eq!(target.remove(&path, name, false), model.remove((id, name), false), "{what}"),
            6 => assert_eq!(target.remove(&path, name, true), model.remove((id, name), true), "{what}"),
            7..=8 => {
                let done = target.rename((&path, name), (&to_path, to_name), false);
                assert_eq!(done, model.rename((id, name), (to_id, to_name)), "{what}");
            }
            9 => {
                let done = target.rename((&path, name), (&to_path, to_name), true);
                assert_eq!(done, model.exchange((id, name), (to_id, to_name)), "{what}");
            }
            10 => {
                let Some(named) = named.filter(|named| model.kind(*named) != Kind::Link) else { continue };
                let mode = 0o600 | (random.bits() % 0o100) as u32;
                target.chmod(&whole, mode);
                model.note(Op::Mode(named, mode));
            }
            11..=15 => {
                let Some(file) = file else { continue };
                let unit = if random.bits().is_multiple_of(2) { 1 } else { SECTOR_BYTES };
                let offset = random.bits() % (5 * PAGE as u64) / unit * unit;
                let length = (1 + random.bits() % (2 * PAGE as u64)).next_multiple_of(unit);
                let data: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).collect();
                let data = &data[..length as usize];
                target.write(&whole, offset, data);
                model.write(file, offset as usize, data);
            }
            16..=17 => {
                let Some(file) = file else { continue };
                let size = random.bits() % (6 * PAGE as u64);
                let size = if random.bits().is_multiple_of(3) { 0 } else { size };
                target.truncate(&whole, size);
                model.truncate(file, size as usize);
            }
            18..=19 => {
                let Some(file) = file else { continue };
                let is_data_only = random.bits().is_multiple_of(2);
                assert!(target.sync(&whole, is_data_only), "{what}");
                if model.at_cut.is_none() {
                    model.sync(file, is_data_only);
                }
            }
            _ => {
                assert!(target.sync(&path, false), "{what}");
                if model.at_cut.is_none() {
                    model.sync(id, false);
                }
            }
        }
    }
    assert!(model.is_dead || target.all() == model.all(), "seed {seed}");
    at_risk
}

#[test]
fn ten_thousand_random_sequences_of_changes_and_cuts_leave_what_a_plain_model_leaves() {
    let mut at_risk = 0;
    // In memory, where there is such a place: nothing is synced underneath.
    let places = ["/dev/shm", "/tmp"].map(Path::new);
    let place = places.into_iter().find(|place| place.is_dir()).unwrap();
    let prefix = format!("faultfs-test-{}-", std::process::id());
    for seed in 0..SEQUENCES {
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(place).unwrap();
        let (files, hidden) = (directory.path().join("files"), directory.path().join("undo"));
        fs::create_dir(&files).unwrap();
        fs::create_dir(&hidden).unwrap();
        let tree = Tree::new(&files, &hidden, tempfile::tempfile_in(place).unwrap()).unwrap();
        at_risk += run(&mut Bare { tree, files }, &mut Model::new(), seed);
    }
    // Sequences that put nothing at risk would prove nothing.
    assert!(at_risk > SEQUENCES, "{at_risk}");
}

#[test]
fn sequences_through_a_mount_leave_what_a_plain_model_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let count = if std::env::var_os("PLIMSOLL_HEAVY").is_some() { 300 } else { 30 };
    let at_risk: u64 = (0..count)
        .map(|seed| {
            let spec = DeviceSpec {
                directory: directory.path().to_owned(),
                size_bytes: 0,
                file_system: FileSystem::Files,
                keep_log: false,
                files: None,
            };
            let mut mounted = Mounted(FaultDevice::start(&spec).unwrap());
            let at_risk = run(&mut mounted, &mut Model::new(), seed);
            mounted.0.close().unwrap();
            at_risk
        })
        .sum();
    assert!(at_risk > count, "{at_risk}");
}
