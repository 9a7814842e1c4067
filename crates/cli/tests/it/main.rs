//! The program as its users run it.

// A broken expectation is what a test is there to show.
#![allow(clippy::unwrap_used)]

mod ab;
mod action;
mod attached;
mod bench;
mod capture;
mod coming_from;
mod commands;
mod compare;
mod completion;
mod connections;
mod coupons;
mod csv_values;
mod damage;
mod described;
mod doctor;
mod failures;
mod interrupted;
mod kill;
mod kv;
mod kv_crash;
mod kv_ledger;
mod lab;
mod line;
mod live;
mod marked;
mod needs;
mod open_loop;
mod pgbench_errors;
mod placement;
mod requests;
mod said;
mod secrets;
mod servers;
mod settings;
mod shapes;
mod trace;
mod usage;
mod waits;
mod warmup;
