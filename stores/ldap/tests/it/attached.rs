//! Attached servers.

use plimsoll_core::{Call, Durability, Layout, LdapCall, LdapScope, OpKind, Outcome, StoreErrorKind, Value};
use plimsoll_testkit::advice::{follow, of_error};
use plimsoll_testkit::ask::{Script, ask};

use crate::fixture::{ADD, ADMIN, BASE, DELETE, LOOK, PASSWORD, Server, attach, kinds, open};

#[test]
fn nothing_is_added_without_a_load_and_everything_goes_with_the_store() {
    let server = Server::start("");
    let mut store = open(&server.url(), Some(PASSWORD), "ask").unwrap();
    let description = store.describe().unwrap();
    assert!(
        !format!("{description:?}").contains(PASSWORD) && description.version.contains("OpenLDAP 2."),
        "{description:?}"
    );
    assert_eq!(store.cache_bytes().unwrap(), None, "which database it has is not asked");
    assert!(store.probes().is_empty());
    let mut script = Script::new();
    script.op(LOOK, [Value::Int(1)]).op(ADD, [Value::Int(1), Value::Int(1)]).op(LOOK, [Value::Int(1)]);
    let replies = ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
    let outcomes: Vec<_> = replies.iter().map(|reply| reply.outcome).collect();
    assert_eq!(outcomes, [Outcome::NotFound, Outcome::Ok, Outcome::Ok]);
    assert_eq!(server.entries(), [BASE.to_owned(), format!("uid=1,{BASE}")]);
    store.create(&Layout::default()).unwrap();
    let how = store.load_at_once(&kinds(), Durability::AtEnd, &mut |_| panic!("an attached server is not stopped"));
    assert_eq!(how.unwrap(), None);
    let replies = ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
    assert_eq!(replies[1].outcome, Outcome::Ok);
    let ours = server.entries();
    assert!(ours.contains(&format!("ou=People,ou=plimsoll-test-1,{BASE}")), "{ours:?}");
    assert!(ours.contains(&format!("uid=1,ou=plimsoll-test-1,{BASE}")), "{ours:?}");
    store.close().unwrap();
    assert_eq!(server.entries(), [BASE.to_owned(), format!("uid=1,{BASE}")]);
}

#[test]
fn what_another_run_left_is_named() {
    let server = Server::prepared(|_| "allow update_anon".to_owned(), "access to * by * write");
    let attached = |run_id: &str| attach(&server.anonymous(), None, "yes").run(run_id);
    for run_id in ["20260102-030405-dead", "results"] {
        let mut store = attached(run_id).open().unwrap();
        store.create(&Layout::default()).unwrap();
        // As runs that were killed leave it.
        std::mem::forget(store);
    }
    let said = attached("next").messages();
    let unit = format!("ou=plimsoll-20260102-030405-dead,{BASE}");
    assert!(said[0].starts_with(&format!("{unit} of another run is still there; if that run has ended, ")), "{said:?}");
    let command = follow(&said, &[]);
    assert_eq!(command, format!("ldapdelete -H ldap://127.0.0.1:{} -x -r {unit}", server.port));
    assert_eq!(server.entries().len(), 3, "the base and the entries that bear no run's name");
    assert_eq!(attached("next").messages(), [""; 0]);
}

#[test]
fn what_cannot_be_deleted_is_named_with_the_command_for_its_server() {
    let mut server = Server::start("");
    let mut store = open(&server.url(), Some(PASSWORD), "ask").unwrap();
    store.create(&Layout::default()).unwrap();
    server.kill();
    let error = store.close().unwrap_err();
    let unit = format!("ou=plimsoll-test-1,{BASE}");
    let wanted = format!("ldapdelete -H ldap://127.0.0.1:{} -x -D {ADMIN} -W -r {unit}", server.port);
    assert_eq!(of_error(&error), wanted);
}

#[test]
fn a_server_of_many_entries_that_shows_few_at_a_time_is_cleared() {
    let server = Server::prepared(|_| "allow update_anon\nsizelimit 7".to_owned(), "access to * by * write");
    let mut store = open(&server.anonymous(), None, "yes").unwrap();
    store.create(&Layout::default()).unwrap();
    let mut script = Script::new();
    for number in 0..40 {
        script.op(ADD, [Value::Int(number), Value::Int(number)]);
    }
    ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
    store.close().unwrap();
    assert_eq!(server.entries(), [BASE]);
}

#[test]
fn whoever_may_not_in_is_told_why() {
    let server = Server::start("");
    let url = |user: &str| format!("ldap://{user}127.0.0.1:{}/{BASE}", server.port);
    for (user, password) in [(format!("{ADMIN}@"), "wrong"), ("cn=nobody,dc=example,dc=com@".to_owned(), "wrong")] {
        let error = open(&url(&user), Some(password), "ask").err().unwrap();
        assert_eq!(error.kind, StoreErrorKind::Authentication, "{error:?}");
        assert!(error.detail.as_deref().unwrap().contains("invalidCredentials (49)"), "{error:?}");
        assert!(!format!("{error:?}").contains("wrong") && error.next.is_some());
    }
    let strict = Server::prepared(|_| "disallow bind_anon".to_owned(), "");
    let error = open(&strict.anonymous(), None, "ask").err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Authentication, "{error:?}");
    let error = open(&format!("{}?auth=external", strict.anonymous()), None, "ask").err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Authentication, "{error:?}");
}

#[test]
fn what_writes_is_refused_where_nobody_says_how_durable_it_is() {
    let mut server = Server::prepared(|_| "allow update_anon".to_owned(), "access to * by * write");
    let anonymous = |syncs: &str, kind: u16| {
        let mut store = open(&server.anonymous(), None, syncs).unwrap();
        let mut script = Script::new();
        script.op(0, [Value::Int(1), Value::Int(1)]);
        ask(&mut *store, &[kinds()[usize::from(kind)].clone()], Durability::Durable, &script)
    };
    assert!(anonymous("ask", DELETE).unwrap_err().contains("does not say whether it syncs"));
    assert_eq!(anonymous("ask", LOOK).unwrap()[0].outcome, Outcome::NotFound);
    assert_eq!(anonymous("yes", DELETE).unwrap()[0].outcome, Outcome::NotFound);
    assert!(anonymous("no", DELETE).unwrap_err().contains("not durable"));
    let lazy = Server::prepared(|_| String::new(), "dbnosync");
    let mut store = open(&lazy.url(), Some(PASSWORD), "ask").unwrap();
    assert_eq!(store.sessions(1, Durability::Durable).err().unwrap().kind, StoreErrorKind::Usage);
    store.sessions(1, Durability::Buffered).unwrap();
    store.close().unwrap();
    // The server is gone.
    server.kill();
    let error = open(&server.anonymous(), None, "ask").err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert!(error.next.is_some());
}

#[test]
fn bad_names_and_filters_are_refused_before_anything_is_asked() {
    let server = Server::start("");
    let mut store = open(&server.url(), Some(PASSWORD), "ask").unwrap();
    for (base, filter, words) in [("people", "(a=b)", "not a DN"), ("ou=People", "(a=b", "not a filter")] {
        let (base, filter, attributes) = (base.into(), filter.into(), Vec::new());
        let call = LdapCall::Search { base, scope: LdapScope::Sub, filter, attributes };
        let kind = OpKind::new("search", Call::Ldap(call), &[]);
        let mut script = Script::new();
        script.op(0, []);
        let error = ask(&mut *store, &[kind], Durability::Durable, &script).unwrap_err();
        assert!(error.contains("operation `search`") && error.contains(words), "{error}");
    }
}

#[test]
fn the_base_is_asked_for_where_the_url_has_none() {
    let server = Server::start("");
    let store = open(&format!("ldap://{ADMIN}@127.0.0.1:{}", server.port), Some(PASSWORD), "ask").unwrap();
    store.close().unwrap();
}

#[test]
fn with_several_hosts_sessions_and_preparations_go_to_the_next_one_when_the_first_is_gone() {
    let (mut first, second) = (Server::start(""), Server::start(""));
    let url = format!("ldap://{ADMIN}@127.0.0.1:{},127.0.0.1:{}/{BASE}", first.port, second.port);
    let mut store = open(&url, Some(PASSWORD), "ask").unwrap();
    let place = store.describe().unwrap().place;
    assert_eq!(place, format!("ldap://127.0.0.1:{}/{BASE}, ldap://127.0.0.1:{}/{BASE}", first.port, second.port));
    let mut script = Script::new();
    script.op(ADD, [Value::Int(1), Value::Int(1)]).op(LOOK, [Value::Int(1)]);
    let mut outcomes = || {
        let replies = ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
        replies.iter().map(|reply| reply.outcome).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(), [Outcome::Ok, Outcome::Ok]);
    assert_eq!(first.entries().len(), 2, "the first session goes to the first host");
    first.kill();
    assert_eq!(outcomes(), [Outcome::Ok, Outcome::Ok]);
    assert_eq!(second.entries().len(), 2);
}
