//! Groups of pods: each is born with what keeps it while pods name it. Whoever takes that off is a controller.

use muster_api::gang::Form;
use muster_api::kinds::POD_GROUPS;
use muster_api::{meta, volume};
use muster_apiserver::admission::{AdmissionRequest, Hook, Operation, Verdict};

/// The step.
#[derive(Debug, Clone, Copy)]
pub struct PodGroups;

impl PodGroups {
    /// The name of the step.
    pub const NAME: &str = "podgroup";
}

impl Hook for PodGroups {
    fn name(&self) -> &str {
        PodGroups::NAME
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let is_new =
            request.operation == Operation::Create && request.is(&POD_GROUPS.group, &POD_GROUPS.plural);
        let (true, Some(group), Some(finalizer)) = (is_new, request.object, Form::Proposal.protection())
        else {
            return Verdict::allow();
        };
        if meta::has_finalizer(group, finalizer) {
            return Verdict::allow();
        }
        Verdict::change(group.merge(&volume::protected(group, finalizer)))
    }
}
