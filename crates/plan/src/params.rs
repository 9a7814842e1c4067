//! Parameters of stores and workloads, checked against their specifications.

use plimsoll_core::{ParamSpec, ParamType, ParamValue, Params};

use crate::document::{PlanNode, PlanReader};
use crate::keys::KeyType;
use crate::quantity::{self, Dimension};

/// Longest duration of a parameter, in nanoseconds: a year.
const DURATION_NS_MAX: u64 = 366 * 86_400 * 1_000_000_000;

impl PlanReader<'_> {
    /// Reads the value of the parameter `spec`.
    pub(crate) fn param(&self, spec: &ParamSpec, node: &PlanNode<'_>) -> Option<ParamValue> {
        match spec.param_type {
            ParamType::Int { min, max } => self.int(node, min..=max).map(ParamValue::Int),
            ParamType::Bytes => {
                let bytes = self.quantity(node, Dimension::Size)?;
                if bytes < 2f64.powi(62) {
                    return Some(ParamValue::Int(bytes.round() as i64));
                }
                self.refuse(node.span.clone(), format!("`{}` is more than any machine has", node.key), None)
            }
            ParamType::Duration => {
                self.duration(node, 0..=DURATION_NS_MAX).and_then(|ns| i64::try_from(ns).ok()).map(ParamValue::Int)
            }
            ParamType::Bool => self.bool(node, &KeyType::Flag).map(ParamValue::Bool),
            ParamType::OneOf(words) => {
                let what = format!("value for `{}`:", spec.name);
                self.word(node, &what, words).map(|word| ParamValue::Text(word.to_owned()))
            }
            ParamType::Text => self.text(node).map(|text| ParamValue::Text(text.to_owned())),
        }
    }
}

/// Returns all parameters with their defaults. A parameter whose default is no value of its type is left out.
pub fn defaults(specs: &[ParamSpec]) -> Params {
    Params(specs.iter().filter_map(|spec| Some((spec.name.to_owned(), default(spec)?))).collect())
}

/// Returns all parameters with their defaults, except for those that a preset sets to `others`, which are given as
/// written.
pub fn defaults_but(specs: &[ParamSpec], others: &[(&'static str, &'static str)]) -> Params {
    let mut params = defaults(specs);
    for (name, written) in others {
        let changed = specs.iter().find(|spec| spec.name == *name);
        let value = changed.and_then(|spec| default(&ParamSpec { default: written, ..*spec }));
        params.0.extend(value.map(|value| ((*name).to_owned(), value)));
    }
    params
}

fn default(spec: &ParamSpec) -> Option<ParamValue> {
    let quantity =
        |dimension| quantity::parse(spec.default, dimension).ok().map(|value| ParamValue::Int(value.round() as i64));
    match spec.param_type {
        ParamType::Int { .. } => spec.default.replace('_', "").parse().ok().map(ParamValue::Int),
        ParamType::Bytes => quantity(Dimension::Size),
        ParamType::Duration => quantity(Dimension::Time),
        ParamType::Bool => spec.default.parse().ok().map(ParamValue::Bool),
        ParamType::OneOf(_) | ParamType::Text => Some(ParamValue::Text(spec.default.to_owned())),
    }
}
