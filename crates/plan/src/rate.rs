//! Rates: a number, or how it changes over a phase.

use crate::document::{Kind, Node, Reading, Section};
use crate::keys::RATES;
use crate::model::Rate;
use crate::quantity::TIME_NS_MAX;

/// Most steps of a rate, and most recorded arrivals.
const STEPS_MAX: usize = 10_000;
const ARRIVALS_MAX: usize = 10_000_000;
impl Reading<'_> {
    /// A rate, and how it changes.
    pub(crate) fn rate_shape(&self, node: &Node<'_>) -> Option<Rate> {
        let Kind::Table(_) = node.kind else {
            return self.rate(node).map(Rate::Constant);
        };
        let section = self.table(node, "a rate")?;
        let named = RATES.iter().find_map(|keys| Some((section.get(keys.first()?.name)?, std::slice::from_ref(keys))));
        let Some((node, keys)) = named else {
            let help = "write \"1000/s\", or a table such as { ramp = [\"100/s\", \"5000/s\"] }";
            let shapes: Vec<&str> = RATES.iter().filter_map(|keys| keys.first()).map(|key| key.name).collect();
            let what = format!("a rate that changes is one of {}", shapes.join(", "));
            return self.refuse(section.span, what, Some(help.to_owned()));
        };
        let section = Section { keys, ..section };
        self.known_keys(&section);
        match node.key {
            "ramp" => self.ramp(&node),
            "steps" => self.steps(&section, &node),
            "spike" => self.spike(&section, &node),
            "sine" => self.sine(&section, &node),
            _ => self.recorded(&node),
        }
    }

    fn ramp(&self, node: &Node<'_>) -> Option<Rate> {
        match self.rates(node)?[..] {
            [from, to] => Some(Rate::Ramp(from, to)),
            _ => self.refuse(node.span.clone(), "a ramp has two rates: from and to", None),
        }
    }

    fn steps(&self, section: &Section<'_>, node: &Node<'_>) -> Option<Rate> {
        let rates = self.rates(node)?;
        if rates.is_empty() || rates.len() > STEPS_MAX {
            return self.refuse(node.span.clone(), format!("a rate has 1 to {STEPS_MAX} steps"), None);
        }
        let each = self.required(section, "each", "`each = \"10s\"`")?;
        Some(Rate::Steps { rates, each_ns: self.whole(&each, &section.key("each").takes)? })
    }

    fn spike(&self, section: &Section<'_>, node: &Node<'_>) -> Option<Rate> {
        let peak = self.rate(node);
        let base = self.required(section, "base", "`base = \"1000/s\"`").and_then(|node| self.rate(&node));
        let time = |key, example| self.whole(&self.required(section, key, example)?, &section.key(key).takes);
        let (at, length) = (time("at", "`at = \"10s\"`"), time("for", "`for = \"2s\"`"));
        Some(Rate::Spike { base: base?, peak: peak?, at_ns: at?, for_ns: length? })
    }

    fn sine(&self, section: &Section<'_>, node: &Node<'_>) -> Option<Rate> {
        let mean = self.rate(node)?;
        let amplitude_at = self.required(section, "amplitude", "`amplitude = \"500/s\"`")?;
        let amplitude = self.rate(&amplitude_at)?;
        if amplitude > mean {
            return self.refuse(
                amplitude_at.span,
                "the amplitude is more than the mean: the rate would fall below 0/s",
                None,
            );
        }
        let period = self.required(section, "period", "`period = \"30s\"`")?;
        Some(Rate::Sine { mean, amplitude, period_ns: self.whole(&period, &section.key("period").takes)? })
    }

    /// Times in seconds, one to a line; lines that begin with `#` are remarks.
    fn recorded(&self, node: &Node<'_>) -> Option<Rate> {
        let path = self.text(node)?;
        let text = match (self.files)(path) {
            Ok(text) => text,
            Err(error) => {
                return self.refuse(node.span.clone(), format!("the arrivals `{path}` cannot be read: {error}"), None);
            }
        };
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
                        Some(_) => "it lies before the line above".to_owned(),
                    };
                    let what = format!("{path}, line {}: {why}", line + 1);
                    let help = "one time in seconds from the phase's start to a line, in order".to_owned();
                    return self.refuse(node.span.clone(), what, Some(help));
                }
            }
        }
        if times.is_empty() {
            return self.refuse(node.span.clone(), format!("{path} holds no arrival"), None);
        }
        Some(Rate::Recorded(times))
    }

    fn rates(&self, node: &Node<'_>) -> Option<Vec<f64>> {
        let Some(elements) = node.elements() else {
            return self.wrong_type(node, "a list of rates");
        };
        self.all(&elements, |element| self.rate(element))
    }
}
