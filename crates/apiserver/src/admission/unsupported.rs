//! Warns about fields that this server stores and does not implement: the rows of [`muster_api::unsupported`].

use muster_api::unsupported::{TABLE, UnsupportedFeature};
use muster_tree::Tree;

use super::builtin::UNSUPPORTED;
use super::{AdmissionDecision, AdmissionPlugin, AdmissionRequest, Operation};

/// Warns on create, and on updates that add such a field.
pub(super) struct UnsupportedInput;

impl AdmissionPlugin for UnsupportedInput {
    fn name(&self) -> &str {
        UNSUPPORTED
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let (Operation::Create | Operation::Update, Some(object)) = (request.operation, request.object)
        else {
            return AdmissionDecision::allow();
        };
        let resource = request.resource;
        let about = TABLE.iter().filter(|row| row.matches_resource(&resource.group, &resource.plural));
        let new = |row: &&UnsupportedFeature| {
            let is_in = |object: &Tree| row.matches_object(object, request.subresource);
            // Writes through a subresource warn every time.
            is_in(object) && (!request.subresource.is_empty() || !request.old.is_some_and(is_in))
        };
        let warnings = about.filter(new).map(|row| row.warning(&resource.kind)).collect();
        AdmissionDecision::Allow { changed: None, warnings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_about_a_resource_that_is_served() {
        let served = crate::registry::builtin();
        let custom = ["jobset.x-k8s.io", "kueue.x-k8s.io", "trainer.kubeflow.org"];
        for row in TABLE.iter().filter(|row| !row.plural.is_empty() && !custom.contains(&row.group)) {
            let found = served.iter().find(|it| it.group == row.group && it.plural == row.plural);
            let found = found.unwrap_or_else(|| panic!("{}.{} is not served", row.plural, row.group));
            assert!(found.versions.iter().any(|it| it.name == "v1"), "{}", row.plural);
        }
    }
}
