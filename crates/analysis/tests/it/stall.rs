//! Stalls: seconds that are one, what was done and what was missing in them, and what is none.

use plimsoll_analysis::view;
use plimsoll_analysis::view::VerdictState;
use plimsoll_core::Outcome;
use plimsoll_core::sampler::{ANSWERS, STORE};
use plimsoll_record::data::{Event, EventClass, Level, Purpose, ResultName, Run};

use crate::driven::{START_S, driven, sampled};
use crate::faulted::{PAUSE, fault};
use crate::study::SECOND_NS;

/// `usual` a second for `seconds`, and `stalled` in the seconds `at`.
fn rates(seconds: usize, usual: u64, stalled: u64, at: &[usize]) -> Vec<u64> {
    (0..seconds).map(|second| if at.contains(&second) { stalled } else { usual }).collect()
}

/// `usual` for `seconds`, and `other` in the seconds `at`.
fn values(seconds: usize, usual: f64, other: f64, at: &[usize]) -> Vec<f64> {
    (0..seconds).map(|second| if at.contains(&second) { other } else { usual }).collect()
}

/// The one sentence about the run's stalls.
#[track_caller]
fn sentence(run: &Run) -> String {
    let view = view(run);
    let [stalls] = view.stalls.as_slice() else { panic!("one phase with stalls: {:?}", view.stalls) };
    stalls.sentence.clone()
}

#[track_caller]
fn none(run: &Run) {
    let stalls = view(run).stalls;
    assert!(stalls.is_empty(), "{stalls:?}");
}

#[test]
fn seconds_that_follow_upon_each_other_are_one_stall_with_its_place_and_depth() {
    let run = driven(&rates(30, 1_000, 100, &[12, 13, 14]));
    let view = view(&run);
    let [stalls] = view.stalls.as_slice() else { panic!("{:?}", view.stalls) };
    let start_s = (START_S + 12) as f64;
    assert_eq!(stalls.spans_s, [(start_s, start_s + 3.0)]);
    assert_eq!((stalls.mean_per_s, stalls.usual_per_s), (910.0, 1_000.0));
    assert_eq!(
        stalls.sentence,
        "fjall, phase mixed: it stalled for 3.00 s at 112 s: throughput fell from its usual 1,000/s to 100/s, which the \
         mean of 910/s hides."
    );
    // It is no broken promise.
    assert_eq!(view.verdict.state, VerdictState::Measured);
}

#[test]
fn stalls_that_come_regularly_are_said_to() {
    let regular = sentence(&driven(&rates(50, 1_000, 200, &[5, 15, 25, 35, 45])));
    assert!(
        regular.contains(
            "it stalled 5 times, one every 10.0 s (at 105, 115, 125, 135, 145 s), for up to 1.00 s: throughput fell from \
             its usual 1,000/s to 200/s at worst, which the mean of 920/s hides"
        ),
        "{regular}"
    );
    let about = sentence(&driven(&rates(120, 1_000, 200, &[5, 25, 46, 65, 86])));
    assert!(about.contains("one every 19.0 s to 21.0 s"), "{about}");
    let irregular = sentence(&driven(&rates(50, 1_000, 200, &[5, 15, 23, 35, 45])));
    assert!(irregular.contains("it stalled 5 times") && !irregular.contains("every"), "{irregular}");
    // Three distances are no rule.
    let few = sentence(&driven(&rates(40, 1_000, 200, &[5, 15, 25, 35])));
    assert!(!few.contains("every"), "{few}");
}

#[test]
fn errors_that_began_in_these_seconds_are_named() {
    let mut run = driven(&rates(40, 1_000, 50, &[7]));
    let slices = &mut run.trials[0].phases[0].slices;
    let mut failed = slices[7].histograms[0].clone();
    failed.outcome = plimsoll_core::Outcome::Rejected;
    slices[7].histograms.push(failed.clone());
    let began = sentence(&run);
    assert!(began.contains("at the same time: 50 operations failed (otherwise none)"), "{began}");
    for slice in &mut run.trials[0].phases[0].slices {
        slice.histograms.truncate(1);
        slice.histograms.push(failed.clone());
    }
    let always = sentence(&run);
    assert!(!always.contains("failed"), "{always}");
}

/// Adds a command for a lab to the run: its time in milliseconds since the phase's start.
pub fn act(run: &mut Run, text: &str, from_ms: u64, until_ms: u64) {
    let ns = |ms: u64| START_S * SECOND_NS + ms * 1_000_000;
    let (from_ns, until_ns) = (ns(from_ms), ns(until_ms));
    let (trial, level, class) = (Some(0), Level::Warning, EventClass::Command);
    let (subject, text) = (String::new(), text.to_owned());
    run.events.push(Event { from_ns, until_ns, trial, level, class, subject, text });
}

#[test]
fn what_was_done_to_servers_at_the_same_time_is_named() {
    let at = [12, 13];
    let mut run = driven(&rates(30, 1_000, 100, &at));
    act(&mut run, "lab stop a 2 (took 4.00 s)", 5_000, 9_000);
    act(&mut run, "lab pause a 1", 11_950, 11_960);
    act(&mut run, "lab resume a 1", 13_900, 13_900);
    act(&mut run, "lab kill a 1", 14_100, 14_100);
    let text = sentence(&run);
    let named = "hides; at the same time: lab pause a 1 at 111.95 s and lab resume a 1 at 113.90 s.";
    assert!(text.contains(named) && !text.contains("stop") && !text.contains("kill"), "{text}");
    assert_eq!(view(&run).plots.acts.len(), 4);

    // Of another trial.
    run.events.iter_mut().for_each(|event| event.trial = Some(1));
    let text = sentence(&run);
    assert!(!text.contains("lab"), "{text}");

    let mut run = driven(&rates(30, 1_000, 100, &at));
    (0..6).for_each(|n| act(&mut run, &format!("lab kill a {n}"), 12_000 + n, 12_000 + n));
    let text = sentence(&run);
    assert!(text.contains("lab kill a 3 at 112.00 s and 2 further actions."), "{text}");
}

#[test]
fn a_node_that_is_gone_is_named() {
    let at = [12, 13, 14];
    let is_stall = |second: &u64| at.contains(&(*second as usize));
    let mut run = driven(&rates(30, 1_000, 100, &at));
    sampled(&mut run, STORE, "a node 1", "keys", "", &values(30, 7.0, 7.0, &[]));
    sampled(&mut run, STORE, "a node 2", "keys", "", &values(30, 7.0, 7.0, &[]));
    let gone = run.series.len() as u32 - 1;
    for second in (0..30).filter(is_stall) {
        let at_ns = (START_S + second + 1) * SECOND_NS;
        let sample = run.samples.iter_mut().find(|sample| sample.at_ns == at_ns).unwrap();
        sample.values.retain(|(series, _)| *series != gone);
    }
    let text = sentence(&run);
    assert!(text.contains("at the same time: no counters came from a node 2."), "{text}");
    // It does not come back.
    for sample in run.samples.iter_mut().filter(|sample| sample.at_ns > (START_S + 13) * SECOND_NS) {
        sample.values.retain(|(series, _)| *series != gone);
    }
    let text = sentence(&run);
    assert!(text.contains("no counters came from a node 2"), "{text}");

    // A known server that answers nothing has a rate of 0; if none answers, that is the stall itself.
    let mut run = driven(&rates(30, 1_000, 100, &at));
    sampled(&mut run, ANSWERS, "a node 1", "rate", "1/s", &values(30, 500.0, 100.0, &at));
    sampled(&mut run, ANSWERS, "a node 2", "rate", "1/s", &values(30, 500.0, 0.0, &at));
    let text = sentence(&run);
    assert!(text.contains("at the same time: a node 2 answered nothing"), "{text}");
    let mut run = driven(&rates(30, 1_000, 0, &at));
    sampled(&mut run, ANSWERS, "a node 1", "rate", "1/s", &values(30, 500.0, 0.0, &at));
    sampled(&mut run, ANSWERS, "a node 2", "rate", "1/s", &values(30, 500.0, 0.0, &at));
    let text = sentence(&run);
    assert!(!text.contains("answered nothing"), "{text}");
}

#[test]
fn half_of_the_usual_and_more_is_no_stall() {
    none(&driven(&rates(30, 1_000, 500, &[9])));
    assert!(sentence(&driven(&rates(30, 1_000, 499, &[9]))).contains("at 109 s"));
}

#[test]
fn the_usual_throughput_of_a_phase_that_mostly_stalled_is_the_one_before() {
    let silent: Vec<usize> = (2..10).collect();
    let text = sentence(&driven(&rates(10, 1_000, 0, &silent)));
    let wanted = "it stalled for 8.00 s at 102 s: throughput fell from its usual 1,000/s to 0/s, which the mean of 200/s \
                  hides";
    assert!(text.contains(wanted), "{text}");
    let text = sentence(&driven(&[23_575, 27_140, 13_918, 3_647, 395, 0, 0, 0]));
    let wanted = "it stalled for 5.00 s at 103 s: throughput fell from its usual 13,900/s to 0/s, which the mean of 8,580/s \
                  hides";
    assert!(text.contains(wanted), "{text}");

    // A fault tells which slices are the usual ones of a store that still answers.
    let slow: Vec<usize> = (3..10).collect();
    let mut run = driven(&rates(10, 1_000, 300, &slow));
    none(&run);
    fault(&mut run, PAUSE, 3_000, None);
    let text = sentence(&run);
    assert!(text.contains("it stalled for 7.00 s at 103 s: throughput fell from its usual 1,000/s to 300/s"), "{text}");
}

#[test]
fn a_few_seconds_or_a_few_operations_tell_nothing() {
    none(&driven(&rates(7, 1_000, 0, &[3])));
    assert!(sentence(&driven(&rates(8, 1_000, 0, &[3]))).contains("at 103 s"));
    none(&driven(&rates(30, 49, 0, &[9])));
    assert!(sentence(&driven(&rates(30, 50, 0, &[9]))).contains("at 109 s"));
}

#[test]
fn warm_up_the_last_part_of_a_second_and_what_drains_are_no_stall() {
    let mut run = driven(&rates(30, 1_000, 50, &[0, 1]));
    run.trials[0].phases[0].slices[..2].iter_mut().for_each(|slice| slice.warmup = true);
    none(&run);

    let mut run = driven(&rates(30, 1_000, 50, &[29]));
    run.trials[0].phases[0].slices[29].drain = true;
    none(&run);

    let mut run = driven(&rates(30, 1_000, 0, &[29]));
    let last = &mut run.trials[0].phases[0].slices[29];
    last.end_ns = last.start_ns + SECOND_NS / 3;
    none(&run);
}

#[test]
fn a_rung_of_a_search_is_to_break() {
    let mut run = driven(&rates(30, 1_000, 50, &[9]));
    run.trials[0].phases[0].header.rung = Some(Purpose::Climb);
    none(&run);
}

/// Makes the run of `driven` with a schedule: unanswered due operations are pending, and every time is recorded twice.
fn scheduled(rates: &[u64], due: &[u64]) -> Run {
    let mut run = driven(rates);
    let mut pending = 0;
    for (slice, (rate, due)) in run.trials[0].phases[0].slices.iter_mut().zip(rates.iter().zip(due)) {
        pending += due - rate;
        slice.due_unsent = pending;
        let mut response = slice.histograms[0].clone();
        response.measure = plimsoll_core::Measure::Response;
        slice.histograms.push(response);
    }
    run
}

#[test]
fn seconds_in_which_a_ramp_wanted_little_are_no_stall_and_those_in_which_it_got_little_are() {
    let ramp: Vec<u64> = (1..=30).map(|second| second * 100).collect();
    let quiet = scheduled(&ramp, &ramp);
    none(&quiet);
    let shown = view(&quiet);
    assert!(!shown.warnings.iter().any(|warning| warning.text.contains("throughput")), "{:?}", shown.warnings);
    // Two rows of one kind are told apart by what they measure.
    let phase = &shown.trials[0].phases[0];
    assert!(phase.open_loop && phase.scheduled_rate_per_s.is_none(), "{phase:?}");
    let mut got = ramp.clone();
    got[24] = 300;
    assert!(sentence(&scheduled(&got, &ramp)).contains("it stalled for 1.00 s at 124 s"));
}

#[test]
fn retries_do_not_make_seconds_stalls_in_which_a_ramp_wanted_little() {
    let ramp: Vec<u64> = (1..=30).map(|second| second * 100).collect();
    let mut run = scheduled(&ramp, &ramp);
    let phase = &mut run.trials[0].phases[0];
    for slice in &mut phase.slices {
        // Each operation fails three times before it succeeds.
        let mut failed = slice.histograms.clone();
        failed.iter_mut().for_each(|one| one.outcome = Outcome::Rejected);
        (0..3).for_each(|_| slice.histograms.extend(failed.clone()));
    }
    phase.end.push(ResultName::Retries, 3.0 * ramp.iter().sum::<u64>() as f64);
    phase.end.push(ResultName::GivenUp, 0.0);
    none(&run);
}
