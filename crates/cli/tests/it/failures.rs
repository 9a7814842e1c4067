//! Failures outside: servers, packages, disks, permissions, and users who change their minds.

use std::io::Write as _;
use std::time::{Duration, Instant};

use plimsoll_testkit::draw::repeats;
use plimsoll_testkit::process::free_port;
use rustix::process::Signal;

use crate::bench::{Guarded, LOADED, Place, Ran, listener, small_coupons};
use crate::servers::Postgres;

/// Programs around a script whose mounts go with it. They need root.
const OWN_MOUNTS: &str = "unshare --mount --propagation private";

#[test]
fn a_missing_server_package_is_named_before_anything_is_loaded() {
    let place = Place::new();
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let hidden = format!("mount --bind {} /usr/lib/postgresql", empty.display());
    let ran = place.shell(OWN_MOUNTS, &format!("{hidden} && exec $plimsoll run coupons --on sqlite,postgres"));
    ran.expect(5).says("postgres is not installed … apt-get install postgresql");
    assert!(place.all_runs().is_empty());
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_run_like_a_full_disk() {
    let place = Place::new();
    // Blocks of 512 bytes: less than an empty recording, and less than the records.
    for (blocks, drive, words) in [
        (64, "nothing --on null", "has reached the largest size that a file may have here: raise it (ulimit -f)"),
        (
            2_000,
            "kv --mix read=1 --on sqlite --set records=30000",
            "a file came to the largest size that it may have (ulimit -f)",
        ),
    ] {
        let script = format!("ulimit -f {blocks}; exec $plimsoll drive {drive} --for 1s --quiet");
        place.shell("", &script).expect(7).says(words);
    }
}

#[test]
fn a_signal_before_there_is_a_run_ends_the_program_with_a_word() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let child = Guarded(place.command(&["doctor", "--calibrate"]).spawn().unwrap());
        child.until_it_handles_signals();
        std::thread::sleep(Duration::from_millis(300));
        child.signal(signal);
        let ran = child.ended().expect(130);
        assert_eq!(ran.err.matches("interrupted").count(), 1, "{ran:?}");
    }
}

#[test]
fn a_plan_that_is_a_ring_of_links_is_a_mistake_of_whoever_named_it() {
    let place = Place::new();
    let ring = place.path().join("loop");
    std::os::unix::fs::symlink("loop", &ring).unwrap();
    let ran = place.run(&["check", ring.to_str().unwrap()]).expect(2).says("Too many levels of symbolic links");
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
         $plimsoll run {plan}; code=$?
         $plimsoll report latest --format text && ls {0}/plimsoll/runs/*; exit $code",
        state.display()
    );
    let ran = place.shell(OWN_MOUNTS, &script).expect(7);
    assert!(ran.out.contains("Coupons in small") && ran.out.contains("run.sqlite"), "{ran:?}");
    assert!(ran.err.contains("full") || ran.err.contains("space"), "{ran:?}");
    let mut named = ran.out.lines().filter(|line| line.starts_with("recording "));
    assert!(named.all(|line| line.ends_with("/run.sqlite")), "{ran:?}");
    assert!(!ran.out.contains("data\n"), "the store's data was left behind: {ran:?}");
}

/// A Redis tries for ever to write the file that it cannot write, and goes on without what it cannot append.
#[test]
fn a_full_disk_under_a_private_server_ends_the_run_and_is_named() {
    let place = Place::new();
    let load = "[workload]\nname = \"kv\"\nrecords = 5000\n[[phase]]\ndo = \"load\"\ndurability = \"at-end\"\n";
    let plan = place.plan(&format!("stores = [\"redis\"]\n{load}"));
    let data = place.path().join("small");
    std::fs::create_dir(&data).unwrap();
    let on_small = |size: &str, verb: &str| {
        let mount = format!("mount -t tmpfs -o size={size},mode=777 tmpfs {0} || exit 99", data.display());
        place.shell(OWN_MOUNTS, &format!("{mount}; timeout 500 $plimsoll {verb} --dir {}", data.display()))
    };
    let ran = on_small("1m", &format!("run {plan}")).expect(9);
    ran.says("the server cannot write its append-only file … Free some space of its disk");
    let drive = "drive kv --mix read=1,update=1 --on redis --set records=1000 --clients 4";
    let ran = on_small("4m", &format!("{drive} --durability buffered --ops 20000")).expect(7);
    ran.says("takes no writes … No space left on device");
    // With a sync before each answer it ends itself where it cannot write, without a reason.
    on_small("4m", &format!("{drive} --for 300s")).expect(7).says("free space on the disk of");
    let load = "drive kv --mix read=1 --on redis --set records=8000 --ops 10 --durability";
    on_small("4m", &format!("{load} durable")).expect(7).says("free space on the disk of");
    on_small("4m", &format!("{load} buffered")).expect(7).says("No space left on device");
    // One write of fjall finds the disk full, and all others are refused without reaching it.
    let fjall = "drive kv --mix update=1 --on fjall --durability buffered --clients 4 --set";
    on_small("8m", &format!("{fjall} records=8000 --ops 10")).expect(7);
    let ran = on_small("8m", "drive tpcb --mix tpcb=1 --on mariadb --ops 10").expect(7);
    ran.says("mariadb-install-db ended … free space on the disk of");
}

#[test]
fn a_state_directory_of_somebody_else_is_no_permission() {
    let place = Place::new();
    // /root is closed to everybody else.
    let script = "cp $plimsoll /var/tmp/plimsoll-under-test-$$ && XDG_STATE_HOME=/root/state HOME=/ \
        setpriv --reuid=65534 --regid=65534 --clear-groups /var/tmp/plimsoll-under-test-$$ run coupons; code=$?; \
        rm -f /var/tmp/plimsoll-under-test-$$; exit $code";
    place.shell("", script).expect(8).says("/root");
}

/// A PostgreSQL that asks for passwords over TCP, and its port.
fn locked(place: &Place) -> (Postgres, u16) {
    let port = free_port();
    let text = port.to_string();
    let settings = [("listen_addresses", "127.0.0.1"), ("port", &text), ("password_encryption", "scram-sha-256")];
    let postgres = Postgres::start_with(&settings, place.path());
    let rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(postgres.file("pg_hba.conf"), rules).unwrap();
    postgres.sql("SELECT pg_reload_conf()");
    (postgres, port)
}

#[test]
fn passwords_and_permissions_of_an_attached_server_and_answers_before_a_phase_that_it_does_not_take() {
    let place = Place::new();
    let (locked, port) = locked(&place);
    for role in ["bench", "guest"] {
        locked.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'Tr0mbone'"));
    }
    locked.sql("CREATE DATABASE shop");
    let plan = place.plan(&small_coupons(r#"["sqlite"]"#, 500, 1));
    let url = |user: &str| format!("postgres://{user}@127.0.0.1:{port}/shop");
    for (user, password, code, words) in
        [("bench", "Accordi0n", 4, "password authentication failed"), ("guest", "Tr0mbone", 8, "permission denied")]
    {
        let mut refused = place.command(&["run", &plan, "--on", &url(user)]);
        Ran::of(&refused.env("PGPASSWORD", password).output().unwrap()).expect(code).says(words);
    }
    locked.sql("GRANT CREATE ON DATABASE shop TO bench");
    let file = place.path().join("password");
    std::fs::write(&file, "Tr0mbone\n").unwrap();
    let from_file = ["run", &plan, "--on", &url("bench"), "--password-file", file.to_str().unwrap()];
    let in_url =
        ["drive", "oltp_point_select", "--set", "table_size=100", "--ops", "5", "--on", &url("bench:Tr0mbone")];
    for (args, words) in [
        (&from_file[..], "schema plimsoll_ … cold_query was skipped"),
        (&in_url[..], "a password in a URL can be seen"),
    ] {
        let ran = place.run(args).expect(0).says(words);
        assert!(!ran.out.contains("Tr0mbone") && !ran.err.contains("Tr0mbone"));
    }
    locked.sql(
        "do $$ begin if exists (select from pg_namespace where nspname like 'plimsoll%')
         then raise 'a schema was left'; end if; end $$",
    );
    let plan = place.plan(&format!(
        r#"
title = "A server of others"
stores = ["{}"]
{LOADED}
[[phase]]
name = "asked"
do = "ask"
op = "query"
count = 3
[[phase]]
do = "restart"
"#,
        locked.url()
    ));
    let ran = place.run(&["run", &plan]).expect(2).says("see the error below … INCOMPLETE");
    let said = |text: &str| text.matches("does not restart an attached").count();
    assert_eq!(said(&ran.out) + said(&ran.err.replace('\n', " ")), 1, "{ran:?}");
    let report = place.report();
    assert_eq!(report["trials"][0]["answers"][0]["answers"], 3, "{report}");
}

/// Listens at a port, greets every caller with `greeting`, and hangs up.
fn another_program(greeting: &'static [u8]) -> u16 {
    // A caller may have gone by then.
    listener(move |mut caller| drop(caller.write_all(greeting)))
}

#[test]
fn a_port_at_which_another_program_listens_is_no_store() {
    let place = Place::new();
    let (mute, mariadb) = (another_program(b""), another_program(b"\x0a\0\0\0\n5.5.5-10.11.19-MariaDB\0"));
    for (drive, url) in [
        ("select --mix select=1", "postgres://me@127.0.0.1:PORT/db"),
        ("select --mix select=1", "mariadb://me@127.0.0.1:PORT/db"),
        ("kv --mix read=1", "redis://127.0.0.1:PORT"),
        ("http --mix get=1", "http://127.0.0.1:PORT"),
        ("ldap --mix search=1", "ldap://127.0.0.1:PORT/dc=example"),
    ] {
        let silent = url.replace("PORT", &mute.to_string());
        let ran = place.line(&format!("drive {drive} --on {silent}")).expect(3);
        assert!(ran.err.contains("→ Check scheme, host and port"), "{ran:?}");
        assert_eq!(ran.err.matches("error:").count(), 1, "{ran:?}");
        if !url.starts_with("mariadb") {
            let other = url.replace("PORT", &mariadb.to_string());
            let ran = place.line(&format!("drive {drive} --on {other}")).expect(9);
            assert!(ran.err.contains("sent a reply that ") && !ran.err.contains("before that"), "{ran:?}");
        }
    }
}

#[test]
fn one_ctrl_c_ends_the_phase_and_reports_what_there_is() {
    let place = Place::new();
    let drive = "drive kv --mix read=1 --on fjall --set records=500 --think 2ms --for 600s --slice 100ms";
    let run = place.started(&drive.split(' ').collect::<Vec<_>>(), 2);
    let at = Instant::now();
    run.signal(Signal::INT);
    let ran = run.ended().expect(130).says("page");
    assert!(at.elapsed() < Duration::from_secs(200), "{:?}: {ran:?}", at.elapsed());
    assert!(!place.only_run().join("data").exists());
    place.line("runs").expect(0).says("interrupted");
}

#[test]
fn a_second_ctrl_c_aborts() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["fjall"]"#, 2_000, 60));
    let run = place.recording(&["run", &plan]);
    std::thread::sleep(Duration::from_secs(2));
    run.interrupt_twice();
    let at = Instant::now();
    run.ended().expect(130);
    assert!(at.elapsed() < Duration::from_secs(50));
    place.line("report latest --format text").expect(0).says("Coupons in small");
}

#[test]
fn a_store_that_does_not_open_leaves_nothing_but_the_recording() {
    let place = Place::new();
    place.line("drive select --on postgres --set postgres.shared_buffers=1000TiB").expect(9).says("shared_buffers");
    assert!(!place.only_run().join("data").exists());
}

#[test]
fn a_script_that_makes_its_own_table_runs_or_is_told_how() {
    let place = Place::new();
    let file = |name: &str, select: &str| {
        let path = place.path().join(name);
        let text = format!("CREATE TEMPORARY TABLE own (n INT);\n{select};\nDROP TABLE own;\n");
        std::fs::write(&path, format!("\\set k random(1, 9)\n{text}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (plain, with_value) =
        (file("plain.sql", "SELECT n FROM own"), file("value.sql", "SELECT n FROM own WHERE n = :k"));
    let run = |script: &str, store: &str, set: &[&str]| {
        place.run(&[&["drive", "-f", script, "--on", store, "--ops", "5", "-q"], set].concat())
    };
    run(&plain, "mariadb", &[]).expect(0);
    let advice = "own … If the script itself makes or finds the table: --set substitute=text";
    run(&with_value, "mariadb", &[]).expect(2).says(advice);
    for (script, count) in [(&plain, repeats(1, 3)), (&with_value, 3)] {
        for protocol in ["prepared", "extended", "simple"].into_iter().take(count) {
            run(script, "postgres", &["--set", &format!("postgres.protocol={protocol}")]).expect(0);
        }
    }
    for script in [&with_value, &plain].into_iter().take(repeats(1, 2)) {
        run(script, "mariadb", &["--set", "substitute=text"]).expect(0);
    }
}
