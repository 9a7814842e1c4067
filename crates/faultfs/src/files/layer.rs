//! Unsynced changes: contents of files, and the journal of changes to names, sizes and attributes, in order.
//!
//! The journal becomes durable from its beginning on, and never a change without all before it: that is how the journals of ext4 and XFS
//! are. To sync something has it become durable up to the last change that concerns that.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, Gid, Mode, RenameFlags, Uid};
use rustix::io::Errno;

use crate::counters::AtRisk;
use crate::files::node::FileNode;
use crate::files::slots::Slots;
use crate::files::survival::{Choice, Unit};
use crate::files::unsynced::Unsynced;

/// A journal that is longer becomes durable by itself, its older half: as one that is full.
const CHANGES_MAX: usize = 100_000;

/// A name in a directory.
#[derive(Debug, Clone)]
pub(crate) struct DirectoryEntry {
    pub(crate) directory: Arc<FileNode>,
    pub(crate) name: OsString,
}

/// A change, with what undoes it.
#[derive(Debug)]
pub(crate) enum Change {
    /// The entry has a new name.
    Named(DirectoryEntry),
    /// The entry has lost this name, and has a hidden one.
    Removed(DirectoryEntry, Hidden),
    /// The entry has another name; the entry that had it before has a hidden one.
    Renamed { from: DirectoryEntry, to: DirectoryEntry, displaced: Option<(Arc<FileNode>, Hidden)> },
    /// The entry has exchanged names with another.
    Exchanged { other: Arc<FileNode>, places: [DirectoryEntry; 2] },
    /// Earlier mode, user and group of the entry.
    Attributes(u32, u32, u32),
    /// The entry has another size. Its undo is part of that of the contents.
    Sized,
}

/// Number of a hidden name, under which a removed file is kept.
pub(crate) type Hidden = u64;

#[derive(Debug)]
struct Record {
    seq: u64,
    node: Arc<FileNode>,
    change: Change,
}

#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub(crate) files: HashMap<u64, Unsynced>,
    journal: VecDeque<Record>,
    /// The last changes that concern a file or directory: of all, and of those that a sync of its data needs.
    last: HashMap<u64, (u64, u64)>,
    /// Files of other sizes.
    sized: BTreeSet<u64>,
}

impl Record {
    /// Returns the nodes that the record concerns.
    fn nodes(&self) -> Vec<&Arc<FileNode>> {
        let mut nodes = vec![&self.node];
        match &self.change {
            Change::Named(place) | Change::Removed(place, _) => nodes.push(&place.directory),
            Change::Renamed { from, to, displaced } => {
                nodes.extend([&from.directory, &to.directory]);
                nodes.extend(displaced.iter().map(|(node, _)| node));
            }
            Change::Exchanged { other, places } => {
                nodes.extend(places.iter().map(|place| &place.directory));
                nodes.push(other);
            }
            Change::Attributes(..) | Change::Sized => {}
        }
        nodes
    }

    fn undo(&self, hidden: &OwnedFd) -> Result<(), Errno> {
        match &self.change {
            Change::Named(place) => {
                let flags = if self.node.is_dir() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                rustix::fs::unlinkat(place.directory.fd(), &place.name, flags)
            }
            Change::Removed(place, number) => back(&self.node, *number, place, hidden),
            Change::Renamed { from, to, displaced } => {
                rustix::fs::renameat(to.directory.fd(), &to.name, from.directory.fd(), &from.name)?;
                displaced.as_ref().map_or(Ok(()), |(node, number)| back(node, *number, to, hidden))
            }
            Change::Exchanged { places: [one, other], .. } => exchange(one, other),
            Change::Attributes(mode, uid, gid) => set_attributes(&self.node, *mode, *uid, *gid),
            Change::Sized => Ok(()),
        }
    }
}

/// Exchanges two names.
pub(crate) fn exchange(one: &DirectoryEntry, other: &DirectoryEntry) -> Result<(), Errno> {
    let (from, to) = (one.directory.fd(), other.directory.fd());
    rustix::fs::renameat_with(from, &one.name, to, &other.name, RenameFlags::EXCHANGE)
}

/// Sets the attributes of a file or directory.
pub(crate) fn set_attributes(node: &FileNode, mode: u32, uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::fs::chownat(node.fd(), "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    // A symbolic link has no mode of its own. Last, for a change of the owner takes bits from it.
    if node.kind == rustix::fs::FileType::Symlink {
        return Ok(());
    }
    rustix::fs::chmod(node.path(), Mode::from_raw_mode(mode & 0o7777))
}

/// Restores the earlier name of an entry.
fn back(node: &FileNode, number: Hidden, place: &DirectoryEntry, hidden: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::renameat(hidden, number.to_string(), place.directory.fd(), &place.name)?;
    node.hidden.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

impl Layer {
    /// Notes a change that was made. It is the last of all so far.
    pub(crate) fn note(&mut self, seq: u64, node: Arc<FileNode>, change: Change) {
        let record = Record { seq, node, change };
        let is_of_data = !matches!(record.change, Change::Attributes(..));
        for node in record.nodes() {
            let last = self.last.entry(node.ino).or_default();
            *last = (seq, if is_of_data { seq } else { last.1 });
        }
        if matches!(record.change, Change::Sized) {
            self.sized.insert(record.node.ino);
        }
        self.journal.push_back(record);
    }

    /// Returns the position up to which a journal that is too long must become durable.
    pub(crate) fn overflow(&self) -> Option<u64> {
        (self.journal.len() > CHANGES_MAX).then(|| self.journal.get(CHANGES_MAX / 2).map(|record| record.seq)).flatten()
    }

    /// Makes a file or directory durable; gives what may be closed then.
    pub(crate) fn sync(
        &mut self,
        ino: u64,
        is_data_only: bool,
        slots: &mut Slots,
        hidden: &OwnedFd,
    ) -> io::Result<Vec<u64>> {
        let mut gone = Vec::new();
        if let Some((all, of_data)) = self.last.get(&ino) {
            gone = self.commit(if is_data_only { *of_data } else { *all }, slots, hidden)?;
        }
        if let Some(unsynced) = self.files.remove(&ino) {
            unsynced.forget(slots)?;
            gone.push(ino);
        }
        Ok(gone)
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self, slots: &mut Slots, hidden: &OwnedFd) -> io::Result<Vec<u64>> {
        let mut gone = self.commit(u64::MAX, slots, hidden)?;
        for (ino, unsynced) in self.files.drain() {
            unsynced.forget(slots)?;
            gone.push(ino);
        }
        Ok(gone)
    }

    /// Makes the journal durable up to a change, and further where a file's sizes are not to be torn apart.
    pub(crate) fn commit(&mut self, mut upto: u64, slots: &mut Slots, hidden: &OwnedFd) -> io::Result<Vec<u64>> {
        while let Some(last) = self.torn(upto).map(|(_, last)| last) {
            upto = last;
        }
        let mut gone = Vec::new();
        while self.journal.front().is_some_and(|record| record.seq <= upto) {
            let Some(record) = self.journal.pop_front() else { break };
            for node in record.nodes() {
                if self.last.get(&node.ino).is_some_and(|(all, _)| *all <= upto) {
                    self.last.remove(&node.ino);
                }
                gone.push(node.ino);
            }
            let removed = match &record.change {
                Change::Removed(_, number) => Some((&record.node, *number)),
                Change::Renamed { displaced: Some((node, number)), .. } => Some((node, *number)),
                _ => None,
            };
            if let Some((node, number)) = removed {
                self.remove(node, number, slots, hidden)?;
            }
        }
        for ino in std::mem::take(&mut self.sized) {
            let Some(unsynced) = self.files.get_mut(&ino) else { continue };
            unsynced.commit_sizes(upto, slots)?;
            if unsynced.has_sizes() {
                self.sized.insert(ino);
            }
        }
        Ok(gone)
    }

    /// A file that was removed, durably now.
    fn remove(&mut self, node: &FileNode, number: Hidden, slots: &mut Slots, hidden: &OwnedFd) -> io::Result<()> {
        let flags = if node.is_dir() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(hidden, number.to_string(), flags)?;
        node.hidden.fetch_sub(1, Ordering::Relaxed);
        // With hidden names that other removals left, which are not durable: those may come back.
        if node.is_dir() || rustix::fs::fstat(node.fd())?.st_nlink == 0 {
            node.is_gone.store(true, Ordering::Relaxed);
            if let Some(unsynced) = self.files.remove(&node.ino) {
                unsynced.forget(slots)?;
            }
        }
        Ok(())
    }

    /// A file of which some, but not all changes that made it shorter are up to `upto`: the first and the last of them.
    fn torn(&self, upto: u64) -> Option<(u64, u64)> {
        let shortened = self.sized.iter().filter_map(|ino| self.files.get(ino)?.shortened());
        shortened.into_iter().find(|(first, last)| *first <= upto && upto < *last)
    }

    /// Returns the unsynced units, in order.
    pub(crate) fn units(&self) -> Vec<(u64, Unit)> {
        let pages = self.files.iter().flat_map(|(ino, unsynced)| {
            unsynced.pages().map(|(seq, number, sectors)| (seq, Unit::Page(*ino, number, sectors)))
        });
        let mut units: Vec<(u64, Unit)> =
            self.journal.iter().map(|record| (record.seq, Unit::Change)).chain(pages).collect();
        units.sort_unstable_by_key(|(seq, _)| *seq);
        units
    }

    pub(crate) fn at_risk(&self) -> AtRisk {
        AtRisk {
            writes: self.files.values().map(|file| file.writes).sum::<u64>() + self.journal.len() as u64,
            sectors: self.sectors(),
            bytes: self.files.values().map(|file| file.bytes).sum(),
        }
    }

    /// Returns the number of changes to names that are not durable.
    pub(crate) fn names(&self) -> usize {
        let is_of_name = |record: &&Record| !matches!(record.change, Change::Attributes(..) | Change::Sized);
        self.journal.iter().filter(is_of_name).count()
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.files.values().map(Unsynced::sectors).sum()
    }

    /// Makes everything what a cut leaves of it, and durable.
    pub(crate) fn restore(&mut self, choice: &Choice, slots: &mut Slots, hidden: &OwnedFd) -> io::Result<()> {
        let mut upto = choice.upto;
        while let Some((first, _)) = self.torn(upto) {
            upto = first - 1;
        }
        for (ino, unsynced) in self.files.drain() {
            let surviving = |number| choice.pages.get(&(ino, number)).copied().unwrap_or(0);
            unsynced.restore(upto, &surviving, slots)?;
        }
        while self.journal.back().is_some_and(|record| record.seq > upto) {
            self.journal.pop_back().map_or(Ok(()), |record| record.undo(hidden))?;
        }
        self.sized.clear();
        self.commit(u64::MAX, slots, hidden)?;
        self.last.clear();
        Ok(())
    }
}
