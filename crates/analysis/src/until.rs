//! Repeats whose number results decide: points of the sweep at which a time or rate of the answer varies too much.
//!
//! A point goes by its own trials alone, so a continued run decides as one that was never stopped.

use std::collections::BTreeMap;

use plimsoll_core::Term;
use plimsoll_core::study::timed_terms;
use plimsoll_record::data::{AnswerSentence, Figure, RepeatsUntil, Trial};

use crate::figure;
use crate::name::REPEAT;
use crate::phase::PhaseFacts;
use crate::stat;

/// Labels of a point of the sweep, without the repeat.
type Point = BTreeMap<String, String>;

/// Repeats so far, of all points.
#[derive(Debug)]
pub struct RepeatsFold {
    until: RepeatsUntil,
    /// Times and rates of the answer.
    terms: Vec<Term>,
    /// Values of the terms in each trial of a point; `None` for a term that is of other trials.
    points: BTreeMap<Point, Vec<Vec<Option<f64>>>>,
}

impl RepeatsFold {
    /// Makes a fold without trials, of a plan with these figures and sentences of an answer.
    pub fn new(until: RepeatsUntil, figures: &[Figure], answers: &[AnswerSentence]) -> Self {
        RepeatsFold { until, terms: timed_terms(figures, answers), points: BTreeMap::new() }
    }

    /// Takes a trial that ended.
    pub fn take(&mut self, trial: &Trial) {
        let facts = PhaseFacts::of(trial);
        let values = self.terms.iter().map(|term| figure::value_in_trial(term, trial, &facts)).collect();
        self.points.entry(point(&trial.header.labels)).or_default().push(values);
    }

    /// Returns true if the trial with these labels is needed: its point has fewer trials than any must have, or the
    /// interval of a time or rate is too wide there. If a trial lacks a value, further ones do not help.
    pub fn needs(&self, labels: &BTreeMap<String, String>) -> bool {
        let Some(trials) = self.points.get(&point(labels)) else { return true };
        let is_wide = |at: usize| {
            let values: Option<Vec<f64>> = trials.iter().map(|values| *values.get(at)?).collect();
            values.is_some_and(|values| is_wider(&values, self.until.width))
        };
        trials.len() < self.until.least as usize || (0..self.terms.len()).any(is_wide)
    }
}

/// Returns the point of a trial with these labels.
fn point(labels: &BTreeMap<String, String>) -> Point {
    labels.iter().filter(|(name, _)| *name != REPEAT).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns true if the interval of the median of `values` is wider than this share of it.
fn is_wider(values: &[f64], width: f64) -> bool {
    let interval = figure::interval_of(values).zip(stat::median(values));
    interval.is_some_and(|((low, high), median)| high - low > width * median.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_the_range_of_few_values_and_leaves_outliers_of_many_out() {
        assert!(!is_wider(&[1.0, 1.05, 1.1], 0.1));
        assert!(is_wider(&[1.0, 1.05, 1.16], 0.1));
        let mut values = vec![1.0; 8];
        values.push(3.0);
        assert!(is_wider(&values[3..], 0.1), "six");
        assert!(!is_wider(&values, 0.1), "nine");
        assert!(!is_wider(&[0.0; 3], 0.1) && is_wider(&[0.0, 0.0, 1.0], 0.1));
    }
}
