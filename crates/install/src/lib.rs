//! The manifests of the operator: options in, objects out.
//!
//! # Guarantees
//!
//! - Pure: the same options give the same objects in the same order; dependencies come first.
//! - All objects suit server-side apply: they do not set fields that the operator itself manages (`caBundle`).
//! - The pods comply with the Pod Security level "restricted".
//!
//! # Deliberately absent
//!
//! Requests: `muster install`, Helm or kubectl apply the manifests.

pub mod aggregated;
pub mod chart;
pub mod conversion;
pub mod gangs;
pub mod names;
pub mod rbac;
pub mod training;
pub mod webhooks;

mod deployment;
mod rbac_objects;

use muster_api::client::Kind;
use muster_api::kinds;
use muster_api::queue::consts::GROUP;
use muster_api::train::consts::{CLUSTER_TRAINING_RUNTIME, GROUP as TRAINING};
use muster_api::train::kinds::CLUSTER_TRAINING_RUNTIMES;
use muster_tree::{Tree, tree};

use crate::names::WEBHOOK_SERVICE;
use crate::webhooks::{AdmissionStep, CONFIGURATIONS, WebhookClientConfig};

/// The version of the operator and of its manifests.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The options of the installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The namespace of the operator.
    pub namespace: String,
    /// The image of the operator.
    pub image: String,
    /// Replicas of the operator: one leader reconciles, all serve webhooks.
    pub replicas: u32,
    /// The port of the webhook Service.
    pub webhook_port: u16,
    /// Whether the queue controllers run. If not, nothing of Kueue's API is installed, so that Kueue itself can be.
    pub queues: bool,
    /// Whether the TrainJob controller runs. If not, nothing of Trainer's API is installed, so that Trainer itself can be.
    pub training: bool,
    /// Whether TrainJobs and runtimes are validated by webhooks.
    pub validates_training: bool,
    /// The port of the progress endpoint for training pods, if the configuration enables it.
    pub status_port: Option<u16>,
    /// Whether to install the shipped ClusterTrainingRuntimes.
    pub runtimes: bool,
    /// A mirror that replaces the registries of the runtime images; empty for none.
    pub runtime_registry: String,
    /// Whether to install the runtime with a data cache, and the ServiceAccount of its initializer.
    pub data_cache: bool,
    /// The content of the configuration file: YAML documents.
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
            validates_training: true,
            status_port: None,
            runtimes: true,
            runtime_registry: String::new(),
            data_cache: false,
            config: DEFAULT_CONFIG.to_owned(),
        }
    }
}

/// A configuration file without settings.
pub const DEFAULT_CONFIG: &str = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\n";

/// The label of objects that `muster install` created. An upgrade prunes objects with this label that are not part of
/// the new version.
pub const MANAGED_BY_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "muster-install");

/// Whether obsolete objects of a kind are pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrunePolicy {
    /// Never deleted: deleting a CRD deletes all its objects, a namespace may contain objects of others, and TrainJobs
    /// refer to runtimes.
    Keep,
    Delete,
}

/// The kinds of all manifests.
pub static KINDS: [(&str, &Kind, PrunePolicy); 15] = [
    ("Namespace", &kinds::NAMESPACES, PrunePolicy::Keep),
    ("CustomResourceDefinition", &kinds::CRDS, PrunePolicy::Keep),
    (CLUSTER_TRAINING_RUNTIME, &CLUSTER_TRAINING_RUNTIMES, PrunePolicy::Keep),
    ("MutatingWebhookConfiguration", &kinds::MUTATING_WEBHOOKS, PrunePolicy::Delete),
    ("ValidatingWebhookConfiguration", &kinds::VALIDATING_WEBHOOKS, PrunePolicy::Delete),
    ("APIService", &kinds::API_SERVICES, PrunePolicy::Delete),
    ("PodDisruptionBudget", &kinds::POD_DISRUPTION_BUDGETS, PrunePolicy::Delete),
    ("Deployment", &kinds::DEPLOYMENTS, PrunePolicy::Delete),
    ("Service", &kinds::SERVICES, PrunePolicy::Delete),
    ("ConfigMap", &kinds::CONFIG_MAPS, PrunePolicy::Delete),
    ("ClusterRoleBinding", &kinds::CLUSTER_ROLE_BINDINGS, PrunePolicy::Delete),
    ("RoleBinding", &kinds::ROLE_BINDINGS, PrunePolicy::Delete),
    ("ClusterRole", &kinds::CLUSTER_ROLES, PrunePolicy::Delete),
    ("Role", &kinds::ROLES, PrunePolicy::Delete),
    ("ServiceAccount", &kinds::SERVICE_ACCOUNTS, PrunePolicy::Delete),
];

/// The API resource of a manifest.
///
/// # Panics
/// The kind is not in [`KINDS`].
#[must_use]
pub fn kind_of(object: &Tree) -> &'static Kind {
    let word = object.str_at(&["kind"]);
    KINDS.iter().find(|it| it.0 == word).expect("every kind that is installed is in the table").1
}

/// All manifests, in the order of application.
#[must_use]
pub fn manifests(options: &Options) -> Vec<Tree> {
    let mut all = vec![namespace(options)];
    let service = service(options);
    let definitions = crds();
    let wanted = |it: &&Tree| match it.str_at(&["spec", "group"]) {
        GROUP => options.queues,
        TRAINING => options.training,
        _ => true,
    };
    let definitions = definitions.iter().filter(wanted);
    all.extend(definitions.map(|it| with_labels(&conversion::with_conversion(it, &service), "definition")));
    // Before the Deployment and the webhooks: in an upgrade the running operator still validates the runtimes.
    all.extend(training::runtimes(options));
    all.extend(rbac_objects::objects(options));
    all.extend(training::cache_rbac(options));
    all.extend(deployment::objects(options));
    all.extend(aggregated::objects(options));
    all.extend(training::version_objects(options));
    all.extend(webhooks(options));
    all
}

/// The CRDs of our kinds. Those of gangs are unused if the server has a native gang API. The conversion webhook is not
/// part of them: its client config depends on the installation.
#[must_use]
pub fn crds() -> Vec<Tree> {
    let known = [muster_jobset::crd::manifest()].into_iter().chain(gangs::crds());
    known.chain(muster_queue::kinds::definitions()).chain(muster_trainer::kinds::crds()).collect()
}

/// The namespace of the operator, with the Pod Security labels for "restricted".
fn namespace(options: &Options) -> Tree {
    let space =
        tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": (options.namespace.as_str())}});
    let levels = ["enforce", "audit", "warn"].into_iter();
    levels.fold(with_labels(&space, "namespace"), |space, level| {
        space.with(&["metadata", "labels", &format!("pod-security.kubernetes.io/{level}")], "restricted")
    })
}

/// The webhook configurations. They come last: with `failurePolicy: Fail`, JobSets, queues and TrainJobs are rejected
/// from then on until the operator answers.
fn webhooks(options: &Options) -> Vec<Tree> {
    let service = service(options);
    let one = |it: &webhooks::WebhookConfiguration| {
        with_labels(&it.object(it.hooks(&service, &options.namespace)), "webhook")
    };
    let wanted = |it: &&webhooks::WebhookConfiguration| match it.step {
        AdmissionStep::JobSets => true,
        AdmissionStep::Queues => options.queues,
        AdmissionStep::Training => options.training && options.validates_training,
    };
    CONFIGURATIONS.iter().filter(wanted).map(one).collect()
}

fn service(options: &Options) -> WebhookClientConfig<'_> {
    WebhookClientConfig::Service {
        namespace: &options.namespace,
        name: WEBHOOK_SERVICE,
        port: options.webhook_port,
    }
}

/// The labels of the operator's pods. They must never change: the selector of a Deployment is immutable.
fn selector() -> Tree {
    Tree::map([("app.kubernetes.io/name", "muster"), ("app.kubernetes.io/component", "operator")])
}

/// Adds the labels that all our objects have.
fn with_labels(object: &Tree, component: &str) -> Tree {
    let labels = [
        ("app.kubernetes.io/name", "muster"),
        ("app.kubernetes.io/instance", "muster"),
        ("app.kubernetes.io/version", VERSION),
        ("app.kubernetes.io/component", component),
        ("app.kubernetes.io/part-of", "muster"),
        MANAGED_BY_LABEL,
    ];
    labels
        .iter()
        .fold(object.clone(), |object, (key, value)| object.with(&["metadata", "labels", key], *value))
}

#[cfg(test)]
mod tests;
