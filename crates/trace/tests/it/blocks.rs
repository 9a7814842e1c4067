use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::Command;
use std::time::Instant;

use plimsoll_trace::{BlockRequest, BlockTracer, DeviceNumber};

use crate::ways::directory;

/// Reads and writes that go around the page cache need an aligned buffer.
#[repr(align(4096))]
struct Block([u8; 4096]);

/// A loop device over a file on the disk.
struct Device {
    path: String,
    _place: tempfile::TempDir,
}

impl Device {
    fn new() -> Self {
        let place = directory();
        let image = place.path().join("image");
        File::create(&image).unwrap().set_len(8 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        let made = made.unwrap_or_else(|error| panic!("losetup, of the package util-linux: {error}"));
        assert!(made.status.success(), "this needs root and loop devices: {}", String::from_utf8_lossy(&made.stderr));
        Self { path: String::from_utf8(made.stdout).unwrap().trim().to_owned(), _place: place }
    }

    fn number(&self) -> DeviceNumber {
        let device = std::fs::metadata(&self.path).unwrap().rdev();
        (rustix::fs::major(device), rustix::fs::minor(device))
    }

    /// Reads, writes and flushes since its beginning, as the kernel counts them.
    fn counted(&self) -> [u64; 3] {
        let name = self.path.trim_start_matches("/dev/");
        let text = std::fs::read_to_string("/proc/diskstats").unwrap();
        let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(name)).unwrap();
        let field = |at: usize| line.split_whitespace().nth(2 + at).unwrap().parse::<u64>().unwrap();
        [field(1), field(5), field(16)]
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

#[test]
fn requests_to_a_device_are_counted_as_the_kernel_counts_them_and_timed() {
    const WANTED: [(BlockRequest, u64); 3] =
        [(BlockRequest::Read, 100), (BlockRequest::Write, 300), (BlockRequest::Flush, 30)];
    let device = Device::new();
    let number = device.number();
    let file = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(&device.path).unwrap();
    let mut tracer = BlockTracer::start().unwrap_or_else(|error| panic!("{error}\n{}", error.next()));
    tracer.read().unwrap();
    let before = device.counted();
    let began = Instant::now();
    let mut block = Block([1; 4096]);
    for at in 0..300 {
        file.write_all_at(&block.0, at * 4096).unwrap();
        if at % 10 == 0 {
            file.sync_all().unwrap();
        }
    }
    for at in 0..100 {
        file.read_exact_at(&mut block.0, at * 4096).unwrap();
    }
    let took_ns = began.elapsed().as_nanos() as u64;
    let seen = tracer.read().unwrap();
    let now = device.counted();
    let [reads, writes, flushes] = [0, 1, 2].map(|at| now[at] - before[at]);
    // A flush that was asked for without data is counted as a write, too.
    let counted = [reads, writes - flushes, flushes];
    let times = |request| seen.new.get(&(number, request)).cloned().unwrap_or_default();
    // On a machine without a free processor some are lost, and counted.
    assert!(seen.lost <= 30, "{} lost", seen.lost);
    for ((request, wanted), counted) in WANTED.into_iter().zip(counted) {
        let traced = times(request).len();
        // The kernel counts a request after the writer has its answer.
        assert!(traced + seen.lost >= wanted && traced + seen.lost + 1 >= counted, "{request:?}: {traced} {counted}");
        assert!(traced <= counted + 1, "{request:?}: {traced} {counted}");
        let fastest = times(request).quantile(0.0);
        assert!(fastest.is_some_and(|ns| ns > 100), "{request:?}: {fastest:?}");
    }
    // One after the other: together they took no longer than all of it.
    let sum_ns: u64 = WANTED.iter().map(|(request, _)| times(*request).sum_ns()).sum();
    assert!(sum_ns * 50 > took_ns && sum_ns < took_ns + took_ns / 50, "{sum_ns} of {took_ns} ns");
    // Each request is told once.
    let next = tracer.read().unwrap();
    assert!(next.new.keys().all(|(one, _)| *one != number), "{next:?}");
}
