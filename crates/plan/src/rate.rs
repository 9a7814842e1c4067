//! Rates: constant, or changing over a phase.

use crate::document::{NodeKind, PlanNode, PlanReader, Section};
use crate::keys::RATES;
use crate::model::Rate;
use crate::quantity::TIME_NS_MAX;

/// Most recorded arrivals.
const ARRIVALS_MAX: usize = 10_000_000;

impl PlanReader<'_> {
    /// Reads a rate or a table that describes a changing rate.
    pub(crate) fn rate_shape(&self, node: &PlanNode<'_>) -> Option<Rate> {
        let NodeKind::Table(_) = node.kind else {
            return self.rate(node).map(Rate::Constant);
        };
        let section = self.table(node, "a rate")?;
        let named = RATES.iter().find_map(|keys| Some((section.get(keys.first()?.name)?, std::slice::from_ref(keys))));
        let Some((node, keys)) = named else {
            let help = "write \"1000/s\", or a table such as { sine = \"1000/s\", amplitude = \"500/s\", period = \"60s\" }; `stages` is a key of its own";
            let shapes: Vec<&str> = RATES.iter().filter_map(|keys| keys.first()).map(|key| key.name).collect();
            let what = format!("a rate that changes is one of {}", shapes.join(", "));
            return self.refuse(section.span, what, Some(help.to_owned()));
        };
        let section = Section { keys, ..section };
        self.known_keys(&section);
        let rate = |key, example| self.rate(&self.required(&section, key, example)?);
        let time = |key, example| self.whole(&self.required(&section, key, example)?, &section.key(key).takes);
        match node.key {
            "sine" => {
                let (mean, amplitude) = (self.rate(&node)?, rate("amplitude", "`amplitude = \"500/s\"`")?);
                if amplitude > mean {
                    let what = "the amplitude is more than the mean: the rate would fall below 0/s";
                    return self.refuse(section.get("amplitude")?.span, what, None);
                }
                Some(Rate::Sine { mean, amplitude, period_ns: time("period", "`period = \"30s\"`")? })
            }
            _ => self.recorded(&node),
        }
    }

    /// Reads times in seconds, one per line; lines that begin with `#` are comments.
    fn recorded(&self, node: &PlanNode<'_>) -> Option<Rate> {
        let path = self.text(node)?;
        let text = self.file("arrivals", node, path)?;
        let mut times = Vec::new();
        for (line, written) in text.lines().enumerate() {
            let written = written.trim();
            if written.is_empty() || written.starts_with('#') {
                continue;
            }
            let time_ns = written.parse::<f64>().ok().map(|seconds| (seconds * 1e9).round());
            let last = times.last().copied().unwrap_or(0);
            match time_ns.filter(|ns| (0.0..=TIME_NS_MAX as f64).contains(ns)).map(|ns| ns as u64) {
                Some(ns) if ns >= last && times.len() < ARRIVALS_MAX => times.push(ns),
                found => {
                    let why = match found {
                        None => format!("`{}` is not a time in seconds", crate::document::short(written)),
                        Some(_) if times.len() >= ARRIVALS_MAX => format!("there are more than {ARRIVALS_MAX}"),
                        Some(_) => "it is earlier than the line above".to_owned(),
                    };
                    let what = format!("{path}, line {}: {why}", line + 1);
                    let help =
                        "write one time per line, in seconds from the phase's start, in ascending order".to_owned();
                    return self.refuse(node.span.clone(), what, Some(help));
                }
            }
        }
        if times.is_empty() {
            return self.refuse(node.span.clone(), format!("{path} holds no arrival"), None);
        }
        Some(Rate::Recorded(times))
    }
}
