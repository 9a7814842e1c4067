//! Encrypted connections to real servers: what is checked, what is refused, and in which words.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use plimsoll_core::{StoreError, StoreErrorKind};
use plimsoll_lab::OpenStore;
use plimsoll_store_postgres::kind;
use plimsoll_testkit::certificates::Authority;
use plimsoll_testkit::opening::Opening;

use crate::fixture::{Server, SqlServer as _};

/// A login by certificate: files for this role, and the parameters that name them. The key has `mode`.
fn login_files(authority: &Authority, role: &str, mode: u32) -> String {
    let pair = authority.sign(role);
    fs::set_permissions(&pair.key, fs::Permissions::from_mode(mode)).expect("a mode");
    format!("sslcert={}&sslkey={}", pair.certificate.display(), pair.key.display())
}

/// A server, the authority of its certificate, and another one.
struct Encrypted {
    server: Server,
    ours: Authority,
    other: Authority,
}

#[test]
fn a_server_with_and_without_tls() {
    let (server, ours, other) = (Server::alone(), Authority::new("ours"), Authority::new("other"));
    server.lets_in(&format!("local all all trust\n{TRUST}"));
    let at = Encrypted { server, ours, other };
    plimsoll_testkit::steps!(
        with &at;
        a_server_without_tls_is_told_from_one_that_insists_on_it,
        each_sslmode_gets_what_it_asks_for,
        a_client_certificate_is_a_login,
        a_login_is_bound_to_its_connection_where_that_is_asked,
        the_first_host_that_will_do_is_taken,
        a_store_conforms_inside_tls,
    );
}

fn open(url: &str) -> Result<OpenStore, StoreError> {
    Opening::attached(kind, url, None).open()
}

fn opened(url: &str) -> String {
    let mut store = open(url).unwrap_or_else(|error| panic!("{url}: {error:?}"));
    store.describe().expect("described").place
}

fn refused(url: &str) -> StoreError {
    open(url).map(|_| ()).expect_err(url)
}

fn url(server: &Server, user: &str, parameters: &str) -> String {
    format!("postgres://{user}@127.0.0.1:{}/postgres?{parameters}", server.port)
}

const TRUST: &str = "host all all 127.0.0.1/32 trust\n";

fn each_sslmode_gets_what_it_asks_for(Encrypted { server, ours, other }: &Encrypted) {
    server.encrypt(ours, TRUST);
    let at = |parameters: &str| url(server, "postgres", parameters);
    let root = |authority: &Authority| format!("sslrootcert={}", authority.root().display());

    for parameters in ["", "sslmode=prefer", "sslmode=require"] {
        let place = opened(&at(parameters));
        assert!(place.contains(" over TLSv1_3 "), "{parameters}: {place}");
    }
    for parameters in ["sslmode=disable", "sslmode=allow"] {
        assert!(!opened(&at(parameters)).contains("TLS"), "{parameters}");
    }
    for mode in ["verify-ca", "verify-full"] {
        opened(&at(&format!("sslmode={mode}&{}", root(ours))));
        let error = refused(&at(&format!("sslmode={mode}&{}", root(other))));
        assert_eq!(error.kind, StoreErrorKind::Authentication);
        assert!(error.what.contains("not signed by an authority"), "{error}");
    }
    // As libpq: with a root certificate, certificates are checked; with `prefer` there is still a way without TLS.
    assert!(refused(&at(&format!("sslmode=require&{}", root(other)))).what.contains("not signed by an authority"));
    assert!(!opened(&at(&format!("sslmode=prefer&{}", root(other)))).contains("TLS"));

    let by_name = at(&format!("sslmode=verify-full&{}", root(ours))).replace("127.0.0.1", "localhost");
    let error = refused(&by_name);
    assert!(error.what.contains("is for another host"), "{error}");
    opened(&by_name.replace("verify-full", "verify-ca"));
    let system = refused(&at("sslrootcert=system"));
    assert!(system.what.contains("that this machine trusts"), "{system}");
}

fn a_server_without_tls_is_told_from_one_that_insists_on_it(Encrypted { server, ours, .. }: &Encrypted) {
    let error = refused(&url(server, "postgres", "sslmode=require"));
    assert_eq!(error.kind, StoreErrorKind::Usage);
    assert!(error.what.contains("does not speak TLS"), "{error}");
    assert!(error.next.is_some_and(|next| next.contains("ssl = on")));
    assert!(!opened(&url(server, "postgres", "sslmode=prefer")).contains("TLS"));
    let direct = refused(&url(server, "postgres", "sslmode=require&sslnegotiation=direct"));
    assert!(direct.next.as_ref().is_some_and(|next| next.contains("PostgreSQL 17")), "{direct:?}");

    server.encrypt(ours, "hostssl all all 127.0.0.1/32 trust\n");
    assert!(opened(&url(server, "postgres", "sslmode=allow")).contains("TLS"), "the second try");
    let error = refused(&url(server, "postgres", "sslmode=disable"));
    assert_eq!(error.kind, StoreErrorKind::Authentication);
    assert!(error.what.contains("without TLS"), "{error}");

    server.encrypt(ours, "hostnossl all all 127.0.0.1/32 trust\n");
    assert!(!opened(&url(server, "postgres", "sslmode=prefer")).contains("TLS"), "the second try");
    let error = refused(&url(server, "postgres", "sslmode=require"));
    assert_eq!(error.kind, StoreErrorKind::Authentication);
    assert!(error.detail.as_ref().is_some_and(|detail| detail.contains("28000")), "{error:?}");
}

fn a_client_certificate_is_a_login(Encrypted { server, ours, other }: &Encrypted) {
    server.encrypt(ours, "hostssl all postgres 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 trust\n");
    let at = |parameters: &str| url(server, "postgres", &format!("sslmode=require&{parameters}"));
    opened(&at(&login_files(ours, "postgres", 0o600)));

    let none = refused(&at(""));
    assert_eq!(none.kind, StoreErrorKind::Authentication);
    assert!(none.what.contains("wants a client certificate"), "{none}");
    let for_another = refused(&at(&login_files(ours, "somebody", 0o600)));
    assert_eq!(for_another.kind, StoreErrorKind::Authentication, "{for_another:?}");
    let strange = refused(&at(&login_files(other, "postgres", 0o600)));
    assert!(strange.what.contains("does not accept the client certificate"), "{strange:?}");
    let open_to_all = refused(&at(&login_files(ours, "careless", 0o644)));
    assert!(open_to_all.what.contains("others may read it"), "{open_to_all}");
}

fn a_login_is_bound_to_its_connection_where_that_is_asked(Encrypted { server, ours, .. }: &Encrypted) {
    server.encrypt(
        ours,
        "host all scram_user 127.0.0.1/32 scram-sha-256\nhost all md5_user 127.0.0.1/32 md5\n\
         host all clear_user 127.0.0.1/32 password\nhost all refused_user 127.0.0.1/32 reject\n\
         host all postgres 127.0.0.1/32 trust\n",
    );
    server
        .control()
        .simple(
            "SET password_encryption = 'md5'; CREATE ROLE md5_user LOGIN PASSWORD 'word';
             SET password_encryption = 'scram-sha-256'; CREATE ROLE scram_user LOGIN PASSWORD 'word';
             CREATE ROLE clear_user LOGIN PASSWORD 'word'; CREATE ROLE refused_user LOGIN PASSWORD 'word'",
        )
        .expect("roles");
    let at = |user: &str, parameters: &str| url(server, &format!("{user}:word"), parameters);
    for user in ["scram_user", "md5_user", "clear_user"] {
        for parameters in ["sslmode=disable", "sslmode=require", "sslmode=require&channel_binding=disable"] {
            opened(&at(user, parameters));
        }
        let wrong = refused(&at(user, "").replace(":word", ":wrong-word"));
        assert_eq!(wrong.kind, StoreErrorKind::Authentication);
        assert!(wrong.detail.as_ref().is_some_and(|detail| detail.starts_with("28P01")), "{wrong:?}");
        assert!(!wrong.to_string().contains("before that"), "a wrong password is not tried in the open: {wrong}");
        assert!(!format!("{wrong:?}").contains("wrong-word"));
    }
    opened(&at("scram_user", "sslmode=require&channel_binding=require"));
    for (user, parameters, words) in [
        ("scram_user", "sslmode=disable&channel_binding=require", "no TLS"),
        ("md5_user", "sslmode=require&channel_binding=require", "by a method without"),
        ("clear_user", "sslmode=require&channel_binding=require", "by a method without"),
        ("postgres", "sslmode=require&channel_binding=require", "let us in without"),
    ] {
        let error = refused(&at(user, parameters));
        assert_eq!(error.kind, StoreErrorKind::Authentication, "{error:?}");
        assert!(error.what.contains(words), "{user}: {error}");
    }
    let refused = refused(&at("refused_user", ""));
    assert_eq!(refused.kind, StoreErrorKind::Authentication);
}

fn the_first_host_that_will_do_is_taken(Encrypted { server, ours, .. }: &Encrypted) {
    server.encrypt(ours, TRUST);
    let nobody = plimsoll_testkit::process::free_port();
    let two = |parameters: &str| {
        format!("postgres://postgres@127.0.0.1:{nobody},127.0.0.1:{}/postgres?{parameters}", server.port)
    };
    let taken = opened(&two("target_session_attrs=read-write"));
    assert!(taken.starts_with(&format!("postgres://127.0.0.1:{}/postgres", server.port)), "{taken}");
    for wanted in ["any", "primary", "prefer-standby"] {
        opened(&two(&format!("target_session_attrs={wanted}")));
    }
    for wanted in ["standby", "read-only"] {
        let error = refused(&two(&format!("target_session_attrs={wanted}")));
        assert!(error.what.contains("none of the 2 hosts"), "{error}");
        let detail = error.detail.expect("what is wrong with each");
        assert!(detail.contains("cannot connect to") && detail.contains("is not a"), "{detail}");
    }
    // No host is asked after a server that refuses.
    let error = refused(&two("").replace("/postgres?", "/nowhere?"));
    assert!(error.what.contains("no database `nowhere`"), "{error}");
}

fn a_store_conforms_inside_tls(Encrypted { server, ours, .. }: &Encrypted) {
    server.encrypt(ours, TRUST);
    let parameters = format!("sslmode=verify-full&sslrootcert={}", ours.root().display());
    plimsoll_testkit::conformance::run_attached(&*kind(), &url(server, "postgres", &parameters), None);
}
