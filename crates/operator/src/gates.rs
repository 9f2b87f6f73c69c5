//! Feature gates, with the defaults of Kubernetes, JobSet and Trainer.

use std::collections::BTreeMap;

/// Every gate and its default.
const GATES: [(&str, bool); 10] = [
    // The PodGroup API of the gang proposal, and the pod fields that reference one.
    (POD_GROUPS, true),
    // The Workload API, and the pod groups inside a Workload.
    (WORKLOADS, true),
    // All-or-nothing scheduling of pod groups.
    (GANG_SCHEDULING, true),
    // The Job controller creates a Workload and a PodGroup for a Job.
    (WORKLOAD_WITH_JOB, false),
    // In-place restart of JobSet pods.
    (IN_PLACE_RESTART, false),
    // The RestartJob failure policy action: recreate one Job of a JobSet.
    (RESTART_JOB, false),
    // Elastic JobSets: parallelism may change.
    (ELASTIC, false),
    // TLS options of the operator; generally available.
    (TLS_OPTIONS, true),
    // ResourceClaim templates for each Job of a JobSet.
    (CLAIM_TEMPLATES, true),
    // The progress endpoint of TrainJobs.
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
/// Trainer's gate for the progress endpoint.
pub(crate) const TRAIN_JOB_STATUS: &str = "TrainJobStatus";

/// Gates that are locked to their default.
const LOCKED: [&str; 1] = [TLS_OPTIONS];

/// Gates that require another one.
const DEPENDENCIES: [(&str, &str); 2] = [(POD_GROUPS, WORKLOADS), (WORKLOAD_WITH_JOB, POD_GROUPS)];

/// The state of every gate.
pub type FeatureGates = BTreeMap<&'static str, bool>;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The gate does not exist.
    #[error("unknown feature gate `{name}`\n\nhint: known are {known}")]
    Unknown { name: String, known: String },
    /// The gate is locked to its default.
    #[error("feature gate `{name}` is always {on}\n\nhint: leave it out")]
    Locked { name: &'static str, on: bool },
    /// The gate is enabled and one that it requires is not.
    #[error("feature gate `{name}` needs `{needs}`\n\nhint: turn `{needs}` on, or `{name}` off as well")]
    Needs { name: &'static str, needs: &'static str },
    /// The value is neither `true` nor `false`.
    #[error("feature gate `{0}` is neither `true` nor `false`\n\nhint: write `Name=true` or `Name=false`")]
    NotBoolean(String),
}

/// The defaults, overridden by `chosen`.
///
/// # Errors
/// An unknown gate, a change of a locked gate, or a gate without the one that it requires.
pub fn resolve<'a>(chosen: impl IntoIterator<Item = (&'a str, bool)>) -> Result<FeatureGates, GateError> {
    let mut all: FeatureGates = GATES.into_iter().collect();
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
    let unmet = DEPENDENCIES.into_iter().find(|(name, needs)| all[name] && !all[needs]);
    unmet.map_or(Ok(all), |(name, needs)| Err(GateError::Needs { name, needs }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "switches that are turned one by one")]
pub struct GangGates {
    /// The Workload API is served, and groups inside Workloads are scheduled as gangs.
    pub workloads: bool,
    /// The PodGroup API is served and read.
    pub groups: bool,
    /// Gangs are bound all-or-nothing.
    pub scheduling: bool,
    pub jobs: bool,
}

impl GangGates {
    /// The APIs that the embedded API server serves.
    #[must_use]
    pub fn api_features(&self) -> muster_apiserver::kinds::GangFeatures {
        muster_apiserver::kinds::GangFeatures { workloads: self.workloads, groups: self.groups }
    }
}

#[must_use]
pub fn gang_gates(gates: &FeatureGates) -> GangGates {
    let on = |name: &str| gates.get(name).copied().unwrap_or(false);
    GangGates {
        workloads: on(WORKLOADS),
        groups: on(POD_GROUPS),
        // Gang scheduling needs the Workload API.
        scheduling: on(GANG_SCHEDULING) && on(WORKLOADS),
        jobs: on(WORKLOAD_WITH_JOB),
    }
}

#[must_use]
pub fn jobset_gates(gates: &FeatureGates) -> muster_jobset::FeatureGates {
    let on = |name: &str| gates.get(name).copied().unwrap_or(false);
    muster_jobset::FeatureGates {
        in_place_restart: on(IN_PLACE_RESTART),
        restart_job: on(RESTART_JOB),
        elastic: on(ELASTIC),
        claim_templates: on(CLAIM_TEMPLATES),
    }
}

/// Whether training pods report progress.
#[must_use]
pub fn train_job_status(gates: &FeatureGates) -> bool {
    gates.get(TRAIN_JOB_STATUS).copied().unwrap_or(false)
}

/// Reads `A=true,B=false`.
///
/// # Errors
/// A value is neither `true` nor `false`.
pub fn parse(list: &str) -> Result<Vec<(&str, bool)>, GateError> {
    let pairs = list.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let on = value.trim().parse().map_err(|_| GateError::NotBoolean(pair.to_owned()))?;
            Ok((name.trim(), on))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_known_and_boolean() {
        let gates = resolve(parse("GangScheduling=false").unwrap()).unwrap();
        assert_eq!((gates["GangScheduling"], gates["GenericWorkloadPodGroup"]), (false, true));
        assert!(
            resolve([("Nope", true)]).unwrap_err().to_string().contains("known are GenericWorkloadPodGroup")
        );
        assert_eq!(
            parse("GenericWorkload=maybe"),
            Err(GateError::NotBoolean("GenericWorkload=maybe".to_owned()))
        );
    }

    /// Shows: 5832-56, 5832-57.
    #[test]
    fn gates_of_gangs() {
        let all = GangGates { workloads: true, groups: true, scheduling: true, jobs: false };
        for (list, want) in [
            ("", all),
            ("GenericWorkloadPodGroup=false", GangGates { groups: false, ..all }),
            ("GangScheduling=false", GangGates { scheduling: false, ..all }),
            ("WorkloadWithJob=true", GangGates { jobs: true, ..all }),
            (
                "GenericWorkload=false,GenericWorkloadPodGroup=false",
                GangGates { workloads: false, groups: false, scheduling: false, jobs: false },
            ),
        ] {
            assert_eq!(gang_gates(&resolve(parse(list).unwrap()).unwrap()), want, "{list}");
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
            assert_eq!(resolve(parse(list).unwrap()).unwrap_err().to_string(), words, "{list}");
        }
    }

    #[test]
    fn a_generally_available_gate_is_locked() {
        assert!(resolve([("TLSOptions", true)]).unwrap()["TLSOptions"]);
        let refused = resolve([("TLSOptions", false)]).unwrap_err().to_string();
        assert!(refused.starts_with("feature gate `TLSOptions` is always true"), "{refused}");
    }

    /// Shows: 762-38.
    #[test]
    fn gates_of_jobsets() {
        let of = |list: &'static str| jobset_gates(&resolve(parse(list).unwrap()).unwrap());
        let default = muster_jobset::FeatureGates::default();
        assert_eq!(of(""), default);
        let all = "InPlaceRestart=true,RestartJob=true,ElasticJobSet=true,JobSetResourceClaimTemplates=false";
        let flipped = muster_jobset::FeatureGates {
            in_place_restart: true,
            restart_job: true,
            elastic: true,
            claim_templates: false,
        };
        assert_eq!(of(all), flipped);
    }
}
