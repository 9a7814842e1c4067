//! Other clients: their programs, versions, and installation.
//!
//! Debian's packages are installed by apt-get. oha and go-ycsb are built in a pinned version into `plimsoll/peers` in
//! the user's cache. memtier_benchmark and wrk2 are in no registry: they have to be on the PATH.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OHA: &str = "1.16.0";
const GO_YCSB: &str = "1.0.1";
/// A main of go-ycsb that links only the bindings used here, with the digests of its dependencies.
const GO_YCSB_SOURCE: [(&str, &str); 3] = [
    ("main.go", include_str!("../go-ycsb/main.go")),
    ("go.mod", include_str!("../go-ycsb/go.mod")),
    ("go.sum", include_str!("../go-ycsb/go.sum")),
];
/// Script that installs the package `$0`, as root or by a sudo without password.
const APT_GET: &str = "root='env DEBIAN_FRONTEND=noninteractive'; [ \"$(id -u)\" = 0 ] || root=\"sudo -n $root\"
$root apt-get update && $root apt-get install -y --no-install-recommends \"$0\"";

/// Another client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Pgbench,
    Sysbench,
    RedisBenchmark,
    Memtier,
    Wrk,
    Wrk2,
    Oha,
    GoYcsb,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Tool::Pgbench => "pgbench",
            Tool::Sysbench => "sysbench",
            Tool::RedisBenchmark => "redis-benchmark",
            Tool::Memtier => "memtier_benchmark",
            Tool::Wrk => "wrk",
            Tool::Wrk2 => "wrk2",
            Tool::Oha => "oha",
            Tool::GoYcsb => "go-ycsb",
        }
    }

    /// Returns its program, which is installed if it is missing.
    ///
    /// # Errors
    /// Fails if it is missing and cannot be installed.
    fn program(self) -> Result<PathBuf, String> {
        match self {
            Tool::Pgbench => {
                let postgres = plimsoll_store_postgres::server::POSTGRES.find().map_err(|error| error.to_string())?;
                Ok(postgres.with_file_name("pgbench"))
            }
            Tool::Sysbench | Tool::Wrk => packaged(self.name(), self.name()),
            Tool::RedisBenchmark => packaged(self.name(), "redis-tools"),
            Tool::Memtier | Tool::Wrk2 => on_path(self.name()).ok_or_else(|| format!("no {} on the PATH", self.name())),
            Tool::Oha => oha(),
            Tool::GoYcsb => go_ycsb(),
        }
    }

    /// Returns the command that starts it, without arguments.
    ///
    /// # Errors
    /// Fails if it is missing and cannot be installed.
    pub fn command(self) -> Result<Command, String> {
        self.program().map(Command::new)
    }

    /// Returns its name and version.
    pub fn title(self) -> String {
        let version = match (self, self.program()) {
            (Tool::GoYcsb, _) => GO_YCSB.to_owned(),
            (Tool::RedisBenchmark | Tool::Wrk | Tool::Wrk2, Ok(program)) => printed_version(&program, "-v"),
            (_, Ok(program)) => printed_version(&program, "--version"),
            (_, Err(_)) => "missing".to_owned(),
        };
        format!("{} {version}", self.name())
    }
}

fn printed_version(program: &Path, option: &str) -> String {
    let done = Command::new(program).arg(option).stdin(Stdio::null()).output();
    let text = done.map(|done| [done.stdout, done.stderr].concat()).unwrap_or_default();
    version(&String::from_utf8_lossy(&text))
}

/// First word with a digit in the first line.
fn version(text: &str) -> String {
    let words = text.lines().next().unwrap_or_default().split_ascii_whitespace();
    // memtier_benchmark built from a checkout has a digest for its version.
    let mut words = words.map(|word| word.trim_start_matches("v=").trim_start_matches("sha=").trim_end_matches(":0"));
    let fits = |word: &&str| word.contains(|c: char| c.is_ascii_digit()) && *word != "255.255.255";
    words.find(fits).unwrap_or("of unknown version").to_owned()
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

fn packaged(name: &str, package: &str) -> Result<PathBuf, String> {
    if let Some(found) = on_path(name) {
        return Ok(found);
    }
    apt_get(package)?;
    on_path(name).ok_or_else(|| format!("{package} was installed, and {name} is not on the PATH"))
}

fn apt_get(package: &str) -> Result<(), String> {
    install(package, Command::new("sh").args(["-c", APT_GET, package]))
        .map_err(|error| format!("{error}; by hand: apt-get install {package}"))
}

/// Runs an installation.
fn install(what: &str, command: &mut Command) -> Result<(), String> {
    eprintln!("installing {what} …");
    let done = command.stdin(Stdio::null()).output().map_err(|error| format!("installing {what}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let complained = String::from_utf8_lossy(&done.stderr);
    eprintln!("{complained}");
    let last = complained.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("installing {what} failed ({}): {}", done.status, last.trim()))
}

/// Directory of a tool that is built here.
fn cache(name: &str) -> Result<PathBuf, String> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Ok(base.ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("plimsoll/peers").join(name))
}

/// Builds oha with the system's TLS: this version does not compile without TLS.
fn oha() -> Result<PathBuf, String> {
    let root = cache(&format!("oha-{OHA}"))?;
    let program = root.join("bin/oha");
    if !program.is_file() {
        if !Path::new("/usr/include/openssl/ssl.h").is_file() {
            apt_get("libssl-dev")?;
        }
        let mut command = Command::new("cargo");
        command.args(["install", "oha", "--version", OHA, "--locked", "--no-default-features"]);
        command.args(["--features", "native-tls", "--root"]).arg(root).env_remove("CARGO_TARGET_DIR");
        install("oha", &mut command)?;
    }
    Ok(program)
}

fn go_ycsb() -> Result<PathBuf, String> {
    let root = cache(&format!("go-ycsb-{GO_YCSB}"))?;
    let program = root.join("go-ycsb");
    if !program.is_file() {
        let failed = |error: std::io::Error| format!("{}: {error}", root.display());
        std::fs::create_dir_all(&root).map_err(failed)?;
        for (file, text) in GO_YCSB_SOURCE {
            std::fs::write(root.join(file), text).map_err(failed)?;
        }
        let mut command = Command::new("go");
        command.args(["build", "-trimpath", "-o"]).arg(&program).arg(".").current_dir(&root);
        install("go-ycsb", &mut command)?;
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_version_is_found_in_the_output_of_each_tool() {
        for (text, expected) in [
            ("pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"),
            ("sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)", "1.0.20"),
            ("redis-benchmark 7.0.15", "7.0.15"),
            ("wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer", "debian/4.1.0-3+b2"),
            ("memtier_benchmark v=255.255.255 sha=2f74d611:0 bits=64", "2f74d611"),
            ("memtier_benchmark 2.1.0", "2.1.0"),
            ("oha 1.16.0", "1.16.0"),
            ("", "of unknown version"),
        ] {
            assert_eq!(version(text), expected);
        }
    }
}
