use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_trace::{Call, TraceError, TraceSpec, Traced, Tracer, Way};

use crate::child::Told;

/// On the file system of the build, which is a real one.
pub fn directory() -> tempfile::TempDir {
    let prefix = format!("trace-test-{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn start(way: Way, pid: u32, threshold: Duration) -> Tracer {
    let spec = TraceSpec { pids: Some(vec![pid]), threshold, way: Some(way) };
    Tracer::start(&spec).unwrap_or_else(|error| panic!("{error}\n{}", error.next()))
}

/// Reads until nothing is on its way any more.
fn read(tracer: &mut Tracer) -> Traced {
    std::thread::sleep(Duration::from_millis(60));
    tracer.read().unwrap()
}

/// Returns the number of `call`, and of those that failed, by process `pid`, or by all.
fn count(of: &Traced, call: Call, pid: Option<u32>) -> (u64, u64) {
    let processes = of.processes.iter().filter(|process| pid.is_none_or(|pid| process.pid == pid));
    let calls = processes.flat_map(|process| &process.calls).filter(|calls| calls.call == call);
    calls.fold((0, 0), |(all, failed), calls| (all + calls.times.len(), failed + calls.failed))
}

const NEVER: Duration = Duration::from_secs(3_600);

#[test]
fn all_calls_are_counted_and_none_is_lost() {
    let place = directory();
    let (a, b) = (place.path().join("a"), place.path().join("b"));
    let mut child = Told::start();
    let mut tracer = start(Way::Bpf, child.pid(), NEVER);
    child.does(&format!("fsync 37 {}", a.display()));
    child.does(&format!("fdatasync 11 {}", b.display()));
    child.does(&format!("fdatasync 5 {}", Path::new("/dev/shm").join(format!("trace-{}", child.pid())).display()));
    child.does(&format!("msync 3 {}", b.display()));
    child.does(&format!("syncfs 2 {}", a.display()));
    child.does(&format!("nothing 9 {}", a.display()));
    child.does("failing 4 -");
    let found = read(&mut tracer);
    std::fs::remove_file(format!("/dev/shm/trace-{}", child.pid())).unwrap();
    let wanted = [
        (Call::Fsync, (41, 4)),
        (Call::Fdatasync, (16, 0)),
        (Call::Msync, (3, 0)),
        (Call::Syncfs, (2, 0)),
        (Call::WriteThrough, (0, 0)),
    ];
    for (call, wanted) in wanted {
        assert_eq!(count(&found, call, Some(child.pid())), wanted, "{call}\n{found:#?}");
    }
    assert_eq!((found.way, found.lost, found.slow.len()), (Way::Bpf, 0, 0));
    assert_eq!(found.times().powers_of_two().iter().map(|(_, count)| count).sum::<u64>(), 62);
    assert_eq!(found.times().hdr().len(), 62);
    // What is new is told once.
    child.does(&format!("fsync 6 {}", a.display()));
    let next = read(&mut tracer);
    assert_eq!((next.times().len(), next.new_times().len()), (68, 6));
    assert!(next.elapsed >= Duration::from_millis(60) && next.at_ns > found.at_ns);
    assert!(read(&mut tracer).new_times().is_empty());
}

#[test]
fn others_are_not_counted_and_descendants_are_also_after_their_end() {
    let place = directory();
    let file = place.path().join("file");
    let (mut child, mut other) = (Told::start(), Told::start());
    let mut tracer = start(Way::Bpf, child.pid(), NEVER);
    other.does(&format!("fsync 7 {}", file.display()));
    child.does(&format!("fork fsync 5 {}", file.display()));
    let found = read(&mut tracer);
    assert_eq!((count(&found, Call::Fsync, None), found.lost), ((5, 0), 0), "{found:#?}");
    let [process] = &found.processes[..] else { panic!("{found:#?}") };
    assert!(process.pid != child.pid() && process.pid != other.pid());
    // The child has ended. It is told of still, and none of it again as new.
    for _ in 0..3 {
        child.does(&format!("fsync 1 {}", file.display()));
        let next = read(&mut tracer);
        assert_eq!(next.new_times().len(), 1, "{next:#?}");
    }
    let last = read(&mut tracer);
    assert_eq!(last.processes.len(), 2, "{last:#?}");
    assert_eq!(count(&last, Call::Fsync, Some(process.pid)), (5, 0));
    assert_eq!(last.times().len(), 8);
}

#[test]
fn two_who_trace_the_same_see_all_of_it() {
    let place = directory();
    let mut child = Told::start();
    let mut tracers = [(); 2].map(|()| start(Way::Bpf, child.pid(), NEVER));
    child.does(&format!("fsync 5 {}", place.path().join("file").display()));
    for tracer in &mut tracers {
        assert_eq!(count(&read(tracer), Call::Fsync, None), (5, 0));
    }
}

#[test]
fn a_child_that_was_there_before_is_followed() {
    let place = directory();
    let mut child = Told::start();
    let mut tracer = start(Way::Bpf, std::process::id(), NEVER);
    child.does(&format!("fsync 5 {}", place.path().join("file").display()));
    assert_eq!(count(&read(&mut tracer), Call::Fsync, Some(child.pid())), (5, 0));
}

#[test]
fn writes_to_a_file_opened_with_o_dsync_are_seen_on_ext4() {
    let place = directory();
    let found = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(place.path()).output().unwrap();
    let file_system = String::from_utf8(found.stdout).unwrap();
    assert_eq!(file_system.trim(), "ext2/ext3", "set CARGO_TARGET_DIR to a directory on ext4");
    let mut child = Told::start();
    let mut tracer = start(Way::Bpf, child.pid(), Duration::ZERO);
    let file = place.path().join("file");
    child.does(&format!("dsync 8 {}", file.display()));
    child.does(&format!("fsync 2 {}", file.display()));
    let found = read(&mut tracer);
    assert_eq!(count(&found, Call::WriteThrough, None), (8, 0), "{found:#?}");
    assert_eq!(count(&found, Call::Fsync, None), (2, 0), "{found:#?}");
}

#[test]
fn an_fsync_by_io_uring_is_seen_once() {
    let place = directory();
    let mut child = Told::start();
    let mut tracer = start(Way::Bpf, child.pid(), Duration::ZERO);
    child.does(&format!("uring 6 {}", place.path().join("file").display()));
    let found = read(&mut tracer);
    assert_eq!(count(&found, Call::UringFsync, Some(child.pid())), (6, 0), "{found:#?}");
    assert_eq!((found.times().len(), found.slow.len(), found.lost), (6, 6, 0), "{found:#?}");
}

#[test]
fn a_slow_call_is_listed_with_its_file_by_each_way() {
    let place = directory();
    let file = place.path().join("big");
    for way in Way::ALL {
        let mut child = Told::start();
        let mut tracer = start(way, child.pid(), Duration::from_millis(20));
        child.does(&format!("fsync 3 {}", place.path().join("small").display()));
        // On a busy machine looks at `/proc` may come after a call has ended.
        let tries = if way == Way::Proc { 3 } else { 1 };
        let before = Instant::now();
        let listed = (0..tries).find_map(|_| {
            child.does(&format!("big 1 {}", file.display()));
            let (took, found) = (before.elapsed(), read(&mut tracer));
            assert_eq!((found.way, found.lost), (way, 0));
            let of_file = found.slow.iter().filter(|slow| slow.path.as_ref() == Some(&file));
            let slow = of_file.max_by_key(|slow| slow.time_ns)?.clone();
            Some((slow, found, took))
        });
        let (slow, found, took) = listed.unwrap_or_else(|| panic!("{way}: no slow call was listed"));
        assert_eq!((slow.pid, slow.call), (child.pid(), Call::Fsync));
        assert!(
            slow.time_ns >= 20_000_000 && u128::from(slow.time_ns) < took.as_nanos(),
            "{way}: {slow:?} of {took:?}"
        );
        assert!(slow.start_ns < found.at_ns && slow.start_ns + slow.time_ns <= found.at_ns, "{way}: {slow:?}");
        assert!(slow.name.starts_with("child::") || slow.name.starts_with("it-"), "{slow:?}");
        let longest = found.times().quantile(1.0).unwrap();
        assert!(
            longest.abs_diff(slow.time_ns) * 64 <= slow.time_ns || found.slow.len() > 1,
            "{way}: {longest} {slow:?}"
        );
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn whoever_cannot_be_traced_is_named() {
    let nobody = TraceSpec::of(vec![4_194_305]);
    let error = Tracer::start(&nobody).err().unwrap();
    assert_eq!(error.to_string(), "there is no process 4194305");
    assert!(matches!(Tracer::start(&TraceSpec::of(vec![])).err(), Some(TraceError::Nothing)));
}

/// Runs the test `what_a_user_may_trace` as the user of least rights, for process `pid`; returns its output.
fn as_nobody(pid: &str) -> String {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["ways::what_a_user_may_trace", "--exact", "--ignored", "--nocapture"]).env("TRACED", pid);
    let output = command.current_dir("/").uid(65_534).gid(65_534).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "started by other tests"]
fn what_a_user_may_trace() {
    let pid = std::env::var("TRACED").unwrap().parse().unwrap_or_else(|_| std::process::id());
    match Tracer::start(&TraceSpec::of(vec![pid])) {
        Ok(tracer) => {
            let why_not_bpf = tracer.why_not_bpf().map_or(String::new(), |error| format!("bpf: {error}"));
            println!("{}; {why_not_bpf}", tracer.way());
        }
        Err(error) => println!("{error}\n{}", error.next()),
    }
}

#[test]
fn a_user_without_privileges_sees_processes_of_his_own_and_is_told_why_not_more() {
    let own = as_nobody("own");
    assert!(own.contains("proc; bpf: tracefs, the kernel's list"), "{own}");
    let child = Told::start();
    let other = as_nobody(&child.pid().to_string());
    for words in
        ["no way to trace works here", "  bpf: ", "  proc: reading /proc/PID/syscall: Permission denied", "as root"]
    {
        assert!(other.contains(words), "{other}");
    }
}

#[test]
fn one_that_ends_meanwhile_is_told_of() {
    let place = directory();
    for way in Way::ALL {
        let mut child = Told::start();
        let mut tracer = start(way, child.pid(), NEVER);
        child.does(&format!("fsync 4 {}", place.path().join("file").display()));
        let pid = child.pid();
        drop(child);
        let found = read(&mut tracer);
        let seen = count(&found, Call::Fsync, Some(pid)).0;
        assert!(if way == Way::Proc { seen <= 4 } else { seen == 4 }, "{way}: {found:#?}");
        let again = read(&mut tracer).times().len();
        // Looks at `/proc` may come later than the first reading.
        assert!(again == seen || (way == Way::Proc && (seen..=4).contains(&again)), "{way}: {seen}, then {again}");
    }
}

#[test]
fn nothing_is_left_mounted() {
    let mounted = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.lines().filter(|line| line.split(' ').nth(2) == Some("tracefs")).count()
    };
    let before = mounted();
    let mut tracer = start(Way::Bpf, std::process::id(), NEVER);
    read(&mut tracer);
    assert_eq!(mounted(), before);
}
