//! What tests that were killed have left: directories named after the process that made them, when that is no more.

use std::fs;
use std::path::{Path, PathBuf};

/// Whose tests make directories of their own: `redis-test-4711-x1Y2z3`.
const WHOSE: [&str; 10] = ["cli", "faultfs", "http", "lab", "ldap", "mariadb", "mysql", "postgres", "redis", "tls"];

/// Removes what dead tests have left where tests make their directories; what cannot be removed stays.
pub fn sweep() {
    for base in [PathBuf::from("/var/tmp"), std::env::temp_dir()] {
        for removed in sweep_in(&base) {
            println!("removed {}, which a test that was killed has left", removed.display());
        }
    }
}

/// The same in one directory; what was removed.
fn sweep_in(base: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let owner = entry.file_name().to_str().and_then(owner);
        is_directory && owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    });
    left.map(|entry| entry.path())
        .filter(|path| !is_worked_in(path))
        .filter(|path| fs::remove_dir_all(path).is_ok())
        .collect()
}

/// The process that made the directory `name`; `None` when no test did.
fn owner(name: &str) -> Option<u32> {
    let (whose, rest) = name.split_once("-test-")?;
    let (pid, _) = rest.split_once('-')?;
    WHOSE.contains(&whose).then(|| pid.parse().ok())?
}

/// Whether some process has its working directory there: a server whose supervisor is about to end it.
fn is_worked_in(path: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok()).any(|cwd| cwd.starts_with(path))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_what_dead_tests_made_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let (dead, alive) = (ended.id(), std::process::id());
        let make = |name: String| {
            let path = base.path().join(name);
            fs::create_dir_all(path.join("data")).unwrap();
            path
        };
        let left = make(format!("redis-test-{dead}-aB3dE6"));
        let kept = [
            make(format!("redis-test-{alive}-aB3dE6")),
            make(format!("other-test-{dead}-aB3dE6")),
            make(format!("redis-{dead}-aB3dE6")),
            make("postgres-test-aB3dE6".to_owned()),
        ];
        let busy = make(format!("lab-test-{dead}-aB3dE6"));
        let mut server = Command::new("sleep").arg("60").current_dir(busy.join("data")).spawn().unwrap();
        assert_eq!(sweep_in(base.path()), [left]);
        assert!(kept.iter().chain([&busy]).all(|path| path.exists()));
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(sweep_in(base.path()), [busy]);
    }
}
