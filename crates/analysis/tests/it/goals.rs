//! Goals of any percentile, of one operation type, of a step, of a code.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{GoalState, GoalView};
use plimsoll_record::data::{Goal, GoalKind, PhaseResult, ResultName, Run};

use crate::recorded;

fn goal(what: &str, of: Option<&str>, limit: f64, unit: &str) -> Goal {
    Goal { what: GoalKind::named(what).unwrap(), of: of.map(str::to_owned), limit, unit: unit.into() }
}

fn judged(run: &mut Run, goal: Goal) -> GoalView {
    run.header.goals = vec![goal];
    view(run).goals.remove(0)
}

#[test]
fn a_goal_is_of_one_operation_type_or_step_where_it_says_so() {
    let mut run = recorded::transactions();
    let transfer = judged(&mut run, goal("p99", Some("transfer"), 2e6, "ns"));
    assert_eq!((transfer.state, transfer.text.as_str()), (GoalState::Held, "p99 of response time of transfer"));
    assert!((transfer.got.unwrap() / 1e6 - 1.0).abs() < 0.01, "{transfer:?}");
    let retried = judged(&mut run, goal("mean", Some("transfer retried"), 2e6, "ns"));
    assert_eq!(retried.state, GoalState::Missed);
    assert!((retried.got.unwrap() / 1e6 - 3.0).abs() < 0.01, "{retried:?}");
    let look = judged(&mut run, goal("rate", Some("look"), 399.0, "1/s"));
    assert_eq!((look.state, look.got), (GoalState::Held, Some(400.0)));
    let update = judged(&mut run, goal("errors", Some("update"), 10.0, "%"));
    assert_eq!(
        (update.state, update.got),
        (GoalState::Missed, Some(25.0)),
        "300 of 1,200 were refused and tried again"
    );
    let update = judged(&mut run, goal("p97.5", Some("update"), 1e6, "ns"));
    assert_eq!((update.state, update.text.as_str()), (GoalState::Held, "p97.5 of response time of update"));
    let steps = run.trials[0].header.kinds.iter_mut().filter(|kind| kind.name == "update");
    steps.for_each(|kind| kind.name = "transfer/2 UPDATE account".into());
    assert_eq!(judged(&mut run, goal("errors", Some("transfer/2"), 30.0, "%")).got, Some(25.0), "by its number");
    let unknown = judged(&mut run, goal("p99", Some("uptade"), 1e6, "ns"));
    assert_eq!(unknown.state, GoalState::NotMeasured);
    let whole = judged(&mut run, goal("mean", None, 8e5, "ns"));
    assert!(whole.state == GoalState::Missed && whole.got.unwrap() > 8e5, "{whole:?}");
}

#[test]
fn a_goal_of_a_code_counts_operations_that_failed_with_it() {
    let mut run = recorded::transactions();
    let share = |run: &mut Run, code: &str, limit: f64| {
        let judged = judged(run, goal("status", Some(code), limit, "%"));
        (judged.state, judged.got)
    };
    let end = &mut run.trials[0].phases[0].end;
    end.results.retain(|result| result.name != ResultName::Ops);
    end.push(ResultName::Ops, 1_000.0);
    assert_eq!(share(&mut run, "500", 0.0), (GoalState::Held, Some(0.0)), "no error has that code");
    let coded = |code: &str, value| PhaseResult { name: ResultName::ErrorCode, subject: code.into(), value, n: 1 };
    // A write that is answered by 500 may have come to pass: two outcomes of one code.
    let results = [coded("500", 3.0), coded("503", 5.0), coded("500", 2.0), coded("50000", 7.0)];
    run.trials[0].phases[0].end.results.extend(results);
    assert_eq!(share(&mut run, "500", 0.5), (GoalState::Held, Some(0.5)));
    assert_eq!(share(&mut run, "5xx", 0.5), (GoalState::Missed, Some(1.0)));
    assert_eq!(share(&mut run, "404", 0.0), (GoalState::Held, Some(0.0)));
    run.trials[0].phases[0].end.results.push(coded("connect", 9.0));
    assert_eq!(share(&mut run, "connect", 0.0), (GoalState::NotMeasured, None), "attempts are not operations");
    run.trials[0].phases[0].end.results.push(coded("other", 1.0));
    assert_eq!(
        share(&mut run, "404", 0.0),
        (GoalState::NotMeasured, None),
        "it may be among those that are not told apart"
    );
    assert_eq!(share(&mut run, "500", 0.5), (GoalState::Held, Some(0.5)));
}
