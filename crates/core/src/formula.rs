//! Formulas of figures: arithmetic over the results of phases.
//!
//! `load.seconds[index=own] / load.seconds[index=none]` names two results: the quantity `seconds` of the phase
//! `load`, in the trial whose labels are those in brackets. The caller supplies their values.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = factor { ("*" | "/") factor }
//! factor  = "-" factor | number | "(" sum ")" | term
//! term    = word "." word [ "[" label "=" value { "," label "=" value } "]" ]
//! label   = word { "." word }
//! ```
//!
//! A word is letters, digits and `_`, and begins with no digit. A value extends to the next `,` or `]`, without the
//! blanks around it.

use std::fmt;

/// Deepest nesting of parentheses and signs.
const DEPTH_MAX: usize = 64;

/// A parsed formula.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    /// Steps in postfix order, so that neither evaluating nor dropping a long formula recurses.
    steps: Vec<Step>,
    terms: Vec<(Term, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Number(f64),
    /// Position in `terms`.
    Term(usize),
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A result that a formula names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    /// Name of the phase.
    pub phase: String,
    /// Name of the result: `seconds`, `median_seconds`.
    pub quantity: String,
    /// Labels that the trial must have, with their values as written.
    pub labels: Vec<(String, String)>,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.phase, self.quantity)?;
        for (position, (label, value)) in self.labels.iter().enumerate() {
            write!(f, "{}{label}={value}", if position == 0 { "[" } else { "," })?;
        }
        if self.labels.is_empty() { Ok(()) } else { f.write_str("]") }
    }
}

/// The reason why a text is not a formula.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct FormulaError {
    /// Byte offset of the mistake in the text; at most the text's length, on a character boundary.
    pub at: usize,
    /// Description of the mistake.
    pub what: String,
}

impl Formula {
    /// Parses a formula.
    ///
    /// # Errors
    /// The first mistake in `text`.
    pub fn parse(text: &str) -> Result<Formula, FormulaError> {
        let mut parser = Parser { text, at: 0, depth: 0, formula: Formula { steps: Vec::new(), terms: Vec::new() } };
        parser.sum()?;
        match parser.peek() {
            None => Ok(parser.formula),
            Some(')') => Err(parser.error("there is no `(` for this `)`")),
            Some(other) => Err(parser.error(format!("expected an operator (+ - * /) or the end, found `{other}`"))),
        }
    }

    /// Iterates over the results that the formula names, in the order of the text, each with its byte offset.
    pub fn terms(&self) -> impl ExactSizeIterator<Item = (&Term, usize)> {
        self.terms.iter().map(|(term, at)| (term, *at))
    }

    /// Returns dividend and divisor of a formula that divides one result by another; `None` for others.
    pub fn quotient(&self) -> Option<(&Term, &Term)> {
        match self.steps.as_slice() {
            [Step::Term(dividend), Step::Term(divisor), Step::Divide] => {
                Some((&self.terms.get(*dividend)?.0, &self.terms.get(*divisor)?.0))
            }
            _ => None,
        }
    }

    /// Returns true if the formula is one result by itself.
    pub fn is_term(&self) -> bool {
        matches!(self.steps.as_slice(), [Step::Term(_)])
    }

    /// Evaluates the formula, with `value_of` for the value of each result. Returns `None` if a result has no value,
    /// or the outcome is not finite (a division by zero).
    pub fn eval(&self, value_of: &dyn Fn(&Term) -> Option<f64>) -> Option<f64> {
        let mut stack: Vec<f64> = Vec::new();
        for step in &self.steps {
            let value = match step {
                Step::Number(number) => *number,
                Step::Term(position) => value_of(&self.terms.get(*position)?.0)?,
                Step::Negate => -stack.pop()?,
                operator => {
                    let right = stack.pop()?;
                    let left = stack.pop()?;
                    match operator {
                        Step::Add => left + right,
                        Step::Subtract => left - right,
                        Step::Multiply => left * right,
                        _ => left / right,
                    }
                }
            };
            stack.push(value);
        }
        stack.pop().filter(|value| value.is_finite())
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    formula: Formula,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<(), FormulaError> {
        self.product()?;
        while let Some(operator @ ('+' | '-')) = self.peek() {
            self.at += 1;
            self.product()?;
            self.formula.steps.push(if operator == '+' { Step::Add } else { Step::Subtract });
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), FormulaError> {
        self.factor()?;
        while let Some(operator @ ('*' | '/')) = self.peek() {
            self.at += 1;
            self.factor()?;
            self.formula.steps.push(if operator == '*' { Step::Multiply } else { Step::Divide });
        }
        Ok(())
    }

    fn factor(&mut self) -> Result<(), FormulaError> {
        match self.peek() {
            Some(sign @ ('-' | '(')) => {
                if self.depth == DEPTH_MAX {
                    return Err(self.error(format!("nested more than {DEPTH_MAX} deep")));
                }
                self.depth += 1;
                self.at += 1;
                if sign == '-' {
                    self.factor()?;
                    self.formula.steps.push(Step::Negate);
                } else {
                    self.sum()?;
                    self.expect(')', "expected `)`")?;
                }
                self.depth -= 1;
                Ok(())
            }
            Some(digit) if digit.is_ascii_digit() || digit == '.' => self.number(),
            Some(letter) if is_word_start(letter) => self.term(),
            Some(other) => {
                Err(self.error(format!("expected a number, a result such as `load.seconds` or `(`, found `{other}`")))
            }
            None => Err(self.error("expected a number, a result such as `load.seconds` or `(`, found the end")),
        }
    }

    fn number(&mut self) -> Result<(), FormulaError> {
        let start = self.at;
        let digits = self.rest().bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let text = self.rest().get(..digits).unwrap_or_default();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.at += digits;
                self.formula.steps.push(Step::Number(number));
                Ok(())
            }
            _ => Err(FormulaError { at: start, what: format!("`{text}` is not a number") }),
        }
    }

    fn term(&mut self) -> Result<(), FormulaError> {
        let start = self.at;
        let phase = self.word().to_owned();
        if !self.rest().starts_with('.') {
            return Err(
                self.error(format!("expected `.` and a quantity after the phase `{phase}`, as in `{phase}.seconds`"))
            );
        }
        self.at += 1;
        let mut quantity = self.word().to_owned();
        // Decimals of a percentile: `p99.9` is another spelling of `p999`.
        let decimals = self.rest().strip_prefix('.').unwrap_or_default();
        let decimals = decimals.trim_start_matches(|c: char| c.is_ascii_digit()).len().abs_diff(decimals.len());
        if quantity.ends_with("p99") && decimals > 0 {
            quantity.push_str(self.rest().get(1..=decimals).unwrap_or_default());
            self.at += 1 + decimals;
        }
        if quantity.is_empty() {
            return Err(self.error(format!("expected a quantity after `{phase}.`, as in `{phase}.seconds`")));
        }
        let mut labels = Vec::new();
        if self.rest().starts_with('[') {
            self.at += 1;
            loop {
                self.peek();
                let label = self.label().to_owned();
                if label.is_empty() {
                    return Err(self.error("expected a label, as in `[index=own]`"));
                }
                self.expect('=', "expected `=` after the label")?;
                self.peek();
                let length = self.rest().find([',', ']']).unwrap_or(self.rest().len());
                let value = self.rest().get(..length).unwrap_or_default().trim_end().to_owned();
                if value.is_empty() {
                    return Err(self.error(format!("expected a value for the label `{label}`")));
                }
                self.at += length;
                labels.push((label, value));
                if self.peek() == Some(',') {
                    self.at += 1;
                } else {
                    self.expect(']', "expected `]`")?;
                    break;
                }
            }
        }
        self.formula.steps.push(Step::Term(self.formula.terms.len()));
        self.formula.terms.push((Term { phase, quantity, labels }, start));
        Ok(())
    }

    /// Skips blanks and returns the next character.
    fn peek(&mut self) -> Option<char> {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn expect(&mut self, wanted: char, what: &str) -> Result<(), FormulaError> {
        match self.peek() {
            Some(found) if found == wanted => {
                self.at += 1;
                Ok(())
            }
            Some(found) => Err(self.error(format!("{what}, found `{found}`"))),
            None => Err(self.error(format!("{what}, found the end"))),
        }
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let length = if rest.starts_with(is_word_start) {
            rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
        } else {
            0
        };
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    fn label(&mut self) -> &'a str {
        let start = self.at;
        while !self.word().is_empty() && self.rest().starts_with('.') {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error(&self, what: impl Into<String>) -> FormulaError {
        FormulaError { at: self.at, what: what.into() }
    }
}

fn is_word_start(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        Formula::parse(text).unwrap().eval(&|term| match (term.phase.as_str(), term.quantity.as_str()) {
            ("load", "seconds") if term.labels.is_empty() => Some(2.0),
            ("load", "seconds") => term.labels.first()?.1.parse().ok(),
            _ => None,
        })
    }

    #[test]
    fn arithmetic_binds_as_usual() {
        assert_eq!(value("1 + 2 * 3"), Some(7.0));
        assert_eq!(value("(1 + 2) * 3"), Some(9.0));
        assert_eq!(value("8 / 4 / 2 - 1 - 1"), Some(-1.0));
        assert_eq!(value("--2 * -(.5+1.5)"), Some(-4.0));
        assert_eq!(value(" load.seconds*1.5 "), Some(3.0));
        assert_eq!(value("load.seconds[rows = 7 , x=y] / load.seconds"), Some(3.5));
    }

    #[test]
    fn what_is_not_known_or_not_finite_has_no_value() {
        assert_eq!(value("nothing.seconds + 1"), None);
        assert_eq!(value("1 / (load.seconds - 2)"), None);
    }

    #[test]
    fn terms_come_with_their_labels_and_places() {
        let formula = Formula::parse("a.b / warm.p99[mixed.size=4MiB,store=my-host:1/x]").unwrap();
        let terms: Vec<_> = formula.terms().map(|(term, at)| (term.to_string(), at)).collect();
        assert_eq!(terms, [("a.b".to_owned(), 0), ("warm.p99[mixed.size=4MiB,store=my-host:1/x]".to_owned(), 6)]);
        // The 99.9th percentile has two spellings.
        for text in ["warm.p99.9[op=read] * .9", "warm.p999[op=read] * .9", "warm.undisturbed_p99.9"] {
            let formula = Formula::parse(text).unwrap();
            let (term, _) = formula.terms().next().unwrap();
            assert!(term.quantity.ends_with("p999"), "{text}: {term}");
        }
    }

    #[test]
    fn a_quotient_is_one_result_over_another_and_nothing_else() {
        let quotient = |text: &str| {
            let formula = Formula::parse(text).unwrap();
            formula.quotient().map(|(dividend, divisor)| (dividend.to_string(), divisor.to_string()))
        };
        assert_eq!(quotient("a.rate / (b.rate[c=1])"), Some(("a.rate".to_owned(), "b.rate[c=1]".to_owned())));
        for other in ["a.rate", "a.rate / 2", "a.rate * b.rate", "2 * a.rate / b.rate", "a.rate / b.rate / c.rate"] {
            assert_eq!(quotient(other), None, "{other}");
        }
    }

    #[test]
    fn a_result_by_itself_is_a_term_and_nothing_else_is() {
        let is_term = |text: &str| Formula::parse(text).unwrap().is_term();
        assert!(is_term("a.outage") && is_term("(a.outage[b=1])"));
        for other in ["-a.outage", "2 * a.outage", "a.outage / b.outage", "2"] {
            assert!(!is_term(other), "{other}");
        }
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, at, what) in [
            ("", 0, "expected a number, a result such as `load.seconds` or `(`, found the end"),
            ("1 +", 3, "expected a number, a result such as `load.seconds` or `(`, found the end"),
            ("1 2", 2, "expected an operator (+ - * /) or the end, found `2`"),
            ("1 + é", 4, "expected a number, a result such as `load.seconds` or `(`, found `é`"),
            ("(1", 2, "expected `)`, found the end"),
            ("1)", 1, "there is no `(` for this `)`"),
            ("1.2.3", 0, "`1.2.3` is not a number"),
            ("load", 4, "expected `.` and a quantity after the phase `load`, as in `load.seconds`"),
            ("load. x", 5, "expected a quantity after `load.`, as in `load.seconds`"),
            ("load.s[=1]", 7, "expected a label, as in `[index=own]`"),
            ("load.s[a]", 8, "expected `=` after the label, found `]`"),
            ("load.s[a=]", 9, "expected a value for the label `a`"),
            ("load.s[a=1", 10, "expected `]`, found the end"),
        ] {
            let error = Formula::parse(text).unwrap_err();
            assert_eq!((error.at, error.what.as_str()), (at, what), "{text}");
        }
    }

    #[test]
    fn long_and_deep_formulas_do_not_exhaust_the_stack() {
        assert_eq!(value(&format!("0{}", "+1".repeat(100_000))), Some(100_000.0));
        let error = Formula::parse(&"(".repeat(100_000)).unwrap_err();
        assert_eq!((error.at, error.what.as_str()), (64, "nested more than 64 deep"));
    }
}
