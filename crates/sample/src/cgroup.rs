//! Control groups (cgroups(7), version 1 and 2) of this process, and of nodes that have their own: limits that were
//! met, memory, I/O, waits, and groups that are frozen.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use plimsoll_core::mounts::{MOUNTS_FILE, mounts};
use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::pressure;
use crate::proc_file::{ProcFile, number_of};
use crate::server::{ServerProcesses, node_name};

/// Files that are read, with their controllers: those of version 2, and those of version 1.
const SECOND: [(&str, &str); 9] = [
    ("cpu", "cpu.stat"),
    ("memory", "memory.current"),
    ("memory", "memory.events"),
    ("io", "io.stat"),
    ("cpu", "cpu.pressure"),
    ("memory", "memory.pressure"),
    ("io", "io.pressure"),
    ("", "cgroup.events"),
    ("", "cgroup.stat.local"),
];
const FIRST: [(&str, &str); 6] = [
    ("cpu", "cpu.stat"),
    ("memory", "memory.usage_in_bytes"),
    ("memory", "memory.failcnt"),
    ("memory", "memory.oom_control"),
    ("blkio", "blkio.throttle.io_service_bytes"),
    ("blkio", "blkio.throttle.io_serviced"),
];

/// Returns the readings of the file called `file`, in either version.
fn readings(subject: &str, file: &str, text: &str) -> Vec<Reading> {
    let number = |name| number_of(text, name).map(|number| number as f64);
    let only = || text.trim().parse::<u64>().ok().map(|number| number as f64);
    let total = |name: &'static str, unit: &'static str, value: Option<f64>| {
        value.map(|value| Reading::total(subject, name, unit, value))
    };
    let waited = |name| total(name, "s", pressure::parse(text)[0].map(|us| us as f64 / 1e6));
    let [one, two] = match file {
        "cpu.stat" => {
            let throttled_s = number("throttled_time").map(|ns| ns / 1e9);
            let throttled_s = throttled_s.or_else(|| number("throttled_usec").map(|us| us / 1e6));
            [total("throttled", "s", throttled_s), total("throttles", "", number("nr_throttled"))]
        }
        "memory.current" | "memory.usage_in_bytes" => {
            [only().map(|bytes| Reading::level(subject, "memory", "B", bytes)), None]
        }
        "memory.failcnt" => [total("limit_hits", "", only()), None],
        "memory.events" => [total("limit_hits", "", number("max")), total("kills", "", number("oom_kill"))],
        "memory.oom_control" => [total("kills", "", number("oom_kill")), None],
        "blkio.throttle.io_service_bytes" => {
            [total("read", "B", per_device(text, "Read")), total("written", "B", per_device(text, "Write"))]
        }
        "blkio.throttle.io_serviced" => {
            [total("reads", "", per_device(text, "Read")), total("writes", "", per_device(text, "Write"))]
        }
        "io.stat" => {
            let sum = |key: &str| {
                let fields = text.split_ascii_whitespace().filter_map(|field| field.strip_prefix(key));
                Some(fields.filter_map(|number| number.parse::<u64>().ok()).sum::<u64>() as f64)
            };
            let bytes = [("read", "B", "rbytes="), ("written", "B", "wbytes=")];
            let all = bytes.into_iter().chain([("reads", "", "rios="), ("writes", "", "wios=")]);
            return all.filter_map(|(name, unit, key)| total(name, unit, sum(key))).collect();
        }
        "cpu.pressure" => [waited("cpu_wait"), None],
        "memory.pressure" => [waited("memory_wait"), None],
        "io.pressure" => [waited("io_wait"), None],
        "cgroup.events" => {
            [number("frozen").map(|is_frozen| Reading::level(subject, "frozen", "groups", is_frozen)), None]
        }
        // Since Linux 6.18.
        "cgroup.stat.local" => [total("frozen_time", "s", number("frozen_usec").map(|us| us / 1e6)), None],
        _ => [None, None],
    };
    one.into_iter().chain(two).collect()
}

/// Returns the sum over all devices of the lines of one `kind`, such as `8:0 Read 4096`.
fn per_device(text: &str, kind: &str) -> Option<f64> {
    let of_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.next().filter(|found| *found == kind)?;
        fields.next()?.parse::<u64>().ok()
    };
    Some(text.lines().filter_map(of_line).sum::<u64>() as f64)
}

/// Returns the files of the control groups in `groups`, the text of `/proc/PID/cgroup`, by `table`
/// (proc_pid_mountinfo(5)).
fn files_of(groups: &str, table: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for line in groups.lines() {
        let fields = line.split_once(':').and_then(|(_, rest)| rest.split_once(':'));
        let Some((controllers, path)) = fields else { continue };
        let is_second = controllers.is_empty();
        let (kind, files) = if is_second { ("cgroup2", &SECOND[..]) } else { ("cgroup", &FIRST[..]) };
        let has = |controller: &str| controllers.split(',').any(|one| one == controller);
        let mut its = mounts(table).filter(|mount| mount.file_system == kind);
        // The options of a mount name its controllers.
        let mount = its.find(|mount| is_second || mount.of_file_system.split(',').any(has));
        let Some(mount) = mount.map(|mount| mount.mount_point) else { continue };
        // In a container its own group may be mounted as the root.
        let group = Some(mount.join(path.trim_start_matches('/'))).filter(|group| group.is_dir()).unwrap_or(mount);
        let its = files.iter().filter(|(controller, _)| is_second || has(controller));
        all.extend(its.map(|(_, file)| group.join(file)));
    }
    all
}

/// Returns the files of the groups of a process, as [`files_of`].
fn files_of_process(pid: &str, table: &str) -> Vec<PathBuf> {
    files_of(&read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default(), table)
}

/// A file of a group that is read again and again.
struct GroupFile {
    subject: String,
    name: String,
    file: ProcFile,
}

impl GroupFile {
    /// Opens a file; `None` if the group has no such file, or it tells nothing.
    fn open(subject: &str, path: &Path) -> Option<Self> {
        let mut file = ProcFile::open(path.to_str()?).ok()?;
        let name = path.file_name()?.to_str()?;
        let is_told = file.read().is_ok_and(|text| !readings(subject, name, &text).is_empty());
        is_told.then(|| Self { subject: subject.to_owned(), name: name.to_owned(), file })
    }
}

pub(crate) struct Cgroup {
    processes: ServerProcesses,
    /// Change that the files of nodes are of.
    change: u64,
    /// Files of this process's groups, and those of nodes behind them.
    files: Vec<GroupFile>,
    own_count: usize,
}

impl Cgroup {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        let table = read_to_string(MOUNTS_FILE).unwrap_or_default();
        let own = files_of_process("self", &table);
        let files: Vec<GroupFile> = own.iter().filter_map(|path| GroupFile::open("", path)).collect();
        if files.is_empty() {
            let why = "this process is in no control group that reports anything: none is mounted, or it is the root";
            return Err(Unavailable(why.into()));
        }
        let own_count = files.len();
        Ok(Self { processes, change: 0, files, own_count })
    }

    /// Opens the files of groups that nodes have and this process has not.
    fn take_sites(&mut self) {
        let Some(sites) = self.processes.since(self.change) else { return };
        self.change = sites.change;
        self.files.truncate(self.own_count);
        let table = read_to_string(MOUNTS_FILE).unwrap_or_default();
        // Processes of one group have the same files.
        let mut known = files_of_process("self", &table);
        for site in &sites.all {
            let mut files = files_of_process(&site.pid.to_string(), &table);
            files.retain(|path| !known.contains(path));
            let name = node_name(site);
            self.files.extend(files.iter().filter_map(|path| GroupFile::open(&name, path)));
            known.append(&mut files);
        }
    }
}

impl Sampler for Cgroup {
    fn sample(&mut self) -> Vec<Reading> {
        self.take_sites();
        let mut all = Vec::new();
        for GroupFile { subject, name, file } in &mut self.files {
            // A group that was removed reports nothing.
            let Ok(text) = file.read() else { continue };
            all.extend(readings(subject, name, &text));
        }
        all
    }

    fn fine(&mut self) -> Vec<Reading> {
        self.sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const SECOND_CPU: &str = "usage_usec 900\nuser_usec 500\nsystem_usec 400\nnr_periods 7\nnr_throttled 3\n\
                              throttled_usec 2500000\nnr_bursts 0\n";
    const FIRST_CPU: &str = "nr_periods 7\nnr_throttled 3\nthrottled_time 2500000000\n";
    const EVENTS: &str = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n";
    const IO: &str = "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n7:1 rbytes=1 wbytes=1 rios=1 wios=1\n";
    const BLKIO: &str = "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 8192\n8:0 Total 12288\n7:1 Read 1\nTotal 12289\n";

    fn told(file: &str, text: &str) -> Vec<(String, f64)> {
        readings("", file, text).into_iter().map(|one| (one.name.clone(), one.number())).collect()
    }

    fn named<const N: usize>(all: [(&str, f64); N]) -> Vec<(String, f64)> {
        all.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    #[test]
    fn both_versions_come_to_the_same_series() {
        let throttled = named([("throttled", 2.5), ("throttles", 3.0)]);
        assert_eq!((told("cpu.stat", SECOND_CPU), told("cpu.stat", FIRST_CPU)), (throttled.clone(), throttled));
        assert_eq!(told("cpu.stat", "usage_usec 900\n"), [], "the root has no limit");
        let memory = named([("memory", 4_096.0)]);
        assert_eq!(told("memory.current", "4096\n"), memory);
        assert_eq!(told("memory.usage_in_bytes", "4096\n"), memory);
        assert_eq!(told("memory.events", EVENTS), named([("limit_hits", 12.0), ("kills", 1.0)]));
        assert_eq!(told("memory.failcnt", "12\n"), named([("limit_hits", 12.0)]));
        assert_eq!(told("memory.oom_control", "under_oom 0\noom_kill 1\n"), named([("kills", 1.0)]));
        let io = named([("read", 4_097.0), ("written", 8_193.0), ("reads", 2.0), ("writes", 3.0)]);
        assert_eq!(told("io.stat", IO), io);
        let bytes = named([("read", 4_097.0), ("written", 8_192.0)]);
        assert_eq!(told("blkio.throttle.io_service_bytes", BLKIO), bytes);
        let pressure = "some avg10=0.88 avg60=0.18 avg300=0.13 total=6742739\n";
        assert_eq!(told("io.pressure", pressure), named([("io_wait", 6.742_739)]));
        for frozen in [0.0, 1.0] {
            assert_eq!(told("cgroup.events", &format!("populated 1\nfrozen {frozen}\n")), named([("frozen", frozen)]));
        }
        assert_eq!(told("cgroup.stat.local", "frozen_usec 1500000\n"), named([("frozen_time", 1.5)]));
    }

    #[test]
    fn groups_are_found_below_the_mounts_of_their_controllers() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name).display().to_string();
        for directory in ["cpu", "memory/server", "unified/server"] {
            std::fs::create_dir_all(base.path().join(directory)).unwrap();
        }
        let first = format!(
            "32 31 0:29 / {} rw,relatime - cgroup cgroup rw,cpu\n35 31 0:32 / {} rw - cgroup cgroup rw,memory\n",
            at("cpu"),
            at("memory")
        );
        let found = files_of("4:memory:/server\n1:cpu:/elsewhere\n0::/\n", &first);
        let wanted = ["usage_in_bytes", "failcnt", "oom_control"];
        let wanted = wanted.map(|name| at(&format!("memory/server/memory.{name}")));
        assert_eq!(found, wanted.into_iter().chain([at("cpu/cpu.stat")]).map(PathBuf::from).collect::<Vec<_>>());
        let second = format!("30 23 0:26 / {} rw - cgroup2 cgroup2 rw,nsdelegate\n", at("unified"));
        let found = files_of("0::/server\n", &second);
        assert_eq!(found.len(), SECOND.len());
        assert!(found.contains(&at("unified/server/io.stat").into()));
        assert!(files_of("garbled\n0::/\n", "").is_empty());
    }

    #[test]
    fn garbled_text_is_taken() {
        for text in [SECOND_CPU, FIRST_CPU, EVENTS, IO, BLKIO].into_iter().flat_map(garbled) {
            for (_, file) in SECOND.into_iter().chain(FIRST) {
                assert!(readings("", file, &text).len() <= 4);
            }
        }
    }
}
