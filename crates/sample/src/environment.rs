//! Facts that are constant during a run, and conditions that would spoil a measurement.
//!
//! Single facts for other modules to judge, and [`environment()`], all of them in the order of display.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_core::mounts::{MOUNTS_FILE, Mount, mounts};
use plimsoll_core::sampler::{HALT_POLL_NS, HALTPOLL, IDLE_DRIVER, INTERFACES};

use crate::memory;
pub use crate::memory::Bytes as Memory;
use crate::tasks::parse_load;

/// Facts about this host: name and value, in the order of display. What cannot be known is left out. The file
/// system is that of `data`, or of the nearest directory above it that exists.
pub fn environment(data: &Path) -> Vec<(String, String)> {
    let (memory, idle) = (memory(), idle());
    let swap = memory.swap_total.map(|total| if total == 0 { "none".into() } else { gib(total) });
    let governors = governors();
    let governor = if governors.is_empty() { "not visible here".into() } else { listed(&governors) };
    let facts = [
        ("CPU", cpu_model()),
        ("cores", Some(cores())),
        ("CPU governor", Some(governor)),
        (IDLE_DRIVER, idle.driver),
        (HALT_POLL_NS, idle.poll_ns.map(|ns| ns.to_string())),
        ("memory", memory.total.map(gib)),
        ("memory available", memory.available.map(gib)),
        ("swap", swap),
        ("transparent huge pages", chosen("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("kernel", Some(kernel())),
        ("distribution", distribution()),
        ("virtualisation", Some(virtualisation())),
        ("clock source", clock_source()),
        ("mitigations", mitigations()),
        ("file system", file_system(data).map(|found| found.to_string())),
        (INTERFACES, interfaces(Path::new("/sys/class/net"))),
        ("load at the start", load_average().map(|load| format!("{load:.2}"))),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Bytes as `1.5 GiB`.
pub fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

/// Reads the memory and swap of this machine.
pub fn memory() -> Memory {
    memory::parse(&read("/proc/meminfo").unwrap_or_default())
}

/// Bytes of memory that this process and its children may have: the machine's, or less where a control group says so.
pub fn own_memory_bytes() -> Option<u64> {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let files = group_files(&groups, "memory", "memory.max", "memory.limit_in_bytes");
    let limits = files.into_iter().filter_map(|file| read(file)?.parse().ok());
    limits.chain(memory().total).min()
}

/// The files that hold a limit of the control groups in the text of `/proc/self/cgroup` and of all above them
/// (cgroups(7)), as `controller` calls it in version 2 and in version 1. Some are not there: the root has none, and a
/// container sees its own group as one.
pub(crate) fn group_files(groups: &str, controller: &str, v2: &str, v1: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => (PathBuf::from("/sys/fs/cgroup"), v2),
            list if list.split(',').any(|name| name == controller) => {
                (Path::new("/sys/fs/cgroup").join(controller), v1)
            }
            _ => continue,
        };
        let groups = Path::new(path).ancestors().filter_map(|group| group.strip_prefix("/").ok());
        files.extend(groups.map(|group| root.join(group).join(file)));
    }
    files
}

/// A file's text without white space around it; `None` when it cannot be read or is empty.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = String::from_utf8_lossy(&fs::read(path).ok()?).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The word in brackets of a file that lists choices: `always [madvise] never`.
fn chosen(path: impl AsRef<Path>) -> Option<String> {
    let text = read(path)?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Equal values counted: `performance`, or `performance × 6, powersave × 2`.
fn listed(values: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    match counts.len() {
        1 => values[0].clone(),
        _ => counts.iter().map(|(value, count)| format!("{value} × {count}")).collect::<Vec<_>>().join(", "),
    }
}

/// Returns the devices among the network interfaces in `directory` whose speed is known, with it: `eth0 1000 Mbit/s`.
/// Virtual interfaces report speeds that do not limit them.
fn interfaces(directory: &Path) -> Option<String> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let speed = |entry: fs::DirEntry| {
        let path = entry.path();
        let mbit: u64 = read(path.join("speed"))?.parse().ok()?;
        let is_device = path.join("device").exists() && mbit > 0;
        is_device.then(|| format!("{} {mbit} Mbit/s", entry.file_name().to_string_lossy()))
    };
    let mut all: Vec<String> = entries.filter_map(speed).collect();
    all.sort();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The value of a field of `/proc/cpuinfo`, of the first core that has it.
fn cpu_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = text.lines().find_map(|line| line.split_once(':').filter(|(found, _)| found.trim() == name));
    value.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
}

fn cpu_model() -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    // Other machines than PCs have other words for it.
    let names = ["model name", "Model", "cpu model", "cpu", "Hardware", "Processor", "CPU part"];
    names.iter().find_map(|name| cpu_field(&text, name)).map(str::to_owned)
}

fn cores() -> String {
    let online = fs::read_to_string("/proc/stat").unwrap_or_default();
    let online = online.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    let usable = rustix::thread::sched_getaffinity(None).map_or(online, |set| set.count() as usize);
    let threads = match read("/sys/devices/system/cpu/smt/active").as_deref() {
        Some("1") => ", several threads a core",
        _ => "",
    };
    if usable < online {
        format!("{online}, {usable} of them for this process{threads}")
    } else {
        format!("{online}{threads}")
    }
}

/// The frequency governor of each core; empty where the host does not show them (most virtual machines).
pub fn governors() -> Vec<String> {
    let cores = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    cores.filter_map(|core| read(core.path().join("cpufreq/scaling_governor"))).collect()
}

/// Settings of idle processors: what they do until there is work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Idle {
    /// The kernel's driver: [`HALTPOLL`], `intel_idle`, `none`; `None` if it cannot be read.
    pub driver: Option<String>,
    /// Longest time for which a processor polls before it halts, in nanoseconds (`guest_halt_poll_ns`). `None` with another
    /// driver than [`HALTPOLL`].
    pub poll_ns: Option<u64>,
    /// First time for which it polls, doubled up to `poll_ns`, in nanoseconds (`guest_halt_poll_grow_start`).
    pub poll_start_ns: Option<u64>,
}

/// Reads the settings of idle processors.
pub fn idle() -> Idle {
    let driver = read("/sys/devices/system/cpu/cpuidle/current_driver");
    // The kernel shows the parameters also if another driver is in use, and then they have no effect.
    let is_used = driver.as_deref() == Some(HALTPOLL);
    let parameter = |name: &str| -> Option<u64> {
        read(Path::new("/sys/module/haltpoll/parameters").join(name)).filter(|_| is_used)?.parse().ok()
    };
    let (poll_ns, poll_start_ns) = (parameter(HALT_POLL_NS), parameter("guest_halt_poll_grow_start"));
    Idle { driver, poll_ns, poll_start_ns }
}

fn kernel() -> String {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine()))
}

fn distribution() -> Option<String> {
    let text = read("/etc/os-release").or_else(|| read("/usr/lib/os-release"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches(['"', '\'']).to_owned())
}

/// Words in the maker or the name of machines that are virtual ones.
const VIRTUAL_PRODUCTS: [&str; 10] =
    ["QEMU", "KVM", "VMware", "Virtual", "Xen", "Amazon EC2", "Google Compute", "Bochs", "OpenStack", "Parallels"];

/// Maker and name of this machine, as its firmware has them; may be empty.
fn product() -> String {
    let product = ["sys_vendor", "product_name"].map(|name| read(Path::new("/sys/class/dmi/id").join(name)));
    product.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns the evidence that this machine is virtual: its firmware, the hypervisor itself, or the processor's flags.
pub fn hypervisor() -> Option<String> {
    let is_flag =
        |info: &String| cpu_field(info, "flags").is_some_and(|flags| flags.split(' ').any(|one| one == "hypervisor"));
    let of_processor = || read("/proc/cpuinfo").filter(is_flag).map(|_| "the processor says so".to_owned());
    let of_firmware = Some(product()).filter(|product| VIRTUAL_PRODUCTS.iter().any(|word| product.contains(word)));
    of_firmware.or_else(|| read("/sys/hypervisor/type")).or_else(of_processor)
}

/// Describes the machine around this one, as far as known.
fn virtualisation() -> String {
    let product = product();
    let container = Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists();
    let container = read("/run/systemd/container").or_else(|| container.then(|| "container".to_owned()));
    let machine = match (hypervisor().is_some(), product.is_empty()) {
        (true, true) => "virtual machine".to_owned(),
        (true, false) => format!("virtual machine ({product})"),
        (false, true) => "none seen".to_owned(),
        (false, false) => format!("none seen ({product})"),
    };
    container.map_or(machine.clone(), |container| format!("{machine}, {container}"))
}

/// Returns the kernel's clock source: `tsc` is quick, `hpet` and `acpi_pm` make each reading of the clock expensive.
pub fn clock_source() -> Option<String> {
    read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// Returns the kernel's parameter for mitigations of CPU vulnerabilities, if it was given one.
fn mitigations() -> Option<String> {
    let line = read("/proc/cmdline")?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("mitigations=")).map(str::to_owned)
}

/// Load of the last minute: tasks that ran or waited for a device, on average.
pub fn load_average() -> Option<f64> {
    parse_load(&read("/proc/loadavg")?)
}

/// The file system that a path lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// `ext4`, `xfs`, `tmpfs` …
    pub kind: String,
    /// The device, or what stands for one.
    pub device: String,
    /// Mount options.
    pub options: String,
    /// Bytes free for this user.
    pub free_bytes: u64,
    /// Bytes in all.
    pub size_bytes: u64,
    /// True when nothing on it survives a power cut.
    pub volatile: bool,
}

impl std::fmt::Display for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gibibytes = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        write!(f, "{} on {} ({})", self.kind, self.device, self.options)?;
        write!(f, ", {:.1} of {:.1} GiB free", gibibytes(self.free_bytes), gibibytes(self.size_bytes))
    }
}

/// The file system that `path`, or the nearest directory above it that exists, lies on.
pub fn file_system(path: &Path) -> Option<FileSystem> {
    let path = std::path::absolute(path).ok()?;
    let existing = path.ancestors().find(|place| place.exists())?;
    let space = rustix::fs::statvfs(existing).ok()?;
    let device = fs::metadata(existing).ok()?.dev();
    let text = fs::read(MOUNTS_FILE).ok()?;
    let mount = parse_mount(&String::from_utf8_lossy(&text), device, &fs::canonicalize(existing).ok()?)?;
    let (kind, device, options) = mount;
    let volatile = matches!(kind.as_str(), "tmpfs" | "ramfs");
    let (free_bytes, size_bytes) = (space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize);
    Some(FileSystem { kind, device, options, free_bytes, size_bytes, volatile })
}

/// Kind, device and options of the mount that `path` lies on (proc_pid_mountinfo(5)): the one with the path's
/// device number, or where that is one of a subvolume, the deepest above it. Of several the last covers the rest.
fn parse_mount(text: &str, device: u64, path: &Path) -> Option<(String, String, String)> {
    let number = (rustix::fs::major(device), rustix::fs::minor(device));
    let rank = |mount: &Mount<'_>| (mount.device == number, mount.mount_point.components().count());
    let mount = mounts(text).filter(|mount| path.starts_with(&mount.mount_point)).max_by_key(rank)?;
    Some((mount.file_system.to_owned(), mount.source, mount.options.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    const MOUNTS: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                          25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684084k\n\
                          40 27 0:40 /vol /my\\040data rw,noatime shared:7 master:3 - btrfs /dev/vdb rw,subvol=/vol\n\
                          41 27 8:1 / /srv ro - xfs /dev/sda1 ro\n41 27 8:2 / /srv ro - ext2 /dev/sda2 ro\n";

    #[test]
    fn a_path_lies_on_the_mount_with_its_device() {
        let mount = |device, path| {
            let (kind, source, options) = parse_mount(MOUNTS, device, Path::new(path)).unwrap();
            format!("{kind} {source} {options}")
        };
        assert_eq!(mount(rustix::fs::makedev(254, 0), "/home/me"), "ext4 /dev/vda rw,relatime");
        assert_eq!(mount(rustix::fs::makedev(0, 23), "/dev/shm"), "tmpfs tmpfs rw,relatime");
        assert_eq!(mount(rustix::fs::makedev(0, 99), "/my data/x"), "btrfs /dev/vdb rw,noatime");
        assert_eq!(mount(rustix::fs::makedev(8, 1), "/srv/x"), "xfs /dev/sda1 ro");
        assert_eq!(mount(rustix::fs::makedev(8, 2), "/srv/x"), "ext2 /dev/sda2 ro");
        for text in garbled(MOUNTS) {
            parse_mount(&text, 7, Path::new("/my data/x"));
        }
    }

    #[test]
    fn fields_of_cpuinfo_are_found_on_other_machines_too() {
        let arm = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_field(arm, "CPU part"), Some("0xd0c"));
        assert_eq!(cpu_field("model name\t: AMD EPYC\nmodel name\t: x", "model name"), Some("AMD EPYC"));
        assert_eq!(cpu_field("model name\t:\n", "model name"), None);
    }

    #[test]
    fn limits_of_memory_are_those_of_the_group_and_of_all_above_it() {
        let files = group_files(
            "9:name=systemd:/\n5:cpu:/x\n4:memory:/a/b\n0::/c\nno line\n",
            "memory",
            "memory.max",
            "memory.limit_in_bytes",
        );
        let files: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
        let expected = [
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/c/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(files, expected);
        assert!(own_memory_bytes().unwrap() <= memory().total.unwrap());
    }

    #[test]
    fn only_devices_with_a_known_speed_are_listed() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(interfaces(place.path()), None);
        let files = [("eth1", "1000", true), ("eth0", "-1", true), ("veth0", "10000", false), ("ens3", "25000", true)];
        for (name, speed, is_device) in files {
            let path = place.path().join(name);
            fs::create_dir_all(path.join(if is_device { "device" } else { "queues" })).unwrap();
            fs::write(path.join("speed"), format!("{speed}\n")).unwrap();
        }
        assert_eq!(interfaces(place.path()).as_deref(), Some("ens3 25000 Mbit/s, eth1 1000 Mbit/s"));
        assert_eq!(interfaces(&place.path().join("none")), None);
    }

    #[test]
    fn equal_values_are_counted() {
        let text = |values: &[&str]| listed(&values.iter().map(|&value| value.to_owned()).collect::<Vec<_>>());
        assert_eq!(text(&["performance", "performance"]), "performance");
        assert_eq!(text(&["powersave", "performance", "powersave"]), "performance × 1, powersave × 2");
    }
}
