//! Slices of a drive, as they are handed to the receivers of events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_core::sampler::{ANSWERS, WITNESS};
use plimsoll_core::{Series, SeriesKind, ServerAnswers, Slice};
use plimsoll_lab::OpenStore;
use plimsoll_plan::model;
use plimsoll_record::data::Sample;
use plimsoll_record::{Distribution, RecordError};

use crate::attached::ServersInUse;
use crate::error::TrialError;
use crate::lab_acts;
use crate::phase::RunContext;
use crate::sink::{Sinks, Told};

/// Hands on the slices of one phase, and ends the phase if the recording fails.
pub(crate) struct SliceRecorder<'a> {
    context: &'a RunContext<'a>,
    store: &'a OpenStore,
    trial: &'a model::PlannedTrial,
    phase: u32,
    is_measured: bool,
    /// True for a load, of which only throughput is recorded.
    is_load: bool,
    /// Error of the recording.
    pub(crate) failed: Option<TrialError>,
    /// Names of the servers that answered, by their numbers; none if all operations went to one.
    pub(crate) servers: Vec<String>,
    /// Receiver of the addresses of these servers.
    pub(crate) in_use: Arc<ServersInUse>,
}

impl<'a> SliceRecorder<'a> {
    /// Makes the recorder of the phase at this position of `trial`.
    pub(crate) fn new(
        context: &'a RunContext<'a>,
        (trial, phase): (&'a model::PlannedTrial, u32),
        store: &'a OpenStore,
        is_measured: bool,
        is_load: bool,
    ) -> Self {
        Self {
            context,
            store,
            trial,
            phase,
            is_measured,
            is_load,
            failed: None,
            servers: Vec::new(),
            in_use: Arc::default(),
        }
    }

    /// Hands a slice on. What is not recorded was not measured: then the phase ends at once.
    pub(crate) fn take(&mut self, slice: Slice) {
        let new = slice.servers.iter().skip(self.servers.len());
        self.in_use.add(new.clone().map(|server| &server.by));
        self.servers.extend(new.map(|server| self.store.server_name(&server.by)));
        if let Err(error) = self.hand_on(slice) {
            self.failed.get_or_insert(error);
            self.context.spec.stop.store(true, Ordering::SeqCst);
        }
    }

    fn hand_on(&self, mut slice: Slice) -> Result<(), TrialError> {
        let (sinks, ordinal, label) = (self.context.sinks, self.trial.ordinal, self.trial.store.label.as_str());
        if slice.preview {
            sinks.preview(&slice);
            return Ok(());
        }
        let late = slice.watched.as_mut().and_then(|watched| watched.lateness.take());
        if let Some(late) = late.filter(|_| self.is_measured) {
            lateness(sinks, slice.end_ns, Distribution::from(&late))?;
        }
        // A recording has the names of its servers, of those that the drive tells apart.
        slice.server_ticks = slice.server_ticks.take().filter(|_| !self.servers.is_empty());
        if let Some(ticks) = &mut slice.server_ticks {
            ticks.names = self.servers.iter().take(u64::BITS as usize).cloned().collect();
        }
        let servers = std::mem::take(&mut slice.servers).into_iter().filter(|_| self.is_measured && !self.is_load);
        let named = servers.map(|server| (format!("{label} {}", self.store.server_name(&server.by)), server));
        answered(sinks, &slice, named.collect())?;
        sinks.slice(ordinal, self.phase, slice, self.is_measured)?;
        lab_acts::tell(sinks, self.store, (ordinal, label), false)
    }
}

/// Records the delays of the witness's wake-ups in a slice that ended at `at_ns`.
fn lateness(sinks: &Sinks<'_>, at_ns: u64, late: Distribution) -> Result<(), RecordError> {
    let text = |text: &str| text.to_owned();
    let (source, name, unit) = (text(WITNESS), text("lateness"), text("ns"));
    let series = Series { source, subject: String::new(), name, unit, kind: SeriesKind::Distribution };
    let position = sinks.series(series)?;
    let distributions = vec![(position, late)];
    sinks.tell(Told::Sample(Sample { at_ns, distributions, ..Sample::default() }))
}

/// Records the answers of each of several servers in `slice`, by their names.
fn answered(sinks: &Sinks<'_>, slice: &Slice, servers: Vec<(String, ServerAnswers)>) -> Result<(), RecordError> {
    let mut sample = Sample { at_ns: slice.end_ns, ..Sample::default() };
    let seconds = slice.length_ns() as f64 / 1e9;
    for (subject, ServerAnswers { times, .. }) in servers {
        let series = |name: &str, unit: &str, kind: SeriesKind| {
            let (source, name, unit) = (ANSWERS.to_owned(), name.to_owned(), unit.to_owned());
            sinks.series(Series { source, subject: subject.clone(), name, unit, kind })
        };
        let count = times.as_ref().map_or(0, |times| times.len());
        // What came after the planned end belongs to no rate.
        if seconds > 0.0 && !slice.drain {
            sample.values.push((series("rate", "1/s", SeriesKind::Level)?, count as f64 / seconds));
        }
        let Some(times) = times.filter(|_| count > 0) else { continue };
        sample.values.push((series("mean_time", "ms", SeriesKind::Level)?, times.mean() / 1e6));
        let position = series("response_time", "ns", SeriesKind::Distribution)?;
        sample.distributions.push((position, Distribution::from(&times)));
    }
    if sample.values.is_empty() && sample.distributions.is_empty() {
        return Ok(());
    }
    sinks.tell(Told::Sample(sample))
}
