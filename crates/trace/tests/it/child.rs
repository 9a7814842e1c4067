//! A process that does what it is told: this test program, started again.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

/// A process that waits for words on its standard input, and answers each line when it has done what it says.
pub struct Told {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Told {
    pub fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child::a_process_does_what_it_is_told", "--exact", "--ignored", "--nocapture"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut told = Self { child, input, output };
        told.does("");
        told
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Performs `what`: `CALL TIMES PATH`, or `fork CALL TIMES PATH` in a child of its own.
    pub fn does(&mut self, what: &str) {
        writeln!(self.input, "{what}").unwrap();
        let mut line = String::new();
        while line.trim() != "done" {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended at `{what}`");
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "started by other tests"]
fn a_process_does_what_it_is_told() {
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["fork", call, times, path] => {
                let mut child = Told::start();
                child.does(&format!("{call} {times} {path}"));
            }
            [call, times, path] => (0..times.parse::<u32>().unwrap()).for_each(|at| one(call, at, Path::new(path))),
            _ => {}
        }
        println!("\ndone");
    }
}

fn one(call: &str, at: u32, path: &Path) {
    let open = || File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    let written = || {
        let mut file = open();
        file.write_all(&at.to_ne_bytes()).unwrap();
        file
    };
    match call {
        "fsync" => written().sync_all().unwrap(),
        "fdatasync" => written().sync_data().unwrap(),
        "nothing" => drop(written()),
        // 10 blocks of 8 KiB, read again, renamed and deleted.
        "life" => {
            let mut file = open();
            (0..10).for_each(|_| file.write_all(&[1; 8192]).unwrap());
            file.sync_data().unwrap();
            drop(file);
            let mut file = open();
            (0..20).for_each(|_| file.read_exact(&mut [0; 4096]).unwrap());
            drop(file);
            std::fs::rename(path, path.with_extension("old")).unwrap();
            std::fs::remove_file(path.with_extension("old")).unwrap();
        }
        "syncfs" => rustix::fs::syncfs(open()).unwrap(),
        // It cannot be synced.
        "failing" => assert!(rustix::fs::fsync(std::io::pipe().unwrap().1.as_fd()).is_err()),
        "big" => {
            let file = open();
            let block = vec![at as u8 + 1; 8 << 20];
            // The kernel may have written all of it before it is synced.
            let is_slow = |_: u32| {
                (0..64).for_each(|place| file.write_all_at(&block, place * block.len() as u64).unwrap());
                let start = Instant::now();
                file.sync_all().unwrap();
                start.elapsed() > Duration::from_millis(100)
            };
            assert!((0..20).any(is_slow), "no sync of 512 MiB takes 100 ms here");
        }
        "uring" => {
            let file = written();
            let mut ring = io_uring::IoUring::new(4).unwrap();
            let entry = io_uring::opcode::Fsync::new(io_uring::types::Fd(file.as_raw_fd())).build();
            // SAFETY: the file is open until its answer is there; the entry points to nothing.
            unsafe { ring.submission().push(&entry).unwrap() };
            ring.submit_and_wait(1).unwrap();
            assert_eq!(ring.completion().next().unwrap().result(), 0);
        }
        "dsync" => {
            use std::os::unix::fs::OpenOptionsExt;
            let mut options = File::options();
            let mut file = options.write(true).create(true).custom_flags(libc::O_DSYNC).open(path).unwrap();
            file.write_all(&at.to_ne_bytes()).unwrap();
        }
        "msync" => {
            let file = open();
            file.set_len(4096).unwrap();
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, at a place of the kernel's choice, of a file that is long enough.
            unsafe {
                let start =
                    rustix::mm::mmap(std::ptr::null_mut(), 4096, protection, MapFlags::SHARED, &file, 0).unwrap();
                start.cast::<u32>().write_volatile(at);
                rustix::mm::msync(start, 4096, MsyncFlags::SYNC).unwrap();
                rustix::mm::munmap(start, 4096).unwrap();
            }
        }
        other => panic!("unknown call {other}"),
    }
}
