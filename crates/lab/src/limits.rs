//! What a server may have of the machine, by control groups (cgroups(7)), version 1 or 2.
//!
//! A server's groups are called as its place is, below our own group in each hierarchy. A control group has a name and outlives its
//! processes, so each is written down in the place (`groups`) before it is made; whoever removes the place removes them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, StoreErrorKind};

/// The file in a place that names its groups, one a line.
const GROUPS_FILE: &str = "groups";
/// Over so many microseconds a processor's time is shared out.
const PERIOD_US: u64 = 100_000;
/// Less memory is too little for any server.
const MEMORY_BYTES_MIN: u64 = 4 << 20;
/// Less of a processor is too little for any server.
const PROCESSORS_MIN: f64 = 0.01;
/// How long a group may be in use still whose processes have been killed.
const LEAVE_BOUND: Duration = Duration::from_secs(2);

/// What each server of a cluster may have at most. By default all there is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Processors: 0.5 is half the time of one, 2 all the time of two.
    pub processors: Option<f64>,
    /// Bytes of memory, page cache included.
    pub memory_bytes: Option<u64>,
}

impl Limits {
    /// Refuses what no server could live with, and what this machine has not.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check(&self) -> Result<(), StoreError> {
        let there = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        if let Some(processors) = self.processors.filter(|wanted| !(PROCESSORS_MIN..=there).contains(wanted)) {
            let what = format!("a server cannot have {processors} processors");
            return Err(StoreError::usage(what).next(format!("{PROCESSORS_MIN} to {there} are there for each")));
        }
        if let Some(bytes) = self.memory_bytes.filter(|bytes| *bytes < MEMORY_BYTES_MIN) {
            let what = format!("a server cannot live with {bytes} bytes of memory");
            return Err(StoreError::usage(what).next("give it 4 MiB at least"));
        }
        Ok(())
    }

    /// Makes groups with these limits for the server in the place `root`; their directories.
    ///
    /// # Errors
    /// `Missing` where the kernel has no such controller, `Permission` where groups may not be made.
    pub(crate) fn apply(&self, root: &Path) -> Result<Vec<PathBuf>, StoreError> {
        self.check()?;
        let mut wanted = Vec::new();
        if let Some(processors) = self.processors {
            let quota = (processors * PERIOD_US as f64) as u64;
            let first = [("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())];
            wanted.push(("cpu", first.to_vec(), ("cpu.max", format!("{quota} {PERIOD_US}"))));
        }
        if let Some(bytes) = self.memory_bytes {
            let first = vec![("memory.limit_in_bytes", bytes.to_string())];
            wanted.push(("memory", first, ("memory.max", bytes.to_string())));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let name = root.file_name().unwrap_or_default();
        let mut groups = Vec::new();
        for (controller, first, second) in wanted {
            let Some(parent) = parent_of(controller, &mounts, &own) else {
                let what = format!("this machine has no control groups for `{controller}`");
                return Err(StoreError::new(StoreErrorKind::Missing, what)
                    .detail("looked for version 1 and 2 in /proc/self/mountinfo")
                    .next(format!("leave the limit of {controller} out, or mount /sys/fs/cgroup/{controller}")));
            };
            let (group, settings) = match parent {
                Parent::First(parent) => (parent.join(name), first),
                Parent::Second(parent) => {
                    // Where it is given to children already there is nothing to do; where it cannot be, the next write says so.
                    let _ = fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"));
                    (parent.join(name), vec![second])
                }
            };
            let refused = |error: io::Error| {
                let kind = if error.kind() == io::ErrorKind::PermissionDenied {
                    StoreErrorKind::Permission
                } else {
                    StoreErrorKind::Broken
                };
                StoreError::new(kind, format!("a limit of {controller} cannot be set"))
                    .detail(format!("{}: {error}", group.display()))
                    .next("run as root, or where control groups are delegated to you; or leave the limit out")
            };
            if !groups.contains(&group) {
                note(root, &group).map_err(|error| StoreError::io(root.display(), &error))?;
                match fs::create_dir(&group) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(refused(error)),
                    _ => groups.push(group.clone()),
                }
            }
            for (file, value) in settings {
                fs::write(group.join(file), value).map_err(refused)?;
            }
        }
        Ok(groups)
    }
}

/// Where groups of a controller are made.
#[derive(Debug, PartialEq, Eq)]
enum Parent {
    /// In a hierarchy of version 1, which is the controller's own.
    First(PathBuf),
    /// In that of version 2.
    Second(PathBuf),
}

/// Our own group of `controller`, by `mounts` (proc_pid_mountinfo(5)) and `own` (cgroups(7)).
fn parent_of(controller: &str, mounts: &str, own: &str) -> Option<Parent> {
    let path_of = |is_it: &dyn Fn(&str) -> bool| {
        let mut lines = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.find(|(controllers, _)| is_it(controllers)).map(|(_, path)| path.trim_start_matches('/').to_owned())
    };
    let has = |options: &str| options.split(',').any(|option| option == controller);
    // A container may have its own group mounted as the root.
    let below = |mount: PathBuf, path: String| Some(mount.join(path)).filter(|path| path.is_dir());
    let first = mounted(mounts, "cgroup").find(|(_, options)| has(options));
    if let Some((mount, _)) = first {
        let path = path_of(&|controllers| has(controllers)).unwrap_or_default();
        return Some(Parent::First(below(mount.clone(), path).unwrap_or(mount)));
    }
    mounted(mounts, "cgroup2").find_map(|(mount, _)| {
        let path = path_of(&|controllers| controllers.is_empty()).unwrap_or_default();
        let own = below(mount.clone(), path).unwrap_or_else(|| mount.clone());
        let controllers = |group: &Path| fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
        // A group with processes in it gives nothing to children: its parent does, where that may be written.
        let parent = if own == mount { own } else { own.parent().map_or(mount, Path::to_owned) };
        controllers(&parent).split_whitespace().any(|one| one == controller).then_some(Parent::Second(parent))
    })
}

/// Where hierarchies of a kind are mounted, each with its options.
fn mounted<'m>(mounts: &'m str, kind: &str) -> impl Iterator<Item = (PathBuf, &'m str)> {
    mounts.lines().filter_map(move |line| {
        let (before, after) = line.split_once(" - ")?;
        let mut words = after.split(' ');
        let is_it = words.next() == Some(kind);
        let at = before.split(' ').nth(4).unwrap_or_default();
        is_it.then(|| (PathBuf::from(at), words.nth(1).unwrap_or_default()))
    })
}

fn note(root: &Path, group: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(root.join(GROUPS_FILE))?;
    writeln!(file, "{}", group.display())
}

/// This process is in the groups of a place, and what it starts with it, until the value is dropped.
pub(crate) struct Joined(Vec<PathBuf>);

impl Joined {
    /// Goes into the groups of the place `root`, where it has any.
    ///
    /// # Errors
    /// As the kernel says; the process is where it was then.
    pub(crate) fn go(root: &Path) -> io::Result<Self> {
        let noted = fs::read_to_string(root.join(GROUPS_FILE)).unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_owned();
        let mut joined = Self(Vec::new());
        for group in noted.lines().map(Path::new) {
            let Some(parent) = group.parent() else { continue };
            let is_second = group.join("cgroup.controllers").exists();
            // Of version 1 a place's group is below our own, of version 2 beside it.
            let back = Path::new(&own).file_name().filter(|_| is_second).map(|name| parent.join(name));
            fs::write(group.join("cgroup.procs"), "0")?;
            joined.0.push(back.unwrap_or_else(|| parent.to_owned()));
        }
        Ok(joined)
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        for group in &self.0 {
            // Who could leave it may come back.
            let _ = fs::write(group.join("cgroup.procs"), "0");
        }
    }
}

/// Removes the groups of the place `root`, in which nothing runs any more.
pub(crate) fn remove_groups(root: &Path) -> io::Result<()> {
    let name = root.file_name().unwrap_or_default();
    let noted = fs::read_to_string(root.join(GROUPS_FILE)).unwrap_or_default();
    // What bears another name is not ours, whatever stands in the file.
    let groups = noted
        .lines()
        .map(Path::new)
        .filter(|group| group.file_name() == Some(name) && group.starts_with("/sys/fs/cgroup"));
    let until = Instant::now() + LEAVE_BOUND;
    for group in groups {
        loop {
            match fs::remove_dir(group) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => break,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found_in_what_the_kernel_says() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name).display().to_string();
        for directory in ["cpu", "memory/api/17", "unified/user/17"] {
            fs::create_dir_all(base.path().join(directory)).unwrap();
        }
        let first = format!(
            "32 31 0:29 / {} rw,relatime - cgroup cgroup rw,cpu\n35 31 0:32 / {} rw - cgroup cgroup rw,memory\n",
            at("cpu"),
            at("memory")
        );
        let own = "4:memory:/api/17\n1:cpu:/\n0::/\n";
        assert_eq!(parent_of("cpu", &first, own), Some(Parent::First(at("cpu/").into())));
        assert_eq!(parent_of("memory", &first, own), Some(Parent::First(at("memory/api/17").into())));
        assert_eq!(parent_of("cpuset", &first, own), None);
        let second = format!("30 23 0:26 / {} rw - cgroup2 cgroup2 rw,nsdelegate\n", at("unified"));
        assert_eq!(parent_of("cpu", &second, "0::/user/17\n"), None, "it has no such controller");
        fs::write(base.path().join("unified/user/cgroup.controllers"), "cpu memory\n").unwrap();
        assert_eq!(parent_of("cpu", &second, "0::/user/17\n"), Some(Parent::Second(at("unified/user").into())));
        assert_eq!(parent_of("cpu", "", ""), None);
    }

    #[test]
    fn what_no_server_can_live_with_is_refused() {
        let wrong = |processors, memory_bytes| Limits { processors, memory_bytes }.check().unwrap_err().what;
        assert!(wrong(Some(4096.0), None).contains("cannot have 4096 processors"));
        assert!(wrong(Some(0.0), None).contains("0 processors"));
        assert!(wrong(Some(f64::NAN), None).contains("NaN"));
        assert!(wrong(None, Some(1 << 20)).contains("1048576 bytes"));
        Limits { processors: Some(0.5), memory_bytes: Some(64 << 20) }.check().unwrap();
    }
}
