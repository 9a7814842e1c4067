//! Tests that a change can reach: those of the changed crates, and the short ones of the crates that use them, directly
//! or through others. A crate that only the tests of another one use reaches these tests, and not the users of the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use crate::git::{commit, git, names};
use crate::process::metadata;
use crate::times::Times;
use crate::{Result, gate};

/// Most seconds of a test that is run for a change of another crate.
const SECONDS_MAX: f64 = 2.0;
/// Most seconds of all tests together: eight run at once, so that a change of one crate is tried in three minutes.
const TOGETHER_S: f64 = 650.0;
/// Names of the main branch, the best first. A branch that was pushed has itself as its upstream.
const MAIN: [&str; 5] = ["origin/HEAD", "origin/main", "main", "master", "@{upstream}"];
/// Files that every test depends on.
const EVERYTHING: [&str; 4] = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", ".config/nextest.toml"];
/// Crate whose tests read each file of the repository: `tidy` of a copy.
const TIDY: &str = "xtask";

/// Crates that a change can reach.
pub struct Reached {
    changed: BTreeSet<String>,
    /// Crates that use a changed one, directly or through others.
    users: BTreeSet<String>,
    /// Test programs of the workspace. The scheduler refuses to name another one.
    programs: BTreeSet<String>,
}

/// Returns the crates with files changed since `wanted`, or since [`base`], and those that use them.
pub fn reached(root: &Path, wanted: Option<&str>) -> Result<Reached> {
    let base = base(root, wanted)?;
    let files = changed_files(root, &base)?;
    println!("changed since {base}: {} files", files.len());
    Ok(of_files(&files, &crates(root)?, &readers(root)?))
}

/// Returns the commit `wanted`. Otherwise it is the one that was proved last, or where the branch left the main branch, or
/// HEAD.
fn base(root: &Path, wanted: Option<&str>) -> Result<String> {
    if let Some(wanted) = wanted {
        let known = commit(root, wanted).map(|_| wanted.to_owned());
        return known.map_err(|_| {
            format!("`{wanted}` is no commit of this repository: --changed [REV], names of tests after `--`")
        });
    }
    // The commit may be gone, and the file damaged.
    let proved = gate::proved(root).and_then(|proved| commit(root, &proved).ok());
    let left = || MAIN.iter().find_map(|main| git(root, &["merge-base", "HEAD", main]).ok());
    Ok(proved.or_else(left).unwrap_or_else(|| "HEAD".to_owned()))
}

/// Files that differ from those of `base`: also deleted and new ones, and both names of renamed ones.
fn changed_files(root: &Path, base: &str) -> Result<BTreeSet<String>> {
    let differs = git(root, &["diff", "--name-only", "--no-renames", "-z", base, "--"])?;
    let new = git(root, &["ls-files", "--others", "--exclude-standard", "-z"])?;
    Ok(names(&differs).chain(names(&new)).collect())
}

/// Crates whose Rust files name a file of another one, or of none, by its path without the beginning.
type Readers = HashMap<String, BTreeSet<String>>;

fn of_files(files: &BTreeSet<String>, crates: &BTreeMap<String, Package>, readers: &Readers) -> Reached {
    let programs = crates.values().flat_map(|package| package.programs.clone()).collect();
    if files.iter().any(|file| EVERYTHING.contains(&file.as_str())) {
        return Reached { changed: crates.keys().cloned().collect(), users: BTreeSet::new(), programs };
    }
    let mut changed = BTreeSet::new();
    for file in files {
        let of = crates.iter().find(|(_, package)| is_below(file, &package.folder));
        changed.insert(of.map_or(TIDY, |(name, _)| name.as_str()).to_owned());
        let readers = ends(file).filter_map(|end| readers.get(end)).flatten();
        let by_folder = |folder: &String| crates.iter().find(|(_, package)| package.folder == *folder);
        changed.extend(readers.filter_map(by_folder).map(|(name, _)| name.clone()));
    }
    let built = with_dependents(&changed, crates);
    let users = crates.iter().filter(|(_, package)| !package.uses.is_disjoint(&built));
    let users = users.map(|(name, _)| name.clone()).filter(|user| !changed.contains(user)).collect();
    Reached { changed, users, programs }
}

/// Returns `changed`, and the crates that are built of them, directly or through others.
fn with_dependents(changed: &BTreeSet<String>, crates: &BTreeMap<String, Package>) -> BTreeSet<String> {
    let mut all = changed.clone();
    loop {
        let is_new = |name: &String, package: &Package| !all.contains(name) && !package.links.is_disjoint(&all);
        let new = crates.iter().filter(|(name, package)| is_new(name, package)).map(|(name, _)| name.clone());
        let new: Vec<String> = new.collect();
        if new.is_empty() {
            return all;
        }
        all.extend(new);
    }
}

fn is_below(file: &str, folder: &str) -> bool {
    file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The path `file`, and what is left of it without its first folders, as long as it has one folder; of a file without folders its name.
fn ends(file: &str) -> impl Iterator<Item = &str> {
    let starts = [0].into_iter().chain(file.match_indices('/').map(|(at, _)| at + 1));
    starts.filter_map(|at| file.get(at..)).filter(move |end| end.contains('/') || *end == file)
}

/// Finds the paths in the texts of all Rust files: `include_str!`, `#[path]`, and what tests read. Each is taken without
/// the `../` at its beginning.
fn readers(root: &Path) -> Result<Readers> {
    let files = git(root, &["ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.rs"])?;
    let mut readers = Readers::new();
    for file in names(&files) {
        let folder: Vec<&str> = file.split('/').take(if file.starts_with("xtask/") { 1 } else { 2 }).collect();
        // A file that is deleted reads nothing any more.
        let text = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
        for path in text.split('"').filter(|text| text.contains('/') && !text.contains(char::is_whitespace)) {
            let end = path.trim_start_matches('/').trim_start_matches("../");
            readers.entry(end.to_owned()).or_default().insert(folder.join("/"));
        }
    }
    Ok(readers)
}

impl Reached {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// All of them.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.changed.iter().chain(&self.users).map(String::as_str)
    }

    /// Returns the arguments that select its tests: those of users up to [`SECONDS_MAX`], and of all the shortest up to
    /// [`TOGETHER_S`]. The whole workspace is built, since a part of it would be built with other features, together
    /// with all that it uses.
    pub fn selection(&self, times: &Times) -> Vec<String> {
        let of = |test: &str| test.split([' ', ':']).next().unwrap_or_default().to_owned();
        let is_there = |test: &str| self.programs.contains(test.split(' ').next().unwrap_or_default());
        let is_reached = |test: &str| self.packages().any(|name| name == of(test));
        let mut known: Vec<(&str, f64)> =
            times.least().filter(|(test, _)| is_there(test) && is_reached(test)).collect();
        known.sort_by(|a, b| a.1.total_cmp(&b.1));
        if known.is_empty() {
            println!("no times of these tests are known yet, so none is left out");
        }
        let mut together_s = 0.0;
        let is_long = |(test, seconds): &(&str, f64)| {
            let too_long = self.users.contains(&of(test)) && *seconds > SECONDS_MAX;
            together_s += if too_long { 0.0 } else { *seconds };
            too_long || together_s > TOGETHER_S
        };
        let long: Vec<(&str, f64)> = known.into_iter().filter(is_long).collect();
        let packages: Vec<String> = self.packages().map(|name| format!("package(={name})")).collect();
        let mut filter = packages.join(" + ");
        if !long.is_empty() {
            let names = long.iter().filter_map(|(test, _)| test.split_once(' '));
            let names: Vec<_> = names.map(|(of, name)| format!("(binary_id(={of}) & test(={name}))")).collect();
            println!("{} long tests are left to `cargo xtask test`, which proves all", long.len());
            filter = format!("({filter}) - ({})", names.join(" + "));
        }
        ["-E", &filter].map(str::to_owned).to_vec()
    }
}

/// A package of the workspace.
#[derive(Default)]
struct Package {
    folder: String,
    /// Crates that it or its tests are built of.
    uses: BTreeSet<String>,
    /// Crates that it is built of, without those that only its tests use.
    links: BTreeSet<String>,
    /// Test programs of it, by the names that the scheduler gives them.
    programs: BTreeSet<String>,
}

fn crates(root: &Path) -> Result<BTreeMap<String, Package>> {
    let metadata = metadata(root)?;
    let list = |value: &serde_json::Value, key: &str| {
        value.get(key).and_then(|all| all.as_array().cloned()).unwrap_or_default()
    };
    let text_of =
        |value: &serde_json::Value, key: &str| value.get(key).and_then(|text| text.as_str()).map(str::to_owned);
    let mut crates = BTreeMap::new();
    for package in list(&metadata, "packages") {
        let (name, manifest) = (text_of(&package, "name"), text_of(&package, "manifest_path"));
        let (name, manifest) = name.zip(manifest).ok_or("cargo metadata: a package without a name")?;
        let folder = Path::new(&manifest).parent().and_then(|folder| folder.strip_prefix(root).ok());
        let folder = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
        let dependencies = list(&package, "dependencies");
        let links = dependencies.iter().filter(|used| text_of(used, "kind").as_deref() != Some("dev"));
        let links = links.filter_map(|used| text_of(used, "name")).collect();
        let uses = dependencies.iter().filter_map(|used| text_of(used, "name")).collect();
        let targets = list(&package, "targets");
        let programs = targets.iter().filter_map(|target| {
            let kind = list(target, "kind").first().and_then(|kind| kind.as_str().map(str::to_owned))?;
            let own = text_of(target, "name")?;
            match kind.as_str() {
                "test" => Some(format!("{name}::{own}")),
                "bin" => Some(format!("{name}::bin/{own}")),
                _ => Some(name.clone()),
            }
        });
        let programs = programs.collect();
        crates.insert(name, Package { folder, uses, links, programs });
    }
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::example::{change, repository};

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn long_tests_of_users_and_the_longest_of_all_are_left_out() {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let text = "a::it x\t9.0/1.0\nb::it y\t9.0/1.0\nb::it z\t1.0/1.0 9.0/1.0\na::it long\t645.0/1.0\n\
                    b::gone y\t9.0/1.0\n";
        std::fs::write(kept.path(), text).unwrap();
        let reached = Reached { changed: set(&["a"]), users: set(&["b"]), programs: set(&["a::it", "b::it"]) };
        let selection = reached.selection(&Times::read(kept.path()).unwrap());
        let left = "(binary_id(=b::it) & test(=y)) + (binary_id(=a::it) & test(=long))";
        assert_eq!(selection, ["-E", &format!("(package(=a) + package(=b)) - ({left})")]);
    }

    #[test]
    fn what_is_not_proved_on_a_branch_is_changed_and_a_damaged_mark_does_not_matter() {
        let root = repository(&[(".gitignore", "/target\n"), ("a", "1")]);
        let root = root.path();
        let head = || git(root, &["rev-parse", "HEAD"]).unwrap();
        let main = head();
        assert_eq!(base(root, None).unwrap(), main);
        git(root, &["switch", "--quiet", "--create", "new"]).unwrap();
        change(root, &[("a", "2")]);
        assert_eq!(base(root, None).unwrap(), main, "the branch has no upstream");
        std::fs::create_dir(root.join("target")).unwrap();
        for (mark, expected) in [("", &main), ("dam aged", &main), (&*"1".repeat(40), &main), (&*head(), &head())] {
            std::fs::write(root.join("target/gate"), format!("{mark} tree\n")).unwrap();
            assert_eq!(base(root, None).unwrap(), *expected, "{mark}");
        }
        assert_eq!(base(root, Some("main")).unwrap(), "main");
        assert!(base(root, Some("a_test")).is_err_and(|wrong| wrong.starts_with("`a_test` is no commit")));
    }

    #[test]
    fn files_are_found_by_both_names_and_with_any_name() {
        let text = "a line\n".repeat(20);
        let root = repository(&[("a/old", &text), ("a/deleted", "x"), ("a/same", "")]);
        let root = root.path();
        std::fs::remove_file(root.join("a/deleted")).unwrap();
        std::fs::create_dir(root.join("b")).unwrap();
        std::fs::rename(root.join("a/old"), root.join("b/new")).unwrap();
        std::fs::write(root.join("b/ä \"page\".md"), "").unwrap();
        let expected = ["a/deleted", "a/old", "b/new", "b/ä \"page\".md"];
        assert_eq!(changed_files(root, "HEAD").unwrap(), set(&expected));
        git(root, &["add", "--all"]).unwrap();
        assert_eq!(changed_files(root, "HEAD").unwrap(), set(&expected), "renamed for git");
    }

    #[test]
    fn crates_that_read_a_page_or_a_file_of_another_crate_are_reached() {
        let root = repository(&[
            ("crates/a/src/lib.rs", "include_str!(\"../../../docs/src/a.md\");"),
            ("crates/b/tests/it/main.rs", "#[path = \"../../../c/src/shared.rs\"] mod shared;"),
            ("crates/b/tests/it/page.rs", "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../../docs/src/b.md\")"),
            ("stores/d/tests/it/main.rs", "root.join(\"docs/src/d.md\")"),
        ]);
        let package = |folder: &str, links: &[&str]| Package {
            folder: folder.to_owned(),
            uses: set(links),
            links: set(links),
            ..Package::default()
        };
        let crates = BTreeMap::from([
            ("a".to_owned(), package("crates/a", &[])),
            ("b".to_owned(), package("crates/b", &[])),
            ("c".to_owned(), package("crates/c", &[])),
            ("d".to_owned(), package("stores/d", &["a"])),
            ("e".to_owned(), package("crates/e", &["d"])),
            ("f".to_owned(), Package { uses: set(&["b"]), ..package("crates/f", &[]) }),
            ("g".to_owned(), package("crates/g", &["f"])),
            (TIDY.to_owned(), package("xtask", &[])),
        ]);
        let readers = readers(root.path()).unwrap();
        let reached = |files: &[&str]| {
            let Reached { changed, users, .. } = of_files(&set(files), &crates, &readers);
            [changed, users].map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(reached(&["docs/src/a.md"]), ["a xtask", "d e"]);
        assert_eq!(reached(&["docs/src/b.md"]), ["b xtask", "f"], "only the tests of f use b");
        assert_eq!(reached(&["docs/src/d.md"]), ["d xtask", "e"]);
        assert_eq!(reached(&["crates/c/src/shared.rs"]), ["b c", "f"]);
        assert_eq!(reached(&["crates/c/src/other.rs"]), ["c", ""]);
        assert_eq!(reached(&["README.md"]), ["xtask", ""]);
        assert_eq!(reached(&[".cargo/config.toml"]), ["a b c d e f g xtask", ""]);
        assert_eq!(reached(&[]), ["", ""]);
    }
}
