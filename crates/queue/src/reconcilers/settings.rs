//! Configuration of the reconcilers.

use std::time::Duration;

/// Format of the reason of `QuotaReserved=False`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReasonFormat {
    /// One reason per cause.
    #[default]
    Detailed,
    /// `Pending`, `Inadmissible` and `Waiting`, as in older Kueue releases.
    Legacy,
}

/// Field `waitForPodsReady` of Kueue's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodsReadyPolicy {
    /// Time from admission until `PodsReady`.
    pub timeout: Duration,
    /// Time to become ready again after a pod failed; None: unlimited.
    pub recovery_timeout: Option<Duration>,
    /// Nothing is admitted while the pods of an admitted Workload are not ready.
    pub block_admission: bool,
    /// Field `backoffLimitCount` of Kueue's configuration; None: unlimited.
    pub backoff_limit: Option<u32>,
    /// The first requeue backoff; it doubles with each requeue.
    pub backoff_base: Duration,
    pub backoff_max: Duration,
}

impl Default for PodsReadyPolicy {
    fn default() -> PodsReadyPolicy {
        let timeout = Duration::from_secs(30 * 60);
        PodsReadyPolicy {
            timeout,
            recovery_timeout: Some(timeout),
            block_admission: false,
            backoff_limit: None,
            backoff_base: Duration::from_secs(60),
            backoff_max: Duration::from_secs(3600),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReconcilerSettings {
    /// None: `waitForPodsReady` is off.
    pub pods_ready: Option<PodsReadyPolicy>,
    /// Retention of finished Workloads; None: kept forever.
    pub delete_finished_after: Option<Duration>,
    /// Retention of jobs with a Workload deactivated by the system; None: kept forever.
    pub delete_deactivated_after: Option<Duration>,
    /// Format of the reason of `QuotaReserved=False`.
    pub wording: ReasonFormat,
}
