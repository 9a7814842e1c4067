//! What a program cost, as the kernel accounts it when it has ended: the whole process with all its threads.

use std::error::Error;
use std::io::Read;
use std::process::{Command, Stdio};

/// What one run of a program used.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Time in the program itself.
    pub user_us: f64,
    /// Time in the kernel on its behalf.
    pub system_us: f64,
    /// Times it waited.
    pub waits: u64,
}

impl Cost {
    /// All of its time on a processor.
    pub fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// Runs `command` to its end and returns what it printed and what it used. What it says to the error output is passed
/// on only when it fails.
pub fn run(mut command: Command) -> Result<(String, Cost), Box<dyn Error>> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
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
    // SAFETY: both places are valid for the call, and the child is ours and not yet waited for.
    let id = unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut used) };
    if id < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    if status != 0 {
        let program = command.get_program().display();
        return Err(format!("{program} failed (status {status:#x}): {printed}{complained}").into());
    }
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    let cost = Cost { user_us: us(used.ru_utime), system_us: us(used.ru_stime), waits: used.ru_nvcsw as u64 };
    Ok((printed, cost))
}
