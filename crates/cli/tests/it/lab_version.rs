//! Servers that are started with another program of the same store.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plimsoll_record::data::Run;
use serde_json::Value;

use crate::bench::Place;
use crate::lab::Lab;

/// Program of Debian's package.
pub(crate) const REDIS: &str = "/usr/bin/redis-server";
/// Variable with the path of a newer server of NATS, which `cargo xtask test` fetches.
const NATS: &str = "PLIMSOLL_TEST_NATS";

/// Returns a copy of a program, in a directory that servers' users can get to.
pub(crate) fn copied(program: &Path, to: &Path) -> PathBuf {
    let copy = to.canonicalize().unwrap().join(program.file_name().unwrap());
    std::fs::copy(program, &copy).unwrap();
    std::fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    copy
}

/// Returns the path of the program that the first node runs.
pub(crate) fn runs(lab: &Lab<'_>) -> PathBuf {
    let pid = lab.status()["nodes"][0]["process"].as_u64().unwrap();
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap()
}

/// Sends a command to the first node, a Redis, and returns its reply.
fn redis(lab: &Lab<'_>, words: &[&str]) -> String {
    let status = lab.status();
    let socket = format!("{}/redis.sock", status["nodes"][0]["socket_dir"].as_str().unwrap());
    lab.exec("1", &[&["redis-cli", "-s", &socket], words].concat()).expect(0).out.trim().to_owned()
}

/// Script of bash that sends a message to a NATS, in its protocol of text lines, and prints the reply.
const ASK_NATS: &str = r#"
at=${NATS_URL##*/}
exec 3<>"/dev/tcp/${at%:*}/${at##*:}"
printf 'CONNECT {"verbose":false,"user":"%s","pass":"%s"}\r\nSUB reply 1\r\n' "$NATS_USER" "$NATS_PASSWORD" >&3
printf 'PUB %s reply %d\r\n%s\r\n' "$1" "${#2}" "$2" >&3
while read -r -t 10 line <&3; do
  case $line in
    MSG*) read -r -t 10 line <&3; printf '%s\n' "$line"; exit ;;
    -ERR*) printf '%s\n' "$line" >&2; exit 1 ;;
  esac
done
exit 1
"#;

/// Publishes `text` on a subject of the first node, a NATS, and returns the reply.
fn nats(lab: &Lab<'_>, subject: &str, text: &str) -> Value {
    let ran = lab.exec("1", &["bash", "-c", ASK_NATS, "bash", subject, text]).expect(0);
    serde_json::from_str(ran.out.trim()).unwrap()
}

#[test]
fn a_node_keeps_another_program_and_its_data_until_it_gets_its_own_program_again() {
    let (place, base) = (Place::new(), Lab::base());
    let lab = Lab::up(&place, "redis", &[]);
    let own = runs(&lab);
    let copy = copied(Path::new(REDIS), base.path());
    redis(&lab, &["SET", "kept", "yes"]);
    lab.does("restart", &format!("1 --with {}", copy.display())).says("lab redis: node 1 ready again, from ");
    assert_eq!((runs(&lab), redis(&lab, &["GET", "kept"])), (copy.clone(), "yes".to_owned()));
    lab.does("kill", "1");
    lab.does("start", "1");
    assert_eq!((runs(&lab), redis(&lab, &["GET", "kept"])), (copy.clone(), "yes".to_owned()));
    let status = lab.status();
    let program = &status["nodes"][0]["program"];
    assert_eq!(program["path"].as_str(), copy.to_str());
    place.line("lab status").expect(0).says(&format!("version {}", program["version"].as_str().unwrap()));
    lab.does("restart", &format!("--rolling --with {REDIS}")).says("lab redis: node 1 ready again, from ");
    assert_eq!((runs(&lab), redis(&lab, &["GET", "kept"])), (own, "yes".to_owned()));
    assert!(lab.status()["nodes"][0]["program"].is_null());
    lab.down();
}

#[test]
fn nginx_and_slapd_start_with_another_program_too() {
    for (store, program) in [("http", "/usr/sbin/nginx"), ("ldap", "/usr/sbin/slapd")] {
        let (place, base) = (Place::new(), Lab::base());
        let lab = Lab::up(&place, store, &[]);
        let copy = copied(Path::new(program), base.path());
        lab.does("restart", &format!("--with {}", copy.display())).says("node 1 ready again, from ");
        assert_eq!((runs(&lab), lab.states()), (copy, vec!["running".to_owned()]), "{store}");
        lab.down();
    }
}

#[test]
fn nodes_restart_one_after_the_other_and_the_primary_last() {
    let place = Place::new();
    let lab = Lab::up(&place, "postgres-replicas", &["--nodes", "2"]);
    let processes = || [0, 1].map(|at: usize| lab.status()["nodes"][at]["process"].as_u64().unwrap());
    let before = processes();
    let ran = lab.does("restart", "--rolling");
    let at = |node: u32| ran.err.find(&format!("node {node} ready again after ")).unwrap();
    assert!(at(2) < at(1), "{}", ran.err);
    assert!(processes().iter().zip(before).all(|(now, before)| *now != before));
    assert_eq!(lab.states(), ["running", "running"]);
    place.refuses(&[("lab restart postgres-replicas 2 --rolling", "--rolling restarts all nodes … leave the numbers")]);
    lab.does("stop", "2");
    place
        .line("lab restart postgres-replicas --rolling")
        .expect(3)
        .says("node 2: the server is stopped … start it first: plimsoll lab start postgres-replicas 2");
    assert_eq!(lab.states(), ["running", "stopped"]);
    lab.down();
}

#[test]
fn a_server_that_does_not_start_with_another_program_runs_its_former_one_again() {
    let (place, base) = (Place::new(), Lab::base());
    let lab = Lab::up(&place, "redis", &[]);
    let own = runs(&lab);
    redis(&lab, &["SET", "kept", "yes"]);
    let newer = base.path().join("redis-server");
    let text = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'Redis server v=99.1.2 sha=0'; exit; fi\n\
                echo 'cannot read the data of an older version' >&2\nexit 1\n";
    std::fs::write(&newer, text).unwrap();
    std::fs::set_permissions(&newer, Permissions::from_mode(0o755)).unwrap();
    let ran = place.line(&format!("lab restart redis --with {}", newer.display()));
    assert_ne!(ran.code, Some(0));
    ran.says("(99.1.2), and runs its former version again … cannot read the data of an older version");
    assert_eq!((runs(&lab), redis(&lab, &["GET", "kept"])), (own, "yes".to_owned()));
    assert_eq!(lab.states(), ["running"]);
    lab.down();
}

#[test]
fn a_program_that_is_no_server_of_the_store_is_refused_before_anything_stops() {
    let place = Place::new();
    let lab = Lab::up(&place, "redis", &[]);
    let process = || lab.status()["nodes"][0]["process"].clone();
    let before = process();
    // The blanks of a fault are ones that do not break.
    let fault = |drive: &str, program: &str| {
        let fault = format!("restart all with {program} at 500ms").replace(' ', "\u{a0}");
        format!("drive {drive} --for 1s --fault {fault}")
    };
    place.refuses(&[
        ("lab restart redis --with /bin/true", "/bin/true is not a server of this store: … without `Redis server v=`"),
        (
            "lab restart redis --with /no/such",
            "there is no program /no/such … name the file of the same store's server",
        ),
        (fault("kv --on redis", "/bin/true").as_str(), "/bin/true is not a server of this store: … name the file"),
        (fault("kv --on lab:redis", "/no/such").as_str(), "there is no program /no/such"),
        (fault("http --on http", "/bin/true").as_str(), "/bin/true is not a server of this store: `-v` prints"),
        (
            fault("kv --on postgres-patroni", "/bin/true").as_str(),
            "Patroni starts its PostgreSQL itself … use postgres",
        ),
        (fault("kv --on redis", "bin/true").as_str(), "`bin/true` is not the path of a program"),
    ]);
    assert_eq!(process(), before);
    lab.down();
}

#[test]
fn a_fault_restarts_servers_with_another_program_until_the_end_of_the_trial() {
    let (place, base) = (Place::new(), Lab::base());
    let lab = Lab::up(&place, "redis", &[]);
    let own = runs(&lab);
    let copy = copied(Path::new(REDIS), base.path());
    let fault = format!("restart all rolling with {} at 300ms", copy.display());
    let load = ["drive", "kv", "--set", "records=200", "--on", "lab:redis", "--clients", "2", "--think", "2ms", "-q"];
    place.run(&[&load[..], &["--for", "3s", "--fault", &fault]].concat()).expect(0);
    let run = Run::load(&place.all_runs()[0]).unwrap();
    let span = run.faults().next().unwrap();
    assert!(span.subject.starts_with("the server, from ") && span.subject.contains(" to "), "{}", span.subject);
    assert!(span.error.is_none() && span.healed_ns.is_some(), "{span:?}");
    let texts: Vec<&str> = run.events.iter().map(|event| event.text.as_str()).collect();
    assert!(texts.iter().any(|text| text.starts_with("node 1 runs its former program again (")), "{texts:?}");
    assert_eq!(runs(&lab), own);
    lab.down();
}

#[test]
fn a_server_of_nats_is_upgraded_to_another_version_and_keeps_its_data() {
    let path = std::env::var_os(NATS);
    let newer = PathBuf::from(path.expect("a newer NATS is missing: `cargo xtask test` fetches it"));
    let (place, base) = (Place::new(), Lab::base());
    let lab = Lab::up(&place, "nats", &[]);
    let bucket = r#"{"name":"KV_b","subjects":["$KV.b.>"],"storage":"file"}"#;
    assert_eq!(nats(&lab, "$JS.API.STREAM.CREATE.KV_b", bucket)["config"]["name"], "KV_b");
    assert_eq!(nats(&lab, "$KV.b.kept", "yes")["seq"], 1);
    let copy = copied(&newer, base.path());
    let ran = lab.does("restart", &format!("--with {}", copy.display()));
    let versions = ran.err.lines().find_map(|line| line.split_once("ready again, from ")).unwrap().1.split_once(" to ");
    assert!(versions.is_some_and(|(from, to)| from != to.trim()), "{versions:?}");
    assert_eq!((runs(&lab), lab.states()), (copy, vec!["running".to_owned()]));
    let kept = nats(&lab, "$JS.API.STREAM.MSG.GET.KV_b", r#"{"last_by_subj":"$KV.b.kept"}"#);
    // The text, in base64.
    assert_eq!(kept["message"]["data"], "eWVz", "{kept}");
    lab.down();
}
