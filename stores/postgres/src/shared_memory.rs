//! Shared memory that a killed PostgreSQL leaves behind, outside its directories.
//!
//! A postmaster has one System V segment, which `postmaster.pid` names. Its header (`PGShmemHeader`, `storage/pg_shmem.h`) says
//! which data directory it is of, by device and inode, and which POSIX segment lists the others
//! (`dsm_control_header`, `storage/ipc/dsm.c`), all of them files in `/dev/shm`. A postmaster that is started again on the same data
//! removes them in the same way; one whose data are removed never is.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Runs before `main` of every program with this store in it, and before the supervisor's part of that: its number comes
/// before none.
// SAFETY: a function is what belongs there, and a lock and a vector of std need nothing that is set up for `main`.
#[used]
#[unsafe(link_section = ".init_array.00200")]
pub(crate) static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    plimsoll_lab::before_removing(|data| {
        remove_left_by(data)?;
        remove_left_by(&data.join(crate::server::CLUSTER_DATA))
    });
}

/// `PGShmemMagic`.
const HEADER_MAGIC: u32 = 679_834_894;
/// Bytes of the header up to the data directory's inode, with the places of what is read.
const HEADER_BYTES: usize = 56;
const DSM_CONTROL_AT: usize = 24;
const DEVICE_AT: usize = 40;
const INODE_AT: usize = 48;
/// `PG_DYNSHMEM_CONTROL_MAGIC`.
const CONTROL_MAGIC: u32 = 0x9a50_3d32;
/// Bytes before the control segment's first item: magic, number of items and most items, aligned.
const CONTROL_HEAD_BYTES: usize = 16;
/// Longest control segment that is read.
const CONTROL_BYTES_MAX: u64 = 64 << 20;

/// Removes what the PostgreSQL with its data in `data` left when it was killed; nothing where there is no such segment,
/// or where it is of another data directory or in use.
///
/// # Errors
/// When a segment of this data directory cannot be removed.
fn remove_left_by(data: &Path) -> io::Result<()> {
    let (Ok(directory), Some(id)) = (data.metadata(), segment_in_lock_file(data)) else { return Ok(()) };
    let Some(header) = header_of(id) else { return Ok(()) };
    let at = |at: usize| header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
    if word(&header, 0) != Some(HEADER_MAGIC) || (at(DEVICE_AT), at(INODE_AT)) != (directory.dev(), directory.ino()) {
        return Ok(());
    }
    if let Some(control) = word(&header, DSM_CONTROL_AT).filter(|control| *control != 0) {
        remove_listed(control, &directory)?;
    }
    // SAFETY: no memory is touched; the segment is marked for removal.
    match unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The id of the System V segment in `postmaster.pid`: its seventh line is a key and an id.
fn segment_in_lock_file(data: &Path) -> Option<i32> {
    let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    text.lines().nth(6)?.split_whitespace().nth(1)?.parse().ok()
}

/// Reads the first bytes of a segment that no process is attached to.
fn header_of(id: i32) -> Option<[u8; HEADER_BYTES]> {
    // SAFETY: an all-zero `shmid_ds` is a valid one, and the call fills it.
    let about = unsafe {
        let mut about: libc::shmid_ds = std::mem::zeroed();
        (libc::shmctl(id, libc::IPC_STAT, &raw mut about) == 0).then_some(about)?
    };
    if about.shm_nattch != 0 || about.shm_segsz < HEADER_BYTES {
        return None;
    }
    // SAFETY: the kernel chooses the place, the segment is at least as long as what is read (its length never
    // changes), and it is detached again before anybody else can see the address.
    unsafe {
        let place = libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY);
        if place as isize == -1 {
            return None;
        }
        let header = place.cast::<[u8; HEADER_BYTES]>().read_unaligned();
        libc::shmdt(place);
        Some(header)
    }
}

/// Removes the POSIX segments that the one with this handle lists, then itself.
fn remove_listed(control: u32, directory: &Metadata) -> io::Result<()> {
    let mut bytes = Vec::new();
    let read = || -> io::Result<File> {
        let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path_of(control))?;
        let is_theirs = file.metadata().is_ok_and(|file| file.is_file() && file.uid() == directory.uid());
        is_theirs.then_some(file).ok_or_else(|| io::ErrorKind::NotFound.into())
    };
    // Another way of sharing memory was set, or it is gone.
    let Ok(file) = read() else { return Ok(()) };
    file.take(CONTROL_BYTES_MAX).read_to_end(&mut bytes)?;
    if word(&bytes, 0) != Some(CONTROL_MAGIC) {
        return Ok(());
    }
    for handle in handles(&bytes) {
        remove_one(handle, directory)?;
    }
    remove_one(control, directory)
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

fn remove_one(handle: u32, directory: &Metadata) -> io::Result<()> {
    let path = path_of(handle);
    if !path.symlink_metadata().is_ok_and(|file| file.is_file() && file.uid() == directory.uid()) {
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
    fn a_segment_of_another_data_directory_is_left_alone() {
        let data = tempfile::tempdir().unwrap();
        // SAFETY: a segment of our own, detached before it is looked at.
        let id = unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600);
            let place = libc::shmat(id, std::ptr::null(), 0);
            place.cast::<u32>().write_unaligned(HEADER_MAGIC);
            libc::shmdt(place);
            id
        };
        fs::write(data.path().join("postmaster.pid"), format!("1\n\n\n\n\n\n  77 {id}\nready\n")).unwrap();
        remove_left_by(data.path()).unwrap();
        assert!(header_of(id).is_some(), "it stands");
        // SAFETY: as above, with what is to be there for it to be taken for this directory's.
        unsafe {
            let place = libc::shmat(id, std::ptr::null(), 0).cast::<u8>();
            let directory = data.path().metadata().unwrap();
            place.add(DEVICE_AT).cast::<u64>().write_unaligned(directory.dev());
            place.add(INODE_AT).cast::<u64>().write_unaligned(directory.ino());
            remove_left_by(data.path()).unwrap();
            libc::shmdt(place.cast());
        }
        assert!(header_of(id).is_some(), "somebody was attached to it");
        remove_left_by(data.path()).unwrap();
        assert!(header_of(id).is_none());
    }
}
