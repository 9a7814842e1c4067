use std::path::Path;

use plimsoll_sample::environment::{FileSystem, clock_source, file_system, load_average};

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
