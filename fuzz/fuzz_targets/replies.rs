//! Tests that replies of Redis are taken in any bytes: a whole reply ends within them, and its end does not depend on
//! the bytes behind it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_store_redis::resp::{token, whole};

fuzz_target!(|bytes: &[u8]| {
    token(bytes);
    if let Ok(Some(used)) = whole(bytes) {
        assert!(used <= bytes.len());
        assert!(matches!(whole(&bytes[..used]), Ok(Some(again)) if again == used));
    }
});
