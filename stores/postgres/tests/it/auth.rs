//! Logging in, and being refused.

use std::io::{Read, Write};
use std::net::TcpListener;

use plimsoll_core::{Address, StoreError, StoreErrorKind};
use plimsoll_store_postgres::wire::Login;

use crate::fixture::{Server, login, open_login};

const HBA: &str = "local all scram_user scram-sha-256
local all md5_user md5
local all clear_user password
local all postgres trust
host all tls_user 127.0.0.1/32 reject
hostssl all all 127.0.0.1/32 trust
";

fn refused(address: &Address, login: Login) -> StoreError {
    open_login(address, login).map(|_| ()).expect_err("it must not get in")
}

#[test]
fn every_way_to_log_in_takes_the_right_password_only() {
    let server = Server::start_with(HBA);
    server
        .control()
        .simple(
            "SET password_encryption = 'md5'; CREATE ROLE md5_user LOGIN PASSWORD 'pä''s';
             SET password_encryption = 'scram-sha-256'; CREATE ROLE scram_user LOGIN PASSWORD 'pä''s';
             CREATE ROLE clear_user LOGIN PASSWORD 'pä''s'",
        )
        .expect("roles");
    for user in ["scram_user", "md5_user", "clear_user"] {
        let mut connection = open_login(&server.socket(), login(user, Some("pä's"))).expect(user);
        assert_eq!(connection.value("SELECT current_user").unwrap(), user);
        assert_eq!(
            connection.value("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()").unwrap(),
            "plimsoll"
        );

        let wrong = refused(&server.socket(), login(user, Some("secret-word")));
        assert_eq!(wrong.kind, StoreErrorKind::Authentication, "{wrong:?}");
        assert!(wrong.what.contains(user), "{wrong}");
        assert!(wrong.detail.as_ref().unwrap().contains("28P01"), "the server's words: {wrong}");
        assert!(!format!("{wrong:?}").contains("secret-word"));

        let none = refused(&server.socket(), login(user, None));
        assert_eq!(none.kind, StoreErrorKind::Authentication);
        assert!(none.what.contains("asks for a password"), "{none}");
        assert!(none.next.unwrap().contains("PGPASSWORD"));
    }
}

#[test]
fn a_refusal_says_what_is_wrong() {
    let server = Server::start_with(HBA);
    let no_database = refused(&server.socket(), Login { database: "nowhere".into(), ..login("postgres", None) });
    assert_eq!(no_database.kind, StoreErrorKind::Usage);
    assert!(no_database.what.contains("no database `nowhere`"), "{no_database}");

    let stranger = refused(&server.socket(), login("stranger", None));
    assert_eq!(stranger.kind, StoreErrorKind::Authentication);
    assert!(stranger.detail.unwrap().contains("28000"));

    let tls = refused(&server.tcp(), login("postgres", None));
    assert_eq!(tls.kind, StoreErrorKind::Authentication);
    assert!(tls.what.contains("without TLS"), "{tls}");
}

#[test]
fn it_is_reached_over_tcp_too() {
    let server = Server::alone();
    let mut connection = open_login(&server.tcp(), login("postgres", None)).expect("logged in");
    assert_eq!(connection.value("SELECT inet_server_port()").unwrap(), server.port().to_string());
}

#[test]
fn nobody_listening_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for address in [Address::Tcp("127.0.0.1".into(), port), Address::Unix("/nowhere/.s.PGSQL.5432".into())] {
        let error = refused(&address, login("postgres", None));
        assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error:?}");
    }
}

#[test]
fn a_server_of_another_protocol_is_told_from_postgresql() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp("127.0.0.1".into(), listener.local_addr().unwrap().port());
    let web_server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    let error = refused(&address, login("postgres", None));
    web_server.join().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Broken);
    assert!(error.detail.as_ref().unwrap().contains("HTTP/1.1 400"), "{error}");
}
