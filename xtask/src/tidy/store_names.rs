//! Checks that store-specific code is in the store's folder: no crate outside of `stores` names a store in its code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::read;
use super::rust_text::{Piece, pieces};
use crate::Result;

/// Names of stores and their schemes that are words of their own, which anybody says: interfaces, and nothing.
const ALSO_WORDS: [&str; 5] = ["http", "https", "ldap", "null", "all"];

/// Occurrences of a store's name with another meaning. Each must be needed.
const SOMETHING_ELSE: [(&str, &[&str], &str); 11] = [
    ("crates/core/src/store.rs", &["postgres", "mysql", "sqlite"], "SQL's dialects have names of their own"),
    ("crates/core/src/parameters.rs", &["postgres", "mysql"], "a statement is read as one of SQL's dialects"),
    ("crates/plan/src/url.rs", &["nats", "natss"], "text is masked where no catalogue is at hand"),
    ("crates/capture/src/pieces.rs", &["mysql"], "a statement is read as one of SQL's dialects"),
    ("crates/record/src/", &["sqlite"], "a recording is a file of that library"),
    ("crates/cli/src/habits.rs", &[], "other tools and their options are called after the servers that they drive"),
    ("crates/lab/src/proxy.rs", &["haproxy"], "a proxy stands in front of any store's servers"),
    ("crates/endpoint/src/equals/", &["haproxy"], "a description says that clients go through a proxy"),
    ("crates/logs/src/", &["haproxy"], "a format of logs is called after the program that writes it"),
    ("crates/cli/src/args.rs", &[], "the help's examples are for people; none stands for all"),
    ("crates/cli/src/args/", &[], "the same of verbs whose options have files of their own"),
];

/// Reports every place where code of `crates` names a store, or asks the catalogue for one by a name of its own.
pub fn check(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result {
    let names = names(root, files)?;
    let mut needed = BTreeSet::new();
    for file in files.iter().filter(|file| is_production(file)) {
        let (place, text) = (file.to_string_lossy(), read(root, file)?);
        let other = SOMETHING_ELSE.iter().find(|(prefix, ..)| place.starts_with(prefix));
        for (line, before, piece) in pieces(&text) {
            if before.ends_with(".store(")
                && let Piece::Text(text) = piece
            {
                wrong.push(format!("{place}:{line}: asks for the store \"{text}\" by its name"));
                continue;
            }
            let Some(name) = named(&names, before, piece) else { continue };
            match other {
                Some((prefix, known, _)) if known.is_empty() || known.contains(&name) => {
                    needed.insert(*prefix);
                }
                _ => wrong.push(format!("{place}:{line}: names {name}, whose business stands in stores/")),
            }
        }
    }
    for (prefix, _, why) in SOMETHING_ELSE.iter().filter(|(prefix, ..)| !needed.contains(prefix)) {
        if root.join(prefix).exists() {
            wrong.push(format!("{prefix}: names no store; take it out of xtask/src/tidy/store_names.rs ({why})"));
        }
    }
    Ok(())
}

/// Code that is neither a test nor what tests use.
fn is_production(file: &Path) -> bool {
    let mut folders = file.components().map(|part| part.as_os_str());
    let is_apart = |name: &str| matches!(name, "tests" | "examples" | "benches" | "testkit");
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    folders.next().is_some_and(|first| first == "crates")
        && folders.all(|folder| !is_apart(&folder.to_string_lossy()))
        && name.ends_with(".rs")
        && !name.ends_with("tests.rs")
}

/// Returns the names of stores: their folders', and in their specs their schemes and packages.
pub fn names(root: &Path, files: &[PathBuf]) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for file in files.iter().filter(|file| file.starts_with("stores") && file.iter().any(|folder| folder == "src")) {
        names.extend(file.iter().nth(1).map(|folder| folder.to_string_lossy().into_owned()));
        let text = read(root, file)?;
        let mut list = false;
        for (_, before, piece) in pieces(&text) {
            match piece {
                Piece::Name(key) => list = matches!(key, "schemes" | "packages"),
                Piece::Text(name) if list && before.trim_end().ends_with(['[', ',']) => {
                    names.insert(name.to_owned());
                }
                Piece::Text(_) => list = false,
            }
        }
    }
    names.retain(|name| !ALSO_WORDS.contains(&name.as_str()));
    Ok(names)
}

/// The store that `piece` names, if it names one.
fn named<'n>(names: &'n BTreeSet<String>, before: &str, piece: Piece<'_>) -> Option<&'n str> {
    let words = match piece {
        Piece::Text(text) => text.to_lowercase(),
        Piece::Name(_) if before.ends_with("Dialect::") => return None,
        // `RedisStore` has two words.
        Piece::Name(name) => {
            let mut words = String::new();
            for c in name.chars() {
                if c.is_uppercase() && words.ends_with(|before: char| before.is_lowercase()) {
                    words.push('_');
                }
                words.push(c);
            }
            words.to_lowercase()
        }
    };
    let is_whole = |at: usize, length: usize| {
        // A file's ending is no name: `run.sqlite`.
        let begins = !words[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.');
        begins && !words[at + length..].starts_with(char::is_alphanumeric)
    };
    let is_named = |name: &&String| words.match_indices(name.as_str()).any(|(at, _)| is_whole(at, name.len()));
    // The longest says most: `redis+unix` and not `redis`.
    names.iter().filter(is_named).max_by_key(|name| name.len()).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::super::tests::refused;
    use super::*;

    const SPEC: &str = "static SPEC: StoreSpec = StoreSpec {\n    name: \"one\",\n    schemes: &[\"ones\", \"one+unix\"],\n    \
        packages: &[\"one-server\"],\n    summary: \"a store\",\n};\n";

    /// Returns the errors for a repository that has the store `one`, `http`, and this file.
    fn wrong(path: &str, text: &str) -> Vec<String> {
        refused(check, &[("stores/http/src/lib.rs", ""), ("stores/one/src/kind.rs", SPEC), (path, text)])
    }

    #[test]
    fn every_way_to_name_a_store_is_seen() {
        for (code, name) in [
            ("if scheme == \"one\" {}", "one"),
            ("\"ones\" | \"one+unix\" => 1,", "ones"),
            ("let path = \"/dev/shm/One.7\";", "one"),
            ("code.starts_with(\"ONE_BUSY\")", "one"),
            ("let text = \"apt-get install one-server\";", "one-server"),
            ("use plimsoll_store_one::kind;", "one"),
            ("fn is_one(kind: OneStore) {}", "one"),
            ("const OF_ONE: &str = r#\"--on one\"#;", "one"),
        ] {
            let wrong = wrong("crates/plan/src/url.rs", &format!("//! one\n/// one\nfn a() {{}} // one\n{code}\n"));
            let expected = format!("crates/plan/src/url.rs:4: names {name}, ");
            assert!(wrong.first().is_some_and(|wrong| wrong.starts_with(&expected)), "{code}: {wrong:?}");
        }
        let asked = wrong("crates/cli/src/x.rs", "let kind = catalogue.store(\"null\");");
        assert_eq!(asked, ["crates/cli/src/x.rs:1: asks for the store \"null\" by its name"]);
    }

    #[test]
    fn what_is_no_name_or_no_code_of_a_crate_is_nothing_to_talk_about() {
        let code = "fn stone(done: &str) { \"run.one\" ; \"lone ones1\"; Dialect::One; \"http://null\"; }\n\
            #[cfg(test)]\nmod tests {\n    \"one\"\n}\n";
        assert_eq!(wrong("crates/plan/src/parse.rs", code), Vec::<String>::new());
        for path in
            ["crates/plan/tests/it/x.rs", "crates/plan/src/url_tests.rs", "crates/testkit/src/x.rs", "xtask/src/x.rs"]
        {
            assert_eq!(wrong(path, "\"one\""), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn an_exception_has_to_be_needed() {
        let unneeded = wrong("crates/cli/src/args.rs", "\"--on STORE\"");
        assert!(
            unneeded.len() == 1 && unneeded[0].starts_with("crates/cli/src/args.rs: names no store; "),
            "{unneeded:?}"
        );
        assert_eq!(wrong("crates/cli/src/args.rs", "\"--on one\""), Vec::<String>::new());
    }
}
