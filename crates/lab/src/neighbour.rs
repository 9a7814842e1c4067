//! Noisy neighbour of a server: this program, executed again, which keeps a processor busy, writes to a disk, or sends
//! through the link of a host.
//!
//! As another service of the machine would be, it is in no control group of the server, and in a session of its own,
//! because the kernel may share processors out by sessions. It ends with the socket to its owner, so that it does not
//! outlive an owner that was killed.

mod traffic;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use plimsoll_core::StoreError;
use plimsoll_core::random::mix;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::supervisor::{ANSWER_BOUND, again, ends_within, readable};
use traffic::Traffic;

/// Name of the process in lists of processes.
const NAME: &str = "plimsoll-neighbour";
/// Tasks of the process.
const BUSY: &str = "busy";
const WRITING: &str = "writing";
const SENDING: &str = "sending";
/// Answer of a process that has begun. All others are errors in words.
const BEGUN: &[u8] = b"begun";
/// Length of the longest answer.
const ANSWER_BYTES_MAX: usize = 4096;
/// Longest time for the process to end: one that waits for a disk ends later than it is killed.
const END_BOUND: Duration = Duration::from_secs(10);
/// Size of one write.
const BLOCK_BYTES: u64 = 1 << 20;
/// Largest size of the file that is written again and again.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Share of the free space that the files of all neighbours may take: a full disk would be another fault.
const FREE_SHARE: u64 = 4;
/// Time between a write that failed and the next one.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A running neighbour. It ends when this is dropped, or when the owner dies.
#[derive(Debug)]
pub struct Neighbour {
    child: Child,
    control: OwnedFd,
}

impl Neighbour {
    /// Starts a process that keeps a processor busy, one of a list such as `0-1,3`, or any if the list is empty.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn busy(processors: &str) -> Result<Self, StoreError> {
        Self::start(BUSY, &[processors.as_ref()])
    }

    /// Starts a process that writes and syncs 1 MiB after the other in the file system of `directory`. Its file is
    /// overwritten again and again, and has no name. `count` such processes share the free space.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn writing(directory: &Path, count: usize) -> Result<Self, StoreError> {
        Self::start(WRITING, &[directory.as_os_str(), count.to_string().as_ref()])
    }

    /// Starts a process in the network namespace `node` of a host. It exchanges bytes with the load host, whose
    /// namespace is `load`: so many bits a second in each direction, or as many as the host's link carries.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn sending(node: &Path, load: &Path, rate_bits_per_s: Option<u64>) -> Result<Self, StoreError> {
        let rate = rate_bits_per_s.unwrap_or(0).to_string();
        Self::start(SENDING, &[rate.as_ref(), node.as_os_str(), load.as_os_str()])
    }

    fn start(task: &str, about: &[&OsStr]) -> Result<Self, StoreError> {
        let execute = || {
            let (mut command, control) = again(NAME)?;
            Ok(Self { child: command.arg(task).args(about).spawn()?, control })
        };
        execute().map_err(|error: io::Error| StoreError::io("/proc/self/exe", &error))
    }

    /// Waits until the process has begun its task.
    ///
    /// # Errors
    /// `Broken` with the reason that it could not.
    pub fn begun(&self) -> Result<(), StoreError> {
        let mut answer = vec![0; ANSWER_BYTES_MAX];
        let answered = readable(&self.control, ANSWER_BOUND).and_then(|is_there| match is_there {
            true => Ok(recv(&self.control, &mut answer[..], RecvFlags::empty())?.1),
            false => Err(io::ErrorKind::TimedOut.into()),
        });
        let failed = |why: String| {
            StoreError::broken("a noisy neighbour could not begin")
                .detail(why)
                .next("see that the node is there, its directory has free space, and its processors exist")
        };
        let length = answered.map_err(|error| failed(error.to_string()))?;
        match &answer[..length] {
            BEGUN => Ok(()),
            [] => Err(failed("its process ended".to_owned())),
            why => Err(failed(String::from_utf8_lossy(why).into_owned())),
        }
    }

    /// Ends the process.
    ///
    /// # Errors
    /// `Broken` if it does not end.
    pub fn end(mut self) -> Result<(), StoreError> {
        let refused = || {
            StoreError::broken("a noisy neighbour was killed and did not end within 10 s")
                .next("its disk may hang: dmesg | tail")
        };
        self.kill().then_some(()).ok_or_else(refused)
    }

    /// Kills the process, and returns true once it has ended.
    fn kill(&mut self) -> bool {
        let _ = self.child.kill();
        ends_within(&mut self.child, END_BOUND)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs in the process: begins the task, and returns when the socket on standard input has ended.
pub(crate) fn run(task: &OsStr, about: &[OsString]) {
    // Fails only if the process leads a session already.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"plimsoll-neighb");
    let begun = begin(task, about);
    let answer = match &begun {
        Ok(()) => BEGUN.to_vec(),
        Err(error) => error.to_string().into_bytes(),
    };
    let _ = send(io::stdin(), &answer[..answer.len().min(ANSWER_BYTES_MAX)], SendFlags::NOSIGNAL);
    while begun.is_ok() {
        match recv(io::stdin(), &mut [0_u8; 1], RecvFlags::empty()) {
            Ok((_, 1..)) | Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Begins the task in a thread of its own.
fn begin(task: &OsStr, about: &[OsString]) -> io::Result<()> {
    let work: Box<dyn FnOnce() + Send> = match (task.to_str(), about) {
        (Some(BUSY), [processors]) => {
            stay_on(processors.to_str().unwrap_or_default())?;
            Box::new(compute)
        }
        (Some(WRITING), [directory, count]) => {
            let count = count.to_str().and_then(|count| count.parse().ok()).ok_or(io::ErrorKind::InvalidInput)?;
            let (file, blocks) = file_in(Path::new(directory), count)?;
            Box::new(move || write(&file, blocks))
        }
        (Some(SENDING), [rate, node, load]) => {
            let rate = rate.to_str().and_then(|rate| rate.parse().ok()).ok_or(io::ErrorKind::InvalidInput)?;
            let traffic = Traffic::begin(rate, Path::new(node), Path::new(load))?;
            Box::new(move || traffic.run())
        }
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    std::thread::Builder::new().name("neighbour".to_owned()).spawn(work).map(drop)
}

/// Binds the process to processors, if the list has any.
fn stay_on(processors: &str) -> io::Result<()> {
    let Some(set) = set_of(processors) else {
        return Err(io::Error::other(format!("`{processors}` is not a list of processors")));
    };
    if !processors.is_empty() {
        sched_setaffinity(None, &set)?;
    }
    Ok(())
}

/// Parses a list of processors: `0-1,3`.
fn set_of(processors: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for range in processors.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        (first..=last.min(CpuSet::MAX_CPU - 1)).for_each(|processor| set.set(processor));
    }
    Some(set)
}

fn compute() {
    let mut value = 1;
    loop {
        value = black_box(mix(value));
    }
}

/// Returns the number of blocks that the file of each of `count` neighbours may have.
fn blocks_of(free_bytes: u64, count: u64) -> u64 {
    FILE_BYTES_MAX.min(free_bytes / FREE_SHARE / count.max(1)) / BLOCK_BYTES
}

/// Makes the file of one of `count` neighbours, and writes its first block. Returns it with the number of blocks that
/// it may have.
fn file_in(directory: &Path, count: u64) -> io::Result<(File, u64)> {
    let path = directory.join(format!(".plimsoll-neighbour-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    // Without a name it ends with this process, however that ends.
    fs::remove_file(&path)?;
    let space = rustix::fs::fstatvfs(&file)?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    let blocks = blocks_of(free_bytes, count);
    if blocks == 0 {
        let needed = (FREE_SHARE * BLOCK_BYTES * count) >> 20;
        let what = format!("less than {needed} MiB are free in {}", directory.display());
        return Err(io::Error::new(io::ErrorKind::StorageFull, what));
    }
    write_block(&file, &block(), 0)?;
    Ok((file, blocks))
}

/// Returns bytes that no disk compresses.
fn block() -> Vec<u8> {
    (1..=BLOCK_BYTES / 8).flat_map(|word| mix(word).to_le_bytes()).collect()
}

fn write_block(file: &File, block: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(block, at * BLOCK_BYTES)?;
    file.sync_all()
}

fn write(file: &File, blocks: u64) {
    let block = block();
    for at in (0..blocks).cycle() {
        if write_block(file, &block, at).is_err() {
            // The disk is full, or has no power. It may be better later.
            std::thread::sleep(RETRY_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Returns the processor time of a process, in ticks of the kernel.
    fn ticks(pid: u32) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
        let since = Instant::now();
        while !is_so() {
            assert!(since.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_busy_neighbour_uses_its_processor_until_it_is_ended() {
        let neighbour = Neighbour::busy("0").unwrap();
        neighbour.begun().unwrap();
        let pid = neighbour.child.id();
        wait_for("processor time", || ticks(pid) >= 10);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(allowed.map(str::trim), Some("0"));
        neighbour.end().unwrap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_writing_neighbour_fills_a_file_that_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let neighbour = Neighbour::writing(directory.path(), 1).unwrap();
        neighbour.begun().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let files = || fs::read_dir(format!("/proc/{}/fd", neighbour.child.id())).unwrap().flatten();
        let is_below = |to: std::path::PathBuf| to.starts_with(directory.path());
        let file = files().find(|entry| fs::read_link(entry.path()).is_ok_and(is_below)).unwrap().path();
        wait_for("several blocks", || fs::metadata(&file).unwrap().len() >= 3 * BLOCK_BYTES);
        drop(neighbour);
        assert!(!file.exists());
    }

    #[test]
    fn neighbours_on_one_disk_leave_most_of_it_free_together() {
        let mib = 1 << 20;
        assert_eq!([1, 4, 5].map(|count| blocks_of(400 * mib, count)), [100, 25, 20]);
        assert_eq!([1, 4].map(|count| blocks_of(1 << 40, count)), [256, 256]);
        assert_eq!(blocks_of(15 * mib, 4), 0);
    }

    #[test]
    fn a_neighbour_that_cannot_begin_tells_the_reason() {
        let reason = |neighbour: Neighbour| neighbour.begun().unwrap_err().detail.unwrap();
        let missing = reason(Neighbour::writing(Path::new("/nonexistent"), 1).unwrap());
        assert!(missing.contains("No such file"), "{missing}");
        let unclear = reason(Neighbour::busy("one").unwrap());
        assert_eq!(unclear, "`one` is not a list of processors");
        let gone = reason(Neighbour::sending(Path::new("/proc/1/fd/none"), Path::new("/nonexistent"), None).unwrap());
        assert!(gone.contains("No such file"), "{gone}");
    }

    #[test]
    fn lists_of_processors_are_read_as_the_kernel_does() {
        let listed =
            |text: &str| set_of(text).map(|set| (0..CpuSet::MAX_CPU).filter(|at| set.is_set(*at)).collect::<Vec<_>>());
        assert_eq!(listed("0-1,3"), Some(vec![0, 1, 3]));
        assert_eq!(listed(""), Some(Vec::new()));
        assert_eq!(listed("0-"), None);
    }
}
