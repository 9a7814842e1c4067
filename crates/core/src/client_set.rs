//! Sets of clients, as slices have them.

/// Response time from which on an operation affects its client, in nanoseconds. Failed operations do too.
pub const AFFECTED_NS: u64 = 100_000_000;

/// Set of clients of a phase, which have the numbers from 0 on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientSet {
    /// Number of clients of the phase.
    of: u32,
    /// Bits of clients: the first word has clients 0 to 63, the lowest bit first. The last word is not 0.
    words: Vec<u64>,
}

impl ClientSet {
    /// Returns the empty set of a phase of `of` clients.
    pub fn none_of(of: u32) -> Self {
        Self { of, words: Vec::new() }
    }

    /// Returns the number of clients of the phase.
    pub fn of(&self) -> u32 {
        self.of
    }

    /// Adds the client of this number. Other numbers than those of the phase are left out.
    pub fn insert(&mut self, client: u32) {
        self.insert_word((client / u64::BITS) as usize, 1u64 << (client % u64::BITS));
    }

    /// Adds clients from `64 * word` on: those whose bits are set.
    pub fn insert_word(&mut self, word: usize, bits: u64) {
        let from = word as u64 * u64::from(u64::BITS);
        let bits = match u64::from(self.of).saturating_sub(from) {
            clients if clients < u64::from(u64::BITS) => bits & ((1u64 << clients) - 1),
            _ => bits,
        };
        if bits == 0 {
            return;
        }
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bits;
    }

    /// Adds the clients of another set of the phase.
    pub fn include(&mut self, other: &ClientSet) {
        for (word, bits) in other.words.iter().enumerate() {
            self.insert_word(word, *bits);
        }
    }

    /// Returns the number of clients in the set.
    pub fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns true if no client is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the bits as bytes, the lowest first, without zeros at the end.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        bytes
    }

    /// Returns the set of a phase of `of` clients with these bits; `None` if one is of no client.
    pub fn from_bytes(of: u32, bytes: &[u8]) -> Option<Self> {
        let mut set = Self::none_of(of);
        for (at, byte) in bytes.iter().enumerate() {
            for bit in (0..u8::BITS).filter(|bit| (byte >> bit) & 1 == 1) {
                let client = u32::try_from(at).ok()?.checked_mul(u8::BITS)?.checked_add(bit)?;
                if client >= of {
                    return None;
                }
                set.insert(client);
            }
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(of: u32, clients: &[u32]) -> ClientSet {
        let mut set = ClientSet::none_of(of);
        clients.iter().for_each(|client| set.insert(*client));
        set
    }

    #[test]
    fn clients_count_once_and_others_than_those_of_the_phase_not_at_all() {
        let mut all = set(70, &[0, 0, 63, 64, 69, 70, 127, 128, u32::MAX]);
        assert_eq!((all.len(), all.of(), all.is_empty()), (4, 70, false));
        all.include(&set(70, &[1, 63]));
        assert_eq!(all, set(70, &[0, 1, 63, 64, 69]));
        all.insert_word(1, u64::MAX);
        assert_eq!(all.len(), 3 + 6);
        assert!(set(0, &[0]).is_empty() && set(128, &[127]).len() == 1);
    }

    #[test]
    fn a_set_is_read_back_from_its_bytes_and_bits_of_no_client_are_refused() {
        for clients in [&[][..], &[0], &[7, 8], &[63, 64, 99]] {
            let one = set(100, clients);
            assert_eq!(ClientSet::from_bytes(100, &one.to_bytes()), Some(one));
        }
        assert_eq!(set(100, &[0, 9]).to_bytes(), [1, 2]);
        assert_eq!(ClientSet::from_bytes(9, &[0, 1]), Some(set(9, &[8])));
        assert_eq!(ClientSet::from_bytes(8, &[0, 1]), None);
        assert!(ClientSet::from_bytes(8, &[0; 100]).is_some_and(|one| one.is_empty()));
    }
}
