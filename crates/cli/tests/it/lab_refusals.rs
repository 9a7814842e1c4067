//! Labs that cannot start, or are interrupted: a message, an exit code, and nothing left behind.

use std::time::Duration;

use rustix::process::Signal;

use crate::bench::{Guarded, Place, Ran, wait_for};
use crate::lab::{Lab, assert_nothing_is_in};

/// Runs the program with `words` where `before` has changed what this test alone sees: mounts and network of its own.
pub fn run_in(place: &Place, unshared: &str, before: &str, words: &str) -> Ran {
    place.shell(&format!("unshare {unshared}"), &format!("{before} && exec $plimsoll {words}"))
}

#[test]
fn a_machine_that_has_the_range_of_addresses_itself_is_not_in_the_way() {
    let place = Place::new();
    let taken = "ip link set lo up && ip address add 10.77.0.1/16 dev lo && ip address add 10.77.255.254/16 dev lo";
    let drive = "drive kv --mix read=1 --set records=100 --on redis-sentinel --ops 100";
    run_in(&place, "-n", taken, drive).expect(0).says("PASS");
}

#[test]
fn with_too_little_memory_for_all_nodes_it_is_said_how_many_fit() {
    let place = Place::new();
    let base = Lab::base();
    let meminfo = place.path().join("meminfo");
    std::fs::write(&meminfo, "MemTotal: 2000000 kB\nMemAvailable: 307200 kB\n").unwrap();
    let little = format!("mount --bind {} /proc/meminfo", meminfo.display());
    let up = format!("lab up galera --nodes 3 --dir {}", base.path().display());
    let ran = run_in(&place, "-m", &little, &up).expect(12);
    ran.says("3 servers of Galera take 390 MiB … 300 MiB of memory are available … use at most 2 nodes");
    assert_nothing_is_in(base.path());
}

#[test]
fn a_program_of_a_version_that_nobody_knows_is_quoted() {
    let place = Place::new();
    let base = Lab::base();
    let says = "echo 'redis-server 99: no such option --unixsocket' >&2; exit 3";
    let other = format!(
        "mount -t tmpfs none /usr/local/bin && printf '#!/bin/sh\\n%s\\n' \"{says}\" >/usr/local/bin/redis-server && \
         chmod 755 /usr/local/bin/redis-server"
    );
    let up = format!("lab up redis --dir {}", base.path().display());
    let ran = run_in(&place, "-m", &other, &up).expect(9);
    ran.says("exit status 3 … redis-server 99: no such option --unixsocket");
    assert_nothing_is_in(base.path());
}

#[test]
fn a_server_that_never_gets_ready_is_given_up_with_what_it_said_last() {
    let place = Place::new();
    let base = Lab::base();
    let plan = format!(
        "work_timeout = \"2s\"\ndir = \"{}\"\nworkload.name = \"kv:a\"\n[[stores]]\n\
         store = \"redis://127.0.0.1:{{port}}\"\ncommand = \"sh -c 'echo still busy with nothing; exec sleep 1000'\"\n\
         ready = \"false\"\n[[phase]]\ndo = \"load\"\n",
        base.path().display()
    );
    let ran = place.run(&["run", &place.plan(&plan)]).expect(9);
    ran.says("accepts no connections after 2 s … still busy with nothing … `ready` failed");
    assert_nothing_is_in(base.path());
}

#[test]
fn a_lab_whose_command_ends_before_it_stands_leaves_nothing() {
    let (place, base) = (Place::new(), Lab::base());
    let up = ["lab", "up", "galera", "--nodes", "3", "--keep", "--dir", base.path().to_str().unwrap()];
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let making = Guarded(place.command(&up).spawn().unwrap());
        let is_begun = || std::fs::read_dir(base.path()).unwrap().count() > 0;
        wait_for("a server", Duration::from_secs(200), is_begun);
        making.signal(signal);
        let ran = making.ended();
        assert_eq!(ran.code, code, "{ran:?}");
        assert_nothing_is_in(base.path());
        place.line("lab status").expect(0).says("no lab stands");
    }
}
