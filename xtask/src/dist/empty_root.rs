//! Trial of an archive: its program runs in a root with nothing else in it, and names what it lacks there.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::Result;
use crate::process::{line_of, run};

/// Command in the empty root.
struct Step {
    arguments: &'static [&'static str],
    code: i32,
    /// Text that it prints.
    says: &'static str,
}

const STEPS: [Step; 4] = [
    Step { arguments: &["--version"], code: 0, says: "plimsoll " },
    Step { arguments: &["run", "coupons", "--quick"], code: 0, says: "PASS" },
    Step {
        arguments: &["drive", "kv", "--on", "sqlite", "--set", "records=1000", "--for", "1s"],
        code: 0,
        says: "PASS",
    },
    // Without FUSE and loop devices no power can be cut.
    Step { arguments: &["promise", "sqlite", "--for", "1s", "--cuts", "1"], code: 5, says: "/dev/fuse" },
];

/// Drive of a server outside of the root, before its URL.
const ATTACHED: Step =
    Step { arguments: &["drive", "tpcb", "--set", "scale=1", "--for", "1s", "--on"], code: 0, says: "MEASURED" };

/// Limit of a command, in seconds.
const LONGEST_S: &str = "120";

/// Starts a PostgreSQL for this trial: directory of the data, port.
const POSTGRES: &str = "\
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
\"$bin/initdb\" --no-sync --auth trust --username try --pgdata \"$1\" >/dev/null
exec \"$bin/pg_ctl\" -D \"$1\" -l \"$1/log\" -w -o \"-p $2 -k '' -c listen_addresses=127.0.0.1 -c fsync=off\" start >/dev/null";
/// Stops it: directory of the data.
const STOP: &str =
    "exec \"$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/pg_ctl\" -D \"$1\" -m fast -w stop >/dev/null";

/// Runs every step with the program of `archive`. Fails with the first command that does not do what it should.
pub fn trial(archive: &Path) -> Result {
    if !archive.exists() {
        return Err(format!("{} does not exist\n  → cargo xtask dist", archive.display()));
    }
    let place = std::env::temp_dir().join(format!("plimsoll-empty-root-{}", std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    let root = place.join("root");
    // Directories of both are for the server's user, too.
    fs::create_dir_all(root.join("tmp")).map_err(failed)?;
    let tried = unpack(archive, &root).and_then(|()| steps(&root, &place.join("postgres")));
    let removed = fs::remove_dir_all(&place).map_err(failed);
    tried.and(removed)
}

fn unpack(archive: &Path, root: &Path) -> Result {
    run(Command::new("tar").args(["--strip-components=1", "-xzf"]).arg(archive).arg("--directory").arg(root))
}

fn steps(root: &Path, data: &Path) -> Result {
    for step in &STEPS {
        judge(step, &inside(root, step.arguments)?)?;
    }
    let server = Postgres::start(data)?;
    let arguments = [ATTACHED.arguments, &[&*server.url]].concat();
    judge(&ATTACHED, &inside(root, &arguments)?)
}

/// Runs `/bin/plimsoll` in `root`, with nothing of this environment.
fn inside(root: &Path, arguments: &[&str]) -> Result<Output> {
    eprintln!("+ chroot … plimsoll {}", arguments.join(" "));
    let mut command = Command::new("timeout");
    command.args([LONGEST_S, "chroot"]).arg(root).arg("/bin/plimsoll").args(arguments);
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).env("XDG_STATE_HOME", "/tmp").stdin(Stdio::null());
    command.output().map_err(|error| format!("timeout chroot {}: {error}", root.display()))
}

/// Fails if `done` is not what `step` is to give.
fn judge(step: &Step, done: &Output) -> Result {
    let said = [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    if done.status.code() == Some(step.code) && said.contains(step.says) {
        return Ok(());
    }
    let Step { arguments, code, says } = step;
    let arguments = arguments.join(" ");
    Err(format!(
        "in an empty root, `plimsoll {arguments}` ended with {}, not code {code} and `{says}`:\n{said}",
        done.status
    ))
}

/// PostgreSQL on a port of the loopback interface, which ends with this value.
struct Postgres {
    data: PathBuf,
    url: String,
}

impl Postgres {
    fn start(data: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| format!("{}: {error}", data.display());
        fs::create_dir(data).map_err(failed)?;
        line_of(Command::new("chown").arg("postgres:postgres").arg(data))?;
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(failed)?.port();
        let server = Postgres { data: data.to_owned(), url: format!("postgres://try@127.0.0.1:{port}/postgres") };
        line_of(server.shell(POSTGRES).arg(port.to_string()))
            .map_err(|what| format!("{what}\nthe trial needs PostgreSQL\n  → apt-get install postgresql"))?;
        Ok(server)
    }

    /// Returns `script` as a command of the server's user, with the directory of the data.
    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups", "sh", "-c", script, "sh"]);
        command.arg(&self.data).current_dir("/");
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Err(what) = line_of(&mut self.shell(STOP)) {
            eprintln!("{what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ends_otherwise_is_named() {
        let step = Step { arguments: &["run", "x"], code: 1, says: "FAIL" };
        let ended = |script: &str| judge(&step, &Command::new("sh").args(["-c", script]).output().unwrap());
        assert_eq!(ended("echo FAIL; exit 1"), Ok(()));
        assert_eq!(ended("echo FAIL >&2; exit 1"), Ok(()));
        let wrong = ended("echo FAIL").unwrap_err();
        assert!(
            wrong.starts_with("in an empty root, `plimsoll run x` ended with exit status: 0, not code 1"),
            "{wrong}"
        );
        assert!(ended("echo other; exit 1").unwrap_err().ends_with("other\n"));
    }

    #[test]
    fn an_archive_that_is_not_there_is_to_be_made() {
        let said = trial(Path::new("/nowhere/plimsoll.tar.gz")).unwrap_err();
        assert_eq!(said, "/nowhere/plimsoll.tar.gz does not exist\n  → cargo xtask dist");
    }
}
