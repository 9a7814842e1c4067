//! TLS, against a server that speaks it.

use plimsoll_core::{Durability, Layout, Outcome, StoreErrorKind, Value};
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::certificates::Authority;

use crate::fixture::{GET, PUT, Server, kinds, open};

#[test]
fn a_session_and_the_control_plane_speak_through_tls() {
    let authority = Authority::default();
    let pair = authority.sign("127.0.0.1");
    let shown = |path: &std::path::Path| path.display().to_string();
    let port = plimsoll_testkit::process::free_port();
    let (ca, cert, key) = (shown(&authority.root()), shown(&pair.certificate), shown(&pair.key));
    let options = format!(
        "--bind 127.0.0.1 --tls-port {port} --tls-cert-file {cert} --tls-key-file {key} --tls-ca-cert-file {ca}"
    );
    let _server = Server::start(&options.split(' ').collect::<Vec<_>>());
    // It asks for a certificate of the client's too.
    let own = format!("cert={cert}&key={key}");
    let url = |query: &str| format!("rediss://127.0.0.1:{port}/?{query}");
    for query in [format!("cacert={ca}&{own}"), format!("insecure=yes&{own}")] {
        let mut store = open(&url(&query), &[], None).unwrap();
        store.create(&Layout::default()).unwrap();
        let mut script = Script::new();
        // Longer than a record of TLS.
        script.op(PUT, [Value::Bytes(b"k"), Value::Bytes(&[b'v'; 100_000])]).op(GET, [Value::Bytes(b"k")]);
        let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
        assert_eq!((replies[0].outcome, replies[1].outcome), (Outcome::Ok, Outcome::Ok));
        assert_eq!(replies[1].answer.values.values().get(0), Value::Bytes(&[b'v'; 100_000]));
        store.close().unwrap();
    }
    let untrusted = open(&url(&own), &[], None).err().unwrap();
    assert_eq!(untrusted.kind, StoreErrorKind::Authentication, "{untrusted:?}");
    let no_file = open(&url("cacert=/nonexistent/ca"), &[], None).err().unwrap();
    assert!(no_file.to_string().contains("cacert: /nonexistent/ca"), "{no_file}");
    let plain = open(&format!("redis://127.0.0.1:{port}"), &[], None).err().unwrap();
    assert!(matches!(plain.kind, StoreErrorKind::Unreachable | StoreErrorKind::Broken), "{plain:?}");
}
