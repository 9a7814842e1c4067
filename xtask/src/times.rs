//! Times of tests: kept of each run, shown, and held against what a test usually takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
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

/// Seconds that tests took in the last runs, the newest last. A test is `BINARY TEST`.
#[derive(Default)]
pub struct Times(BTreeMap<String, Vec<f64>>);

impl Times {
    /// Reads `BINARY TEST<tab>SECONDS …` lines. A file that is missing has none.
    pub fn read(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let mut times = Self::default();
        for (test, seconds) in text.lines().filter_map(|line| line.split_once('\t')) {
            let seconds = seconds.split(' ').filter_map(|seconds| seconds.parse::<f64>().ok());
            times.0.entry(test.to_owned()).or_default().extend(seconds);
        }
        Ok(times)
    }

    fn write(&self, path: &Path) -> Result {
        let mut text = String::new();
        for (test, seconds) in &self.0 {
            let seconds: Vec<String> = seconds.iter().map(|seconds| format!("{seconds:.3}")).collect();
            writeln!(text, "{test}\t{}", seconds.join(" ")).map_err(|error| error.to_string())?;
        }
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the median of the former runs of `test`, or `None` with fewer than three.
    pub fn usual(&self, test: &str) -> Option<f64> {
        let mut seconds = self.0.get(test)?.clone();
        seconds.sort_by(f64::total_cmp);
        (seconds.len() >= RUNS.0).then(|| seconds[seconds.len() / 2])
    }

    /// Tests that took longer than `seconds` in the last run.
    pub fn longer_than(&self, seconds: f64) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(_, took)| took.last().is_some_and(|took| *took > seconds))
            .map(|(test, _)| test.as_str())
    }
}

/// Shows the times that `run` has, returns the tests that took too long, and adds the times to those of `kept`.
pub fn judge(root: &Path, run: &Path, kept: &Path) -> Result<Vec<String>> {
    let now = Times::read(run)?;
    let mut all = Times::read(kept)?;
    show(&now);
    let slow = slow_tests(root)?;
    let mut wrong = Vec::new();
    for (test, seconds) in &now.0 {
        let took = seconds.last().copied().unwrap_or(0.0);
        if took > SECONDS_MAX && !slow.keys().any(|pattern| matches(pattern, test)) {
            wrong.push(format!(
                "{test}: took {took:.1} s; make it shorter than {SECONDS_MAX} s, or add it with a reason to xtask/slow-tests.txt"
            ));
        }
        if let Some(usual) = all.usual(test)
            && took > usual * TIMES_USUAL_MAX
            && took > usual + SECONDS_MORE
        {
            wrong.push(format!("{test}: took {took:.1} s, and {usual:.1} s usually"));
        }
        let runs = all.0.entry(test.clone()).or_default();
        runs.extend(seconds);
        runs.drain(..runs.len().saturating_sub(RUNS.1));
    }
    all.write(kept)?;
    Ok(wrong)
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
    let mut tests: Vec<(&String, f64)> = times.0.iter().map(|(test, took)| (test, took.iter().sum())).collect();
    tests.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut crates: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for (test, took) in &tests {
        let name = test.split([' ', ':']).next().unwrap_or_default();
        let (n, sum) = crates.entry(name).or_default();
        *n += 1;
        *sum += took;
    }
    println!("slowest tests, s:");
    tests.iter().take(SLOWEST).for_each(|(test, took)| println!("{took:8.1}  {test}"));
    let mut crates: Vec<_> = crates.into_iter().collect();
    crates.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    println!("sum by crate, s (tests):");
    crates.iter().for_each(|(name, (n, sum))| println!("{sum:8.1}  {name} ({n})"));
    println!("{:8.1}  all ({})", tests.iter().map(|(_, took)| took).sum::<f64>(), tests.len());
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
        let judged = |text: &str| {
            std::fs::write(&run, text).unwrap();
            judge(root.path(), &run, &kept).unwrap()
        };
        let usual = "a::it fast\t4.0\na::it slow\t60.0\n";
        for _ in 0..3 {
            assert_eq!(judged(usual), [""; 0]);
        }
        let wrong = judged("a::it fast\t15.0\na::it slow\t60.0\na::it new\t31.0\n");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("a::it fast: took 15.0 s, and 4.0 s usually"), "{wrong:?}");
        assert!(wrong[1].contains("a::it new: took 31.0 s"), "{wrong:?}");
        let times = Times::read(&kept).unwrap();
        assert_eq!(times.usual("a::it fast"), Some(4.0));
        assert_eq!(times.usual("a::it new"), None);
        assert_eq!(times.longer_than(20.0).collect::<Vec<_>>(), ["a::it new", "a::it slow"]);
    }
}
