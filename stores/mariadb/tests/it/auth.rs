//! Logging in, and being refused.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;

use plimsoll_core::{Address, Outcome, StoreError, StoreErrorKind};
use plimsoll_store_mariadb::connect;
use plimsoll_store_mariadb::wire::Login;

use crate::fixture::{Server, SqlServer as _, TIMEOUT, address, ask, login, open_login, sql, start};

#[test]
fn a_login_is_taken_or_refused() {
    plimsoll_testkit::steps!(
        a_password_is_proven_and_a_wrong_one_refused,
        a_password_of_ed25519_is_proven_and_a_wrong_one_refused,
        the_sockets_own_user_is_let_in,
        a_refusal_says_what_is_wrong,
        a_password_is_in_no_process_list_and_no_setting,
    );
}

fn refused(address: &Address, login: Login) -> StoreError {
    open_login(address, login).map(|_| ()).expect_err("it must not get in")
}

fn a_password_is_proven_and_a_wrong_one_refused() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE USER `näme`@`%` IDENTIFIED BY 'pä''s'").expect("a user");
    control.simple("CREATE USER nobody@`%` IDENTIFIED BY ''").expect("a user");
    for address in [server.address(), server.tcp()] {
        let mut connection = open_login(&address, login("näme", Some("pä's"))).expect("let in");
        assert_eq!(connection.value("SELECT CURRENT_USER()").expect("an answer"), "näme@%");
        open_login(&address, login("nobody", None)).expect("let in without a password");

        let wrong = refused(&address, login("näme", Some("secret-word")));
        assert_eq!(wrong.kind, StoreErrorKind::Authentication, "{wrong:?}");
        assert!(wrong.what.contains("does not accept the password for user `näme`"), "{wrong}");
        assert!(wrong.detail.as_ref().unwrap().contains("1045, 28000"), "the server's words: {wrong}");
        assert!(wrong.next.as_ref().unwrap().contains("~/.my.cnf"));
        assert!(!format!("{wrong:?}").contains("secret-word"));

        let none = refused(&address, login("näme", None));
        assert_eq!(none.kind, StoreErrorKind::Authentication);
        assert!(none.what.contains("no password is known"), "{none}");
        assert!(none.next.unwrap().contains("MYSQL_PWD"));
    }
}

fn a_password_of_ed25519_is_proven_and_a_wrong_one_refused() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("INSTALL SONAME 'auth_ed25519'").expect("the plugin comes with the server");
    for (user, word) in [("signer", "pä's word, which is longer than the thirty-two bytes of a key"), ("short", "x")] {
        let word = word.replace('\'', "''");
        control
            .simple(&format!("CREATE USER {user}@`%` IDENTIFIED VIA ed25519 USING PASSWORD('{word}')"))
            .expect("a user");
    }
    let proven = |address: &Address, user: &str, word: &str| {
        let mut connection = open_login(address, login(user, Some(word))).expect("let in");
        connection.value("SELECT CURRENT_USER()").expect("an answer")
    };
    for address in [server.address(), server.tcp()] {
        let long = "pä's word, which is longer than the thirty-two bytes of a key";
        assert_eq!(proven(&address, "signer", long), "signer@%");
        assert_eq!(proven(&address, "short", "x"), "short@%");
        let wrong = refused(&address, login("signer", Some("secret-word")));
        assert_eq!(wrong.kind, StoreErrorKind::Authentication, "{wrong:?}");
        assert!(wrong.what.contains("does not accept the password for user `signer`"), "{wrong}");
        assert!(!format!("{wrong:?}").contains("secret-word"));
        let none = refused(&address, login("signer", None));
        assert!(none.what.contains("no password is known"), "{none}");
    }
    control.simple("UNINSTALL SONAME 'auth_ed25519'").expect("taken out");
}

/// Root of the system is let in by its socket, whatever method the greeting names; and by no other name.
fn the_sockets_own_user_is_let_in() {
    let server = Server::start();
    let mut control = server.control();
    let me = std::process::Command::new("id").arg("-un").output().expect("id");
    let me = String::from_utf8(me.stdout).expect("a name").trim().to_owned();
    let user = format!("`{me}`@localhost");
    // The server's own root has no password; another account of its name cannot be made.
    let own = me == "root";
    if own {
        control
            .simple("ALTER USER root@localhost IDENTIFIED VIA unix_socket OR mysql_native_password")
            .expect("altered");
    } else {
        control.simple(&format!("CREATE USER {user} IDENTIFIED VIA unix_socket")).expect("a user");
    }
    open_login(&server.address(), login(&me, None)).expect("let in");
    control.simple("CREATE USER stranger@localhost IDENTIFIED VIA unix_socket").expect("a user");
    let stranger = refused(&server.address(), login("stranger", None));
    assert_eq!(stranger.kind, StoreErrorKind::Authentication, "{stranger}");
    assert!(stranger.detail.unwrap().contains("1698"));
    if own {
        control
            .simple("ALTER USER root@localhost IDENTIFIED VIA mysql_native_password USING ''")
            .expect("as it was before");
    }
}

fn a_refusal_says_what_is_wrong() {
    let server = Server::start();
    let database = |name: &str| Login { database: Some(name.into()), ..login("root", None) };
    let nowhere = refused(&server.address(), database("nowhere"));
    assert_eq!(nowhere.kind, StoreErrorKind::Usage);
    assert!(nowhere.what.contains("no database `nowhere`"), "{nowhere}");

    let mut control = server.control();
    control.simple("CREATE USER guest@localhost IDENTIFIED BY ''").expect("a user");
    let denied = refused(&server.address(), Login { user: "guest".into(), ..database("mysql") });
    assert_eq!(denied.kind, StoreErrorKind::Permission);
    control.simple("ALTER USER guest@localhost REQUIRE SSL").expect("altered");
    assert_eq!(refused(&server.address(), login("guest", None)).kind, StoreErrorKind::Authentication);
}

#[test]
fn a_server_that_takes_no_more_connections_says_so() {
    let server = start(&[("max-connections", "10")]);
    let mut control = open_login(&address(&server), login("root", None)).expect("the one for root");
    control.simple("CREATE USER guest@localhost IDENTIFIED BY ''").expect("a user");
    let mut open = Vec::new();
    let full = loop {
        match open_login(&address(&server), login("guest", None)) {
            Ok(connection) => open.push(connection),
            Err(error) => break error,
        }
        assert!(open.len() < 20);
    };
    assert_eq!(full.kind, StoreErrorKind::Store);
    assert!(full.what.contains("takes no more connections") && full.detail.unwrap().contains("1040"));
    server.close().expect("closed");
}

#[test]
fn a_server_of_another_protocol_is_told_from_mariadb() {
    for words in ["SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "+OK ready\r\n", "220 mail.example ESMTP\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp("127.0.0.1".into(), listener.local_addr().unwrap().port());
        let other = std::thread::spawn(move || listener.accept().unwrap().0.write_all(words.as_bytes()));
        let error = refused(&address, login("root", None));
        other.join().unwrap().unwrap();
        assert_eq!(error.kind, StoreErrorKind::Broken, "{error:?}");
        assert!(error.detail.as_ref().unwrap().contains(words.trim_end()), "{error}");
    }
}

/// A login leaves no password with the server and the list of processes.
fn a_password_is_in_no_process_list_and_no_setting() {
    let server = Server::start();
    let mut control = server.control();
    control.simple("CREATE USER keeper@`%` IDENTIFIED BY 'hush-hush'").expect("a user");
    let (kinds, login) = ([sql("one", "SELECT 1", &[])], Arc::new(login("keeper", Some("hush-hush"))));
    let connected = connect(&server.address(), Arc::clone(&login), Arc::default(), &[], &kinds, TIMEOUT);
    let mut connection = connected.expect("let in");
    assert_eq!(ask(&mut connection, 0, &[]).0, Outcome::Ok);
    assert!(!format!("{login:?}").contains("hush"));
    let listed = control.simple("SELECT * FROM information_schema.PROCESSLIST").expect("a list");
    assert!(!format!("{:?}", listed.values).contains("hush"));
    let own = std::fs::read("/proc/self/cmdline").expect("our own line");
    assert!(!String::from_utf8_lossy(&own).contains("hush"));
}
