//! TLS, against a server that speaks it.

use plimsoll_core::{Durability, Layout, Outcome, StoreErrorKind, Value};
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::certificates::Authority;

use crate::fixture::{ADD, ADMIN, BASE, PASSWORD, SEARCH, Server, kinds, open};

/// A server with TLS, and whom to trust.
fn with_tls() -> (Server, Authority) {
    let authority = Authority::default();
    let pair = authority.sign("127.0.0.1");
    let lines = format!(
        "TLSCACertificateFile {}\nTLSCertificateFile {}\nTLSCertificateKeyFile {}",
        authority.root().display(),
        pair.certificate.display(),
        pair.key.display()
    );
    (Server::prepared(|_| lines, ""), authority)
}

#[test]
fn sessions_and_the_control_plane_speak_through_tls() {
    let (server, authority) = with_tls();
    let ca = authority.root().display().to_string();
    for url in [
        format!("ldaps://{ADMIN}@127.0.0.1:{}/{BASE}?cacert={ca}", server.tls_port),
        format!("ldaps://{ADMIN}@127.0.0.1:{}/{BASE}?insecure=yes", server.tls_port),
        format!("{}?starttls=yes&cacert={ca}", server.url()),
        format!("{}?starttls=yes&insecure=yes", server.url()),
    ] {
        let mut store = open(&url, Some(PASSWORD), "ask").unwrap_or_else(|error| panic!("{url}: {error:?}"));
        store.create(&Layout::default()).unwrap();
        let mut script = Script::new();
        script.op(ADD, [Value::Int(1), Value::Int(1)]).op(SEARCH, [Value::Int(1)]).op(SEARCH, [Value::Int(2)]);
        let replies = ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
        let outcomes: Vec<_> = replies.iter().map(|reply| reply.outcome).collect();
        assert_eq!(outcomes, [Outcome::Ok, Outcome::Ok, Outcome::NotFound], "{url}");
        store.close().unwrap();
    }
    for url in [format!("ldaps://127.0.0.1:{}/{BASE}", server.tls_port), format!("{}?starttls=yes", server.anonymous())]
    {
        let untrusted = open(&url, None, "ask").err().unwrap();
        assert_eq!(untrusted.kind, StoreErrorKind::Authentication, "{untrusted:?}");
    }
}

#[test]
fn a_server_without_tls_says_so_and_one_that_wants_it_too() {
    let server = Server::start("");
    let error = open(&format!("{}?starttls=yes&insecure=yes", server.anonymous()), None, "ask").err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
    assert!(error.what.contains("StartTLS") && error.detail.is_some() && error.next.unwrap().contains("ldaps://"));
    let error = open(&format!("ldaps://127.0.0.1:{}/{BASE}", server.port), None, "ask").err().unwrap();
    assert!(!matches!(error.kind, StoreErrorKind::Store), "{error:?}");
    let strict = Server::start("");
    let call = plimsoll_core::LdapCall::Modify {
        dn: "cn=config".to_owned(),
        changes: vec![plimsoll_core::LdapChange {
            how: plimsoll_core::LdapChangeKind::Replace,
            attribute: "olcSecurity".to_owned(),
            value: Some("simple_bind=128".to_owned()),
        }],
    };
    strict.control().must(&call, "demand TLS").unwrap();
    let error = open(&strict.url(), Some(PASSWORD), "ask").err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Authentication, "{error:?}");
    assert!(error.what.contains("without TLS") && !format!("{error:?}").contains(PASSWORD), "{error:?}");
}
