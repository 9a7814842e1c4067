use std::path::Path;

use plimsoll_core::sampler::{HALT_POLL_NS, HALTPOLL, IDLE_DRIVER};
use plimsoll_sample::environment::{FileSystem, clock_source, file_system, idle, load_average};

#[test]
fn the_facts_of_this_host_are_told_once_each_and_are_never_empty() {
    let facts = plimsoll_sample::environment(Path::new("/"));
    for (position, (name, value)) in facts.iter().enumerate() {
        assert!(!value.is_empty() && !value.contains('\n'), "{name}: {value:?}");
        assert!(facts[..position].iter().all(|(other, _)| other != name), "{name} twice");
    }
    for name in ["cores", "memory", "kernel", "clock source", "file system", "load at the start", "virtualisation"] {
        assert!(facts.iter().any(|(found, _)| found == name), "no {name}: {facts:?}");
    }
    assert!(clock_source().is_some() && load_average().is_some());
}

#[test]
fn the_settings_of_idle_processors_are_among_the_facts() {
    let facts = plimsoll_sample::environment(Path::new("/"));
    let fact = |wanted: &str| facts.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    assert_eq!(fact(IDLE_DRIVER), read("/sys/devices/system/cpu/cpuidle/current_driver"));
    // Parameters of a driver that is not in use are no facts.
    let is_used = idle().driver.as_deref() == Some(HALTPOLL);
    let polls = read("/sys/module/haltpoll/parameters/guest_halt_poll_ns").filter(|_| is_used);
    assert_eq!(fact(HALT_POLL_NS), polls);
    assert_eq!((idle().poll_ns.is_some(), idle().poll_start_ns.is_some()), (is_used, is_used));
}

#[test]
fn the_file_system_of_a_path_is_that_of_what_exists_of_it() {
    let place = tempfile::tempdir().unwrap();
    let here: FileSystem = file_system(place.path()).unwrap();
    assert!(here.size_bytes >= here.free_bytes && here.size_bytes > 0, "{here}");
    let named = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(place.path()).output().unwrap();
    let named = String::from_utf8(named.stdout).unwrap();
    // `stat` calls all of ext2, ext3 and ext4 one name.
    assert!(named.starts_with(&here.kind[..3]) || named.starts_with("UNKNOWN"), "{named} {here}");
    let below = file_system(&place.path().join("not/there/yet")).unwrap();
    assert_eq!((below.kind, below.device), (here.kind, here.device));
    assert!(file_system(Path::new("/proc")).unwrap().kind == "proc");
}
