//! JobSets: what one needs next, what is accepted, and their definition.
//!
//! # Invariants
//!
//! - Everything here is a function of its arguments: same picture, same steps, same order.
//! - Each step of a plan is safe to repeat, and the status that says "once more" is written before anything is deleted
//!   for it: a crash between any two steps restarts nothing twice.
//! - Nothing of a stranger's is touched: Jobs are told by the UID of their owner, claims too.
//! - A volume that is to be kept is never given an owner, and nothing here deletes a volume.
//!
//! # Deliberately absent
//!
//! Who performs the steps, and who asks for admission: the embedded server does both in process, an operator through
//! the API of a cluster.

pub mod admission;
pub mod build;
pub mod children;
pub mod crd;
pub mod gangs;
pub mod plan;
pub mod rights;

/// Switches of single features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    /// `InPlaceRestart`.
    pub in_place_restart: bool,
    /// `RestartJob`.
    pub restart_job: bool,
    /// `ElasticJobSet`.
    pub elastic: bool,
    /// `JobSetResourceClaimTemplates`.
    pub claim_templates: bool,
}

impl Default for Gates {
    fn default() -> Gates {
        Gates { in_place_restart: false, restart_job: false, elastic: false, claim_templates: true }
    }
}
