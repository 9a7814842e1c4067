//! `plimsoll doctor`: what on this machine would spoil a measurement, and what is missing.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use plimsoll_core::Catalogue;
use plimsoll_drive::Io;
use plimsoll_sample::environment;

use crate::args::DoctorArgs;
use crate::calibration::{self, Calibration};
use crate::error::{CliError, exit};
use crate::verbs::honesty;

/// How bad a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grade {
    Fine,
    /// Spoils figures.
    Spoils,
    /// Stops some things from working.
    Missing,
}

struct Line {
    grade: Grade,
    what: String,
    next: Option<String>,
}

impl Line {
    fn fine(what: impl Into<String>) -> Self {
        Self { grade: Grade::Fine, what: what.into(), next: None }
    }

    fn spoils(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { grade: Grade::Spoils, what: what.into(), next: Some(next.into()) }
    }

    fn missing(what: impl Into<String>, next: Option<String>) -> Self {
        Self { grade: Grade::Missing, what: what.into(), next }
    }
}

/// What the doctor says, and whether all is well.
pub struct Diagnosis {
    /// The text.
    pub text: String,
    /// True when nothing would spoil a measurement and nothing is missing.
    pub well: bool,
}

/// Does what `args` ask for. The exit code says whether all is well.
pub fn run(catalogue: &Catalogue, args: &DoctorArgs) -> Result<u8, CliError> {
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let mut well = true;
    if args.calibrate {
        let made = calibration::measure(catalogue, &mut crate::say)?;
        crate::print(&lines("calibration", &made))?;
        let path = made.keep(&runs_dir)?;
        crate::say(&format!("kept in {}", path.display()));
        well = made.refused().is_none();
        if let Some(floors) = made.refused() {
            crate::say(&refused(&floors));
        }
        if let Some(why) = made.why_doubtful() {
            crate::say(&format!("warning: {why}\n  → stop what else runs on this machine, and calibrate again"));
        }
    }
    if let Some(store) = &args.honesty {
        let honest = honesty::run(catalogue, store, &runs_dir)?;
        return Ok(if well { honest } else { honest.max(exit::GOAL_MISSED) });
    }
    let code = |well: bool| if well { exit::OK } else { exit::GOAL_MISSED };
    if args.calibrate {
        return Ok(code(well));
    }
    let diagnosis = diagnose(catalogue, &runs_dir);
    crate::print(&diagnosis.text)?;
    match Calibration::load(&runs_dir) {
        Some(made) => {
            crate::print(&lines("calibration", &made))?;
            well = made.refused().is_none();
            made.refused().map_or(Ok(exit::OK), |floors| crate::print(&format!("{}\n", refused(&floors))))?
        }
        None => crate::print("calibration\n  none     → plimsoll doctor --calibrate\n")?,
    };
    Ok(code(well && diagnosis.well))
}

/// That noise floors are too high, and what follows from it.
fn refused(floors: &str) -> String {
    format!(
        "refused: equal runs differ by more than 10 % here ({floors}), so that comparisons cannot tell smaller changes\n  \
         → stop what else runs on this machine, and calibrate again"
    )
}

fn lines(title: &str, made: &Calibration) -> String {
    made.lines().into_iter().fold(format!("{title}\n"), |text, (name, value)| format!("{text}  {name}: {value}\n"))
}

/// Looks at this machine; recordings would go to `runs_dir`.
pub fn diagnose(catalogue: &Catalogue, runs_dir: &Path) -> Diagnosis {
    let machine = [clock_source(), governor(), load(), memory(), swap(), disk(runs_dir), sockets()];
    let stores = catalogue.stores.iter().map(|store| match store.installed() {
        Ok(found) => Line::fine(format!("{}: {found}", store.spec().name)),
        Err(error) => Line::missing(format!("{}: {error}", store.spec().name), error.next),
    });
    let mut text = String::new();
    let mut well = true;
    for (title, lines) in [("machine", machine.into_iter().collect::<Vec<_>>()), ("stores", stores.collect())] {
        let _ = writeln!(text, "{title}");
        for line in lines {
            let mark = match line.grade {
                Grade::Fine => "ok     ",
                Grade::Spoils => "spoils ",
                Grade::Missing => "missing",
            };
            let _ = writeln!(text, "  {mark}  {}", line.what);
            if let Some(next) = &line.next {
                let _ = writeln!(text, "           → {next}");
            }
            well &= line.grade == Grade::Fine;
        }
    }
    Diagnosis { text, well }
}

fn sockets() -> Line {
    Line::fine(format!("sockets over {}", plimsoll_trial::sockets_taken(Io::Auto)))
}

fn clock_source() -> Line {
    match environment::clock_source().as_deref() {
        Some(good @ ("tsc" | "kvm-clock" | "arch_sys_counter")) => Line::fine(format!("clock source {good}")),
        Some(slow) => Line::spoils(
            format!("clock source {slow}: each reading of the clock is a system call or slower"),
            "boot with clocksource=tsc where the processor has a stable one",
        ),
        None => Line::spoils("clock source unknown: /sys is not readable", "run where /sys is mounted"),
    }
}

fn governor() -> Line {
    let governors = environment::governors();
    let saving = governors.iter().filter(|governor| *governor != "performance").count();
    match (governors.len(), saving) {
        (0, _) => Line::fine("CPU governor: none to set here"),
        (all, 0) => Line::fine(format!("CPU governor performance on all {all} processors")),
        (all, saving) => Line::spoils(
            format!("CPU governor is not performance on {saving} of {all} processors: latencies rise when idle"),
            "cpupower frequency-set -g performance",
        ),
    }
}

fn load() -> Line {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match environment::load_average() {
        Some(load) if load > 0.25 * processors as f64 => Line::spoils(
            format!("other load: {load:.2} tasks on average in the last minute, on {processors} processors"),
            "stop what else is running, or wait a minute",
        ),
        Some(load) => Line::fine(format!("other load {load:.2} on {processors} processors")),
        None => Line::spoils("other load unknown: /proc/loadavg is not readable", "run where /proc is mounted"),
    }
}

fn meminfo(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(key))?;
    line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn memory() -> Line {
    let (Some(total), Some(available)) = (meminfo("MemTotal"), meminfo("MemAvailable")) else {
        return Line::spoils("memory unknown: /proc/meminfo is not readable", "run where /proc is mounted");
    };
    let text = format!("memory {} available of {}", gib(available), gib(total));
    if available < 1 << 30 { Line::spoils(text, "free at least 1 GiB") } else { Line::fine(text) }
}

fn swap() -> Line {
    let used = meminfo("SwapTotal").unwrap_or(0).saturating_sub(meminfo("SwapFree").unwrap_or(0));
    if used > 64 << 20 {
        Line::spoils(format!("swap: {} are swapped out", gib(used)), "free memory, then swapoff -a; swapon -a")
    } else {
        Line::fine("swap is not in use")
    }
}

fn disk(runs_dir: &Path) -> Line {
    // The directory may not be there yet: its nearest ancestor is on the same file system.
    let there = runs_dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(there) {
        Ok(stat) => {
            let free = stat.f_bavail * stat.f_frsize;
            let text = format!("disk {} free for recordings and private stores in {}", gib(free), runs_dir.display());
            if free < 2 << 30 {
                Line::spoils(text, "free at least 2 GiB, or set XDG_STATE_HOME to a larger file system")
            } else {
                Line::fine(text)
            }
        }
        Err(error) => Line::missing(
            format!("disk: {}: {error}", there.display()),
            Some("set XDG_STATE_HOME to a directory that can be written".to_owned()),
        ),
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_spoils_and_a_missing_directory_is_judged_by_its_ancestor() {
        let line = disk(Path::new("/proc/plimsoll/nowhere"));
        assert_eq!(line.grade, Grade::Spoils, "{}", line.what);
        assert!(disk(&std::env::temp_dir().join("not/yet/there")).what.contains("free"));
    }
}
