//! Refusals before anything is started, with the reason and a remedy.

use std::path::PathBuf;

use plimsoll_core::catalogue::LabEntry;
use plimsoll_core::{
    Catalogue, Launch, Member, Node, OpenOptions, ParamSpec, Params, Reading, Recipe, ServerSpec, SessionShape,
    SessionSpec, Store, StoreError, StoreErrorKind, StoreKind, StoreSpec, Waits, with_disk,
};
use plimsoll_plan::model::{Plan, PlannedTrial};
use plimsoll_testkit::lying_kv::Pairs;
use plimsoll_trial::{bound_sessions, here, possible};

const WITH_DISK: [ParamSpec; 6] = with_disk([]);
const BOUNDED: [ParamSpec; 1] = [ParamSpec::int("most", 1..=100, "30", "most clients")];

/// Store of which nothing but its description is asked. Has servers if it has nodes, and may not be installed.
struct Described(StoreSpec, usize, Option<StoreErrorKind>);

impl StoreKind for Described {
    fn spec(&self) -> &StoreSpec {
        &self.0
    }

    fn installed(&self) -> Result<String, StoreError> {
        let missing = |kind| StoreError::new(kind, format!("{} is not installed", self.0.name)).next("install it");
        self.2.map_or_else(|| Ok("built in".to_owned()), |kind| Err(missing(kind)))
    }

    fn counters(&self, _: &Params) -> Vec<Reading> {
        let lag = (self.1 > 1).then(|| Reading::level("", "lag", "s", 0.0));
        [Reading::level("", "connections", "", 0.0)].into_iter().chain(lag).collect()
    }

    fn recipe(&self, _: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        let hosts = if self.0.name.starts_with("spread") { self.1 } else { 0 };
        let spec = ServerSpec { nodes: self.1, hosts, ..ServerSpec::new(self.0.name, "nobody", "none") };
        Ok((self.1 > 0).then(|| -> Box<dyn Recipe> { Box::new(Nodes(spec)) }))
    }

    fn open(&self, _: OpenOptions, _: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        panic!("{} is opened", self.0.name)
    }
}

struct Nodes(ServerSpec);

impl Recipe for Nodes {
    fn spec(&self) -> ServerSpec {
        self.0
    }

    fn launch(&self, _: Member<'_>) -> Result<Launch, StoreError> {
        panic!("{} is started", self.0.name)
    }

    fn ready(&self, _: &Node, _: &Waits) -> Result<(), StoreError> {
        Ok(())
    }

    fn works(&self, node: usize) -> &'static [&'static str] {
        if node == 0 { &["backup", "vacuum"] } else { &["backup"] }
    }

    fn works_alone(&self, name: &str) -> bool {
        name == "vacuum"
    }
}

fn catalogue() -> Catalogue {
    let kind = |spec: StoreSpec, nodes| -> Box<dyn StoreKind> { Box::new(Described(spec, nodes, None)) };
    let spec = |name| StoreSpec { name, ..Pairs::honest().spec().clone() };
    let wire = SessionSpec::new(SessionShape::Wire, 1 << 10);
    let blocking = SessionSpec { shape: SessionShape::Blocking, ..wire };
    let bounded = SessionSpec { bounded_by: Some("most"), ..wire };
    let lab = |name: &str, store: &str, nodes: Vec<u32>| {
        let (name, store) = (name.to_owned(), store.to_owned());
        let (labs, params) = Default::default();
        LabEntry { name, labs, process: 1, made_as: store.clone(), store, params, nodes }
    };
    Catalogue {
        labs: vec![lab("mine", "spread", vec![1, 2, 3]), lab("single", "single", vec![1])],
        stores: vec![
            kind(spec("toy"), 0),
            kind(StoreSpec { params: &WITH_DISK, ..spec("disky") }, 0),
            kind(StoreSpec { params: &WITH_DISK, ..spec("disky-cluster") }, 3),
            kind(StoreSpec { schemes: &["wire"], sessions: wire, ..spec("wire") }, 0),
            kind(StoreSpec { params: &BOUNDED, sessions: bounded, ..spec("bounded") }, 0),
            kind(spec("single"), 1),
            kind(spec("cluster"), 3),
            kind(StoreSpec { sessions: wire, ..spec("spread") }, 3),
            kind(StoreSpec { sessions: blocking, ..spec("spread-blocking") }, 3),
            plimsoll_store_null::kind(),
        ],
        workloads: plimsoll_workload::all(),
        samplers: plimsoll_sample::specs(),
    }
}

const LOAD: &str = "[[phase]]\ndo = \"load\"\n";

/// Parses a plan. `top` are keys of the plan, `drive` of its drive, which has a length and a mix of its own otherwise.
fn parsed(catalogue: &Catalogue, top: &str, store: &str, drive: &str, rest: &str) -> Plan {
    let load = if top.contains("as-is") { "" } else { LOAD };
    let length = if drive.contains("ops = ") { "" } else { "for = \"5s\"\n" };
    let samplers = if top.contains("samplers = ") { "" } else { "samplers = []\n" };
    let mix = if drive.contains("mix = ") { "" } else { "mix = { read = 1, update = 1 }\n" };
    let text = format!(
        "{top}\nstores = [{store}]\n{samplers}[workload]\nname = \"kv\"\nrecords = 40\n{load}\
         [[phase]]\ndo = \"drive\"\ndurability = \"buffered\"\n{length}{mix}{drive}\n{rest}"
    );
    plimsoll_plan::parse("refused", &text, catalogue, &Default::default())
        .unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// Expects that the plan is refused with these words and this remedy.
#[track_caller]
fn refuses(top: &str, store: &str, drive: &str, rest: &str, words: &str, next: &str) {
    let catalogue = catalogue();
    let place = tempfile::tempdir().unwrap();
    let plan = parsed(&catalogue, top, store, drive, rest);
    let error = possible(&plan, &catalogue, place.path()).expect_err(words);
    assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
    assert!(error.what.contains(words), "{:?} does not say {words:?}", error.what);
    assert!(error.next.as_deref().unwrap_or_default().contains(next), "{:?} does not say {next:?}", error.next);
}

/// Expects that the plan is possible.
#[track_caller]
fn allows(top: &str, store: &str, drive: &str, rest: &str) {
    let catalogue = catalogue();
    let place = tempfile::tempdir().unwrap();
    let found = possible(&parsed(&catalogue, top, store, drive, rest), &catalogue, place.path());
    assert_eq!(found, Ok(()), "{top} {store} {drive} {rest}");
}

/// Returns the first processor that this process may use.
fn processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    list.split([',', '-']).next().unwrap().to_owned()
}

const ATTACHED: &str = "\"wire://there\"";

#[test]
fn what_a_machine_has_not_is_refused() {
    let here = processor();
    let (pin, server_pin) = (format!("pin = [{here}]"), format!("server_pin = [{here}]"));
    let place = tempfile::tempdir().unwrap();
    let dir = format!("dir = \"{}\"", place.path().display());
    allows(&server_pin, "\"toy\"", &pin, "");
    allows(&dir, "\"toy\"", "", "");
    refuses("server_pin = [4000]", "\"toy\"", "", "", "`server_pin`: there is no processor 4000 here", &here);
    refuses("", "\"toy\"", "pin = [4000]", "", "`pin`: there is no processor 4000 here", "this program may use: ");
    refuses(&server_pin, ATTACHED, "", "", "`server_pin` is for servers that are started here", "bind that server");
    let nowhere = "dir = \"/no/such/place\"";
    refuses(nowhere, "\"toy\"", "", "", "`dir`: there is no directory /no/such/place", "make it");
    refuses(&dir, ATTACHED, "", "", "`dir` is for stores that are started here", "leave `dir` out");
}

#[test]
fn more_threads_that_watch_the_clock_than_free_processors_are_refused() {
    let here = processor();
    let spin = |more: &str| format!("wake = \"spin\"\npin = [{here}]\n{more}");
    let open = spin("rate = \"100/s\"\nclients = 4");
    allows("", "\"wire\"", &open, "");
    let two = "phase drive: 2 threads watch the clock (`wake = \"spin\"`), and 1 processor is free for them";
    let fewer = "set `workers` to at most 1, or wake = \"precise\"";
    refuses("", "\"wire\"", &format!("{open}\nworkers = 2"), "", two, fewer);
    allows("", "\"wire\"", &spin("clients = 4\nworkers = 2"), "");
    refuses("", "\"wire\"", &spin("clients = 4\nworkers = 2\nthink = \"1ms\""), "", two, fewer);
    // A blocking session has a thread of its own.
    let four = "phase drive: 4 threads watch the clock (`wake = \"spin\"`), and 1 processor is free for them";
    refuses("", "\"spread-blocking\"", &open, "", four, "set `clients` to at most 1");
    let scenario = |name: &str, rate: &str| {
        format!("[[phase.scenario]]\nname = \"{name}\"\nclients = 2\nmix = {{ read = 1 }}\n{rate}\n")
    };
    let two_open = [scenario("a", "rate = \"10/s\""), scenario("b", "rate = \"10/s\"")].concat();
    refuses("", "\"wire\"", &spin(&two_open), "", two, fewer);
    let one_open = [scenario("a", "rate = \"10/s\""), scenario("b", "")].concat();
    allows("", "\"wire\"", &spin(&one_open), "");
    // More than any machine has.
    let unpinned = "wake = \"spin\"\nrate = \"100/s\"\nclients = 1000";
    let words = "phase drive: 1,000 threads watch the clock";
    refuses("", "\"spread-blocking\"", unpinned, "", words, "or wake = \"precise\"");
}

#[test]
fn drives_that_a_store_or_its_operations_cannot_have_are_refused() {
    let as_is = "start = \"as-is\"";
    refuses(as_is, "\"toy\"", "", "", "nothing is loaded, and a new toy starts empty", "add a phase with do = ");
    // What keeps nothing need not be loaded.
    allows(as_is, "\"null\"", "", "");
    refuses("", "\"toy\"", "reconnect = 1", "", "phase drive: toy has no connections to reopen", "leave out");
    allows("", "\"wire\"", "reconnect = 1", "");
    let both = "reconnect = 1\ndepth = 4";
    refuses("", "\"wire\"", both, "", "connections with a depth of 4 cannot be reopened", "use a depth of 1");
    let steps = "depth = 2\nmix = { read_modify_write = 1 }";
    refuses("", "\"wire\"", steps, "", "a depth of 2 would mix the steps of several operations", "more clients");
    allows("", "\"wire\"", "depth = 2", "");
    let lost = "phase drive: toy has no connections to lose";
    refuses("", "\"toy\"", "connect_timeout = \"1s\"", "", lost, "leave out `connect_timeout`");
    allows("", "\"wire\"", "connect_timeout = \"1s\"", "");
    let again = "retry = \"all\"\nmix = { read_modify_write = 1 }";
    let words = "operations of several steps (transactions, scripts) are not sent again";
    refuses("", "\"wire\"", again, "", words, "leave out `retry`");
    allows("", "\"wire\"", "retry = \"all\"", "");
}

#[test]
fn faults_at_times_that_a_phase_never_reaches_or_that_exclude_each_other_are_refused() {
    let cases = [
        ("\"kill all at 5s\"", "it ends after 5.00 s, before the time of its fault: kill all at 5s", "an earlier `at`"),
        (
            "[\"kill node 2 at 1s for 2s\", \"pause node 2 at 2s for 1s\"]",
            "`pause node 2 at 2s for 1s` falls into `kill node 2 at 1s for 2s`",
            "choose other times or nodes",
        ),
        (
            "\"kill all at 4950ms\"",
            "less than 100 ms of load is left after kill all at 4950ms, so its effect is not observed",
            "an earlier `at`",
        ),
        (
            "[\"pause node 2 at 1s for 1s\", \"kill node 1 at 99% for 20ms every 100ms\"]",
            "less than 100 ms of load is left after kill node 1 at 99% for 20ms every 100ms",
            "a longer `for` of the phase",
        ),
    ];
    for (fault, words, next) in cases {
        refuses("", "\"cluster\"", &format!("fault = {fault}"), "", words, next);
    }
    allows("", "\"cluster\"", "fault = \"kill all at 4900ms\"", "");
    // The whole phase counts, with its warm-up.
    let many = "warmup = \"70s\"\nfault = [\"kill node 1 at 1s for 20ms every 150ms\", \"kill node 2 at 1s for 20ms every 150ms\"]";
    allows("", "\"cluster\"", many, "");
    refuses("", "\"cluster\"", &many.replace("70s", "72s"), "", "and may come 1,000 times", "choose a longer `every`");
    // The warm-up is a part of the phase.
    allows("", "\"cluster\"", "warmup = \"1s\"\nfault = \"kill all at 5s for 500ms\"", "");
    allows("", "\"cluster\"", "fault = [\"kill node 2 at 1s for 1s\", \"pause node 2 at 3s for 1s\"]", "");
    // Operations take as long as they take.
    let counted = |fault: &str| format!("ops = 10\nfault = \"{fault}\"");
    let unknown = "the length of the phase is not known, because it counts operations";
    refuses("", "\"cluster\"", &counted("kill all at 50%"), "", unknown, "write times: at 10s for 3s");
    refuses("", "\"cluster\"", &counted("kill all at 1s for 10%"), "", unknown, "write times: at 10s for 3s");
    let repeated = counted("pause node 1 at 0s for 2s every 8s");
    refuses("", "\"cluster\"", &repeated, "", "has no length to repeat it in", "leave `every` out");
    allows("", "\"cluster\"", &counted("kill all at 100s for 3s"), "");
}

#[test]
fn conditions_on_readings_that_are_not_read_are_refused() {
    let read = "samplers = [\"store\", \"tasks\", \"fsync\"]";
    let nodes = "samplers = [\"server\", \"network\"]";
    for (top, store, condition, words, next) in [
        (
            read,
            "single",
            "lag < 1s",
            "kill all when lag < 1s: single has no replication lag",
            "connections,\n    tasks.running",
        ),
        (
            read,
            "cluster",
            "lags < 1s",
            "cluster and the plan's samplers have no reading lags",
            "connections, lag,\n    tasks.",
        ),
        (read, "cluster", "tasks.lag < 1s", "the plan's samplers have no reading tasks.lag", "tasks.load"),
        (read, "cluster", "fsync.flush_time > 1s", "have no reading fsync.flush_time", "fsync.flushes, fsync.lost"),
        (
            read,
            "cluster",
            "cpu.user > 90%",
            "the plan does not read cpu.user: its `samplers` have no cpu",
            "add \"cpu\"",
        ),
        ("", "cluster", "lag > 1s", "the plan does not read lag: its `samplers` have no store", "add \"store\""),
        (read, "cluster", "lag > 64MiB", "lag is measured in another unit", "write a value such as 5s"),
        (read, "cluster", "connections > 5s", "connections is measured in another unit", "such as 100"),
        ("", "cluster", "nonsense > 1", "have no reading nonsense", "there are:\n    clients.silence"),
        ("", "cluster", "clients.lag > 1s", "clients have no reading lag", "there is: clients.silence"),
        ("", "cluster", "clients.silence > 5", "clients.silence is measured in another unit", "such as 5s"),
        ("", "cluster", "clients.node 2.silence > 5s", "`node 2` is no client host", "clients.host 2.silence for"),
        (nodes, "cluster", "server.node 4.user > 50%", "cluster has no node 4", "its nodes are 1, 2, 3"),
        (nodes, "single", "server.node 2.user > 50%", "single has no node 2", "leave `node 2` out: server.user"),
        (nodes, "single", "server.node 1.user > 50%", "whose readings name no node", "leave `node 1` out: server.user"),
        (nodes, "cluster", "network.node 4 eth0.drops > 0/s", "cluster has no node 4 eth0", "its nodes are 1, 2, 3"),
    ] {
        let drive = format!("fault = \"kill all when {condition}\"");
        refuses(top, &format!("\"{store}\""), &drive, "", words, next);
    }
    for condition in ["lag < 1s", "store.node 2.lag >= 500ms", "connections > 100", "tasks.running > 8"] {
        allows(read, "\"cluster\"", &format!("fault = \"kill primary when {condition} for 1s\""), "");
        allows(read, "\"cluster\"", &format!("ops = 10\nfault = \"kill primary when {condition} for 1s\""), "");
    }
    for store in ["\"cluster\"", "\"single\""] {
        allows("", store, "fault = \"kill all when clients.silence > 2s for 1s\"", "");
    }
    for condition in ["server.node 3.user > 50%", "server.checkpointer.busy > 50%", "network.node 2 eth0.drops > 0/s"] {
        allows(nodes, "\"cluster\"", &format!("fault = \"kill primary when {condition} for 1s\""), "");
    }
}

#[test]
fn faults_of_disks_name_nodes_that_there_are() {
    for (store, fault, words, next) in [
        ("disky", "disk node 1 full", "disk node 1 full at 1s: disky has no private servers", "leave `fault` out"),
        ("disky-cluster", "disk node 4 full", "disky-cluster has no node 4", "the number of a node: 1 to 3"),
    ] {
        let store = format!("{{ store = \"{store}\", disk = \"ext4\" }}");
        refuses("", &store, &format!("fault = \"{fault} at 1s\""), "", words, next);
    }
}

#[test]
fn faults_that_servers_cannot_have_are_refused() {
    for (store, fault, words, next) in [
        ("toy", "kill all", "kill all at 1s: toy has no private servers", "plimsoll list stores"),
        ("cluster", "kill node 4", "cluster has no node 4", "the number of a node: 1 to 3"),
        ("single", "pause replica", "single has no replica: it has one node", "write all: there is one node"),
        ("cluster", "promote primary", "one node becomes the primary, and was not before", "promote replica"),
        ("cluster", "promote all", "one node becomes the primary, and was not before", "promote node 2"),
        ("cluster", "promote replica", "a replica of cluster cannot be promoted by a command", "kill or cut"),
        ("cluster", "cut node 2", "cluster is on this machine's own network, which has no links", "several nodes"),
        ("cluster", "link all close=1s", "cluster is on this machine's own network", "several nodes"),
        ("cluster", "neighbour all network", "cluster is on this machine's own network", "several nodes"),
        ("cluster", "limit all cpus=1", "cluster has no limit `cpus` to change", "--set cluster.cpus="),
        (
            "cluster",
            "work vacuum replica",
            "no planned work `vacuum` of `replica`",
            "there are: backup; `vacuum` is work of node 1",
        ),
        ("cluster", "work vacuum node 2", "no planned work `vacuum` of node 2", "`vacuum` is work of node 1"),
        (
            "cluster",
            "work vacuum every 2s",
            "the next `vacuum` may begin before this one has ended",
            "leave `every` out",
        ),
        ("cluster", "work reindex", "no planned work `reindex` of the primary", "there are: backup, vacuum"),
        ("single", "work reindex", "single has no planned work `reindex`", "there are: backup, vacuum"),
        ("cluster", "work reindex all", "no planned work `reindex` of `all`", "there are: backup, vacuum"),
        ("toy", "work backup", "toy has no private servers", "leave `fault` out"),
    ] {
        let drive = format!("fault = \"{fault} at 1s\"");
        refuses("", &format!("\"{store}\""), &drive, "", words, next);
    }
    for fault in ["kill primary", "stop replica", "restart node 3", "work vacuum", "work backup all"] {
        allows("", "\"cluster\"", &format!("fault = \"{fault} at 1s\""), "");
    }
    // Of work that servers do one at a time, each follows the one before.
    for other in ["work vacuum all at 2s", "work vacuum at 0s after fault 2"] {
        let faults = format!("fault = [\"work vacuum at 1s\", \"kill node 2 at 1s for 1s\", \"{other}\"]");
        let words = format!("{other}: servers do one `vacuum` at a time, and work vacuum at 1s may not have ended");
        refuses("", "\"cluster\"", &faults, "", &words, "work vacuum at 0s after fault 1");
    }
    let chain = "[\"work vacuum at 1s\", \"work backup at 0s after fault 1\", \"work vacuum at 0s after fault 2\"]";
    allows("", "\"cluster\"", &format!("fault = {chain}"), "");
    refuses("", ATTACHED, "fault = \"kill all at 1s\"", "", "has no private servers", "name a store whose servers");
}

#[test]
fn client_hosts_are_refused_without_a_network_for_them_and_faults_of_others_than_there_are() {
    let hosts = |hosts: u32, more: &str| format!("clients = 4\nclient_hosts = {hosts}\n{more}");
    for (store, words) in [
        ("\"toy\"", "client_hosts = 2: toy is on this machine's own network"),
        ("\"cluster\"", "client_hosts = 2: cluster is on this machine's own network"),
        (ATTACHED, " is attached, and clients reach it from this machine only"),
        ("\"lab:single\"", "client_hosts = 2: single is on this machine's own network"),
    ] {
        refuses("", store, &hosts(2, ""), "", words, "leave `client_hosts` out");
    }
    for store in ["\"spread\"", "\"lab:mine\""] {
        allows("", store, &hosts(4, ""), "");
    }
    let words = "client_hosts = 2: sessions of spread-blocking block, and connect where they are made";
    refuses("", "\"spread-blocking\"", &hosts(2, ""), "", words, "leave `client_hosts` out");
    let words = "phase drive: client_hosts = 5: there are more hosts than clients (4)";
    refuses("", "\"spread\"", &hosts(5, ""), "", words, "use 5 clients or more");
    let cut = |number: u32| format!("fault = \"cut node 2 from client host {number} at 1s\"");
    let link = |number: u32| format!("fault = \"link all from client host {number} delay=5ms at 1s\"");
    let silent = |number: u32| format!("fault = \"kill node 2 when clients.host {number}.silence > 2s\"");
    for (keys, words, next) in [
        (link(1), "delay=5ms at 1s: the drive has no client hosts", "set client_hosts = 1 (--client-hosts 1)"),
        (hosts(2, &link(3)), "delay=5ms at 1s: the drive has 2 client hosts", "name client host 1 to 2, or set"),
        (cut(1), "client host 1 at 1s: the drive has no client hosts", "set client_hosts = 1 (--client-hosts 1)"),
        (hosts(1, &cut(2)), "client host 2 at 1s: the drive has one client host", "name client host 1, or set"),
        (hosts(2, &cut(3)), "client host 3 at 1s: the drive has 2 client hosts", "name client host 1 to 2, or set"),
        (silent(1), "silence > 2s: the drive has no client hosts", "--client-hosts 1), or write `clients.silence`"),
        (hosts(2, &silent(3)), "silence > 2s: the drive has 2 client hosts", "name client host 1 to 2, or set"),
    ] {
        refuses("", "\"spread\"", &keys, "", words, next);
    }
    allows("", "\"spread\"", &hosts(2, &cut(2)), "");
    allows("", "\"spread\"", &hosts(2, &silent(2)), "");
    for store in ["\"spread\"", "\"lab:mine\""] {
        allows("", store, &hosts(2, &link(2)), "");
    }
}

#[test]
fn power_is_cut_only_where_a_disk_can_lose_it_and_where_what_comes_of_it_is_checked() {
    let disky = |more: &str| format!("{{ store = \"disky\", disk = \"ext4\"{more} }}");
    let (cut, power) = ("power_cut = \"flush 3\"", "[[phase]]\ndo = \"power\"\n");
    let check = "[[phase]]\ndo = \"check\"\n";
    let checked = format!("{power}{check}");
    let unpowered = "phase drive: after its power cut the store has no power";
    refuses("", &disky(""), cut, check, unpowered, "put a phase with do = \"power\" directly after it");
    let twice = format!("{power}{power}{check}");
    let unchecked = "phase power_2: the result of the power cut before it would not have been checked";
    refuses("", &disky(""), cut, &twice, unchecked, "put a phase with do = \"check\" between them");
    let ignored = disky(", disk_flushes = \"ignored\"");
    refuses("", &ignored, "", &checked, "flushes are ignored from the first drive on", "give a drive a `power_cut`");
    let slow = disky(", disk_flush_time = \"61s\"");
    refuses("", &slow, cut, &checked, "disk_flush_time of disky: more than 60 s", "use a shorter time");
    let mirror = disky(", disk_speed = \"ssd\", disk_layout = \"mirror\"");
    refuses("", &mirror, cut, &checked, "is on several devices (disk_layout = \"mirror\")", "leave `disk_layout`");
    let plain = "phase drive: the disk of disky cannot lose power";
    refuses("", "\"disky\"", cut, &checked, plain, "put it on one that can: { store = \"disky\", disk = \"ext4\" }");
    let null = "phase power: the disk of null cannot lose power";
    refuses("", "\"null\"", "", power, null, "only a store that is started here, and keeps data");
    let no_disk = "disk_flush_time: the data is not on a simulated disk: the store disky";
    refuses("", "{ store = \"disky\", disk_flush_time = \"5ms\" }", "", "", no_disk, "put it on one");
}

#[test]
fn operations_of_an_interface_that_a_store_does_not_speak_are_refused() {
    let mut catalogue = catalogue();
    let interfaces = &[plimsoll_core::Interface::Kv];
    let spec = StoreSpec { name: "hash", interfaces, ..Pairs::honest().spec().clone() };
    catalogue.stores.push(Box::new(Described(spec, 0, None)));
    let place = tempfile::tempdir().unwrap();
    let plan = parsed(&catalogue, "", "\"hash\"", "mix = { read = 1, scan = 1 }", "");
    let error = possible(&plan, &catalogue, place.path()).unwrap_err();
    assert!(error.what.starts_with("phase drive: ") && error.what.contains("the store `hash`"), "{error:?}");
    let plan = parsed(&catalogue, "", "\"hash\"", "mix = { read = 1, scan = 0 }", "");
    assert_eq!(possible(&plan, &catalogue, place.path()), Ok(()), "a share of nothing is not asked for");
}

/// The limit of sessions of each trial of a plan, after it was raised.
fn bounds(store: &str, clients: &str) -> Result<Vec<i64>, StoreError> {
    let catalogue = catalogue();
    let mut plan = parsed(&catalogue, "", store, &format!("clients = {clients}"), "");
    bound_sessions(&catalogue, &mut plan)?;
    let most = |trial: &PlannedTrial| trial.store.params.int("most");
    Ok(plan.trials.iter().map(most).collect())
}

#[test]
fn a_private_server_takes_as_many_sessions_as_its_trials_need_and_no_more_than_it_can() {
    // Sixteen are for connections of Plimsoll's own.
    assert_eq!(bounds("\"bounded\"", "14"), Ok(vec![30]), "as by default");
    assert_eq!(bounds("\"bounded\"", "15"), Ok(vec![31]));
    // One server serves all trials.
    assert_eq!(bounds("\"bounded\"", "[1, 40, 2]"), Ok(vec![56; 3]));
    assert_eq!(bounds("\"bounded\"", "84"), Ok(vec![100]));
    let set = |clients: &str| bounds("{ store = \"bounded\", most = 50 }", clients);
    assert_eq!(set("34"), Ok(vec![50]));
    for (found, words, next) in [
        (bounds("\"bounded\"", "85"), "85 clients are more than a private bounded takes", "at most 84 clients"),
        (set("35"), "35 clients need `most` = 51 of the private bounded, and it is 50", "set bounded.most=51"),
    ] {
        let error = found.unwrap_err();
        assert!(error.what.starts_with(words) && error.next.as_ref().unwrap().contains(next), "{error:?}");
    }
    assert_eq!(bounds("\"toy\"", "90"), Ok(vec![0]), "it has no such limit");
}

#[test]
fn nothing_is_recorded_of_a_run_that_is_refused() {
    let catalogue = catalogue();
    let place = tempfile::tempdir().unwrap();
    let plan = parsed(&catalogue, "", "\"toy\"", "pin = [4000]", "");
    let heard = crate::simulation::Heard::default();
    let spec = plimsoll_trial::RunSpec::new(place.path(), &heard.stop, &plimsoll_drive::RealTime);
    let error = plimsoll_trial::run(&plan, &catalogue, &spec, &heard).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Usage);
    let left: Vec<PathBuf> = std::fs::read_dir(place.path()).unwrap().map(|one| one.unwrap().path()).collect();
    assert!(left.is_empty() && heard.course.lock().unwrap().is_empty(), "{left:?}");
}

#[test]
fn trials_of_stores_that_cannot_run_here_are_left_out_with_the_reason_unless_none_is_left() {
    let mut catalogue = catalogue();
    for (name, kind) in [("gone", StoreErrorKind::Missing), ("closed", StoreErrorKind::Permission)] {
        let spec = StoreSpec { name, ..Pairs::honest().spec().clone() };
        catalogue.stores.push(Box::new(Described(spec, 0, Some(kind))));
    }
    let mut plan = parsed(&catalogue, "", "\"gone\", \"toy\", \"closed\"", "clients = [1, 2]", "");
    here::leave_out(&mut plan, &catalogue).unwrap();
    let left: Vec<_> = plan.trials.iter().map(|trial| (trial.ordinal, trial.store.label.as_str())).collect();
    assert_eq!(left, [(0, "toy"), (1, "toy")], "trials are counted anew");
    let words = |name: &str| format!("Left out: {name} cannot run here: {name} is not installed → install it");
    assert!(plan.notices.contains(&words("gone")) && plan.notices.contains(&words("closed")), "{:?}", plan.notices);
    // If none is left, that is an error of the first, with the others' words.
    let mut plan = parsed(&catalogue, "", "\"gone\", \"closed\"", "", "");
    let error = here::leave_out(&mut plan, &catalogue).unwrap_err();
    assert_eq!((error.kind, error.what.as_str()), (StoreErrorKind::Missing, "gone is not installed"));
    assert_eq!(error.detail.unwrap(), [words("gone"), words("closed")].join("\n"));
    let mut plan = parsed(&catalogue, "", "\"toy\"", "", "");
    here::leave_out(&mut plan, &catalogue).unwrap();
    assert!(plan.trials.len() == 1 && plan.notices.is_empty(), "{:?}", plan.notices);
}

#[test]
fn what_a_store_needs_and_finds_here_is_said_in_a_few_words() {
    let mut catalogue = catalogue();
    let spec = StoreSpec { name: "gone", ..Pairs::honest().spec().clone() };
    catalogue.stores.push(Box::new(Described(spec, 0, Some(StoreErrorKind::Missing))));
    let found = |store: &str| here::found(&catalogue, &parsed(&catalogue, "", store, "", "").trials[0].store);
    assert_eq!(found("\"toy\""), Ok("built in".to_owned()));
    assert_eq!(found("\"cluster\""), Ok("built in".to_owned()));
    assert_eq!(found(ATTACHED), Ok("attached: nothing is started here".to_owned()));
    assert_eq!(found("\"gone\"").unwrap_err().kind, StoreErrorKind::Missing);
}
