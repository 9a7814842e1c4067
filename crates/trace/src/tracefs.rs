//! The kernel's list of tracepoints: where it is mounted, or else a mount of it that no path leads to.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::TraceError;

/// Tracepoints: their numbers, and where their fields are.
pub(crate) struct Tracefs {
    root: OwnedFd,
}

#[derive(Debug, Clone)]
pub(crate) struct Tracepoint {
    /// Identifier for perf_event_open(2).
    pub(crate) id: u64,
    /// Name and offset of its fields.
    fields: Vec<(String, usize)>,
}

impl Tracepoint {
    pub(crate) fn offset(&self, field: &str) -> Result<usize, TraceError> {
        let found = self.fields.iter().find(|(name, _)| name == field);
        found
            .map(|(_, offset)| *offset)
            .ok_or_else(|| TraceError::Kernel { what: format!("its tracepoint {} has no field `{field}`", self.id) })
    }
}

impl Tracefs {
    /// Opens it where it is mounted, or else makes a mount that is gone with this descriptor.
    pub(crate) fn open() -> Result<Self, TraceError> {
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for place in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            if let Ok(root) = rustix::fs::open(place, directory, Mode::empty()) {
                let found = Self { root };
                // An empty directory is there even where nothing is mounted.
                if found.read("events/header_event").is_ok() {
                    return Ok(found);
                }
            }
        }
        let mounted = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|fs| {
            rustix::mount::fsconfig_create(&fs)?;
            rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)
        });
        match mounted {
            Ok(root) => Ok(Self { root }),
            Err(error) => Err(TraceError::Tracefs { source: error.into() }),
        }
    }

    fn read(&self, path: &str) -> io::Result<String> {
        let file = rustix::fs::openat(&self.root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text)?;
        Ok(text)
    }

    /// The tracepoint `name`, as `sched/sched_process_exit`; `None` where this kernel has none.
    pub(crate) fn tracepoint(&self, name: &str) -> Result<Option<Tracepoint>, TraceError> {
        match self.read(&format!("events/{name}/format")) {
            Ok(text) => match parse(&text) {
                Some(tracepoint) => Ok(Some(tracepoint)),
                None => Err(TraceError::Kernel { what: format!("the format of its tracepoint {name} is not known") }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TraceError::Tracefs { source: error }),
        }
    }

    /// The tracepoint `name`, without which nothing can be done.
    pub(crate) fn needed(&self, name: &str) -> Result<Tracepoint, TraceError> {
        let missing = || TraceError::Kernel { what: format!("it has no tracepoint {name} ({})", option_of(name)) };
        self.tracepoint(name)?.ok_or_else(missing)
    }
}

/// Returns the option with which a kernel is built that has the tracepoint `name`.
fn option_of(name: &str) -> &'static str {
    match name.split_once('/') {
        Some(("syscalls", _)) => "CONFIG_FTRACE_SYSCALLS",
        Some(("block", _)) => "CONFIG_BLOCK and CONFIG_EVENT_TRACING",
        _ => "CONFIG_EVENT_TRACING",
    }
}

/// Reads a `format` file.
fn parse(text: &str) -> Option<Tracepoint> {
    let id = text.lines().find_map(|line| line.strip_prefix("ID: "))?.trim().parse().ok()?;
    let field = |line: &str| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        // `char comm[16]`, `unsigned int fd`, `const char * filename`
        let declared = parts.next()?.split('[').next()?;
        let name = declared.rsplit([' ', '*']).next()?.to_owned();
        Some((name, parts.next()?.strip_prefix("offset:")?.parse().ok()?))
    };
    Some(Tracepoint { id, fields: text.lines().filter_map(field).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tracepoint_is_named_with_the_option_of_its_own_group() {
        let place = tempfile::tempdir().unwrap();
        let tracefs = Tracefs { root: std::fs::File::open(place.path()).unwrap().into() };
        let told = |name: &str| tracefs.needed(name).unwrap_err().to_string();
        assert!(told("syscalls/sys_enter_fsync").ends_with("sys_enter_fsync (CONFIG_FTRACE_SYSCALLS)"));
        assert!(told("block/block_rq_issue").ends_with("block_rq_issue (CONFIG_BLOCK and CONFIG_EVENT_TRACING)"));
        assert!(told("sched/sched_switch").ends_with("sched_switch (CONFIG_EVENT_TRACING)"));
    }

    #[test]
    fn a_format_tells_number_and_places_of_fields() {
        let text = "name: task_newtask\nID: 205\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                    \tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;\n\tfield:const char * filename;\toffset:32;\tsize:8;\tsigned:0;\n";
        let found = parse(text).unwrap_or_else(|| panic!("a format"));
        assert_eq!((found.id, found.fields.len()), (205, 3));
        assert_eq!(found.offset("comm").ok(), Some(12));
        assert_eq!(found.offset("filename").ok(), Some(32));
        assert!(found.offset("file").is_err());
        assert!(parse("name: x\n").is_none());
    }
}
