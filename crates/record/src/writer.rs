//! Writes a recording while a run goes on.
//!
//! One thread owns the connection; everybody else hands it messages, and each message is one transaction. The
//! one who hands over does not wait for a disk: `synchronous` is off, so a commit is a copy into the page
//! cache, which survives the death of this process. Checkpoints happen between trials only.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use plimsoll_core::Slice;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::data::{
    AnswerCheck, Event, FaultSpan, LedgerCheck, Operations, PhaseEnd, PhaseHeader, RunHeader, RunState, Sample, Series,
    TrialHeader,
};
use crate::error::RecordError;
use crate::rows;
use crate::runs::{self, BEGUN};
use crate::schema::{APPLICATION_ID, DDL, FILE_NAME, FORMAT};

/// Messages that may wait. With a slice a second this is half a minute of a device that takes no writes;
/// then handing over waits too, rather than taking all memory.
const QUEUE: usize = 32;

/// Time that a commit waits for another program that has locked the file.
const BUSY: Duration = Duration::from_secs(5);

/// Room that is kept so that a full disk does not keep the recorder from saying so.
const RESERVE_BYTES: u64 = 256 << 10;

/// The file that keeps it.
pub(crate) const RESERVE_NAME: &str = "reserve";

/// Work of one transaction.
type Entry = Box<dyn FnOnce(&Connection, &mut V2DeflateSerializer) -> rusqlite::Result<()> + Send>;

enum Message {
    Write(Entry),
    /// A trial has ended: the recorder's work does not disturb measurements now.
    Tidy,
    Flush(Sender<()>),
    Finish(RunState, u64),
}

/// The first error; later ones follow from it.
type Kept = Arc<OnceLock<RecordError>>;

/// Writes one recording. Dropped without [`Recorder::finish`] it commits what it was handed and leaves the
/// run unfinished.
#[derive(Debug)]
pub struct Recorder {
    directory: PathBuf,
    messages: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    error: Kept,
    /// All series so far, by position.
    series: Mutex<Vec<Series>>,
    /// `/proc/<pid>/task/<tid>/io` of the thread; `None` where the kernel does not count.
    io: Option<File>,
}

impl Recorder {
    /// Makes `<runs_dir>/<id>/` (0700) with `run.sqlite` (0600) in it, and writes what is known of the run.
    ///
    /// # Errors
    /// A run of that name exists, no permission, a full disk.
    pub fn create(runs_dir: &Path, header: &RunHeader) -> Result<Recorder, RecordError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(runs_dir)
            .map_err(|error| RecordError::making(runs_dir, &error))?;
        let directory = runs_dir.join(&header.id);
        if directory.symlink_metadata().is_ok() {
            return Err(RecordError::Exists(directory));
        }
        runs::sweep(runs_dir);
        // It gets its name once the header is in it: a kill leaves no half of a recording.
        let begun = runs_dir.join(format!("{BEGUN}{}", header.id));
        let made = DirBuilder::new().mode(0o700).create(&begun);
        let lock = made.and_then(|()| File::open(&begun)).and_then(|held| held.lock().map(|()| held));
        let lock = lock.map_err(|error| RecordError::making(&begun, &error))?;
        Self::start(directory, lock, Vec::new(), {
            let (begun, header) = (begun.clone(), header.clone());
            move |directory| {
                make(&begun, &header)?;
                std::fs::rename(&begun, directory).map_err(|error| RecordError::making(directory, &error))?;
                // Made above, and of no use where it cannot be written.
                open(directory, |_| Ok(())).inspect_err(|_| drop(std::fs::remove_dir_all(directory)))
            }
        })
        .inspect_err(|_| drop(std::fs::remove_dir_all(&begun)))
    }

    /// Continues the recording in `directory`, whose program does not run any more. Of its trials those `kept` stay,
    /// with everything that belongs to no trial.
    ///
    /// # Errors
    /// It is still being written, cannot be written any more, or is damaged.
    pub fn resume(directory: &Path, kept: &[u32], series: Vec<Series>) -> Result<Recorder, RecordError> {
        let lock = File::open(directory).map_err(|error| RecordError::writing(directory, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RecordError::Live(directory.to_owned())),
            Err(TryLockError::Error(error)) => return Err(RecordError::writing(directory, &error)),
        }
        let kept = kept.to_vec();
        Self::start(directory.to_owned(), lock, series, move |directory| {
            open(directory, |first| rows::go_on(first, &kept))
        })
    }

    /// Starts the thread that writes what `opened` gives. The directory is locked as long as it does.
    fn start(
        directory: PathBuf,
        lock: File,
        series: Vec<Series>,
        opened: impl FnOnce(&Path) -> Result<Connection, RecordError> + Send + 'static,
    ) -> Result<Recorder, RecordError> {
        let (messages, inbox) = sync_channel(QUEUE);
        let (ready, started) = channel();
        let error = Kept::default();
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .spawn({
                let (directory, kept) = (directory.clone(), error.clone());
                move || {
                    let io = File::open("/proc/thread-self/io").ok();
                    let opened = opened(&directory);
                    let shared = io.as_ref().and_then(|file| file.try_clone().ok());
                    match opened {
                        Ok(connection) => {
                            let (made, encoder) = (identity(&directory), V2DeflateSerializer::new());
                            let writer = Writer { directory, made, connection, io, encoder, kept };
                            if ready.send(Ok(shared)).is_ok() {
                                writer.work(&inbox);
                            }
                        }
                        Err(error) => drop(ready.send(Err(error))),
                    }
                    drop(lock);
                }
            })
            .map_err(|error| RecordError::writing(&directory, &error))?;
        let gone = || RecordError::Write { path: directory.clone(), what: "the recorder's thread died".into() };
        let io = started.recv().unwrap_or_else(|_| Err(gone()))?;
        let series = Mutex::new(series);
        Ok(Recorder { directory, messages: Some(messages), thread: Some(thread), error, series, io })
    }

    /// The run's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The first thing that went wrong; nothing was written since.
    pub fn error(&self) -> Option<RecordError> {
        self.error.get().cloned()
    }

    /// Bytes that the recorder caused to be written to the device so far, by the kernel's account of its
    /// thread: to be taken off the process's own where a store runs inside it. 0 where the kernel does not count.
    pub fn bytes_written(&self) -> u64 {
        self.io.as_ref().map_or(0, write_bytes)
    }

    /// A trial begins.
    ///
    /// # Errors
    /// This and all calls below: the first thing that went wrong, now or in an earlier call.
    pub fn begin_trial(&self, header: TrialHeader) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::begin_trial(rows, &header))
    }

    /// A trial ends. The one moment, but the run's end, at which the recorder tidies its file.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn end_trial(&self, ordinal: u32, end_ns: u64) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::end_trial(rows, ordinal, end_ns))?;
        self.send(Message::Tidy)
    }

    /// A phase begins.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn begin_phase(&self, header: PhaseHeader) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::begin_phase(rows, &header))
    }

    /// Phase `phase` of trial `trial` ends.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn end_phase(&self, trial: u32, phase: u32, end: PhaseEnd) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::end_phase(rows, trial, phase, &end))
    }

    /// A slice.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn slice(&self, trial: u32, phase: u32, slice: Slice) -> Result<(), RecordError> {
        self.write(move |rows, encoder| rows::slice(rows, encoder, trial, phase, &slice))
    }

    /// Records operations of a phase one by one. They are in the order of their ends.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn operations(&self, trial: u32, phase: u32, operations: Operations) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::operations(rows, trial, phase, &operations))
    }

    /// Records the samples of one moment. Each series may occur once.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn sample(&self, sample: Sample) -> Result<(), RecordError> {
        self.write(move |rows, encoder| rows::sample(rows, encoder, &sample))
    }

    /// Records fine readings, which have no distributions. Together they are one message: a message for each would fill
    /// the queue soon.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn fine_samples(&self, samples: Vec<Sample>) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::fine_samples(rows, &samples))
    }

    /// The position of `series`, by which samples name it. One that is not yet in the recording is added.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn series(&self, series: &Series) -> Result<u32, RecordError> {
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(position) = all.iter().position(|one| one == series) {
            return Ok(position as u32);
        }
        let position = all.len() as u32;
        let new = series.clone();
        self.write(move |rows, _| rows::series(rows, position, &new))?;
        all.push(series.clone());
        Ok(position)
    }

    /// Records an event.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn event(&self, event: Event) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::event(rows, &event))
    }

    /// Records a fault, or replaces what was recorded of the fault of the same trial and ordinal.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn fault(&self, span: FaultSpan) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::fault(rows, &span))
    }

    /// Answers against the truth.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn answer_check(&self, check: AnswerCheck) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::answer_check(rows, &check))
    }

    /// The ledger's verdict.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn ledger_check(&self, check: LedgerCheck) -> Result<(), RecordError> {
        self.write(move |rows, _| rows::ledger_check(rows, &check))
    }

    /// Waits until everything that was handed over is committed: no kill of this process loses it.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`].
    pub fn flush(&self) -> Result<(), RecordError> {
        let (done, committed) = channel();
        self.send(Message::Flush(done))?;
        committed.recv().map_err(|_| self.gone())?;
        self.error().map_or(Ok(()), Err)
    }

    /// Ends the run: writes how it ended, leaves one plain file, and syncs it. Returns its path.
    ///
    /// After an error the run is marked as failed with it, where the device lets it, whatever `state` says.
    ///
    /// # Errors
    /// See [`Recorder::begin_trial`]. What was committed before can be read.
    pub fn finish(mut self, state: RunState, end_ns: u64) -> Result<PathBuf, RecordError> {
        // Past a kept error too: the thread marks the run.
        let handed = self.messages.take().is_some_and(|messages| messages.send(Message::Finish(state, end_ns)).is_ok());
        let ended = self.thread.take().is_some_and(|thread| thread.join().is_ok());
        match self.error() {
            Some(error) => Err(error),
            None if handed && ended => Ok(self.directory.join(FILE_NAME)),
            None => Err(self.gone()),
        }
    }

    fn write(
        &self,
        entry: impl FnOnce(&Connection, &mut V2DeflateSerializer) -> rusqlite::Result<()> + Send + 'static,
    ) -> Result<(), RecordError> {
        self.send(Message::Write(Box::new(entry)))
    }

    fn send(&self, message: Message) -> Result<(), RecordError> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        match &self.messages {
            Some(messages) => messages.send(message).map_err(|_| self.gone()),
            None => Err(self.gone()),
        }
    }

    fn gone(&self) -> RecordError {
        self.error().unwrap_or_else(|| RecordError::Write {
            path: self.directory.join(FILE_NAME),
            what: "the recorder's thread died".into(),
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.messages.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was printed when it happened.
            drop(thread.join());
        }
    }
}

/// Makes the file in `directory`: tables and header in the plain journal mode, so that they stand in the file itself even
/// if its log gets lost.
fn make(directory: &Path, header: &RunHeader) -> Result<(), RecordError> {
    let path = directory.join(FILE_NAME);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    made.map_err(|error| RecordError::writing(&path, &error))?;
    reserve(directory);
    let written = connect(&path).and_then(|mut connection| {
        let transaction = connection.transaction()?;
        transaction
            .execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"))?;
        transaction.execute_batch(DDL)?;
        rows::run(&transaction, header)?;
        transaction.commit()
    });
    written.map_err(|error| RecordError::writing_rows(&path, &error))
}

/// Opens the file in `directory` in the journal mode of a run, after a `first` transaction.
fn open(directory: &Path, first: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<Connection, RecordError> {
    let path = directory.join(FILE_NAME);
    reserve(directory);
    let opened = connect(&path).and_then(|mut connection| {
        let transaction = connection.transaction()?;
        first(&transaction)?;
        transaction.commit()?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(connection)
    });
    opened.map_err(|error| RecordError::writing_rows(&path, &error))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // The log and its index get the permissions of the file.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;")?;
    Ok(connection)
}

/// Device and number of the recording in `directory`.
fn identity(directory: &Path) -> Option<(u64, u64)> {
    let file = std::fs::symlink_metadata(directory.join(FILE_NAME)).ok()?;
    Some((file.dev(), file.ino()))
}

/// Sets room aside. Nothing is written; a file system that cannot promise room leaves us without.
fn reserve(directory: &Path) {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.join(RESERVE_NAME));
    if let Ok(file) = made {
        let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES);
    }
}

/// `write_bytes` of an `io` file of `/proc`.
fn write_bytes(io: &File) -> u64 {
    let mut text = [0; 512];
    let length = io.read_at(&mut text, 0).unwrap_or(0);
    let text = std::str::from_utf8(&text[..length]).unwrap_or("");
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

struct Writer {
    directory: PathBuf,
    /// Device and number of the file that was made.
    made: Option<(u64, u64)>,
    connection: Connection,
    io: Option<File>,
    encoder: V2DeflateSerializer,
    kept: Kept,
}

impl Writer {
    fn work(mut self, inbox: &Receiver<Message>) {
        while let Ok(message) = inbox.recv() {
            match message {
                Message::Flush(done) => drop(done.send(())),
                Message::Finish(state, end_ns) => return self.finish(&state, end_ns),
                // Nothing after an error: a recording must not have holes in it.
                _ if self.failed() => {}
                Message::Write(entry) => {
                    let written = self.write(entry);
                    self.keep(written);
                }
                Message::Tidy => {
                    let bytes = self.io.as_ref().map_or(0, write_bytes);
                    let written = rows::recorder_bytes(&self.connection, bytes);
                    self.keep(written.and_then(|()| self.checkpoint("PASSIVE")));
                }
            }
        }
        let _ = std::fs::remove_file(self.directory.join(RESERVE_NAME));
    }

    fn write(&mut self, entry: Entry) -> rusqlite::Result<()> {
        let rows = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        entry(&rows, &mut self.encoder)?;
        rows.commit()
    }

    fn checkpoint(&self, mode: &str) -> rusqlite::Result<()> {
        self.connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
    }

    fn finish(self, state: &RunState, end_ns: u64) {
        let _ = std::fs::remove_file(self.directory.join(RESERVE_NAME));
        let failure = self.kept.get();
        if matches!(failure, Some(RecordError::FileLimit(_))) {
            // The log has no room for how it ended until it begins anew.
            let _ = self.checkpoint("TRUNCATE");
        }
        let failed = failure.map(|error| RunState::Failed(error.to_string()));
        let ended = rows::end_run(&self.connection, failed.as_ref().unwrap_or(state), end_ns)
            .and_then(|()| self.checkpoint("TRUNCATE"));
        // One plain file that can be read anywhere, also where nothing can be written. A reader who is at it
        // just now keeps this from happening; then the log stays beside the file, and both can be read.
        let plain = ended.and_then(|()| {
            match self.connection.pragma_update(None, "journal_mode", "DELETE") {
                Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {}
                other => other?,
            }
            rows::recorder_bytes(&self.connection, self.io.as_ref().map_or(0, write_bytes))
        });
        self.keep(plain);
        if let (false, Some(gone)) = (self.failed(), self.gone()) {
            let _ = self.kept.set(gone);
        }
        let Writer { directory, connection, kept, .. } = self;
        drop(connection);
        let path = directory.join(FILE_NAME);
        // The only sync of a recording's life.
        let synced =
            File::open(&path).and_then(|file| file.sync_all()).and_then(|()| File::open(&directory)?.sync_all());
        if let Err(error) = synced {
            let _ = kept.set(RecordError::writing(&path, &error));
        }
    }

    fn keep(&self, written: rusqlite::Result<()>) {
        if let Err(error) = written {
            let writing = || RecordError::writing_rows(&self.directory.join(FILE_NAME), &error);
            let _ = self.kept.set(self.gone().unwrap_or_else(writing));
        }
    }

    /// Returns an error if another file, or none, has taken the place of the recording. Writes would still succeed,
    /// but the file could not be found.
    fn gone(&self) -> Option<RecordError> {
        let path = self.directory.join(FILE_NAME);
        match identity(&self.directory) {
            None => Some(RecordError::Removed(path)),
            there => (there != self.made).then_some(RecordError::Replaced(path)),
        }
    }

    fn failed(&self) -> bool {
        self.kept.get().is_some()
    }
}
