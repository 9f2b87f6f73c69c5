//! JobSets: what one needs next, what is accepted, and their definition.
//!
//! # Invariants
//!
//! - Everything here is a function of its arguments.
//!
//! # Deliberately absent
//!
//! Who performs the steps, and who asks for admission: the embedded server does both in process, an operator through
//! the API of a cluster.

pub mod admission;

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
