//! Code that replaces the kernel's functions for reading clocks (vDSO, vdso(7)) in a process, on x86-64.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use plimsoll_core::ClockChange;

/// Functions that read the wall clock, with their positions in [`CODE`].
const FUNCTIONS: [(&[u8], usize); 3] =
    [(b"__vdso_clock_gettime", 0x00), (b"__vdso_gettimeofday", 0x22), (b"__vdso_time", 0x57)];

/// Position-independent code, followed by three numbers: start in nanoseconds since 1970, drift in parts per million,
/// offset in nanoseconds. Only `CLOCK_REALTIME` (0) and `CLOCK_REALTIME_COARSE` (5) are changed.
#[rustfmt::skip]
const CODE: [u8; 192] = [
    // clock_gettime(edi: clock, rsi: timespec)
    0x85, 0xff,                                     // 00  test edi, edi
    0x74, 0x0d,                                     // 02  jz 11
    0x83, 0xff, 0x05,                               // 04  cmp edi, 5
    0x74, 0x08,                                     // 07  jz 11
    0xb8, 0xe4, 0x00, 0x00, 0x00,                   // 09  mov eax, 228: clock_gettime
    0x0f, 0x05,                                     // 0e  syscall
    0xc3,                                           // 10  ret
    0x56,                                           // 11  push rsi
    0xe8, 0x55, 0x00, 0x00, 0x00,                   // 12  call 6c
    0x5e,                                           // 17  pop rsi
    0x48, 0x89, 0x06,                               // 18  mov [rsi], rax
    0x48, 0x89, 0x56, 0x08,                         // 1b  mov [rsi + 8], rdx
    0x31, 0xc0,                                     // 1f  xor eax, eax
    0xc3,                                           // 21  ret
    // gettimeofday(rdi: timeval or null, rsi: time zone or null)
    0x57,                                           // 22  push rdi
    0x56,                                           // 23  push rsi
    0x31, 0xff,                                     // 24  xor edi, edi
    0xe8, 0x41, 0x00, 0x00, 0x00,                   // 26  call 6c
    0x5e,                                           // 2b  pop rsi
    0x5f,                                           // 2c  pop rdi
    0x48, 0x85, 0xff,                               // 2d  test rdi, rdi
    0x74, 0x14,                                     // 30  jz 46
    0x48, 0x89, 0x07,                               // 32  mov [rdi], rax
    0x48, 0x89, 0xd0,                               // 35  mov rax, rdx
    0x31, 0xd2,                                     // 38  xor edx, edx
    0xb9, 0xe8, 0x03, 0x00, 0x00,                   // 3a  mov ecx, 1000
    0x48, 0xf7, 0xf1,                               // 3f  div rcx
    0x48, 0x89, 0x47, 0x08,                         // 42  mov [rdi + 8], rax
    0x31, 0xc0,                                     // 46  xor eax, eax
    0x48, 0x85, 0xf6,                               // 48  test rsi, rsi
    0x74, 0x09,                                     // 4b  jz 56
    0x31, 0xff,                                     // 4d  xor edi, edi
    0xb8, 0x60, 0x00, 0x00, 0x00,                   // 4f  mov eax, 96: gettimeofday, for the time zone only
    0x0f, 0x05,                                     // 54  syscall
    0xc3,                                           // 56  ret
    // time(rdi: seconds or null)
    0x57,                                           // 57  push rdi
    0xbf, 0x05, 0x00, 0x00, 0x00,                   // 58  mov edi, 5
    0xe8, 0x0a, 0x00, 0x00, 0x00,                   // 5d  call 6c
    0x5f,                                           // 62  pop rdi
    0x48, 0x85, 0xff,                               // 63  test rdi, rdi
    0x74, 0x03,                                     // 66  jz 6b
    0x48, 0x89, 0x07,                               // 68  mov [rdi], rax
    0xc3,                                           // 6b  ret
    // Returns the wrong time of clock edi: seconds in rax, nanoseconds in rdx.
    0x48, 0x83, 0xec, 0x18,                         // 6c  sub rsp, 24
    0x48, 0x89, 0xe6,                               // 70  mov rsi, rsp
    0xb8, 0xe4, 0x00, 0x00, 0x00,                   // 73  mov eax, 228: clock_gettime
    0x0f, 0x05,                                     // 78  syscall
    0x4c, 0x69, 0x04, 0x24, 0x00, 0xca, 0x9a, 0x3b, // 7a  imul r8, [rsp], 1000000000
    0x4c, 0x03, 0x44, 0x24, 0x08,                   // 82  add r8, [rsp + 8]
    0x48, 0x83, 0xc4, 0x18,                         // 87  add rsp, 24
    0x4c, 0x89, 0xc0,                               // 8b  mov rax, r8
    0x48, 0x2b, 0x05, 0x2b, 0x00, 0x00, 0x00,       // 8e  sub rax, [c0: start]
    0x48, 0xf7, 0x2d, 0x2c, 0x00, 0x00, 0x00,       // 95  imul qword [c8: drift], to rdx:rax
    0xb9, 0x40, 0x42, 0x0f, 0x00,                   // 9c  mov ecx, 1000000
    0x48, 0xf7, 0xf9,                               // a1  idiv rcx
    0x4c, 0x01, 0xc0,                               // a4  add rax, r8
    0x48, 0x03, 0x05, 0x22, 0x00, 0x00, 0x00,       // a7  add rax, [d0: offset]
    0x48, 0x99,                                     // ae  cqo
    0xb9, 0x00, 0xca, 0x9a, 0x3b,                   // b0  mov ecx, 1000000000
    0x48, 0xf7, 0xf9,                               // b5  idiv rcx
    0xc3,                                           // b8  ret
    0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00,       // b9  nop
];
/// Length of the code with its numbers.
const CODE_BYTES: usize = CODE.len() + 24;
/// Length of the jump to the code at the beginning of a function.
const JUMP_BYTES: usize = 5;

/// Functions of the kernel for reading clocks, as each process has them.
pub(super) struct Vdso {
    image: Vec<u8>,
    /// Positions of [`FUNCTIONS`].
    entries: [usize; FUNCTIONS.len()],
    /// Position of unused bytes for the code.
    room: usize,
}

/// Bytes in a vDSO, with their position.
pub(super) type CodePatch = (usize, Vec<u8>);

impl Vdso {
    /// Returns that of this process, and so of all 64-bit processes of this machine.
    ///
    /// # Errors
    /// Fails if the kernel gives none, or one in which the code has no place.
    pub(super) fn own() -> io::Result<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let range = maps.lines().find(|line| line.ends_with("[vdso]")).and_then(|line| line.split(' ').next());
        let (start, end) = range.and_then(|range| range.split_once('-')).ok_or(io::ErrorKind::Unsupported)?;
        let address = |hex| u64::from_str_radix(hex, 16).map_err(io::Error::other);
        let (start, end) = (address(start)?, address(end)?);
        let mut image = vec![0; end.saturating_sub(start) as usize];
        File::open("/proc/self/mem")?.read_exact_at(&mut image, start)?;
        Self::of(image).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Finds the functions in an image, and room for the code.
    fn of(image: Vec<u8>) -> Option<Self> {
        let (symbols, end) = symbols(&image)?;
        let of_name = |(name, _): (&[u8], usize)| Some(symbols.iter().find(|(other, _)| *other == name)?.1);
        let [clock_gettime, gettimeofday, time] = FUNCTIONS.map(of_name);
        let entries = [clock_gettime?, gettimeofday?, time?];
        // Pages are filled with zeros.
        let room = end.next_multiple_of(64);
        let is_free = image.get(room..room + CODE_BYTES)?.iter().all(|byte| *byte == 0);
        let has_entries = entries.iter().all(|entry| entry + JUMP_BYTES <= end);
        (is_free && has_entries).then_some(Self { image, entries, room })
    }

    /// Returns the length of the image.
    pub(super) fn bytes(&self) -> usize {
        self.image.len()
    }

    /// Returns the code for a clock that is wrong since `start_ns` after 1970, and the jumps to it.
    pub(super) fn wrong(&self, change: ClockChange, start_ns: i64) -> Vec<CodePatch> {
        let numbers = [start_ns, change.drift_ppm, change.by_ns].into_iter().flat_map(i64::to_le_bytes);
        let code: Vec<u8> = CODE.into_iter().chain(numbers).collect();
        std::iter::once((self.room, code)).chain(self.jumps()).collect()
    }

    /// Returns the jumps from the functions to the code.
    fn jumps(&self) -> impl Iterator<Item = CodePatch> {
        self.entries.iter().zip(FUNCTIONS).map(move |(entry, (_, position))| {
            // Both are in the image.
            let distance = (self.room + position) as i32 - (entry + JUMP_BYTES) as i32;
            // jmp
            (*entry, std::iter::once(0xe9).chain(distance.to_le_bytes()).collect())
        })
    }

    /// Returns the beginnings of the functions as the kernel has them. The code may stay: a thread may be in it.
    pub(super) fn right(&self) -> Vec<CodePatch> {
        let original = |entry: usize| (entry, self.image.get(entry..entry + JUMP_BYTES).unwrap_or_default().to_vec());
        self.entries.into_iter().map(original).collect()
    }

    /// Returns true if the functions of a process are the kernel's, or were replaced by this code.
    pub(super) fn is_known(&self, image: &[u8]) -> bool {
        self.right().iter().zip(self.jumps()).all(|(right, jump)| is_in(image, right) || is_in(image, &jump))
    }

    /// Returns true if a thread at this position has executed a part of the bytes that a jump replaces. In the code
    /// itself a thread may be: only the numbers behind it ever change.
    pub(super) fn is_in_use(&self, at: usize) -> bool {
        self.entries.iter().any(|entry| (entry + 1..entry + JUMP_BYTES).contains(&at))
    }
}

/// Returns true if an image has these bytes at their position.
pub(super) fn is_in(image: &[u8], (at, bytes): &CodePatch) -> bool {
    image.get(*at..at + bytes.len()) == Some(bytes.as_slice())
}

/// Returns the functions in an image, by name, with their positions, and the end of the image's content (elf(5)).
fn symbols(image: &[u8]) -> Option<(Vec<(&[u8], usize)>, usize)> {
    const DYNAMIC: usize = 2;
    const LOAD: usize = 1;
    const STRINGS: usize = 5;
    const SYMBOLS: usize = 6;
    const SYMBOL_BYTES: usize = 24;
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let bytes = image.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))
    };
    // 64 bits, little-endian, x86-64.
    if image.get(..6)? != b"\x7fELF\x02\x01" || number(18, 2)? != 62 {
        return None;
    }
    let (segments, sections) = (number(32, 8)?, number(40, 8)?);
    let mut end = sections.checked_add(number(58, 2)? * number(60, 2)?)?;
    let mut dynamic = None;
    for segment in (0..number(56, 2)?).map(|index| segments + index * 56) {
        let (offset, length) = (number(segment + 8, 8)?, number(segment + 32, 8)?);
        match number(segment, 4)? {
            LOAD => end = end.max(offset.checked_add(length)?),
            DYNAMIC => dynamic = Some(offset),
            _ => {}
        }
    }
    let (mut strings, mut table) = (None, None);
    for entry in (dynamic?..image.len()).step_by(16) {
        match number(entry, 8)? {
            0 => break,
            STRINGS => strings = number(entry + 8, 8),
            SYMBOLS => table = number(entry + 8, 8),
            _ => {}
        }
    }
    let (strings, table) = (strings?, table?);
    // The kernel's linker script puts the names behind the symbols.
    let all = (table..strings).step_by(SYMBOL_BYTES).filter_map(|symbol| {
        let name = image.get(strings.checked_add(number(symbol, 4)?)?..)?;
        Some((name.split(|byte| *byte == 0).next()?, number(symbol + 8, 8)?))
    });
    Some((all.collect(), end))
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    use rustix::mm::{MapFlags, ProtFlags};

    use super::*;

    fn now_ns() -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
    }

    /// The code in memory that can be executed.
    struct Executable(*mut std::ffi::c_void);

    impl Executable {
        fn of(code: &[u8]) -> Self {
            let flags = ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC;
            // SAFETY: a new mapping of a page, into which the code fits.
            let page = unsafe {
                let page = rustix::mm::mmap_anonymous(std::ptr::null_mut(), 4096, flags, MapFlags::PRIVATE).unwrap();
                page.cast::<u8>().copy_from_nonoverlapping(code.as_ptr(), code.len());
                page
            };
            Self(page)
        }

        /// Calls the code at `position` with two arguments, of which it writes to the second, or to both.
        fn call(&self, position: usize, first: usize, second: usize) -> i64 {
            // SAFETY: a function of the C calling convention begins there.
            let function = unsafe {
                let start = self.0.cast::<u8>().add(position);
                std::mem::transmute::<*mut u8, extern "C" fn(usize, usize) -> i64>(start)
            };
            function(first, second)
        }

        fn clock_gettime_ns(&self, clock: usize) -> i64 {
            let mut time = [0i64; 2];
            assert_eq!(self.call(FUNCTIONS[0].1, clock, (&raw mut time).expose_provenance()), 0);
            assert!((0..1_000_000_000).contains(&time[1]), "{time:?}");
            time[0] * 1_000_000_000 + time[1]
        }
    }

    impl Drop for Executable {
        fn drop(&mut self) {
            // SAFETY: mapped above, and not used any more.
            unsafe { rustix::mm::munmap(self.0, 4096).unwrap() };
        }
    }

    /// Fails if a clock that is read now is not ahead by `wanted_ns`, to `within_ms`. Pauses meanwhile do not matter.
    #[track_caller]
    fn assert_ahead(wanted_ns: i64, within_ms: i64, read_ns: impl FnOnce() -> i64) {
        let (before_ns, is_ns, after_ns) = (now_ns(), read_ns(), now_ns());
        let (ahead_ns, within_ns) = (is_ns - before_ns - wanted_ns, within_ms * 1_000_000);
        let elapsed_ns = after_ns - before_ns;
        assert!((-within_ns..within_ns + elapsed_ns).contains(&ahead_ns), "{} ms off", ahead_ns / 1_000_000);
    }

    #[test]
    fn the_code_adds_offset_and_drift_to_wall_clocks_and_leaves_others() {
        const SECOND: i64 = 1_000_000_000;
        let vdso = Vdso::own().unwrap();
        for (by_ns, drift_ppm, started_s, wanted_ns) in [
            (5_250_000_000, 0, 0, 5_250_000_000),
            (-ClockChange::BY_NS_MAX, 0, 10, -ClockChange::BY_NS_MAX),
            (0, 500, 1_000, SECOND / 2),
            (SECOND, -100_000, 86_400, SECOND - 8_640 * SECOND),
            (0, 1, 0, 0),
        ] {
            let start_ns = now_ns() - started_s * SECOND;
            let code = vdso.wrong(ClockChange { by_ns, drift_ppm }, start_ns).swap_remove(0).1;
            let code = Executable::of(&code);
            assert_ahead(wanted_ns, 200, || code.clock_gettime_ns(0));
            assert_ahead(wanted_ns, 200, || code.clock_gettime_ns(5));
            let (mut time, mut zone) = ([0i64; 2], [7i32; 2]);
            let to = [(&raw mut time).expose_provenance(), (&raw mut zone).expose_provenance()];
            let before_ns = now_ns();
            assert_eq!(code.call(FUNCTIONS[1].1, to[0], to[1]), 0);
            let (is_ns, elapsed_ns) = (time[0] * SECOND + time[1] * 1_000, now_ns() - before_ns);
            assert!((is_ns - before_ns - wanted_ns).abs() < 200_000_000 + elapsed_ns, "{time:?}");
            assert!(zone != [7; 2] && (0..1_000_000).contains(&time[1]), "{zone:?}, {time:?}");
            assert_eq!(code.call(FUNCTIONS[1].1, 0, 0), 0);
            let mut seconds = 0;
            assert_ahead(wanted_ns, 1_200, || {
                seconds = code.call(FUNCTIONS[2].1, to[0], 0);
                seconds * SECOND
            });
            assert!(time[0] == seconds && code.call(FUNCTIONS[2].1, 0, 0) >= seconds, "{time:?}");
            // CLOCK_MONOTONIC
            let (began, before_ns) = (Instant::now(), code.clock_gettime_ns(1));
            std::thread::sleep(Duration::from_millis(1));
            let passed_ns = code.clock_gettime_ns(1) - before_ns;
            assert!((SECOND / 1_000..=began.elapsed().as_nanos() as i64).contains(&passed_ns), "{passed_ns}");
            let invalid = code.call(FUNCTIONS[0].1, 1_000, to[0]);
            assert_eq!(invalid, -22, "EINVAL");
        }
    }

    #[test]
    fn functions_are_found_by_their_names_and_damaged_images_are_refused() {
        let vdso = Vdso::own().unwrap();
        let names = symbols(&vdso.image).unwrap().0;
        assert!(names.iter().any(|(name, _)| *name == b"__vdso_clock_getres"), "{names:?}");
        let mut entries = vdso.entries;
        entries.sort_unstable();
        assert!(entries.windows(2).all(|pair| pair[0] + JUMP_BYTES <= pair[1]) && entries[2] < vdso.room);
        let (right, wrong) = (vdso.right(), vdso.wrong(ClockChange { by_ns: 1, drift_ppm: 0 }, 0));
        assert!(right.iter().all(|piece| is_in(&vdso.image, piece)));
        let mut image = vdso.image.clone();
        for (at, bytes) in &wrong {
            image[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        assert!(wrong.iter().all(|piece| is_in(&image, piece)) && vdso.is_known(&image));
        assert!(Vdso::of(image).is_none(), "there is no room twice");
        for length in [0, 3, 64, 300, 1_000, vdso.image.len() - 4_000] {
            assert!(Vdso::of(vdso.image[..length].to_vec()).is_none(), "{length}");
        }
        let mut other = vdso.image.clone();
        other[vdso.entries[1]] ^= 1;
        assert!(!vdso.is_known(&other));
    }
}
