//! `plimsoll capture`: a workload from the statements of a running database.

use std::fs::{self, DirBuilder, File};
use std::io::{BufReader, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use plimsoll_capture::{Captured, StatementLog, Wanted, Written};
use plimsoll_core::{Catalogue, OpenOptions, Params, Production, StoreKind, Target, Waits, shown, waits};
use plimsoll_report::cells;
use plimsoll_report::document::{Table, numbers, words};
use plimsoll_trial::{TrialError, io_error, write_error};

use crate::args::CaptureArgs;
use crate::error::exit;
use crate::plans::Passwords;
use crate::verbs::report;

/// Captures, writes the plan, and prints a summary.
pub fn run(catalogue: &Catalogue, args: &CaptureArgs) -> Result<u8, TrialError> {
    let folder = args.output.with_extension("values");
    for path in [&args.output, &folder] {
        if path.symlink_metadata().is_ok() {
            return Err(TrialError::usage(format!("{} exists already", path.display()))
                .next("remove it, or name another plan with --output"));
        }
    }
    let url = plimsoll_plan::split_password(&args.from).0;
    let kind = catalogue.store_of(&url).filter(|_| url.contains("://")).ok_or_else(|| {
        TrialError::usage(format!("--from {url} is not the URL of a database"))
            .next("write it as SCHEME://user@host/database; `plimsoll list stores` shows the schemes")
    })?;
    let dialect = kind.spec().dialect.ok_or_else(|| untold(kind))?;
    let log = |log| of_log(kind, log, StatementLog::new(dialect, args.values as usize));
    let logged = args.log.as_deref().map(log).transpose()?;
    let mut production = opened(kind, args, &url)?;
    let asked = logged.map_or_else(|| StatementLog::counted(dialect, &mut *production), Ok)?;
    let wanted = Wanted { statements: args.top as usize, values: args.values as usize, writes: args.allow_writes };
    let mut progress = |statement: &str| {
        if !args.quiet {
            crate::say(&format!("values for {}", shown::clean(&first_words(statement))));
        }
    };
    let captured = asked.capture(wanted, &mut *production, &mut progress)?;
    if captured.statements() == 0 {
        let why =
            captured.left_out.iter().map(|(why, count, _)| format!("{count} {why}")).collect::<Vec<_>>().join("; ");
        let error = TrialError::usage("no statement for a workload was found");
        let (detail, next) = match (&args.log, why.is_empty()) {
            (_, false) if args.allow_writes => (shown::clean(&why), "name another database, or another log with --log"),
            (_, false) => {
                (shown::clean(&why), "name another database or --log; --allow-writes takes statements that write")
            }
            (None, true) => (
                "none was counted in this database".to_owned(),
                "name the database of the application, or a log with --log",
            ),
            (Some(log), true) => (
                format!("{} has none as a server of {} writes them", log.display(), kind.spec().name),
                "name the server's own log of statements with --log",
            ),
        };
        return Err(error.detail(detail).next(next));
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let written = plimsoll_capture::write(&captured, &url, &name)?;
    keep(&args.output, &folder, &written)?;
    told(&captured, args, &folder, !written.files.is_empty())
}

fn first_words(statement: &str) -> String {
    let mut words: String = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(70) {
        words.truncate(end);
        words.push('…');
    }
    words
}

fn untold(kind: &dyn StoreKind) -> TrialError {
    TrialError::usage(format!("{} does not report its statements", kind.spec().name))
        .next("name a server of SQL, with its URL")
}

fn opened(kind: &dyn StoreKind, args: &CaptureArgs, url: &str) -> Result<Box<dyn Production>, TrialError> {
    let passwords = Passwords::of_options(args.password_file.as_deref(), &[std::slice::from_ref(&args.from)])?;
    let (url, password) = passwords.of(url);
    let options = OpenOptions {
        target: Target::Attach { url, password },
        params: Params::default(),
        run_id: String::new(),
        waits: Waits::new(waits::ANSWER, waits::WORK, std::sync::Arc::default()),
    };
    kind.production(options)?.ok_or_else(|| untold(kind))
}

fn of_log(kind: &dyn StoreKind, log: &Path, mut asked: StatementLog) -> Result<StatementLog, TrialError> {
    let failed = |error: &std::io::Error| match error.kind() {
        ErrorKind::InvalidData => TrialError::usage(format!("{}: {error}", log.display()))
            .next("give a log in a form in which the server itself writes it into a file"),
        _ => io_error(log.display(), error),
    };
    let mut file = BufReader::new(File::open(log).map_err(|error| failed(&error))?);
    kind.read_log(&mut file, &mut |entry| asked.log(entry)).map_err(|error| failed(&error))?;
    asked.counted_by = log.display().to_string();
    Ok(asked)
}

/// Writes the plan and its values, readable by this user alone: the values are production's. Writes all of it, or nothing.
fn keep(output: &Path, folder: &Path, written: &Written) -> Result<(), TrialError> {
    let has_folder = !written.files.is_empty();
    if has_folder {
        let made = DirBuilder::new().mode(0o700).create(folder);
        made.map_err(|error| write_error(folder.display(), &error))?;
    }
    let all = || -> Result<(), TrialError> {
        let parent = folder.parent().unwrap_or(Path::new(""));
        for (name, text) in &written.files {
            report::write(&parent.join(name), text)?;
        }
        report::write(output, &written.plan)
    };
    all().inspect_err(|_| {
        // The files are incomplete. A folder that existed before stays.
        let _ = (has_folder.then(|| fs::remove_dir_all(folder)), fs::remove_file(output));
    })
}

fn told(captured: &Captured, args: &CaptureArgs, folder: &Path, has_values: bool) -> Result<u8, TrialError> {
    let (plan, kept, calls) = (args.output.display(), captured.calls_kept(), captured.calls);
    let share = 100.0 * kept as f64 / calls.max(1) as f64;
    let mut text = format!(
        "{plan}  {} statements with {} of {} calls ({share:.1} %)\n",
        captured.statements(),
        shown::count(kept),
        shown::count(calls)
    );
    if has_values {
        text.push_str(&format!("{}  their values, copied from the database: readable only by you\n", folder.display()));
    }
    text.push_str(&format!("Next: plimsoll run {plan}, or plimsoll line {plan} --goal p99=20ms\n"));
    crate::print(&format!("{}\n\n", shown::lines(text)))?;
    let mut table = Table::new("", vec![words("why"), numbers("statements"), numbers("calls")]);
    for (why, count, calls) in &captured.left_out {
        table.row(cells![shown::clean(why), shown::count(*count as u64), shown::count(*calls)]);
    }
    if !captured.left_out.is_empty() {
        report::print_tables(&[("left out", "", table)])?;
    }
    Ok(exit::OK)
}
