//! Each failure is one error that says what is wrong.

use plimsoll_core::{StoreError, StoreErrorKind};
use plimsoll_tls::{ClientCertificate, FileNames, Roots, TlsClient, TlsOptions, Verify};
use rcgen::{CertificateParams, date_time_ymd};

use crate::fixture::{Authority, Pair, Talk, server};

fn options(authority: &Authority) -> TlsOptions {
    TlsOptions { roots: Roots::File(authority.root()), ..TlsOptions::default() }
}

fn refused(options: &TlsOptions, host: &str, pair: &Pair, clients: Option<&Authority>) -> StoreError {
    let mut talk = Talk::new(options, host, server(pair, clients, |_| {}), 4096);
    talk.run().expect_err("it must not pass")
}

#[test]
fn what_is_wrong_with_a_servers_certificate_is_said() {
    let (ours, other) = (Authority::default(), Authority::default());
    let dated = |from, to| {
        ours.sign_changed("db.example", |params: &mut CertificateParams| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
        })
    };
    let good = ours.sign("db.example");
    let unknown = refused(&options(&other), "db.example", &good, None);
    assert!(unknown.what.contains(other.root().to_str().unwrap()), "it names the file: {unknown}");
    for (error, words, detail) in [
        (refused(&options(&other), "db.example", &good, None), "not signed by an authority", ""),
        (refused(&options(&ours), "other.example", &good, None), "for another host", "db.example"),
        (refused(&options(&ours), "db.example", &dated(2001, 2002), None), "has expired", " days ago"),
        (refused(&options(&ours), "db.example", &dated(2901, 2902), None), "not valid yet", " days"),
    ] {
        assert_eq!(error.kind, StoreErrorKind::Authentication, "{error:?}");
        assert!(error.what.contains(words) && error.what.contains("test://server"), "{error}");
        assert!(error.detail.as_deref().unwrap_or_default().contains(detail), "{error}");
        assert!(error.next.is_some(), "{error:?}");
    }
}

#[test]
fn a_root_that_is_not_valid_now_signs_nothing() {
    let now = Authority::default();
    for (from, until) in [(2001, 2002), (2901, 2902)] {
        let other = Authority::dated("authority", from, until);
        let pair = other.sign("db.example");
        let error = refused(&options(&other), "db.example", &pair, None);
        assert_eq!(error.kind, StoreErrorKind::Authentication, "{error:?}");
        assert!(error.what.contains("root certificate") && error.what.contains("is not valid now"), "{error}");
        assert!(error.next.is_some(), "{error:?}");
        // A file with both trusts the other.
        let both = now.dir().join("both.crt");
        let texts = [now.root(), other.root()].map(|file| std::fs::read_to_string(file).unwrap());
        std::fs::write(&both, texts.concat()).unwrap();
        let options = TlsOptions { roots: Roots::File(both), ..TlsOptions::default() };
        let server = server(&now.sign("db.example"), None, |_| {});
        Talk::new(&options, "db.example", server, 4096).run().expect("its root is valid");
        // Without verification dates do not count.
        let unverified = TlsOptions { verify: Verify::None, ..TlsOptions::default() };
        let server = crate::fixture::server(&pair, None, |_| {});
        Talk::new(&unverified, "db.example", server, 4096).run().expect("nothing is verified");
    }
}

#[test]
fn a_server_that_wants_a_certificate_says_so() {
    let (ours, other) = (Authority::default(), Authority::default());
    let pair = ours.sign("db.example");
    let none = refused(&options(&ours), "db.example", &pair, Some(&ours));
    assert!(none.what.contains("wants a client certificate"), "{none}");
    let strange = other.sign("me");
    let shown = Some(ClientCertificate { certificate: strange.certificate, key: strange.key });
    let strange = refused(&TlsOptions { certificate: shown, ..options(&ours) }, "db.example", &pair, Some(&ours));
    assert!(strange.what.contains("does not accept the client certificate"), "{strange}");
    assert_eq!(strange.kind, StoreErrorKind::Authentication);
}

#[test]
fn a_server_without_tls_or_of_another_protocol_is_told() {
    let authority = Authority::default();
    let client = TlsClient::new(&options(&authority)).unwrap();
    for words in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"-ERR unknown command\r\n", &[0; 90]] {
        let mut out = Vec::new();
        let mut tls = client.connect("db.example", "test://server").unwrap().begin(Vec::new(), &mut out);
        let error = tls.decrypt(words, &mut out).expect_err("no TLS");
        assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
        assert!(error.what.contains("does not speak TLS"), "{error}");
        assert!(tls.decrypt(b"more", &mut out).is_err(), "it stays so");
    }
    let pair = authority.sign("db.example");
    let web = server(&pair, None, |config| config.alpn_protocols = vec![b"h2".to_vec()]);
    let offering = TlsOptions { protocols: vec!["postgresql"], ..options(&authority) };
    let error = Talk::new(&offering, "db.example", web, 4096).run().expect_err("another protocol");
    assert!(error.what.contains("not this protocol"), "{error}");
}

#[test]
fn files_that_will_not_do_are_named() {
    let authority = Authority::default();
    let (mine, other) = (authority.sign("me"), authority.sign("other"));
    let file = |name: &str, text: &str| {
        let path = authority.dir().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let garbage = file("garbage", "-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n");
    let not_der = file("notder", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let encrypted =
        file("encrypted", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let roots = |path| TlsOptions { roots: Roots::File(path), ..TlsOptions::default() };
    let shown = |certificate, key| TlsOptions {
        verify: Verify::None,
        certificate: Some(ClientCertificate { certificate, key }),
        ..TlsOptions::default()
    };
    for (options, given, path, words) in [
        (roots("/nowhere/root.crt".into()), "cacert", "/nowhere/root.crt", "cannot be read"),
        (roots(mine.key.clone()), "cacert", "me.key", "holds no certificate"),
        (roots(garbage), "cacert", "garbage", "is no PEM file"),
        (roots(not_der), "cacert", "notder", "something other than root certificates"),
        (shown("/nowhere/me.crt".into(), mine.key.clone()), "cert", "/nowhere/me.crt", "cannot be read"),
        (shown(mine.certificate.clone(), other.key), "cert, key", "other.key", "do not match"),
        (shown(mine.certificate.clone(), mine.certificate.clone()), "key", "me.crt", "no private key"),
        (shown(mine.certificate, encrypted), "key", "encrypted", "is encrypted"),
    ] {
        let error = TlsClient::new(&options).expect_err(words);
        assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
        assert!(error.what.starts_with(&format!("{given}: ")), "{error}");
        assert!(error.what.contains(path) && error.what.contains(words), "{error}");
    }
    // By the names that the user knows.
    let names = FileNames { roots: "ssl-ca", ..FileNames::default() };
    let error = TlsClient::new(&TlsOptions { names, ..roots("/nowhere/root.crt".into()) }).expect_err("no file");
    assert_eq!(error.what, "ssl-ca: /nowhere/root.crt cannot be read");
    let full = TlsClient::new(&options(&authority)).unwrap();
    assert!(full.connect("not a host", "p").is_err_and(|error| error.what.contains("not a host")));
}
