//! Runs a plan: its trials one after the other, the search for its load line, or two sides in turn; into a recording,
//! and under the eyes of whoever wants to know meanwhile.
//!
//! | module | what |
//! |---|---|
//! | `run`, `open` | a run from its first word to its last; stores: what is said and refused beforehand, opened, left |
//! | `sink` | what is told of a run, and to whom: the recording and a [`Sink`] |
//! | `cells` | trials that are each for themselves: several at once, over after a loss, and gone on with |
//! | `line`, `ab` | the search for the load line, rung by rung; two sides in turn, pair by pair |
//! | `trial`, `steps`, `phase`, `check` | a trial: its phases in order, what each does, one driven phase, the truth afterwards |
//! | `at_once`, `found`, `size` | a load without sessions; data that others have made; how large data are beside caches |
//! | `power` | a disk that loses power while it is driven, and what is left of the store's data |
//! | `durability` | how durable writes are where nobody said it |
//! | `drive_spec`, `sockets` | a plan's drive in the drive loop's words; how sockets are asked for |
//! | `precheck`, `needs`, `writes` | what can be known to go wrong before anything is started, and what must be allowed |
//! | `watch`, `written`, `pin` | what goes on beside: what is read of the machine and the store, device bytes, processors for the server |
//! | `data` | where the data of a run's own stores is |
//! | `error` | what keeps a run from its end |

mod ab;
mod actions;
mod at_once;
mod cells;
mod check;
mod copies;
mod data;
mod drive_spec;
mod durability;
mod error;
mod faulted;
mod found;
mod line;
mod needs;
mod open;
mod phase;
mod pin;
mod power;
mod precheck;
mod run;
mod scenarios;
mod sink;
mod size;
mod sockets;
mod steps;
mod trial;
mod watch;
mod writes;
mod written;

pub use cells::{Cells, kept};
pub use data::data_elsewhere;
pub use error::{ErrorKind, TrialError};
pub use needs::{Needs, bound_sessions, needs};
pub use run::{Ended, RunSpec, run};
pub use sink::{CellsSoFar, Sink, Told};
pub use sockets::taken as sockets_taken;
