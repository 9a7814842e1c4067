//! Labels of a plan name stores in reports. No directory is named by one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::bench::Place;

/// Files that stores make in their directories, and one that none makes.
const FILES: [&str; 5] = ["store.sqlite", "store.sqlite-wal", "fjall/0.jnl", "disk/kept", "notes.txt"];
const TEXT: &str = "of a user";

/// A directory of a user, whose files and modes must not change.
struct Canary(PathBuf);

impl Canary {
    fn new(path: PathBuf) -> Self {
        for file in FILES.map(|file| path.join(file)) {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, TEXT).unwrap();
        }
        fs::set_permissions(&path, Permissions::from_mode(0o1777)).unwrap();
        Self(path)
    }

    #[track_caller]
    fn is_whole(&self, when: &str) {
        let (path, mode) = (self.0.display(), mode_of(&self.0));
        assert_eq!(mode, 0o1777, "{when}: the mode of {path} is {mode:o}");
        for file in FILES {
            assert_eq!(fs::read_to_string(self.0.join(file)).ok().as_deref(), Some(TEXT), "{when}: {path}/{file}");
        }
        // The three files at its top, and two directories.
        assert_eq!(fs::read_dir(&self.0).unwrap().count(), 5, "{when}: {path} has something new");
    }
}

fn mode_of(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_label_that_is_a_path_leaves_that_directory_as_it_is_wherever_data_goes() {
    let place = Place::new();
    let absolute = Canary::new(place.path().join("mine"));
    let beside = Canary::new(place.runs().join("x"));
    let (of_plan, above) = (Canary::new(place.path().join("data")), Canary::new(place.path().join("x")));
    let cases = [absolute.0.to_str().unwrap(), "..", "../../x", "."].map(|label| ("sqlite", label, String::new()));
    let elsewhere = format!("dir = {:?}\n", of_plan.0);
    let more = ["sqlite", "fjall", "redis"].map(|store| (store, "../../x", elsewhere.clone()));
    for (store, label, dir) in cases.into_iter().chain(more) {
        let plan = format!(
            "{dir}stores = [{{ store = {store:?}, as = {label:?} }}]\nworkload = {{ name = \"kv\", records = 20 }}\n\
             [[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nops = 20\n[[phase]]\ndo = \"check\"\n"
        );
        place.run(&["run", &place.plan(&plan)]).expect(0).says("PASS").says(label);
        for canary in [&absolute, &beside, &of_plan, &above] {
            canary.is_whole(&format!("{store} as {label} in {dir}"));
        }
    }
    let runs = place.all_runs().into_iter().filter(|run| *run != beside.0).collect::<Vec<_>>();
    assert_eq!(runs.len(), 7);
    for run in runs {
        assert_eq!(mode_of(&run), 0o700, "{}", run.display());
        let data = run.join("data").symlink_metadata();
        assert!(run.join("run.sqlite").exists() && data.is_err(), "{}", run.display());
    }
}
