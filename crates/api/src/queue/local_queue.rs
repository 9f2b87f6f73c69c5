//! Typed views of LocalQueues and Cohorts.

use muster_tree::{Text, Tree};

use super::cluster_queue::ResourceGroup;
use super::condition::{self, Condition};
use super::consts::conditions;
use super::paths::{cohort, local_queue as path, queue_status};
use super::{StopPolicy, weight};
use crate::client::Uid;
use crate::meta;

/// The fields of a LocalQueue that the queue engine reads.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror metadata and spec of a LocalQueue")]
pub struct LocalQueueFacts {
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
    pub generation: i64,
    pub deleting: bool,
    pub cluster_queue: Text,
    pub stop: StopPolicy,
    pub weight_nano: i64,
    /// The `Active` condition as last written.
    pub active: bool,
}

impl LocalQueueFacts {
    /// Reads a LocalQueue in the storage version.
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
            deleting: meta::deletion_timestamp(tree).is_some(),
            cluster_queue: tree.text_at(path::CLUSTER_QUEUE),
            stop: StopPolicy::of(tree.str_at(path::STOP)),
            weight_nano: weight(tree.at(path::WEIGHT)),
            active: condition::holds(&found, conditions::ACTIVE),
        }
    }
}

/// The fields of a Cohort that the queue engine reads.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror metadata and spec of a Cohort")]
pub struct CohortFacts {
    pub name: Text,
    pub uid: Uid,
    pub deleting: bool,
    /// `parentName`; empty for a root.
    pub parent: Text,
    /// `resourceGroups`: quota of the Cohort itself.
    pub groups: Vec<ResourceGroup>,
    pub weight_nano: i64,
}

impl CohortFacts {
    /// Reads a Cohort in the storage version.
    #[must_use]
    pub fn of(tree: &Tree) -> CohortFacts {
        CohortFacts {
            name: meta::name(tree),
            uid: meta::uid(tree),
            deleting: meta::deletion_timestamp(tree).is_some(),
            parent: tree.text_at(cohort::PARENT),
            groups: tree.items_at(cohort::GROUPS).iter().map(ResourceGroup::of).collect(),
            weight_nano: weight(tree.at(cohort::WEIGHT)),
        }
    }
}
