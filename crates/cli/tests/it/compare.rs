//! `plimsoll compare`, and the forms of a report that other programs read.

use crate::bench::{Place, small_coupons};

#[test]
fn a_condition_that_is_none_is_drawn_before_anything_is_read() {
    let place = Place::new();
    place
        .run(&["compare", "a", "b", "--fail-if", "p99 > fast"])
        .expect(2)
        .says("`p99 > fast` is not a condition")
        .says("      ^")
        .says("'p99 > +5%'");
    place.run(&["compare", "a", "b", "--noise-floor", "some"]).expect(2).says("no percentage");
    place.run(&["compare", "latest", "latest"]).expect(10);
}

#[test]
fn two_runs_are_compared_by_beginning_and_path_with_an_exit_code() {
    let place = Place::new();
    let plan = place.plan(&small_coupons(r#"["sqlite"]"#, 200, 1));
    place.run(&["run", &plan, "--quiet"]).expect(0);
    place.run(&["run", &plan, "--quiet", "--seed", "9"]).expect(0);
    let runs = place.all_runs();
    let (a, b) = (runs[0].join("run.sqlite"), runs[1].file_name().unwrap().to_str().unwrap().to_owned());
    let a = a.to_str().unwrap();
    let text = place.run(&["compare", a, &b]).expect(0).says("Configured differently").says("seed").says("mixed");
    assert!(text.out.contains("95 % interval"));
    let junit = place.path().join("compare.xml");
    let never =
        ["compare", a, "latest", "--fail-if", "p50 > 0ms", "--junit", junit.to_str().unwrap(), "--format", "md"];
    place.run(&never).expect(1).says("### ❌");
    assert!(std::fs::read_to_string(&junit).unwrap().contains("<failure"));
    place
        .run(&["compare", a, "latest", "--fail-if", "rate < -99.99%", "--format", "json"])
        .expect(0)
        .says("\"groups\"");
    place
        .run(&["compare", a, "latest", "--fail-if", "p12 > +5%"])
        .expect(2)
        .says("matches no number")
        .says("mixed.p50");
    let unit = place.run(&["compare", a, "latest", "--fail-if", "p50 > 5"]).expect(2).says("has no unit");
    assert!(unit.err.contains("→ p50 is a time: 20ms"), "{unit:?}");
    place.run(&["compare", "latest", &b]).expect(2).says("are the same run").says("plimsoll runs");
    place.run(&["report", a, "--format", "csv"]).expect(0).says("trial,store,phase");
    place.run(&["report", a, "--format", "hdr"]).expect(0).says("#[Histogram log format version 1.3]").says("HIST");
    place.run(&["report", a, "--format", "md"]).expect(0).says("✅ pass");
}
