//! Validation of quantities in pod templates of custom resources.
//!
//! A CRD schema describes quantities by a pattern, which also matches invalid ones (`1e1.5`). A request that cannot be
//! parsed would be missing from every sum of quota and capacity, so such a write is rejected.

use muster_tree::{Text, Tree};

use crate::error::FieldError;
use crate::formats;

/// Errors of malformed quantities in the resources of a pod spec at this path.
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

/// Errors of malformed quantities in requests and limits.
#[must_use]
pub fn of_requirements(path: &str, resources: Option<&Tree>) -> Vec<FieldError> {
    let part = |name: &&str| resources.map(|it| (format!("{path}.{name}"), it.entries_at(&[name])));
    let parts = ["requests", "limits"];
    parts.iter().filter_map(part).flat_map(|(path, entries)| of_map(&path, entries)).collect()
}

/// Errors of malformed quantities in a map.
#[must_use]
pub fn of_map(path: &str, entries: &[(Text, Tree)]) -> Vec<FieldError> {
    entries.iter().filter_map(|(name, value)| of_field(&format!("{path}[{name}]"), value)).collect()
}

/// The error of a malformed quantity in a field.
#[must_use]
pub fn of_field(path: &str, value: &Tree) -> Option<FieldError> {
    let why = formats::quantity_field(value).err()?;
    let shown = value.as_str().map_or_else(|| value.to_json(), str::to_owned);
    Some(FieldError::invalid(path, shown, why))
}

/// The errors that the old object did not have: an object that was stored before this validation stays writable.
#[must_use]
pub fn added(new: Vec<FieldError>, old: &[FieldError]) -> Vec<FieldError> {
    new.into_iter().filter(|problem| !old.contains(problem)).collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn malformed_quantities_are_reported() {
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
