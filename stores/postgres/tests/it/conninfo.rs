//! Connection parameters of a URL, the environment and the files of libpq.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use plimsoll_core::{Address, Password, StoreError, StoreErrorKind};
use plimsoll_store_postgres::conninfo::{ConnInfo, Environment, Host, Wanted, resolve};
use plimsoll_store_postgres::wire::TlsEnd;

fn resolve_with(url: &str, vars: &[(&str, &str)]) -> Result<ConnInfo, StoreError> {
    let vars: BTreeMap<&str, &str> = vars.iter().copied().collect();
    let var = |name: &str| vars.get(name).map(|value| (*value).to_owned());
    resolve(url, None, &Environment { var: &var, user: Some("somebody".into()) })
}

pub fn found(url: &str, vars: &[(&str, &str)]) -> Host {
    let info = resolve_with(url, vars).unwrap_or_else(|error| panic!("{url}: {error}"));
    let [host] = <[Host; 1]>::try_from(info.hosts).expect("one host");
    host
}

/// Checks the password that would be sent: no interface shows it, so a server that wants one has to be asked.
fn password_is(info: &Host, expected: &str) -> bool {
    let mut out = Vec::new();
    let login = std::sync::Arc::new(info.login.clone());
    let mut session = plimsoll_store_postgres::wire::PgSession::new(login, std::sync::Arc::default(), "");
    use plimsoll_core::{Answer, CompletionSink, Outcome, Ticket, WireSession};
    struct Nobody;
    impl CompletionSink for Nobody {
        fn push(&mut self, _: Ticket, _: Outcome, _: &Answer) {}
    }
    session.open(&[], &mut out);
    out.clear();
    session.feed(b"R\0\0\0\x08\0\0\0\x03", &mut out, &mut Nobody);
    out.len() > 6 && &out[5..out.len() - 1] == expected.as_bytes()
}

pub fn write(path: &Path, text: &str, mode: u32) -> String {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    path.to_str().expect("a path").to_owned()
}

#[test]
fn a_url_says_it_all() {
    let info = found(
        "postgres://me%40home@db.example:6000/my%20db?application_name=trial&connect_timeout=3&options=-c%20geqo%3Doff",
        &[],
    );
    assert_eq!(info.address, Address::Tcp("db.example".into(), 6000));
    assert_eq!((info.login.user.as_str(), info.login.database.as_str()), ("me@home", "my db"));
    assert_eq!((info.login.application_name.as_str(), info.login.options.as_deref()), ("trial", Some("-c geqo=off")));
    let timeout = |url: &str| resolve_with(url, &[]).expect("resolved").connect_timeout;
    assert_eq!(timeout("postgres://h/?connect_timeout=3"), Some(Duration::from_secs(3)));
    assert_eq!(timeout("postgres://h/?connect_timeout=0"), None);
    assert_eq!(info.login.place, "postgres://db.example:6000/my db", "it names no user");

    let six = found("postgresql://[::1]/db", &[]);
    assert_eq!(six.address, Address::Tcp("::1".into(), 5432));
    assert_eq!(six.login.user, "somebody");
    assert_eq!(found("postgres://[fe80::1]:77/db", &[]).address, Address::Tcp("fe80::1".into(), 77));

    for url in
        ["postgres://me@/db?host=/run/pg", "postgres://me@%2Frun%2Fpg/db", "postgres://me@elsewhere/db?host=/run/pg"]
    {
        assert_eq!(found(url, &[]).address, Address::Unix("/run/pg/.s.PGSQL.5432".into()), "{url}");
    }
    assert_eq!(found("postgres://name/db?hostaddr=127.0.0.1", &[]).address, Address::Tcp("127.0.0.1".into(), 5432));
    let bare = found("postgres://", &[("PGHOST", "h"), ("PGPORT", "")]);
    assert_eq!((bare.login.database.as_str(), bare.login.application_name.as_str()), ("somebody", "plimsoll"));
}

#[test]
fn what_the_url_leaves_out_comes_from_the_service_then_from_the_environment() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = write(
        &dir.path().join("services"),
        "# mine\n[other]\nhost=wrong\n[mine]\nhost = served\nuser=servant\npassword=from service\n[mine]\nhost=second\n",
        0o600,
    );
    let vars = [
        ("PGSERVICE", "mine"),
        ("PGSERVICEFILE", &file),
        ("PGHOST", "from-env"),
        ("PGPORT", "7"),
        ("PGDATABASE", "env-db"),
        ("PGPASSWORD", "from env"),
    ];
    let info = found("postgres:///", &vars);
    assert_eq!(info.address, Address::Tcp("served".into(), 7));
    assert_eq!((info.login.user.as_str(), info.login.database.as_str()), ("servant", "env-db"));
    assert!(password_is(&info, "from service"));
    let info = found("postgres://url-user@url-host/url-db", &vars[2..]);
    assert_eq!(info.login.place, "postgres://url-host:7/url-db");
    assert!(password_is(&info, "from env"));

    let missing = resolve_with("postgres:///?service=none", &vars).expect_err("no such service");
    assert_eq!(missing.kind, StoreErrorKind::Usage);
    assert!(missing.what.contains("`none`") && missing.what.contains(&file), "{missing}");
    let bad = write(&dir.path().join("bad"), "[mine]\n\nhots=x\n", 0o600);
    let unknown = resolve_with("postgres:///?service=mine", &[("PGSERVICEFILE", &bad)]).expect_err("unknown");
    assert!(unknown.what.contains("line 3 of") && unknown.what.contains("`hots`"), "{unknown}");
    assert_eq!(unknown.next.as_deref(), Some("Did you mean `host`?"));
}

#[test]
fn a_password_file_is_used_only_when_it_is_private() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = dir.path().to_str().expect("a path");
    let text = "#h:5432:d:u:comment\nother:*:*:*:wrong\nh:5432:d\\:b:u\\\\x:a:b\\:c\\\\\nh:*:*:*:any\nlocalhost:*:*:*:socket\n";
    let path = write(&dir.path().join(".pgpass"), text, 0o600);
    assert!(password_is(&found("postgres://u%5Cx@h/d%3Ab", &[("HOME", home)]), "a:b:c\\"));
    assert!(password_is(&found("postgres://u@h/d", &[("HOME", home)]), "any"));
    assert!(password_is(&found("postgres://u@/d?host=/tmp", &[("HOME", home)]), "socket"));
    assert!(found("postgres://u@elsewhere/d", &[("HOME", home)]).login.password.is_none());
    assert!(password_is(&found("postgres://u@h/d", &[("PGPASSFILE", &path)]), "any"));
    assert!(password_is(&found("postgres://u@h/d", &[("PGPASSFILE", &path), ("PGPASSWORD", "env")]), "env"));

    // Each connection reads it again, as long as it can be used.
    let lasting = found("postgres://u@h/d", &[("HOME", home)]);
    write(&dir.path().join(".pgpass"), "h:*:*:*:rotated\n", 0o600);
    assert!(password_is(&lasting, "rotated"));

    write(&dir.path().join(".pgpass"), text, 0o640);
    assert!(password_is(&lasting, "rotated"));
    let info = found("postgres://u@h/d", &[("HOME", home)]);
    assert!(info.login.password.is_none());
    assert!(info.login.no_password_because.as_ref().is_some_and(|reason| reason.contains("chmod 600")));
}

#[test]
fn a_password_is_never_shown() {
    let info = found("postgres://me:hush%20now@h/d", &[]);
    assert!(password_is(&info, "hush now"));
    assert!(!format!("{info:?}").contains("hush"));
    let given =
        resolve("postgres://me:hush@h/d", Some(&Password::new("given")), &Environment::of_process()).expect("resolved");
    assert!(password_is(&given.hosts[0], "given"));
    assert!(password_is(&found("postgres://me:hu@sh@h/d", &[]), "hu@sh"));
}

#[test]
fn what_is_wrong_with_a_url_is_said() {
    for (url, what, next) in [
        ("mysql://h/d", "does not begin with postgres://", "postgres://user@host"),
        ("postgres://h:0/d", "port is not a number", "5432"),
        ("postgres://::1/d", "several colons", "[::1]"),
        ("postgres://h/%2", "`%`", "%25"),
        ("postgres://a:1,b:2,c/d?port=1,2", "2 ports for 3 hosts", "one for each"),
        ("postgres://a,b/d?hostaddr=127.0.0.1", "2 hosts and 1 addresses", "for each host"),
        ("postgres://a/d?hostaddr=here", "not a numeric address", "127.0.0.1"),
        ("postgres://%40abstract/d", "abstract socket", "a directory"),
        ("postgres://h/d?sslmode=verify-full", "no root certificate", "sslrootcert=system"),
        ("postgres://h/d?sslmode=verify-ca&sslrootcert=/nowhere.crt", "sslrootcert: /nowhere.crt cannot be read", ""),
        ("postgres://h/d?sslmode=require&sslrootcert=system", "needs sslmode=verify-full", "verify-full"),
        ("postgres://h/d?sslmode=require&sslcert=/nowhere.crt", "no key", "sslkey="),
        ("postgres://h/d?sslmode=require&sslcert=/a.crt&sslkey=/a.key", "sslkey: /a.key cannot be read", "may read"),
        ("postgres://h/d?sslnegotiation=direct", "needs sslmode=require", "sslmode=require"),
        ("postgres://h/d?sslmode=yes", "none of prefer, disable", "sslmode=prefer"),
        ("postgres://h/d?channel_binding=yes", "none of prefer, disable, require", "channel_binding=prefer"),
        ("postgres://h/d?gssencmode=require", "GSSAPI", "Leave it out"),
        ("postgres://h/d?client_encoding=latin1", "not heeded here", "Leave it out"),
        ("postgres://h/d?replication=database", "not heeded here", "Leave it out"),
        ("postgres://h/d?ssl_min_protocol_version=TLSv1.3", "not heeded here", "Leave it out"),
        ("postgres://h/d?sslcrl=x", "not heeded here", "Leave it out"),
        ("postgres://host=h port", "word without `=`", "single quotes"),
        ("postgres://host=h dbname='a b", "quote that is not closed", "Close it"),
        ("postgres://host=h datbase=x", "`datbase`", "Known are"),
        ("postgres://h/d?ssl_mode=disable", "`ssl_mode`", "`sslmode`"),
        ("postgres://h/d?aplication_name=x", "`aplication_name`", "`application_name`"),
        ("postgres://h/d?target_session_attrs=master", "none of any, read-write", "target_session_attrs=any"),
        ("postgres://h/d?color=red", "`color`", "Known are: application_name"),
        ("postgres://h/d?connect_timeout=soon", "connect_timeout", "connect_timeout=10"),
    ] {
        let Err(error) = resolve_with(url, &[]) else { panic!("{url} passed") };
        assert_eq!(error.kind, StoreErrorKind::Usage, "{url}");
        assert!(error.what.contains(what), "{url}: {error}");
        assert!(
            next.is_empty() || error.next.as_ref().is_some_and(|text| text.contains(next)),
            "{url}: {:?}",
            error.next
        );
    }
}

#[test]
fn parameters_without_an_effect_are_taken() {
    let text = "keepalives=1&keepalives_idle=30&tcp_user_timeout=5000&sslcompression=0&client_encoding=UTF8&\
                replication=false&ssl_min_protocol_version=TLSv1.2&sslsni=1&krbsrvname=postgres";
    let words = text.replace('&', " ");
    for url in [format!("postgres://u@h:77/d?{text}"), format!("postgres://host=h port=77 user=u dbname=d {words}")] {
        let host = found(&url, &[]);
        assert_eq!(host.address, Address::Tcp("h".into(), 77), "{url}");
        assert_eq!((host.login.user.as_str(), host.login.database.as_str()), ("u", "d"), "{url}");
    }
}

#[test]
fn several_hosts_are_tried_in_their_order() {
    let info = resolve_with("postgres://u@a:1,b,[::1]:3/d?target_session_attrs=read-write", &[]).expect("resolved");
    let addresses: Vec<Address> = info.hosts.iter().map(|host| host.address.clone()).collect();
    let tcp = |host: &str, port| Address::Tcp(host.into(), port);
    assert_eq!(addresses, [tcp("a", 1), tcp("b", 5432), tcp("::1", 3)]);
    assert_eq!(info.wanted, Wanted::ReadWrite);
    let info = resolve_with("postgres:///d?host=/run/pg,b&port=7", &[]).expect("resolved");
    let addresses: Vec<Address> = info.hosts.iter().map(|host| host.address.clone()).collect();
    assert_eq!(addresses, [Address::Unix("/run/pg/.s.PGSQL.7".into()), tcp("b", 7)]);
    let info = resolve_with("postgres://", &[("PGHOST", "a,b"), ("PGHOSTADDR", "10.0.0.1,"), ("PGPORT", "1,2")]);
    let info = info.expect("resolved");
    let addresses: Vec<Address> = info.hosts.iter().map(|host| host.address.clone()).collect();
    assert_eq!(addresses, [tcp("10.0.0.1", 1), tcp("b", 2)]);
    assert_eq!(info.hosts[0].login.place, "postgres://a:1/somebody");
}

#[test]
fn a_string_of_keys_and_values_is_taken_like_a_url() {
    let text =
        "postgres://host = h port=77 dbname='my \\'db\\\\' user=me password='a b' connect_timeout=3 sslmode=disable";
    let host = found(text, &[]);
    assert_eq!(host.address, Address::Tcp("h".into(), 77));
    assert_eq!((host.login.user.as_str(), host.login.database.as_str()), ("me", "my 'db\\"));
    assert!(password_is(&host, "a b"));
    assert_eq!(found("host=/run/pg", &[]).address, Address::Unix("/run/pg/.s.PGSQL.5432".into()));
    let empty = found("postgresql://host=h user='' fallback_application_name=mine", &[]);
    assert_eq!((empty.login.user.as_str(), empty.login.application_name.as_str()), ("somebody", "mine"));
}

#[test]
fn sslmode_says_in_which_order_a_connection_is_tried() {
    let tried = |url: &str, vars: &[(&str, &str)]| -> Vec<&'static str> {
        let name = |tls: &Option<TlsEnd>| match tls {
            None => "plain",
            Some(tls) if tls.required => "required",
            Some(_) => "offered",
        };
        found(url, vars).attempts.iter().map(name).collect()
    };
    for (mode, expected) in [
        ("disable", &["plain"][..]),
        ("allow", &["plain", "required"]),
        ("prefer", &["offered", "plain"]),
        ("require", &["required"]),
    ] {
        assert_eq!(tried(&format!("postgres://h/d?sslmode={mode}"), &[]), expected);
        assert_eq!(tried("postgres://h/d", &[("PGSSLMODE", mode)]), expected);
        assert_eq!(tried(&format!("postgres:///d?host=/run/pg&sslmode={mode}"), &[]), ["plain"]);
    }
    assert_eq!(tried("postgres://h/d", &[]), ["offered", "plain"]);
    assert_eq!(tried("postgres://h/d?ssl=true", &[]), ["required"]);
    assert_eq!(tried("postgres://h/d?sslrootcert=system", &[]), ["required"]);
}
