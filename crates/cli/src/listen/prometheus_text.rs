//! Metrics in Prometheus' text format, version 0.0.4. Histograms are classic ones: the format has no others.

use std::fmt::Write as _;

use plimsoll_analysis::Times;

use crate::listen::metrics::{self, MetricFamily, MetricKind, MetricSample, MetricValue};

/// Media type of the format.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the metrics as text.
pub fn text(families: &[MetricFamily<'_>]) -> String {
    let mut text = String::new();
    for MetricFamily { name, about, kind, samples } in families {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} {kind}");
        for MetricSample { labels, value } in samples {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            match value {
                MetricValue::Number(value) => line(&mut text, name, &labels, *value),
                MetricValue::Times(times) => histogram(&mut text, name, &labels, times),
            }
        }
    }
    text
}

/// Writes a histogram with cumulative buckets.
fn histogram(text: &mut String, name: &str, labels: &[String], times: &Times) {
    let mut bucket = |bound: &str, count: u64| {
        let labels = [labels, &[format!("le=\"{bound}\"")]].concat();
        line(text, &format!("{name}_bucket"), &labels, count as f64);
    };
    metrics::buckets(times).for_each(|(bound, count)| bucket(&bound.to_string(), count));
    bucket("+Inf", times.len());
    line(text, &format!("{name}_sum"), labels, metrics::sum_s(times));
    line(text, &format!("{name}_count"), labels, times.len() as f64);
}

fn line(text: &mut String, name: &str, labels: &[String], value: f64) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(text, "{name}{labels} {value}");
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_ends_with_a_bucket_of_all_and_labels_are_escaped() {
        let mut times = Times::default();
        times.add(&[(900, 3), (40_000, 5), (2_000_000_000, 1), (60_000_000_000, 2)]);
        let labels = vec![("store".to_owned(), "a\"b\\".to_owned())];
        let samples = vec![MetricSample { labels, value: MetricValue::Times(&times) }];
        let (name, about) = ("x_seconds".to_owned(), "Times.".to_owned());
        let text = text(&[MetricFamily { name, about, kind: MetricKind::Histogram, samples }]);
        let line = |end: &str| text.lines().find(|line| line.contains(end)).unwrap().rsplit(' ').next().unwrap();
        let found = ["le=\"0.000001\"", "le=\"0.00005\"", "le=\"1\"", "le=\"10\"", "+Inf", "_count", "_sum"].map(line);
        assert_eq!(found, ["3", "8", "8", "9", "11", "11", "122.0002027"]);
        assert!(text.starts_with("# HELP x_seconds Times.\n# TYPE x_seconds histogram\nx_seconds_bucket{"));
        assert!(text.contains("store=\"a\\\"b\\\\\""), "{text}");
    }
}
