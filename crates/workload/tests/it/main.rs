//! Tests that need a process of their own: they count allocations.

mod allocations;
