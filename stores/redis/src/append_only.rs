//! Durability of a server's writes.
//!
//! Durability is a setting of the server, not of a connection: our own is set when sessions are opened; an attached one
//! is looked at and never changed.
//!
//! | durability | append-only file | an acknowledged write is |
//! |---|---|---|
//! | `durable` | `appendfsync always` | synced |
//! | `buffered` | `appendfsync no` | with the kernel: it was written before the answer was sent |
//! | `at-end` | off | in the server's memory |
//!
//! `appendfsync everysec` is no `buffered`: while a sync runs the server answers for up to two seconds without having
//! written (`flushAppendOnlyFile` in aof.c), and such writes die with it.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use plimsoll_core::{Durability, StoreError, StoreErrorKind};

use crate::control::Control;
use crate::facts::{Info, config};
use crate::server::RedisRecipe;

/// Between two looks whether it is done.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Sets our own server, made by `recipe`, so that writes are as durable as asked; returns when they are.
pub(crate) fn set(control: &mut Control, recipe: &RedisRecipe, durability: Durability) -> Result<(), StoreError> {
    set_fsync(control, durability)?;
    let mut is_off = durability == Durability::AtEnd;
    if durability == Durability::AsConfigured {
        let fsync = recipe.configured("appendfsync", "always");
        control.command(&[b"CONFIG", b"SET", b"appendfsync", fsync.as_bytes()])?;
        is_off = recipe.configured("appendonly", "yes") == "no";
    }
    if is_off {
        control.command(&[b"CONFIG", b"SET", b"appendonly", b"no"])?;
        return Ok(());
    }
    switch_on(control)
}

/// Sets when our own server syncs its append-only file, where it writes one.
pub(crate) fn set_fsync(control: &mut Control, durability: Durability) -> Result<(), StoreError> {
    // As configured is as `server` starts it.
    let is_synced = matches!(durability, Durability::Durable | Durability::AsConfigured);
    let fsync: &[u8] = if is_synced { b"always" } else { b"no" };
    control.command(&[b"CONFIG", b"SET", b"appendfsync", fsync]).map(drop)
}

/// Switches the append-only file on, which writes all data to it; returns when it is complete.
pub(crate) fn switch_on(control: &mut Control) -> Result<(), StoreError> {
    control.command(&[b"CONFIG", b"SET", b"appendonly", b"yes"])?;
    let info = until_quiet(control)?;
    match info.text("aof_last_bgrewrite_status") {
        "ok" => Ok(()),
        status => {
            let what = "the private server could not write its append-only file";
            Err(StoreError::broken(what).detail(format!("aof_last_bgrewrite_status:{status}")))
        }
    }
}

/// Fails if an attached server's writes are less durable than requested.
pub(crate) fn demand(control: &mut Control, durability: Durability, place: &str) -> Result<(), StoreError> {
    if matches!(durability, Durability::AtEnd | Durability::AsConfigured) {
        return Ok(());
    }
    let mut value = |name: &str| {
        config(control, name).map(Option::unwrap_or_default).map_err(|error| {
            error.next("Allow CONFIG GET to the user, so that durability can be told, or ask for `as-configured`.")
        })
    };
    let (on, fsync, on_rewrite) = (value("appendonly")?, value("appendfsync")?, value("no-appendfsync-on-rewrite")?);
    let short = match (durability, on.as_str(), fsync.as_str(), on_rewrite.as_str()) {
        (Durability::Durable, "yes", "always", "no") | (Durability::Buffered, "yes", "always" | "no", _) => {
            return Ok(());
        }
        (_, "no" | "", _, _) => "appendonly no: acknowledged writes are in its memory only".to_owned(),
        (_, _, "always", _) => {
            "no-appendfsync-on-rewrite yes: nothing is synced while the file is rewritten".to_owned()
        }
        (_, _, "everysec", _) => {
            "appendfsync everysec: acknowledged writes of up to two seconds may be in its memory only".to_owned()
        }
        (_, _, other, _) => format!("appendfsync {other}: acknowledged writes may not be on the disk"),
    };
    let wanted = if durability == Durability::Durable { "always" } else { "no or always" };
    let what = format!("{place} does not provide the durability `{}`", durability.name());
    Err(StoreError::usage(what)
        .detail(short)
        .next(format!("Ask for durability `as-configured`, or set appendonly yes and appendfsync {wanted} there.")))
}

/// Describes how durable an acknowledged write is by a server's settings.
pub(crate) fn promise(control: &mut Control) -> Result<String, StoreError> {
    let mut value = |name: &str| config(control, name).map(Option::unwrap_or_default);
    let read = [value("appendonly"), value("appendfsync"), value("no-appendfsync-on-rewrite"), value("save")];
    let [on, fsync, on_rewrite, save] = match read.into_iter().collect::<Result<Vec<_>, _>>() {
        Err(error) if error.kind == StoreErrorKind::Permission => {
            return Ok(
                "Redis may not be asked for its settings (CONFIG GET): nothing says what an acknowledged write \
                       survives."
                    .to_owned(),
            );
        }
        read => <[String; 4]>::try_from(read?).unwrap_or_default(),
    };
    Ok(match (on.as_str(), fsync.as_str(), on_rewrite.as_str(), save.as_str()) {
        ("yes", "always", "no", _) => {
            "Redis syncs its log before it answers: by its settings an acknowledged write survives power loss."
                .to_owned()
        }
        ("yes", "always", ..) => "Redis syncs its log before it answers, but not while it rewrites that \
                                  (no-appendfsync-on-rewrite yes): power loss then takes acknowledged writes."
            .to_owned(),
        ("yes", "everysec", ..) => "Redis syncs its log every second: acknowledged writes of the last second, of two \
                                    while its disk is busy, may be lost."
            .to_owned(),
        ("yes", ..) => "Redis writes its log before it answers and never syncs it (appendfsync no): an acknowledged \
                        write survives the process, not power loss."
            .to_owned(),
        (.., "") => {
            "Redis keeps its data in memory only (no log, no snapshots): every acknowledged write is lost with \
                     the process."
                .to_owned()
        }
        _ => format!(
            "Redis has no log and saves snapshots (save {save}): acknowledged writes since the last one may be lost."
        ),
    })
}

/// Makes an attached server write everything out and sync it: it has no cheaper way for what is there already.
pub(crate) fn ask_to_write_all(control: &mut Control) -> Result<(), StoreError> {
    until_quiet(control)?;
    let is_on = Info::read(control)?.number("aof_enabled") > 0;
    let (command, status) = match is_on {
        true => ("BGREWRITEAOF", "aof_last_bgrewrite_status"),
        false => ("BGSAVE", "rdb_last_bgsave_status"),
    };
    control.command(&[command.as_bytes()])?;
    match until_quiet(control)?.text(status) {
        "ok" => Ok(()),
        other => Err(StoreError::new(StoreErrorKind::Store, format!("{command} did not end well"))
            .detail(format!("{status}:{other}"))
            .next("Read the server's log.")),
    }
}

/// Waits until no child of the server writes; what INFO says then.
///
/// # Errors
/// `Broken` when the append-only file could not be rewritten twice: the server tries again and again, on a full disk for ever.
pub(crate) fn until_quiet(control: &mut Control) -> Result<Info, StoreError> {
    let mut failed_before = None;
    control.waits().clone().until(LOOK_INTERVAL, "Look for errors of its disk", || {
        let info = Info::read(control)?;
        let failed = info.number("aof_rewrites_consecutive_failures");
        let before: u64 = *failed_before.get_or_insert(failed);
        if info.is_rewriting() && failed > before.max(1) {
            return Err(StoreError::broken("the server cannot write its append-only file")
                .detail(format!("{failed} times in a row, by its INFO"))
                .next("Free some space of its disk, or read its log."));
        }
        let writes = || "the server is still writing its data out".to_owned();
        Ok(if info.is_rewriting() { Err(writes()) } else { Ok(info) })
    })
}

/// Syncs all files and directories under `path`: what the server has written survives power loss then.
pub(crate) fn sync_files(path: &Path) -> io::Result<()> {
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    for entry in fs::read_dir(path).map_err(at)? {
        let entry = entry.map_err(at)?;
        if entry.file_type().map_err(at)?.is_dir() {
            sync_files(&entry.path())?;
            continue;
        }
        match File::open(entry.path()).and_then(|file| file.sync_data()) {
            // A rewrite has replaced it by another.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(at)?,
        }
    }
    File::open(path).and_then(|directory| directory.sync_all()).map_err(at)
}
