//! What needs a process of its own: the allocator is counted.

mod allocations;
