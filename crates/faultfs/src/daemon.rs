//! The daemon: this program, executed again, with the disk in it.
//!
//! The daemon is a separate process so that it can be killed, and so that its owner's death does not leave a device
//! without a server: it only needs to see the end of the socket between them. Then it cuts power, so that no process waits for
//! the device, and starts another process to remove the mounts: a thread of its own would hold /dev/fuse open while it
//! waits for it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::FileSystem;
use plimsoll_core::fault::{CutMoment, Fault};
use rustix::net::{RecvFlags, SendFlags, SocketType};
use rustix::process::Pid;

use crate::control::{Control, SOCKET};
use crate::device::{BASE, FUSE, IMAGE, LOG, MARK, MOUNT, UNDO, private};
use crate::disk::DiskDevice;
use crate::error::{FaultError, UNDERLYING};
use crate::files::{self, Tree};
use crate::fuse;
use crate::log::Log;
use crate::remove::remove;
use crate::shared::{Device, SharedDevice};

/// The environment variable that makes this program a daemon, or what removes a device: the id of the process that wants it.
const OWNER: &str = "PLIMSOLL_FAULT_DEVICE_OF";
/// Message of the owner when the image is made.
pub(crate) const GO: &[u8] = b"go";
/// Longest first answer.
pub(crate) const READY_BYTES_MAX: usize = 4096;
/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;

/// Runs before `main` of every program that has this crate in it. A test's program has no `main` of this crate that
/// could check if it was executed as a daemon.
// SAFETY: a function is what belongs there. It goes on only in a daemon, and needs nothing that is set up for `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    // If the variable is set without the rest, the called program runs normally.
    if std::env::var_os(OWNER).is_some_and(|owner| is_asked_by(&owner)) {
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        std::process::exit(i32::from(!daemon(&arguments)));
    }
}

/// Returns true if `owner` is this process's parent, and a socket of it is standard input.
fn is_asked_by(owner: &OsString) -> bool {
    let parent = owner.to_str().and_then(|owner| Pid::from_raw(owner.parse().ok()?));
    let socket = rustix::net::sockopt::socket_type(io::stdin());
    parent.is_some() && parent == rustix::process::getppid() && socket == Ok(SocketType::SEQPACKET)
}

/// Starts this program again, as a daemon or to remove a device; `theirs` is its end of a socket. The first argument is none that a
/// program would take: where its owner has died by then, it is the program that it was. A daemon has the locked `mark` of
/// its directory from the start, so that the lock outlives an owner that dies at any moment.
pub(crate) fn execute(theirs: OwnedFd, mark: Option<File>, arguments: &[OsString]) -> io::Result<Child> {
    // Without a mention the linker might leave it out.
    std::hint::black_box(&BEFORE_MAIN);
    Command::new("/proc/self/exe")
        .arg0("plimsoll-faultfs")
        .args(arguments)
        .env_clear()
        .env(OWNER, std::process::id().to_string())
        .current_dir("/")
        .stdin(theirs)
        .stdout(mark.map_or_else(Stdio::null, Stdio::from))
        .stderr(Stdio::null())
        // So that Ctrl-C in a terminal does not reach it.
        .process_group(0)
        .spawn()
}

/// Runs the process that [`execute`] started; returns true on success.
fn daemon(arguments: &[OsString]) -> bool {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    match (word(0), arguments) {
        ("--remove", [_, directory]) => remove(Path::new(directory)).is_ok(),
        ("--serve", [_, directory, ..]) => {
            let directory = Path::new(directory);
            // The image is made meanwhile; where its owner dies over that, there is nothing mounted yet.
            let mut go = [0; GO.len()];
            if !matches!(rustix::net::recv(io::stdin(), &mut go, RecvFlags::empty()), Ok((_, length)) if length > 0) {
                return !is_own(directory) || remove(directory).is_ok();
            }
            // Memory that it needs must not wait for what it serves to be written. Needs CAP_SYS_RESOURCE; without, it is as good
            // as any FUSE daemon.
            let _ = rustix::process::configure_io_flusher_behavior(true);
            let started = match arguments.get(5) {
                Some(files) => start_files(directory, Path::new(files)),
                None => start_block(directory, word(2), word(3), word(4) == "keep-log"),
            };
            let said = started.as_ref().map_or_else(|error| format!("error {error}"), |_| "ok".into());
            let said = &said.as_bytes()[..said.len().min(READY_BYTES_MAX)];
            let heard = rustix::net::send(io::stdin(), said, SendFlags::NOSIGNAL);
            if let Ok(cut_power) = started {
                serve(directory, &*cut_power);
            }
            heard.is_ok()
        }
        _ => false,
    }
}

/// Function that cuts the power of a device that is served.
type CutPower = Box<dyn Fn()>;

/// Returns true if the mark of `directory` is that of this daemon, its standard output: an owner removes it with the device,
/// and the next owner of the directory makes another one.
fn is_own(directory: &Path) -> bool {
    let own = rustix::fs::fstat(io::stdout());
    let there = rustix::fs::stat(directory.join(MARK));
    own.is_ok_and(|own| there.is_ok_and(|there| (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)))
}

fn start_block(directory: &Path, size_bytes: &str, file_system: &str, keeps_log: bool) -> Result<CutPower, FaultError> {
    let file_system: FileSystem = file_system.parse().map_err(FaultError::Usage)?;
    let paths = (directory.join(IMAGE), directory.join(BASE));
    let log = Log::new(open(directory, LOG)?, keeps_log);
    let disk = DiskDevice::new(open(directory, IMAGE)?, log, paths, number(size_bytes)?);
    let shared = SharedDevice::new(disk).map_err(FaultError::at(directory))?;
    let at = directory.join(FUSE);
    // Dropping the session would unmount another owner's file system by now.
    std::mem::forget(fuse::mount(&shared, &at).map_err(FaultError::at(&at))?);
    listen(directory, &shared, file_system, || Ok(()))
}

fn start_files(directory: &Path, files: &Path) -> Result<CutPower, FaultError> {
    // Modes are what the kernel says.
    rustix::process::umask(rustix::fs::Mode::empty());
    // A file or directory that the kernel knows is one that is open here.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limit = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
    let tree = Tree::new(files, &directory.join(UNDO), open(directory, LOG)?);
    let tree = tree.map_err(FaultError::at(files))?;
    let shared = SharedDevice::new(tree).map_err(FaultError::at(directory))?;
    let at = directory.join(MOUNT);
    files::mount(&shared, &at).map_err(FaultError::at(&at))?;
    let again = Arc::clone(&shared);
    listen(directory, &shared, FileSystem::Files, move || files::mount(&again, &at))
}

fn open(directory: &Path, name: &str) -> Result<File, FaultError> {
    let path = directory.join(name);
    private().create(true).truncate(false).open(&path).map_err(FaultError::at(&path))
}

/// Begins to take commands. `mount_again` is called after each power-on.
fn listen<D: Device>(
    directory: &Path,
    shared: &Arc<SharedDevice<D>>,
    file_system: FileSystem,
    mount_again: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> Result<CutPower, FaultError> {
    std::env::set_current_dir(directory).map_err(FaultError::at(directory))?;
    let listener = UnixListener::bind(SOCKET).map_err(FaultError::at(Path::new(SOCKET)))?;
    std::fs::set_permissions(SOCKET, PermissionsExt::from_mode(0o600)).map_err(FaultError::at(Path::new(SOCKET)))?;
    let served = Arc::new(Served { shared: Arc::clone(shared), file_system, mount_again: Box::new(mount_again) });
    let accept = move || accept(&listener, &served);
    std::thread::Builder::new().name("control".into()).spawn(accept).map_err(FaultError::at(directory))?;
    let shared = Arc::clone(shared);
    Ok(Box::new(move || _ = shared.with(|device| device.arm(CutMoment::Now, false))))
}

/// State that connections read and change.
struct Served<D> {
    shared: Arc<SharedDevice<D>>,
    file_system: FileSystem,
    mount_again: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
}

/// Waits for the owner to close its socket, or to die; then sees to it that nothing is left.
fn serve(directory: &Path, cut_power: &dyn Fn()) {
    let mut nothing = [0; 1];
    // Nothing is ever sent: it returns at the end.
    let _ = rustix::net::recv(io::stdin(), &mut nothing, RecvFlags::empty());
    cut_power();
    if !is_own(directory) {
        return;
    }
    let pair = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    );
    if let Ok((_ours, theirs)) = pair
        && let Ok(mut child) = execute(theirs, None, &["--remove".into(), directory.into()])
    {
        let _ = child.wait();
    }
}

fn accept<D: Device>(listener: &UnixListener, served: &Arc<Served<D>>) {
    let busy = Arc::new(());
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, for instance: no reason to spin.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if Arc::strong_count(&busy) > CONNECTIONS_MAX {
            continue;
        }
        let (served, busy) = (Arc::clone(served), Arc::clone(&busy));
        let _ = std::thread::Builder::new().name("connection".into()).spawn(move || {
            let _busy = busy;
            // Who does not listen any more has what he wanted.
            let _ = converse(stream, &served);
        });
    }
}

fn converse<D: Device>(stream: UnixStream, served: &Served<D>) -> io::Result<()> {
    let mut answers = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let line = match answer(&line?, served) {
            Ok(said) => format!("ok {said}"),
            Err(error) => format!("error {error}").replace('\n', " "),
        };
        answers.write_all(format!("{}\n", line.trim_end()).as_bytes())?;
    }
    Ok(())
}

fn answer<D: Device>(line: &str, served: &Served<D>) -> Result<String, FaultError> {
    let shared = &served.shared;
    let (verb, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let mut said = String::new();
    match verb {
        "arm" | "freeze" | "halt" => {
            let at = rest.parse().map_err(FaultError::Usage)?;
            let is_armed = |disk: &mut D| if verb == "halt" { disk.halt(at) } else { disk.arm(at, verb == "freeze") };
            if !shared.with(is_armed) {
                return Err(FaultError::Refused("the power is off: power-cycle first".into()));
            }
        }
        "cut" => _ = shared.with(|disk| disk.arm(CutMoment::Now, false)),
        "told" => shared.with(Device::told),
        "tell" => tell(Control::of_directory(Path::new(rest)), shared)?,
        "wait" => shared.wait_for_cut(Duration::from_millis(number(rest)?)),
        "set" => {
            let fault: Fault = rest.parse().map_err(FaultError::Usage)?;
            if served.file_system == FileSystem::Files && matches!(fault, Fault::Speed { .. }) {
                return Err(FaultError::Refused("a directory of files has no positions, and so no speed".into()));
            }
            shared.with(|disk| disk.set(fault));
        }
        "met" => {
            let fault: Fault = rest.parse().map_err(FaultError::Usage)?;
            said = shared.with(|disk| disk.power().met(fault)).to_string();
        }
        "mend" => shared.with(Device::mend),
        "clear" => shared.with(Device::clear),
        "count-anew" => shared.with(Device::count_anew),
        "status" => {}
        "power-on" => {
            let survivors = rest.parse().map_err(FaultError::Usage)?;
            if shared.open() > 0 {
                return Err(FaultError::Refused("the device is still in use: unmount it first".into()));
            }
            said = shared.with(|disk| disk.power_on(survivors)).map_err(FaultError::Refused)?.to_string();
            (served.mount_again)().map_err(FaultError::at(Path::new(MOUNT)))?;
        }
        _ => match shared.with(|device| device.other(line.trim())) {
            Some(answer) => said = answer.map_err(FaultError::Refused)?,
            None => {
                let known = "arm, freeze, halt, cut, tell, wait, set, met, mend, clear, status or power-on, and of files sync or files";
                return Err(FaultError::Usage(format!("{line:?} is unknown; known: {known}")));
            }
        },
    }
    if let Some(broken) = shared.with(|disk| disk.broken().map(ToOwned::to_owned)) {
        return Err(FaultError::Refused(format!("{UNDERLYING}{broken}")));
    }
    if matches!(verb, "wait" | "status") {
        said = status(shared, served.file_system);
    }
    Ok(said)
}

/// Notifies `other` when the power of this disk is cut, unless that is cancelled before. Fails if `other` does not
/// answer now.
fn tell<D: Device>(other: Control, shared: &Arc<SharedDevice<D>>) -> Result<(), FaultError> {
    other.cut()?;
    let (directory, shared) = (other.directory().to_owned(), Arc::clone(shared));
    let wait = move || {
        while shared.with(|disk| disk.power().is_armed() && disk.cut().is_none()) {
            shared.wait_for_cut(Duration::from_secs(1));
        }
        if shared.with(|disk| disk.cut().is_some()) {
            // A device that is gone has nothing to lose.
            let _ = other.told();
        }
    };
    std::thread::Builder::new().name("tell".into()).spawn(wait).map(drop).map_err(FaultError::at(&directory))
}

fn status<D: Device>(shared: &SharedDevice<D>, file_system: FileSystem) -> String {
    let (counters, cut) = shared.with(|disk| (disk.counters(), disk.cut()));
    let power = if cut.is_some() { "off" } else { "on" };
    let cut = cut.map(|cut| format!(" {cut}")).unwrap_or_default();
    format!("power={power} file_system={file_system} open={} {counters}{cut}", shared.open())
}

fn number(text: &str) -> Result<u64, FaultError> {
    text.parse().map_err(|_| FaultError::Usage(format!("{text:?} is not a whole number")))
}
