//! Tests of the report on stores whose disk lost power.

use std::collections::BTreeMap;

use plimsoll_analysis::view;
use plimsoll_analysis::view::{GoalState, PromiseState, PromiseView, VerdictState};
use plimsoll_core::{Outcome, SliceHistogram};
use plimsoll_record::data::{
    Cell, DID_NOT_START, Goal, GoalKind, LedgerCheck, Phase, PhaseEnd, PhaseKind, PhaseResult, PhaseState, ResultName,
    Run,
};

use crate::recorded;
use crate::study::{served, times};

/// Result of a cut.
#[derive(Clone, Copy)]
struct Cut {
    lost: u64,
    wrong: Option<(&'static str, u64)>,
    complete: bool,
    at_risk: f64,
}

const KEPT: Cut = Cut { lost: 0, wrong: None, complete: true, at_risk: 3.0 };

/// A run with a drive, cuts after each other, and a check after each of them.
fn cut(cuts: &[Cut]) -> Run {
    let mut run = recorded::transactions();
    run.header.goals.clear();
    run.trials[0].header.record_count = 0;
    let trial = &mut run.trials[0];
    let drive = trial.phases[0].clone();
    for (number, one) in (1..).zip(cuts) {
        let mut header = drive.header.clone();
        (header.ordinal, header.kind, header.name) = (10 * number, PhaseKind::Power, format!("power_{number}"));
        let mut end = PhaseEnd { state: PhaseState::Complete, ..PhaseEnd::default() };
        end.push(ResultName::CutSeconds, 2.0);
        end.push(ResultName::AtRiskWrites, one.at_risk);
        end.push(ResultName::Seconds, 0.5);
        let checked = PhaseEnd { state: PhaseState::Complete, ..PhaseEnd::default() };
        let mut check = Phase { header: header.clone(), end: checked, slices: Vec::new(), operations: None };
        (check.header.ordinal, check.header.kind) = (10 * number + 1, PhaseKind::Check);
        trial.phases.push(Phase { header, end, slices: Vec::new(), operations: None });
        trial.phases.push(check);
        let start_ns = drive.header.start_ns;
        trial.ledgers.push(LedgerCheck {
            phase: 10 * number + 1,
            acknowledged: 1_000,
            unknown: 1,
            read_back: 1_000,
            lost: one.lost,
            lost_window_ns: (one.lost > 0).then_some((start_ns + 1_750_000_000, start_ns + 1_990_000_000)),
            wrong: one.wrong.map(|(name, count)| (name.to_owned(), count)).into_iter().collect::<BTreeMap<_, _>>(),
            loss_upper_bound: (one.lost == 0 && one.complete).then_some(0.003),
            complete: one.complete,
            ..LedgerCheck::default()
        });
    }
    run
}

fn promise(cuts: &[Cut]) -> PromiseView {
    let mut promises = view(&cut(cuts)).promises;
    assert_eq!(promises.len(), 1);
    promises.remove(0)
}

#[test]
fn cuts_of_the_same_settings_are_one_promise() {
    let one = promise(&[KEPT, KEPT, KEPT]);
    assert_eq!((one.state, one.cuts, one.acknowledged, one.lost), (PromiseState::Kept, 3, 3_000, Some(0)));
    assert_eq!(one.loss_upper_bound.map(|bound| (bound * 1e6).round()), Some(1_000.0), "three over 3,000");
    assert_eq!((one.at_risk_writes, one.recovery_s), (3.0, Some(0.5)));
    let one = promise(&[KEPT, Cut { lost: 12, ..KEPT }]);
    assert_eq!((one.state, one.lost, one.loss_upper_bound), (PromiseState::Lost, Some(12), None));
    assert!((one.lost_window_s.unwrap() - 0.25).abs() < 1e-6, "{one:?}");
    assert_eq!(view(&cut(&[KEPT, Cut { lost: 12, ..KEPT }])).verdict.state, VerdictState::Fail);
}

#[test]
fn what_is_lost_without_a_cut_fails_beside_promises_that_were_kept() {
    let mut run = cut(&[KEPT]);
    let mut plain = run.trials[0].clone();
    plain.header.ordinal = 1;
    plain.phases.retain(|phase| phase.header.kind != PhaseKind::Power);
    plain.phases.iter_mut().for_each(|phase| phase.header.trial = 1);
    (plain.ledgers[0].trial, plain.ledgers[0].lost) = (1, 7);
    run.trials.push(plain);
    run.header.outline.trials = 2;
    let verdict = view(&run).verdict;
    assert_eq!(verdict.state, VerdictState::Fail, "{verdict:?}");
    assert!(verdict.sentence.contains("lost 7 of 1,000 acknowledged writes"), "{verdict:?}");
    run.trials[1].ledgers[0].lost = 0;
    run.trials[1].ledgers[0].wrong = BTreeMap::from([("refused".to_owned(), 1)]);
    let verdict = view(&run).verdict;
    assert!(verdict.sentence.contains("had 1 record with a refused write"), "{verdict:?}");
}

#[test]
fn attempts_to_connect_after_a_cut_hide_no_operation_that_failed() {
    let verdict = |codes: &[(&str, f64)]| {
        let mut run = cut(&[KEPT]);
        let drive = &mut run.trials[0].phases[0];
        let refused = SliceHistogram { outcome: Outcome::Rejected, ..served(0, times([(1_000_000, 600)])) };
        drive.slices[4].histograms.push(refused);
        let coded = |(code, value): &(&str, f64)| PhaseResult {
            name: ResultName::ErrorCode,
            subject: (*code).to_owned(),
            value: *value,
            n: 1,
        };
        drive.end.results.extend(codes.iter().map(coded));
        view(&run).verdict
    };
    let failed = verdict(&[("40001", 600.0), ("connect", 600.0)]);
    assert_eq!(failed.state, VerdictState::Fail, "{failed:?}");
    assert!(failed.sentence.starts_with("600 of "), "{failed:?}");
    // The server had no power.
    for code in ["closed", "breaker"] {
        let kept = verdict(&[(code, 600.0), ("connect", 40.0)]);
        assert_ne!(kept.state, VerdictState::Fail, "{kept:?}");
    }
}

#[test]
fn a_cut_with_nothing_at_risk_proves_nothing_and_does_not_count() {
    let vacuous = Cut { at_risk: 0.0, ..KEPT };
    let one = promise(&[vacuous, KEPT]);
    assert_eq!((one.state, one.cuts, one.vacuous_cuts, one.acknowledged), (PromiseState::Kept, 2, 1, 1_000));
    assert_eq!(promise(&[vacuous]).state, PromiseState::NothingAtRisk);
    assert_eq!(view(&cut(&[vacuous])).verdict.state, VerdictState::Undecided);
    // Only the load had been acknowledged.
    let mut run = cut(&[KEPT]);
    run.trials[0].header.record_count = 1_000;
    assert_eq!(view(&run).promises[0].state, PromiseState::NothingAtRisk);
    run.trials[0].header.record_count = 900;
    assert_eq!(view(&run).promises[0].loss_upper_bound, Some(0.03), "three over the 100 since the load");
    // Who loses something although the disk had nothing to flush has lost it all the same.
    assert_eq!(promise(&[Cut { lost: 1, at_risk: 0.0, ..KEPT }]).state, PromiseState::Lost);
}

/// Adds to each cut of `run` the number of data pages at risk, if it is known, and with `guard` a setting that protects
/// pages.
fn with_pages(mut run: Run, pages: &[Option<f64>], guard: bool) -> Run {
    let powers = run.trials[0].phases.iter_mut().filter(|phase| phase.header.kind == PhaseKind::Power);
    for (power, pages) in powers.zip(pages) {
        let mut push = |name, subject: &str, value| {
            power.end.results.push(PhaseResult { name, subject: subject.to_owned(), value, n: 1 });
        };
        if guard {
            push(ResultName::PageGuard, "double_write=off", 1.0);
        }
        if let Some(pages) = pages {
            push(ResultName::AtRiskKind, "log", 2.0);
            push(ResultName::AtRiskKind, "data pages", *pages);
        }
    }
    run
}

#[test]
fn a_setting_that_protects_pages_is_kept_only_if_a_page_was_at_risk() {
    let of = |pages: &[Option<f64>], guard| {
        let seen = view(&with_pages(cut(&vec![KEPT; pages.len()]), pages, guard));
        (seen.promises[0].clone(), seen.verdict.state)
    };
    let (one, verdict) = of(&[Some(0.0), Some(0.0)], true);
    assert_eq!(
        (one.state, verdict, one.loss_upper_bound),
        (PromiseState::PagesNotTried, VerdictState::Undecided, None)
    );
    let says = "not tried: no data page was on its way at any of 2 power cuts, so that nothing is shown about double_write=off; try";
    assert!(one.sentence.contains(says), "{}", one.sentence);
    assert_eq!(one.at_risk_kinds, BTreeMap::from([("data pages".to_owned(), 0), ("log".to_owned(), 2)]));
    // One cut with a page is enough; without the setting the promise is kept, and the pages are mentioned.
    let (one, verdict) = of(&[Some(0.0), Some(7.0)], true);
    assert_eq!((one.state, verdict), (PromiseState::Kept, VerdictState::Pass));
    assert_eq!(one.at_risk_kinds["data pages"], 1);
    let (one, _) = of(&[Some(0.0)], false);
    assert!(one.state == PromiseState::Kept && one.sentence.contains("no data page was on its way"), "{one:?}");
    // A file system that tells no kinds.
    let (one, verdict) = of(&[Some(0.0), None], true);
    assert_eq!((one.state, verdict), (PromiseState::PagesNotTried, VerdictState::Undecided));
    assert!(one.sentence.contains("not known if a data page was on its way"), "{}", one.sentence);
    let (one, _) = of(&[None], false);
    assert!(one.state == PromiseState::Kept && !one.sentence.contains("data page"), "{}", one.sentence);
    // A loss is a loss.
    let lost = with_pages(cut(&[KEPT, Cut { lost: 1, ..KEPT }]), &[Some(0.0), Some(0.0)], true);
    let one = view(&lost).promises.remove(0);
    assert_eq!((one.state, one.broken_cuts), (PromiseState::Lost, 1));
    assert!(one.sentence.ends_with("; broken at 1 of 2."), "{}", one.sentence);
}

#[test]
fn what_could_not_be_read_is_not_kept() {
    let mut run = cut(&[KEPT, Cut { complete: false, ..KEPT }]);
    let one = view(&run).promises.remove(0);
    assert_eq!((one.state, one.acknowledged, one.lost), (PromiseState::NotKnown, 2_000, None));
    assert_eq!(one.loss_upper_bound, None);
    // A goal on what could not be read is undecided, for it was looked for.
    run.header.goals = vec![Goal { what: GoalKind::Lost, of: None, limit: 0.0, unit: String::new() }];
    let view = view(&run);
    assert_eq!((view.verdict.state, view.goals[0].state), (VerdictState::Undecided, GoalState::Undecided));
}

#[test]
fn a_store_that_dies_over_its_check_has_not_kept_anything_and_what_it_lost_stays_lost() {
    for (one, state) in [(KEPT, PromiseState::NotKnown), (Cut { lost: 2, ..KEPT }, PromiseState::Lost)] {
        let mut run = cut(&[one]);
        let check = run.trials[0].phases.iter_mut().find(|phase| phase.header.kind == PhaseKind::Check).unwrap();
        check.end.state = PhaseState::Failed("connection refused".to_owned());
        assert_eq!(view(&run).promises[0].state, state);
    }
}

#[test]
fn after_several_drives_no_bound_is_said() {
    let mut run = cut(&[KEPT]);
    assert!(view(&run).promises[0].loss_upper_bound.is_some());
    let mut drive = run.trials[0].phases[0].clone();
    drive.header.ordinal = 5;
    run.trials[0].phases.insert(1, drive);
    let one = view(&run).promises.remove(0);
    assert_eq!((one.state, one.loss_upper_bound), (PromiseState::Kept, None));
}

#[test]
fn what_was_seen_and_is_gone_is_lost_and_what_nobody_wrote_is_damage() {
    let one = promise(&[Cut { wrong: Some(("resurrected", 7)), ..KEPT }]);
    assert_eq!((one.state, one.lost, one.wrong.len()), (PromiseState::Lost, Some(7), 0));
    assert_eq!(promise(&[Cut { wrong: Some(("wrong_content", 1)), ..KEPT }]).state, PromiseState::Damaged);
    // Only read, and never acknowledged: nothing that was promised is gone.
    let mut run = cut(&[KEPT]);
    run.trials[0].ledgers[0].read_then_lost = 1;
    let seen = view(&run);
    let one = &seen.promises[0];
    assert_eq!((one.state, one.lost, one.read_then_lost), (PromiseState::Kept, Some(0), 1));
    let said = "; 1 record had been read in a state that was never acknowledged and is gone.";
    assert!(one.sentence.ends_with(said), "{}", one.sentence);
    assert_eq!(seen.verdict.state, VerdictState::Pass, "{:?}", seen.verdict);
    assert!(seen.warnings.iter().any(|warning| warning.text.contains("had been read")), "{:?}", seen.warnings);
    let one = promise(&[Cut { complete: false, ..KEPT }, Cut { wrong: Some(("wrong_content", 1)), ..KEPT }]);
    let said = "(1 wrong content); how many of 2,000 acknowledged writes were lost is not known; broken at 1 of 2.";
    assert!(one.sentence.ends_with(said), "{}", one.sentence);
    // A store whose own check fails may not be readable.
    let one = promise(&[Cut { wrong: Some(("integrity", 1)), complete: false, ..KEPT }]);
    assert_eq!((one.state, one.lost, one.wrong.len()), (PromiseState::Damaged, None, 1));
    let one = promise(&[KEPT, Cut { wrong: Some((DID_NOT_START, 1)), complete: false, ..KEPT }]);
    assert_eq!((one.state, one.recovery_s), (PromiseState::NotStarted, None));
    // Of a store that does not start it is not known what it lost.
    assert_eq!((one.lost, one.acknowledged), (None, 2_000));
    assert!(one.sentence.contains("did not start again after 1 of 2 power cuts"), "{}", one.sentence);
}

#[test]
fn a_repeat_of_a_moment_that_did_not_come_names_one_that_did() {
    let mut run = cut(&[Cut { lost: 4, ..KEPT }]);
    let mut repeat = |moment: &str| {
        let (name, command) = ("a".to_owned(), "plimsoll promise a".to_owned());
        let (store, fault, cuts) = (name.clone(), String::new(), vec![(0, moment.to_owned())]);
        run.header.outline.cells = vec![Cell { name, store, fault, cuts, command }];
        view(&run).promises[0].repeat.clone()
    };
    assert!(repeat("flush 254").contains("--cut 'flush 254'"), "{}", repeat("flush 254"));
    for (name, value) in [(ResultName::Writes, 900.0), (ResultName::Flushes, 253.0)] {
        let power = run.trials[0].phases.iter_mut().find(|phase| phase.header.kind == PhaseKind::Power);
        power.unwrap().end.push(name, value);
    }
    let mut repeat = |moment: &str| {
        run.header.outline.cells[0].cuts[0].1 = moment.to_owned();
        view(&run).promises[0].repeat.clone()
    };
    assert!(repeat("flush 254").contains("--cut 'write 900'"), "{}", repeat("flush 254"));
    assert!(repeat("flush 253").contains("--cut 'flush 253'"), "{}", repeat("flush 253"));
    assert!(repeat("write 901").contains("--cut 'write 900'"), "{}", repeat("write 901"));
}

#[test]
fn a_cell_says_what_was_not_needed_what_was_not_tried_and_what_repeats_it() {
    let cell = |name: &str, trials: std::ops::Range<u32>| Cell {
        name: name.to_owned(),
        store: name.to_owned(),
        fault: "ext4 · none".to_owned(),
        cuts: trials.map(|trial| (trial, format!("flush {}", 10 + trial))).collect(),
        command: format!("plimsoll promise {name}"),
    };
    let trial = |ordinal: u32, one: Cut| {
        let mut trial = cut(&[one]).trials.remove(0);
        trial.header.ordinal = ordinal;
        trial.phases.iter_mut().for_each(|phase| phase.header.trial = ordinal);
        trial
    };
    let mut run = cut(&[]);
    run.header.outline.trials = 14;
    run.header.outline.cells =
        vec![cell("a", 0..3), cell("b", 3..5), cell("c", 5..7), cell("d", 7..8), cell("e", 8..11), cell("f", 11..14)];
    let lost = Cut { lost: 4, ..KEPT };
    run.trials = vec![trial(0, KEPT), trial(1, lost), trial(3, KEPT), trial(4, KEPT)];
    // Acknowledged writes were not looked for.
    run.trials.push(trial(7, KEPT));
    run.trials[4].ledgers.clear();
    // One was made, and one failed; of the other cell one failed before another lost something.
    run.trials.extend([trial(8, KEPT), trial(9, KEPT), trial(11, KEPT), trial(12, lost)]);
    run.trials[6].ledgers.clear();
    run.trials[7].ledgers.clear();
    let found = view(&run);
    let counts = |one: &PromiseView| [one.cuts, one.cuts_not_needed, one.cuts_missing];
    let seen: Vec<_> = found.promises.iter().map(|one| (one.state, counts(one), one.repeat.as_str())).collect();
    assert_eq!(
        seen,
        [
            (PromiseState::Lost, [2, 1, 0], "plimsoll promise a --cut 'flush 11' --tries 5"),
            (PromiseState::Kept, [2, 0, 0], "plimsoll promise b --cut 'flush 13,flush 14'"),
            (PromiseState::NotTried, [0, 0, 2], "plimsoll promise c --cut 'flush 15,flush 16'"),
            (PromiseState::NotKnown, [0, 0, 1], "plimsoll promise d --cut 'flush 17'"),
            (PromiseState::Kept, [1, 0, 2], "plimsoll promise e --cut 'flush 18,flush 19,flush 20'"),
            (PromiseState::Lost, [1, 1, 1], "plimsoll promise f --cut 'flush 22' --tries 5"),
        ]
    );
    let sentence = &found.promises[4].sentence;
    assert!(sentence.contains("lost in 1 of 3 power cuts"), "{sentence}");
    // What was not needed is not missing; what was not tried is.
    let reasons = found.verdict.reasons.join(" ");
    assert!(reasons.contains("9 of 12 trials were run"), "{reasons}");
}

/// A store, its settings, and the number of writes that its cut lost.
type Case<'c> = (&'c str, &'c [(&'c str, &'c str)], u64);

/// A run with a trial for each of `cases`.
fn settings(cases: &[Case<'_>]) -> Run {
    let mut run = cut(&[]);
    let trials = (0..).zip(cases).map(|(ordinal, (store, labels, lost))| {
        let mut trial = cut(&[Cut { lost: *lost, ..KEPT }]).trials.remove(0);
        (trial.header.ordinal, trial.header.store_label) = (ordinal, (*store).to_owned());
        trial.header.labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        trial.header.labels.insert("power_cut".to_owned(), format!("flush {ordinal}"));
        trial.phases.iter_mut().for_each(|phase| phase.header.trial = ordinal);
        trial.ledgers.iter_mut().for_each(|ledger| ledger.trial = ordinal);
        trial
    });
    run.trials = trials.collect();
    run.header.outline.trials = cases.len() as u32;
    run
}

#[test]
fn settings_with_which_data_was_lost_are_those_of_no_trial_that_kept_it() {
    const HONEST: (&str, &str) = ("flushes", "honoured");
    const LYING: (&str, &str) = ("flushes", "ignored");
    let one: [Case<'_>; 5] = [
        ("a", &[("time", "54ms"), HONEST], 0),
        ("a", &[("time", "54ms"), LYING], 3),
        ("a", &[("time", "1ms"), HONEST], 0),
        ("b", &[("time", "54ms"), HONEST], 0),
        ("b", &[("time", "1ms"), LYING], 5),
    ];
    let seen = view(&settings(&one));
    assert_eq!(seen.broken_with, ["flushes=ignored"]);
    // Above the verdict, and only there.
    assert!(seen.summary[0].text.ends_with(" · broken only with flushes=ignored"), "{}", seen.summary[0].text);
    assert!(!seen.verdict.sentence.contains("only with"), "{}", seen.verdict.sentence);
    // The table has both that broke, and no list repeats them.
    assert!(seen.verdict.sentence.ends_with("; 1 more promise was broken (see Promises)."), "{:?}", seen.verdict);
    assert!(seen.verdict.reasons.is_empty(), "{:?}", seen.verdict);
    // A cut with nothing at risk proves neither.
    let mut vacuous = settings(&one);
    for power in vacuous.trials[0].phases.iter_mut().filter(|phase| phase.header.kind == PhaseKind::Power) {
        power.end.results.iter_mut().filter(|one| one.name == ResultName::AtRiskWrites).for_each(|one| one.value = 0.0);
    }
    assert_eq!(view(&vacuous).broken_with, ["flushes=ignored"]);
    // Of few promises the sentence has it.
    let few = view(&settings(&one[..4]));
    assert!(!few.verdict.sentence.contains("only with"), "a single one is named: {}", few.verdict.sentence);
    let few = view(&settings(&[one[0], one[1], ("a", &[("time", "1ms"), LYING], 4)]));
    let said = "; 1 more promise was broken. Data was lost or wrong only with flushes=ignored.";
    assert!(few.verdict.sentence.ends_with(said), "{}", few.verdict.sentence);
}

#[test]
fn settings_that_no_single_one_separates_are_named_store_by_store() {
    let of = |cases: &[Case<'_>]| view(&settings(cases)).broken_with;
    let found = of(&[
        ("a", &[("sync", "full")], 0),
        ("a", &[("sync", "normal")], 1),
        ("a", &[("sync", "off")], 1),
        ("b", &[("sync", "normal")], 0),
        ("b", &[("sync", "off")], 1),
        ("c", &[("sync", "full")], 1),
    ]);
    assert_eq!(found, ["a (sync=normal or off)", "b (sync=off)", "c"]);
    let found = of(&[
        ("a", &[("sync", "full"), ("log", "wal")], 0),
        ("a", &[("sync", "off"), ("log", "wal")], 1),
        ("a", &[("sync", "full"), ("log", "none")], 1),
        ("a", &[("sync", "off"), ("log", "none")], 0),
    ]);
    assert_eq!(found, ["log=wal, sync=off; log=none, sync=full"]);
    // Nothing to set against it.
    assert!(of(&[("a", &[("sync", "off")], 1), ("b", &[("sync", "off")], 1)]).is_empty());
    assert!(of(&[("a", &[("sync", "off")], 0), ("b", &[("sync", "off")], 0)]).is_empty());
}
