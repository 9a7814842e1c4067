//! Tests that texts of plans and of the command line are read or refused: conditions, formulas, quantities, zones and
//! URLs, whose secrets lie within the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::{Condition, Formula, log_time};
use plimsoll_plan::{Dimension, parse_quantity, password_ranges, secret_ranges, split_password, without_secrets};

fuzz_target!(|text: &str| {
    let errors = [Condition::parse(text).err(), Formula::parse(text).err()];
    for error in errors.into_iter().flatten() {
        assert!(text.is_char_boundary(error.at) && !error.what.is_empty());
    }
    for dimension in [Dimension::Time, Dimension::Size, Dimension::Rate, Dimension::Share] {
        let _ = parse_quantity(text, dimension);
    }
    let _ = (log_time::offset_s(text.as_bytes()), split_password(text), without_secrets(text));
    for ranges in [password_ranges(text), secret_ranges(text)] {
        assert!(ranges.into_iter().all(|range| text.get(range).is_some()));
    }
});
