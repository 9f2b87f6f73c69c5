//! What another definition of JobSets leaves out of ours: a server drops such fields without a word.

use muster_api::kinds::JOBSETS;
use muster_tree::Tree;

use super::definition;

/// The fields that objects of this definition cannot have, those nearest to the root first; of a missing one nothing
/// inside is named.
#[must_use]
pub fn lacks(theirs: &Tree) -> Vec<String> {
    muster_api::definition::lacks(&definition(), theirs, &JOBSETS.version)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    /// Ours with another schema of its spec.
    fn with(change: impl Fn(&Tree) -> Tree) -> Tree {
        let versions = definition().at(&["spec", "versions"]).unwrap().map_items(|_, version| {
            let spec = ["schema", "openAPIV3Schema", "properties", "spec"];
            version.with(&spec, change(version.at(&spec).unwrap()))
        });
        definition().with(&["spec", "versions"], versions)
    }

    #[test]
    fn ours_lacks_nothing() {
        assert!(lacks(&definition()).is_empty());
        assert!(lacks(&with(|_| tree!({"x-kubernetes-preserve-unknown-fields": true}))).is_empty());
    }

    #[test]
    fn an_older_one_lacks_what_came_later() {
        let jobs = ["properties", "replicatedJobs", "items", "properties"];
        let older = with(|spec| {
            let claims = [&jobs[..], &["resourceClaimTemplates"]].concat();
            let deep = [&jobs[..], &["template", "properties", "spec", "properties", "suspend"]].concat();
            spec.without(&["properties", "volumeClaimPolicies"]).without(&claims).without(&deep)
        });
        assert_eq!(
            lacks(&older),
            [
                "spec.volumeClaimPolicies",
                "spec.replicatedJobs[].resourceClaimTemplates",
                "spec.replicatedJobs[].template.spec.suspend"
            ]
        );
        assert_eq!(lacks(&tree!({})), ["version v1alpha2"]);
    }
}
