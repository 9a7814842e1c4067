use super::*;

const ID: &str = "20261130-081500-00ab";

/// Directory of recordings with a run, and another one for data.
struct Places {
    runs: tempfile::TempDir,
    disk: tempfile::TempDir,
}

impl Places {
    fn new() -> Self {
        let [runs, disk] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::create_dir(runs.path().join(ID)).unwrap();
        Self { runs, disk }
    }

    fn run(&self) -> PathBuf {
        self.runs.path().join(ID)
    }

    /// Place of the data on the other disk.
    fn place(&self) -> PathBuf {
        self.disk.path().canonicalize().unwrap().join(format!("plimsoll-data-{ID}"))
    }

    fn make(&self) -> RunData {
        RunData::make(&self.run(), self.disk.path().to_str()).unwrap()
    }

    /// Returns the places on the other disk that killed runs have left.
    fn left(&self) -> Vec<PathBuf> {
        left_in(self.disk.path()).into_iter().map(|(place, _)| place).collect()
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn data_elsewhere_are_found_by_a_link_and_removed_with_it() {
    let places = Places::new();
    let data = places.make();
    assert_eq!(data_elsewhere(&places.run()), Some(places.place()));
    assert_eq!((mode(&places.place()), run_of(&places.place()).as_str()), (0o711, ID));
    fs::write(places.place().join("file"), "x").unwrap();
    data.remove().unwrap();
    assert!(!places.place().exists() && !places.run().join("data").is_symlink());
    assert!(places.disk.path().exists() && places.run().exists());
    // Without a directory in the plan nothing is made before a store needs it.
    let data = RunData::make(&places.run(), None).unwrap();
    assert!(!places.run().join("data").exists());
    data.remove().unwrap();
}

#[test]
fn data_elsewhere_are_removed_also_if_the_user_has_removed_the_run() {
    let places = Places::new();
    let data = places.make();
    fs::remove_dir_all(places.run()).unwrap();
    data.remove().unwrap();
    assert!(!places.place().exists());
}

#[test]
fn only_data_of_runs_that_were_killed_are_left() {
    let places = Places::new();
    let data = places.make();
    for other in ["plimsoll-data-of-mine", "plimsoll-data-20261130-081500-00ac", "mine"] {
        fs::create_dir(places.disk.path().join(other)).unwrap();
    }
    fs::write(places.disk.path().join("mine/lock"), "").unwrap();
    fs::write(places.disk.path().join("plimsoll-data-of-mine/lock"), "").unwrap();
    assert_eq!(places.left(), Vec::<PathBuf>::new(), "the run goes on; the others have no lock or no id");
    // As if it was killed.
    drop(data);
    assert_eq!(places.left(), [places.disk.path().join(format!("plimsoll-data-{ID}"))]);
    let link = places.disk.path().join("plimsoll-data-20261130-081500-00ad");
    std::os::unix::fs::symlink(places.place(), &link).unwrap();
    assert_eq!(places.left().len(), 1, "a link is not followed");
}

#[test]
fn a_link_that_the_run_did_not_make_leads_to_nothing_that_is_removed() {
    let places = Places::new();
    fs::write(places.disk.path().join("file"), "mine").unwrap();
    std::os::unix::fs::symlink(places.disk.path(), places.run().join("data")).unwrap();
    assert_eq!(data_elsewhere(&places.run()), None);
    remove(&places.run()).unwrap();
    assert_eq!(fs::read_to_string(places.disk.path().join("file")).unwrap(), "mine");
}

#[test]
fn data_on_a_disk_that_is_away_stay_to_be_found() {
    let places = Places::new();
    let data = places.make();
    let (disk, away) = (places.disk.path().to_owned(), places.runs.path().join("away"));
    fs::rename(&disk, &away).unwrap();
    assert!(data.remove().is_err());
    assert!(places.run().join("data").is_symlink(), "the next start finds it");
    fs::rename(&away, &disk).unwrap();
    remove(&places.run()).unwrap();
    assert!(!places.place().exists() && !places.run().join("data").is_symlink());
}

#[test]
fn a_place_that_cannot_be_made_is_an_error_that_leaves_nothing() {
    let places = Places::new();
    let error = RunData::make(&places.run(), Some("/nonexistent")).unwrap_err();
    assert!(error.next.unwrap().contains("name a directory that can be written to"));
    fs::create_dir(places.place()).unwrap();
    let error = RunData::make(&places.run(), places.disk.path().to_str()).unwrap_err();
    assert!(error.to_string().contains("cannot make a directory in "), "{error}");
    assert!(places.place().exists() && !places.run().join("data").is_symlink(), "it did not make that directory");
}

#[test]
fn a_store_has_the_first_free_number_and_removes_its_own_directory() {
    let places = Places::new();
    let data = places.run().join("data");
    fs::create_dir_all(data.join("1")).unwrap();
    let [two, three] = [(); 2].map(|()| StoreDir::make(&data, false).unwrap());
    let number = |store: &StoreDir| store.path().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!((number(&two), number(&three), mode(two.path())), ("2".to_owned(), "3".to_owned(), 0o711));
    fs::write(two.path().join("file"), "x").unwrap();
    drop(two);
    assert!(!data.join("2").exists() && data.join("1").exists() && data.join("3").exists());
    assert_eq!(number(&StoreDir::make(&data, false).unwrap()), "2");
    // In place of a link that is gone nothing is made: the data would be on another disk.
    let gone = places.runs.path().join("gone");
    assert!(StoreDir::make(&gone, true).is_err() && !gone.exists());
}
