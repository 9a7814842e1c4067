//! Errors that prevent a trace, with the next step for each.

use std::io;

/// Reason that nothing is traced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A process to be traced is not there.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Number of the process.
        pid: u32,
    },
    /// No process was named.
    #[error("no process to trace was named")]
    Nothing,
    /// The kernel does not let this user.
    #[error("{what}: {source}")]
    NotPermitted {
        /// Operation that is not permitted.
        what: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The list of tracepoints cannot be read.
    #[error("tracefs, the kernel's list of tracepoints, can be neither read nor mounted: {source}")]
    Tracefs {
        /// Error of the kernel.
        source: io::Error,
    },
    /// The kernel does not support this.
    #[error("this kernel cannot: {what}")]
    Kernel {
        /// Part that is missing or not accepted.
        what: String,
    },
    /// Another call failed.
    #[error("{what}: {source}")]
    Io {
        /// Call that failed.
        what: &'static str,
        /// Error that it returned.
        source: io::Error,
    },
    /// A directory cannot be watched.
    #[error("{path}: {source}")]
    Directory {
        /// Path of the file.
        path: String,
        /// Error that was returned.
        source: io::Error,
    },
    /// Process numbers here are not those that the kernel tells programs.
    #[error("in a PID namespace (of a container) programs in the kernel see other process numbers")]
    PidNamespace,
    /// No way works here.
    #[error("no way to trace works here\n  bpf: {bpf}\n  proc: {proc}")]
    NoWay {
        /// Reason that programs in the kernel do not work.
        bpf: String,
        /// Reason that looks at threads do not work.
        proc: String,
    },
}

impl TraceError {
    /// Returns the next step for the user.
    pub fn next(&self) -> &'static str {
        match self {
            Self::NoProcess { .. } | Self::Nothing => "name one that runs: pgrep -l NAME",
            Self::NotPermitted { .. } | Self::Tracefs { .. } | Self::NoWay { .. } => {
                "run this as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN; processes of your own without it"
            }
            Self::PidNamespace => "run this on the host, or in a container with the host's PID namespace (--pid=host)",
            Self::Kernel { .. } | Self::Io { .. } => {
                "programs in the kernel need Linux 5.8 or later, with CONFIG_BPF_SYSCALL and CONFIG_EVENT_TRACING; for \
                 system calls also CONFIG_FTRACE_SYSCALLS"
            }
            Self::Directory { .. } => {
                "name a directory that can be read; if it contains very many, raise fs.inotify.max_user_watches"
            }
        }
    }

    /// An error of `what`.
    pub(crate) fn of(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { what, source },
            Some(libc::ENOSYS) => Self::Kernel { what: format!("{what}: {source}") },
            _ => Self::Io { what, source },
        }
    }
}
