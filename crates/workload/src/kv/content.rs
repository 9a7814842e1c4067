//! Keys and values: functions of (seed, record, version), from which both can be told again.
//!
//! A key is `user` and 19 digits, a number that stands for the record's: records in order have keys in no order, as in
//! YCSB, and two records never have the same. A value begins with that number and with the stamp of its write,
//! followed by printable characters that are a function of both.

use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::{ValueBuf, Version};

use crate::scramble::{Feistel, beginning, hash_from, mix};

/// Number and stamp.
pub(super) const HEADER_BYTES: usize = 16;
/// A key's bytes.
pub(super) const KEY_BYTES: usize = KEY_BEGIN.len() + KEY_DIGITS;

const KEY_BEGIN: &[u8] = b"user";
const KEY_DIGITS: usize = 19;
/// Numbers that keys stand for, as a power of two; below 10^19.
const KEY_BITS: u32 = 62;
/// Characters that values are cut out of: a power of two. Small enough to stay in a core's second cache.
const CHARACTERS: usize = 1 << 16;

/// Keys and values of one seed.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    seed: u64,
    keys: Feistel,
    value_bytes: usize,
    characters: Arc<[u8]>,
}

impl Content {
    /// Keys, and values of `value_bytes` each, at least [`HEADER_BYTES`].
    pub(super) fn new(seed: u64, value_bytes: usize) -> Self {
        Self {
            seed,
            keys: Feistel::new(seed, KEY_BITS),
            value_bytes: value_bytes.max(HEADER_BYTES),
            characters: characters(seed),
        }
    }

    /// Appends the key of record `id`, which is below 2^62.
    #[inline]
    pub fn write_key(&self, id: u64, key: &mut Vec<u8>) {
        write_key(self.keys.apply(id), key);
    }

    /// Appends the key of record `id` to the parameters of an operation on it.
    #[inline]
    pub(super) fn name(&self, id: u64, params: &mut ValueBuf) {
        params.push_bytes_with(|key| self.write_key(id, key));
        params.name_record(id);
    }

    /// The record with this key; `None` for keys that no record has.
    pub fn id_of(&self, key: &[u8]) -> Option<u64> {
        number_of(key).map(|number| self.keys.invert(number))
    }

    /// Appends the value that `version` of record `id` has.
    #[inline]
    pub fn write_value(&self, id: u64, version: Version, value: &mut Vec<u8>) {
        self.value_of(self.keys.apply(id), version, value);
    }

    /// Writes the value of the record with this key, which must be a key of this content.
    #[inline]
    pub(super) fn write_value_of(&self, key: &[u8], version: Version, value: &mut Vec<u8>) {
        self.value_of(number_of(key).unwrap_or_default(), version, value);
    }

    /// Returns the write that the value found under `key` is of; `None` if no write of this workload produces such
    /// bytes.
    pub fn version_of(&self, key: &[u8], value: &[u8]) -> Option<Version> {
        self.version_in(number_of(key)?, value)
    }

    /// Returns the write that a value found under the key of record `id` is of.
    #[inline]
    pub fn version_under(&self, id: u64, value: &[u8]) -> Option<Version> {
        self.version_in(self.keys.apply(id), value)
    }

    /// Returns the write that the beginning of a value claims.
    #[inline]
    pub(super) fn claim(value: &[u8]) -> Option<Version> {
        let stamp = value.get(8..HEADER_BYTES)?.try_into().map(i64::from_le_bytes).ok()?;
        Version::from_stamp(stamp)
    }

    /// Compares every byte, without making the value that it compares with.
    // The number that the value claims is compared last, so that its characters are found without waiting for `number`.
    #[inline]
    fn version_in(&self, number: u64, value: &[u8]) -> Option<Version> {
        let version = Self::claim(value)?;
        let claimed = value.get(..8)?.try_into().map(u64::from_le_bytes).ok()?;
        let mut rest = value.get(HEADER_BYTES..).filter(|_| value.len() == self.value_bytes)?;
        let mut place = self.first_place(claimed, version.stamp());
        while !rest.is_empty() {
            let from = place as usize % CHARACTERS;
            let part = &self.characters[from..CHARACTERS.min(from + rest.len())];
            let (found, after) = rest.split_at(part.len());
            if found != part {
                return None;
            }
            rest = after;
            place = mix(place);
        }
        (claimed == number).then_some(version)
    }

    /// Returns the position in the characters at which the first part of a value begins.
    #[inline]
    fn first_place(&self, number: u64, stamp: i64) -> u64 {
        mix(self.seed ^ number ^ (stamp as u64).rotate_left(32))
    }

    #[inline]
    fn value_of(&self, number: u64, version: Version, value: &mut Vec<u8>) {
        let stamp = version.stamp();
        value.reserve(self.value_bytes);
        value.extend_from_slice(&number.to_le_bytes());
        value.extend_from_slice(&stamp.to_le_bytes());
        let mut left = self.value_bytes - HEADER_BYTES;
        let mut place = self.first_place(number, stamp);
        while left > 0 {
            let from = place as usize % CHARACTERS;
            let part = &self.characters[from..CHARACTERS.min(from + left)];
            value.extend_from_slice(part);
            left -= part.len();
            place = mix(place);
        }
    }
}

/// Returns the characters that values of this seed are cut out of: printable, as YCSB's, from the blank to the tilde. Those
/// of the last seed are kept: a run makes its workload for each check and each trial.
fn characters(seed: u64) -> Arc<[u8]> {
    static LAST: Mutex<Option<(u64, Arc<[u8]>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, characters)) = last.as_ref().filter(|(of, _)| *of == seed) {
        return Arc::clone(characters);
    }
    let of_seed = beginning(seed);
    let character = |place: usize| b' ' + (hash_from(of_seed, 0xc4a8, place as u64) % 95) as u8;
    let characters: Arc<[u8]> = (0..CHARACTERS).map(character).collect();
    *last = Some((seed, Arc::clone(&characters)));
    characters
}

#[inline]
fn write_key(number: u64, key: &mut Vec<u8>) {
    const EIGHT: u64 = 100_000_000;
    let mut text = *b"user0000000000000000000";
    // Three parts that do not wait for each other.
    let (above, low) = (number / EIGHT, number % EIGHT);
    let (top, middle) = (above / EIGHT, above % EIGHT);
    text[4] = b'0' + (top / 100) as u8;
    text[5] = b'0' + (top / 10 % 10) as u8;
    text[6] = b'0' + (top % 10) as u8;
    text[7..15].copy_from_slice(&eight_digits(middle));
    text[15..].copy_from_slice(&eight_digits(low));
    key.extend_from_slice(&text);
}

/// The decimal digits of a number below 10^8. All eight are told apart at once, in the bytes of one word: first pairs of
/// pairs, then pairs, then digits (as D. Lemire describes it, "Converting integers to fix-digit representations
/// quickly", 2021). The constants are reciprocals that are exact for what can stand in their part of the word.
#[inline]
fn eight_digits(number: u64) -> [u8; 8] {
    let fours = number / 10_000 + ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds + ((fours - 100 * hundreds) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens + ((twos - 10 * tens) << 8);
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

fn number_of(key: &[u8]) -> Option<u64> {
    let digits = key.strip_prefix(KEY_BEGIN).filter(|digits| digits.len() == KEY_DIGITS)?;
    let mut number = 0u64;
    for digit in digits {
        number =
            number.checked_mul(10)?.checked_add(u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?))?;
    }
    (number < 1 << KEY_BITS).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // A content is 65,536 characters to draw.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_key_is_a_number_in_nineteen_digits(bits: u64, few in 0u32..62) {
            for number in [bits >> 2, bits >> 2 >> few, 99_999_999, 100_000_000, 9_999_999_999_999_999] {
                let mut key = Vec::new();
                write_key(number, &mut key);
                prop_assert_eq!(key, format!("user{number:019}").into_bytes());
            }
        }

        #[test]
        fn a_key_gives_its_record_back(seed: u64, id in 0u64..1 << 62, junk: Vec<u8>) {
            let content = Content::new(seed, 100);
            let mut key = Vec::new();
            content.write_key(id, &mut key);
            prop_assert_eq!(key.len(), KEY_BYTES);
            prop_assert_eq!(content.id_of(&key), Some(id));
            prop_assert_eq!(content.id_of(&key[1..]), None);
            prop_assert_eq!(content.id_of(&junk), None);
        }

        #[test]
        fn a_value_tells_whose_it_is(seed: u64, id in 0u64..1 << 40, client in 0u32..1 << 20, cycle in 0u64..1 << 39, bytes in 16usize..5_000, place: prop::sample::Index) {
            let content = Content::new(seed, bytes);
            let (mut key, mut other, mut value, mut same) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            content.write_key(id, &mut key);
            content.write_key(id + 1, &mut other);
            let version = Version::Written { client, cycle };
            content.write_value(id, version, &mut value);
            content.write_value_of(&key, version, &mut same);
            prop_assert_eq!(&value, &same);
            prop_assert_eq!(value.len(), bytes);
            prop_assert_eq!(content.version_of(&key, &value), Some(version));
            prop_assert_eq!(content.version_under(id, &value), Some(version));
            prop_assert_eq!(content.version_of(&other, &value), None);
            prop_assert_eq!(content.version_under(id + 1, &value), None);
            let place = place.index(bytes);
            value[place] ^= 1;
            prop_assert_eq!(content.version_of(&key, &value), None);
            prop_assert_eq!(content.version_of(&key, &value[1..]), None);
        }
    }

    #[test]
    fn values_are_printable_and_differ_from_write_to_write() {
        let content = Content::new(1, 1_000);
        let (mut loaded, mut written) = (Vec::new(), Vec::new());
        content.write_value(5, Version::Loaded, &mut loaded);
        content.write_value(5, Version::Written { client: 0, cycle: 0 }, &mut written);
        assert!(loaded[HEADER_BYTES..].iter().all(|byte| (b' '..=b'~').contains(byte)));
        let same = loaded[HEADER_BYTES..].iter().zip(&written[HEADER_BYTES..]).filter(|(a, b)| a == b).count();
        assert!(same < 40, "{same} of 984 characters are the same, 10 are by chance");
    }
}
