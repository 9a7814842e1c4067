//! Conformance of the store.

use plimsoll_store_http::kind;

use crate::fixture::Server;

#[test]
fn a_private_server_conforms() {
    plimsoll_testkit::conformance::run(&*kind());
}

#[test]
fn an_attached_server_conforms() {
    let server = Server::start("");
    plimsoll_testkit::conformance::run_attached(&*kind(), &server.url(), None);
}
