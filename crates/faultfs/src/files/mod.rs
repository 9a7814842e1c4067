//! A directory whose power can go, without FUSE: what is done to it is done underneath at once, and what is needed to undo that is kept
//! until it is synced.
//!
//! A cut that freezes takes nothing away: what comes later is kept in a second layer, which the next power-on undoes first.

mod contents;
mod fuse;
mod layer;
#[cfg(test)]
mod model;

mod node;
mod slots;
mod survival;
mod unsynced;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::counters::{AtRisk, Counters, SECTOR_BYTES, UnsyncedFile};
use crate::files::layer::{Change, DirectoryEntry, Layer, exchange, set_attributes};
use crate::files::node::{FileNode, Nodes, stat_at};
use crate::files::slots::Slots;
use crate::files::survival::{Choice, choose};
use crate::files::unsynced::Unsynced;
use crate::log::now_ns;
use crate::power::{Fate, Power};
use crate::shared::Device;
use plimsoll_core::fault::{RequestKind, Survivors};

pub(crate) use fuse::mount;

/// Owner and mode of a new entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Maker {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
}

/// New entry in a directory.
pub(crate) enum New<'a> {
    File,
    Directory,
    Link(&'a Path),
    /// A pipe, a socket or a device, with its number.
    Special(FileType, u64),
}

#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Nodes,
    /// Path of the directory, for messages.
    path: String,
    /// A directory beside it for what was removed and may come back.
    hidden: OwnedFd,
    hidden_count: u64,
    slots: Slots,
    seq: u64,
    unsynced: Layer,
    /// Since a cut that froze it.
    after: Layer,
    power: Power,
    at_cut: Vec<UnsyncedFile>,
    /// Error of the directory below; after it there is no power.
    broken: Option<String>,
}

impl Tree {
    /// Opens the files in a directory. `hidden` is an empty one on the same file system, `spill` a file for what
    /// memory does not hold.
    pub(crate) fn new(files: &Path, hidden: &Path, spill: File) -> Result<Self, Errno> {
        let open = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty())
        };
        Ok(Self {
            nodes: Nodes::new(open(files)?)?,
            path: files.display().to_string(),
            hidden: open(hidden)?,
            hidden_count: 0,
            slots: Slots::new(spill),
            seq: 0,
            unsynced: Layer::default(),
            after: Layer::default(),
            power: Power::default(),
            at_cut: Vec::new(),
            broken: None,
        })
    }

    /// Returns the delay of the next such request.
    pub(crate) fn delay(&mut self, on: RequestKind) -> Option<Duration> {
        self.power.delay(on)
    }

    /// Returns the unsynced files: now, or at the cut that has happened.
    fn unsynced_files(&self) -> Vec<UnsyncedFile> {
        if self.cut().is_some() {
            return self.at_cut.clone();
        }
        let now = now_ns();
        let of = |file: &Unsynced| {
            let path = std::fs::read_link(file.node.path()).unwrap_or_default();
            let path = path.strip_prefix(&self.path).map_or("(removed)".into(), |path| path.display().to_string());
            let age = Duration::from_nanos(now.saturating_sub(file.since_ns));
            let (bytes, writes) = (file.sectors() * SECTOR_BYTES, file.writes);
            UnsyncedFile { path, bytes, age, writes, replaces: file.replaces() }
        };
        let mut files: Vec<_> = self.unsynced.files.values().map(of).filter(|file| file.bytes > 0).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files
    }

    /// Without the directory below there is no power, because it could not answer as a disk.
    fn need<T>(&mut self, done: io::Result<T>) -> Result<T, Errno> {
        done.map_err(|error| {
            self.broken = Some(format!("{}: {error}", self.path));
            if self.cut().is_none() {
                let _ = self.power_off();
            }
            Errno::IO
        })
    }

    /// Fails unless there is power, or its loss is hidden by a freeze.
    fn live(&self) -> Result<(), Errno> {
        if self.power.is_dead() || self.broken.is_some() { Err(Errno::IO) } else { Ok(()) }
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Notes a change that was made to what is not durably gone.
    fn note(&mut self, node: &Arc<FileNode>, change: Change) -> Result<(), Errno> {
        if node.is_gone.load(Ordering::Relaxed) {
            return Ok(());
        }
        let seq = self.next_seq();
        if self.power.is_frozen() {
            self.after.note(seq, Arc::clone(node), change);
            return Ok(());
        }
        self.unsynced.note(seq, Arc::clone(node), change);
        if let Some(upto) = self.unsynced.overflow() {
            let committed = self.unsynced.commit(upto, &mut self.slots, &self.hidden);
            let gone = self.need(committed)?;
            self.let_go(gone);
        }
        Ok(())
    }

    fn let_go(&mut self, inos: Vec<u64>) {
        inos.into_iter().for_each(|ino| self.nodes.let_go(ino));
    }

    pub(crate) fn root(&self) -> u64 {
        self.nodes.root.ino
    }

    pub(crate) fn node(&self, ino: u64) -> Result<Arc<FileNode>, Errno> {
        self.live()?;
        self.nodes.get(ino)
    }

    /// Looks a name up in a directory.
    pub(crate) fn lookup(&mut self, directory: u64, name: &OsStr) -> Result<Stat, Errno> {
        let directory = self.node(directory)?;
        self.nodes.at(&directory, name)?.stat()
    }

    /// The kernel knows one of these more.
    pub(crate) fn looked_up(&mut self, ino: u64) {
        self.nodes.looked_up(ino);
    }

    /// The kernel has forgotten it so often.
    pub(crate) fn forget(&mut self, ino: u64, times: u64) {
        self.nodes.forget(ino, times);
    }

    fn has_room(&mut self) -> Result<(), Errno> {
        if self.cut().is_none() && self.power.has_no_room() { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Makes something new.
    pub(crate) fn make(&mut self, directory: u64, name: &OsStr, new: &New<'_>, maker: Maker) -> Result<Stat, Errno> {
        let directory = self.node(directory)?;
        self.has_room()?;
        let (fd, mode) = (directory.fd(), Mode::from_raw_mode(maker.mode & 0o7777));
        match *new {
            New::File => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(fd, name, flags, mode).map(drop)?;
            }
            New::Directory => rustix::fs::mkdirat(fd, name, mode)?,
            New::Link(target) => rustix::fs::symlinkat(target, fd, name)?,
            New::Special(kind, device) => rustix::fs::mknodat(fd, name, kind, mode, device)?,
        }
        let above = directory.stat()?;
        // As a file system does: a directory with the bit of the group gives that to what is made in it.
        let gid = if above.st_mode & libc::S_ISGID != 0 { above.st_gid } else { maker.gid };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(fd, name, Some(Uid::from_raw(maker.uid)), Some(Gid::from_raw(gid)), flags)?;
        let node = self.nodes.at(&directory, name)?;
        if let New::File = new {
            let file = Unsynced::new(Arc::clone(&node), 0, now_ns());
            self.layer().files.insert(node.ino, file);
        }
        let place = DirectoryEntry { directory, name: name.to_owned() };
        self.note(&node, Change::Named(place))?;
        node.stat()
    }

    /// Returns the layer of unsynced changes, or of changes that are to be discarded.
    fn layer(&mut self) -> &mut Layer {
        if self.power.is_frozen() { &mut self.after } else { &mut self.unsynced }
    }

    /// Adds a name for an entry.
    pub(crate) fn link(&mut self, ino: u64, directory: u64, name: &OsStr) -> Result<Stat, Errno> {
        let (node, directory) = (self.node(ino)?, self.node(directory)?);
        self.has_room()?;
        rustix::fs::linkat(node.fd(), "", directory.fd(), name, AtFlags::EMPTY_PATH)?;
        self.note(&node, Change::Named(DirectoryEntry { directory, name: name.to_owned() }))?;
        node.stat()
    }

    /// Takes a name away from a file, or from an empty directory.
    pub(crate) fn remove(&mut self, directory: u64, name: &OsStr, is_dir: bool) -> Result<(), Errno> {
        let directory = self.node(directory)?;
        let node = self.nodes.at(&directory, name)?;
        match (is_dir, node.is_dir()) {
            (true, false) => return Err(Errno::NOTDIR),
            (false, true) => return Err(Errno::ISDIR),
            (true, true) if !node.is_empty()? => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        let place = DirectoryEntry { directory, name: name.to_owned() };
        let number = self.hide(&node, &place)?;
        self.note(&node, Change::Removed(place, number))
    }

    /// Gives the entry in a place a hidden name instead.
    fn hide(&mut self, node: &FileNode, place: &DirectoryEntry) -> Result<u64, Errno> {
        self.hidden_count += 1;
        let number = self.hidden_count;
        rustix::fs::renameat(place.directory.fd(), &place.name, &self.hidden, number.to_string())?;
        node.hidden.fetch_add(1, Ordering::Relaxed);
        Ok(number)
    }

    /// Renames an entry, in place of the present owner of the name.
    pub(crate) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Result<(), Errno> {
        let place = |tree: &Self, (directory, name): (u64, &OsStr)| {
            Ok::<_, Errno>(DirectoryEntry { directory: tree.node(directory)?, name: name.to_owned() })
        };
        let (from, to) = (place(self, from)?, place(self, to)?);
        let node = self.nodes.at(&from.directory, &from.name)?;
        let other = match self.nodes.at(&to.directory, &to.name) {
            Ok(other) => Some(other),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error),
        };
        if flags == RenameFlags::EXCHANGE {
            let other = other.ok_or(Errno::NOENT)?;
            exchange(&from, &to)?;
            if node.ino == other.ino {
                return Ok(());
            }
            return self.note(&node, Change::Exchanged { other, places: [from, to] });
        }
        let Some(other) = other else {
            rustix::fs::renameat(from.directory.fd(), &from.name, to.directory.fd(), &to.name)?;
            return self.note(&node, Change::Renamed { from, to, displaced: None });
        };
        match (node.is_dir(), other.is_dir()) {
            _ if flags == RenameFlags::NOREPLACE => return Err(Errno::EXIST),
            _ if !flags.is_empty() => return Err(Errno::INVAL),
            // Two names of one thing: nothing happens (rename(2)).
            _ if node.ino == other.ino => return Ok(()),
            (true, false) => return Err(Errno::NOTDIR),
            (false, true) => return Err(Errno::ISDIR),
            (true, true) if !other.is_empty()? => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        // In two steps of which neither leaves the new name without either.
        exchange(&from, &to)?;
        let number = self.hide(&other, &from)?;
        self.note(&node, Change::Renamed { from, to, displaced: Some((other, number)) })
    }

    /// Changes mode, user or group.
    pub(crate) fn set_attributes(
        &mut self,
        ino: u64,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Errno> {
        let node = self.node(ino)?;
        let was = node.stat()?;
        let mode_now = mode.unwrap_or(was.st_mode);
        set_attributes(&node, mode_now, uid.unwrap_or(was.st_uid), gid.unwrap_or(was.st_gid))?;
        self.note(&node, Change::Attributes(was.st_mode, was.st_uid, was.st_gid))
    }

    /// Decides a read, and returns the file to read.
    pub(crate) fn read(&mut self, ino: u64) -> Result<Arc<FileNode>, Errno> {
        let node = self.node(ino)?;
        if self.cut().is_none() {
            self.power.counters.reads += 1;
            if let Fate::Failed(errno) = self.power.fate(RequestKind::Read) {
                return Err(errno);
            }
        }
        Ok(node)
    }

    /// Flips bits of what was read, where that is asked for.
    pub(crate) fn rot(&self, ino: u64, offset: u64, bytes: &mut [u8]) {
        self.power.rot(ino.rotate_left(32).wrapping_add(offset / SECTOR_BYTES), bytes);
    }

    /// Makes a file or a directory durable. Gives it where what is underneath is to be written to its disk, too.
    pub(crate) fn sync(&mut self, ino: u64, is_data_only: bool) -> Result<Option<Arc<FileNode>>, Errno> {
        let node = self.node(ino)?;
        if self.power.is_frozen() {
            return if self.power.halts() { Err(Errno::IO) } else { Ok(None) };
        }
        if self.power.count_flush() {
            let frozen = self.power_off();
            return if self.power.halts() { Err(Errno::IO) } else { frozen.map(|()| None) };
        }
        match self.power.fate(RequestKind::Flush) {
            Fate::Failed(errno) => return Err(errno),
            Fate::Dropped => return Ok(None),
            Fate::Done => {}
        }
        let synced = self.unsynced.sync(ino, is_data_only, &mut self.slots, &self.hidden);
        let gone = self.need(synced)?;
        self.let_go(gone);
        Ok(Some(node))
    }

    /// Makes everything durable, without a count, unless flushes are ignored: what a sync of the whole file system would do, which never arrives here.
    pub(crate) fn sync_all(&mut self) -> Result<(), Errno> {
        if self.cut().is_some() {
            return Err(Errno::IO);
        }
        if self.power.ignores_flushes() {
            return Ok(());
        }
        let synced = self.unsynced.sync_all(&mut self.slots, &self.hidden);
        let gone = self.need(synced)?;
        self.let_go(gone);
        Ok(())
    }

    /// Lists a directory.
    pub(crate) fn list(&self, ino: u64) -> Result<Vec<(u64, FileType, std::ffi::OsString)>, Errno> {
        use std::os::unix::ffi::OsStrExt;
        let node = self.node(ino)?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::new(node.directory()?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            let kind = match entry.file_type() {
                FileType::Unknown => FileType::from_raw_mode(stat_at(&node, &name)?.st_mode),
                kind => kind,
            };
            entries.push((entry.ino(), kind, name));
        }
        Ok(entries)
    }
}

impl Device for Tree {
    fn power(&self) -> &Power {
        &self.power
    }

    fn power_mut(&mut self) -> &mut Power {
        &mut self.power
    }

    fn power_off(&mut self) -> Result<(), Errno> {
        self.at_cut = self.unsynced_files();
        self.power.off(self.unsynced.at_risk())
    }

    fn counters(&self) -> Counters {
        Counters { unflushed_sectors: self.unsynced.sectors(), ..self.power.counters }
    }

    fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    fn power_on(&mut self, survivors: Survivors) -> Result<AtRisk, String> {
        let cut = self.cut().ok_or("the power is on: cut it first")?;
        let restored = self.after.restore(&Choice::default(), &mut self.slots, &self.hidden).and_then(|()| {
            let choice = choose(&self.unsynced.units(), survivors);
            self.unsynced.restore(&choice, &mut self.slots, &self.hidden)
        });
        self.need(restored).map_err(|_| self.broken.clone().unwrap_or_default())?;
        self.nodes.clear();
        self.power.on();
        Ok(cut.at_risk)
    }

    fn other(&mut self, command: &str) -> Option<Result<String, String>> {
        let files = |tree: &Self| tree.unsynced_files().iter().map(UnsyncedFile::answer).collect::<Vec<_>>().join("\t");
        match command {
            "sync" => Some(self.sync_all().map(|()| String::new()).map_err(|_| "the power is off".to_owned())),
            "files" => Some(Ok(files(self))),
            "names" => Some(Ok(self.unsynced.names().to_string())),
            _ => None,
        }
    }
}
