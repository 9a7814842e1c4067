//! Readings of the machine's samplers and of a store's counters: once a slice, each group on a separate thread, so that
//! a slow source delays neither slices nor other sources. Around faults there are fine readings besides, which change no
//! reading of a slice.

use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use plimsoll_analysis::number;
use plimsoll_core::sampler::{FINE_INTERVAL, STORE};
use plimsoll_core::{Probe, Reading, SampleValue, Sampler, StoreErrorKind};
use plimsoll_record::data::{EventClass, Level, Sample};
use plimsoll_record::{Distribution, RecordError};
use plimsoll_sample::Named;

use crate::error::{TrialError, io_error};
use crate::sink::{Sinks, Told};

/// Turns what is read into what is recorded.
#[derive(Clone, Copy)]
pub struct ReadingRecorder<'a> {
    /// Receivers of events.
    pub sinks: &'a Sinks<'a>,
    /// Name of the store that is read; empty for the machine.
    pub label: &'a str,
    /// Time between two readings.
    pub slice: Duration,
}

/// Last readings of a source, each with its series' position in the recording.
#[derive(Default)]
struct Round {
    at_ns: u64,
    readings: Vec<(Reading, u32)>,
}

/// Fine readings of a group of sources.
struct FineRounds {
    /// Time of the next ones.
    next_ns: u64,
    rounds: Vec<Round>,
    /// Fine readings since the last slice, which the recorder gets together.
    samples: Vec<Sample>,
}

impl FineRounds {
    const INTERVAL_NS: u64 = FINE_INTERVAL.as_nanos() as u64;
    /// Times between two readings that make a rate. Of readings around different faults there is none.
    const ELAPSED_NS: RangeInclusive<u64> = Self::INTERVAL_NS / 4..=20 * Self::INTERVAL_NS;
}

impl ReadingRecorder<'_> {
    /// Starts a thread for each of `groups`, which follows it.
    ///
    /// # Errors
    /// A thread cannot be started. Those that were started end.
    pub fn follow_each<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        groups: Vec<Named<'scope>>,
    ) -> Result<Following<'scope>, TrialError>
    where
        Self: 'scope,
    {
        let mut following = Following { stops: Vec::new(), threads: Vec::new() };
        for group in groups {
            let (stop, stopped) = channel();
            let is_of_store = group.iter().any(|(name, _)| *name == STORE);
            let thread = std::thread::Builder::new()
                .name(if is_of_store { "counters" } else { "sampler" }.to_owned())
                .spawn_scoped(scope, move || self.follow(group, &stopped))
                .map_err(|error| io_error("a sampling thread", &error))?;
            following.stops.push(stop);
            following.threads.push(thread);
        }
        Ok(following)
    }

    /// Reads `sources` every slice until `stopped` is, and once more then, unless they were silent. Reports how long
    /// readings took if their times are uncertain by more than half a slice.
    pub fn follow(&self, sources: Named<'_>, stopped: &Receiver<()>) {
        let names = sources.iter().map(|(name, _)| self.subject(name)).collect::<Vec<_>>().join(", ");
        let longest_ns = self.follow_until(sources, stopped);
        if u128::from(longest_ns) * 2 > self.slice.as_nanos() {
            let text = format!(
                "readings of {names} took up to {}, and are of some moment in that time before theirs",
                number::nanoseconds(longest_ns)
            );
            // A recording that cannot take it says so itself.
            let _ = self.sinks.event(None, Level::Info, EventClass::Sampler, &names, text);
        }
    }

    /// Follows `sources` until `stopped` is. Returns the longest time of a reading, in nanoseconds.
    fn follow_until(&self, mut sources: Named<'_>, stopped: &Receiver<()>) -> u64 {
        let clock = &self.sinks.clock;
        let slice_ns = self.slice.as_nanos().max(1) as u64;
        // Hardly any time makes no rate.
        let elapsed_ns = slice_ns.div_ceil(4)..=u64::MAX;
        let new_rounds = || sources.iter().map(|_| Round::default()).collect::<Vec<Round>>();
        let (mut rounds, mut next_ns) = (new_rounds(), clock.now_ns());
        let mut fine = FineRounds { next_ns, rounds: new_rounds(), samples: Vec::new() };
        let (mut is_last, mut longest_ns) = (false, 0);
        loop {
            let begun_ns = clock.now_ns();
            let read: Vec<Vec<Reading>> = sources.iter_mut().map(|(_, source)| source.sample()).collect();
            let is_answered = read.iter().any(|readings| !readings.is_empty());
            if is_answered {
                longest_ns = clock.now_ns().saturating_sub(begun_ns).max(longest_ns);
            }
            let Ok(sample) = self.sample_of(&sources, read, &mut rounds, &elapsed_ns) else { return longest_ns };
            let is_empty = sample.values.is_empty() && sample.distributions.is_empty();
            // A recording that cannot take it says so at the next phase.
            let has_failed = !is_empty && self.sinks.tell(Told::Sample(sample)).is_err();
            if is_last || has_failed {
                return longest_ns;
            }
            // Ticks stand on the grid of the beginning; what was missed is not made up for.
            let now_ns = clock.now_ns();
            next_ns += slice_ns;
            if next_ns <= now_ns {
                next_ns = now_ns + slice_ns;
            }
            let waited = self.wait(&mut sources, &mut fine, next_ns, stopped);
            let samples = std::mem::take(&mut fine.samples);
            if !samples.is_empty() && self.sinks.recorder.fine_samples(samples).is_err() {
                return longest_ns;
            }
            match waited {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) if !is_answered => return longest_ns,
                Ok(()) | Err(RecvTimeoutError::Disconnected) => is_last = true,
            }
        }
    }

    /// Waits until `next_ns`, or until `stopped` is, and makes the fine readings that are due meanwhile.
    fn wait(
        &self,
        sources: &mut Named<'_>,
        fine: &mut FineRounds,
        next_ns: u64,
        stopped: &Receiver<()>,
    ) -> Result<(), RecvTimeoutError> {
        let (clock, times) = (&self.sinks.clock, &self.sinks.fine);
        let may_come = times.may_come() && self.slice > 2 * FINE_INTERVAL;
        loop {
            let until_ns = if may_come { next_ns.min(fine.next_ns) } else { next_ns };
            let waited = stopped.recv_timeout(Duration::from_nanos(until_ns.saturating_sub(clock.now_ns())));
            let now_ns = clock.now_ns();
            if waited != Err(RecvTimeoutError::Timeout) || until_ns == next_ns || now_ns >= next_ns {
                return waited;
            }
            fine.next_ns = now_ns + FineRounds::INTERVAL_NS;
            if times.contains(now_ns) {
                let read: Vec<Vec<Reading>> = sources.iter_mut().map(|(_, source)| source.fine()).collect();
                let sample = self.sample_of(sources, read, &mut fine.rounds, &FineRounds::ELAPSED_NS);
                // A recording that cannot take a new series says so at the next slice.
                fine.samples.extend(sample.ok().filter(|sample| !sample.values.is_empty()));
            }
        }
    }

    /// Returns the sample of this moment from what was `read` of each source, after its round before. A time in
    /// `elapsed_ns` since then makes a rate.
    fn sample_of(
        &self,
        sources: &Named<'_>,
        read: Vec<Vec<Reading>>,
        rounds: &mut [Round],
        elapsed_ns: &RangeInclusive<u64>,
    ) -> Result<Sample, RecordError> {
        let mut sample = Sample { at_ns: self.sinks.clock.now_ns(), ..Sample::default() };
        for (((name, _), readings), round) in sources.iter().zip(read).zip(rounds) {
            if !readings.is_empty() {
                self.take(name, readings, (round, elapsed_ns), &mut sample)?;
            }
        }
        Ok(sample)
    }

    /// Adds to `sample` what `readings` say after those of the round before, and keeps them for the next.
    fn take(
        &self,
        source: &str,
        readings: Vec<Reading>,
        (round, makes_rate): (&mut Round, &RangeInclusive<u64>),
        sample: &mut Sample,
    ) -> Result<(), RecordError> {
        let elapsed_ns = sample.at_ns.saturating_sub(round.at_ns);
        let elapsed_s = if makes_rate.contains(&elapsed_ns) { elapsed_ns as f64 / 1e9 } else { 0.0 };
        let before = std::mem::replace(round, Round { at_ns: sample.at_ns, readings: Vec::new() }).readings;
        for reading in readings {
            // Most come in the same order each time.
            let same = before.get(round.readings.len()).filter(|(one, _)| one.is_of(&reading));
            let earlier = same.or_else(|| before.iter().find(|(one, _)| one.is_of(&reading)));
            let position = match earlier {
                Some((_, position)) => *position,
                None => self.sinks.series(reading.series(source, &self.subject(&reading.subject)))?,
            };
            if let SampleValue::Distribution(times) = &reading.found {
                sample.distributions.push((position, Distribution::from(&**times)));
            }
            let value = reading.since(earlier.map(|(one, _)| (one, elapsed_s)));
            sample.values.extend(value.map(|value| (position, value)));
            round.readings.push((reading, position));
        }
        Ok(())
    }

    /// Returns the subject of a reading: `redis node 1`, `vda`.
    fn subject(&self, part: &str) -> String {
        let words = [self.label, part].into_iter().filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Threads that follow groups of sources.
pub struct Following<'scope> {
    stops: Vec<Sender<()>>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl Following<'_> {
    /// Ends the threads after a last reading, and waits for them.
    pub fn end(self) {
        drop(self.stops);
        // A sampler that panicked has already said so on stderr.
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Counters of a store, as a source. A failure to read them is reported once.
pub struct StoreCounters<'a> {
    /// Receiver of the readings, with the name of the store.
    pub watch: ReadingRecorder<'a>,
    /// Probe that reads the counters.
    pub probe: &'a mut Probe,
    /// Position of the trial.
    pub trial: u32,
    /// True without counters of other servers beside these. One of several servers may be away.
    pub is_alone: bool,
    /// True after the failure was reported.
    pub has_failed: bool,
}

impl Sampler for StoreCounters<'_> {
    fn sample(&mut self) -> Vec<Reading> {
        let ReadingRecorder { sinks, label, .. } = self.watch;
        let read = (self.probe)().inspect_err(|error| {
            let is_away = error.kind == StoreErrorKind::Unreachable && !self.is_alone;
            if !is_away && !std::mem::replace(&mut self.has_failed, true) {
                let text = format!("the counters of {label} could not be read: {error}");
                // A recording that cannot take it says so itself.
                let _ = sinks.event(Some(self.trial), Level::Info, EventClass::Sampler, label, text);
            }
        });
        read.unwrap_or_default()
    }
}
