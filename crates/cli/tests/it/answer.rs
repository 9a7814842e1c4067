//! A run whose plan has a question begins its reports with the answer.

use crate::bench::Place;

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
