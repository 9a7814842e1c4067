//! `plimsoll compare`, and the forms of a report that other programs read.

use crate::bench::{Place, small_coupons};

#[test]
fn a_condition_that_is_none_is_drawn_before_anything_is_read() {
    let place = Place::new();
    place.refuses(&[
        ("compare a b --fail-if p99\u{a0}>\u{a0}fast", "`p99 > fast` is not a condition …       ^ … 'p99 > +5%'"),
        ("compare a b --noise-floor some", "no percentage"),
    ]);
    place.run(&["compare", "latest", "latest"]).expect(10);
}

#[test]
fn parameters_that_differ_have_their_units() {
    let place = Place::new();
    for cache in ["8MiB", "16MiB"] {
        place.line(&format!("drive kv:c --on fjall --set fjall.cache={cache} --set records=10 --ops 5 -q")).expect(0);
    }
    let first = place.all_runs()[0].join("run.sqlite");
    place.line(&format!("compare {} latest", first.display())).expect(0).says("fjall.cache 8MiB 16MiB");
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
    let compare = |options: &str| place.line(&format!("compare {a} {options}"));
    compare(&b).expect(0).says("Configured differently … seed … mixed … 95 % interval");
    let junit = place.path().join("compare.xml");
    let never = format!("latest --fail-if p50\u{a0}>\u{a0}0ms --junit {} --format md", junit.display());
    compare(&never).expect(1).says("### ❌");
    assert!(std::fs::read_to_string(&junit).unwrap().contains("<failure"));
    compare("latest --fail-if rate\u{a0}<\u{a0}-99.99% --format json").expect(0).says("\"groups\"");
    compare("latest --fail-if p12\u{a0}>\u{a0}+5%").expect(2).says("matches no number … mixed.p50");
    let of_type = compare("latest --fail-if p50[op=delete]\u{a0}>\u{a0}+5%").expect(2);
    of_type.says("mixed.p50 … times of one operation type are written mean[op=");
    compare("latest --fail-if p50\u{a0}>\u{a0}5").expect(2).says("has no unit … → p50 is a time: 20ms");
    place.run(&["compare", "latest", &b]).expect(2).says("are the same run … plimsoll runs");
    let (before, link) = (std::fs::read(a).unwrap(), place.path().join("link"));
    std::fs::hard_link(a, &link).unwrap();
    for output in ["-o", "--junit"] {
        compare(&format!("latest {output} {}", link.display())).expect(2).says("is a recording, or a part of one");
    }
    compare("latest -o same --junit ./same").expect(2).says("--junit ./same is also the file of --output");
    place.run(&["report", a, "-o", a]).expect(2).says("is a recording, or a part of one … name another file");
    assert_eq!(std::fs::read(a).unwrap(), before);
    for (format, words) in
        [("csv", "trial,store,phase"), ("hdr", "#[Histogram log format version 1.3] … HIST"), ("md", "✅ pass")]
    {
        place.run(&["report", a, "--format", format]).expect(0).says(words);
    }
    place.line("drive kv:c --on fjall --set records=10 --ops 5 -q").expect(0);
    compare("latest").expect(11).says("UNDECIDED … is only in B … the runs have no number in common");
}
