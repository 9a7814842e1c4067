//! Disks of a private store that can lose power, one for each machine with nodes of the store.
//!
//! Nodes that share a host share its disk and its power. Daemons of several disks inform each other: the first disk
//! that freezes freezes the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use plimsoll_core::fault::Fault;
use plimsoll_core::{CutMoment, DiskSpec, NodeChoice, Nodes, Setting, StoreError, Survivors, WriteKind};
use plimsoll_faultfs::{self as faultfs, UnsyncedFile};

use crate::cluster::ClusterHandle;
use crate::file_system_errors::file_system_errors;
use crate::power::{PowerCutState, PoweredDisk, remove_directory, sync, told};
use crate::user::ServerUser;

/// Name of the first disk's directory in the store's data directory; the others have their number appended.
const DISK: &str = "disk";
/// Number of the first log disk, beyond those of all machines.
const LOG_DISKS: usize = 1 << 16;

/// Returns the number of the disk for the write-ahead logs of a machine.
pub(crate) fn log_disk_of(machine: usize) -> usize {
    LOG_DISKS + machine
}

/// Disks of one store, by the number of their machine.
#[derive(Debug)]
pub(crate) struct Disks {
    disk: DiskSpec,
    /// Directory of the store's data.
    directory: PathBuf,
    made: Mutex<BTreeMap<usize, PoweredDisk>>,
    /// Machines whose power is to be cut, or was cut; all if empty.
    meant: Mutex<BTreeSet<usize>>,
    /// True if requests take the configured time, also on disks made later.
    is_slow: AtomicBool,
    /// True if disks made later ignore flushes from the beginning.
    ignores: AtomicBool,
}

/// Owner of the disks: they end when this value is dropped. Other references are of no use after that.
pub(crate) struct OwnDisks(pub Arc<Disks>);

impl OwnDisks {
    /// Returns a value without disks; [`Disks::make`] makes them.
    pub(crate) fn new(disk: DiskSpec, directory: &Path) -> Self {
        let directory = directory.to_owned();
        let (made, meant) = (Mutex::default(), Mutex::default());
        let (is_slow, ignores) = (AtomicBool::default(), AtomicBool::default());
        Self(Arc::new(Disks { disk, directory, made, meant, is_slow, ignores }))
    }
}

impl Drop for OwnDisks {
    fn drop(&mut self) {
        // The next start removes what is left.
        let _ = self.0.close();
    }
}

impl Disks {
    /// Makes the missing disks of `machines`, all at the same time, for servers that run as `user`.
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
                disk.slow_down(&self.spec(machine))?;
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
        // Disks that were made are kept, so that they are ended, even if others failed.
        let mut failed = Ok(());
        for (machine, disk) in started {
            match disk {
                Ok(disk) => drop(made.insert(machine, disk)),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed
    }

    /// Returns the mount point of a machine's disk, which is made if needed.
    pub(crate) fn mount_point(&self, machine: usize, user: Option<&ServerUser>) -> Result<PathBuf, StoreError> {
        self.make([machine], user)?;
        let made = locked(&self.made);
        made.get(&machine)
            .map(PoweredDisk::mount_point)
            .ok_or_else(|| StoreError::broken("the private server's disk is missing"))
    }

    /// Returns true if the disk of a machine was made.
    pub(crate) fn has(&self, machine: usize) -> bool {
        locked(&self.made).contains_key(&machine)
    }

    /// Returns the disks' properties as settings of the store.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        self.disk.settings()
    }

    /// Returns the file system on each disk.
    pub(crate) fn file_system(&self) -> plimsoll_core::FileSystem {
        self.disk.file_system
    }

    /// Syncs all disks.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        locked(&self.made).values().try_for_each(|disk| sync(&disk.mount_point()))
    }

    /// Makes requests take the configured time from now on.
    pub(crate) fn slow_down(&self) -> Result<(), StoreError> {
        self.is_slow.store(true, Ordering::SeqCst);
        locked(&self.made).iter().try_for_each(|(machine, disk)| disk.slow_down(&self.spec(*machine)))
    }

    /// Returns the properties of the disk with this number.
    fn spec(&self, number: usize) -> DiskSpec {
        if number < LOG_DISKS { self.disk } else { self.disk.for_log() }
    }

    /// Removes all disks, at the same time.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let made = std::mem::take(&mut *locked(&self.made));
        thread::scope(|scope| {
            let closing: Vec<_> = made.into_values().map(|disk| scope.spawn(move || disk.close())).collect();
            closing.into_iter().map(joined).fold(Ok(()), Result::and)
        })
    }

    /// Returns true if there are several disks: their servers communicate, and could pass on data that one of them
    /// lost.
    fn are_several(&self) -> bool {
        locked(&self.made).len() > 1
    }

    /// Calls `act` for each disk whose power is to be cut, or was cut.
    fn of_meant<T>(&self, act: impl Fn(usize, &PoweredDisk) -> Result<T, StoreError>) -> Result<Vec<T>, StoreError> {
        let meant = locked(&self.meant).clone();
        self.of_machines(&meant, act)
    }

    /// Calls `act` for each disk of these machines; of all if none is named.
    fn of_machines<T>(
        &self,
        machines: &BTreeSet<usize>,
        act: impl Fn(usize, &PoweredDisk) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let is_meant = |machine: &usize| machines.is_empty() || machines.contains(machine);
        let made = locked(&self.made);
        made.iter().filter(|(machine, _)| is_meant(machine)).map(|(machine, disk)| act(*machine, disk)).collect()
    }
}

/// Handle that cuts the power of a store's disks, from any thread.
#[derive(Clone)]
pub struct PowerSwitch {
    disks: Arc<Disks>,
    cluster: Option<ClusterHandle>,
}

impl PowerSwitch {
    pub(crate) fn new(disks: &OwnDisks, cluster: Option<ClusterHandle>) -> Self {
        Self { disks: Arc::clone(&disks.0), cluster }
    }

    /// Syncs the disks, and puts them in the state that was asked for: from now on they ignore flushes, if configured
    /// so.
    ///
    /// # Errors
    /// Errors of the disks.
    pub fn drive(&self) -> Result<(), StoreError> {
        self.disks.sync()?;
        self.ignore_flushes()
    }

    /// Starts a fault on the disks of these nodes, and of others on their hosts. The disk of a node that is being replaced
    /// stays, and so does its fault.
    ///
    /// # Errors
    /// `Usage` if a node is not there and has no disk, or none of them keeps data; errors of the disks.
    pub fn fault(&self, nodes: Nodes, fault: Fault) -> Result<(), StoreError> {
        let machines = self.machines_of(nodes)?;
        self.disks.of_machines(&machines, |_, disk| disk.fault(fault)).map(drop)
    }

    /// Returns the number of requests to the disks of these nodes that have met such a fault so far, also an earlier one.
    ///
    /// # Errors
    /// As [`PowerSwitch::fault`].
    pub fn met(&self, nodes: Nodes, fault: Fault) -> Result<u64, StoreError> {
        let machines = self.machines_of(nodes)?;
        let met = self.disks.of_machines(&machines, |_, disk| disk.met(fault))?;
        Ok(met.into_iter().sum())
    }

    /// Ends all faults that [`PowerSwitch::fault`] started on the disks of these nodes. An armed cut stays armed.
    ///
    /// # Errors
    /// As [`PowerSwitch::fault`].
    pub fn mend(&self, nodes: Nodes) -> Result<(), StoreError> {
        let machines = self.machines_of(nodes)?;
        self.disks.of_machines(&machines, |_, disk| disk.mend())?;
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

    /// Returns the number of errors that the file systems on the disks have found, if they count them.
    pub fn file_system_errors(&self) -> Option<u64> {
        locked(&self.disks.made).values().map(|disk| file_system_errors(&disk.mount_point())).sum()
    }

    /// Returns the number of bytes written to the disks; `None` if a disk does not answer.
    pub fn written_bytes(&self) -> Option<u64> {
        locked(&self.disks.made).values().map(|disk| Some(disk.control().counters().ok()?.bytes)).sum()
    }

    /// Arms a power cut of `node` and all nodes on the same host, before the given flush or write becomes durable. With
    /// several disks, the first that gets there counts. Earlier writes are synced first; writes after the cut are gone
    /// when power is restored. A store on one disk does not notice the cut; servers on several disks see flushes fail.
    ///
    /// # Errors
    /// `Usage` if there is no such node, or it keeps no data; errors of the disks.
    pub fn arm(&self, at: CutMoment, node: NodeChoice) -> Result<(), StoreError> {
        *locked(&self.disks.meant) = self.machines(node)?;
        self.drive()?;
        let others = self.disks.are_several();
        self.disks.of_meant(|_, disk| disk.freeze(at, others))?;
        // Only after all are armed, so that a disk that is informed is armed already.
        let told = |machine, disk: &PoweredDisk, made: &[(usize, faultfs::Control)]| {
            made.iter().filter(|(other, _)| *other != machine).try_for_each(|(_, other)| disk.tell(other))
        };
        let all = self.disks.of_meant(|machine, disk| Ok((machine, disk.control())))?;
        self.disks.of_meant(|machine, disk| told(machine, disk, &all)).map(drop)
    }

    /// Returns the machines that lose power together with `node`; none means all.
    fn machines(&self, node: NodeChoice) -> Result<BTreeSet<usize>, StoreError> {
        if node.is_all() {
            return Ok(BTreeSet::new());
        }
        self.machines_of(self.cluster()?.chosen(node)?)
    }

    /// Returns the machines whose disks have the data of these nodes; none means all.
    fn machines_of(&self, nodes: Nodes) -> Result<BTreeSet<usize>, StoreError> {
        let (numbers, what) = match nodes {
            Nodes::All => return Ok(BTreeSet::new()),
            Nodes::One(number) => (vec![number], format!("node {} keeps no data", number + 1)),
            Nodes::Several(all) => (all.numbers().collect(), format!("none of the nodes {all} keeps data")),
        };
        let cluster = self.cluster()?;
        let mut machines = BTreeSet::new();
        for number in numbers {
            machines.extend(cluster.machine(number)?);
        }
        // An empty set would mean all machines.
        if machines.is_empty() { Err(StoreError::usage(what).next("name another node")) } else { Ok(machines) }
    }

    fn cluster(&self) -> Result<&ClusterHandle, StoreError> {
        let no_nodes = || StoreError::usage("an embedded store has no nodes").next("leave the node out");
        self.cluster.as_ref().ok_or_else(no_nodes)
    }

    /// Returns the state at the power cut; `None` while all disks have power.
    ///
    /// # Errors
    /// Errors of the disks.
    pub fn cut(&self) -> Result<Option<PowerCutState>, StoreError> {
        let seen = self.disks.of_meant(|_, disk| disk.seen())?;
        Ok(seen.into_iter().flatten().reduce(PowerCutState::and))
    }

    /// Waits up to `limit` for the power cut, and returns the state.
    ///
    /// # Errors
    /// Errors of the disks.
    pub fn wait_for_cut(&self, limit: Duration) -> Result<Option<PowerCutState>, StoreError> {
        // Waiting for any one of them is enough: whichever freezes first informs it.
        let first = self.disks.of_meant(|_, disk| Ok(disk.control()))?.into_iter().next();
        if let Some(first) = first {
            first.wait_for_cut(limit).map_err(told)?;
        }
        self.cut()
    }

    /// Cuts the power that is to be cut, unless that was done.
    ///
    /// # Errors
    /// Errors of the disks.
    pub(crate) fn cut_now(&self) -> Result<PowerCutState, StoreError> {
        let others = self.disks.are_several();
        let seen = self.disks.of_meant(|_, disk| disk.cut(others))?;
        seen.into_iter()
            .reduce(PowerCutState::and)
            .ok_or_else(|| StoreError::broken("the private server's disks are missing"))
    }

    /// Returns the numbers of writes at risk at the cut, by kind, where `kind_of` is of a file's path; `None` if a disk
    /// does not tell.
    pub(crate) fn at_risk(&self, kind_of: fn(&str) -> WriteKind) -> Option<BTreeMap<WriteKind, u64>> {
        let of_disk = |_, disk: &PoweredDisk| disk.control().files_at_risk().map_err(told);
        let mut kinds: BTreeMap<WriteKind, u64> = BTreeMap::new();
        for found in self.disks.of_meant(of_disk).ok()? {
            let found = found?;
            let of_file = |file: &UnsyncedFile| match kind_of(&file.path) {
                WriteKind::DataPages if !file.replaces => WriteKind::NewData,
                kind => kind,
            };
            let of_files = found.files.iter().map(|file| (of_file(file), file.writes));
            let others = [(WriteKind::Names, found.names), (WriteKind::FileSystem, found.elsewhere)];
            of_files.chain(others).for_each(|(kind, writes)| *kinds.entry(kind).or_default() += writes);
        }
        kinds.retain(|_, writes| *writes > 0);
        Some(kinds)
    }

    /// Kills the servers, if any, whose disks have no power.
    ///
    /// # Errors
    /// Fails if a server does not end.
    pub fn kill_servers(&self) -> Result<(), StoreError> {
        // Killing a server before its disk froze would be a crash of the program only. A disk that does not answer is
        // gone.
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

    /// Restores power of the disks that lost it, at the same time, with the writes that `survivors` selects, and mounts
    /// their file systems.
    ///
    /// # Errors
    /// The flag is true if a file system cannot be mounted; the error says what went wrong.
    pub(crate) fn power_on(&self, survivors: Survivors) -> Result<(), (bool, StoreError)> {
        let meant = std::mem::take(&mut *locked(&self.disks.meant));
        let mut made = locked(&self.disks.made);
        let lost = made.iter_mut().filter(|(machine, _)| meant.is_empty() || meant.contains(machine));
        thread::scope(|scope| {
            let cycle = |(machine, disk): (&usize, &'_ mut PoweredDisk)| {
                // Each disk draws its own numbers.
                disk.power_on(match survivors {
                    Survivors::Random { seed, .. } => survivors.with_seed(seed ^ *machine as u64),
                    other => other,
                })?;
                disk.slow_down(&self.disks.spec(*machine)).map_err(|error| (false, error))
            };
            let cycling: Vec<_> = lost.map(|one| scope.spawn(move || cycle(one))).collect();
            let done: Vec<_> = cycling.into_iter().map(joined).collect();
            // A damaged file system is a result only if nothing else failed.
            let errors = || done.iter().filter_map(|one| one.as_ref().err());
            let worst = errors().find(|(is_damaged, _)| !is_damaged).or_else(|| errors().next());
            worst.map_or(Ok(()), |error| Err(error.clone()))
        })
    }
}

/// Refuses a disk that cannot be made here.
///
/// # Errors
/// `Usage` if it is too small; `Permission` without root; `Missing` without FUSE, or a program that makes its file
/// system.
pub fn must_be_possible(disk: &DiskSpec) -> Result<(), StoreError> {
    faultfs::FaultDevice::must_be_possible(disk.file_system, disk.size_bytes).map_err(told)
}

/// Removes disks that a killed run left in `directory`, the data directory of a store.
pub fn sweep_disks(directory: &Path) {
    faultfs::sweep_orphans();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_disk = entry.file_name().to_str().is_some_and(|name| {
            name == DISK || name.strip_prefix("disk-").is_some_and(|number| number.parse::<usize>().is_ok())
        });
        if is_disk {
            // If something remains, removing the run's directory reports it.
            let _ = remove_directory(&entry.path());
        }
    }
}

fn name(machine: usize) -> String {
    if machine == 0 { DISK.to_owned() } else { format!("{DISK}-{}", machine + 1) }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Joins a thread, and resumes its panic.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
