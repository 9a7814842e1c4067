//! Once warm, an operation allocates nothing.

use plimsoll_core::Value;
use plimsoll_testkit::allocations::Counting;
use plimsoll_testkit::wire::allocates_nothing;

use crate::fixture::{ADD, COMPARE, DELETE, LOOK, entry, ready, result};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn operations_in_a_pipeline_allocate_nothing() {
    // The last first, so that the next round has the same numbers again.
    let answers: Vec<u8> = [
        result(5, 0x65, 51),
        result(4, 0x69, 0),
        entry(1),
        result(3, 0x6b, 32),
        result(2, 0x6f, 6),
        entry(1),
        result(1, 0x65, 0),
    ]
    .concat();
    let ops = [LOOK, COMPARE, DELETE, ADD, LOOK].map(|kind| (kind, [Value::Int(-1234), Value::Text("a,b")]));
    assert_eq!(allocates_nothing(&mut ready(), &ops, &answers), [3, 1, 1, 0]);
}
