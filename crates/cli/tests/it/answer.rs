//! A run whose plan has a question begins its reports with the answer.

use crate::bench::Place;

#[test]
fn the_first_line_of_every_report_is_the_answer_to_the_plans_question() {
    let place = Place::new();
    let plan = place.plan(
        r#"
question = "How many operations does a load take?"
stores = ["sqlite"]
[workload]
name = "coupons"
records = 2_000
index = ["none", "own"]
[[phase]]
do = "load"
batch = 100
durability = "at-end"
[[figure]]
name = "operations / 10"
unit = "×"
formula = "load.ops[index=own] / 10"
published = [{ value = 1.26, of = "Riak" }]
[[figure]]
name = "load with an index"
unit = "s"
formula = "load.seconds[index=own]"
[[answer]]
say = "A load takes more than ten operations: {operations / 10}."
only_if = "{operations / 10} > 1"
agree = "direction"
[[answer]]
say = "With an index it takes {load with an index}."
"#,
    );
    let ran = place.run(&["run", &plan]).expect(0);
    let said = |text: &str| {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (first, rest) = words.split_once("; as published: 1.26 × (Riak).").unwrap();
        assert_eq!(first, "A load takes more than ten operations: 2.00 ×", "{text}");
        rest.to_owned()
    };
    let rest = said(&ran.out);
    let noise = "Undecided for sqlite: `load with an index` rests on one load of ";
    assert!(rest.trim_start().starts_with(noise), "{}", ran.out);
    assert!(rest.contains("MEASURED"), "the verdict stands below: {}", ran.out);
    let report = |format: &str| place.run(&["report", "latest", "--format", format, "--output", "-"]).expect(0).out;
    let markdown = report("md");
    said(markdown.strip_prefix("**").unwrap());
    let page = report("html");
    let answered = page.split_once("<p class=\"answered\">").unwrap().1;
    assert!(answered.starts_with("<b>A load takes more than ten operations: "), "{}", &answered[..200]);
    let json: serde_json::Value = serde_json::from_str(&report("json")).unwrap();
    assert_eq!((&json["answer"]["state"], &json["answer"]["said"][0]["agrees"]), (&"answered".into(), &true.into()));
    assert_eq!(json["answer"]["sentence"], json["run"]["answer"]);
}

#[test]
fn a_loss_that_the_plan_sets_out_to_see_is_an_outcome_and_no_failure() {
    let place = Place::new();
    let plan = |breaks: &str| {
        place.plan(&format!(
            "{breaks}\nstores = [{{ store = \"sqlite\", disk = \"ext4\", disk_flushes = \"ignored\" }}]\n\
             [workload]\nname = \"kv\"\nrecords = 20\n[[phase]]\ndo = \"load\"\ndurability = \"at-end\"\n\
             [[phase]]\ndo = \"drive\"\nops = 10\nmix = {{ update = 1 }}\n\
             [[phase]]\nname = \"until_cut\"\ndo = \"drive\"\nfor = \"120s\"\nmix = {{ update = 1 }}\n\
             power_cut = \"write 12\"\n[[phase]]\ndo = \"power\"\n[[phase]]\ndo = \"check\"\n\
             [[figure]]\nname = \"ignored\"\nformula = \"check.lost\"\n\
             [[answer]]\nsay = \"Ignored flushes lost acknowledged writes: {{ignored}}.\"\nonly_if = \"{{ignored}} >= 10\"\n\
             [[worthless]]\nsay = \"the cut had nothing to lose\"\nif = \"{{ignored}} = 0\"\n"
        ))
    };
    let answer = "Ignored flushes lost acknowledged writes: ";
    let ran = place.run(&["run", &plan("breaks = {}")]).expect(0);
    assert!(ran.out.starts_with(answer), "{}", ran.out);
    ran.says("MEASURED … sqlite ran as planned. As the plan sets out to show, sqlite: … acknowledged writes lost");
    let ran = place.run(&["run", &plan("")]).expect(1);
    assert!(ran.out.starts_with(answer), "{}", ran.out);
    ran.says("FAIL");
}
