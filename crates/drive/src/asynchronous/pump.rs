//! The pump: what is due by the clock, for all sessions of a worker.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use super::{OPENING_MAX, Work, Worker, give_way};
use crate::worker::{CHECK_NS, Next};

impl Worker {
    pub(super) async fn pump(self: Rc<Self>) {
        self.arm(0);
        let open_at_once = self.seats.len().min(OPENING_MAX);
        if self.starting.get() {
            (0..open_at_once).for_each(|_| self.open_next());
        }
        while self.panicked.get().is_none() {
            let now_ns = self.now_ns();
            if self.starting.get() {
                let must_end = self.core.borrow().must_end();
                if self.not_ready.get() == 0 || must_end || self.first_error.borrow().is_some() {
                    return;
                }
            }
            let mut wake_at_ns = self.next_tick_ns.get();
            if !self.starting.get() {
                let Some(due_ns) = self.dispatch(now_ns).await else { return };
                wake_at_ns = wake_at_ns.min(due_ns);
            }
            self.arm(wake_at_ns);
            self.wait().await;
            let now_ns = self.now_ns();
            if now_ns >= self.next_tick_ns.get() {
                let ticks = (now_ns - self.next_tick_ns.get()) / CHECK_NS + 1;
                self.next_tick_ns.set(self.next_tick_ns.get() + ticks * CHECK_NS);
                self.keep_time(now_ns);
            }
        }
    }

    /// Distributes all due work. Returns when the next operation or step is; `None` when the phase is over.
    async fn dispatch(&self, mut now_ns: u64) -> Option<u64> {
        loop {
            let next = {
                let mut core = self.core.borrow_mut();
                self.catch_up(&mut core);
                core.check_if_due(now_ns);
                while let Some(lane) = core.awake(now_ns) {
                    self.give(lane, Work::Steps);
                }
                if core.has_ended() && core.in_flight() == 0 {
                    return None;
                }
                let next = core.next(now_ns);
                if let Next::Send { lane, kind, .. } = next {
                    self.give_operation(&core, lane, kind);
                }
                next
            };
            let due_ns = match next {
                // It is sent before another one is asked for: that one's time is not this one's.
                Next::Send { .. } => {
                    give_way().await;
                    now_ns = self.now_ns();
                    continue;
                }
                Next::Steps { lane } => {
                    self.give(lane, Work::Steps);
                    give_way().await;
                    now_ns = self.now_ns();
                    continue;
                }
                Next::SleepUntil(at_ns) => at_ns,
                Next::Wait | Next::Stop => u64::MAX,
            };
            let (due_ns, spin_ns) = {
                let core = self.core.borrow();
                if core.has_ended() && core.in_flight() == 0 {
                    return None;
                }
                // Before what is due it stays awake, and sees to the others.
                (due_ns.min(core.awake_at_ns().unwrap_or(u64::MAX)), core.spin_ns())
            };
            if due_ns.saturating_sub(now_ns) > spin_ns {
                return Some(due_ns - spin_ns);
            }
            give_way().await;
            now_ns = self.now_ns();
        }
    }

    /// Slices, ends and timeouts.
    fn keep_time(&self, now_ns: u64) {
        let mut core = self.core.borrow_mut();
        if !self.starting.get() {
            core.check_if_due(now_ns);
            if self.slice.get() != core.slice() {
                self.slice.set(core.slice());
                self.ticker.borrow_mut().anchor_again();
            }
        }
        let drains = core.has_ended() && core.has_steps() || core.is_cancelled();
        if now_ns < self.deadline_ns.get() && self.not_ready.get() == 0 && !drains {
            return;
        }
        let mut next_ns = u64::MAX;
        for (lane, seat) in self.seats.iter().enumerate() {
            let due_ns = core.deadline_ns(lane).unwrap_or(u64::MAX).min(seat.alarm_ns.get());
            if now_ns >= due_ns {
                seat.ring();
            } else {
                next_ns = next_ns.min(due_ns);
            }
        }
        self.deadline_ns.set(next_ns);
    }

    /// Sets the timer.
    fn arm(&self, at_ns: u64) {
        self.sleeps.armed_ns.store(at_ns, Relaxed);
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A time of 0 would take the alarm away.
        let value = Itimerspec { it_interval: never, it_value: self.clock.timespec(at_ns.max(1)) };
        // A descriptor that is there and a time that is one leave nothing to fail.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value);
    }

    /// Sets the timer to an earlier time.
    pub(super) fn arm_before(&self, at_ns: u64) {
        if at_ns < self.sleeps.armed_ns.load(Relaxed) {
            self.arm(at_ns);
        }
    }

    /// Waits for the timer, or for a call.
    async fn wait(&self) {
        poll_fn(|context| {
            if self.is_called.replace(false) {
                return Poll::Ready(());
            }
            // It is not read: the runtime is told each time that it goes off, and no other.
            if let Poll::Ready(ready) = self.timer.poll_read_ready(context) {
                if let Ok(mut guard) = ready {
                    guard.clear_ready();
                }
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
