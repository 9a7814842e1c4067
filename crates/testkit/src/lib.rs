//! Conformance suites for stores, and fixtures for the ledger.
//!
//! For tests: a conformance suite that every store passes with one line, a reference store, a store that
//! lies. It knows no store by name and asks them only through `core`'s traits and the drive loop, as a run does.
//!
//! ```text
//! #[test]
//! fn it_conforms() {
//!     plimsoll_testkit::conformance::run(&*plimsoll_store_sqlite::kind());
//! }
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`conformance`] | the suite, gated by what a store declares |
//! | [`equals`] | the suite for clusters whose servers each take every request |
//! | [`mod@reference`] | records in memory behind one lock, right by its plainness |
//! | [`lying`] | the reference store with one kind of lie |
//! | [`lying_kv`] | keys and values in memory, told truly or with one kind of lie |
//! | [`advice`] | shell commands that messages advise |
//! | [`trial`] | a small trial with the ledger on |
//! | [`simulated`] | drives on simulated time, of which a minute takes milliseconds |
//! | [`allocations`] | what each thread allocates |
//! | [`draw`] | random draws with a seed that can be repeated |
//! | [`ask`] | single operations with their answers |
//! | [`wire`] | the same without the drive loop, over a socket |
//! | [`records`] | records of one collection, and blocking sessions |
//! | [`pieces`] | the same without a socket: bytes in pieces |
//! | [`mod@sql`] | the suite for SQL stores |
//! | [`private`] | the life of a private server |
//! | [`process`] | servers that tests start themselves |
//! | [`opening`] | options to open stores with |
//! | [`mod@steps`] | steps of one test |
//! | [`proxy`] | a proxy in front of a server that goes silent, closes or resets |
//! | [`certificates`] | certificates for servers that speak TLS |
//! | [`params`] | parameters at their defaults |
//! | [`owned`], `table` | values that own what they hold; records in memory |

pub mod advice;
pub mod allocations;
pub mod ask;
pub mod certificates;
pub mod conformance;
pub mod draw;
pub mod equals;
pub mod lying;
pub mod lying_kv;
pub mod opening;
pub mod owned;
pub mod params;
pub mod pieces;
pub mod private;
pub mod process;
pub mod proxy;
pub mod records;
pub mod reference;
pub mod simulated;
pub mod sql;
pub mod steps;
pub mod trial;
pub mod wire;

mod table;
