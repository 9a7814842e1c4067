//! Time in which other programs had the machine's processors: the hypervisor, or programs that are neither generator
//! nor store. A store is slower then, by no fault of its own; the witness of pauses sees nothing of it where a
//! processor was shared and did not stand still.
//!
//! It is read from samples, so its grain is that of the samplers, a second. Of programs something is known only where the
//! store's processes are sampled too; elsewhere they may be the store.

use plimsoll_core::pause::AFTERMATH_TIMES;
use plimsoll_record::data::{Sample, Series};

use crate::host;
use crate::resource::processors;

/// Share of all processors that the hypervisor took, from which on a reading counts, in percent.
const STOLEN: f64 = 3.0;

/// Limit for other programs, and for them and the hypervisor together.
const OTHERS: f64 = 5.0;

/// Work of the kernel for store and generator in threads of its own, and differences between clocks that are read in
/// turn: as a share of their use, the lowest quarter of the last minute's readings, and no more than this.
const KERNEL_MOST: f64 = 0.15;
const KERNEL_NS: u64 = 60_000_000_000;

/// Least use of the processors that tells how much the kernel does besides, in percent.
const BUSY: f64 = 5.0;

/// Share of the time from which a program's use belongs to the machine, and the store is measured beside it.
const ALWAYS: f64 = 0.9;

/// The time before a rung's end that tells so, and the least of it.
const ALWAYS_NS: u64 = 120_000_000_000;
const ALWAYS_LEAST_NS: u64 = 60_000_000_000;

/// Least time between the last reading that counts and a rung's end: a search decides when a rung has ended, and must
/// decide the same in every report, where later readings are known too.
const LATE_NS: u64 = 250_000_000;

/// Longest time that one reading says something of.
const LONGEST_NS: u64 = 2_000_000_000;

/// Returns the spans taken until a rung ended at `end_ns`, in order and apart, each with its aftermath: what was due in
/// it and waits has to be worked off. `None` if they are nearly all of the last two minutes: that is how the machine is.
/// Times are nanoseconds on the run's clock.
pub(super) fn taken(samples: &[Sample], series: &[Series], end_ns: u64) -> Option<Vec<(u64, u64)>> {
    let readings = readings(samples, series, end_ns);
    let recent = readings.iter().filter(|reading| reading.at_ns + KERNEL_NS >= end_ns);
    let busy = recent.filter_map(|reading| Some((reading.all, reading.ours.filter(|ours| *ours >= BUSY)?)));
    let mut beside: Vec<f64> = busy.map(|(all, ours)| (all - ours) / ours).collect();
    beside.sort_by(f64::total_cmp);
    let kernel = beside.get(beside.len() / 4).copied().unwrap_or(KERNEL_MOST).clamp(0.0, KERNEL_MOST);
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let first_ns = readings.first().map_or(end_ns, |reading| reading.at_ns).max(end_ns.saturating_sub(ALWAYS_NS));
    let mut before_ns = None;
    for Reading { at_ns, all, ours, stolen } in readings {
        let from_ns = before_ns.replace(at_ns).unwrap_or(at_ns).max(at_ns.saturating_sub(LONGEST_NS));
        let others = ours.map_or(0.0, |ours| all - (1.0 + kernel) * ours);
        if stolen < STOLEN && stolen + others < OTHERS {
            continue;
        }
        let until_ns = at_ns + AFTERMATH_TIMES * (at_ns - from_ns);
        match spans.last_mut() {
            Some(last) if last.1 >= from_ns => last.1 = until_ns,
            _ => spans.push((from_ns, until_ns)),
        }
    }
    let within = |(from, until): &(u64, u64)| (*until).min(end_ns).saturating_sub((*from).max(first_ns));
    let (length_ns, taken_ns) = (end_ns - first_ns, spans.iter().map(within).sum::<u64>());
    let is_always = length_ns >= ALWAYS_LEAST_NS && taken_ns as f64 >= ALWAYS * length_ns as f64;
    (!is_always).then_some(spans)
}

/// Processors in a second, in percent of all.
struct Reading {
    at_ns: u64,
    all: f64,
    /// Use of generator and store; `None` if the store's processes are not on this machine.
    ours: Option<f64>,
    stolen: f64,
}

/// Returns the readings that count for a rung that ended at `end_ns`. Stores are sampled at moments of their own.
fn readings(samples: &[Sample], series: &[Series], end_ns: u64) -> Vec<Reading> {
    let found = |(source, name): (&str, &str)| host::positions(series, source, &[name]).first().copied();
    let all = [("cpu", "user"), ("cpu", "system")].map(found);
    let ours = [("generator", "user"), ("generator", "system"), ("server", "user"), ("server", "system")].map(found);
    let stolen = found(("cpu", "steal"));
    let processors = processors(series);
    let value = |sample: &Sample, at: Option<u32>| sample.value(at? as usize);
    let sum = |sample: &Sample, of: &[Option<u32>]| of.iter().map(|at| value(sample, *at)).sum::<Option<f64>>();
    let reading = |sample: &Sample| {
        Some(Reading {
            at_ns: sample.at_ns,
            all: sum(sample, &all)?,
            ours: sum(sample, &ours).map(|ours| ours / processors),
            stolen: value(sample, stolen).unwrap_or(0.0),
        })
    };
    samples.iter().take_while(|sample| sample.at_ns + LATE_NS <= end_ns).filter_map(reading).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_core::SeriesKind;

    use super::*;

    const S_NS: u64 = 1_000_000_000;

    /// Two processors, a generator and a store: percent of all for `cpu`, of one for the others.
    fn series() -> Vec<Series> {
        let of = |source: &str, subject: &str| {
            ["user", "system", "steal"].map(|name| {
                let [source, subject, name, unit] = [source, subject, name, "%"].map(str::to_owned);
                Series { source, subject, name, unit, kind: SeriesKind::Total }
            })
        };
        [of("cpu", ""), of("cpu", "cpu0"), of("cpu", "cpu1"), of("generator", ""), of("server", "")].concat()
    }

    /// A reading at `at_s` of all processors, of what was stolen, and of generator and store together.
    fn sample(at_s: u64, all: f64, stolen: f64, ours: f64) -> Sample {
        let values = vec![(0, all), (1, 0.0), (2, stolen), (9, ours), (10, 0.0), (12, 0.0), (13, 0.0)];
        Sample { at_ns: at_s * S_NS, values, ..Sample::default() }
    }

    #[test]
    fn time_is_taken_by_other_programs_and_by_the_hypervisor_with_its_aftermath() {
        let quiet = |at_s| sample(at_s, 42.0, 0.5, 80.0);
        // A reading that came when the rung had ended changes nothing.
        let late = sample(5, 42.0, 9.0, 80.0);
        let of = |one: Sample| taken(&[quiet(1), quiet(2), one, quiet(4), late.clone()], &series(), 5 * S_NS);
        let from_2_to_7 = Some(vec![(2 * S_NS, 7 * S_NS)]);
        assert_eq!(of(quiet(3)), Some(vec![]));
        assert_eq!(of(sample(3, 60.0, 0.0, 80.0)), from_2_to_7);
        assert_eq!(of(sample(3, 42.0, 4.0, 80.0)), from_2_to_7);
        // Beside a kernel that does little, little use by other programs is seen, and much of the kernel's work
        // belongs to the store.
        assert_eq!(of(sample(3, 48.0, 0.0, 80.0)), from_2_to_7);
        let kernel: Vec<Sample> = (1..9).map(|at_s| sample(at_s, 46.0, 0.5, 80.0)).collect();
        assert_eq!(taken(&kernel, &series(), 9 * S_NS), Some(vec![]));
        // The store and the generator themselves are not other programs, however busy.
        assert_eq!(of(sample(3, 99.0, 0.0, 190.0)), Some(vec![]));
        // Without the store's own processes nothing is known of other programs.
        let without: Vec<Series> = series().into_iter().filter(|one| one.source != "server").collect();
        let of = |stolen| taken(&[sample(1, 99.0, 0.0, 10.0), sample(2, 99.0, stolen, 10.0)], &without, 5 * S_NS);
        assert_eq!((of(0.0), of(9.0).map(|spans| spans.len())), (Some(vec![]), Some(1)));
    }

    #[test]
    fn who_is_always_there_or_comes_back_again_and_again_is_how_the_machine_is() {
        let (busy, quiet) = (|at_s| sample(at_s, 50.0, 0.0, 80.0), |at_s| sample(at_s, 42.0, 0.0, 80.0));
        let after = |seconds: u64, of: &dyn Fn(u64) -> Sample| {
            taken(&(1..=seconds).map(of).collect::<Vec<_>>(), &series(), seconds * S_NS)
        };
        // A program that has a sixth of a processor in each fourth second: what it leaves behind fills the time between.
        let back = |at_s: u64| if at_s.is_multiple_of(4) { busy(at_s) } else { quiet(at_s) };
        assert_eq!(after(50, &back).unwrap().len(), 1);
        assert_eq!(after(90, &back), None);
        // One that went away half a minute ago, after a minute.
        let gone = |at_s| if at_s <= 60 { back(at_s) } else { quiet(at_s) };
        assert_eq!(after(90, &gone).unwrap().len(), 1);
    }
}
