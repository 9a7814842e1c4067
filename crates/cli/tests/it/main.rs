//! The program as its users run it.

// A broken expectation is what a test is there to show.
#![allow(clippy::unwrap_used)]

mod ab;
mod action;
mod answer;
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
mod disk_fault;
mod doctor;
mod failures;
mod faultfs;
mod in_front;
mod interrupted;
mod kill;
mod known_settings;
mod kv_crash;
mod kv_ledger;
mod lab;
mod lab_acts;
mod lab_join;
mod lab_progress;
mod lab_refusals;
mod lab_reload;
mod labels;
mod line;
mod live;
mod marked;
mod needs;
mod pgbench_errors;
mod placement;
mod promise;
mod reads_apart;
mod requests;
mod resume;
mod said;
mod secrets;
mod servers;
mod settings;
mod shapes;
mod smaller;
mod sync;
mod trace;
mod usage;
mod waits;
mod warmup;
