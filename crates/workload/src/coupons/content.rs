//! The coupons themselves: every field as a function of (seed, record, version).

use plimsoll_core::{Truth, Value, ValueBuf, Values, Version};

use super::{FIELDS, REDEEMED_END, STAMP};
use crate::scramble::{Feistel, Permutation, below, hash};

/// Crockford's base 32: no I, L, O and U, so that a code can be read aloud.
pub(super) const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CODE_LEN: usize = 12;
const CODE_BITS: u32 = 5 * CODE_LEN as u32;

const NOTE_LEN: usize = 130;
const NOTE_WORDS: [&str; 32] = [
    "valid",
    "for",
    "one",
    "order",
    "with",
    "free",
    "shipping",
    "on",
    "shoes",
    "books",
    "garden",
    "tools",
    "not",
    "combined",
    "other",
    "offers",
    "new",
    "customers",
    "only",
    "while",
    "stock",
    "lasts",
    "returns",
    "excluded",
    "members",
    "weekend",
    "summer",
    "winter",
    "gift",
    "card",
    "partner",
    "shop",
];
const SEASONS: [&str; 4] = ["spring", "summer", "autumn", "winter"];

/// 2011-01-01 00:00 UTC in microseconds: the first day on which a coupon may expire.
const EXPIRES_FIRST_US: i64 = 1_293_840_000_000_000;
const DAY_US: i64 = 86_400_000_000;

/// Salt of the hash of a record or of an update.
const FIELDS_SALT: u64 = 0xf1e1d5;
const NOTE_SALT: u64 = 0x4073;
const VALUE_SALT: u64 = 0x7a1;

/// All coupons of one seed.
pub(super) struct Content {
    pub(super) seed: u64,
    pub(super) records: u64,
    /// The bound that the query asks for.
    pub(super) below: u64,
    matches: u64,
    /// Records of a rank below this change sides: half of them match at first, and after any update each does with the
    /// same probability, so that the index changes and the number of matches does not drift.
    pub(super) busy: u64,
    codes: Feistel,
    /// The records' order by redeemed count, as loaded.
    pub(super) ranks: Permutation,
}

impl Content {
    pub(super) fn new(seed: u64, records: u64, below: u64) -> Self {
        let matches = (below * records).div_ceil(REDEEMED_END);
        Self {
            seed,
            records,
            below,
            matches,
            busy: (2 * matches).min(records),
            codes: Feistel::new(hash(seed, 1, 0), CODE_BITS),
            ranks: Permutation::new(hash(seed, 2, 0), records),
        }
    }

    /// Bytes of a record's values on average, by a sample.
    pub(super) fn record_bytes(&self) -> u64 {
        let sample = self.records.min(1_000);
        let mut campaign = String::new();
        for id in 0..sample {
            self.write_campaign(id, &mut campaign);
        }
        let fixed = CODE_LEN + NOTE_LEN + 5 * size_of::<i64>();
        fixed as u64 + (campaign.len() as u64 + sample / 2) / sample
    }

    /// Appends the code of record `id` to the parameters of an operation on it.
    pub(super) fn name(&self, id: u64, params: &mut ValueBuf) {
        params.push_text_with(|code| self.write_code(id, code));
        params.name_record(id);
    }

    pub(super) fn write_code(&self, id: u64, code: &mut String) {
        let bits = self.codes.apply(id);
        for place in (0..CODE_LEN).rev() {
            code.push(char::from(ALPHABET[(bits >> (5 * place)) as usize & 31]));
        }
    }

    /// The redeemed count that operation `cycle` of `client` writes into record `id`.
    pub(super) fn redeemed_written(&self, id: u64, client: u32, cycle: u64) -> i64 {
        let bits = hash(self.seed ^ VALUE_SALT, u64::from(client), cycle);
        let busy = self.ranks.apply(id) < self.busy;
        let matching = busy && below(bits, self.busy) < self.matches;
        let value = hash(bits, VALUE_SALT, 0);
        let count = if matching || self.below == REDEEMED_END {
            below(value, self.below)
        } else {
            self.below + below(value, REDEEMED_END - self.below)
        };
        count as i64
    }

    fn redeemed(&self, id: u64, version: Version) -> i64 {
        match version {
            Version::Loaded => (self.ranks.apply(id) * REDEEMED_END / self.records) as i64,
            Version::Written { client, cycle } => self.redeemed_written(id, client, cycle),
        }
    }

    fn write_campaign(&self, id: u64, campaign: &mut String) {
        let number = hash(self.seed ^ FIELDS_SALT, id, 1) % 400;
        campaign.push_str(SEASONS[(number % 4) as usize]);
        campaign.push_str("-2011-");
        for unit in [100, 10, 1] {
            campaign.push(char::from(b'0' + (number / unit % 10) as u8));
        }
    }

    fn write_note(&self, id: u64, note: &mut String) {
        let end = note.len() + NOTE_LEN;
        let mut block = 0;
        while note.len() < end {
            let mut bits = hash(self.seed ^ NOTE_SALT, id, block);
            for _ in 0..12 {
                note.push_str(NOTE_WORDS[bits as usize & 31]);
                note.push(' ');
                bits >>= 5;
            }
            block += 1;
        }
        note.truncate(end);
    }
}

impl Truth for Content {
    fn record_id(&self, key: Value<'_>) -> Option<u64> {
        let Value::Text(code) = key else { return None };
        let code: &[u8; CODE_LEN] = code.as_bytes().try_into().ok()?;
        let mut bits = 0;
        for letter in code {
            bits = bits << 5 | u64::from(*LETTER_VALUES.get(usize::from(*letter))?);
            if LETTER_VALUES[usize::from(*letter)] > 31 {
                return None;
            }
        }
        let id = self.codes.invert(bits);
        (id < self.records).then_some(id)
    }

    fn version(&self, row: Values<'_>) -> Option<Version> {
        match row.get(usize::from(STAMP)) {
            Value::Int(stamp) if row.len() == FIELDS.len() => Version::from_stamp(stamp),
            _ => None,
        }
    }

    fn row(&self, id: u64, version: Version, row: &mut ValueBuf) {
        let bits = hash(self.seed ^ FIELDS_SALT, id, 0);
        row.push_text_with(|code| self.write_code(id, code));
        row.push(Value::Int(1 + (bits & 0xfff) as i64));
        row.push(Value::Int(self.redeemed(id, version)));
        row.push(Value::Int(100 * (1 + (bits >> 12 & 0x7f) as i64)));
        row.push(Value::Timestamp(EXPIRES_FIRST_US + DAY_US * ((bits >> 24) % 730) as i64));
        row.push_text_with(|campaign| self.write_campaign(id, campaign));
        row.push_text_with(|note| self.write_note(id, note));
        row.push(Value::Int(version.stamp()));
    }
}

/// Position of each ASCII character in the alphabet, 255 for those that are not in it.
static LETTER_VALUES: [u8; 128] = {
    let mut values = [255; 128];
    let mut place = 0;
    while place < ALPHABET.len() {
        values[ALPHABET[place] as usize] = place as u8;
        place += 1;
    }
    values
};
