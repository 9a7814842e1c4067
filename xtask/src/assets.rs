//! `cargo xtask assets`: fetches the scripts that the report's page carries, at a version and with a checksum.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::{output, run};

/// The package's place in the npm registry, its version included.
const URL: &str = "https://registry.npmjs.org/uplot/-/uplot-1.6.32.tgz";
/// SHA-256 of that archive.
const SHA256: &str = "4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d";
/// Files that are kept: name in the archive, name in the repository.
const FILES: [(&str, &str); 3] = [
    ("package/dist/uPlot.iife.min.js", "uPlot.iife.min.js"),
    ("package/dist/uPlot.min.css", "uPlot.min.css"),
    ("package/LICENSE", "uPlot.LICENSE"),
];

/// Downloads, checks, and replaces the files in `crates/report/assets`.
pub fn refresh(root: &Path) -> Result {
    let directory = root.join("target/assets");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let archive = directory.join("uplot.tgz");
    let fetch = ["--fail", "--silent", "--show-error", "--location", "--max-time", "60", "--output"];
    run(Command::new("curl").args(fetch).arg(&archive).arg(URL))?;
    let sum = output(Command::new("sha256sum").arg(&archive))?;
    if sum.split_whitespace().next() != Some(SHA256) {
        return Err(format!("{URL}: its checksum is {sum}, not {SHA256}; nothing was changed"));
    }
    run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&directory))?;
    for (from, to) in FILES {
        let (from, to) = (directory.join(from), root.join("crates/report/assets").join(to));
        fs::copy(&from, &to).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))?;
        println!("{}", to.display());
    }
    Ok(())
}
