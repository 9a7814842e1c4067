//! Expressions of `\set`, `\if` and `\elif`: what they are made of, and what they are worth.

use super::random::{GAUSSIAN_MIN, Xoroshiro, ZIPFIAN, hash_fnv1a, hash_murmur2, permute};
use super::scalar::{Evaluated, EvaluationError, Scalar};

/// Most arguments of a function.
pub(crate) const ARGUMENTS_MAX: usize = 16;

/// An expression. Its depth is bounded by the parser, so that walking it may recurse.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Constant(Scalar),
    /// The variable at this position.
    Variable(usize),
    /// A function or operator whose arguments are all evaluated.
    Call(Function, Vec<Expression>),
    /// AND, or OR where it is true: the value that decides on its own.
    Logic(bool, Box<[Expression; 2]>),
    /// Conditions with their results, and the result when none holds.
    Case(Vec<[Expression; 2]>, Box<Expression>),
}

/// Functions and operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    LessOrEqual,
    Less,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Not,
    /// `IS NULL`, `IS TRUE`, `IS FALSE`.
    Is,
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// The functions that a script may call, in the order of pgbench's documentation, each with the least and the most
/// arguments that it takes. One of two numbers takes a seed as its last argument, which is `:default_seed` where it is
/// left out.
pub(crate) const FUNCTIONS: [(&str, usize, usize, Function); 21] = [
    ("abs", 1, 1, Function::Abs),
    ("debug", 1, 1, Function::Debug),
    ("double", 1, 1, Function::Double),
    ("exp", 1, 1, Function::Exp),
    ("greatest", 1, usize::MAX, Function::Greatest),
    ("hash", 1, 2, Function::HashMurmur2),
    ("hash_fnv1a", 1, 2, Function::HashFnv1a),
    ("hash_murmur2", 1, 2, Function::HashMurmur2),
    ("int", 1, 1, Function::Int),
    ("least", 1, usize::MAX, Function::Least),
    ("ln", 1, 1, Function::Ln),
    ("mod", 2, 2, Function::Modulo),
    ("permute", 2, 3, Function::Permute),
    ("pi", 0, 0, Function::Pi),
    ("pow", 2, 2, Function::Power),
    ("power", 2, 2, Function::Power),
    ("random", 2, 2, Function::Random),
    ("random_exponential", 3, 3, Function::RandomExponential),
    ("random_gaussian", 3, 3, Function::RandomGaussian),
    ("random_zipfian", 3, 3, Function::RandomZipfian),
    ("sqrt", 1, 1, Function::Sqrt),
];

/// Source of the values of variables, and of the numbers of random functions.
pub(crate) trait Scope {
    /// The variable's value.
    fn variable(&self, slot: usize) -> Evaluated;

    /// The generator of random numbers.
    fn random(&mut self) -> &mut Xoroshiro;
}

impl Expression {
    /// Returns the value in `scope`. Arguments are evaluated from left to right.
    pub(crate) fn evaluate(&self, scope: &mut impl Scope) -> Evaluated {
        match self {
            Expression::Constant(value) => Ok(*value),
            Expression::Variable(slot) => scope.variable(*slot),
            Expression::Call(function, arguments) => match arguments.as_slice() {
                [one] => {
                    let one = one.evaluate(scope)?;
                    call(*function, &[one], scope)
                }
                [one, two] => {
                    let values = [one.evaluate(scope)?, two.evaluate(scope)?];
                    call(*function, &values, scope)
                }
                many => {
                    let mut values = [Scalar::Null; ARGUMENTS_MAX];
                    for (value, argument) in values.iter_mut().zip(many) {
                        *value = argument.evaluate(scope)?;
                    }
                    call(*function, values.get(..many.len()).unwrap_or(&values), scope)
                }
            },
            // As in pgbench a null on the left is the result, whatever stands on the right.
            Expression::Logic(decisive, sides) => both(sides, scope, *decisive),
            Expression::Case(branches, otherwise) => {
                for [condition, result] in branches {
                    if condition.evaluate(scope)?.is_true() {
                        return result.evaluate(scope);
                    }
                }
                otherwise.evaluate(scope)
            }
        }
    }

    /// Calls `visit` for it and everything within.
    pub(crate) fn visit(&self, visit: &mut impl FnMut(&Expression)) {
        visit(self);
        match self {
            Expression::Constant(_) | Expression::Variable(_) => {}
            Expression::Call(_, arguments) => arguments.iter().for_each(|argument| argument.visit(visit)),
            Expression::Logic(_, sides) => sides.iter().for_each(|side| side.visit(visit)),
            Expression::Case(branches, otherwise) => {
                branches.iter().flatten().for_each(|part| part.visit(visit));
                otherwise.visit(visit);
            }
        }
    }

    /// Returns the expression with all parts evaluated that are known before a script runs. Errors stay, because they
    /// may be in a part that is never reached.
    pub(crate) fn folded(self, known: &impl Fn(usize) -> Option<Scalar>) -> Expression {
        let fold = |inner: Expression| inner.folded(known);
        let folded = match self {
            Expression::Variable(slot) => {
                return known(slot).map_or(Expression::Variable(slot), Expression::Constant);
            }
            Expression::Constant(_) => return self,
            Expression::Call(function, arguments) => {
                Expression::Call(function, arguments.into_iter().map(fold).collect())
            }
            Expression::Logic(decisive, sides) => Expression::Logic(decisive, Box::new((*sides).map(fold))),
            Expression::Case(branches, otherwise) => Expression::Case(
                branches.into_iter().map(|branch| branch.map(fold)).collect(),
                Box::new(fold(*otherwise)),
            ),
        };
        let mut pure = true;
        folded.visit(&mut |part| {
            pure &= match part {
                Expression::Variable(_) => false,
                Expression::Call(function, _) => !function.is_random(),
                _ => true,
            };
        });
        match folded.evaluate(&mut Nowhere(Xoroshiro::of_seed(0))) {
            Ok(value) if pure => Expression::Constant(value),
            _ => folded,
        }
    }
}

impl Function {
    fn is_random(self) -> bool {
        matches!(
            self,
            Function::Random | Function::RandomExponential | Function::RandomGaussian | Function::RandomZipfian
        )
    }
}

/// A scope without variables.
pub(crate) struct Nowhere(pub(crate) Xoroshiro);

impl Scope for Nowhere {
    fn variable(&self, slot: usize) -> Evaluated {
        Err(EvaluationError::Undefined(slot))
    }

    fn random(&mut self) -> &mut Xoroshiro {
        &mut self.0
    }
}

/// AND, or OR when `decisive` is true.
fn both(sides: &[Expression; 2], scope: &mut impl Scope, decisive: bool) -> Evaluated {
    for (position, side) in sides.iter().enumerate() {
        let value = side.evaluate(scope)?;
        if value == Scalar::Null {
            return Ok(Scalar::Null);
        }
        let value = value.to_bool()?;
        if position == 1 || value == decisive {
            return Ok(Scalar::Bool(value));
        }
    }
    Ok(Scalar::Null)
}

fn call(function: Function, arguments: &[Scalar], scope: &mut impl Scope) -> Evaluated {
    if !matches!(function, Function::Is | Function::Debug) && arguments.contains(&Scalar::Null) {
        return Ok(Scalar::Null);
    }
    let get = |position: usize| arguments.get(position).copied().unwrap_or(Scalar::Null);
    let (one, two, three) = (get(0), get(1), get(2));
    let float = |function: fn(f64) -> f64| one.to_float().map(|value| Scalar::Float(function(value)));
    let int = |function: fn(i64, i64) -> i64| Ok(Scalar::Int(function(one.to_int()?, two.to_int()?)));
    match function {
        Function::Add | Function::Subtract | Function::Multiply | Function::Divide => arithmetic(function, one, two),
        Function::Modulo => remainder(one.to_int()?, two.to_int()?),
        Function::Equal | Function::NotEqual | Function::LessOrEqual | Function::Less => compare(function, one, two),
        Function::BitAnd => int(|a, b| a & b),
        Function::BitOr => int(|a, b| a | b),
        Function::BitXor => int(|a, b| a ^ b),
        // By the lowest six bits of the count, as processors do it and so pgbench.
        Function::ShiftLeft => int(|a, b| a.wrapping_shl(b as u32)),
        Function::ShiftRight => int(|a, b| a.wrapping_shr(b as u32)),
        Function::Not => one.to_bool().map(|value| Scalar::Bool(!value)),
        Function::Is => Ok(Scalar::Bool(match (one, two) {
            (Scalar::Null, Scalar::Null) => true,
            (Scalar::Bool(a), Scalar::Bool(b)) => a == b,
            _ => false,
        })),
        Function::Abs => match one {
            Scalar::Int(value) => Ok(Scalar::Int(value.wrapping_abs())),
            other => other.to_float().map(|value| Scalar::Float(value.abs())),
        },
        // Nothing is printed here: a workload has no output.
        Function::Debug => Ok(one),
        Function::Double => float(|value| value),
        Function::Exp => float(f64::exp),
        Function::Ln => float(f64::ln),
        Function::Sqrt => float(f64::sqrt),
        Function::Int => one.to_int().map(Scalar::Int),
        Function::Pi => Ok(Scalar::Float(std::f64::consts::PI)),
        Function::Power => Ok(Scalar::Float(one.to_float()?.powf(two.to_float()?))),
        Function::Greatest => extreme(arguments, |a, b| a > b, |a, b| a > b),
        Function::Least => extreme(arguments, |a, b| a < b, |a, b| a < b),
        Function::HashFnv1a => int(hash_fnv1a),
        Function::HashMurmur2 => int(hash_murmur2),
        Function::Permute => {
            let (value, size, seed) = (one.to_int()?, two.to_int()?, three.to_int()?);
            if size <= 0 {
                Err(EvaluationError::PermuteSize(size))
            } else {
                Ok(Scalar::Int(permute(value, size, seed)))
            }
        }
        Function::Random | Function::RandomExponential | Function::RandomGaussian | Function::RandomZipfian => {
            random(function, one, two, three, scope.random()).map(Scalar::Int)
        }
    }
}

fn arithmetic(function: Function, one: Scalar, two: Scalar) -> Evaluated {
    if matches!(one, Scalar::Float(_)) || matches!(two, Scalar::Float(_)) {
        let (a, b) = (one.to_float()?, two.to_float()?);
        return Ok(Scalar::Float(match function {
            Function::Add => a + b,
            Function::Subtract => a - b,
            Function::Multiply => a * b,
            _ => a / b,
        }));
    }
    let (a, b) = (one.to_int()?, two.to_int()?);
    let (result, name) = match function {
        Function::Add => (a.checked_add(b), "add"),
        Function::Subtract => (a.checked_sub(b), "sub"),
        Function::Multiply => (a.checked_mul(b), "mul"),
        _ if b == 0 => return Err(EvaluationError::DivisionByZero),
        _ => (a.checked_div(b), "div"),
    };
    result.map(Scalar::Int).ok_or(EvaluationError::OutOfRange(name))
}

fn remainder(a: i64, b: i64) -> Evaluated {
    if b == 0 { Err(EvaluationError::DivisionByZero) } else { Ok(Scalar::Int(a.wrapping_rem(b))) }
}

fn compare(function: Function, one: Scalar, two: Scalar) -> Evaluated {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = if matches!(one, Scalar::Float(_)) || matches!(two, Scalar::Float(_)) {
        one.to_float()?.partial_cmp(&two.to_float()?)
    } else {
        Some(one.to_int()?.cmp(&two.to_int()?))
    };
    Ok(Scalar::Bool(match function {
        Function::Equal => order == Some(Equal),
        Function::NotEqual => order != Some(Equal),
        Function::LessOrEqual => order.is_some_and(|order| order != Greater),
        _ => order == Some(Less),
    }))
}

/// The greatest or least: a double when one of them is.
fn extreme(arguments: &[Scalar], better_float: fn(f64, f64) -> bool, better_int: fn(i64, i64) -> bool) -> Evaluated {
    let mut rest = arguments.iter();
    let Some(first) = rest.next() else { return Ok(Scalar::Null) };
    if arguments.iter().any(|argument| matches!(argument, Scalar::Float(_))) {
        let mut best = first.to_float()?;
        for argument in rest {
            let value = argument.to_float()?;
            best = if better_float(best, value) { best } else { value };
        }
        return Ok(Scalar::Float(best));
    }
    let mut best = first.to_int()?;
    for argument in rest {
        let value = argument.to_int()?;
        best = if better_int(best, value) { best } else { value };
    }
    Ok(Scalar::Int(best))
}

fn random(function: Function, one: Scalar, two: Scalar, three: Scalar, random: &mut Xoroshiro) -> Evaluated<i64> {
    let (low, high) = (one.to_int()?, two.to_int()?);
    if low > high {
        return Err(EvaluationError::EmptyRange);
    }
    if high.checked_sub(low).and_then(|width| width.checked_add(1)).is_none() {
        return Err(EvaluationError::WideRange);
    }
    if function == Function::Random {
        return Ok(random.uniform(low, high));
    }
    let parameter = three.to_float()?;
    match function {
        Function::RandomGaussian if parameter >= GAUSSIAN_MIN => Ok(random.gaussian(low, high, parameter)),
        Function::RandomGaussian => Err(EvaluationError::Gaussian(parameter)),
        Function::RandomZipfian if ZIPFIAN.contains(&parameter) => Ok(random.zipfian(low, high, parameter)),
        Function::RandomZipfian => Err(EvaluationError::Zipfian(parameter)),
        _ if parameter > 0.0 => Ok(random.exponential(low, high, parameter)),
        _ => Err(EvaluationError::Exponential(parameter)),
    }
}
