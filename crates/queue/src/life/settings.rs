//! What the configuration says about the life of Workloads.

use std::time::Duration;

/// Which words conditions use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wording {
    /// One reason for each thing that can be in the way.
    #[default]
    Telling,
    /// `Pending`, `Inadmissible` and `Waiting`, as older clients expect them.
    Old,
}

/// Rules for pods that do not get ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyRules {
    /// How long pods may take from admission until they are ready.
    pub timeout: Duration,
    /// How long pods may take to be ready again; none means for ever.
    pub recovery_timeout: Option<Duration>,
    /// Whether nobody is admitted while pods of others are not ready.
    pub block_admission: bool,
    /// How often a Workload may come back; none means always.
    pub backoff_limit: Option<u32>,
    /// The first pause before it comes back; each further one is twice as long.
    pub backoff_base: Duration,
    /// The longest pause.
    pub backoff_max: Duration,
}

impl Default for ReadyRules {
    fn default() -> ReadyRules {
        let timeout = Duration::from_secs(30 * 60);
        ReadyRules {
            timeout,
            recovery_timeout: Some(timeout),
            block_admission: false,
            backoff_limit: None,
            backoff_base: Duration::from_secs(60),
            backoff_max: Duration::from_secs(3600),
        }
    }
}

/// What the configuration says about the life of Workloads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Rules for pods that do not get ready, if anybody looks.
    pub ready: Option<ReadyRules>,
    /// When finished Workloads are deleted.
    pub delete_finished_after: Option<Duration>,
    /// When jobs are deleted whose Workload the system deactivated.
    pub delete_deactivated_after: Option<Duration>,
    /// Which words conditions use.
    pub wording: Wording,
}
