//! Tests with attached servers.

use plimsoll_core::{ColdStart, Durability, Outcome, StoreErrorKind, Value};
use plimsoll_store_http::kind;
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::opening::Opening;

use crate::fixture::{GET, LOOK, Server, kept, kinds, open};

#[test]
fn a_user_is_let_in_with_the_password_and_not_without() {
    let users = |place: &std::path::Path| std::fs::write(place.join("users"), "ada:{PLAIN}word-7\n").unwrap();
    let server = Server::listening("auth_basic closed; auth_basic_user_file users;", "", users);
    let url = |user: &str| format!("http://{user}127.0.0.1:{}", server.port);
    let mut store = open(&url("ada@"), Some("word-7")).unwrap();
    let description = store.describe().unwrap();
    assert!(!format!("{description:?}").contains("word-7") && !description.place.contains("ada"));
    let mut script = Script::new();
    script.op(LOOK, [Value::Text("/")]);
    assert_eq!(ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap()[0].outcome, Outcome::Ok);
    for (user, password) in [("ada@", None), ("ada@", Some("wrong"))] {
        let error = open(&url(user), password).err().unwrap();
        assert_eq!(error.kind, StoreErrorKind::Authentication, "{error:?}");
        assert!(!format!("{error:?}").contains("wrong") && error.next.is_some());
    }
    // Requests may say themselves who asks: these do not.
    let mut store = open(&url(""), None).unwrap();
    let error = ask(&mut *store, &kinds(), Durability::AtEnd, &script).err().unwrap();
    assert!(error.contains("asks for a user and a password"), "{error}");
}

#[test]
fn a_base_that_is_not_there_is_said_and_asked_all_the_same() {
    let server = Server::start("");
    let mut said = Vec::new();
    let missing = Opening::attached(kind, &format!("{}/missing", server.url()), None);
    let mut store = missing.open_saying(&mut said).unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("/missing answers 404 Not Found to GET"), "{said:?}");
    let mut script = Script::new();
    script.op(GET, [Value::Text("/")]);
    assert_eq!(ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap()[0].outcome, Outcome::Rejected);
}

#[test]
fn what_is_not_ours_is_neither_stopped_nor_filled() {
    let server = Server::start("");
    let mut store = open(&server.url(), None).unwrap();
    assert!(matches!(store.cold(), Ok(ColdStart::NotPossible(_))));
    assert_eq!(store.restart().unwrap_err().kind, StoreErrorKind::Usage);
    assert!(store.processes().is_empty());
    let port = plimsoll_testkit::process::free_port();
    let error = open(&format!("http://127.0.0.1:{port}"), None).err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
}

#[test]
fn sessions_with_several_hosts_go_on_at_the_next_one_after_a_loss_and_stay_after_an_ordinary_end() {
    let [first, second] = ["first", "second"].map(|name| {
        Server::listening("", "", |place| {
            let more = "location /gone { return 444; } location /once { keepalive_timeout 0; return 200; }\n";
            std::fs::write(place.join("more"), more).unwrap();
            std::fs::write(place.join("files/which"), name).unwrap();
        })
    });
    let asked = |url: &str, targets: &[&'static str]| {
        let mut store = open(url, None).unwrap();
        let mut script = Script::new();
        for target in targets {
            script.op(GET, [Value::Text(target)]);
        }
        let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
        let said = |answer| kept(answer).map(|(_, body)| String::from_utf8(body).unwrap()).unwrap_or_default();
        replies.iter().map(|reply| (reply.outcome, said(&reply.answer))).collect::<Vec<_>>()
    };
    let ok = |body: &str| (Outcome::Ok, body.to_owned());
    let both = format!("{},127.0.0.1:{}/", first.url(), second.port);
    assert_eq!(
        asked(&both, &["/which", "/once", "/which", "/gone", "/which"]),
        [ok("first"), ok(""), ok("first"), (Outcome::Unknown, String::new()), ok("second")]
    );
    let place = open(&both, None).unwrap().describe().unwrap().place;
    assert_eq!(place, format!("{}, {}", first.url(), second.url()));

    let dead = format!("http://127.0.0.1:{}", plimsoll_testkit::process::free_port());
    let one_alive = format!("{dead},127.0.0.1:{}", second.port);
    let mut said = Vec::new();
    let described = Opening::attached(kind, &one_alive, None).open_saying(&mut said).unwrap().describe().unwrap();
    let silent: Vec<_> = described.settings.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
    assert_eq!(silent, [("silent at the start", dead.as_str())]);
    assert_eq!(said, [format!("{dead} does not answer; sessions try it after the others")]);
    assert_eq!(asked(&one_alive, &["/which"]), [ok("second")]);
    let error = open(&format!("{dead},127.0.0.1:1"), None).err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert_eq!(open("http://a,,b", None).err().unwrap().kind, StoreErrorKind::Usage);
}
