use plimsoll_sample::room::Limit;

use super::*;

/// Needs of a drive with 1,000 clients: 100 and 2 each of one resource, which `at` names by its position.
fn needing(at: usize) -> Needs {
    let parts = vec!["1,000 clients of 2 each".to_owned(), "everything else: 100".to_owned()];
    let mut needs = Needs::default();
    needs.0[at] = Amount { fixed: 100, each: 2, clients: 1_000, place: "trial 1 (toy), phase drive".into(), parts };
    needs
}

/// A machine on which so much is left of the resource at this position.
fn room(at: usize, left: u64) -> Room {
    let limit = |position| (position == at).then_some(Limit { left, by: "a limit" });
    Room { memory: limit(0), addresses: limit(1), threads: limit(2), descriptors: limit(3) }
}

#[test]
fn what_does_not_fit_is_named_with_its_limit_its_parts_and_the_clients_that_would_fit() {
    for (at, what, advice, alone) in [
        (0, " of memory, and ", "", "use fewer records or no ledger (ledger = \"off\")"),
        (1, " of addresses, and ", "", "use fewer clients"),
        (2, " 2,100 threads, and ", "raise a limit; ", "use fewer clients"),
        (3, " 2,100 file descriptors, and ", "raise the limit: ulimit -n 3072, or LimitNOFILE= ", "use fewer clients"),
    ] {
        let needs = needing(at);
        assert_eq!(needs.must_fit_into(&room(at, 2_100)), Ok(()), "{what}");
        assert_eq!(needs.must_fit_into(&Room::default()), Ok(()), "{what}: there is no limit");
        assert_eq!(needs.must_fit_into(&room((at + 1) % 4, 1)), Ok(()), "{what}: nothing is needed of another");
        let error = needs.must_fit_into(&room(at, 2_099)).unwrap_err();
        assert!(error.what.starts_with("trial 1 (toy), phase drive needs about ") && error.what.contains(what));
        assert!(error.what.ends_with(" are available (by a limit)"), "{error:?}");
        assert_eq!(error.detail.unwrap(), "1,000 clients of 2 each\neverything else: 100");
        let next = error.next.unwrap();
        assert!(next.starts_with(advice) && next.ends_with("at most 999 clients fit"), "{next}");
        // Without any client it would be too much, too.
        let next = needs.must_fit_into(&room(at, 100)).unwrap_err().next.unwrap();
        assert!(next.starts_with(advice) && next.ends_with(alone), "{next}");
    }
}
