//! What every store has to do.

#[test]
fn it_conforms() {
    plimsoll_testkit::conformance::run(&*plimsoll_store_sqlite::kind());
}
