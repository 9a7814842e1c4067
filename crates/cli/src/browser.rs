//! Opening a page in the browser.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Program that opens a file with the user's choice.
const OPENER: &str = "xdg-open";
/// Variables of the environment that name a display, or the user's browser.
const DISPLAYS: [&str; 3] = ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"];
/// Other variables that a browser needs. No other one is passed on: some contain passwords.
const PASSED_ON: [&str; 11] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "USER",
    "XAUTHORITY",
    "XDG_CURRENT_DESKTOP",
    "XDG_DATA_DIRS",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_TYPE",
];
/// Longest wait for an opener. One that goes on is the browser itself, or has started it.
const WAIT: Duration = Duration::from_secs(2);

/// Opens `page` in the browser. If that fails, says why on standard error, and where the page is.
pub fn open(page: &Path) {
    if let Err(why) = opened(page) {
        crate::say(&format!("cannot open the page: {why}; open {} yourself", page.display()));
    }
}

fn opened(page: &Path) -> Result<(), String> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !DISPLAYS.iter().any(is_set) {
        return Err("there is no display (DISPLAY and WAYLAND_DISPLAY are not set)".to_owned());
    }
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => format!("{OPENER} is not installed (package xdg-utils)"),
        _ => format!("{OPENER}: {error}"),
    };
    // A path that begins with a dash is no option.
    let page = std::path::absolute(page).map_err(failed)?;
    let mut command = Command::new(OPENER);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let passed_on = DISPLAYS.iter().chain(&PASSED_ON);
    command.env_clear().envs(passed_on.filter_map(|name| Some((*name, std::env::var_os(name)?))));
    // A later Ctrl-C in this terminal does not reach the browser.
    let mut child = command.process_group(0).spawn().map_err(failed)?;
    let until = Instant::now() + WAIT;
    while Instant::now() < until {
        match child.try_wait().map_err(failed)? {
            None => thread::sleep(Duration::from_millis(20)),
            Some(status) if status.success() => break,
            Some(status) => return Err(format!("{OPENER} ended with {status}")),
        }
    }
    Ok(())
}
