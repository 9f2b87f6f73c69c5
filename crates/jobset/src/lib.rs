//! The JobSet API: reconciliation, admission and the CRD, without I/O.
//!
//! # Guarantees
//!
//! - Pure functions: the same snapshot gives the same steps in the same order.
//! - Every step is idempotent, and the restart count is written to the status before any Job is deleted: a crash between
//!   two steps restarts nothing twice.
//! - Objects of another owner are never modified: Jobs and claims are matched by the UID of their controller.
//! - A PersistentVolumeClaim with `whenDeleted: Retain` gets no owner reference, and no claim is deleted here.
//!
//! # Deliberately absent
//!
//! The execution of the steps and the webhook server: the embedded server calls this crate in process, the operator
//! through the API of a cluster.

pub mod admission;
pub mod build;
pub mod child_jobs;
pub mod crd;
pub mod gangs;
pub mod rbac;
pub mod reconcile;

/// The upstream feature gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureGates {
    /// The gate `InPlaceRestart`: restart strategy.
    pub in_place_restart: bool,
    /// The gate `RestartJob`: failure policy actions for one Job.
    pub restart_job: bool,
    /// The gate `ElasticJobSet`: mutable parallelism.
    pub elastic: bool,
    /// The gate `JobSetResourceClaimTemplates`: claims per Job.
    pub claim_templates: bool,
}

impl Default for FeatureGates {
    fn default() -> FeatureGates {
        FeatureGates { in_place_restart: false, restart_job: false, elastic: false, claim_templates: true }
    }
}
