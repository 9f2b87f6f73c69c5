//! Quantities in the templates of pods that custom resources hold.
//!
//! The schema of a custom resource says how a quantity is spelled by a pattern, and some text that matches it is none
//! (`1e1.5`). A request that cannot be read would be left out of every sum, so it is refused where it is written.

use muster_tree::{Text, Tree};

use crate::error::FieldError;
use crate::formats;

/// What is no quantity among the resources of a pod spec at this path.
#[must_use]
pub fn of_pod_spec(path: &str, spec: Option<&Tree>) -> Vec<FieldError> {
    let Some(spec) = spec else { return Vec::new() };
    let mut problems = of_map(&format!("{path}.overhead"), spec.entries_at(&["overhead"]));
    problems.extend(of_requirements(&format!("{path}.resources"), spec.get("resources")));
    for list in ["initContainers", "containers"] {
        for (at, container) in spec.items_at(&[list]).iter().enumerate() {
            let path = format!("{path}.{list}[{at}].resources");
            problems.extend(of_requirements(&path, container.get("resources")));
        }
    }
    problems
}

/// What is no quantity among requests and limits.
#[must_use]
pub fn of_requirements(path: &str, resources: Option<&Tree>) -> Vec<FieldError> {
    let part = |name: &&str| resources.map(|it| (format!("{path}.{name}"), it.entries_at(&[name])));
    let parts = ["requests", "limits"];
    parts.iter().filter_map(part).flat_map(|(path, entries)| of_map(&path, entries)).collect()
}

/// What is no quantity in a map of them.
#[must_use]
pub fn of_map(path: &str, entries: &[(Text, Tree)]) -> Vec<FieldError> {
    entries.iter().filter_map(|(name, value)| of_field(&format!("{path}[{name}]"), value)).collect()
}

/// What is wrong with a field that is to be a quantity.
#[must_use]
pub fn of_field(path: &str, value: &Tree) -> Option<FieldError> {
    let why = formats::quantity_field(value).err()?;
    let shown = value.as_str().map_or_else(|| value.to_json(), str::to_owned);
    Some(FieldError::invalid(path, shown, why))
}

/// The problems of an object that its old form did not have: what was stored before it was refused stays writable.
#[must_use]
pub fn added(new: Vec<FieldError>, old: &[FieldError]) -> Vec<FieldError> {
    new.into_iter().filter(|problem| !old.contains(problem)).collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn what_is_no_quantity_is_named() {
        let spec = tree!({"overhead": {"cpu": "1e"}, "resources": {"requests": {"cpu": "1e1.5"}},
            "initContainers": [{"resources": {"limits": {"memory": true}}}],
            "containers": [{"resources": {"requests": {"cpu": 0.5, "memory": "8.0000000000000000000000000"}}},
                {"resources": {"requests": {"memory": "1e99999999999"}, "limits": {"cpu": "1"}}}]});
        let paths: Vec<String> = of_pod_spec("spec", Some(&spec)).into_iter().map(|it| it.path).collect();
        assert_eq!(
            paths,
            [
                "spec.overhead[cpu]",
                "spec.resources.requests[cpu]",
                "spec.initContainers[0].resources.limits[memory]",
                "spec.containers[1].resources.requests[memory]"
            ]
        );
    }
}
