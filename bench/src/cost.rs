//! Processor time of a child, as the kernel accounts it at its end, and of everything else on the machine meanwhile.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

use plimsoll_trace::with_descendants;

use crate::Result;

/// Resources that one run of a program used.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// User and system time of the whole process.
    pub cpu_us: f64,
    /// Voluntary context switches.
    pub waits: u64,
    /// Share of all processors that neither the program nor the servers used meanwhile.
    pub others_share: f64,
}

/// Runs `command` to its end. Returns its standard output and its cost.
///
/// # Errors
/// Fails if the program fails, with its output and its standard error.
pub fn run(mut command: Command, servers: &[u32]) -> Result<(String, Cost)> {
    let (started, busy_before, servers_before) = (Instant::now(), busy_us(), servers_us(servers));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut printed, mut complained) = (Vec::new(), String::new());
    if let Some(out) = &mut child.stdout {
        out.read_to_end(&mut printed)?;
    }
    if let Some(out) = &mut child.stderr {
        out.read_to_string(&mut complained)?;
    }
    let printed = String::from_utf8(printed)?;
    let mut status = 0;
    // SAFETY: all fields are plain numbers, for which zeros are valid.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places are valid for the call, and no other code waits for this child.
    let id = unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut used) };
    if id < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    if status != 0 {
        let program = command.get_program().display();
        return Err(format!("{program} failed (status {status:#x}): {printed}{complained}").into());
    }
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    let cpu_us = us(used.ru_utime) + us(used.ru_stime);
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let all_us = started.elapsed().as_micros() as f64 * processors;
    let known_us = cpu_us + servers_us(servers) - servers_before;
    let others_share = ((busy_us() - busy_before - known_us) / all_us).max(0.0);
    Ok((printed, Cost { cpu_us, waits: used.ru_nvcsw as u64, others_share }))
}

/// Unit of the kernel's accounts: a hundredth of a second on Linux.
const TICK_US: f64 = 10_000.0;

/// Time that processors were not idle (proc_stat(5)), stolen time included.
fn busy_us() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<f64> = text.lines().next().map_or(Vec::new(), numbers);
    // user nice system idle iowait irq softirq steal
    [0, 1, 2, 5, 6, 7].iter().filter_map(|at| ticks.get(*at)).sum::<f64>() * TICK_US
}

/// Time of the servers, their descendants, and the children that they waited for.
fn servers_us(roots: &[u32]) -> f64 {
    let ticks = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in brackets may hold spaces; utime, stime, cutime and cstime are fields 14 to 17.
        let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest).split_once(' ').map_or("", |(_, rest)| rest);
        numbers(rest).iter().skip(10).take(4).sum::<f64>()
    };
    with_descendants(roots).into_iter().map(ticks).sum::<f64>() * TICK_US
}

fn numbers(line: &str) -> Vec<f64> {
    line.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect()
}
