//! Leftovers of tests: processes, mounts, loop devices, networks and files. Each test process is watched by `test_program`; a
//! `Snapshot` before and after a run finds the rest.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Result;
use crate::process::{is_interrupted, pass_on_interrupts};
use crate::test::TIMES;
use crate::times::Took;

/// Environment variable that a test process and all that it starts have, with a value of its own.
const MARK: &str = "PLIMSOLL_TEST";
/// Beginning of the names of temporary directories of tests. Short, since the paths of sockets are.
const SCRATCH: &str = "pt-";
/// Longest time that the processes of a test may take to end after it: supervisors clean up behind killed programs.
const GRACE: Duration = Duration::from_secs(10);
/// Longest time for them to end after SIGTERM. The scheduler kills an interrupted test after 10 s.
const ENDING: Duration = Duration::from_secs(6);
/// Directories that tests make files in.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Exit code of a test that left something behind.
const LEFT: u8 = 99;

/// Runs the test process that `arguments` are the command line of: in a temporary directory of its own, with its time
/// recorded. Fails by the test's name if a process, a mount or a file of it is left. Cleans up behind an interrupted test.
pub fn test_program(arguments: &[String]) -> Result<u8> {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    let (program, arguments) = arguments.split_first().ok_or("no test program was given")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let name = std::env::var("NEXTEST_TEST_NAME").ok().filter(|_| std::env::var_os(TIMES).is_some());
    let Some(test) = name else {
        return Err(format!("{program}: {}", command.exec()));
    };
    let binary = std::env::var("NEXTEST_BINARY_ID").unwrap_or_default();
    let mark = format!("{}-{test}", std::process::id());
    let scratch = Path::new("/tmp").join(format!("{SCRATCH}{}", std::process::id()));
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    pass_on_interrupts()?;
    let started = Instant::now();
    let mut child =
        command.env(MARK, &mark).env("TMPDIR", &scratch).spawn().map_err(|error| format!("{program}: {error}"))?;
    let status = child.wait().map_err(|error| format!("{program}: {error}"))?;
    let took = Took { seconds: started.elapsed().as_secs_f64(), processor: processor_seconds() };
    if !is_interrupted() {
        record(&format!("{binary} {test}\t{took}\n"))?;
    }

    let left = if is_interrupted() { Vec::new() } else { settled(GRACE, || left_by(&mark, child.id(), &scratch)) };
    end(|| marked(|of| of == mark));
    let _ = remove(&scratch);
    left.iter().for_each(|left| eprintln!("left behind by {test}: {left}"));
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1) as u8;
    Ok(if code == 0 && !left.is_empty() { LEFT } else { code })
}

/// Returns the processor time, seconds, of the children that this process has waited for, and of their children.
fn processor_seconds() -> f64 {
    /// Clock ticks of /proc in a second, on every Linux.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
    // cutime and cstime, of which the line's own numbers are 16 and 17.
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Appends `line` to the times of this run.
fn record(line: &str) -> Result {
    let Some(path) = std::env::var_os(TIMES).map(PathBuf::from) else { return Ok(()) };
    let file = fs::OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|error| format!("{}: {error}", path.display()))
}

/// Asks `left` until nothing is left or `bound` is over.
fn settled<T>(bound: Duration, left: impl Fn() -> Vec<T>) -> Vec<T> {
    let until = Instant::now() + bound;
    loop {
        let left = left();
        if left.is_empty() || Instant::now() > until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Processes with the mark, mounts and files in `scratch`, and directories named after the process `pid`.
fn left_by(mark: &str, pid: u32, scratch: &Path) -> Vec<String> {
    let processes =
        marked(|of| of == mark).into_iter().map(|process| format!("process {process}: {}", command_line(process)));
    let mounts = mounts().into_iter().filter(|mount| Path::new(mount).starts_with(scratch));
    let files = fs::read_dir(scratch).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_of_it = |path: &PathBuf| path.file_name().and_then(|name| owner(name.to_str()?)) == Some(pid);
    let named = SHARED.iter().flat_map(|base| entries(Path::new(base))).filter(is_of_it);
    processes
        .chain(mounts.map(|mount| format!("mount {mount}")))
        .chain(files.chain(named).map(|path| format!("file {}", path.display())))
        .collect()
}

/// Processes whose environment has a mark that `is_meant`.
fn marked(is_meant: impl Fn(&str) -> bool) -> Vec<u32> {
    let has_it = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let mut entries = environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
        entries.any(|entry| entry.strip_prefix(MARK).and_then(|rest| rest.strip_prefix('=')).is_some_and(&is_meant))
    };
    processes().into_iter().filter(has_it).collect()
}

/// Processes of tests whose `test_program` was killed. Those of other containers have other numbers, and do not count.
fn of_dead_tests() -> Vec<u32> {
    let space = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    let is_dead = |mark: &str| {
        let by = mark.split_once('-').and_then(|(pid, _)| pid.parse().ok());
        by.is_some_and(|pid| !command_line(pid).contains("test-program"))
    };
    marked(is_dead).into_iter().filter(|process| space(&process.to_string()) == space("self")).collect()
}

/// Ends the processes that `which` returns. SIGTERM makes a lab end its servers and remove their files; SIGKILL follows.
fn end(which: impl Fn() -> Vec<u32>) {
    for (signal, bound) in [("-TERM", ENDING), ("-KILL", GRACE)] {
        for process in which() {
            let _ = Command::new("kill").args([signal, &process.to_string()]).output();
        }
        settled(bound, &which);
    }
}

/// Removes `directory` with what is mounted in it.
fn remove(directory: &Path) -> std::io::Result<()> {
    for mount in mounts().iter().rev().filter(|mount| Path::new(mount).starts_with(directory)) {
        let _ = Command::new("umount").args(["--lazy", mount]).output();
    }
    fs::remove_dir_all(directory)
}

/// Numbers of all processes.
fn processes() -> impl IntoIterator<Item = u32> {
    let names = entries(Path::new("/proc")).into_iter();
    names.filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect::<BTreeSet<u32>>()
}

fn command_line(process: u32) -> String {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned()
}

fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned).collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Mounts, loop devices, networks and files of this machine that tests may leave.
pub struct Snapshot(BTreeSet<String>);

impl Snapshot {
    /// Takes it now.
    pub fn take() -> Self {
        let loops = entries(Path::new("/sys/block")).into_iter().filter_map(|device| {
            let file = fs::read_to_string(device.join("loop/backing_file")).ok()?;
            Some(format!("loop device {} on {}", device.display(), file.trim()))
        });
        let networks = ["/run/netns", "/sys/class/net"].iter().flat_map(|path| entries(Path::new(path)));
        let files = SHARED.iter().flat_map(|base| entries(Path::new(base))).filter(|path| is_tests(path));
        let all = mounts().into_iter().map(|mount| format!("mount {mount}")).chain(loops);
        let all = all.chain(networks.map(|path| format!("network {}", path.display())));
        Self(all.chain(files.map(|path| format!("file {}", path.display()))).collect())
    }

    /// Returns what is new since then, after the time that cleaning up may take.
    pub fn left_since(&self) -> Vec<String> {
        let new =
            || Self::take().0.difference(&self.0).map(|left| format!("left behind by the tests: {left}")).collect();
        settled(GRACE, new)
    }
}

/// True for files that tests or the program make; other programs of the machine make files there too. Shared memory of
/// PostgreSQL does not count: a server that is killed leaves it, and nothing tells whose it was.
fn is_tests(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("plimsoll") || owner(&name).is_some()
}

/// Tests that make directories named after their process: `redis-test-4711-x1Y2z3`.
const WHOSE: [&str; 7] = ["cli", "faultfs", "lab", "private", "redis", "server", "tls"];

/// Ends what dead tests started, and removes what they left where tests make their directories; what cannot be removed
/// stays.
pub fn sweep() {
    for process in of_dead_tests() {
        println!("ending process {process}, which a test that was killed has left: {}", command_line(process));
    }
    end(of_dead_tests);
    for base in [PathBuf::from("/var/tmp"), PathBuf::from("/dev/shm"), std::env::temp_dir()] {
        for removed in sweep_in(&base) {
            println!("removed {}, which a test that was killed has left", removed.display());
        }
    }
}

/// Removes what dead tests have left in `base`. Returns what was removed.
fn sweep_in(base: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let owner = entry.file_name().to_str().and_then(owner);
        is_directory && owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    });
    left.map(|entry| entry.path()).filter(|path| !is_worked_in(path)).filter(|path| remove(path).is_ok()).collect()
}

/// Returns the process that made the directory `name`, or `None` if no test did.
fn owner(name: &str) -> Option<u32> {
    if let Some(pid) = name.strip_prefix(SCRATCH) {
        return pid.parse().ok();
    }
    let (whose, rest) = name.split_once("-test-")?;
    let (pid, _) = rest.split_once('-')?;
    WHOSE.contains(&whose).then(|| pid.parse().ok())?
}

/// True if some process has its working directory there: a server whose supervisor is about to end it.
fn is_worked_in(path: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok()).any(|cwd| cwd.starts_with(path))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn processes_files_and_mounts_of_a_test_are_found_by_its_mark_and_its_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let mark = format!("{}-a test", std::process::id());
        let left = |pid| left_by(&mark, pid, scratch.path());
        assert_eq!(left(1), [""; 0]);
        fs::write(scratch.path().join("kept"), "").unwrap();
        let mut child = Command::new("sleep").arg("60").env(MARK, &mark).spawn().unwrap();
        let named = PathBuf::from(format!("/var/tmp/cli-test-{}-x", child.id()));
        fs::create_dir(&named).unwrap();
        let found = settled_to(3, || left(child.id()));
        fs::remove_dir(&named).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found[0].ends_with("sleep 60") && found[1].ends_with("kept"), "{found:?}");
        assert_eq!(found[2], format!("file {}", named.display()));
    }

    /// Waits for the moment between fork and exec to pass, when a process has its parent's environment.
    fn settled_to<T>(n: usize, left: impl Fn() -> Vec<T>) -> Vec<T> {
        let until = Instant::now() + GRACE;
        while left().len() != n && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        left()
    }

    #[test]
    fn only_what_dead_tests_started_is_ended() {
        let start = |by: u32| {
            let mut command = Command::new("sh");
            command.args(["-c", "read nothing", "test-program"]).env(MARK, format!("{by}-another test"));
            command.stdin(std::process::Stdio::piped()).spawn().unwrap()
        };
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let mut of_dead = start(ended.id());
        let mut of_alive = start(of_dead.id());
        // Other tests of this machine may be on their way.
        let found = || {
            let ours = |pid: &u32| [of_dead.id(), of_alive.id()].contains(pid);
            of_dead_tests().into_iter().filter(ours).collect::<Vec<_>>()
        };
        assert_eq!(settled_to(1, found), [of_dead.id()]);
        end(|| found().into_iter().filter(|pid| *pid == of_dead.id()).collect());
        assert!(!of_dead.wait().unwrap().success());
        assert!(of_alive.try_wait().unwrap().is_none());
        drop(of_alive.stdin.take());
        of_alive.wait().unwrap();
    }

    #[test]
    fn only_what_dead_tests_made_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let (dead, alive) = (ended.id(), std::process::id());
        let make = |name: String| {
            let path = base.path().join(name);
            fs::create_dir_all(path.join("data")).unwrap();
            path
        };
        let left = make(format!("redis-test-{dead}-aB3dE6"));
        let kept = [
            make(format!("redis-test-{alive}-aB3dE6")),
            make(format!("other-test-{dead}-aB3dE6")),
            make(format!("redis-{dead}-aB3dE6")),
            make("postgres-test-aB3dE6".to_owned()),
        ];
        let busy = make(format!("lab-test-{dead}-aB3dE6"));
        let mut server = Command::new("sleep").arg("60").current_dir(busy.join("data")).spawn().unwrap();
        assert_eq!(sweep_in(base.path()), [left]);
        assert!(kept.iter().chain([&busy]).all(|path| path.exists()));
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(sweep_in(base.path()), [busy]);
    }
}
