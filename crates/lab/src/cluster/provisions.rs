//! Resources that a cluster needs before it begins: memory, ports, a secret shared by its nodes, and data directories.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
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

/// Ports of clusters of this process, with their claims. The port of a killed server stays reserved until its next
/// start.
static GIVEN: Mutex<BTreeMap<u16, UnixDatagram>> = Mutex::new(BTreeMap::new());

fn given() -> MutexGuard<'static, BTreeMap<u16, UnixDatagram>> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Claims a port for this process until the claim is dropped. Returns `None` if a process has claimed it already.
///
/// A server that is about to listen does not hold its port yet, and one that was killed does not hold it any more.
///
/// # Errors
/// Those of the operating system, such as too many open files.
pub fn claim_port(port: u16) -> io::Result<Option<UnixDatagram>> {
    // A name without a file: it is free again however the process ends.
    let name = SocketAddr::from_abstract_name(format!("plimsoll-port-{port}"))?;
    match UnixDatagram::bind_addr(&name) {
        Ok(claim) => Ok(Some(claim)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns free ports of the loopback interface. They stay reserved until they are given back.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, StoreError> {
    let find = || {
        // All are held until all are known, so that none is found twice.
        let (mut held, mut claims) = (Vec::new(), Vec::new());
        while claims.len() < count {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let port = listener.local_addr()?.port();
            held.push(listener);
            claims.extend(claim_port(port)?.map(|claim| (port, claim)));
        }
        let ports: Vec<u16> = claims.iter().map(|(port, _)| *port).collect();
        given().extend(claims);
        Ok(ports)
    };
    find().map_err(|error: io::Error| StoreError::io("looking for free ports of 127.0.0.1", &error))
}

/// Gives back `ports` that [`free_ports`] reserved.
pub(super) fn give_back(ports: &[u16]) {
    given().retain(|port, _| !ports.contains(port));
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_port_that_was_given_is_not_given_again_before_it_was_given_back() {
        let mut all = Vec::new();
        // Each has an open file.
        for _ in 0..20 {
            all.extend(free_ports(30).unwrap());
        }
        let different: BTreeSet<u16> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len());
        give_back(&all);
    }

    #[test]
    fn a_port_has_one_claim_at_a_time() {
        // No server listens there.
        let claim = claim_port(1).unwrap();
        assert!(claim.is_some() && claim_port(1).unwrap().is_none());
        drop(claim);
        assert!(claim_port(1).unwrap().is_some());
    }

    #[test]
    fn a_program_of_a_test_run_receives_the_directory_and_the_command_line() {
        let launch = Launch::new("making", "/bin/make".into(), ["-D", "/data/db"]);
        let by = run_by("/run/set-up".into(), launch, Path::new("/data"));
        let words = ["/data", "/bin/make", "-D", "/data/db"];
        assert_eq!(by, Launch::new("making", "/run/set-up".into(), words), "called as before in messages");
    }
}
