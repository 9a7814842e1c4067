use super::*;

/// Returns the last phase of a plan with these keys.
fn step(keys: &str) -> PhaseStep {
    let catalogue = Catalogue {
        labs: Vec::new(),
        stores: vec![plimsoll_store_null::kind()],
        workloads: plimsoll_workload::all(),
        samplers: Vec::new(),
    };
    let text = format!(
        "stores = [\"null\"]\nsamplers = []\n[workload]\nname = \"kv\"\nrecords = 10\n[[phase]]\ndo = \"load\"\n\
         [[phase]]\n{keys}\n"
    );
    let plan = plimsoll_plan::parse("steps", &text, &catalogue, &Default::default()).unwrap();
    plan.trials[0].phases.last().unwrap().step.clone()
}

#[test]
fn a_parameter_is_shown_in_the_largest_unit_in_which_it_is_whole() {
    let bytes = |value| with_unit(value, units(ParamType::Bytes));
    for (value, shown) in [(0, "0B"), (512, "512B"), (1_536, "1536B"), (4 << 20, "4MiB"), (-(3 << 30), "-3GiB")] {
        assert_eq!(bytes(value), shown);
    }
    let time = |value| with_unit(value, units(ParamType::Duration));
    for (value, shown) in [(0, "0ns"), (1_500, "1500ns"), (2_000, "2us"), (1_500_000_000, "1500ms")] {
        assert_eq!(time(value), shown);
    }
    assert_eq!(time(90_000_000_000), "90s");
    assert_eq!(with_unit(1_024, units(ParamType::Int { min: 0, max: 2_000 })), "1024");
}

#[test]
fn writes_of_a_private_store_may_be_buffered_if_it_can_do_both() {
    let store = |url: Option<&str>| model::StoreUse {
        kind: "one".to_owned(),
        label: "one".to_owned(),
        url: url.map(str::to_owned),
        params: Default::default(),
        server: None,
    };
    let durable = StoreSpec { durabilities: &[Durability::Durable, Durability::AtEnd], ..StoreSpec::PLAIN };
    assert!(may_buffer(&StoreSpec::PLAIN, &store(None)));
    assert!(!may_buffer(&StoreSpec::PLAIN, &store(Some("one://host"))));
    assert!(!may_buffer(&durable, &store(None)));
}

#[test]
fn a_phase_tells_beforehand_how_long_it_takes_and_if_its_clients_think() {
    let scenario = |more: &str| format!("[[phase.scenario]]\nname = \"a\"\nclients = 2\nmix = {{ read = 1 }}\n{more}");
    for (keys, seconds, is_thinking) in [
        ("do = \"drive\"\nfor = \"3s\"".to_owned(), Some(3), false),
        ("do = \"drive\"\nfor = \"3s\"\nwarmup = \"2s\"\nthink = \"5ms\"".to_owned(), Some(5), true),
        ("do = \"drive\"\nops = 3".to_owned(), None, false),
        (format!("do = \"drive\"\nfor = \"3s\"\n{}", scenario("")), Some(3), false),
        (format!("do = \"drive\"\nfor = \"3s\"\n{}", scenario("think = \"5ms\"")), Some(3), true),
        ("do = \"settle\"".to_owned(), None, false),
    ] {
        let step = step(&keys);
        assert_eq!((duration(&step), thinks(&step)), (seconds.map(Duration::from_secs), is_thinking), "{keys}");
    }
}
