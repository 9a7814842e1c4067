//! Tasks on the repository: `cargo xtask test | gate | tidy | bench | peers | labs | lines | findings | dist | site |
//! pictures | assets`.
//!
//! | module | task |
//! |---|---|
//! | `test` | `test`: runs all tests, or those that a change can reach, on one scheduler |
//! | `setup` | installs what tests need |
//! | `times` | keeps the tests' times, shows and judges them |
//! | `changed` | finds the crates that a change can reach |
//! | `alone` | lets one run of tests at a time be on a machine |
//! | `memory` | watches the memory that is available |
//! | `memory_disk` | gives tests a disk in memory |
//! | `gate` | `gate`: whether HEAD was proved |
//! | `git` | asks git about the repository |
//! | `tidy` | `tidy`: the crate graph, the list of stores, files, links |
//! | `bench` | `bench`, `peers`: run the measurements in `bench/`, outside the workspace |
//! | `labs` | `labs`: how long clusters take until they stand, and until they are gone |
//! | `lines` | `lines`: the same search for the load line several times, and whether the searches agree |
//! | `findings` | `findings`: plants causes in servers, and counts how often findings name them; also in data of others |
//! | `dist` | `dist`: makes a release: archive, Debian package, bill of materials, checksums |
//! | `site` | `site`: builds the book as a site |
//! | `pypi` | programs at a fixed release, from PyPI |
//! | `pictures` | `pictures`: makes the pictures of README and book from a run |
//! | `assets` | `assets`: fetches the scripts that are kept in the repository |
//! | `leftovers` | finds what tests leave behind; removes what killed tests have left |
//! | `templates` | makes data directories of servers once a run |
//! | `process` | runs other programs |

#![allow(clippy::print_stdout, reason = "these are programs for a terminal")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod alone;
mod assets;
mod bench;
mod changed;
mod dist;
mod findings;
mod gate;
mod git;
mod labs;
mod leftovers;
mod lines;
mod memory;
mod memory_disk;
mod pictures;
mod process;
mod pypi;
mod setup;
mod site;
mod templates;
mod test;
mod tidy;
mod times;

const USAGE: &str = "\
cargo xtask test [--changed] [--heavy] [ARGUMENTS]
                               install what tests need where that is allowed, then run all tests; --help
cargo xtask gate               say whether HEAD was proved, and run .ci/run if not
cargo xtask tidy               check the crate graph, the list of stores, file sizes and names, links, language
cargo xtask bench keyindex     measure inserts and queries of keyindex on fjall
cargo xtask peers [ROW …]      compare the processor time of an operation with the best known clients; bench/README.md
cargo xtask labs N [STORE …]   how long labs take until they stand, and until they are gone, N times each; --debug
cargo xtask lines N CSV ARG …  `plimsoll line ARGUMENTS` N times with other seeds, and whether the searches agree
cargo xtask findings [TRIALS] [--seed N] [--resume] [--keep] CSV
                               plant causes in servers, and count how often findings name them: 300 trials, or as many
cargo xtask findings --others DIRECTORY CSV
                               count how often the right class of resource is named in data sets of others
cargo xtask dist [--target TRIPLE] [--twice] | --try
                               make a release of HEAD in target/dist and try it in an empty root; --twice builds it again
                               elsewhere and compares; --try only tries the last one
cargo xtask site               build the book as a site in target/site, and follow its links
cargo xtask pictures [PROGRAM] make the pictures of README and book again from a run, of a new release build or PROGRAM
cargo xtask mysql              fetch MySQL 5.6 from npm, and run the MariaDB store's tests against it
cargo xtask assets             fetch the scripts in crates/report/assets again";

/// Result of a task: nothing, or a description of the fault and its remedy.
type Result<T = ()> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let root = root();
    let alone = || alone::alone(std::path::Path::new(alone::LOCK), &root);
    let done = match &words[..] {
        ["help" | "--help" | "-h", ..] => {
            println!("{USAGE}");
            Ok(())
        }
        ["test", "--help" | "-h"] => {
            println!("{}", test::USAGE);
            Ok(())
        }
        ["test", ..] => test::test(&root, rest),
        ["test-program", ..] => match leftovers::test_program(rest) {
            Ok(code) => return ExitCode::from(code),
            Err(what) => Err(what),
        },
        ["gate"] => gate::gate(&root),
        ["gate", "--begin"] => gate::begin(&root),
        ["gate", "--mark", begun] => gate::mark(&root, begun),
        ["tidy"] => tidy::tidy(&root),
        ["tidy", "--prose"] => tidy::list_prose(&root, None),
        ["tidy", "--prose", area] => tidy::list_prose(&root, Some(area)),
        // A run of tests would disturb what they measure, and they its times.
        ["bench", ..] => alone().and_then(|_alone| bench::bench(&root, &[], rest)),
        ["peers", ..] => alone().and_then(|_alone| bench::bench(&root, &["peers"], rest)),
        ["labs", ..] => alone().and_then(|_alone| labs::labs(&root, rest)),
        ["lines", ..] => alone().and_then(|_alone| lines::lines(&root, rest)),
        ["findings", ..] => alone().and_then(|_alone| findings::findings(&root, rest)),
        ["dist", ..] => dist::dist(&root, rest),
        ["site"] => site::site(&root),
        ["pictures", ..] => pictures::pictures(&root, rest),
        ["mysql"] => setup::mysql(&root),
        ["assets"] => assets::refresh(&root),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the repository's own directory: of the clone that cargo runs this in. Clones may share what is built.
fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let own = own.filter(|own| own.ends_with("xtask"));
    let own = own.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    own.parent().map_or_else(PathBuf::new, Path::to_owned)
}
