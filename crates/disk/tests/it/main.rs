//! Real disks, file systems and counters.
