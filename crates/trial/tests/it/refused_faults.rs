//! Faults that servers cannot have: refused before anything is started, by what the store's recipe and its lab say.

use plimsoll_core::catalogue::LabEntry;
use plimsoll_core::{
    Catalogue, Launch, Member, Node, OpenOptions, Params, Reading, Recipe, ServerSpec, SessionShape, SessionSpec,
    Store, StoreError, StoreErrorKind, StoreKind, StoreSpec, Waits,
};
use plimsoll_plan::model::Plan;
use plimsoll_testkit::lying_kv::Pairs;
use plimsoll_trial::{TrialError, here, lost_primaries, possible};
use rustix::thread::CapabilitySet;

/// Kinds of clusters of three nodes.
#[derive(Clone, Copy, PartialEq)]
enum Sort {
    /// Nodes have hosts of their own.
    Networked,
    /// Clients reach nodes by Unix sockets.
    Sockets,
    /// Replicas can be promoted, nodes join and leave, and a process of the first node can hang.
    Flexible,
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Networked => "networked",
            Sort::Sockets => "sockets",
            Sort::Flexible => "flexible",
        }
    }

    fn must_be_flexible(self, what: &str) -> Result<(), StoreError> {
        match self {
            Sort::Flexible => Ok(()),
            other => Err(StoreError::usage(format!("{} cannot {what}", other.name())).next("use another store")),
        }
    }
}

/// Kind of store of which nothing but its description is asked.
struct Described(StoreSpec, Sort);

impl StoreKind for Described {
    fn spec(&self) -> &StoreSpec {
        &self.0
    }

    fn counters(&self, _: &Params) -> Vec<Reading> {
        // One reading of all servers, and one of each node.
        vec![Reading::level("", "connections", "", 0.0), Reading::level("node 1", "lag", "s", 0.0)]
    }

    fn recipe(&self, _: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        Ok(Some(Box::new(Cluster(self.1))))
    }

    fn open(&self, _: OpenOptions, _: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        panic!("{} is opened", self.0.name)
    }
}

struct Cluster(Sort);

impl Recipe for Cluster {
    fn spec(&self) -> ServerSpec {
        ServerSpec {
            nodes: 3,
            hosts: if self.0 == Sort::Networked { 3 } else { 0 },
            ports: if self.0 == Sort::Sockets { &[] } else { &[4001] },
            ..ServerSpec::new(self.0.name(), "nobody", "none")
        }
    }

    fn launch(&self, _: Member<'_>) -> Result<Launch, StoreError> {
        panic!("{} is started", self.0.name())
    }

    fn ready(&self, _: &Node, _: &Waits) -> Result<(), StoreError> {
        Ok(())
    }

    fn promotes(&self) -> Result<(), StoreError> {
        self.0.must_be_flexible("promote a replica")
    }

    fn takes_more(&self) -> Result<(), StoreError> {
        self.0.must_be_flexible("take further nodes")
    }

    fn hangs(&self, node: usize) -> Result<(), StoreError> {
        self.0.must_be_flexible("hang")?;
        if node == 0 { Ok(()) } else { Err(StoreError::usage("a replica cannot hang").next("name the primary")) }
    }

    fn all_nodes_vote(&self) -> bool {
        self.0 != Sort::Sockets
    }

    fn works(&self, node: usize) -> &'static [&'static str] {
        if node == 0 { &["vacuum", "backup"] } else { &[] }
    }

    fn work_must_be_installed(&self, name: &str) -> Result<(), StoreError> {
        match name {
            "backup" if self.0 == Sort::Flexible => {
                Err(StoreError::new(StoreErrorKind::Missing, "dump is not installed").next("install dump"))
            }
            _ => Ok(()),
        }
    }
}

fn catalogue() -> Catalogue {
    let kind = |sort: Sort| -> Box<dyn StoreKind> {
        Box::new(Described(StoreSpec { name: sort.name(), ..Pairs::honest().spec().clone() }, sort))
    };
    let lab = |name: &str, store: &str, nodes: &[u32]| LabEntry {
        name: name.to_owned(),
        labs: Default::default(),
        process: 1,
        store: store.to_owned(),
        made_as: store.to_owned(),
        params: Params::default(),
        nodes: nodes.to_vec(),
    };
    let attached = |name: &'static str, schemes: &'static [&'static str], shape| -> Box<dyn StoreKind> {
        let sessions = SessionSpec::new(shape, 1 << 10);
        Box::new(Described(StoreSpec { name, schemes, sessions, ..Pairs::honest().spec().clone() }, Sort::Flexible))
    };
    let far = [attached("far", &["far"], SessionShape::Wire), attached("slow", &["slow"], SessionShape::Blocking)];
    Catalogue {
        labs: vec![lab("mine", "flexible", &[1, 3]), lab("fixed", "sockets", &[1, 2, 3])],
        stores: [Sort::Networked, Sort::Sockets, Sort::Flexible].map(kind).into_iter().chain(far).collect(),
        workloads: plimsoll_workload::all(),
        samplers: plimsoll_sample::specs(),
    }
}

/// Returns a plan with these faults on stores, or labs, that allows faults or not.
fn plan_if(allow_fault: bool, stores: &[&str], faults: &[&str]) -> Plan {
    let text = format!(
        "stores = {stores:?}\nsamplers = [\"store\"]\nallow_fault = {allow_fault}\n[workload]\nname = \"kv\"\n\
         records = 40\n[[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nfor = \"20s\"\nmix = {{ read = 1 }}\n\
         fault = {faults:?}\n"
    );
    let plan = plimsoll_plan::parse("faults", &text, &catalogue(), &Default::default());
    plan.unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// Returns a plan with these faults on stores, or labs.
fn plan(stores: &[&str], faults: &[&str]) -> Plan {
    plan_if(true, stores, faults)
}

/// Looks if a plan with these faults on a store, or a lab, is possible.
fn checked(store: &str, faults: &[&str]) -> Result<(), TrialError> {
    checked_if(true, store, faults)
}

/// Looks if a plan with these faults is possible, as [`checked`], if the plan allows faults or not.
fn checked_if(allow_fault: bool, store: &str, faults: &[&str]) -> Result<(), TrialError> {
    possible(&plan_if(allow_fault, &[store], faults), &catalogue(), tempfile::tempdir().unwrap().path())
}

/// Expects that faults are refused with these words and this remedy.
#[track_caller]
fn refuses(store: &str, faults: &[&str], words: &str, next: &str) {
    let error = checked(store, faults).expect_err(words);
    assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
    assert!(error.what.contains(words), "{:?} does not say {words:?}", error.what);
    assert!(error.next.as_deref().unwrap_or_default().contains(next), "{:?} does not say {next:?}", error.next);
}

#[track_caller]
fn allows(store: &str, faults: &[&str]) {
    assert_eq!(checked(store, faults), Ok(()), "{store}: {faults:?}");
}

#[test]
fn connections_are_reset_and_stormed_only_where_servers_take_as_many_by_tcp() {
    let words = "sockets serves its sessions over a Unix socket, where no TCP connection can be reset";
    refuses("sockets", &["reset all at 1s"], words, "a store that clients reach over TCP");
    allows("flexible", &["reset all at 1s"]);
    let storm = |on: &str, connections: u32| format!("storm {on} connections={connections} at 1s for 1s");
    let words = "a storm has at most 10000 connections, and this one has 12000 to 3 nodes";
    refuses("flexible", &[&storm("all", 4_000)], words, "write connections=3333, or less");
    allows("flexible", &[&storm("all", 20)]);
    allows("sockets", &[&storm("node 2", 20)]);
}

#[test]
fn attached_servers_have_faults_on_the_clients_side_alone_and_only_if_the_plan_allows_them() {
    let far = "far://one,two/db";
    let storm = "storm all connections=20 at 1s for 1s";
    for (fault, words) in [("reset all at 1s", "this resets connections"), (storm, "this opens many connections")] {
        allows(far, &[fault]);
        let error = checked_if(false, far, &[fault]).unwrap_err();
        let words = format!("{fault}: {words} to a server that Plimsoll has not started");
        assert!(error.kind == StoreErrorKind::Usage && error.what.contains(&words), "{error:?}");
        assert!(error.next.unwrap().starts_with("allow it with --allow-fault"));
    }
    // Private servers need no permission.
    assert_eq!(checked_if(false, "flexible", &["reset all at 1s", storm]), Ok(()));
    for on in ["primary", "node 2", "minority"] {
        let words = "is attached, and Plimsoll does not know its nodes";
        refuses(far, &[&format!("reset {on} at 1s")], words, "write reset all, for all servers");
    }
    let next = "a fault on the clients' side: reset all at 10s, storm all connections=100 at 10s for 3s";
    for fault in ["cut all at 1s for 1s", "kill primary at 1s for 1s"] {
        refuses(far, &[fault], "has no private servers", next);
    }
    let words = "a storm has at most 10000 connections, and this one has 12000 to 2 nodes";
    refuses(far, &["storm all connections=6000 at 1s for 1s"], words, "write connections=5000, or less");
    let words = "block, and do not tell to which servers they connect";
    refuses("slow://there/db", &["reset all at 1s"], words, "use operations by key: kv");
}

#[test]
fn a_hang_needs_a_node_of_which_a_process_can_hang() {
    refuses("sockets", &["hang all at 1s for 1s"], "hang all at 1s for 1s: sockets cannot hang", "another store");
    for on in ["node 2", "replica"] {
        refuses("flexible", &[&format!("hang {on} at 1s for 1s")], "a replica cannot hang", "name the primary");
    }
    // Of all nodes, one that can is enough.
    for on in ["all", "primary", "node 1"] {
        allows("flexible", &[&format!("hang {on} at 1s for 1s")]);
    }
}

/// Returns the error of a fault on a thread without a capability.
#[track_caller]
fn lacks(capability: CapabilitySet, fault: &str) -> TrialError {
    let without = || {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective.remove(capability);
        rustix::thread::set_capabilities(None, sets).unwrap();
        checked("flexible", &[fault]).expect_err(fault)
    };
    std::thread::scope(|scope| scope.spawn(without).join().unwrap())
}

#[test]
fn a_fault_needs_its_rights_before_anything_is_started() {
    let error = lacks(CapabilitySet::NET_ADMIN, "reset all at 1s");
    assert_eq!(error.kind, StoreErrorKind::Permission, "{error:?}");
    assert!(error.what.ends_with("reset all at 1s: cannot reset TCP connections on this machine"), "{error:?}");
    // Without root, servers run as the caller.
    if rustix::process::geteuid().is_root() {
        for (fault, what) in [
            ("hang all at 1s for 1s", "this process may not stop a single thread of a server"),
            ("clock all by=-1h at 1s for 1s", "this process may not change the clock of a server's processes"),
        ] {
            let error = lacks(CapabilitySet::SYS_PTRACE, fault);
            assert_eq!(error.kind, StoreErrorKind::Permission, "{error:?}");
            assert!(error.what.contains(fault) && error.what.ends_with(what), "{error:?}");
            assert!(error.next.as_deref().unwrap_or_default().contains("CAP_SYS_PTRACE"), "{error:?}");
        }
    }
}

#[test]
fn planned_work_needs_its_program_before_anything_is_started() {
    let error = checked("flexible", &["work backup at 1s"]).expect_err("a program that is not installed");
    assert_eq!((error.kind, error.next.as_deref()), (StoreErrorKind::Missing, Some("install dump")));
    assert!(error.what.ends_with("work backup at 1s: dump is not installed"), "{error:?}");
    assert_eq!(checked("lab:mine", &["work backup at 1s"]).expect_err("of a lab, too").kind, StoreErrorKind::Missing);
    allows("flexible", &["work vacuum at 1s"]);
    let mut plan = plan(&["flexible", "sockets"], &["work backup at 1s"]);
    here::leave_out(&mut plan, &catalogue()).unwrap();
    let left: Vec<&str> = plan.trials.iter().map(|trial| trial.store.label.as_str()).collect();
    assert_eq!(left, ["sockets"], "the other store can do it");
    let notice = plan.notices.last().unwrap();
    assert!(notice.starts_with("Left out: flexible cannot run here: "), "{notice}");
    assert!(notice.ends_with("work backup at 1s: dump is not installed → install dump"), "{notice}");
}

#[test]
fn a_minority_and_a_majority_need_a_store_of_which_all_nodes_vote() {
    for choice in ["minority", "majority"] {
        let fault = format!("kill {choice} at 1s");
        for store in ["sockets", "lab:fixed"] {
            let words = format!("vote, so a {choice} of them says nothing about the votes");
            refuses(store, &[&fault], &words, "name the nodes: nodes 1,2");
        }
        allows("flexible", &[&fault]);
    }
    allows("sockets", &["kill nodes 1,2 at 1s"]);
    // Two nodes of a lab have no minority.
    allows("lab:mine", &["kill majority at 1s"]);
}

#[test]
fn both_ends_of_a_link_have_to_be_nodes() {
    for fault in [
        "cut node 9 at 1s for 1s",
        "cut node 1 from node 9 at 1s for 1s",
        "link node 9 delay=1ms at 1s for 1s",
        "link node 1 from node 9 delay=1ms at 1s for 1s",
    ] {
        refuses("networked", &[fault], "networked has no node 9", "the number of a node: 1 to 3");
    }
}

#[test]
fn a_node_leaves_only_after_another_has_joined_and_joins_only_where_nodes_can() {
    refuses("flexible", &["remove node at 1s"], "no node has joined before that could leave", "add node at 10s");
    allows("flexible", &["add node at 1s", "remove node at 5s"]);
    refuses("sockets", &["add node at 1s"], "sockets cannot take further nodes", "another store");
    // A lab says so itself.
    allows("lab:fixed", &["add node at 1s"]);
}

#[test]
fn one_node_is_replaced_at_a_time_and_only_where_nodes_can_join() {
    refuses("flexible", &["replace all at 1s"], "one node is replaced at a time", "write replace node 2");
    refuses("flexible", &["replace node 9 at 1s"], "flexible has no node 9", "write replace node 2");
    refuses("sockets", &["replace node 2 at 1s"], "sockets cannot take further nodes", "another store");
    refuses("lab:mine", &["replace node 3 at 1s"], "are not replaced in one step", "plimsoll lab remove");
    // Of equal nodes none is the primary.
    allows("flexible", &["replace node 1 at 1s", "replace node 2 at 5s"]);
}

#[test]
fn a_command_whose_password_is_masked_is_not_run() {
    let curl = |token: &str| format!("run \"curl -H 'Authorization: {token}' http://db1/stop\" at 1s");
    refuses("sockets", &[&curl("***")], "the password in this command is masked", "leave --resume out");
    allows("sockets", &[&curl("Bearer secret")]);
}

#[test]
fn another_program_needs_a_store_whose_version_can_be_told() {
    let fault = "restart node 1 with /bin/true at 1s";
    refuses("flexible", &[fault], "flexible cannot be started with another program", "leave `with` out");
    allows("flexible", &["restart node 1 at 1s"]);
}

#[test]
fn roles_may_change_before_planned_work_only_by_a_promotion() {
    let work = "work vacuum node 2 at 5s";
    refuses("flexible", &[work], "no planned work of node 2", "write another one: restart all");
    allows("flexible", &["promote node 2 at 1s", work]);
    // Others than this run may promote a node of a lab.
    allows("lab:mine", &["work vacuum node 3 at 5s"]);
    refuses("sockets", &["promote node 2 at 1s", work], "sockets cannot promote a replica", "another store");
}

#[test]
fn faults_name_the_nodes_that_a_lab_has_now() {
    for fault in ["kill node 2 at 1s for 1s", "hang node 2 at 1s for 1s", "work vacuum node 2 at 1s"] {
        refuses("lab:mine", &[fault], " has no node 2", "its nodes are 1, 3");
    }
    allows("lab:mine", &["kill node 3 at 1s for 1s", "pause replica at 5s for 1s"]);
    let storm = "storm all connections=6000 at 1s for 1s";
    refuses("lab:mine", &[storm], "this one has 12000 to 2 nodes", "write connections=5000, or less");
}

#[test]
fn a_condition_names_a_node_only_where_its_reading_is_of_each() {
    let kill = |when: &str| format!("kill node 3 when {when} for 1s");
    let words = "flexible has one reading connections, and none of each node";
    refuses("flexible", &[&kill("store.node 2.connections > 5")], words, "leave `node 2` out: connections");
    refuses("flexible", &[&kill("store.node 9.lag > 1s")], "flexible has no node 9", "its nodes are 1, 2, 3");
    refuses("flexible", &[&kill("store.primary.lag > 1s")], "flexible has no primary", "its nodes are 1, 2, 3");
    refuses("lab:mine", &[&kill("store.node 2.lag > 1s")], " has no node 2", "its nodes are 1, 3");
    for when in ["store.node 2.lag > 1s", "store.flexible node 2.lag > 1s", "connections > 5", "lag > 1s"] {
        allows("flexible", &[&kill(when)]);
    }
    // A node that joins has readings, too.
    allows("flexible", &["add node at 1s", &kill("store.node 4.lag > 1s")]);
}

#[test]
fn a_silence_that_is_always_or_never_there_is_refused_and_one_without_its_source_is_found() {
    for when in ["clients.silence > 0s", "clients.silence < 1s"] {
        let words = format!("`{when}` holds from the start");
        refuses("flexible", &[&format!("promote replica when {when}")], &words, "clients.silence > 2s");
    }
    let words = "`clients.silence > 1000h` is longer than a phase may be";
    refuses("flexible", &["promote replica when clients.silence > 1000h"], words, "write a time within the phase");
    let words = "have no reading silence";
    refuses("flexible", &["promote replica when silence > 1s"], words, "did you mean `clients.silence`? there are:");
}

#[test]
fn a_primary_that_stays_lost_is_announced_with_the_promotion_that_brings_another() {
    let said = |store: &str, faults: &[&str]| lost_primaries(&catalogue(), &plan(&[store], faults));
    for fault in ["kill primary at 40%", "stop node 1 at 1s", "pause primary at 1s", "kill primary when lag > 1s"] {
        let notices = said("flexible", &[fault]);
        let [notice] = &notices[..] else { panic!("{fault}: {notices:?}") };
        assert!(notice.contains(&format!("{fault}: no replica of flexible takes over by itself")), "{notice}");
        assert!(notice.ends_with("add the fault `promote replica when clients.silence > 2s`"), "{notice}");
        allows("flexible", &[fault, "promote replica when clients.silence > 2s"]);
        assert!(said("flexible", &[fault, "promote replica when clients.silence > 2s"]).is_empty(), "{fault}");
        assert!(said("flexible", &[fault, "run \"ssh node2 promote\" at 5s"]).is_empty(), "a command may promote");
        assert!(said("networked", &[fault]).is_empty(), "no replica of it can be promoted");
    }
    for fault in ["cut primary at 1s", "cut primary from clients at 1s"] {
        assert_eq!(said("flexible", &[fault]).len(), 1, "{fault}");
    }
    for fault in [
        "kill primary at 1s for 3s",
        "kill replica at 1s",
        "kill node 2 at 1s",
        "restart primary at 1s",
        "cut primary from node 2 at 1s",
        "link primary delay=1ms at 1s",
    ] {
        assert!(said("flexible", &[fault]).is_empty(), "{fault}");
    }
    // The phase lasts for 20 s.
    for fault in ["pause primary at 5s for 30s", "kill primary at 50% for 10s", "kill primary when lag > 1s for 20s"] {
        assert_eq!(said("flexible", &[fault]).len(), 1, "{fault}");
    }
    let late = said("flexible", &["kill primary at 19s"]);
    assert!(
        late[0].ends_with("→ let the phase last longer, and add the fault `promote replica when clients.silence > 2s`")
    );
    // Any node of a lab may be the primary.
    assert!(said("lab:mine", &["kill node 1 at 1s"]).is_empty());
    assert_eq!(said("lab:mine", &["kill primary at 1s"]).len(), 1);
}
