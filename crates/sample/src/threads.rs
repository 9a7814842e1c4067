//! Threads of processes, from `/proc/PID/task/TID/schedstat` (the kernel's Documentation/scheduler/sched-stats.rst):
//! the time that they were ready to run while others had the processor, and the names of those that ran most.
//!
//! The files are opened anew at each look: a descriptor for each thread of a server would be more than a process may
//! have.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, read_to_string};
use std::io::Read;
use std::time::{Duration, Instant};

/// Most threads that are looked at, at some 5 µs each. If there are more there is no value: a part would be taken
/// for the whole.
const THREADS_MAX: u64 = 512;
/// Number of names that are noted at each look: those of the threads that ran most.
const BUSIEST: usize = 5;
/// Most names that are noted in all. A name that was noted once has a value at each look.
const NAMES_MAX: usize = 16;
/// Most characters of a name that are kept.
const NAME_CHARS_MAX: usize = 40;
/// Names are read again after so many looks: programs name their threads after they have started them.
const NAME_AGAIN: u32 = 16;

/// Time of a thread since it began.
#[derive(Debug, Clone, Copy)]
struct ThreadTime {
    process: u32,
    ran_ns: u64,
    waited_ns: u64,
}

/// Threads that are looked at again and again.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Each thread at the previous look, and the time of that; `None` before the first.
    before: Option<(Instant, BTreeMap<u32, ThreadTime>)>,
    /// Time that all threads have waited since the first look.
    sum_ns: u64,
    /// Threads that ran between the last two looks, with their processes and times, and the time between the looks.
    ran: Vec<(u32, u32, u64)>,
    elapsed: Duration,
    /// Names of threads.
    names: BTreeMap<u32, String>,
    noted: BTreeSet<String>,
    looks: u32,
}

impl Threads {
    /// Seconds that all threads of `processes`, each with its number of threads, have waited since the first look. A
    /// thread that is new counts from its beginning; what one waited that ended meanwhile is lost. `None` with too many
    /// threads, after which it is looked at anew, and where the kernel does not count (CONFIG_SCHED_INFO).
    pub(crate) fn waited_s(&mut self, processes: &[(u32, u64)]) -> Option<f64> {
        let before = self.before.take();
        self.ran.clear();
        self.elapsed = Duration::ZERO;
        let (now, times) = (Instant::now(), times(processes)?);
        if let Some((at, before)) = before {
            self.elapsed = now - at;
            for (thread, time) in &times {
                // A number that was given to another begins anew.
                let known = before.get(thread);
                let known = known.filter(|known| known.waited_ns <= time.waited_ns && known.ran_ns <= time.ran_ns);
                let (ran_ns, waited_ns) = known.map_or((0, 0), |known| (known.ran_ns, known.waited_ns));
                self.sum_ns += time.waited_ns - waited_ns;
                if time.ran_ns > ran_ns {
                    self.ran.push((*thread, time.process, time.ran_ns - ran_ns));
                }
            }
        }
        self.before = Some((now, times));
        Some(self.sum_ns as f64 / 1e9)
    }

    /// Returns the CPU, in percent of a processor, that threads of one name used between the last two looks: of the
    /// names that used most, now or at an earlier look. Empty if there is nothing to compare with.
    pub(crate) fn busiest(&mut self) -> Vec<(String, f64)> {
        self.looks += 1;
        if self.looks.is_multiple_of(NAME_AGAIN) {
            self.names.clear();
        }
        if self.elapsed.is_zero() {
            return Vec::new();
        }
        let mut used: BTreeMap<&str, u64> = BTreeMap::new();
        for (thread, process, _) in &self.ran {
            self.names.entry(*thread).or_insert_with(|| name_of(*process, *thread));
        }
        for (thread, _, ran_ns) in &self.ran {
            if let Some(name) = self.names.get(thread) {
                *used.entry(name).or_default() += ran_ns;
            }
        }
        let mut order: Vec<(&str, u64)> = used.iter().map(|(name, ns)| (*name, *ns)).collect();
        order.sort_by_key(|(_, ns)| Reverse(*ns));
        for (name, _) in order.into_iter().take(BUSIEST) {
            if self.noted.len() < NAMES_MAX {
                self.noted.insert(name.to_owned());
            }
        }
        let share = |name: &String| {
            used.get(name.as_str()).copied().unwrap_or(0) as f64 * 100.0 / self.elapsed.as_nanos() as f64
        };
        self.noted.iter().map(|name| (name.clone(), share(name))).collect()
    }
}

/// Returns the times of each thread since it began.
fn times(processes: &[(u32, u64)]) -> Option<BTreeMap<u32, ThreadTime>> {
    if processes.iter().map(|(_, threads)| threads).sum::<u64>() > THREADS_MAX {
        return None;
    }
    let mut all = BTreeMap::new();
    let read = |process: u32, thread: u32, path: &str| {
        let (ran_ns, waited_ns) = schedstat(path)?;
        Some((thread, ThreadTime { process, ran_ns, waited_ns }))
    };
    for (pid, threads) in processes {
        if *threads <= 1 {
            all.extend(read(*pid, *pid, &format!("/proc/{pid}/schedstat")));
            continue;
        }
        let listed = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in listed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            all.extend(read(*pid, thread, &format!("/proc/{pid}/task/{thread}/schedstat")));
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Returns the first two fields of the file `path`: the times that a thread ran and waited. `None` for a thread that is
/// gone.
fn schedstat(path: &str) -> Option<(u64, u64)> {
    let mut buffer = [0; 96];
    let length = File::open(path).ok()?.read(&mut buffer).ok()?;
    parse(std::str::from_utf8(buffer.get(..length)?).ok()?)
}

fn parse(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Returns the name of a thread: the title that its process gave itself, or its own name without a number at the end.
fn name_of(process: u32, thread: u32) -> String {
    let title = || title_of(&read_to_string(format!("/proc/{process}/cmdline")).ok()?);
    let own = || read_to_string(format!("/proc/{process}/task/{thread}/comm")).unwrap_or_default();
    let title = if process == thread { title() } else { None };
    printable(&title.unwrap_or_else(|| plain(&own())))
}

/// Returns a name as reports may have it: a program may put anything into its own.
fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect()
}

/// Returns the first words of a title such as `nginx: worker process`: those that end in a colon, and the next. `None`
/// for a plain command line.
fn title_of(text: &str) -> Option<String> {
    let first = text.split('\0').next()?;
    let mut words = first.split_ascii_whitespace();
    let mut title = words.next().filter(|word| word.ends_with(':'))?.to_owned();
    for word in words {
        title = format!("{title} {word}");
        if !word.ends_with(':') {
            break;
        }
    }
    Some(title)
}

/// Returns a thread's name without its number: `worker-7` and `worker-8` are `worker`.
fn plain(name: &str) -> String {
    let name = Some(name.trim()).filter(|name| !name.is_empty()).unwrap_or("unnamed");
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | '#' | '/' | ':' | '.' | ' ');
    let plain = name.trim_end_matches(is_number);
    if plain.is_empty() { name } else { plain }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    #[test]
    fn the_first_field_is_the_time_on_a_processor_and_the_second_the_wait_for_it() {
        assert_eq!(parse("1234567 890123 45\n"), Some((1_234_567, 890_123)));
        assert_eq!(parse("1234567"), None);
        assert!(garbled("1234567 890123 45\n").filter_map(|text| parse(&text)).count() > 100);
    }

    #[test]
    fn more_threads_than_are_looked_at_have_no_value() {
        let this = std::process::id();
        let mut threads = Threads::default();
        assert_eq!(threads.waited_s(&[(this, 1)]), Some(0.0), "it begins now");
        assert!(threads.waited_s(&[(this, 1)]).is_some());
        assert_eq!(threads.waited_s(&[(this, 1), (this, THREADS_MAX)]), None);
        assert_eq!(threads.busiest(), []);
    }

    #[test]
    fn threads_of_one_kind_have_one_name() {
        for (name, wanted) in [
            ("worker-7\n", "worker"),
            ("G1 Conc#0\n", "G1 Conc"),
            ("bio_lazy_free\n", "bio_lazy_free"),
            ("42\n", "42"),
            ("pool-2-thread-1\n", "pool-2-thread"),
        ] {
            assert_eq!(plain(name), wanted);
        }
        for (line, wanted) in [
            ("nginx: worker process", Some("nginx: worker")),
            ("db: node-2: checkpointer ", Some("db: node-2: checkpointer")),
            ("db: user base [local] idle", Some("db: user")),
            ("/usr/bin/server\0--port\0:7", None),
            ("", None),
        ] {
            assert_eq!(title_of(line).as_deref(), wanted, "{line}");
        }
        assert_eq!(printable(&format!("a\u{1b}[2J{}", "b".repeat(99))), format!("a[2J{}", "b".repeat(36)));
    }

    #[test]
    fn the_thread_that_runs_most_is_named_and_keeps_its_place_when_it_rests() {
        let this = std::process::id();
        let (mut threads, done) = (Threads::default(), std::sync::atomic::AtomicBool::new(false));
        let share = |threads: &mut Threads| {
            threads.waited_s(&[(this, 2)]).unwrap();
            threads.busiest().into_iter().find(|(name, _)| name == "burner").map(|(_, share)| share)
        };
        std::thread::scope(|scope| {
            let burn = || {
                let began = Instant::now();
                while !done.load(std::sync::atomic::Ordering::SeqCst) && began.elapsed() < Duration::from_secs(10) {
                    std::hint::spin_loop();
                }
            };
            std::thread::Builder::new().name("burner-1".to_owned()).spawn_scoped(scope, burn).unwrap();
            assert_eq!(share(&mut threads), None, "there is nothing to compare with");
            std::thread::sleep(Duration::from_millis(300));
            let busy = share(&mut threads).unwrap();
            // On a busy machine the times may be read long after the clock.
            assert!((1.0..1_000.0).contains(&busy), "{busy} %");
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        // A thread that was joined may still be on its way out.
        let until = Instant::now() + Duration::from_secs(10);
        while share(&mut threads) != Some(0.0) {
            assert!(Instant::now() < until, "it does not rest");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
