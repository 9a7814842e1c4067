//! `plimsoll doctor`: problems of this machine that would spoil a measurement, and missing programs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use plimsoll_core::{Catalogue, Recipe, StoreError, StoreErrorKind, StoreKind, StorePreset};
use plimsoll_drive::Io;
use plimsoll_lab::holders;
use plimsoll_lab::hosts::Network;
use plimsoll_plan::{StoreUse, defaults_but};
use plimsoll_report::document::{Table, Tone};
use plimsoll_sample::environment::{self, Idle, gib};
use plimsoll_trial::{TrialError, here};

use crate::args::{DoctorArgs, PlanArgs, PlannedArgs};
use crate::calibration::{self, Calibration};
use crate::error::exit;
use crate::idle::{self, Wakes};
use crate::plans::{self, Passwords};
use crate::studies;
use crate::verbs::{honesty, report};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grade {
    Fine,
    /// Spoils figures.
    Spoils,
    /// Stops some things from working.
    Missing,
}

struct Finding {
    grade: Grade,
    what: String,
    /// Advice, a step a line.
    next: Option<String>,
}

impl Finding {
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

/// Runs `plimsoll doctor`. Returns the exit code: whether all is well.
pub fn run(catalogue: &Catalogue, args: &DoctorArgs) -> Result<u8, TrialError> {
    if let Some(wanted) = &args.holds {
        return holds(wanted);
    }
    if let Some(name) = &args.store {
        return lacks(catalogue, name, args);
    }
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let mut well = true;
    if args.calibrate {
        let made = calibration::measure(catalogue, &mut crate::say)?;
        report::print_tables(&[("calibration", "", calibrated(Some(&made)))])?;
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
    let (mut tables, well) = diagnose(catalogue, &runs_dir);
    let made = Calibration::load(&runs_dir);
    tables.push(("calibration", "", calibrated(made.as_ref())));
    report::print_tables(&tables)?;
    let refusal = made.and_then(|made| made.refused());
    if let Some(floors) = &refusal {
        crate::print(&format!("{}\n", refused(floors)))?;
    }
    Ok(code(well && refusal.is_none()))
}

/// Prints the processes that hold a port, a device or a directory.
fn holds(wanted: &str) -> Result<u8, TrialError> {
    let held = match wanted.parse() {
        Ok(port) => holders::of_port(port),
        Err(_) if wanted.bytes().all(|byte| byte.is_ascii_digit()) && !Path::new(wanted).exists() => {
            return Err(TrialError::usage(format!("--holds {wanted}: no port has this number"))
                .next("name a port from 1 to 65535"));
        }
        Err(_) => holders::of_path(Path::new(wanted))?,
    };
    let name = plimsoll_core::shown::clean(wanted);
    match &held[..] {
        [] => crate::say(&format!("no process that is visible from here holds {name}")),
        held => crate::print(&held.iter().map(|line| format!("{line}\n")).collect::<String>()).map(drop)?,
    }
    Ok(if held.is_empty() { exit::OK } else { exit::GOAL_MISSED })
}

/// A store or cluster that `doctor --for` looks at.
struct Subject<'a> {
    kind: &'a dyn StoreKind,
    preset: Option<&'a StorePreset>,
    /// Use of the store in a plan.
    planned: Option<(&'a Catalogue, StoreUse)>,
}

impl Subject<'_> {
    fn name(&self) -> &str {
        match &self.planned {
            Some((_, store)) => &store.label,
            None => self.preset.map_or(self.kind.spec().name, |preset| preset.name),
        }
    }

    fn packages(&self) -> Vec<&'static str> {
        if self.planned.as_ref().is_some_and(|(_, store)| store.url.is_some()) {
            return Vec::new();
        }
        [self.kind.spec().packages, self.preset.map_or(&[], |preset| preset.packages)].concat()
    }

    fn recipe(&self) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        let params = self.preset.map_or(&[][..], |preset| preset.params);
        self.kind.recipe(&defaults_but(self.kind.spec().params, params))
    }

    /// Returns the programs found, or what is missing.
    fn programs(&self) -> Finding {
        match self.kind.installed().and_then(|found| self.recipe().map(|_| found)) {
            Ok(found) => Finding::fine(format!("{}: {found}", self.name())),
            Err(error) => Finding::missing(format!("{}: {error}", self.name()), error.next),
        }
    }

    /// Returns the programs found and, for a cluster, whether it can have hosts.
    fn findings(&self) -> Vec<Finding> {
        if let Some((catalogue, store)) = &self.planned {
            return vec![match here::found(catalogue, store) {
                Ok(found) => Finding::fine(format!("{}: {found}", self.name())),
                Err(error) => Finding::missing(format!("{}: {error}", self.name()), error.next),
            }];
        }
        let is_on_hosts = self.recipe().is_ok_and(|recipe| recipe.is_some_and(|recipe| recipe.spec().hosts > 0));
        let programs = self.programs();
        let hosts = (is_on_hosts && programs.grade == Grade::Fine).then(hosts);
        [Some(programs), hosts].into_iter().flatten().collect()
    }
}

/// Name that stands for every store and cluster.
const ALL: &str = "all";

/// Returns every store, followed by its clusters.
fn all(catalogue: &Catalogue) -> impl Iterator<Item = Subject<'_>> {
    catalogue.stores.iter().flat_map(|kind| {
        let subject = move |preset| Subject { kind: &**kind, preset, planned: None };
        std::iter::once(subject(None)).chain(kind.spec().presets.iter().map(move |preset| subject(Some(preset))))
    })
}

/// Returns the stores of the study or plan file `name`, each once with each of its settings.
fn planned<'a>(catalogue: &'a Catalogue, name: &str) -> Result<Vec<Subject<'a>>, TrialError> {
    let plan = PlanArgs { plan: Some(name.to_owned()), ..PlanArgs::default() };
    let args = PlannedArgs { plan, ..PlannedArgs::default() };
    let (plan, _) = plans::load(catalogue, &args, &mut Passwords::default())?;
    let mut subjects: Vec<Subject<'a>> = Vec::new();
    for trial in plan.trials {
        let is_known = |subject: &Subject<'_>| subject.planned.as_ref().is_some_and(|(_, store)| *store == trial.store);
        let Some(kind) = catalogue.store(&trial.store.kind).filter(|_| !subjects.iter().any(is_known)) else {
            continue;
        };
        let spec = kind.spec();
        let is_it = |preset: &&StorePreset| {
            let wanted = defaults_but(spec.params, preset.params);
            preset.params.iter().all(|(name, _)| wanted.0.get(*name) == trial.store.params.0.get(*name))
        };
        let preset = spec.presets.iter().find(is_it);
        subjects.push(Subject { kind, preset, planned: Some((catalogue, trial.store)) });
    }
    Ok(subjects)
}

/// Returns the store or cluster `name`, or every one of them; or those of a study or plan file.
fn subjects<'a>(catalogue: &'a Catalogue, name: &str) -> Result<Vec<Subject<'a>>, TrialError> {
    let meant: Vec<Subject<'a>> = match catalogue.store(name) {
        _ if name == ALL => all(catalogue).collect(),
        Some(kind) => vec![Subject { kind, preset: kind.spec().preset(name), planned: None }],
        None if studies::ALL.iter().any(|study| study.name == name) || name.ends_with(".toml") => {
            planned(catalogue, name)?
        }
        None => Vec::new(),
    };
    if meant.is_empty() {
        let known = catalogue.stores.iter().flat_map(|kind| kind.spec().names());
        let studies = studies::ALL.iter().map(|study| study.name).collect::<Vec<_>>().join(", ");
        let next =
            format!("stores: {ALL}, {}; studies: {studies}; or a plan file", known.collect::<Vec<_>>().join(", "));
        return Err(TrialError::usage(format!(
            "unknown store `{}`",
            plimsoll_core::shown::clean(&plimsoll_plan::split_password(name).0)
        ))
        .next(next));
    }
    Ok(meant)
}

/// Shows what the store or cluster `name`, or all of them, lack on this machine, after the installation that `args` may ask
/// for. With `--json`, prints a line of JSON for each that lacks something.
fn lacks(catalogue: &Catalogue, name: &str, args: &DoctorArgs) -> Result<u8, TrialError> {
    let subjects = subjects(catalogue, name)?;
    let is_well = |found: &[Finding]| found.iter().all(|finding| finding.grade == Grade::Fine);
    let mut found: Vec<Vec<Finding>> = subjects.iter().map(Subject::findings).collect();
    let lacking = subjects.iter().zip(&found).filter(|(_, found)| !is_well(found)).map(|(subject, _)| subject);
    let packages: BTreeSet<&str> = lacking.flat_map(Subject::packages).collect();
    if args.install && !packages.is_empty() {
        apt_get(&packages.into_iter().collect::<Vec<_>>())?;
        found = subjects.iter().map(Subject::findings).collect();
    }
    let code = if found.iter().all(|found| is_well(found)) { exit::OK } else { exit::GOAL_MISSED };
    // A plan uses a store with several settings: what is found for all of them is said once.
    let mut said = BTreeSet::new();
    found.iter_mut().for_each(|found| found.retain(|finding| said.insert(finding.what.clone())));
    if args.json {
        for (subject, found) in subjects.iter().zip(&found) {
            for finding in found.iter().filter(|finding| finding.grade != Grade::Fine) {
                let line = serde_json::json!({
                    "for": subject.name(), "missing": finding.what, "packages": subject.packages(), "next": finding.next,
                });
                crate::print(&format!("{line}\n"))?;
            }
        }
        return Ok(code);
    }
    report::print_tables(&[(name, "", graded(found.into_iter().flatten()))])?;
    Ok(code)
}

/// Installs Debian packages.
fn apt_get(packages: &[&str]) -> Result<(), TrialError> {
    let advice = format!("install these by hand: {}", packages.join(" "));
    crate::say(&format!("apt-get install {}", packages.join(" ")));
    let run = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command.status()
    };
    let install = || run(&[&["install", "--yes", "--no-install-recommends"], packages].concat());
    // Lists of packages that are old, or not there, are fetched once.
    let installed = match install() {
        Ok(status) if !status.success() => run(&["update"]).and_then(|_| install()),
        done => done,
    };
    match installed {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let what = format!("apt-get did not install {} ({status})", packages.join(" "));
            Err(StoreError::new(StoreErrorKind::Missing, what).next(advice))
        }
        Err(error) => Err(StoreError::new(StoreErrorKind::Missing, format!("apt-get: {error}")).next(advice)),
    }
}

/// Reports that noise floors are too high, and the consequence.
fn refused(floors: &str) -> String {
    format!(
        "refused: equal runs differ by more than 10 % here ({floors}), so that comparisons cannot tell smaller changes\n  \
         → stop what else runs on this machine, and calibrate again"
    )
}

fn calibrated(made: Option<&Calibration>) -> Table {
    let none = || vec![("none".to_owned(), "→ plimsoll doctor --calibrate".to_owned())];
    Table::pairs(made.map_or_else(none, Calibration::lines))
}

/// Examines this machine, whose recordings go to `runs_dir`. Returns tables, and true if nothing is missing or would spoil
/// a measurement.
fn diagnose(catalogue: &Catalogue, runs_dir: &Path) -> (Vec<(&'static str, &'static str, Table)>, bool) {
    let machine = [
        clock_source(),
        governor(),
        idle_processors(Wakes::measure(), &environment::idle()),
        load(),
        memory(),
        swap(),
        disk(runs_dir),
        sockets(),
    ];
    let (clusters, stores): (Vec<_>, Vec<_>) = all(catalogue).partition(|subject| subject.preset.is_some());
    // A cluster is listed only if it lacks more than its store.
    let clusters = clusters.iter().filter(|cluster| cluster.kind.installed().is_ok()).map(Subject::programs);
    let clusters = clusters.filter(|finding| finding.grade != Grade::Fine);
    let stores: Vec<_> = stores.iter().map(Subject::programs).chain(clusters).chain([hosts()]).collect();
    let well = machine.iter().chain(&stores).all(|finding| finding.grade == Grade::Fine);
    (vec![("machine", "", graded(machine)), ("stores", "", graded(stores))], well)
}

/// Returns whether clusters can have hosts of their own.
fn hosts() -> Finding {
    match Network::shared() {
        Ok(_) => Finding::fine("hosts of their own for clusters: network namespaces on a bridge"),
        Err(error) => Finding::missing(error.to_string(), error.next),
    }
}

fn graded(findings: impl IntoIterator<Item = Finding>) -> Table {
    Table::pairs(findings.into_iter().flat_map(|finding| {
        let mark = match finding.grade {
            Grade::Fine => Tone::Good.text("ok"),
            Grade::Spoils => Tone::Open.text("spoils"),
            Grade::Missing => Tone::Bad.text("missing"),
        };
        let next = finding.next.unwrap_or_default();
        let next: Vec<_> = next.lines().map(|line| ("".into(), format!("→ {line}"))).collect();
        std::iter::once((mark, finding.what)).chain(next)
    }))
}

fn sockets() -> Finding {
    Finding::fine(format!("sockets over {}", plimsoll_trial::sockets_taken(Io::Auto)))
}

fn clock_source() -> Finding {
    match environment::clock_source().as_deref() {
        Some(good @ ("tsc" | "kvm-clock" | "arch_sys_counter")) => Finding::fine(format!("clock source {good}")),
        Some(slow) => Finding::spoils(
            format!("clock source {slow}: each reading of the clock is a system call or slower"),
            "boot with clocksource=tsc where the processor has a stable one",
        ),
        None => Finding::spoils("clock source unknown: /sys is not readable", "run where /sys is mounted"),
    }
}

fn governor() -> Finding {
    let governors = environment::governors();
    let saving = governors.iter().filter(|governor| *governor != "performance").count();
    match (governors.len(), saving) {
        (0, _) => Finding::fine("CPU governor: none to set here"),
        (all, 0) => Finding::fine(format!("CPU governor performance on all {all} processors")),
        (all, saving) => Finding::spoils(
            format!("CPU governor is not performance on {saving} of {all} processors: latencies rise when idle"),
            "cpupower frequency-set -g performance",
        ),
    }
}

/// Judges how late idle processors with the settings `idle` wake; or the reason why that was not measured.
fn idle_processors(wakes: Result<Wakes, String>, idle: &Idle) -> Finding {
    match wakes {
        Ok(wakes) if wakes.is_late() => {
            let (why, next) = idle::advice(idle);
            Finding::spoils(format!("{}: {why}", wakes.sentence()), next)
        }
        Ok(wakes) => Finding::fine(wakes.sentence()),
        Err(why) => Finding::fine(format!("how late an idle processor wakes was not measured: {why}")),
    }
}

fn load() -> Finding {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match environment::load_average() {
        Some(load) if load > 0.25 * processors as f64 => Finding::spoils(
            format!("other load: {load:.2} tasks on average in the last minute, on {processors} processors"),
            "stop what else is running, or wait a minute",
        ),
        Some(load) => Finding::fine(format!("other load {load:.2} on {processors} processors")),
        None => Finding::spoils("other load unknown: /proc/loadavg is not readable", "run where /proc is mounted"),
    }
}

fn memory() -> Finding {
    let memory = environment::memory();
    let (Some(total), Some(available)) = (memory.total, memory.available) else {
        return Finding::spoils("memory unknown: /proc/meminfo is not readable", "run where /proc is mounted");
    };
    let text = format!("memory {} available of {}", gib(available), gib(total));
    if available < 1 << 30 { Finding::spoils(text, "free at least 1 GiB") } else { Finding::fine(text) }
}

fn swap() -> Finding {
    let used = environment::memory().swapped().unwrap_or(0);
    if used > 64 << 20 {
        Finding::spoils(format!("swap: {} are swapped out", gib(used)), "free memory, then swapoff -a; swapon -a")
    } else {
        Finding::fine("swap is not in use")
    }
}

fn disk(runs_dir: &Path) -> Finding {
    let Some(place) = environment::file_system(runs_dir) else {
        let what = format!("disk: the file system of {} is unknown", runs_dir.display());
        return Finding::missing(what, Some("set XDG_STATE_HOME to a directory that can be written".to_owned()));
    };
    let (free, runs_dir) = (gib(place.free_bytes), runs_dir.display());
    let text = format!("disk {free} free for recordings and private stores in {runs_dir}");
    if place.free_bytes < 2 << 30 {
        Finding::spoils(text, "free at least 2 GiB, or set XDG_STATE_HOME to a larger file system")
    } else {
        Finding::fine(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_processors_spoil_figures_only_if_they_wake_late() {
        let idle = Idle { driver: Some("haltpoll".to_owned()), poll_ns: Some(0), poll_start_ns: Some(50_000) };
        let wakes = |median_ns, p99_ns| Ok(Wakes { count: 600, median_ns, p99_ns });
        let late = idle_processors(wakes(73_000, 240_000), &idle);
        let words =
            "an idle processor wakes after 73.0 µs (median), 240 µs (p99) of 600 wakes: idle processors do not poll";
        assert!(late.grade == Grade::Spoils && late.what.starts_with(words), "{}", late.what);
        assert!(late.next.is_some_and(|next| next.contains("echo 5000000 | sudo tee /sys/module/haltpoll/")));
        let early = idle_processors(wakes(20_000, 1_200_000), &idle);
        assert!(early.grade == Grade::Fine && early.what.ends_with("of 600 wakes") && early.next.is_none());
        let single = idle_processors(Err("this process may use one processor".to_owned()), &idle);
        assert!(
            single.grade == Grade::Fine
                && single.what.ends_with("was not measured: this process may use one processor")
        );
    }

    #[test]
    fn a_full_disk_spoils_and_a_missing_directory_is_judged_by_its_ancestor() {
        let finding = disk(Path::new("/proc/plimsoll/nowhere"));
        assert_eq!(finding.grade, Grade::Spoils, "{}", finding.what);
        assert!(disk(&std::env::temp_dir().join("not/yet/there")).what.contains("free"));
    }
}
