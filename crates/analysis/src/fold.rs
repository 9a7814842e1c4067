//! Fold of a run in progress. It receives events in order, returns the figures of each slice, and keeps the present
//! trial until its end for [`LineFold`](crate::line::LineFold) and [`AbFold`](crate::ab::AbFold).

use plimsoll_core::Slice;
use plimsoll_record::Distribution;
use plimsoll_record::data::{
    AnswerCheck, FaultSpan, LedgerCheck, Phase, PhaseEnd, PhaseHeader, Sample, Series, Trial, TrialHeader,
};

use crate::slices::{self, SliceRow};

/// Time before a trial of which readings are kept: what others did to the machine just before reaches into it.
const BEFORE_NS: u64 = 120_000_000_000;

/// State of a run so far. Of a trial it has the phases, the answers and the ledger; not its end time.
#[derive(Debug, Default)]
pub struct Fold {
    keeps: bool,
    trial: Option<Trial>,
    /// Length of the phase's first slice; 0 before it.
    usual_ns: u64,
    series: Vec<Series>,
    samples: Vec<Sample>,
}

impl Fold {
    /// Makes a fold without events. If `keeps` is true, it keeps the slices and readings of one trial.
    pub fn new(keeps: bool) -> Self {
        Fold { keeps, ..Fold::default() }
    }

    /// A trial begins; the one before is forgotten.
    pub fn begin_trial(&mut self, header: TrialHeader) {
        self.samples.retain(|sample| sample.at_ns + BEFORE_NS >= header.start_ns);
        self.trial = Some(Trial { header, ..Trial::default() });
    }

    /// A phase of the trial begins.
    pub fn begin_phase(&mut self, header: PhaseHeader) {
        self.usual_ns = 0;
        if let Some(trial) = &mut self.trial {
            trial.phases.push(Phase { header, ..Phase::default() });
        }
    }

    /// Ends the phase.
    pub fn end_phase(&mut self, end: PhaseEnd) {
        if let Some(phase) = self.phase() {
            phase.end = end;
        }
    }

    /// Takes a comparison of answers with the truth.
    pub fn answers(&mut self, check: AnswerCheck) {
        if let Some(trial) = &mut self.trial {
            trial.answers.push(check);
        }
    }

    /// The ledger's verdict.
    pub fn ledger(&mut self, check: LedgerCheck) {
        if let Some(trial) = &mut self.trial {
            trial.ledgers.push(check);
        }
    }

    /// Takes the newest state of a fault.
    pub fn fault(&mut self, span: FaultSpan) {
        let Some(trial) = &mut self.trial else { return };
        match trial.faults.iter_mut().find(|known| known.ordinal == span.ordinal) {
            Some(known) => *known = span,
            None => trial.faults.push(span),
        }
        trial.faults.sort_by_key(|span| span.ordinal);
    }

    /// Takes a slice of the phase that began last. Returns the row of all operation types together, and the row of each
    /// type; `None` before any phase.
    pub fn slice(&mut self, slice: Slice<Distribution>, measured: bool) -> Option<(SliceRow, Vec<SliceRow>)> {
        if self.usual_ns == 0 {
            self.usual_ns = slice.length_ns();
        }
        let trial = self.trial.as_ref()?;
        let rows = slices::of_slice(trial, trial.phases.last()?, &slice, self.usual_ns);
        if self.keeps && measured {
            self.phase()?.slices.push(slice);
        }
        Some(rows)
    }

    /// Returns the rows of the part so far of the first slice of the phase that began last, as [`Fold::slice`].
    pub fn preview(&self, slice: &Slice<Distribution>) -> Option<(SliceRow, Vec<SliceRow>)> {
        let trial = self.trial.as_ref()?;
        Some(slices::of_slice(trial, trial.phases.last()?, slice, slice.length_ns()))
    }

    /// A series, and the position by which samples name it. They come in the order of their positions; again, they change
    /// nothing.
    pub fn series(&mut self, position: u32, series: &Series) {
        if position as usize == self.series.len() {
            self.series.push(series.clone());
        }
    }

    /// Adds a sample. A value that is not a number is ignored.
    pub fn sample(&mut self, sample: &Sample) {
        if self.keeps {
            let mut sample = sample.clone();
            sample.values.retain(|(_, value)| !value.is_nan());
            let at = self.samples.partition_point(|known| known.at_ns <= sample.at_ns);
            self.samples.insert(at, sample);
        }
    }

    /// The trial that began last, with the readings since shortly before it and their series.
    pub fn trial(&self) -> Option<(&Trial, &[Sample], &[Series])> {
        Some((self.trial.as_ref()?, &self.samples, &self.series))
    }

    fn phase(&mut self) -> Option<&mut Phase> {
        self.trial.as_mut()?.phases.last_mut()
    }
}
