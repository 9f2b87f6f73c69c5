//! Maps Kueue's configuration to the settings of the queue controller, the engine and admission.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use muster_api::environment::Clock;
use muster_api::quantity;
use muster_control::queueing;
use muster_control::queueing::visibility_query::VisibilityHandle;
use muster_hooks::QueueWebhookConfig;
use muster_queue::engine::spec::{EngineSettings, FairSharingStrategy, RequeuingTimestamp};
use muster_queue::jobs::owner_chain::{ExternalFramework, ManagedKinds};
use muster_queue::jobs::reconciler::JobReconcilerSettings as JobSettings;
use muster_queue::jobs::requests::{ResourceAccounting, ResourceTransformation, TransformationStrategy};
use muster_queue::kinds::config::{PreemptionStrategyConfig, QueueConfig, WaitForPodsReady};
use muster_queue::pods;
use muster_queue::reconcilers::settings::{PodsReadyPolicy, ReconcilerSettings as LifeSettings};
use muster_tree::Tree;

use crate::config::UpstreamDocuments;

/// Kueue's configuration is invalid; one message per problem.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueConfigError(Vec<String>);

impl std::error::Error for QueueConfigError {}

impl fmt::Display for QueueConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {}", self.0.join("\n  "))
    }
}

/// The queue settings: from a Kueue document or `queueing` of our own, defaults for the rest. `own` is the operator's
/// namespace, which may never be managed.
///
/// # Errors
/// Every problem of the document.
pub fn settings(kept: &UpstreamDocuments, own: &str) -> Result<QueueConfig, QueueConfigError> {
    let document = kept.queueing.as_ref();
    let below = document.filter(|it| it.get("apiVersion").is_none()).map_or("", |_| "queueing.");
    QueueConfig::of(document, own).map_err(|all| {
        QueueConfigError(all.into_iter().map(|it| format!("{below}{}: {}", it.path, it.words)).collect())
    })
}

/// The admission settings for jobs and pods.
#[must_use]
pub fn admission(of: &QueueConfig) -> QueueWebhookConfig {
    let namespaces = [Some(of.namespaces.clone()), of.pods.namespaces.clone()];
    QueueWebhookConfig {
        managed: managed(of),
        namespaces: of.namespaces.clone(),
        pods: pods::mutate::PodWebhookSettings {
            namespaces: namespaces.into_iter().flatten().collect(),
            pods: of.pods.pods.clone(),
            without_queue: of.without_queue_name,
        },
    }
}

/// The settings of the queue controller, with its clock and the receiver of visibility queries.
#[must_use]
pub fn controller_settings(
    of: &QueueConfig,
    clock: &Arc<dyn Clock>,
    desk: VisibilityHandle,
) -> queueing::QueueControllerConfig {
    queueing::QueueControllerConfig {
        engine: EngineSettings {
            fair_sharing_strategies: of
                .fair_sharing
                .as_ref()
                .map(|all| all.iter().copied().map(fair_sharing_strategy).collect()),
            block_admission: of.wait_for_pods_ready.is_some_and(|it| it.blocks),
            requeuing_timestamp: match of.wait_for_pods_ready {
                Some(wait) if !wait.requeuing.by_eviction => RequeuingTimestamp::Creation,
                _ => RequeuingTimestamp::Eviction,
            },
            ..EngineSettings::default()
        },
        life: LifeSettings {
            pods_ready: of.wait_for_pods_ready.map(pods_ready_policy),
            delete_finished_after: of.retention.after_finished,
            delete_deactivated_after: of.retention.after_deactivated,
            ..LifeSettings::default()
        },
        jobs: JobSettings {
            label_keys: of.label_keys.clone(),
            without_queue: of.without_queue_name,
            reports_pods_ready: of.wait_for_pods_ready.is_some(),
            ..JobSettings::default()
        },
        pods: pods::reconciler::PodReconcilerSettings {
            label_keys: of.label_keys.clone(),
            reports_pods_ready: of.wait_for_pods_ready.is_some(),
            ..pods::reconciler::PodReconcilerSettings::default()
        },
        managed: managed(of),
        accounting: resource_accounting(of),
        namespaces: of.namespaces.clone(),
        cycle_timer: queueing::CycleTimer(Some(clock.clone())),
        visibility: desk,
    }
}

fn managed(of: &QueueConfig) -> ManagedKinds {
    let external =
        of.external.iter().map(|it| ExternalFramework { kind: it.kind.clone(), group: it.group.clone() });
    ManagedKinds {
        enabled: of.frameworks.iter().cloned().collect(),
        external: external.collect(),
        without_queue: of.without_queue_name,
    }
}

fn fair_sharing_strategy(strategy: PreemptionStrategyConfig) -> FairSharingStrategy {
    match strategy {
        PreemptionStrategyConfig::LessThanOrEqualToFinalShare => {
            FairSharingStrategy::LessThanOrEqualToFinalShare
        }
        PreemptionStrategyConfig::LessThanInitialShare => FairSharingStrategy::LessThanInitialShare,
    }
}

fn pods_ready_policy(wait: WaitForPodsReady) -> PodsReadyPolicy {
    let secs = |secs: u32| Duration::from_secs(u64::from(secs));
    PodsReadyPolicy {
        timeout: wait.timeout,
        recovery_timeout: wait.recovery,
        block_admission: wait.blocks,
        backoff_limit: wait.requeuing.limit,
        backoff_base: secs(wait.requeuing.base_secs),
        backoff_max: secs(wait.requeuing.max_secs),
    }
}

fn resource_accounting(of: &QueueConfig) -> ResourceAccounting {
    let thousandths = |amount: &Tree| quantity::nano(&quantity::text(amount)).unwrap_or(0) / 1_000_000;
    let one = |it: &muster_queue::kinds::config::TransformationConfig| ResourceTransformation {
        input: it.input.clone(),
        strategy: if it.retains { TransformationStrategy::Retain } else { TransformationStrategy::Replace },
        multiply_by: it.multiply_by.clone(),
        outputs: it.outputs.iter().map(|(name, amount)| (name.clone(), thousandths(amount))).collect(),
    };
    ResourceAccounting {
        exclude_prefixes: of.resources.excluded_prefixes.clone(),
        transformations: of.resources.transformations.iter().map(one).collect(),
    }
}
