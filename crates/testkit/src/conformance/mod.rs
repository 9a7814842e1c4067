//! The suite that every store passes with one line in its tests.
//!
//! What is checked follows from what the store declares: interfaces, ways of keeping an index, durabilities,
//! whether sessions may work at the same time, whether it keeps data at all. All checks run, through the
//! drive loop as in a run, and everything that failed is said at once.
//!
//! What is *not* asked of a store, because some engines cannot: NaN, a minus zero that stays one, and U+0000 in texts.
//! An infinite number may be refused. Bytes may hold anything. Timestamps are of the years 1 to 9999.
//!
//! | file | what |
//! |---|---|
//! | `things` | the collections that are asked, and a model of them |
//! | `records` | single operations on records, against the model |
//! | `kv` | keys and values |
//! | `http` | requests |
//! | `ldap` | operations on a directory |
//! | `life` | what a store does as a whole: durability, restarts, sizes, concurrency, going away |

mod http;
mod kv;
mod ldap;
mod life;
mod records;
mod things;

pub use kv::kinds as kv_kinds;

use std::fmt;
use std::path::Path;

use plimsoll_core::{
    Durability, IndexMode, Interface, OpenOptions, ParamValue, Params, Password, Reading, StoreKind, StoreSpec, Target,
};
use plimsoll_lab::OpenStore;

use crate::draw::repeats;
use crate::params::defaults;

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// Passed.
    Passed,
    /// Not applicable to this store, with the reason.
    NotApplicable(String),
    /// The check failed, with the difference.
    Failed(String),
}

/// Results of all checks, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Name and verdict of each.
    pub checks: Vec<(String, CheckResult)>,
}

impl Report {
    /// True when no check failed.
    pub fn is_clean(&self) -> bool {
        self.checks.iter().all(|(_, verdict)| !matches!(verdict, CheckResult::Failed(_)))
    }

    fn add(&mut self, name: impl Into<String>, result: Result<(), String>) {
        self.checks.push((name.into(), result.map_or_else(CheckResult::Failed, |()| CheckResult::Passed)));
    }

    fn skip(&mut self, name: &str, why: &str) {
        self.checks.push((name.to_owned(), CheckResult::NotApplicable(why.to_owned())));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, verdict) in &self.checks {
            match verdict {
                CheckResult::Passed => writeln!(f, "  ok      {name}")?,
                CheckResult::NotApplicable(why) => writeln!(f, "  –       {name}: {why}")?,
                CheckResult::Failed(why) => writeln!(f, "  FAILED  {name}: {why}")?,
            }
        }
        Ok(())
    }
}

/// Runs all checks on a private store; those of a server's records without indexes only in a heavy run.
///
/// # Panics
/// When a check fails, or the store does not open, with everything that was found.
pub fn run(kind: &dyn StoreKind) -> Report {
    run_with(kind, &[])
}

/// Runs all checks on a private store with these parameters.
///
/// # Panics
/// As [`run`].
pub fn run_with(kind: &dyn StoreKind, params: &[(&str, ParamValue)]) -> Report {
    let params = params_of(kind, params);
    let dir = tempfile::tempdir().expect("a temporary directory for the store's files");
    let (data_dir, log_dir) = (dir.path().join("data"), dir.path().join("log"));
    for place in [&data_dir, &log_dir] {
        std::fs::create_dir(place).expect("a place in the temporary directory");
    }
    let target = Target::Private { data_dir: data_dir.clone(), said: false, log_dir: log_dir.clone() };
    let mut report = check(kind, target, &params);
    report.add("after closing no file is left", nothing_left(&data_dir));
    let outlives = life::a_probe_outlives_servers(kind, &params, &data_dir, &log_dir);
    report.add("its counters are read again when dead servers are back", outlives);
    let failed = life::a_failed_clean_up_advises_no_command(kind, &params, &data_dir, &log_dir);
    report.add("a failed clean-up of private servers advises no command", failed);
    insist(kind.spec(), report)
}

/// Runs all checks on a running store at `url`. Unless the run is heavy, records are asked in one index mode, and not
/// at all if they are keys to the server.
///
/// # Panics
/// When a check fails, or the store does not open, with everything that was found.
pub fn run_attached(kind: &dyn StoreKind, url: &str, password: Option<&str>) -> Report {
    run_attached_with(kind, url, password, &[])
}

/// Runs the checks of [`run_attached`] with these parameters.
///
/// # Panics
/// As [`run_attached`].
pub fn run_attached_with(
    kind: &dyn StoreKind,
    url: &str,
    password: Option<&str>,
    params: &[(&str, ParamValue)],
) -> Report {
    let target = Target::Attach { url: url.to_owned(), password: password.map(Password::new) };
    insist(kind.spec(), check(kind, target, &params_of(kind, params)))
}

fn params_of(kind: &dyn StoreKind, params: &[(&str, ParamValue)]) -> Params {
    let mut all = defaults(kind.spec().params);
    all.0.extend(params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    all
}

fn insist(spec: &StoreSpec, report: Report) -> Report {
    assert!(report.is_clean(), "{} does not conform:\n{report}", spec.name);
    report
}

fn nothing_left(dir: &Path) -> Result<(), String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(()) };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if names.is_empty() { Ok(()) } else { Err(format!("{} holds {}", dir.display(), names.join(", "))) }
}

/// An open store and what it declares.
struct Subject<'a> {
    spec: &'a StoreSpec,
    store: OpenStore,
    /// Examples of its counters, of a private store.
    counters: Option<Vec<Reading>>,
}

impl Subject<'_> {
    /// The strongest durability that the store declares.
    fn durability(&self) -> Durability {
        let wanted = [Durability::Durable, Durability::Buffered, Durability::AtEnd];
        wanted.into_iter().find(|one| self.spec.durabilities.contains(one)).unwrap_or(Durability::AtEnd)
    }
}

fn check(kind: &dyn StoreKind, target: Target, params: &Params) -> Report {
    let spec = kind.spec();
    let (params, run_id) = (params.clone(), "conformance".to_owned());
    let examples = kind.counters(&params);
    let options = OpenOptions { target, params, run_id, waits: Default::default() };
    let mut report = Report::default();
    let is_attached = options.target.url().is_ok();
    if is_attached {
        let announced = kind.announce(&options).is_ok_and(|lines| !lines.is_empty());
        report.add("it says what it will do", announced.then_some(()).ok_or_else(|| "it announces nothing".to_owned()));
    }
    let store = match plimsoll_lab::open(kind, options, &mut |_| {}) {
        Ok(store) => store,
        Err(error) => panic!("{} does not open: {error}. {}", spec.name, error.next.as_deref().unwrap_or("")),
    };
    let mut subject = Subject { spec, store, counters: (!is_attached).then_some(examples) };
    report.add("it has a version and a place", life::describes_itself(&mut subject));
    report.add("it opens sessions of the durabilities it declares, and no others", life::durabilities(&mut subject));
    if !spec.keeps_data {
        report.skip("everything about data", "it keeps none");
    } else if spec.interfaces.contains(&Interface::Records) {
        let modes = asked_modes(spec, is_attached);
        if modes.is_empty() {
            report.skip("records", "they are keys, which are asked; a heavy run asks records too");
        }
        for mode in modes {
            records_checks(&mut subject, *mode, &mut report);
        }
    } else {
        report.skip("records", "it does not speak them");
    }
    kv_checks(&mut subject, &mut report);
    match spec.interfaces.contains(&Interface::Http) {
        true => report.add("requests are answered on a connection that stays", http::requests(&mut subject)),
        false => report.skip("requests are answered on a connection that stays", "it does not speak http"),
    }
    match spec.interfaces.contains(&Interface::Ldap) {
        true => {
            report.add("entries are added, found, compared, changed and deleted", ldap::operations(&mut subject));
            report.add("entries are gone when the directory is made again", ldap::made_again_is_empty(&mut subject));
            report.add("entries outlive sync, settling, cold and restart", ldap::data_outlives(&mut subject));
        }
        false => report.skip("operations on a directory", "it does not speak ldap"),
    }
    if !spec.keeps_data || !spec.interfaces.contains(&Interface::Sql) {
        report.skip("pgbench's tables and select", "it does not speak sql, or keeps no data");
    } else if !life::select_is_for(spec.dialect) {
        report.skip("pgbench's tables and select", "the workload is not written in its dialect");
    } else {
        report.add("pgbench's tables and select", life::selects(&mut subject));
    }
    report.add("its counters are read while it is at work", life::counters_are_read_beside(&mut subject));
    report.add("it closes", subject.store.close().map_err(|error| error.to_string()));
    report
}

/// Returns the index modes that are asked. A heavy run and a built-in store are asked in all of them. In a usual run a
/// private server is asked in the modes with indexes, and an attached one in the first of these: the way to it, TLS and
/// the protocol are independent of them. If the store itself has no indexes, its records are keys to the server, and an
/// attached server is asked for keys alone.
fn asked_modes(spec: &StoreSpec, is_attached: bool) -> &'static [IndexMode] {
    let all = spec.index_modes;
    let first = all.iter().position(|mode| *mode != IndexMode::None).unwrap_or(0);
    let has_indexes = all.contains(&IndexMode::Own) || !all.contains(&IndexMode::Keyindex);
    let are_keys = !has_indexes && spec.interfaces.contains(&Interface::Kv);
    let usual = match is_attached {
        true => first..first + usize::from(!are_keys),
        false if spec.packages.is_empty() => 0..all.len(),
        false => first..all.len(),
    };
    let is_heavy = repeats(0, 1) == 1;
    all.get(usual).filter(|_| !is_heavy).unwrap_or(all)
}

/// Keys and values live in one key space, which a layout without collections and statements has.
fn kv_checks(subject: &mut Subject<'_>, report: &mut Report) {
    if !subject.spec.keeps_data || !subject.spec.interfaces.contains(&Interface::Kv) {
        return report.skip("keys and values", "it does not speak kv, or keeps no data");
    }
    let checks: [(&str, fn(&mut Subject<'_>) -> Result<(), String>); 6] = [
        ("values of any bytes come back under keys of any bytes", kv::values_come_back),
        ("puts, puts over others and deletes are seen", kv::writes_are_seen),
        ("its keys are gone when it is made again", kv::made_again_is_empty),
        ("keys outlive sync, settling, cold and restart", kv::data_outlives),
        ("its size grows with its keys", kv::footprint_grows),
        ("many sessions write keys of their own at the same time", kv::many_sessions),
    ];
    for (name, check) in checks {
        report.add(name, check(subject));
    }
    match subject.spec.interfaces.contains(&Interface::KvScan) {
        true => report.add("the next keys are read in their order", kv::scans_are_right(subject)),
        false => report.skip("the next keys are read in their order", "it does not speak kv-scan"),
    }
}

/// A check of records under one way of keeping indexes.
type RecordsCheck = fn(&mut Subject<'_>, IndexMode) -> Result<(), String>;

fn records_checks(subject: &mut Subject<'_>, mode: IndexMode, report: &mut Report) {
    let checks: [(&str, RecordsCheck); 14] = [
        ("every value comes back as it was", records::values_come_back),
        ("keys of every type", records::keys_of_every_type),
        ("a batch is inserted as a whole or not at all", records::batches_are_whole),
        ("what is not there is not found", records::not_found),
        ("an update changes its fields and no others", records::updates_change_their_fields),
        ("finds by scan and by index are right for any bounds", records::finds_are_right),
        ("finds stay right while records change", records::finds_stay_right),
        ("rows are counted when they are not kept", records::rows_are_counted),
        ("it is empty when it is made again", life::made_again_is_empty),
        ("data outlives sync, settling, cold and restart, and is checked", life::data_outlives),
        ("its size is told and grows", life::footprint_grows),
        ("it explains itself", life::explains),
        ("many sessions at the same time, with the ledger on", life::many_sessions),
        ("a session's end loses nothing", life::sessions_come_and_go),
    ];
    for (name, check) in checks {
        report.add(format!("{name} (index: {})", mode.name()), check(subject, mode));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_asked_with_indexes_and_an_attached_one_in_one_mode_unless_its_records_are_keys() {
        let spec = |index_modes| StoreSpec { index_modes, ..StoreSpec::PLAIN };
        let all = &[IndexMode::None, IndexMode::Own, IndexMode::Keyindex];
        let usual =
            |asked: &'static [IndexMode], all: &'static [IndexMode]| if repeats(0, 1) == 1 { all } else { asked };
        assert_eq!(asked_modes(&spec(all), false), all);
        assert_eq!(asked_modes(&spec(all), true), usual(&all[1..2], all));
        assert_eq!(asked_modes(&spec(&[IndexMode::None]), true), [IndexMode::None]);
        let server = StoreSpec { packages: &["server"], ..spec(all) };
        assert_eq!(asked_modes(&server, false), usual(&all[1..], all));
        let keys = &[IndexMode::None, IndexMode::Keyindex];
        let of_keys = StoreSpec { interfaces: &[Interface::Kv, Interface::Records], ..spec(keys) };
        assert_eq!(asked_modes(&of_keys, false), keys);
        assert_eq!(asked_modes(&of_keys, true), usual(&keys[..0], keys));
    }
}
