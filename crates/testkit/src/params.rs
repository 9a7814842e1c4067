//! The defaults of parameters, as a plan fills them in.

use plimsoll_core::{ParamSpec, ParamType, ParamValue, Params};

/// Sizes and durations with their units, longest unit first.
const UNITS: [(&str, i64); 11] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("min", 60_000_000_000),
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("h", 3_600_000_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("B", 1),
];

/// The defaults of all of `specs`.
///
/// # Panics
/// When a default is not of its parameter's type, which is a mistake in the spec.
pub fn defaults(specs: &[ParamSpec]) -> Params {
    let value = |spec: &ParamSpec| match spec.param_type {
        ParamType::Int { .. } => number(spec, spec.default),
        ParamType::Bytes | ParamType::Duration => {
            let (digits, unit) = UNITS
                .iter()
                .find_map(|(unit, factor)| Some((spec.default.strip_suffix(unit)?.trim(), *factor)))
                .unwrap_or((spec.default, 1));
            match number(spec, digits) {
                ParamValue::Int(count) => ParamValue::Int(count * unit),
                other => other,
            }
        }
        ParamType::Bool => ParamValue::Bool(spec.default == "true"),
        ParamType::OneOf(words) => {
            assert!(words.contains(&spec.default), "the default of `{}` is none of its words", spec.name);
            ParamValue::Text(spec.default.to_owned())
        }
        ParamType::Text => ParamValue::Text(spec.default.to_owned()),
    };
    Params(specs.iter().map(|spec| (spec.name.to_owned(), value(spec))).collect())
}

fn number(spec: &ParamSpec, digits: &str) -> ParamValue {
    let number = digits.parse();
    ParamValue::Int(number.unwrap_or_else(|_| panic!("the default of `{}` is no number: {}", spec.name, spec.default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_of_their_types() {
        let spec = |name, param_type, default| ParamSpec { name, param_type, default, summary: "", of_private: false };
        let params = defaults(&[
            spec("count", ParamType::Int { min: 0, max: 9 }, "7"),
            spec("size", ParamType::Bytes, "4MiB"),
            spec("wait", ParamType::Duration, "30s"),
            spec("short", ParamType::Duration, "15ms"),
            spec("on", ParamType::Bool, "true"),
            spec("mode", ParamType::OneOf(&["a", "b"]), "b"),
        ]);
        assert_eq!((params.int("count"), params.int("size")), (7, 4 << 20));
        assert_eq!((params.int("wait"), params.int("short")), (30_000_000_000, 15_000_000));
        assert_eq!((params.bool("on"), params.text("mode")), (true, "b"));
    }
}
