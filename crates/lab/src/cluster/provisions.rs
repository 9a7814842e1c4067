//! Resources that a cluster needs before it begins: memory, ports, a secret shared by its nodes, and data directories.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_core::{Launch, ServerSpec, StoreError, StoreErrorKind};

/// Length of the secret that only the nodes and Plimsoll know.
const SECRET_BYTES: usize = 24;
/// Environment variable with a program that runs set-up programs. `cargo xtask test` sets it: its program copies what
/// the same command line made before.
const SET_UP_BY: &str = "PLIMSOLL_TEST_SET_UP";

/// Returns an error if there is not enough memory for the nodes.
pub(super) fn fits(spec: ServerSpec) -> Result<(), StoreError> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available_kib = available.and_then(|words| words.split_whitespace().next()?.parse::<u64>().ok());
    let Some(available) = available_kib.map(|kib| kib << 10).filter(|_| spec.memory_bytes > 0) else { return Ok(()) };
    let wanted = spec.nodes as u64 * spec.memory_bytes;
    if wanted <= available {
        return Ok(());
    }
    let mib = |bytes: u64| bytes >> 20;
    let what = format!(
        "{} servers of {} take {} MiB before they have any data, and {} MiB of memory are available",
        spec.nodes,
        spec.name,
        mib(wanted),
        mib(available)
    );
    let fitting = available / spec.memory_bytes;
    Err(StoreError::new(StoreErrorKind::Exhausted, what).next(format!("use at most {fitting} nodes, or free memory")))
}

/// Ports of clusters of this process. The port of a killed server stays reserved until its next start.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

fn given() -> MutexGuard<'static, BTreeSet<u16>> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns free ports of the loopback interface. They stay reserved until they are given back.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, StoreError> {
    let mut given = given();
    let mut find = || {
        // All are held until all are known, so that no other cluster finds the same port.
        let (mut held, mut ports) = (Vec::new(), Vec::new());
        while ports.len() < count {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let port = listener.local_addr()?.port();
            held.push(listener);
            if !given.contains(&port) {
                ports.push(port);
            }
        }
        given.extend(&ports);
        Ok(ports)
    };
    find().map_err(|error: std::io::Error| StoreError::io("looking for free ports of 127.0.0.1", &error))
}

/// Gives back `ports` that [`free_ports`] reserved.
pub(super) fn give_back(ports: &[u16]) {
    given().retain(|port| !ports.contains(port));
}

/// Returns the launch that fills the data directory `data`: `launch`, unless a test run names a program for that.
pub(super) fn set_up_by(launch: Launch, data: &Path) -> Launch {
    match std::env::var_os(SET_UP_BY) {
        Some(by) => run_by(by.into(), launch, data),
        None => launch,
    }
}

/// Returns the launch of `by` with the data directory and the command line of `launch`.
fn run_by(by: PathBuf, launch: Launch, data: &Path) -> Launch {
    let Launch { name, program, arguments } = launch;
    let words = [data, &program].map(|path| path.display().to_string());
    Launch::new(name, by, words.into_iter().chain(arguments))
}

pub(super) fn secret() -> Result<String, StoreError> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::new(StoreErrorKind::Broken, format!("cannot get random bytes: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_was_given_is_not_given_again_before_it_was_given_back() {
        let mut all = Vec::new();
        for _ in 0..100 {
            all.extend(free_ports(30).unwrap());
        }
        let different: BTreeSet<u16> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len());
        give_back(&all);
    }

    #[test]
    fn a_program_of_a_test_run_receives_the_directory_and_the_command_line() {
        let launch = Launch::new("making", "/bin/make".into(), ["-D", "/data/db"]);
        let by = run_by("/run/set-up".into(), launch, Path::new("/data"));
        let words = ["/data", "/bin/make", "-D", "/data/db"];
        assert_eq!(by, Launch::new("making", "/run/set-up".into(), words), "called as before in messages");
    }
}
