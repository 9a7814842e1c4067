use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::Series;
use plimsoll_sample::ServerProcesses;

use crate::read::Read;
use crate::site;

/// A shell that runs `script`, says a line whenever something is done, and waits to be told to go on.
struct Shell {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn start(script: &str, directory: &std::path::Path) -> Self {
        let mut child = Command::new("sh")
            .args(["-euc", script])
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // At the end of its input it ends by itself and takes its children with it.
        drop(self.child.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Server {
    read: Read,
    processes: ServerProcesses,
    last: Instant,
}

impl Server {
    fn open() -> Self {
        let processes = ServerProcesses::default();
        Self { read: Read::open("server", &processes), processes, last: Instant::now() }
    }

    /// Values of the named series, and the seconds that they are of.
    fn read<const N: usize>(&mut self, names: [&str; N]) -> ([Option<f64>; N], f64) {
        let elapsed = self.last.elapsed();
        self.last = Instant::now();
        let all = self.read.next(elapsed);
        let found = names.map(|name| {
            let is_its = |(series, _): &&(Series, f64)| series.subject.is_empty() && series.name == name;
            all.iter().find(is_its).map(|(_, value)| *value)
        });
        (found, elapsed.as_secs_f64())
    }
}

const COUNT: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

#[test]
fn a_server_is_the_whole_tree_of_its_processes() {
    let place = tempfile::tempdir().unwrap();
    // Two children, one of which has a child, that last; then work in a grandchild that is waited for.
    let script = format!(
        "sleep 60 & a=$!; (sleep 60 & b=$!; trap \"kill $b 2>/dev/null\" EXIT TERM; wait $b) & c=$!; trap \"kill $a $c 2>/dev/null\" EXIT
         echo up; read line; (sh -c '{COUNT}'); echo done; read line"
    );
    let mut shell = Shell::start(&script, place.path());
    assert_eq!(shell.hear(), "up");
    let mut server = Server::open();
    assert_eq!(server.read(["processes", "user"]).0, [None, None], "there is no server yet");
    server.processes.set(vec![site(0, shell.child.id())]);
    // The second child may be about to start its own.
    let deadline = Instant::now() + Duration::from_secs(100);
    while server.read(["processes"]).0 != [Some(4.0)] {
        assert!(Instant::now() < deadline, "the shell has not got its three descendants");
        std::thread::sleep(Duration::from_millis(10));
    }
    let ([memory, threads], _) = server.read(["memory", "threads"]);
    assert!(memory.unwrap() > 1e5 && threads == Some(4.0), "{memory:?} {threads:?}");
    // Their programs may still start, and processor time is counted in ticks of 10 ms.
    let is_idle = (0..20).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        server.read(["user"]).0[0].is_some_and(|user| user < 50.0)
    });
    assert!(is_idle, "four processes that wait are busy");
    // The process that did the work has ended by then: the shell took its time.
    shell.go_on();
    assert_eq!(shell.hear(), "done");
    let ([user, system, processes], seconds) = server.read(["user", "system", "processes"]);
    let used_s = (user.unwrap() + system.unwrap()) / 100.0 * seconds;
    assert!((0.02..30.0).contains(&used_s), "{used_s} s");
    assert_eq!(processes, Some(4.0));
    // Another server with the same pid begins anew.
    server.processes.set(vec![site(0, shell.child.id())]);
    assert_eq!(server.read(["user", "processes"]).0, [None, Some(4.0)]);
    server.processes.set(Vec::new());
    assert_eq!(server.read(["user", "processes"]).0, [None, None]);
}

#[test]
fn each_node_has_its_own_figures_and_one_with_a_new_server_leaves_the_others_theirs() {
    let place = tempfile::tempdir().unwrap();
    let script = format!("echo up; read line; {COUNT}; echo done; read line");
    let mut shells = [(); 3].map(|()| Shell::start(&script, place.path()));
    assert!(shells.iter_mut().all(|shell| shell.hear() == "up"));
    let pids = shells.each_ref().map(|shell| shell.child.id());
    let mut server = Server::open();
    server.processes.set(vec![site(0, pids[0]), site(1, pids[1])]);
    server.read([]);
    shells[1].go_on();
    assert_eq!(shells[1].hear(), "done");
    let read = |server: &mut Server| {
        let all = server.read.next(server.last.elapsed());
        server.last = Instant::now();
        move |subject: &str| {
            let its = |(series, _): &&(Series, f64)| series.subject == subject && series.name == "user";
            all.iter().find(its).map(|(_, value)| *value)
        }
    };
    let user = read(&mut server);
    let [all, one, two] = ["", "node 1", "node 2"].map(|subject| user(subject).unwrap());
    assert!(two > one && (all - one - two).abs() < 1e-6, "{all} % are {one} % and {two} %");
    server.processes.set(vec![site(0, pids[0]), site(1, pids[2])]);
    let user = read(&mut server);
    assert!(user("node 1").is_some());
    assert_eq!((user(""), user("node 2")), (None, None), "they begin anew");
}

#[test]
fn a_servers_processes_that_share_a_processor_wait_for_it() {
    let place = tempfile::tempdir().unwrap();
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..1_024).find(|&number| allowed.is_set(number)).unwrap();
    let busy = format!("taskset -c {cpu} sh -c 'while :; do :; done' &");
    let script = format!("{busy} a=$!; {busy} b=$!; trap \"kill $a $b 2>/dev/null\" EXIT; echo up; read line");
    let mut shell = Shell::start(&script, place.path());
    assert_eq!(shell.hear(), "up");
    let mut server = Server::open();
    server.processes.set(vec![site(0, shell.child.id())]);
    assert_eq!(server.read(["run_queue_delay"]).0, [None], "there is nothing to subtract from yet");
    std::thread::sleep(Duration::from_millis(500));
    let ([delay, processes], _) = server.read(["run_queue_delay", "processes"]);
    // Two want one processor: one of them always waits.
    assert!(delay.unwrap() > 50.0, "{delay:?} %");
    assert_eq!(processes, Some(3.0));
}

#[test]
fn a_server_that_dies_gives_no_more_values() {
    let place = tempfile::tempdir().unwrap();
    let mut shell = Shell::start("echo up; read line", place.path());
    assert_eq!(shell.hear(), "up");
    let mut server = Server::open();
    server.processes.set(vec![site(0, shell.child.id())]);
    server.read([]);
    assert_eq!(server.read(["processes"]).0, [Some(1.0)]);
    shell.go_on();
    shell.child.wait().unwrap();
    assert_eq!(server.read(["processes", "user"]).0, [None, None]);
}

#[test]
fn a_server_that_is_stopped_from_outside_is_seen_to_be_until_it_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let mut shell = Shell::start("echo up; read line", place.path());
    assert_eq!(shell.hear(), "up");
    let mut server = Server::open();
    server.processes.set(vec![site(0, shell.child.id())]);
    assert_eq!(server.read(["stopped"]).0, [Some(0.0)]);
    for (signal, wanted) in [("-STOP", 1.0), ("-CONT", 0.0)] {
        let sent = Command::new("sh").args(["-c", &format!("kill {signal} {}", shell.child.id())]).status().unwrap();
        assert!(sent.success(), "{signal}");
        let deadline = Instant::now() + Duration::from_secs(100);
        while server.read(["stopped"]).0 != [Some(wanted)] {
            assert!(Instant::now() < deadline, "{wanted} are not stopped after {signal}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn what_children_wrote_is_counted_while_they_live_and_after() {
    let place = crate::directory_on_a_device();
    let script = "read line; dd if=/dev/zero of=one bs=1M count=4 2>/dev/null; echo one; read line
                  (dd if=/dev/zero of=two bs=1M count=4 2>/dev/null; echo two; read line); echo end; read line";
    let mut shell = Shell::start(script, place.path());
    let mut server = Server::open();
    server.processes.set(vec![site(0, shell.child.id())]);
    server.read([]);
    shell.go_on();
    assert_eq!(shell.hear(), "one");
    let one = written_bytes(&mut server);
    assert!((4e6..9e6).contains(&one), "{one} B");
    shell.go_on();
    assert_eq!(shell.hear(), "two");
    let two = written_bytes(&mut server);
    assert!((4e6..9e6).contains(&two), "{two} B");
    shell.go_on();
    assert_eq!(shell.hear(), "end");
    // What the child wrote is now its parent's.
    let end = written_bytes(&mut server);
    assert!(end < 64.0 * 1024.0, "{end} B");
}

/// Returns the bytes written since the last reading.
fn written_bytes(server: &mut Server) -> f64 {
    let ([written], seconds) = server.read(["written"]);
    written.unwrap() * seconds
}

#[test]
fn syncs_of_the_servers_processes_are_counted_and_timed() {
    use plimsoll_core::SampleValue;
    let place = crate::directory_on_a_device();
    let file = place.path().join("file");
    let server = ServerProcesses::default();
    let (mut opened, unavailable) = plimsoll_sample::open(&["fsync".to_owned()], &server);
    assert_eq!(unavailable, [], "this needs root");
    let (_, sampler) = &mut opened[0];
    assert_eq!(sampler.sample(), [], "there is no server");
    let sync =
        |count: u32| format!("read _; for i in $(seq {count}); do sync -d {}; done; echo done; ", file.display());
    std::fs::write(&file, "x").unwrap();
    let mut shell = Shell::start(&format!("{}{}read _", sync(3), sync(5)), place.path());
    server.set(vec![site(0, shell.child.id())]);
    let mut counts = || {
        let read = sampler.sample();
        let [flushes, lost, times] = &read[..] else { panic!("{read:?}") };
        let SampleValue::Distribution(of) = &times.found else { panic!("{times:?}") };
        (flushes.number(), lost.number(), of.len())
    };
    assert_eq!(counts(), (0.0, 0.0, 0));
    shell.go_on();
    assert_eq!(shell.hear(), "done");
    assert_eq!(counts(), (3.0, 0.0, 3));
    shell.go_on();
    assert_eq!(shell.hear(), "done");
    assert_eq!(counts(), (8.0, 0.0, 5));
    assert_eq!(counts(), (8.0, 0.0, 0));
}

#[test]
fn waits_of_the_servers_threads_for_a_device_are_counted_and_timed() {
    use plimsoll_core::SampleValue;
    let place = crate::directory_on_a_device();
    let file = place.path().join("file");
    let server = ServerProcesses::default();
    let (mut opened, unavailable) = plimsoll_sample::open(&["offcpu".to_owned()], &server);
    assert_eq!(unavailable, [], "this needs root");
    let (_, sampler) = &mut opened[0];
    assert_eq!(sampler.sample(), [], "there is no server");
    // Each write makes a new block, which a sync has to put on the device.
    let write = format!("dd if=/dev/zero of={} bs=4k count=20 oflag=dsync 2>/dev/null; echo done; ", file.display());
    let mut shell = Shell::start(&format!("read _; {write}read _"), place.path());
    server.set(vec![site(0, shell.child.id())]);
    let mut counts = || {
        let read = sampler.sample();
        let [waits, waiting, lost, times] = &read[..] else { panic!("{read:?}") };
        let SampleValue::Distribution(of) = &times.found else { panic!("{times:?}") };
        (waits.number(), waiting.number(), lost.number(), of.len())
    };
    let (before, waited_s, ..) = counts();
    let began = Instant::now();
    shell.go_on();
    assert_eq!(shell.hear(), "done");
    let took_s = began.elapsed().as_secs_f64();
    let (waits, waiting_s, lost, new) = counts();
    assert!(waits - before + lost >= 10.0 && waits - before == new as f64, "{before} {waits} {lost} {new}");
    let waited_s = waiting_s - waited_s;
    assert!(waited_s > 0.0 && waited_s < 2.0 * took_s, "{waited_s} of {took_s} s");
}
