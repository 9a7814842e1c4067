//! Tests that the parser answers any text: with a plan, or with problems within the text that can be shown.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use plimsoll_core::Catalogue;
use plimsoll_plan::{Overrides, parse};

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue {
    stores: plimsoll_stores::kinds(),
    workloads: plimsoll_workload::all(),
    samplers: Vec::new(),
    labs: Vec::new(),
});

fuzz_target!(|text: &str| {
    match parse("fuzz", text, &CATALOGUE, &Overrides::default()) {
        Ok(plan) => assert!(!plan.trials.is_empty() && !plan.outline(&|_| None).is_empty()),
        Err(error) => {
            assert!(error.problems().iter().all(|problem| text.get(problem.span()).is_some()));
            assert!(!format!("{:?}", miette::Report::new(error)).is_empty());
        }
    }
});
