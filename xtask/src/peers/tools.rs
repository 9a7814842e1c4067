//! The other clients: where they are, how those that stand in a registry are installed on demand, and their versions.
//!
//! What Debian packages is installed before this program is built (`setup`). memtier_benchmark and wrk2 stand in no
//! registry: they are used where they are on the PATH. Everything else is installed in a pinned version into
//! `plimsoll/peers` in the user's cache, the first time that a row wants it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OHA: &str = "1.16.0";
const GO_YCSB: &str = "1.0.1";
const SEARCHRATE: &str = "7.0.3";
/// Our own main of go-ycsb, which links only what is compared, with the digests of all it is built from.
const GO_YCSB_SOURCE: [(&str, &str); 3] = [
    ("main.go", include_str!("go-ycsb/main.go")),
    ("go.mod", include_str!("go-ycsb/go.mod")),
    ("go.sum", include_str!("go-ycsb/go.sum")),
];

/// A client that is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    Pgbench,
    Sysbench,
    RedisBenchmark,
    Memtier,
    Wrk,
    Wrk2,
    Fio,
    Oha,
    GoYcsb,
    Searchrate,
}

/// A tool that is here: the words that start it, and its version.
#[derive(Debug, Clone)]
pub struct Found {
    words: Vec<OsString>,
    version: String,
}

/// The tools that were looked for so far: here, or why not.
#[derive(Debug, Default)]
pub struct Tools {
    known: BTreeMap<Tool, Result<Found, String>>,
}

impl Tools {
    /// The command that starts `tool`, without arguments; in one sentence why not, where it cannot be had.
    pub fn command(&mut self, tool: Tool) -> Result<Command, String> {
        let found = self.known.entry(tool).or_insert_with(|| find(tool)).as_ref().map_err(String::clone)?;
        let mut words = found.words.iter();
        let mut command = Command::new(words.next().ok_or("nothing to start")?);
        command.args(words);
        Ok(command)
    }

    /// Name and version.
    pub fn title(&self, tool: Tool) -> String {
        match self.known.get(&tool) {
            Some(Ok(found)) => format!("{} {}", name(tool), found.version),
            _ => name(tool).to_owned(),
        }
    }
}

fn name(tool: Tool) -> &'static str {
    match tool {
        Tool::Pgbench => "pgbench",
        Tool::Sysbench => "sysbench",
        Tool::RedisBenchmark => "redis-benchmark",
        Tool::Memtier => "memtier_benchmark",
        Tool::Wrk => "wrk",
        Tool::Wrk2 => "wrk2",
        Tool::Fio => "fio",
        Tool::Oha => "oha",
        Tool::GoYcsb => "go-ycsb",
        Tool::Searchrate => "searchrate",
    }
}

fn find(tool: Tool) -> Result<Found, String> {
    let program = match tool {
        Tool::Pgbench => plimsoll_store_postgres::server::POSTGRES
            .find()
            .map_err(|error| error.to_string())?
            .with_file_name("pgbench"),
        Tool::Oha => oha()?,
        Tool::GoYcsb => go_ycsb()?,
        Tool::Searchrate => return searchrate(),
        _ => on_path(name(tool)).ok_or_else(|| format!("no {} on the PATH", name(tool)))?,
    };
    if !program.is_file() {
        return Err(format!("there is no {}", program.display()));
    }
    let version = match tool {
        Tool::GoYcsb => GO_YCSB.to_owned(),
        Tool::RedisBenchmark | Tool::Wrk | Tool::Wrk2 => said(&program, "-v"),
        _ => said(&program, "--version"),
    };
    Ok(Found { words: vec![program.into()], version })
}

/// The version in what a program says of itself: the first word of its first line with a digit in it.
fn said(program: &Path, option: &str) -> String {
    let done = Command::new(program).arg(option).stdin(Stdio::null()).output();
    let text = done.map(|done| [done.stdout, done.stderr].concat()).unwrap_or_default();
    version(&String::from_utf8_lossy(&text))
}

fn version(text: &str) -> String {
    let words = text.lines().next().unwrap_or_default().split_ascii_whitespace();
    // memtier_benchmark built from a checkout has a digest for its version.
    let mut words = words.map(|word| word.trim_start_matches("v=").trim_start_matches("sha=").trim_end_matches(":0"));
    let fits = |word: &&str| word.contains(|c: char| c.is_ascii_digit()) && *word != "255.255.255";
    words.find(fits).unwrap_or("of unknown version").trim_start_matches("fio-").to_owned()
}

/// A program on the PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// Where installed tools are kept.
fn cache(name: &str) -> Result<PathBuf, String> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Ok(base.ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("plimsoll/peers").join(name))
}

fn installer(name: &str, of: &str) -> Result<PathBuf, String> {
    on_path(name).ok_or_else(|| format!("{of} is installed with {name}, which is not on the PATH"))
}

/// Runs an installation; what it says is passed on when it fails.
fn install(what: &str, command: &mut Command) -> Result<(), String> {
    eprintln!("installing {what} …");
    let done = command.stdin(Stdio::null()).output().map_err(|error| format!("installing {what}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    eprintln!("{said}");
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("installing {what} failed ({}): {}", done.status, last.trim()))
}

/// With the system's TLS: loopback has no use for it, but this version does not compile without any.
fn oha() -> Result<PathBuf, String> {
    let root = cache(&format!("oha-{OHA}"))?;
    let program = root.join("bin/oha");
    if !program.is_file() {
        let mut command = Command::new(installer("cargo", "oha")?);
        command.args(["install", "oha", "--version", OHA, "--locked", "--no-default-features"]);
        command.args(["--features", "native-tls", "--root"]).arg(root);
        install(&format!("oha {OHA}"), command.env_remove("CARGO_TARGET_DIR"))?;
    }
    Ok(program)
}

fn go_ycsb() -> Result<PathBuf, String> {
    let root = cache(&format!("go-ycsb-{GO_YCSB}"))?;
    let program = root.join("go-ycsb");
    if !program.is_file() {
        let go = installer("go", "go-ycsb")?;
        let wrong = |error: std::io::Error| format!("{}: {error}", root.display());
        std::fs::create_dir_all(&root).map_err(wrong)?;
        for (file, text) in GO_YCSB_SOURCE {
            std::fs::write(root.join(file), text).map_err(wrong)?;
        }
        let mut command = Command::new(go);
        command.args(["build", "-trimpath", "-o"]).arg(&program).arg(".").current_dir(&root);
        install(&format!("go-ycsb {GO_YCSB}"), &mut command)?;
    }
    Ok(program)
}

fn searchrate() -> Result<Found, String> {
    let java = installer("java", "searchrate")?;
    let root = cache(&format!("unboundid-ldapsdk-{SEARCHRATE}"))?;
    let jar = root.join(format!("unboundid-ldapsdk-{SEARCHRATE}.jar"));
    if !jar.is_file() {
        let mut command = Command::new(installer("mvn", "searchrate")?);
        command
            .args(["-q", "-B", "dependency:copy"])
            .arg(format!("-Dartifact=com.unboundid:unboundid-ldapsdk:{SEARCHRATE}"));
        std::fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        command.arg(format!("-DoutputDirectory={}", root.display())).current_dir(&root);
        install(&format!("searchrate {SEARCHRATE}"), &mut command)?;
    }
    let words = vec![java.into(), "-cp".into(), jar.into(), "com.unboundid.ldap.sdk.examples.SearchRate".into()];
    Ok(Found { words, version: SEARCHRATE.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_version_is_found_in_what_each_tool_says() {
        for (text, expected) in [
            ("pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"),
            ("sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)", "1.0.20"),
            ("redis-benchmark 7.0.15", "7.0.15"),
            ("wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer", "debian/4.1.0-3+b2"),
            ("memtier_benchmark v=255.255.255 sha=2f74d611:0 bits=64", "2f74d611"),
            ("memtier_benchmark 2.1.0", "2.1.0"),
            ("oha 1.16.0", "1.16.0"),
            ("fio-3.33", "3.33"),
            ("", "of unknown version"),
        ] {
            assert_eq!(version(text), expected);
        }
    }
}
