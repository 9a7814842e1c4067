//! Where servers under test live: private ones on this machine, started, watched and removed.
//!
//! | module | what |
//! |---|---|
//! | [`page_cache`] | drops the files of one directory tree from the page cache and counts what stayed |

pub mod page_cache;

pub use page_cache::{PageCache, drop_files};
