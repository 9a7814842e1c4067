//! Tests of the lab against the real operating system.

mod page_cache;
