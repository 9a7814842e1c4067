//! Everything here runs against a real Redis, or against what a real one sent.

mod conformance;
