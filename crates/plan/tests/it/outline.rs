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

15 to 60 trials with the workload coupons on sqlite, fjall
each point 3 to 12 times, until times and rates of the answer vary by at most 10 %; trials start fresh
at least 45s of driven load; the stores' own work comes on top
not known before the run: 15 loads of 1,500,000 records in all; 150 questions
and up to 45 trials more, as results decide

trial 1: sqlite index=none repeat=1
trial 2: sqlite index=none repeat=2
trial 3: sqlite index=none repeat=3
trial 10: fjall index=none repeat=1
trial 11: fjall index=none repeat=2
trial 12: fjall index=none repeat=3
    load: 1000 records to an operation, 1 client, at-end
    settle
    warm (ask): `query`, 9 times
    cold
    cold_query (ask): `query`, once
    check

trial 4: sqlite index=own repeat=1
trial 5: sqlite index=own repeat=2
trial 6: sqlite index=own repeat=3
trial 7: sqlite index=keyindex repeat=1
trial 8: sqlite index=keyindex repeat=2
trial 9: sqlite index=keyindex repeat=3
trial 13: fjall index=keyindex repeat=1
trial 14: fjall index=keyindex repeat=2
trial 15: fjall index=keyindex repeat=3
    load: 1000 records to an operation, 1 client, at-end
    settle
    warm (ask): `query`, 9 times
    cold
    cold_query (ask): `query`, once
    mixed (drive): 8 clients, closed loop, for 5s, durable; read 70 %, update 28 %, query 2 %
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
