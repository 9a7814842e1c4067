//! Numbers with units, as written in plans: `30s`, `1000/s`, `4MiB`, `0.1%`.

/// Longest duration of a phase, in nanoseconds: 30 days.
pub const TIME_NS_MAX: u64 = 30 * 86_400 * 1_000_000_000;

/// Dimension of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Time in nanoseconds.
    Time,
    /// Size in bytes.
    Size,
    /// Rate in operations per second.
    Rate,
    /// Share in per cent.
    Share,
}

use Dimension::{Rate, Share, Size, Time};

impl Dimension {
    fn name(self) -> &'static str {
        match self {
            Time => "time",
            Size => "size",
            Rate => "rate",
            Share => "share",
        }
    }

    /// Unit for examples.
    fn example_unit(self) -> &'static str {
        match self {
            Time => "s",
            Size => "MiB",
            Rate => "/s",
            Share => "%",
        }
    }
}

const UNITS: &[(&str, Dimension, f64)] = &[
    ("ns", Time, 1.0),
    ("us", Time, 1e3),
    ("µs", Time, 1e3),
    ("ms", Time, 1e6),
    ("s", Time, 1e9),
    ("min", Time, 60e9),
    ("h", Time, 3600e9),
    ("d", Time, 86_400e9),
    ("B", Size, 1.0),
    ("kB", Size, 1e3),
    ("MB", Size, 1e6),
    ("GB", Size, 1e9),
    ("TB", Size, 1e12),
    ("KiB", Size, 1024.0),
    ("MiB", Size, 1_048_576.0),
    ("GiB", Size, 1_073_741_824.0),
    ("TiB", Size, 1_099_511_627_776.0),
    ("/s", Rate, 1.0),
    ("/min", Rate, 1.0 / 60.0),
    ("/h", Rate, 1.0 / 3600.0),
    ("%", Share, 1.0),
];

/// Units of other load generators, which are accepted as well.
const ALSO: &[(&str, &str)] =
    &[("m", "min"), ("rps", "/s"), ("qps", "/s"), ("tps", "/s"), ("ops/s", "/s"), ("req/s", "/s")];

/// Prefixes of the unit of a rate, and suffixes of a count.
const THOUSANDS: &[(char, f64)] = &[('k', 1e3), ('K', 1e3), ('M', 1e6), ('G', 1e9)];

/// Common misspellings of units, with the correct unit.
const SPELLINGS: &[(&str, &str)] = &[
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("S", "s"),
    ("msec", "ms"),
    ("usec", "us"),
    ("mins", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
    ("b", "B"),
    ("k", "KiB"),
    ("K", "KiB"),
    ("kb", "KiB"),
    ("KB", "KiB"),
    ("kib", "KiB"),
    ("kiB", "KiB"),
    ("M", "MiB"),
    ("mb", "MiB"),
    ("mib", "MiB"),
    ("G", "GiB"),
    ("g", "GiB"),
    ("gb", "GiB"),
    ("gib", "GiB"),
    ("op/s", "/s"),
    ("per second", "/s"),
    ("/sec", "/s"),
    ("/second", "/s"),
    ("/m", "/min"),
    ("/minute", "/min"),
    ("percent", "%"),
];

/// Parses a number of `dimension` in the syntax of plans, and returns it in the base unit. A time may have several
/// parts: `1m30s`.
///
/// # Errors
/// The mistake, with a correction if there is an obvious one.
pub fn parse(text: &str, dimension: Dimension) -> Result<f64, (String, Option<String>)> {
    let text = text.trim();
    let begins = |(at, c): (usize, char)| {
        let before = text.get(..at).unwrap_or_default().trim_end();
        (c.is_ascii_digit() && before.ends_with(char::is_alphabetic)).then_some(at)
    };
    let mut cuts: Vec<usize> =
        if dimension == Time { text.char_indices().filter_map(begins).collect() } else { vec![] };
    if cuts.is_empty() {
        return part(text, dimension).map(|(value, _)| value);
    }
    cuts.insert(0, 0);
    cuts.push(text.len());
    let (mut sum, mut least) = (0.0, f64::INFINITY);
    for cut in cuts.windows(2) {
        let (value, unit) = part(text.get(cut[0]..cut[1]).unwrap_or_default(), dimension)?;
        if unit >= least {
            return Err((
                format!("`{text}` is not a time"),
                Some("write the largest unit first: \"1m30s\"".to_owned()),
            ));
        }
        (sum, least) = (sum + value, unit);
    }
    Ok(sum)
}

/// Parses a count in the syntax of command lines: `1000`, `1_000`, `10K`, `1.5M`.
pub fn parse_count(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, factor) = match THOUSANDS.iter().find_map(|(c, factor)| Some((text.strip_suffix(*c)?, *factor))) {
        Some(found) => found,
        None => (text, 1.0),
    };
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && number.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_'));
    if factor == 1.0 {
        return number.replace('_', "").parse().ok().filter(|_| is_number);
    }
    let value = number.replace('_', "").parse::<f64>().ok().filter(|_| is_number)? * factor;
    ((value - value.round()).abs() < 1e-6 && value < 9e15).then_some(value.round() as u64)
}

/// Parses a number with one unit. Returns the number in the base unit, and the size of its unit.
fn part(text: &str, dimension: Dimension) -> Result<(f64, f64), (String, Option<String>)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (number, unit) = (number.replace('_', ""), unit.trim());
    let wanted = dimension.name();
    let Ok(value) = number.parse::<f64>() else {
        let example = format!("10{}", dimension.example_unit());
        return Err((format!("`{text}` is not a {wanted}"), Some(format!("write a number and a unit: \"{example}\""))));
    };
    if unit.is_empty() {
        return Err(needs_unit(text, dimension));
    }
    let known = |unit: &str| {
        let ours = ALSO.iter().find(|(other, _)| *other == unit).map_or(unit, |(_, ours)| ours);
        UNITS.iter().find(|(name, ..)| *name == ours)
    };
    let thousands = THOUSANDS.iter().filter(|_| dimension == Rate);
    let mut several = thousands.filter_map(|(c, times)| Some((known(unit.strip_prefix(*c)?)?, times)));
    match known(unit).map(|unit| (unit, &1.0)).or_else(|| several.find(|((_, of, _), _)| *of == Rate)) {
        Some(((_, found, factor), times)) if *found == dimension => Ok((value * factor * times, *factor)),
        Some(((_, found, _), _)) => {
            Err((format!("`{unit}` is a unit of {}, not of {wanted}", found.name()), Some(units(dimension))))
        }
        None => {
            let spelling =
                SPELLINGS.iter().find(|(other, ours)| *other == unit && names(dimension).any(|name| name == *ours));
            let exponent =
                unit.strip_prefix(['e', 'E']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            let help = match spelling {
                _ if exponent => "numbers have no exponent: write 1_000_000, not 1e6".to_owned(),
                Some((_, ours)) => format!("write \"{number}{ours}\""),
                None => units(dimension),
            };
            Err((format!("`{unit}` is not a unit of {wanted}"), Some(help)))
        }
    }
}

/// The mistake of a number without a unit.
pub(crate) fn needs_unit(number: &str, dimension: Dimension) -> (String, Option<String>) {
    let example = match dimension {
        // A number alone is ambiguous, and a latency of 20 s is rare.
        Dimension::Time => format!("\"{number}ms\" or \"{number}s\""),
        _ => format!("\"{number}{}\"", dimension.example_unit()),
    };
    (format!("needs a unit: {example}"), Some(units(dimension)))
}

/// Names of the units of `dimension`.
fn names(dimension: Dimension) -> impl Iterator<Item = &'static str> {
    UNITS.iter().filter(move |(_, of, _)| *of == dimension).map(|(name, ..)| *name)
}

/// Regular expression for a number of `dimension`.
pub(crate) fn pattern(dimension: Dimension) -> String {
    let also = ALSO.iter().filter(|(_, ours)| names(dimension).any(|name| name == *ours)).map(|(other, _)| *other);
    let units = names(dimension).chain(also).collect::<Vec<_>>().join("|");
    let (thousands, several) = match dimension {
        Rate => ("[kKMG]?", ""),
        Time => ("", "+"),
        Size | Share => ("", ""),
    };
    format!("^ *([0-9][0-9_]*([.][0-9_]*)? *{thousands}({units}) *){several}$")
}

fn units(dimension: Dimension) -> String {
    format!("units of {}: {}", dimension.name(), names(dimension).collect::<Vec<_>>().join(", "))
}

/// Formats a time for people, with three digits at most: `1.5s`, `20ms`, `2min`.
pub fn show_ns(ns: u64) -> String {
    let (unit, factor) = match ns {
        0 => return "0s".to_owned(),
        1..1_000 => ("ns", 1.0),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        1_000_000_000..120_000_000_000 => ("s", 1e9),
        120_000_000_000..7_200_000_000_000 => ("min", 60e9),
        _ => ("h", 3600e9),
    };
    let value = ns as f64 / factor;
    let text = if value >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_base_units() {
        assert_eq!(parse("30s", Time), Ok(30e9));
        assert_eq!(parse("0.5 ms", Time), Ok(500e3));
        assert_eq!(parse("7µs", Time), Ok(7e3));
        assert_eq!(parse("4MiB", Size), Ok(4_194_304.0));
        assert_eq!(parse("1_000/s", Rate), Ok(1000.0));
        assert_eq!(parse("60/min", Rate), Ok(1.0));
        assert_eq!(parse("0.1%", Share), Ok(0.1));
        assert_eq!(parse("1m30s", Time), Ok(90e9));
        assert_eq!(parse("1h 2m 3.5s", Time), Ok(3723.5e9));
        for rate in ["2500/s", "2.5k/s", "2500rps", "2.5Krps", "2.5 kqps", "0.0025M/s", "150k/min"] {
            assert_eq!(parse(rate, Rate).map(f64::round), Ok(2500.0), "{rate}");
        }
    }

    #[test]
    fn wrong_ones_say_what_to_write() {
        let wrong = |text, dimension| parse(text, dimension).unwrap_err();
        assert_eq!(wrong("30", Time).0, "needs a unit: \"30ms\" or \"30s\"");
        assert_eq!(wrong("30sec", Time), ("`sec` is not a unit of time".into(), Some("write \"30s\"".into())));
        let exponent = wrong("1e12/s", Rate).1.unwrap();
        assert!(exponent.starts_with("numbers have no exponent"), "{exponent}");
        assert_eq!(wrong("30MiB", Time).0, "`MiB` is a unit of size, not of time");
        assert_eq!(wrong("4KB", Size).1.as_deref(), Some("write \"4KiB\""));
        assert_eq!(wrong("-3s", Time).0, "`-3s` is not a time");
        assert_eq!(wrong("1.2.3s", Time).0, "`1.2.3s` is not a time");
        assert_eq!(
            wrong("30s1m", Time),
            ("`30s1m` is not a time".into(), Some("write the largest unit first: \"1m30s\"".into()))
        );
        assert_eq!(wrong("1m30", Time).0, "needs a unit: \"30ms\" or \"30s\"");
        assert_eq!(wrong("1k", Rate).0, "`k` is not a unit of rate");
        assert_eq!(wrong("1kms", Time).0, "`kms` is not a unit of time");
        assert_eq!(wrong("5kMiB", Rate).0, "`kMiB` is not a unit of rate");
    }

    #[test]
    fn counts_may_be_of_thousands() {
        let counts = ["0", "1000", "1_000", "10K", "10k", "1.5M", "2G"].map(parse_count);
        assert_eq!(counts, [0, 1_000, 1_000, 10_000, 10_000, 1_500_000, 2_000_000_000].map(Some));
        for wrong in ["", "K", "1.5", "-1", "+1", "1KB", "1e6", "1.0001k5", "0.0001k", "1.2.3k", "9999999999999999G"] {
            assert_eq!(parse_count(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_shown_as_they_are_written() {
        let shown: Vec<String> =
            [0, 999, 1_500, 20_000_000, 10_000_000_000, 90_000_000_000, 120_000_000_000].map(show_ns).into();
        assert_eq!(shown, ["0s", "999ns", "1.5us", "20ms", "10s", "90s", "2min"]);
    }
}
