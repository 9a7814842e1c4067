//! Data directories that a run of tests makes once: further servers with the same command line of their set-up program
//! begin with a copy. `plimsoll-lab` gives that command line to the program here, which `PLIMSOLL_TEST_SET_UP` names.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::leftovers::SCRATCH;

/// Environment variable with the program that runs set-up programs.
pub const SET_UP: &str = "PLIMSOLL_TEST_SET_UP";
/// Parent directory, which servers' users can reach. A next run removes what a killed one left there.
pub const BASE: &str = "/var/tmp";
/// File name of the program.
const PROGRAM: &str = "set-up";
/// Directory of the templates, beside the program.
const MADE: &str = "made";

/// The program: `set-up DATA COMMAND ARGUMENT…` fills the directory DATA, with the server's user and limits.
///
/// A command whose directory has files already is always run: they may hold a password, or belong to a replica. Other
/// programs are always run, too. The first server of a command line is made by the real program, and those that start
/// at the same time wait for it.
const SCRIPT: &str = r#"#!/bin/sh
set -eu
data=$1
shift
case ${1##*/} in
initdb) holes=never ;;
# Its log is 96 MB of space without contents.
mariadb-install-db) holes=always ;;
*) exec "$@" ;;
esac
if [ -n "$(find "$data" ! -type d -print -quit)" ]; then
    exec "$@"
fi
# The contents are the same whether they are synced or not. A copy is not: where power can be cut, the lab syncs later.
key=$({ id -u; printf '%s\n' "$@"; } | grep -vxF -e --no-sync | sed "s|$data|DATA|g" | sha256sum | cut -c 1-16)
template=${0%/*}/made/$key
if [ ! -d "$template" ]; then
    exec 9>"$template.lock"
    flock 9
    if [ ! -d "$template" ]; then
        "$@" 9>&-
        if cp -a --sparse="$holes" "$data/." "$template.$$"; then
            mv -T "$template.$$" "$template"
        else
            rm -rf "$template.$$"
        fi
        exit 0
    fi
    exec 9>&-
fi
cp -a --reflink=auto "$template/." "$data"
if [ "$holes" = always ]; then
    # Space that the program reserved is reserved in a copy, too.
    reserve='for file; do fallocate --length "$(stat -c %s "$file")" "$file" || exit 1; done'
    find "$data" -type f -size +1023k -exec sh -c "$reserve" sh {} +
fi
"#;

/// Templates of a run, which end with this value.
pub struct Templates(PathBuf);

impl Templates {
    /// Makes a directory for templates in `base`, with the program.
    pub fn make(base: &Path) -> Result<Self> {
        let place = base.join(format!("{SCRATCH}{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", place.display());
        // A run that was killed may have had the same number.
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).map_err(failed)?;
        let templates = Self(place.clone());
        let made = place.join(MADE);
        fs::create_dir(&made).and_then(|()| fs::write(templates.program(), SCRIPT)).map_err(failed)?;
        // Each server's user makes its own templates.
        for (path, mode) in [(&place, 0o755), (&made, 0o1777), (&templates.program(), 0o755)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
        }
        let mut tried = Command::new(templates.program());
        let tried = tried.args(["/", "true"]).stdin(Stdio::null()).status().map_err(failed)?;
        if tried.success() { Ok(templates) } else { Err(format!("{}: {tried}", templates.program().display())) }
    }

    /// Returns the path of the program.
    pub fn program(&self) -> PathBuf {
        self.0.join(PROGRAM)
    }
}

impl Drop for Templates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const MIB: u64 = 1 << 20;
    /// Counts its runs in the file `runs` beside it. Leaves a part of its directory if it is to fail, and has written
    /// in a directory of its own below DATA otherwise.
    const FAKE: &str = "#!/bin/sh\n\
        echo run >>\"${0%/*}/runs\"\n\
        for word; do data=${word#--datadir=}; done\n\
        case $* in *fails*) echo part >\"$data/part\"; echo 'no such locale' >&2; exit 3 ;; esac\n\
        sleep 0.2\n\
        mkdir -p \"$data/base\" && echo contents >\"$data/base/1\" && chmod 600 \"$data/base/1\"\n\
        fallocate --length 2MiB \"$data/log\"\n";

    struct Place {
        place: tempfile::TempDir,
        templates: Templates,
    }

    impl Place {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            for name in ["initdb", "mariadb-install-db", "other"] {
                fs::write(place.path().join(name), FAKE).unwrap();
                fs::set_permissions(place.path().join(name), Permissions::from_mode(0o755)).unwrap();
            }
            let templates = Templates::make(place.path()).unwrap();
            Self { place, templates }
        }

        /// Sets up the directory `data` by `program`, with `words` before the directory.
        fn set_up(&self, data: &str, program: &str, words: &[&str]) -> Command {
            let data = self.place.path().join(data);
            fs::create_dir_all(&data).unwrap();
            let mut command = Command::new(self.templates.program());
            command.arg(&data).arg(self.place.path().join(program)).args(words);
            command.arg(format!("--datadir={}", data.display()));
            command
        }

        /// Sets up as [`Place::set_up`] does, and returns the exit code.
        fn code(&self, data: &str, program: &str, words: &[&str]) -> Option<i32> {
            self.set_up(data, program, words).stderr(Stdio::null()).status().unwrap().code()
        }

        /// Number of times that a program was run.
        fn runs(&self) -> usize {
            fs::read_to_string(self.place.path().join("runs")).unwrap_or_default().lines().count()
        }

        /// Fails unless the directory `data` holds everything that the program makes.
        fn holds_all(&self, data: &str) {
            let data = self.place.path().join(data);
            assert_eq!(fs::read_to_string(data.join("base/1")).unwrap(), "contents\n");
            assert_eq!(data.join("base/1").metadata().unwrap().mode() & 0o777, 0o600);
            let log = data.join("log").metadata().unwrap();
            assert_eq!(log.len(), 2 * MIB);
            assert!(log.blocks() * 512 >= log.len(), "its space is reserved: {} blocks", log.blocks());
        }
    }

    #[test]
    fn a_data_directory_is_made_once_and_copied_then() {
        let place = Place::new();
        let steps: [(&str, &[&str], usize); 4] = [
            ("a", &["-E", "UTF8"], 1),
            ("b", &["-E", "UTF8"], 1),
            ("c", &["-E", "UTF8", "--no-sync"], 1),
            ("d", &["-E", "UTF8", "--data-checksums"], 2),
        ];
        for (data, words, runs) in steps {
            assert_eq!(place.code(data, "initdb", words), Some(0), "{data}");
            place.holds_all(data);
            assert_eq!(place.runs(), runs, "{data}");
        }
        for (data, runs) in [("e", 3), ("f", 3)] {
            assert_eq!(place.code(data, "mariadb-install-db", &[]), Some(0), "{data}");
            place.holds_all(data);
            assert_eq!(place.runs(), runs, "{data}");
        }
        let there = place.templates.program();
        drop(place.templates);
        assert!(!there.parent().unwrap().exists());
    }

    #[test]
    fn servers_that_start_at_the_same_time_wait_for_the_first() {
        let place = Place::new();
        let names = ["a", "b", "c", "d"];
        let mut all: Vec<_> = names.iter().map(|data| place.set_up(data, "initdb", &[]).spawn().unwrap()).collect();
        assert!(all.iter_mut().all(|one| one.wait().unwrap().success()));
        names.iter().for_each(|data| place.holds_all(data));
        assert_eq!(place.runs(), 1);
    }

    #[test]
    fn what_a_command_line_does_not_determine_is_run_each_time() {
        let place = Place::new();
        for (number, data) in ["a", "b"].into_iter().enumerate() {
            assert_eq!(place.code(data, "other", &[]), Some(0));
            assert_eq!(place.runs(), 3 * number + 1, "another program");
            let data = format!("{data}-with-files");
            fs::create_dir(place.place.path().join(&data)).unwrap();
            fs::write(place.place.path().join(&data).join("password"), "secret").unwrap();
            assert_eq!(place.code(&data, "initdb", &[]), Some(0));
            assert_eq!(place.runs(), 3 * number + 2, "a directory with a file");
            assert_eq!(place.code(&format!("{data}-failed"), "initdb", &["fails"]), Some(3));
            assert_eq!(place.runs(), 3 * number + 3, "a failure");
        }
        let mut templates = fs::read_dir(place.templates.0.join(MADE)).unwrap().flatten();
        assert!(templates.all(|entry| entry.path().extension().is_some_and(|end| end == "lock")));
    }
}
