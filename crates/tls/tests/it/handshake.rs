//! Tests that data arrives complete.

use plimsoll_tls::{ClientCertificate, Roots, TlsOptions, Verify};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::fixture::{Authority, Talk, server, server_of};

fn trusting(authority: &Authority, verify: Verify) -> TlsOptions {
    TlsOptions { verify, roots: Roots::File(authority.root()), ..TlsOptions::default() }
}

#[test]
fn bytes_come_through_whole_however_they_are_cut_and_before_the_handshake_is_over() {
    let authority = Authority::default();
    let pair = authority.sign("db.example");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for piece in [1, 7, 4096, usize::MAX] {
            let server = server_of(&pair, None, &[version], |_| {});
            let mut talk = Talk::new(&trusting(&authority, Verify::Full), "db.example", server, piece);
            assert!(talk.tls.is_handshaking());
            let said: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
            talk.send(&said[..10]);
            talk.send(&said[10..]);
            talk.run().expect("all is well");
            assert!(!talk.tls.is_handshaking());
            assert!(talk.understood == said, "{version:?} {piece}");
            assert!(talk.plain == said, "{version:?} {piece}");
            talk.plain.clear();
            talk.send(b"again");
            talk.run().expect("all is well");
            assert_eq!(talk.plain, b"again");
            let agreed = talk.tls.agreed().expect("agreed");
            assert!(agreed.starts_with("TLSv1_"), "{agreed}");
        }
    }
}

#[test]
fn each_verification_looks_at_what_it_promises() {
    let (ours, other) = (Authority::default(), Authority::default());
    let pair = ours.sign("db.example");
    for (verify, roots, host, passes) in [
        (Verify::Full, &ours, "db.example", true),
        (Verify::Full, &ours, "DB.example.", true),
        (Verify::Full, &ours, "other.example", false),
        (Verify::Full, &other, "db.example", false),
        (Verify::Ca, &ours, "other.example", true),
        (Verify::Ca, &ours, "127.0.0.1", true),
        (Verify::Ca, &ours, "/run/socket", true),
        (Verify::Ca, &other, "db.example", false),
        (Verify::None, &other, "other.example", true),
    ] {
        let mut talk = Talk::new(&trusting(roots, verify), host, server(&pair, None, |_| {}), 4096);
        assert_eq!(talk.run().is_ok(), passes, "{verify:?} {host}");
    }
    let pair = ours.sign("127.0.0.1");
    let mut talk = Talk::new(&trusting(&ours, Verify::Full), "127.0.0.1", server(&pair, None, |_| {}), 4096);
    talk.run().expect("an address is a name too");
}

#[test]
fn a_self_signed_certificate_is_its_own_root_whether_it_calls_itself_an_authority_or_not() {
    let home = Authority::default();
    for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["db.example".to_owned()]).expect("a name");
        params.is_ca = is_ca;
        let pair = home.write("self", &params.self_signed(&key).expect("signed").pem(), &key);
        let own = TlsOptions { roots: Roots::File(pair.certificate.clone()), ..TlsOptions::default() };
        Talk::new(&own, "db.example", server(&pair, None, |_| {}), 4096).run().expect("it is in the file");
        let mut other_host = Talk::new(&own, "other.example", server(&pair, None, |_| {}), 4096);
        assert!(other_host.run().unwrap_err().what.contains("another host"));
        let mut stranger = Talk::new(&trusting(&home, Verify::Ca), "db.example", server(&pair, None, |_| {}), 4096);
        assert!(stranger.run().is_err());
    }
}

#[test]
fn a_client_certificate_opens_the_door() {
    let authority = Authority::default();
    let pair = authority.sign("db.example");
    let own = authority.sign("me");
    let options = TlsOptions {
        certificate: Some(ClientCertificate { certificate: own.certificate, key: own.key }),
        protocols: vec!["postgresql"],
        ..trusting(&authority, Verify::Full)
    };
    let server = server(&pair, Some(&authority), |config| config.alpn_protocols = vec![b"postgresql".to_vec()]);
    let mut talk = Talk::new(&options, "db.example", server, 4096);
    talk.run().expect("it is let in");
    assert!(talk.server.peer_certificates().is_some_and(|shown| shown.len() == 1));
    assert_eq!(talk.tls.protocol(), Some(&b"postgresql"[..]));
    assert_eq!(talk.tls.server_end_point().map(|hash| hash.len()), Some(32));
}
