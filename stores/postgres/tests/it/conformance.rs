//! Conformance suite.

use plimsoll_store_postgres::kind;

use crate::fixture::{Server, url};

#[test]
fn a_private_server_conforms() {
    plimsoll_testkit::conformance::run(&*kind());
}

#[test]
fn an_attached_server_conforms() {
    let server = Server::start();
    plimsoll_testkit::conformance::run_attached(&*kind(), &url(&server, "postgres"), None);
}

#[test]
#[ignore = "needs a server of another version, whose URL is in PLIMSOLL_TEST_POSTGRES"]
fn a_server_of_another_version_conforms() {
    let url = std::env::var("PLIMSOLL_TEST_POSTGRES").expect("PLIMSOLL_TEST_POSTGRES=postgres:///postgres?host=/dir");
    println!("{}", plimsoll_testkit::conformance::run_attached(&*kind(), &url, None));
}
