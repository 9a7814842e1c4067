//! Faults that were repeated, with the spread of their effects.

use indexmap::IndexMap;
use plimsoll_core::TICK_NS;
use plimsoll_record::data::{FaultKind, Run};

use crate::failover;
use crate::name::{self, REPEAT};
use crate::number;
use crate::stat::{self, interval};
use crate::view::{FaultRepeatsView, FaultSpread, FaultView};

/// Returns faults of the same kind and words, if there are several, with the spread of their effects.
pub fn repeats(run: &Run, faults: &[FaultView]) -> Vec<FaultRepeatsView> {
    let mut groups: IndexMap<(String, &str, FaultKind, &str), Vec<&FaultView>> = IndexMap::new();
    for one in faults.iter().filter(|one| one.taken_s.is_some()) {
        let trial = run.trials.iter().find(|trial| trial.header.ordinal == one.place.0);
        let trial = trial.map_or(String::new(), |trial| name::trial_without(&trial.header, &[REPEAT]));
        groups.entry((trial, &one.phase, one.kind, &one.fault)).or_default().push(one);
    }
    let several = groups.into_iter().filter(|(_, group)| group.len() > 1);
    let of_group = |((trial, phase, kind, fault), group): ((String, &str, FaultKind, &str), Vec<&FaultView>)| {
        let outages = group.iter().filter_map(|one| one.whole_outage_s());
        let recovered = group.iter().filter_map(|one| one.whole_recovery_s());
        let (inside, decided) = failover::counts(group.iter().filter_map(|one| one.failover.as_ref()));
        let mut view = FaultRepeatsView {
            trial,
            phase: phase.to_owned(),
            kind,
            fault: fault.to_owned(),
            n: group.len() as u64,
            noticed: spread(group.iter().filter_map(|one| one.noticed_s).collect()),
            outage: spread(outages.collect()),
            recovered: spread(recovered.collect()),
            inside,
            decided,
            sentence: String::new(),
        };
        view.sentence = of_repeats(&view);
        view
    };
    several.map(of_group).collect()
}

/// Returns the spread of times of which those that did not end are infinite.
fn spread(mut times_s: Vec<f64>) -> Option<FaultSpread> {
    if times_s.len() < 2 {
        return None;
    }
    times_s.sort_by(f64::total_cmp);
    let ended = |time_s: Option<f64>| time_s.filter(|time_s| time_s.is_finite());
    let open = times_s.iter().filter(|time_s| time_s.is_infinite()).count() as u64;
    Some(FaultSpread {
        n: times_s.len() as u64,
        least_s: ended(times_s.first().copied()),
        median_s: ended(stat::median(&times_s)),
        most_s: ended(times_s.last().copied()),
        interval_s: interval::of_median(&times_s).filter(|_| open == 0).map(|one| (one.low, one.high)),
        open,
    })
}

fn of_repeats(view: &FaultRepeatsView) -> String {
    let shown = |time_s: Option<f64>| time_s.map_or("longer than observed".to_owned(), number::seconds);
    let range = |of: &FaultSpread| {
        let interval = of.interval_s.map_or(String::new(), |(low, high)| {
            format!(" (95 % interval {} to {})", number::seconds(low), number::seconds(high))
        });
        format!("{} to {}, median {}{interval}", shown(of.least_s), shown(of.most_s), shown(of.median_s))
    };
    let outage = view.outage.as_ref().map(|outage| match outage.most_s {
        None if outage.open == outage.n => "no answer for as long as it was observed".to_owned(),
        Some(0.0) => "no outage".to_owned(),
        _ => format!("no answer for {}", range(outage)),
    });
    let recovered = view.recovered.as_ref().map(|recovered| match recovered.most_s {
        None if recovered.open == recovered.n => "throughput never back while it was observed".to_owned(),
        Some(0.0) => "throughput did not fall".to_owned(),
        _ => format!("throughput back after {}", range(recovered)),
    });
    let inside = (view.decided > 0)
        .then(|| format!("{} of {} inside the formula", number::count(view.inside), number::count(view.decided)));
    let noticed = view.noticed.as_ref().map(|noticed| {
        let after = match noticed.most_s {
            Some(most_s) if most_s * 1e9 < TICK_NS as f64 => "within 10 ms".to_owned(),
            _ => format!("after {}", range(noticed)),
        };
        match noticed.n == view.n {
            true => format!("noticed {after}"),
            false => format!("noticed {} times, {after}", number::count(noticed.n)),
        }
    });
    let effects: Vec<String> = outage.into_iter().chain(noticed).chain(recovered).chain(inside).collect();
    let effects = match effects.is_empty() {
        true => "effects on clients were not counted".to_owned(),
        false => effects.join("; "),
    };
    format!("{}, {} times in {}, phase {}: {effects}", view.fault, number::count(view.n), view.trial, view.phase)
}
