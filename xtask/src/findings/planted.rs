//! Planting of a cause: done to the server from outside for a time, and undone, also on an error.
//!
//! Plimsoll does not know of it: nothing stands in the recording but what clients and samplers see.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::cause::Cause;
use super::server::{self, Overwritten, Stopped};
use crate::Result;
use crate::process::{line_of, signal};

/// Longest time of a client's request, in seconds.
const REQUEST_S: &str = "20";
/// Longest time in which a server recovers.
const RECOVERY: Duration = Duration::from_secs(20);
/// Busy programs for each processor.
const BUSY_PER_PROCESSOR: usize = 4;
/// Threads that write to the disk, the size of a write and of a file, in bytes.
const WRITERS: usize = 4;
const WRITE_BYTES: usize = 1 << 20;
const FILE_BYTES: u64 = 64 << 20;
/// Rounds of a loop of Redis' Lua in a millisecond, about.
const ROUNDS_PER_MS: f64 = 20_000.0;
/// Interface of a host in a lab, and the limits of its traffic: bytes that may wait are those of two large packets.
const INTERFACE: &str = "eth0";
const SLOW_LINK: [&str; 7] = ["tbf", "rate", "100kbit", "burst", "1600", "limit", "3000"];
/// Trigger that sleeps while a row says so.
const TRIGGER: &str = "CREATE TABLE planted (slow boolean); INSERT INTO planted VALUES (false); \
     CREATE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN IF (SELECT slow FROM planted) THEN PERFORM pg_sleep(0.1); END IF; RETURN NEW; END $$; \
     CREATE TRIGGER planted BEFORE UPDATE ON pgbench_accounts FOR EACH ROW EXECUTE FUNCTION planted();";

/// Prepares the servers below `place` for a cause, once the drive has begun.
pub fn prepare(cause: Cause, place: &Path) -> Result {
    match cause {
        Cause::Trigger => psql(place, TRIGGER),
        _ => Ok(()),
    }
}

/// Plants a cause for `length_s` seconds, or for as long as its work takes. `number` chooses one of several sessions.
pub fn plant(cause: Cause, place: &Path, length_s: f64, number: usize) -> Result {
    let length = Duration::from_secs_f64(length_s);
    let ms = (length_s * 1e3) as u64;
    match cause {
        Cause::Pause => {
            let _stopped = Stopped::new(server::processes(place)?);
            sleep(length);
            Ok(())
        }
        Cause::Hang => {
            let _stopped = Stopped::new(vec![session(place, number)?]);
            sleep(length);
            Ok(())
        }
        Cause::Neighbour => neighbour(length),
        Cause::Quota => quota(place, length),
        Cause::Disk => disk(place, length),
        Cause::Throttle => throttle(place, length),
        Cause::Checkpoint => psql(place, "CHECKPOINT"),
        Cause::Lock => {
            let table = "LOCK TABLE pgbench_accounts IN ACCESS EXCLUSIVE MODE";
            psql(place, &format!("BEGIN; {table}; SELECT pg_sleep({length_s}); COMMIT"))
        }
        Cause::Backup => backup(place),
        Cause::Crash => {
            signal("KILL", session(place, number)?);
            sleep(length);
            recovered(place)
        }
        Cause::Storm => storm(place),
        Cause::Command => {
            let rounds = length_s * 1e3 * ROUNDS_PER_MS;
            let script = format!("local x = 0 for i = 1, {rounds:.0} do x = math.sqrt(i) end return 1");
            redis(place, &["EVAL", &script, "0"])
        }
        Cause::Link => link(place, length),
        Cause::PausedClients => {
            redis(place, &["CLIENT", "PAUSE", &ms.to_string(), "ALL"])?;
            sleep(length);
            Ok(())
        }
        Cause::ForeignWriter => {
            let database = server::database(place)?;
            let wait = format!(".shell sleep {length_s:.2}");
            let shell = ["-cmd", ".timeout 10000"];
            let statements = ["BEGIN IMMEDIATE;", &wait, "COMMIT;"];
            request("sqlite3").args(shell).arg(database).args(statements).run()
        }
        Cause::Trigger => {
            psql(place, "UPDATE planted SET slow = true")?;
            sleep(length);
            psql(place, "UPDATE planted SET slow = false")
        }
    }
}

/// A program with a limit of its time.
struct Request(Command);

/// Returns a request of `program`, which is killed after [`REQUEST_S`].
fn request(program: &str) -> Request {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", REQUEST_S, program]).stdin(Stdio::null());
    Request(command)
}

impl Request {
    fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    fn args<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.0.args(arguments);
        self
    }

    fn run(mut self) -> Result {
        line_of(&mut self.0).map(drop)
    }
}

/// Returns the only server below `place`.
fn only(place: &Path) -> Result<PathBuf> {
    let mut servers = server::servers(place)?;
    match servers.pop() {
        Some(server) if servers.is_empty() => Ok(server),
        _ => Err(format!("{}: more than one server", place.display())),
    }
}

fn session(place: &Path, number: usize) -> Result<u32> {
    let all = server::sessions(place)?;
    Ok(all[number % all.len()])
}

/// Waits until a private PostgreSQL takes connections, and its clients are back.
fn recovered(place: &Path) -> Result {
    let begun = Instant::now();
    loop {
        match psql(place, "SELECT 1").and_then(|()| server::sessions(place)) {
            Ok(_) => return Ok(()),
            Err(what) if begun.elapsed() > RECOVERY => return Err(what),
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
}

/// Runs statements on a private PostgreSQL.
fn psql(place: &Path, statements: &str) -> Result {
    let sockets = server::sockets(&only(place)?)?;
    let options = ["-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-c", statements];
    request("psql").arg("-h").arg(sockets).args(options).run()
}

/// Sends a command to a private Redis, and waits for the reply.
fn redis(place: &Path, words: &[&str]) -> Result {
    let socket = server::sockets(&only(place)?)?.join("redis.sock");
    let failed = |error: std::io::Error| format!("{}: {error}", socket.display());
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    let mut stream = UnixStream::connect(&socket).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(failed)?;
    stream.write_all(command.as_bytes()).map_err(failed)?;
    let mut reply = [0; 512];
    let length = stream.read(&mut reply).map_err(failed)?;
    match reply.first() {
        Some(b'+' | b':') if length > 0 => Ok(()),
        _ => Err(format!("redis {}: {}", words[0], String::from_utf8_lossy(&reply[..length]).trim_end())),
    }
}

/// Programs that are killed when this is dropped.
struct Busy(Vec<Child>);

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn neighbour(length: Duration) -> Result {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut busy = Busy(Vec::new());
    for _ in 0..processors * BUSY_PER_PROCESSOR {
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        busy.0.push(child.map_err(|error| format!("sh: {error}"))?);
    }
    sleep(length);
    Ok(())
}

fn quota(place: &Path, length: Duration) -> Result {
    let file = server::group_file(&only(place)?, &["cpu.cfs_quota_us", "cpu.max"])?;
    let before = server::read(&file)?.trim().to_owned();
    // The period is 100 ms in both versions.
    let less = if file.ends_with("cpu.max") { "10000 100000" } else { "10000" };
    let _less = Overwritten::new(file, less, before)?;
    sleep(length);
    Ok(())
}

fn throttle(place: &Path, length: Duration) -> Result {
    let file = server::group_file(&only(place)?, &["blkio.throttle.write_bps_device", "io.max"])?;
    let before = server::read(&file)?.trim().to_owned();
    let device = before.split_whitespace().next().filter(|device| device.contains(':'));
    let device = device.ok_or_else(|| format!("{}: no device in `{before}`", file.display()))?;
    let less = if file.ends_with("io.max") { format!("{device} wbps=65536") } else { format!("{device} 65536") };
    let _less = Overwritten::new(file, &less, before)?;
    sleep(length);
    Ok(())
}

fn disk(place: &Path, length: Duration) -> Result {
    let begun = Instant::now();
    let write = |path: &Path| -> std::io::Result<()> {
        let (mut file, bytes) = (File::create(path)?, vec![0xa5; WRITE_BYTES]);
        while begun.elapsed() < length {
            file.write_all(&bytes)?;
            file.sync_data()?;
            if file.stream_position()? >= FILE_BYTES {
                file.seek(SeekFrom::Start(0))?;
            }
        }
        Ok(())
    };
    let paths: Vec<PathBuf> = (0..WRITERS).map(|number| place.join(format!("noise-{number}"))).collect();
    let written: Vec<std::io::Result<()>> = std::thread::scope(|scope| {
        let write = &write;
        let threads: Vec<_> = paths.iter().map(|path| scope.spawn(move || write(path))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    for path in &paths {
        let _ = fs::remove_file(path);
    }
    written.into_iter().collect::<std::io::Result<()>>().map_err(|error| format!("{}: {error}", place.display()))
}

fn backup(place: &Path) -> Result {
    let copy = place.join("copy");
    let from = format!("host={} user=postgres", server::sockets(&only(place)?)?.display());
    // A copy that is synced as well takes so long that it is no moment.
    let options = ["-w", "-X", "fetch", "-c", "fast", "--no-sync", "-d", &from];
    let done = request("pg_basebackup").args(options).arg("-D").arg(&copy).run();
    let _ = fs::remove_dir_all(&copy);
    done
}

fn storm(place: &Path) -> Result {
    let sockets = server::sockets(&only(place)?)?;
    let options = ["-U", "postgres", "-n", "-S", "-C", "-c", "24", "-j", "2", "-T", "1", "postgres"];
    request("pgbench").arg("-h").arg(sockets).args(options).run()
}

/// Interfaces of hosts, by a process on each, that are whole again when this is dropped.
struct SlowLinks(Vec<u32>);

impl Drop for SlowLinks {
    fn drop(&mut self) {
        for id in &self.0 {
            let _ = tc(*id, "del", &[]);
        }
    }
}

fn link(place: &Path, length: Duration) -> Result {
    let mut slow = SlowLinks(Vec::new());
    for server in server::servers(place)? {
        let id = server::process(&server)?;
        tc(id, "replace", &SLOW_LINK)?;
        slow.0.push(id);
    }
    sleep(length);
    Ok(())
}

/// Changes the queue of the interface of the host that a process is on.
fn tc(id: u32, action: &str, queue: &[&str]) -> Result {
    let id = id.to_string();
    let of_host = ["-t", &id, "-n", "tc", "qdisc", action, "dev", INTERFACE, "root"];
    request("nsenter").args(of_host).args(queue.iter().copied()).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_take_the_time_given_and_leave_no_file() {
        let place = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        plant(Cause::Disk, place.path(), 0.1, 0).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(100));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_cause_without_its_server_is_refused() {
        let place = tempfile::tempdir().unwrap();
        for cause in [Cause::Pause, Cause::Quota, Cause::Checkpoint, Cause::PausedClients, Cause::Link] {
            assert!(plant(cause, place.path(), 0.1, 0).unwrap_err().contains("no server runs here"), "{cause:?}");
        }
        assert!(plant(Cause::ForeignWriter, place.path(), 0.1, 0).unwrap_err().contains("no database file"));
    }
}
