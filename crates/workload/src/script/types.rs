//! Types of variables, as far as they are known before a script runs.

use plimsoll_core::ValueType;

use super::expression::{Expression, Function};
use super::program::{Command, Initial, Programs};
use super::scalar::Scalar;

/// The variables' types, by place; `None` where it depends.
pub(super) fn types(programs: &Programs) -> Vec<Option<ValueType>> {
    let mut types: Vec<Option<ValueType>> = programs
        .initial
        .iter()
        .map(|initial| match initial {
            Initial::Unset => None,
            Initial::Client | Initial::Cycle | Initial::Sequence => Some(ValueType::Int),
            Initial::Text(_) => Some(ValueType::Text),
            Initial::Column(column) => Some(column.value_type()),
            Initial::Value(value) => of_scalar(*value),
        })
        .collect();
    let mut seen: Vec<bool> = programs.initial.iter().map(|initial| *initial != Initial::Unset).collect();
    for program in &programs.scripts {
        for command in &program.commands {
            let Command::Set(slot, value) = command else { continue };
            let found = of(value, &types);
            if !std::mem::replace(&mut seen[*slot], true) {
                types[*slot] = found;
            } else if types[*slot] != found {
                types[*slot] = None;
            }
        }
        // What an answer gives may be anything.
        for slot in program.statements.iter().flat_map(|statement| &statement.take).flat_map(|take| &take.slots) {
            seen[*slot] = true;
            types[*slot] = None;
        }
    }
    types
}

fn of_scalar(value: Scalar) -> Option<ValueType> {
    match value {
        Scalar::Null => None,
        Scalar::Bool(_) => Some(ValueType::Bool),
        Scalar::Int(_) => Some(ValueType::Int),
        Scalar::Float(_) => Some(ValueType::Float),
    }
}

fn of(value: &Expression, types: &[Option<ValueType>]) -> Option<ValueType> {
    match value {
        Expression::Constant(value) => of_scalar(*value),
        Expression::Variable(slot) => types.get(*slot).copied().flatten(),
        Expression::Logic(..) => Some(ValueType::Bool),
        Expression::Case(branches, otherwise) => {
            let first = of(otherwise, types)?;
            branches.iter().all(|[_, result]| of(result, types) == Some(first)).then_some(first)
        }
        Expression::Call(function, arguments) => {
            let all: Option<Vec<ValueType>> = arguments.iter().map(|argument| of(argument, types)).collect();
            match function {
                Function::Add
                | Function::Subtract
                | Function::Multiply
                | Function::Divide
                | Function::Abs
                | Function::Debug
                | Function::Greatest
                | Function::Least => {
                    let float = all?.contains(&ValueType::Float);
                    Some(if float { ValueType::Float } else { ValueType::Int })
                }
                Function::Double | Function::Exp | Function::Ln | Function::Pi | Function::Power | Function::Sqrt => {
                    Some(ValueType::Float)
                }
                Function::Equal
                | Function::NotEqual
                | Function::LessOrEqual
                | Function::Less
                | Function::Not
                | Function::Is => Some(ValueType::Bool),
                _ => Some(ValueType::Int),
            }
        }
    }
}
