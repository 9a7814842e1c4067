//! Logging in, and being refused.

use plimsoll_core::{Address, StoreError, StoreErrorKind};
use plimsoll_store_postgres::wire::Login;

use crate::conninfo::{found, write};
use crate::fixture::{Server, SqlServer as _, login, open_login};

const HBA: &str = "local all scram_user scram-sha-256
local all md5_user md5
local all clear_user password
local all postgres trust
local all u scram-sha-256
";

fn refused(address: &Address, login: Login) -> StoreError {
    open_login(address, login).map(|_| ()).expect_err("it must not get in")
}

#[test]
fn a_login_is_taken_or_refused() {
    let server = Server::alone();
    server.lets_in(HBA);
    plimsoll_testkit::steps!(
        with &server;
        every_way_to_log_in_takes_the_right_password_only,
        a_refusal_says_what_is_wrong,
        a_password_file_that_others_can_read_is_not_used,
    );
}

fn every_way_to_log_in_takes_the_right_password_only(server: &Server) {
    server
        .control()
        .simple(
            "SET password_encryption = 'md5'; CREATE ROLE md5_user LOGIN PASSWORD 'pä''s';
             SET password_encryption = 'scram-sha-256'; CREATE ROLE scram_user LOGIN PASSWORD 'pä''s';
             CREATE ROLE clear_user LOGIN PASSWORD 'pä''s'",
        )
        .expect("roles");
    for user in ["scram_user", "md5_user", "clear_user"] {
        let mut connection = open_login(&server.address(), login(user, Some("pä's"))).expect(user);
        assert_eq!(connection.value("SELECT current_user").unwrap(), user);
        assert_eq!(
            connection.value("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()").unwrap(),
            "plimsoll"
        );

        let wrong = refused(&server.address(), login(user, Some("secret-word")));
        assert_eq!(wrong.kind, StoreErrorKind::Authentication, "{wrong:?}");
        assert!(wrong.what.contains(user), "{wrong}");
        assert!(wrong.detail.as_ref().unwrap().contains("28P01"), "the server's words: {wrong}");
        assert!(!format!("{wrong:?}").contains("secret-word"));

        let none = refused(&server.address(), login(user, None));
        assert_eq!(none.kind, StoreErrorKind::Authentication);
        assert!(none.what.contains("asks for a password"), "{none}");
        assert!(none.next.unwrap().contains("PGPASSWORD"));
    }
}

fn a_refusal_says_what_is_wrong(server: &Server) {
    let no_database = refused(&server.address(), Login { database: "nowhere".into(), ..login("postgres", None) });
    assert_eq!(no_database.kind, StoreErrorKind::Usage);
    assert!(no_database.what.contains("no database `nowhere`"), "{no_database}");

    let stranger = refused(&server.address(), login("stranger", None));
    assert_eq!(stranger.kind, StoreErrorKind::Authentication);
    assert!(stranger.detail.unwrap().contains("28000"));
}

fn a_password_file_that_others_can_read_is_not_used(server: &Server) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = write(&dir.path().join(".pgpass"), "h:*:*:*:any\n", 0o640);
    let info = found("postgres://u@h/d", &[("PGPASSFILE", &file)]);
    let error = refused(&server.address(), Login { database: "postgres".to_owned(), ..info.login });
    assert_eq!(error.kind, StoreErrorKind::Authentication);
    assert!(error.detail.is_some_and(|reason| reason.contains("chmod 600")));
}
