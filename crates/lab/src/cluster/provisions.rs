//! What a cluster needs before it begins: memory, ports, and a secret of its nodes.

use std::net::TcpListener;

use plimsoll_core::{ServerSpec, StoreError, StoreErrorKind};

/// Bytes of what only the nodes and we know.
const SECRET_BYTES: usize = 24;

/// Says no to more nodes than there is memory for.
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
    Err(StoreError::new(StoreErrorKind::Exhausted, what)
        .next(format!("ask for {fitting} of them at most, or free memory")))
}

/// Ports of the loopback interface that nobody listens on.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, StoreError> {
    // All are held until all are known, so that none is found twice.
    let find = || {
        let all = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<std::io::Result<Vec<_>>>()?;
        all.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<std::io::Result<_>>()
    };
    find().map_err(|error| StoreError::io("looking for free ports of 127.0.0.1", &error))
}

pub(super) fn secret() -> Result<String, StoreError> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::new(StoreErrorKind::Broken, format!("no random bytes to be had: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
