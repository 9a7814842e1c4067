//! Counts of answers by their status, and of the sizes of their bodies.

use hdrhistogram::Histogram;

/// Answers of sessions: number of each status of the protocol, and sizes of bodies. Counting takes two additions, and
/// allocates at the first answer of a status or of a larger size only.
#[derive(Debug, Clone, Default)]
pub struct AnswerTally {
    statuses: Vec<(u16, u64)>,
    /// Sizes with two significant digits; `None` before the first answer.
    sizes: Option<Histogram<u32>>,
    bytes_min: u64,
    bytes_max: u64,
}

impl AnswerTally {
    /// Counts an answer.
    #[inline]
    pub fn note(&mut self, status: u16, body_bytes: u64) {
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, count)) => *count += 1,
            None => self.statuses.push((status, 1)),
        }
        match &mut self.sizes {
            Some(sizes) => {
                // A histogram that resizes itself takes every size.
                let _ = sizes.record(body_bytes);
            }
            None => self.begin(body_bytes),
        }
        self.bytes_min = self.bytes_min.min(body_bytes);
        self.bytes_max = self.bytes_max.max(body_bytes);
    }

    #[cold]
    fn begin(&mut self, body_bytes: u64) {
        (self.bytes_min, self.bytes_max) = (body_bytes, body_bytes);
        self.sizes = Histogram::new(2).ok();
        if let Some(sizes) = &mut self.sizes {
            let _ = sizes.record(body_bytes);
        }
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        let Some(more) = &other.sizes else { return };
        for (status, more) in &other.statuses {
            match self.statuses.iter_mut().find(|(known, _)| known == status) {
                Some((_, count)) => *count += more,
                None => self.statuses.push((*status, *more)),
            }
        }
        match &mut self.sizes {
            Some(sizes) => {
                // Two histograms that resize themselves can be added.
                let _ = sizes.add(more);
                self.bytes_min = self.bytes_min.min(other.bytes_min);
                self.bytes_max = self.bytes_max.max(other.bytes_max);
            }
            None => {
                self.sizes = Some(more.clone());
                (self.bytes_min, self.bytes_max) = (other.bytes_min, other.bytes_max);
            }
        }
    }

    /// Number of answers.
    pub fn count(&self) -> u64 {
        self.statuses.iter().map(|(_, count)| count).sum()
    }

    /// Number of answers with each status, in ascending order.
    pub fn statuses(&self) -> Vec<(u16, u64)> {
        let mut all = self.statuses.clone();
        all.sort_unstable();
        all
    }

    /// Median size of a body in bytes, within 1 %, and exact if all have one size; `None` without an answer.
    pub fn bytes_median(&self) -> Option<u64> {
        let median = self.sizes.as_ref()?.value_at_quantile(0.5);
        Some(median.clamp(self.bytes_min, self.bytes_max))
    }

    /// Size of the largest body in bytes; `None` without an answer.
    pub fn bytes_max(&self) -> Option<u64> {
        self.sizes.as_ref().map(|_| self.bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_status_and_size_and_several_tallies_are_one() {
        let (mut all, mut one, mut other) = (AnswerTally::default(), AnswerTally::default(), AnswerTally::default());
        assert_eq!((all.count(), all.bytes_median(), all.bytes_max()), (0, None, None));
        (0..3).for_each(|_| one.note(200, 612));
        assert_eq!((one.bytes_median(), one.bytes_max()), (Some(612), Some(612)), "exact if all are alike");
        other.note(404, 0);
        (0..2).for_each(|_| other.note(200, 5_000_000));
        all.add(&AnswerTally::default());
        for tally in [&one, &other] {
            all.add(tally);
        }
        assert_eq!((all.count(), all.statuses()), (6, vec![(200, 5), (404, 1)]));
        let median = all.bytes_median().unwrap();
        assert!((606..=618).contains(&median), "{median}");
        assert_eq!(all.bytes_max(), Some(5_000_000));
        other.note(503, 0);
        assert_eq!(other.bytes_median(), Some(0), "half of them");
    }
}
