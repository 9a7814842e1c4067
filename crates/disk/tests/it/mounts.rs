//! File systems of our own, gone with the value that stands for them.

use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Mounted {
    path: PathBuf,
    /// Removed after the mount.
    _place: tempfile::TempDir,
}

impl Mounted {
    /// A tmpfs with these options.
    pub fn tmpfs(options: &str) -> Self {
        let place = crate::on_disk();
        let path = place.path().join("mount");
        std::fs::create_dir(&path).unwrap();
        run("mount", &["-t", "tmpfs", "-o", options, "plimsoll-test", path.to_str().unwrap()]);
        Self { path, _place: place }
    }

    /// ext4 on a loop device over a file on the disk.
    pub fn ext4(options: &str) -> Self {
        Self::ext4_in(crate::on_disk(), options)
    }

    /// Mounts ext4 on a loop device over a file in memory: a device that no other program uses, of constant speed.
    pub fn ext4_in_memory() -> Self {
        Self::ext4_in(crate::directory_in("/dev/shm"), "rw")
    }

    fn ext4_in(place: tempfile::TempDir, options: &str) -> Self {
        let (image, path) = (place.path().join("image"), place.path().join("mount"));
        std::fs::create_dir(&path).unwrap();
        std::fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
        // What is left to be laid out later would flush beside us.
        run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image.to_str().unwrap()]);
        run("mount", &["-o", &format!("loop,{options}"), image.to_str().unwrap(), path.to_str().unwrap()]);
        Self { path, _place: place }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Cuts the power of an ext4: from now on nothing gets to its device, its journal included.
    pub fn cut(&self) {
        /// EXT4_IOC_SHUTDOWN of linux/fs/ext4: `_IOR('X', 125, __u32)`.
        const SHUTDOWN: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(b'X', 125);
        /// EXT4_GOING_FLAGS_NOLOGFLUSH.
        const AT_ONCE: u32 = 2;
        let root = std::fs::File::open(&self.path).unwrap();
        // SAFETY: the call reads one u32 from where the setter points.
        unsafe { rustix::ioctl::ioctl(root, rustix::ioctl::Setter::<SHUTDOWN, u32>::new(AT_ONCE)) }.unwrap();
    }

    /// Mounts an ext4 again, as after the power came back: from its device alone. A copy of it is mounted, because a
    /// mount namespace that another test made meanwhile keeps the file system without power alive.
    pub fn again(&self) {
        let (path, image) = (self.path.to_str().unwrap(), self.path.with_file_name("image"));
        let (image, copy) = (image.to_str().unwrap(), image.with_extension("copy"));
        run("umount", &[path]);
        run("cp", &["--sparse=always", image, copy.to_str().unwrap()]);
        std::fs::rename(&copy, image).unwrap();
        run("mount", &["-o", "loop", image, path]);
    }
}

/// A loop device over a file on the disk.
pub struct Device {
    path: PathBuf,
    _place: tempfile::TempDir,
}

impl Device {
    pub fn new(bytes: u64) -> Self {
        let place = crate::on_disk();
        let image = place.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let path = run("losetup", &["--find", "--show", image.to_str().unwrap()]);
        Self { path: path.trim().into(), _place: place }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Mounts it at a directory of its own for as long as `during` takes.
    pub fn mounted<T>(&self, during: impl FnOnce() -> T) -> T {
        let place = crate::on_disk();
        let (device, at) = (self.path.to_str().unwrap(), place.path().to_str().unwrap());
        run("mkfs.ext4", &["-q", "-F", device]);
        run("mount", &[device, at]);
        let done = during();
        run("umount", &[at]);
        done
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
    }
}

#[track_caller]
fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}: install mount and e2fsprogs"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said} (this test needs root, and loop devices)");
    String::from_utf8(output.stdout).unwrap()
}
