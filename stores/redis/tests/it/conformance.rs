//! What every store is held to.

use plimsoll_store_redis::kind;

#[test]
fn a_private_server_conforms() {
    plimsoll_testkit::conformance::run(&*kind());
}
