//! TLS, against a server that speaks it.

use plimsoll_core::{Durability, Outcome, StoreErrorKind, Value};
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::certificates::Authority;

use crate::fixture::{GET, Server, kept, kinds, open};

#[test]
fn sessions_and_looks_speak_through_tls() {
    let authority = Authority::default();
    let pair = authority.sign("127.0.0.1");
    let words = format!("ssl_certificate {}; ssl_certificate_key {};", pair.certificate.display(), pair.key.display());
    let large = vec![b'x'; 300_000];
    let server = Server::listening(&words, "ssl", |place| std::fs::write(place.join("files/large"), &large).unwrap());
    let url = |query: &str| format!("https://127.0.0.1:{}/?{query}", server.port);
    for query in [format!("cacert={}", authority.root().display()), "insecure=yes".to_owned()] {
        let mut store = open(&url(&query), None).unwrap();
        assert!(store.describe().unwrap().version.starts_with("nginx/"));
        let mut script = Script::new();
        script.op(GET, [Value::Text("/large")]).op(GET, [Value::Text("/none")]);
        let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
        assert_eq!((replies[0].outcome, replies[1].outcome), (Outcome::Ok, Outcome::Rejected));
        assert_eq!(kept(&replies[0].answer), Some((200, large.clone())));
    }
    let untrusted = open(&url(""), None).err().unwrap();
    assert_eq!(untrusted.kind, StoreErrorKind::Authentication, "{untrusted:?}");
    // To a port of TLS nginx says in plain words that it is one.
    let plain = open(&server.url(), None).err().unwrap();
    assert_eq!(plain.kind, StoreErrorKind::Usage, "{plain:?}");
    assert!(plain.next.unwrap().contains("https"));
    // And TLS to a port of none.
    let server = Server::start("");
    let tls = open(&format!("https://127.0.0.1:{}", server.port), None).err().unwrap();
    assert!(!matches!(tls.kind, StoreErrorKind::Store), "{tls:?}");
}
