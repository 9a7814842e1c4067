//! Verbs, each in a file.

pub mod ab;
pub mod again;
pub mod ask;
pub mod capture;
pub mod check;
pub mod compare;
pub mod cost;
pub mod doctor;
pub mod drive;
pub mod explain;
pub mod faultfs;
pub mod files;
pub mod honesty;
pub mod lab;
pub mod line;
pub mod list;
pub mod mcp;
pub mod promise;
pub mod report;
pub mod run;
pub mod runs;
pub mod shell;
pub mod sync;
pub mod trace;
pub mod watch;
