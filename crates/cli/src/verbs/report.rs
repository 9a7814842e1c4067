//! `plimsoll report`: page, text, JSON and other forms from a recording alone.

mod tables;

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plimsoll_analysis::{RunView, number};
use plimsoll_core::shell_word;
use plimsoll_record::data::{Run, RunState};
use plimsoll_report::document::Table;
use plimsoll_trial::{TrialError, write_error};
use tempfile::TempPath;

use crate::args::{Format, ReportArgs};
use crate::browser;

/// Lines of a short report. With the command for the others and the paths of page and recording it has 40.
const SHORT_LINES: usize = 34;
/// Advice if an output cannot be written.
const ELSEWHERE: &str = "give --output a path that can be written";

/// Makes the report that `args` ask for.
pub fn run(args: &ReportArgs) -> Result<u8, TrialError> {
    if args.open && (args.format != Format::Html || args.output.as_deref() == Some(Path::new("-"))) {
        return Err(TrialError::usage("--open opens a page in a file, and this report is none")
            .next("leave --open, --format or --output out"));
    }
    let (recording, loaded) = load(&args.run, args.strict)?;
    let view = plimsoll_analysis::view(&loaded);
    let page = page_path(&recording);
    let tables = page.with_file_name("tables");
    let beside = match args.format {
        Format::Html => Some(&*page),
        Format::Parquet => Some(&*tables),
        _ => None,
    };
    let output = args.output.as_deref().or(beside);
    must_not_overwrite(&[&*recording], &[("--output", output)])?;
    let text = match args.format {
        Format::Parquet => return tables::deliver(&recording, output.unwrap_or(&tables), &loaded, &view),
        Format::Perfetto => {
            let spans = plimsoll_analysis::spans::spans(&loaded);
            return deliver_by(output, |out| plimsoll_report::perfetto(&view, &spans, out));
        }
        Format::Html => plimsoll_report::html(&view),
        Format::Json => plimsoll_report::json(&view),
        Format::Md => plimsoll_report::markdown(&view),
        Format::Csv => plimsoll_report::csv(plimsoll_analysis::slices::slices(&loaded)),
        Format::Hdr => plimsoll_report::hdr(&view, plimsoll_analysis::slices::slices(&loaded)),
        Format::Text => plimsoll_report::terminal(&view, args.output.is_none() && colour(), width()),
    };
    let code = deliver(output, &text)?;
    if let Some(page) = output.filter(|_| args.open) {
        browser::open(page);
    }
    Ok(code)
}

/// Refuses outputs, each with its option, that are a file of `recordings` or the same file, by whatever path.
pub fn must_not_overwrite(recordings: &[&Path], outputs: &[(&str, Option<&Path>)]) -> Result<(), TrialError> {
    let outputs = outputs.iter().filter_map(|(option, path)| Some((option, (*path)?)));
    let outputs: Vec<_> = outputs.filter(|(_, path)| *path != Path::new("-")).collect();
    let refused = |option: &str, path: &Path, what: &str| {
        Err(TrialError::usage(format!("{option} {} is {what}", path.display())).next("name another file"))
    };
    for (at, (option, path)) in outputs.iter().enumerate() {
        let is_read = |recording: &&Path| plimsoll_record::files(recording).iter().any(|file| is_same(file, path));
        if recordings.iter().any(is_read) || plimsoll_record::is_file_of_one(path) {
            return refused(option, path, "a recording, or a part of one");
        }
        if let Some((other, _)) = outputs.iter().take(at).find(|(_, other)| is_same(other, path)) {
            return refused(option, path, &format!("also the file of {other}"));
        }
    }
    Ok(())
}

/// Returns true if both paths lead to one file, or to one place for a new file.
fn is_same(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        Some((parent.canonicalize().ok()?, path.file_name()?.to_owned()))
    };
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (Err(_), Err(_)) => place(a).is_some_and(|place_a| Some(place_a) == place(b)),
        _ => false,
    }
}

/// Returns the recording `wanted` and its path; `strict`: a phase in which the generator was late is void.
pub fn load(wanted: &str, strict: bool) -> Result<(PathBuf, Run), TrialError> {
    let recording = plimsoll_record::find(&plimsoll_record::default_runs_dir()?, wanted)?;
    let mut run = Run::load(&recording)?;
    let directory = if recording.is_dir() { Some(&*recording) } else { recording.parent() };
    if run.state == RunState::Unfinished && directory.is_some_and(plimsoll_record::is_live) {
        run.state = RunState::Running;
    }
    if strict {
        plimsoll_analysis::take_late_for_void(&mut run);
    }
    Ok((recording, run))
}

/// Writes `text` to `path` and prints the path; without a path, or with `-`, prints `text`.
pub fn deliver(path: Option<&Path>, text: &str) -> Result<u8, TrialError> {
    deliver_by(path, |out| out.write_all(text.as_bytes()))
}

/// Delivers what `write` writes, as [`deliver`] does.
fn deliver_by(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<u8, TrialError> {
    match path.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let written = Output::create(path).and_then(|mut output| {
                write(&mut output.file)?;
                output.keep()
            });
            written.map_err(|error| write_error(path.display(), &error).next(ELSEWHERE))?;
            crate::print(&format!("{}\n", path.display()))
        }
        None => crate::print_by(write),
    }
}

/// Prints every section of the view.
pub fn print_text(view: &RunView) -> Result<(), TrialError> {
    crate::print(&plimsoll_report::terminal(view, colour(), width())).map(|_| ())
}

/// Prints the lines that say most, and the command for the others.
pub fn print_short(view: &RunView) -> Result<(), TrialError> {
    let (text, left_out) = plimsoll_report::terminal_short(view, colour(), width(), SHORT_LINES);
    let more = match left_out.is_empty() {
        true => String::new(),
        // The command is not broken, however narrow the terminal is.
        false => format!(
            "more       plimsoll runs show {}\n{}",
            shell_word(&view.run.id),
            plimsoll_report::paragraph("           ", &number::list(&left_out), width())
        ),
    };
    crate::print(&format!("{text}\n{more}")).map(|_| ())
}

/// Prints tables, each under a title and what stands behind it.
pub fn print_tables(tables: &[(&str, &str, Table)]) -> Result<u8, TrialError> {
    crate::print(&plimsoll_report::tables(tables, colour(), width()))
}

/// Returns the path of a recording's page, beside the recording.
pub fn page_path(recording: &Path) -> PathBuf {
    if recording.is_dir() { recording.join("report.html") } else { recording.with_file_name("report.html") }
}

/// Writes a report, readable by its owner alone like the recording it is made from.
pub fn write(path: &Path, text: &str) -> Result<(), TrialError> {
    let written = Output::create(path).and_then(|mut output| {
        output.file.write_all(text.as_bytes())?;
        output.keep()
    });
    written.map_err(|error| write_error(path.display(), &error))
}

/// File of a report, which its owner alone can read. It is beside its place until it is complete, so that an error leaves
/// what was there before.
struct Output {
    file: File,
    /// Temporary path, removed on drop, and the place. `None` for what is written in place, such as a pipe.
    place: Option<(TempPath, PathBuf)>,
}

impl Output {
    fn create(path: &Path) -> std::io::Result<Self> {
        let in_place = || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        // The place that a link leads to.
        let (place, before) = match path.canonicalize() {
            Ok(place) => (place.clone(), Some(place.metadata()?)),
            Err(_) => (path.to_owned(), None),
        };
        let directory = place.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let is_link = before.is_none() && path.is_symlink();
        if is_link || place.file_name().is_none() || before.as_ref().is_some_and(|before| !before.is_file()) {
            return Ok(Self { file: in_place()?, place: None });
        }
        if before.is_some() {
            // A file that may not be written is not replaced either.
            OpenOptions::new().write(true).open(&place)?;
        }
        let (file, beside) = match tempfile::Builder::new().prefix(".plimsoll-").tempfile_in(directory) {
            Ok(made) => made.into_parts(),
            Err(error) if before.is_some() && error.kind() != ErrorKind::PermissionDenied => return Err(error),
            // The directory takes no other file; or the error is the place's, and is told without the temporary path.
            Err(_) => return Ok(Self { file: in_place()?, place: None }),
        };
        if let Some(before) = before {
            file.set_permissions(before.permissions())?;
        }
        Ok(Self { file, place: Some((beside, place)) })
    }

    /// Puts the complete file in its place.
    fn keep(self) -> std::io::Result<()> {
        match self.place {
            Some((beside, place)) => beside.persist(place).map_err(|error| error.error),
            None => Ok(()),
        }
    }
}

/// Returns true if standard output takes colours.
pub fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Characters to a line: `COLUMNS` of the environment, or the width of the terminal.
pub fn width() -> usize {
    let size = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let terminal = std::io::stdout().is_terminal().then(size).flatten();
    columns(std::env::var("COLUMNS").ok().as_deref(), terminal)
}

fn columns(asked: Option<&str>, terminal: Option<usize>) -> usize {
    let asked = asked.and_then(|value| value.trim().parse::<usize>().ok());
    match (asked, terminal) {
        (Some(columns), _) if columns > 0 => columns.clamp(60, 1_000),
        (_, Some(columns)) if columns > 0 => columns.clamp(60, 160),
        _ => 100,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_wide_as_the_environment_asks_for_or_as_the_terminal() {
        assert_eq!(columns(Some("220"), None), 220);
        assert_eq!(columns(Some("220"), Some(90)), 220);
        assert_eq!(columns(Some("1"), None), 60);
        for unset in [None, Some(""), Some("0"), Some("wide")] {
            assert_eq!((columns(unset, None), columns(unset, Some(90)), columns(unset, Some(500))), (100, 90, 160));
        }
        assert_eq!(columns(None, Some(0)), 100);
    }

    #[test]
    fn an_output_that_is_read_or_written_twice_is_refused_by_whatever_path() {
        let place = std::env::temp_dir().join(format!("plimsoll-outputs-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let file = |name: &str| place.join(name);
        let recording = file("run.sqlite");
        std::fs::write(&recording, "").unwrap();
        std::fs::hard_link(&recording, file("hard")).unwrap();
        std::os::unix::fs::symlink(&recording, file("soft")).unwrap();
        let refused = |outputs: &[&Path]| {
            let outputs: Vec<_> = outputs.iter().map(|path| ("--output", Some(*path))).collect();
            must_not_overwrite(&[&*place], &outputs).is_err()
        };
        for name in ["run.sqlite", "hard", "soft", "run.sqlite-wal", "./run.sqlite-shm"] {
            assert!(refused(&[&file(name)]), "{name}");
        }
        std::fs::write(file("of another run"), "SQLite format 3\0 and so on").unwrap();
        assert!(refused(&[&file("of another run")]));
        assert!(refused(&[&file("new"), &file("./new")]));
        for outputs in [["new", "other"], ["/dev/null", "/dev/null"]] {
            assert!(!refused(&outputs.map(file).each_ref().map(|path| &**path)), "{outputs:?}");
        }
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn an_output_that_fails_leaves_the_file_before_it_and_no_other() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("page.html");
        deliver(Some(&path), "old").unwrap();
        let failed = deliver_by(Some(&path), |out| {
            out.write_all(b"half")?;
            Err(ErrorKind::StorageFull.into())
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        deliver(Some(&link), "new").unwrap();
        assert!(link.is_symlink() && std::fs::read_to_string(&path).unwrap() == "new");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn only_who_has_the_option_is_told_of_it() {
        let nowhere = Path::new("/nonexistent/page.html");
        assert_eq!(write(nowhere, "").unwrap_err().next, None, "`run` writes its page where the recording is");
        assert!(deliver(Some(nowhere), "").unwrap_err().next.is_some_and(|next| next.contains("--output")));
    }
}
