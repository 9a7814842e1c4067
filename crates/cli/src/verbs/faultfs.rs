//! `plimsoll faultfs`: a disk that loses power, and has other faults, on command.

mod images;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_core::{FileSystem, StoreError, StoreErrorKind as Kind, Survivors};
use plimsoll_faultfs::{Control, DeviceSpec, FaultDevice, FaultError, HELP, UnsyncedFile, mounted_devices};
use plimsoll_plan::Dimension;
use plimsoll_trial::{TrialError, io_error, write_error};

use crate::args::{FaultfsAction, FaultfsMount};
use crate::error::exit;
use crate::{interrupt, options};

/// Between two looks whether there is an end.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest wait for an answer, beside the time of `wait`.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Help of the command that this side carries out, since it mounts.
const POWER_CYCLE: &str = "\
power-cycle none|all|random SEED SHARE [tear]|prefix WRITES [tear]
                                   cut, unmount, power-on, and mount again
";

/// Carries out the action.
pub fn run(action: &FaultfsAction) -> Result<u8, TrialError> {
    match action {
        FaultfsAction::Mount(args) => mount(args),
        FaultfsAction::Images(args) => images::run(args),
        FaultfsAction::Ctl { socket, command } => ctl(socket, command),
    }
}

fn mount(args: &FaultfsMount) -> Result<u8, TrialError> {
    let size = options::quantity("size", &args.size, Dimension::Size)?;
    if let (Some(fs), Some(_)) = (args.fs.as_deref().filter(|fs| *fs != FileSystem::Files.name()), &args.files) {
        return Err(TrialError::usage(format!("--fs {fs} makes a device, and --files names a directory"))
            .next("leave one of them out"));
    }
    let spec = DeviceSpec {
        directory: args.directory.clone(),
        size_bytes: size as u64,
        file_system: match (&args.fs, &args.files) {
            (Some(given), _) => given.parse().map_err(TrialError::usage)?,
            (None, Some(_)) => FileSystem::Files,
            (None, None) => FileSystem::Ext4,
        },
        keep_log: args.keep_log,
        files: args.files.clone(),
    };
    let stop = interrupt::of_command();
    let mut device = FaultDevice::start(&spec).map_err(failed)?;
    let socket = device.control().socket();
    let _link = args.control.as_deref().map(|link| Link::new(&socket, link)).transpose()?;
    crate::print(&format!("mount point: {}\ncontrol: {}\n", device.mount_point().display(), socket.display()))?;
    while !stop.load(Ordering::SeqCst) {
        if !device.is_running() {
            return Err(TrialError::new(Kind::Broken, "the daemon of the fault device was killed")
                .next("end the programs that use it, and make a new one"));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    device.close().map_err(failed)?;
    crate::say("unmounted, and removed");
    Ok(exit::OK)
}

fn ctl(socket: &Path, words: &[String]) -> Result<u8, TrialError> {
    let command = &words.join(" ");
    if command == "help" {
        return crate::print(&format!("{HELP}{POWER_CYCLE}"));
    }
    let control = control_of(socket, socket, words)?;
    if command == "files" {
        let line = |UnsyncedFile { path, bytes, age, .. }| {
            format!("{bytes} bytes, for {:.1} ms: {path}\n", age.as_secs_f64() * 1e3)
        };
        return crate::print(&control.files().map_err(failed)?.into_iter().map(line).collect::<String>());
    }
    let said = match command.split_once(' ').unwrap_or((command.as_str(), "")) {
        ("power-cycle", survivors) => {
            let survivors: Survivors = survivors.parse().map_err(TrialError::usage)?;
            control.power_cycle(&survivors).map_err(failed)?.to_string()
        }
        ("tell", "") => {
            return Err(TrialError::usage("tell needs the directory of the other device")
                .next(format!("plimsoll faultfs ctl {} tell DIRECTORY", socket.display())));
        }
        // The path is relative to the user's directory, which is not the daemon's.
        ("tell", other) => {
            let other = control_of(Path::new(other.trim()), socket, words)?;
            control.tell(&other).map(|()| String::new()).map_err(failed)?
        }
        (verb, limit) => {
            // A number that is none is the daemon's to refuse.
            let limit_ms = if verb == "wait" { limit.trim().parse().unwrap_or(0) } else { 0 };
            control.ask(command, ANSWER_LIMIT.saturating_add(Duration::from_millis(limit_ms))).map_err(failed)?
        }
    };
    if said.is_empty() { Ok(exit::OK) } else { crate::print(&format!("{said}\n")) }
}

/// Returns the device at `path`, which is one of the words behind `ctl`.
fn control_of(path: &Path, first: &Path, words: &[String]) -> Result<Control, TrialError> {
    Control::of_socket(path).map_err(|error| {
        if path != first {
            let next =
                format!("plimsoll faultfs ctl {} tell DIRECTORY, of another device that is mounted", first.display());
            return failed(error).next(next);
        }
        let all: Vec<String> = std::iter::once(first.display().to_string()).chain(words.iter().cloned()).collect();
        // The verb was typed first, or the devices are the wrong way round.
        let (devices, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|word| Control::of_socket(Path::new(word)).is_ok());
        failed(error).next(match devices.split_first() {
            Some((first, rest)) => {
                let rest = [&others[..], rest].concat().join(" ");
                format!("the control socket stands first: plimsoll faultfs ctl {first} {rest}")
            }
            None => without_device(&others, &mounted_devices()),
        })
    })
}

/// Returns the advice for `words` behind `ctl` of which none is a device, while those in `mounted` are there.
fn without_device(words: &[String], mounted: &[PathBuf]) -> String {
    let wanted = "the control socket of a mounted device, or its directory, stands first";
    if mounted.is_empty() {
        return format!(
            "{wanted}, and none is mounted here: plimsoll faultfs mount DIR makes one, with the socket DIR/control"
        );
    }
    let verbs = HELP.lines().chain(POWER_CYCLE.lines()).filter_map(|line| line.split(' ').next());
    let is_verb = |word: &&String| verbs.clone().any(|verb| verb == word.as_str());
    // A path that is wrong stands for the device's.
    let rest =
        if words.first().is_some_and(|first| is_verb(&first)) { words } else { words.get(1..).unwrap_or_default() };
    let all: Vec<String> = mounted.iter().map(|directory| directory.display().to_string()).collect();
    // Of several, some belong to runs.
    let device = if let [one] = &all[..] { one } else { "DIR" };
    format!("{wanted} (mounted: {}): plimsoll faultfs ctl {device} {}", all.join(", "), rest.join(" "))
}

/// Link to the control socket, removed at the end.
struct Link(PathBuf);

impl Link {
    fn new(socket: &Path, link: &Path) -> Result<Self, TrialError> {
        symlink(socket, link).map_err(|error| write_error(link.display(), &error))?;
        Ok(Self(link.to_owned()))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn failed(error: FaultError) -> TrialError {
    match error {
        // The user gave the path, and can correct it.
        FaultError::Io { what, source } => io_error(what, &source),
        error => StoreError::from(error),
    }
}
