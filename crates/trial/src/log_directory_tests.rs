use std::fs::{self, File};
use std::time::SystemTime;

use super::*;

fn write(place: &Path, name: &str, age: Duration) -> PathBuf {
    let path = place.join(name);
    fs::write(&path, "line\n").unwrap();
    let file = File::options().append(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
    path
}

const MINUTE: Duration = Duration::from_secs(60);

/// Looks for a file that continues `file`, however short the time since the last look is.
fn appeared(directory: &mut LogDirectory, file: &Path) -> Option<PathBuf> {
    directory.looked = directory.looked.checked_sub(LOOK).unwrap();
    directory.appeared(file)
}

#[test]
fn a_directory_is_followed_in_the_file_that_was_written_last_and_is_not_compressed() {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "b.log", 2 * MINUTE);
    let newest = write(place.path(), "a.log", MINUTE);
    for packed in ["c.log.gz", "c.log.xz", "c.log.bz2", "c.log.zst"] {
        write(place.path(), packed, Duration::ZERO);
    }
    write(place.path(), ".hidden", Duration::ZERO);
    assert_eq!(LogDirectory::open(place.path()).unwrap().1, newest);
    fs::remove_file(&newest).unwrap();
    fs::remove_file(place.path().join("b.log")).unwrap();
    let error = LogDirectory::open(place.path()).err().unwrap();
    assert!(error.what.ends_with("all files in this directory are compressed"), "{error:?}");
    assert!(error.next.unwrap().contains("leave --follow out"));
}

#[test]
fn a_log_goes_on_in_new_files_of_its_extension_one_after_the_other() {
    let place = tempfile::tempdir().unwrap();
    let first = write(place.path(), "1.csv", MINUTE);
    let mut directory = LogDirectory::open(place.path()).unwrap().0;
    assert_eq!(appeared(&mut directory, &first), None);
    // Renamed, it is no other file.
    fs::rename(&first, place.path().join("0.csv")).unwrap();
    write(place.path(), "2.log", Duration::ZERO);
    assert_eq!(appeared(&mut directory, &first), None);
    let [third, second] = ["3.csv", "2.csv"].map(|name| write(place.path(), name, Duration::ZERO));
    directory.looked = Instant::now();
    assert_eq!(directory.appeared(&first), None, "it was looked at just now");
    assert_eq!(appeared(&mut directory, &first), Some(second.clone()));
    assert_eq!(appeared(&mut directory, &second), Some(third.clone()));
    assert_eq!(appeared(&mut directory, &third), None);
    // While a directory cannot be read there is nothing in it.
    drop(place);
    assert_eq!(appeared(&mut directory, &third), None);
}
