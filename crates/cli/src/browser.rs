//! Opening a page in the browser.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Programs that open a file with the user's choice, on Linux and on macOS.
const OPENERS: [&str; 2] = ["xdg-open", "open"];
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
    if cfg!(not(target_os = "macos")) && !DISPLAYS.iter().any(is_set) {
        return Err("there is no display (DISPLAY and WAYLAND_DISPLAY are not set)".to_owned());
    }
    for opener in OPENERS {
        let mut command = Command::new(opener);
        command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env_clear();
        let passed_on = DISPLAYS.iter().chain(&PASSED_ON);
        command.envs(passed_on.filter_map(|name| Some((*name, std::env::var_os(name)?))));
        // A later Ctrl-C in this terminal does not reach the browser.
        let mut child = match command.process_group(0).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("{opener}: {error}")),
        };
        let until = Instant::now() + WAIT;
        while Instant::now() < until {
            match child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(20)),
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("{opener} ended with {status}")),
                Err(error) => return Err(format!("{opener}: {error}")),
            }
        }
        return Ok(());
    }
    Err(format!("neither {} is installed", OPENERS.join(" nor ")))
}
