//! Values that may be lists, and the grid of their combinations.

use std::ops::Range;

use crate::document::{PlanNode, PlanReader, short};
use crate::{formulas, nearest};

/// Most trials of a plan.
pub(crate) const TRIALS_MAX: usize = 10_000;

/// A value for each point of the sweep.
#[derive(Debug, Clone)]
pub(crate) struct Choices<T> {
    values: Vec<(T, Range<usize>)>,
    /// Dimension of the sweep that selects the value; `None` for a single value.
    dimension: Option<usize>,
}

/// The keys that are swept.
#[derive(Debug, Default)]
pub(crate) struct Dimensions(pub(crate) Vec<Dimension>);

/// A swept key.
#[derive(Debug)]
pub(crate) struct Dimension {
    /// Name of the key.
    pub(crate) key: String,
    /// Name of the phase that contains the key, `workload`, or empty.
    pub(crate) scope: String,
    /// The values as written.
    pub(crate) texts: Vec<String>,
    /// Location of the list.
    pub(crate) span: Range<usize>,
}

impl Dimensions {
    /// Returns all labels.
    pub(crate) fn labels(&self) -> Vec<String> {
        (0..self.0.len()).map(|position| self.label(position)).collect()
    }

    /// Label of dimension `position`: its key, preceded by its scope if the key alone is ambiguous or has another
    /// meaning in formulas.
    pub(crate) fn label(&self, position: usize) -> String {
        let Some(dimension) = self.0.get(position) else {
            return String::new();
        };
        let same = self.0.iter().filter(|other| other.key == dimension.key).count();
        if (same > 1 || ["store", formulas::OP].contains(&dimension.key.as_str())) && !dimension.scope.is_empty() {
            format!("{}.{}", dimension.scope, dimension.key)
        } else {
            dimension.key.clone()
        }
    }
}

/// A point of the grid, and its coordinates that have mattered.
pub(crate) struct Point<'p> {
    pub(crate) indices: &'p [usize],
    pub(crate) used: Vec<bool>,
}

impl Point<'_> {
    /// Returns the coordinate of `dimension`, and marks it as one that matters.
    pub(crate) fn index(&mut self, dimension: usize) -> usize {
        if let Some(used) = self.used.get_mut(dimension) {
            *used = true;
        }
        self.indices.get(dimension).copied().unwrap_or_default()
    }
}

impl<T> Choices<T> {
    /// A single value.
    pub(crate) fn fixed(value: T, span: Range<usize>) -> Choices<T> {
        Choices { values: vec![(value, span)], dimension: None }
    }

    /// The value at a point of the sweep, with its location.
    pub(crate) fn spanned(&self, point: &mut Point<'_>) -> &(T, Range<usize>) {
        let index = self.dimension.map_or(0, |dimension| point.index(dimension));
        &self.values[index.min(self.values.len() - 1)]
    }

    /// The value at a point of the sweep.
    pub(crate) fn at(&self, point: &mut Point<'_>) -> T
    where
        T: Clone,
    {
        self.spanned(point).0.clone()
    }

    /// Iterates over all values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter().map(|(value, _)| value)
    }

    /// Location of the first value.
    pub(crate) fn span(&self) -> Range<usize> {
        self.values.first().map_or(0..0, |(_, span)| span.clone())
    }
}

impl PlanReader<'_> {
    /// Reads the name of a swept key, and returns its position.
    pub(crate) fn swept_key(&self, node: &PlanNode<'_>) -> Option<usize> {
        let name = self.text(node)?;
        let labels = self.dimensions.borrow().labels();
        labels.iter().position(|label| label == name).or_else(|| {
            let what = format!("`{}` is not swept: its value is not a list", short(name));
            self.refuse(node.span.clone(), what, Some(nearest::help(name, "swept keys", &labels)))
        })
    }

    /// Reads a single value, or a list of values that is swept.
    pub(crate) fn choices<'a, T>(
        &self,
        scope: &str,
        node: &PlanNode<'a>,
        read: impl Fn(&PlanNode<'a>) -> Option<T>,
    ) -> Option<Choices<T>> {
        let (elements, texts) = self.listed(node)?;
        let values = self.all(&elements, |element| Some((read(element)?, element.span.clone())))?;
        let dimension = node.elements().map(|_| {
            let mut dimensions = self.dimensions.borrow_mut();
            dimensions.0.push(Dimension {
                key: node.key.to_owned(),
                scope: scope.to_owned(),
                texts,
                span: node.span.clone(),
            });
            dimensions.0.len() - 1
        });
        Some(Choices { values, dimension })
    }

    /// The elements of a list, or the value itself, with their texts as written. Reports empty lists and duplicates.
    pub(crate) fn listed<'a>(&self, node: &PlanNode<'a>) -> Option<(Vec<PlanNode<'a>>, Vec<String>)> {
        let elements = node.elements().unwrap_or_else(|| vec![node.clone()]);
        if elements.is_empty() {
            return self.refuse(
                node.span.clone(),
                format!("`{}` is an empty list: there is nothing to choose from", node.key),
                None,
            );
        }
        if elements.len() > TRIALS_MAX {
            let what = format!("`{}` is a list of {} values; at most {TRIALS_MAX}", node.key, elements.len());
            return self.refuse(node.span.clone(), what, None);
        }
        let mut texts: Vec<String> = Vec::new();
        for element in &elements {
            let text = self.written(element);
            if texts.contains(&text) {
                let what = format!("`{text}` is listed twice in `{}`", node.key);
                return self.refuse(element.span.clone(), what, None);
            }
            texts.push(text);
        }
        Some((elements, texts))
    }
}
