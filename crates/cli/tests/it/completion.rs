//! Completion in bash, through the script that `plimsoll completions bash` prints.

use std::process::Command;

use crate::bench::{Place, Ran};

/// Returns bash's offers, by this script, for a line with the cursor at its end, split into words by bash itself.
fn completed(place: &Place, script: &str, line: &str) -> Vec<String> {
    let program = place.command(&[]);
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c"]).arg(format!(
        "{script}\ncompopt() {{ :; }}\nCOMP_LINE=$1 COMP_POINT=${{#1}}\n\
         _plimsoll plimsoll \"$2\"\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    ));
    let replaced = line.rsplit([' ', '=', ':']).next().unwrap();
    bash.args(["bash", line, replaced]);
    // The script calls the program by its name.
    let folder = std::path::Path::new(program.get_program()).parent().unwrap();
    bash.env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    let ran = Ran::of(&bash.output().unwrap()).expect(0);
    ran.out.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_shell_knows_stores_workloads_and_their_parameters() {
    let place = Place::new();
    let script = place.run(&["completions", "bash"]).expect(0).out;
    for (line, all) in [
        ("plimsoll dri", &["drive"][..]),
        ("plimsoll drive oltp_read", &["oltp_read_write", "oltp_read_only"]),
        ("plimsoll drive kv:", &["a", "b", "c", "d", "e", "f"]),
        (
            "plimsoll drive kv --on post",
            &[
                "postgres",
                "postgresql",
                "postgres-haproxy",
                "postgres-patroni",
                "postgres-pgbouncer",
                "postgres-replicas",
            ],
        ),
        ("plimsoll drive kv --on sqlite,fj", &["sqlite,fjall"]),
        ("plimsoll drive kv:d --set fie", &["field_count=", "field_length="]),
        ("plimsoll drive kv --on redis --set distribution=u", &["uniform"]),
        (
            "plimsoll drive kv --on fjall --set fjall.",
            &[
                "fjall.cache=",
                "fjall.disk=",
                "fjall.disk_flush_time=",
                "fjall.disk_flushes=",
                "fjall.disk_layout=",
                "fjall.disk_size=",
                "fjall.disk_speed=",
                "fjall.memtable=",
            ],
        ),
        ("plimsoll drive kv --mix re", &["read=", "read_modify_write="]),
        ("plimsoll drive kv --mix read=1,up", &["1,update="]),
        ("plimsoll drive kv --goal los", &["lost="]),
        ("plimsoll drive kv --arrivals p", &["poisson"]),
        ("plimsoll drive kv --durability at", &["at-end"]),
        ("plimsoll run coup", &["coupons", "coupons-cluster", "coupons-join"]),
        ("plimsoll drive kv --wor", &["--work-timeout", "--workers"]),
    ] {
        let mut found = completed(&place, &script, line);
        found.sort();
        let mut all: Vec<&str> = all.to_vec();
        all.sort_unstable();
        assert_eq!(found, all, "{line}");
    }
    // A parameter of another workload is none here.
    assert_eq!(completed(&place, &script, "plimsoll drive kv --set table_s"), [""; 0]);
    assert_eq!(completed(&place, &script, "plimsoll drive oltp --set table_s"), ["table_size="]);
}
