//! Private servers while Plimsoll lives: where their directories are, how they start and stop, how they fail.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::{Launch, ServerDescription, ServerSpec, StopSignal, StoreError, StoreErrorKind, Waits};
use plimsoll_lab::described::DescribedServer;
use plimsoll_lab::{Cluster, PrivateServer, SOCKET_DIR_BYTES_MAX, ServerUser, Supervisor};
use rustix::process::{Pid, Signal};

use crate::{base, wait_for};

const BOUND: Duration = Duration::from_secs(100);

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

const SPEC: ServerSpec = ServerSpec { leave: StopSignal::Quit, ..ServerSpec::new("Server", "nobody", "base-passwd") };

fn user() -> ServerUser {
    ServerUser::caller_or(SPEC.user, SPEC.package).unwrap()
}

fn made(bases: &[PathBuf], log_dir: &Path, waits: &Waits) -> Result<PrivateServer, StoreError> {
    PrivateServer::new(&Supervisor::start()?, SPEC, user(), bases, log_dir, waits)
}

fn server(base: &Path) -> PrivateServer {
    made(&[base.to_owned()], &base.join("logs"), &Waits::default()).unwrap()
}

fn shell(script: &str) -> Launch {
    Launch::new("shell", "/bin/sh".into(), ["-c", script])
}

fn start_shell(server: &mut PrivateServer, script: &str) -> u32 {
    server.start(&shell(script)).unwrap()
}

#[test]
fn directories_are_the_servers_users_and_gone_afterwards() {
    let base = base();
    let server = server(base.path());
    for directory in [server.data_dir(), server.socket_dir()] {
        let metadata = directory.metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (user().uid, 0o700), "{}", directory.display());
        assert!(directory.starts_with(base.path()));
    }
    let log = server.root_dir().join("log").metadata().unwrap();
    assert_eq!(log.mode() & 0o7777, 0o600, "other users cannot read what a server prints");
    let root = server.root_dir().to_owned();
    server.close().unwrap();
    assert!(!root.exists());
}

#[test]
fn a_base_keeps_its_mode_and_its_files() {
    let base = base();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    for directory in ["data", "sockets", "disk"] {
        fs::create_dir(base.path().join(directory)).unwrap();
        fs::write(base.path().join(directory).join("kept"), "of a user").unwrap();
    }
    server(base.path()).close().unwrap();
    assert_eq!(base.path().metadata().unwrap().mode() & 0o7777, 0o1777);
    for directory in ["data", "sockets", "disk"] {
        let text = fs::read_to_string(base.path().join(directory).join("kept"));
        assert_eq!(text.unwrap(), "of a user", "{directory}");
    }
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 3);
}

#[test]
fn a_file_of_a_described_server_is_below_its_data_directory_or_refused() {
    let base = base();
    let above = base.path().join("kept");
    fs::write(&above, "of a user").unwrap();
    for name in ["../../kept", above.to_str().unwrap(), "conf/../../../kept", "./kept"] {
        let files = [(name.to_owned(), "changed".to_owned())].into();
        let recipe = Box::new(DescribedServer(ServerDescription {
            command: "false".to_owned(),
            files,
            ..ServerDescription::default()
        }));
        let bases = [base.path().to_owned()];
        let made = Cluster::start(recipe, &bases, &base.path().join("logs"), &Default::default(), &mut |_| {});
        assert_eq!(made.err().map(|error| error.kind), Some(StoreErrorKind::Usage), "{name:?}");
        assert_eq!(fs::read_to_string(&above).unwrap(), "of a user", "{name:?}");
    }
}

#[test]
fn a_program_runs_as_the_servers_user_in_its_data_directory_with_nothing_of_our_environment() {
    let base = base();
    let mut server = server(base.path());
    let script = "id -u >seen; pwd >>seen; env | sort | grep -v -e ^_= -e PWD= >>seen; cut -d' ' -f6 /proc/$$/stat >>seen; echo $$ >>seen";
    server.run(&shell(script), BOUND).unwrap();
    let seen = fs::read_to_string(server.data_dir().join("seen")).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[0], user().uid.to_string());
    assert_eq!(lines[1], server.data_dir().to_str().unwrap());
    assert_eq!(lines[2], "LC_ALL=C");
    assert!(lines[3].starts_with("PATH=/usr/local/sbin:"), "{seen}");
    assert_eq!(lines.len(), 6, "{seen}");
    assert_eq!(lines[4], lines[5], "it leads a session of its own");
}

#[test]
fn arguments_arrive_as_they_are() {
    let base = base();
    let mut server = server(base.path());
    let odd = ["it's", "$(touch owned)", "a  b", "", "\\", "`x`", "*", "\u{e4}\t;&|", "a\nremove"];
    let mut arguments = vec!["-c", "printf '%s\\n' \"$@\" >seen", "sh"];
    arguments.extend(odd);
    server.run(&Launch::new("shell", "/bin/sh".into(), arguments), BOUND).unwrap();
    assert_eq!(fs::read_to_string(server.data_dir().join("seen")).unwrap(), odd.join("\n") + "\n");
    let error = server.start(&Launch::new("shell", "/bin/sh".into(), ["a\0b"])).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Usage);
}

#[test]
fn a_program_that_cannot_be_executed_is_named() {
    let base = base();
    let mut server = server(base.path());
    let error = server.start(&Launch::new("none", "/nowhere/none".into(), [""; 0])).unwrap_err();
    assert!(error.what.starts_with("/nowhere/none: No such file"), "{error}");
    assert_eq!(server.pid(), None);
    server.run(&Launch::new("true", "/bin/true".into(), [""; 0]), BOUND).unwrap();
}

#[test]
fn servers_under_one_supervisor_end_each_alone_with_what_they_left() {
    let base = base();
    let supervisor = Supervisor::start().unwrap();
    let make = || {
        let (bases, logs) = ([base.path().to_owned()], base.path().join("logs"));
        let waits = Default::default();
        PrivateServer::new(&supervisor, SPEC, user(), &bases, &logs, &waits)
    };
    let mut servers = [make().unwrap(), make().unwrap()];
    // Each leaves a process with its own session behind.
    let script = "sh -c 'setsid sh -c \"echo \\$\\$ >orphan; exec sleep 100\" & ' ; sleep 100";
    let orphans = servers.each_mut().map(|server| {
        start_shell(server, script);
        let file = server.data_dir().join("orphan");
        wait_for("the orphan", BOUND, || fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
        fs::read_to_string(file).unwrap().trim().to_owned()
    });
    let lives = |pid: &str| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    let [first, second] = &mut servers;
    first.kill().unwrap();
    assert!(!lives(&orphans[0]) && lives(&orphans[1]));
    second.check().unwrap();
    start_shell(first, "sleep 100");
    let [first, mut second] = servers;
    let roots = [&first, &second].map(|server| server.root_dir().to_owned());
    first.close().unwrap();
    assert!(!roots[0].exists() && lives(&orphans[1]));
    second.check().unwrap();
    second.close().unwrap();
    assert!(!roots[1].exists() && !lives(&orphans[1]));
}

#[test]
fn a_server_that_works_on_a_disk_of_its_own_is_paused_as_others_are() {
    let (base, disk) = (base(), base());
    let mut server = server(base.path());
    server.keep_data_in(disk.path()).unwrap();
    let there = server.data_dir().join("there");
    let script = format!("cd {}; echo >there; sleep 100", server.data_dir().display());
    let pid = start_shell(&mut server, &script);
    wait_for("the shell", BOUND, || there.exists());
    // A user's shell there, with a terminal.
    let at = base.path().join("user");
    let script = format!("cd {} && echo $$ >{} && exec sleep 100", server.root_dir().display(), at.display());
    let mut user = Command::new("script");
    user.args(["-qec", &script, "/dev/null"]).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    let mut user = user.spawn().unwrap();
    wait_for("the user", BOUND, || fs::read_to_string(&at).is_ok_and(|text| text.ends_with('\n')));
    let users = fs::read_to_string(&at).unwrap().trim().to_owned();

    let is_stopped = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    server.pause(true).unwrap();
    let stopped = [&pid.to_string(), &users].map(|pid| is_stopped(pid));
    server.pause(false).unwrap();
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(stopped, [true, false]);
    assert!(!is_stopped(&pid.to_string()));
    server.close().unwrap();
}

#[test]
fn a_server_that_will_not_stop_is_killed_with_its_descendants_and_that_is_an_error() {
    let base = base();
    let mut server = server(base.path());
    let script =
        "trap '' TERM; (trap '' TERM; setsid sh -c 'echo $$ >grandchild; sleep 100' & sleep 100) & wait; sleep 100";
    start_shell(&mut server, script);
    let grandchild = server.data_dir().join("grandchild");
    wait_for("the grandchild", BOUND, || fs::read_to_string(&grandchild).is_ok_and(|text| text.ends_with('\n')));
    let pid: i32 = fs::read_to_string(&grandchild).unwrap().trim().parse().unwrap();
    let error = server.stop(StopSignal::Term, Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Broken);
    assert!(error.what.contains("did not stop"), "{error}");
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_else(|_| ") Z".to_owned());
    assert!(state.contains(") Z"), "the grandchild in its own session still lives: {state}");
}

#[test]
fn a_wish_to_stop_ends_the_wait_for_a_program_that_goes_on_and_kills_it() {
    let base = base();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let waits = Waits::new(BOUND, BOUND, stop.clone());
    let mut server = made(&[base.path().to_owned()], &base.path().join("logs"), &waits).unwrap();
    let deaf = shell("trap '' TERM; echo >>ready; while :; do sleep 1; done");
    let ready = server.data_dir().join("ready");
    let hour = Duration::from_secs(3_600);
    for asks in [false, true] {
        stop.store(false, std::sync::atomic::Ordering::SeqCst);
        if asks {
            // The first shell may have been killed before it got there.
            let _ = fs::remove_file(&ready);
            server.start(&deaf).unwrap();
            wait_for("the shell's deafness", BOUND, || ready.exists());
        }
        let wish = stop.clone();
        let wishes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            wish.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let started = Instant::now();
        let ended = match asks {
            true => server.stop(StopSignal::Term, hour),
            false => server.run(&deaf, hour),
        };
        assert_eq!(ended.unwrap_err().kind, StoreErrorKind::Interrupted);
        assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
        assert_eq!(server.pid(), None);
        wishes.join().unwrap();
    }
    server.close().unwrap();
}

#[test]
fn a_server_that_dies_says_how_and_what_it_said_last_and_its_log_is_kept() {
    let base = base();
    let mut server = server(base.path());
    let script = "echo all was well; until [ -e end ]; do sleep 0.05; done; echo then it was not >&2; exit 3";
    start_shell(&mut server, script);
    server.check().unwrap();
    fs::write(server.data_dir().join("end"), "").unwrap();
    let mut died = None;
    wait_for("its death", BOUND, || {
        died = server.check().err();
        died.is_some()
    });
    let error = died.unwrap();
    assert_eq!(error.kind, StoreErrorKind::Broken);
    assert_eq!(error.what, "shell ended with exit status 3");
    // The first call does not take the error away from later ones.
    assert_eq!(server.check().unwrap_err().what, error.what);
    assert_eq!(error.detail.as_deref(), Some("then it was not"));
    let next = error.next.unwrap();
    let kept = PathBuf::from(next.strip_prefix("read its log, ").unwrap());
    assert!(kept.starts_with(base.path().join("logs")) && kept.to_str().unwrap().contains("/server-"), "{next}");
    server.close().unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "all was well\nthen it was not\n");
}

#[test]
fn a_supervisor_that_was_killed_is_named_by_all_that_follows() {
    let base = base();
    let mut server = server(base.path());
    let pid = start_shell(&mut server, "sleep 100");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let supervisor = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    rustix::process::kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    let mut errors = Vec::new();
    wait_for("the end of its program", BOUND, || {
        errors.extend(server.check().err());
        !errors.is_empty()
    });
    errors.push(server.start(&shell("sleep 100")).unwrap_err());
    errors.push(server.stop(StopSignal::Term, BOUND).unwrap_err());
    for error in errors {
        assert_eq!(error.kind, StoreErrorKind::Broken);
        assert_eq!(error.what, "the supervisor of the private server was killed or does not reply");
        assert!(error.next.is_some_and(|next| next.starts_with("run again")));
    }
}

#[test]
fn the_log_is_kept_unless_the_server_is_closed() {
    let base = base();
    let logs = || fs::read_dir(base.path().join("logs")).map_or(0, Iterator::count);
    let speak =
        |server: &mut PrivateServer| server.run(&Launch::new("echo", "/bin/echo".into(), ["words"]), BOUND).unwrap();
    let mut closed = server(base.path());
    speak(&mut closed);
    closed.close().unwrap();
    assert_eq!(logs(), 0);
    let mut dropped = server(base.path());
    speak(&mut dropped);
    let root = dropped.root_dir().to_owned();
    drop(dropped);
    assert_eq!(logs(), 1);
    assert!(!root.exists());
    drop(server(base.path()));
    assert_eq!(logs(), 1, "one that said nothing has no log to keep");
}

#[test]
fn a_full_disk_a_taken_address_and_a_closed_door_are_told_apart() {
    let base = base();
    let mut server = server(base.path());
    let mut kind_of = |script: &str| {
        let error = server.run(&shell(script), BOUND).unwrap_err();
        let next = error.next.as_deref().unwrap_or_default();
        let is_full = error.kind == StoreErrorKind::DiskFull;
        assert!(next.contains("read its log, ") && next.starts_with("free space on the disk of ") == is_full, "{next}");
        error.kind
    };
    assert_eq!(kind_of("exec cat /dev/zero >/dev/full"), StoreErrorKind::DiskFull);
    if !is_root() || user().is_switched {
        assert_eq!(kind_of("exec cat /etc/shadow"), StoreErrorKind::Permission);
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let bind = format!(
        "exec perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0); bind(S, sockaddr_in({port}, INADDR_LOOPBACK)) or die qq($!\\n)'"
    );
    assert_eq!(kind_of(&bind), StoreErrorKind::AddressTaken);
    assert_eq!(kind_of("exit 1"), StoreErrorKind::Broken);
}

#[test]
fn a_base_the_user_cannot_get_to_is_passed_over() {
    let base = base();
    let closed = base.path().join("closed");
    let inside = closed.join("run");
    fs::create_dir_all(&inside).unwrap();
    let open = base.path().join("open");
    fs::create_dir(&open).unwrap();
    // Closed one level above, as a run directory under a home of mode 0700 is.
    let mode = if is_root() { 0o700 } else { 0o000 };
    fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    let logs = base.path().join("logs");
    let make = |bases: &[PathBuf]| made(bases, &logs, &Waits::default());

    let server = make(&[inside.clone(), base.path().join("missing"), open.clone()]).unwrap();
    assert!(server.data_dir().starts_with(&open));
    server.close().unwrap();

    let error = make(std::slice::from_ref(&inside)).err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Permission);
    assert!(error.detail.as_ref().unwrap().contains(inside.to_str().unwrap()), "{error}");
    if is_root() {
        let closed = closed.canonicalize().unwrap();
        assert!(error.detail.unwrap().ends_with(&format!("; chmod o+x {} lets it", closed.display())));
    }
    assert!(error.next.unwrap().contains(&user().name));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 0, "nothing was made there");
}

#[test]
fn a_socket_directory_is_short_also_under_a_long_base() {
    let base = base();
    let long = base.path().join("a".repeat(80));
    fs::create_dir(&long).unwrap();
    let mut server = server(&long);
    assert!(server.data_dir().starts_with(&long));
    let sockets = server.socket_dir().to_owned();
    assert!(sockets.as_os_str().as_bytes().len() <= SOCKET_DIR_BYTES_MAX, "{}", sockets.display());
    let script = format!("touch '{}/socket'", sockets.display());
    server.run(&shell(&script), BOUND).unwrap();
    server.close().unwrap();
    assert!(!sockets.exists());
}
