//! Calibration of this machine: the generator's ceiling against nothing, and the difference between equal runs. Kept
//! beside the recordings, and noted in every run.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{Catalogue, OpenOptions, Params, SessionShape, StreamSpec, Target};
use plimsoll_drive::{Clock, DriveSpec, Limit, Seen, Watch, Witness};
use plimsoll_trial::{TrialError, io_error, write_error};
use serde::{Deserialize, Serialize};

use crate::measure::Bench;

/// Runs of each sort. Any two of the noise's are a pair.
const CEILING_RUNS: usize = 5;
const NOISE_RUNS: usize = 12;
const CEILING_RUN: Duration = Duration::from_millis(500);
const NOISE_RUN: Duration = Duration::from_millis(500);
/// Time in which a thread that does nothing else looks for gaps.
const IDLE_RUN: Duration = Duration::from_secs(2);
/// Largest share of time that may be taken from a thread on a quiet machine.
const TAKEN_MAX: f64 = 0.25;
/// Share by which equal runs may differ on a machine on which anything can be compared.
const NOISE_MAX: f64 = 0.10;
/// Shortest gap that counts as time taken away, in nanoseconds: shorter ones are the clock's own.
const GAP_NS: u64 = 5_000;

/// Measurements of a calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Wall time, nanoseconds since 1970.
    pub made_wall_ns: i64,
    /// CPU, kernel and number of processors: a calibration of another machine is not used.
    pub machine: String,
    /// Operations a second of one worker with nothing behind it: median, least, most.
    pub ceiling_per_s: [f64; 3],
    /// Ceiling of two workers together.
    pub ceiling_of_two_per_s: [f64; 3],
    /// Share by which 95 % of all pairs of runs of the same thing differ at most: throughput, p50, p99.
    pub noise: [f64; 3],
    /// Share of the time in which a thread that wanted to run could not; and the longest such time in nanoseconds.
    pub taken_away: (f64, u64),
    /// Pauses of the machine that a witness saw during the calibration, or the reason why there was none; `None` in
    /// calibrations without a witness.
    #[serde(default)]
    pub pauses: Option<Result<Pauses, String>>,
}

/// Pauses of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pauses {
    /// Seconds that were watched.
    pub seconds: f64,
    /// Pauses of 1 ms and more.
    pub count: u64,
    /// The longest in nanoseconds.
    pub longest_ns: u64,
    /// Share of the time, 0 to 1, in pauses of [`PAUSES_ABOVE_MS`] and more.
    pub share_above: [f64; 3],
}

/// Lengths of pauses, in milliseconds, above which their share of the time is reported.
const PAUSES_ABOVE_MS: [u64; 3] = [1, 5, 10];

impl Pauses {
    /// Summarizes what a witness saw.
    pub fn of(seen: &Seen) -> Self {
        Self {
            seconds: seen.seconds(),
            count: seen.pauses.len() as u64,
            longest_ns: seen.longest_ns(),
            share_above: PAUSES_ABOVE_MS.map(|ms| seen.share_above(ms * 1_000_000)),
        }
    }

    fn line(&self) -> String {
        let shares = self.share_above.iter().zip(PAUSES_ABOVE_MS);
        let shares: Vec<String> = shares.map(|(share, ms)| format!("{:.2} % above {ms} ms", share * 100.0)).collect();
        let (longest_ms, count) = (self.longest_ns as f64 / 1e6, self.count);
        format!("of the time {}; {longest_ms:.1} ms at most (n = {count} in {:.0} s)", shares.join(", "), self.seconds)
    }
}

impl Calibration {
    /// Returns the path of the kept calibration.
    pub fn path(runs_dir: &Path) -> PathBuf {
        runs_dir.parent().unwrap_or(runs_dir).join("calibration.json")
    }

    /// The one of this machine, if there is one.
    pub fn load(runs_dir: &Path) -> Option<Calibration> {
        let text = std::fs::read_to_string(Self::path(runs_dir)).ok()?;
        serde_json::from_str(&text).ok().filter(|found: &Calibration| found.machine == machine())
    }

    /// Keeps it for later runs.
    pub fn keep(&self, runs_dir: &Path) -> Result<PathBuf, TrialError> {
        let path = Self::path(runs_dir);
        let failed = |error: std::io::Error| write_error(path.display(), &error);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        // Readers never find a half-written file.
        let beside = path.with_extension("json.new");
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &path)).map_err(failed)?;
        Ok(path)
    }

    /// Returns the reason to doubt the calibration: other programs ran meanwhile.
    pub fn why_doubtful(&self) -> Option<String> {
        let taken = self.taken_away.0;
        (taken > TAKEN_MAX)
            .then(|| format!("a thread that wanted to run could not for {:.0} % of the time", taken * 100.0))
    }

    /// The noise floors that are too high to compare anything above them, in words: `throughput 82.9 %`.
    pub fn refused(&self) -> Option<String> {
        let floors = ["throughput", "p50", "p99"].iter().zip(self.noise).filter(|(_, share)| *share > NOISE_MAX);
        let words: Vec<String> = floors.map(|(name, share)| format!("{name} {:.1} %", share * 100.0)).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Returns names and values, for people and for recordings.
    pub fn lines(&self) -> Vec<(String, String)> {
        let mega = |per_s: f64| format!("{:.1}", per_s / 1e6);
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let ([median, least, most], two) = (self.ceiling_per_s.map(mega), self.ceiling_of_two_per_s[0]);
        let (each_ns, of_one) = (1e9 / self.ceiling_per_s[0], two / self.ceiling_per_s[0]);
        let [rate, p50, p99] = self.noise.map(percent);
        let pairs = NOISE_RUNS * (NOISE_RUNS - 1) / 2;
        let refused = self.refused().map_or(String::new(), |floors| format!("; refused: {floors}"));
        let (taken, longest_ms) = (percent(self.taken_away.0), self.taken_away.1 as f64 / 1e6);
        let one = format!("{median} M ops/s ({least} to {most}, n = {CEILING_RUNS}), {each_ns:.1} ns each");
        let floor = format!(
            "throughput {rate}, p50 {p50}, p99 {p99}: 95 % of {pairs} pairs of equal runs differ by less{refused}"
        );
        let lines = [
            ("generator's ceiling, 1 worker", one),
            ("generator's ceiling, 2 workers", format!("{} M ops/s, {of_one:.2} × one", mega(two))),
            ("noise floor", floor),
            ("time taken from a thread that wants to run", format!("{taken}, {longest_ms:.2} ms at once at most")),
        ];
        let pauses = self.pauses.iter().map(|seen| seen.as_ref().map_or_else(String::clone, Pauses::line));
        let pauses = pauses.map(|line| ("pauses of the machine", line));
        lines.into_iter().chain(pauses).map(|(name, line)| (name.to_owned(), line)).collect()
    }
}

/// Measures this machine; `say` receives a line for each step.
pub fn measure(catalogue: &Catalogue, say: &mut dyn FnMut(&str)) -> Result<Calibration, TrialError> {
    let clock = Clock::start();
    // The witness has priority over the measurements, so that its pauses are not caused by them.
    let mut watch = Witness::start(&clock).map(|witness| witness.watch());
    let seconds = |runs: usize, run: Duration| runs as f64 * run.as_secs_f64();
    say(&format!("the generator against nothing ({:.0} s)", seconds(2 * CEILING_RUNS, CEILING_RUN)));
    // One and two in turn: a drift affects both.
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..CEILING_RUNS {
        one.push(ceiling(catalogue, 1)?);
        two.push(ceiling(catalogue, 2)?);
        watch.iter_mut().for_each(Watch::look);
    }
    say(&format!("equal runs, repeated ({:.0} s)", seconds(NOISE_RUNS, NOISE_RUN)));
    let mut runs = Vec::new();
    for _ in 0..NOISE_RUNS {
        runs.push(echo().map_err(|error| io_error("a pair of sockets", &error))?);
        watch.iter_mut().for_each(Watch::look);
    }
    say(&format!("a thread that wants to run ({:.0} s)", IDLE_RUN.as_secs_f64()));
    Ok(Calibration {
        made_wall_ns: std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as i64),
        machine: machine(),
        ceiling_per_s: spread(&mut one),
        ceiling_of_two_per_s: spread(&mut two),
        noise: [0, 1, 2].map(|of| differences_95(&runs.iter().map(|run| run[of]).collect::<Vec<_>>())),
        taken_away: taken_away(),
        pauses: Some(watch.map(|mut watch| Pauses::of(&watch.take()))),
    })
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} · {} · {processors} processors", model.trim_start_matches([':', ' ', '\t']).trim(), kernel.trim())
}

/// Operations a second of `workers` on the store that waits for nothing.
fn ceiling(catalogue: &Catalogue, workers: u32) -> Result<f64, TrialError> {
    let missing = || TrialError::usage("this build has no store that keeps nothing, or no workload `nothing`");
    let mut stores = catalogue.stores.iter();
    let kind = stores.find(|kind| kind.spec().sessions.shape == SessionShape::Instant).ok_or_else(missing)?;
    let workload = catalogue.workload("nothing").ok_or_else(missing)?;
    let workload = (workload.make)(1, &Params::default(), &[]).map_err(|_| missing())?;
    let target = Target::Private { data_dir: "/nonexistent".into(), said: false, log_dir: "/nonexistent".into() };
    let options =
        OpenOptions { target, params: Params::default(), run_id: "calibration".to_owned(), waits: Default::default() };
    let mut store = kind.open(options, &mut |_| {})?;
    let stream = StreamSpec::One { kind: "nothing".to_owned(), clients: workers };
    let spec = DriveSpec { limit: Limit::Duration(CEILING_RUN), ..DriveSpec::default() };
    let mut bench = Bench { store: &mut *store, workload: &*workload, stop: &Arc::default() };
    let result = bench.drive(&stream, &spec, &mut |_| {})?;
    Ok(result.ops as f64 * 1e9 / (result.end_ns - result.start_ns).max(1) as f64)
}

/// Sends a byte back and forth between two threads: round trips a second, median and 99th percentile in nanoseconds.
fn echo() -> std::io::Result<[f64; 3]> {
    let (mut here, mut there) = UnixStream::pair()?;
    let echoing = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let mut times_ns: Vec<u64> = Vec::with_capacity(1 << 16);
    let started = Instant::now();
    let mut last = started;
    while started.elapsed() < NOISE_RUN {
        here.write_all(&[1])?;
        here.read_exact(&mut [0])?;
        let now = Instant::now();
        times_ns.push((now - last).as_nanos() as u64);
        last = now;
    }
    let seconds = started.elapsed().as_secs_f64();
    drop(here);
    let _ = echoing.join();
    times_ns.sort_unstable();
    let at = |share: f64| times_ns[((times_ns.len() - 1) as f64 * share) as usize] as f64;
    Ok([times_ns.len() as f64 / seconds, at(0.5), at(0.99)])
}

/// Returns the share of time in which this thread could not run, and the longest such time.
fn taken_away() -> (f64, u64) {
    let started = Instant::now();
    let (mut last, mut gone_ns, mut longest_ns) = (started, 0, 0);
    while started.elapsed() < IDLE_RUN {
        let now = Instant::now();
        let gap_ns = (now - last).as_nanos() as u64;
        if gap_ns > GAP_NS {
            gone_ns += gap_ns;
            longest_ns = longest_ns.max(gap_ns);
        }
        last = now;
    }
    (gone_ns as f64 / IDLE_RUN.as_nanos() as f64, longest_ns)
}

/// Median, least and most.
fn spread(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

/// The share by which 95 % of all pairs differ at most.
fn differences_95(values: &[f64]) -> f64 {
    let mut differences = Vec::new();
    for (at, one) in values.iter().enumerate() {
        for other in &values[at + 1..] {
            differences.push((one - other).abs() * 2.0 / (one + other));
        }
    }
    differences.sort_by(f64::total_cmp);
    differences.get((differences.len() * 95).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_is_what_most_pairs_differ_by() {
        assert_eq!(differences_95(&[10.0; 12]), 0.0);
        // 11 of 66 pairs differ by 20/110 of their mean: more than one in twenty.
        let mut values = [100.0; 12];
        values[3] = 120.0;
        assert!((differences_95(&values) - 20.0 / 110.0).abs() < 1e-9);
        // One pair of many does not make the floor.
        let few: Vec<f64> = (0..12).map(f64::from).map(|at| 1000.0 + at).collect();
        assert!(differences_95(&few) < 0.011);
    }

    fn made(noise: [f64; 3]) -> Calibration {
        Calibration {
            made_wall_ns: 1,
            machine: machine(),
            ceiling_per_s: [3e7, 2e7, 4e7],
            ceiling_of_two_per_s: [6e7, 5e7, 7e7],
            noise,
            taken_away: (0.001, 2_000_000),
            pauses: None,
        }
    }

    #[test]
    fn a_floor_above_ten_per_cent_is_refused_by_its_name() {
        assert_eq!(made([0.1, 0.02, 0.09]).refused(), None);
        let refused = made([0.829, 0.02, 0.3]);
        assert_eq!(refused.refused().as_deref(), Some("throughput 82.9 %, p99 30.0 %"));
        // The first of each name is what comparisons read.
        let floor = &refused.lines()[2].1;
        assert!(floor.starts_with("throughput 82.9 %, p50 2.0 %, p99 30.0 %: "), "{floor}");
        assert!(floor.ends_with("; refused: throughput 82.9 %, p99 30.0 %"), "{floor}");
    }

    #[test]
    fn a_calibration_is_kept_and_another_machines_is_not_taken() {
        let place = tempfile::tempdir().unwrap();
        let runs = place.path().join("runs");
        let seen = Pauses { seconds: 14.2, count: 31, longest_ns: 16_100_000, share_above: [0.0081, 0.004, 0.0] };
        let mut made = Calibration { pauses: Some(Ok(seen)), ..made([0.01, 0.02, 0.3]) };
        assert_eq!(Calibration::load(&runs), None);
        made.keep(&runs).unwrap();
        assert_eq!(Calibration::load(&runs).as_ref(), Some(&made));
        assert_eq!(made.lines()[1].1, "60.0 M ops/s, 2.00 × one");
        let pauses =
            "of the time 0.81 % above 1 ms, 0.40 % above 5 ms, 0.00 % above 10 ms; 16.1 ms at most (n = 31 in 14 s)";
        assert_eq!(made.lines()[4].1, pauses);
        made.pauses = Some(Err("no real-time priority".to_owned()));
        assert_eq!(made.lines()[4].1, "no real-time priority");
        // A calibration without a witness contains no pauses.
        let mut old = serde_json::to_value(&made).unwrap();
        old.as_object_mut().unwrap().remove("pauses");
        let old: Calibration = serde_json::from_value(old).unwrap();
        assert_eq!((old.lines().len(), old.pauses), (4, None));
        made.machine = "another".to_owned();
        made.keep(&runs).unwrap();
        assert_eq!(Calibration::load(&runs), None);
    }
}
