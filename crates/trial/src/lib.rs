//! Runs a plan: its trials one after the other, the search for its load line, or two sides in turn. Writes a
//! recording, and reports events to a sink.
//!
//! | module | what |
//! |---|---|
//! | `run`, `open` | a run from start to end; stores: announcements and refusals, opening, leaving |
//! | `sink`, `queued` | events of a run, for the recording and a [`Sink`]; sinks that may be slow |
//! | `cells` | independent trials: several at once, over after a loss |
//! | `again` | continuation of a run that was killed or stopped |
//! | `line`, `ab` | the search for the load line, load step by load step; two sides in turn, pair by pair |
//! | `phase`, `state`, `trial`, `steps`, `check` | a trial at work, the state of its store, its phases in order, the work of each, the check afterwards |
//! | `tick_spans` | ticks of what a check found, joined to few spans |
//! | `drive`, `slices`, `operations` | one driven phase with the threads beside it; its slices; its operations one by one |
//! | `at_once`, `found`, `size` | a load without sessions; foreign data; the size of data compared with caches |
//! | `director`, `fault_check`, `lost_primary`, `ended_ops`, `readings` | faults of a phase: carried out, healed, recorded; those that cannot be; those after which no primary is left; operations and readings that they wait for |
//! | `fine` | times around faults, with finer readings |
//! | `join_progress` | series of nodes that join or start, and of planned work |
//! | `disturbance`, `storm` | faults from outside of servers: connection storms, noisy neighbours, commands of the user |
//! | `attached` | faults of attached servers, on the clients' side |
//! | `faulted` | errors of a store whose disk had a fault: results, instead of failures of the run |
//! | `alive`, `lab_acts` | servers that end during a drive, and actions of others on a lab |
//! | `power` | a disk that loses power during a drive, and the store's data afterwards |
//! | `durability` | durability of writes without a setting |
//! | `copies`, `expected` | contents of each node; number of operations that a timed phase must have done |
//! | `scenarios` | operation types and clients of several scenarios in one drive |
//! | `drive_spec`, `sockets` | a plan's drive as parameters of the drive loop; the kernel interface for sockets |
//! | `precheck`, `client_hosts`, `needs`, `here`, `writes` | errors that can be detected before anything is started, missing programs, and required permissions |
//! | `watch`, `written`, `pin` | concurrent work: readings of the machine and the store, device bytes, processors for the server |
//! | `watched`, `log_file`, `log_directory`, `log_grammar` | what runs already, watched without a load; files of logs, directories in which they grow, and their grammars |
//! | `data` | place of the data of private stores |
//! | `error` | errors of a run |

mod ab;
mod again;
mod alive;
mod at_once;
mod attached;
mod cells;
mod check;
mod client_hosts;
mod copies;
mod data;
mod director;
mod disturbance;
mod drive;
mod drive_spec;
mod durability;
mod ended_ops;
mod error;
mod expected;
mod fault_check;
mod faulted;
mod fine;
mod found;
pub mod here;
mod join_progress;
mod lab_acts;
mod line;
mod log_directory;
mod log_file;
mod log_grammar;
mod lost_primary;
mod needs;
mod open;
mod operations;
mod phase;
mod pin;
mod power;
mod precheck;
mod queued;
mod readings;
mod run;
mod scenarios;
mod sink;
mod size;
mod slices;
mod sockets;
mod state;
mod steps;
mod storm;
mod tick_spans;
mod trial;
mod watch;
mod watched;
mod writes;
mod written;

pub use cells::Cells;
pub use error::{TrialError, io_error, write_error};
pub use lost_primary::lost_primaries;
pub use needs::{Needs, bound_sessions, needs};
pub use open::{possible, record_count};
pub use queued::{ForkedSink, QueuedSink};
pub use run::{Ended, RunSpec, remove_data, run};
pub use sink::{CellsSoFar, Sink, Told};
pub use sockets::taken as sockets_taken;
pub use watched::{WatchSpec, WatchedLog, WatchedServer, watch};
