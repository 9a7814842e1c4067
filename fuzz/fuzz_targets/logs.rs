//! Tests that readers of logs take any bytes, and count the same in pieces as whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::production::LogEntry;
use plimsoll_logs::{LineOptions, LineReader, LogFormat, LogText, SliceTable, recognise};

fn read(format: LogFormat, bytes: &[u8], piece: usize) -> LogText {
    let reader = LineReader::new(format, LineOptions { newest_us: 1_800_000_000_000_000, ..LineOptions::default() });
    let mut log = LogText::new(reader, SliceTable::growing());
    bytes.chunks(piece).for_each(|piece| log.push(piece));
    log.end_file();
    log
}

fuzz_target!(|bytes: &[u8]| {
    recognise(bytes);
    for format in LogFormat::ALL {
        let (mut whole, pieces) = (read(format, bytes, bytes.len().max(1)), read(format, bytes, 7));
        assert_eq!(whole.counts(), pieces.counts());
        let slices = whole.table().take_all();
        let timed: u64 = slices.iter().map(|slice| slice.timed() + slice.untimed).sum();
        assert_eq!(timed, whole.counts().ops);
    }
    for store in plimsoll_stores::kinds() {
        let mut log = LogText::new(LineReader::new(LogFormat::Statements, LineOptions::default()), SliceTable::growing());
        let mut bytes = bytes;
        // Some logs are refused.
        let _ = store.read_log(&mut bytes, &mut |entry: LogEntry<'_>| log.entry(entry));
    }
});
