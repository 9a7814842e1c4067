//! Connection parameters of a URL, the option file and the environment.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use plimsoll_core::{Address, StoreError, StoreErrorKind};
use plimsoll_store_mariadb::conninfo::{ConnInfo, Environment, resolve};

use crate::fixture::{Server, SqlServer as _, open_login};

fn resolve_with(url: &str, vars: &[(&str, &str)]) -> Result<ConnInfo, StoreError> {
    let vars: BTreeMap<&str, &str> = vars.iter().copied().collect();
    let var = |name: &str| vars.get(name).map(|value| (*value).to_owned());
    resolve(url, None, &Environment { var: &var, user: Some("somebody".into()) })
}

fn found(url: &str, vars: &[(&str, &str)]) -> ConnInfo {
    resolve_with(url, vars).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp(host.into(), port)
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

#[test]
fn a_url_says_it_all() {
    let info = found("mysql://me%40home@db.example:6000/my%20db?program_name=trial&connect-timeout=3", &[]);
    assert_eq!(info.address, tcp("db.example", 6000));
    assert_eq!((info.login.user.as_str(), info.login.database.as_deref()), ("me@home", Some("my db")));
    assert_eq!(info.login.program_name, "trial");
    assert_eq!(info.connect_timeout, Some(Duration::from_secs(3)));
    assert_eq!(info.login.place, "mysql://db.example:6000/my db", "it names no user");
    assert!(!info.login.private_way);

    assert_eq!(found("mariadb://[::1]/db", &[]).address, tcp("::1", 3306));
    assert_eq!(found("mysql://localhost:3307/", &[]).address, tcp("localhost", 3307), "a port is a port");
    for url in
        ["mysql://me@/db?socket=/run/my.sock", "mysql://me@%2Frun%2Fmy.sock/db", "mysql://h/?socket=/run/my.sock"]
    {
        let info = found(url, &[]);
        assert_eq!(info.address, Address::Unix("/run/my.sock".into()), "{url}");
        assert!(info.login.private_way);
    }
    let bare = found("mysql://", &[("MYSQL_HOST", "h"), ("MYSQL_TCP_PORT", "")]);
    assert_eq!((bare.login.user.as_str(), bare.login.database, bare.address), ("somebody", None, tcp("h", 3306)));
}

#[test]
fn what_the_url_leaves_out_comes_from_the_option_file_then_from_the_environment() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE USER filed@`%` IDENTIFIED BY 'of the file'").expect("a user");
    let dir = tempfile::tempdir().expect("a directory");
    let home = dir.path().to_str().expect("a path");
    let file = dir.path().join(".my.cnf");
    let socket = server.socket();
    let text = format!("[client]\nuser=filed\npassword='of the file'\nsocket={}\n", socket.display());
    write(&file, &text, 0o600);
    let env = [("HOME", home), ("MYSQL_PWD", "of the environment"), ("MYSQL_HOST", "elsewhere")];
    let info = found("mysql://", &env);
    assert_eq!((&info.address, info.login.user.as_str()), (&Address::Unix(socket), "filed"));
    open_login(&info.address, info.login.clone()).expect("with the password of the file");
    control.simple("ALTER USER filed@`%` IDENTIFIED BY 'rotated'").expect("another password");
    write(&file, &text.replace("of the file", "rotated"), 0o600);
    open_login(&info.address, info.login).expect("with the newest password of the file");
    let named = found("mysql://me@there/", &env);
    assert_eq!((named.address, named.login.user.as_str()), (tcp("there", 3306), "me"), "a host is not a socket");

    write(&file, &text, 0o602);
    let info = found("mysql://filed@", &[("HOME", home), ("MYSQL_UNIX_PORT", server.socket().to_str().unwrap())]);
    assert!(info.login.password.is_none());
    let error = open_login(&info.address, info.login).map(|_| ()).expect_err("no password");
    assert_eq!(error.kind, StoreErrorKind::Authentication);
    assert!(error.detail.as_ref().is_some_and(|reason| reason.contains("chmod 600")), "{error}");
}

#[test]
fn a_password_is_never_shown() {
    let info = found("mysql://me:hush%20now@h/d", &[]);
    assert!(info.login.password.is_some());
    assert!(!format!("{info:?}").contains("hush"));
}

#[test]
fn what_is_wrong_is_said_and_what_to_write_instead() {
    for (url, what, next) in [
        ("http://h/d", "mysql:// or mariadb://", "mysql://user@host:3306"),
        ("mysql://h:0/d", "port", "3306"),
        ("mysql://::1/d", "several colons", "[::1]"),
        ("mysql://h/%2", "`%`", "%25"),
        ("mysql://a,b:0/d", "port", "3306"),
        ("mysql://h/d?ssl-mode=yes", "none of DISABLED", "ssl-mode=DISABLED"),
        ("mysql://h/d?sokcet=/x", "`sokcet`", "`socket`"),
        ("mysql://h/d?allowPublicKeyRetrieval=1", "`allowPublicKeyRetrieval`", "Known are: connect-timeout"),
        ("mysql://h/d?charset=latin1", "can only be utf8", "Leave it out"),
        ("mysql://h/d?connect_timeout=soon", "connect-timeout", "connect-timeout=10"),
    ] {
        let Err(error) = resolve_with(url, &[]) else { panic!("{url} passed") };
        assert_eq!(error.kind, StoreErrorKind::Usage, "{url}");
        assert!(error.what.contains(what), "{url}: {error}");
        assert!(error.next.as_ref().is_some_and(|text| text.contains(next)), "{url}: {:?}", error.next);
    }
}

#[test]
fn parameters_without_an_effect_are_taken() {
    let info = found("mysql://me@h:77/d?charset=UTF8MB4&local_infile=0&compress=false&read-timeout=30", &[]);
    assert_eq!((info.address, info.login.user.as_str()), (tcp("h", 77), "me"));
}

#[test]
fn several_hosts_have_their_own_ports_and_places() {
    let info = resolve_with("mysql://ada@a,b:3307,[::1]/d", &[]).unwrap();
    let all = std::iter::once((info.address, info.login)).chain(info.others);
    let all: Vec<_> = all.map(|(address, login)| (address, login.place)).collect();
    let tcp = |host: &str, port| plimsoll_core::Address::Tcp(host.to_owned(), port);
    let place = |place: &str| format!("mysql://{place}/d");
    let wanted = [(tcp("a", 3306), "a:3306"), (tcp("b", 3307), "b:3307"), (tcp("::1", 3306), "[::1]:3306")];
    assert_eq!(all, wanted.map(|(address, at)| (address, place(at))));
}
