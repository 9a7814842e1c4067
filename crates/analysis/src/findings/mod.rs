//! Findings: causes of the slow moments of driven phases, each with its evidence, a next step and a command that tests
//! it.
//!
//! Slow moments (`moments`, moderate ones by `raised`) that pauses of the machine, faults or commands for servers explain are named first and
//! taken out. The rest is compared with every series that was watched (`series`, their deviations by `robust`). A cause
//! is high when moments begin, or shortly before: more than shifts of the moments in time make likely (`shift`). A fall
//! is no cause: that a server did no work although operations waited is told of moments that nothing explains.
//! `search` takes the best, and searches again for the rest. Moments that no series explains are a finding as well.
//! Changes of level have their own test (`levels`, `change`), and name what changed with them (`beside`).
//! Nothing here proves a cause: that is the purpose of the command, which compares with a side without the cause if there
//! is one (`sides`).
//!
//! | rule | version | finding |
//! |---|---|---|
//! | `pause` | 4 | moments that pauses of the machine made slow, or in which they disturbed most operations |
//! | `fault` | 6 | moments in the effect of faults and commands; those of the plan's faults in several phases are one finding (`planned`) |
//! | `cause` | 4 | moments that begin when a series is high |
//! | `unexplained` | 4 | moments that nothing explains, or that are too few to tell |
//! | `regular` | 4 | moments at equal intervals, of one cause or of none |
//! | `bound` | 3 | locks, the `network` and resources that limit most slices (`bound`) |
//! | `level` | 2 | throughput, or a percentile, at another level from a time on, or for a time, and what changed with it (`levels`) |

mod beside;
mod bound;
mod change;
mod command;
mod levels;
#[cfg(test)]
mod made;
mod moments;
mod network;
mod planned;
mod raised;
pub(crate) mod robust;
mod search;
mod sentence;
mod series;
mod shift;
mod sides;
mod told;

use plimsoll_core::Slice;
use plimsoll_record::Distribution;
use plimsoll_record::data::Run;

pub use self::planned::combined;
pub(crate) use self::series::name as cause_name;
pub use self::told::told;

use self::moments::{Known, SlowPhase};
use self::search::Search;
use self::sentence::{Explanation, Wording};
use self::series::Idleness;
use self::shift::Moments;
use crate::phase::PhaseFacts;
use crate::stall;
use crate::view::FindingView;

/// Returns the findings of every driven phase. Load steps of a search have their own judgement.
pub fn findings(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<FindingView> {
    let phases = stall::driven(facts).filter_map(|facts| SlowPhase::of(run, facts));
    let phases: Vec<SlowPhase<'_, '_>> = phases.collect();
    let searches: Vec<Searched> = phases.iter().map(|phase| Searched::new(run, phase)).collect();
    // Each phase has one p: that of its most conspicuous series.
    let least: Vec<f64> = searches.iter().filter_map(|one| one.search.least_p()).collect();
    let mut factors = shift::false_discovery_factors(&least).into_iter();
    let mut all: Vec<FindingView> = Vec::new();
    for (phase, searched) in phases.iter().zip(&searches) {
        let factor = if searched.search.is_tested() { factors.next().unwrap_or(1.0) } else { 1.0 };
        all.extend(of_phase(run, phase, searched, factor));
    }
    let levels: Vec<FindingView> = phases.iter().flat_map(|phase| levels::levels(run, phase, &all)).collect();
    all.retain(|one| !is_in_level(one, &levels));
    all.extend(levels);
    all.extend(phases.iter().flat_map(|phase| bound::bound(run, phase)));
    all
}

/// Returns true for moments that nothing explains in a level with which series changed.
fn is_in_level(finding: &FindingView, levels: &[FindingView]) -> bool {
    let is_inside = |level: &FindingView| {
        let is_within = |middle_s: f64| level.spans_s.iter().any(|(from, until)| (*from..*until).contains(&middle_s));
        finding.spans_s.iter().all(|(from, until)| is_within(f64::midpoint(*from, *until)))
    };
    let mut named = levels.iter().filter(|level| level.place == finding.place && !level.evidence.is_empty());
    finding.rule == "unexplained" && named.any(is_inside)
}

/// A search and the moments that it is about.
struct Searched {
    search: Search,
    /// Positions of its moments among those of the phase.
    open: Vec<usize>,
    /// Times in which servers did no work.
    idle: Vec<Idleness>,
}

impl Searched {
    fn new(run: &Run, phase: &SlowPhase<'_, '_>) -> Self {
        let open: Vec<usize> = (0..phase.moments.len()).filter(|at| phase.moments[*at].known.is_none()).collect();
        let spans = open.iter().map(|at| (phase.moments[*at].first, phase.moments[*at].end)).collect();
        let slices: Vec<&Slice<Distribution>> = phase.slices.iter().map(|(slice, _)| *slice).collect();
        let (watched, idle) = match open.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => series::watched(run, phase.facts, &slices, phase.slice_ns),
        };
        Searched { search: Search::new(watched, Moments { n: phase.slices.len(), spans }), open, idle }
    }
}

fn of_phase(run: &Run, phase: &SlowPhase<'_, '_>, searched: &Searched, factor: f64) -> Vec<FindingView> {
    let about = Wording { run, phase, idle: &searched.idle };
    let positions = |is_meant: &dyn Fn(&Known) -> bool| -> Vec<usize> {
        let moments = phase.moments.iter().enumerate();
        moments.filter(|(_, moment)| moment.known.as_ref().is_some_and(is_meant)).map(|(at, _)| at).collect()
    };
    let mut told: Vec<Explanation<'_>> = vec![
        Explanation::Fault(positions(&|known| matches!(known, Known::Acts(_)))),
        Explanation::Pause(positions(&|known| *known == Known::Pause)),
    ];
    let of_phase = |at: &[usize]| -> Vec<usize> { at.iter().map(|at| searched.open[*at]).collect() };
    let mut left: Vec<usize> = (0..searched.open.len()).collect();
    let causes = searched.search.causes(factor);
    let mut regular = Vec::new();
    for cause in &causes {
        let explained = cause.evidence.first().map_or(&[][..], |best| &best.explained);
        left.retain(|moment| !explained.contains(moment));
        told.push(Explanation::Cause(of_phase(explained), cause.clone(), &searched.search));
        regular.push(Explanation::Regular(of_phase(explained)));
    }
    // Moments of different causes that come at equal intervals do so by chance.
    regular.push(Explanation::Regular(of_phase(&left)));
    told.extend(regular);
    let is_disturbed = |at: &usize| phase.moments[searched.open[*at]].disturbed.is_some();
    let (disturbed, left): (Vec<usize>, Vec<usize>) = left.into_iter().partition(is_disturbed);
    told.push(Explanation::Disturbed(of_phase(&disturbed)));
    // Without series there was nothing to explain them. Of a log they are told nevertheless: it often stands alone.
    if !searched.search.watched().is_empty() || run.header.outline.watched {
        let rest = searched.search.rest(&causes, &left, factor);
        told.push(Explanation::Unexplained(of_phase(&left), rest, &searched.search));
    }
    told.iter().filter_map(|told| about.view(told)).collect()
}
