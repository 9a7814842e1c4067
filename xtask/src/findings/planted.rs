//! Planting of a cause: done to the server from outside for a time, and undone, also on an error.
//!
//! Plimsoll does not know of it: nothing stands in the recording but what clients and samplers see.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
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
/// Sessions that are stopped at once: a share of the clients that throughput shows.
const HUNG: usize = 2;
/// Time between two looks at a server.
const LOOK: Duration = Duration::from_millis(20);
/// Interface of a host in a lab.
const INTERFACE: &str = "eth0";
/// Calls of `tc` that limit the traffic of an interface: bytes that may wait are those of two large packets.
const SLOW_LINK: [&[&str]; 1] =
    [&["qdisc", "replace", "dev", INTERFACE, "root", "tbf", "rate", "100kbit", "burst", "1600", "limit", "3000"]];
/// Calls of `tc` that drop an eighth of the segments that an interface sends. Kernels without `netem` can do it, too:
/// the segments of a connection are numbered, and those whose number ends in binary 011 enter a queue without room.
const LOSSY_LINK: [&[&str]; 5] = [
    &["qdisc", "replace", "dev", INTERFACE, "root", "handle", "1:", "htb", "default", "1"],
    &["class", "add", "dev", INTERFACE, "parent", "1:", "classid", "1:1", "htb", "rate", "10gbit", "quantum", "60000"],
    &["class", "add", "dev", INTERFACE, "parent", "1:", "classid", "1:2", "htb", "rate", "10gbit", "quantum", "60000"],
    &["qdisc", "add", "dev", INTERFACE, "parent", "1:2", "bfifo", "limit", "1"],
    &[
        "filter", "add", "dev", INTERFACE, "parent", "1:", "protocol", "ip", "u32", "match", "u16", "0x0003", "0x0007",
        "at", "4", "flowid", "1:2",
    ],
];
/// Call of `tc` that gives an interface its own queue again.
const WHOLE_LINK: [&str; 5] = ["qdisc", "del", "dev", INTERFACE, "root"];
/// Makes new sessions find the tables of the run, which are in a schema of its own. It fails if there are several such
/// schemas, or none.
const SEARCH_PATH: &str = "DO $$ BEGIN EXECUTE format('ALTER ROLE postgres SET search_path = %I', \
     (SELECT nspname FROM pg_namespace WHERE nspname LIKE 'plimsoll\\_%')); END $$";
/// Question for the processes that serve the clients of the workload `select`. The connections of the program's own
/// questions have run other statements.
const CLIENTS: &str = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
     AND query LIKE 'SELECT abalance FROM pgbench_accounts %' ORDER BY pid";
/// Trigger that sleeps while a row says so.
const TRIGGER: &str = "CREATE TABLE planted (slow boolean); INSERT INTO planted VALUES (false); \
     CREATE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN IF (SELECT slow FROM planted) THEN PERFORM pg_sleep(0.1); END IF; RETURN NEW; END $$; \
     CREATE TRIGGER planted BEFORE UPDATE ON pgbench_accounts FOR EACH ROW EXECUTE FUNCTION planted();";

/// Prepares the servers below `place` for a cause, once the drive has begun.
pub fn prepare(cause: Cause, place: &Path) -> Result {
    match cause {
        Cause::Lock | Cause::Storm => psql(place, SEARCH_PATH),
        Cause::Trigger => psql(place, SEARCH_PATH).and_then(|()| psql(place, TRIGGER)),
        _ => Ok(()),
    }
}

/// Plants a cause for `length_s` seconds, or for as long as its work takes. `number` chooses one of several sessions.
pub fn plant(cause: Cause, place: &Path, length_s: f64, number: usize) -> Result {
    let length = Duration::from_secs_f64(length_s);
    let ms = (length_s * 1e3) as u64;
    match cause {
        Cause::Pause => {
            let stopped = Stopped::new(server::processes(place)?);
            sleep(length);
            stopped.end()
        }
        Cause::Hang => {
            let stopped = Stopped::new(hung(&clients(place)?, number));
            sleep(length);
            stopped.end()
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
        Cause::Compaction => compaction(place),
        Cause::Backup => backup(place),
        Cause::Crash => crash(session(place, number)?, place, length),
        Cause::Storm => storm(place),
        Cause::Command => {
            let rounds = length_s * 1e3 * ROUNDS_PER_MS;
            let script = format!("local x = 0 for i = 1, {rounds:.0} do x = math.sqrt(i) end return 1");
            redis(place, &["EVAL", &script, "0"]).map(drop)
        }
        Cause::Link => link(place, length, &SLOW_LINK),
        Cause::Loss => link(place, length, &LOSSY_LINK),
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

    fn run(self) -> Result {
        self.output().map(drop)
    }

    fn output(mut self) -> Result<String> {
        line_of(&mut self.0)
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

/// Returns the processes that serve the clients of a private PostgreSQL.
fn clients(place: &Path) -> Result<Vec<u32>> {
    let found = answer(place, CLIENTS)?;
    let all: Vec<u32> = found.lines().filter_map(|id| id.parse().ok()).collect();
    match all.is_empty() {
        true => Err(format!("{}: no process serves a client", place.display())),
        false => Ok(all),
    }
}

/// Returns the [`HUNG`] sessions with this number of several, or all if there are fewer.
fn hung(all: &[u32], number: usize) -> Vec<u32> {
    all.iter().cycle().skip(number * HUNG).take(HUNG.min(all.len())).copied().collect()
}

/// Kills the process of a session. Returns when the server has recovered.
fn crash(id: u32, place: &Path, length: Duration) -> Result {
    signal("KILL", id);
    sleep(length);
    if Path::new(&format!("/proc/{id}")).exists() {
        return Err(format!("process {id}, which served a session, was killed and is still there"));
    }
    recovered(place)
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
    answer(place, statements).map(drop)
}

/// Returns the rows that statements return on a private PostgreSQL.
fn answer(place: &Path, statements: &str) -> Result<String> {
    let options = ["-X", "-q", "-w", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", statements];
    client("psql", place)?.args(options).output()
}

/// Returns a request of a client of a private PostgreSQL.
fn client(program: &str, place: &Path) -> Result<Request> {
    let sockets = server::sockets(&only(place)?)?;
    Ok(request(program).arg("-h").arg(sockets).args(["-U", "postgres"]))
}

/// Sends a command to a private Redis, and returns its reply.
fn redis(place: &Path, words: &[&str]) -> Result<String> {
    reply(&server::sockets(&only(place)?)?.join("redis.sock"), words)
}

/// Returns the reply to a command by the Redis that listens at `socket`: a status, a number or a text.
fn reply(socket: &Path, words: &[&str]) -> Result<String> {
    let failed = |error: std::io::Error| format!("{}: {error}", socket.display());
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(failed)?;
    stream.write_all(command.as_bytes()).map_err(failed)?;
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    stream.read_line(&mut line).map_err(failed)?;
    let line = line.trim_end();
    let length = line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok());
    match (line.strip_prefix(['+', ':']), length) {
        (Some(reply), _) => Ok(reply.to_owned()),
        (None, Some(length)) => {
            let mut text = vec![0; length];
            stream.read_exact(&mut text).map_err(failed)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        (None, None) => Err(format!("redis {}: {line}", words.join(" "))),
    }
}

/// Rewrites the append-only file of a private Redis without what was overwritten since. Returns when that is done.
fn compaction(place: &Path) -> Result {
    redis(place, &["BGREWRITEAOF"])?;
    let begun = Instant::now();
    loop {
        sleep(LOOK);
        let info = redis(place, &["INFO", "persistence"])?;
        match rewrite(&info) {
            Rewrite::Done => return Ok(()),
            Rewrite::Failed => return Err("redis BGREWRITEAOF: the append-only file was not rewritten".to_owned()),
            Rewrite::Running if begun.elapsed() > RECOVERY => {
                return Err(format!("redis BGREWRITEAOF: takes longer than {} s", RECOVERY.as_secs()));
            }
            Rewrite::Running => {}
        }
    }
}

/// State of a rewrite of the append-only file.
#[derive(Debug, PartialEq, Eq)]
enum Rewrite {
    Running,
    Done,
    Failed,
}

/// Returns the state of a rewrite from a server's `INFO persistence`.
fn rewrite(info: &str) -> Rewrite {
    let has = |line: &str| info.lines().any(|known| known.trim_end() == line);
    if has("aof_rewrite_in_progress:1") || has("aof_rewrite_scheduled:1") {
        Rewrite::Running
    } else if has("aof_last_bgrewrite_status:ok") {
        Rewrite::Done
    } else {
        Rewrite::Failed
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
    // A program that ended has used no processor since.
    match busy.0.iter_mut().any(|child| !matches!(child.try_wait(), Ok(None))) {
        true => Err("a program that was to use a processor ended early".to_owned()),
        false => Ok(()),
    }
}

fn quota(place: &Path, length: Duration) -> Result {
    let file = server::group_file(&only(place)?, &["cpu.cfs_quota_us", "cpu.max"])?;
    let before = server::read(&file)?.trim().to_owned();
    // The period is 100 ms in both versions.
    let less = if file.ends_with("cpu.max") { "10000 100000" } else { "10000" };
    let less = Overwritten::new(file, less, before)?;
    sleep(length);
    less.end()
}

fn throttle(place: &Path, length: Duration) -> Result {
    let file = server::group_file(&only(place)?, &["blkio.throttle.write_bps_device", "io.max"])?;
    let before = server::read(&file)?.trim().to_owned();
    let device = before.split_whitespace().next().filter(|device| device.contains(':'));
    let device = device.ok_or_else(|| format!("{}: no device in `{before}`", file.display()))?;
    let less = if file.ends_with("io.max") { format!("{device} wbps=65536") } else { format!("{device} 65536") };
    let less = Overwritten::new(file, &less, before)?;
    sleep(length);
    less.end()
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
    let options = ["-n", "-S", "-C", "-c", "24", "-j", "2", "-T", "1", "postgres"];
    client("pgbench", place)?.args(options).run()
}

/// Interfaces of hosts, by a process on each, that are whole again when this is dropped.
struct ChangedLinks(Vec<u32>);

impl ChangedLinks {
    /// Makes all interfaces whole again.
    ///
    /// # Errors
    /// Fails if one of them cannot be, after the others.
    fn end(mut self) -> Result {
        let hosts = std::mem::take(&mut self.0);
        hosts.into_iter().map(|id| tc(id, &WHOLE_LINK)).fold(Ok(()), Result::and)
    }
}

impl Drop for ChangedLinks {
    fn drop(&mut self) {
        for id in &self.0 {
            let _ = tc(*id, &WHOLE_LINK);
        }
    }
}

/// Changes the interfaces of all servers' hosts by `calls` of `tc` for a time.
fn link(place: &Path, length: Duration, calls: &[&[&str]]) -> Result {
    let mut changed = ChangedLinks(Vec::new());
    for server in server::servers(place)? {
        let id = server::process(&server)?;
        // Noted first, so that a part of a change is undone as well.
        changed.0.push(id);
        calls.iter().try_for_each(|call| tc(id, call))?;
    }
    sleep(length);
    changed.end()
}

/// Calls `tc` on the host that a process is on.
fn tc(id: u32, call: &[&str]) -> Result {
    let id = id.to_string();
    request("nsenter").args(["-t", &id, "-n", "tc"]).args(call.iter().copied()).run()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::cause::{UNWATCHED, WATCHED};
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
        for cause in WATCHED.into_iter().chain(UNWATCHED) {
            // Those of the machine need no server.
            if ![Cause::Neighbour, Cause::Disk, Cause::ForeignWriter].contains(&cause) {
                assert!(plant(cause, place.path(), 0.1, 0).unwrap_err().contains("no server runs here"), "{cause:?}");
            }
        }
        // These use tables of the run.
        for cause in [Cause::Lock, Cause::Storm, Cause::Trigger] {
            assert!(prepare(cause, place.path()).unwrap_err().contains("no server runs here"), "{cause:?}");
        }
        assert!(plant(Cause::ForeignWriter, place.path(), 0.1, 0).unwrap_err().contains("no database file"));
    }

    #[test]
    fn a_client_uses_the_sockets_of_its_server() {
        let place = tempfile::tempdir().unwrap();
        let server = place.path().join("plimsoll-data-x/1/plimsoll-1a2b3c4d");
        fs::create_dir_all(&server).unwrap();
        fs::write(server.join("program"), "123 a-boot").unwrap();
        fs::write(server.join("supervisor"), "plimsoll: private server\nsockets /tmp/s\n").unwrap();
        let Request(command) = client("pgbench", place.path()).unwrap();
        let words: Vec<&str> = command.get_args().filter_map(OsStr::to_str).collect();
        assert_eq!(words, ["-s", "KILL", REQUEST_S, "pgbench", "-h", "/tmp/s", "-U", "postgres"]);
    }

    #[test]
    fn each_hang_stops_other_sessions_until_all_had_their_turn() {
        let all: Vec<u32> = (10..18).collect();
        assert_eq!([0, 1, 3, 4].map(|number| hung(&all, number)), [[10, 11], [12, 13], [16, 17], [10, 11]]);
        assert_eq!(hung(&[10], 3), [10]);
        assert!(hung(&[], 3).is_empty());
    }

    #[test]
    fn replies_of_redis_are_statuses_numbers_texts_and_errors() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("redis.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            for sent in ["+OK\r\n", ":1\r\n", "$6\r\na\r\nb:1\r\n", "-ERR no such command\r\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 14];
                stream.read_exact(&mut asked).unwrap();
                assert_eq!(&asked, b"*1\r\n$4\r\nPING\r\n");
                stream.write_all(sent.as_bytes()).unwrap();
            }
        });
        let ask = || reply(&socket, &["PING"]);
        assert_eq!([ask(), ask(), ask()].map(|reply| reply.unwrap()), ["OK", "1", "a\r\nb:1"]);
        assert_eq!(ask().unwrap_err(), "redis PING: -ERR no such command");
        server.join().unwrap();
    }

    #[test]
    fn a_rewrite_of_redis_runs_is_done_or_failed() {
        let info = |running: u32, scheduled: u32, status: &str| {
            rewrite(&format!(
                "# Persistence\r\naof_rewrite_in_progress:{running}\r\naof_rewrite_scheduled:{scheduled}\r\n\
                 aof_last_bgrewrite_status:{status}\r\n"
            ))
        };
        assert_eq!([info(1, 0, "ok"), info(0, 1, "ok")], [Rewrite::Running, Rewrite::Running]);
        assert_eq!([info(0, 0, "ok"), info(0, 0, "err")], [Rewrite::Done, Rewrite::Failed]);
    }
}
