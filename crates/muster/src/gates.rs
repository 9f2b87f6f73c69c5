//! Feature gates: named switches with a default.

use std::collections::BTreeMap;

/// Every gate and whether it is on unless told otherwise.
pub const GATES: [(&str, bool); 2] = [
    // The gang proposal's kinds Workload and PodGroup, and their scheduling.
    ("GenericWorkloadPodGroup", true),
    // The name upstream gave to the first half of it; both must be on.
    ("GenericWorkload", true),
];

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
    /// A value that is neither.
    #[error("feature gate `{0}` is neither `true` nor `false`\n\nhint: write `Name=true` or `Name=false`")]
    NoBool(String),
}

/// All gates, with those set that `chosen` names.
///
/// # Errors
/// For a name nobody knows.
pub fn with<'a>(
    chosen: impl IntoIterator<Item = (&'a str, bool)>,
) -> Result<BTreeMap<&'static str, bool>, GateError> {
    let mut all: BTreeMap<&'static str, bool> = GATES.into_iter().collect();
    for (name, on) in chosen {
        match all.get_mut(name) {
            Some(gate) => *gate = on,
            None => {
                let known: Vec<&str> = GATES.iter().map(|(name, _)| *name).collect();
                return Err(GateError::Unknown { name: name.to_owned(), known: known.join(", ") });
            }
        }
    }
    Ok(all)
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
}
