//! The recording: one SQLite file in which a run is kept, complete at any kill.
//!
//! Only this crate opens a recording; everybody else works on [`data`]. It derives nothing: what was seen is
//! stored, and medians, rates and verdicts are made from it elsewhere, each time.
//!
//! | module | what |
//! |---|---|
//! | [`data`] | plain data: what the writer is given and the reader gives back |
//! | [`Distribution`] | a histogram without its empty places, as it is read back |
//! | [`schema`] | the tables, and the numbers by which a file is known to be a recording |
//! | [`Recorder`] | writes a recording while a run goes on |
//! | `reader` | [`data::Run::load`]: reads finished, killed and growing ones; [`glance`], without what was measured |
//! | `runs` | names of runs, where they are kept, [`list`], [`ids`], [`find`], [`remove`] |
//! | [`RecordError`] | what can go wrong, where, and what to do |

pub mod data;
mod distribution;
mod error;
mod fault;
mod leb128;
mod operations;
mod outline;
mod phase_end;
mod reader;
mod rows;
mod runs;
pub mod schema;
mod silences;
mod ticks;
mod writer;

pub use distribution::{Distribution, packed};
pub use error::RecordError;
pub use reader::{Glance, files, glance, is_file_of_one};
pub use runs::{Listed, RunSummary, default_runs_dir, find, ids, is_live, list, removable, remove, run_id};
pub use writer::Recorder;
