//! Metrics in Prometheus' protobuf format, in which histograms are native ones beside the classic ones.
//!
//! The format is a message `MetricFamily` of `io/prometheus/client/metrics.proto` for each metric, each behind its
//! length. A native histogram has buckets whose bounds are powers of `2^(2^-schema)` seconds; those without times are
//! left out.

use plimsoll_analysis::Times;

use crate::listen::metrics::{self, MetricFamily, MetricKind, MetricSample, MetricValue};

/// Media type of the format.
pub const MEDIA_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Schema of native histograms: 2^5 buckets for each doubling, each 2.2 % wide.
const SCHEMA: i64 = 5;
/// Buckets for each doubling.
const BUCKETS_PER_DOUBLING: f64 = 32.0;
/// Times up to this are counted apart: 2^-128 s, the default of Prometheus' own libraries.
const ZERO_THRESHOLD_S: f64 = 2.938_735_877_055_719e-39;

/// Kinds of values on the wire.
const VARINT: u64 = 0;
const DOUBLE: u64 = 1;
const LENGTH: u64 = 2;

/// Returns the metrics as messages.
pub fn encoded(families: &[MetricFamily<'_>]) -> Vec<u8> {
    let mut out = Message::default();
    for MetricFamily { name, about, kind, samples } in families {
        let mut family = Message::default();
        family.text(1, name);
        family.text(2, about);
        let number = match kind {
            MetricKind::Counter => 0,
            MetricKind::Gauge => 1,
            MetricKind::Histogram => 4,
        };
        family.number(3, number);
        samples.iter().for_each(|sample| family.message(4, &metric(*kind, sample)));
        out.delimited(&family.0);
    }
    out.0
}

/// Returns a message `Metric`.
fn metric(kind: MetricKind, sample: &MetricSample<'_>) -> Message {
    let mut metric = Message::default();
    for (name, value) in &sample.labels {
        let mut label = Message::default();
        label.text(1, name);
        label.text(2, value);
        metric.message(1, &label);
    }
    match sample.value {
        MetricValue::Number(value) => {
            let mut number = Message::default();
            number.double(1, value);
            metric.message(if kind == MetricKind::Counter { 3 } else { 2 }, &number);
        }
        MetricValue::Times(times) => metric.message(7, &histogram(times)),
    }
    metric
}

/// Returns a message `Histogram`: a classic and a native one.
fn histogram(times: &Times) -> Message {
    let mut histogram = Message::default();
    histogram.number(1, times.len());
    histogram.double(2, metrics::sum_s(times));
    for (bound, count) in metrics::buckets(times) {
        let mut bucket = Message::default();
        bucket.number(1, count);
        bucket.double(2, bound);
        histogram.message(3, &bucket);
    }
    histogram.signed(5, SCHEMA);
    histogram.double(6, ZERO_THRESHOLD_S);
    let (zeros, buckets) = exponential(times);
    histogram.number(7, zeros);
    for (offset, length) in spans(&buckets) {
        let mut span = Message::default();
        span.signed(1, offset);
        span.number(2, length);
        histogram.message(12, &span);
    }
    let mut before = 0_i64;
    for (_, count) in buckets {
        // The difference from the bucket before.
        histogram.signed(13, count as i64 - before);
        before = count as i64;
    }
    histogram
}

/// Returns the number of times of 0, and the buckets that have others: index and number of times, ascending. Bucket `i`
/// ends at `2^(i / 32)` seconds, inclusive.
fn exponential(times: &Times) -> (u64, Vec<(i64, u64)>) {
    let (mut zeros, mut buckets) = (0_u64, Vec::<(i64, u64)>::new());
    for (ns, count) in times.counts() {
        if *ns == 0 {
            zeros += count;
            continue;
        }
        let index = ((*ns as f64 / 1e9).log2() * BUCKETS_PER_DOUBLING).ceil() as i64;
        match buckets.last_mut() {
            Some((last, sum)) if *last == index => *sum += count,
            _ => buckets.push((index, *count)),
        }
    }
    (zeros, buckets)
}

/// Returns runs of buckets: the distance from the end of the run before, or from 0, and the number of buckets.
fn spans(buckets: &[(i64, u64)]) -> Vec<(i64, u64)> {
    let (mut spans, mut next) = (Vec::<(i64, u64)>::new(), 0_i64);
    for (index, _) in buckets {
        match spans.last_mut() {
            Some((_, length)) if *index == next => *length += 1,
            _ => spans.push((index - next, 1)),
        }
        next = index + 1;
    }
    spans
}

/// Message of Protocol Buffers.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u64, value: u64) {
        self.varint((field << 3) | VARINT);
        self.varint(value);
    }

    /// Adds a number of type `sint32` or `sint64`.
    fn signed(&mut self, field: u64, value: i64) {
        self.number(field, ((value << 1) ^ (value >> 63)) as u64);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.varint((field << 3) | DOUBLE);
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, field: u64, value: &str) {
        self.varint((field << 3) | LENGTH);
        self.delimited(value.as_bytes());
    }

    fn message(&mut self, field: u64, value: &Message) {
        self.varint((field << 3) | LENGTH);
        self.delimited(&value.0);
    }

    fn delimited(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Adds seven bits a byte, the lowest first; the highest bit of a byte tells that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value of a field.
    #[derive(Debug, Clone, PartialEq)]
    enum Read {
        Number(u64),
        Double(f64),
        Bytes(Vec<u8>),
    }

    impl Read {
        fn signed(&self) -> i64 {
            let Read::Number(number) = self else { panic!("{self:?} is no number") };
            let half = (number / 2) as i64;
            if number % 2 == 0 { half } else { -half - 1 }
        }

        fn fields(&self) -> Vec<(u64, Read)> {
            let Read::Bytes(bytes) = self else { panic!("{self:?} is no message") };
            fields(bytes)
        }
    }

    fn varint(bytes: &mut &[u8]) -> u64 {
        let length = bytes.iter().position(|byte| *byte < 128).unwrap() + 1;
        let (digits, rest) = bytes.split_at(length);
        *bytes = rest;
        digits.iter().rev().fold(0, |sum, digit| sum * 128 + u64::from(digit % 128))
    }

    fn delimited(bytes: &mut &[u8]) -> Vec<u8> {
        let length = varint(bytes) as usize;
        let (value, rest) = bytes.split_at(length);
        *bytes = rest;
        value.to_vec()
    }

    /// Returns the fields of a message in their order.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Read)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key % 8 {
                0 => Read::Number(varint(&mut bytes)),
                1 => {
                    let (value, rest) = bytes.split_at(8);
                    bytes = rest;
                    Read::Double(f64::from_le_bytes(value.try_into().unwrap()))
                }
                2 => Read::Bytes(delimited(&mut bytes)),
                kind => panic!("wire type {kind}"),
            };
            fields.push((key / 8, value));
        }
        fields
    }

    fn all(fields: &[(u64, Read)], number: u64) -> Vec<Read> {
        fields.iter().filter(|(field, _)| *field == number).map(|(_, value)| value.clone()).collect()
    }

    /// Returns the fields of the only histogram of a metric of these times.
    fn histogram_of(times: &Times) -> Vec<(u64, Read)> {
        let labels = vec![("store".to_owned(), "a\"b".to_owned())];
        let samples = vec![MetricSample { labels, value: MetricValue::Times(times) }];
        let (name, about) = ("x_seconds".to_owned(), "Times.".to_owned());
        let bytes = encoded(&[MetricFamily { name, about, kind: MetricKind::Histogram, samples }]);
        let mut rest = bytes.as_slice();
        let family = fields(&delimited(&mut rest));
        assert!(rest.is_empty());
        let text = |text: &str| Read::Bytes(text.as_bytes().to_vec());
        assert_eq!(family[..3], [(1, text("x_seconds")), (2, text("Times.")), (3, Read::Number(4))]);
        let metric = all(&family, 4)[0].fields();
        assert_eq!(all(&metric, 1)[0].fields(), [(1, text("store")), (2, text("a\"b"))]);
        all(&metric, 7)[0].fields()
    }

    /// Returns the native buckets: lower and upper bound in seconds, and the number of times.
    fn native(histogram: &[(u64, Read)]) -> Vec<(f64, f64, i64)> {
        let schema = all(histogram, 5)[0].signed();
        let base = 2_f64.powf(2_f64.powi(-schema as i32));
        let deltas = all(histogram, 13);
        let (mut deltas, mut index, mut count) = (deltas.iter(), 0_i64, 0_i64);
        let mut buckets = Vec::new();
        for span in all(histogram, 12) {
            let span = span.fields();
            index += all(&span, 1)[0].signed();
            let Read::Number(length) = all(&span, 2)[0] else { panic!("{span:?}") };
            for _ in 0..length {
                count += deltas.next().unwrap().signed();
                buckets.push((base.powi(index as i32 - 1), base.powi(index as i32), count));
                index += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        buckets
    }

    #[test]
    fn a_native_histogram_has_each_time_in_the_bucket_of_its_bounds() {
        let counts = [
            (0, 4),
            (1, 1),
            (900, 300),
            (905, 7),
            (40_000, 5),
            (40_900, 2),
            (500_000_000, 1),
            (1_000_000_000, 6),
            (1_000_000_001, 2),
            (60_000_000_000, 2),
        ];
        let mut times = Times::default();
        times.add(&counts);
        let histogram = histogram_of(&times);
        assert_eq!(all(&histogram, 1), [Read::Number(330)]);
        let Read::Double(sum) = all(&histogram, 2)[0] else { panic!("{histogram:?}") };
        assert!((sum - times.mean_ns() * 330.0 / 1e9).abs() < 1e-9, "{sum}");
        assert_eq!(all(&histogram, 7), [Read::Number(4)], "times of 0");
        let native = native(&histogram);
        assert_eq!(native.iter().map(|(_, _, count)| count).sum::<i64>() + 4, 330);
        for (lower, upper, count) in native {
            assert!(upper / lower < 1.022);
            // Bounds are calculated here in another way, with other errors.
            let is_in = |ns: u64| {
                let time = ns as f64 / 1e9;
                time > lower * (1.0 + 1e-11) && time <= upper * (1.0 + 1e-11)
            };
            let wanted: u64 = counts.iter().filter(|(ns, _)| is_in(*ns)).map(|(_, count)| count).sum();
            assert_eq!(count, wanted as i64, "{lower} to {upper}");
        }
    }

    #[test]
    fn a_classic_histogram_stands_beside_the_native_one() {
        let mut times = Times::default();
        times.add(&[(900, 3), (2_000_000_000, 1), (60_000_000_000, 2)]);
        let histogram = histogram_of(&times);
        let classic: Vec<(u64, Read)> = all(&histogram, 3).iter().flat_map(Read::fields).collect();
        assert_eq!(classic[..2], [(1, Read::Number(3)), (2, Read::Double(1e-6))]);
        assert_eq!(classic[classic.len() - 2..], [(1, Read::Number(4)), (2, Read::Double(10.0))]);
    }

    #[test]
    fn a_histogram_without_times_is_still_a_native_one() {
        let histogram = histogram_of(&Times::default());
        assert_eq!((native(&histogram), all(&histogram, 7)), (Vec::new(), vec![Read::Number(0)]));
        assert!(matches!(all(&histogram, 6)[0], Read::Double(threshold) if threshold > 0.0));
    }

    #[test]
    fn counters_and_gauges_have_their_own_fields() {
        for (kind, number, field) in [(MetricKind::Counter, 0, 3), (MetricKind::Gauge, 1, 2)] {
            let samples = vec![MetricSample { labels: Vec::new(), value: MetricValue::Number(-2.5) }];
            let bytes = encoded(&[MetricFamily { name: "x".to_owned(), about: String::new(), kind, samples }]);
            let family = fields(&delimited(&mut bytes.as_slice()));
            assert_eq!(all(&family, 3), [Read::Number(number)]);
            let metric = all(&family, 4)[0].fields();
            assert_eq!(all(&metric, field)[0].fields(), [(1, Read::Double(-2.5))]);
        }
    }
}
