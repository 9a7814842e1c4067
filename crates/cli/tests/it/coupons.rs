//! The coupon study, in small, on every store.

use std::os::unix::fs::PermissionsExt;

use crate::bench::{Place, small_coupons};

#[test]
fn the_study_ends_with_a_right_answer_a_recording_and_a_page() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["sqlite", "fjall"]"#, 5_000, 2));
    let ran = place.run(&["run", &plan]).expect(0).says("1.91").says("fjall has no native index");
    let run = place.only_run();
    for file in ["run.sqlite", "report.html"] {
        let path = run.join(file);
        assert!(ran.out.contains(path.to_str().unwrap()) || file == "run.sqlite", "{}", ran.out);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
    assert!(!run.join("data").exists(), "the stores' data was left behind");
}

#[test]
fn the_study_runs_on_a_private_postgresql() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["sqlite"]"#, 5_000, 2));
    place.run(&["run", &plan, "--on", "postgres"]).expect(0).says("PostgreSQL");
    assert!(!place.only_run().join("data").exists());
}

#[test]
fn all_reports_are_the_same_when_only_the_recording_is_left() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["fjall"]"#, 2_000, 1));
    place.run(&["run", &plan]).expect(0);
    let run = place.only_run();
    let reports = |recording: &str, elsewhere: &Place| {
        ["html", "text", "json"]
            .map(|format| elsewhere.run(&["report", recording, "--format", format, "--output", "-"]).expect(0).out)
    };
    let before = reports("latest", &place);
    let elsewhere = Place::new();
    let copy = elsewhere.path().join("copy.sqlite");
    std::fs::copy(run.join("run.sqlite"), &copy).unwrap();
    std::fs::remove_dir_all(&run).unwrap();
    let after = reports(copy.to_str().unwrap(), &elsewhere);
    assert_eq!(before, after);
    assert!(before[0].contains("Coupons in small") && before[1].contains("Coupons in small"));
}

#[test]
fn runs_are_listed_shown_and_removed() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["fjall"]"#, 1_000, 1));
    place.run(&["run", &plan]).expect(0);
    let id = place.only_run().file_name().unwrap().to_str().unwrap().to_owned();
    let listed = place.run(&["runs"]).expect(0).out;
    assert!(listed.lines().any(|line| line.trim_start().starts_with(&id)), "{listed}");
    place.run(&["runs", "show", &id[..15]]).expect(0).says("Coupons in small");
    place.run(&["runs", "remove", &id]).expect(0);
    assert!(place.all_runs().is_empty());
    place.run(&["runs", "show", &id]).expect(10).says("plimsoll runs");
}

#[test]
fn a_missed_goal_ends_with_exit_code_1_and_says_which() {
    let place = Place::new();
    let plan = small_coupons(r#"["fjall"]"#, 1_000, 1).replace("lost = 0", "p50 = \"1ns\"\nlost = 0");
    place.run(&["run", &place.plan(&plan)]).expect(1).says("FAIL").says("median response time was").says("MISSED");
}
