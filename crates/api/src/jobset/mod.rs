//! JobSets: what is read of them, their status, and the names of what they make.
//!
//! An object that never passed admission means the same as one that did: what admission would fill in is read as if
//! it had.

pub mod names;
mod status;

use muster_tree::{Text, Tree};

pub use status::{JobSetStatus, ReplicatedStatus};

use crate::job::Mode;
use crate::paths::{
    jobset as path, jobset_claim as claim_path, jobset_coordinator as coordinator,
    jobset_dependency as dependency, jobset_failure as failure, jobset_rule as rule, jobset_volume as volume,
    jobset_volumes as volumes, replicated_job as job,
};
use crate::port::Uid;
use crate::words::jobset as words;
use crate::{meta, words::jobset::CONTROLLER};

/// The group of replicatedJobs that name none.
pub const GROUP_DEFAULT: &str = "default";

/// What is read of a JobSet.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSetFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// How often its spec was changed.
    pub generation: i64,
    /// Whether somebody else manages it.
    pub foreign: bool,
    /// Its replicatedJobs, in order.
    pub jobs: Vec<ReplicatedJob>,
    /// Names of its pods.
    pub network: Network,
    /// When it is complete.
    pub success: Success,
    /// What failures mean; `None` when the first one fails it.
    pub failure: Option<Failure>,
    /// Whether replicatedJobs start one after the other.
    pub in_order: bool,
    /// Whether nothing may run.
    pub suspend: bool,
    /// The address of the coordinator.
    pub coordinator: Option<Text>,
    /// How long it stays when finished, in seconds.
    pub ttl_secs: Option<u32>,
    /// Shared volumes.
    pub volumes: Vec<VolumeTemplate>,
    /// How its Jobs have places for themselves.
    pub exclusive: Exclusive,
    /// Which of its pods are placed together, in the user's word.
    pub gang: Option<Text>,
    /// Its status as written.
    pub status: JobSetStatus,
}

/// Jobs of one template.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicatedJob {
    /// Name.
    pub name: Text,
    /// The group it belongs to.
    pub group: Text,
    /// How many Jobs.
    pub replicas: u32,
    /// Pods at once, of each Job.
    pub parallelism: Option<u32>,
    /// Successes wanted of each Job.
    pub completions: Option<u32>,
    /// Completion mode.
    pub mode: Mode,
    /// The Job: metadata and spec.
    pub template: Tree,
    /// What must be before it.
    pub depends_on: Vec<Dependency>,
    /// Device claims of each Job.
    pub claims: Vec<ClaimTemplate>,
}

impl ReplicatedJob {
    /// Pods of one Job that are ready or done when the Job counts as ready.
    #[must_use]
    pub fn pods(&self) -> u32 {
        let parallelism = self.parallelism.unwrap_or(1);
        self.completions.map_or(parallelism, |completions| parallelism.min(completions))
    }
}

/// What a replicatedJob waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Which other one.
    pub on: Text,
    /// Whether that must be complete; ready is enough otherwise.
    pub complete: bool,
}

/// Names of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Whether they have any.
    pub hostnames: bool,
    /// Their domain, which is the name of the headless Service, too.
    pub subdomain: Text,
    /// Whether pods that are not ready have theirs.
    pub publish_not_ready: bool,
}

/// When a JobSet is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Success {
    /// With the first Job that succeeds; with all of them otherwise.
    pub any: bool,
    /// Of these replicatedJobs; of all when empty.
    pub targets: Vec<Text>,
}

/// What failures mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Restarts that count, at most.
    pub max_restarts: i64,
    /// How Jobs are made anew.
    pub strategy: Strategy,
    /// Rules, the first that applies counts.
    pub rules: Vec<Rule>,
}

/// How Jobs are made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each as soon as the one before it is gone.
    Recreate,
    /// All when all before them are gone.
    BlockingRecreate,
    /// Pods restart where they are.
    InPlace,
}

/// One rule about failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Name.
    pub name: Text,
    /// What to do.
    pub action: FailureAction,
    /// For these reasons; for any when empty.
    pub reasons: Vec<Text>,
    /// For messages in which one of these expressions is found; for any when empty.
    pub patterns: Vec<Text>,
    /// For these replicatedJobs; for any when empty.
    pub targets: Vec<Text>,
}

/// What a failure leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureAction {
    /// The JobSet fails.
    FailJobSet,
    /// All Jobs are made anew.
    RestartJobSet,
    /// The same, as often as needed.
    RestartJobSetAndIgnoreMaxRestarts,
    /// The Job is made anew.
    RestartJob,
    /// The same, as often as needed.
    RestartJobAndIgnoreMaxRestarts,
}

impl FailureAction {
    /// All actions.
    pub const ALL: [FailureAction; 5] = [
        FailureAction::FailJobSet,
        FailureAction::RestartJobSet,
        FailureAction::RestartJobSetAndIgnoreMaxRestarts,
        FailureAction::RestartJob,
        FailureAction::RestartJobAndIgnoreMaxRestarts,
    ];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FailureAction::FailJobSet => "FailJobSet",
            FailureAction::RestartJobSet => "RestartJobSet",
            FailureAction::RestartJobSetAndIgnoreMaxRestarts => "RestartJobSetAndIgnoreMaxRestarts",
            FailureAction::RestartJob => "RestartJob",
            FailureAction::RestartJobAndIgnoreMaxRestarts => "RestartJobAndIgnoreMaxRestarts",
        }
    }

    /// Whether it is about one Job.
    #[must_use]
    pub fn is_single(self) -> bool {
        matches!(self, FailureAction::RestartJob | FailureAction::RestartJobAndIgnoreMaxRestarts)
    }

    fn of(word: &str) -> FailureAction {
        // The schema knows no other words; the one that does least harm stands for them.
        FailureAction::ALL
            .into_iter()
            .find(|action| action.word() == word)
            .unwrap_or(FailureAction::FailJobSet)
    }
}

/// The template of a shared volume.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeTemplate {
    /// Name, also that of the volume in pods.
    pub name: Text,
    /// Whether the volume outlives the JobSet.
    pub retain: bool,
    /// Labels.
    pub labels: Option<Tree>,
    /// Annotations.
    pub annotations: Option<Tree>,
    /// Spec.
    pub spec: Tree,
}

/// The template of a device claim.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimTemplate {
    /// Name, also that of the claim in pods.
    pub name: Text,
    /// Labels, later ones over earlier ones.
    pub labels: Vec<Tree>,
    /// Annotations, later ones over earlier ones.
    pub annotations: Vec<Tree>,
    /// The devices asked for, as they were written.
    pub devices: Tree,
    /// Names of containers that get it, or `*`.
    pub containers: Vec<Text>,
    /// Whether it stays until its Job is deleted.
    pub until_deleted: bool,
}

/// How Jobs have places for themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exclusive {
    /// The label whose values are the places.
    pub topology: Option<Text>,
    /// Whether nodes are labelled beforehand, and the value that says so.
    pub node_selector: Option<Text>,
}

impl Exclusive {
    /// Reads annotations.
    #[must_use]
    pub fn of(annotations: Option<&Tree>) -> Exclusive {
        let value = |key: &str| annotations?.get(key)?.as_text().cloned();
        Exclusive { topology: value(words::EXCLUSIVE_TOPOLOGY), node_selector: value(words::NODE_SELECTOR) }
    }
}

impl JobSetFacts {
    /// Reads a JobSet.
    #[must_use]
    pub fn of(set: &Tree) -> JobSetFacts {
        let name = meta::name(set);
        let network = network(set, &name);
        JobSetFacts {
            namespace: meta::namespace(set),
            uid: meta::uid(set),
            deleting: meta::deleting(set).is_some(),
            generation: set.int_at(crate::paths::meta::GENERATION).unwrap_or(0),
            foreign: !matches!(set.str_at(path::MANAGED_BY), "" | CONTROLLER),
            jobs: set.items_at(path::JOBS).iter().map(replicated_job).collect(),
            success: Success {
                any: set.str_at(path::SUCCESS_OPERATOR) == "Any",
                targets: texts(set.items_at(path::SUCCESS_TARGETS)),
            },
            failure: set.at(path::FAILURE).filter(|it| it.is_map()).map(failure_policy),
            in_order: set.str_at(path::STARTUP_ORDER) == "InOrder",
            suspend: set.bool_at(path::SUSPEND) == Some(true),
            coordinator: set.at(path::COORDINATOR).map(|it| endpoint(it, &name, &network.subdomain)),
            ttl_secs: set.int_at(path::TTL).and_then(|n| u32::try_from(n).ok()),
            volumes: set.items_at(path::VOLUMES).iter().flat_map(volume_templates).collect(),
            exclusive: Exclusive::of(set.at(crate::paths::meta::ANNOTATIONS)),
            gang: meta::annotation(set, crate::gang_make::words::GANG).map(Text::from),
            status: JobSetStatus::of(set.at(path::STATUS).unwrap_or(&Tree::Null)),
            network,
            name,
        }
    }

    /// How many Jobs it has.
    #[must_use]
    pub fn replicas(&self) -> u64 {
        self.jobs.iter().map(|it| u64::from(it.replicas)).sum()
    }

    /// The replicatedJob of this name.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&ReplicatedJob> {
        self.jobs.iter().find(|it| it.name == name)
    }

    /// How Jobs are made anew.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.failure.as_ref().map_or(Strategy::Recreate, |it| it.strategy)
    }
}

fn texts(items: &[Tree]) -> Vec<Text> {
    items.iter().filter_map(|it| it.as_text().cloned()).collect()
}

fn network(set: &Tree, name: &Text) -> Network {
    let subdomain = set.text_at(path::SUBDOMAIN);
    Network {
        hostnames: set.bool_at(path::HOSTNAMES) == Some(true),
        subdomain: if subdomain.is_empty() { Text::from(names::dashed(name)) } else { subdomain },
        publish_not_ready: set.bool_at(path::PUBLISH_NOT_READY) != Some(false),
    }
}

fn endpoint(tree: &Tree, set: &Text, subdomain: &Text) -> Text {
    let number = |path: &[&str]| tree.int_at(path).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let job = names::job(set, tree.str_at(coordinator::JOB), number(coordinator::JOB_INDEX));
    names::endpoint(&job, number(coordinator::POD_INDEX), subdomain)
}

fn failure_policy(tree: &Tree) -> Failure {
    Failure {
        max_restarts: tree.int_at(failure::MAX_RESTARTS).unwrap_or(0),
        strategy: match tree.str_at(failure::STRATEGY) {
            "BlockingRecreate" => Strategy::BlockingRecreate,
            "InPlaceRestart" => Strategy::InPlace,
            _ => Strategy::Recreate,
        },
        rules: tree.items_at(failure::RULES).iter().map(failure_rule).collect(),
    }
}

fn failure_rule(tree: &Tree) -> Rule {
    Rule {
        name: tree.text_at(rule::NAME),
        action: FailureAction::of(tree.str_at(rule::ACTION)),
        reasons: texts(tree.items_at(rule::REASONS)),
        patterns: texts(tree.items_at(rule::PATTERNS)),
        targets: texts(tree.items_at(rule::TARGETS)),
    }
}

fn replicated_job(tree: &Tree) -> ReplicatedJob {
    let number = |path: &[&str]| tree.int_at(path).and_then(|n| u32::try_from(n).ok());
    let group = tree.text_at(job::GROUP);
    let dependency = |it: &Tree| Dependency {
        on: it.text_at(dependency::NAME),
        complete: it.str_at(dependency::STATUS) == "Complete",
    };
    ReplicatedJob {
        name: tree.text_at(job::NAME),
        group: if group.is_empty() { Text::from(GROUP_DEFAULT) } else { group },
        replicas: number(job::REPLICAS).unwrap_or(1),
        parallelism: number(job::PARALLELISM),
        completions: number(job::COMPLETIONS),
        mode: match tree.str_at(job::MODE) {
            // What admission fills in.
            "" | "Indexed" => Mode::Indexed,
            "NonIndexed" => Mode::NonIndexed,
            _ => Mode::Unknown,
        },
        template: tree.at(job::TEMPLATE).cloned().unwrap_or_default(),
        depends_on: tree.items_at(job::DEPENDS_ON).iter().map(dependency).collect(),
        claims: tree.items_at(job::CLAIMS).iter().map(claim_template).collect(),
    }
}

fn claim_template(tree: &Tree) -> ClaimTemplate {
    let maps = |paths: [&[&str]; 2]| paths.into_iter().filter_map(|path| tree.at(path).cloned()).collect();
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
    fn what_admission_would_fill_in_is_read_as_if_it_had() {
        let set = JobSetFacts::of(&tree!({"metadata": {"name": "a.b"}, "spec": {
            "coordinator": {"replicatedJob": "w"},
            "replicatedJobs": [{"name": "w", "template": {"spec": {"parallelism": 3, "completions": 2}}}],
            "volumeClaimPolicies": [{"templates": [{"metadata": {"name": "v"}}]}, {}]}}));
        assert!(!set.network.hostnames, "no network, no Service");
        assert_eq!((set.network.subdomain.as_str(), set.network.publish_not_ready), ("a-b", true));
        assert!(!set.success.any && !set.in_order && !set.foreign && set.failure.is_none());
        assert_eq!((set.jobs[0].group.as_str(), set.jobs[0].replicas, set.jobs[0].pods()), ("default", 1, 2));
        assert_eq!(set.jobs[0].mode, Mode::Indexed);
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
