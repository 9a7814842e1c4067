//! The built-in plans: one TOML file each in `studies/`, part of the program.

/// A built-in plan.
pub struct Study {
    /// Name as in `plimsoll run NAME`.
    pub name: &'static str,
    /// TOML of the study.
    pub text: &'static str,
}

impl Study {
    /// Returns the title in the TOML.
    pub fn title(&self) -> &'static str {
        self.text.lines().find_map(|line| line.strip_prefix("title = \"")?.strip_suffix('"')).unwrap_or_default()
    }
}

/// All studies, in the order in which they are listed.
pub const ALL: &[Study] = &[
    Study { name: "coupons", text: include_str!("../../../studies/coupons.toml") },
    Study { name: "pgbench", text: include_str!("../../../studies/pgbench.toml") },
    Study { name: "clusters", text: include_str!("../../../studies/clusters.toml") },
    Study { name: "coupons-cluster", text: include_str!("../../../studies/coupons-cluster.toml") },
    Study { name: "coupons-join", text: include_str!("../../../studies/coupons-join.toml") },
    Study { name: "instances", text: include_str!("../../../studies/instances.toml") },
    Study { name: "instances-sql", text: include_str!("../../../studies/instances-sql.toml") },
    Study { name: "commit-batch", text: include_str!("../../../studies/commit-batch.toml") },
    Study { name: "flush", text: include_str!("../../../studies/flush.toml") },
    Study { name: "silent-errors", text: include_str!("../../../studies/silent-errors.toml") },
    Study { name: "storage", text: include_str!("../../../studies/storage.toml") },
    Study { name: "pools", text: include_str!("../../../studies/pools.toml") },
    Study { name: "import", text: include_str!("../../../studies/import.toml") },
    Study { name: "searchrate", text: include_str!("../../../studies/searchrate.toml") },
    Study { name: "failover", text: include_str!("../../../studies/failover.toml") },
    Study { name: "smart-client", text: include_str!("../../../studies/smart-client.toml") },
    Study { name: "adversity", text: include_str!("../../../studies/adversity.toml") },
    Study { name: "failover-sql", text: include_str!("../../../studies/failover-sql.toml") },
    Study { name: "adversity-sql", text: include_str!("../../../studies/adversity-sql.toml") },
    Study { name: "retry", text: include_str!("../../../studies/retry.toml") },
    Study { name: "outliers", text: include_str!("../../../studies/outliers.toml") },
    Study { name: "weather-station", text: include_str!("../../../studies/weather-station.toml") },
    Study { name: "bound", text: include_str!("../../../studies/bound.toml") },
    Study { name: "oltp", text: include_str!("../../../studies/oltp.toml") },
];

#[cfg(test)]
mod tests {
    use plimsoll_core::Catalogue;
    use plimsoll_core::catalogue::LabEntry;
    use plimsoll_plan::{Overrides, Plan, parse};

    use super::ALL;
    use crate::catalogue;

    /// Returns a study's plan, on other stores if some are given.
    fn plan(catalogue: &Catalogue, name: &str, on: Option<&str>) -> Plan {
        let study = ALL.iter().find(|study| study.name == name).unwrap();
        let on = on.map(|on| vec![on.to_owned()]);
        parse(name, study.text, catalogue, &Overrides { on, seed: None }).unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Returns the names of the stores of a plan, each with those of the phases that drive it.
    fn drives(plan: &Plan) -> Vec<(&str, String)> {
        let of_trial = plan.trials.iter().map(|trial| {
            let names: Vec<&str> = trial.drives().map(|(name, _)| name).collect();
            (trial.store.label.as_str(), names.join(" "))
        });
        of_trial.collect()
    }

    #[test]
    fn each_cluster_meets_the_adversities_that_it_can_have_and_its_lab_the_same() {
        let mut catalogue = catalogue::assemble();
        let (work, lasting) = ("planned_work ", "slow_server slow_disk bad_network");
        let of = |work: &str, lost: &str| format!("baseline {work}{lasting} restarts node_lost primary_lost{lost}");
        let kv = plan(&catalogue, "adversity", None);
        let wanted = [
            ("etcd", of(work, " majority_lost promotion")),
            ("nats", of("", " majority_lost")),
            ("redis-sentinel", of(work, " promotion")),
            ("redis-cluster", of(work, " promotion")),
            ("postgres-replicas", of(work, " promotion")),
        ];
        assert_eq!(drives(&kv), wanted);
        let sql = plan(&catalogue, "adversity-sql", None);
        assert_eq!(drives(&sql), [("galera", of(work, " majority_lost")), ("mariadb-replicas", of(work, ""))]);
        for (study, whole) in [("adversity", kv), ("adversity-sql", sql)] {
            for (trial, (_, phases)) in whole.trials.iter().zip(drives(&whole)) {
                catalogue.labs = vec![LabEntry {
                    name: "mine".to_owned(),
                    labs: std::path::PathBuf::new(),
                    process: 1,
                    store: trial.store.kind.clone(),
                    made_as: trial.store.label.clone(),
                    params: trial.store.params.clone(),
                    nodes: vec![1, 2, 3],
                }];
                let of_lab = plan(&catalogue, study, Some("lab:mine"));
                assert_eq!(drives(&of_lab), [("mine", phases)]);
            }
        }
    }

    #[test]
    fn a_study_of_throughputs_has_no_answer_if_its_operations_fail() {
        let catalogue = catalogue::assemble();
        let of_clients = ["clusters", "instances", "instances-sql", "oltp", "pgbench", "searchrate"];
        for name in of_clients.into_iter().chain(["pools", "storage", "weather-station"]) {
            let worthless = plan(&catalogue, name, None).worthless;
            assert!(worthless.iter().any(|one| one.condition.starts_with("{failed")), "{name}: {worthless:?}");
        }
    }

    #[test]
    fn what_was_published_of_other_clusters_stands_at_no_point_of_another_study() {
        let catalogue = catalogue::assemble();
        for (name, elsewhere) in [("coupons", "4 nodes"), ("oltp", "NDB"), ("clusters", "NDB")] {
            let figures = plan(&catalogue, name, None).figures;
            let published: Vec<&str> =
                figures.iter().flat_map(|one| &one.published).map(|one| one.of.as_str()).collect();
            assert!(!published.iter().any(|of| of.contains(elsewhere)), "{name}: {published:?}");
        }
    }

    #[test]
    fn every_study_has_a_title_a_question_and_sentences_that_answer_it() {
        for study in ALL {
            assert!(!study.title().is_empty(), "{} has no line `title = \"…\"`", study.name);
            for words in ["\nquestion = \"", "\n[[answer]]\nsay = \""] {
                assert!(study.text.contains(words), "{} has no {words:?}", study.name);
            }
        }
    }
}
