//! Servers that go silent, close or reset amid what they say, in every phase: every wait ends, by itself or at the first
//! Ctrl-C, and nothing is left but the recording.
//!
//! Where they fail is drawn.

use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use plimsoll_core::Address;
use plimsoll_lab::Cluster;
use plimsoll_store_redis::{RedisRecipe, server::Shape};
use plimsoll_testkit::draw::{Draw, repeats};
use plimsoll_testkit::proxy::{Fault, Proxy};
use rustix::process::Signal;

use crate::bench::{Guarded, LOADED, Place, Ran, listener, wait_for};
use crate::servers::start;

/// Limits that let a run with a silent server end soon by itself.
const SHORT: [&str; 8] =
    ["--setup-timeout", "1500ms", "--load-timeout", "1500ms", "--work-timeout", "2s", "--op-timeout", "1s"];
/// Limits that no run reaches: only the signal ends such a run in time.
const LONG: [&str; 8] =
    ["--setup-timeout", "600s", "--load-timeout", "600s", "--work-timeout", "600s", "--op-timeout", "600s"];
/// Longest time of a run with short limits, or the usual 15 s for a short question: a few seconds on a quiet machine. A
/// wait without a limit is for ever.
const BY_ITSELF: Duration = Duration::from_secs(200);
/// Longest time after a Ctrl-C. The promise is 2 s; the rest is for two loaded processors that several runs share. A wait
/// that the signal does not end takes the 600 s of [`LONG`].
const AFTER_A_SIGNAL: Duration = Duration::from_secs(120);
/// Longest time after a Ctrl-C with removal of tables, which takes server and disk their time. The statement itself takes
/// minutes.
const WITH_REMOVAL: Duration = Duration::from_secs(200);
/// Runs of a store at a time.
const AT_ONCE: usize = 3;

/// A server of the test's own, and what is driven there.
struct Subject {
    address: Address,
    /// URL with PORT, or with SOCKET if it must be one.
    url: &'static str,
    drive: &'static str,
    _server: Option<Cluster>,
}

fn redis(place: &Place) -> Subject {
    let recipe = RedisRecipe::new(None, Vec::new(), Shape::ALONE).expect("Redis: apt-get install redis-server");
    let server = start(recipe.clone(), place.path(), "Redis");
    Subject {
        address: recipe.endpoint(&server.first()).address,
        url: "redis://127.0.0.1:PORT",
        drive: "kv --mix read=1,update=1 --set records=200",
        _server: Some(server),
    }
}

fn postgres(place: &Place, drive: &'static str) -> Subject {
    let recipe = plimsoll_store_postgres::PostgresRecipe::default();
    let server = start(recipe.clone(), place.path(), "PostgreSQL: apt-get install postgresql");
    let address = recipe.endpoint(&server.first()).address;
    let url = "postgres://postgres@127.0.0.1:PORT/postgres?sslmode=disable";
    Subject { address, url, drive, _server: Some(server) }
}

fn mariadb(place: &Place, drive: &'static str) -> Subject {
    let recipe = plimsoll_store_mariadb::MariadbRecipe::default();
    let server = start(recipe.clone(), place.path(), "MariaDB: apt-get install mariadb-server");
    let address = recipe.address(&server.first());
    Subject { address, url: "mariadb://root@127.0.0.1:PORT/", drive, _server: Some(server) }
}

fn http(place: &Place) -> Subject {
    use plimsoll_store_http::endpoint::Version;
    let recipe = plimsoll_store_http::NginxRecipe { access_log: false, connections: 4096, version: Version::Http11 };
    let server = start(recipe, place.path(), "nginx: apt-get install nginx-light");
    let address = plimsoll_store_http::server::endpoint(&server.first(), Version::Http11).address;
    Subject { address, url: "http://127.0.0.1:PORT", drive: "http", _server: Some(server) }
}

fn ldap(place: &Place) -> Subject {
    let recipe = plimsoll_store_ldap::SlapdRecipe {
        threads: 4,
        maxsize_bytes: 1 << 28,
        index: "uid eq".to_owned(),
        load_threads: 1,
        own_host: false,
    };
    let server = start(recipe.clone(), place.path(), "slapd: apt-get install slapd");
    let base = [("objectClass", "dcObject"), ("objectClass", "organization"), ("dc", "example"), ("o", "x")];
    let attributes = base.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let base = plimsoll_core::LdapCall::Add { dn: "dc=example,dc=com".to_owned(), attributes };
    let endpoint = recipe.endpoint(&server.first());
    let mut control = plimsoll_store_ldap::Control::open(&endpoint, Duration::from_secs(20)).unwrap();
    control.must(&base, "add the base").unwrap();
    Subject {
        address: endpoint.address,
        url: "ldapi://SOCKET/dc=example,dc=com?auth=external",
        drive: "ldap --mix search=1,modify=1 --set entries=200",
        _server: Some(server),
    }
}

/// Records through all phases that an attached server can have.
const PLAN: &str = "plan";
const EVERY_PHASE: &str = r#"
stores = ["sqlite"]
LOADED
[[phase]]
do = "settle"
[[phase]]
do = "ask"
op = "query"
count = 5
LIMIT
[[phase]]
do = "drive"
clients = 4
ops = 50
mix = { read = 1, update = 1 }
LIMIT
[[phase]]
do = "check"
"#;

/// Result of a run with a fault.
struct Came {
    ran: Ran,
    /// Time from the fault, or the signal, to the end; `None` if neither happened.
    took: Option<Duration>,
}

impl Subject {
    fn proxy(&self, place: &Place, fault: Fault, after_bytes: u64) -> (Proxy, String) {
        if self.url.contains("SOCKET") {
            let socket = place.path().join("front");
            let proxy = Proxy::unix(&socket, self.address.clone(), fault, after_bytes);
            let shown = socket.display().to_string().replace('/', "%2F");
            return (proxy, self.url.replace("SOCKET", &shown));
        }
        let proxy = Proxy::tcp(self.address.clone(), fault, after_bytes);
        let url = self.url.replace("PORT", &proxy.port().to_string());
        (proxy, url)
    }

    fn command(&self, place: &Place, url: &str, limits: &[&str]) -> Command {
        if self.drive == PLAN {
            let key = |option: &str| option.trim_start_matches('-').replace('-', "_");
            let (own, plans): (Vec<_>, Vec<_>) = limits.chunks(2).partition(|limit| limit[0] == "--op-timeout");
            let limits: String = plans.iter().map(|limit| format!("{} = {:?}\n", key(limit[0]), limit[1])).collect();
            let own: String = own.iter().map(|limit| format!("{} = {:?}\n", key(limit[0]), limit[1])).collect();
            let plan =
                place.plan(&format!("{limits}{}", EVERY_PHASE.replace("LOADED", LOADED).replace("LIMIT\n", &own)));
            return place.command(&["run", &plan, "--on", url]);
        }
        let words = match self.drive.starts_with("line") {
            true => format!("{} --on {url} --clients 4", self.drive),
            false => format!("drive {} --ops 50 --on {url} --clients 4", self.drive),
        };
        place.command(&words.split(' ').chain(limits.iter().copied()).collect::<Vec<_>>())
    }

    /// Returns the bytes of answers at which the phases of a run begin, the first with set-up; and all bytes.
    fn phases(&self) -> Vec<(String, u64)> {
        let place = Place::new();
        let (proxy, url) = self.proxy(&place, Fault::Silent, u64::MAX);
        let mut child = Guarded(self.command(&place, &url, &[]).spawn().unwrap());
        let mut marks = vec![("set-up".to_owned(), 0)];
        let mut said = String::new();
        for line in BufReader::new(child.0.stderr.take().unwrap()).lines().map_while(Result::ok) {
            if let Some((_, phase)) = line.split_once(" · ") {
                marks.push((phase.to_owned(), proxy.passed_bytes()));
            }
            said.push_str(&line);
        }
        let mut out = String::new();
        child.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert_eq!(child.0.wait().unwrap().code(), Some(0), "{said}\n{out}");
        assert!(marks.len() > 1, "{said}");
        marks.push(("end".to_owned(), proxy.passed_bytes()));
        marks
    }

    /// A run whose server fails after so many bytes; `signal` comes a little after that.
    fn attacked(&self, fault: Fault, after_bytes: u64, limits: &[&str], signal: Option<Signal>) -> Came {
        let place = Place::new();
        let (proxy, url) = self.proxy(&place, fault, after_bytes);
        let mut child = Guarded(self.command(&place, &url, limits).spawn().unwrap());
        let mut is_over = || child.0.try_wait().unwrap().is_some();
        wait_for("the fault or the end", BY_ITSELF, || proxy.has_failed() || is_over());
        let mut began = proxy.has_failed().then(Instant::now);
        let mut limit = BY_ITSELF;
        if let Some(signal) = signal.filter(|_| began.is_some()) {
            std::thread::sleep(Duration::from_millis(300));
            began = (!is_over()).then(Instant::now);
            if began.is_some() {
                child.signal(signal);
                limit = AFTER_A_SIGNAL;
            }
        }
        wait_for("the end", limit, || child.0.try_wait().unwrap().is_some());
        let ended = Instant::now();
        let ran = child.ended();
        let run = place.only_run();
        assert!(!run.join("data").exists(), "{ran:?}");
        place.line("report latest --format json").expect(0);
        place.line("runs").expect(0);
        Came { ran, took: began.map(|began| ended.saturating_duration_since(began)) }
    }

    /// Fails in every phase and in every way, though not in every way in every phase: each phase and each condition comes
    /// about at least once, and the stores pair them differently. With `--heavy` each comes about in each phase.
    fn is_survived(&self, store: usize) {
        let faults = [Fault::Silent, Fault::Close, Fault::Reset, Fault::Blip].map(|fault| (fault, None));
        let signals = [Signal::INT, Signal::TERM].map(|signal| (Fault::Silent, Some(signal)));
        let conditions = [&faults[..], &signals].concat();
        let phases = self.phases();
        let mut draw = Draw::new(self.url);
        let n = phases.len() - 1;
        let each = |at: usize| (at % n, (at + at / n + store) % conditions.len());
        let pairs: Vec<(usize, usize)> = match repeats(0, 1) {
            0 => (0..n.max(conditions.len())).map(each).collect(),
            _ => (0..n).flat_map(|phase| (0..conditions.len()).map(move |condition| (phase, condition))).collect(),
        };
        let jobs: Vec<(&str, Fault, Option<Signal>, u64)> = pairs
            .into_iter()
            .map(|(phase, condition)| {
                let ((name, from), (fault, signal)) = (&phases[phase], conditions[condition]);
                (name.as_str(), fault, signal, from + draw.below(phases[phase + 1].1.max(from + 1) - from))
            })
            .collect();
        let queue = Mutex::new(jobs.into_iter());
        let next = || queue.lock().unwrap().next();
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while let Some((phase, fault, signal, after_bytes)) = next() {
                        self.one_is_survived(phase, fault, signal, after_bytes);
                    }
                });
            }
        });
    }

    // Visible with `--nocapture`.
    #[allow(clippy::print_stdout)]
    fn one_is_survived(&self, phase: &str, fault: Fault, signal: Option<Signal>, after_bytes: u64) {
        let limits: &[&str] = if signal.is_some() { &LONG } else { &SHORT };
        let what = format!("{} {phase}: {fault:?} after {after_bytes} bytes, {signal:?}", self.url);
        let started = Instant::now();
        let Came { ran, took } = self.attacked(fault, after_bytes, limits, signal);
        println!("{what}: exit {:?}, {:?} in all, {took:?} after it", ran.code, started.elapsed());
        let words = ["silent", "not answered for", "no answer within", "no session within", "unfinished"];
        match (took, signal, fault) {
            (Some(took), Some(_), _) => {
                // If a fault in the very last answer remains unnoticed, the signal may come after the run's end.
                let is_whole = ran.code == Some(0) && !ran.out.contains("INCOMPLETE");
                assert!(is_whole || ran.code == Some(130), "{what}, {took:?}: {ran:?}");
            }
            (None, ..) | (_, _, Fault::Blip) => {
                assert!(matches!(ran.code, Some(0 | 1 | 3 | 9)), "{what}: {ran:?}");
            }
            (_, _, Fault::Silent) => {
                // A fault in the very last answer may remain unnoticed.
                let is_said = words.iter().any(|word| ran.err.contains(word) || ran.out.contains(word));
                assert!(ran.code == Some(0) || is_said, "{what}: {ran:?}");
                assert!(matches!(ran.code, Some(0 | 1 | 3 | 9)), "{what}: {ran:?}");
            }
            _ => assert!(matches!(ran.code, Some(0 | 1 | 3 | 9)), "{what}: {ran:?}"),
        }
        // Nothing comes of a server that failed before anything was asked of it for its own sake. The bytes differ a little
        // from run to run: how far it came it says itself.
        let last = ran.err.lines().filter_map(|line| line.split_once(" · ")).map(|(_, phase)| phase).next_back();
        if took.is_some() && signal.is_none() && fault != Fault::Blip && last.is_none_or(|last| last == "load") {
            assert!(matches!(ran.code, Some(3 | 9)), "{what}, in {last:?}: {ran:?}");
        }
    }
}

#[test]
fn a_redis_that_fails_anywhere_ends_the_run() {
    let place = Place::new();
    redis(&place).is_survived(0);
}

#[test]
fn a_postgres_that_fails_anywhere_ends_the_run() {
    let place = Place::new();
    postgres(&place, PLAN).is_survived(1);
}

#[test]
fn a_mariadb_that_fails_anywhere_ends_the_run() {
    let place = Place::new();
    mariadb(&place, PLAN).is_survived(2);
}

#[test]
fn an_http_server_that_fails_anywhere_ends_the_run() {
    let place = Place::new();
    http(&place).is_survived(3);
}

#[test]
fn a_directory_that_fails_anywhere_ends_the_run() {
    let place = Place::new();
    ldap(&place).is_survived(4);
}

#[test]
fn half_an_answer_in_set_up_ends_a_run_by_itself() {
    let place = Place::new();
    let (redis, ldap) = (redis(&place), ldap(&place));
    std::thread::scope(|scope| {
        for subject in [&redis, &ldap] {
            scope.spawn(move || {
                let Came { ran, took } = subject.attacked(Fault::Silent, 9, &[], None);
                let took = took.expect("nine bytes are less than set-up takes");
                assert!(took < BY_ITSELF, "{took:?}");
                assert!(ran.expect(3).err.contains("raise `setup_timeout`"));
            });
        }
    });
}

/// A load made of SQL statements, with a server that works, ends at a signal.
fn a_load_of_statements_ends(subject: &Subject) {
    let place = Place::new();
    let (_proxy, url) = subject.proxy(&place, Fault::Silent, u64::MAX);
    let load = format!("drive tpcb --set scale=300 --ops 50 --on {url}");
    let child = place.recording(&load.split(' ').collect::<Vec<_>>());
    std::thread::sleep(Duration::from_millis(1500));
    let at = Instant::now();
    child.signal(Signal::TERM);
    let ran = child.ended();
    // The statement is ended on the server, and what it made is removed, which takes the server what it takes.
    assert!(at.elapsed() < WITH_REMOVAL, "{:?}: {ran:?}", at.elapsed());
    let ran = ran.expect(130);
    // A server that is still undoing what was loaded may not get to it in time: then it is said, with what removes it.
    let is_left = ran.err.contains("could not be removed");
    assert!(!is_left || ran.err.contains("DROP "), "{ran:?}");
    let next = place.line(&format!("drive oltp_point_select --set table_size=100 --ops 50 --on {url}")).expect(0);
    assert_eq!(next.err.contains("is still there"), is_left, "{next:?}");
}

#[test]
fn a_load_of_statements_ends_at_a_signal_and_leaves_nothing_in_silence_on_postgres() {
    a_load_of_statements_ends(&postgres(&Place::new(), PLAN));
}

#[test]
fn a_load_of_statements_ends_at_a_signal_and_leaves_nothing_in_silence_on_mariadb() {
    a_load_of_statements_ends(&mariadb(&Place::new(), PLAN));
}

/// A run that has begun is over within `limit` of a signal that comes `after` its begin: returns that time, too. What it
/// has done may have to be removed, which takes the disk what it takes.
fn ends_at_a_signal(command: &str, after: Duration, limit: Duration) -> (Place, Duration) {
    let place = Place::new();
    let child = Guarded(place.command(&command.split(' ').collect::<Vec<_>>()).spawn().unwrap());
    wait_for("the run", Duration::from_secs(100), || !place.all_runs().is_empty());
    std::thread::sleep(after);
    let at = Instant::now();
    child.signal(Signal::INT);
    let ran = child.ended().expect(130);
    let took = at.elapsed();
    assert!(took < limit, "{took:?}: {ran:?}");
    (place, took)
}

#[test]
fn a_load_in_sqlite_a_test_of_honesty_and_a_search_that_watches_the_machine_end_at_a_signal() {
    let second = Duration::from_secs(1);
    let (place, _) = ends_at_a_signal("drive tpcb --on sqlite --set scale=200", second, WITH_REMOVAL);
    assert!(!place.only_run().join("data").exists());
    let (place, _) = ends_at_a_signal("doctor --honesty redis", second, AFTER_A_SIGNAL);
    assert!(place.all_runs().is_empty(), "{:?}", place.all_runs());
    // It watches for three seconds before the first rung. A busy machine may take as long to end it, but not each time.
    let line = "line kv --mix read=1 --set records=10 --on null --quiet";
    let is_at_once = |_| ends_at_a_signal(line, second / 5, AFTER_A_SIGNAL).1 < second * 5 / 2;
    assert!((0..10).any(is_at_once), "the signal did not end the watch");
}

#[test]
fn a_search_for_the_line_ends_when_its_server_falls_silent() {
    let place = Place::new();
    let redis = redis(&place);
    let drive = "line kv --mix read=1 --set records=200 --set ledger=off --goal p99=100ms --budget 60s";
    let line = Subject { drive, address: redis.address.clone(), ..redis };
    std::thread::scope(|scope| {
        for (limits, signal) in [(&SHORT[..], None), (&LONG[..], Some(Signal::TERM))] {
            let line = &line;
            scope.spawn(move || {
                let Came { ran, took } = line.attacked(Fault::Silent, 400_000, limits, signal);
                let took = took.expect("the search asks for more than that");
                assert_eq!(ran.code, Some(if signal.is_some() { 130 } else { 3 }), "{took:?}: {ran:?}");
            });
        }
    });
}

/// A port at which everybody is let in, told `words`, one by one every 100 ms and over again, and never let go.
fn talker(words: &'static [u8]) -> u16 {
    listener(move |mut caller| {
        for word in words.iter().cycle() {
            std::thread::sleep(Duration::from_millis(100));
            if std::io::Write::write_all(&mut caller, &[*word]).is_err() {
                return;
            }
        }
    })
}

#[test]
fn who_drips_ends_a_run() {
    // Beginnings of messages that are long, as each protocol has them.
    let stores: [(&str, &str, &[u8]); 5] = [
        ("select", "postgres://me@127.0.0.1:PORT/db?sslmode=disable", b"R\0\0\x40\0"),
        ("select", "mariadb://me@127.0.0.1:PORT/db", b"\x00\x40\x00\x00\x0a1"),
        ("kv --mix read=1", "redis://127.0.0.1:PORT", b"$10000\r\nx"),
        (
            "http",
            "http://127.0.0.1:PORT",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
        ),
        ("ldap --mix search=1", "ldap://127.0.0.1:PORT/dc=example", b"\x30\x82\x40\x00\x02\x01\x01"),
    ];
    std::thread::scope(|scope| {
        for (drive, url, words) in stores {
            scope.spawn(move || {
                let place = Place::new();
                let url = url.replace("PORT", &talker(words).to_string());
                let started = Instant::now();
                let ran = place.line(&format!("drive {drive} --on {url} {}", SHORT.join(" ")));
                assert!(matches!(ran.code, Some(3 | 9)), "{url}: {ran:?}");
                assert!(started.elapsed() < BY_ITSELF, "{url}: {:?}", started.elapsed());
            });
        }
    });
}
