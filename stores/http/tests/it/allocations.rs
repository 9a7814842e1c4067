//! Once warm, an operation allocates nothing.

use plimsoll_core::Value;
use plimsoll_testkit::allocations::Counting;
use plimsoll_testkit::wire::allocates_nothing;

use crate::fixture::{GET, HEAD, LOOK, NUMBERED, PUT, ready};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn operations_in_a_pipeline_allocate_nothing() {
    let answers = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 3\r\n\r\nabc\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\
        HTTP/1.1 409 Conflict\r\nContent-Length: 1\r\n\r\nx\
        HTTP/1.1 404 None\r\nContent-Length: 1\r\n\r\nx";
    let of = |kind, place| (kind, [place, Value::Bytes(b"value")]);
    let ops = [GET, LOOK, HEAD, PUT].map(|kind| of(kind, Value::Text("/a b")));
    let ops = [&ops[..], &[of(NUMBERED, Value::Int(-1234))]].concat();
    assert_eq!(allocates_nothing(&mut ready(), &ops, answers), [3, 0, 2, 0]);
}
