#![doc = include_str!("../README.md")]
//!
//! ## Layout
//!
//! | file | what |
//! |---|---|
//! | `tracer` | [`Tracer`]: chooses a way, and says what is new |
//! | `traced` | what it says: [`Traced`], [`Process`], [`Slow`] |
//! | `call`, `times` | the calls; how long they took |
//! | `bpf`, `programs`, `assembler` | the first way: programs that the kernel runs |
//! | `proc` | the second: looking again and again at what threads wait for |
//! | `blocks` | requests to block devices, and how long they took |
//! | `waits` | waits of threads off the processor |
//! | `files`, `openings` | which files a process uses, and how |
//! | `notify` | how the files of a directory are used, by whomever |
//! | `place`, `processes`, `tracefs` | from `/proc` and tracefs: paths, descendants, tracepoints |
//! | `sys` | what is `unsafe` |
//!
//! What it is not: a profiler, or a general tracer.

mod assembler;
mod blocks;
mod bpf;
mod call;
mod error;
mod files;
mod notify;
mod openings;
mod place;
mod proc;
mod processes;
mod programs;
mod sys;
mod times;
mod traced;
mod tracefs;
mod tracer;
mod waits;

pub use blocks::{BlockRequest, BlockTracer, BlocksSeen, DeviceNumber};
pub use call::Call;
pub use error::TraceError;
pub use files::{FileTracer, FileUse, FilesSeen};
pub use notify::DirectoryWatch;
pub use processes::{MEMBERS_MAX, is_there, start_of, with_descendants};
pub use times::Times;
pub use traced::{Calls, Process, Slow, Traced, Way};
pub use tracer::{TraceSpec, Tracer};
pub use waits::{WaitTracer, WaitsSeen};
