//! Limits of a server's resources, by control groups (cgroups(7)), version 1 or 2.
//!
//! A server's groups have the name of its directory, below this process's own group in each hierarchy. A control group
//! outlives its processes, so its path is written to the file `groups` before it is made; it is removed together with
//! the directory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::mounts::{MOUNTS_FILE, Mount, mounts};
use plimsoll_core::{LimitChange, Limits, StoreError, StoreErrorKind};
use rustix::fs::Access;

/// File in a server's directory that names its groups, one a line.
const GROUPS_FILE: &str = "groups";
/// Period of the processor quota, in microseconds.
const PERIOD_US: u64 = 100_000;
/// Least memory that a server can be given.
const MEMORY_BYTES_MIN: u64 = 4 << 20;
/// Least share of a processor that a server can be given.
const CPUS_MIN: f64 = 0.01;
/// Limits of the disk, in the order of [`Limits::disk`]: file of version 1, and key of `io.max`.
const OF_DISK: [(&str, &str); 4] = [
    ("blkio.throttle.read_bps_device", "rbps"),
    ("blkio.throttle.write_bps_device", "wbps"),
    ("blkio.throttle.read_iops_device", "riops"),
    ("blkio.throttle.write_iops_device", "wiops"),
];
/// Longest time for a group to become empty after its processes were killed.
const LEAVE_BOUND: Duration = Duration::from_secs(2);

/// A controller with the files and values that set the limit, for version 1 and for version 2.
struct Limit {
    controller: &'static str,
    first: Vec<(&'static str, String)>,
    second: Vec<(&'static str, String)>,
}

/// Makes groups with these limits for the server with the directory `root`.
///
/// # Errors
/// `Usage` if a limit is too low for any server, or more than the machine has; `Missing` if the kernel lacks a
/// controller; `Permission` if groups may not be made.
pub(crate) fn apply(limits: &Limits, root: &Path) -> Result<(), StoreError> {
    check(limits)?;
    let table = fs::read_to_string(MOUNTS_FILE).unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limits.changes().iter().try_for_each(|limit| set(&limit_of(limit, root)?, root, &table, &own))
}

fn check(limits: &Limits) -> Result<(), StoreError> {
    let there = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    if let Some(cpus) = limits.cpus.filter(|wanted| !(CPUS_MIN..=there).contains(wanted)) {
        let what = format!("cpus = {cpus}: not possible on this machine");
        return Err(StoreError::usage(what).next(format!("use {CPUS_MIN} to {there}")));
    }
    if let Some(bytes) = limits.memory_bytes.filter(|bytes| *bytes < MEMORY_BYTES_MIN) {
        let what = format!("memory = {bytes}B: too little for a server");
        return Err(StoreError::usage(what).next("use at least 4MiB"));
    }
    Ok(())
}

/// Refuses limits that this machine cannot set, before a server is started.
///
/// # Errors
/// `Usage` if a limit is too low for any server, or more than the machine has; `Missing` if the kernel lacks a
/// controller; `Permission` if groups may not be made.
pub fn limits_must_be_possible(limits: &Limits) -> Result<(), StoreError> {
    check(limits)?;
    let table = fs::read_to_string(MOUNTS_FILE).unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limits.changes().iter().try_for_each(|change| {
        let controller = controller_of(change);
        let (Parent::First(parent) | Parent::Second(parent)) =
            parent_of(controller, &table, &own).ok_or_else(|| missing(controller))?;
        rustix::fs::access(&parent, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| refused(controller, &parent.display().to_string(), &error.into()))
    })
}

fn controller_of(change: &LimitChange) -> &'static str {
    match change {
        LimitChange::Cpus(_) => "cpu",
        LimitChange::Cpuset(_) => "cpuset",
        LimitChange::Memory(_) => "memory",
        LimitChange::Disk(..) => "blkio",
    }
}

fn missing(controller: &str) -> StoreError {
    let what = format!("this machine has no control groups for `{controller}`");
    StoreError::new(StoreErrorKind::Missing, what)
        .detail(format!("looked for version 1 and 2 in {MOUNTS_FILE}"))
        .next(format!("omit this limit, or mount /sys/fs/cgroup/{controller}"))
}

/// Returns the settings of control groups for one limit.
fn limit_of(change: &LimitChange, root: &Path) -> Result<Limit, StoreError> {
    let or_none = |limit: Option<u64>, none: &str| limit.map_or(none.to_owned(), |limit| limit.to_string());
    let controller = controller_of(change);
    Ok(match change {
        LimitChange::Cpus(cpus) => {
            let quota = cpus.map(|cpus| (cpus * PERIOD_US as f64) as u64);
            let quota_first = ("cpu.cfs_quota_us", or_none(quota, "-1"));
            Limit {
                controller,
                first: vec![("cpu.cfs_period_us", PERIOD_US.to_string()), quota_first],
                second: vec![("cpu.max", format!("{} {PERIOD_US}", or_none(quota, "max")))],
            }
        }
        LimitChange::Cpuset(cpuset) => {
            let nodes = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_else(|_| "0".to_owned());
            let cpus = ("cpuset.cpus", cpuset.clone().unwrap_or_else(own_cpus));
            let first = vec![cpus.clone(), ("cpuset.mems", nodes.trim().to_owned())];
            Limit { controller, first, second: vec![cpus] }
        }
        LimitChange::Memory(bytes) => Limit {
            controller,
            first: vec![("memory.limit_in_bytes", or_none(*bytes, "-1"))],
            second: vec![("memory.max", or_none(*bytes, "max"))],
        },
        LimitChange::Disk(position, limit) => {
            let disk = disk_of(root)?;
            let (file, key) = OF_DISK.get(*position).copied().unwrap_or_default();
            Limit {
                controller,
                first: vec![(file, format!("{disk} {}", or_none(*limit, "0")))],
                second: vec![("io.max", format!("{disk} {key}={}", or_none(*limit, "max")))],
            }
        }
    })
}

/// Returns the processors that this process may use: all that a server may use without a limit.
fn own_cpus() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or("0").trim().to_owned()
}

/// Changes one limit of the server with the directory `root` while it runs, in the control group that it has for it.
///
/// # Errors
/// `Usage` if it has no control group for the limit, or the limit is too low or too high for any server.
pub(crate) fn change(change: &LimitChange, root: &Path) -> Result<(), StoreError> {
    check(&Limits::default().with(change))?;
    let (limit, groups) = (limit_of(change, root)?, groups_of(root));
    let with = |settings: &[(&str, String)]| {
        groups.iter().find(|group| settings.iter().all(|(file, _)| group.join(file).exists()))
    };
    let found = [&limit.first, &limit.second].into_iter().find_map(|settings| Some((with(settings)?, settings)));
    let Some((group, settings)) = found else {
        let name = change.name();
        let what = format!("the servers have no control group for `{name}`: they were started without this limit");
        return Err(
            StoreError::usage(what).next(format!("make the lab with this limit: plimsoll lab up STORE --set {name}=…"))
        );
    };
    write(limit.controller, group, settings)
}

/// Returns the disk with the file system of `root`, as `major:minor`: limits apply to disks, not to partitions.
fn disk_of(root: &Path) -> Result<String, StoreError> {
    let device = fs::metadata(root).map_err(|error| StoreError::io(root.display(), &error))?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let of_disk = if block.join("partition").exists() { block.join("../dev") } else { block.join("dev") };
    match fs::read_to_string(of_disk) {
        Ok(disk) => Ok(disk.trim().to_owned()),
        Err(_) => Err(StoreError::usage(format!(
            "the file system of {} is on no disk that limits can apply to",
            root.display()
        ))
        .detail(format!("its file system is on device {major}:{minor}"))
        .next("keep its files on a disk (--dir DIRECTORY), or omit the limits of reads and writes")),
    }
}

/// Makes the group of one controller, or takes the one made for another, and sets its limits.
fn set(limit: &Limit, root: &Path, table: &str, own: &str) -> Result<(), StoreError> {
    let controller = limit.controller;
    let Some(parent) = parent_of(controller, table, own) else {
        return Err(missing(controller));
    };
    let name = root.file_name().unwrap_or_default();
    let (group, settings) = match &parent {
        Parent::First(parent) => (parent.join(name), &limit.first),
        Parent::Second(parent) => {
            let controller = if controller == "blkio" { "io" } else { controller };
            // Nothing to do if children have the controller already; if they cannot get it, the next write fails.
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
    write(controller, &group, settings)
}

/// Writes `settings` to the files of a group.
fn write(controller: &str, group: &Path, settings: &[(&str, String)]) -> Result<(), StoreError> {
    settings.iter().try_for_each(|(file, value)| {
        let failed = |error| refused(controller, &format!("{value} > {}", group.join(file).display()), &error);
        fs::write(group.join(file), value).map_err(failed)
    })
}

fn refused(controller: &str, what: &str, error: &io::Error) -> StoreError {
    let (kind, next) = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (StoreErrorKind::Permission, "run as root, or in a delegated control group, or omit the limit")
        }
        _ => (StoreErrorKind::Usage, "change this limit, or omit it"),
    };
    StoreError::new(kind, format!("cannot set a limit of `{controller}`")).detail(format!("{what}: {error}")).next(next)
}

/// Group below which groups of a controller are made.
#[derive(Debug, PartialEq, Eq)]
enum Parent {
    /// Group in the controller's own hierarchy, version 1.
    First(PathBuf),
    /// Group in the hierarchy of version 2.
    Second(PathBuf),
}

/// Returns this process's group for `controller`, from `table` (proc_pid_mountinfo(5)) and `own` (cgroups(7)).
fn parent_of(controller: &str, table: &str, own: &str) -> Option<Parent> {
    let path_of = |is_it: &dyn Fn(&str) -> bool| {
        let mut lines = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.find(|(controllers, _)| is_it(controllers)).map(|(_, path)| path.trim_start_matches('/').to_owned())
    };
    let has = |options: &str| options.split(',').any(|option| option == controller);
    // In a container its own group may be mounted as the root.
    let below = |mount: PathBuf, path: String| Some(mount.join(path)).filter(|path| path.is_dir());
    let mounted = |kind| mounts(table).filter(move |mount| mount.file_system == kind);
    if let Some(Mount { mount_point: mount, .. }) = mounted("cgroup").find(|mount| has(mount.of_file_system)) {
        let path = path_of(&|controllers| has(controllers)).unwrap_or_default();
        return Some(Parent::First(below(mount.clone(), path).unwrap_or(mount)));
    }
    let controller = if controller == "blkio" { "io" } else { controller };
    mounted("cgroup2").find_map(|Mount { mount_point: mount, .. }| {
        let path = path_of(&|controllers| controllers.is_empty()).unwrap_or_default();
        let own = below(mount.clone(), path).unwrap_or_else(|| mount.clone());
        let controllers = |group: &Path| fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
        // A group that contains processes gives no controllers to children; its parent does, if it is writable.
        let parent = if own == mount { own } else { own.parent().map_or(mount, Path::to_owned) };
        controllers(&parent).split_whitespace().any(|one| one == controller).then_some(Parent::Second(parent))
    })
}

fn note(root: &Path, group: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(root.join(GROUPS_FILE))?;
    writeln!(file, "{}", group.display())
}

/// Guard that keeps this process in a server's control groups. Programs started meanwhile inherit them.
pub(crate) struct CgroupGuard(Vec<PathBuf>);

impl CgroupGuard {
    /// Enters the groups of the server with the directory `root`, if it has any.
    ///
    /// # Errors
    /// Errors of the kernel; the process then stays in its groups.
    pub(crate) fn enter(root: &Path) -> io::Result<Self> {
        let noted = fs::read_to_string(root.join(GROUPS_FILE)).unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_owned();
        let mut joined = Self(Vec::new());
        for group in noted.lines().map(Path::new) {
            let Some(parent) = group.parent() else { continue };
            let is_second = group.join("cgroup.controllers").exists();
            // In version 1 a server's group is below this process's, in version 2 beside it.
            let back = Path::new(&own).file_name().filter(|_| is_second).map(|name| parent.join(name));
            fs::write(group.join("cgroup.procs"), "0")?;
            joined.0.push(back.unwrap_or_else(|| parent.to_owned()));
        }
        Ok(joined)
    }
}

impl Drop for CgroupGuard {
    fn drop(&mut self) {
        for group in &self.0 {
            // Cannot fail for lack of privilege: the process had it when it entered.
            let _ = fs::write(group.join("cgroup.procs"), "0");
        }
    }
}

/// Effects of the limits on a server's programs so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LimitUsage {
    /// Limit of memory, in bytes, if there is one.
    pub(crate) memory_bytes: Option<u64>,
    /// Number of programs that the kernel killed for exceeding it.
    pub(crate) memory_kills: u64,
    /// Time that programs waited although a processor was free, in seconds.
    pub(crate) throttled_s: f64,
}

impl LimitUsage {
    /// Reads the effects from the groups of the server with the directory `root`; zero if it has none.
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

    /// Returns `error` as one of memory if the kernel killed the program for that.
    pub(crate) fn explain(&self, error: StoreError, killed_before: u64) -> StoreError {
        match self.memory_bytes {
            Some(bytes) if self.memory_kills > killed_before => {
                let why = format!("the server exceeded its memory limit of {} MiB", bytes >> 20);
                let detail = error.detail.map_or_else(|| why.clone(), |said| format!("{why}; {said}"));
                StoreError::new(StoreErrorKind::Exhausted, error.what).detail(detail).next("raise the limit: memory")
            }
            _ => error,
        }
    }
}

/// Returns the groups of the server with the directory `root`; none with another name, even if the file names it.
pub(crate) fn groups_of(root: &Path) -> Vec<PathBuf> {
    let noted = fs::read_to_string(root.join(GROUPS_FILE)).unwrap_or_default();
    let is_its = |group: &PathBuf| group.file_name() == root.file_name() && group.starts_with("/sys/fs/cgroup");
    noted.lines().map(PathBuf::from).filter(is_its).collect()
}

/// Removes groups in which no process runs any more.
pub(crate) fn remove_groups(groups: &[PathBuf]) -> io::Result<()> {
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
