//! Labels of a plan name stores in reports. No directory is named by one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use plimsoll_core::{Catalogue, OpenOptions, Store, StoreError, StoreKind, StoreSpec};
use plimsoll_drive::RealTime;
use plimsoll_trial::{RunSpec, Sink, Told};

use crate::bench::Place;

/// Files that stores make in their directories, and one that none makes.
const FILES: [&str; 5] = ["store.sqlite", "store.sqlite-wal", "fjall/0.jnl", "disk/kept", "notes.txt"];
const TEXT: &str = "of a user";
/// Workloads of which every store takes one, with what a drive of it needs.
const ASKED: [(&str, &str); 4] =
    [("kv", ""), ("http", ""), ("oltp", "mix = { point_select = 1 }\n"), ("ldap", "mix = { search = 1 }\n")];

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

/// A store of this build that is never opened: notes the directory that it is given, and fails.
struct Noted {
    kind: Box<dyn StoreKind>,
    given: Arc<Mutex<Vec<PathBuf>>>,
}

impl StoreKind for Noted {
    fn spec(&self) -> &StoreSpec {
        self.kind.spec()
    }

    fn open(&self, options: OpenOptions, _: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let given = options.target.data_dir()?;
        assert_eq!(mode_of(given), 0o711);
        assert_eq!(fs::read_dir(given).unwrap().count(), 0, "{} is not empty", given.display());
        self.given.lock().unwrap().push(given.to_owned());
        Err(StoreError::usage("it is not to be opened"))
    }
}

struct Nobody;

impl Sink for Nobody {
    fn take(&self, _: &Told) {}
}

#[test]
fn every_store_gets_a_new_directory_with_a_number_whatever_its_label_and_wherever_data_goes() {
    let place = Place::new();
    let (absolute, beside) = (Canary::new(place.path().join("mine")), Canary::new(place.runs().join("x")));
    let (of_plan, above) = (Canary::new(place.path().join("data")), Canary::new(place.path().join("x")));
    let given = Arc::<Mutex<Vec<PathBuf>>>::default();
    let noted = |kind| Box::new(Noted { kind, given: Arc::clone(&given) }) as Box<dyn StoreKind>;
    let catalogue = Catalogue {
        labs: Vec::new(),
        stores: plimsoll_stores::kinds().into_iter().map(noted).collect(),
        workloads: plimsoll_workload::all(),
        samplers: plimsoll_sample::specs(),
    };
    let names: Vec<&str> = catalogue.stores.iter().map(|kind| kind.spec().name).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let labels = [absolute.0.to_str().unwrap(), "..", "../../x"];
        let cases = labels.map(|label| (label, None)).into_iter().chain([("../../x", Some(&of_plan.0))]);
        for (label, dir) in cases {
            let when = format!("{name} as {label} in {dir:?}");
            let text = |(workload, mix)| {
                let dir = dir.map_or(String::new(), |dir| format!("dir = {dir:?}\n"));
                format!(
                    "{dir}samplers = []\nstores = [{{ store = {name:?}, as = {label:?} }}]\nworkload = {{ name = {workload:?} }}\n\
                     [[phase]]\ndo = \"drive\"\nops = 1\n{mix}"
                )
            };
            let parse = |asked| plimsoll_plan::parse("p", &text(asked), &catalogue, &Default::default());
            let plan = ASKED.into_iter().find_map(|asked| parse(asked).ok()).expect(&when);
            assert_eq!(plan.trials[0].store.label, label);
            let (runs_dir, stop) = (place.runs(), Arc::default());
            let spec = RunSpec::new(&runs_dir, &stop, &RealTime);
            let ended = plimsoll_trial::run(&plan, &catalogue, &spec, &Nobody).expect(&when);
            assert_eq!(ended.result.unwrap_err().what, "it is not to be opened", "{when}");
            let (given, run) = (given.lock().unwrap().pop().expect(&when), ended.recording.parent().unwrap());
            let of_run = format!("plimsoll-data-{}", run.file_name().unwrap().display());
            let data = dir.map_or(run.join("data"), |dir| dir.join(of_run));
            assert_eq!(given, data.join("1"), "{when}");
            assert!(data.symlink_metadata().is_err(), "{when}: nothing is left");
            assert!(run.join("data").symlink_metadata().is_err(), "{when}: nothing is left");
            [&absolute, &beside, &of_plan, &above].iter().for_each(|canary| canary.is_whole(&when));
        }
    }
}
