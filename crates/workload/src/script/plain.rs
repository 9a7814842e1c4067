//! Scripts that need no steps: some `\set`s that cannot fail, then one statement. They become one plain operation,
//! whose parameters are worked out where the operation is chosen.

use plimsoll_core::{Value, ValueBuf};

use super::expression::{Expression, Function, Scope};
use super::program::{Command, Initial, Program};
use super::random::{GAUSSIAN_MIN, Xoroshiro, ZIPFIAN};
use super::scalar::{Evaluated, EvaluationError, Scalar};
use super::statement::StatementText;
use super::variables::to_value;

/// Most variables that such a script sets.
const LOCALS_MAX: usize = 16;

/// A script as one plain operation.
#[derive(Debug)]
pub(super) struct Plain {
    /// The local at each position, and what it becomes.
    sets: Vec<(usize, Becomes)>,
    params: Vec<Source>,
    /// The variables that it sets; their values stand at the same positions.
    locals: Vec<usize>,
    /// The variables that say which operation this is.
    of_operation: Vec<(usize, Initial)>,
}

/// Replacement of a local.
#[derive(Debug)]
enum Becomes {
    /// `random(low, high)` of two constants, by far the most frequent.
    Uniform(i64, i64),
    Worth(Expression),
}

impl Becomes {
    fn of(value: &Expression) -> Self {
        if let Expression::Call(Function::Random, bounds) = value
            && let [Expression::Constant(Scalar::Int(low)), Expression::Constant(Scalar::Int(high))] = bounds.as_slice()
        {
            return Becomes::Uniform(*low, *high);
        }
        Becomes::Worth(value.clone())
    }
}

/// Source of a parameter.
#[derive(Debug)]
enum Source {
    /// The local at this position.
    Local(usize),
    /// Value that is known before the script runs.
    Known(Initial),
}

impl Plain {
    /// `program` as a plain operation, if it can be one. `carried` says which variables other operations read before
    /// they set them.
    pub(super) fn of(program: &Program, initial: &[Initial], carried: &impl Fn(usize) -> bool) -> Option<Plain> {
        let mut locals: Vec<usize> = Vec::new();
        let mut bounds: Vec<Bounds> = Vec::new();
        let mut sets = Vec::new();
        let (last, before) = program.commands.split_last()?;
        for command in before {
            let Command::Set(slot, value) = command else { return None };
            let variable = |slot: usize| match locals.iter().position(|local| *local == slot) {
                Some(at) => bounds.get(at).copied(),
                None => bounds_of_initial(initial.get(slot)?),
            };
            let found = Bounds::of(value, &variable)?;
            if carried(*slot) {
                return None;
            }
            let at = locals.iter().position(|local| local == slot).unwrap_or(locals.len());
            if at == locals.len() {
                locals.push(*slot);
                bounds.push(found);
            }
            bounds[at] = found;
            sets.push((at, Becomes::of(value)));
        }
        let Command::Sql(statement) = last else { return None };
        let statement = program.statements.get(*statement)?;
        let (StatementText::Prepared(_, slots) | StatementText::Command(_, slots) | StatementText::Request(_, slots)) =
            &statement.text
        else {
            return None;
        };
        if statement.take.is_some() || statement.joined || locals.len() > LOCALS_MAX {
            return None;
        }
        let mut params = Vec::new();
        for slot in slots {
            params.push(match locals.iter().position(|local| local == slot) {
                Some(at) => Source::Local(at),
                None => match initial.get(*slot)? {
                    // A script's own variable that it has not set yet.
                    Initial::Unset => return None,
                    _ if carried(*slot) => return None,
                    known => Source::Known(known.clone()),
                },
            });
        }
        let is_of_operation =
            |initial: &Initial| matches!(initial, Initial::Client | Initial::Cycle | Initial::Sequence);
        let of_operation =
            initial.iter().cloned().enumerate().filter(|(_, initial)| is_of_operation(initial)).collect();
        Some(Plain { sets, params, locals, of_operation })
    }

    /// Writes the operation's parameters.
    #[inline]
    pub(super) fn write(&self, place: OperationNumber, random: Xoroshiro, params: &mut ValueBuf) {
        let mut scope = Locals { plain: self, values: [Scalar::Null; LOCALS_MAX], place, random };
        for (at, becomes) in &self.sets {
            scope.values[*at] = match becomes {
                Becomes::Uniform(low, high) => Scalar::Int(scope.random.uniform(*low, *high)),
                // It cannot fail: see `Bounds`.
                Becomes::Worth(value) => value.evaluate(&mut scope).unwrap_or(Scalar::Null),
            };
        }
        for source in &self.params {
            params.push(match source {
                Source::Local(at) => to_value(scope.values[*at]),
                Source::Known(Initial::Value(value)) => to_value(*value),
                Source::Known(Initial::Text(text)) => Value::Text(text),
                Source::Known(of_operation) => place.value(of_operation).unwrap_or(Value::Null),
            });
        }
    }
}

/// Identification of an operation: its client, the number of clients, and its number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OperationNumber {
    pub(super) client: u32,
    pub(super) clients: u32,
    pub(super) cycle: u64,
}

impl OperationNumber {
    /// The value of a variable that says which operation this is.
    #[inline]
    pub(super) fn value(self, initial: &Initial) -> Option<Value<'_>> {
        match initial {
            Initial::Client => Some(Value::Int(i64::from(self.client))),
            Initial::Cycle => Some(Value::Int(self.cycle as i64)),
            Initial::Sequence => Some(Value::Int(self.sequence() as i64)),
            Initial::Column(column) => Some(column.value(self)),
            _ => None,
        }
    }

    /// A number that no other operation has.
    #[inline]
    pub(super) fn sequence(self) -> u64 {
        self.cycle.wrapping_mul(u64::from(self.clients)).wrapping_add(u64::from(self.client))
    }
}

struct Locals<'p> {
    plain: &'p Plain,
    values: [Scalar; LOCALS_MAX],
    place: OperationNumber,
    random: Xoroshiro,
}

impl Scope for Locals<'_> {
    #[inline]
    fn variable(&self, slot: usize) -> Evaluated {
        if let Some(at) = self.plain.locals.iter().position(|local| *local == slot) {
            return self.values.get(at).copied().ok_or(EvaluationError::Undefined(slot));
        }
        // The only variables that are neither set by the script nor known before.
        let known = self.plain.of_operation.iter().find(|(known, _)| *known == slot);
        match known.and_then(|(_, initial)| self.place.value(initial)) {
            Some(Value::Int(value)) => Ok(Scalar::Int(value)),
            _ => Err(EvaluationError::Undefined(slot)),
        }
    }

    fn random(&mut self) -> &mut Xoroshiro {
        &mut self.random
    }
}

fn bounds_of_initial(initial: &Initial) -> Option<Bounds> {
    match initial {
        Initial::Client => Some(Bounds::Int(0, i64::from(u32::MAX))),
        // No run is as long as that.
        Initial::Cycle => Some(Bounds::Int(0, 1 << 40)),
        Initial::Sequence => Some(Bounds::Int(0, 1 << 57)),
        // Known before the script runs, and so worked out already.
        Initial::Value(_) | Initial::Text(_) | Initial::Unset => None,
        // It may be any text.
        Initial::Column(_) => None,
    }
}

/// Bounds of the value of an expression that cannot fail.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bounds {
    Bool,
    /// Range from the first to the second.
    Int(i64, i64),
    Float,
}

impl Bounds {
    /// The bounds of `value`, if working it out cannot be an error.
    fn of(value: &Expression, variable: &impl Fn(usize) -> Option<Bounds>) -> Option<Bounds> {
        match value {
            Expression::Constant(Scalar::Int(value)) => Some(Bounds::Int(*value, *value)),
            Expression::Constant(Scalar::Float(_)) => Some(Bounds::Float),
            Expression::Constant(Scalar::Bool(_)) => Some(Bounds::Bool),
            Expression::Constant(Scalar::Null) => None,
            Expression::Variable(slot) => variable(*slot),
            Expression::Call(function, arguments) => {
                let bounds: Option<Vec<Bounds>> =
                    arguments.iter().map(|argument| Bounds::of(argument, variable)).collect();
                Bounds::of_call(*function, arguments, &bounds?)
            }
            Expression::Logic(_, sides) => {
                let bools = sides.iter().all(|side| Bounds::of(side, variable) == Some(Bounds::Bool));
                bools.then_some(Bounds::Bool)
            }
            Expression::Case(branches, otherwise) => {
                let mut all = Bounds::of(otherwise, variable)?;
                for [condition, result] in branches {
                    Bounds::of(condition, variable)?;
                    all = all.or(Bounds::of(result, variable)?)?;
                }
                Some(all)
            }
        }
    }

    fn or(self, other: Bounds) -> Option<Bounds> {
        match (self, other) {
            (Bounds::Int(a, b), Bounds::Int(c, d)) => Some(Bounds::Int(a.min(c), b.max(d))),
            (a, b) if a == b => Some(a),
            _ => None,
        }
    }

    fn of_call(function: Function, arguments: &[Expression], bounds: &[Bounds]) -> Option<Bounds> {
        const ANY: Bounds = Bounds::Int(i64::MIN, i64::MAX);
        let all_int = bounds.iter().all(|bounds| matches!(bounds, Bounds::Int(..)));
        let all_numbers = bounds.iter().all(|bounds| *bounds != Bounds::Bool);
        match (function, bounds) {
            (Function::Random, [Bounds::Int(low, a), Bounds::Int(b, high)]) => random_bounds(*low, *a, *b, *high),
            (
                Function::RandomExponential | Function::RandomGaussian | Function::RandomZipfian,
                [Bounds::Int(low, a), Bounds::Int(b, high), _],
            ) => {
                let Some(Expression::Constant(parameter)) = arguments.get(2) else { return None };
                let parameter = parameter.to_float().ok()?;
                let good = match function {
                    Function::RandomGaussian => parameter >= GAUSSIAN_MIN,
                    Function::RandomZipfian => ZIPFIAN.contains(&parameter),
                    _ => parameter > 0.0,
                };
                random_bounds(*low, *a, *b, *high).filter(|_| good)
            }
            (Function::Add | Function::Subtract | Function::Multiply, [Bounds::Int(a, b), Bounds::Int(c, d)]) => {
                arithmetic_bounds(function, [*a, *b], [*c, *d])
            }
            (Function::Divide, [Bounds::Int(a, b), Bounds::Int(1.., _)]) => Some(Bounds::Int(*a.min(&0), *b.max(&0))),
            (Function::Modulo, [Bounds::Int(a, _), Bounds::Int(1.., most)]) => {
                Some(Bounds::Int(if *a < 0 { 1 - most } else { 0 }, most - 1))
            }
            (Function::Add | Function::Subtract | Function::Multiply | Function::Divide, _) => {
                // Of two integers only some operations are safe, and they are above.
                (all_numbers && !all_int).then_some(Bounds::Float)
            }
            (Function::Equal | Function::NotEqual | Function::LessOrEqual | Function::Less, _) => {
                all_numbers.then_some(Bounds::Bool)
            }
            (
                Function::BitAnd
                | Function::BitOr
                | Function::BitXor
                | Function::ShiftLeft
                | Function::ShiftRight
                | Function::HashFnv1a
                | Function::HashMurmur2,
                _,
            ) => all_int.then_some(ANY),
            (Function::Permute, [_, Bounds::Int(1.., most), _]) => all_int.then_some(Bounds::Int(0, most - 1)),
            (Function::Not, [Bounds::Bool]) => Some(Bounds::Bool),
            (Function::Abs, [Bounds::Int(a, b)]) if *a > i64::MIN => Some(Bounds::Int(0, a.abs().max(b.abs()))),
            (Function::Debug, [one]) => Some(*one),
            (Function::Int, [Bounds::Int(a, b)]) => Some(Bounds::Int(*a, *b)),
            (Function::Double | Function::Exp | Function::Ln | Function::Sqrt | Function::Power, _) => {
                all_numbers.then_some(Bounds::Float)
            }
            (Function::Least | Function::Greatest, [first, rest @ ..]) if all_int => {
                rest.iter().try_fold(*first, |all, bounds| all.or(*bounds))
            }
            _ => None,
        }
    }
}

fn random_bounds(low: i64, low_most: i64, high_least: i64, high: i64) -> Option<Bounds> {
    let fits = high.checked_sub(low).and_then(|width| width.checked_add(1)).is_some();
    (low_most <= high_least && fits).then_some(Bounds::Int(low, high))
}

fn arithmetic_bounds(function: Function, one: [i64; 2], two: [i64; 2]) -> Option<Bounds> {
    let corners = one.iter().flat_map(|a| two.iter().map(move |b| (i128::from(*a), i128::from(*b))));
    let results = corners.map(|(a, b)| match function {
        Function::Add => a + b,
        Function::Subtract => a - b,
        _ => a * b,
    });
    let (least, most) = results.fold((i128::MAX, i128::MIN), |(least, most), x| (least.min(x), most.max(x)));
    Some(Bounds::Int(i64::try_from(least).ok()?, i64::try_from(most).ok()?))
}
