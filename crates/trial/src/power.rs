//! The disk loses power: while a phase is driven, or between two; and the store comes back on what is left, or does not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use plimsoll_analysis::number;
use plimsoll_core::{CutMoment, NodeChoice, StoreError, StoreErrorKind, Survivors, WriteKind};
use plimsoll_drive::Clock;
use plimsoll_lab::{OpenStore, PowerSwitch};
use plimsoll_record::data::{About, DID_NOT_START, LedgerCheck, Level, PhaseEnd, PhaseResult, ResultName};
use plimsoll_verify::{Ledger, ReadBack};

use crate::check;
use crate::error::TrialError;
use crate::phase::TrialRun;
use crate::sink::Told;

/// Time that the cut is waited for between two checks for the end of the phase.
const LOOK: Duration = Duration::from_millis(20);
/// Number of consecutive failures to answer that are permitted to a disk.
const SILENT_MAX: u32 = 5;
/// Time limit for operations that were in flight when power was cut.
const AT_WORK: Duration = Duration::from_secs(20);

/// A disk whose power is to go while a phase is driven.
pub(crate) struct Power<'a> {
    switch: PowerSwitch,
    /// Latest moment, from the arming on: a store whose sessions have been closed may have made everything durable.
    length: Option<Duration>,
    /// Ends the phase.
    stop: Arc<AtomicBool>,
    /// Set when the user wants an end.
    user_stop: &'a AtomicBool,
}

impl<'a> Power<'a> {
    /// Arms the cut.
    ///
    /// # Errors
    /// `Usage` if the store has no simulated disk.
    pub(crate) fn armed(
        store: &OpenStore,
        (cut, node): (CutMoment, NodeChoice),
        length: Option<Duration>,
        user_stop: &'a AtomicBool,
    ) -> Result<Self, TrialError> {
        let switch = store.power_switch().ok_or_else(|| TrialError::usage("this store's disk cannot lose power"))?;
        switch.arm(cut, node)?;
        Ok(Self { switch, length, stop: Arc::default(), user_stop })
    }

    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Waits for the cut until the phase has `ended` or is about to. Then cuts the power if that is still to do, kills the
    /// servers and ends the phase.
    pub(crate) fn follow(&self, ended: &Receiver<()>) {
        let (mut silent, began) = (0, Instant::now());
        while let Err(TryRecvError::Empty) = ended.try_recv() {
            match self.switch.wait_for_cut(LOOK) {
                Ok(None) if self.length.is_some_and(|length| began.elapsed() + LOOK >= length) => break,
                Ok(None) => silent = 0,
                Ok(Some(_)) => break,
                Err(_) if silent < SILENT_MAX => {
                    silent += 1;
                    std::thread::sleep(LOOK);
                }
                // A disk that does not answer is gone, too.
                Err(_) => break,
            }
            if self.user_stop.load(Ordering::SeqCst) {
                self.stop.store(true, Ordering::SeqCst);
                return;
            }
        }
        if let Err(TryRecvError::Empty) = ended.try_recv() {
            // One that does not die is met again when the power is back.
            let _ = self.switch.kill_servers();
            self.stop.store(true, Ordering::SeqCst);
        }
    }

    /// Makes `ledger` judge the notes, without acknowledging any that came after the cut.
    pub(crate) fn drain(&self, ledger: &mut Ledger, phase: u16, clock: &Clock) {
        let cut = || Ok::<_, StoreError>(self.switch.cut()?.map(|cut| clock.of_monotonic(cut.at_monotonic_ns)));
        // What cannot be told now is judged later: when the power is back, the moment is known.
        let _ = ledger.drain_until_cut(phase, cut);
    }
}

/// Waits until those have noted everything that were at work when the power went: an operation that waits for the disk is left
/// alone when a phase is ended, and its outcome is the ledger's business all the same.
pub(crate) fn drained(ledger: &mut Ledger, drain: &impl Fn(&mut Ledger)) {
    let until = Instant::now() + AT_WORK;
    drain(ledger);
    while ledger.at_work() > 0 && Instant::now() < until {
        std::thread::sleep(LOOK);
        drain(ledger);
    }
}

impl TrialRun<'_, '_> {
    /// Returns true if the disk has lost power. Asks each time, because a cut comes with any request to the disk.
    pub(crate) fn has_lost_power(&self) -> Result<bool, TrialError> {
        Ok(match self.store.power_switch() {
            Some(switch) => switch.cut()?.is_some(),
            None => false,
        })
    }

    /// Takes the power, if it has not gone yet, and gives it back. That the store does not come back is an answer, and no
    /// failure of the run.
    pub(crate) fn power(&mut self, ordinal: u32, survivors: Survivors, end: &mut PhaseEnd) -> Result<(), TrialError> {
        let seed = self.trial.seed ^ (u64::from(self.trial.repeat) << 32);
        let cycled = self.store.power_cycle(survivors.with_seed(seed));
        // Without a disk there is nothing to ask.
        if cycled.is_err() {
            self.servers_state.die();
        }
        let on = cycled?;
        self.disk_faults_must_be_met()?;
        // A disk that was without power works again.
        self.directed.on_disk.clear();
        let at_ns = self.context.sinks.clock.of_monotonic(on.cut.at_monotonic_ns);
        if let Some(ledger) = &mut self.ledger {
            ledger.power_was_cut(at_ns);
            ledger.drain();
        }
        end.push(ResultName::Seconds, on.recovery.as_secs_f64());
        end.push(ResultName::CutSeconds, at_ns.saturating_sub(self.driven_from_ns) as f64 / 1e9);
        end.push(ResultName::Writes, on.cut.writes as f64);
        end.push(ResultName::Flushes, on.cut.flushes as f64);
        end.push(ResultName::AtRiskWrites, on.cut.at_risk_writes as f64);
        end.push(ResultName::AtRiskBytes, on.cut.at_risk_bytes as f64);
        self.push_kinds(on.at_risk.as_ref(), end);
        end.push(ResultName::CutApart, on.cut.apart_ns as f64 / 1e9);
        self.was_cut = true;
        match on.came_back {
            Ok(()) => self.server_is_new(),
            Err(_) if self.context.is_stopped() => Ok(()),
            Err(error) if !is_its_own(&error) => {
                self.servers_state.die();
                Err(error)
            }
            Err(error) => {
                let text = self.did_not_start("the power cut", &error.to_string(), end, About::Integrity)?;
                let Some(mut check) = self.not_read(ordinal, &text) else { return Err(error) };
                check.wrong.insert(DID_NOT_START.to_owned(), 1);
                Ok(self.context.sinks.tell(Told::Ledger(check))?)
            }
        }
    }

    /// Records the numbers of writes at risk by kind, if these are known, and the settings of the trial that protect data
    /// pages.
    fn push_kinds(&self, at_risk: Option<&BTreeMap<WriteKind, u64>>, end: &mut PhaseEnd) {
        let guard = self.store.spec().page_guard;
        let mut push = |name, subject: String, value| end.results.push(PhaseResult { name, subject, value, n: 1 });
        for setting in guard.map_or_else(Vec::new, |guard| (guard.named)(self.trial.store.params.text(guard.param))) {
            push(ResultName::PageGuard, setting, 1.0);
        }
        let Some(at_risk) = at_risk else { return };
        for kind in WriteKind::ALL {
            let writes = at_risk.get(&kind).copied().unwrap_or(0);
            // That there was no page is known, too.
            if writes > 0 || kind == WriteKind::DataPages && guard.is_some() {
                push(ResultName::AtRiskKind, kind.name().to_owned(), writes as f64);
            }
        }
    }

    /// Records that the store did not start, and that no more operations are to be sent. Returns the sentence about it.
    pub(crate) fn did_not_start(
        &mut self,
        after: &str,
        why: &str,
        end: &mut PhaseEnd,
        about: About,
    ) -> Result<String, TrialError> {
        self.servers_state.die();
        let text = format!("it did not start again after {after}: {why}");
        self.event(Level::Error, text.clone())?;
        end.remarks.push((about, text.clone()));
        Ok(text)
    }

    /// Returns the ledger's verdict on a store that cannot be read because of `why`: nothing is known of its writes,
    /// and so none is lost. `None` without a ledger.
    pub(crate) fn not_read(&mut self, ordinal: u32, why: &str) -> Option<LedgerCheck> {
        let unread = ReadBack::unreadable(Arc::clone(&self.workload), why);
        let mut check = check::verdict(self, ordinal, |_| unread)?;
        check.sentence = format!("{}.", number::capital(why));
        Some(check)
    }
}

/// Returns true if a store that does not come back fails because of its remaining data, instead of a lack of this
/// machine.
fn is_its_own(error: &StoreError) -> bool {
    use StoreErrorKind::{Broken, Corrupt, Store, Unreachable};
    matches!(error.kind, Broken | Corrupt | Store | Unreachable)
}
