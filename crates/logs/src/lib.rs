//! Operations in logs of servers, as slices: tables of response times and numbers of operations. No I/O.
//!
//! Bytes of a log go into a [`LogText`]. It splits them into lines, reads each by the grammar of a [`LogFormat`], and
//! counts its operation in the slice of its time. Slices are taken from its [`SliceTable`].
//!
//! | file | content |
//! |---|---|
//! | `line` | [`LogFormat`], [`LineReader`], and the format of a log by its first lines |
//! | `access` | access logs of web servers |
//! | `took` | response time behind the common part of access logs |
//! | `proxy` | HTTP log of HAProxy |
//! | `directory` | access logs of directory servers |
//! | `pauses` | pauses in the log of a Java virtual machine |
//! | `scan` | pieces of lines: words, quoted texts, numbers |
//! | `text` | [`LogText`]: bytes to slices, with counts of what could not be read |
//! | `table` | [`SliceTable`] |

mod access;
mod directory;
mod line;
mod pauses;
mod proxy;
mod scan;
mod table;
mod text;
mod took;

pub use line::{LineOptions, LineReader, LogFormat, LogLine, LoggedOp, TimeUnit, recognise};
pub use table::{SLICES_MAX, SliceTable, TableSlice};
pub use text::{LogCounts, LogText};
