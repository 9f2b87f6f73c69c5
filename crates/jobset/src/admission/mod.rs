//! What is filled in and refused when JobSets and their pods are written.
//!
//! The same functions answer in process and as webhooks of a cluster.

mod alike;
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
mod reuse;
#[cfg(test)]
mod testing;
mod update;
mod volumes;

use muster_api::kinds;
use muster_api::port::Kind;
use muster_tree::{Text, Tree};

pub use children::{Cause, DryRun};
pub use defaults::default_jobset;
pub use muster_schema::admission::Answer;
pub use pods::{mutate_pod, validate_pod};

use crate::Gates;

/// What can be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Features.
    pub gates: Gates,
    /// Whether a pod template that overrides a claim template is refused.
    pub reject_overrides: bool,
}

/// Objects that admission may look at. The errors are words for the client.
pub trait Live {
    /// A volume claim.
    ///
    /// # Errors
    /// It cannot be told whether there is one.
    fn volume_claim(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String>;

    /// The device claims of a namespace whose names begin so; more than those do no harm, and there are none where no such
    /// kind is served.
    ///
    /// # Errors
    /// They cannot be listed.
    fn device_claims(&self, namespace: &str, beginning: &str) -> Result<Vec<Tree>, String>;

    /// A node.
    ///
    /// # Errors
    /// It cannot be told whether there is one.
    fn node(&self, name: &str) -> Result<Option<Tree>, String>;

    /// The pods of index 0 of the Job with this key, whose names begin so: looked up by either, and more than those do
    /// no harm.
    ///
    /// # Errors
    /// They cannot be listed.
    fn first_pods(&self, namespace: &str, beginning: &str, key: &str) -> Result<Vec<Tree>, String>;

    /// What the API server finds wrong with an object of this kind when it is created. Nothing is stored.
    fn dry_run(&self, kind: &Kind, object: &Tree) -> DryRun;

    /// The versions in which device claims may be served, the best first.
    fn device_claim_kinds(&self) -> Vec<Kind> {
        vec![kinds::RESOURCE_CLAIMS.clone()]
    }
}

/// What is asked about a write.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Namespace of the request: objects need not carry it.
    pub namespace: &'a Text,
    /// The object as it would be.
    pub object: &'a Tree,
    /// The object as it is; absent on create.
    pub old: Option<&'a Tree>,
    /// Other objects.
    pub live: &'a dyn Live,
    /// Switches.
    pub settings: &'a Settings,
}

/// Whether a JobSet may be created, or changed as it would be.
#[must_use]
pub fn validate_jobset(asked: &Asked<'_>) -> Answer {
    let mut answer = check_jobset(asked);
    if !answer.is_refused() {
        children::check(asked, &mut answer);
    }
    create::shorten(&mut answer.warnings);
    answer
}

/// What is wrong with a JobSet itself.
fn check_jobset(asked: &Asked<'_>) -> Answer {
    match asked.old {
        None => create::check(asked),
        Some(old) => update::check(asked, old),
    }
}
