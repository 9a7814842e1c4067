//! Numbers as text: the same in sentences, tables and labels.
//!
//! Three significant digits for what was measured, all digits for what was counted, thousands separated by
//! commas, and always the unit. A value beside a limit has as many digits as tell both apart.

pub use plimsoll_core::shown::count;
use plimsoll_core::shown::grouped;
use plimsoll_core::{TICK_NS, Utc};

/// Significant digits of a measured value.
const DIGITS: i32 = 3;
/// Most significant digits of a limit, and of a value beside it. Further ones are errors of calculations.
const DIGITS_MAX: i32 = 12;

/// Three significant digits, never an exponent: `0.00123`, `1.38`, `12.3`, `1,230`.
pub fn significant(value: f64) -> String {
    with_digits(value, DIGITS)
}

/// Formats a value with so many significant digits, never with an exponent.
fn with_digits(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return "–".to_string();
    }
    if value == 0.0 {
        return "0".to_string();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    let mut exponent = size.log10().floor() as i32;
    // 9.996 is 10.0 in three digits.
    if size / 10f64.powi(exponent) >= 10.0 - 0.5 * 10f64.powi(1 - digits) {
        exponent += 1;
    }
    if exponent < -9 {
        return format!("{sign}<0.000000001");
    }
    let decimals = usize::try_from(digits - 1 - exponent).unwrap_or(0);
    let text = if exponent >= digits {
        let step = 10f64.powi(exponent - (digits - 1));
        format!("{:.0}", (size / step).round() * step)
    } else {
        format!("{size:.decimals$}")
    };
    match text.split_once('.') {
        Some((whole, rest)) => format!("{sign}{}.{rest}", grouped(whole)),
        None => format!("{sign}{}", grouped(&text)),
    }
}

/// A time in the unit that suits it: `870 ns`, `12.3 ms`, `1.35 s`, `495 s`.
pub fn seconds(value: f64) -> String {
    seconds_beside(value, value)
}

/// A time from a fault until clients noticed it, which is known to a tick: `< 10 ms`, `20.0 ms`.
pub fn seconds_to_tick(value: f64) -> String {
    // The first tick.
    if value < TICK_NS as f64 / 1e9 { "< 10 ms".to_owned() } else { seconds(value) }
}

/// Returns the unit of times that suits so many seconds, and its number in a second.
fn time_unit(value: f64) -> (&'static str, f64) {
    let units = [("ns", 1e9, 0.999_5e-6), ("µs", 1e6, 0.999_5e-3), ("ms", 1e3, 0.999_5)];
    let suits = |(_, _, below): &(&str, f64, f64)| value != 0.0 && value.abs() < *below;
    units.into_iter().find(suits).map_or(("s", 1.0), |(unit, of_it, _)| (unit, of_it))
}

/// Formats a measured time in the unit that suits `largest` seconds: `0.412 s` beside 495 s.
pub fn seconds_beside(value: f64, largest: f64) -> String {
    time(value, largest, DIGITS)
}

fn time(value: f64, largest: f64, digits: i32) -> String {
    let (unit, of_it) = time_unit(largest);
    format!("{} {unit}", with_digits(value * of_it, digits))
}

/// Formats a published time, with all digits, in the unit that suits `largest` seconds: `54 ms` of 0.054 s.
pub fn exact_seconds_beside(value: f64, largest: f64) -> String {
    let (unit, of_it) = time_unit(largest);
    // The conversion must not add digits to those that were published.
    exact((value * of_it * 1e9).round() / 1e9, unit)
}

/// Nanoseconds in the unit that suits them.
pub fn nanoseconds(value: u64) -> String {
    seconds(value as f64 / 1e9)
}

/// Bytes in the unit that suits them: `870 B`, `24.1 MiB`.
pub fn bytes(value: f64) -> String {
    let mut size = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size.abs() < 1023.5 {
            return format!("{} {unit}", significant(size));
        }
        size /= 1024.0;
    }
    format!("{} TiB", significant(size))
}

/// A value in its unit, as the recording writes units.
pub fn with_unit(value: f64, unit: &str) -> String {
    in_unit(value, unit, DIGITS)
}

/// Formats a limit in its unit, with all of its digits and three at least: `20.0 ms`, `1,234/s`.
pub fn limit(value: f64, unit: &str) -> String {
    let is_whole = |digits: &i32| {
        let rounded = format!("{value:.0$e}", usize::try_from(digits - 1).unwrap_or(0)).parse().unwrap_or(value);
        (value - rounded).abs() <= value.abs() * 10f64.powi(-DIGITS_MAX)
    };
    in_unit(value, unit, (DIGITS..DIGITS_MAX).find(is_whole).unwrap_or(DIGITS_MAX))
}

/// Formats a measured value in its unit, with as many digits as tell it from a limit that it is not equal to: `100.4 ms`
/// beside 100 ms.
pub fn beside_limit(value: f64, bound: f64, unit: &str) -> String {
    let is_apart = |digits: &i32| in_unit(value, unit, *digits) != in_unit(bound, unit, *digits);
    (DIGITS..=DIGITS_MAX).find(is_apart).map_or_else(|| limit(value, unit), |digits| in_unit(value, unit, digits))
}

/// Formats a value in its unit with so many significant digits; sizes have three.
fn in_unit(value: f64, unit: &str, digits: i32) -> String {
    let time = |seconds: f64| time(seconds, seconds, digits);
    match unit {
        "s" => time(value),
        "ms" => time(value / 1e3),
        "µs" | "us" => time(value / 1e6),
        "ns" => time(value / 1e9),
        "B" => bytes(value),
        "B/s" => format!("{}/s", bytes(value)),
        "1/s" => format!("{}/s", with_digits(value, digits)),
        "" if value.fract() == 0.0 && value.abs() < 9e15 => {
            let sign = if value < 0.0 { "−" } else { "" };
            format!("{sign}{}", count(value.abs() as u64))
        }
        "" => with_digits(value, digits),
        unit => format!("{} {unit}", with_digits(value, digits)),
    }
}

/// Formats a published value, with all digits, in the unit given: `1,025 s`, `1.91 ×`, `1,300/s`.
pub fn exact(value: f64, unit: &str) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    let digits = value.abs().to_string();
    let digits = match digits.split_once('.') {
        Some((whole, rest)) => format!("{}.{rest}", grouped(whole)),
        None => grouped(&digits),
    };
    match unit {
        "" => format!("{sign}{digits}"),
        "1/s" => format!("{sign}{digits}/s"),
        unit => format!("{sign}{digits} {unit}"),
    }
}

/// Wall time as text: `2026-11-21 20:41:07 UTC`. `wall_ns` is nanoseconds since 1970.
pub fn wall_time(wall_ns: i64) -> String {
    let Utc { year, month, day, hour, minute, second, .. } = Utc::of_us(wall_ns.div_euclid(1_000));
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// `one`, or `many` with the count before it: `1 trial`, `5 trials`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A store's name of what it counts, as it stands before one of them: `memtable_flushes` is a `memtable flush`.
pub fn singular(name: &str) -> String {
    let one = name.strip_suffix("es").filter(|one| one.ends_with("sh")).or_else(|| name.strip_suffix('s'));
    one.unwrap_or(name).replace('_', " ")
}

/// Names as a sentence lists them: `a`, `a and b`, `a, b and c`.
pub fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// `text` with a large first letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}

/// `text` with its first letter small, to go on a sentence; a name of several capitals keeps them.
pub fn uncapital(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.as_str()) {
        (Some(first), rest) if !rest.starts_with(char::is_uppercase) => format!("{}{rest}", first.to_lowercase()),
        _ => text.to_string(),
    }
}

/// `text` with the mark of a number that a late generator may have moved, where `late`.
pub fn marked(text: String, late: bool) -> String {
    if late { format!("{text} *") } else { text }
}

/// Returns `> 16.0 s` for the `text` of a time that had not ended when observation ended: of a lower bound.
pub fn lower_bound(text: String, is_open: bool) -> String {
    if is_open { format!("> {text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_their_unit() {
        for (value, text) in [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (999.6, "1,000"),
            (1_234.0, "1,230"),
            (1_234_567.0, "1,230,000"),
            (-2.5, "−2.50"),
        ] {
            assert_eq!(significant(value), text, "{value}");
        }
        assert_eq!(seconds(0.000_000_87), "870 ns");
        assert_eq!(seconds(0.000_999_6), "1.00 ms");
        assert_eq!(seconds(495.0), "495 s");
        assert_eq!(bytes(1024.0), "1.00 KiB");
        assert_eq!(bytes(1023.9), "1.00 KiB");
        assert_eq!([0.412, 495.0].map(|value| seconds_beside(value, 495.0)), ["0.412 s", "495 s"]);
        assert_eq!([0.054, 0.009, 0.22].map(|value| exact_seconds_beside(value, 0.22)), ["54 ms", "9 ms", "220 ms"]);
        assert_eq!(with_unit(3.0, ""), "3");
        assert_eq!(with_unit(1.912, "×"), "1.91 ×");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(exact(1025.0, "s"), "1,025 s");
        assert_eq!(exact(-1.91, "×"), "−1.91 ×");
        assert_eq!(exact(1300.0, "1/s"), "1,300/s");
        assert_eq!(["flushes", "log_checkpoints", "sync"].map(singular), ["flush", "log checkpoint", "sync"]);
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }

    #[test]
    fn a_value_beside_a_limit_has_as_many_digits_as_tell_it_from_that() {
        for (value, bound, unit, texts) in [
            (100.4e6, 100e6, "ns", ["100.4 ms", "100 ms"]),
            (99.96e6, 100e6, "ns", ["99.96 ms", "100 ms"]),
            (100_007_935.0, 100e6, "ns", ["100.01 ms", "100 ms"]),
            (100e6, 100e6, "ns", ["100 ms", "100 ms"]),
            (48e6, 20e6, "ns", ["48.0 ms", "20.0 ms"]),
            (100.2e6, 100.4e6, "ns", ["100.2 ms", "100.4 ms"]),
            (100.4e6, 100.4e6, "ns", ["100.4 ms", "100.4 ms"]),
            (999.7e6, 1e9, "ns", ["0.9997 s", "1.00 s"]),
            (10_004e6, 10e9, "ns", ["10.004 s", "10.0 s"]),
            (33.3 * 1e6, 33.3 * 1e6, "ns", ["33.3 ms", "33.3 ms"]),
            (12_340.0, 12_345.0, "1/s", ["12,340/s", "12,345/s"]),
            (0.100_04, 0.1, "%", ["0.10004 %", "0.100 %"]),
            (1_001.0, 1_000.0, "", ["1,001", "1,000"]),
            (0.0, 0.0, "ns", ["0 s", "0 s"]),
        ] {
            assert_eq!([beside_limit(value, bound, unit), limit(bound, unit)], texts, "{value} beside {bound}");
        }
    }

    #[test]
    fn wall_times_are_civil_dates() {
        assert_eq!(wall_time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(wall_time(951_782_399 * 1_000_000_000), "2000-02-28 23:59:59 UTC");
        assert_eq!(wall_time(951_782_400 * 1_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(wall_time(1_795_293_667 * 1_000_000_000), "2026-11-21 20:41:07 UTC");
        assert_eq!(wall_time(-1), "1969-12-31 23:59:59 UTC");
    }
}
