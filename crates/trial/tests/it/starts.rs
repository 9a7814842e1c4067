//! State of the data at the start of a trial: loaded again, settled, or as it is.

use crate::phases::{TOY, plan, ran};
use crate::simulation::promises;

/// States that trials start from, in the words of their parameters.
fn starts(run: &plimsoll_record::data::Run) -> Vec<&str> {
    run.trials.iter().map(|trial| trial.header.params["start"].as_str()).collect()
}

#[test]
fn what_was_loaded_is_settled_once_before_the_first_operation_that_counts() {
    for (start, steps, settles, is_said, wanted) in [
        ("settled", &["load", "drive"][..], 1, true, "fresh, settled"),
        ("settled", &["load", "ask", "drive"], 1, true, "fresh, settled"),
        ("settled", &["load", "settle", "drive"], 1, false, "fresh, settled"),
        ("settled", &["load", "restart", "drive"], 0, false, "fresh, settled"),
        ("settled", &["load", "check"], 0, false, "fresh, settled"),
        // What was never loaded has nothing to tidy.
        ("settled", &["drive"], 0, false, "fresh"),
        ("fresh", &["load", "drive"], 0, false, "fresh"),
        ("as-is", &["load", "drive"], 0, false, "fresh"),
    ] {
        let ran = ran(|_| (), &plan(&format!("start = \"{start}\"\n{TOY}"), steps));
        assert_eq!(starts(ran.whole()), [wanted], "{start} {steps:?}");
        assert_eq!((ran.calls("create"), ran.calls("settle")), (1, settles), "{start} {steps:?}");
        assert_eq!(ran.events("settled before the first operation") == 1, is_said, "{start} {steps:?}");
    }
}

#[test]
fn a_trial_begins_with_the_data_of_the_one_before_as_the_plan_says() {
    for (start, seed, loads, settles, wanted) in [
        ("settled", "1", 1, 2, ["fresh, settled", "settled"]),
        ("as-is", "1", 1, 0, ["fresh", "as-is"]),
        ("fresh", "1", 2, 0, ["fresh", "fresh"]),
        // Other data are loaded, whatever there is.
        ("settled", "[1, 2]", 2, 2, ["fresh, settled", "fresh, settled"]),
        ("as-is", "[1, 2]", 2, 0, ["fresh", "fresh"]),
    ] {
        let clients = if seed == "1" { "[1, 2]" } else { "2" };
        let head = format!("start = \"{start}\"\nseed = {seed}\n{TOY}");
        let ran = ran(|_| (), &plan(&head, &["load", &format!("drive; clients = {clients}"), "check"]));
        assert_eq!(starts(ran.whole()), wanted, "{start}, {seed}");
        let did = (ran.named("load").len(), ran.calls("create"), ran.calls("settle"));
        assert_eq!(did, (loads, loads, settles), "{start}, {seed}");
        // The ledger of data that stays goes on, and vouches for the writes of both trials.
        assert_eq!(promises(&ran.run), [plimsoll_analysis::view::GoalState::Held; 2], "{start}, {seed}");
        assert!(ran.run.trials.iter().all(|trial| trial.ledgers.len() == 1 && trial.ledgers[0].complete));
    }
}

#[test]
fn a_workload_without_a_ledger_says_so_in_every_trial() {
    let text = plan(TOY, &["load", "drive; clients = [1, 2]", "check"]);
    let ran = ran(|_| (), &text.replace("field_length = 10", "field_length = 10\nledger = \"off\""));
    let words = "the ledger is off: neither answers nor acknowledged writes are checked";
    assert_eq!(ran.events(words), 2);
    assert!(ran.whole().trials.iter().all(|trial| trial.ledgers.is_empty() && trial.answers.is_empty()));
    let remarks = &ran.named("check")[0].end.remarks;
    assert!(remarks.iter().any(|(_, text)| text == "there is no ledger to check the records with"), "{remarks:?}");
}
