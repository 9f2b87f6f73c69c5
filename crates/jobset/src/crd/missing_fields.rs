//! Fields that an installed CRD lacks: an API server prunes such fields silently.

use muster_api::kinds::JOBSETS;
use muster_tree::Tree;

use super::manifest;

/// The fields that the other CRD does not declare, outermost first; fields below a missing one are not listed.
#[must_use]
pub fn missing_fields(theirs: &Tree) -> Vec<String> {
    muster_api::crd_schema::missing_fields(&manifest(), theirs, &JOBSETS.version)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    /// Our CRD with a changed schema of `spec`.
    fn with(change: impl Fn(&Tree) -> Tree) -> Tree {
        let versions = manifest().at(&["spec", "versions"]).unwrap().map_items(|_, version| {
            let spec = ["schema", "openAPIV3Schema", "properties", "spec"];
            version.with(&spec, change(version.at(&spec).unwrap()))
        });
        manifest().with(&["spec", "versions"], versions)
    }

    #[test]
    fn our_crd_lacks_no_field() {
        assert!(missing_fields(&manifest()).is_empty());
        assert!(missing_fields(&with(|_| tree!({"x-kubernetes-preserve-unknown-fields": true}))).is_empty());
    }

    #[test]
    fn an_older_crd_lacks_later_fields() {
        let jobs = ["properties", "replicatedJobs", "items", "properties"];
        let older = with(|spec| {
            let claims = [&jobs[..], &["resourceClaimTemplates"]].concat();
            let deep = [&jobs[..], &["template", "properties", "spec", "properties", "suspend"]].concat();
            spec.without(&["properties", "volumeClaimPolicies"]).without(&claims).without(&deep)
        });
        assert_eq!(
            missing_fields(&older),
            [
                "spec.volumeClaimPolicies",
                "spec.replicatedJobs[].resourceClaimTemplates",
                "spec.replicatedJobs[].template.spec.suspend"
            ]
        );
        assert_eq!(missing_fields(&tree!({})), ["version v1alpha2"]);
    }
}
