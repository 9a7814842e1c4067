//! Changes of level as findings: the series that changed with them, and the actions that coincide with them.

use std::ops::Range;

use plimsoll_analysis::view;
use plimsoll_analysis::view::FindingView;
use plimsoll_record::data::Run;

use crate::driven::{driven, sampled};
use crate::findings::{SECONDS, only, values};
use crate::stall::act;

/// A run whose throughput is another one in these seconds.
fn leveled(at: Range<usize>, usual: u64, other: u64) -> Run {
    driven(&(0..SECONDS).map(|second| if at.contains(&second) { other } else { usual }).collect::<Vec<u64>>())
}

/// Adds a series that has another value in these seconds.
fn stepped(run: &mut Run, [source, subject, name, unit]: [&str; 4], at: Range<usize>, usual: f64, other: f64) {
    sampled(run, source, subject, name, unit, &values(SECONDS, usual, other, &at.collect::<Vec<usize>>()));
}

const DISK: [&str; 4] = ["disk", "vda", "busy", "%"];
const SERVER: [&str; 4] = ["server", "", "user", "%"];

fn level(run: &Run) -> FindingView {
    let mut levels: Vec<FindingView> = view(run).findings;
    levels.retain(|finding| finding.rule == "level");
    let [level] = levels.as_slice() else { panic!("one level: {levels:?}") };
    level.clone()
}

#[test]
fn a_lasting_level_names_the_series_that_rose_with_it_and_the_command_that_shows_all() {
    let mut run = leveled(50..SECONDS, 1_000, 600);
    stepped(&mut run, DISK, 49..SECONDS, 12.0, 70.0);
    // Less work is an effect, and what rises much later is another matter.
    stepped(&mut run, SERVER, 50..SECONDS, 80.0, 50.0);
    stepped(&mut run, ["memory", "", "dirty", "B"], 62..SECONDS, 1e7, 9e8);
    let finding = only(&run, "level");
    assert_eq!(
        finding.sentence,
        "fjall, phase mixed: from 150.0 s on throughput is 600/s (median), and before it was 1,000/s; changed at the same \
         time: disk vda from 12.0 % to 70.0 %."
    );
    assert_eq!(finding.version, 2);
    let [evidence] = finding.evidence.as_slice() else { panic!("{:?}", finding.evidence) };
    assert_eq!((evidence.series.as_str(), evidence.usual, evidence.seen), ("disk vda", 12.0, 70.0));
    assert_eq!((evidence.lead_s, evidence.effect, evidence.q), (1.0, 6.0, None));
    let explain = format!("`plimsoll explain {} --from 150s --to 220s`", run.header.id);
    assert_eq!(finding.next, format!("Compare this time with the rest of the phase: {explain}."));
    assert_eq!(finding.command, "plimsoll run coupons --seed 2");
    // Turns are as long as the phase, in which the level changed.
    run.trials[0].header.may_buffer = true;
    run.header.command_line = ["plimsoll", "drive", "kv", "--for", "2min"].map(str::to_owned).to_vec();
    let finding = only(&run, "level");
    let compared = "plimsoll ab kv --b durability=buffered --metric p99 --turn 120s --budget 3840s";
    assert_eq!(finding.command, compared);
    assert!(finding.next.ends_with("side B with `durability=buffered`."), "{}", finding.next);
}

#[test]
fn a_level_beside_which_nothing_changed_says_so() {
    let mut run = leveled(50..SECONDS, 1_000, 600);
    stepped(&mut run, SERVER, 50..SECONDS, 80.0, 50.0);
    stepped(&mut run, DISK, 62..SECONDS, 12.0, 70.0);
    let finding = only(&run, "level");
    let words = "and before it was 1,000/s; no watched series changed with it so clearly that it is named (2 series).";
    assert!(finding.sentence.ends_with(words) && finding.evidence.is_empty(), "{finding:?}");
    assert!(finding.next.contains("Look for what changed then"), "{}", finding.next);
}

#[test]
fn a_level_that_comes_back_has_an_end_and_names_what_ended_with_it() {
    let mut run = leveled(40..70, 1_000, 600);
    stepped(&mut run, DISK, 40..70, 12.0, 97.0);
    // A change that lasts is another one.
    stepped(&mut run, ["memory", "", "dirty", "B"], 40..SECONDS, 1e7, 9e8);
    // The slow moment is not said to be explained by nothing.
    let finding = only(&run, "level");
    assert_eq!(
        finding.sentence,
        "fjall, phase mixed: from 140.0 s to 170.0 s throughput was 600/s (median), and otherwise 1,000/s; changed at the \
         same time: disk vda from 12.0 % to 97.0 %."
    );
    assert_eq!(finding.spans_s, [(140.0, 170.0)]);
    assert!(finding.next.ends_with("--from 140s --to 170s`."), "{}", finding.next);
}

#[test]
fn an_action_that_coincides_with_a_level_comes_before_all_series() {
    let mut run = leveled(50..SECONDS, 1_000, 600);
    stepped(&mut run, DISK, 50..SECONDS, 12.0, 70.0);
    act(&mut run, "lab pause a 1", 20_000, 20_100);
    act(&mut run, "lab limit a 1", 49_900, 49_950);
    let words = "; the change coincides with lab limit a 1 at 149.90 s; changed at the same time: disk vda from 12.0 % to \
                 70.0 %.";
    let finding = level(&run);
    assert!(finding.sentence.ends_with(words), "{}", finding.sentence);
}

#[test]
fn a_level_that_comes_back_and_is_the_effect_of_an_action_is_told_once() {
    let mut run = leveled(40..60, 1_000, 400);
    act(&mut run, "lab pause a 1", 39_950, 39_960);
    only(&run, "fault");
}

#[test]
fn a_phase_that_gets_better_names_what_fell_and_the_end_of_its_warm_up() {
    let mut run = leveled(0..50, 1_000, 600);
    stepped(&mut run, DISK, 0..50, 12.0, 70.0);
    stepped(&mut run, SERVER, 0..50, 80.0, 50.0);
    let words = "; the change coincides with the end of a warm-up that was not left out; changed at the same time: disk \
                 vda from 70.0 % to 12.0 %.";
    let finding = level(&run);
    assert!(finding.sentence.ends_with(words), "{}", finding.sentence);
}
