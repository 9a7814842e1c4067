//! Disks that fail, rot or lie under a driven store: what the store says, and who notices.

use plimsoll_record::data::{EventClass, Run};
use serde_json::Value;

use crate::bench::Place;
use crate::lab::counts;

/// A plan that loads and updates, has the disk do something wrong, and goes on as `then` says.
fn plan(place: &Place, store: &str, fault: &str, then: &str) -> String {
    // A store on a busy machine needs time to notice an error.
    let length = if fault.starts_with("eio") { "2500ms" } else { "1s" };
    place.plan(&format!(
        "stores = [{store}]\n[workload]\nname = \"kv\"\nrecords = 2000\nfield_length = 100\n\
         [[phase]]\ndo = \"load\"\ndurability = \"as-configured\"\n[[phase]]\ndo = \"settle\"\n\
         [[phase]]\ndo = \"drive\"\nclients = 4\nfor = \"{length}\"\nmix = {{ update = 1 }}\ndurability = \"durable\"\n\
         op_timeout = \"5s\"\nfault = \"disk {fault}\"\n{then}"
    ))
}

/// Runs a plan and returns its report of the disk that failed.
#[track_caller]
fn fault(place: &Place, plan: &str, codes: &[i32]) -> Value {
    let ran = place.run(&["run", plan, "--json", "--quiet"]);
    assert!(ran.code.is_some_and(|code| codes.contains(&code)), "exit {:?}: {}", ran.code, ran.err);
    let report = ran.last_json();
    assert_eq!(report["report"]["disk_faults"].as_array().map(Vec::len), Some(1), "{report}");
    report["report"]["disk_faults"][0].clone()
}

const POWER_AND_CHECK: &str = "[[phase]]\ndo = \"power\"\n[[phase]]\ndo = \"check\"\n";

#[test]
fn what_was_acknowledged_before_flushes_failed_is_there_when_the_disk_works_again() {
    for store in ["sqlite", "postgres"] {
        let place = Place::new();
        let wrong = "eio flush always at 400ms";
        let store = format!("{{ store = \"{store}\", disk = \"ext4\" }}");
        let found = fault(&place, &plan(&place, &store, wrong, POWER_AND_CHECK), &[0]);
        assert_eq!(found["faults"], serde_json::json!(["eio flush always"]), "{found}");
        assert!(found["noticed"].as_array().unwrap().contains(&"store".into()), "{found}");
        assert!(found["errors"].as_u64().unwrap() > 0, "{found}");
        assert_eq!((&found["lost"], &found["damaged"]), (&0.into(), &0.into()), "{found}");
    }
}

#[test]
fn a_server_that_rightly_ends_and_cannot_start_on_a_broken_disk_has_lost_nothing_that_is_known() {
    let place = Place::new();
    let wrong = "eio write always at 400ms";
    // It writes when it starts.
    let store = "{ store = \"etcd\", disk = \"ext4\" }";
    let plan = plan(&place, store, wrong, "[[phase]]\ndo = \"check\"\n[goals]\nlost = 0\nwrong = 0\n");
    let ran = place.run(&["run", &plan, "--json", "--quiet"]).expect(11);
    let report = &ran.last_json()["report"];
    let (ledger, found) = (&report["trials"][0]["ledgers"][0], &report["disk_faults"][0]);
    let known = (&ledger["lost"], &found["lost"], &found["damaged"]);
    assert_eq!(known, (&Value::Null, &Value::Null, &Value::Null), "{found}");
    assert!(found["said"].to_string().contains("it did not start again after its disk had failed"), "{found}");
    let sentence = report["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("acknowledged writes is not known: it did not start again"), "{sentence}");
    place.line("runs").expect(0).says("complete, losses not known");
}

#[test]
fn a_fault_of_a_disk_that_no_request_met_ends_the_run_and_names_the_request() {
    let place = Place::new();
    // Reads flush nothing, and a directory of files has no journal that would.
    let fault = "disk eio flush once at 300ms for 300ms";
    let plan = place.plan(&format!(
        "stores = [{{ store = \"sqlite\", disk = \"files\" }}]\n[workload]\nname = \"kv\"\nrecords = 200\n\
         [[phase]]\ndo = \"load\"\ndurability = \"as-configured\"\n[[phase]]\ndo = \"settle\"\n\
         [[phase]]\ndo = \"drive\"\nclients = 2\nfor = \"1s\"\nmix = {{ read = 1 }}\nfault = \"{fault}\"\n"
    ));
    let ran = place.run(&["run", &plan, "--quiet"]).expect(2);
    let words = "it did not take effect: no flush came to the disk during the fault";
    ran.says(&format!("{fault}: {words} … choose a load that needs the disk"));
    let run = Run::load(&place.only_run()).unwrap();
    let spans: Vec<_> = run.faults().collect();
    let [span] = spans[..] else { panic!("{spans:?}") };
    assert_eq!((span.taken_ns, span.healed_ns.is_some(), span.error.as_deref()), (None, true, Some(words)));
}

#[test]
fn a_full_disk_is_a_file_system_without_room_until_it_is_healed() {
    let place = Place::new();
    // Inserts make the log and the database longer.
    let plan = place.plan(
        "stores = [{ store = \"sqlite\", disk = \"ext4\" }]\n\
         [workload]\nname = \"kv\"\nrecords = 100\nfield_length = 500\n\
         [[phase]]\ndo = \"load\"\ndurability = \"as-configured\"\n[[phase]]\ndo = \"settle\"\n\
         [[phase]]\ndo = \"drive\"\nclients = 4\nfor = \"5s\"\nmix = { insert = 1 }\ndurability = \"durable\"\n\
         fault = \"disk full at 500ms for 2s\"\n[[phase]]\ndo = \"check\"\n[goals]\nlost = 0\nwrong = 0\n",
    );
    let found = fault(&place, &plan, &[0]);
    assert_eq!((&found["lost"], &found["damaged"]), (&0.into(), &0.into()), "{found}");
    let run = Run::load(&place.only_run()).unwrap();
    let spans: Vec<_> = run.faults().collect();
    let [span] = spans[..] else { panic!("{spans:?}") };
    let healed_ns = span.healed_ns.unwrap();
    let errors: Vec<_> = run.events.iter().filter(|event| event.class == EventClass::ErrorCode).collect();
    // A device that refuses writes would fail flushes, and end the file system's journal.
    assert!(errors.iter().all(|error| !error.subject.starts_with("SQLITE_IOERR")), "{errors:?}");
    let full = errors.iter().find(|error| error.subject == "SQLITE_FULL").unwrap_or_else(|| panic!("{errors:?}"));
    // Beside other tests, a worker may be late with the last errors.
    let is_during = full.from_ns >= span.begun_ns && full.until_ns < healed_ns + 1_500_000_000;
    assert!(is_during, "{full:?} {span:?}");
}

#[test]
fn a_cluster_goes_on_while_flushes_of_one_nodes_disk_are_slow() {
    let place = Place::new();
    // Until the end of the trial: each write that waits for this disk takes half a second.
    let plan = place.plan(
        "stores = [{ store = \"etcd\", nodes = 3, disk = \"ext4\" }]\n[workload]\nname = \"kv\"\nrecords = 200\n\
         [[phase]]\ndo = \"load\"\ndurability = \"as-configured\"\n[[phase]]\ndo = \"settle\"\n\
         [[phase]]\ndo = \"drive\"\nclients = 6\nfor = \"8s\"\nmix = { update = 1 }\ndurability = \"durable\"\n\
         fault = \"disk replica delay flush 500000 0 1 at 0s\"\n[[phase]]\ndo = \"check\"\n",
    );
    let found = fault(&place, &plan, &[0]);
    let named = found["faults"][0].as_str().unwrap();
    let node = named.strip_prefix("delay flush 500000 0 1 of ").and_then(|node| node.strip_suffix(", a replica"));
    let node = node.unwrap_or_else(|| panic!("{found}"));
    assert_eq!((&found["lost"], &found["damaged"]), (&0.into(), &0.into()), "{found}");
    // Two clients of each node.
    let counts = counts(&place);
    let (of_slow, of_others): (Vec<_>, Vec<_>) = counts.iter().partition(|(name, _)| name.ends_with(node));
    assert_eq!((of_slow.len(), of_others.len()), (1, 2), "{counts:?}");
    assert!(of_others.iter().all(|(_, count)| *count > 100 && *count > 2 * of_slow[0].1), "{node}: {counts:?}");
}

#[test]
fn postgresql_notices_by_its_checksums_that_bits_have_flipped() {
    let place = Place::new();
    let store = "{ store = \"postgres\", disk = \"ext4\", shared_buffers = \"1MiB\", data_checksums = true }";
    let wrong = "bit-rot 3 0.01 at 700ms";
    let then = "[[phase]]\ndo = \"cold\"\n[[phase]]\ndo = \"drive\"\nname = \"read\"\nclients = 4\nfor = \"1s\"\n\
        mix = { read = 1 }\n[[phase]]\ndo = \"check\"\n";
    // Where bits flip is chance: with a catalog's page among them the server refuses to start, and nothing is known.
    let found = fault(&place, &plan(&place, store, wrong, then), &[1, 11]);
    let noticed = found["noticed"].as_array().unwrap();
    assert!(noticed.contains(&"store".into()), "{found}");
    // Reads that it refuses leave the check incomplete, so that damage is not known.
    assert_eq!((&found["wrong_answers"], found["damaged"].as_u64().unwrap_or(0)), (&0.into(), 0), "{found}");
}
