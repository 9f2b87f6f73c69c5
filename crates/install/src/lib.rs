//! What is installed on a cluster, as data: options in, trees out.
//!
//! # Invariants
//!
//! - Pure: the same options make the same trees, in the same order, and what others need comes first.
//! - Everything can be applied on the server, and names no field that the operator itself keeps (`caBundle`).
//! - The pods pass Pod Security "restricted".
//!
//! # Deliberately absent
//!
//! Who applies it: `muster install` does, or Helm, or a person with kubectl.

pub mod aggregated;
pub mod chart;
pub mod conversion;
pub mod gangs;
pub mod hooks;
pub mod names;
pub mod rights;
pub mod training;

mod access;
mod workload;

use muster_api::kinds;
use muster_api::port::Kind;
use muster_api::queue::words::GROUP;
use muster_api::train::kinds::CLUSTER_TRAINING_RUNTIMES;
use muster_api::train::words::{CLUSTER_TRAINING_RUNTIME, GROUP as TRAINING};
use muster_tree::{Tree, tree};

use crate::hooks::{CONFIGURATIONS, Reached, Step};
use crate::names::WEBHOOK_SERVICE;

/// The version of all of this.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where everything of ours lives.
    pub namespace: String,
    /// The image of the operator.
    pub image: String,
    /// How many operators there are; one works, the others stand by and answer webhooks.
    pub replicas: u32,
    /// The port of the Service of the webhooks.
    pub webhook_port: u16,
    /// Whether queues are run; without that nothing of them is installed, and another may have them.
    pub queues: bool,
    /// Whether TrainJobs are run; without that nothing of them is installed, and another may have them.
    pub training: bool,
    /// Whether what is written of them is judged.
    pub judges_training: bool,
    /// The port at which it is heard how far training is, as the configuration says; none where it is not.
    pub reports: Option<u16>,
    /// Whether the runtimes that are shipped come with them.
    pub runtimes: bool,
    /// The mirror that takes the place of the registries of their images; none when it is empty.
    pub runtime_registry: String,
    /// Whether the runtime with a data cache is among them, with the account of its initializer.
    pub data_cache: bool,
    /// The configuration file: YAML documents.
    pub config: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            namespace: names::NAMESPACE.to_owned(),
            image: format!("muster:{VERSION}"),
            replicas: 2,
            webhook_port: 443,
            queues: true,
            training: true,
            judges_training: true,
            reports: None,
            runtimes: true,
            runtime_registry: String::new(),
            data_cache: false,
            config: DEFAULT_CONFIG.to_owned(),
        }
    }
}

/// A configuration file that leaves everything as it is by default.
pub const DEFAULT_CONFIG: &str = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\n";

/// The label that tells what `muster install` has put there: when another version of it is installed, what has this
/// label and is not part of that version goes.
pub const INSTALLED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "muster-install");

/// What happens to objects of a kind that a former version installed and this one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// They stay: with a definition goes what users made, in a namespace others may live, and whoever looks at a TrainJob
    /// looks at its runtime.
    Stays,
    /// They go.
    Goes,
}

/// The kinds that are installed, as manifests name them.
pub static KINDS: [(&str, &Kind, Fate); 15] = [
    ("Namespace", &kinds::NAMESPACES, Fate::Stays),
    ("CustomResourceDefinition", &kinds::CRDS, Fate::Stays),
    (CLUSTER_TRAINING_RUNTIME, &CLUSTER_TRAINING_RUNTIMES, Fate::Stays),
    ("MutatingWebhookConfiguration", &kinds::MUTATING_WEBHOOKS, Fate::Goes),
    ("ValidatingWebhookConfiguration", &kinds::VALIDATING_WEBHOOKS, Fate::Goes),
    ("APIService", &kinds::API_SERVICES, Fate::Goes),
    ("PodDisruptionBudget", &kinds::BUDGETS, Fate::Goes),
    ("Deployment", &kinds::DEPLOYMENTS, Fate::Goes),
    ("Service", &kinds::SERVICES, Fate::Goes),
    ("ConfigMap", &kinds::CONFIG_MAPS, Fate::Goes),
    ("ClusterRoleBinding", &kinds::CLUSTER_ROLE_BINDINGS, Fate::Goes),
    ("RoleBinding", &kinds::ROLE_BINDINGS, Fate::Goes),
    ("ClusterRole", &kinds::CLUSTER_ROLES, Fate::Goes),
    ("Role", &kinds::ROLES, Fate::Goes),
    ("ServiceAccount", &kinds::SERVICE_ACCOUNTS, Fate::Goes),
];

/// The kind of an object that is installed.
///
/// # Panics
/// It is none of those.
#[must_use]
pub fn kind_of(object: &Tree) -> &'static Kind {
    let word = object.str_at(&["kind"]);
    KINDS.iter().find(|it| it.0 == word).expect("every kind that is installed is in the table").1
}

/// Everything, in the order in which it is applied.
#[must_use]
pub fn manifests(options: &Options) -> Vec<Tree> {
    let mut all = vec![namespace(options)];
    let service = service(options);
    let definitions = definitions();
    let wanted = |it: &&Tree| match it.str_at(&["spec", "group"]) {
        GROUP => options.queues,
        TRAINING => options.training,
        _ => true,
    };
    let definitions = definitions.iter().filter(wanted);
    all.extend(definitions.map(|it| labelled(&conversion::converted(it, &service), "definition")));
    // Whoever judges them on a cluster that was installed before is not touched yet.
    all.extend(training::runtimes(options));
    all.extend(access::objects(options));
    all.extend(training::cache(options));
    all.extend(workload::objects(options));
    all.extend(aggregated::objects(options));
    all.extend(training::told(options));
    all.extend(webhooks(options));
    all
}

/// What a cluster must know to serve our kinds. Those of gangs lie idle where it has its own. Who converts between the
/// versions of queueing is not said here: it depends on where it is reached.
#[must_use]
pub fn definitions() -> Vec<Tree> {
    let known = [muster_jobset::crd::definition()].into_iter().chain(gangs::definitions());
    known.chain(muster_queue::kinds::definitions()).chain(muster_trainer::kinds::definitions()).collect()
}

/// Where the operator's pods are held to what they need: nothing.
fn namespace(options: &Options) -> Tree {
    let space =
        tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": (options.namespace.as_str())}});
    let levels = ["enforce", "audit", "warn"].into_iter();
    levels.fold(labelled(&space, "namespace"), |space, level| {
        space.with(&["metadata", "labels", &format!("pod-security.kubernetes.io/{level}")], "restricted")
    })
}

/// The configurations of webhooks, last: they refuse JobSets, queues and TrainJobs until somebody answers.
fn webhooks(options: &Options) -> Vec<Tree> {
    let service = service(options);
    let one =
        |it: &hooks::Configuration| labelled(&it.object(it.hooks(&service, &options.namespace)), "webhook");
    let wanted = |it: &&hooks::Configuration| match it.step {
        Step::JobSets => true,
        Step::Queues => options.queues,
        Step::Training => options.training && options.judges_training,
    };
    CONFIGURATIONS.iter().filter(wanted).map(one).collect()
}

fn service(options: &Options) -> Reached<'_> {
    Reached::Service { namespace: &options.namespace, name: WEBHOOK_SERVICE, port: options.webhook_port }
}

/// What pods of ours are found by; may never change, since a Deployment keeps to its selector.
fn selector() -> Tree {
    Tree::map([("app.kubernetes.io/name", "muster"), ("app.kubernetes.io/component", "operator")])
}

/// With the labels that all of ours have.
fn labelled(object: &Tree, component: &str) -> Tree {
    let labels = [
        ("app.kubernetes.io/name", "muster"),
        ("app.kubernetes.io/instance", "muster"),
        ("app.kubernetes.io/version", VERSION),
        ("app.kubernetes.io/component", component),
        ("app.kubernetes.io/part-of", "muster"),
        INSTALLED_BY,
    ];
    labels
        .iter()
        .fold(object.clone(), |object, (key, value)| object.with(&["metadata", "labels", key], *value))
}

#[cfg(test)]
mod tests;
