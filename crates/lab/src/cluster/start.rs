//! Starts of nodes, stage after stage: their set-up before the first one, and the wait until each is ready.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{Launch, Member, Node, Nodes, Servers, Span, StoreError, StoreErrorKind, Waits};

use super::{Running, locked, provisions};
use crate::private_server::PrivateServer;

/// Longest time for making a data directory, including its sync on a slow disk.
const SET_UP_BOUND: Duration = Duration::from_secs(180);
/// Longest time for a start, including recovery after a crash and loading the data.
pub(super) const START_BOUND: Duration = Duration::from_secs(600);
/// Longest time for a program that finds out which data a node has.
const RECOVER_BOUND: Duration = Duration::from_secs(120);
/// Time between two checks whether a node is ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Longest time for one check.
const LOOK_BOUND: Duration = Duration::from_secs(10);

impl Running {
    /// Starts stopped nodes, as [`Servers::start`]. Long work of a node, and the wait until all nodes are one cluster, may
    /// each take `work`.
    pub(super) fn start_within(&self, nodes: Nodes, work: Duration) -> Result<Span, StoreError> {
        let from = Instant::now();
        let running: Vec<usize> = self.running().iter().map(|node| node.number).collect();
        let mut starting = self.numbers(nodes)?;
        starting.retain(|number| !running.contains(number));
        self.unless_hung("start", &starting, |waits| {
            let waits = &waits.with_work(work);
            self.bring_up(nodes, false, waits, &mut |_| {})?;
            if nodes == Nodes::All {
                let _guard = self.enter()?;
                self.recipe.until_whole(&self.nodes(), waits)?;
            }
            Ok(Span { from, until: Instant::now() })
        })
    }

    /// Makes the files of a node and runs its set-up program, before its first start.
    fn set_up(&self, node: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        let (files, program) = (self.recipe.files(node)?, self.recipe.set_up(node)?);
        self.on(node.number, |server| {
            files.iter().try_for_each(|(name, bytes)| server.put(name, bytes))?;
            let Some(launch) = program else { return Ok(()) };
            server.run_within(&provisions::set_up_by(launch, &node.data_dir), SET_UP_BOUND, waits)
        })
    }

    /// Launches nodes, all of a stage together, and waits until each is ready before the next stage.
    pub(super) fn bring_up(
        &self,
        meant: Nodes,
        anew: bool,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), StoreError> {
        let (nodes, _guard) = (self.nodes(), self.enter()?);
        let running: Vec<usize> = self.running().iter().map(|node| node.number).collect();
        if meant == Nodes::All && !anew && running.is_empty() {
            let run = |node: &Node, launch: &Launch| self.on(node.number, |server| server.run(launch, RECOVER_BOUND));
            self.recipe.recover(&nodes, &run)?;
        }
        for (position, stage) in self.stages(meant)?.into_iter().enumerate() {
            if position > 0 {
                progress(&format!("{}: starting {} more of {}", self.spec.name, stage.len(), nodes.len()));
            }
            let is_first = position == 0 && meant == Nodes::All && running.is_empty();
            // Of several nodes those start that do not run.
            let is_one = matches!(meant, Nodes::One(_));
            let stage: Vec<usize> = stage.into_iter().filter(|number| is_one || !running.contains(number)).collect();
            self.note_start(&stage, true);
            let started = self.start_stage(&stage, &nodes, is_first, anew, waits);
            self.note_start(&stage, false);
            started?;
        }
        Ok(())
    }

    /// Launches nodes together and waits until each is ready.
    fn start_stage(
        &self,
        stage: &[usize],
        nodes: &[Arc<Node>],
        is_first: bool,
        anew: bool,
        waits: &Waits,
    ) -> Result<(), StoreError> {
        let promoting = self.promoting(waits)?;
        let stale: Vec<usize> = stage.iter().copied().filter(|one| self.promotion().stale.contains(one)).collect();
        for number in stage {
            let member = self.member(nodes, *number, is_first)?;
            if anew {
                self.set_up(member, waits)?;
            }
            let rejoin = if stale.contains(number) { self.recipe.rejoin(member, waits)? } else { None };
            let run = |launch: Launch| self.on(*number, |server| server.run_within(&launch, SET_UP_BOUND, waits));
            rejoin.map_or(Ok(()), run)?;
            let mut launch = self.recipe.launch(member)?;
            if let Some(other) = self.other_programs().get(number) {
                launch.program.clone_from(&other.path);
            }
            self.on(*number, |server| {
                if server.pid().is_none() {
                    server.clear_sockets();
                }
                server.start(&launch)
            })?;
        }
        drop(promoting);
        stage.iter().try_for_each(|number| self.until_ready(*number, nodes, waits))?;
        stale.into_iter().try_for_each(|number| {
            self.recipe.rejoined(self.member(nodes, number, false)?, waits)?;
            self.promotion().stale.remove(&number);
            Ok(())
        })
    }

    /// Notes that nodes are being started, or no longer are.
    fn note_start(&self, stage: &[usize], begins: bool) {
        let mut starting = locked(&self.starting);
        starting.retain(|number, _| !stage.contains(number));
        starting.extend(stage.iter().filter(|_| begins).map(|number| (*number, Instant::now())));
    }

    fn until_ready(&self, number: usize, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        let bound = START_BOUND.min(waits.work());
        let (until, waits) = (Instant::now() + bound, waits.with_answer(LOOK_BOUND.min(bound)));
        let node = self.member(nodes, number, false)?;
        loop {
            // Not locked during the request, so that another thread can end the server meanwhile.
            self.on(number, PrivateServer::check)?;
            let Err(error) = self.recipe.ready(&node, &waits) else { return Ok(()) };
            match error.kind {
                StoreErrorKind::Interrupted => return Err(error),
                StoreErrorKind::Unreachable if Instant::now() < until => waits.pause(LOOK_INTERVAL)?,
                _ => {
                    let is_late = error.kind == StoreErrorKind::Unreachable;
                    let after = if is_late { format!(" after {} s", bound.as_secs()) } else { String::new() };
                    let what = format!("the private {} server accepts no connections{after}", self.spec.name);
                    let why = StoreError::new(StoreErrorKind::Broken, what).detail(error.to_string());
                    return self.on(number, |server| Err(server.give_up(why)));
                }
            }
        }
    }
}
