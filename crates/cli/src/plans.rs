//! Conversion of the user's options to a plan: studies and files, stores in `--on`, passwords taken out of URLs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use plimsoll_core::files::without_mark;
use plimsoll_core::nearest::nearest;
use plimsoll_core::{Catalogue, Password, StoreErrorKind};
use plimsoll_plan::model::{Plan, StoreUse};
use plimsoll_plan::{Overrides, PlanError, Problem};
use plimsoll_trial::{TrialError, io_error};
use toml_edit::{Document, Item, TableLike};

use crate::args::{PlannedArgs, SmallerArgs};
use crate::options::quoted;
use crate::{secrets, smaller, studies};

/// Largest plan file that is read.
pub const PLAN_BYTES_MAX: u64 = 1 << 20;

/// Largest file that a plan may name.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// URL with a token, and password, of an attached store.
type Login = (String, Option<Password>);

/// Passwords and tokens of attached stores, by their URL without it. Nothing shows them.
#[derive(Default)]
pub struct Passwords {
    by_url: BTreeMap<String, Login>,
    default: Option<Password>,
}

impl Passwords {
    /// Returns the password in `file`, for URLs without one, and the passwords of the URLs in `stores`.
    pub fn of_options(file: Option<&Path>, stores: &[&[String]]) -> Result<Self, TrialError> {
        let default = file.map(secrets::password_of_file).transpose()?;
        let mut passwords = Self { default, ..Self::default() };
        stores.iter().for_each(|stores| drop(passwords.taken_from(stores)));
        Ok(passwords)
    }

    /// The stores without the passwords of their URLs, which are kept.
    fn taken_from(&mut self, stores: &[String]) -> Vec<String> {
        let mut taken = Vec::new();
        for store in whole_urls(stores) {
            let (url, password) = plimsoll_plan::split_password(&store);
            if url != store {
                let login = if password.is_some() { (url.clone(), password.map(Password::new)) } else { (store, None) };
                self.by_url.insert(url.clone(), login);
            }
            taken.push(url);
        }
        taken
    }

    /// The login for `url`; no password leaves it to the store's own places (PGPASSWORD, ~/.pgpass).
    pub fn of(&self, url: &str) -> Login {
        let (url, password) = self.by_url.get(url).cloned().unwrap_or_else(|| (url.to_owned(), None));
        (url, password.or_else(|| self.default.clone()))
    }
}

/// Returns the plan that `args` name, changed as they ask, and the text of that plan.
pub fn load(
    catalogue: &Catalogue,
    args: &PlannedArgs,
    passwords: &mut Passwords,
) -> Result<(Plan, String), TrialError> {
    let named = &args.plan;
    let mut from = read(named.plan.as_deref().unwrap_or_default())?;
    let mut left_out = smaller::LeftOut::default();
    if args.smaller != SmallerArgs::default() {
        // Mistakes of the plan itself come first.
        read_plan(catalogue, from.clone(), &named.on, named.seed, passwords)?;
        smaller::apply(catalogue, &mut from, &args.smaller)?;
        left_out = smaller::leave_out_figures(catalogue, &mut from, &overrides(&named.on, named.seed, passwords));
    }
    let (mut plan, text) = read_plan(catalogue, from.clone(), &named.on, named.seed, passwords)?;
    let notice = left_out.notice(&plan);
    plan.left_out.extend(left_out.reasons);
    if args.smaller.quick {
        smaller::leave_out_goals(&mut plan);
    }
    plan.notices.extend(smaller::notices(&args.smaller));
    plan.notices.extend(notice);
    plan.allow_writes |= args.allow_writes;
    plan.allow_fault |= args.allow_fault;
    plan.dir = args.dir.clone().or(plan.dir);
    let stores = passwords.taken_from(&named.on);
    Ok((plan, smaller::with_options(catalogue, PlanText { text, ..from }, args, &stores)))
}

/// Leaves out the stores of `plan` that cannot run here, unless the command line names the stores.
pub fn leave_out(catalogue: &Catalogue, plan: &mut Plan, args: &PlannedArgs) -> Result<(), TrialError> {
    match args.plan.on.is_empty() && args.smaller.stores.is_empty() {
        true => plimsoll_trial::here::leave_out(plan, catalogue),
        false => Ok(()),
    }
}

/// The text of a plan.
#[derive(Debug, Clone, Default)]
pub struct PlanText {
    /// Name of the study or path of the file, as typed.
    pub name: String,
    /// TOML.
    pub text: String,
    /// Directory for relative paths of files that the plan names.
    pub beside: PathBuf,
    /// Pieces of the text, and the options that they were written from, as those were typed.
    pub options: Vec<(Range<usize>, String)>,
    /// The text is a study's or a file's. Otherwise all of it was written from options.
    pub is_read: bool,
}

/// A change of a plan's text.
#[derive(Debug)]
pub struct Edit {
    /// Piece to replace.
    pub at: Range<usize>,
    /// New text.
    pub text: String,
    /// Option that asks for it, as typed.
    pub from: String,
}

impl PlanText {
    /// Changes the text. The edits do not overlap.
    pub fn splice(&mut self, mut edits: Vec<Edit>) {
        // From the end on, so that the other places stay.
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.at.start));
        for Edit { at, text, from } in edits {
            self.options.retain(|(range, _)| range.end <= at.start || range.start >= at.end);
            for (range, _) in self.options.iter_mut().filter(|(range, _)| range.start >= at.end) {
                *range = range.start + text.len() - at.len()..range.end + text.len() - at.len();
            }
            self.options.push((at.start..at.start + text.len(), from));
            self.text.replace_range(at, &text);
        }
    }

    /// Appends text that the option `from` led to.
    pub fn push(&mut self, text: &str, from: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.options.push((start..self.text.len(), from.to_owned()));
    }

    /// Appends a key and its value, which were written from the option `from`.
    pub fn line(&mut self, key: &str, value: &str, from: &str) {
        self.push(&format!("{key} = {value}\n"), from);
    }
}

/// Returns the plan in `from`, on the stores `on` or its own, and its text without secrets.
pub fn read_plan(
    catalogue: &Catalogue,
    mut from: PlanText,
    stores: &[String],
    seed: Option<u64>,
    passwords: &mut Passwords,
) -> Result<(Plan, String), TrialError> {
    match parsed(catalogue, &from, &overrides(stores, seed, passwords)) {
        Ok(mut plan) => {
            plimsoll_trial::bound_sessions(catalogue, &mut plan)?;
            from.text = plimsoll_plan::without_secrets(&from.text);
            Ok((plan, from.text))
        }
        Err(error) => Err(plan_error(&from, &error)),
    }
}

/// Parses the plan in `from`.
pub fn parsed(catalogue: &Catalogue, from: &PlanText, overrides: &Overrides) -> Result<Plan, PlanError> {
    let files = |path: &str| whole_text_of(&from.beside.join(path), FILE_BYTES_MAX);
    plimsoll_plan::parse_with_files(&from.name, &from.text, catalogue, overrides, &files)
}

/// Returns the text of a plan with absolute paths of the files that it names, so that it may move. Relative paths begin
/// in the directory `beside`.
pub fn with_absolute_paths(text: &str, beside: &Path) -> String {
    let mut moved = text.to_owned();
    let Ok(document) = Document::parse(text) else { return moved };
    let mut files = Vec::new();
    files_of(document.as_table(), &mut files);
    // From the end on, so that the other places stay.
    files.sort_by_key(|(at, ..)| std::cmp::Reverse(at.start));
    for (at, before, path) in files {
        if let Ok(path) = std::path::absolute(beside.join(path)) {
            moved.replace_range(at, &quoted(&format!("{before}{}", path.display())));
        }
    }
    moved
}

/// Finds the relative paths of files in a table of a plan: the location of the value, the text before the path, and it.
fn files_of<'t>(table: &'t dyn TableLike, found: &mut Vec<(Range<usize>, &'static str, &'t str)>) {
    // Names of files of a store's server are no paths here.
    for (key, item) in table.iter().filter(|(key, _)| *key != "stores") {
        let text = item.as_str();
        let file = match key {
            "file" | "recorded" => text.map(|path| ("", path)),
            "body" => text.and_then(|text| text.strip_prefix('@')).map(|path| ("@", path)),
            _ => None,
        };
        if let Some(((before, path), at)) = file.zip(item.span()).filter(|((_, path), _)| Path::new(path).is_relative())
        {
            found.push((at, before, path));
        }
        match item {
            Item::ArrayOfTables(tables) => tables.iter().for_each(|table| files_of(table, found)),
            Item::Value(toml_edit::Value::Array(values)) => {
                values.iter().filter_map(|value| value.as_inline_table()).for_each(|table| files_of(table, found));
            }
            _ => item.as_table_like().into_iter().for_each(|table| files_of(table, found)),
        }
    }
}

/// The stores and the seed that replace a plan's; passwords in URLs are kept in `passwords`.
fn overrides(stores: &[String], seed: Option<u64>, passwords: &mut Passwords) -> Overrides {
    let on = passwords.taken_from(stores);
    Overrides { on: (!on.is_empty()).then_some(on), seed }
}

/// Returns the stores in `from`, which contains nothing else.
pub fn read_stores(catalogue: &Catalogue, from: &PlanText) -> Result<Vec<StoreUse>, TrialError> {
    plimsoll_plan::parse_stores(&from.name, &from.text, catalogue).map_err(|error| plan_error(from, &error))
}

/// The text of a file as [`whole_text_of`] reads it, without a byte order mark.
pub fn text_of(path: &Path, bytes_max: u64) -> std::io::Result<String> {
    whole_text_of(path, bytes_max).map(without_mark)
}

/// The text of a file of at most `bytes_max`; an error of kind `Other` says why the file is refused.
fn whole_text_of(path: &Path, bytes_max: u64) -> std::io::Result<String> {
    let size = fs::metadata(path)?;
    if !size.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    if size.len() > bytes_max {
        return Err(std::io::Error::other(format!("it is larger than {} MiB", bytes_max >> 20)));
    }
    let text = fs::read(path)?;
    String::from_utf8(text).map_err(|error| {
        let line =
            error.as_bytes().iter().take(error.utf8_error().valid_up_to()).filter(|byte| **byte == b'\n').count();
        std::io::Error::other(format!("line {} is not UTF-8", line + 1))
    })
}

/// The stores of `--on`, which were cut at every comma: a password may hold one. Nothing but a URL, perhaps mistyped,
/// has an `@` in it, so a piece with one and without a scheme belongs to the last URL that has none yet. Nor has the
/// name of a store a `:`, `/`, `=` or blank in it, so such a piece is another host of the last URL.
pub fn whole_urls(pieces: &[String]) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    for piece in pieces {
        let cut = |store: &String| store.contains(':') && !store.contains('@');
        let rest_of_password = whole.iter().rposition(cut).filter(|_| piece.contains('@'));
        let another_host =
            || whole.iter().rposition(|store| store.contains("://")).filter(|_| piece.contains([':', '/', '=', ' ']));
        match rest_of_password.or_else(another_host).filter(|_| !piece.contains("://")) {
            Some(url) => {
                let tail = whole.split_off(url);
                whole.push(format!("{},{piece}", tail.join(",")));
            }
            None => whole.push(piece.clone()),
        }
    }
    whole
}

/// The text of the study or file `plan`.
pub fn read(plan: &str) -> Result<PlanText, TrialError> {
    if let Some(study) = studies::ALL.iter().find(|study| study.name == plan) {
        let (name, text) = (study.name.to_owned(), study.text.to_owned());
        return Ok(PlanText { name, text, is_read: true, ..PlanText::default() });
    }
    let path = Path::new(plan);
    let names: Vec<&str> = studies::ALL.iter().map(|study| study.name).collect();
    let text = text_of(path, PLAN_BYTES_MAX).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let meant =
                nearest(plan, names.iter().copied()).map_or(String::new(), |name| format!("did you mean `{name}`? "));
            TrialError::usage(format!("there is no study and no file named `{plan}`"))
                .next(format!("{meant}studies are: {}; or give the path of a plan file", names.join(", ")))
        }
        std::io::ErrorKind::Other => TrialError::usage(format!("{plan} cannot be read as a plan: {error}"))
            .next("give the path of a plan file, TOML in UTF-8, at most 1 MiB"),
        _ => io_error(plan, &error),
    })?;
    let beside = path.parent().unwrap_or(Path::new("")).to_owned();
    Ok(PlanText { name: plan.to_owned(), text, beside, options: Vec::new(), is_read: true })
}

/// Returns a plan's error: with the option for text from options, otherwise with lines of the file.
fn plan_error(from: &PlanText, error: &PlanError) -> TrialError {
    let told = |problem: &Problem| told(from, problem);
    match error.problems().iter().map(told).collect::<Option<Vec<_>>>() {
        Some(told) => {
            // An option may stand in several phases.
            let mut seen = BTreeSet::new();
            let mut texts: Vec<String> = told.iter().map(crate::error::text).collect();
            texts.retain(|text| seen.insert(text.clone()));
            TrialError { kind: StoreErrorKind::Plan, ..TrialError::usage(texts.join("\n")) }
        }
        None => drawn(error),
    }
}

/// Returns the error of an option; `None` for a problem in a file.
fn told(from: &PlanText, problem: &Problem) -> Option<TrialError> {
    let at = problem.span().start;
    let place = match problem.source_name() {
        "--on" => format!("--on {}: ", problem.meant()),
        name if name == from.name && !from.options.is_empty() => {
            match from.options.iter().find(|(range, _)| range.contains(&at)) {
                Some((_, option)) => format!("{option}: "),
                // The lines of the file are shown instead.
                None if from.is_read => return None,
                None => String::new(),
            }
        }
        _ => return None,
    };
    let told = TrialError::usage(format!("{place}{}", problem.what()));
    Some(TrialError { next: problem.help().map(str::to_owned), ..told })
}

/// An error of a file, drawn with the lines it is about.
pub fn drawn(error: &PlanError) -> TrialError {
    use std::io::IsTerminal;
    let terminal = std::io::stderr().is_terminal();
    let theme = if terminal { miette::GraphicalTheme::unicode() } else { miette::GraphicalTheme::unicode_nocolor() };
    let mut drawn = String::new();
    let handler = miette::GraphicalReportHandler::new_themed(theme).with_links(false).with_width(100);
    let rendered = match error.problems() {
        [only] => handler.render_report(&mut drawn, only),
        _ => handler.render_report(&mut drawn, error),
    };
    if rendered.is_err() {
        drawn = error.to_string();
    }
    TrialError { kind: StoreErrorKind::Plan, ..TrialError::usage(drawn) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{whole_urls, with_absolute_paths};

    #[test]
    fn a_printed_plan_has_absolute_paths() {
        let text = "stores = [{ store = \"x\", file = \"a\" }]\n[workload]\nscript = [{ file = \"a b.sql\" }, { file = '/b.sql' }]\n\
            [[workload.csv]]\nfile = 'c.csv'\n[[workload.request]]\nbody = \"@d\"\n[[workload.request]]\nbody = \"e\"\n\
            [[phase]]\nrate = { recorded = \"f\" } # f\n";
        let moved = "stores = [{ store = \"x\", file = \"a\" }]\n[workload]\nscript = [{ file = \"/p/a b.sql\" }, { file = '/b.sql' }]\n\
            [[workload.csv]]\nfile = \"/p/c.csv\"\n[[workload.request]]\nbody = \"@/p/d\"\n[[workload.request]]\nbody = \"e\"\n\
            [[phase]]\nrate = { recorded = \"/p/f\" } # f\n";
        assert_eq!(with_absolute_paths(text, Path::new("/p")), moved);
        let here = std::env::current_dir().unwrap().join("a");
        assert_eq!(with_absolute_paths("file = 'a'", Path::new("")), format!("file = \"{}\"", here.display()));
    }

    #[test]
    fn a_comma_in_a_password_does_not_cut_a_url() {
        for (given, whole) in [
            ("sqlite,fjall", &["sqlite", "fjall"][..]),
            ("postgres://h/a,sqlite,postgres://me@h/b", &["postgres://h/a", "sqlite", "postgres://me@h/b"]),
            ("postgres://a:1,b,c:3/d,sqlite", &["postgres://a:1,b,c:3/d", "sqlite"]),
            ("postgres://host=a,b dbname=d,sqlite", &["postgres://host=a,b dbname=d", "sqlite"]),
            ("postgres://me:x,y@a,b/d", &["postgres://me:x,y@a,b/d"]),
            ("sqlite,postgres://me:a,b,c@h/d,fjall", &["sqlite", "postgres://me:a,b,c@h/d", "fjall"]),
            ("sqlite,me:a,b,c@h/d,fjall", &["sqlite", "me:a,b,c@h/d", "fjall"]),
        ] {
            let pieces: Vec<String> = given.split(',').map(str::to_owned).collect();
            assert_eq!(whole_urls(&pieces), whole, "{given}");
        }
    }
}
