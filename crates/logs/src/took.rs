//! Response time among the words behind the common part of an access log.
//!
//! The first lines decide once, for all lines: a word with a known label, a number with a unit, or a number with a
//! decimal point. A whole number may be a size, a count or a port: only options of the user make it a time.

use memchr::memchr;

use crate::line::{LineOptions, TimeUnit};
use crate::scan::{billionths, quoted, word};

/// Labels of response times, in words such as `rt=0.005`.
const LABELS: [&str; 7] = ["rt", "request_time", "response_time", "duration", "elapsed", "time", "took"];
/// Units behind numbers, with their nanoseconds.
const UNITS: [(&str, u64); 6] =
    [("ns", 1), ("us", 1_000), ("\u{b5}s", 1_000), ("\u{3bc}s", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
/// Numbers with a decimal point from this one on are no response times in seconds, but times of day or since 1970.
const DAY_NS: u64 = 86_400_000_000_000;

/// Position of the response time among the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Value of the label at this position of [`LABELS`].
    Label(usize),
    /// Word at this position, from the first.
    Front(usize),
    /// Word at this position, from the last.
    Back(usize),
}

/// Unit of the response time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Each number has a unit behind it.
    Own,
    /// All numbers have this unit.
    All(TimeUnit),
}

/// Response time of an access log: the position and the unit, or the reason why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Took(Result<(Place, Unit), &'static str>);

/// A word: the value behind its label, if that is a known one.
#[derive(Debug, Clone, Copy)]
struct Word<'l> {
    label: Option<usize>,
    /// Text without quotes around it and without a label.
    value: &'l [u8],
    /// True within quotes, and for a later member of a list: only options make it a time.
    is_apart: bool,
}

impl Word<'_> {
    /// Returns the length of time, if the word has a unit.
    fn with_unit(self) -> Option<u64> {
        let digits = self.value.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let (number, unit) = self.value.split_at(digits);
        let (_, unit_ns) = UNITS.iter().find(|(name, _)| name.as_bytes() == unit)?;
        let (billionths, _) = billionths(number)?;
        u64::try_from(u128::from(billionths) * u128::from(*unit_ns) / 1_000_000_000).ok()
    }

    fn is_whole(self) -> bool {
        billionths(self.value).is_some_and(|(_, has_point)| !has_point)
    }

    /// Returns true for a number with a decimal point that may be a response time in seconds.
    fn is_seconds(self) -> bool {
        billionths(self.value).is_some_and(|(ns, has_point)| has_point && ns < DAY_NS)
    }

    fn is_decimal(self) -> bool {
        billionths(self.value).is_some_and(|(_, has_point)| has_point)
    }

    fn ns(self, unit: Unit) -> Option<u64> {
        let Unit::All(unit) = unit else { return self.with_unit() };
        if let Some(ns) = self.with_unit() {
            return Some(ns);
        }
        let (billionths, _) = billionths(self.value)?;
        Some(match unit {
            TimeUnit::Seconds => billionths,
            TimeUnit::Milliseconds => billionths / 1_000,
            TimeUnit::Microseconds => billionths / 1_000_000,
        })
    }
}

/// Splits the text behind the common part into words. A text in quotes is one word.
fn words(mut rest: &[u8]) -> impl Iterator<Item = Word<'_>> {
    let mut in_list = false;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return None;
        }
        if let Some((value, behind)) = quoted(rest) {
            rest = behind;
            in_list = false;
            return Some(Word { label: None, value, is_apart: true });
        }
        let (one, behind) = word(rest);
        rest = behind;
        let is_apart = std::mem::replace(&mut in_list, one.ends_with(b","));
        let Some(at) = memchr(b'=', one) else { return Some(Word { label: None, value: one, is_apart }) };
        let (label, value) = (&one[..at], &one[at + 1..]);
        let value = value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(value);
        let label = LABELS.iter().position(|known| known.as_bytes() == label);
        Some(Word { label, value, is_apart: true })
    })
}

impl Took {
    /// Decides by the texts behind the common part of the first lines.
    pub(crate) fn decide(rests: &[&[u8]], options: &LineOptions) -> Self {
        let lines: Vec<Vec<Word<'_>>> = rests.iter().map(|rest| words(rest).collect()).collect();
        let all = || lines.iter().flatten();
        let seconds = Unit::All(options.unit.unwrap_or(TimeUnit::Seconds));
        if let Some(number) = options.field {
            let place = Place::Front(number.saturating_sub(1));
            let here: Vec<Word<'_>> = lines.iter().filter_map(|line| word_at(line, place)).collect();
            let unit = if here.iter().any(|word| word.with_unit().is_some()) {
                Unit::Own
            } else if options.unit.is_some() || here.iter().any(|word| word.is_seconds()) {
                seconds
            } else if here.iter().any(|word| word.is_whole()) {
                return Self(Err("the word that --log-field names is a whole number; name its unit with --log-unit"));
            } else {
                return Self(Err("the word that --log-field names is no number"));
            };
            return Self(Ok((place, unit)));
        }
        for (at, _) in LABELS.iter().enumerate() {
            let mut labelled = all().filter(|word| word.label == Some(at));
            if labelled.clone().any(|word| word.with_unit().is_some()) {
                return Self(Ok((Place::Label(at), Unit::Own)));
            }
            let is_time = |word: &Word<'_>| word.is_seconds() || options.unit.is_some() && word.is_whole();
            if labelled.any(is_time) {
                return Self(Ok((Place::Label(at), seconds)));
            }
        }
        let bare = |word: &Word<'_>| word.label.is_none() && !word.is_apart;
        if let Some(place) = usual(&lines, |word| bare(word) && word.with_unit().is_some()) {
            return Self(Ok((place, Unit::Own)));
        }
        if let Some(place) = usual(&lines, |word| bare(word) && word.is_seconds()) {
            return Self(Ok((place, seconds)));
        }
        if all().any(|word| word.label.is_some() && word.is_whole()) {
            return Self(Err("a whole number has a label of times; name its unit with --log-unit"));
        }
        let wholes = |line: &Vec<Word<'_>>| line.iter().filter(|word| bare(word) && word.is_whole()).count();
        let most = lines.iter().map(wholes).max().unwrap_or(0);
        if most == 1
            && options.unit.is_some()
            && let Some(place) = usual(&lines, |word| bare(word) && word.is_whole())
        {
            return Self(Ok((place, seconds)));
        }
        Self(Err(match most {
            0 if all().any(|word| word.is_decimal() || word.with_unit().is_some()) => {
                "no number has the same place in most lines; name the number of its word behind the size of the \
                 answer with --log-field"
            }
            0 => "$request_time logs it in seconds, and %D in microseconds, which --log-unit us reads",
            1 => "a whole number may be a size, too; if it is a time, name its unit with --log-unit",
            _ => {
                "whole numbers may be sizes, too; name the word behind the size of the answer that is a time, from 1, \
                 with --log-field, and its unit with --log-unit"
            }
        }))
    }

    /// Returns the response time of a line, in nanoseconds.
    pub(crate) fn ns(self, rest: &[u8]) -> Option<u64> {
        let (place, unit) = self.0.ok()?;
        let found = match place {
            Place::Label(at) => words(rest).find(|word| word.label == Some(at)),
            Place::Front(at) => words(rest).nth(at),
            Place::Back(at) => words(rest).count().checked_sub(at + 1).and_then(|front| words(rest).nth(front)),
        };
        found?.ns(unit)
    }

    /// Describes the position and the unit, or returns the reason why there is no response time.
    pub(crate) fn text(self) -> Result<String, &'static str> {
        self.0.map(|(place, unit)| {
            let place = match place {
                Place::Label(at) => format!("the value of {}", LABELS[at]),
                Place::Front(at) => format!("word {} behind the size of the answer", at + 1),
                Place::Back(0) => "the last word".to_owned(),
                Place::Back(at) => format!("word {} from the end", at + 1),
            };
            let unit = match unit {
                Unit::Own => "with a unit behind it",
                Unit::All(TimeUnit::Seconds) => "in seconds",
                Unit::All(TimeUnit::Milliseconds) => "in milliseconds",
                Unit::All(TimeUnit::Microseconds) => "in microseconds",
            };
            format!("response times are {place}, {unit}")
        })
    }
}

fn word_at<'l>(line: &[Word<'l>], place: Place) -> Option<Word<'l>> {
    match place {
        Place::Label(at) => line.iter().find(|word| word.label == Some(at)).copied(),
        Place::Front(at) => line.get(at).copied(),
        Place::Back(at) => line.len().checked_sub(at + 1).map(|at| line[at]),
    }
}

/// Returns the place of the first word of most lines that is a time, counted from the first word or else the last.
fn usual(lines: &[Vec<Word<'_>>], is_time: impl Fn(&Word<'_>) -> bool) -> Option<Place> {
    let found: Vec<(usize, usize)> =
        lines.iter().filter_map(|line| line.iter().position(&is_time).map(|at| (at, line.len() - 1 - at))).collect();
    let is_usual = |place: &Place| {
        let fits = |(front, back): &&(usize, usize)| *place == Place::Front(*front) || *place == Place::Back(*back);
        found.iter().filter(fits).count() * 2 > lines.len()
    };
    let front = found.iter().map(|(front, _)| Place::Front(*front));
    front.chain(found.iter().map(|(_, back)| Place::Back(*back))).find(is_usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: LineOptions = LineOptions { unit: None, field: None, zone_s: 0, newest_us: 0 };

    /// Decides by these lines. Returns the sentence, and the response times in milliseconds.
    fn read(lines: &[&str], options: LineOptions) -> (String, Vec<Option<u64>>) {
        let rests: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        let took = Took::decide(&rests, &options);
        let times = rests.iter().map(|rest| took.ns(rest).map(|ns| ns / 1_000_000)).collect();
        (took.text().unwrap_or_else(str::to_owned), times)
    }

    #[test]
    fn known_formats_of_servers_have_the_time_of_the_request() {
        for (line, place, ms) in [
            ("\"-\" \"ua\" 458 13.047 [svc-80] 172.17.0.17:5000 117349 13.048 500 83", "word 4 ", 13_047),
            ("\"-\" \"ua\" 162 \"Host\" \"http://172.17.0.3:80\" 22ms", "word 6 ", 22),
            ("223 0.024 0.000, 0.001 \"-\" \"-\"", "word 2 ", 24),
            ("\"-\" \"ua\" \"-\" 1000 1 0.250", "word 6 ", 250),
            ("\"-\" \"ua\" 1756789260.098 dv=\"-\" rt=0.151 ut=\"0.1\"", "the value of rt", 151),
            ("\"-\" \"ua\" upstream=1 request_time=\"1.250\"", "the value of request_time", 1_250),
            ("\"2.13\" 0.151", "word 2 ", 151),
            ("0.5s", "word 1 ", 500),
        ] {
            let (text, times) = read(&[line; 3], OPTIONS);
            assert!(text.contains(place), "{line}: {text}");
            assert_eq!(times, [Some(ms); 3], "{line}");
        }
    }

    #[test]
    fn a_whole_number_is_no_time_without_options() {
        let us = LineOptions { unit: Some(TimeUnit::Microseconds), ..OPTIONS };
        let third = LineOptions { field: Some(3), ..us };
        for (line, options, ms, words) in [
            ("\"-\" 5123000", OPTIONS, None, "--log-unit"),
            ("\"-\" 5123000", us, Some(5_123), "word 2 behind the size of the answer, in microseconds"),
            ("512 3400", OPTIONS, None, "--log-field"),
            ("512 3400", us, None, "--log-field"),
            ("512 3400 151000", us, None, "--log-field"),
            ("512 3400 151000", third, Some(151), "word 3"),
            ("512 3400 151000", LineOptions { unit: None, ..third }, None, "--log-unit"),
            ("\"-\" \"ua\"", OPTIONS, None, "$request_time"),
            ("1756789260.123", OPTIONS, None, "--log-field"),
            ("rt=512", OPTIONS, None, "--log-unit"),
            ("0.100, 0.150", OPTIONS, None, "--log-field"),
        ] {
            let (text, times) = read(&[line], options);
            assert_eq!(times, [ms], "{line}: {text}");
            assert!(text.contains(words), "{line}: {text}");
        }
    }

    #[test]
    fn one_unit_and_one_place_are_those_of_all_lines() {
        assert_eq!(read(&["\"-\" 0.150", "\"-\" 0", "\"-\" 0.2"], OPTIONS).1, [Some(150), Some(0), Some(200)]);
        let (text, times) = read(&["10.0.0.1, 10.0.0.2 0.151", "10.0.0.1 0.2", "- 0.3", "a, b, c 0.4"], OPTIONS);
        assert!(text.contains("the last word"), "{text}");
        assert_eq!(times, [Some(151), Some(200), Some(300), Some(400)]);
    }
}
