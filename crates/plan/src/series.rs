//! The series of trials: combination of lists, repeats, order, and start.

use plimsoll_core::random::SplitMix;
use plimsoll_core::study::timed_terms;

use crate::document::{NodeKind, PlanNode, PlanReader, Section};
use crate::keys::{KeyType, REPEATS, REPEATS_COUNT, SWEEP};
use crate::model::{AnswerSentence, Figure, RepeatsUntil, Start};

/// Parameters of the series of trials.
pub(crate) struct TrialSeries {
    /// Repeats of each point; with `until` the most of them.
    pub(crate) repeats: u32,
    pub(crate) until: Option<RepeatsUntil>,
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
        let (repeats, until) = self.value(root, "repeats", Self::repeats)?;
        let order = self.given(root, "order", |this, node, takes| Some(this.one_of(node, takes)? == "random"))?;
        // Drift during a series must not look like an effect of the swept keys.
        let random = order.unwrap_or(repeats > 1);
        let start = self.value(root, "start", Self::named)?;
        let mut one_at_a_time = Vec::new();
        for table in root.get("sweep").map_or(Some(Vec::new()), |node| self.tables(&node))? {
            one_at_a_time.extend(self.sweep(&table)?);
        }
        Some(TrialSeries { repeats, until, random, start, one_at_a_time })
    }

    /// Reads a number of repeats, or the table of conditions that decide it.
    fn repeats(&self, node: &PlanNode<'_>, _: &KeyType) -> Option<(u32, Option<RepeatsUntil>)> {
        let NodeKind::Table(_) = node.kind else {
            return Some((self.count(node, &REPEATS_COUNT)?, None));
        };
        let section = self.section(node, "`repeats`", &[REPEATS])?;
        let until = self.required(&section, "until", "`until = \"10%\"`");
        let until = until.and_then(|node| self.share(&node, &section.key("until").takes));
        let [least, most] = ["least", "most"].map(|key| self.value(&section, key, Self::count));
        let (least, most, until) = (least?, most?, until?);
        if least < most {
            return Some((most, Some(RepeatsUntil { least, width: until / 100.0 })));
        }
        let what = format!("`least` is {least} and `most` is {most}: there are no repeats to decide");
        let help = format!("write a larger `most`, or a number: `repeats = {least}`");
        self.refuse(section.span, what, Some(help))
    }

    /// Reports repeats whose number results decide, if the answer has no time or rate that could.
    pub(crate) fn repeats_are_decided(
        &self,
        root: &Section<'_>,
        series: &TrialSeries,
        figures: &[Figure],
        answers: &[AnswerSentence],
    ) {
        let Some(node) = root.get("repeats").filter(|_| series.until.is_some()) else { return };
        if timed_terms(figures, answers).is_empty() {
            let of = if answers.is_empty() { "the plan" } else { "the answer" };
            let what = format!("no figure of {of} is a time or rate that could decide the number of repeats");
            let help = "add a [[figure]] of one, or write a number: `repeats = 3`, on the command line --set repeats=3";
            self.problem(node.span, what, Some(help.to_owned()));
        }
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
