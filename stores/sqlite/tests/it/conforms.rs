//! Conformance suite.

#[test]
fn it_conforms() {
    plimsoll_testkit::conformance::run(&*plimsoll_store_sqlite::kind());
}
