//! `plimsoll files`: which files are used, and how.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_analysis::number;
use plimsoll_core::shown;
use plimsoll_report::document::{Cell, ColumnOf, Table, numbers, words};
use plimsoll_trace::{DirectoryWatch, FileTracer, FileUse, FilesSeen, Times, is_there};
use plimsoll_trial::TrialError;
use serde_json::{Value, json};

use crate::args::FilesArgs;
use crate::error::exit;
use crate::verbs::{report, trace};
use crate::{interrupt, options};

/// Rows of the table; JSON has all files.
const ROWS_MAX: usize = 100;
/// Interval of reads: the queue of a directory's watch must not fill up meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// Watches, and prints the use of files.
pub fn run(args: &FilesArgs) -> Result<u8, TrialError> {
    let limit = options::time("for", &args.duration)?;
    let stop = interrupt::of_command();
    let begin = Instant::now();
    let is_over = || begin.elapsed() >= limit || stop.load(Ordering::SeqCst);
    let (seen, by_calls) = match args.what.parse::<u32>() {
        Ok(pid) => (of_process(pid, &is_over)?, true),
        Err(_) => (of_directory(Path::new(&args.what), &is_over)?, false),
    };
    if args.json {
        let files: Vec<Value> = seen.files.iter().map(|(path, used)| of_file(path, used, by_calls)).collect();
        let elapsed_ns = begin.elapsed().as_nanos() as u64;
        return crate::print(&format!("{}\n", json!({ "files": files, "lost": seen.lost, "elapsed_ns": elapsed_ns })));
    }
    let (table, left_out) = table(&seen, by_calls);
    if seen.files.is_empty() {
        crate::print("no file was used\n")?;
    } else {
        report::print_tables(&[("", "", table)])?;
    }
    if left_out > 0 {
        crate::print(&format!("\n{} more, the least used: --json lists all\n", shown::count(left_out as u64)))?;
    }
    let what = if by_calls { "calls" } else { "losses of events" };
    crate::print(&format!("\nlost: {} {what}\n", shown::count(seen.lost)))?;
    Ok(exit::OK)
}

fn of_process(pid: u32, is_over: &dyn Fn() -> bool) -> Result<FilesSeen, TrialError> {
    let tracer = FileTracer::start(pid).map_err(|error| trace::failed(&error))?;
    crate::say("system calls (bpf): mapped memory and io_uring are invisible; Ctrl-C ends the watch");
    while !is_over() && is_there(pid) {
        std::thread::sleep(LOOK);
    }
    tracer.read().map_err(|error| trace::failed(&error))
}

fn of_directory(directory: &Path, is_over: &dyn Fn() -> bool) -> Result<FilesSeen, TrialError> {
    let mut watch = DirectoryWatch::start(directory).map_err(|error| trace::failed(&error))?;
    let text = "events (inotify) of all processes in {}: equal events in a row count once; Ctrl-C ends the watch";
    let directories = number::plural(watch.directories() as u64, "directory", "directories");
    crate::say(&text.replace("{}", &directories));
    loop {
        let is_last = is_over();
        let seen = watch.read().map_err(|error| trace::failed(&error))?;
        if is_last {
            return Ok(seen.clone());
        }
        std::thread::sleep(LOOK);
    }
}

/// A row for each file, those that were used most first, and how many are left out.
fn table<'s>(seen: &'s FilesSeen, by_calls: bool) -> (Table, usize) {
    let mut files: Vec<_> = seen.files.iter().collect();
    files.sort_by_key(|(_, used)| std::cmp::Reverse((used.read_bytes + used.written_bytes, used.total())));
    let count = |n: u64| -> Cell { if n == 0 { "·".to_owned() } else { shown::count(n) }.into() };
    let bytes = |n: u64| -> Cell { if n == 0 { "·".to_owned() } else { number::bytes(n as f64) }.into() };
    let shown = &files[..files.len().min(ROWS_MAX)];
    let columns: [ColumnOf<'_, (&'s PathBuf, &'s FileUse)>; 15] = [
        (words("file"), &|(path, _)| shown::clean(&path.to_string_lossy()).into()),
        (numbers("total").when(!by_calls), &|(_, used)| count(used.total())),
        (numbers("opens"), &|(_, used)| count(used.opens)),
        (numbers("reads"), &|(_, used)| count(used.reads)),
        (numbers("read").when(by_calls), &|(_, used)| bytes(used.read_bytes)),
        (numbers("size").when(by_calls), &|(_, used)| sizes(&used.read_sizes).into()),
        (numbers("writes"), &|(_, used)| count(used.writes)),
        (numbers("written").when(by_calls), &|(_, used)| bytes(used.written_bytes)),
        (numbers("size").when(by_calls), &|(_, used)| sizes(&used.write_sizes).into()),
        (numbers("syncs").when(by_calls), &|(_, used)| count(used.syncs)),
        (numbers("closes"), &|(_, used)| count(used.closes)),
        (numbers("made").when(!by_calls).spare(3), &|(_, used)| count(used.creates)),
        (numbers("deleted"), &|(_, used)| count(used.deletes)),
        (numbers("renamed").spare(2), &|(_, used)| count(used.renames)),
        (numbers("resized").when(by_calls).spare(1), &|(_, used)| count(used.resizes)),
    ];
    (Table::of("Files", shown, &columns), files.len() - shown.len())
}

/// Writes sizes of requests: the median, and the maximum if different.
fn sizes(of: &Times) -> String {
    let shown = |share| of.least(share).map(|bytes| number::bytes(bytes as f64));
    match (shown(0.5), shown(1.0)) {
        (Some(middle), Some(largest)) if middle == largest => middle,
        (Some(middle), Some(largest)) => format!("{middle} … {largest}"),
        _ => "·".to_owned(),
    }
}

fn of_file(path: &Path, used: &FileUse, by_calls: bool) -> Value {
    let mut file = json!({ "path": path.to_string_lossy(), "opens": used.opens, "reads": used.reads, "writes": used.writes,
        "closes": used.closes, "deletes": used.deletes, "renames": used.renames, "total": used.total() });
    let more = match by_calls {
        true => json!({ "read_bytes": used.read_bytes, "written_bytes": used.written_bytes, "syncs": used.syncs,
            "resizes": used.resizes, "read_sizes": used.read_sizes.powers_of_two(),
            "write_sizes": used.write_sizes.powers_of_two() }),
        false => json!({ "creates": used.creates }),
    };
    if let (Some(file), Value::Object(more)) = (file.as_object_mut(), more) {
        file.extend(more);
    }
    file
}
