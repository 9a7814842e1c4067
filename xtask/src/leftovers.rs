//! Leftovers of tests: processes, mounts, loop devices, networks, control groups, shared memory and files. Each test
//! process is watched by `test_program`; a `Snapshot` before and after a run finds the rest.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Result;
use crate::process::{is_interrupted, pass_on_interrupts, signal};
use crate::test::TIMES;
use crate::times::Took;

/// Environment variable that a test process and all that it starts have, with a value of its own.
const MARK: &str = "PLIMSOLL_TEST";
/// Environment variables of Plimsoll's supervisors and disk daemons, which have no other ones, with the process that started
/// them.
const STARTED_BY: [&str; 2] = ["PLIMSOLL_SUPERVISOR_OF", "PLIMSOLL_FAULT_DEVICE_OF"];
/// Beginning of the names of temporary directories of tests. Short, since the paths of sockets are.
pub const SCRATCH: &str = "pt-";
/// Longest time that the processes of a test may take to end after it: supervisors clean up behind killed programs.
const GRACE: Duration = Duration::from_secs(10);
/// Longest time for them to end after SIGTERM. The scheduler kills an interrupted test after 10 s.
const ENDING: Duration = Duration::from_secs(6);
/// Longest time for a scheduler to end with its tests after SIGINT.
const SCHEDULER_ENDING: Duration = Duration::from_secs(30);
/// Directories that tests make files in, besides `tmp` in the target directory.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Place of the hierarchies of control groups.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";
/// System V segments of this machine (proc_sysvipc(5)).
const SEGMENTS: &str = "/proc/sysvipc/shm";
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
    // A test that was killed may have had the same number.
    let _ = remove(&scratch);
    fs::create_dir(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    pass_on_interrupts()?;
    let started = Instant::now();
    let mut child =
        command.env(MARK, &mark).env("TMPDIR", &scratch).spawn().map_err(|error| format!("{program}: {error}"))?;
    let status = child.wait().map_err(|error| format!("{program}: {error}"))?;
    let took = Took { seconds: started.elapsed().as_secs_f64(), processor: processor_seconds() };
    let was_interrupted = is_interrupted();
    let left = if was_interrupted { Vec::new() } else { settled(GRACE, || left_by(&mark, child.id(), &scratch)) };
    if was_interrupted || !left.is_empty() {
        end(|| marked(|of| of == mark), &ENDS);
        end(|| of_test(&mark, child.id(), &scratch), &[KILLED]);
    }
    let _ = remove(&scratch);
    left.iter().for_each(|left| eprintln!("left behind by {test}: {left}"));
    // The time of a test that failed is not its usual one.
    if status.success() && !is_interrupted() {
        record(&format!("{binary} {test}\t{took}\n"))?;
    }
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1) as u8;
    Ok(if code == 0 && !left.is_empty() { LEFT } else { code })
}

/// Returns the processor time, seconds, of the children that this process has waited for, and of their children.
fn processor_seconds() -> f64 {
    /// Clock ticks of /proc in a second, on every Linux.
    const TICKS: f64 = 100.0;
    // cutime and cstime, of which the line's own numbers are 16 and 17.
    stat("self").iter().skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
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

/// Processes of the test, mounts and files in `scratch`, and directories named after the process `pid`.
fn left_by(mark: &str, pid: u32, scratch: &Path) -> Vec<String> {
    let processes = of_test(mark, pid, scratch).into_iter().map(shown);
    let mounts = mounts().into_iter().filter(|mount| Path::new(mount).starts_with(scratch));
    let files = fs::read_dir(scratch).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_of_it = |path: &PathBuf| path.file_name().and_then(|name| owner(name.to_str()?)) == Some(pid);
    let named = places(&target()).into_iter().flat_map(|base| entries(&base)).filter(is_of_it);
    processes
        .chain(mounts.map(|mount| format!("mount {mount}")))
        .chain(files.chain(named).map(|path| format!("file {}", path.display())))
        .collect()
}

/// Processes whose environment has a variable with a name and value that are meant.
fn with_variable(is_meant: impl Fn(&str, &str) -> bool) -> Vec<u32> {
    let has_it = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let mut entries = environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
        entries.any(|entry| entry.split_once('=').is_some_and(|(name, value)| is_meant(name, value)))
    };
    processes().into_iter().filter(has_it).collect()
}

/// Processes whose environment has a mark that `is_meant`.
fn marked(is_meant: impl Fn(&str) -> bool) -> Vec<u32> {
    with_variable(|name, value| name == MARK && is_meant(value))
}

/// Processes of a test: those with its mark, and those that Plimsoll starts without its environment. Supervisors have the
/// number `pid` of its process, and servers work in its directories.
fn of_test(mark: &str, pid: u32, scratch: &Path) -> BTreeSet<u32> {
    let is_its = |name: &str, value: &str| {
        (name == MARK && value == mark) || (STARTED_BY.contains(&name) && value == pid.to_string())
    };
    let works_there = |process: &u32| {
        let is_its = |place: PathBuf| place.starts_with(scratch) || whose(&place) == Some(pid);
        place_of(*process).is_some_and(is_its) && is_near(*process)
    };
    with_variable(is_its).into_iter().chain(processes().into_iter().filter(works_there)).collect()
}

/// True for processes whose numbers are those that this one knows. Those of other containers have other numbers.
fn is_near(process: u32) -> bool {
    let space = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    space(&process.to_string()) == space("self")
}

/// Returns the working directory of a process, also if it was removed.
fn place_of(process: u32) -> Option<PathBuf> {
    let place = fs::read_link(format!("/proc/{process}/cwd")).ok()?;
    Some(PathBuf::from(place.to_str()?.trim_end_matches(" (deleted)")))
}

/// Returns the process that made the directory of a test that `path` is in.
fn whose(path: &Path) -> Option<u32> {
    path.iter().find_map(|name| owner(name.to_str()?))
}

/// Processes of tests whose `test_program` was killed: those with its mark, and servers that work in its directories.
fn of_dead_tests() -> BTreeSet<u32> {
    let is_dead = |mark: &str| {
        let by = mark.split_once('-').and_then(|(pid, _)| pid.parse().ok());
        by.is_some_and(|pid| !command_line(pid).contains("test-program"))
    };
    let works_there = |process: &u32| {
        let owner = place_of(*process).and_then(|place| whose(&place));
        owner.is_some_and(|owner| !is_alive(owner))
    };
    let servers = processes().into_iter().filter(works_there);
    marked(is_dead).into_iter().chain(servers).filter(|process| is_near(*process)).collect()
}

/// Schedulers whose `cargo xtask test` was killed: each would run the rest of its tests beside those of this run.
fn orphaned() -> BTreeSet<u32> {
    let is_run = |process| {
        let words = words(process);
        words.first().is_some_and(|program| program.ends_with("/xtask"))
            && words.get(1).is_some_and(|verb| verb == "test")
    };
    let parent = |process: u32| stat(&process.to_string()).get(1).and_then(|parent| parent.parse().ok());
    let is_orphan = |process: &u32| {
        let is_scheduler = words(*process).get(1..3).is_some_and(|verb| verb == ["nextest", "run"]);
        is_scheduler && is_near(*process) && !parent(*process).is_some_and(is_run)
    };
    with_variable(|name, _| name == TIMES).into_iter().filter(is_orphan).collect()
}

/// Ways to end processes, one after the other: a signal, and the time that they have for it.
type Ways<'a> = &'a [(&'a str, Duration)];
/// Ends what does not listen.
const KILLED: (&str, Duration) = ("KILL", GRACE);
/// SIGTERM makes a lab end its servers and remove their files.
const ENDS: [(&str, Duration); 2] = [("TERM", ENDING), KILLED];

/// Ends the processes that `which` returns.
fn end<T: IntoIterator<Item = u32>>(which: impl Fn() -> T, ways: Ways<'_>) {
    let which = || which().into_iter().collect::<Vec<_>>();
    for (name, bound) in ways {
        let found = which();
        if found.is_empty() {
            return;
        }
        found.into_iter().for_each(|process| signal(name, process));
        settled(*bound, which);
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

/// The command line of a process.
fn words(process: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end_matches('\0').split('\0').map(str::to_owned).collect()
}

fn command_line(process: u32) -> String {
    words(process).join(" ")
}

fn shown(process: u32) -> String {
    format!("process {process}: {}", command_line(process))
}

fn is_alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

/// Returns the fields of a process in /proc/…/stat, from the third on: those behind the name.
pub fn stat(process: &str) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
    fields.map(str::to_owned).collect()
}

fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').nth(4)).map(|mount| mount.replace("\\040", " ")).collect()
}

/// Returns the directories that tests make files in, of those that are built in `target`.
fn places(target: &Path) -> Vec<PathBuf> {
    SHARED.map(PathBuf::from).into_iter().chain([target.join("tmp")]).collect()
}

/// The target directory of the run that this test process belongs to.
fn target() -> PathBuf {
    let record = std::env::var_os(TIMES).map(PathBuf::from);
    record.and_then(|record| record.parent().map(Path::to_owned)).unwrap_or_default()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Returns the control groups below `directory` that limit servers: each has the name of its server's directory.
fn control_groups(directory: &Path) -> Vec<PathBuf> {
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let groups = fs::read_dir(directory).into_iter().flatten().flatten().filter(is_directory);
    let with_those_below = |group: PathBuf| {
        let mut found = control_groups(&group);
        found.extend(Some(group).filter(|group| is_tests(group)));
        found
    };
    groups.map(|entry| entry.path()).flat_map(with_those_below).collect()
}

/// Returns the System V segments in `table` that no process is attached to.
fn unattached(table: &str) -> Vec<String> {
    let segment = |line: &str| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        [_, id, _, _, maker, _, "0", ..] => Some(format!("System V segment {id} of process {maker}")),
        _ => None,
    };
    table.lines().filter_map(segment).collect()
}

/// Mounts, loop devices, networks, control groups, shared memory, files and processes of this machine that tests may leave.
pub struct Snapshot {
    target: PathBuf,
    all: BTreeSet<String>,
}

impl Snapshot {
    /// Takes it now, for tests that are built in `target`.
    pub fn take(target: &Path) -> Self {
        let loops = entries(Path::new("/sys/block")).into_iter().filter_map(|device| {
            let file = fs::read_to_string(device.join("loop/backing_file")).ok()?;
            Some(format!("loop device {} on {}", device.display(), file.trim()))
        });
        let networks = ["/run/netns", "/sys/class/net"].iter().flat_map(|path| entries(Path::new(path)));
        let files = places(target).into_iter().flat_map(|base| entries(&base));
        let files = files.filter(|path| path.starts_with(target) || is_tests(path));
        let is_dead = |owner: &str| owner.parse().is_ok_and(|owner| !is_alive(owner));
        let unowned = with_variable(|name, owner| STARTED_BY.contains(&name) && is_dead(owner));
        let unowned = unowned.into_iter().filter(|process| is_near(*process)).map(shown);
        let all = mounts().into_iter().map(|mount| format!("mount {mount}")).chain(loops).chain(unowned);
        let all = all.chain(networks.map(|path| format!("network {}", path.display())));
        let groups = control_groups(Path::new(CONTROL_GROUPS)).into_iter();
        let all = all.chain(groups.map(|path| format!("control group {}", path.display())));
        let all = all.chain(unattached(&fs::read_to_string(SEGMENTS).unwrap_or_default()));
        let all = all.chain(files.map(|path| format!("file {}", path.display()))).collect();
        Self { target: target.to_owned(), all }
    }

    /// Returns what is new since then, after the time that cleaning up may take.
    pub fn left_since(&self) -> Vec<String> {
        let new = || {
            let now = Self::take(&self.target).all;
            now.difference(&self.all).map(|left| format!("left behind by the tests: {left}")).collect()
        };
        settled(GRACE, new)
    }
}

/// True for files that tests or the program make; other programs of the machine make files there too. Files of
/// PostgreSQL's shared memory do not count: a server that is killed leaves them, and their names tell nothing of it.
fn is_tests(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("plimsoll") || owner(&name).is_some()
}

/// Tests that make directories named after their process: `redis-test-4711-x1Y2z3`.
const WHOSE: [&str; 12] =
    ["cli", "disk", "faultfs", "lab", "private", "record", "redis", "sample", "server", "sync", "tls", "trace"];

/// Ends what dead tests started, and removes what they left where tests make their directories; what cannot be removed
/// stays.
pub fn sweep(target: &Path) {
    for process in orphaned() {
        println!("ending process {process}, whose `cargo xtask test` was killed: {}", command_line(process));
    }
    end(orphaned, &[("INT", SCHEDULER_ENDING), KILLED]);
    for process in of_dead_tests() {
        println!("ending process {process}, which a test that was killed has left: {}", command_line(process));
    }
    end(of_dead_tests, &ENDS);
    for base in places(target) {
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
        is_directory && owner.is_some_and(|pid| !is_alive(pid))
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
    processes().into_iter().filter_map(place_of).any(|place| place.starts_with(path))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn processes_and_files_of_a_test_are_found_by_its_mark_its_directories_and_its_number() {
        let scratch = tempfile::tempdir().unwrap();
        let mark = format!("{}-a test", std::process::id());
        let left = |pid| left_by(&mark, pid, scratch.path());
        assert_eq!(left(1), [""; 0]);
        let sleeping = |change: &dyn Fn(&mut Command) -> &mut Command| {
            let mut command = Command::new("/bin/sleep");
            change(command.arg("60").env_clear()).spawn().unwrap()
        };
        let mut test = sleeping(&|command| command.env(MARK, &mark));
        let named = PathBuf::from(format!("/var/tmp/cli-test-{}-x", test.id()));
        fs::create_dir(&named).unwrap();
        fs::create_dir(scratch.path().join("kept")).unwrap();
        // As servers and supervisors are, without the test's environment.
        let mut others = [
            sleeping(&|command| command.current_dir(scratch.path().join("kept"))),
            sleeping(&|command| command.current_dir(&named)),
            sleeping(&|command| command.env(STARTED_BY[0], test.id().to_string())),
            sleeping(&|command| command.env(STARTED_BY[1], test.id().to_string())),
            sleeping(&|command| command.env(STARTED_BY[0], "1")),
        ];
        let found = settled_to(7, || left(test.id()));
        fs::remove_dir(&named).unwrap();
        let deleted = left(test.id());
        for child in others.iter_mut().chain([&mut test]) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let processes =
            others.iter().take(4).chain([&test]).map(|child| format!("process {}: /bin/sleep 60", child.id()));
        let files = [scratch.path().join("kept"), named].map(|path| format!("file {}", path.display()));
        let expected: BTreeSet<String> = processes.chain(files.clone()).collect();
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        let still: BTreeSet<String> = expected.into_iter().filter(|left| *left != files[1]).collect();
        assert_eq!(deleted.into_iter().collect::<BTreeSet<_>>(), still, "also of a directory that was removed");
    }

    #[test]
    fn control_groups_of_servers_are_found_by_their_names() {
        let hierarchies = tempfile::tempdir().unwrap();
        let of_server =
            ["cpu/plimsoll-1a2b3c4d", "memory/api/17/plimsoll-1a2b3c4d"].map(|end| hierarchies.path().join(end));
        for group in of_server.iter().chain([&hierarchies.path().join("memory/system.slice")]) {
            fs::create_dir_all(group).unwrap();
        }
        fs::write(hierarchies.path().join("cpu/plimsoll.procs"), "").unwrap();
        let found: BTreeSet<PathBuf> = control_groups(hierarchies.path()).into_iter().collect();
        assert_eq!(found, BTreeSet::from(of_server));
    }

    #[test]
    fn shared_memory_is_left_as_long_as_no_process_is_attached_to_it() {
        let table =
            "key shmid perms size cpid lpid nattch uid\n 16 491568 600 56 19910 32257 0 101\n 17 9 600 56 5 6 1 101\n";
        assert_eq!(unattached(table), ["System V segment 491568 of process 19910"]);
        let made = Command::new("ipcmk").args(["--shmem", "64"]).output().unwrap();
        let made = String::from_utf8(made.stdout).unwrap();
        let id = made.trim().rsplit(' ').next().unwrap();
        let beginning = format!("System V segment {id} of process ");
        let is_seen = || Snapshot::take(Path::new("/nowhere")).all.iter().any(|left| left.starts_with(&beginning));
        let seen = is_seen();
        assert!(Command::new("ipcrm").args(["--shmem-id", id]).status().unwrap().success());
        assert!(seen && !is_seen(), "{made}");
    }

    #[test]
    fn only_a_scheduler_whose_run_was_killed_is_ended() {
        use std::os::unix::process::CommandExt as _;
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("nextest"), "read nothing").unwrap();
        fs::write(place.path().join("test"), "sh nextest run; true").unwrap();
        let start = |command: &mut Command| {
            let command = command.env(TIMES, "/nowhere").current_dir(place.path());
            command.stdin(std::process::Stdio::piped()).spawn().unwrap()
        };
        let mut orphan = start(Command::new("sh").args(["nextest", "run"]));
        let mut run = start(Command::new("sh").arg0("/clone/xtask").arg("test"));
        let is_here =
            |process: &u32| place_of(*process).is_some_and(|at| at == fs::canonicalize(place.path()).unwrap());
        let schedulers = || {
            let here = processes().into_iter().filter(is_here);
            here.filter(|process| words(*process)[1..] == ["nextest", "run"]).collect::<Vec<u32>>()
        };
        assert_eq!(settled_to(2, schedulers).len(), 2);
        let found = || orphaned().into_iter().filter(is_here).collect::<Vec<u32>>();
        assert_eq!(found(), [orphan.id()]);
        end(found, &[("INT", GRACE)]);
        assert!(!orphan.wait().unwrap().success());
        assert!(run.try_wait().unwrap().is_none());
        drop(run.stdin.take());
        run.wait().unwrap();
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
            of_dead_tests().into_iter().filter(ours).collect::<Vec<u32>>()
        };
        assert_eq!(settled_to(1, found), [of_dead.id()]);
        end(|| found().into_iter().filter(|pid| *pid == of_dead.id()).collect::<Vec<u32>>(), &ENDS);
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
