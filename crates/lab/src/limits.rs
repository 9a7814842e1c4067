//! What a server may have of the machine, by control groups (cgroups(7)), version 1 or 2.
//!
//! A server's groups are called as its place is, below our own group in each hierarchy. A control group has a name and outlives its
//! processes, so each is written down in the place (`groups`) before it is made; whoever removes the place removes them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{Limits, StoreError, StoreErrorKind};

/// The file in a place that names its groups, one a line.
const GROUPS_FILE: &str = "groups";
/// Over so many microseconds a processor's time is shared out.
const PERIOD_US: u64 = 100_000;
/// Less memory is too little for any server.
const MEMORY_BYTES_MIN: u64 = 4 << 20;
/// Less of a processor is too little for any server.
const CPUS_MIN: f64 = 0.01;
/// How long a group may be in use still whose processes have been killed.
const LEAVE_BOUND: Duration = Duration::from_secs(2);

/// A controller, and what is written into which of its files: of version 1, and of version 2.
struct Limit {
    controller: &'static str,
    first: Vec<(&'static str, String)>,
    second: Vec<(&'static str, String)>,
}

/// Makes groups with these limits for the server that has its files in the place `root`.
///
/// # Errors
/// `Usage` of what no server could live with, or this machine has not; `Missing` where the kernel has no such controller;
/// `Permission` where groups may not be made.
pub(crate) fn apply(limits: &Limits, root: &Path) -> Result<(), StoreError> {
    check(limits)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    wanted(limits, root)?.iter().try_for_each(|limit| set(limit, root, &mounts, &own))
}

fn check(limits: &Limits) -> Result<(), StoreError> {
    let there = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    if let Some(cpus) = limits.cpus.filter(|wanted| !(CPUS_MIN..=there).contains(wanted)) {
        let what = format!("cpus = {cpus}: a server cannot have so many processors");
        return Err(StoreError::usage(what).next(format!("from {CPUS_MIN} to {there} can be had here")));
    }
    if let Some(bytes) = limits.memory_bytes.filter(|bytes| *bytes < MEMORY_BYTES_MIN) {
        let what = format!("memory = {bytes}B: a server cannot live with so little");
        return Err(StoreError::usage(what).next("give it 4MiB at least"));
    }
    Ok(())
}

fn wanted(limits: &Limits, root: &Path) -> Result<Vec<Limit>, StoreError> {
    let mut wanted = Vec::new();
    if let Some(cpus) = limits.cpus {
        let quota = (cpus * PERIOD_US as f64) as u64;
        wanted.push(Limit {
            controller: "cpu",
            first: vec![("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())],
            second: vec![("cpu.max", format!("{quota} {PERIOD_US}"))],
        });
    }
    if let Some(cpuset) = &limits.cpuset {
        let nodes = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_else(|_| "0".to_owned());
        let cpus = ("cpuset.cpus", cpuset.clone());
        let first = vec![cpus.clone(), ("cpuset.mems", nodes.trim().to_owned())];
        wanted.push(Limit { controller: "cpuset", first, second: vec![cpus] });
    }
    if let Some(bytes) = limits.memory_bytes {
        let limit = |file| vec![(file, bytes.to_string())];
        wanted.push(Limit { controller: "memory", first: limit("memory.limit_in_bytes"), second: limit("memory.max") });
    }
    if limits.disk.iter().any(Option::is_some) {
        let disk = disk_of(root)?;
        let named = |names: [&'static str; 4]| {
            names.into_iter().zip(limits.disk).filter_map(|(name, limit)| Some((name, limit?)))
        };
        let first = named([
            "blkio.throttle.read_bps_device",
            "blkio.throttle.write_bps_device",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_iops_device",
        ]);
        let second = named(["rbps", "wbps", "riops", "wiops"]);
        wanted.push(Limit {
            controller: "blkio",
            first: first.map(|(file, limit)| (file, format!("{disk} {limit}"))).collect(),
            second: second.map(|(key, limit)| ("io.max", format!("{disk} {key}={limit}"))).collect(),
        });
    }
    Ok(wanted)
}

/// The disk that has the file system of `root`, as `major:minor`: limits are a disk's, not a partition's.
fn disk_of(root: &Path) -> Result<String, StoreError> {
    let device = fs::metadata(root).map_err(|error| StoreError::io(root.display(), &error))?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let of_disk = if block.join("partition").exists() { block.join("../dev") } else { block.join("dev") };
    match fs::read_to_string(of_disk) {
        Ok(disk) => Ok(disk.trim().to_owned()),
        Err(_) => Err(StoreError::usage(format!("{} is on no disk that could be limited", root.display()))
            .detail(format!("its file system is on device {major}:{minor}"))
            .next("have its files on a disk: --dir DIRECTORY, or leave the limits of reads and writes out")),
    }
}

/// Makes the group of one controller, or finds it made for another, and sets its limits.
fn set(limit: &Limit, root: &Path, mounts: &str, own: &str) -> Result<(), StoreError> {
    let controller = limit.controller;
    let Some(parent) = parent_of(controller, mounts, own) else {
        let what = format!("this machine has no control groups for `{controller}`");
        return Err(StoreError::new(StoreErrorKind::Missing, what)
            .detail("looked for version 1 and 2 in /proc/self/mountinfo")
            .next(format!("leave this limit out, or mount /sys/fs/cgroup/{controller}")));
    };
    let name = root.file_name().unwrap_or_default();
    let (group, settings) = match &parent {
        Parent::First(parent) => (parent.join(name), &limit.first),
        Parent::Second(parent) => {
            let controller = if controller == "blkio" { "io" } else { controller };
            // Where it is given to children already there is nothing to do; where it cannot be, the next write says so.
            let _ = fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"));
            (parent.join(name), &limit.second)
        }
    };
    note(root, &group).map_err(|error| StoreError::io(root.display(), &error))?;
    let made = fs::create_dir(&group).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    });
    made.map_err(|error| refused(controller, &group.display().to_string(), &error))?;
    settings.iter().try_for_each(|(file, value)| {
        let failed = |error| refused(controller, &format!("{value} > {}", group.join(file).display()), &error);
        fs::write(group.join(file), value).map_err(failed)
    })
}

fn refused(controller: &str, what: &str, error: &io::Error) -> StoreError {
    let (kind, next) = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            (StoreErrorKind::Permission, "run as root, or where control groups are delegated to you; or leave it out")
        }
        _ => (StoreErrorKind::Usage, "change this limit, or leave it out"),
    };
    StoreError::new(kind, format!("a limit of `{controller}` cannot be set"))
        .detail(format!("{what}: {error}"))
        .next(next)
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
    let controller = if controller == "blkio" { "io" } else { controller };
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

/// What of their limits the programs of a place have met so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Met {
    /// The most memory that they may have, in bytes, where that is limited.
    pub(crate) memory_bytes: Option<u64>,
    /// How many the kernel has killed for more.
    pub(crate) memory_kills: u64,
    /// For how long they had to wait for a processor that was there, in seconds.
    pub(crate) throttled_s: f64,
}

impl Met {
    /// In the groups of the place `root`; nothing where it has none.
    pub(crate) fn of(root: &Path) -> Self {
        let mut met = Self::default();
        for group in fs::read_to_string(root.join(GROUPS_FILE)).unwrap_or_default().lines().map(Path::new) {
            let read = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
            let number = |file: &str, key: &str| {
                let value = |line: &str| line.strip_prefix(key)?.trim().parse::<u64>().ok();
                read(file).lines().find_map(value)
            };
            let either = |first: (&str, &str), second: (&str, &str)| {
                number(first.0, first.1).or_else(|| number(second.0, second.1))
            };
            met.memory_bytes = met.memory_bytes.or(either(("memory.limit_in_bytes", ""), ("memory.max", "")));
            let kills = either(("memory.oom_control", "oom_kill "), ("memory.events", "oom_kill "));
            met.memory_kills = met.memory_kills.max(kills.unwrap_or(0));
            let of_first = number("cpu.stat", "throttled_time ").map(|ns| ns as f64 / 1e9);
            let of_second = || number("cpu.stat", "throttled_usec ").map(|us| us as f64 / 1e6);
            met.throttled_s = met.throttled_s.max(of_first.or_else(of_second).unwrap_or(0.0));
        }
        met
    }

    /// The error of a program that the kernel killed, where it did so for memory.
    pub(crate) fn explain(&self, error: StoreError, killed_before: u64) -> StoreError {
        match self.memory_bytes {
            Some(bytes) if self.memory_kills > killed_before => {
                let why = format!("it wanted more memory than the {} MiB that it may have", bytes >> 20);
                let detail = error.detail.map_or_else(|| why.clone(), |said| format!("{why}; {said}"));
                StoreError::new(StoreErrorKind::Exhausted, error.what).detail(detail).next("raise its limit: memory")
            }
            _ => error,
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
        let wrong = |limits: Limits| check(&limits).unwrap_err().what;
        let cpus = |cpus| Limits { cpus: Some(cpus), ..Limits::default() };
        assert!(wrong(cpus(4096.0)).starts_with("cpus = 4096: "));
        assert!(wrong(cpus(0.0)).starts_with("cpus = 0: "));
        assert!(wrong(cpus(f64::NAN)).starts_with("cpus = NaN: "));
        assert!(wrong(Limits { memory_bytes: Some(1 << 20), ..cpus(1.0) }).starts_with("memory = 1048576B: "));
        check(&Limits { memory_bytes: Some(64 << 20), ..cpus(0.5) }).unwrap();
    }
}
