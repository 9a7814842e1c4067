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
    use super::ALL;

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
