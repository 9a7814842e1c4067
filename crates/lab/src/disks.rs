//! The disks that a store of ours has its data on, one for each machine that its nodes are on, and whose power goes together.
//!
//! Nodes that share a host share its disk, as they share its power. The first disk that freezes has the others freeze: their daemons
//! tell one another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use plimsoll_core::fault::Fault;
use plimsoll_core::{CutAt, Disk, Nodes, PowerNode, Setting, StoreError, Survivors};
use plimsoll_faultfs as faultfs;

use crate::cluster::ClusterHandle;
use crate::file_system_errors::file_system_errors;
use crate::power::{PowerCutSeen, PoweredDisk, remove_place, sync, told};
use crate::user::ServerUser;

/// What the directory of the first disk is called, in that of the store's data; those of others have their number behind it.
const DISK: &str = "disk";

/// The disks of one store, by the number of the machine that each is in.
#[derive(Debug)]
pub(crate) struct Disks {
    disk: Disk,
    /// The directory of the store's data.
    directory: PathBuf,
    made: Mutex<BTreeMap<usize, PoweredDisk>>,
    /// Machines whose power is to go, or has gone; all where it is empty.
    meant: Mutex<BTreeSet<usize>>,
    /// Flushes take as long as they are to take, also of those made later.
    is_slow: AtomicBool,
    /// Those made later ignore flushes from the beginning.
    ignores: AtomicBool,
}

/// Ends the disks when it is dropped: whoever still knows of them then has no use for them.
pub(crate) struct OwnDisks(pub Arc<Disks>);

impl OwnDisks {
    /// Nothing is made yet.
    pub(crate) fn new(disk: Disk, directory: &Path) -> Self {
        let directory = directory.to_owned();
        let (made, meant) = (Mutex::default(), Mutex::default());
        let (is_slow, ignores) = (AtomicBool::default(), AtomicBool::default());
        Self(Arc::new(Disks { disk, directory, made, meant, is_slow, ignores }))
    }
}

impl Drop for OwnDisks {
    fn drop(&mut self) {
        // What is left is found by the next start.
        let _ = self.0.close();
    }
}

impl Disks {
    /// Makes those of `machines` that are not there, all at the same time, for servers that run as `user`.
    pub(crate) fn make(
        &self,
        machines: impl IntoIterator<Item = usize>,
        user: Option<&ServerUser>,
    ) -> Result<(), StoreError> {
        let mut made = locked(&self.made);
        let missing: BTreeSet<usize> = machines.into_iter().filter(|machine| !made.contains_key(machine)).collect();
        let start = |machine: usize| {
            let disk = PoweredDisk::start(&self.disk, &self.directory.join(name(machine)), user)?;
            if self.is_slow.load(Ordering::SeqCst) {
                disk.slow_down(self.disk.flush_time)?;
            }
            if self.ignores.load(Ordering::SeqCst) {
                disk.ignore_flushes()?;
            }
            Ok(disk)
        };
        let started: Vec<_> = thread::scope(|scope| {
            let starting: Vec<_> =
                missing.into_iter().map(|machine| (machine, scope.spawn(move || start(machine)))).collect();
            starting.into_iter().map(|(machine, disk)| (machine, joined(disk))).collect()
        });
        // What was made is there to be ended, whatever became of the others.
        let mut failed = Ok(());
        for (machine, disk) in started {
            match disk {
                Ok(disk) => drop(made.insert(machine, disk)),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed
    }

    /// Where that of a machine is mounted, which is made if it is not there.
    pub(crate) fn mount_point(&self, machine: usize, user: Option<&ServerUser>) -> Result<PathBuf, StoreError> {
        self.make([machine], user)?;
        let made = locked(&self.made);
        made.get(&machine)
            .map(PoweredDisk::mount_point)
            .ok_or_else(|| StoreError::broken("a disk of ours is not there"))
    }

    /// What they are, as settings of the store.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        self.disk.settings()
    }

    /// The file system on each.
    pub(crate) fn file_system(&self) -> plimsoll_core::FileSystem {
        self.disk.file_system
    }

    /// Makes everything durable that is on them.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        locked(&self.made).values().try_for_each(|disk| sync(&disk.mount_point()))
    }

    /// Has flushes take as long as they are to take from now on.
    pub(crate) fn slow_down(&self) -> Result<(), StoreError> {
        self.is_slow.store(true, Ordering::SeqCst);
        locked(&self.made).values().try_for_each(|disk| disk.slow_down(self.disk.flush_time))
    }

    /// Removes them, all at the same time.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let made = std::mem::take(&mut *locked(&self.made));
        thread::scope(|scope| {
            let closing: Vec<_> = made.into_values().map(|disk| scope.spawn(move || disk.close())).collect();
            closing.into_iter().map(joined).fold(Ok(()), Result::and)
        })
    }

    /// There are several: their servers listen to one another.
    fn are_several(&self) -> bool {
        locked(&self.made).len() > 1
    }

    /// Does something with each of those whose power is to go, or has gone.
    fn of_meant<T>(&self, act: impl Fn(usize, &PoweredDisk) -> Result<T, StoreError>) -> Result<Vec<T>, StoreError> {
        let meant = locked(&self.meant).clone();
        let is_meant = |machine: &usize| meant.is_empty() || meant.contains(machine);
        let made = locked(&self.made);
        made.iter().filter(|(machine, _)| is_meant(machine)).map(|(machine, disk)| act(*machine, disk)).collect()
    }
}

/// What takes the power from a store's disks, for any thread.
#[derive(Clone)]
pub struct PowerSwitch {
    disks: Arc<Disks>,
    cluster: Option<ClusterHandle>,
}

impl PowerSwitch {
    pub(crate) fn new(disks: &OwnDisks, cluster: Option<ClusterHandle>) -> Self {
        Self { disks: Arc::clone(&disks.0), cluster }
    }

    /// What was written before is durable, and from here on disks are as they were asked for: those that ignore flushes do.
    ///
    /// # Errors
    /// As the disks say.
    pub fn drive(&self) -> Result<(), StoreError> {
        self.disks.sync()?;
        self.ignore_flushes()
    }

    /// Has the disks do something wrong from now on.
    ///
    /// # Errors
    /// As the disks say.
    pub fn fault(&self, fault: Fault) -> Result<(), StoreError> {
        locked(&self.disks.made).values().try_for_each(|disk| disk.control().set(fault).map_err(told))
    }

    /// Has nothing be wrong with the disks any more but what always is. A cut that is armed stays so.
    ///
    /// # Errors
    /// As the disks say.
    pub fn mend(&self) -> Result<(), StoreError> {
        locked(&self.disks.made).values().try_for_each(|disk| disk.control().mend().map_err(told))?;
        self.disks.slow_down()?;
        self.ignore_flushes()
    }

    fn ignore_flushes(&self) -> Result<(), StoreError> {
        if !self.disks.disk.ignores_flushes {
            return Ok(());
        }
        self.disks.ignores.store(true, Ordering::SeqCst);
        locked(&self.disks.made).values().try_for_each(PoweredDisk::ignore_flushes)
    }

    /// Errors that the file systems on the disks have found by themselves, where they count them.
    pub fn file_system_errors(&self) -> Option<u64> {
        locked(&self.disks.made).values().map(|disk| file_system_errors(&disk.mount_point())).sum()
    }

    /// Bytes that have come to the disks; `None` where one does not answer.
    pub fn written_bytes(&self) -> Option<u64> {
        locked(&self.disks.made).values().map(|disk| Some(disk.control().counters().ok()?.bytes)).sum()
    }

    /// Has the power of `node`, with all that is on the same host, go before this flush or write from now on becomes durable: of
    /// several, that of whichever disk gets there first. What was written before is made durable first, and what is written from the cut
    /// on is gone when the power is back. A store on one disk does not notice; of several, servers see flushes fail.
    ///
    /// # Errors
    /// `Usage` of a node that there is not, or that keeps no data; as the disks say.
    pub fn arm(&self, at: CutAt, node: PowerNode) -> Result<(), StoreError> {
        *locked(&self.disks.meant) = self.machines(node)?;
        self.drive()?;
        let others = self.disks.are_several();
        self.disks.of_meant(|_, disk| disk.freeze(at, others))?;
        // When all are armed, so that none that is told has to be armed still.
        let told = |machine, disk: &PoweredDisk, made: &[(usize, faultfs::Control)]| {
            made.iter().filter(|(other, _)| *other != machine).try_for_each(|(_, other)| disk.tell(other))
        };
        let all = self.disks.of_meant(|machine, disk| Ok((machine, disk.control())))?;
        self.disks.of_meant(|machine, disk| told(machine, disk, &all)).map(drop)
    }

    /// The machines whose power goes with `node`'s; none where that is all of them.
    fn machines(&self, node: PowerNode) -> Result<BTreeSet<usize>, StoreError> {
        let number = match (node, &self.cluster) {
            (PowerNode::All, _) => return Ok(BTreeSet::new()),
            (PowerNode::Primary, Some(cluster)) => cluster.primary()?,
            (PowerNode::Number(number), Some(_)) => number as usize - 1,
            (_, None) => {
                return Err(StoreError::usage("a store inside Plimsoll has no nodes").next("leave `power_node` out"));
            }
        };
        let machine = self.cluster.as_ref().map_or(Ok(None), |cluster| cluster.machine(number))?;
        let without = || StoreError::usage(format!("node {} keeps no data", number + 1)).next("name another node");
        machine.map(|machine| BTreeSet::from([machine])).ok_or_else(without)
    }

    /// What was so when the power went, of those disks that have none; `None` while all have power.
    ///
    /// # Errors
    /// As the disks say.
    pub fn cut(&self) -> Result<Option<PowerCutSeen>, StoreError> {
        let seen = self.disks.of_meant(|_, disk| disk.seen())?;
        Ok(seen.into_iter().flatten().reduce(PowerCutSeen::and))
    }

    /// The same, waiting for it until `limit` is over.
    ///
    /// # Errors
    /// As the disks say.
    pub fn wait_for_cut(&self, limit: Duration) -> Result<Option<PowerCutSeen>, StoreError> {
        // One of them is told by whichever is first.
        let first = self.disks.of_meant(|_, disk| Ok(disk.control()))?.into_iter().next();
        if let Some(first) = first {
            first.wait_for_cut(limit).map_err(told)?;
        }
        self.cut()
    }

    /// Has the power go that is to go, if it has not.
    ///
    /// # Errors
    /// As the disks say.
    pub(crate) fn cut_now(&self) -> Result<PowerCutSeen, StoreError> {
        let others = self.disks.are_several();
        let seen = self.disks.of_meant(|_, disk| disk.cut(others))?;
        seen.into_iter().reduce(PowerCutSeen::and).ok_or_else(|| StoreError::broken("no disk of ours is there"))
    }

    /// Kills the servers, where there are some, that have no power any more.
    ///
    /// # Errors
    /// When one does not die.
    pub fn kill_servers(&self) -> Result<(), StoreError> {
        // A server that was killed before its disk froze would be a program that crashed. A disk that does not answer is gone.
        let _ = self.cut_now();
        let Some(cluster) = self.cluster.as_ref().filter(|cluster| !cluster.pids().is_empty()) else { return Ok(()) };
        let meant = locked(&self.disks.meant).clone();
        if meant.is_empty() {
            return cluster.kill(Nodes::All).map(drop);
        }
        let nodes = cluster.nodes().into_iter().map(|node| node.number);
        for number in nodes {
            if cluster.machine(number)?.is_some_and(|machine| meant.contains(&machine)) {
                cluster.kill(Nodes::One(number))?;
            }
        }
        Ok(())
    }

    /// The power is back, of those that had lost it, at the same time: what `survivors` says is there, and the file
    /// systems are mounted again.
    ///
    /// # Errors
    /// Whether it is a file system that cannot be mounted any more, and what went wrong.
    pub(crate) fn power_on(&self, survivors: Survivors) -> Result<(), (bool, StoreError)> {
        let meant = std::mem::take(&mut *locked(&self.disks.meant));
        let mut made = locked(&self.disks.made);
        let lost = made.iter_mut().filter(|(machine, _)| meant.is_empty() || meant.contains(machine));
        thread::scope(|scope| {
            let cycle = |(machine, disk): (&usize, &'_ mut PoweredDisk)| {
                // Each draws for itself.
                disk.power_on(match survivors {
                    Survivors::Random { seed, .. } => survivors.with_seed(seed ^ *machine as u64),
                    other => other,
                })?;
                disk.slow_down(self.disks.disk.flush_time).map_err(|error| (false, error))
            };
            let cycling: Vec<_> = lost.map(|one| scope.spawn(move || cycle(one))).collect();
            let done: Vec<_> = cycling.into_iter().map(joined).collect();
            // That a file system is damaged is an answer, and says nothing where something else went wrong, too.
            let errors = || done.iter().filter_map(|one| one.as_ref().err());
            let worst = errors().find(|(is_damaged, _)| !is_damaged).or_else(|| errors().next());
            worst.map_or(Ok(()), |error| Err(error.clone()))
        })
    }
}

/// Removes what a killed run's disks left in `directory`, that of a store's data.
pub fn sweep_disks(directory: &Path) {
    faultfs::sweep_orphans();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_disk = entry.file_name().to_str().is_some_and(|name| {
            name == DISK || name.strip_prefix("disk-").is_some_and(|number| number.parse::<usize>().is_ok())
        });
        if is_disk {
            // What is still there is said by whoever removes the run's directory.
            let _ = remove_place(&entry.path());
        }
    }
}

fn name(machine: usize) -> String {
    if machine == 0 { DISK.to_owned() } else { format!("{DISK}-{}", machine + 1) }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread came to; its panic goes on here.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
