//! Slices as comma-separated values.

use plimsoll_analysis::slices::SliceRow;

use crate::columns::{ColumnValue, SLICES};

/// Writes every slice as comma-separated values (RFC 4180); the book lists the columns. A missing number is empty.
pub fn csv(rows: impl Iterator<Item = SliceRow>) -> String {
    let mut out = SLICES.map(|(name, _)| name).join(",");
    out.push_str("\r\n");
    for row in rows {
        let fields = SLICES.map(|(_, field)| match field {
            ColumnValue::Text(of) => quoted(of(&row).unwrap_or_default()),
            field => number(&field, &row).unwrap_or_default(),
        });
        out.push_str(&fields.join(","));
        out.push_str("\r\n");
    }
    out
}

/// Returns the same fields of a slice as a JSON object on one line; a missing number is null.
pub fn json_slice(row: &SliceRow) -> String {
    let fields = SLICES.map(|(name, field)| {
        let value = match field {
            ColumnValue::Text(of) => serde_json::Value::from(of(row)).to_string(),
            ColumnValue::Real(of, _) if of(row).is_some_and(|value| !value.is_finite()) => "null".to_owned(),
            field => number(&field, row).unwrap_or_else(|| "null".to_owned()),
        };
        format!("\"{name}\":{value}")
    });
    format!("{{\"type\":\"slice\",{}}}", fields.join(","))
}

/// Returns a number of a row as text; `None` if it is missing.
fn number(field: &ColumnValue<SliceRow>, row: &SliceRow) -> Option<String> {
    match *field {
        ColumnValue::Text(_) => None,
        ColumnValue::Whole(of) => of(row).map(|value| value.to_string()),
        ColumnValue::Real(of, digits) => of(row).map(|value| format!("{value:.digits$}")),
        ColumnValue::Flag(of) => Some(u8::from(of(row)).to_string()),
    }
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
