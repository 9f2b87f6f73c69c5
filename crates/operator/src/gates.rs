//! Feature gates: named switches with a default.

use std::collections::BTreeMap;

/// Every gate and whether it is on unless told otherwise.
const GATES: [(&str, bool); 10] = [
    // The gang proposal's kind PodGroup, and the fields of pods that name one.
    (POD_GROUPS, true),
    // The kind Workload, and the groups inside it.
    (WORKLOADS, true),
    // Members of a gang are placed together, or not at all.
    (GANG_SCHEDULING, true),
    // Jobs that make a Workload and a PodGroup of their own.
    (WORKLOAD_WITH_JOB, false),
    // Pods of JobSets that restart where they are.
    (IN_PLACE_RESTART, false),
    // Single Jobs of JobSets that are made anew.
    (RESTART_JOB, false),
    // JobSets whose number of pods changes.
    (ELASTIC, false),
    // Options for TLS of the operator: there for good.
    (TLS_OPTIONS, true),
    // Device claims for each Job of a JobSet.
    (CLAIM_TEMPLATES, true),
    // Training that tells how far it is.
    (TRAIN_JOB_STATUS, false),
];

const POD_GROUPS: &str = "GenericWorkloadPodGroup";
const WORKLOADS: &str = "GenericWorkload";
const GANG_SCHEDULING: &str = "GangScheduling";
const WORKLOAD_WITH_JOB: &str = "WorkloadWithJob";
const IN_PLACE_RESTART: &str = "InPlaceRestart";
const RESTART_JOB: &str = "RestartJob";
const ELASTIC: &str = "ElasticJobSet";
const TLS_OPTIONS: &str = "TLSOptions";
const CLAIM_TEMPLATES: &str = "JobSetResourceClaimTemplates";
/// Training that tells how far it is.
pub(crate) const TRAIN_JOB_STATUS: &str = "TrainJobStatus";

/// Gates that stay as they are.
const LOCKED: [&str; 1] = [TLS_OPTIONS];

/// Gates that mean nothing without another.
const NEEDS: [(&str, &str); 2] = [(POD_GROUPS, WORKLOADS), (WORKLOAD_WITH_JOB, POD_GROUPS)];

/// All gates by name.
pub type Chosen = BTreeMap<&'static str, bool>;

/// What is wrong with a list of gates.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// A name that nobody knows.
    #[error("unknown feature gate `{name}`\n\nhint: known are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The known ones.
        known: String,
    },
    /// One that cannot be changed any more.
    #[error("feature gate `{name}` is always {on}\n\nhint: leave it out")]
    Locked {
        /// The name.
        name: &'static str,
        /// Its value.
        on: bool,
    },
    /// One that is on while another, which it needs, is off.
    #[error("feature gate `{name}` needs `{needs}`\n\nhint: turn `{needs}` on, or `{name}` off as well")]
    Needs {
        /// The name.
        name: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// A value that is neither.
    #[error("feature gate `{0}` is neither `true` nor `false`\n\nhint: write `Name=true` or `Name=false`")]
    NoBool(String),
}

/// All gates, with those set that `chosen` names.
///
/// # Errors
/// For a name nobody knows, for a change of one that cannot be changed, and for one without that which it needs.
pub fn with<'a>(chosen: impl IntoIterator<Item = (&'a str, bool)>) -> Result<Chosen, GateError> {
    let mut all: Chosen = GATES.into_iter().collect();
    for (name, on) in chosen {
        match all.get_mut(name) {
            Some(is)
                if *is != on
                    && let Some(name) = LOCKED.into_iter().find(|it| *it == name) =>
            {
                return Err(GateError::Locked { name, on: *is });
            }
            Some(gate) => *gate = on,
            None => {
                let known: Vec<&str> = GATES.iter().map(|(name, _)| *name).collect();
                return Err(GateError::Unknown { name: name.to_owned(), known: known.join(", ") });
            }
        }
    }
    let unmet = NEEDS.into_iter().find(|(name, needs)| all[name] && !all[needs]);
    unmet.map_or(Ok(all), |(name, needs)| Err(GateError::Needs { name, needs }))
}

/// Those of gangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "switches that are turned one by one")]
pub struct Gangs {
    /// Workloads are served, and the groups inside them count.
    pub workloads: bool,
    /// PodGroups are served and count.
    pub groups: bool,
    /// Members are placed together.
    pub scheduling: bool,
    /// Jobs make groups.
    pub jobs: bool,
}

impl Gangs {
    /// What the server serves of them.
    #[must_use]
    pub fn served(&self) -> muster_apiserver::kinds::Gangs {
        muster_apiserver::kinds::Gangs { workloads: self.workloads, groups: self.groups }
    }
}

/// Those of gangs.
#[must_use]
pub fn gangs(gates: &Chosen) -> Gangs {
    let on = |name: &str| gates.get(name).copied().unwrap_or(false);
    Gangs {
        workloads: on(WORKLOADS),
        groups: on(POD_GROUPS),
        // There is nothing to place together without Workloads.
        scheduling: on(GANG_SCHEDULING) && on(WORKLOADS),
        jobs: on(WORKLOAD_WITH_JOB),
    }
}

/// Those of JobSets.
#[must_use]
pub fn jobset(gates: &Chosen) -> muster_jobset::Gates {
    let on = |name: &str| gates.get(name).copied().unwrap_or(false);
    muster_jobset::Gates {
        in_place_restart: on(IN_PLACE_RESTART),
        restart_job: on(RESTART_JOB),
        elastic: on(ELASTIC),
        claim_templates: on(CLAIM_TEMPLATES),
    }
}

/// Whether training tells how far it is.
#[must_use]
pub fn reports(gates: &Chosen) -> bool {
    gates.get(TRAIN_JOB_STATUS).copied().unwrap_or(false)
}

/// Reads `A=true,B=false`.
///
/// # Errors
/// For a value that is neither.
pub fn parse(list: &str) -> Result<Vec<(&str, bool)>, GateError> {
    let pairs = list.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let on = value.trim().parse().map_err(|_| GateError::NoBool(pair.to_owned()))?;
            Ok((name.trim(), on))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_known_and_boolean() {
        let gates = with(parse("GangScheduling=false").unwrap()).unwrap();
        assert_eq!((gates["GangScheduling"], gates["GenericWorkloadPodGroup"]), (false, true));
        assert!(
            with([("Nope", true)]).unwrap_err().to_string().contains("known are GenericWorkloadPodGroup")
        );
        assert_eq!(
            parse("GenericWorkload=maybe"),
            Err(GateError::NoBool("GenericWorkload=maybe".to_owned()))
        );
    }

    /// Shows: 5832-56, 5832-57.
    #[test]
    fn gates_of_gangs() {
        let all = Gangs { workloads: true, groups: true, scheduling: true, jobs: false };
        for (list, want) in [
            ("", all),
            ("GenericWorkloadPodGroup=false", Gangs { groups: false, ..all }),
            ("GangScheduling=false", Gangs { scheduling: false, ..all }),
            ("WorkloadWithJob=true", Gangs { jobs: true, ..all }),
            (
                "GenericWorkload=false,GenericWorkloadPodGroup=false",
                Gangs { workloads: false, groups: false, scheduling: false, jobs: false },
            ),
        ] {
            assert_eq!(gangs(&with(parse(list).unwrap()).unwrap()), want, "{list}");
        }
        for (list, words) in [
            (
                "GenericWorkload=false",
                "feature gate `GenericWorkloadPodGroup` needs `GenericWorkload`\n\nhint: turn `GenericWorkload` on, or \
                 `GenericWorkloadPodGroup` off as well",
            ),
            (
                "GenericWorkloadPodGroup=false,WorkloadWithJob=true",
                "feature gate `WorkloadWithJob` needs `GenericWorkloadPodGroup`\n\nhint: turn \
                 `GenericWorkloadPodGroup` on, or `WorkloadWithJob` off as well",
            ),
        ] {
            assert_eq!(with(parse(list).unwrap()).unwrap_err().to_string(), words, "{list}");
        }
    }

    #[test]
    fn one_is_there_for_good() {
        assert!(with([("TLSOptions", true)]).unwrap()["TLSOptions"]);
        let refused = with([("TLSOptions", false)]).unwrap_err().to_string();
        assert!(refused.starts_with("feature gate `TLSOptions` is always true"), "{refused}");
    }

    /// Shows: 762-38.
    #[test]
    fn gates_of_jobsets() {
        let of = |list: &'static str| jobset(&with(parse(list).unwrap()).unwrap());
        let default = muster_jobset::Gates::default();
        assert_eq!(of(""), default);
        let all = "InPlaceRestart=true,RestartJob=true,ElasticJobSet=true,JobSetResourceClaimTemplates=false";
        let flipped = muster_jobset::Gates {
            in_place_restart: true,
            restart_job: true,
            elastic: true,
            claim_templates: false,
        };
        assert_eq!(of(all), flipped);
    }
}
