//! Output of `plimsoll check`.

use plimsoll_plan::{Overrides, parse};

use crate::catalogue::catalogue;

#[test]
fn a_plan_is_told_in_plain_lines() {
    let plan = parse("coupons", include_str!("../../../../studies/coupons.toml"), &catalogue(), &Overrides::default())
        .unwrap();
    let wanted = "\
Coupons: what an index costs, and what it brings
Which of the coupons were redeemed fewer than 50 times: what does an index bring to this query, and cost the load?

5 trials with the workload coupons on sqlite, fjall
at least 30s of driven load; the stores' own work comes on top
not known before the run: 5 loads of 500,000 records in all; 50 questions

trial 1: sqlite index=none
trial 4: fjall index=none
    load: 1000 records to an operation, 1 client, at-end
    settle
    warm (ask): `query`, 9 times
    cold
    cold_query (ask): `query`, once
    check

trial 2: sqlite index=own
trial 3: sqlite index=keyindex
trial 5: fjall index=keyindex
    load: 1000 records to an operation, 1 client, at-end
    settle
    warm (ask): `query`, 9 times
    cold
    cold_query (ask): `query`, once
    mixed (drive): 8 clients, closed loop, for 10s, durable; read 70 %, update 28 %, query 2 %
    check

left out: fjall has no native index

goals: lost at most 0, wrong at most 0
13 figures for each store
samplers: cpu, disk, once every 1s";
    assert_eq!(plan.outline(&|_| Some(100_000)).join("\n"), wanted);
}

#[test]
fn findings_that_no_sampler_can_give_are_told_before_the_run() {
    let plan = |samplers: &str| {
        let text = format!(
            "stores = [\"sqlite\"]\n{samplers}\nworkload = {{ name = \"coupons\" }}\n\
             phase = [{{ do = \"load\" }}, {{ do = \"drive\", mix = {{ read = 1 }}, for = \"10s\" }}]\n\
             answer = [{{ say = \"Bound by {{bound of drive}}.\" }}]"
        );
        parse("test", &text, &catalogue(), &Overrides::default()).unwrap().outline(&|_| None)
    };
    let told = "`{bound of drive}` stays undecided: findings need samplers";
    assert_eq!(plan("samplers = []").last().map(String::as_str), Some(told));
    assert!(!plan("").iter().any(|line| line == told));
}
