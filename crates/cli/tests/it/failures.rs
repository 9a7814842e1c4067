//! Failures outside: servers, packages, disks, permissions, and users who change their minds.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll_core::Nodes;
use plimsoll_lab::Cluster;

use crate::bench::{Guarded, Place, Ran, small_coupons, wait_for};

/// Runs `script` by a shell in a mount namespace of its own, so that what it mounts goes with it. Needs root.
fn in_own_mounts(place: &Place, script: &str) -> Ran {
    let mut command = place.command(&[]);
    let program = command.get_program().to_owned();
    let variables: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]).arg(program);
    for (name, value) in variables {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    command = shell;
    let output = command.output().expect("`unshare` of util-linux; these tests mount, so they need root");
    Ran::of(&output)
}

#[test]
fn a_missing_server_package_is_named_before_anything_is_loaded() {
    let place = Place::new();
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let script = format!(
        "mount --bind {0} /usr/lib/postgresql && exec \"$1\" run coupons --on sqlite,postgres",
        empty.display()
    );
    in_own_mounts(&place, &script).expect(5).says("postgres is not installed").says("apt-get install postgresql");
    assert!(place.all_runs().is_empty());
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_run_like_a_full_disk() {
    let place = Place::new();
    let command = place.command(&[]);
    // Blocks of 512 bytes: less than an empty recording, and less than the records.
    for (blocks, drive, words) in [
        (64, "nothing --on null", "has reached the largest size that a file may have here: raise it (ulimit -f)"),
        (
            2_000,
            "kv --mix read=1 --on sqlite --set records=30000",
            "a file came to the largest size that it may have (ulimit -f)",
        ),
    ] {
        let script = format!("ulimit -f {blocks}; exec \"$0\" drive {drive} --for 2s --quiet");
        let mut shell = Command::new("sh");
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        shell.args(["-c", &script]).arg(command.get_program()).envs(variables);
        let ran = Ran::of(&shell.output().unwrap()).expect(7);
        assert!(ran.err.contains(words), "{ran:?}");
    }
}

#[test]
fn a_signal_before_there_is_a_run_ends_the_program_with_a_word() {
    for (signal, args) in [("-TERM", &["doctor", "--calibrate"][..]), ("-INT", &["doctor", "--calibrate"])] {
        let place = Place::new();
        let child = place.command(args).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let ran = Ran::of(&child.wait_with_output().unwrap()).expect(130);
        assert_eq!(ran.err.matches("interrupted before a run began").count(), 1, "{ran:?}");
    }
}

#[test]
fn a_search_that_watches_the_machine_ends_at_once() {
    let place = Place::new();
    let args = ["line", "kv", "--mix", "read=1", "--set", "records=10", "--on", "null", "--quiet"];
    let child = place.command(&args).spawn().unwrap();
    let is_begun = || place.all_runs().first().is_some_and(|run| run.join("run.sqlite").exists());
    wait_for("the recording", Duration::from_secs(30), is_begun);
    // It watches for three seconds before the first rung.
    std::thread::sleep(Duration::from_millis(700));
    let sent = Instant::now();
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ran = Ran::of(&child.wait_with_output().unwrap());
    let took = sent.elapsed();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(took < Duration::from_millis(1_500), "{took:?}: {ran:?}");
}

#[test]
fn a_plan_that_is_a_ring_of_links_is_a_mistake_of_whoever_named_it() {
    let place = Place::new();
    let ring = place.path().join("loop");
    std::os::unix::fs::symlink("loop", &ring).unwrap();
    let ran = place.run(&["check", ring.to_str().unwrap()]).expect(2);
    assert!(ran.err.contains("Too many levels of symbolic links"), "{ran:?}");
    assert_eq!(ran.err.matches("error:").count(), 1, "{ran:?}");
}

#[test]
fn a_full_disk_ends_the_run_with_a_readable_recording() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["sqlite"]"#, 50_000, 5));
    let state = place.path().join("small");
    std::fs::create_dir(&state).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=6m tmpfs {0} || exit 99; export XDG_STATE_HOME={0}
         \"$1\" run {plan}; code=$?
         \"$1\" report latest --format text && ls {0}/plimsoll/runs/*; exit $code",
        state.display()
    );
    let ran = in_own_mounts(&place, &script).expect(7);
    assert!(ran.out.contains("Coupons in small") && ran.out.contains("run.sqlite"), "{ran:?}");
    assert!(ran.err.contains("full") || ran.err.contains("space"), "{ran:?}");
    assert!(!ran.out.contains("data\n"), "the store's data was left behind: {ran:?}");
}

/// A Redis tries for ever to write the file that it cannot write, and goes on without what it cannot append.
#[test]
fn a_full_disk_under_a_private_redis_ends_the_run_and_is_named() {
    let place = Place::new();
    let load = "[workload]\nname = \"kv\"\nrecords = 5000\n[[phase]]\ndo = \"load\"\ndurability = \"at-end\"\n";
    let plan = place.plan(&format!("stores = [\"redis\"]\n{load}"));
    let data = place.path().join("small");
    std::fs::create_dir(&data).unwrap();
    let on_small = |size: &str, verb: &str| {
        let mount = format!("mount -t tmpfs -o size={size},mode=777 tmpfs {0} || exit 99", data.display());
        in_own_mounts(&place, &format!("{mount}; timeout 60 \"$1\" {verb} --dir {}", data.display()))
    };
    let ran = on_small("1m", &format!("run {plan}")).expect(9);
    assert!(ran.err.contains("the server cannot write its append-only file"), "{ran:?}");
    assert!(ran.err.contains("Free some space of its disk"), "{ran:?}");
    let drive =
        "drive kv --mix read=1,update=1 --on redis --durability buffered --set records=1000 --clients 4 --for 3s";
    let ran = on_small("4m", drive).expect(7);
    assert!(ran.err.contains("takes no writes") && ran.err.contains("No space left on device"), "{ran:?}");
    // With a sync before each answer it ends itself where it cannot write, without a reason.
    let drive = "drive kv --mix read=1,update=1 --on redis --set records=1000 --clients 4 --for 20s";
    on_small("4m", drive).expect(7).says("free space on the disk of");
    let load = "drive kv --mix read=1 --on redis --set records=8000 --ops 10 --durability";
    on_small("4m", &format!("{load} durable")).expect(7).says("free space on the disk of");
    on_small("4m", &format!("{load} buffered")).expect(7).says("No space left on device");
}

#[test]
fn a_disk_that_is_too_small_for_a_mariadb_is_named() {
    let place = Place::new();
    let data = place.path().join("small");
    std::fs::create_dir(&data).unwrap();
    let mount = format!("mount -t tmpfs -o size=8m,mode=777 tmpfs {0} || exit 99", data.display());
    let drive = format!("drive tpcb --mix tpcb=1 --on mariadb --ops 10 --dir {}", data.display());
    let ran = in_own_mounts(&place, &format!("{mount}; timeout 60 \"$1\" {drive}")).expect(7);
    ran.says("mariadb-install-db ended").says("free space on the disk of");
}

#[test]
fn a_state_directory_of_somebody_else_is_no_permission() {
    let place = Place::new();
    // /root is closed to everybody else.
    let script = "cp \"$1\" /var/tmp/plimsoll-under-test-$$ && XDG_STATE_HOME=/root/state HOME=/ \
        setpriv --reuid=65534 --regid=65534 --clear-groups /var/tmp/plimsoll-under-test-$$ run coupons; code=$?; \
        rm -f /var/tmp/plimsoll-under-test-$$; exit $code";
    in_own_mounts(&place, script).expect(8).says("/root");
}

/// A private PostgreSQL that asks for passwords over TCP.
struct Locked {
    server: Cluster,
    port: u16,
}

fn locked(log_dir: &Path) -> Locked {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = vec![
        ("listen_addresses".to_owned(), "127.0.0.1".to_owned()),
        ("port".to_owned(), port.to_string()),
        ("password_encryption".to_owned(), "scram-sha-256".to_owned()),
    ];
    let bases = [std::path::PathBuf::from("/var/tmp")];
    let recipe = Box::new(plimsoll_store_postgres::PostgresRecipe { settings, ..Default::default() });
    let server = Cluster::start(recipe, &bases, log_dir, &Default::default(), &mut |_| {})
        .expect("PostgreSQL: apt-get install postgresql, or run `cargo xtask test`");
    let rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(server.first().data_dir.join("pg_hba.conf"), rules).unwrap();
    server.restart(Nodes::All).unwrap();
    Locked { server, port }
}

impl Locked {
    fn sql(&self, statement: &str) {
        let directory = &self.server.first().socket_dir;
        let output = Command::new("psql")
            .args(["-h", directory.to_str().unwrap(), "-p", &self.port.to_string(), "-U", "postgres", "-c", statement])
            .output()
            .expect("psql: apt-get install postgresql-client");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn passwords_and_permissions_of_an_attached_server() {
    let place = Place::new();
    let locked = locked(place.path());
    locked.sql("create role bench login password 'Tr0mbone'");
    locked.sql("create database shop");
    locked.sql("create role guest login password 'Tr0mbone'");
    let plan = place.plan(&small_coupons(r#"["sqlite"]"#, 500, 1));
    let url = |user: &str| format!("postgres://{user}@127.0.0.1:{}/shop", locked.port);

    let mut wrong = place.command(&["run", &plan, "--on", &url("bench")]);
    Ran::of(&wrong.env("PGPASSWORD", "Accordi0n").output().unwrap()).expect(4).says("password authentication failed");

    let mut refused = place.command(&["run", &plan, "--on", &url("guest")]);
    Ran::of(&refused.env("PGPASSWORD", "Tr0mbone").output().unwrap()).expect(8).says("permission denied");

    locked.sql("grant create on database shop to bench");
    let file = place.path().join("password");
    std::fs::write(&file, "Tr0mbone\n").unwrap();
    let ran = place
        .run(&["run", &plan, "--on", &url("bench"), "--password-file", file.to_str().unwrap()])
        .expect(0)
        .says("schema plimsoll_")
        .says("cold_query was skipped");
    assert!(!ran.out.contains("Tr0mbone") && !ran.err.contains("Tr0mbone"));
    let with_password = format!("postgres://bench:Tr0mbone@127.0.0.1:{}/shop", locked.port);
    let ran = place.run(&["run", &plan, "--on", &with_password]).expect(0).says("a password in a URL can be seen");
    assert!(!ran.out.contains("Tr0mbone") && !ran.err.contains("Tr0mbone"));
    locked.sql(
        "do $$ begin if exists (select from pg_namespace where nspname like 'plimsoll%')
         then raise 'a schema was left'; end if; end $$",
    );
}

/// Listens at a port, greets every caller with `greeting`, and hangs up.
fn another_program(greeting: &'static [u8]) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut caller in listener.incoming().flatten() {
            // A caller may have gone by then.
            let _ = caller.write_all(greeting);
        }
    });
    port
}

#[test]
fn a_port_at_which_another_program_listens_is_no_store() {
    let place = Place::new();
    let (mute, mariadb) = (another_program(b""), another_program(b"\x0a\0\0\0\n5.5.5-10.11.19-MariaDB\0"));
    for (workload, url) in [
        ("select", "postgres://me@127.0.0.1:PORT/db"),
        ("select", "mariadb://me@127.0.0.1:PORT/db"),
        ("kv", "redis://127.0.0.1:PORT"),
        ("http", "http://127.0.0.1:PORT"),
        ("ldap", "ldap://127.0.0.1:PORT/dc=example"),
    ] {
        let mix = match workload {
            "kv" => "read=1",
            "http" => "get=1",
            "ldap" => "search=1",
            _ => "select=1",
        };
        let silent = url.replace("PORT", &mute.to_string());
        let ran = place.run(&["drive", workload, "--on", &silent, "--mix", mix]).expect(3);
        assert!(ran.err.contains("→ Check scheme, host and port"), "{ran:?}");
        assert_eq!(ran.err.matches("error:").count(), 1, "{ran:?}");
        if !url.starts_with("mariadb") {
            let other = url.replace("PORT", &mariadb.to_string());
            let ran = place.run(&["drive", workload, "--on", &other, "--mix", mix]).expect(9);
            assert!(ran.err.contains("sent a reply that ") && !ran.err.contains("before that"), "{ran:?}");
        }
    }
}

fn interrupt(pid: u32) {
    let status = Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn one_ctrl_c_ends_the_phase_and_reports_what_there_is() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["fjall"]"#, 2_000, 60));
    let child = place.command(&["run", &plan]).spawn().unwrap();
    wait_for("the recording", Duration::from_secs(20), || !place.all_runs().is_empty());
    std::thread::sleep(Duration::from_secs(4));
    let at = Instant::now();
    interrupt(child.id());
    let ran = Ran::of(&child.wait_with_output().unwrap()).expect(130);
    assert!(at.elapsed() < Duration::from_secs(10), "{:?}", at.elapsed());
    assert!(ran.out.contains("Coupons in small") && ran.out.contains("page"), "{ran:?}");
    assert!(!place.only_run().join("data").exists());
    place.run(&["runs"]).expect(0).says("interrupted");
}

#[test]
fn a_second_ctrl_c_aborts() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["fjall"]"#, 2_000, 60));
    let mut child = Guarded(place.command(&["run", &plan]).spawn().unwrap());
    wait_for("the recording", Duration::from_secs(20), || !place.all_runs().is_empty());
    std::thread::sleep(Duration::from_secs(2));
    interrupt(child.0.id());
    interrupt(child.0.id());
    let at = Instant::now();
    let status = child.0.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(at.elapsed() < Duration::from_secs(5));
    place.run(&["report", "latest", "--format", "text"]).expect(0).says("Coupons in small");
}

#[test]
fn a_store_that_does_not_open_leaves_nothing_but_the_recording() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["sqlite", { store = "postgres", shared_buffers = "1000TiB" }]"#, 500, 1));
    place.run(&["run", &plan]).expect(9).says("shared_buffers");
    assert!(!place.only_run().join("data").exists());
}

#[test]
fn answers_are_checked_also_when_a_later_phase_fails() {
    let place = Place::new();
    let locked = locked(place.path());
    let host = locked.server.first().socket_dir.display().to_string();
    let plan = place.plan(&format!(
        r#"
title = "A server of others"
stores = ["postgres://postgres@/postgres?host={host}&port={}"]
[workload]
name = "coupons"
records = 500
index = "own"
[[phase]]
do = "load"
batch = 500
durability = "at-end"
[[phase]]
name = "asked"
do = "ask"
op = "query"
count = 3
[[phase]]
do = "restart"
"#,
        locked.port
    ));
    let ran = place.run(&["run", &plan]).expect(2).says("see the error below");
    let said = |text: &str| text.matches("does not restart an attached").count();
    assert_eq!(
        (said(&ran.out) + said(&ran.err.replace('\n', " ")), ran.out.contains("INCOMPLETE")),
        (1, true),
        "{ran:?}"
    );
    let json = place.run(&["report", "latest", "--format", "json"]).expect(0).out;
    let view: serde_json::Value = serde_json::from_str(&json).unwrap();
    let answers = &view["trials"][0]["answers"];
    assert_eq!(answers[0]["answers"], 3, "{answers}");
}
