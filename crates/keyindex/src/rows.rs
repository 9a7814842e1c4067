//! Pairs of bytes, one after the other in one buffer.

/// Keys and records that are inserted together: a buffer, cleared and filled again.
#[derive(Debug, Default, Clone)]
pub(crate) struct Rows {
    bytes: Vec<u8>,
    /// Start of a key, end of it and start of its record, end of that.
    spans: Vec<(usize, usize, usize)>,
}

impl Rows {
    /// Forgets all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, key: &[u8], record: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(key), |bytes| bytes.extend_from_slice(record));
    }

    /// Adds a row whose key and record are appended to the buffer, without a temporary.
    pub(crate) fn push_with(&mut self, key: impl FnOnce(&mut Vec<u8>), record: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        let middle = self.bytes.len();
        record(&mut self.bytes);
        self.spans.push((start, middle, self.bytes.len()));
    }

    /// The key of the row at `position`.
    pub(crate) fn key(&self, position: usize) -> &[u8] {
        let (start, middle, _) = self.spans[position];
        &self.bytes[start..middle]
    }

    /// The record of the row at `position`.
    pub(crate) fn record(&self, position: usize) -> &[u8] {
        let (_, middle, end) = self.spans[position];
        &self.bytes[middle..end]
    }

    /// All rows: keys and records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|position| (self.key(position), self.record(position)))
    }

    /// Bytes of all keys and records.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Keeps the rows at these positions, which ascend.
    pub(crate) fn keep(&mut self, positions: &[usize]) {
        for (to, from) in positions.iter().enumerate() {
            self.spans[to] = self.spans[*from];
        }
        self.spans.truncate(positions.len());
    }

    /// Replaces `order` by the positions of all rows, in the order of their keys; rows of one key stay in order.
    pub(crate) fn by_key(&self, order: &mut Vec<usize>) {
        order.clear();
        order.extend(0..self.len());
        if !order.is_sorted_by_key(|position| self.key(*position)) {
            order.sort_unstable_by(|a, b| self.key(*a).cmp(self.key(*b)).then(a.cmp(b)));
        }
    }
}
