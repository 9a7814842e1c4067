//! Private servers of a trial as seen from outside: their directories, processes, sockets and control groups.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::leftovers::stat;
use crate::process::signal;

/// File of a server's directory with the id of its process, and those with the place of its sockets and its groups.
const PROGRAM_FILE: &str = "program";
const MARK_FILE: &str = "supervisor";
const MARK_SOCKETS: &str = "sockets ";
const GROUPS_FILE: &str = "groups";
/// Beginnings of the names of directories with the data of runs, and of database files.
const DATA_PREFIX: &str = "plimsoll-data-";
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Returns the directories of the servers whose data is below `place`.
///
/// # Errors
/// Fails if there is none.
pub fn servers(place: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut left) = (Vec::new(), data(place)?);
    while let Some(path) = left.pop() {
        if path.join(PROGRAM_FILE).exists() {
            found.push(path);
        } else if path.is_dir() {
            left.extend(entries(&path)?);
        }
    }
    found.sort();
    match found.is_empty() {
        true => Err(format!("{}: no server runs here", place.display())),
        false => Ok(found),
    }
}

/// Returns the directories of the run with its stores' data.
fn data(place: &Path) -> Result<Vec<PathBuf>> {
    let is_data = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(DATA_PREFIX))
    };
    Ok(entries(place)?.into_iter().filter(is_data).collect())
}

/// Returns the id of a server's process.
pub fn process(server: &Path) -> Result<u32> {
    let text = read(&server.join(PROGRAM_FILE))?;
    let id = text.split_whitespace().next().and_then(|id| id.parse().ok());
    id.ok_or_else(|| format!("{}: no process id in `{text}`", server.display()))
}

/// Returns the directory of a server's sockets.
pub fn sockets(server: &Path) -> Result<PathBuf> {
    let text = read(&server.join(MARK_FILE))?;
    let path = text.lines().find_map(|line| line.strip_prefix(MARK_SOCKETS)).map(PathBuf::from);
    path.ok_or_else(|| format!("{}: the mark names no directory of sockets", server.display()))
}

/// Returns the file with this name in one of a server's control groups.
pub fn group_file(server: &Path, names: &[&str]) -> Result<PathBuf> {
    let groups = read(&server.join(GROUPS_FILE))?;
    let mut files = groups.lines().flat_map(|group| names.iter().map(move |name| Path::new(group).join(name)));
    let found = files.find(|file| file.exists());
    found.ok_or_else(|| format!("{}: no control group has {}", server.display(), names.join(" or ")))
}

/// Returns the processes of all servers below `place`: each server's own first, then its descendants.
pub fn processes(place: &Path) -> Result<Vec<u32>> {
    let roots: Vec<u32> = servers(place)?.iter().map(|server| process(server)).collect::<Result<_>>()?;
    let mut all = roots;
    let known = children()?;
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        all.extend(known.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        at += 1;
    }
    Ok(all)
}

/// Returns the processes of PostgreSQL that serve one session each, in the order of their ids.
pub fn sessions(place: &Path) -> Result<Vec<u32>> {
    let title = |id: &u32| fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let mut serving: Vec<u32> = processes(place)?.into_iter().filter(|id| title(id).contains("[local]")).collect();
    serving.sort_unstable();
    match serving.is_empty() {
        true => Err(format!("{}: no process serves a session", place.display())),
        false => Ok(serving),
    }
}

/// Returns all processes of the machine with the ids of their parents.
fn children() -> Result<Vec<(u32, u32)>> {
    let all = entries(Path::new("/proc"))?;
    let id = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let one = |path: &PathBuf| {
        let id = id(path)?;
        Some((id, stat(&id.to_string()).get(1)?.parse().ok()?))
    };
    Ok(all.iter().filter_map(one).collect())
}

/// Returns the state of a process: `T` if a signal has stopped it.
fn state(id: u32) -> Option<String> {
    stat(&id.to_string()).first().cloned()
}

/// Returns the database file of a store without a server.
pub fn database(place: &Path) -> Result<PathBuf> {
    let mut left = data(place)?;
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(entries(&path)?);
        } else if begins_with(&path, DATABASE) {
            return Ok(path);
        }
    }
    Err(format!("{}: no database file", place.display()))
}

fn begins_with(path: &Path, bytes: &[u8]) -> bool {
    use std::io::Read as _;
    let mut begun = vec![0; bytes.len()];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut begun)).is_ok_and(|()| begun == bytes)
}

/// Processes that are stopped until this is dropped.
pub struct Stopped(Vec<u32>);

impl Stopped {
    /// Stops processes by a signal, in order.
    pub fn new(processes: Vec<u32>) -> Self {
        // Made first, so that all continue, however this ends.
        let stopped = Self(processes);
        stopped.0.iter().for_each(|id| signal("STOP", *id));
        stopped
    }

    /// Continues all processes.
    ///
    /// # Errors
    /// Fails if the first of them was not stopped.
    pub fn end(self) -> Result {
        match self.0.first() {
            Some(id) if state(*id).as_deref() != Some("T") => Err(format!("process {id} was not stopped by a signal")),
            _ => Ok(()),
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.iter().for_each(|id| signal("CONT", *id));
    }
}

/// A file with another content until this is dropped.
pub struct Overwritten {
    path: PathBuf,
    before: String,
}

impl Overwritten {
    /// Writes `content` to `path`. Dropping writes `before`.
    pub fn new(path: PathBuf, content: &str, before: String) -> Result<Self> {
        fs::write(&path, content).map_err(|error| format!("{content} > {}: {error}", path.display()))?;
        Ok(Self { path, before })
    }

    /// Writes the former content.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn end(self) -> Result {
        fs::write(&self.path, &self.before)
            .map_err(|error| format!("{} > {}: {error}", self.before, self.path.display()))
    }
}

impl Drop for Overwritten {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    Ok(fs::read_dir(directory).map_err(failed)?.flatten().map(|entry| entry.path()).collect())
}

/// Reads a text file.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_server_is_found_by_the_files_of_its_directory() {
        let place = tempfile::tempdir().unwrap();
        assert!(servers(place.path()).unwrap_err().contains("no server runs here"));
        let server = place.path().join("plimsoll-data-20260101-000000-0000/1/plimsoll-1a2b3c4d");
        fs::create_dir_all(server.join("group")).unwrap();
        fs::write(server.join(PROGRAM_FILE), "123 a-boot").unwrap();
        fs::write(server.join(MARK_FILE), "plimsoll: private server\npid 7\nsockets /tmp/s\n").unwrap();
        fs::write(server.join(GROUPS_FILE), format!("/nowhere\n{}\n", server.join("group").display())).unwrap();
        fs::write(server.join("group/cpu.max"), "max 100000").unwrap();
        assert_eq!(servers(place.path()).unwrap(), std::slice::from_ref(&server));
        assert_eq!(process(&server).unwrap(), 123);
        assert_eq!(sockets(&server).unwrap(), Path::new("/tmp/s"));
        let limit = group_file(&server, &["cpu.cfs_quota_us", "cpu.max"]).unwrap();
        let less = Overwritten::new(limit.clone(), "10000 100000", "max 100000".to_owned()).unwrap();
        assert_eq!(read(&limit).unwrap(), "10000 100000");
        less.end().unwrap();
        assert_eq!(read(&limit).unwrap(), "max 100000");
        fs::remove_dir_all(server.join("group")).unwrap();
        let gone = Overwritten { path: limit, before: "max 100000".to_owned() };
        assert!(gone.end().unwrap_err().starts_with("max 100000 > "));
    }

    #[test]
    fn a_database_file_is_found_by_its_first_bytes() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("plimsoll-data-x/kv");
        fs::create_dir_all(&data).unwrap();
        fs::write(place.path().join("recording"), DATABASE).unwrap();
        fs::write(data.join("lock"), "").unwrap();
        assert!(database(place.path()).unwrap_err().contains("no database file"));
        fs::write(data.join("store"), [DATABASE, b"rest"].concat()).unwrap();
        assert_eq!(database(place.path()).unwrap(), data.join("store"));
    }

    #[test]
    fn a_process_is_stopped_with_its_children_and_continues() {
        let place = tempfile::tempdir().unwrap();
        let server = place.path().join("plimsoll-data-20260101-000000-0000/1/plimsoll-1a2b3c4d");
        fs::create_dir_all(&server).unwrap();
        // The shell waits for a child, and ends with its input. Until the child is another program, the kernel keeps the
        // shell from stopping.
        let child = Command::new("sh").args(["-c", "cat; :"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut child = child.unwrap();
        fs::write(server.join(PROGRAM_FILE), format!("{} a-boot", child.id())).unwrap();
        let begun = Instant::now();
        let all = loop {
            let all = processes(place.path()).unwrap();
            let is_cat = |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "cat\n");
            if all.len() == 2 && is_cat(&all[1]) || begun.elapsed() > Duration::from_secs(10) {
                break all;
            }
        };
        assert_eq!(all[0], child.id());
        let states = |wanted: &[&str]| {
            let state = |id: &u32| state(*id).unwrap();
            let begun = Instant::now();
            while !all.iter().all(|id| wanted.contains(&state(id).as_str())) {
                assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", all.iter().map(state).collect::<Vec<_>>());
            }
        };
        let stopped = Stopped::new(all.clone());
        states(&["T"]);
        stopped.end().unwrap();
        states(&["S", "R"]);
        let error = Stopped(all.clone()).end().unwrap_err();
        assert_eq!(error, format!("process {} was not stopped by a signal", all[0]));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
