//! A search in progress or from a recording, which takes one rung after the other, and its view.

use plimsoll_record::data::{PhaseState, Run, RunState, Sample, Series, Trial};

use crate::latency;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat;
use crate::view::{AtRate, Chart, Line, LineResult, LineState, LineView, Mark, RungState, RungView};

use super::{Ending, LineSearch, LineSpec, LoadStep, Next, Rung, through};

/// The search on one store, up to the last rung.
#[derive(Debug)]
pub struct LineFold {
    store: String,
    search: LineSearch,
    rungs: Vec<RungView>,
    /// End of the last rung.
    before_ns: Option<u64>,
    /// Pauses of the machine were watched.
    is_watched: bool,
}

impl LineFold {
    /// A search on `store` that has not begun.
    pub fn new(spec: &LineSpec, store: &str) -> Self {
        let (store, search) = (store.to_string(), LineSearch::new(spec.clone()));
        LineFold { store, search, rungs: Vec::new(), before_ns: None, is_watched: false }
    }

    /// Takes the rungs of a trial that ended, if it is one of this search. Trials come in the order they were driven;
    /// `samples` are those of the whole run, or what [`Fold`](crate::fold::Fold) keeps of them.
    pub fn take(&mut self, trial: &Trial, samples: &[Sample], series: &[Series]) {
        let has_ended = |state: &PhaseState| !matches!(state, PhaseState::Unfinished | PhaseState::Interrupted);
        for phase in trial.phases.iter().filter(|phase| has_ended(&phase.end.state)) {
            let Some(purpose) = phase.header.rung.filter(|_| trial.header.store_label == self.store) else { continue };
            let facts = PhaseFacts::gather(trial, phase);
            let warmup = phase.slices.iter().filter(|slice| slice.warmup);
            // As it was driven: a version that went by other rules may have asked for it.
            let rung = Rung {
                ordinal: self.rungs.len() as u32,
                rate_per_s: phase.header.rate_per_s,
                purpose,
                warmup_s: warmup.map(|slice| slice.length_ns() as f64 / 1e9).sum(),
                seconds: facts.counted_s,
            };
            // The first was prepared by the load; what lies between two of them is the later one's.
            let started_ns = self.before_ns.replace(phase.end.end_ns).unwrap_or(phase.header.start_ns);
            let took_s = phase.end.end_ns.saturating_sub(started_ns) as f64 / 1e9;
            let step = LoadStep { rung, took_s, ..LoadStep::of(&self.search.spec, &facts, samples, series) };
            let (state, void, waited) = (step.state(), step.void.as_ref(), facts.waited(None));
            let held = state == RungState::Held;
            self.rungs.push(RungView {
                rung: step.rung.clone(),
                state,
                reason: void.filter(|_| !held).or(step.failed.as_ref()).cloned(),
                note: void.filter(|_| held && !step.is_taken()).map(|why| late(why, step.unsent_share)),
                cycles: step.cycles_ended(),
                rate_per_s: step.rate_per_s,
                goals: step.goals.clone(),
                percentiles_ns: latency::SHOWN.iter().map(|name| waited.percentile(name).ok()).collect(),
                n: waited.len(),
            });
            self.is_watched |= phase.slices.iter().any(|slice| slice.watched.is_some());
            self.search.take(step);
        }
    }

    /// The rungs so far.
    pub fn rungs(&self) -> &[RungView] {
        &self.rungs
    }

    /// The search itself, which has the next rung, or the line.
    pub fn search(&self) -> &LineSearch {
        &self.search
    }

    /// Returns the view of the search for reports, of a run in state `state`.
    fn view(self, state: &RunState) -> LineView {
        let result = match self.search.next() {
            Next::Done(result) => *result,
            Next::Rung(_) if *state == RunState::Complete => self.search.result(Ending::TimeUp),
            Next::Rung(_) => self.search.result(Ending::Stopped),
        };
        let mut notes = notes(&self.rungs);
        let undisturbed = "Goals of load steps are judged on the operations that no pause of the machine disturbed; the \
                           chart and the notes have all of them, as seen.";
        notes.extend(self.is_watched.then(|| undisturbed.to_string()));
        notes.extend(others(self.search.steps()));
        notes.extend(in_processors(&result));
        // The verdict says it of one that is undecided.
        let unequal = result.unequal_words.as_ref().filter(|_| !matches!(result.state, LineState::Undecided(_)));
        notes.extend(unequal.map(|words| format!("{}.", number::capital(words))));
        notes.extend(result.rate_per_s.and_then(|carries| through::words(self.search.steps(), carries)));
        let ends = result.shown().into_iter().zip(["carries", "gives way"]);
        let mark = |(one, name): (Option<&AtRate>, &str)| Some(Mark { x: one?.rate_per_s, name: name.to_string() });
        let marks: Vec<Mark> = ends.filter_map(mark).collect();
        let (done, latency) = charts(&self.rungs, &marks);
        let costs = through::charts(self.search.steps(), &marks);
        LineView { store: self.store, result, done, latency, costs, notes, rungs: self.rungs }
    }
}

/// Returns every search of a run.
pub fn lines(run: &Run) -> Vec<LineView> {
    let Some(spec) = &run.header.outline.line else { return Vec::new() };
    let search = |store: &String| {
        let mut fold = LineFold::new(spec, store);
        run.trials.iter().for_each(|trial| fold.take(trial, &run.samples, &run.series));
        (!fold.rungs.is_empty()).then(|| fold.view(&run.state))
    };
    run.stores().iter().filter_map(search).collect()
}

/// Draws the rate done and the response times at each rate: medians of the rungs that count.
fn charts(rungs: &[RungView], marks: &[Mark]) -> (Chart, Chart) {
    let mut asked_per_s: Vec<f64> = rungs.iter().filter_map(|one| one.rung.rate_per_s).collect();
    asked_per_s.sort_by(f64::total_cmp);
    asked_per_s.dedup();
    let line = |name: &str, of: &dyn Fn(&RungView) -> Option<f64>| {
        let median_at = |rate: &f64| {
            let said = |one: &&RungView| one.rung.rate_per_s == Some(*rate) && one.state != RungState::Undecided;
            stat::median(&rungs.iter().filter(said).filter_map(of).collect::<Vec<_>>())
        };
        Line::new(name, asked_per_s.iter().map(median_at).collect())
    };
    let chart = |name: &str, unit: &str, lines: Vec<Line>| Chart {
        x_unit: "1/s".to_string(),
        logarithmic: unit == "s",
        marks: marks.to_vec(),
        ..Chart::of_points(name, "Asked for", unit, asked_per_s.clone(), lines)
    };
    let seconds = |one: &RungView, at: usize| one.percentiles_ns.get(at)?.map(|ns| ns as f64 / 1e9);
    let shown = latency::SHOWN.iter().enumerate();
    let times = shown.map(|(at, name)| line(&latency::written(name), &|one| seconds(one, at))).collect();
    let done = vec![line("done", &|one| Some(one.rate_per_s))];
    (chart("Done", "1/s", done), chart("Response time", "s", times))
}

/// Describes the time that other programs had the processors: what load steps are not judged on, and those that are.
fn others(steps: &[LoadStep]) -> impl Iterator<Item = String> {
    let judged = || steps.iter().filter(|step| !step.is_taken());
    let taken_s: f64 = judged().map(|step| step.taken_s).sum();
    let (taken, all) = (number::seconds(taken_s), number::seconds(judged().map(|step| step.rung.seconds).sum()));
    let taken = format!(
        "In {taken} of {all} other programs or the hypervisor used the processors, or the queue from that time was \
         worked off: goals are not judged on this time."
    );
    let beside: Vec<&Rung> = steps.iter().filter(|step| step.beside_others).map(|step| &step.rung).collect();
    let most = "Other programs or the hypervisor used the processors nearly all the time before the end of";
    let judged = "goals are judged on all of the time, and the line is that of the store beside them";
    let beside = named(&beside).map(|which| format!("{most} {which}: {judged}."));
    Some(taken).filter(|_| taken_s > 0.0).into_iter().chain(beside)
}

/// `load step 3`, `load steps 3, 4 and 7`; `None` without any.
fn named(rungs: &[&Rung]) -> Option<String> {
    let numbers: Vec<String> = rungs.iter().map(|rung| (rung.ordinal + 1).to_string()).collect();
    let plural = if rungs.len() == 1 { "" } else { "s" };
    (!rungs.is_empty()).then(|| format!("load step{plural} {}", number::list(&numbers)))
}

/// The line as a share of processors: two searches on processors of different speed agree on it.
fn in_processors(result: &LineResult) -> Option<String> {
    let (rate_per_s, cpu_s) = (result.rate_per_s?, result.server_cpu_per_op_s?);
    let (cpu, processors) = (number::seconds(cpu_s), number::significant(rate_per_s * cpu_s));
    Some(format!(
        "An operation costs the server {cpu} of processor time at the line: that is {processors} processors. On slower \
         processors the line is lower, and this number hardly changes."
    ))
}

/// Lists each sort of reason once: with the rungs that have it, and the first one's words.
fn notes(rungs: &[RungView]) -> Vec<String> {
    let of = |state: RungState, what: &str, why: &dyn Fn(&RungView) -> Option<String>| {
        let those = rungs.iter().filter(|rung| rung.state == state);
        let (those, words): (Vec<&Rung>, Vec<String>) = those.filter_map(|one| Some((&one.rung, why(one)?))).unzip();
        let which = number::capital(&named(&those)?);
        let first = those.first().filter(|_| those.len() > 1);
        let first = first.map_or(String::new(), |first| format!("; load step {}", first.ordinal + 1));
        Some(format!("{which}, {what}{first}: {}", words.first()?))
    };
    let within = |rung: &RungView| rung.goals.iter().all(|goal| goal.ratio().is_none_or(|ratio| ratio <= 1.0));
    let behind = "the store did not keep up: at the end, more operations were due and not sent than allowed.";
    let notes = [
        of(RungState::Undecided, "undecided", &|rung| rung.reason.clone()),
        of(RungState::Held, "held with a late generator", &|rung| rung.note.clone()),
        of(RungState::Failed, "failed although its goals held", &|rung| within(rung).then(|| behind.to_string())),
        of(RungState::NotMeasured, "not measured", &|rung| rung.reason.clone()),
    ];
    notes.into_iter().flatten().collect()
}

/// Describes a rung that held although its generator was late: the delay, and the share of the rate that was not
/// offered.
fn late(why: &str, unsent_share: f64) -> String {
    let how = why.split("; ").next().unwrap_or(why);
    let all_the_same = "The goals held all the same, and lateness makes response times longer, never shorter.";
    match number::with_unit(unsent_share * 100.0, "%") {
        share if unsent_share > 0.0 => format!("{how}. {all_the_same} {share} of the due operations were not sent."),
        _ => format!("{how}. {all_the_same}"),
    }
}
