//! Feature gates: named switches with a default.

use std::collections::BTreeMap;

/// Every gate and whether it is on unless told otherwise.
pub const GATES: [(&str, bool); 7] = [
    // The gang proposal's kinds Workload and PodGroup, and their scheduling.
    ("GenericWorkloadPodGroup", true),
    // The name upstream gave to the first half of it; both must be on.
    ("GenericWorkload", true),
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
];

const IN_PLACE_RESTART: &str = "InPlaceRestart";
const RESTART_JOB: &str = "RestartJob";
const ELASTIC: &str = "ElasticJobSet";
const TLS_OPTIONS: &str = "TLSOptions";
const CLAIM_TEMPLATES: &str = "JobSetResourceClaimTemplates";

/// Gates that stay as they are.
const LOCKED: [&str; 1] = [TLS_OPTIONS];

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
    /// A value that is neither.
    #[error("feature gate `{0}` is neither `true` nor `false`\n\nhint: write `Name=true` or `Name=false`")]
    NoBool(String),
}

/// All gates, with those set that `chosen` names.
///
/// # Errors
/// For a name nobody knows, and for a change of one that cannot be changed.
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
    Ok(all)
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
        let gates = with(parse("GenericWorkload=false").unwrap()).unwrap();
        assert_eq!((gates["GenericWorkload"], gates["GenericWorkloadPodGroup"]), (false, true));
        assert!(
            with([("Nope", true)]).unwrap_err().to_string().contains("known are GenericWorkloadPodGroup")
        );
        assert_eq!(
            parse("GenericWorkload=maybe"),
            Err(GateError::NoBool("GenericWorkload=maybe".to_owned()))
        );
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
