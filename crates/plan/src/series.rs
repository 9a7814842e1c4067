//! The series of trials: combination of lists, repeats, order, and start.

use plimsoll_core::random::SplitMix;

use crate::document::{PlanNode, PlanReader, Section};
use crate::keys::SWEEP;
use crate::model::Start;

/// Parameters of the series of trials.
pub(crate) struct TrialSeries {
    pub(crate) repeats: u32,
    /// Random order; otherwise the order of the plan.
    pub(crate) random: bool,
    pub(crate) start: Start,
    /// Groups of dimensions of which only one at a time leaves its first value.
    pub(crate) one_at_a_time: Vec<Vec<usize>>,
}

impl TrialSeries {
    /// True if the sweep contains this point.
    pub(crate) fn has(&self, indices: &[usize]) -> bool {
        let away = |dimension: &&usize| indices.get(**dimension).is_some_and(|index| *index > 0);
        self.one_at_a_time.iter().all(|group| group.iter().filter(away).count() <= 1)
    }
}

impl PlanReader<'_> {
    /// Reads the series. Called when all swept keys are known.
    pub(crate) fn series(&self, root: &Section<'_>) -> Option<TrialSeries> {
        let repeats = self.value(root, "repeats", Self::count)?;
        let order = self.given(root, "order", |this, node, takes| Some(this.one_of(node, takes)? == "random"))?;
        // Drift during a series must not look like an effect of the swept keys.
        let random = order.unwrap_or(repeats > 1);
        let start = self.value(root, "start", Self::named)?;
        let mut one_at_a_time = Vec::new();
        for table in root.get("sweep").map_or(Some(Vec::new()), |node| self.tables(&node))? {
            one_at_a_time.extend(self.sweep(&table)?);
        }
        Some(TrialSeries { repeats, random, start, one_at_a_time })
    }

    /// Reads the dimensions of a `[[sweep]]`, if they are swept one at a time.
    fn sweep(&self, table: &PlanNode<'_>) -> Option<Option<Vec<usize>>> {
        let section = self.section(table, "[[sweep]]", &[SWEEP])?;
        let mode = self.required(&section, "mode", "`mode = \"one-at-a-time\"`")?;
        let mode = self.one_of(&mode, &section.key("mode").takes)?;
        let keys = match section.get("keys") {
            None => (0..self.dimensions.borrow().0.len()).collect(),
            Some(node) => {
                let mut keys = Vec::new();
                for element in node.elements().unwrap_or_else(|| vec![node.clone()]) {
                    keys.push(self.swept_key(&element)?);
                }
                keys
            }
        };
        Some((mode == "one-at-a-time").then_some(keys))
    }
}

/// Shuffles `items` with `seed`: Fisher and Yates' shuffle over SplitMix64.
pub(crate) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut random = SplitMix::new(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, (random.bits() % (last as u64 + 1)) as usize);
    }
}
