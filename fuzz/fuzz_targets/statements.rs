//! Tests that `plimsoll capture` takes any statement, with values and without, in each dialect.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_capture::StatementLog;
use plimsoll_core::Dialect;
use plimsoll_core::production::LogEntry;

fuzz_target!(|text: &str| {
    let values = [Some(text.to_owned()), None];
    for dialect in Dialect::ALL {
        let mut log = StatementLog::new(dialect, 3);
        log.log(LogEntry::Statement(text, &values));
        log.log(LogEntry::Statement(text, &[]));
        log.log(LogEntry::Cut(true));
    }
});
