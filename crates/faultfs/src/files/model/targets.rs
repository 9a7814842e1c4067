//! Implementations that are compared with the model: with and without the kernel around them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plimsoll_core::fault::{CutMoment, Survivors};
use rustix::fs::RenameFlags;

use super::{Found, Kind};
use crate::FaultDevice;
use crate::counters::AtRisk;
use crate::files::{Maker, New, Tree};
use crate::shared::Device;

/// Implementation that is compared with the model.
pub(super) trait Subject {
    fn make(&mut self, directory: &Path, name: &str, kind: Kind) -> bool;
    fn link(&mut self, path: &Path, directory: &Path, name: &str) -> bool;
    fn remove(&mut self, directory: &Path, name: &str, is_dir: bool) -> bool;
    fn rename(&mut self, from: (&Path, &str), to: (&Path, &str), exchange: bool) -> bool;
    fn chmod(&mut self, path: &Path, mode: u32);
    fn write(&mut self, path: &Path, offset: u64, data: &[u8]);
    fn truncate(&mut self, path: &Path, size: u64);
    fn sync(&mut self, path: &Path, is_data_only: bool) -> bool;
    fn cut(&mut self, freezes: bool) -> AtRisk;
    fn power_on(&mut self, survivors: Survivors);
    fn all(&self) -> Found;
    /// Returns true if one write may arrive as several.
    fn splits_writes(&self) -> bool {
        false
    }
}

/// Implementation without a mount.
pub(super) struct Bare {
    pub(super) tree: Tree,
    pub(super) files: PathBuf,
}

impl Bare {
    fn ino(&mut self, path: &Path) -> u64 {
        let mut ino = self.tree.root();
        for name in path {
            ino = self.tree.lookup(ino, name).unwrap().st_ino;
        }
        ino
    }
}

impl Subject for Bare {
    fn make(&mut self, directory: &Path, name: &str, kind: Kind) -> bool {
        let directory = self.ino(directory);
        let new = match kind {
            Kind::File => New::File,
            Kind::Directory => New::Directory,
            Kind::Link => New::Link(Path::new("link")),
        };
        self.tree.make(directory, name.as_ref(), &new, Maker { uid: 0, gid: 0, mode: 0o640 }).is_ok()
    }

    fn link(&mut self, path: &Path, directory: &Path, name: &str) -> bool {
        let (ino, directory) = (self.ino(path), self.ino(directory));
        self.tree.link(ino, directory, name.as_ref()).is_ok()
    }

    fn remove(&mut self, directory: &Path, name: &str, is_dir: bool) -> bool {
        let directory = self.ino(directory);
        self.tree.remove(directory, name.as_ref(), is_dir).is_ok()
    }

    fn rename(&mut self, from: (&Path, &str), to: (&Path, &str), exchange: bool) -> bool {
        let (from, to) = ((self.ino(from.0), from.1.as_ref()), (self.ino(to.0), to.1.as_ref()));
        let flags = if exchange { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
        self.tree.rename(from, to, flags).is_ok()
    }

    fn chmod(&mut self, path: &Path, mode: u32) {
        let ino = self.ino(path);
        self.tree.set_attributes(ino, Some(mode), None, None).unwrap();
    }

    fn write(&mut self, path: &Path, offset: u64, data: &[u8]) {
        let ino = self.ino(path);
        self.tree.write(ino, offset, data).unwrap();
    }

    fn truncate(&mut self, path: &Path, size: u64) {
        let ino = self.ino(path);
        self.tree.truncate(ino, size).unwrap();
    }

    fn sync(&mut self, path: &Path, is_data_only: bool) -> bool {
        let Ok(()) = self.tree.live() else { return false };
        let ino = self.ino(path);
        self.tree.sync(ino, is_data_only).is_ok()
    }

    fn cut(&mut self, freezes: bool) -> AtRisk {
        self.tree.arm(CutMoment::Now, freezes);
        self.tree.cut().unwrap().at_risk
    }

    fn power_on(&mut self, survivors: Survivors) {
        Device::power_on(&mut self.tree, survivors).unwrap();
    }

    fn all(&self) -> Found {
        found(&self.files)
    }
}

/// Implementation through a mount.
pub(super) struct Mounted(pub(super) FaultDevice);

impl Mounted {
    fn path(&self, directory: &Path, name: &str) -> PathBuf {
        self.0.mount_point().join(directory).join(name)
    }
}

impl Subject for Mounted {
    fn make(&mut self, directory: &Path, name: &str, kind: Kind) -> bool {
        let path = self.path(directory, name);
        let made = match kind {
            Kind::File => fs::File::options().mode(0o640).write(true).create_new(true).open(&path).map(drop),
            Kind::Directory => fs::DirBuilder::new().mode(0o640).create(&path),
            Kind::Link => std::os::unix::fs::symlink("link", &path),
        };
        made.is_ok()
    }

    fn link(&mut self, path: &Path, directory: &Path, name: &str) -> bool {
        fs::hard_link(self.0.mount_point().join(path), self.path(directory, name)).is_ok()
    }

    fn remove(&mut self, directory: &Path, name: &str, is_dir: bool) -> bool {
        let path = self.path(directory, name);
        if is_dir { fs::remove_dir(path) } else { fs::remove_file(path) }.is_ok()
    }

    fn rename(&mut self, from: (&Path, &str), to: (&Path, &str), exchange: bool) -> bool {
        let (from, to) = (self.path(from.0, from.1), self.path(to.0, to.1));
        let flags = if exchange { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
        rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags).is_ok()
    }

    fn chmod(&mut self, path: &Path, mode: u32) {
        fs::set_permissions(self.0.mount_point().join(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn write(&mut self, path: &Path, offset: u64, data: &[u8]) {
        let file = fs::File::options().write(true).open(self.0.mount_point().join(path)).unwrap();
        file.write_all_at(data, offset).unwrap();
    }

    fn truncate(&mut self, path: &Path, size: u64) {
        fs::File::options().write(true).open(self.0.mount_point().join(path)).unwrap().set_len(size).unwrap();
    }

    fn sync(&mut self, path: &Path, is_data_only: bool) -> bool {
        let file = fs::File::open(self.0.mount_point().join(path));
        file.and_then(|file| if is_data_only { file.sync_data() } else { file.sync_all() }).is_ok()
    }

    fn cut(&mut self, freezes: bool) -> AtRisk {
        let control = self.0.control();
        if freezes { control.freeze(CutMoment::Now) } else { control.arm(CutMoment::Now) }.unwrap();
        control.cut().unwrap().unwrap().at_risk
    }

    fn power_on(&mut self, survivors: Survivors) {
        self.0.power_cycle(&survivors).unwrap();
    }

    fn all(&self) -> Found {
        found(self.0.mount_point())
    }

    fn splits_writes(&self) -> bool {
        // The kernel does so with what is not aligned to pages.
        true
    }
}

fn found(root: &Path) -> Found {
    let mut all = Found::new();
    let mut files: BTreeMap<u64, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let contents = if metadata.is_dir() {
                left.push(path.clone());
                b"directory".to_vec()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap().to_str().unwrap().as_bytes().to_vec()
            } else {
                fs::read(&path).unwrap()
            };
            let path = path.strip_prefix(root).unwrap().to_owned();
            files.entry(metadata.ino()).or_default().insert(path.clone());
            all.insert(path, (metadata.mode() & 0o7777, contents, PathBuf::new()));
        }
    }
    for paths in files.into_values() {
        let first = paths.first().unwrap().clone();
        paths.into_iter().for_each(|path| all.get_mut(&path).unwrap().2 = first.clone());
    }
    all
}
