//! TLS, against a server that speaks it.

use plimsoll_core::{Durability, Outcome, ParamValue, StoreErrorKind, Value};
use plimsoll_drive::Pace;
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::certificates::Authority;

use crate::closing::driven_in;
use crate::fixture::{GET, Server, kinds, open, open_with};

#[test]
fn a_certificate_is_trusted_or_not_and_tls_is_told_from_none() {
    let authority = Authority::default();
    let pair = authority.sign("127.0.0.1");
    let words = format!("ssl_certificate {}; ssl_certificate_key {};", pair.certificate.display(), pair.key.display());
    let server = Server::listening(&words, "ssl", |_| {});
    let url = format!("https://127.0.0.1:{}", server.port);
    let mut store = open_with(&url, None, &[("insecure", ParamValue::Bool(true))]).unwrap();
    assert!(store.describe().unwrap().version.starts_with("nginx/"));
    // What is counted of answers is counted through TLS.
    let answers = driven_in(&mut store, 1, Pace::Closed).answers.unwrap();
    assert_eq!(
        (answers.statuses(), answers.bytes_median(), answers.bytes_max()),
        (vec![(200, 8_000)], Some(612), Some(612))
    );
    let untrusted = open(&url, None).err().unwrap();
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

#[test]
fn our_certificate_is_shown_and_the_host_is_named() {
    let authority = Authority::new("clients");
    let (pair, ours) = (authority.sign("localhost"), authority.sign("ada"));
    let words = format!(
        "ssl_certificate {}; ssl_certificate_key {}; ssl_client_certificate {}; ssl_verify_client on;\n\
         log_format said '$ssl_server_name $ssl_client_s_dn $status'; access_log access.log said;",
        pair.certificate.display(),
        pair.key.display(),
        authority.root().display()
    );
    let server = Server::listening(&words, "ssl", |_| {});
    let text = |path: &std::path::Path| ParamValue::Text(path.display().to_string());
    let trust = ("cacert", text(&authority.root()));
    let shown = [trust.clone(), ("cert", text(&ours.certificate)), ("key", text(&ours.key))];
    let url = format!("https://localhost:{}", server.port);
    let mut store = open_with(&url, None, &shown).unwrap();
    let mut script = Script::new();
    script.op(GET, [Value::Text("/")]);
    let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
    assert_eq!(replies[0].outcome, Outcome::Ok);
    let said = server.accesses();
    assert!(!said.is_empty() && said.iter().all(|line| line.starts_with("localhost CN=ada")), "{said:?}");
    // Without ours nginx answers 400.
    assert!(open_with(&url, None, &[trust]).is_err());
}
