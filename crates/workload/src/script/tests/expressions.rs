//! Values of expressions, as in pgbench.

use super::super::expression::{Expression, Nowhere};
use super::super::parse::expression;
use super::super::random::Xoroshiro;
use super::super::scalar::EvaluationError;
use super::super::symbols::Symbols;

fn parsed(text: &str) -> Expression {
    expression(text, 0..text.len(), &mut Symbols::default()).unwrap_or_else(|mistake| panic!("{text}: {mistake:?}"))
}

fn worth(text: &str) -> Result<String, EvaluationError> {
    let value = parsed(text).evaluate(&mut Nowhere(Xoroshiro::of_seed(7)))?;
    let mut written = String::new();
    value.write(&mut written);
    Ok(written)
}

/// Each as pgbench of PostgreSQL 15.18 prints it for `\set a debug(…)`.
#[test]
fn an_expression_is_worth_what_pgbench_says() {
    for (text, wanted) in [
        ("7 % -3", "1"),
        ("-7 / 2", "-3"),
        ("5 / 2.0", "2.5"),
        ("~5 + 1", "-7"),
        ("1 + 2 * 3 - 4", "3"),
        ("7 & 3 | 8 # 1", "10"),
        ("1 << 4 + 1", "32"),
        ("-1 >> 1", "-1"),
        ("not 1 = 2 and true", "true"),
        ("null and false", "NULL"),
        ("false and null", "false"),
        ("null or true", "NULL"),
        ("case when 0 then 1 when null then 2 when 0.5 then 3 else 4 end", "3"),
        ("case when false then 1 end", "NULL"),
        ("int(2.5)", "2"),
        ("int(3.5)", "4"),
        ("double(7)", "7"),
        ("least(3, 2.5, 4)", "2.5"),
        ("greatest(3, 2, 4)", "4"),
        ("pow(2, 10)", "1024"),
        ("sqrt(2)", "1.4142135623731"),
        ("exp(1)", "2.71828182845905"),
        ("ln(10)", "2.30258509299405"),
        ("pi()", "3.14159265358979"),
        ("abs(-3)", "3"),
        ("abs(-3.5)", "3.5"),
        ("mod(-7, 3)", "-1"),
        ("1 is null", "false"),
        ("null is null", "true"),
        ("true is not false", "true"),
        ("null isnull", "true"),
        ("1 notnull", "true"),
        ("1 + null", "NULL"),
        ("3 > 2", "true"),
        ("1e300 * 1e10", "Infinity"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1.0 / 3", "0.333333333333333"),
        ("123456789012345678.0", "1.23456789012346e+17"),
        ("0.00001234", "1.234e-05"),
        ("1 = 1.0", "true"),
        ("3.7 % 2", "0"),
        ("2 <> 3", "true"),
        ("- 2 + 5", "3"),
        ("not null", "NULL"),
        ("100000.0 * 3", "300000"),
        ("HASH(42, 5432)", "-8888550574847118926"),
        ("permute(0, 10, 7)", "1"),
        ("1 + \\\n 2", "3"),
    ] {
        assert_eq!(worth(text), Ok(wanted.to_owned()), "{text}");
    }
}

#[test]
fn what_has_no_value_says_why() {
    for (text, fault) in [
        ("9223372036854775807 + 1", EvaluationError::OutOfRange("add")),
        ("-9223372036854775808 - 1", EvaluationError::OutOfRange("sub")),
        ("9223372036854775807 * 2", EvaluationError::OutOfRange("mul")),
        ("-9223372036854775808 / -1", EvaluationError::OutOfRange("div")),
        ("1 / 0", EvaluationError::DivisionByZero),
        ("1 % 0", EvaluationError::DivisionByZero),
        ("true + 1", EvaluationError::Coercion("boolean", "int")),
        ("1 is null = false", EvaluationError::Coercion("boolean", "int")),
        ("1.5 * true", EvaluationError::Coercion("boolean", "double")),
        ("1 and true", EvaluationError::Coercion("int", "boolean")),
        ("int(1e300)", EvaluationError::NoInteger(1e300)),
        ("random(2, 1)", EvaluationError::EmptyRange),
        ("random(-9223372036854775808, 9223372036854775807)", EvaluationError::WideRange),
        ("random_gaussian(1, 2, 1.5)", EvaluationError::Gaussian(1.5)),
        ("random_zipfian(1, 2, 1)", EvaluationError::Zipfian(1.0)),
        ("random_exponential(1, 2, 0)", EvaluationError::Exponential(0.0)),
        ("permute(1, 0, 1)", EvaluationError::PermuteSize(0)),
    ] {
        assert_eq!(worth(text), Err(fault), "{text}");
    }
    assert_eq!(worth("-9223372036854775808 % -1"), Ok("0".to_owned()));
    assert_eq!(worth("false and 1 / 0 = 1"), Ok("false".to_owned()));
    assert_eq!(worth("case when true then 1 else 1 / 0 end"), Ok("1".to_owned()));
}

#[test]
fn what_is_known_before_is_worked_out_once() {
    let known = |slot: usize| (slot == 0).then_some(super::super::scalar::Scalar::Int(3));
    let mut symbols = Symbols::default();
    symbols.slot("scale");
    let mut folded = |text: &str| expression(text, 0..text.len(), &mut symbols).unwrap().folded(&known);
    assert_eq!(folded("100000 * :scale"), parsed("300000"));
    let Expression::Call(_, arguments) = folded("random(1, 100000 * :scale)") else { panic!("a call") };
    assert_eq!(arguments, [parsed("1"), parsed("300000")]);
    // An error is only one when it is reached.
    assert!(matches!(folded("1 / 0"), Expression::Call(..)));
    assert!(matches!(folded(":other + 1"), Expression::Call(..)));
}

#[test]
fn a_deep_expression_is_refused_and_a_long_one_is_not_deep() {
    let deep = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
    let long = vec!["1"; 5_000].join(" + ");
    for text in [deep, long, "- ".repeat(5_000) + "1", "not ".repeat(5_000) + "true"] {
        let mistake = expression(&text, 0..text.len(), &mut Symbols::default()).unwrap_err();
        assert!(mistake.what.contains("deeper than"), "{mistake:?}");
    }
    assert_eq!(worth(&vec!["1"; 100].join(" + ")), Ok("100".to_owned()));
}

/// 600 random expressions, each with what pgbench of PostgreSQL 15.18 printed for `\\set a debug(…)` with
/// `-D default_seed=77`, or the words of its error. Left out is `abs` of a boolean, for which pgbench prints whatever its
/// memory holds.
#[test]
fn random_expressions_are_worth_what_pgbench_said() {
    use super::super::scalar::Scalar;
    let recorded = include_str!("pgbench-15.tsv");
    assert!(recorded.lines().count() > 500);
    for line in recorded.lines() {
        let (text, wanted) = line.split_once('\t').unwrap();
        let mut symbols = Symbols::default();
        let (scale, seed) = (symbols.slot("scale"), symbols.slot("default_seed"));
        let known = |slot: usize| match slot {
            _ if slot == scale => Some(Scalar::Int(1)),
            _ if slot == seed => Some(Scalar::Int(77)),
            _ => None,
        };
        let mut found = String::new();
        match expression(text, 0..text.len(), &mut symbols) {
            Err(_) => found.push_str("error: syntax"),
            Ok(parsed) => match parsed.folded(&known).evaluate(&mut Nowhere(Xoroshiro::of_seed(7))) {
                Err(fault) => {
                    found.push_str("error: ");
                    fault.write(&[], &mut found).unwrap();
                }
                Ok(Scalar::Null) => found.push_str("null"),
                Ok(value) => {
                    found.push_str(match value {
                        Scalar::Bool(_) => "boolean ",
                        Scalar::Int(_) => "int ",
                        _ => "double ",
                    });
                    value.write(&mut found);
                }
            },
        }
        // Where words hold a number it is written otherwise.
        let words = |text: &str| match text.split_once(" for ").or(text.split_once(" (not")) {
            Some((before, _)) => before.to_owned(),
            None => text.to_owned(),
        };
        assert_eq!(words(&found), words(wanted), "{text}");
    }
}
