//! Once warm, an operation allocates nothing.

use plimsoll_core::Value;
use plimsoll_testkit::allocations::Counting;
use plimsoll_testkit::wire::allocates_nothing;

use crate::fixture::{DELETE, GET, LOOK, NUMBERED, OWN, PUT, SCAN, ready_for_own};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn operations_in_a_pipeline_allocate_nothing() {
    let replies = b"$3\r\nabc\r\n$3\r\nabc\r\n:1\r\n+OK\r\n+OK\r\n*2\r\n:1\r\n$1\r\na\r\n+PONG\r\n";
    let of = |kind, key| (kind, [key, Value::Text("value")]);
    let by_key = [GET, LOOK, DELETE, PUT].map(|kind| of(kind, Value::Bytes(b"key")));
    let numbered = [of(NUMBERED, Value::Int(-1234)), of(OWN, Value::Int(-1234)), of(SCAN, Value::Bytes(b"key"))];
    assert_eq!(allocates_nothing(&mut ready_for_own(), &[&by_key[..], &numbered].concat(), replies), [6, 0, 1, 0]);
}
