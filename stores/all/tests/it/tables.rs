//! Tables of what stores can, in the book and on their own pages, are made of their specs.

use std::fmt::Write as _;
use std::path::PathBuf;

use plimsoll_core::{StoreKind, StoreSpec};

/// Marks around a table of a page.
const BEGIN: &str = "<!-- from the spec -->\n";
const END: &str = "<!-- end -->";
/// Asks for pages to be written instead of compared.
const WRITE: &str = "PLIMSOLL_WRITE";

fn code<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    if words.is_empty() { "–".to_owned() } else { words.join(", ") }
}

fn interfaces(spec: &StoreSpec) -> String {
    code(spec.interfaces.iter().map(|one| one.name()))
}

fn urls(spec: &StoreSpec) -> String {
    let all: Vec<String> = spec.schemes.iter().map(|scheme| format!("{scheme}://")).collect();
    code(all.iter().map(String::as_str))
}

/// The book's table of stores.
fn list(kinds: &[Box<dyn StoreKind>]) -> String {
    let mut table = String::from("| `--on` | what it is | speaks | URLs to attach with |\n|---|---|---|---|\n");
    for spec in kinds.iter().map(|kind| kind.spec()) {
        let (name, summary, speaks, urls) = (spec.name, spec.summary, interfaces(spec), urls(spec));
        let _ = writeln!(table, "| [`{name}`](../../stores/{name}/README.md) | {summary} | {speaks} | {urls} |");
    }
    table
}

/// Returns the table of a store's own page.
fn own(spec: &StoreSpec) -> String {
    let modes = code(spec.index_modes.iter().map(|mode| mode.name()));
    let durabilities = code(spec.durabilities.iter().map(|one| one.name()));
    let mut rows = vec![("interfaces", interfaces(spec)), ("indexes", modes), ("durability", durabilities)];
    rows.push(("URLs to attach with", urls(spec)));
    if !spec.packages.is_empty() {
        rows.push(("a private one needs the package", code(spec.packages.iter().copied())));
    }
    let mut table = String::from("| can | |\n|---|---|\n");
    for (what, words) in rows {
        let _ = writeln!(table, "| {what} | {words} |");
    }
    if !spec.params.is_empty() {
        table += "\n| parameter | default | |\n|---|---|---|\n";
    }
    for param in spec.params {
        let default = code(Some(param.default).filter(|default| !default.is_empty()));
        let _ = writeln!(table, "| `{}` | {default} | {} |", param.name, param.summary);
    }
    table
}

#[test]
fn pages_have_the_tables_that_specs_make() {
    let kinds = plimsoll_stores::kinds();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![(root.join("docs/src/stores.md"), list(&kinds))];
    let page_of = |spec: &StoreSpec| (root.join(format!("stores/{}/README.md", spec.name)), own(spec));
    pages.extend(kinds.iter().map(|kind| page_of(kind.spec())));
    for (page, table) in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let (before, after) = parts.unwrap_or_else(|| panic!("{} has no place for its table", page.display()));
        let wanted = format!("{before}{BEGIN}{table}{END}{after}");
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&page, wanted).unwrap();
        } else {
            assert!(text == wanted, "{WRITE}=1 cargo test -p plimsoll-stores --test it writes {} anew", page.display());
        }
    }
}
