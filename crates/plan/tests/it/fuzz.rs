//! Any text gets an answer from the parser: a plan within its limits, or mistakes with locations in the text.
//! `PROPTEST_CASES=100000` runs more cases; `fuzz/` does so with coverage.

use plimsoll_plan::{Overrides, parse};
use proptest::prelude::*;

use crate::catalogue::catalogue;

const COUPONS: &str = include_str!("../../../../studies/coupons.toml");

/// Fragments that have a meaning in some plan.
const PIECES: &[&str] = &[
    "=",
    "\"",
    "'",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    ",",
    "\n",
    "#",
    ".",
    "0",
    "-1",
    "1e9",
    "nan",
    "true",
    "1979-05-27",
    "é",
    "\"\"\"",
    "\\u0041",
    "\"30s\"",
    "\"4MiB\"",
    "\"1000/s\"",
    "[1, 2, 3]",
    "[[phase]]\n",
    "[goals]\n",
    "[[figure]]\n",
    "[[answer]]\n",
    "say = \"{x} {published x}\"\n",
    "only_if = \"{x} > 1 and {x} = 2\"\n",
    "breaks = { index = \"own\" }\n",
    "do = \"drive\"\n",
    "do = \"check\"\n",
    "only = { index = [\"own\"] }\n",
    "mix = { read = 1 }\n",
    "loop = \"open\"\n",
    "rate = [\"1/s\", \"2/s\"]\n",
    "name = \"x\"\n",
    "stores = []\n",
    "\"postgres://a:b@c/\"",
    "load.seconds[index=own]",
    "((((",
    "99999999999999999999",
    "clients = [1, 2]\n",
    "{ store = \"sqlite\", cache = [\"1MiB\"] }",
    "\u{feff}",
    "\r\n",
    "\0",
];

fn answers(text: &str) {
    match parse("fuzz", text, &catalogue(), &Overrides::default()) {
        Ok(plan) => {
            assert!(!plan.trials.is_empty() && plan.trials.len() <= 10_000);
            assert!(plan.timed_s.is_finite());
            let labels: std::collections::BTreeSet<_> = plan.trials.iter().map(|trial| &trial.labels).collect();
            assert_eq!(labels.len(), plan.trials.len(), "trials are told apart by their labels");
            plan.outline(&|_| None);
        }
        Err(error) => {
            assert!(!error.problems().is_empty());
            for problem in error.problems() {
                let span = problem.span();
                assert!(span.start <= span.end && span.end <= text.len(), "{span:?} in {} bytes", text.len());
                assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end));
                assert!(!problem.what().is_empty());
            }
            // Rendering finds the span again.
            let shown = format!("{:?}", miette::Report::new(error));
            assert!(!shown.is_empty());
        }
    }
}

proptest! {
    #[test]
    fn mutated_plans_are_answered(
        edits in prop::collection::vec((0..COUPONS.len(), 0usize..40, 0..PIECES.len(), any::<bool>()), 1..6),
    ) {
        let mut text = COUPONS.to_owned();
        for (at, length, piece, insert) in edits {
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let end = (at + length).min(text.len());
            let end = (at..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(at);
            text.replace_range(at..end, if insert { PIECES[piece] } else { "" });
        }
        answers(&text);
    }

    #[test]
    fn values_of_any_kind_are_answered(line in 0usize..200, piece in 0..PIECES.len()) {
        // One `key = value` gets another value: valid TOML, hence deeper than the TOML parser.
        let mut lines: Vec<String> = COUPONS.lines().map(str::to_owned).collect();
        let count = lines.len();
        let line = &mut lines[line % count];
        if let Some((key, _)) = line.split_once('=') {
            *line = format!("{key}= {}", PIECES[piece].trim());
        }
        answers(&lines.join("\n"));
    }

    #[test]
    fn lines_in_any_order_are_answered(order in prop::collection::vec(0usize..200, 0..60)) {
        let lines: Vec<&str> = COUPONS.lines().filter(|line| !line.is_empty()).collect();
        let text: Vec<&str> = order.iter().map(|at| lines[at % lines.len()]).collect();
        answers(&text.join("\n"));
    }

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        answers(&text);
    }

    #[test]
    fn pieces_in_any_order_are_answered(order in prop::collection::vec(0..PIECES.len(), 0..30)) {
        answers(&order.iter().map(|at| PIECES[*at]).collect::<String>());
    }
}
