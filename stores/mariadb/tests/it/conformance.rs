//! Conformance suites.

use plimsoll_store_mariadb::kind;
use plimsoll_testkit::{conformance, sql};

use crate::fixture::{Server, SqlServer as _};

#[test]
fn a_private_server_conforms() {
    conformance::run(&*kind());
}

#[test]
fn an_attached_server_conforms() {
    conformance::run_attached(&*kind(), &Server::start().url("root"), None);
}

#[test]
fn records_and_statements_conform() {
    sql::statements::<Server>();
}

#[test]
fn a_run_in_an_attached_server_leaves_it_as_it_was() {
    sql::attached::<Server>(|server, database| {
        format!("mariadb -S {} -u root -e 'DROP DATABASE {database}'", server.socket().display())
    });
}
