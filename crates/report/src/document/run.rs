//! A run: its verdict, the order of its sections, and the small ones.

use plimsoll_analysis::RunView;
use plimsoll_analysis::number;
use plimsoll_analysis::view::{
    AnswerState, FaultedPhaseView, FindingView, Level, RunFacts, StudyAnswer, SummaryPart, SummaryView, TrialView,
    VerdictState, Warning,
};
use plimsoll_core::shell_word;

use super::{
    Block, Body, Cell, Document, NONE, Picture, Rank, Section, Table, Text, Tone, Verdict, faults, latency, nodes,
    numbers, promises, results, series, stages, trials, words,
};
use crate::cells;

/// Events, and findings, that are told where there is little room.
const EVENTS_MAX: usize = 20;
const FINDINGS_MAX: usize = 3;

/// Rules of findings that name causes besides the faults of the plan, or patterns.
const BESIDE_FAULTS: [&str; 4] = ["cause", "pause", "regular", "level"];

/// A run as a document: `full`, as the page has it, or without what few look for.
pub fn run(view: &RunView, full: bool) -> Document<'_> {
    let (answer, evidence, aside) = (Rank::Answer, Rank::Evidence, Rank::Aside);
    let space = if full { "Trials" } else { "Space" };
    // Of many promises the section about them says it all.
    let has_many = view.promises.len() > plimsoll_analysis::PROMISES_MAX;
    let is_wrong = |trial: &TrialView| {
        let answers = trial.answers_total.as_ref().is_some_and(|total| total.missing + total.wrong > 0);
        answers || trial.ledgers.iter().any(|ledger| ledger.lost != Some(0) || ledger.wrong_total > 0)
    };
    let truth = if view.trials.iter().any(is_wrong) { answer } else { aside };
    // Those that are told where there is little room.
    let events_rank = if view.events.iter().any(|event| event.level != Level::Info) { evidence } else { aside };
    // Of a search the sentence and its load steps tell what faults cost.
    let faults_rank = if view.lines.is_empty() { answer } else { aside };
    // The faults of a plan explain slow moments, and their effects are what such a run is about.
    let is_beside = view.findings.iter().any(|finding| BESIDE_FAULTS.contains(&finding.rule));
    let faults_first = !view.faults.is_empty() && !is_beside;
    // The order of every report.
    let sections = [
        (true, "promises", "Promises", answer, promises::promises(view, full)),
        (true, "disk-faults", "Disk faults", answer, results::disk_faults(view)),
        (full || !has_many, "goals", "Goals", answer, results::goals(view, full)),
        (!faults_first, "findings", "Findings", answer, findings(view, full)),
        (true, "line", "Load line", answer, series::lines(view, full)),
        (true, "faults", "Faults", faults_rank, faults::faults(view, full)),
        (true, "ab", "Two sides in turn", answer, series::ab(view, full)),
        (true, "sweep", "Sweep", answer, series::sweeps(view, full)),
        (true, "figures", "Figures", answer, results::figures(view, full)),
        (faults_first, "findings", "Findings", answer, findings(view, full)),
        (full || view.promises.is_empty(), "latency", "Latency under load", evidence, latency::latencies(view, full)),
        (!full && view.promises.is_empty(), "histogram", "Histogram", aside, latency::histograms(view)),
        (true, "nodes", "Nodes", evidence, nodes::nodes(view, full)),
        (true, "sampled", "Sampled times", evidence, latency::sampled(view, full)),
        (true, "stages", "Stages", evidence, stages::stages(view, full)),
        (true, "steps", "Steps within operations", aside, latency::steps(view, full)),
        (true, "stalls", "Stalls and peaks", answer, stalls(view)),
        (full || !has_many, "truth", "Answers and ledger", truth, results::truth(view, full)),
        (full, "time", "Over time", evidence, timeline(view)),
        (full || view.promises.is_empty(), "trials", space, aside, trials::space(view, full)),
        (!full, "plans", "Query plans", aside, trials::plans(view)),
        (!full, "settings", "Settings", aside, trials::settings(view)),
        (true, "left-out", "Left out", evidence, left_out(view)),
        (true, "warnings", "Warnings", Rank::Warning, warnings(&view.warnings)),
        (true, "events", "Events", events_rank, events(view, full)),
        (full, "setup", "Setup", aside, setup(view)),
    ];
    let sections = sections.into_iter().filter(|(shown, .., body)| *shown && !body.blocks.is_empty());
    let sections = sections.map(|(_, id, title, rank, body)| Section { id, title: title.to_string(), rank, body });
    Document { verdict: verdict(view), sections: sections.collect() }
}

fn verdict(view: &RunView) -> Verdict {
    let (word, tone) = match view.verdict.state {
        VerdictState::Pass => ("Pass", Tone::Good),
        VerdictState::Measured => ("Measured", Tone::Strong),
        VerdictState::Fail => ("Fail", Tone::Bad),
        VerdictState::Incomplete => ("Incomplete", Tone::Open),
        VerdictState::Undecided => ("Undecided", Tone::Open),
    };
    let (run, sentence) = (&view.run, view.verdict.sentence.to_lowercase());
    // The sentence has the first reason, unless the first is beside what the sentence says.
    let is_said = |reason: &&String| sentence.contains(reason.trim_end_matches('.').to_lowercase().as_str());
    let reasons = view.verdict.reasons.iter().filter(|reason| !is_said(reason)).cloned().collect();
    Verdict {
        word,
        tone,
        notices: view.notices.clone(),
        question: view.answer.as_ref().map(answered).unwrap_or_default(),
        answer: view.summary.iter().map(answer).collect(),
        title: run.title.clone(),
        sentence: view.verdict.sentence.clone(),
        reasons,
        warning: first_warning(&view.warnings),
        about: format!("run {} · {}{} · Plimsoll {}", run.id, run.started, seed(run), run.plimsoll_version),
    }
}

/// Returns the answer to the plan's question, and below it the reasons that something has none.
fn answered(answer: &StudyAnswer) -> Vec<Text> {
    let tone = if answer.state == AnswerState::Answered { Tone::Strong } else { Tone::Open };
    std::iter::once(tone.text(&answer.sentence)).chain(answer.notes().map(|note| Tone::Open.text(note))).collect()
}

/// Returns the results, with the first number and all violations marked.
fn answer(summary: &SummaryView) -> (String, Text) {
    let part = |(at, part): (usize, &SummaryPart)| match (at, part.bad) {
        (_, true) => Tone::Bad.text(&part.text),
        (0, _) => Tone::Strong.text(&part.text),
        _ => Text::from(&part.text),
    };
    (summary.place.clone(), Text::joined(summary.parts.iter().enumerate().map(part).collect(), " · "))
}

/// Reports the findings: a sentence each, and where there is room the evidence, the next step and the command.
fn findings(view: &RunView, full: bool) -> Body<'_> {
    let mut body = Body::noted("causes of slow moments; a series that rises with them is not proved to be the cause");
    if !full {
        body.list(Tone::Plain, view.findings.iter().take(FINDINGS_MAX).map(|finding| &finding.sentence));
        body.left_out(view.findings.len().saturating_sub(FINDINGS_MAX));
        return body;
    }
    for finding in &view.findings {
        body.text(Tone::Strong.text(&finding.sentence));
        body.table(evidence(finding));
        body.pictures("wide", finding.chart.iter().map(Picture::Chart).collect());
        body.text(Tone::Dim.text(format!("→ {}", finding.next)));
        body.push(finding.command.is_empty(), Block::Code(finding.command.clone()));
        let rule = format!("rule {}, version {}", finding.rule, finding.version);
        body.text(Tone::Dim.text(format!("What would speak against it: {} ({rule})", finding.opposite)));
    }
    body
}

fn evidence(finding: &FindingView) -> Table {
    if finding.rule == "level" {
        return changed(finding);
    }
    if !finding.phases.is_empty() {
        return by_phase(finding);
    }
    let heads = ["usually", "before slow moments", "lead", "moments", "by chance", "q"];
    let columns = std::iter::once(words("series")).chain(heads.map(numbers)).collect();
    let mut table = Table::new("Series that rose before slow moments", columns);
    for one in &finding.evidence {
        table.row(cells![
            &one.series,
            number::with_unit(one.usual, &one.unit),
            number::with_unit(one.seen, &one.unit),
            number::seconds(one.lead_s),
            number::count(one.explained as u64),
            number::significant(one.by_chance),
            one.q.map_or("not tested".to_owned(), number::significant),
        ]);
    }
    table
}

/// Returns the numbers of slow moments that the plan's faults explain, of each trial in each phase.
fn by_phase(finding: &FindingView) -> Table {
    let distinct = |name: fn(&FaultedPhaseView) -> &str| {
        let mut names: Vec<&str> = Vec::new();
        for one in &finding.phases {
            if !names.contains(&name(one)) {
                names.push(name(one));
            }
        }
        names
    };
    let (trials, phases) = (distinct(|one| &one.trial), distinct(|one| &one.phase));
    let columns = std::iter::once(words("slow moments of")).chain(phases.iter().map(|phase| numbers(*phase))).collect();
    let mut table = Table::new("Slow moments in the effects of faults", columns);
    for trial in trials {
        let cell = |phase: &&str| -> Cell {
            match finding.phases.iter().find(|one| one.trial == trial && one.phase == **phase) {
                None => NONE.into(),
                Some(one) if one.explained == one.moments => number::count(one.moments as u64).into(),
                Some(one) => Tone::Open.text(format!("{} of {}", one.explained, one.moments)).into(),
            }
        };
        table.row(std::iter::once(Cell::from(trial)).chain(phases.iter().map(cell)).collect());
    }
    table
}

/// Lists the series that changed with a level.
fn changed(finding: &FindingView) -> Table {
    let columns = std::iter::once(words("series")).chain(["otherwise", "at this level", "lead"].map(numbers)).collect();
    let mut table = Table::new("Series that changed at the same time", columns);
    for one in &finding.evidence {
        table.row(cells![
            &one.series,
            number::with_unit(one.usual, &one.unit),
            number::with_unit(one.seen, &one.unit),
            number::seconds(one.lead_s),
        ]);
    }
    table
}

fn stalls<'a>(view: &RunView) -> Body<'a> {
    let mut body = Body::noted(
        "slices below half of the phase's median throughput, or above five times its median latency; actions at the \
         same time are not proved to be the cause",
    );
    body.list(Tone::Plain, view.stalls.iter().map(|stalls| &stalls.sentence));
    let peaks = view.peaks.iter().flat_map(|peaks| peaks.worst.iter().map(|peak| &peak.sentence).chain(&peaks.further));
    body.list(Tone::Plain, peaks);
    body
}

fn timeline(view: &RunView) -> Body<'_> {
    let mut body = Body::default();
    body.push(view.plots.bands.is_empty(), Block::Timeline(&view.plots));
    if !view.plots.host_zero.is_empty() {
        body.text(Tone::Dim.text(format!("Always zero, so not drawn: {}.", number::list(&view.plots.host_zero))));
    }
    body
}

fn left_out<'a>(view: &RunView) -> Body<'a> {
    let mut body = Body::noted("combinations that are not possible, and figures without their points");
    body.list(Tone::Dim, &view.left_out);
    body
}

/// Returns the text of the first warning, and the number of those that only the section has.
fn first_warning(warnings: &[Warning]) -> Option<String> {
    let (first, others) = warnings.split_first()?;
    let more = match others.len() as u64 {
        0 => String::new(),
        n => format!(" {} below.", number::plural(n, "more warning", "more warnings")),
    };
    Some(format!("{}{more}", first.text))
}

/// Lists each warning with its advice.
fn warnings<'a>(warnings: &[Warning]) -> Body<'a> {
    let mut body = Body::default();
    for warning in warnings {
        body.list(Tone::Open, [&warning.text]);
        body.text(Tone::Dim.text(format!("→ {}", warning.next)));
    }
    body
}

fn events<'a>(view: &RunView, full: bool) -> Body<'a> {
    let mut body = Body::default();
    let mut table = Table::new("Events", vec![numbers("at"), words("level").when(full), words("what happened")]);
    let told: Vec<_> = view.events.iter().filter(|event| full || event.level != Level::Info).collect();
    for event in told.iter().take(if full { told.len() } else { EVENTS_MAX }) {
        let tone = match event.level {
            Level::Error => Tone::Bad,
            Level::Warning => Tone::Open,
            Level::Info => Tone::Plain,
        };
        let trial = event.trial.as_ref().map_or(String::new(), |trial| format!("{trial}: "));
        let kind = if full { format!(" ({})", event.kind.name()) } else { String::new() };
        let text = Text::from(format!("{trial}{}", event.text)).then(Tone::Dim, kind);
        let [begin, end] = [event.at_s, event.until_s].map(|time_s| format!("{time_s:.2}"));
        let at = if begin == end { format!("{begin} s") } else { format!("{begin} to {end} s") };
        table.row(cells![at, tone.text(event.level.name()), text]);
    }
    body.table(table);
    if !full && told.len() > EVENTS_MAX {
        body.text(format!("and {} more", number::count((told.len() - EVENTS_MAX) as u64)));
    }
    body
}

/// Returns the seed; empty for a run that only watched, which has no plan.
fn seed(run: &RunFacts) -> String {
    if run.plan_text.is_empty() { String::new() } else { format!(" · seed {}", run.seed) }
}

fn setup<'a>(view: &RunView) -> Body<'a> {
    let run = &view.run;
    let mut body = Body::default();
    body.heading("Run", "");
    body.pairs([
        ("plan", run.plan_name.clone()),
        ("command", run.command_line.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")),
        ("tag", run.tag.clone()),
        ("seed", if run.plan_text.is_empty() { String::new() } else { run.seed.to_string() }),
        ("slice", number::seconds(run.slice_seconds)),
        ("started", run.started.clone()),
        ("state", run.state.name().to_owned()),
        ("written by the recorder itself", number::bytes(run.recorder_bytes as f64)),
        ("published figures from", run.source.clone()),
        ("Plimsoll", run.plimsoll_version.clone()),
    ]);
    if !view.environment.is_empty() {
        body.heading("Machine", "");
        body.pairs(view.environment.iter().map(|one| (&one.name, &one.value)));
    }
    let code = |text: String| Body { note: Text::default(), blocks: vec![Block::Code(text)] };
    body.fold("The plan as it was given", false, code(run.plan_text.clone()));
    let query = format!(
        "sqlite3 \"${{XDG_STATE_HOME:-$HOME/.local/state}}/plimsoll/runs/\"{}/run.sqlite \\\n  \"{TRACE_SQL}\"",
        shell_word(&run.id)
    );
    body.fold("How to trace a number: the seconds of every phase, from the recording", false, code(query));
    body
}

/// A query on the recording that shows where the figures come from.
const TRACE_SQL: &str = "SELECT t.ordinal, t.store_label, p.name, r.name, r.subject, r.value, r.n FROM result r
   JOIN phase p ON p.trial = r.trial AND p.ordinal = r.phase
   JOIN trial t ON t.ordinal = r.trial ORDER BY r.trial, r.phase, r.ordinal";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_that_traces_numbers_works_on_a_recording_and_stands_in_the_book() {
        let recording = rusqlite::Connection::open_in_memory().unwrap();
        recording.execute_batch(plimsoll_record::schema::DDL).unwrap();
        recording.prepare(TRACE_SQL).unwrap();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let book = words(include_str!("../../../../docs/src/reports.md"));
        assert!(book.contains(&words(TRACE_SQL)));
    }
}
