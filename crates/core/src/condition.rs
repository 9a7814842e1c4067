//! Conditions on figures: comparisons of figures with numbers and with each other, all of which must hold.
//!
//! ```text
//! condition  = comparison { "and" comparison }
//! comparison = side ("<" | "<=" | ">" | ">=" | "=") side
//! side       = number | "{" name of a figure "}"
//! ```

use crate::formula::FormulaError;

/// A parsed condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    comparisons: Vec<(Side, Sign, Side)>,
}

/// The relations that a comparison may state, in the order in which they are looked for.
const SIGNS: [(&str, Sign); 5] =
    [("<=", Sign::AtMost), (">=", Sign::AtLeast), ("<", Sign::Less), (">", Sign::More), ("=", Sign::Equal)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
}

#[derive(Debug, Clone, PartialEq)]
enum Side {
    Number(f64),
    /// Name of a figure, and its byte offset in the text.
    Figure(String, usize),
}

/// Least and greatest value that a figure may have.
pub type Bounds = (f64, f64);

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// The first mistake in `text`.
    pub fn parse(text: &str) -> Result<Condition, FormulaError> {
        let mut parser = Parser { text, at: 0 };
        let mut comparisons = vec![parser.comparison()?];
        loop {
            match parser.peek() {
                None => return Ok(Condition { comparisons }),
                Some(_) if parser.rest().starts_with("and") => {
                    parser.at += "and".len();
                    comparisons.push(parser.comparison()?);
                }
                Some(other) => return Err(parser.error(format!("expected `and` or the end, found `{other}`"))),
            }
        }
    }

    /// Iterates over the figures that the condition names, in the order of the text, each with its byte offset.
    pub fn figures(&self) -> impl Iterator<Item = (&str, usize)> {
        self.comparisons.iter().flat_map(|(left, _, right)| [left, right]).filter_map(Side::figure)
    }

    /// Evaluates the condition, with `bounds_of` for the bounds of each figure. Returns `None` if it holds for some
    /// values within the bounds and not for others, or if a figure has no bounds.
    pub fn holds(&self, bounds_of: &dyn Fn(&str) -> Option<Bounds>) -> Option<bool> {
        let each: Vec<Option<bool>> = self.comparisons.iter().map(|one| compared(one, bounds_of)).collect();
        match each.contains(&Some(false)) {
            true => Some(false),
            false => each.iter().all(Option::is_some).then_some(true),
        }
    }

    /// Returns the figures of each comparison that holds for some values within the bounds and not for others.
    pub fn undecided(&self, bounds_of: &dyn Fn(&str) -> Option<Bounds>) -> Vec<&str> {
        let open = self.comparisons.iter().filter(|one| compared(one, bounds_of).is_none());
        let sides = open.flat_map(|(left, _, right)| [left, right]);
        sides.filter_map(Side::figure).map(|(name, _)| name).collect()
    }
}

/// Evaluates a comparison, with `bounds_of` for the bounds of each figure; `None` if it is not decided.
fn compared((left, sign, right): &(Side, Sign, Side), bounds_of: &dyn Fn(&str) -> Option<Bounds>) -> Option<bool> {
    let bounds = |side: &Side| match side {
        Side::Number(number) => Some((*number, *number)),
        Side::Figure(name, _) => bounds_of(name),
    };
    sign.holds(bounds(left)?, bounds(right)?)
}

impl Side {
    /// Returns the name of a figure, and its byte offset in the text; `None` for a number.
    fn figure(&self) -> Option<(&str, usize)> {
        match self {
            Side::Figure(name, at) => Some((name.as_str(), *at)),
            Side::Number(_) => None,
        }
    }
}

impl Sign {
    fn holds(self, (left_least, left_most): Bounds, (right_least, right_most): Bounds) -> Option<bool> {
        let (always, never) = match self {
            Sign::Less => (left_most < right_least, left_least >= right_most),
            Sign::AtMost => (left_most <= right_least, left_least > right_most),
            Sign::More => (left_least > right_most, left_most <= right_least),
            Sign::AtLeast => (left_least >= right_most, left_most < right_least),
            Sign::Equal => {
                let is_one = left_least == left_most && right_least == right_most;
                (is_one && left_least == right_least, left_most < right_least || left_least > right_most)
            }
        };
        (always || never).then_some(always)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn comparison(&mut self) -> Result<(Side, Sign, Side), FormulaError> {
        self.peek();
        let start = self.at;
        let left = self.side()?;
        self.peek();
        let Some((written, sign)) = SIGNS.iter().find(|(written, _)| self.rest().starts_with(*written)) else {
            let found = self.rest().chars().next().map_or("the end".to_owned(), |found| format!("`{found}`"));
            return Err(self.error(format!("expected a comparison (< <= > >= =), found {found}")));
        };
        self.at += written.len();
        let right = self.side()?;
        if matches!((&left, &right), (Side::Number(_), Side::Number(_))) {
            let what = "a comparison needs a figure in braces, as in `{load} > 5`".to_owned();
            return Err(FormulaError { at: start, what });
        }
        Ok((left, *sign, right))
    }

    fn side(&mut self) -> Result<Side, FormulaError> {
        let wanted = "expected a number or a figure in braces such as `{load}`";
        match self.peek() {
            Some('{') => {
                let start = self.at + 1;
                let Some(length) = self.text.get(start..).and_then(|rest| rest.find('}')) else {
                    return Err(self.error("there is no `}` for this `{`"));
                };
                self.at = start + length + 1;
                Ok(Side::Figure(self.text.get(start..start + length).unwrap_or_default().to_owned(), start))
            }
            Some(first) if first.is_ascii_digit() || matches!(first, '-' | '.') => {
                let start = self.at;
                let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '-' | '.');
                let length = self.rest().find(|c| !is_digit(c)).unwrap_or(self.rest().len());
                let text = self.rest().get(..length).unwrap_or_default();
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                self.at += length;
                let what = || format!("`{text}` is not a number");
                number.map(Side::Number).ok_or_else(|| FormulaError { at: start, what: what() })
            }
            Some(found) => Err(self.error(format!("{wanted}, found `{found}`"))),
            None => Err(self.error(format!("{wanted}, found the end"))),
        }
    }

    /// Skips blanks and returns the next character.
    fn peek(&mut self) -> Option<char> {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error(&self, what: impl Into<String>) -> FormulaError {
        FormulaError { at: self.at, what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates `text`, with 2 for `{two}` and between 1 and 3 for `{some}`.
    fn holds(text: &str) -> Option<bool> {
        Condition::parse(text).unwrap().holds(&|name| match name {
            "two" => Some((2.0, 2.0)),
            "some" => Some((1.0, 3.0)),
            _ => None,
        })
    }

    #[test]
    fn a_condition_holds_only_if_it_holds_for_all_values_within_the_bounds() {
        for (text, wanted) in [
            ("{two} > 1.5", Some(true)),
            ("{two} > 2", Some(false)),
            ("{two} >= 2 and {two} <= 2 and {two} = 2", Some(true)),
            ("{two} < 2", Some(false)),
            ("-1 < {two}", Some(true)),
            ("{some} > 2", None),
            ("{some} > .5", Some(true)),
            ("{some} < {two}", None),
            ("{some} > 3", Some(false)),
            ("{some} >= 3", None),
            ("{some} <= 3", Some(true)),
            ("{some} = 2", None),
            ("{some} = 4", Some(false)),
            // What is false is false, whatever else is open.
            ("{some} > 2 and {two} > 5", Some(false)),
            ("{two} = 2 and {unknown} > 1", None),
        ] {
            assert_eq!(holds(text), wanted, "{text}");
        }
    }

    #[test]
    fn figures_of_comparisons_that_are_decided_are_not_undecided() {
        let bounds = |name: &str| if name == "some" { Some((1.0, 3.0)) } else { Some((2.0, 2.0)) };
        let undecided = |text: &str| Condition::parse(text).unwrap().undecided(&bounds).join(" ");
        assert_eq!(undecided("{two} < 3 and {some} < {other} and {some} > 0"), "some other");
        assert_eq!(undecided("{two} < 3 and {some} < 5"), "");
    }

    #[test]
    fn figures_come_with_their_places() {
        let condition = Condition::parse("{a, b / c} > 1 and 2 >= {é}").unwrap();
        assert_eq!(condition.figures().collect::<Vec<_>>(), [("a, b / c", 1), ("é", 25)]);
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, at, what) in [
            ("", 0, "expected a number or a figure in braces such as `{load}`, found the end"),
            ("load > 1", 0, "expected a number or a figure in braces such as `{load}`, found `l`"),
            ("{a}", 3, "expected a comparison (< <= > >= =), found the end"),
            ("{a} ! 1", 4, "expected a comparison (< <= > >= =), found `!`"),
            ("{a > 1", 0, "there is no `}` for this `{`"),
            ("{a} > 1.2.3", 6, "`1.2.3` is not a number"),
            ("{a} > 1 or {b} > 1", 8, "expected `and` or the end, found `o`"),
            ("{a} > 1 and 1 < 2", 12, "a comparison needs a figure in braces, as in `{load} > 5`"),
        ] {
            let error = Condition::parse(text).unwrap_err();
            assert_eq!((error.at, error.what.as_str()), (at, what), "{text}");
        }
    }
}
