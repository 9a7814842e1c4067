use std::collections::BTreeMap;

use plimsoll_record::data::LostWrites;

use super::*;

fn check(lost: u64, wrong: &[(&str, u64)]) -> LedgerCheck {
    LedgerCheck {
        phase: 3,
        acknowledged: 100,
        read_back: 100 - lost,
        lost,
        lost_window_ns: (lost > 0).then_some((5, 9)),
        lost_writes: (lost > 0).then_some(LostWrites { at_ns: 0, writes: lost }).into_iter().collect(),
        wrong: wrong.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect::<BTreeMap<_, _>>(),
        loss_upper_bound: (lost == 0).then_some(0.03),
        complete: true,
        sentence: "100 writes.".to_owned(),
        ..LedgerCheck::default()
    }
}

#[test]
fn what_is_amiss_on_one_node_is_said_of_that_node() {
    let mut all = check(0, &[]);
    assert!(add(&mut all, "node 1", check(0, &[])));
    assert_eq!((all.lost, all.loss_upper_bound), (0, Some(0.03)));
    assert!(!add(&mut all, "node 2", check(3, &[("contents", 2)])));
    assert!(!add(&mut all, "node 3", check(1, &[])));
    all.sentence.push_str(&whole(&["1".to_owned()]));
    let wanted = "100 writes. Node 2: 3 acknowledged writes are missing and 2 contents. Node 3: 1 acknowledged write \
                  is missing. The copy of node 1 has everything.";
    assert_eq!(all.sentence, wanted);
    assert_eq!((all.lost, all.wrong["contents"], all.loss_upper_bound), (3, 2, None));
    assert_eq!((all.lost_window_ns, all.read_back), (Some((5, 9)), 97));
    assert_eq!(all.lost_writes, [LostWrites { at_ns: 0, writes: 3 }]);
    // Gone for clients too, that is no difference of a node; what they still read, and a node lacks, is one.
    let read = |n| LedgerCheck { read_then_lost: n, ..check(0, &[]) };
    let mut all = read(1);
    assert!(add(&mut all, "node 1", read(1)) && !add(&mut all, "node 2", read(3)));
    assert_eq!((all.read_then_lost, all.wrong["differs"]), (1, 2));
}
