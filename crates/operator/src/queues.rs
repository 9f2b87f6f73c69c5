//! What is configured of queues, as their parts want to hear it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use muster_api::ports::Clock;
use muster_api::quantity;
use muster_control::queueing;
use muster_control::queueing::desk::Desk;
use muster_hooks::QueueSettings;
use muster_queue::engine::spec::{RequeueFrom, Settings as EngineSettings, ShareRule};
use muster_queue::jobs::ancestors::{External, Managed};
use muster_queue::jobs::plan::Settings as JobSettings;
use muster_queue::jobs::requests::{Accounting, Strategy, Transformation};
use muster_queue::kinds::config::{Settings, ShareStrategy, WaitForPodsReady};
use muster_queue::life::settings::{ReadyRules, Settings as LifeSettings};
use muster_queue::pods;
use muster_tree::Tree;

use crate::config::Kept;

/// What is wrong with what is configured of queues.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongQueues(Vec<String>);

impl std::error::Error for WrongQueues {}

impl fmt::Display for WrongQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {}", self.0.join("\n  "))
    }
}

/// What is configured of queues: by a document of Kueue's or by `queueing` of ours, the rest by default. `own` is the
/// namespace in which we run.
///
/// # Errors
/// All that is wrong.
pub fn configured(kept: &Kept, own: &str) -> Result<Settings, WrongQueues> {
    let document = kept.queueing.as_ref();
    let below = document.filter(|it| it.get("apiVersion").is_none()).map_or("", |_| "queueing.");
    Settings::of(document, own).map_err(|all| {
        WrongQueues(all.into_iter().map(|it| format!("{below}{}: {}", it.path, it.words)).collect())
    })
}

/// What new jobs and pods are held against.
#[must_use]
pub fn admission(of: &Settings) -> QueueSettings {
    let namespaces = [Some(of.namespaces.clone()), of.pods.namespaces.clone()];
    QueueSettings {
        managed: managed(of),
        namespaces: of.namespaces.clone(),
        pods: pods::admit::Settings {
            namespaces: namespaces.into_iter().flatten().collect(),
            pods: of.pods.pods.clone(),
            without_queue: of.without_queue_name,
        },
    }
}

/// What the controller goes by, what it measures time with, and where it is asked.
#[must_use]
pub fn control(of: &Settings, clock: &Arc<dyn Clock>, desk: Desk) -> queueing::Settings {
    queueing::Settings {
        engine: EngineSettings {
            fair_sharing: of.fair_sharing.as_ref().map(|all| all.iter().copied().map(share_rule).collect()),
            block_admission: of.wait.is_some_and(|it| it.blocks),
            requeue_from: match of.wait {
                Some(wait) if !wait.requeuing.by_eviction => RequeueFrom::Creation,
                _ => RequeueFrom::Eviction,
            },
            ..EngineSettings::default()
        },
        life: LifeSettings {
            ready: of.wait.map(ready_rules),
            delete_finished_after: of.retention.after_finished,
            delete_deactivated_after: of.retention.after_deactivated,
            ..LifeSettings::default()
        },
        jobs: JobSettings {
            label_keys: of.label_keys.clone(),
            without_queue: of.without_queue_name,
            tells_pods_ready: of.wait.is_some(),
            ..JobSettings::default()
        },
        pods: pods::plan::Settings {
            label_keys: of.label_keys.clone(),
            tells_ready: of.wait.is_some(),
            ..pods::plan::Settings::default()
        },
        managed: managed(of),
        accounting: accounting(of),
        namespaces: of.namespaces.clone(),
        stopwatch: queueing::Stopwatch(Some(clock.clone())),
        desk,
    }
}

fn managed(of: &Settings) -> Managed {
    let external = of.external.iter().map(|it| External { kind: it.kind.clone(), group: it.group.clone() });
    Managed {
        enabled: of.frameworks.iter().cloned().collect(),
        external: external.collect(),
        without_queue: of.without_queue_name,
    }
}

fn share_rule(strategy: ShareStrategy) -> ShareRule {
    match strategy {
        ShareStrategy::LessThanOrEqualToFinalShare => ShareRule::LessThanOrEqualToFinalShare,
        ShareStrategy::LessThanInitialShare => ShareRule::LessThanInitialShare,
    }
}

fn ready_rules(wait: WaitForPodsReady) -> ReadyRules {
    let secs = |secs: u32| Duration::from_secs(u64::from(secs));
    ReadyRules {
        timeout: wait.timeout,
        recovery_timeout: wait.recovery,
        block_admission: wait.blocks,
        backoff_limit: wait.requeuing.limit,
        backoff_base: secs(wait.requeuing.base_secs),
        backoff_max: secs(wait.requeuing.max_secs),
    }
}

fn accounting(of: &Settings) -> Accounting {
    let thousandths = |amount: &Tree| quantity::nano(&quantity::text(amount)).unwrap_or(0) / 1_000_000;
    let one = |it: &muster_queue::kinds::config::Transformation| Transformation {
        input: it.input.clone(),
        strategy: if it.retains { Strategy::Retain } else { Strategy::Replace },
        multiply_by: it.multiply_by.clone(),
        outputs: it.outputs.iter().map(|(name, amount)| (name.clone(), thousandths(amount))).collect(),
    };
    Accounting {
        exclude_prefixes: of.resources.excluded_prefixes.clone(),
        transformations: of.resources.transformations.iter().map(one).collect(),
    }
}
