//! `plimsoll trace` and `plimsoll files`, of real processes.

use std::path::Path;
use std::time::Duration;

use plimsoll_trace::{Call, FileTracer, TraceSpec, Tracer, Way};
use serde_json::Value;

use crate::action::Place;
use crate::servers::Postgres;

const THREE_SYNCS: &str = "for i in 1 2 3; do dd if=/dev/zero of=trace.tmp bs=8k count=1 conv=fdatasync; done; rm trace.tmp";
