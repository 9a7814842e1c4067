//! Reads expressions: PostgreSQL documentation, "pgbench", "Built-In Operators" and "Built-In Functions".

use std::ops::Range;

use plimsoll_core::nearest::nearest;

use super::expression::{ARGUMENTS_MAX, Expression, FUNCTIONS, Function};
use super::mistake::{Mistake, mistake};
use super::scalar::Scalar;
use super::symbols::{Symbols, is_name_byte};

/// Deepest nesting of an expression.
const DEPTH_MAX: u32 = 120;

/// The strengths with which operators bind, weakest first, as in PostgreSQL's grammar.
mod binding {
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const IS: u8 = 4;
    pub(super) const COMPARISON: u8 = 5;
    pub(super) const BITS: u8 = 6;
    pub(super) const SUM: u8 = 7;
    pub(super) const PRODUCT: u8 = 8;
    pub(super) const SIGN: u8 = 9;
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'t> {
    Int(i64),
    /// 9223372036854775808, which only a minus makes an integer.
    IntMinMagnitude,
    Float(f64),
    Variable(&'t str),
    Word(&'t str),
    Sign(&'t str),
    End,
}

/// Reads the expression in `range` of `text`; variables get their places in `symbols`.
pub(crate) fn expression(text: &str, range: Range<usize>, symbols: &mut Symbols) -> Result<Expression, Mistake> {
    let mut parser = Parser { text, at: range.start, end: range.end, symbols, next: Token::End, range: 0..0 };
    parser.advance()?;
    let (expression, _) = parser.binary(binding::OR, 0)?;
    if parser.next != Token::End {
        return Err(parser.unexpected());
    }
    Ok(expression)
}

/// An expression and how deep it is.
type Deep = (Expression, u32);

struct Parser<'t, 's> {
    text: &'t str,
    at: usize,
    end: usize,
    symbols: &'s mut Symbols,
    next: Token<'t>,
    /// Range of `next` in the text.
    range: Range<usize>,
}

impl<'t> Parser<'t, '_> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..self.end).unwrap_or("")
    }

    /// Moves on to the next token.
    fn advance(&mut self) -> Result<(), Mistake> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            // A backslash at a line's end continues the line.
            match trimmed.strip_prefix("\\\n").or_else(|| trimmed.strip_prefix("\\\r\n")) {
                Some(after) => self.at += trimmed.len() - after.len(),
                None => break,
            }
        }
        let rest = self.rest();
        let (token, length) = self.token(rest)?;
        self.next = token;
        self.range = self.at..self.at + length;
        self.at += length;
        Ok(())
    }

    fn token(&self, rest: &'t str) -> Result<(Token<'t>, usize), Mistake> {
        let Some(first) = rest.chars().next() else { return Ok((Token::End, 0)) };
        let name_length = |text: &str| text.bytes().take_while(|byte| is_name_byte(*byte)).count();
        if first.is_ascii_digit() || (first == '.' && rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit)) {
            return self.number(rest);
        }
        if let Some(name) = rest.strip_prefix(':') {
            let length = name_length(name);
            if length > 0 {
                return Ok((Token::Variable(name.get(..length).unwrap_or("")), length + 1));
            }
        }
        if first.is_ascii_alphabetic() || first == '_' || !first.is_ascii() {
            let length = name_length(rest);
            return Ok((Token::Word(rest.get(..length).unwrap_or("")), length));
        }
        const SIGNS: [&str; 21] = [
            "<>", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "=", "<", ">", "|", "&", "#", "~", "(", ")",
            ",",
        ];
        match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            Some(sign) => Ok((Token::Sign(sign), sign.len())),
            None => Err(mistake(self.at..self.at + first.len_utf8(), format!("unexpected character `{first}`"))),
        }
    }

    fn number(&self, rest: &'t str) -> Result<(Token<'t>, usize), Mistake> {
        let bytes = rest.as_bytes();
        let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        let whole = digits(0);
        let mut length = whole;
        if bytes.get(length) == Some(&b'.') {
            length += 1 + digits(length + 1);
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length + 1 + sign);
            if exponent > 0 {
                length += 1 + sign + exponent;
            }
        }
        let text = rest.get(..length).unwrap_or("");
        let too_large = |what: &str| Err(mistake(self.at..self.at + length, format!("{what} constant overflow")));
        if length == whole {
            return match text.parse::<u64>() {
                Ok(value) if value <= i64::MAX as u64 => Ok((Token::Int(value as i64), length)),
                Ok(value) if value == 1 << 63 => Ok((Token::IntMinMagnitude, length)),
                _ => too_large("bigint"),
            };
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok((Token::Float(value), length)),
            _ => too_large("double"),
        }
    }

    fn unexpected(&self) -> Mistake {
        match self.next {
            Token::End => mistake(self.range.clone(), "the expression ends too early".into()),
            _ => {
                let found = self.text.get(self.range.clone()).unwrap_or("");
                mistake(self.range.clone(), format!("syntax error at `{found}`"))
            }
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.next, Token::Word(next) if next.eq_ignore_ascii_case(word))
    }

    /// Takes `word` if it is next.
    fn take_word(&mut self, word: &str) -> Result<bool, Mistake> {
        let found = self.is_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect_sign(&mut self, sign: &str) -> Result<(), Mistake> {
        if self.next == Token::Sign(sign) {
            return self.advance();
        }
        let found = self.unexpected();
        Err(Mistake { help: Some(format!("a `{sign}` is missing here")), ..found })
    }

    fn deeper(&self, depth: u32) -> Result<u32, Mistake> {
        if depth >= DEPTH_MAX {
            return Err(mistake(self.range.clone(), format!("the expression is nested deeper than {DEPTH_MAX}"))
                .with_help("split it into several \\set commands"));
        }
        Ok(depth + 1)
    }

    fn call(&self, function: Function, arguments: Vec<Deep>) -> Result<Deep, Mistake> {
        let depth = arguments.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
        let arguments = arguments.into_iter().map(|(argument, _)| argument).collect();
        Ok((Expression::Call(function, arguments), self.deeper(depth)?))
    }

    /// Operators that bind at least as strongly as `least`. `within` counts the calls around this one.
    fn binary(&mut self, least: u8, within: u32) -> Result<Deep, Mistake> {
        let within = self.deeper(within)?;
        let mut left = self.prefix(within)?;
        let mut last = 0;
        loop {
            let Some(strength) = self.strength() else { return Ok(left) };
            if strength < least {
                return Ok(left);
            }
            if strength == last && strength == binding::COMPARISON {
                return Err(self.unexpected().with_help("comparisons do not chain: join them by AND"));
            }
            last = strength;
            left = if strength == binding::IS { self.is(left)? } else { self.operator(left, strength, within)? };
        }
    }

    fn strength(&self) -> Option<u8> {
        Some(match self.next {
            Token::Sign("<>" | "!=" | "<=" | ">=" | "<" | ">" | "=") => binding::COMPARISON,
            Token::Sign("|" | "&" | "#" | "<<" | ">>") => binding::BITS,
            Token::Sign("+" | "-") => binding::SUM,
            Token::Sign("*" | "/" | "%") => binding::PRODUCT,
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                "or" => binding::OR,
                "and" => binding::AND,
                "is" | "isnull" | "notnull" => binding::IS,
                _ => return None,
            },
            _ => return None,
        })
    }

    fn operator(&mut self, left: Deep, strength: u8, within: u32) -> Result<Deep, Mistake> {
        let operator = self.next;
        self.advance()?;
        let right = self.binary(strength + 1, within)?;
        let depth = self.deeper(left.1.max(right.1))?;
        let Token::Sign(sign) = operator else {
            return Ok((Expression::Logic(strength == binding::OR, Box::new([left.0, right.0])), depth));
        };
        let function = match sign {
            "+" => Function::Add,
            "-" => Function::Subtract,
            "*" => Function::Multiply,
            "/" => Function::Divide,
            "%" => Function::Modulo,
            "=" => Function::Equal,
            "<>" | "!=" => Function::NotEqual,
            "<=" | ">=" => Function::LessOrEqual,
            "<" | ">" => Function::Less,
            "&" => Function::BitAnd,
            "|" => Function::BitOr,
            "#" => Function::BitXor,
            "<<" => Function::ShiftLeft,
            _ => Function::ShiftRight,
        };
        // `a > b` is `b < a`, also in the order in which the two are evaluated.
        let swapped = matches!(sign, ">" | ">=");
        self.call(function, if swapped { vec![right, left] } else { vec![left, right] })
    }

    /// `IS [NOT] NULL`, `IS [NOT] TRUE`, `IS [NOT] FALSE`, `ISNULL`, `NOTNULL`.
    fn is(&mut self, left: Deep) -> Result<Deep, Mistake> {
        let (negated, right) = if self.take_word("isnull")? {
            (false, Scalar::Null)
        } else if self.take_word("notnull")? {
            (true, Scalar::Null)
        } else {
            self.advance()?;
            let negated = self.take_word("not")?;
            let Some(constant) = self.constant() else {
                let found = self.unexpected();
                return Err(found.with_help("after IS stand NULL, TRUE or FALSE, or NOT and one of them"));
            };
            self.advance()?;
            (negated, constant)
        };
        let is = self.call(Function::Is, vec![left, (Expression::Constant(right), 0)])?;
        if negated { self.call(Function::Not, vec![is]) } else { Ok(is) }
    }

    /// The constant that is next when it is a word.
    fn constant(&self) -> Option<Scalar> {
        let Token::Word(word) = self.next else { return None };
        match word.to_ascii_lowercase().as_str() {
            "null" => Some(Scalar::Null),
            "true" => Some(Scalar::Bool(true)),
            "false" => Some(Scalar::Bool(false)),
            _ => None,
        }
    }

    fn prefix(&mut self, within: u32) -> Result<Deep, Mistake> {
        let zero = || (Expression::Constant(Scalar::Int(0)), 0);
        match self.next {
            Token::Sign("+") => {
                self.advance()?;
                self.binary(binding::SIGN, within)
            }
            Token::Sign("-") => {
                self.advance()?;
                if self.next == Token::IntMinMagnitude {
                    self.advance()?;
                    return Ok((Expression::Constant(Scalar::Int(i64::MIN)), 0));
                }
                let operand = self.binary(binding::SIGN, within)?;
                self.call(Function::Subtract, vec![zero(), operand])
            }
            Token::Sign("~") => {
                self.advance()?;
                let operand = self.binary(binding::SUM, within)?;
                self.call(Function::BitXor, vec![(Expression::Constant(Scalar::Int(-1)), 0), operand])
            }
            Token::Word(word) if word.eq_ignore_ascii_case("not") => {
                self.advance()?;
                let operand = self.binary(binding::IS, within)?;
                self.call(Function::Not, vec![operand])
            }
            _ => self.primary(within),
        }
    }

    fn primary(&mut self, within: u32) -> Result<Deep, Mistake> {
        let value = match self.next {
            Token::Int(value) => Expression::Constant(Scalar::Int(value)),
            Token::Float(value) => Expression::Constant(Scalar::Float(value)),
            Token::IntMinMagnitude => return Err(mistake(self.range.clone(), "bigint constant overflow".into())),
            Token::Variable(name) => Expression::Variable(self.symbols.read(name, self.range.clone())),
            Token::Sign("(") => {
                self.advance()?;
                let inner = self.binary(binding::OR, within)?;
                self.expect_sign(")")?;
                return Ok(inner);
            }
            Token::Word(_) if self.is_word("case") => return self.case(within),
            Token::Word(word) => match self.constant() {
                Some(constant) => Expression::Constant(constant),
                None => return self.function(word, within),
            },
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok((value, 0))
    }

    fn case(&mut self, within: u32) -> Result<Deep, Mistake> {
        self.advance()?;
        let mut depth = 0;
        let mut part = |parser: &mut Self| {
            let (part, part_depth) = parser.binary(binding::OR, within)?;
            depth = depth.max(part_depth);
            Ok::<_, Mistake>(part)
        };
        let mut branches = Vec::new();
        while self.take_word("when")? {
            let condition = part(self)?;
            if !self.take_word("then")? {
                return Err(self.unexpected().with_help("a WHEN goes with a THEN"));
            }
            branches.push([condition, part(self)?]);
        }
        if branches.is_empty() {
            return Err(self.unexpected().with_help("after CASE stands WHEN"));
        }
        let otherwise = if self.take_word("else")? { part(self)? } else { Expression::Constant(Scalar::Null) };
        if !self.take_word("end")? {
            return Err(self.unexpected().with_help("a CASE goes with an END"));
        }
        Ok((Expression::Case(branches, Box::new(otherwise)), self.deeper(depth)?))
    }

    fn function(&mut self, word: &str, within: u32) -> Result<Deep, Mistake> {
        let name_range = self.range.clone();
        let names = || FUNCTIONS.iter().map(|(name, ..)| *name);
        let found = FUNCTIONS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(word));
        let Some(&(name, least, most, function)) = found else {
            let near = nearest(word, names()).map(|near| format!("did you mean `{near}`? "));
            let all: Vec<&str> = names().collect();
            return Err(mistake(name_range, format!("unexpected function name `{word}`")).with_help(format!(
                "{}there are {}",
                near.unwrap_or_default(),
                all.join(", ")
            )));
        };
        self.advance()?;
        self.expect_sign("(")?;
        let mut arguments = Vec::new();
        while self.next != Token::Sign(")") {
            if !arguments.is_empty() {
                self.expect_sign(",")?;
            }
            arguments.push(self.binary(binding::OR, within)?);
        }
        let whole = name_range.start..self.range.end;
        self.advance()?;
        let count = arguments.len();
        if !(least..=most).contains(&count) {
            let wanted = match most {
                usize::MAX => "at least one argument".to_owned(),
                _ if least == most => counted(most),
                _ => format!("{least} or {}", counted(most)),
            };
            return Err(mistake(whole, format!("`{name}` takes {wanted}, not {count}")));
        }
        if count < most && most != usize::MAX {
            arguments.push((Expression::Variable(self.symbols.read("default_seed", name_range)), 0));
        }
        if arguments.len() > ARGUMENTS_MAX {
            let what = format!("too many function arguments, maximum is {ARGUMENTS_MAX}");
            return Err(mistake(whole, what).with_help(format!("put a `{name}` into a `{name}`")));
        }
        self.call(function, arguments)
    }
}

fn counted(count: usize) -> String {
    match count {
        0 => "no argument".to_owned(),
        1 => "1 argument".to_owned(),
        _ => format!("{count} arguments"),
    }
}
