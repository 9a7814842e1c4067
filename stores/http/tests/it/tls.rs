//! TLS, against a server that speaks it.

use std::path::Path;

use plimsoll_core::{Durability, Outcome, StoreErrorKind, Value};
use plimsoll_testkit::ask::{Script, ask};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::fixture::{GET, Server, kept, kinds, open};

/// Writes an authority, and a certificate and key that it signed for `host`, into `dir`.
fn certificates(dir: &Path, host: &str) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL takes a certificate whose issuer has its own name for one that signed itself.
    params.distinguished_name.push(DnType::CommonName, "authority");
    std::fs::write(dir.join("ca"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    std::fs::write(dir.join("cert"), signed.pem()).unwrap();
    std::fs::write(dir.join("key"), key.serialize_pem()).unwrap();
}

#[test]
fn sessions_and_looks_speak_through_tls() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), "127.0.0.1");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let words = format!("ssl_certificate {}; ssl_certificate_key {};", file("cert"), file("key"));
    let large = vec![b'x'; 300_000];
    let server = Server::listening(&words, "ssl", |place| std::fs::write(place.join("files/large"), &large).unwrap());
    let url = |query: &str| format!("https://127.0.0.1:{}/?{query}", server.port);
    for query in [format!("cacert={}", file("ca")), "insecure=yes".to_owned()] {
        let mut store = open(&url(&query), None).unwrap();
        assert!(store.describe().unwrap().version.starts_with("nginx/"));
        let mut script = Script::new();
        script.op(GET, [Value::Text("/large")]).op(GET, [Value::Text("/none")]);
        let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
        assert_eq!((replies[0].outcome, replies[1].outcome), (Outcome::Ok, Outcome::NotFound));
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
