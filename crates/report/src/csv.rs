//! Slices as comma-separated values.

use plimsoll_analysis::slices::SliceRow;

/// The columns, in their order.
pub const COLUMNS: [&str; 29] = [
    "trial",
    "store",
    "phase",
    "phase_kind",
    "slice",
    "warmup",
    "start_s",
    "end_s",
    "wall_ns",
    "op",
    "measure",
    "count",
    "rejected",
    "unknown",
    "unfinished",
    "rate_per_s",
    "mean_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "due_unsent",
    "in_flight",
    "lag_p99_ns",
    "worker_cpu_ns",
    "disturbed",
    "undisturbed_p99_ns",
    "disturbed_ns",
];

/// See [`crate::csv`].
pub fn csv(rows: impl Iterator<Item = SliceRow>) -> String {
    let mut out = COLUMNS.join(",");
    out.push_str("\r\n");
    for row in rows {
        let known = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let percentile =
            |at: usize| row.percentiles_ns.get(at).copied().flatten().map_or(String::new(), |ns| ns.to_string());
        let fields = [
            quoted(&row.trial),
            quoted(&row.store),
            quoted(&row.phase),
            quoted(row.phase_kind.name()),
            row.slice.to_string(),
            u8::from(row.warmup).to_string(),
            format!("{:.6}", row.start_s),
            format!("{:.6}", row.end_s),
            row.wall_ns.to_string(),
            quoted(&row.op),
            row.measure.to_string(),
            row.count.to_string(),
            row.rejected.to_string(),
            row.unknown.to_string(),
            row.unfinished.to_string(),
            format!("{:.3}", row.rate_per_s),
            format!("{:.0}", row.mean_ns),
            percentile(0),
            percentile(1),
            percentile(2),
            percentile(3),
            row.max_ns.to_string(),
            row.due_unsent.to_string(),
            row.in_flight.to_string(),
            row.lag_p99_ns.to_string(),
            row.worker_cpu_ns.to_string(),
            known(row.disturbed),
            known(row.undisturbed_p99_ns),
            known(row.disturbed_ns),
        ];
        out.push_str(&fields.join(","));
        out.push_str("\r\n");
    }
    out
}

/// A field, in quotes where it needs them. What a spreadsheet would take for a formula is kept a text.
fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"', ' ']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn fields_stay_fields() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a \"b\", c\r\n"), "\"a \"\"b\"\", c  \"");
        assert_eq!(quoted("=HYPERLINK(1)"), "'=HYPERLINK(1)");
    }
}
