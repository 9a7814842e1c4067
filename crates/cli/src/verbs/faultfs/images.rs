//! `plimsoll faultfs images`: crash images of one run, looked at by a command, or kept.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_core::shown;
use plimsoll_faultfs::{
    CheckedImage, CrashPoint, ImageCheck, ImageState, Survivors, check_images, crash_images, crash_moments, log_entries,
};
use plimsoll_plan::Dimension;
use plimsoll_report::document::Table;
use plimsoll_trial::{TrialError, write_error};

use super::failed;
use crate::args::FaultfsImages;
use crate::error::exit;
use crate::verbs::report;
use crate::{interrupt, options};

/// Failures that are shown, the first ones.
const FAILURES_MAX: usize = 20;

/// Makes the images, and has them looked at; or keeps them.
pub(super) fn run(args: &FaultfsImages) -> Result<u8, TrialError> {
    let (log, base) = (args.directory.join("log"), args.directory.join("base"));
    if !base.is_file() {
        // A device always has some file `log`.
        return Err(TrialError::usage(format!("{}: it contains no log", args.directory.display()))
            .next("mount the device with --keep-log, and make images while it is mounted, or of copies of its `log` and `base`"));
    }
    if args.check.as_deref().is_some_and(|check| check.trim().is_empty()) {
        return Err(
            TrialError::usage("--check is empty").next("name a command that exits with 0 if the image is sound")
        );
    }
    let entries = log_entries(&log).map_err(failed)?;
    let moments = match args.at {
        Some(at) => vec![at],
        None => crash_moments(&entries, args.from, args.count as usize),
    };
    let points = points(&moments, &args.survivors, args.seed)?;
    if points.is_empty() {
        return Err(TrialError::usage(format!("{}: nothing was written since {} ns", log.display(), args.from))
            .next("give --from an earlier time on the clock of the log, or leave it out"));
    }
    if let Some(into) = &args.into {
        fs::create_dir_all(into).map_err(|error| write_error(into.display(), &error))?;
        let made = crash_images(&log, &base, &points, into).map_err(failed)?;
        return crate::print(&made.iter().fold(String::new(), |text, path| text + &format!("{}\n", path.display())));
    }
    let limit_ns = options::quantity("limit", &args.limit, Dimension::Time)?;
    let images = args.directory.join("images");
    let jobs =
        args.jobs.map_or_else(|| 2 * std::thread::available_parallelism().map_or(1, usize::from), |jobs| jobs as usize);
    let check = ImageCheck {
        log: &log,
        base: &base,
        over: if images.is_dir() { &images } else { &args.directory },
        points: &points,
        command: args.check.as_deref().unwrap_or_default(),
        expected: args.expect.as_deref(),
        jobs,
        limit: Duration::from_nanos(limit_ns as u64),
    };
    let (stop, began) = (interrupt::of_command(), Instant::now());
    let checked = check_images(&check, &stop).map_err(failed)?;
    let first_ns = entries.first().map_or(0, |entry| entry.at_ns);
    let (count, records) = (checked.len(), shown::count(entries.len() as u64));
    let title = format!("{count} crash images of {records} records in {:.1} s", began.elapsed().as_secs_f64());
    report::print_tables(&[(&title, "", summary(&checked))])?;
    let mut text = String::new();
    let mut failures: Vec<&CheckedImage> = checked.iter().filter(|one| one.state != ImageState::Passed).collect();
    failures.sort_by_key(|one| matches!(one.state, ImageState::NotRun(_)));
    for one in failures.iter().take(FAILURES_MAX) {
        failure(&mut text, one, first_ns, &args.directory);
    }
    if failures.len() > FAILURES_MAX {
        let _ = writeln!(text, "… and {} more", failures.len() - FAILURES_MAX);
    }
    crate::print(&text)?;
    let is_checked = |one: &&CheckedImage| !matches!(one.state, ImageState::NotRun(_));
    Ok(match () {
        () if failures.iter().any(is_checked) => exit::GOAL_MISSED,
        () if stop.load(Ordering::SeqCst) => exit::INTERRUPTED,
        () if !failures.is_empty() || checked.iter().all(|one| one.at_risk_writes == 0) => exit::UNDECIDED,
        () => exit::OK,
    })
}

/// Returns the moments with their survivors: the words in turn, each with a seed of its own.
fn points(moments: &[usize], words: &str, seed: u64) -> Result<Vec<CrashPoint>, TrialError> {
    let words: Vec<&str> = words.split(',').map(str::trim).collect();
    let of = |(number, entries): (usize, &usize)| {
        let word = words[number % words.len()];
        let survivors = Survivors::named(word).ok_or_else(|| {
            let what = format!("--survivors {word}: unknown word");
            TrialError::usage(what).next("there are: none, all, random, torn")
        })?;
        Ok(CrashPoint { entries: *entries, survivors: survivors.with_seed(seed.wrapping_add(number as u64)) })
    };
    moments.iter().enumerate().map(of).collect()
}

fn summary(checked: &[CheckedImage]) -> Table {
    let count = |is: &dyn Fn(&CheckedImage) -> bool| checked.iter().filter(|one| is(one)).count().to_string();
    let mut at_risk: Vec<u64> = checked.iter().map(|one| one.at_risk_writes).collect();
    at_risk.sort_unstable();
    let (middle, most) = (at_risk.get(at_risk.len() / 2).unwrap_or(&0), at_risk.last().unwrap_or(&0));
    Table::pairs([
        ("passed", count(&|one| matches!(one.state, ImageState::Passed))),
        ("failed", count(&|one| matches!(one.state, ImageState::Failed(_)))),
        ("not mounted", count(&|one| matches!(one.state, ImageState::NotMounted(_)))),
        ("not checked", count(&|one| matches!(one.state, ImageState::NotRun(_)))),
        ("nothing at risk", count(&|one| one.at_risk_writes == 0)),
        ("writes at risk", format!("{middle} in the middle, {most} at most")),
    ])
}

/// Writes the failure of an image, and the command that makes the image again.
fn failure(text: &mut String, one: &CheckedImage, first_ns: u64, directory: &Path) {
    let CrashPoint { entries, survivors } = one.point;
    let word = survivors.word();
    let seed = match survivors {
        Survivors::Random { seed, .. } => format!(" --seed {seed}"),
        _ => String::new(),
    };
    let after_s = one.at_ns.saturating_sub(first_ns) as f64 / 1e9;
    let (ImageState::Failed(what) | ImageState::NotMounted(what) | ImageState::NotRun(what)) = &one.state else {
        return;
    };
    let _ = writeln!(
        text,
        "\nrecord {entries}, {after_s:.6} s after the first ({} ns), survivors {word}: {what}",
        one.at_ns
    );
    if !one.said.is_empty() {
        let _ = writeln!(text, "  {}", shown::lines(&one.said));
    }
    let directory = directory.display();
    let _ = writeln!(text, "  → plimsoll faultfs images {directory} --at {entries} --survivors {word}{seed} --into .");
}
