//! What is read of LocalQueues and Cohorts.

use muster_tree::{Text, Tree};

use super::cluster_queue::ResourceGroup;
use super::condition::{self, Condition};
use super::paths::{cohort, local_queue as path, queue_status};
use super::words::conditions;
use super::{StopPolicy, weight};
use crate::meta;
use crate::port::Uid;

/// What is read of a LocalQueue.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalQueueFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// How often its spec was changed.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its ClusterQueue.
    pub cluster_queue: Text,
    /// Whether it takes work.
    pub stop: StopPolicy,
    /// Its weight among others, in billionths.
    pub weight_nano: i64,
    /// Its own condition `Active`, as written.
    pub active: bool,
}

impl LocalQueueFacts {
    /// Reads a LocalQueue.
    #[must_use]
    pub fn of(tree: &Tree) -> LocalQueueFacts {
        let status = tree.at(path::STATUS).unwrap_or(&Tree::Null);
        let found: Vec<Condition> =
            status.items_at(queue_status::CONDITIONS).iter().map(Condition::of).collect();
        LocalQueueFacts {
            namespace: meta::namespace(tree),
            name: meta::name(tree),
            uid: meta::uid(tree),
            generation: tree.int_at(crate::paths::meta::GENERATION).unwrap_or(0),
            deleting: meta::deleting(tree).is_some(),
            cluster_queue: tree.text_at(path::CLUSTER_QUEUE),
            stop: StopPolicy::of(tree.str_at(path::STOP)),
            weight_nano: weight(tree.at(path::WEIGHT)),
            active: condition::holds(&found, conditions::ACTIVE),
        }
    }
}

/// What is read of a Cohort.
#[derive(Debug, Clone, PartialEq)]
pub struct CohortFacts {
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The Cohort it is in; empty for none.
    pub parent: Text,
    /// What it has itself.
    pub groups: Vec<ResourceGroup>,
    /// Its weight among others, in billionths.
    pub weight_nano: i64,
}

impl CohortFacts {
    /// Reads a Cohort.
    #[must_use]
    pub fn of(tree: &Tree) -> CohortFacts {
        CohortFacts {
            name: meta::name(tree),
            uid: meta::uid(tree),
            deleting: meta::deleting(tree).is_some(),
            parent: tree.text_at(cohort::PARENT),
            groups: tree.items_at(cohort::GROUPS).iter().map(ResourceGroup::of).collect(),
            weight_nano: weight(tree.at(cohort::WEIGHT)),
        }
    }
}
