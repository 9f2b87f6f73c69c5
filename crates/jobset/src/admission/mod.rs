//! Defaulting and validation of JobSets and of their pods.
//!
//! The embedded API server calls these functions in process, the operator from its admission webhooks.

mod children;
mod claim_names;
mod claims;
mod coordinator;
mod create;
mod defaults;
mod devices;
mod failure;
mod gang;
mod jobs;
mod leader;
mod live_claims;
mod network;
mod pods;
mod retained_claims;
mod template_diff;
#[cfg(test)]
mod testing;
mod update;
mod volumes;

use muster_api::client::Kind;
use muster_api::kinds;
use muster_tree::{Text, Tree};

pub use children::{Cause, DryRun};
pub use defaults::default_jobset;
pub use muster_schema::admission::Answer;
pub use pods::{mutate_pod, validate_pod};

use crate::FeatureGates;

/// Feature gates and options of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdmissionSettings {
    pub gates: FeatureGates,
    /// Reject a pod template that overrides a claim template.
    pub reject_overrides: bool,
}

/// Live reads of other objects. Errors are messages for the client.
pub trait LiveLister {
    /// Gets a PersistentVolumeClaim.
    ///
    /// # Errors
    /// The read failed.
    fn volume_claim(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String>;

    /// Lists the ResourceClaims with this name prefix, or a superset; empty if ResourceClaims are not served.
    ///
    /// # Errors
    /// The list failed.
    fn device_claims(&self, namespace: &str, beginning: &str) -> Result<Vec<Tree>, String>;

    /// Gets a Node.
    ///
    /// # Errors
    /// The read failed.
    fn node(&self, name: &str) -> Result<Option<Tree>, String>;

    /// Lists the pods with completion index 0 of the Job with this key or name prefix, or a superset.
    ///
    /// # Errors
    /// The list failed.
    fn first_pods(&self, namespace: &str, beginning: &str, key: &str) -> Result<Vec<Tree>, String>;

    /// Creates an object with `dryRun: All` and returns the validation errors.
    fn dry_run(&self, kind: &Kind, object: &Tree) -> DryRun;

    /// The versions of ResourceClaims that may be served, the preferred one first.
    fn device_claim_kinds(&self) -> Vec<Kind> {
        vec![kinds::RESOURCE_CLAIMS.clone()]
    }
}

#[derive(Clone, Copy)]
pub struct AdmissionContext<'a> {
    /// The namespace of the request: the object may omit it.
    pub namespace: &'a Text,
    pub object: &'a Tree,
    /// The stored object; `None` on create.
    pub old: Option<&'a Tree>,
    pub live: &'a dyn LiveLister,
    pub settings: &'a AdmissionSettings,
}

/// Validates the create or update of a JobSet.
#[must_use]
pub fn validate_jobset(asked: &AdmissionContext<'_>) -> Answer {
    let mut answer = check_jobset(asked);
    if !answer.is_refused() {
        children::check(asked, &mut answer);
    }
    create::shorten(&mut answer.warnings);
    answer
}

/// Validates a JobSet without its child objects.
fn check_jobset(asked: &AdmissionContext<'_>) -> Answer {
    match asked.old {
        None => create::check(asked),
        Some(old) => update::check(asked, old),
    }
}
