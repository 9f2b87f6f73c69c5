//! The typed view of a JobSet, its status, and the names of its child objects.
//!
//! Defaults of the webhook are filled in on reading, so that a JobSet created without it behaves the same.

pub mod names;
mod status;

use muster_tree::{Text, Tree};

pub use status::{JobSetStatus, ReplicatedJobStatus};

use crate::client::Uid;
use crate::consts::jobset as consts;
use crate::job::CompletionMode;
use crate::paths::{
    jobset as path, jobset_claim as claim_path, jobset_coordinator as coordinator,
    jobset_dependency as dependency, jobset_failure as failure, jobset_rule as rule, jobset_volume as volume,
    jobset_volumes as volumes, replicated_job as job,
};
use crate::{consts::jobset::CONTROLLER, meta};

/// The default of `groupName`.
pub const GROUP_DEFAULT: &str = "default";

/// The fields of a JobSet that its controller reads, with the webhook's defaults filled in.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror metadata and spec of a JobSet")]
pub struct JobSetFacts {
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
    pub deleting: bool,
    pub generation: i64,
    /// `managedBy` names another controller: the JobSet is not reconciled.
    pub managed_externally: bool,
    /// `replicatedJobs`, in spec order.
    pub jobs: Vec<ReplicatedJob>,
    pub network: Network,
    pub success: SuccessPolicy,
    /// `failurePolicy`; `None` fails the JobSet at the first failed Job.
    pub failure: Option<FailurePolicy>,
    /// `startupPolicy: InOrder`: a replicatedJob is created once the previous one is ready.
    pub in_order: bool,
    pub suspend: bool,
    /// DNS name of the coordinator pod.
    pub coordinator: Option<Text>,
    pub ttl_secs: Option<u32>,
    pub volumes: Vec<VolumeTemplate>,
    /// Exclusive placement, from annotations.
    pub exclusive: ExclusivePlacement,
    /// Value of the annotation [`GANG`](crate::gang_objects::consts::GANG).
    pub gang: Option<Text>,
    /// The status as last written.
    pub status: JobSetStatus,
}

/// One entry of `spec.replicatedJobs`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror ReplicatedJob")]
pub struct ReplicatedJob {
    pub name: Text,
    /// `groupName`; `default` when absent.
    pub group: Text,
    /// Number of Jobs; 1 when absent.
    pub replicas: u32,
    pub parallelism: Option<u32>,
    pub completions: Option<u32>,
    pub mode: CompletionMode,
    /// The Job template: metadata and spec.
    pub template: Tree,
    pub depends_on: Vec<Dependency>,
    /// ResourceClaim templates, one claim per Job.
    pub claims: Vec<ClaimTemplate>,
}

impl ReplicatedJob {
    /// Number of ready or succeeded pods at which a Job counts as ready.
    #[must_use]
    pub fn pods(&self) -> u32 {
        let parallelism = self.parallelism.unwrap_or(1);
        self.completions.map_or(parallelism, |completions| parallelism.min(completions))
    }
}

/// One entry of `dependsOn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Name of the replicatedJob it depends on.
    pub replicated_job: Text,
    /// Requires all Jobs to be `Complete`; otherwise `Ready` suffices.
    pub complete: bool,
}

/// `spec.network`: DNS names of the pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// `enableDNSHostnames`: a headless Service is created.
    pub hostnames: bool,
    /// Subdomain of the pods and name of the headless Service; the JobSet name when absent.
    pub subdomain: Text,
    /// `publishNotReadyAddresses`; true when absent, since pods resolve each other before they are ready.
    pub publish_not_ready: bool,
}

/// When a JobSet completes: `spec.successPolicy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessPolicy {
    /// Operator `Any`: one succeeded Job completes the JobSet. Otherwise `All`.
    pub any: bool,
    /// Names of the replicatedJobs that count; empty means all.
    pub targets: Vec<Text>,
}

/// How a JobSet reacts to failed Jobs: `spec.failurePolicy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailurePolicy {
    /// Restarts that count, at most.
    pub max_restarts: i64,
    /// The `restartStrategy` of the policy.
    pub strategy: RestartStrategy,
    /// The first rule that matches decides.
    pub rules: Vec<FailurePolicyRule>,
}

/// `restartStrategy`: how child Jobs are recreated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartStrategy {
    /// Each Job as soon as its predecessor is deleted.
    Recreate,
    /// All Jobs once all predecessors are deleted.
    BlockingRecreate,
    /// Containers restart in their pods; Jobs are kept.
    InPlace,
}

/// One rule of `failurePolicy.rules`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror FailurePolicyRule")]
pub struct FailurePolicyRule {
    pub name: Text,
    pub action: FailurePolicyAction,
    /// `onJobFailureReasons`; empty matches any reason.
    pub reasons: Vec<Text>,
    /// `onJobFailureMessagePatterns`, regular expressions; empty matches any message.
    pub patterns: Vec<Text>,
    /// `targetReplicatedJobs`; empty matches any.
    pub targets: Vec<Text>,
}

/// `action` of a failure policy rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "variants are the values of action")]
pub enum FailurePolicyAction {
    FailJobSet,
    RestartJobSet,
    RestartJobSetAndIgnoreMaxRestarts,
    RestartJob,
    RestartJobAndIgnoreMaxRestarts,
}

impl FailurePolicyAction {
    /// All actions, in the order of the API documentation.
    pub const ALL: [FailurePolicyAction; 5] = [
        FailurePolicyAction::FailJobSet,
        FailurePolicyAction::RestartJobSet,
        FailurePolicyAction::RestartJobSetAndIgnoreMaxRestarts,
        FailurePolicyAction::RestartJob,
        FailurePolicyAction::RestartJobAndIgnoreMaxRestarts,
    ];

    /// The value as written to the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FailurePolicyAction::FailJobSet => "FailJobSet",
            FailurePolicyAction::RestartJobSet => "RestartJobSet",
            FailurePolicyAction::RestartJobSetAndIgnoreMaxRestarts => "RestartJobSetAndIgnoreMaxRestarts",
            FailurePolicyAction::RestartJob => "RestartJob",
            FailurePolicyAction::RestartJobAndIgnoreMaxRestarts => "RestartJobAndIgnoreMaxRestarts",
        }
    }

    /// Returns whether the action restarts a single Job.
    #[must_use]
    pub fn is_single(self) -> bool {
        matches!(self, FailurePolicyAction::RestartJob | FailurePolicyAction::RestartJobAndIgnoreMaxRestarts)
    }

    fn of(word: &str) -> FailurePolicyAction {
        // The schema admits no other value; an unknown one must not restart Jobs for ever.
        FailurePolicyAction::ALL
            .into_iter()
            .find(|action| action.word() == word)
            .unwrap_or(FailurePolicyAction::FailJobSet)
    }
}

/// One template of `volumeClaimPolicies`: a PVC shared by the pods of the JobSet.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeTemplate {
    /// Template name, also the name of the volume in pods.
    pub name: Text,
    /// `whenDeleted: Retain`: the PVC outlives the JobSet.
    pub retain: bool,
    /// Labels of the PVC.
    pub labels: Option<Tree>,
    /// Annotations of the PVC.
    pub annotations: Option<Tree>,
    /// Spec of the PVC.
    pub spec: Tree,
}

/// A ResourceClaim template of a replicatedJob.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimTemplate {
    /// Template name, also the name of the claim in pods.
    pub name: Text,
    /// Labels of the claim; later maps override earlier ones.
    pub labels: Vec<Tree>,
    /// Annotations of the claim; later maps override earlier ones.
    pub annotations: Vec<Tree>,
    /// `spec.devices` of the claim, as written.
    pub devices: Tree,
    /// Names of the containers that use the claim; `*` means all.
    pub containers: Vec<Text>,
    /// `OnJobDeletion`: the claim is kept until its Job is deleted.
    pub until_deleted: bool,
}

/// Exclusive placement of Jobs, from annotations of the JobSet or a Job template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExclusivePlacement {
    /// Topology key; each domain holds one Job.
    pub topology: Option<Text>,
    /// Value of the annotation that selects pre-labelled nodes.
    pub node_selector: Option<Text>,
}

impl ExclusivePlacement {
    /// Reads the annotations of a JobSet or of a Job template.
    #[must_use]
    pub fn of(annotations: Option<&Tree>) -> ExclusivePlacement {
        let value = |key: &str| annotations?.get(key)?.as_text().cloned();
        ExclusivePlacement {
            topology: value(consts::EXCLUSIVE_TOPOLOGY),
            node_selector: value(consts::NODE_SELECTOR),
        }
    }
}

impl JobSetFacts {
    /// Reads a JobSet, with or without the webhook's defaults.
    #[must_use]
    pub fn of(set: &Tree) -> JobSetFacts {
        let name = meta::name(set);
        let network = network(set, &name);
        JobSetFacts {
            namespace: meta::namespace(set),
            uid: meta::uid(set),
            deleting: meta::deletion_timestamp(set).is_some(),
            generation: set.int_at(crate::paths::meta::GENERATION).unwrap_or(0),
            managed_externally: !matches!(set.str_at(path::MANAGED_BY), "" | CONTROLLER),
            jobs: set.items_at(path::JOBS).iter().map(replicated_job).collect(),
            success: SuccessPolicy {
                any: set.str_at(path::SUCCESS_OPERATOR) == "Any",
                targets: texts(set.items_at(path::SUCCESS_TARGETS)),
            },
            failure: set.at(path::FAILURE).filter(|it| it.is_map()).map(failure_policy),
            in_order: set.str_at(path::STARTUP_ORDER) == "InOrder",
            suspend: set.bool_at(path::SUSPEND) == Some(true),
            coordinator: set.at(path::COORDINATOR).map(|it| endpoint(it, &name, &network.subdomain)),
            ttl_secs: set.int_at(path::TTL).and_then(|n| u32::try_from(n).ok()),
            volumes: set.items_at(path::VOLUMES).iter().flat_map(volume_templates).collect(),
            exclusive: ExclusivePlacement::of(set.at(crate::paths::meta::ANNOTATIONS)),
            gang: meta::annotation(set, crate::gang_objects::consts::GANG).map(Text::from),
            status: JobSetStatus::of(set.at(path::STATUS).unwrap_or(&Tree::Null)),
            network,
            name,
        }
    }

    /// Total number of child Jobs.
    #[must_use]
    pub fn replicas(&self) -> u64 {
        self.jobs.iter().map(|it| u64::from(it.replicas)).sum()
    }

    /// The replicatedJob of this name.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&ReplicatedJob> {
        self.jobs.iter().find(|it| it.name == name)
    }

    /// The effective restart strategy.
    #[must_use]
    pub fn strategy(&self) -> RestartStrategy {
        self.failure.as_ref().map_or(RestartStrategy::Recreate, |it| it.strategy)
    }
}

fn texts(items: &[Tree]) -> Vec<Text> {
    items.iter().filter_map(|it| it.as_text().cloned()).collect()
}

fn network(set: &Tree, name: &Text) -> Network {
    let subdomain = set.text_at(path::SUBDOMAIN);
    Network {
        hostnames: set.bool_at(path::HOSTNAMES) == Some(true),
        subdomain: if subdomain.is_empty() { Text::from(names::dns_label(name)) } else { subdomain },
        publish_not_ready: set.bool_at(path::PUBLISH_NOT_READY) != Some(false),
    }
}

fn endpoint(tree: &Tree, set: &Text, subdomain: &Text) -> Text {
    let number = |path: &[&str]| tree.int_at(path).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let job = names::job(set, tree.str_at(coordinator::JOB), number(coordinator::JOB_INDEX));
    names::endpoint(&job, number(coordinator::POD_INDEX), subdomain)
}

fn failure_policy(tree: &Tree) -> FailurePolicy {
    FailurePolicy {
        max_restarts: tree.int_at(failure::MAX_RESTARTS).unwrap_or(0),
        strategy: match tree.str_at(failure::STRATEGY) {
            "BlockingRecreate" => RestartStrategy::BlockingRecreate,
            "InPlaceRestart" => RestartStrategy::InPlace,
            _ => RestartStrategy::Recreate,
        },
        rules: tree.items_at(failure::RULES).iter().map(failure_rule).collect(),
    }
}

fn failure_rule(tree: &Tree) -> FailurePolicyRule {
    FailurePolicyRule {
        name: tree.text_at(rule::NAME),
        action: FailurePolicyAction::of(tree.str_at(rule::ACTION)),
        reasons: texts(tree.items_at(rule::REASONS)),
        patterns: texts(tree.items_at(rule::PATTERNS)),
        targets: texts(tree.items_at(rule::TARGETS)),
    }
}

fn replicated_job(tree: &Tree) -> ReplicatedJob {
    let number = |path: &[&str]| tree.int_at(path).and_then(|n| u32::try_from(n).ok());
    let group = tree.text_at(job::GROUP);
    let dependency = |it: &Tree| Dependency {
        replicated_job: it.text_at(dependency::NAME),
        complete: it.str_at(dependency::STATUS) == "Complete",
    };
    ReplicatedJob {
        name: tree.text_at(job::NAME),
        group: if group.is_empty() { Text::from(GROUP_DEFAULT) } else { group },
        replicas: number(job::REPLICAS).unwrap_or(1),
        parallelism: number(job::PARALLELISM),
        completions: number(job::COMPLETIONS),
        mode: match tree.str_at(job::MODE) {
            // The webhook defaults child Jobs to Indexed.
            "" | "Indexed" => CompletionMode::Indexed,
            "NonIndexed" => CompletionMode::NonIndexed,
            _ => CompletionMode::Unknown,
        },
        template: tree.at(job::TEMPLATE).cloned().unwrap_or_default(),
        depends_on: tree.items_at(job::DEPENDS_ON).iter().map(dependency).collect(),
        claims: tree.items_at(job::CLAIMS).iter().map(claim_template).collect(),
    }
}

fn claim_template(tree: &Tree) -> ClaimTemplate {
    let maps = |paths: [&[&str]; 2]| paths.into_iter().filter_map(|path| tree.at(path).cloned()).collect();
    // The template accepts `spec.devices` and, like a ResourceClaimTemplate, `spec.spec.devices`.
    let devices = tree.at(claim_path::LONG_DEVICES).or_else(|| tree.at(claim_path::DEVICES));
    ClaimTemplate {
        name: tree.text_at(claim_path::NAME),
        labels: maps([claim_path::LABELS, claim_path::SPEC_LABELS]),
        annotations: maps([claim_path::ANNOTATIONS, claim_path::SPEC_ANNOTATIONS]),
        devices: devices.cloned().unwrap_or_default(),
        containers: texts(tree.items_at(claim_path::CONTAINERS)),
        until_deleted: tree.str_at(claim_path::DELETION) == "OnJobDeletion",
    }
}

fn volume_templates(policy: &Tree) -> Vec<VolumeTemplate> {
    let retain = policy.str_at(volumes::WHEN_DELETED) == "Retain";
    let one = |it: &Tree| VolumeTemplate {
        name: it.text_at(volume::NAME),
        retain,
        labels: it.at(volume::LABELS).cloned(),
        annotations: it.at(volume::ANNOTATIONS).cloned(),
        spec: it.at(volume::SPEC).cloned().unwrap_or_default(),
    };
    policy.items_at(volumes::TEMPLATES).iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn webhook_defaults_are_filled_in_on_reading() {
        let set = JobSetFacts::of(&tree!({"metadata": {"name": "a.b"}, "spec": {
            "coordinator": {"replicatedJob": "w"},
            "replicatedJobs": [{"name": "w", "template": {"spec": {"parallelism": 3, "completions": 2}}}],
            "volumeClaimPolicies": [{"templates": [{"metadata": {"name": "v"}}]}, {}]}}));
        assert!(!set.network.hostnames, "no network, no Service");
        assert_eq!((set.network.subdomain.as_str(), set.network.publish_not_ready), ("a-b", true));
        assert!(!set.success.any && !set.in_order && !set.managed_externally && set.failure.is_none());
        assert_eq!((set.jobs[0].group.as_str(), set.jobs[0].replicas, set.jobs[0].pods()), ("default", 1, 2));
        assert_eq!(set.jobs[0].mode, CompletionMode::Indexed);
        assert!(!set.volumes[0].retain);
        assert_eq!(set.coordinator.as_deref(), Some("a-b-w-0-0.a-b"));
    }

    #[test]
    fn devices_are_found_in_both_places() {
        let short = tree!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": []}}});
        let long = tree!({"metadata": {"name": "c"}, "spec": {"spec": {"devices": {"requests": []}}}});
        assert_eq!(claim_template(&short), claim_template(&long));
    }
}
