//! Warns of input that this server stores and does not act on: the rows of [`muster_api::unsupported`].

use muster_api::unsupported::{TABLE, Unsupported};
use muster_tree::Tree;

use super::builtin::UNSUPPORTED;
use super::{AdmissionRequest, Hook, Operation, Verdict};

/// Answers a write that brings such input with a warning. An update is warned of what the object did not have before.
pub(super) struct UnsupportedInput;

impl Hook for UnsupportedInput {
    fn name(&self) -> &str {
        UNSUPPORTED
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let (Operation::Create | Operation::Update, Some(object)) = (request.operation, request.object)
        else {
            return Verdict::allow();
        };
        let resource = request.resource;
        let about = TABLE.iter().filter(|row| row.is_about(&resource.group, &resource.plural));
        let new = |row: &&Unsupported| {
            let is_in = |object: &Tree| row.is_in(object, request.subresource);
            // A write through a subresource has such input each time.
            is_in(object) && (!request.subresource.is_empty() || !request.old.is_some_and(is_in))
        };
        let warnings = about.filter(new).map(|row| row.warning(&resource.kind)).collect();
        Verdict::Allow { changed: None, warnings }
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
