//! Conformance suites.

use plimsoll_store_postgres::kind;
use plimsoll_testkit::{conformance, sql};

use crate::fixture::{Server, SqlServer as _};

#[test]
fn a_private_server_conforms() {
    conformance::run(&*kind());
}

#[test]
fn an_attached_server_conforms() {
    conformance::run_attached(&*kind(), &Server::start().url("postgres"), None);
}

#[test]
fn records_and_statements_conform() {
    sql::statements::<Server>();
}

#[test]
fn a_run_in_an_attached_server_leaves_it_as_it_was() {
    sql::attached::<Server>(|server, schema| {
        // What cannot be dropped is in a server of its own, whose URL has a password.
        let socket = server.cluster().first().socket_dir.display().to_string();
        let host = if server.is_shared() { &*socket } else { "127.0.0.1" };
        let (port, database) = (server.port, &server.database);
        format!("psql -h {host} -p {port} -U postgres -d {database} -c 'DROP SCHEMA \"{schema}\" CASCADE'")
    });
}

#[test]
#[ignore = "needs a server of another version, whose URL is in PLIMSOLL_TEST_POSTGRES; PLIMSOLL_HEAVY=1 asks all"]
fn a_server_of_another_version_conforms() {
    let url = std::env::var("PLIMSOLL_TEST_POSTGRES").expect("PLIMSOLL_TEST_POSTGRES=postgres:///postgres?host=/dir");
    println!("{}", conformance::run_attached(&*kind(), &url, None));
}
