//! From what the user typed to a plan: studies and files, stores in `--on`, passwords taken out of URLs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_core::Catalogue;
use plimsoll_core::nearest::nearest;
use plimsoll_core::shown::clean;
use plimsoll_plan::Overrides;
use plimsoll_plan::model::Plan;

use crate::args::PlanArgs;
use crate::error::{CliError, exit};
use crate::{secrets, studies};

/// Largest plan file that is read.
const PLAN_BYTES_MAX: u64 = 1 << 20;

/// Largest file that a plan may name.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Passwords of attached stores, by their URL without it. Nothing shows them.
#[derive(Default)]
pub struct Passwords {
    by_url: BTreeMap<String, String>,
    default: Option<String>,
}

impl Passwords {
    /// The one in `file` for URLs that bring none of their own, and those of the URLs in `stores`.
    pub fn of_options(file: Option<&Path>, stores: &[&[String]]) -> Result<Self, CliError> {
        let default = file.map(secrets::read_password_file).transpose()?;
        let mut passwords = Self { default, ..Self::default() };
        stores.iter().for_each(|stores| drop(passwords.taken_from(stores)));
        Ok(passwords)
    }

    /// The stores without the passwords of their URLs, which are kept.
    fn taken_from(&mut self, stores: &[String]) -> Vec<String> {
        let mut taken = Vec::new();
        for store in whole_urls(stores) {
            let (url, password) = plimsoll_plan::split_password(&store);
            self.by_url.extend(password.map(|password| (url.clone(), password)));
            taken.push(url);
        }
        taken
    }

    /// The password for `url`; `None` leaves it to the store's own places (PGPASSWORD, ~/.pgpass).
    pub fn of(&self, url: &str) -> Option<String> {
        self.by_url.get(url).or(self.default.as_ref()).cloned()
    }
}

/// The plan that `args` name, and its text.
pub fn load(catalogue: &Catalogue, args: &PlanArgs, passwords: &mut Passwords) -> Result<(Plan, String), CliError> {
    read_plan(catalogue, read(&args.plan)?, &args.on, args.seed, passwords)
}

/// The text of a plan.
pub struct PlanText {
    /// The study's or file's name.
    pub name: String,
    /// TOML.
    pub text: String,
    /// Where the files that it names stand, if their paths are relative.
    pub beside: PathBuf,
}

impl PlanText {
    /// One that was put together from options.
    pub fn of_options(name: String, text: String) -> Self {
        Self { name, text, beside: PathBuf::new() }
    }
}

/// The plan that `from` comes to on the stores `on`, or on its own, and its text.
pub fn read_plan(
    catalogue: &Catalogue,
    from: PlanText,
    stores: &[String],
    seed: Option<u64>,
    passwords: &mut Passwords,
) -> Result<(Plan, String), CliError> {
    let PlanText { name, text, beside } = from;
    let on = passwords.taken_from(stores);
    let overrides = Overrides { on: (!on.is_empty()).then_some(on), seed };
    let files = |path: &str| read_beside(&beside.join(path));
    match plimsoll_plan::parse_with_files(&name, &text, catalogue, &overrides, &files) {
        Ok(mut plan) => {
            plimsoll_trial::bound_sessions(catalogue, &mut plan)?;
            Ok((plan, text))
        }
        Err(error) => Err(plan_error(&error)),
    }
}

/// The text of a file that a plan names.
fn read_beside(path: &Path) -> std::io::Result<String> {
    let size = fs::metadata(path)?;
    if !size.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    if size.len() > FILE_BYTES_MAX {
        return Err(std::io::Error::other("it is larger than 256 MiB"));
    }
    fs::read_to_string(path)
}

/// The stores of `--on`, which were cut at every comma: a password may hold one. Nothing but a URL has an `@` in it,
/// so a piece with one and without a scheme belongs to the last URL that has none yet. Nor has the name of a store a
/// `:`, `/`, `=` or blank in it, so such a piece is another host of the last URL.
pub fn whole_urls(pieces: &[String]) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    for piece in pieces {
        let cut = |store: &String| store.contains("://") && !store.contains('@');
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
pub fn read(plan: &str) -> Result<PlanText, CliError> {
    if let Some(study) = studies::find(plan) {
        return Ok(PlanText::of_options(study.name.to_owned(), study.text.to_owned()));
    }
    let path = Path::new(plan);
    let names: Vec<&str> = studies::ALL.iter().map(|study| study.name).collect();
    let size = fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let meant =
                nearest(plan, names.iter().copied()).map_or(String::new(), |name| format!("did you mean `{name}`? "));
            CliError::usage(format!("there is no study and no file named `{plan}`"))
                .next(format!("{meant}studies are: {}; or give the path of a plan file", names.join(", ")))
        }
        _ => CliError::io(plan, &error),
    })?;
    if !size.is_file() {
        return Err(CliError::usage(format!("{plan} is not a file")).next("give the path of a plan file"));
    }
    if size.len() > PLAN_BYTES_MAX {
        return Err(CliError::usage(format!("{plan} is larger than 1 MiB: that is no plan")));
    }
    let text = fs::read(path).map_err(|error| CliError::io(plan, &error))?;
    let text = String::from_utf8(text).map_err(|error| {
        CliError::usage(format!("{plan} is not text"))
            .detail(format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()))
            .next("give the path of a plan file, TOML in UTF-8")
    })?;
    let name = path.file_stem().map_or(plan.to_owned(), |stem| clean(&stem.to_string_lossy()));
    let beside = path.parent().unwrap_or(Path::new("")).to_owned();
    Ok(PlanText { name, text, beside })
}

/// A plan's error, drawn with the lines it is about.
fn plan_error(error: &plimsoll_plan::PlanError) -> CliError {
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
    CliError::drawn(exit::USAGE, drawn)
}

#[cfg(test)]
mod tests {
    use super::whole_urls;

    #[test]
    fn a_comma_in_a_password_does_not_cut_a_url() {
        for (given, whole) in [
            ("sqlite,fjall", &["sqlite", "fjall"][..]),
            ("postgres://h/a,sqlite,postgres://me@h/b", &["postgres://h/a", "sqlite", "postgres://me@h/b"]),
            ("postgres://a:1,b,c:3/d,sqlite", &["postgres://a:1,b,c:3/d", "sqlite"]),
            ("postgres://host=a,b dbname=d,sqlite", &["postgres://host=a,b dbname=d", "sqlite"]),
            ("postgres://me:x,y@a,b/d", &["postgres://me:x,y@a,b/d"]),
            ("sqlite,postgres://me:a,b,c@h/d,fjall", &["sqlite", "postgres://me:a,b,c@h/d", "fjall"]),
        ] {
            let pieces: Vec<String> = given.split(',').map(str::to_owned).collect();
            assert_eq!(whole_urls(&pieces), whole, "{given}");
        }
    }
}
