//! Kueue's configuration file in both versions, with defaults.
//!
//! Documents are already checked for unknown keys and types by the file reader; everything else is validated here.
//!
//! # Guarantees
//!
//! - All errors are reported at once, each with its path.
//! - No selector matches system namespaces: their pods keep the cluster running.
//!
//! # Deliberately absent
//!
//! Ports, certificates and leader election: options of the operator.

mod read;
#[cfg(test)]
mod tests;

use std::time::Duration;

use muster_api::queue::consts::{CONFIG_V1BETA1, CONFIG_V1BETA2, JOBSET_INTEGRATION, TRAINJOB_INTEGRATION};
use muster_api::selector::LabelSelector;
use muster_tree::{Text, Tree};

pub const V1BETA1: &str = CONFIG_V1BETA1;
/// Our own configuration file has the keys of this version.
pub const V1BETA2: &str = CONFIG_V1BETA2;

/// The label that kube-apiserver sets on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Namespaces that are never managed.
const SYSTEM: [&str; 2] = ["kube-system", "kueue-system"];

pub const FRAMEWORKS: [&str; 4] = ["pod", "batch/job", JOBSET_INTEGRATION, TRAINJOB_INTEGRATION];
/// Kueue integrations that are not supported here; documents may name them.
const FOREIGN: [&str; 14] = [
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "kubeflow.org/mpijob",
    "kubeflow.org/jaxjob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "workload.codeflare.dev/appwrapper",
    "sparkoperator.k8s.io/sparkapplication",
];

#[derive(Debug, Clone, PartialEq)]
pub struct QueueConfig {
    /// Enabled integrations, of [`FRAMEWORKS`].
    pub frameworks: Vec<Text>,
    /// Enabled integrations that are not supported.
    pub unsupported_frameworks: Vec<Text>,
    /// Field `integrations.externalFrameworks` of Kueue's configuration.
    pub external: Vec<ExternalFrameworkConfig>,
    /// Field `integrations.labelKeysToCopy` of Kueue's configuration.
    pub label_keys: Vec<Text>,
    /// Field `integrations.podOptions` of Kueue's configuration.
    pub pods: PodOptions,
    /// Field `manageJobsWithoutQueueName` of Kueue's configuration.
    pub without_queue_name: bool,
    /// Field `managedJobsNamespaceSelector` of Kueue's configuration.
    pub namespaces: LabelSelector,
    /// Field `waitForPodsReady` of Kueue's configuration; None: off.
    pub wait_for_pods_ready: Option<WaitForPodsReady>,
    /// Field `resources` of Kueue's configuration.
    pub resources: ResourcesConfig,
    /// Field `fairSharing.preemptionStrategies` of Kueue's configuration; None: off.
    pub fair_sharing: Option<Vec<PreemptionStrategyConfig>>,
    /// Field `objectRetentionPolicies` of Kueue's configuration.
    pub retention: RetentionPolicies,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalFrameworkConfig {
    pub kind: Text,
    pub version: Text,
    pub group: Text,
}

/// `integrations.podOptions`; each selector applies if set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodOptions {
    pub namespaces: Option<LabelSelector>,
    pub pods: Option<LabelSelector>,
}

/// Field `waitForPodsReady` of Kueue's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitForPodsReady {
    /// Time from admission until `PodsReady`.
    pub timeout: Duration,
    /// Field `recoveryTimeout` of Kueue's configuration; None: unlimited.
    pub recovery: Option<Duration>,
    /// Field `blockAdmission` of Kueue's configuration.
    pub blocks: bool,
    pub requeuing: RequeuingStrategy,
}

/// Field `requeuingStrategy` of Kueue's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequeuingStrategy {
    /// `timestamp: Eviction`; otherwise `Creation`.
    pub by_eviction: bool,
    /// Field `backoffLimitCount` of Kueue's configuration; None: unlimited.
    pub limit: Option<u32>,
    /// Field `backoffBaseSeconds` of Kueue's configuration.
    pub base_secs: u32,
    /// Field `backoffMaxSeconds` of Kueue's configuration.
    pub max_secs: u32,
}

impl Default for RequeuingStrategy {
    fn default() -> RequeuingStrategy {
        RequeuingStrategy { by_eviction: true, limit: None, base_secs: 60, max_secs: 3600 }
    }
}

/// Field `resources` of Kueue's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourcesConfig {
    /// Field `excludeResourcePrefixes` of Kueue's configuration.
    pub excluded_prefixes: Vec<Text>,
    pub transformations: Vec<TransformationConfig>,
}

/// An entry of `resources.transformations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransformationConfig {
    pub input: Text,
    /// Field `strategy: Retain` of Kueue's configuration.
    pub retains: bool,
    /// The amount of each output per unit, as quantities.
    pub outputs: Vec<(Text, Tree)>,
    /// The resource that multiplies the outputs by its amount.
    pub multiply_by: Option<Text>,
}

/// Field `fairSharing.preemptionStrategies[]` of Kueue's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreemptionStrategyConfig {
    /// The preemptor's share after the preemption is at most the victim's share after it.
    LessThanOrEqualToFinalShare,
    /// The preemptor's share after the preemption is below the victim's share before it.
    LessThanInitialShare,
}

/// `objectRetentionPolicies`; None: kept forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionPolicies {
    pub after_finished: Option<Duration>,
    /// Jobs with a Workload deactivated by the system.
    pub after_deactivated: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfigError {
    /// Path of the field.
    pub path: String,
    /// The problem and how to fix it.
    pub words: String,
}

impl QueueConfig {
    /// Reads a document; None gives the defaults. `own` is the namespace we run in.
    ///
    /// # Errors
    /// All errors of the document.
    pub fn of(document: Option<&Tree>, own: &str) -> Result<QueueConfig, Vec<QueueConfigError>> {
        read::settings(document.unwrap_or(&Tree::Null), own)
    }

    /// The defaults; `own` is the namespace we run in.
    ///
    /// # Panics
    /// Never: an empty document is valid.
    #[must_use]
    pub fn default_for(own: &str) -> QueueConfig {
        QueueConfig::of(None, own).expect("nothing said is nothing wrong")
    }

    /// Whether an integration is enabled.
    #[must_use]
    pub fn serves(&self, framework: &str) -> bool {
        self.frameworks.iter().any(|it| it == framework)
    }
}
