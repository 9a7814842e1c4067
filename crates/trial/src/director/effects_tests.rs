use std::cell::RefCell;
use std::path::PathBuf;

use super::*;

/// Sets values back. Returns the calls, each with the nodes and the value, and the result. A value of 0 fails.
fn back(nodes: Nodes, before: &[(usize, u32)]) -> (Vec<(Nodes, u32)>, Result<(), TrialError>) {
    let calls = RefCell::new(Vec::new());
    let done = set_back(nodes, before, |nodes, value| {
        calls.borrow_mut().push((nodes, *value));
        let refused = || TrialError::broken(format!("{nodes:?} refuses"));
        if *value == 0 { Err(refused()) } else { Ok(()) }
    });
    (calls.into_inner(), done)
}

#[test]
fn values_that_were_alike_are_set_back_at_once_and_others_node_by_node() {
    use Nodes::{All, One};
    assert_eq!(back(All, &[]), (vec![], Ok(())), "a fault that did not begin");
    assert_eq!(back(All, &[(0, 7), (1, 7), (2, 7)]), (vec![(All, 7)], Ok(())));
    assert_eq!(back(One(1), &[(1, 7)]), (vec![(One(1), 7)], Ok(())));
    assert_eq!(back(All, &[(0, 7), (2, 8)]), (vec![(One(0), 7), (One(2), 8)], Ok(())));
}

#[test]
fn a_node_that_cannot_be_set_back_keeps_no_other_from_that_and_is_the_error() {
    let (calls, done) = back(Nodes::All, &[(0, 7), (1, 0), (2, 0), (3, 8)]);
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert_eq!(done.unwrap_err().what, "One(1) refuses");
}

#[test]
fn versions_before_a_change_are_each_named_once() {
    let change = |node: usize, from: &str| ProgramChange {
        node,
        former: PathBuf::from("/old"),
        from: from.to_owned(),
        to: "2.0".to_owned(),
    };
    let of = |programs: Vec<ProgramChange>| Begun { programs, ..Begun::default() }.versions();
    assert_eq!(of(Vec::new()), None);
    assert_eq!(of(vec![change(0, "1.1"), change(1, "1.1")]).as_deref(), Some("from 1.1 to 2.0"));
    let both = of(vec![change(0, "1.1"), change(1, "1.0"), change(2, "1.1")]);
    assert_eq!(both.as_deref(), Some("from 1.0 and 1.1 to 2.0"));
}
