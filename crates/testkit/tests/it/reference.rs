//! The reference store conforms, and a store that lies does not.

use std::panic::catch_unwind;

use plimsoll_testkit::lying::{Lie, Lying};

#[test]
fn the_reference_store_conforms() {
    plimsoll_testkit::conformance::run(&*plimsoll_testkit::reference::kind());
}

#[test]
fn a_store_that_lies_does_not_conform() {
    for lie in Lie::ALL {
        let panic = catch_unwind(|| plimsoll_testkit::conformance::run(&Lying::new(lie, 3, 1)));
        let panic = panic.err().unwrap_or_else(|| panic!("a store that tells {lie:?} conforms"));
        let words = panic.downcast_ref::<String>().unwrap();
        assert!(words.contains("FAILED") && words.contains("lying does not conform"), "{lie:?}: {words}");
    }
}
