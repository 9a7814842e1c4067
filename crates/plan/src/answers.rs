//! The answer of a plan's figures to its question, and the circumstances that withhold it.

use std::ops::Range;

use plimsoll_core::Condition;
use plimsoll_core::study::{PlacedFindings, places_in};

use crate::document::{NodeKind, PlanNode, PlanReader, short};
use crate::keys::{ANSWER, WORTHLESS};
use crate::model::{Agreement, AnswerSentence, Figure, PhaseKind, Worthless};
use crate::nearest;
use crate::phases::PhaseDraft;

/// Figures of a plan, and the phases whose findings its sentences may have.
type Placed<'p> = (&'p [Figure], &'p [PhaseDraft]);

/// Places of a sentence that findings fill.
const FINDINGS: &str = "findings about a phase are {bound of PHASE} and {slow moments of PHASE}";

impl PlanReader<'_> {
    /// Reads the sentences of the answer, whose places name `placed`.
    pub(crate) fn answers(&self, node: &PlanNode<'_>, placed: Placed<'_>) -> Vec<AnswerSentence> {
        let tables = self.tables(node).unwrap_or_default();
        tables.iter().filter_map(|table| self.answer(table, placed)).collect()
    }

    fn answer(&self, table: &PlanNode<'_>, placed: Placed<'_>) -> Option<AnswerSentence> {
        let (figures, _) = placed;
        let section = self.section(table, "an answer", &[ANSWER])?;
        let say = self.required(&section, "say", "`say = \"It takes {load}.\"`")?;
        let say = self.sentence(&say, placed)?;
        let only_if = section.get("only_if").map(|node| self.condition(&node, figures));
        let agree = section.get("agree").map(|node| self.agreement(&node, &say, figures));
        let repeats = self.value(&section, "repeats", Self::count)?;
        Some(AnswerSentence { say, only_if: only_if.flatten(), agree: agree.flatten(), repeats })
    }

    /// Reads the circumstances that withhold the answer.
    pub(crate) fn worthless(
        &self,
        node: &PlanNode<'_>,
        placed: Placed<'_>,
        answers: &[AnswerSentence],
    ) -> Vec<Worthless> {
        let read = |table: &PlanNode<'_>| {
            let section = self.section(table, "a `worthless`", &[WORTHLESS])?;
            if answers.is_empty() {
                let help = "say what the figures come to: [[answer]] with `say`".to_owned();
                return self.refuse(section.span, "the plan has no `[[answer]]` to withhold", Some(help));
            }
            let say = self.required(&section, "say", "`say = \"The disk never waited: {load}.\"`");
            let condition = self.required(&section, "if", "`if = \"{load} < 1\"`");
            let (say, condition) = (self.sentence(&say?, placed), self.condition(&condition?, placed.0));
            Some(Worthless { say: say?, condition: condition? })
        };
        self.tables(node).unwrap_or_default().iter().filter_map(read).collect()
    }

    /// Reads a sentence, and checks its places.
    fn sentence(&self, node: &PlanNode<'_>, (figures, phases): Placed<'_>) -> Option<String> {
        let text = self.text(node)?;
        if places_in(text).count() != text.matches('{').count() {
            let help = "write the name of a figure in braces: {load}".to_owned();
            return self.refuse(node.span.clone(), "a `{` of this sentence has no `}`", Some(help));
        }
        for place in places_in(text) {
            let span = self.inside(node, text, place.at, place.figure.len());
            let findings = PlacedFindings::parse(place.figure).filter(|_| !place.is_published);
            match figures.iter().find(|figure| figure.name == place.figure) {
                None => match findings {
                    Some((_, phase)) => self.driven(span.end - phase.len()..span.end, phase, phases),
                    None if place.is_published => self.problem(span, unknown(place.figure), Some(known(figures))),
                    None => self.problem(span, unknown(place.figure), Some(format!("{}; {FINDINGS}", known(figures)))),
                },
                Some(figure) if place.is_published && figure.published.is_empty() => {
                    let what = format!("nothing was published of the figure `{}`", short(place.figure));
                    let help = "give it `published = [{ value = …, of = \"…\" }]`, or leave the place out".to_owned();
                    self.problem(span, what, Some(help));
                }
                Some(_) => {}
            }
        }
        Some(text.to_owned())
    }

    /// Reports the name at `span`, if no phase that drives is called `name`.
    fn driven(&self, span: Range<usize>, name: &str, phases: &[PhaseDraft]) {
        let driven = || phases.iter().filter(|phase| phase.kind == PhaseKind::Drive).map(|phase| &phase.name);
        if !driven().any(|known| known == name) {
            let what = format!("no phase that drives is named `{}`", short(name));
            self.problem(span, what, Some(nearest::help(name, "they are", driven())));
        }
    }

    /// Reads a condition on `figures`.
    fn condition(&self, node: &PlanNode<'_>, figures: &[Figure]) -> Option<String> {
        let text = self.text(node)?;
        let condition = match Condition::parse(text) {
            Ok(condition) => condition,
            Err(error) => {
                let span = self.inside(node, text, error.at, 1);
                let help = "write a comparison of a figure: `{load} > 5`, several with `and`".to_owned();
                return self.refuse(span, format!("in the condition: {error}"), Some(help));
            }
        };
        for (name, at) in condition.figures().filter(|(name, _)| figures.iter().all(|figure| figure.name != *name)) {
            let what = match PlacedFindings::parse(name) {
                Some(_) => format!("`{}` is no figure: conditions compare figures only", short(name)),
                None => unknown(name),
            };
            self.problem(self.inside(node, text, at, name.len()), what, Some(known(figures)));
        }
        Some(text.to_owned())
    }

    /// Reads the comparison of the first figure of `say` with its published values.
    fn agreement(&self, node: &PlanNode<'_>, say: &str, figures: &[Figure]) -> Option<Agreement> {
        let agree = match node.kind {
            NodeKind::Text("direction") => Agreement::Direction,
            NodeKind::Int(_) | NodeKind::Float(_) => Agreement::Factor(self.number(node)?),
            _ => return self.wrong_type(node, "\"direction\", or a factor such as 2"),
        };
        let name = places_in(say).find(|place| !place.is_published).map(|place| place.figure);
        let figure = figures.iter().find(|figure| Some(figure.name.as_str()) == name);
        let refused = match (agree, figure) {
            (Agreement::Factor(factor), _) if factor <= 1.0 => Some((
                format!("`agree` must be a factor above 1, not {}", self.written(node)),
                "2 accepts from half to twice the published value",
            )),
            (_, None) => Some((
                "`agree` has nothing to compare: `say` names no figure".to_owned(),
                "name one in braces, or leave `agree` out",
            )),
            (_, Some(figure)) if figure.published.is_empty() => Some((
                format!("`agree` has nothing to compare: nothing was published of `{}`", short(&figure.name)),
                "give the figure `published`, or leave `agree` out",
            )),
            (Agreement::Direction, Some(figure)) if figure.unit != "×" => Some((
                format!("a direction is one of ratios, and the unit of `{}` is not `×`", short(&figure.name)),
                "write the factor within which values agree: agree = 2",
            )),
            _ => None,
        };
        match refused {
            Some((what, help)) => self.refuse(node.span.clone(), what, Some(help.to_owned())),
            None => Some(agree),
        }
    }
}

fn unknown(name: &str) -> String {
    format!("there is no figure named `{}`", short(name))
}

fn known(figures: &[Figure]) -> String {
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    if names.is_empty() { "the plan has no [[figure]]".to_owned() } else { format!("there are: {}", names.join("; ")) }
}
