//! The samplers' series, grouped into panels.
//!
//! One panel holds series of one sampler in one unit: of one subject (a disk's reads and writes), or, when every
//! subject has one series only, of all of them (each core). Series that were zero all the time are named and not
//! drawn.

use plimsoll_record::data::Run;

use crate::view::{Line, Panel};

/// Panels for everything that was sampled, and the names of what was zero all the time.
pub fn panels(run: &Run) -> (Vec<Panel>, Vec<String>) {
    let mut values: Vec<Vec<Option<f64>>> = vec![vec![None; run.samples.len()]; run.header.series.len()];
    for (at, sample) in run.samples.iter().enumerate() {
        for (series, value) in &sample.values {
            if let Some(slot) = values.get_mut(*series as usize).and_then(|line| line.get_mut(at)) {
                *slot = Some(*value);
            }
        }
    }
    let t_s: Vec<f64> = run.samples.iter().map(|sample| sample.at_ns as f64 / 1e9).collect();
    let mut panels: Vec<Panel> = Vec::new();
    let mut zero = Vec::new();
    for (series, values) in run.header.series.iter().zip(values) {
        let spec = &series.spec;
        let of = if spec.subject.is_empty() { String::new() } else { format!(" {}", spec.subject) };
        if values.iter().all(|value| value.is_none_or(|value| value == 0.0)) {
            // Nothing was read of it at all: not even a zero to tell of.
            if values.iter().any(Option::is_some) {
                zero.push(format!("{}{of}: {}", series.sampler, spec.name));
            }
            continue;
        }
        let alone = run
            .header
            .series
            .iter()
            .filter(|other| {
                other.sampler == series.sampler && other.spec.subject == spec.subject && other.spec.unit == spec.unit
            })
            .count()
            == 1
            && !spec.subject.is_empty();
        let (name, line) = if alone {
            (format!("{}: {}", series.sampler, spec.name), spec.subject.clone())
        } else {
            (format!("{}{of}", series.sampler), spec.name.clone())
        };
        let line = Line { name: line, values };
        match panels
            .iter_mut()
            .find(|panel| panel.name == name && panel.unit == spec.unit && panel.source == series.sampler)
        {
            Some(panel) => panel.lines.push(line),
            None => panels.push(Panel {
                name,
                unit: spec.unit.clone(),
                source: series.sampler.clone(),
                steps: false,
                primary: false,
                t_s: t_s.clone(),
                lines: vec![line],
            }),
        }
    }
    (panels, zero)
}
