//! `plimsoll sync` on two machines: blocks acknowledged before a power cut, and their verification afterwards.

use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_analysis::number::{count, plural};
use plimsoll_core::shown::clean;
use plimsoll_disk::powercut::{self, RunFindings};
use plimsoll_disk::ways::Flushing;
use plimsoll_report::document::{ColumnOf, Table, Tone, numbers, words};
use plimsoll_trial::TrialError;

use super::sizes;
use crate::args::SyncArgs;
use crate::error::exit;
use crate::progress::EVERY;
use crate::verbs::report;
use crate::{interrupt, options};

/// Listens until Ctrl-C.
pub(super) fn listen(args: &SyncArgs, address: &str) -> Result<u8, TrialError> {
    let listener = powercut::listen(address, &args.path)?;
    let stop = interrupt::of_command();
    crate::say(&format!("listening on {}; acknowledgements are kept in {}", listener.address()?, args.path.display()));
    listener.serve(&stop, &|what| crate::say(&clean(what)))?;
    Ok(exit::OK)
}

/// Writes and acknowledges blocks until the power is cut, Ctrl-C, or the time is up.
pub(super) fn report(args: &SyncArgs, to: &str) -> Result<u8, TrialError> {
    let takes = args.takes.as_deref().map_or(Ok(Duration::from_secs(600)), |given| options::time("for", given))?;
    let one = |what: &str| {
        TrialError::usage(format!("--report-to writes blocks of one size, flushed in one way: name one --{what}"))
    };
    let [size] = sizes(args, &[4096])?[..] else { return Err(one("size")) };
    let flushing = match &args.flush[..] {
        [] => Flushing::Fdatasync,
        [word] => Flushing::named(word).unwrap_or(Flushing::Fdatasync),
        _ => return Err(one("flush")),
    };
    let stop = interrupt::of_command();
    let mut told: Option<Instant> = None;
    let mut tell = |flushed: u64, kept: u64| {
        if !args.quiet && told.is_none_or(|told| told.elapsed() >= EVERY) {
            told = Some(Instant::now());
            crate::say(&format!(
                "{} flushed, {} kept on {to}; cut the power at any time",
                plural(flushed, "1 block", "blocks"),
                count(kept)
            ));
        }
    };
    let sent = powercut::report(&args.path, to, size, flushing, takes, &stop, &mut tell)?;
    if args.json {
        return crate::print(&plimsoll_report::json(&sent));
    }
    crate::print(&format!(
        "{} flushed and acknowledged; the power was not cut, and the blocks are removed\n",
        plural(sent.acknowledged, "1 block", "blocks")
    ))
}

/// Verifies the acknowledged blocks.
pub(super) fn verify(args: &SyncArgs, file: &Path) -> Result<u8, TrialError> {
    let found = powercut::verify(&args.path, file)?;
    let code = if found.iter().all(RunFindings::is_whole) { exit::OK } else { exit::GOAL_MISSED };
    if args.json {
        crate::print(&plimsoll_report::json(&found))?;
        return Ok(code);
    }
    let columns: [ColumnOf<'_, RunFindings>; 6] = [
        (words("run"), &|one| format!("{:016x}", one.run.id).into()),
        (numbers("acknowledged"), &|one| count(one.acknowledged).into()),
        (numbers("looked for"), &|one| count(one.looked_for).into()),
        (numbers("missing"), &|one| count(one.missing).into()),
        (numbers("damaged"), &|one| count(one.damaged).into()),
        (words(""), &|one| came_to(one).into()),
    ];
    let table = Table::of("Blocks", &found, &columns);
    crate::print(&format!("{}\n\n", sentence(&found)))?;
    report::print_tables(&[("Acknowledged blocks", "", table)])?;
    for one in found.iter().filter(|one| !one.is_whole()) {
        let names =
            one.lost.iter().map(|lost| format!("{}{}", lost.number, if lost.damaged { " (damaged)" } else { "" }));
        let names = names.collect::<Vec<_>>().join(", ");
        let directory = args.path.join(&one.run.directory);
        crate::print(&format!(
            "\nlost, oldest first: {names}\ntheir directory is kept for inspection: {}\n",
            clean(&directory.display().to_string())
        ))?;
    }
    Ok(code)
}

fn sentence(found: &[RunFindings]) -> String {
    let lost: u64 = found.iter().map(|one| one.missing + one.damaged).sum();
    let looked_for: u64 = found.iter().map(|one| one.looked_for).sum();
    if looked_for == 0 {
        return "nothing to verify: no run ended abruptly after it had acknowledged a block".to_owned();
    }
    if lost > 0 {
        let blocks = plural(lost, "1 acknowledged block is lost", "acknowledged blocks are lost");
        return format!("LOST  {blocks}, of {} expected: a flush was not real", count(looked_for));
    }
    let all = count(looked_for);
    format!("all there: {all} of {all} acknowledged blocks. One cut shows little: repeat it")
}

fn came_to(found: &RunFindings) -> plimsoll_report::document::Text {
    if found.ended {
        return Tone::Dim.text("ended cleanly: nothing to verify");
    }
    if let Some(ms) = found.oldest_lost_ms {
        return Tone::Bad.text(format!("the oldest had been acknowledged {ms} ms before the last acknowledgement"));
    }
    match found.torn {
        0 => Tone::Good.text("all there"),
        torn => Tone::Open.text(format!("all there; {torn} half overwritten by an unacknowledged block")),
    }
}
