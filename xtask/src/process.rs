//! Running other programs, said on the terminal before it is done.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::Result;

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Process that `run` waits for; 0 if there is none.
static CHILD: AtomicU32 = AtomicU32::new(0);

/// Makes Ctrl-C, SIGTERM and SIGHUP no longer end this program: what `run` waits for gets each of them as a Ctrl-C.
pub fn pass_on_interrupts() -> Result {
    let caught = ctrlc::set_handler(|| {
        IS_INTERRUPTED.store(true, Ordering::SeqCst);
        let child = CHILD.load(Ordering::SeqCst);
        if child != 0 {
            signal("INT", child);
        }
    });
    caught.map_err(|error| format!("signals: {error}"))
}

/// Sends the signal `name` to a process, which may have ended. Every shell can do it; small systems have no program `kill`.
pub fn signal(name: &str, process: u32) {
    let kill = format!("kill -{name} {process}");
    let _ = Command::new("sh").args(["-c", &kill]).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

pub fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::SeqCst)
}

/// Runs `command` on this terminal; an error when it does not end well.
pub fn run(command: &mut Command) -> Result {
    let line = line(command);
    eprintln!("+ {line}");
    let failed = |error: std::io::Error| format!("{line}: {error}");
    let mut child = command.spawn().map_err(failed)?;
    CHILD.store(child.id(), Ordering::SeqCst);
    if is_interrupted() {
        signal("INT", child.id());
    }
    let status = child.wait();
    CHILD.store(0, Ordering::SeqCst);
    let status = status.map_err(failed)?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

/// Runs `command` and returns what it prints.
pub fn output(command: &mut Command) -> Result<String> {
    let line = line(command);
    let done = command.stderr(Stdio::inherit()).output().map_err(|error| format!("{line}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{line}: {}", done.status));
    }
    String::from_utf8(done.stdout).map_err(|error| format!("{line}: {error}"))
}

/// Runs `command` and returns what it prints. Its messages are shown only if it fails, in the error.
pub fn line_of(command: &mut Command) -> Result<String> {
    let line = line(command);
    let done = command.output().map_err(|error| format!("{line}: {error}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{line}: {}\n{said}", done.status).trim_end().to_owned());
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned())
}

/// The cargo that runs this.
pub fn cargo() -> Command {
    building(Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())))
}

/// Returns `command` without the variables that `cargo run` sets for xtask: build scripts that read them, as ring's does,
/// would run anew after each cargo that was not started by xtask.
pub fn building(mut command: Command) -> Command {
    let is_own = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_own) {
            command.env_remove(name);
        }
    }
    command
}

/// Returns cargo's description of the workspace at `root`.
pub fn metadata(root: &Path) -> Result<serde_json::Value> {
    let text = line_of(cargo().args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(root))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// Directory that cargo builds into.
pub fn target(root: &Path) -> Result<PathBuf> {
    let metadata = metadata(root)?;
    let target = metadata.get("target_directory").and_then(serde_json::Value::as_str);
    target.map(PathBuf::from).ok_or_else(|| "cargo metadata: no target directory".to_owned())
}

/// Builds `plimsoll` in `release` or `dev`, and returns its path.
pub fn built(root: &Path, profile: &str) -> Result<PathBuf> {
    run(cargo().args(["build", "--profile", profile, "--package", "plimsoll"]).current_dir(root))?;
    let directory = if profile == "dev" { "debug" } else { profile };
    Ok(target(root)?.join(directory).join("plimsoll"))
}

/// The command line, with the first characters of a word that is very long.
fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args()).map(OsStr::to_string_lossy);
    let shown = words.map(|word| match word.char_indices().nth(160) {
        Some((end, _)) => format!("{} …", &word[..end]),
        None => word.into_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}
