//! Times of tests: kept of each run, shown, and held against what a test usually takes.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;

use crate::Result;
use crate::test::slow_tests;

/// Most seconds of a test that does not stand in `xtask/slow-tests.txt`.
const SECONDS_MAX: f64 = 30.0;
/// A test that takes so many times its usual time is refused,
const TIMES_USUAL_MAX: f64 = 3.0;
/// if it takes so many seconds more than usual as well: the processors are shared with other tests.
const SECONDS_MORE: f64 = 10.0;
/// Runs that tell the usual time, at least and at most.
const RUNS: (usize, usize) = (3, 10);
/// Tests that are shown.
const SLOWEST: usize = 25;

/// Seconds of a test by the clock, and of processor time with all that it started and waited for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Took {
    pub seconds: f64,
    pub processor: f64,
}

impl fmt::Display for Took {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:.2}/{:.2}", self.seconds, self.processor)
    }
}

impl Took {
    fn parse(text: &str) -> Option<Self> {
        let (seconds, processor) = text.split_once('/')?;
        Some(Self { seconds: seconds.parse().ok()?, processor: processor.parse().ok()? })
    }
}

/// Times that tests took in the last runs, the newest last. A test is `BINARY TEST`.
#[derive(Default)]
pub struct Times(BTreeMap<String, Vec<Took>>);

impl Times {
    /// Reads `BINARY TEST<tab>SECONDS/PROCESSOR …` lines. A file that is missing has none, and damaged lines are left out.
    pub fn read(path: &Path) -> Result<Self> {
        let text = match std::fs::read(path) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let mut times = Self::default();
        for (test, runs) in text.lines().filter_map(|line| line.split_once('\t')) {
            times.0.entry(test.to_owned()).or_default().extend(runs.split(' ').filter_map(Took::parse));
        }
        Ok(times)
    }

    fn write(&self, path: &Path) -> Result {
        let mut text = String::new();
        for (test, runs) in &self.0 {
            let runs: Vec<String> = runs.iter().map(Took::to_string).collect();
            writeln!(text, "{test}\t{}", runs.join(" ")).map_err(|error| error.to_string())?;
        }
        // Never half of it, whatever ends this program.
        let new = path.with_extension("new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the median of the former runs of `test`, or `None` with fewer than three.
    pub fn usual(&self, test: &str) -> Option<f64> {
        let mut seconds: Vec<f64> = self.0.get(test)?.iter().map(|took| took.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        (seconds.len() >= RUNS.0).then(|| seconds[seconds.len() / 2])
    }

    /// Returns the seconds that `test` took in the newest run.
    fn newest(&self, test: &str) -> Option<f64> {
        Some(self.0.get(test)?.last()?.seconds)
    }

    /// Returns the tests with the least time that each took in the last runs: in one of them the machine may have been busy.
    pub fn least(&self) -> impl Iterator<Item = (&str, f64)> {
        let least = |runs: &Vec<Took>| runs.iter().map(|took| took.seconds).reduce(f64::min);
        self.0.iter().filter_map(move |(test, runs)| Some((test.as_str(), least(runs)?)))
    }
}

/// Tests of a run: all of them or some, whether those passed, and whether they repeated what they draw at random.
#[derive(Clone, Copy)]
pub struct Ran {
    pub all: bool,
    pub passed: bool,
    pub heavy: bool,
}

/// A test that took longer than it may, beside the other tests of a run.
#[derive(Debug, PartialEq)]
pub struct Long {
    pub test: String,
    pub took: f64,
    /// Longest time in seconds that the test may take.
    pub limit: f64,
}

/// Shows the times that `run` has, returns the tests that took too long, and adds the times to those of `kept`. Beside few
/// others a test is fast, so the usual time is that of runs of all tests. A heavy run is long as it is meant to be.
pub fn judge(root: &Path, run: &Path, kept: &Path, ran: Ran) -> Result<Vec<Long>> {
    let now = Times::read(run)?;
    if ran.all && ran.passed && now.0.is_empty() {
        return Err(format!("{} has no time of any test, so nothing watched what tests leave behind", run.display()));
    }
    let mut all = Times::read(kept)?;
    show(&now);
    let slow = slow_tests(root)?;
    let mut long = Vec::new();
    if ran.heavy {
        return Ok(long);
    }
    if ran.all && ran.passed {
        all.0.retain(|test, _| now.0.contains_key(test));
    }
    for (test, now) in &now.0 {
        let took = now.last().map_or(0.0, |took| took.seconds);
        let most = if slow.keys().any(|pattern| matches(pattern, test)) { f64::INFINITY } else { SECONDS_MAX };
        let usual = all.usual(test).map_or(f64::INFINITY, |usual| (usual * TIMES_USUAL_MAX).max(usual + SECONDS_MORE));
        let limit = most.min(usual);
        let is_long = took > limit;
        if is_long {
            long.push(Long { test: test.clone(), took, limit });
        }
        let runs = all.0.entry(test.clone()).or_default();
        // What is refused is not the usual time of later runs.
        if (ran.all && !is_long) || runs.is_empty() {
            runs.extend(now);
        }
        runs.drain(..runs.len().saturating_sub(RUNS.1));
    }
    all.write(kept)?;
    Ok(long)
}

/// Returns a line for each test of `long` that took longer than it may when it ran `alone` as well.
/// `kept` is the file of usual times.
pub fn still_long(long: &[Long], alone: &Times, kept: &Path) -> Vec<String> {
    let is_still = |long: &&Long| alone.newest(&long.test).is_none_or(|took| took > long.limit);
    let line = |Long { test, took, limit }: &Long| {
        let alone = alone.newest(test).map_or("no time".to_owned(), |took| format!("{took:.1} s"));
        format!(
            "{test}: took {took:.1} s, and {alone} alone; make it shorter than {limit:.0} s; if this is its time now, add it \
             with a reason to xtask/slow-tests.txt (over {SECONDS_MAX:.0} s), or take its line out of {} (over \
             {TIMES_USUAL_MAX:.0} times its usual time)",
            kept.display()
        )
    };
    long.iter().filter(is_still).map(line).collect()
}

/// True if `test` is `pattern`, in which `*` stands for any text.
fn matches(pattern: &str, test: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == test,
        Some((before, rest)) => test.strip_prefix(before).is_some_and(|after| {
            let ends = after.char_indices().map(|(at, _)| at).chain([after.len()]);
            ends.into_iter().any(|at| matches(rest, &after[at..]))
        }),
    }
}

/// Prints the slowest tests and the sum of each crate.
fn show(times: &Times) {
    let mut tests: Vec<(&str, Took)> =
        times.0.iter().filter_map(|(test, runs)| Some((test.as_str(), *runs.last()?))).collect();
    tests.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    let mut crates: BTreeMap<&str, Vec<Took>> = BTreeMap::new();
    for (test, took) in &tests {
        crates.entry(test.split([' ', ':']).next().unwrap_or_default()).or_default().push(*took);
    }
    println!("slowest tests: s, s of a processor");
    tests.iter().take(SLOWEST).for_each(|(test, took)| println!("{}  {test}", columns(&[*took])));
    let mut crates: Vec<_> = crates.into_iter().map(|(name, all)| (columns(&all), name, all.len())).collect();
    crates.sort_by(|a, b| b.0.cmp(&a.0));
    println!("sum by crate: s, s of a processor (tests)");
    crates.iter().for_each(|(sums, name, n)| println!("{sums}  {name} ({n})"));
    let all: Vec<Took> = tests.iter().map(|(_, took)| *took).collect();
    println!("{}  all ({})", columns(&all), all.len());
}

/// The sums of both times, each in a column of its own.
fn columns(all: &[Took]) -> String {
    let seconds: f64 = all.iter().map(|took| took.seconds).sum();
    let processor: f64 = all.iter().map(|took| took.processor).sum();
    format!("{seconds:8.1} {processor:8.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_takes_too_long_fails_the_run_by_name_and_times_are_kept() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("xtask")).unwrap();
        std::fs::write(root.path().join("xtask/slow-tests.txt"), "# test\twhy\na::it s*w\twaits a minute\n").unwrap();
        let (run, kept) = (root.path().join("run"), root.path().join("kept"));
        let judged_of = |ran: Ran, text: &str| {
            std::fs::write(&run, text).unwrap();
            let long = judge(root.path(), &run, &kept, ran).unwrap();
            long.into_iter().map(|long| (long.test, long.limit)).collect::<Vec<_>>()
        };
        let none: [(String, f64); 0] = [];
        let judged = |text: &str| judged_of(Ran { all: true, passed: false, heavy: false }, text);
        let usual = "a::it fast\t4.0/1.0\na::it slow\t60.0/1.0\n";
        for _ in 0..3 {
            assert_eq!(judged(usual), none);
        }
        let long = judged("a::it fast\t25.0/1.0\na::it slow\t60.0/1.0\na::it new\t31.0/1.0\n");
        assert_eq!(long, [("a::it fast".to_owned(), 14.0), ("a::it new".to_owned(), 30.0)]);
        let times = Times::read(&kept).unwrap();
        assert_eq!(times.usual("a::it fast"), Some(4.0));
        assert_eq!(times.usual("a::it new"), None);
        let long: Vec<&str> = times.least().filter(|(_, seconds)| *seconds > 20.0).map(|(test, _)| test).collect();
        assert_eq!(long, ["a::it new", "a::it slow"]);

        // Alone it is fast, and that is not its usual time.
        let some = Ran { all: false, passed: true, heavy: false };
        (0..9).for_each(|_| assert_eq!(judged_of(some, "a::it fast\t0.1/0.1\n"), none));
        assert_eq!(Times::read(&kept).unwrap().usual("a::it fast"), Some(4.0));
        let heavy = Ran { all: true, passed: true, heavy: true };
        assert_eq!(judged_of(heavy, "a::it fast\t90.0/0.1\n"), none);
        assert_eq!(Times::read(&kept).unwrap().usual("a::it fast"), Some(4.0));
        std::fs::write(&kept, [&std::fs::read(&kept).unwrap()[..], b"a::it \xff\t1.0\na::it half\t1."].concat())
            .unwrap();
        assert_eq!(judged_of(Ran { all: true, passed: true, heavy: false }, "a::it fast\t4.0/1.0\n"), none);
        let kept = std::fs::read_to_string(&kept).unwrap();
        assert!(
            kept.starts_with("a::it fast\t4.00/1.00 ") && kept.lines().count() == 1,
            "what went is forgotten: {kept}"
        );
    }

    #[test]
    fn a_test_that_is_fast_alone_was_delayed_by_others_and_fails_nothing() {
        let long = |test: &str| Long { test: format!("a::it {test}"), took: 35.0, limit: 30.0 };
        let took = |seconds| vec![Took { seconds, processor: 1.0 }];
        let alone = Times([("a::it fast".to_owned(), took(7.0)), ("a::it slow".to_owned(), took(31.0))].into());
        let wrong = still_long(&[long("fast"), long("slow"), long("failed")], &alone, Path::new("kept"));
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(
            wrong[0].starts_with("a::it slow: took 35.0 s, and 31.0 s alone; make it shorter than 30 s"),
            "{wrong:?}"
        );
        assert!(wrong[1].starts_with("a::it failed: took 35.0 s, and no time alone"), "{wrong:?}");
    }
}
