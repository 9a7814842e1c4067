//! Slices as comma-separated values.

use plimsoll_analysis::slices::SliceRow;

/// A column: its name, and a row's field.
type Column = (&'static str, fn(&SliceRow) -> String);

/// The columns, in their order.
const COLUMNS: [Column; 29] = [
    ("trial", |row| quoted(&row.trial)),
    ("store", |row| quoted(&row.store)),
    ("phase", |row| quoted(&row.phase)),
    ("phase_kind", |row| quoted(row.phase_kind.name())),
    ("slice", |row| row.slice.to_string()),
    ("warmup", |row| u8::from(row.warmup).to_string()),
    ("start_s", |row| format!("{:.6}", row.start_s)),
    ("end_s", |row| format!("{:.6}", row.end_s)),
    ("wall_ns", |row| row.wall_ns.to_string()),
    ("op", |row| quoted(&row.op)),
    ("measure", |row| row.measure.to_string()),
    ("count", |row| row.count.to_string()),
    ("rejected", |row| row.rejected.to_string()),
    ("unknown", |row| row.unknown.to_string()),
    ("unfinished", |row| row.unfinished.to_string()),
    ("rate_per_s", |row| format!("{:.3}", row.rate_per_s)),
    ("mean_ns", |row| format!("{:.0}", row.mean_ns)),
    ("p50_ns", |row| or_none(row.percentiles_ns[0])),
    ("p90_ns", |row| or_none(row.percentiles_ns[1])),
    ("p99_ns", |row| or_none(row.percentiles_ns[2])),
    ("p999_ns", |row| or_none(row.percentiles_ns[3])),
    ("max_ns", |row| row.max_ns.to_string()),
    ("due_unsent", |row| row.due_unsent.to_string()),
    ("in_flight", |row| row.in_flight.to_string()),
    ("lag_p99_ns", |row| row.lag_p99_ns.to_string()),
    ("worker_cpu_ns", |row| row.worker_cpu_ns.to_string()),
    ("disturbed", |row| or_none(row.disturbed)),
    ("undisturbed_p99_ns", |row| or_none(row.undisturbed_p99_ns)),
    ("disturbed_ns", |row| or_none(row.disturbed_ns)),
];

/// Every slice as comma-separated values (RFC 4180); the columns stand in the book.
pub fn csv(rows: impl Iterator<Item = SliceRow>) -> String {
    let mut out = COLUMNS.map(|(name, _)| name).join(",");
    out.push_str("\r\n");
    for row in rows {
        out.push_str(&COLUMNS.map(|(_, field)| field(&row)).join(","));
        out.push_str("\r\n");
    }
    out
}

fn or_none(value: Option<u64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
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
