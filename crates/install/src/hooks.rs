//! The hooks there are: under which path and name, and about which writes a server asks them.
//!
//! # Invariants
//!
//! - A server asks only where the answer can be other than "fine": who decides would say nothing else about the rest.
//!   So nothing else depends on us when we are away.
//! - What a server cannot ask is refused: no JobSet is kept that nobody looked at.
//!
//! # Deliberately absent
//!
//! Who decides.

mod conditions;
pub mod everybody;
mod table;
#[cfg(test)]
mod tests;

use muster_api::kinds;
use muster_api::meta;
use muster_api::port::Kind;
use muster_api::words::jobset as words;
use muster_tree::{Tree, tree};

use self::conditions::Condition;
pub use self::table::HOOKS;

/// Whose hooks: the step of admission that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// JobSets and their pods.
    JobSets,
    /// Queues, and what waits in them.
    Queues,
    /// TrainJobs and runtimes.
    Training,
}

/// What a hook may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    /// Change an object, or refuse it.
    Change,
    /// Refuse it.
    Refuse,
}

/// Where the objects are that a hook is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// In no namespace.
    Cluster,
    /// In every namespace.
    Namespaces,
    /// In every namespace but those that a cluster, or the operator itself, comes up with.
    Tenants,
    /// The same, and only objects with the label of JobSets. The operator's namespace has none.
    JobSets,
}

/// A label and its value.
type Label = (&'static str, &'static str);

/// One hook. Several may be asked at one path, about the same kind: there all that is asked at that path is decided.
pub struct Hook {
    /// Whose it is.
    pub step: Step,
    /// Where it is asked.
    pub path: &'static str,
    /// Its name, which refusals of the server name.
    pub name: &'static str,
    /// What it may do.
    pub say: Say,
    /// The kind it is about.
    pub kind: &'static Kind,
    /// That kind as manifests name it.
    pub word: &'static str,
    /// The writes it is asked about.
    pub operations: &'static [&'static str],
    /// Parts of an object that are written apart, and count too.
    parts: &'static [&'static str],
    /// Where such objects are.
    scope: Scope,
    /// Objects with this label are left out.
    spares: Option<Label>,
    /// What has to hold of such a write besides.
    conditions: &'static [Condition],
}

/// Seconds that the server waits for an answer.
pub const TIMEOUT_SECS: u32 = 10;

/// Whose pods we never have a say about, whatever their labels: a cluster must come up without us.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// The label by which namespaces are told apart.
const SPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Where a server finds the hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached<'a> {
    /// At the very address, with the authority (PEM, in base64) that certifies it.
    Url {
        /// Scheme, host and port.
        base: &'a str,
        /// The authority.
        authority: &'a str,
    },
    /// Through a Service. The authority is not named: the operator puts it in, and whoever applies this again leaves it.
    Service {
        /// Its namespace, which is ours.
        namespace: &'a str,
        /// Its name.
        name: &'a str,
        /// Its port.
        port: u16,
    },
}

impl Reached<'_> {
    /// How a server asks at this path.
    #[must_use]
    pub fn client(&self, path: &str) -> Tree {
        match self {
            Reached::Url { base, authority } => {
                tree!({"url": format!("{base}{path}"), "caBundle": *authority})
            }
            Reached::Service { namespace, name, port } => {
                let port = i64::from(*port);
                tree!({"service": {"namespace": *namespace, "name": *name, "path": path, "port": port}})
            }
        }
    }
}

impl Hook {
    /// The hook as a configuration lists it, reached so; `own` is the operator's namespace.
    ///
    /// Whoever cannot be asked counts as a refusal. Pods and jobs are chosen by what they carry, so that all others never
    /// depend on us.
    #[must_use]
    pub fn registration(&self, reached: &Reached<'_>, own: &str) -> Tree {
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
        let conditions = Tree::list(self.conditions.iter().map(Condition::tree));
        let conditions = (!self.conditions.is_empty()).then_some(conditions);
        let hook = hook.with_option(&["matchConditions"], conditions);
        let hook = match self.spares {
            Some((key, value)) => hook.with(&["objectSelector"], all_but(key, &[value])),
            None => hook,
        };
        match self.scope {
            Scope::Cluster | Scope::Namespaces => hook,
            Scope::Tenants => {
                hook.with(&["namespaceSelector"], all_but(SPACE_NAME, &[SYSTEM_NAMESPACE, own]))
            }
            Scope::JobSets => {
                let ours = tree!({"key": words::NAME, "operator": "Exists"});
                hook.with(&["objectSelector"], tree!({"matchExpressions": [ours]}))
                    .with(&["namespaceSelector"], all_but(SPACE_NAME, &[SYSTEM_NAMESPACE]))
            }
        }
    }

    fn rule(&self) -> Tree {
        let Kind { group, version, plural } = self.kind;
        let parts = self.parts.iter().map(|part| format!("{plural}/{part}"));
        tree!({
            "apiGroups": [group],
            "apiVersions": [version],
            "resources": Tree::list(std::iter::once(plural.to_string()).chain(parts)),
            "operations": Tree::list(self.operations.iter().copied()),
            "scope": if self.scope == Scope::Cluster { "Cluster" } else { "Namespaced" },
        })
    }
}

/// Selects all but those with one of these values.
fn all_but(key: &str, values: &[&str]) -> Tree {
    let values = Tree::list(values.iter().copied());
    tree!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": values}]})
}

/// A configuration of hooks. The names are upstream's, so that ours replaces it.
pub struct Configuration {
    /// Whose hooks it has.
    pub step: Step,
    /// Its name.
    pub name: &'static str,
    /// Its kind as manifests name it.
    pub word: &'static str,
    /// Its kind.
    pub kind: &'static Kind,
    /// What its hooks may do.
    pub say: Say,
}

/// The name of each: JobSets last, so that whoever hears of the last has heard of all.
pub(crate) const NAMES: [&str; 6] = [
    "kueue-mutating-webhook-configuration",
    "kueue-validating-webhook-configuration",
    "defaulter.trainer.kubeflow.org",
    "validator.trainer.kubeflow.org",
    "jobset-mutating-webhook-configuration",
    "jobset-validating-webhook-configuration",
];

/// All of them.
pub static CONFIGURATIONS: [Configuration; 6] = [
    mutating(Step::Queues, NAMES[0]),
    validating(Step::Queues, NAMES[1]),
    mutating(Step::Training, NAMES[2]),
    validating(Step::Training, NAMES[3]),
    mutating(Step::JobSets, NAMES[4]),
    validating(Step::JobSets, NAMES[5]),
];

const fn mutating(step: Step, name: &'static str) -> Configuration {
    let (word, kind) = ("MutatingWebhookConfiguration", &kinds::MUTATING_WEBHOOKS);
    Configuration { step, name, word, kind, say: Say::Change }
}

const fn validating(step: Step, name: &'static str) -> Configuration {
    let (word, kind) = ("ValidatingWebhookConfiguration", &kinds::VALIDATING_WEBHOOKS);
    Configuration { step, name, word, kind, say: Say::Refuse }
}

impl Configuration {
    /// Those of its hooks that are always there.
    pub fn of(&self) -> impl Iterator<Item = &'static Hook> + use<> {
        let (step, say) = (self.step, self.say);
        HOOKS.iter().filter(move |hook| hook.step == step && hook.say == say)
    }

    /// Its hooks, reached so; `own` is the operator's namespace.
    #[must_use]
    pub fn hooks(&self, reached: &Reached<'_>, own: &str) -> Tree {
        Tree::list(self.of().map(|hook| hook.registration(reached, own)))
    }

    /// The configuration with these hooks.
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

/// Annotations that have cert-manager put its own authority into a configuration.
pub const INJECTED: [&str; 3] = [
    "cert-manager.io/inject-apiserver-ca",
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
];

/// The change that puts these hooks in place of any others: a merge replaces lists as a whole. Whether somebody else
/// puts an authority into them is as `noted` says.
#[must_use]
pub fn instead(hooks: Tree, noted: &Tree) -> Tree {
    let notes = INJECTED.map(|key| {
        let noted = meta::annotation(noted, key);
        (key, noted.map_or(Tree::Null, Tree::from))
    });
    tree!({"metadata": {"annotations": (Tree::map(notes))}, "webhooks": hooks})
}
