//! Service files and password files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_core::StoreError;
use plimsoll_core::files::text_at_most;

use super::{Environment, parameter, usage};

/// Most bytes of a service file or password file.
const FILE_MAX: u64 = 1 << 20;

/// Paths of the system's service file of Debian and PostgreSQL.
const SYSTEM_SERVICE_FILES: [&str; 2] = ["/etc/postgresql-common/pg_service.conf", "/etc/pg_service.conf"];

/// The parameters of a service, from the first file that has it.
pub(super) fn service(name: &str, environment: &Environment<'_>) -> Result<Vec<(&'static str, String)>, StoreError> {
    let own = environment.get("PGSERVICEFILE").map(PathBuf::from);
    let own = own.or_else(|| Some(environment.home()?.join(".pg_service.conf")));
    let system = environment.get("PGSYSCONFDIR").map(|dir| vec![PathBuf::from(dir).join("pg_service.conf")]);
    let system = system.unwrap_or_else(|| SYSTEM_SERVICE_FILES.map(PathBuf::from).to_vec());
    let files: Vec<PathBuf> = own.into_iter().chain(system).collect();
    for file in &files {
        if let Ok(text) = text_at_most(file, FILE_MAX)
            && let Some(found) = service_in(name, &text, file)?
        {
            return Ok(found);
        }
    }
    let looked: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    Err(usage(
        format!("there is no service `{name}` in {}", looked.join(", ")),
        "Add it there, or set PGSERVICEFILE to the file that has it.",
    ))
}

fn service_in(name: &str, text: &str, file: &Path) -> Result<Option<Vec<(&'static str, String)>>, StoreError> {
    let mut found: Option<Vec<_>> = None;
    let mut inside = false;
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            inside = header.strip_suffix(']') == Some(name) && found.is_none();
            if inside {
                found = Some(Vec::new());
            }
        } else if inside {
            let place = format!("line {number} of {}", file.display());
            let Some((key, value)) = line.split_once('=') else {
                return Err(usage(format!("{place} has no `=`"), "Write it as name=value."));
            };
            let heeded = parameter(key.trim(), value.trim().to_owned(), &place)?;
            if heeded.as_ref().is_some_and(|(key, _)| *key == "service") {
                return Err(usage(format!("{place} names a service inside a service"), "Remove the line."));
            }
            found.get_or_insert_default().extend(heeded);
        }
    }
    Ok(found)
}

/// The password for host, port, database and user, or the reason why the file was not read.
pub(super) fn password(file: &Path, wanted: [&str; 4]) -> Result<Option<String>, String> {
    let Ok(metadata) = fs::metadata(file) else { return Ok(None) };
    if !metadata.is_file() {
        return Err(format!("{} is not a file", file.display()));
    }
    // As libpq: a file that others can read is not used.
    if metadata.mode() & 0o077 != 0 {
        return Err(format!("{} was not used, because others may read it: chmod 600 it", file.display()));
    }
    let text = text_at_most(file, FILE_MAX).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.lines().filter(|line| !line.starts_with('#')).find_map(|line| password_in(line, wanted)))
}

/// The last field of a line whose first four are `*` or what is wanted. A backslash escapes `:` and itself.
fn password_in(line: &str, wanted: [&str; 4]) -> Option<String> {
    let mut fields = vec![String::new()];
    // A `*` that was escaped is a name, not a wildcard.
    let mut escaped = vec![false];
    let mut chars = line.chars();
    while let Some(next) = chars.next() {
        match next {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                escaped.push(false);
            }
            '\\' => {
                fields.last_mut()?.push(chars.next().unwrap_or('\\'));
                *escaped.last_mut()? = true;
            }
            other => fields.last_mut()?.push(other),
        }
    }
    let fits = |at: usize| (fields[at] == "*" && !escaped[at]) || fields[at] == wanted[at];
    (fields.len() == 5 && (0..4).all(fits)).then(|| fields.swap_remove(4))
}
