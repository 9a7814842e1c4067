//! Wake-ups of a worker of an open loop for its schedule.
//!
//! Alarms are set for the next few arrivals, each a timer of its own that is set once and left alone: an answer that
//! wakes the worker in between takes nothing back. What a timer costs is telling the processor of it, and the kernel
//! does that only for the earliest; so an alarm that is set while an earlier one stands costs next to nothing, and
//! when that one goes off the kernel turns to the next by itself.
//!
//! A timer goes off late: by what interrupting an idle processor takes here, which hardly varies. So alarms are set
//! earlier by a *lead*, which is learnt, and the rest is spent looking at the clock and at the sockets.

use crate::clock::Clock;
use crate::reactor::{ALARMS, Reactor};
use crate::worker::WorkerCore;

/// The lead is this share's quantile of the lateness of alarms that woke the worker.
const LEAD_SHARE: f64 = 0.25;
/// Longest lead that is learnt.
const LEAD_MAX_NS: f64 = 50_000.0;
/// Least that a lead moves by at a time.
const STEP_NS: f64 = 100.0;

/// The alarms of one worker.
#[derive(Debug)]
pub(crate) struct Alarms {
    /// Due time of each alarm; 0 for none.
    due_ns: [u64; ALARMS],
    /// Time at which each alarm fires.
    set_ns: [u64; ALARMS],
    /// The one that is set next.
    next: usize,
    /// The last arrival that was looked at.
    last_due_ns: u64,
    lead_ns: f64,
    /// The lead follows what is seen.
    learns: bool,
}

impl Alarms {
    /// Makes alarms with a lead of `lead_ns`, or one that is learnt.
    pub fn new(lead_ns: Option<u64>) -> Self {
        Self {
            due_ns: [0; ALARMS],
            set_ns: [0; ALARMS],
            next: 0,
            last_due_ns: 0,
            lead_ns: lead_ns.unwrap_or(0) as f64,
            learns: lead_ns.is_none(),
        }
    }

    /// Returns the time before a due operation at which an alarm fires, and from which the worker stays awake,
    /// nanoseconds.
    #[inline]
    pub fn lead_ns(&self) -> u64 {
        self.lead_ns as u64
    }

    /// Sets alarms for the arrivals after `now_ns`. True when one of them is for `due_ns`.
    #[inline]
    pub fn set(
        &mut self,
        now_ns: u64,
        due_ns: u64,
        core: &mut WorkerCore,
        clock: &Clock,
        reactor: &mut impl Reactor,
    ) -> bool {
        while self.due_ns[self.next] <= now_ns {
            let from_ns = now_ns.max(self.last_due_ns);
            let Some(at_ns) = core.awake_after(from_ns) else { break };
            self.last_due_ns = at_ns;
            // Who is awake for one arrival stays awake for the next when that is as near as this.
            if at_ns > due_ns && at_ns - from_ns <= self.lead_ns() {
                continue;
            }
            let set_ns = at_ns.saturating_sub(self.lead_ns());
            reactor.set_alarm(self.next, clock.timespec(set_ns));
            self.due_ns[self.next] = at_ns;
            self.set_ns[self.next] = set_ns;
            self.next = (self.next + 1) % ALARMS;
        }
        self.due_ns.contains(&due_ns)
    }

    /// `alarm` went off in a wait from `before_ns` to `after_ns`.
    #[inline]
    pub fn went_off(&mut self, alarm: usize, (before_ns, after_ns): (u64, u64)) {
        let set_ns = self.set_ns[alarm];
        if !self.learns || set_ns <= before_ns || set_ns > after_ns {
            return;
        }
        let late_ns = (after_ns - set_ns) as f64;
        let step_ns = STEP_NS.max(self.lead_ns / 32.0);
        let moved_ns = if late_ns < self.lead_ns { LEAD_SHARE - 1.0 } else { LEAD_SHARE } * step_ns;
        // The first one is all that is known; most are not much earlier.
        let lead_ns = if self.lead_ns == 0.0 { late_ns * 0.75 } else { self.lead_ns + moved_ns };
        self.lead_ns = lead_ns.clamp(0.0, LEAD_MAX_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_comes_to_what_three_of_four_alarms_are_later_by() {
        let mut alarms = Alarms::new(None);
        // 15 to 35 µs late, evenly and in no order.
        for round in 0..2_000_u64 {
            alarms.set_ns[0] = round * 200_000 + 1_000;
            let late_ns = 15_000 + round * 7_919 % 20_000;
            alarms.went_off(0, (round * 200_000, alarms.set_ns[0] + late_ns));
        }
        assert!((18_000..22_000).contains(&alarms.lead_ns()), "{}", alarms.lead_ns());
    }

    #[test]
    fn nothing_is_learnt_where_the_worker_was_awake_or_the_lead_is_given() {
        let mut alarms = Alarms::new(None);
        alarms.set_ns[1] = 5_000;
        alarms.went_off(1, (6_000, 90_000));
        assert_eq!(alarms.lead_ns(), 0, "it had gone off before the wait began");
        let mut given = Alarms::new(Some(7_000));
        given.set_ns[1] = 5_000;
        given.went_off(1, (1_000, 90_000));
        assert_eq!(given.lead_ns(), 7_000);
    }

    #[test]
    fn a_machine_that_stood_still_does_not_keep_the_worker_awake_for_long() {
        let mut alarms = Alarms::new(None);
        for round in 0..1_000_u64 {
            alarms.set_ns[0] = round * 100_000_000 + 1_000;
            alarms.went_off(0, (round * 100_000_000, alarms.set_ns[0] + 40_000_000));
        }
        assert!(alarms.lead_ns() <= 50_000, "{}", alarms.lead_ns());
    }
}
