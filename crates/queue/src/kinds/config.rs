//! The configuration of queueing: what a document of either version says, with everything that it leaves out.
//!
//! Documents come as they were found in a file, with keys and types already checked by whoever reads files; what no
//! table of keys can say is checked here.
//!
//! # Invariants
//!
//! - All that is wrong is told at once, each with its path.
//! - No selector lets in the namespaces of the system: their pods keep the cluster going.
//!
//! # Deliberately absent
//!
//! Ports, certificates, leader election and the like: they are the program's, not the queue's.

mod read;
#[cfg(test)]
mod tests;

use std::time::Duration;

use muster_api::selector::Selector;
use muster_tree::{Text, Tree};

/// The older version of the document.
pub const V1BETA1: &str = "config.kueue.x-k8s.io/v1beta1";
/// The newer one, whose keys our own document has too.
pub const V1BETA2: &str = "config.kueue.x-k8s.io/v1beta2";

/// The label that every namespace has with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Namespaces that are never looked at.
const SYSTEM: [&str; 2] = ["kube-system", "kueue-system"];

/// Integrations that are built in.
pub const FRAMEWORKS: [&str; 4] =
    ["pod", "batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"];
/// Integrations that others have, and that documents may therefore name.
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

/// What is configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Integrations that are on, of [`FRAMEWORKS`].
    pub frameworks: Vec<Text>,
    /// Integrations that were asked for and are not built in.
    pub unserved: Vec<Text>,
    /// Kinds of others that manage their jobs by themselves.
    pub external: Vec<External>,
    /// Labels that Workloads take over.
    pub label_keys: Vec<Text>,
    /// Further conditions on plain pods.
    pub pods: PodOptions,
    /// Whether work without a queue is held, too.
    pub without_queue_name: bool,
    /// Namespaces whose work is looked at.
    pub namespaces: Selector,
    /// Whether, and how long, pods are waited for.
    pub wait: Option<WaitForPodsReady>,
    /// How resources are counted.
    pub resources: Resources,
    /// In which order fair sharing tries; off when absent.
    pub fair_sharing: Option<Vec<ShareStrategy>>,
    /// How long finished things stay.
    pub retention: Retention,
}

/// A kind of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// Kind.
    pub kind: Text,
    /// Version.
    pub version: Text,
    /// Group.
    pub group: Text,
}

/// Further conditions on plain pods; each holds where it is said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodOptions {
    /// Their namespaces.
    pub namespaces: Option<Selector>,
    /// They themselves.
    pub pods: Option<Selector>,
}

/// How long pods are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitForPodsReady {
    /// Until they are ready for the first time.
    pub timeout: Duration,
    /// Until they are ready again; not at all when absent.
    pub recovery: Option<Duration>,
    /// Whether nobody else is let in meanwhile.
    pub blocks: bool,
    /// What happens to who is late.
    pub requeuing: Requeuing,
}

/// How who was late queues again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requeuing {
    /// Behind those that came before the eviction; by creation otherwise.
    pub by_eviction: bool,
    /// How often; without end when absent.
    pub limit: Option<u32>,
    /// The first pause, in seconds.
    pub base_secs: u32,
    /// The longest pause, in seconds.
    pub max_secs: u32,
}

impl Default for Requeuing {
    fn default() -> Requeuing {
        Requeuing { by_eviction: true, limit: None, base_secs: 60, max_secs: 3600 }
    }
}

/// How resources are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources {
    /// Resources whose names begin so do not count.
    pub excluded_prefixes: Vec<Text>,
    /// Resources that count as others.
    pub transformations: Vec<Transformation>,
}

/// A resource that counts as others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transformation {
    /// Which one.
    pub input: Text,
    /// Whether it counts as itself, too.
    pub retains: bool,
    /// How much of each other for one of it, as quantities.
    pub outputs: Vec<(Text, Tree)>,
    /// Another resource by whose amount all this is multiplied.
    pub multiply_by: Option<Text>,
}

/// When fair sharing lets somebody go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareStrategy {
    /// When the preemptor's share afterwards is not larger than the other's.
    LessThanOrEqualToFinalShare,
    /// When the preemptor's share afterwards is smaller than the other's was.
    LessThanInitialShare,
}

/// How long finished things stay; for ever where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Workloads that have ended.
    pub after_finished: Option<Duration>,
    /// Jobs whose Workload was deactivated by us.
    pub after_deactivated: Option<Duration>,
}

/// Something wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Where in the document.
    pub path: String,
    /// What is wrong, and what to do.
    pub words: String,
}

impl Settings {
    /// What a document says; everything by default without one. `own` is the namespace in which we run.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn of(document: Option<&Tree>, own: &str) -> Result<Settings, Vec<Wrong>> {
        read::settings(document.unwrap_or(&Tree::Null), own)
    }

    /// What is configured when nothing is; `own` is the namespace in which we run.
    ///
    /// # Panics
    /// Never: nothing is wrong with a document that says nothing.
    #[must_use]
    pub fn standard(own: &str) -> Settings {
        Settings::of(None, own).expect("nothing said is nothing wrong")
    }

    /// Whether an integration is on.
    #[must_use]
    pub fn serves(&self, framework: &str) -> bool {
        self.frameworks.iter().any(|it| it == framework)
    }
}
