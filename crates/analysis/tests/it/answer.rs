//! Answers to a plan's question: what is said, of which stores, and what is not said.

use plimsoll_analysis::quantities::quantities;
use plimsoll_analysis::view;
use plimsoll_analysis::view::{AnswerState, StudyAnswer, VerdictState};
use plimsoll_core::sampler::{ANSWERS, WITNESS};
use plimsoll_record::data::{
    Agreement, AnswerSentence, Figure, Goal, GoalKind, PublishedValue, ResultName, Run, Trial, Worthless,
};

use crate::driven::{driven, sampled};
use crate::faulted::{killed_primary, without_end};
use crate::study;

/// The ratio of the loads with index keys and without.
const RATIO: &str = "load.seconds[index=keyindex] / load.seconds[index=none]";

fn figure(name: &str, unit: &str, formula: &str) -> Figure {
    Figure { name: name.into(), unit: unit.into(), formula: formula.into(), published: Vec::new() }
}

fn published(value: f64, at: &[(&str, &str)]) -> PublishedValue {
    let at = at.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
    PublishedValue { value, of: "Riak".into(), at }
}

fn say(say: &str) -> AnswerSentence {
    AnswerSentence { say: say.into(), only_if: None, agree: None, repeats: 1 }
}

fn only_if(condition: &str, text: &str) -> AnswerSentence {
    AnswerSentence { only_if: Some(condition.into()), ..say(text) }
}

/// Sets the seconds of a trial's load.
fn set_load(trial: &mut Trial, seconds: f64) {
    let results = &mut trial.phases[0].end.results;
    results.iter_mut().find(|result| result.name == ResultName::Seconds).unwrap().value = seconds;
}

/// A run whose loads took so long: of sqlite without an index, with its own and with index keys; of fjall without and
/// with index keys.
fn loaded(seconds: [f64; 5], answers: &[AnswerSentence]) -> Run {
    let mut run = study::complete();
    run.trials.iter_mut().zip(seconds).for_each(|(trial, seconds)| set_load(trial, seconds));
    let ratio = Figure { published: vec![published(1.91, &[])], ..figure("ratio", "×", RATIO) };
    run.header.figures = vec![ratio, figure("lost", "", "check.lost[index=none]")];
    run.header.answers = answers.to_vec();
    run
}

/// The run with its trials repeated, whose loads took so many times as long.
fn repeated(run: &Run, times: &[[f64; 5]]) -> Run {
    let mut all = run.clone();
    all.trials.clear();
    for (repeat, times) in (1..).zip(times) {
        for (trial, times) in run.trials.iter().zip(times) {
            let mut trial = trial.clone();
            trial.header.labels.insert("repeat".into(), repeat.to_string());
            let seconds = trial.phases[0].end.result(ResultName::Seconds).unwrap().value;
            set_load(&mut trial, seconds * times);
            all.trials.push(trial);
        }
    }
    all
}

fn answered(run: &Run) -> StudyAnswer {
    view(run).answer.unwrap()
}

const LONG: [f64; 5] = [10.0, 12.0, 20.0, 10.0, 15.0];

#[test]
fn an_answer_has_the_values_of_all_stores_and_says_if_they_are_as_published() {
    let sentence = say("Index keys make a load {ratio} as long, and {published ratio} were published.");
    let run = loaded(LONG, &[AnswerSentence { agree: Some(Agreement::Direction), ..sentence }]);
    let answer = answered(&run);
    let wanted = "Index keys make a load sqlite 2.00 ×, fjall 1.50 × as long, and 1.91 × (Riak) were published; \
                  as published: 1.91 × (Riak).";
    assert_eq!((answer.state, answer.sentence.as_str()), (AnswerState::Answered, wanted));
    assert_eq!((answer.said[0].agrees, answer.notes().count()), (Some(true), 0));
    assert_eq!(view(&run).run.answer, wanted);

    // A factor of 2 accepts from 0.955 to 3.82, whatever one measurement may be off.
    let by_factor = AnswerSentence { agree: Some(Agreement::Factor(2.0)), ..say("{ratio}") };
    let of = |keys: f64| answered(&loaded([10.0, 12.0, 20.0, 10.0, keys], std::slice::from_ref(&by_factor)));
    assert_eq!(of(15.0).said[0].agrees, Some(true));
    assert!(of(60.0).sentence.ends_with("; as published for sqlite, not as published for fjall: 1.91 × (Riak)."));
    assert!(of(38.0).sentence.ends_with("; as published for sqlite, undecided for fjall: 1.91 × (Riak)."));
    let faster = answered(&loaded([20.0, 12.0, 10.0, 20.0, 10.0], &run.header.answers));
    assert!(faster.sentence.ends_with("; not as published: 1.91 × (Riak)."), "{}", faster.sentence);
    assert_eq!(faster.said[0].agrees, Some(false));

    assert_eq!(view(&study::complete()).answer, None, "a plan without sentences has no answer");
}

#[test]
fn one_short_load_is_noise_and_gives_no_answer() {
    let run = loaded([0.412, 0.534, 0.718, 0.221, 0.347], &[say("Index keys make a load {ratio} as long.")]);
    let answer = answered(&run);
    let wanted = "Undecided for sqlite (also fjall): `ratio` rests on one load of 718 ms, which may be noise; repeat it \
                  (`repeats`), or make it last at least 5 s.";
    assert_eq!((answer.state, answer.sentence.as_str()), (AnswerState::Undecided, wanted));
    assert!(answer.said.is_empty() && answer.notes().next().is_none());
    // The same loads three times are an answer, with the range of a wide one.
    let times = [[1.0; 5], [1.0, 1.0, 1.2, 1.0, 1.0], [1.0, 1.0, 0.9, 1.0, 1.0]];
    let answer = answered(&repeated(&run, &times));
    assert_eq!(answer.sentence, "Index keys make a load sqlite 1.74 × (1.57 to 2.09 ×), fjall 1.57 × as long.");
    // A count needs no time.
    let lost = answered(&Run { header: loaded(LONG, &[say("{lost} were lost.")]).header, ..run });
    assert_eq!(lost.sentence, "sqlite 0, fjall 0 were lost.");
}

#[test]
fn a_condition_that_is_too_close_names_a_figure_of_the_comparison_that_is() {
    let least = only_if("{first} < {second} and {first} < {third}", "{first} is the least.");
    let mut run = loaded([10.0, 10.5, 20.0, 10.0, 15.0], &[least]);
    // The bounds of the third are the widest, and it is far from the first.
    let third = "load.seconds[index=keyindex] * load.seconds[index=none]";
    run.header.figures = vec![
        figure("first", "s", "load.seconds[index=none]"),
        figure("second", "s", "load.seconds[index=own]"),
        figure("third", "s", third),
    ];
    let undecided = answered(&run).undecided;
    let [close] = undecided.as_slice() else { panic!("{undecided:?}") };
    assert!(close.starts_with("Undecided for sqlite: ") && close.contains("too close to tell"), "{close}");
    assert!(close.contains("`first`") || close.contains("`second`"), "{close}");
}

#[test]
fn a_difference_that_one_measurement_does_not_tell_is_undecided() {
    let near = [10.0, 12.0, 10.2, 10.0, 15.0];
    let answer = answered(&loaded(near, &[say("Index keys make a load {ratio} as long.")]));
    assert_eq!(
        (answer.state, answer.sentence.as_str()),
        (AnswerState::Answered, "Index keys make a load fjall 1.50 × as long.")
    );
    let note = "Undecided for sqlite: `ratio` is 1.02 ×, or 0.923 to 1.13 ×: too close to tell; repeat it (`repeats`).";
    assert_eq!(answer.notes().collect::<Vec<_>>(), [note]);
    // So is a condition that holds for some of the repeats.
    let sentences = [only_if("{ratio} > 1", "Slower: {ratio}."), only_if("{ratio} <= 1", "Not slower: {ratio}.")];
    let times = [[1.0; 5], [1.0, 1.0, 1.3, 1.0, 1.0], [1.0, 1.0, 0.9, 1.0, 1.0]];
    let answer = answered(&repeated(&loaded(near, &sentences), &times));
    assert_eq!(answer.sentence, "Slower: fjall 1.50 ×.");
    let note = "Undecided for sqlite: `ratio` is 1.02 ×, and its 3 repeats do not agree: 0.918 to 1.33 ×.";
    assert_eq!(answer.notes().collect::<Vec<_>>(), [note]);
    // A ratio that is above 1, and of which no more is known, is no number to state.
    let times = [[1.0; 5], [1.0, 1.0, 90.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0]];
    let answer = answered(&repeated(&loaded(LONG, &[only_if("{ratio} > 1", "Slower: {ratio}.")]), &times));
    assert_eq!(answer.sentence, "Slower: fjall 1.50 ×.");
    let note =
        "Undecided for sqlite: `ratio` is 2.00 ×, and may be anything from 2.00 to 180 ×; repeat it (`repeats`).";
    assert_eq!(answer.notes().collect::<Vec<_>>(), [note]);
}

#[test]
fn a_sentence_is_said_of_the_stores_for_which_its_condition_holds() {
    let sentences =
        [only_if("{ratio} > 1 and {lost} = 0", "Slower: {ratio}."), only_if("{ratio} < 1", "Faster: {ratio}.")];
    let answer = answered(&loaded([10.0, 12.0, 20.0, 20.0, 10.0], &sentences));
    assert_eq!(answer.sentence, "Slower: sqlite 2.00 ×. Faster: fjall 0.500 ×.");
    let mut run = loaded(LONG, &sentences);
    run.trials[0].ledgers[0].lost = 3;
    assert_eq!(answered(&run).sentence, "Slower: fjall 1.50 ×.");
    let none = answered(&loaded(LONG, &sentences[1..]));
    assert_eq!(none.state, AnswerState::Undecided);
    assert_eq!(none.sentence, "Undecided: no sentence of the plan's answer applies to what was measured.");
}

#[test]
fn counts_of_chance_need_repeats_that_agree() {
    let sentence = AnswerSentence { repeats: 3, ..only_if("{lost} = 0", "Nothing was lost ({lost}).") };
    let run = loaded(LONG, &[sentence]);
    let wanted = "Undecided for sqlite (also fjall): 1 trial, and 3 must agree; run it with `repeats = 3`.";
    assert_eq!(answered(&run).sentence, wanted);
    let mut run = repeated(&run, &[[1.0; 5]; 3]);
    assert_eq!(answered(&run).sentence, "Nothing was lost (sqlite 0, fjall 0).");
    run.trials[5].ledgers[0].lost = 7;
    let answer = answered(&run);
    assert_eq!(answer.sentence, "Nothing was lost (fjall 0).");
    assert_eq!(answer.undecided, ["Undecided for sqlite: `lost` is 0, and its 3 repeats do not agree: 0 to 7."]);
}

#[test]
fn a_ratio_that_cannot_be_is_a_warning_and_no_answer() {
    let name = "beside the ceiling";
    let of = |durable: f64, quantity: &str| {
        let mut run = loaded([durable, 10.0, 0.0, 0.0, 0.0], &[say("It takes {beside the ceiling}.")]);
        run.trials.truncate(2);
        for (trial, durability) in run.trials.iter_mut().zip(["durable", "at-end"]) {
            trial.header.labels = [("durability", durability), ("store", "sqlite")]
                .map(|(label, value)| (label.to_owned(), value.to_owned()))
                .into();
        }
        let formula = format!("load.{quantity}[durability=durable] / load.{quantity}[durability=at-end]");
        run.header.figures = vec![figure(name, "×", &formula)];
        run
    };
    let run = of(6.0, "seconds");
    let answer = answered(&run);
    let wanted = "No answer for sqlite: `beside the ceiling` is 0.600 ×, but writes that survive more are not faster than \
                  those that survive less; repeat it on a quiet machine.";
    assert_eq!((answer.state, answer.sentence.as_str()), (AnswerState::Worthless, wanted));
    assert!(answer.said.is_empty());
    assert_eq!(answered(&of(40.0, "seconds")).sentence, "It takes 4.00 ×.");
    // As little as one measurement may be off is not impossible, and no answer either.
    assert_eq!(answered(&of(9.7, "seconds")).state, AnswerState::Undecided);

    let mut run = loaded(LONG, &[say("It falls by {fall}.")]);
    run.header.figures = vec![figure("fall", "%", "0 * load.seconds[index=none] - 130")];
    let answer = answered(&run);
    assert_eq!(answer.state, AnswerState::Worthless);
    let wanted = "No answer for sqlite (also fjall): `fall` is −130 %, but nothing falls by more than 100 %;";
    assert!(answer.sentence.starts_with(wanted), "{}", answer.sentence);
}

#[test]
fn counts_have_all_digits_as_elsewhere_in_the_report() {
    let mut run = loaded(LONG, &[say("{lost} were lost.")]);
    run.header.figures[1].unit = "writes".to_owned();
    (run.trials[0].ledgers[0].lost, run.trials[3].ledgers[0].lost) = (20_481, 2);
    let view = view(&run);
    assert_eq!(view.answer.unwrap().sentence, "sqlite 20,481 writes, fjall 2 writes were lost.");
    assert!(view.verdict.sentence.contains("lost 20,481 of "), "{}", view.verdict.sentence);
}

#[test]
fn what_the_plan_calls_worthless_is_a_warning_and_no_answer() {
    let mut run = loaded(LONG, &[say("Index keys make a load {ratio} as long.")]);
    run.header.worthless =
        vec![Worthless { say: "nothing was at risk: {lost} lost.".into(), condition: "{lost} = 0".into() }];
    let answer = answered(&run);
    let wanted = "No answer for sqlite (also fjall): nothing was at risk: sqlite 0, fjall 0 lost.";
    assert_eq!((answer.state, answer.sentence.as_str()), (AnswerState::Worthless, wanted));
    run.trials[0].ledgers[0].lost = 3;
    let answer = answered(&run);
    assert_eq!(answer.sentence, "Index keys make a load sqlite 2.00 × as long.");
    assert_eq!(answer.notes().collect::<Vec<_>>(), ["No answer for fjall: nothing was at risk: fjall 0 lost."]);
}

#[test]
fn a_worthless_store_withholds_the_sentences_that_measure_it_or_by_it_and_no_others() {
    let ratio = |store: &str| {
        let of = |index: &str| format!("load.seconds[store={store},index={index}]");
        figure(store, "×", &format!("{} / {}", of("keyindex"), of("none")))
    };
    let beside = figure("beside fjall", "×", "load.seconds[index=keyindex] / load.seconds[store=fjall,index=keyindex]");
    let mut run = loaded(LONG, &[say("One: {sqlite}."), say("The other: {fjall}."), say("Beside: {beside fjall}.")]);
    let seconds = figure("seconds", "s", "load.seconds[index=keyindex]");
    run.header.figures = vec![ratio("sqlite"), ratio("fjall"), beside, seconds];
    let mut said = |condition: &str| -> Vec<String> {
        run.header.worthless = vec![Worthless { say: "a load took {seconds}".into(), condition: condition.into() }];
        answered(&run).said.into_iter().map(|one| one.text).collect()
    };
    assert_eq!(said("{seconds} > 100").len(), 3);
    assert_eq!(said("{seconds} > 18"), ["The other: 1.50 ×."], "sqlite is worthless");
    assert_eq!(said("{seconds} < 18"), ["One: 2.00 ×."], "fjall is worthless, and so is what is measured by it");
}

#[test]
fn a_published_value_stands_at_its_point_of_the_sweep() {
    let mut run = loaded(LONG, &[only_if("{load} > 15", "{load}, published: {published load}.")]);
    let values = vec![published(358.0, &[("index", "none")]), published(692.0, &[("index", "keyindex")])];
    run.header.figures = vec![Figure { published: values, ..figure("load", "s", "load.seconds") }];
    let view = view(&run);
    let shown = |index: &str| -> Vec<f64> {
        let row = view.figures[0].rows.iter().find(|row| row.labels["index"] == index).unwrap();
        row.published.iter().map(|one| one.value).collect()
    };
    assert_eq!((shown("none"), shown("own"), shown("keyindex")), (vec![358.0], vec![], vec![692.0]));
    assert!(view.figures[0].published.is_empty(), "it is of no other point");
    let answer = view.answer.unwrap();
    assert_eq!(answer.sentence, "sqlite · index=keyindex 20.0 s, published: 692 s (Riak).");
}

#[test]
fn a_figure_may_measure_stores_by_another_one() {
    let mut run = loaded(LONG, &[say("Of sqlite's load fjall's is {beside sqlite}; {fjall by sqlite}.")]);
    run.header.figures = vec![
        figure("beside sqlite", "×", "load.seconds[index=keyindex] / load.seconds[store=sqlite,index=keyindex]"),
        figure(
            "fjall by sqlite",
            "×",
            "load.seconds[store=fjall,index=none] / load.seconds[store=sqlite,index=keyindex]",
        ),
    ];
    let view = view(&run);
    assert_eq!(view.answer.unwrap().sentence, "Of sqlite's load fjall's is fjall 0.750 ×; 0.500 ×.");
    let missing: Vec<_> = view.figures.iter().map(|figure| figure.rows[0].cells[0].missing.as_deref()).collect();
    assert_eq!(missing, [Some("others are measured by it"), Some("it is of fjall")]);
}

#[test]
fn a_figure_without_a_value_gives_no_answer() {
    let mut run = loaded(LONG, &[say("{a}")]);
    run.header.figures = vec![figure("a", "s", "load.seconds[index=nothing]")];
    let answer = answered(&run);
    assert_eq!(answer.state, AnswerState::Undecided);
    let wanted = "Undecided for sqlite (also fjall): `a` is missing: there is no trial with index=nothing.";
    assert_eq!(answer.sentence, wanted);
    // A store without one does not keep the others from theirs.
    let mut run = loaded(LONG, &[say("{own} with its own index")]);
    run.header.figures = vec![figure("own", "s", "load.seconds[index=own]")];
    assert_eq!(answered(&run).sentence, "sqlite 12.0 s with its own index.");
}

#[test]
fn promises_that_a_plan_sets_out_to_break_are_an_outcome() {
    let mut run = study::complete();
    run.trials[4].ledgers[0].lost = 312;
    assert_eq!(view(&run).verdict.state, VerdictState::Fail);
    run.trials[4].header.breaks = true;
    let verdict = view(&run).verdict;
    assert_eq!(verdict.state, VerdictState::Pass, "{}", verdict.sentence);
    let words = &verdict.sentence;
    assert!(words.starts_with("As the plan sets out to show, fjall · index=keyindex lost 312 of "), "{words}");
    assert!(words.contains(" Elsewhere sqlite and fjall kept every promise: "), "{words}");
    for trial in &mut run.trials {
        trial.header.breaks = true;
    }
    run.header.goals.clear();
    let verdict = view(&run).verdict;
    let words = &verdict.sentence;
    assert!(words.starts_with("sqlite and fjall ran as planned. As the plan sets out to show, "), "{words}");
    assert_eq!(verdict.state, VerdictState::Measured, "nothing passed: {words}");
    run.header.goals = vec![Goal { what: GoalKind::Errors, of: None, limit: 100.0, unit: "%".into() }];
    let verdict = view(&run).verdict;
    assert_eq!(verdict.state, VerdictState::Pass, "{}", verdict.sentence);
    assert!(verdict.sentence.ends_with(" 1 goal held."), "{}", verdict.sentence);
    // All that broke is listed, and the sentence counts those after the first.
    run.trials[2].ledgers[0].lost = 5;
    let verdict = view(&run).verdict;
    assert!(verdict.sentence.contains("; 1 more promise was broken."), "{}", verdict.sentence);
    assert_eq!(verdict.reasons.len(), 1 + 1, "{:?}", verdict.reasons);
}

/// Runs with figures of the outage of their phase, each run a repeat if there are several.
fn silent(runs: &[Run], answers: &[AnswerSentence]) -> Run {
    let mut all = runs[0].clone();
    all.trials.clear();
    for (ordinal, run) in (0..).zip(runs) {
        let mut trial = run.trials[0].clone();
        trial.header.ordinal = ordinal;
        (trial.phases[0].header.trial, trial.faults[0].trial) = (ordinal, ordinal);
        if runs.len() > 1 {
            trial.header.labels.insert("repeat".into(), ordinal.to_string());
        }
        all.trials.push(trial);
    }
    all.header.outline.trials = runs.len() as u32;
    let missed = figure("missed", "ops", "mixed.outage * mixed.rate");
    all.header.figures = vec![figure("outage", "s", "mixed.outage"), missed];
    all.header.answers = answers.to_vec();
    all
}

#[test]
fn an_outage_that_had_not_ended_is_a_lower_bound_in_figures_and_answers() {
    let of = |runs: &[Run], sentence: AnswerSentence| answered(&silent(runs, &[sentence]));
    let text = say("No answer for {outage}.");
    assert_eq!(of(&[without_end()], text.clone()).sentence, "No answer for > 12.0 s.");
    let run = silent(&[without_end()], &[]);
    let found = view(&run);
    let [outage, missed] = [0, 1].map(|at| &found.figures[at].rows[0].cells[0]);
    assert_eq!((outage.text.as_str(), outage.value, outage.open), ("> 12.0 s", Some(12.0), true));
    assert!(!missed.open && missed.value.is_some() && !missed.text.contains('>'), "{missed:?}");
    let all = quantities(&run);
    let own = all.iter().find(|one| one.name == "mixed.outage").unwrap();
    assert_eq!((own.text.as_str(), own.open), ("> 12.0 s", true));

    // Conditions hold if they hold for any longer time.
    let long = of(&[without_end()], only_if("{outage} > 10", "It is long, {outage}."));
    assert_eq!(long.sentence, "It is long, > 12.0 s.");
    let short = of(&[without_end()], only_if("{outage} < 20", "It is short."));
    assert_eq!(short.state, AnswerState::Undecided);
    let words = "`outage` is > 12.0 s, and had not ended when observation ended";
    assert!(short.sentence.contains(words), "{}", short.sentence);
    let product = of(&[without_end()], say("{missed} were missed."));
    assert_eq!(product.state, AnswerState::Undecided);
    let words = "`missed` rests on an outage that had not ended when observation ended";
    assert!(product.sentence.contains(words), "{}", product.sentence);

    // Of repeats those that had not ended are the longest.
    let [ended, open] = [killed_primary(), without_end()];
    let one = of(&[ended.clone(), open.clone(), ended.clone()], text.clone());
    assert_eq!(one.sentence, "No answer for 1.37 s (1.37 to > 12.0 s).");
    let two = of(&[open.clone(), open, ended], text);
    assert_eq!(two.sentence, "No answer for > 12.0 s (1.37 to > 12.0 s).");
}

#[test]
fn a_sentence_has_the_findings_about_a_phase() {
    let answers = [say("Bound: {bound of mixed}."), say("Slow: {slow moments of mixed}.")];
    let run = |seconds: usize, io: f64| {
        let mut run = driven(&vec![2_000; seconds]);
        sampled(&mut run, "pressure", "io", "some", "%", &vec![io; seconds]);
        run.header.answers = answers.to_vec();
        run
    };
    let wanted = "Bound: in most slices waiting for io took 64.0 % of the time. Slow: no slow moment stands out.";
    assert_eq!(answered(&run(30, 64.0)).sentence, wanted);
    assert!(answered(&run(30, 6.0)).sentence.starts_with("Bound: nothing that was watched was used up."));
    let mut two = run(30, 6.0);
    let mut other = two.trials[0].clone();
    other.header.ordinal = 1;
    other.header.store_label = "sqlite".to_owned();
    other.phases[0].header.trial = 1;
    two.trials.push(other);
    two.header.outline.trials = 2;
    let none = "nothing that was watched was used up";
    assert!(answered(&two).sentence.starts_with(&format!("Bound: fjall: {none}; sqlite: {none}.")));
    let one_at_12 = |usual: f64, other: f64| (0..20).map(move |at| if at == 12 { other } else { usual });
    let mut stalled = driven(&one_at_12(1_000.0, 50.0).map(|rate| rate as u64).collect::<Vec<u64>>());
    let busy: Vec<f64> = one_at_12(12.0, 97.0).collect();
    sampled(&mut stalled, "disk", "vda", "busy", "%", &busy);
    stalled.header.answers = answers[1..].to_vec();
    let sentence = answered(&stalled).sentence;
    let words =
        "Slow: the only slow moment, at 112.0 s, is undecided: 20 slices are too few to tell causes from chance";
    assert!(sentence.starts_with(words), "{sentence}");

    let short = answered(&run(5, 64.0));
    let wanted = "Undecided: phase mixed has 5 slices, and findings need 8; make it longer.";
    assert_eq!((short.state, short.sentence.as_str()), (AnswerState::Undecided, wanted));
    assert!(answered(&run(1, 64.0)).sentence.contains("phase mixed has 1 slice, and"));
    let mut unwatched = run(30, 64.0);
    unwatched.series.clear();
    unwatched.samples.clear();
    let wanted = "Undecided: nothing was watched: samplers were off.";
    assert_eq!(answered(&unwatched).sentence, wanted);
    // Its own series are recorded without any sampler.
    sampled(&mut unwatched, WITNESS, "", "lateness", "ns", &[50_000.0; 30]);
    sampled(&mut unwatched, ANSWERS, "node 1", "answers", "1/s", &[2_000.0; 30]);
    assert_eq!(answered(&unwatched).sentence, wanted);
}
