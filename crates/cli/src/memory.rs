//! Text and exit code when the system has no memory left, instead of an abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

use crate::error::exit;

/// The system's allocator, which ends the program with a message if no memory is left: no caller could continue.
struct Telling;

#[global_allocator]
static ALLOCATOR: Telling = Telling;

// SAFETY: memory comes from and goes to the system's allocator; null is never returned.
unsafe impl GlobalAlloc for Telling {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on to the caller.
        given(unsafe { System.realloc(start, layout, size) }, size)
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(start, layout) }
    }
}

#[inline]
fn given(start: *mut u8, bytes: usize) -> *mut u8 {
    if start.is_null() { none_left(bytes) } else { start }
}

/// Reports that memory is exhausted and ends the program. Allocates nothing, and runs nothing that might. Private
/// servers end with this process, and the recording is complete up to its last slice.
#[cold]
fn none_left(bytes: usize) -> ! {
    let mut text = [0; 320];
    let mut rest = &mut text[..];
    // What does not fit is left out.
    let _ = write!(
        rest,
        "\nerror: out of memory: {bytes} bytes could not be allocated\n  → use fewer clients, records or operations \
         (`plimsoll check` says what a plan takes), or raise the limit: free memory, ulimit -v, or the control group's\n"
    );
    let length = 320 - rest.len();
    crate::live::restore();
    // SAFETY: it reads so many bytes of the text; and ending the process needs nothing.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length);
        libc::_exit(i32::from(exit::EXHAUSTED))
    }
}
