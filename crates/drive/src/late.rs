//! Decision if the generator may have changed a phase's figures as much as the store did, as a pure function with a
//! reason.
//!
//! Only an open loop can say so: it knows when each operation should have been sent. A closed loop whose worker is
//! busy all the time measures the generator's ceiling; reports warn of that by its CPU.

use std::time::Duration;

use crate::collect::Totals;

/// Share of its processor from which on a worker has nothing left: the rest goes to interrupts and to the system.
const BUSY: f64 = 0.95;
/// Lateness that is never worth a word, at the median and at the 99th percentile: a hundred microseconds are
/// ten times what a worker with a processor to itself needs to wake up, and a millisecond is less than a scheduler's
/// turn.
const HARMLESS_P50_NS: u64 = 100_000;
const HARMLESS_P99_NS: u64 = 1_000_000;
/// Delay that coarse wake-ups add to both by intention.
const COARSE_NS: u64 = 1_000_000;
/// Above that: share of the response time at the same percentile that the generator may have made itself.
const SHARE: f64 = 0.5;
/// Part of the late operations' time that the machine or a run queue has to account for, to be what made them late: after
/// a pause others are late that were due when it was over.
const ACCOUNTS: f64 = 0.5;
/// Operations without which a median or a 99th percentile says nothing: ten above it.
const MEDIAN_N: u64 = 20;
const P99_N: u64 = 1_000;

/// Describes the delay of the generator, its cause as far as known, and a remedy; `None` when it did not matter.
/// `behind` is its distance from the schedule if it stopped because of that, `coarse` means that it woke up once a
/// millisecond by intention.
pub(crate) fn late_because(totals: &Totals, behind: Option<Duration>, coarse: bool) -> Option<String> {
    let (Totals { lag, response, .. }, busiest_worker) = (totals, totals.busiest_worker());
    let allowed_ns = if coarse { COARSE_NS } else { 0 };
    let percent = busiest_worker * 100.0;
    let relief = "give the phase more workers, or drive it from another machine";
    if let Some(behind) = behind {
        let behind_ns = u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX);
        let (who, relief) = match busiest_worker >= BUSY {
            true => (String::new(), relief),
            false => held_up(totals, behind_ns as f64),
        };
        return Some(format!(
            "the generator was {} behind its own schedule and gave up, its busiest worker at {percent:.0} % of a \
             processor{who}; {relief}",
            time(behind_ns)
        ));
    }
    if busiest_worker >= BUSY && lag.n >= MEDIAN_N && lag.p50_ns > HARMLESS_P50_NS + allowed_ns {
        return Some(format!(
            "the generator was {} late at the median, because a worker was busy for {percent:.0} % of the time; {relief}",
            time(lag.p50_ns)
        ));
    }
    let late = |n, late_ns: u64, harmless_ns, whole_ns: u64, least_n| {
        n >= least_n && late_ns > ((whole_ns as f64 * SHARE) as u64).max(harmless_ns + allowed_ns)
    };
    let (late_ns, whole_ns, percentile, share) = if late(lag.n, lag.p50_ns, HARMLESS_P50_NS, response.p50_ns, MEDIAN_N)
    {
        (lag.p50_ns, response.p50_ns, "the median", 0.5)
    } else if late(lag.n, lag.p99_ns, HARMLESS_P99_NS, response.p99_ns, P99_N) {
        (lag.p99_ns, response.p99_ns, "the 99th percentile", 0.01)
    } else {
        return None;
    };
    let (who, relief) = held_up(totals, totals.started_ns as f64 * share);
    Some(format!(
        "the generator was {} late at {percentile} (operations took {}){who}; {relief}",
        time(late_ns),
        time(whole_ns)
    ))
}

/// Returns the cause of a total delay of `late_ns` with its duration, and a remedy.
fn held_up(totals: &Totals, late_ns: f64) -> (String, &'static str) {
    let Totals { paused_ns, queued_ns, .. } = *totals;
    let accounts = |ns: u64| ns as f64 >= ACCOUNTS * late_ns;
    // Who is kept from running in a pause stands in a run queue too.
    let others_ns = |paused_ns: u64| queued_ns.saturating_sub(paused_ns);
    let preempted = match totals.involuntary_switches {
        0 => String::new(),
        1 => " (preempted once)".to_owned(),
        n => format!(" (preempted {n} times)"),
    };
    let relief = "leave a processor to it, or lower the rate";
    match paused_ns {
        Some(paused_ns) if accounts(paused_ns) && paused_ns >= others_ns(paused_ns) => (
            format!(
                ", because the machine paused for {} in total, and a worker waited {} for a processor",
                time(paused_ns),
                time(queued_ns)
            ),
            "repeat it, or use a machine without other load",
        ),
        _ if accounts(others_ns(paused_ns.unwrap_or(0))) => (
            format!(
                ", because a worker waited {} in total for a processor that other threads used{preempted}",
                time(queued_ns)
            ),
            relief,
        ),
        Some(paused_ns) => (
            format!(
                ", which neither pauses of the machine ({}) nor waiting for a processor ({}) explain{preempted}",
                time(paused_ns),
                time(queued_ns)
            ),
            relief,
        ),
        None => (
            format!(
                ", which waiting for a processor ({}) does not explain{preempted}, and pauses of the machine were not recorded",
                time(queued_ns)
            ),
            relief,
        ),
    }
}

/// A time in words, with two digits.
fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => (ns as f64, "ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Lag;

    const MS: u64 = 1_000_000;

    fn times(n: u64, p50_ns: u64, p99_ns: u64) -> Lag {
        Lag { n, p50_ns, p99_ns, max_ns: p99_ns * 2 }
    }

    fn totals(busiest_worker: f64, lag: Lag, response: Lag) -> Totals {
        let started_ns = 10_000 * MS;
        let busiest_cpu_ns = (busiest_worker * started_ns as f64) as u64;
        Totals { lag, response, started_ns, busiest_cpu_ns, ..Totals::default() }
    }

    fn late_precisely(totals: &Totals) -> Option<String> {
        late_because(totals, None, false)
    }

    #[test]
    fn a_generator_with_room_and_little_lag_is_not_late() {
        let quick = times(100_000, 60_000, 200_000);
        for (busiest, lag) in [
            (0.2, times(100_000, 6_000, 80_000)),
            // Busy, but on time: there was just enough of it.
            (0.99, times(100_000, 20_000, 90_000)),
            // Late, but no more than never matters.
            (0.3, times(100_000, 100_000, 1_000_000)),
            // Too few to say.
            (0.99, times(19, 50 * MS, 80 * MS)),
            (0.3, times(999, 50_000, 80 * MS)),
        ] {
            assert_eq!(late_precisely(&totals(busiest, lag, quick)), None, "{busiest}, {lag:?}");
        }
        // Late, but next to nothing of what the store took.
        assert_eq!(late_precisely(&totals(0.5, times(9_000, 2 * MS, 30 * MS), times(9_000, 400 * MS, 900 * MS))), None);
    }

    #[test]
    fn a_worker_without_a_rest_is_the_reason() {
        let why =
            late_precisely(&totals(0.97, times(9_000, 3_200_000, 9 * MS), times(9_000, 80 * MS, 90 * MS))).unwrap();
        assert!(
            why.starts_with("the generator was 3.2 ms late at the median, because a worker was busy for 97 % of"),
            "{why}"
        );
        assert_eq!(
            late_precisely(&totals(0.94, times(9_000, 3_200_000, 9 * MS), times(9_000, 80 * MS, 90 * MS))),
            None
        );
    }

    #[test]
    fn lateness_that_is_most_of_a_percentile_is_said_with_who_held_it_up_and_for_how_long() {
        let mut late = totals(0.3, times(9_000, 20_000, 3 * MS), times(9_000, 90_000, 5 * MS));
        late.involuntary_switches = 131;
        let said = |late: &Totals| {
            let why = late_precisely(late).unwrap();
            let lateness = "the generator was 3.0 ms late at the 99th percentile (operations took 5.0 ms)";
            why.strip_prefix(lateness).unwrap_or_else(|| panic!("{why}")).to_owned()
        };
        // One operation of a hundred was late: of ten seconds that is 100 ms.
        late.queued_ns = 180 * MS;
        let relief = "leave a processor to it, or lower the rate";
        let queued =
            ", because a worker waited 180 ms in total for a processor that other threads used (preempted 131 times)";
        assert_eq!(said(&late), format!("{queued}; {relief}"));
        late.paused_ns = Some(80 * MS);
        assert_eq!(said(&late), format!("{queued}; {relief}"), "most of it was no pause");
        late.paused_ns = Some(120 * MS);
        let machine = ", because the machine paused for 120 ms in total, and a worker waited 180 ms for a processor";
        assert_eq!(said(&late), format!("{machine}; repeat it, or use a machine without other load"));
        (late.paused_ns, late.queued_ns) = (Some(7 * MS), 2 * MS);
        let neither = ", which neither pauses of the machine (7.0 ms) nor waiting for a processor (2.0 ms) \
                       explain (preempted 131 times)";
        assert_eq!(said(&late), format!("{neither}; {relief}"));
        late.paused_ns = None;
        let unseen = ", which waiting for a processor (2.0 ms) does not explain (preempted 131 times), and pauses of the \
                      machine were not recorded";
        assert_eq!(said(&late), format!("{unseen}; {relief}"));
        let why = late_precisely(&totals(0.3, times(200, 400_000, 9 * MS), times(200, 600_000, 5 * MS))).unwrap();
        assert!(why.contains("400 µs late at the median (operations took 600 µs), which"), "{why}");
    }

    #[test]
    fn coarse_wake_ups_are_forgiven_their_millisecond() {
        let late = totals(0.1, times(9_000, 500_000, 1_100_000), times(9_000, 560_000, 1_200_000));
        assert!(late_precisely(&late).is_some());
        assert_eq!(late_because(&late, None, true), None);
    }

    #[test]
    fn a_generator_that_gave_up_on_its_own_schedule_says_so() {
        let mut late = totals(1.0, times(0, 0, 0), times(0, 0, 0));
        let behind_by = Some(Duration::from_secs(10));
        let why = late_because(&late, behind_by, false).unwrap();
        let behind = "was 10 s behind its own schedule and gave up, its busiest worker at";
        assert!(why.contains(&format!("{behind} 100 % of a processor; give the phase more workers")), "{why}");
        (late.busiest_cpu_ns, late.paused_ns) = (4_000 * MS, Some(8_000 * MS));
        let why = late_because(&late, behind_by, false).unwrap();
        assert!(
            why.contains(&format!("{behind} 40 % of a processor, because the machine paused for 8.0 s in total")),
            "{why}"
        );
    }
}
