//! The coupon study, in small, on every store.

use std::os::unix::fs::PermissionsExt;

use crate::bench::{Place, small_coupons};

#[test]
fn the_study_ends_with_a_right_answer_a_recording_and_a_page_and_is_listed_shown_and_removed() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["sqlite", "fjall"]"#, 1_000, 1));
    let ran = place.run(&["run", &plan, "--full"]).expect(0).says("1.91 … fjall has no native index");
    let run = place.only_run();
    for file in ["run.sqlite", "report.html"] {
        let path = run.join(file);
        assert!(ran.out.contains(path.to_str().unwrap()) || file == "run.sqlite", "{}", ran.out);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
    assert!(!run.join("data").exists(), "the stores' data was left behind");
    let id = run.file_name().unwrap().to_str().unwrap().to_owned();
    let listed = place.line("runs").expect(0).out;
    assert!(listed.lines().any(|line| line.trim_start().starts_with(&id)), "{listed}");
    place.run(&["runs", "show", &id[..15]]).expect(0).says("Coupons in small");

    let reports = |recording: &str, elsewhere: &Place| {
        ["html", "text", "json"]
            .map(|format| elsewhere.run(&["report", recording, "--format", format, "--output", "-"]).expect(0).out)
    };
    let before = reports("latest", &place);
    let elsewhere = Place::new();
    let copy = elsewhere.path().join("copy.sqlite");
    std::fs::copy(run.join("run.sqlite"), &copy).unwrap();
    place.run(&["runs", "remove", &id]).expect(0);
    assert!(place.all_runs().is_empty());
    place.run(&["runs", "show", &id]).expect(10).says("plimsoll runs");
    assert_eq!(before, reports(copy.to_str().unwrap(), &elsewhere), "the recording alone suffices");
    assert!(before[0].contains("Coupons in small") && before[1].contains("Coupons in small"));
}

#[test]
fn the_study_runs_on_a_private_postgresql_and_a_missed_goal_is_said() {
    let place = Place::new();
    let plan = small_coupons(r#"["sqlite"]"#, 500, 1).replace("lost = 0", "p50 = \"1ns\"\nlost = 0");
    // As many operations as a median needs, however busy the machine is.
    let plan = plan.replace("for = \"1s\"", "ops = 50");
    let ran = place.run(&["run", &place.plan(&plan), "--on", "postgres"]).expect(1);
    let ran = ran.says("PostgreSQL … FAIL … missed goal p50 ≤ 1.00 ns … median response time was … MISSED");
    assert!(ran.out.lines().count() <= 40, "{}", ran.out);
    assert!(!place.only_run().join("data").exists());
}
