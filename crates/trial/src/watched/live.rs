//! Watching live: logs that grow, processes, and the counters of a server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_analysis::fold::Fold;
use plimsoll_core::sampler::STORE;
use plimsoll_core::{NodeSite, OpenOptions, Probe, Sampler, Target, Waits, waits};
use plimsoll_drive::Clock;
use plimsoll_logs::{LogFormat, LogText, SliceTable, TableSlice};
use plimsoll_record::Recorder;
use plimsoll_record::data::{EventClass, Level, RunState};
use plimsoll_sample::{Named, ServerProcesses, start_of};

use super::{LogTime, SLICE, Samples, WatchSpec, Watched, WatchedLog, WatchedServer, new_text, notices, unknown};
use crate::error::{TrialError, io_error};
use crate::log_file::{Followed, Stoppable, feed, locked};
use crate::log_grammar::Grammar;
use crate::run::{self, Ended, wall_ns};
use crate::sink::{Sink, Sinks, Told};
use crate::watch::{Following, ReadingRecorder, StoreCounters};

/// Time after the end of a slice in which lines of its operations may still be written, in microseconds.
const GRACE_US: i64 = 2_000_000;
/// Time between two looks at what is watched.
const LOOK: Duration = Duration::from_millis(50);

/// Log that is followed.
struct LiveLog<'a, 'o> {
    log: &'a WatchedLog,
    grammar: Grammar<'a>,
    reader: Followed<'o>,
    /// Beginning of the log.
    head: Vec<u8>,
}

/// Follows logs and watches processes on the run's clock.
pub(super) fn live(spec: &WatchSpec<'_>, sink: &dyn Sink) -> Result<Ended, TrialError> {
    let over = AtomicBool::new(false);
    let mut logs = opened(spec, &over)?;
    let named: Vec<(&str, Grammar<'_>)> = logs.iter().map(|log| (log.log.label.as_str(), log.grammar)).collect();
    let paths: Vec<String> = logs.iter().map(|log| log.log.path.display().to_string()).collect();
    let mut probes = spec.server.map(|server| probes(spec, server, sink)).transpose()?.unwrap_or_default();
    let server = ServerProcesses::default();
    let watched_pids: Vec<(u32, Option<u64>)> = spec.pids.iter().map(|pid| (*pid, start_of(*pid))).collect();
    if let Some((pid, _)) = watched_pids.iter().find(|(_, start)| start.is_none()) {
        return Err(TrialError::usage(format!("there is no process {pid}")).next("`pgrep -o NAME` finds one"));
    }
    // Another process may get the number of one that has ended.
    let alive = || -> Vec<u32> {
        watched_pids.iter().filter(|(pid, start)| start_of(*pid) == *start).map(|(pid, _)| *pid).collect()
    };
    let mut roots = roots(spec, &alive())?;
    server.set(sites(&roots));
    let (samplers, unavailable) = plimsoll_sample::open(spec.samplers, &server);

    // Slices are whole seconds of the wall clock, as the times in many logs are.
    let (second_ns, wall_ns) = (SLICE.as_nanos() as i64, wall_ns());
    let begin_ns = wall_ns.rem_euclid(second_ns) as u64;
    let clock = Clock::start_at(begin_ns);
    let base_us = (wall_ns - begin_ns as i64) / 1_000;
    let length_us = second_ns / 1_000;
    // The first log has the operations; those beside it have pauses.
    let (label, grammar) = named.first().map_or((spec.label, None), |(label, grammar)| (*label, Some(*grammar)));
    let place = match spec.group {
        _ if !paths.is_empty() => paths.join(", "),
        Some(group) => group.display().to_string(),
        None if roots.is_empty() => spec.server.map(|server| server.url.clone()).unwrap_or_default(),
        None => format!("pid {}", roots.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    let header = spec.header(&[label.to_owned()], base_us * 1_000, second_ns as u64, Vec::new());
    let recorder = Recorder::create(spec.runs_dir, &header)?;
    let sinks = Sinks::new(clock, &recorder, sink, Fold::new(false));
    sinks.show(&Told::BeginRun(Box::new(header)));
    for (name, why) in unavailable {
        sinks.event(None, Level::Info, EventClass::Sampler, &name, format!("{name}: {why}"))?;
    }
    let time = LogTime { base_us, length_us, begin_ns, end_ns: u64::MAX };
    let watched = Watched { ordinal: 0, label, grammar, time };
    watched.begin(&sinks, &place, begin_ns, spec.length)?;

    let new_log = |log: &LiveLog<'_, '_>| {
        let mut text = new_text(spec, log.grammar, SliceTable::of_length(length_us, base_us));
        text.learn(&log.head);
        Mutex::new(text)
    };
    let texts: Vec<Mutex<LogText>> = logs.iter().map(new_log).collect();
    let counters = counters(spec, &sinks, &mut probes);
    let now_us = || run::wall_ns() / 1_000;
    let (mut ordinal, mut end_ns, mut look_ns) = (0, 0, 0);
    let result = std::thread::scope(|scope| -> Result<(), TrialError> {
        let readings = ReadingRecorder { sinks: &sinks, label: "", slice: SLICE };
        let sampling = readings.follow_each(scope, plimsoll_sample::groups(samplers))?;
        let mut counting = Vec::new();
        for counters in counters {
            let of_server = counters.watch;
            let group: Named<'_> = vec![(STORE, Box::new(counters) as Box<dyn Sampler + '_>)];
            counting.push(of_server.follow_each(scope, vec![group])?);
        }
        let mut reading = Vec::new();
        for (log, text) in logs.iter_mut().zip(&texts) {
            let (grammar, reader, over, now_us) = (log.grammar, &mut log.reader, &over, &now_us);
            let read = move || {
                let mut source = Stoppable { source: reader, stop: over };
                feed(&mut source, grammar, text, Some(now_us))
            };
            let begun = std::thread::Builder::new().name("log".to_owned()).spawn_scoped(scope, read);
            let begun = begun.map_err(|error| io_error("the thread of a log", &error));
            reading.push(begun.inspect_err(|_| over.store(true, Ordering::SeqCst))?);
        }
        let mut seen = || -> Result<(), TrialError> {
            loop {
                std::thread::sleep(LOOK);
                end_ns = clock.now_ns();
                let is_late = spec.length.is_some_and(|length| u128::from(end_ns - begin_ns) >= length.as_nanos());
                let group_is_gone = spec.group.is_none_or(|group| !group.exists());
                let has_ended = spec.has_processes() && group_is_gone && alive().is_empty();
                // Before the end of watching, reading ends by an error only.
                let has_failed = reading.iter().any(|reading| reading.is_finished());
                let is_over = spec.is_stopped() || is_late || has_ended || has_failed;
                for (position, (text, (label, grammar))) in texts.iter().zip(&named).enumerate() {
                    // The last slice is as long as it was watched.
                    let until_us = if is_over { end_us(base_us, end_ns) } else { now_us() - GRACE_US };
                    let time = if is_over { LogTime { end_ns, ..time } } else { time };
                    let of_log = Watched { label, grammar: Some(*grammar), time, ..watched };
                    let (slices, has_times) = take(text, until_us, is_over);
                    for slice in slices {
                        let mut samples = Samples::default();
                        of_log.slice(&sinks, ordinal, &slice, has_times, &mut samples)?;
                        ordinal += u32::from(position == 0);
                        samples.tell(&sinks)?;
                    }
                }
                if is_over {
                    return Ok(());
                }
                if spec.has_processes() && end_ns >= look_ns {
                    look_ns = end_ns + SLICE.as_nanos() as u64;
                    if let Ok(now) = self::roots(spec, &alive())
                        && now != roots
                    {
                        server.set(sites(&now));
                        roots = now;
                    }
                }
            }
        };
        let result = seen();
        over.store(true, Ordering::SeqCst);
        sampling.end();
        counting.into_iter().for_each(Following::end);
        let ended = reading.into_iter().zip(&paths).map(|(reading, path)| match reading.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(TrialError::usage(format!("{path}: {error}")).next("name another format with --log-format"))
            }
            Ok(Err(error)) => Err(io_error(path, &error)),
            Err(_) => Err(TrialError::broken("the thread that reads the log panicked")),
        });
        // All threads end, also after an error.
        ended.fold(result, Result::and)
    });
    let counts = texts.first().map(|text| locked(text).counts().clone()).unwrap_or_default();
    let result = result.and_then(|()| {
        for ((label, grammar), text) in named.iter().zip(&texts) {
            let (text, mut said) = (locked(text), Vec::new());
            said.extend(notices(label, *grammar, text.counts(), text.times()));
            let is_silent = text.counts().lines == 0;
            said.extend(is_silent.then(|| format!("{label}: no line was written while the log was followed")));
            said.extend((text.shift_us() != 0).then(|| apart(label, text.shift_us())));
            for text in said {
                sinks.show(&Told::Notice(text.clone()));
                sinks.event(Some(0), Level::Info, EventClass::Sampler, label, text)?;
            }
        }
        watched.end(&sinks, begin_ns, end_ns, &counts).map_err(TrialError::from)
    });
    let state = match &result {
        Ok(()) => RunState::Complete,
        Err(error) => RunState::Failed(error.line()),
    };
    sinks.show(&Told::EndRun(state.clone(), end_ns));
    let recording = recorder.finish(state, end_ns)?;
    Ok(Ended { recording, result })
}

/// Opens the logs at their ends: the one with operations first.
///
/// # Errors
/// A log that cannot be followed, one of an unknown format, or several with operations.
fn opened<'a, 'o>(spec: &WatchSpec<'a>, over: &'o AtomicBool) -> Result<Vec<LiveLog<'a, 'o>>, TrialError> {
    let named = spec.format.map(|name| Grammar::named(name, spec.catalogue)).transpose()?;
    let mut logs = Vec::new();
    for log in spec.logs {
        let (head, reader) = Followed::open(&log.path, over)?;
        let grammar = named
            .or_else(|| Grammar::of_head(&head, spec.catalogue))
            .or_else(|| Grammar::of_messages(&head, spec.catalogue));
        let grammar = grammar.ok_or_else(|| unknown(&log.path, &head, spec.catalogue))?;
        logs.push(LiveLog { log, grammar, reader, head });
    }
    let has_pauses = |log: &LiveLog<'_, '_>| log.grammar.format() == LogFormat::Gc;
    logs.sort_by_key(has_pauses);
    match &logs[..] {
        [first, second, ..] if !has_pauses(second) => {
            let (first, second) = (first.log.path.display(), second.log.path.display());
            Err(TrialError::usage(format!("{first}, {second}: one log with operations can be followed at a time"))
                .next("start `plimsoll watch` once for each; logs of Java's pauses may stand beside one"))
        }
        _ => Ok(logs),
    }
}

/// Returns the readers of a running server's counters.
///
/// # Errors
/// A URL of no store, a server that cannot be reached, or one without counters.
fn probes(spec: &WatchSpec<'_>, server: &WatchedServer, sink: &dyn Sink) -> Result<Vec<Probe>, TrialError> {
    let url = &server.url;
    let kind = spec.catalogue.store_of(url).filter(|_| url.contains("://")).ok_or_else(|| {
        TrialError::usage(format!("--on {url}: this is not the URL of a running server"))
            .next("write it as SCHEME://user@host/database; `plimsoll list stores` shows the schemes")
    })?;
    let (name, params) = (kind.spec().name, plimsoll_plan::defaults(kind.spec().params));
    if kind.counters(&params).is_empty() {
        return Err(TrialError::usage(format!("--on {url}: a server of {name} has no counters that can be read"))
            .next("watch its log, or its process with --pid"));
    }
    let (address, password) = server.login.clone();
    let options = OpenOptions {
        target: Target::Attach { url: address, password },
        params,
        run_id: String::new(),
        waits: Waits::new(waits::ANSWER, waits::WORK, Arc::clone(spec.stop)),
    };
    // Nothing is made there, so that nothing has to be removed: the store is not closed.
    Ok(kind.open(options, &mut |text| sink.take(&Told::Note(text.to_owned())))?.probes())
}

/// Returns the counters that `probes` read, under the name of the server.
fn counters<'a>(spec: &WatchSpec<'a>, sinks: &'a Sinks<'a>, probes: &'a mut [Probe]) -> Vec<StoreCounters<'a>> {
    let kind = spec.server.and_then(|server| spec.catalogue.store_of(&server.url));
    let watch = ReadingRecorder { sinks, label: kind.map_or("", |kind| kind.spec().name), slice: SLICE };
    let is_alone = probes.len() == 1;
    probes.iter_mut().map(|probe| StoreCounters { watch, probe, trial: 0, is_alone, has_failed: false }).collect()
}

/// Returns the end of the slice that contains the end of the run.
fn end_us(base_us: i64, end_ns: u64) -> i64 {
    let slice_ns = SLICE.as_nanos() as u64;
    base_us.saturating_add((end_ns.div_ceil(slice_ns) * slice_ns / 1_000) as i64)
}

/// Takes the slices up to `until_us`, and tells if the log has response times.
fn take(text: &Mutex<LogText>, until_us: i64, is_over: bool) -> (Vec<TableSlice>, bool) {
    let mut text = locked(text);
    if is_over {
        text.end_file();
    }
    let slices = text.table().take(until_us);
    // Until there is an operation, times are expected.
    let has_times = text.counts().ops == 0 || text.counts().ops > text.counts().untimed;
    (slices, has_times)
}

/// Reports the difference between the clocks of a log and of this machine.
fn apart(label: &str, shift_us: i64) -> String {
    let seconds = shift_us.unsigned_abs() as f64 / 1e6;
    let side = if shift_us > 0 { "behind" } else { "ahead of" };
    format!("{label}: its clock is {seconds:.1} s {side} this machine's; its times were moved by that")
}

/// Returns the processes to be watched, `alive` among them, that are no descendants of others of them.
fn roots(spec: &WatchSpec<'_>, alive: &[u32]) -> Result<Vec<u32>, TrialError> {
    let mut pids = alive.to_vec();
    if let Some(group) = spec.group {
        members(group, &mut pids).map_err(|error| {
            let group = group.display();
            let failed = match error.kind() {
                std::io::ErrorKind::PermissionDenied => io_error(group, &error),
                std::io::ErrorKind::NotFound if spec.group.is_some_and(Path::is_dir) => {
                    TrialError::usage(format!("{group} is no control group: it has no cgroup.procs"))
                }
                _ => TrialError::usage(format!("{group}: {error}")),
            };
            failed.next("name a directory of a control group below /sys/fs/cgroup")
        })?;
    }
    pids.sort_unstable();
    let (mut roots, mut covered) = (Vec::new(), BTreeSet::new());
    for pid in pids {
        if !covered.contains(&pid) {
            roots.push(pid);
            covered.extend(plimsoll_sample::with_descendants(&[pid]));
        }
    }
    Ok(roots)
}

/// Returns places of processes that are watched together, as those of one node.
fn sites(roots: &[u32]) -> Vec<NodeSite> {
    let site = |pid: &u32| NodeSite { node: 0, pid: *pid, directory: PathBuf::from(format!("/proc/{pid}/cwd")) };
    roots.iter().map(site).collect()
}

/// Adds the processes of a control group and of all below it.
fn members(group: &Path, pids: &mut Vec<u32>) -> std::io::Result<()> {
    let text = std::fs::read_to_string(group.join("cgroup.procs"))?;
    pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    for entry in group.read_dir()?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        // A group may be removed meanwhile.
        let _ = members(&entry.path(), pids);
    }
    Ok(())
}
