//! Findings in words, with the next step.

use plimsoll_core::sampler::{HELD_BY, STORE, UNNAMED_HOLDER, WAITING_FOR_LOCKS};
use plimsoll_core::shell_word;
use plimsoll_record::data::Run;

use super::command::{self, again, longer, of_run};
use super::moments::{Known, SlowPhase};
use super::search::{Candidate, CauseFound, Rest, Search};
use super::series::{Idleness, Meaning, WatchedSeries};
use super::sides;
use crate::name;
use crate::number;
use crate::phase::PhaseFacts;
use crate::stall;
use crate::stat;
use crate::step;
use crate::view::{Chart, EvidenceView, FindingView, Line, StepView};

/// Rules that have another version than the fourth.
const VERSIONS: [(&str, u32); 3] = [("level", 2), ("bound", 3), ("fault", 6)];
/// Names of faults, and times of moments, in a sentence.
pub const NAMED_MAX: usize = 3;
/// Slices below which a test without a result is blamed on their number.
const SLICES_FEW: usize = 70;
/// Shortest length of a longer run, in seconds, and its length as a factor on this one's.
const LONGER_S: f64 = 120.0;
const LONGER: f64 = 2.0;
/// First next step if a server did no work.
const AFTER_IDLE: &str = "Look for a debugger, SIGSTOP, a frozen control group or a suspended virtual machine, for a device or \
                          a lock that all threads of the server waited for, and for clients that were told to wait.";
/// Most points of a chart.
const POINTS_MAX: usize = 600;

/// A finding about moments of a phase, by their positions.
pub enum Explanation<'a> {
    /// Moments in the effect of faults or commands.
    Fault(Vec<usize>),
    /// Moments that are slow because of pauses of the machine alone.
    Pause(Vec<usize>),
    /// Moments before which a series rose.
    Cause(Vec<usize>, CauseFound, &'a Search),
    /// Moments without another cause in which pauses disturbed most operations.
    Disturbed(Vec<usize>),
    /// Moments that no series explains.
    Unexplained(Vec<usize>, Rest, &'a Search),
    /// Moments that may come at equal intervals.
    Regular(Vec<usize>),
}

/// Words of a finding besides its moments.
pub struct Words {
    pub rule: &'static str,
    pub sentence: String,
    pub opposite: String,
    pub next: String,
    pub command: String,
}

impl Words {
    /// Returns the finding about a phase, without moments and evidence.
    pub fn finding(self, facts: &PhaseFacts<'_>) -> FindingView {
        let place = name::place(facts);
        FindingView {
            rule: self.rule,
            version: VERSIONS.iter().find(|(rule, _)| *rule == self.rule).map_or(4, |(_, version)| *version),
            sentence: format!("{place}: {}.", self.sentence),
            place,
            opposite: self.opposite,
            next: self.next,
            command: self.command,
            ..FindingView::default()
        }
    }
}

/// Writer of the findings of a phase.
pub struct Wording<'r, 'f, 'a> {
    pub run: &'r Run,
    pub phase: &'r SlowPhase<'f, 'a>,
    /// Times in which servers did no work.
    pub idle: &'r [Idleness],
}

impl Wording<'_, '_, '_> {
    /// Returns the finding; `None` if it is about no moment, or if moments are not regular.
    pub fn view(&self, told: &Explanation<'_>) -> Option<FindingView> {
        let (Explanation::Fault(at)
        | Explanation::Pause(at)
        | Explanation::Cause(at, ..)
        | Explanation::Disturbed(at)
        | Explanation::Unexplained(at, ..)
        | Explanation::Regular(at)) = told;
        if at.is_empty() {
            return None;
        }
        let words = match told {
            Explanation::Fault(at) => self.fault(at),
            Explanation::Pause(at) => self.pause(at),
            Explanation::Cause(at, cause, search) => self.cause(at, cause, search)?,
            Explanation::Disturbed(at) => self.disturbed(at),
            Explanation::Unexplained(at, rest, search) => self.unexplained(at, rest, search),
            Explanation::Regular(at) => self.regular(at)?,
        };
        let (candidates, is_tested, search) = match told {
            Explanation::Cause(_, cause, search) => (cause.evidence.as_slice(), true, Some(search)),
            Explanation::Unexplained(_, rest, search) if !rest.has_power => {
                (rest.candidates.as_slice(), false, Some(search))
            }
            _ => (&[][..], false, None),
        };
        let evidence = candidates.iter().zip(search.into_iter().cycle());
        let evidence = evidence.map(|(one, search)| self.evidence(one, is_tested, search)).collect();
        let best = candidates.first().zip(search);
        let chart = best.map(|(best, search)| self.chart(&search.watched()[best.series]));
        let span = |at: &usize| {
            let moment = &self.phase.moments[*at];
            (moment.start_ns as f64 / 1e9, moment.end_ns as f64 / 1e9)
        };
        Some(FindingView {
            spans_s: at.iter().map(span).collect(),
            moments: self.phase.moments.len(),
            slow_percent: self.slow_percent(at),
            evidence,
            chart,
            is_of_outages: self.phase.is_mostly_slow,
            ..words.finding(self.phase.facts)
        })
    }

    /// Length of a number of slices, in seconds.
    fn seconds(&self, slices: usize) -> f64 {
        slices as f64 * self.phase.slice_ns as f64 / 1e9
    }

    /// Returns the share of the slow time that lies in these moments.
    fn slow_percent(&self, at: &[usize]) -> f64 {
        let length = |at: usize| (self.phase.moments[at].end - self.phase.moments[at].first) as f64;
        let all: f64 = (0..self.phase.moments.len()).map(length).sum();
        at.iter().copied().map(length).sum::<f64>() * 100.0 / all.max(1.0)
    }

    /// Returns the beginning of a sentence about these moments: `14 of 15 slow moments begin`.
    fn of_moments(&self, at: &[usize], one: &str, many: &str) -> String {
        let all = self.phase.moments.len() as u64;
        let (these, verb) = (at.len() as u64, if at.len() == 1 { one } else { many });
        match (these, all) {
            (1, 1) => format!("the only slow moment, {}, {verb}", self.times(at)),
            _ => format!("{} of {} slow moments {verb}", number::count(these), number::count(all)),
        }
    }

    /// Returns the share of the slow time as the end of a sentence; empty if there is no other.
    fn holding(&self, at: &[usize]) -> String {
        let hold = if at.len() == 1 { "it holds" } else { "they hold" };
        match at.len() == self.phase.moments.len() {
            true => String::new(),
            false => format!("; {hold} {} of the slow time", number::with_unit(self.slow_percent(at), "%")),
        }
    }

    /// Times of the first moments: `at 37.0 s and 52.0 s`.
    fn times(&self, at: &[usize]) -> String {
        let time = |at: &usize| format!("{:.1} s", self.phase.moments[*at].start_ns as f64 / 1e9);
        let mut times: Vec<String> = at.iter().take(NAMED_MAX).map(time).collect();
        times.extend((at.len() > NAMED_MAX).then(|| "others".to_owned()));
        format!("at {}", number::list(&times))
    }

    fn fault(&self, at: &[usize]) -> Words {
        let mut names: Vec<String> = Vec::new();
        for moment in at {
            if let Some(Known::Acts(acts)) = &self.phase.moments[*moment].known {
                let new: Vec<String> = acts.iter().filter(|name| !names.contains(name)).cloned().collect();
                names.extend(new);
            }
        }
        let more = names.len().saturating_sub(NAMED_MAX);
        names.truncate(NAMED_MAX);
        names.extend((more > 0).then(|| number::plural(more as u64, "further action", "further actions")));
        let lie = match (self.phase.is_mostly_slow, at) {
            (true, [_]) => format!("the outage {} lies", self.times(at)),
            (true, _) => format!("the outages {} lie", self.times(at)),
            (false, _) => self.of_moments(at, "lies", "lie"),
        };
        let (names, holding) = (number::list(&names), self.holding(at));
        let (next, command) = match command::phases_with_planned_faults(self.run, self.phase.facts.trial).as_slice() {
            [] => {
                let next = of_run(self.run, "Repeat the run without them: what stays slow has another cause.");
                match sides::without_fault(self.run, self.phase) {
                    Some(command) => {
                        (format!("{next} The command compares both in turn, side A with the fault."), command)
                    }
                    None => (next, again(self.run, true)),
                }
            }
            phases => {
                let phases = number::list(phases);
                let next = format!(
                    "Repeat the run without them, from a copy of the plan without `fault` in {phases}: what stays slow \
                     has another cause."
                );
                (next, String::new())
            }
        };
        Words {
            rule: "fault",
            sentence: format!("{lie} in the effect of {names}{holding}"),
            opposite: "A repeated run without these actions has as many slow moments.".to_owned(),
            next,
            command,
        }
    }

    fn pause(&self, at: &[usize]) -> Words {
        let are = self.of_moments(at, "is", "are");
        Words {
            rule: "pause",
            sentence: format!("{are} slow by pauses of the machine alone{}", self.holding(at)),
            opposite: "Without operations that pauses disturbed these seconds are as slow.".to_owned(),
            next: of_run(self.run, "Repeat the run on a machine without neighbours, or judge undisturbed percentiles."),
            command: again(self.run, false),
        }
    }

    fn disturbed(&self, at: &[usize]) -> Words {
        let shares = at.iter().filter_map(|at| self.phase.moments[*at].disturbed);
        let least = shares.fold(1.0, f64::min);
        let which = self.of_moments(at, "lies", "lie");
        let (times, its) = match at.len() == 1 {
            true if self.phase.moments.len() == 1 => (String::new(), "its"),
            true => (format!(" ({})", self.times(at)), "its"),
            false => (format!(" ({})", self.times(at)), "their"),
        };
        let disturbed = number::with_unit(least * 100.0, "%");
        let at_least = if at.len() == 1 { "" } else { " or more" };
        Words {
            rule: "pause",
            sentence: format!(
                "{which} in pauses of the machine{times}, which disturbed {disturbed}{at_least} of {its} operations and \
                 explain the delay only in part{}",
                self.holding(at)
            ),
            opposite: "Without pauses of the machine these seconds are as slow.".to_owned(),
            next: "Repeat the run on a machine without neighbours: what stays slow has another cause.".to_owned(),
            command: again(self.run, false),
        }
    }

    fn cause(&self, at: &[usize], cause: &CauseFound, search: &Search) -> Option<Words> {
        let best = cause.evidence.first()?;
        let watched = &search.watched()[best.series];
        let begin = match (cause.is_further, at.len() as u64) {
            (false, _) => self.of_moments(at, "begins", "begin"),
            (true, these) => {
                let others = number::plural(these, "other", "others");
                let verb = if these == 1 { "begins" } else { "begin" };
                format!("{others} of {} slow moments {verb}", number::count(self.phase.moments.len() as u64))
            }
        };
        let within = number::seconds(self.seconds(best.lead.1 + 1));
        let shown = |value: f64| number::with_unit(value, &watched.unit);
        let rise = match watched.meaning {
            Meaning::Cycle => format!("the end of {}", with_article(&watched.name)),
            Meaning::Figure | Meaning::Stopped => {
                format!("a rise of {} to {} (usually {})", watched.name, shown(best.seen), shown(best.usual))
            }
        };
        let chance = number::significant(search.by_chance(best.series));
        let name = match watched.meaning {
            Meaning::Cycle => with_article(&watched.name),
            Meaning::Figure | Meaning::Stopped => watched.name.clone(),
        };
        let (next, command) = self.test(watched, at);
        Some(Words {
            rule: "cause",
            sentence: format!(
                "{begin} within {within} of {rise}, q = {}{}",
                number::significant(best.q),
                self.holding(at)
            ),
            opposite: format!(
                "If {name} had nothing to do with them, about {chance} of {} would begin so near to it by chance.",
                number::count(self.phase.moments.len() as u64)
            ),
            next,
            command,
        })
    }

    /// Returns the next step after a cause, and the command that tests it: the comparison with a side without the cause
    /// if there is one, and else the run with another seed.
    fn test(&self, watched: &WatchedSeries, at: &[usize]) -> (String, String) {
        let next = of_run(self.run, &self.next(watched));
        if let Some(command) = self.without_cycles(watched, at) {
            return (next, command);
        }
        let turn_s = self.turn_s(at).unwrap_or_else(|| sides::length_s(self.phase));
        let series = (watched.source.as_str(), watched.name.as_str());
        match sides::without(self.run, self.phase, series, turn_s) {
            Some((words, command)) => (format!("{next} {words}"), command),
            None => (next, again(self.run, false)),
        }
    }

    /// Returns the length of a turn that has two of these moments or more; `None` of one moment.
    fn turn_s(&self, at: &[usize]) -> Option<f64> {
        Some(2.0 * self.gap_s(at)?)
    }

    /// Returns the next step after a cause. Of locks the step that waits says more than their number.
    fn next(&self, watched: &WatchedSeries) -> String {
        let is_of_all = watched.name.ends_with(&WAITING_FOR_LOCKS.replace('_', " "));
        let holder = watched.name.split_once(HELD_BY).map(|(_, holder)| holder);
        let is_lock = watched.source == STORE && (is_of_all || holder.is_some());
        if is_lock { next_of_locks(self.phase.facts, holder) } else { next(watched).to_owned() }
    }

    /// Returns the command that makes cycles rarer and compares: both sides in turn, if one drive of one store was run;
    /// `None` if no setting is known, or the series is no cycle.
    fn without_cycles(&self, watched: &WatchedSeries, at: &[usize]) -> Option<String> {
        let name = watched.name.split(" of ").next().filter(|_| watched.meaning == Meaning::Cycle)?;
        let mut known = self.phase.facts.trial.header.rarer_cycles.iter();
        let (_, setting) = known.find(|(counter, _)| number::singular(counter) == name)?;
        let setting = shell_word(setting);
        let Some(drive) = sides::of_drive(self.run, self.phase) else {
            let repeated = again(self.run, false);
            return (!repeated.is_empty()).then(|| format!("{repeated} --set {setting}"));
        };
        Some(sides::comparison(&drive, &format!("--b {setting}"), "p99", self.turn_s(at)?))
    }

    fn unexplained(&self, at: &[usize], rest: &Rest, search: &Search) -> Words {
        let are = self.of_moments(at, "is", "are");
        let times = if self.phase.moments.len() == 1 { String::new() } else { format!(", {}", self.times(at)) };
        if search.watched().is_empty() {
            return Words {
                rule: "unexplained",
                sentence: format!("{are} unexplained{times}: no series was watched that changed"),
                opposite: "A series that was not watched rises when they begin.".to_owned(),
                next: "Look at the server's log of these times, or watch live with --pid or --cgroup, which reads the \
                       machine's series."
                    .to_owned(),
                command: again(self.run, false),
            };
        }
        let idle = self.idle(at);
        let after_idle = |next: &str| match idle.is_empty() {
            true => next.to_owned(),
            false => format!("{AFTER_IDLE} {next}"),
        };
        if rest.has_power {
            let at_times = times.replacen(',', ":", 1);
            let watched = number::plural(search.watched().len() as u64, "series", "series");
            return Words {
                rule: "unexplained",
                // Falls are not searched.
                sentence: format!("{are} explained by no rise of any watched series ({watched}){at_times}{idle}"),
                opposite: "A series that was not watched rises when they begin, or a watched one falls.".to_owned(),
                next: after_idle("Watch more (samplers, tracing), or look at the servers' logs of these times."),
                command: again(self.run, false),
            };
        }
        let few = match self.phase.slices.len() {
            _ if !rest.is_searched => "after three causes no other is searched".to_owned(),
            slices if slices < SLICES_FEW => format!("{slices} slices are too few to tell causes from chance"),
            _ if at.len() == 1 => "one such moment does not tell causes from chance".to_owned(),
            _ => format!("{} such moments are too few to tell causes from chance", number::count(at.len() as u64)),
        };
        let longer_s = longer_s(self.phase.slices.len(), self.seconds(1));
        let length = number::seconds(longer_s);
        let next = match self.run.header.outline.watched {
            true => format!("Watch for {length} or longer."),
            false => {
                format!("Drive for {length} or longer, or with shorter slices, so that there are more to compare.")
            }
        };
        let high: Vec<String> = rest.candidates.iter().map(|one| self.high(one, search)).collect();
        let high = match high.as_slice() {
            [] => "; no series was high then".to_owned(),
            high => format!("; high then, and not tested: {}", number::list(high)),
        };
        Words {
            rule: "unexplained",
            sentence: format!("{are} undecided{times}: {few}{high}{idle}"),
            opposite: "In a longer run other series rise when slow moments begin.".to_owned(),
            next: after_idle(&next),
            command: longer(self.run, self.phase, longer_s),
        }
    }

    /// Returns the clause that a server did no work in these moments, of several servers the one of which that is true in
    /// most; empty without one. Nothing tells its causes from its effects.
    fn idle(&self, at: &[usize]) -> String {
        let count = |idle: &Idleness| {
            let is_seen = |at: &&usize| {
                let moment = &self.phase.moments[**at];
                idle.slices[moment.first..moment.end].contains(&true)
            };
            at.iter().filter(is_seen).count()
        };
        let mut best: Option<(&Idleness, usize)> = None;
        for idle in self.idle {
            let count = count(idle);
            if count > best.map_or(0, |(_, most)| most) {
                best = Some((idle, count));
            }
        }
        let Some((Idleness { clause, .. }, count)) = best else { return String::new() };
        let when = match at.len() {
            1 => "then".to_owned(),
            all if all == count => "in all of them".to_owned(),
            _ => format!("in {} of them", number::count(count as u64)),
        };
        format!("; {when} {clause}: it waited, or its clients sent nothing")
    }

    /// Describes a series that was high: `disk vda 97.0 % (usually 12.0 %)`.
    fn high(&self, one: &Candidate, search: &Search) -> String {
        let watched = &search.watched()[one.series];
        let shown = |value: f64| number::with_unit(value, &watched.unit);
        match watched.meaning {
            Meaning::Cycle => format!("the end of {}", with_article(&watched.name)),
            Meaning::Figure | Meaning::Stopped => {
                format!("{} {} (usually {})", watched.name, shown(one.seen), shown(one.usual))
            }
        }
    }

    /// Returns the beginnings of moments, in seconds.
    fn starts_s(&self, at: &[usize]) -> Vec<f64> {
        at.iter().map(|at| self.phase.moments[*at].start_ns as f64 / 1e9).collect()
    }

    /// Returns the median of the times between them; `None` of one moment.
    fn gap_s(&self, at: &[usize]) -> Option<f64> {
        let gaps: Vec<f64> = self.starts_s(at).windows(2).map(|pair| pair[1] - pair[0]).collect();
        stat::median(&gaps)
    }

    fn regular(&self, at: &[usize]) -> Option<Words> {
        let interval = stall::interval(&self.starts_s(at))?;
        let next = "timers of the store, of the system and of the job";
        Some(Words {
            rule: "regular",
            sentence: format!("{} every {interval}", self.of_moments(at, "comes", "come")),
            opposite: "The times between them differ by more than a tenth.".to_owned(),
            next: format!("Look for work that is done every {interval}: {next}."),
            command: again(self.run, false),
        })
    }

    fn evidence(&self, one: &Candidate, is_tested: bool, search: &Search) -> EvidenceView {
        let watched = &search.watched()[one.series];
        EvidenceView {
            series: watched.name.clone(),
            unit: watched.unit.clone(),
            usual: one.usual,
            seen: one.seen,
            lead_s: self.seconds(one.lead.0),
            effect: one.excess,
            q: is_tested.then_some(one.q),
            explained: one.explained.len(),
            by_chance: search.by_chance(one.series),
        }
    }

    /// Draws a series over time, with a point in each slow slice. Of many slices some are left out between slow ones, but
    /// not the one after a moment, where the line of its points ends.
    fn chart(&self, watched: &WatchedSeries) -> Chart {
        let slow = |at: &usize| self.phase.moments.iter().any(|moment| (moment.first..moment.end).contains(at));
        let step = watched.values.len().div_ceil(POINTS_MAX).max(1);
        let high = |at: &usize| watched.is_high_before(*at);
        let after_slow = |at: &usize| at.checked_sub(1).is_some_and(|before| slow(&before));
        let is_shown = |at: &usize| at.is_multiple_of(step) || slow(at) || high(at) || after_slow(at);
        let shown: Vec<usize> = (0..watched.values.len()).filter(is_shown).collect();
        let values = shown.iter().map(|at| watched.values[*at]).collect();
        let points = shown.iter().map(|at| watched.values[*at].filter(|_| slow(at))).collect();
        Chart {
            name: number::capital(&watched.name),
            x_name: "Time".to_owned(),
            x_unit: "s".to_owned(),
            unit: watched.unit.clone(),
            x: shown.iter().map(|at| self.phase.slices[*at].0.start_ns as f64 / 1e9).collect(),
            lines: vec![Line::new(watched.name.clone(), values), Line::new("slow moments", points)],
            points: vec![1],
            ..Chart::default()
        }
    }
}

/// Returns a name with its indefinite article.
fn with_article(name: &str) -> String {
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}

/// Returns the next step where clients wait for locks: it names the step that takes most of the time. `holder` is the
/// one that the finding names: `a session that ran COMMIT`.
pub fn next_of_locks(facts: &PhaseFacts<'_>, holder: Option<&str>) -> String {
    let time_ns = |step: &StepView| step.mean_ns * step.count as f64;
    let steps = step::steps(facts);
    let longest = steps.iter().max_by(|a, b| time_ns(a).total_cmp(&time_ns(b)));
    let which = longest.map_or(String::new(), |step| format!(", here {}", step.name));
    let Some(holder) = holder else {
        return format!(
            "Look at the step that takes most of the time{which}, and in the store's own view of locks for who holds \
             those that it waits for."
        );
    };
    let statement = holder.split_once(" ran ").map(|(_, statement)| statement);
    let is_end = |word: &str| word.eq_ignore_ascii_case("commit") || word.eq_ignore_ascii_case("end");
    let what = match statement.map(|statement| statement.split_whitespace().next().is_some_and(is_end)) {
        Some(true) => {
            "Make commits faster, as a transaction keeps its locks until its commit ends, or spread changes over more \
             rows"
        }
        Some(false) => "Shorten the transactions of this statement, or spread its changes over more rows",
        None if holder == UNNAMED_HOLDER => {
            "End the transactions that use a table before its definition is changed, or before all tables are locked"
        }
        None => "Shorten the transactions that hold these locks, or spread their changes over more rows",
    };
    format!("{what}; look at the step that takes most of the time{which}.")
}

/// Returns the next step after a cause, by the source of its series.
fn next(watched: &WatchedSeries) -> &'static str {
    match watched.source.as_str() {
        _ if watched.meaning == Meaning::Cycle => {
            "Make these cycles rarer, or spread them, by a setting of the store, and compare both with `plimsoll ab`."
        }
        _ if watched.meaning == Meaning::Stopped => {
            "Look for a debugger, SIGSTOP, a frozen control group or a suspended virtual machine, and repeat the run \
             without it."
        }
        "generator" => "Give the generator more processors, or lower the rate: it may be what is slow.",
        "cpu" | "tasks" | "interrupts" => "Look for programs beside the server, and repeat the run without them.",
        "disk" | "block" | "fsync" => "Give the data a disk of its own, or a faster one, and repeat the run.",
        "pressure" => "Give the server more of this resource, or take its neighbours away, and repeat the run.",
        "memory" => "Give the server more memory, or limit its cache, and repeat the run.",
        "network" => "Look for other traffic on this link, and repeat the run without it.",
        _ => "Change what makes this figure rise, and compare both sides with `plimsoll ab`.",
    }
}

/// Returns the length in seconds of a longer run than one of `slices` slices of `slice_s`: long enough for a test.
fn longer_s(slices: usize, slice_s: f64) -> f64 {
    let slices = (LONGER * slices as f64).max(SLICES_FEW as f64);
    (slices * slice_s).max(LONGER_S).ceil()
}

#[cfg(test)]
#[path = "sentence_tests.rs"]
mod tests;
