//! Slices as comma-separated values.

use plimsoll_analysis::slices::SliceRow;

/// Value of a column in a row. A missing number is empty.
enum Field {
    Text(String),
    Number(String),
}

use Field::{Number, Text};

/// A column: its name, and a row's field.
type Column = (&'static str, fn(&SliceRow) -> Field);

/// The columns, in their order.
const COLUMNS: [Column; 31] = [
    ("trial", |row| Text(row.trial.clone())),
    ("store", |row| Text(row.store.clone())),
    ("phase", |row| Text(row.phase.clone())),
    ("phase_kind", |row| Text(row.phase_kind.name().to_owned())),
    ("slice", |row| Number(row.slice.to_string())),
    ("warmup", |row| Number(u8::from(row.warmup).to_string())),
    ("start_s", |row| Number(format!("{:.6}", row.start_s))),
    ("end_s", |row| Number(format!("{:.6}", row.end_s))),
    ("wall_ns", |row| Number(row.wall_ns.to_string())),
    ("op", |row| Text(row.op.clone())),
    ("measure", |row| Text(row.measure.to_owned())),
    ("count", |row| Number(row.count.to_string())),
    ("rejected", |row| Number(row.rejected.to_string())),
    ("unknown", |row| Number(row.unknown.to_string())),
    ("unfinished", |row| Number(row.unfinished.to_string())),
    ("rate_per_s", |row| Number(format!("{:.3}", row.rate_per_s))),
    ("mean_ns", |row| Number(format!("{:.0}", row.mean_ns))),
    ("stddev_ns", |row| Number(format!("{:.0}", row.stddev_ns))),
    ("p50_ns", |row| Number(or_none(row.percentile_ns("p50")))),
    ("p90_ns", |row| Number(or_none(row.percentile_ns("p90")))),
    ("p95_ns", |row| Number(or_none(row.percentile_ns("p95")))),
    ("p99_ns", |row| Number(or_none(row.percentile_ns("p99")))),
    ("p999_ns", |row| Number(or_none(row.percentile_ns("p999")))),
    ("max_ns", |row| Number(row.max_ns.to_string())),
    ("due_unsent", |row| Number(row.due_unsent.to_string())),
    ("in_flight", |row| Number(row.in_flight.to_string())),
    ("lag_p99_ns", |row| Number(row.lag_p99_ns.to_string())),
    ("worker_cpu_ns", |row| Number(row.worker_cpu_ns.to_string())),
    ("disturbed", |row| Number(or_none(row.disturbed))),
    ("undisturbed_p99_ns", |row| Number(or_none(row.undisturbed_p99_ns))),
    ("disturbed_ns", |row| Number(or_none(row.disturbed_ns))),
];

/// Writes every slice as comma-separated values (RFC 4180); the book lists the columns.
pub fn csv(rows: impl Iterator<Item = SliceRow>) -> String {
    let mut out = COLUMNS.map(|(name, _)| name).join(",");
    out.push_str("\r\n");
    for row in rows {
        let fields = COLUMNS.map(|(_, field)| match field(&row) {
            Text(text) => quoted(&text),
            Number(number) => number,
        });
        out.push_str(&fields.join(","));
        out.push_str("\r\n");
    }
    out
}

/// Returns the same fields of a slice as a JSON object on one line; a missing number is null.
pub fn json_slice(row: &SliceRow) -> String {
    let fields = COLUMNS.map(|(name, field)| {
        let value = match field(row) {
            Text(text) => serde_json::Value::from(text).to_string(),
            Number(number) if number.parse::<f64>().is_ok_and(f64::is_finite) => number,
            Number(_) => "null".to_owned(),
        };
        format!("\"{name}\":{value}")
    });
    format!("{{\"type\":\"slice\",{}}}", fields.join(","))
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
