//! Holders of a port, device or directory: processes, mounts, swap, and devices built on others.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use plimsoll_core::StoreError;
use plimsoll_core::mounts::{MOUNTS_FILE, Mount, mounts};
use plimsoll_core::shown::clean;
use rustix::fs::{major, minor};

/// A process that holds something.
struct Process {
    pid: u32,
    name: String,
    fds: PathBuf,
}

impl Process {
    /// Returns all processes whose files this user may see.
    fn all() -> impl Iterator<Item = Process> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?.trim().to_owned();
            Some(Process { pid, name, fds: entry.path().join("fd") })
        })
    }

    /// Returns the targets of the process's open files.
    fn open(&self) -> impl Iterator<Item = PathBuf> {
        let links = fs::read_dir(&self.fds).into_iter().flatten().flatten();
        links.filter_map(|link| fs::read_link(link.path()).ok())
    }

    fn says(&self, what: &str) -> String {
        format!("process {} ({}) {what}", self.pid, clean(&self.name))
    }
}

/// Returns a line for each listener on a TCP port of this machine's own network.
pub fn of_port(port: u16) -> Vec<String> {
    let sockets: Vec<(String, String)> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|file| listeners(&fs::read_to_string(file).unwrap_or_default(), port))
        .map(|inode| (inode.clone(), format!("socket:[{inode}]")))
        .collect();
    let mut held = Vec::new();
    for process in Process::all() {
        let is_it = |file: &PathBuf| sockets.iter().any(|(_, socket)| file.as_os_str() == socket.as_str());
        if process.open().any(|file| is_it(&file)) {
            held.push(process.says(&format!("listens on port {port}")));
        }
    }
    if held.is_empty() && !sockets.is_empty() {
        held.push(format!(
            "a process of another user, or of another container, listens on port {port}: run as root to see it"
        ));
    }
    held
}

/// Returns the inodes of sockets that listen on `port`, from a table in the format of proc_net(5).
fn listeners(table: &str, port: u16) -> Vec<String> {
    let listens = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, _, _, inode] = fields.get(..10)?.try_into().ok()?;
        let local_port = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
        (state == "0A" && local_port == port).then(|| inode.to_owned())
    };
    table.lines().skip(1).filter_map(listens).collect()
}

/// Returns a line for each holder of a device, file or directory.
///
/// # Errors
/// `Usage` if the path does not exist.
pub fn of_path(path: &Path) -> Result<Vec<String>, StoreError> {
    let found = path.canonicalize().and_then(|path| Ok((path.metadata()?, path)));
    let (metadata, path) = found.map_err(|error| {
        StoreError::usage(format!("{}: {error}", path.display())).next("name a port, a device, or a path that exists")
    })?;
    let mut held = Vec::new();
    let device = metadata.file_type().is_block_device().then(|| metadata.rdev());
    let table = fs::read_to_string(MOUNTS_FILE).unwrap_or_default();
    for mount in mounts(&table) {
        let is_of_device = device.is_some_and(|device| mount.device == (major(device), minor(device)));
        let is_below = metadata.is_dir() && mount.mount_point.starts_with(&path) && path != Path::new("/");
        if is_of_device {
            held.push(format!("it is mounted at {}", shown_place(&mount)));
        } else if is_below {
            held.push(format!("{} is mounted at {}", clean(&mount.source), shown_place(&mount)));
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let is_swap = |line: &&str| line.split_whitespace().next().is_some_and(|file| Path::new(file).starts_with(&path));
    held.extend(
        swaps
            .lines()
            .skip(1)
            .filter(is_swap)
            .map(|line| format!("{} is used for swap", line.split_whitespace().next().unwrap_or_default())),
    );
    if let Some(device) = device {
        held.extend(holders_of(device));
    }
    held.extend(
        loops()
            .into_iter()
            .filter(|(_, file)| file.starts_with(&path))
            .map(|(name, file)| format!("loop device /dev/{name} is made of {}", file.display())),
    );
    for process in Process::all() {
        let proc = process.fds.parent().unwrap_or(Path::new("/proc"));
        let works = fs::read_link(proc.join("cwd")).is_ok_and(|cwd| metadata.is_dir() && cwd.starts_with(&path));
        let opened = process.open().filter(|file| file.starts_with(&path)).count();
        if opened > 0 {
            held.push(process.says(&format!("has {opened} open there")));
        } else if works {
            held.push(process.says("works there"));
        }
    }
    Ok(held)
}

fn shown_place(mount: &Mount<'_>) -> String {
    clean(&mount.mount_point.display().to_string())
}

/// Returns devices that are built on this one: RAID (md), volumes (dm), and those built on its partitions.
fn holders_of(device: u64) -> Vec<String> {
    let block = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    let names = |directory: &Path| -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let mut held: Vec<String> =
        names(&block.join("holders")).iter().map(|name| format!("/dev/{name} is made of it")).collect();
    let table = fs::read_to_string(MOUNTS_FILE).unwrap_or_default();
    for part in names(&block).iter().filter(|name| block.join(name).join("partition").exists()) {
        let holders = names(&block.join(part).join("holders"));
        held.extend(holders.iter().map(|name| format!("/dev/{name} is made of its partition {part}")));
        let number = fs::read_to_string(block.join(part).join("dev")).unwrap_or_default();
        let is_it = |mount: &Mount<'_>| format!("{}:{}", mount.device.0, mount.device.1) == number.trim();
        let mounted = mounts(&table).filter(is_it);
        held.extend(mounted.map(|mount| format!("its partition {part} is mounted at {}", shown_place(&mount))));
    }
    held
}

/// Returns loop devices with their files.
fn loops() -> Vec<(String, PathBuf)> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let file = |device: fs::DirEntry| {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        Some((device.file_name().into_string().ok()?, PathBuf::from(file.trim())))
    };
    devices.filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_on_a_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let held = of_port(port);
        assert_eq!(held.len(), 1, "{held:?}");
        assert!(held[0].contains(&format!("process {} (", std::process::id())), "{held:?}");
        drop(listener);
        assert!(of_port(port).is_empty());
    }

    #[test]
    fn whoever_has_a_file_open_below_a_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        assert!(of_path(directory.path()).unwrap().is_empty());
        let file = fs::File::create(directory.path().join("held")).unwrap();
        let held = of_path(directory.path()).unwrap();
        assert!(held.len() == 1 && held[0].contains("has 1 open there"), "{held:?}");
        drop(file);
        assert!(of_path(&directory.path().join("none")).unwrap_err().what.contains("No such file"));
        let proc = of_path(Path::new("/proc")).unwrap();
        assert!(proc.iter().any(|line| line.ends_with("is mounted at /proc")), "{proc:?}");
    }

    #[test]
    fn a_table_of_sockets_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 4711 1\n\
                     1: 0100007F:1538 0100007F:9999 01 00000000:00000000 00:00000000 00000000   999        0 4712 1\n\
                     2: garbage\n";
        assert_eq!(listeners(table, 5432), ["4711"]);
        assert!(listeners(table, 5433).is_empty());
    }
}
