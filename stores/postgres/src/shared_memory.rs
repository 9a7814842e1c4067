//! Shared memory that a killed PostgreSQL leaves behind, outside its directories.
//!
//! A postmaster makes one System V segment. Its header (`PGShmemHeader`, `storage/pg_shmem.h`) names the POSIX segment
//! that lists the others (`dsm_control_header`, `storage/ipc/dsm.c`), all of them files in `/dev/shm`. A postmaster that
//! is started again on the same data removes them by its `postmaster.pid`; one whose data are removed never is, and a
//! power cut may take that file. The kernel knows the process that made a System V segment, so that is asked.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Runs before `main` of every program with this store in it, and before the supervisor's part of that: its number comes
/// before none.
// SAFETY: a function is what belongs there, and a lock and a vector of std need nothing that is set up for `main`.
#[used]
#[unsafe(link_section = ".init_array.00200")]
pub(crate) static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    plimsoll_lab::after_killing(remove_left_by);
}

/// System V segments of this machine (proc_sysvipc(5)).
const SEGMENTS_FILE: &str = "/proc/sysvipc/shm";
/// `PGShmemMagic`.
const HEADER_MAGIC: u32 = 679_834_894;
/// Longest time to wait until no process is attached to a segment. Its server has ended, but a segment's key is the inode
/// number of a data directory, which on new file systems is the same: a postmaster that starts there attaches for a
/// moment, to read whose it is. So does a process that reads the memory of one that ends, by `/proc`.
const ATTACHED_BOUND: Duration = Duration::from_secs(1);
/// Time between two attempts.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes of the header that are read, and the place in them of the control segment's handle.
const HEADER_BYTES: usize = 32;
const DSM_CONTROL_AT: usize = 24;
/// `PG_DYNSHMEM_CONTROL_MAGIC`.
const CONTROL_MAGIC: u32 = 0x9a50_3d32;
/// Bytes before the control segment's first item: magic, number of items and most items, aligned.
const CONTROL_HEAD_BYTES: usize = 16;
/// Longest control segment that is read.
const CONTROL_BYTES_MAX: u64 = 64 << 20;

/// Removes what the postmasters among these ended processes left. Segments in use, and those of other programs, stay.
fn remove_left_by(pids: &BTreeSet<i32>) {
    let until = Instant::now() + ATTACHED_BOUND;
    for id in segments_of(pids, &fs::read_to_string(SEGMENTS_FILE).unwrap_or_default()) {
        let header = loop {
            match header_of(id) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                    std::thread::sleep(LOOK_INTERVAL);
                }
                header => break header.ok(),
            }
        };
        let Some((header, user)) = header.filter(|(header, _)| word(header, 0) == Some(HEADER_MAGIC)) else {
            continue;
        };
        if let Some(control) = word(&header, DSM_CONTROL_AT).filter(|control| *control != 0) {
            // What cannot be read or removed is no reason to keep the rest.
            let _ = remove_listed(control, user);
        }
        // SAFETY: no memory is touched; the segment is marked for removal.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// Returns the ids of segments in `table` that one of these processes made.
fn segments_of(pids: &BTreeSet<i32>, table: &str) -> Vec<i32> {
    let made = |line: &str| {
        let mut fields = line.split_whitespace();
        let (id, maker) = (fields.nth(1)?.parse().ok()?, fields.nth(2)?.parse().ok()?);
        pids.contains(&maker).then_some(id)
    };
    table.lines().filter_map(made).collect()
}

/// Returns the first bytes and the user of a segment. Fails with `ResourceBusy` if a process is attached to it.
fn header_of(id: i32) -> io::Result<([u8; HEADER_BYTES], u32)> {
    // SAFETY: an all-zero `shmid_ds` is a valid one, and the call fills it.
    let about = unsafe {
        let mut about: libc::shmid_ds = std::mem::zeroed();
        if libc::shmctl(id, libc::IPC_STAT, &raw mut about) != 0 {
            return Err(io::Error::last_os_error());
        }
        about
    };
    if about.shm_nattch != 0 {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    if about.shm_segsz < HEADER_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the kernel chooses the place, the segment is at least as long as what is read (its length never
    // changes), and it is detached again before anybody else can see the address.
    unsafe {
        let place = libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY);
        if place as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        let header = place.cast::<[u8; HEADER_BYTES]>().read_unaligned();
        libc::shmdt(place);
        Ok((header, about.shm_perm.uid))
    }
}

/// Removes the POSIX segments of this user that the one with this handle lists, then itself.
fn remove_listed(control: u32, user: u32) -> io::Result<()> {
    let mut bytes = Vec::new();
    let read = || -> io::Result<File> {
        let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path_of(control))?;
        let is_theirs = file.metadata().is_ok_and(|file| file.is_file() && file.uid() == user);
        is_theirs.then_some(file).ok_or_else(|| io::ErrorKind::NotFound.into())
    };
    // Another way of sharing memory was set, or it is gone.
    let Ok(file) = read() else { return Ok(()) };
    file.take(CONTROL_BYTES_MAX).read_to_end(&mut bytes)?;
    if word(&bytes, 0) != Some(CONTROL_MAGIC) {
        return Ok(());
    }
    for handle in handles(&bytes) {
        remove_one(handle, user)?;
    }
    remove_one(control, user)
}

/// Handles of the segments in use that are files of their own: those that lie in the main segment are odd. The length
/// of an item, which begins with its handle and its count of references, is another in other versions.
fn handles(control: &[u8]) -> Vec<u32> {
    let (count, most) = (word(control, 4).unwrap_or(0), word(control, 8).unwrap_or(0));
    let length = control.len().saturating_sub(CONTROL_HEAD_BYTES) / most.max(1) as usize;
    let items = (0..count.min(most) as usize).map(|item| CONTROL_HEAD_BYTES + item * length);
    items
        .filter_map(|at| Some((word(control, at)?, word(control, at + 4)?)))
        .filter(|(handle, references)| handle % 2 == 0 && *references > 0)
        .map(|(handle, _)| handle)
        .collect()
}

fn remove_one(handle: u32, user: u32) -> io::Result<()> {
    let path = path_of(handle);
    if !path.symlink_metadata().is_ok_and(|file| file.is_file() && file.uid() == user) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn path_of(handle: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/PostgreSQL.{handle}"))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_main_segment_and_what_is_free_is_no_file() {
        for item_bytes in [24, 40] {
            let mut control = vec![0; CONTROL_HEAD_BYTES + item_bytes * 10];
            let mut set = |at: usize, value: u32| control[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            [CONTROL_MAGIC, 4, 10].into_iter().zip([0, 4, 8]).for_each(|(value, at)| set(at, value));
            for (item, (handle, references)) in [(8, 2), (7, 2), (6, 0), (4, 1), (2, 1)].into_iter().enumerate() {
                set(CONTROL_HEAD_BYTES + item * item_bytes, handle);
                set(CONTROL_HEAD_BYTES + item * item_bytes + 4, references);
            }
            assert_eq!(handles(&control), [8, 4]);
            assert!(handles(&control[..CONTROL_HEAD_BYTES]).is_empty());
        }
        assert!(handles(b"").is_empty());
    }

    #[test]
    fn a_segment_of_another_process_or_program_or_in_use_is_left_alone() {
        let own = BTreeSet::from([std::process::id() as i32]);
        let make = |magic: u32| {
            // SAFETY: a segment of our own.
            unsafe {
                let id = libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600);
                let place = libc::shmat(id, std::ptr::null(), 0);
                place.cast::<u32>().write_unaligned(magic);
                (id, place)
            }
        };
        // SAFETY: as above; the address is not used after that.
        let leave = |place: *mut libc::c_void| unsafe { libc::shmdt(place) };
        let ((ours, at), (others, at_others)) = (make(HEADER_MAGIC), make(1));
        leave(at_others);
        remove_left_by(&own);
        leave(at);
        assert!(header_of(ours).is_ok(), "a process was attached to it");
        remove_left_by(&BTreeSet::from([1, i32::MAX]));
        assert!(header_of(ours).is_ok(), "they did not make it");
        // As a postmaster does that starts on a data directory of the same inode number.
        // SAFETY: as above; the other thread detaches it.
        let at = unsafe { libc::shmat(ours, std::ptr::null(), libc::SHM_RDONLY) } as usize;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                leave(at as *mut libc::c_void)
            });
            remove_left_by(&own);
        });
        assert!(header_of(ours).is_err() && header_of(others).is_ok(), "only PostgreSQL's is removed");
        // SAFETY: no memory is touched.
        unsafe { libc::shmctl(others, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}
