//! The webhook configurations: paths, names, rules, selectors and match conditions.
//!
//! # Guarantees
//!
//! - The API server calls a webhook only for requests that it could mutate or reject. All other writes do not depend on
//!   the availability of the operator.
//! - `failurePolicy` is `Fail`: no JobSet is stored without defaulting and validation.
//!
//! # Deliberately absent
//!
//! The admission rules; see the crate `hooks`.

mod match_conditions;
pub mod namespace_scope;
mod table;
#[cfg(test)]
mod tests;

use muster_api::client::Kind;
use muster_api::consts::jobset as words;
use muster_api::kinds;
use muster_api::meta;
use muster_tree::{Tree, tree};

use self::match_conditions::Condition;
pub use self::table::WEBHOOKS;

/// The admission plugin behind a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionStep {
    /// JobSets and their pods.
    JobSets,
    /// Queues, and queued workloads.
    Queues,
    Training,
}

/// Mutating or validating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookType {
    /// May change an object, or reject it.
    Mutating,
    Validating,
}

/// The scope of the objects that a webhook is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Cluster,
    Namespaces,
    /// All namespaces except `kube-system` and the operator's own, so that a cluster and the operator can start.
    Tenants,
    /// All namespaces except `kube-system`, and only objects with the JobSet label, which the operator's pods do not have.
    JobSets,
}

/// A label and its value.
type Label = (&'static str, &'static str);

/// One webhook. Several webhooks of one kind may share a path; each request to it passes all plugins of that path.
pub struct Webhook {
    pub step: AdmissionStep,
    pub path: &'static str,
    /// The name, which the API server puts into rejections.
    pub name: &'static str,
    pub say: WebhookType,
    pub kind: &'static Kind,
    /// The `kind` of its manifests.
    pub word: &'static str,
    /// The operations of its rule.
    pub operations: &'static [&'static str],
    /// Subresources that the rule covers, too.
    subresources: &'static [&'static str],
    scope: Scope,
    /// Objects with this label are excluded.
    excluded_label: Option<Label>,
    /// The match conditions; all of them must hold.
    match_conditions: &'static [Condition],
}

/// `timeoutSeconds`.
pub const TIMEOUT_SECS: u32 = 10;

/// The namespace of system pods. They are always excluded: a cluster must be able to start while the operator is down.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// The label with the name of a namespace, which the API server sets.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The client config of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookClientConfig<'a> {
    /// A URL, with the CA bundle (PEM, in base64).
    Url {
        /// Scheme, host and port.
        base: &'a str,
        authority: &'a str,
    },
    /// A Service. `caBundle` is not set: the operator writes it, and server-side apply leaves it to that field manager.
    Service {
        /// The namespace of the operator.
        namespace: &'a str,
        name: &'a str,
        port: u16,
    },
}

impl WebhookClientConfig<'_> {
    /// The client config for a path.
    #[must_use]
    pub fn client(&self, path: &str) -> Tree {
        match self {
            WebhookClientConfig::Url { base, authority } => {
                tree!({"url": format!("{base}{path}"), "caBundle": *authority})
            }
            WebhookClientConfig::Service { namespace, name, port } => {
                let port = i64::from(*port);
                tree!({"service": {"namespace": *namespace, "name": *name, "path": path, "port": port}})
            }
        }
    }
}

impl Webhook {
    /// The webhook as an entry of a configuration; `own` is the operator's namespace.
    ///
    /// If the webhook does not answer, the request is rejected. Pods and Jobs are selected by labels and match conditions,
    /// so that all others do not depend on the operator.
    #[must_use]
    pub fn registration(&self, reached: &WebhookClientConfig<'_>, own: &str) -> Tree {
        let hook = tree!({
            "name": self.name,
            "clientConfig": reached.client(self.path),
            "rules": [(self.rule())],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": i64::from(TIMEOUT_SECS),
            "admissionReviewVersions": ["v1"],
        });
        let conditions = Tree::list(self.match_conditions.iter().map(Condition::tree));
        let conditions = (!self.match_conditions.is_empty()).then_some(conditions);
        let hook = hook.with_option(&["matchConditions"], conditions);
        let hook = match self.excluded_label {
            Some((key, value)) => hook.with(&["objectSelector"], not_in(key, &[value])),
            None => hook,
        };
        match self.scope {
            Scope::Cluster | Scope::Namespaces => hook,
            Scope::Tenants => {
                hook.with(&["namespaceSelector"], not_in(NAMESPACE_NAME_LABEL, &[SYSTEM_NAMESPACE, own]))
            }
            Scope::JobSets => {
                let ours = tree!({"key": words::NAME, "operator": "Exists"});
                hook.with(&["objectSelector"], tree!({"matchExpressions": [ours]}))
                    .with(&["namespaceSelector"], not_in(NAMESPACE_NAME_LABEL, &[SYSTEM_NAMESPACE]))
            }
        }
    }

    fn rule(&self) -> Tree {
        let Kind { group, version, plural } = self.kind;
        let parts = self.subresources.iter().map(|part| format!("{plural}/{part}"));
        tree!({
            "apiGroups": [group],
            "apiVersions": [version],
            "resources": Tree::list(std::iter::once(plural.to_string()).chain(parts)),
            "operations": Tree::list(self.operations.iter().copied()),
            "scope": if self.scope == Scope::Cluster { "Cluster" } else { "Namespaced" },
        })
    }
}

/// A selector for all objects except those with one of these values.
fn not_in(key: &str, values: &[&str]) -> Tree {
    let values = Tree::list(values.iter().copied());
    tree!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": values}]})
}

/// A webhook configuration. It has the name of upstream's, so that installing ours replaces it.
pub struct WebhookConfiguration {
    /// The plugin of its webhooks.
    pub step: AdmissionStep,
    pub name: &'static str,
    /// The `kind` of its manifest.
    pub word: &'static str,
    pub kind: &'static Kind,
    /// The type of its webhooks.
    pub say: WebhookType,
}

/// The names of the configurations. JobSets are last: a replica that observes them has observed all the others.
pub(crate) const CONFIGURATION_NAMES: [&str; 6] = [
    "kueue-mutating-webhook-configuration",
    "kueue-validating-webhook-configuration",
    "defaulter.trainer.kubeflow.org",
    "validator.trainer.kubeflow.org",
    "jobset-mutating-webhook-configuration",
    "jobset-validating-webhook-configuration",
];

pub static CONFIGURATIONS: [WebhookConfiguration; 6] = [
    mutating(AdmissionStep::Queues, CONFIGURATION_NAMES[0]),
    validating(AdmissionStep::Queues, CONFIGURATION_NAMES[1]),
    mutating(AdmissionStep::Training, CONFIGURATION_NAMES[2]),
    validating(AdmissionStep::Training, CONFIGURATION_NAMES[3]),
    mutating(AdmissionStep::JobSets, CONFIGURATION_NAMES[4]),
    validating(AdmissionStep::JobSets, CONFIGURATION_NAMES[5]),
];

const fn mutating(step: AdmissionStep, name: &'static str) -> WebhookConfiguration {
    let (word, kind) = ("MutatingWebhookConfiguration", &kinds::MUTATING_WEBHOOKS);
    WebhookConfiguration { step, name, word, kind, say: WebhookType::Mutating }
}

const fn validating(step: AdmissionStep, name: &'static str) -> WebhookConfiguration {
    let (word, kind) = ("ValidatingWebhookConfiguration", &kinds::VALIDATING_WEBHOOKS);
    WebhookConfiguration { step, name, word, kind, say: WebhookType::Validating }
}

impl WebhookConfiguration {
    /// The webhooks that are always registered.
    pub fn webhooks(&self) -> impl Iterator<Item = &'static Webhook> + use<> {
        let (step, say) = (self.step, self.say);
        WEBHOOKS.iter().filter(move |hook| hook.step == step && hook.say == say)
    }

    /// The entries of its webhooks; `own` is the operator's namespace.
    #[must_use]
    pub fn hooks(&self, reached: &WebhookClientConfig<'_>, own: &str) -> Tree {
        Tree::list(self.webhooks().map(|hook| hook.registration(reached, own)))
    }

    /// The configuration with these entries.
    #[must_use]
    pub fn object(&self, hooks: Tree) -> Tree {
        tree!({
            "apiVersion": format!("{}/{}", self.kind.group, self.kind.version),
            "kind": self.word,
            "metadata": {"name": self.name},
            "webhooks": hooks,
        })
    }
}

/// Annotations by which cert-manager injects its CA into a configuration.
pub const CA_INJECTION_ANNOTATIONS: [&str; 3] = [
    "cert-manager.io/inject-apiserver-ca",
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
];

/// The merge patch that replaces all webhooks of a configuration: a merge patch replaces lists as a whole. The
/// annotations for CA injection become those of `noted`.
#[must_use]
pub fn replace_webhooks_patch(hooks: Tree, noted: &Tree) -> Tree {
    let notes = CA_INJECTION_ANNOTATIONS.map(|key| {
        let noted = meta::annotation(noted, key);
        (key, noted.map_or(Tree::Null, Tree::from))
    });
    tree!({"metadata": {"annotations": (Tree::map(notes))}, "webhooks": hooks})
}
