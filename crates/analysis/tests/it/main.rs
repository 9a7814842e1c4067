//! Tests of the analysis, on runs like those that the coupon study records.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

mod ab;
mod affected;
mod answer;
mod backlog;
mod compare;
mod compared;
mod counted;
mod driven;
mod failovers;
mod faulted;
mod faults;
mod faults_healed;
mod faults_judged;
mod findings;
mod findings_bound;
mod findings_faults;
mod findings_levels;
mod findings_moderate;
mod findings_sides;
mod fine;
mod fold;
mod goals;
mod key_parts;
mod kinds_of_run;
mod late;
mod line;
mod line_statements;
mod live;
mod lost_writes;
mod nodes;
mod noisy;
mod outage;
mod pauses;
mod peak;
mod promise;
mod recorded;
mod selection;
mod shortfall;
mod silent_clients;
mod silent_nodes;
mod simulated;
mod spans;
mod stale_reads;
mod stall;
mod study;
mod summary;
mod unknown_writes;
mod view;
mod warmup;
mod watched;
