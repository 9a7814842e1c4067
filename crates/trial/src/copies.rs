//! Contents of each node of a cluster, combined with the contents that clients see: one verdict, which names nodes.

use plimsoll_analysis::number;
use plimsoll_record::data::LedgerCheck;

/// Adds what was found at the node called `name`: each count is that of the node where most is amiss, for a record that is lost on two
/// of them is one record. Whether everything is there.
pub(crate) fn add(check: &mut LedgerCheck, name: &str, mut copy: LedgerCheck) -> bool {
    // A state that clients still read is not gone: this node lacks it.
    let differ = copy.read_then_lost.saturating_sub(check.read_then_lost);
    if differ > 0 {
        copy.wrong.insert("differs".to_owned(), differ);
    }
    let is_whole = copy.lost == 0 && copy.wrong.is_empty() && copy.complete;
    if !is_whole {
        let lost = match copy.lost {
            0 => None,
            1 => Some("1 acknowledged write is missing".to_owned()),
            lost => Some(format!("{} acknowledged writes are missing", number::count(lost))),
        };
        let wrong =
            copy.wrong.iter().map(|(what, count)| format!("{} {}", number::count(*count), what.replace('_', " ")));
        let gap = (!copy.complete).then(|| "its data could not be compared".to_owned());
        let all: Vec<String> = lost.into_iter().chain(wrong).chain(gap).collect();
        check.sentence.push_str(&format!(" {}: {}.", capitalised(name), number::list(&all)));
        check.examples.extend(copy.examples.into_iter().map(|example| format!("{name}: {example}")));
    }
    if copy.lost > check.lost {
        (check.lost, check.lost_writes) = (copy.lost, copy.lost_writes);
    }
    check.read_back = check.read_back.min(copy.read_back);
    check.complete &= copy.complete;
    check.unread = check.unread.max(copy.unread);
    check.lost_window_ns = match (check.lost_window_ns, copy.lost_window_ns) {
        (Some(here), Some(there)) => Some((here.0.min(there.0), here.1.max(there.1))),
        (here, there) => here.or(there),
    };
    for (what, count) in copy.wrong {
        let most = check.wrong.entry(what).or_default();
        *most = count.max(*most);
    }
    check.loss_upper_bound = check.loss_upper_bound.zip(copy.loss_upper_bound).map(|(here, there)| here.max(there));
    is_whole
}

/// A sentence of the nodes whose copies were looked at and have everything.
pub(crate) fn whole(numbers: &[String]) -> String {
    match numbers {
        [] => String::new(),
        [one] => format!(" The copy of node {one} has everything."),
        all => format!(" The copies of nodes {} have everything.", number::list(all)),
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
