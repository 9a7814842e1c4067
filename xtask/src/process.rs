//! Running other programs, said on the terminal before it is done.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::Result;

/// Runs `command` on this terminal; an error when it does not end well.
pub fn run(command: &mut Command) -> Result {
    let line = line(command);
    eprintln!("+ {line}");
    let status = command.status().map_err(|error| format!("{line}: {error}"))?;
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

/// Runs `command` and returns what it prints, without its messages.
pub fn line_of(command: &mut Command) -> Result<String> {
    let line = line(command);
    let done = command.stderr(Stdio::null()).output().map_err(|error| format!("{line}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{line}: {}", done.status));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned())
}

/// The cargo that runs this.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
