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
        let place = crate::on_disk();
        let (image, path) = (place.path().join("image"), place.path().join("mount"));
        std::fs::create_dir(&path).unwrap();
        std::fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
        run("mount", &["-o", &format!("loop,{options}"), image.to_str().unwrap(), path.to_str().unwrap()]);
        Self { path, _place: place }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
    }
}

#[track_caller]
fn run(program: &str, args: &[&str]) {
    let output = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}: install mount and e2fsprogs"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said} (this test needs root, and loop devices)");
}
