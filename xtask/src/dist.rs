//! `cargo xtask dist`: a release, as archive, Debian package, bill of materials and checksums in `target/dist`.
//!
//! The program is linked statically, so it needs nothing of the machine that it runs on but a kernel. glibc takes the
//! place of musl, for which Rust's library is not always to be had. Paths are replaced by fixed ones, and times are the
//! commit's, so that two builds of a commit can be the same bytes; `--twice` compares them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::git::git;
use crate::process::{built, cargo, line_of, output, run};

mod empty_root;
mod materials;

use materials::Materials;

/// Largest size of the program, in bytes.
const LARGEST: u64 = 25_000_000;

/// Options of the linker: functions of the same code once, and relocations in a few bytes. Together 5 % of the program.
const SMALLER: [&str; 2] = ["-Clink-arg=-Wl,--icf=all", "-Clink-arg=-Wl,-z,pack-relative-relocs"];

/// Pages, completions and texts lie here in archives, below the directory that they are unpacked in.
const MAN: &str = "share/man/man1";
const TEXTS: &str = "share/doc/plimsoll";

/// Shells, with the paths of their completions.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/plimsoll"),
    ("zsh", "share/zsh/site-functions/_plimsoll"),
    ("fish", "share/fish/vendor_completions.d/plimsoll.fish"),
];

/// Texts of the repository that go into archives.
const FILES: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Release in the making.
struct Release<'a> {
    root: &'a Path,
    target: &'a str,
    version: String,
    commit: String,
    /// Time of the commit, in seconds since 1970.
    time: String,
}

/// Makes a release of HEAD for this machine or another, and tries it. With `--twice`, makes it a second time from a clone
/// elsewhere, and compares the two. With `--try`, only tries the last one.
pub fn dist(root: &Path, arguments: &[String]) -> Result {
    let usage = "cargo xtask dist [--target TRIPLE] [--twice] | --try";
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let host = of_rustc("host")?;
    let (target, twice) = match words[..] {
        [] => (&*host, false),
        ["--twice"] => (&*host, true),
        ["--try"] => return empty_root::trial(&Release::of_head(root, &host)?.archive(&root.join("target/dist"))),
        ["--target", target] => (target, false),
        ["--target", target, "--twice"] | ["--twice", "--target", target] => (target, true),
        _ => return Err(usage.to_owned()),
    };
    if !git(root, &["status", "--porcelain"])?.is_empty() {
        return Err(
            "uncommitted changes would be in the release and not in its commit\n  → commit them first".to_owned()
        );
    }
    can_build_for(target)?;
    let place = root.join("target/dist");
    let files = Release::of_head(root, target)?.make(&place)?;
    if twice {
        let clone = std::env::temp_dir().join(format!("plimsoll-dist-{}", std::process::id()));
        run(Command::new("git").args(["clone", "--quiet", "--local"]).arg(root).arg(&clone))?;
        let again = Release::of_head(&clone, target).and_then(|release| release.make(&clone.join("target/dist")));
        if let Ok(again) = &again {
            // Builds that differ stay, to be looked into.
            compare(&files, again)
                .map_err(|what| format!("{what}\n  → compare them, then remove {}", clone.display()))?;
        }
        let removed = std::fs::remove_dir_all(&clone).map_err(|error| format!("{}: {error}", clone.display()));
        again.map(drop).and(removed)?;
        println!("a second build in another directory gave the same bytes");
    }
    // A program for another machine does not run here.
    if let Some(archive) = files.first().filter(|_| target == host) {
        empty_root::trial(archive)?;
        println!("the program runs in an empty root");
    }
    for file in &files {
        println!("{}", file.display());
    }
    Ok(())
}

/// Returns what `rustc -vV` states as `key`: `host`, `release`.
fn of_rustc(key: &str) -> Result<String> {
    let all = line_of(Command::new("rustc").arg("-vV"))?;
    let value = all.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    value.map(str::to_owned).ok_or_else(|| format!("rustc -vV states no {key}:\n{all}"))
}

/// Fails if Rust's library for `target` is missing.
fn can_build_for(target: &str) -> Result {
    let library = PathBuf::from(line_of(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?);
    if library.is_dir() {
        return Ok(());
    }
    Err(format!("Rust's library for {target} is not installed\n  → rustup target add {target}"))
}

/// Fails with the name of the first file that differs.
fn compare(first: &[PathBuf], second: &[PathBuf]) -> Result {
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    for (a, b) in first.iter().zip(second) {
        if read(a)? != read(b)? {
            return Err(format!("two builds differ: {} and {}", a.display(), b.display()));
        }
    }
    Ok(())
}

impl<'a> Release<'a> {
    fn of_head(root: &'a Path, target: &'a str) -> Result<Release<'a>> {
        let package = crate::process::metadata(root)?;
        let packages = package["packages"].as_array().into_iter().flatten();
        let version =
            packages.into_iter().find(|one| one["name"] == "plimsoll").and_then(|one| one["version"].as_str());
        Ok(Release {
            root,
            target,
            version: version.ok_or("the workspace has no package plimsoll")?.to_owned(),
            commit: git(root, &["rev-parse", "HEAD"])?,
            time: git(root, &["show", "--no-patch", "--format=%ct", "HEAD"])?,
        })
    }

    /// Returns the name of archives, without ending.
    fn name(&self) -> String {
        format!("plimsoll-{}-{}", self.version, self.target)
    }

    fn archive(&self, place: &Path) -> PathBuf {
        place.join(format!("{}.tar.gz", self.name()))
    }

    /// Makes all files of the release in `place`, and returns their paths.
    fn make(&self, place: &Path) -> Result<Vec<PathBuf>> {
        let failed = |error: std::io::Error| format!("{}: {error}", place.display());
        if place.exists() {
            std::fs::remove_dir_all(place).map_err(failed)?;
        }
        let program = self.build()?;
        let size = std::fs::metadata(&program).map_err(failed)?.len();
        if size > LARGEST {
            return Err(format!("{} has {size} bytes, more than {LARGEST}", program.display()));
        }
        let name = self.name();
        let tree = place.join(&name);
        let materials = Materials::of(self.root, self.target)?;
        self.fill(&tree, &program, &materials)?;
        let archive = self.archive(place);
        self.pack(place, &name, &archive)?;
        let package = self.debian(place, &tree)?;
        let sbom = place.join(format!("{name}.cdx.json"));
        std::fs::write(&sbom, materials.sbom(&self.version, &self.commit)).map_err(failed)?;
        let mut files = vec![archive, package, sbom];
        let names = files.iter().filter_map(|file| file.file_name());
        let sums = output(Command::new("sha256sum").args(names).current_dir(place))?;
        files.push(place.join("SHA256SUMS"));
        std::fs::write(place.join("SHA256SUMS"), sums).map_err(failed)?;
        Ok(files)
    }

    /// Builds the program, without symbols, and returns its path.
    fn build(&self) -> Result<PathBuf> {
        let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
        let home = home.map_err(|_| "neither CARGO_HOME nor HOME is set")?;
        let paths = [(self.root.to_string_lossy().into_owned(), "/plimsoll"), (home, "/cargo")];
        let rust = paths.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}"));
        let rust: Vec<String> = ["-Ctarget-feature=+crt-static".to_owned()].into_iter().chain(rust).collect();
        let c = paths.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect::<Vec<_>>().join(" ");
        let target = self.root.join("target/dist-build");
        run(cargo()
            .args([
                "rustc",
                "--locked",
                "--release",
                "--package",
                "plimsoll",
                "--bin",
                "plimsoll",
                "--target",
                self.target,
            ])
            // The workspace has settings for this package, beside which cargo ignores `profile.release.strip`.
            .args([
                "--config",
                "profile.release.package.plimsoll.strip=true",
                "--config",
                "profile.release.debug=false",
            ])
            .arg("--target-dir")
            .arg(&target)
            .arg("--")
            .args(SMALLER)
            // An option with spaces would be split in RUSTFLAGS.
            .env("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f"))
            .env("CFLAGS", c)
            .env("PLIMSOLL_COMMIT", &self.commit)
            .env("SOURCE_DATE_EPOCH", &self.time)
            .env("CARGO_INCREMENTAL", "0")
            .current_dir(self.root))?;
        Ok(target.join(self.target).join("release/plimsoll"))
    }

    /// Fills `tree` with the program, its pages and completions, and texts.
    fn fill(&self, tree: &Path, program: &Path, materials: &Materials) -> Result {
        let failed = |error: std::io::Error| format!("{}: {error}", tree.display());
        for directory in ["bin", MAN, TEXTS] {
            std::fs::create_dir_all(tree.join(directory)).map_err(failed)?;
        }
        std::fs::copy(program, tree.join("bin/plimsoll")).map_err(failed)?;
        // A program for another machine cannot be asked: the one of this machine has the same pages.
        let asked = if self.target == of_rustc("host")? { program.to_owned() } else { built(self.root, "release")? };
        line_of(Command::new(&asked).arg("man").arg(tree.join(MAN)))?;
        for (shell, path) in SHELLS {
            let path = tree.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(tree)).map_err(failed)?;
            // What completes is found by name, wherever it is installed.
            let script = output(Command::new(&asked).args(["completions", shell]))?;
            std::fs::write(&path, script.replace(&*asked.to_string_lossy(), "plimsoll")).map_err(failed)?;
        }
        for file in FILES {
            std::fs::copy(self.root.join(file), tree.join(TEXTS).join(file)).map_err(failed)?;
        }
        std::fs::write(tree.join(TEXTS).join("THIRD-PARTY-LICENSES"), materials.licences()).map_err(failed)
    }

    /// Packs the directory `name` in `place` as `archive`.
    fn pack(&self, place: &Path, name: &str, archive: &Path) -> Result {
        let time = format!("--mtime=@{}", self.time);
        run(Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rw,go+r-w,a+X", &time])
            // Without the time of packing, which gzip puts at the beginning of a file.
            .args(["--use-compress-program=gzip -9n", "--create", "--file"])
            .arg(archive)
            .args(["--directory"])
            .arg(place)
            .arg(name))
    }

    /// Makes a Debian package from `tree`, and returns its path.
    fn debian(&self, place: &Path, tree: &Path) -> Result<PathBuf> {
        let machine = match self.target.split('-').next() {
            Some("x86_64") => "amd64",
            Some("aarch64") => "arm64",
            other => return Err(format!("Debian's name of the machine {} is not known", other.unwrap_or_default())),
        };
        let package = place.join(format!("plimsoll_{}_{machine}.deb", self.version));
        let root = place.join("debian");
        let failed = |error: std::io::Error| format!("{}: {error}", root.display());
        std::fs::create_dir_all(root.join("DEBIAN")).map_err(failed)?;
        run(Command::new("cp").arg("-a").arg(tree).arg(root.join("usr")))?;
        let control = format!(
            "Package: plimsoll\nVersion: {}\nArchitecture: {machine}\nMaintainer: The Plimsoll authors\nSection: \
             database\nPriority: optional\nDescription: finds how much load a data store can safely carry\n Drives a \
             store, checks every answer, cuts the power of its disk, and says which load it carries and why not more.\n",
            self.version
        );
        std::fs::write(root.join("DEBIAN/control"), control).map_err(failed)?;
        run(Command::new("chmod").args(["-R", "u+rw,go+r-w,a+X"]).arg(&root))?;
        run(Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .arg(&root)
            .arg(&package)
            .env("SOURCE_DATE_EPOCH", &self.time))?;
        std::fs::remove_dir_all(&root).map_err(failed)?;
        Ok(package)
    }
}
