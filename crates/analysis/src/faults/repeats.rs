//! Faults that were repeated, with the spread of their effects.

use indexmap::IndexMap;
use plimsoll_core::TICK_NS;
use plimsoll_record::data::{FaultKind, Run};

use crate::failover;
use crate::name::{self, REPEAT};
use crate::number;
use crate::stat::{self, interval};
use crate::view::{CountSpread, FaultRepeatsView, FaultSilenceView, FaultSpread, FaultView, SpreadBounds};

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
        let times =
            |of: fn(&FaultView) -> Option<Time>| spread(&group.iter().filter_map(|one| of(one)).collect::<Vec<_>>());
        let affected = group.iter().filter_map(|one| one.affected).map(|all| all.clients as f64);
        let silent = group.iter().filter_map(|one| one.key_parts).map(|parts| parts.silent as f64);
        let lost = group.iter().filter_map(|one| one.lost).map(|lost| lost.all() as f64);
        let outage = times(|one| Some(Time { seconds: one.outage_s?, is_open: one.outage_open }));
        let timeouts = group.iter().filter(|one| one.outage_is_timeout).count() as u64;
        let (inside, decided) = failover::counts(group.iter().filter_map(|one| one.failover.as_ref()));
        let mut view = FaultRepeatsView {
            trial,
            phase: phase.to_owned(),
            kind,
            fault: fault.to_owned(),
            n: group.len() as u64,
            noticed: times(|one| Some(Time { seconds: one.noticed_s?, is_open: false })),
            outage: outage.map(|outage| FaultSpread { timeouts, ..outage }),
            recovered: times(recovery),
            affected: counts(&affected.collect::<Vec<_>>()),
            client_silence: times(|one| one.clients.map(silence)),
            silent_parts: counts(&silent.collect::<Vec<_>>()),
            part_silence: times(|one| one.key_parts.map(silence)),
            lost: counts(&lost.collect::<Vec<_>>()).filter(|lost| lost.most > 0.0),
            inside,
            decided,
            sentence: String::new(),
        };
        view.sentence = of_repeats(&view);
        view
    };
    several.map(of_group).collect()
}

/// Time after a fault; a lower bound if its end was not seen.
struct Time {
    seconds: f64,
    is_open: bool,
}

/// Returns the time until throughput was back. It is open if the next fault began, or observation ended, before that.
fn recovery(one: &FaultView) -> Option<Time> {
    match one.recovery_after_next_s() {
        Some(seconds) => Some(Time { seconds, is_open: true }),
        None => Some(Time { seconds: one.least_recovery_s()?, is_open: one.recovered_open }),
    }
}

/// Returns the longest time without an answer of one client, or one part of the keys.
fn silence(of: FaultSilenceView) -> Time {
    Time { seconds: of.longest_s, is_open: of.longest_open }
}

/// Returns the spread of times; `None` with fewer than two. Those that did not end count as longer than all others.
fn spread(times: &[Time]) -> Option<FaultSpread> {
    let counted = |one: &Time| if one.is_open { f64::INFINITY } else { one.seconds };
    let [least_s, median_s, most_s, low_s, high_s] = quantiles(times.iter().map(counted).collect())?;
    // A time is at least its lower bound: so is the time of each rank.
    let bounds = quantiles(times.iter().map(|one| one.seconds).collect())?;
    let ended = |time_s: Option<f64>| time_s.filter(|time_s| time_s.is_finite());
    let [least, median, most, low, high] = bounds;
    let above = |time_s: Option<f64>, bound_s: Option<f64>| time_s.filter(|time_s| time_s.is_infinite()).and(bound_s);
    Some(FaultSpread {
        n: times.len() as u64,
        least_s: ended(least_s),
        median_s: ended(median_s),
        most_s: ended(most_s),
        interval_s: low_s.zip(high_s).map(|_| (ended(low_s), ended(high_s))),
        above_s: SpreadBounds {
            least: above(least_s, least),
            median: above(median_s, median),
            most: above(most_s, most),
            low: above(low_s, low),
            high: above(high_s, high),
        },
        open: times.iter().filter(|one| one.is_open).count() as u64,
        timeouts: 0,
    })
}

/// Returns the spread of numbers; `None` with fewer than two.
fn counts(values: &[f64]) -> Option<CountSpread> {
    let [least, median, most, low, high] = quantiles(values.to_vec())?;
    let (least, median, most) = (least?, median?, most?);
    Some(CountSpread { n: values.len() as u64, least, median, most, interval: low.zip(high) })
}

/// Returns least, median, most, and the ends of the median's interval, which needs six values; `None` with fewer than
/// two values.
fn quantiles(mut values: Vec<f64>) -> Option<[Option<f64>; 5]> {
    if values.len() < 2 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let (low, high) = interval::of_median(&values).map(|one| (one.low, one.high)).unzip();
    Some([values.first().copied(), stat::median(&values), values.last().copied(), low, high])
}

fn of_repeats(view: &FaultRepeatsView) -> String {
    let range = |of: &FaultSpread, format: fn(f64) -> String| {
        let interval = of.interval_words(format);
        let interval = interval.map_or(String::new(), |[low, high]| format!(" (95 % interval {low} to {high})"));
        let [least, median, most] = of.words(format);
        let timeouts = match of.timeouts {
            0 => String::new(),
            n => format!(", {} of them as long as the time-out of operations", number::count(n)),
        };
        format!("{least} to {most}, median {median}{interval}{timeouts}")
    };
    let outage = view.outage.as_ref().map(|outage| match outage.most_s {
        None if outage.open == outage.n => "no answer for as long as it was observed".to_owned(),
        Some(0.0) => "no outage".to_owned(),
        _ => format!("no answer for {}", range(outage, number::seconds)),
    });
    let recovered = view.recovered.as_ref().map(|recovered| match recovered.most_s {
        None if recovered.open == recovered.n => "throughput never back while it was observed".to_owned(),
        Some(0.0) => "throughput did not fall".to_owned(),
        _ => format!("throughput back after {}", range(recovered, number::seconds)),
    });
    let inside = (view.decided > 0)
        .then(|| format!("{} of {} inside the formula", number::count(view.inside), number::count(view.decided)));
    let noticed = view.noticed.as_ref().map(|noticed| {
        let after = match noticed.most_s {
            Some(most_s) if most_s * 1e9 < TICK_NS as f64 => "within 10 ms".to_owned(),
            _ => format!("after {}", range(noticed, number::seconds_to_tick)),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ended_s: &[f64], open_s: &[f64]) -> Option<FaultSpread> {
        let time = |is_open: bool| move |seconds: &f64| Time { seconds: *seconds, is_open };
        let times: Vec<Time> = open_s.iter().map(time(true)).chain(ended_s.iter().map(time(false))).collect();
        spread(&times)
    }

    #[test]
    fn times_that_did_not_end_are_the_longest_and_told_by_their_lower_bounds() {
        let seven = of(&[5.0, 1.0, 4.0, 2.0, 3.0], &[6.0, 2.5]).unwrap();
        assert_eq!(
            (seven.n, seven.open, seven.least_s, seven.median_s, seven.most_s),
            (7, 2, Some(1.0), Some(4.0), None)
        );
        assert_eq!(seven.words(number::seconds), ["1.00 s", "4.00 s", "> 6.00 s"]);
        assert_eq!(seven.interval_s, Some((Some(1.0), None)));
        assert_eq!(seven.interval_words(number::seconds), Some(["1.00 s".to_owned(), "> 6.00 s".to_owned()]));
        // Of three at least 1, 2 and 5 s the second is at least 2 s.
        assert_eq!(of(&[1.0], &[5.0, 2.0]).unwrap().words(number::seconds), ["1.00 s", "> 2.00 s", "> 5.00 s"]);
        assert_eq!(of(&[], &[5.0, 2.0]).unwrap().words(number::seconds), ["> 2.00 s", "> 3.50 s", "> 5.00 s"]);
    }

    #[test]
    fn times_below_a_tick_are_told_by_it_if_they_are_known_to_ticks() {
        let three = of(&[0.0, 0.005, 0.02], &[]).unwrap();
        assert_eq!(three.words(number::seconds_to_tick), ["< 10 ms", "< 10 ms", "20.0 ms"]);
        assert_eq!(three.words(number::seconds), ["0 s", "5.00 ms", "20.0 ms"]);
    }

    #[test]
    fn an_interval_of_the_median_needs_six_times_and_a_spread_two() {
        let six = of(&[6.0, 5.0, 4.0, 3.0, 2.0, 1.0], &[]).unwrap();
        assert_eq!((six.interval_s, six.above_s), (Some((Some(1.0), Some(6.0))), SpreadBounds::default()));
        let five = of(&[5.0, 4.0, 3.0, 2.0, 1.0], &[]).unwrap();
        assert_eq!((five.median_s, five.interval_s, five.interval_words(number::seconds)), (Some(3.0), None, None));
        assert!(of(&[1.0], &[]).is_none() && of(&[], &[]).is_none());
        let clients = counts(&[3.0, 64.0, 5.0, 4.0, 4.0, 4.0]).unwrap();
        assert_eq!((clients.n, clients.least, clients.median, clients.most), (6, 3.0, 4.0, 64.0));
        assert_eq!((clients.interval, counts(&[3.0])), (Some((3.0, 64.0)), None));
    }
}
