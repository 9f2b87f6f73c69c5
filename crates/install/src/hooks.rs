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
#[cfg(test)]
mod tests;

use muster_api::kinds;
use muster_api::meta;
use muster_api::port::Kind;
use muster_api::words::jobset as words;
use muster_tree::{Tree, tree};

use self::conditions::Condition;

/// What a hook may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    /// Change an object, or refuse it.
    Change,
    /// Refuse it.
    Refuse,
}

/// One hook.
pub struct Hook {
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
    /// What has to hold of such a write besides.
    conditions: &'static [Condition],
}

/// All of them.
pub static HOOKS: [Hook; 4] = [
    Hook {
        path: "/mutate-jobset-x-k8s-io-v1alpha2-jobset",
        name: "mjobset.kb.io",
        say: Say::Change,
        kind: &kinds::JOBSETS,
        word: words::KIND,
        // An apply replaces lists as a whole, and with them what was filled into their items.
        operations: &["CREATE", "UPDATE"],
        conditions: &[conditions::SPEC_CHANGES],
    },
    Hook {
        path: "/validate-jobset-x-k8s-io-v1alpha2-jobset",
        name: "vjobset.kb.io",
        say: Say::Refuse,
        kind: &kinds::JOBSETS,
        word: words::KIND,
        operations: &["CREATE", "UPDATE"],
        conditions: &[conditions::SPEC_CHANGES],
    },
    Hook {
        path: "/mutate--v1-pod",
        name: "mpod.kb.io",
        say: Say::Change,
        kind: &kinds::PODS,
        word: "Pod",
        operations: &["CREATE"],
        conditions: &[conditions::OF_A_JOBSET, conditions::PLACED_OR_RANKED],
    },
    Hook {
        path: "/validate--v1-pod",
        name: "vpod.kb.io",
        say: Say::Refuse,
        kind: &kinds::PODS,
        word: "Pod",
        operations: &["CREATE"],
        conditions: &[conditions::OF_A_JOBSET, conditions::FOLLOWS],
    },
];

/// Seconds that the server waits for an answer.
pub const TIMEOUT_SECS: u32 = 10;

/// Whose pods we never have a say about, whatever their labels: a cluster must come up without us.
const SYSTEM_NAMESPACE: &str = "kube-system";

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
    fn client(&self, path: &str) -> Tree {
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
    /// The hook as a configuration lists it, reached so.
    ///
    /// Whoever cannot be asked counts as a refusal. Pods are chosen by their label, so that all others never depend on us.
    #[must_use]
    pub fn registration(&self, reached: &Reached<'_>) -> Tree {
        let hook = tree!({
            "name": self.name,
            "clientConfig": reached.client(self.path),
            "rules": [(self.rule())],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "matchConditions": Tree::list(self.conditions.iter().map(Condition::tree)),
            "sideEffects": "None",
            "timeoutSeconds": i64::from(TIMEOUT_SECS),
            "admissionReviewVersions": ["v1"],
        });
        if self.kind != &kinds::PODS {
            return hook;
        }
        let ours = tree!({"key": words::NAME, "operator": "Exists"});
        let spared =
            tree!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [SYSTEM_NAMESPACE]});
        hook.with(&["objectSelector"], tree!({"matchExpressions": [ours]}))
            .with(&["namespaceSelector"], tree!({"matchExpressions": [spared]}))
    }

    fn rule(&self) -> Tree {
        let Kind { group, version, plural } = self.kind;
        tree!({
            "apiGroups": [group],
            "apiVersions": [version],
            "resources": [plural],
            "operations": Tree::list(self.operations.iter().copied()),
            "scope": "Namespaced",
        })
    }
}

/// A configuration of hooks. The names are upstream's, so that ours replaces it.
pub struct Configuration {
    /// Its name.
    pub name: &'static str,
    /// Its kind as manifests name it.
    pub word: &'static str,
    /// Its kind.
    pub kind: &'static Kind,
    /// What its hooks may do.
    pub say: Say,
}

/// All of them.
pub static CONFIGURATIONS: [Configuration; 2] = [
    Configuration {
        name: "jobset-mutating-webhook-configuration",
        word: "MutatingWebhookConfiguration",
        kind: &kinds::MUTATING_WEBHOOKS,
        say: Say::Change,
    },
    Configuration {
        name: "jobset-validating-webhook-configuration",
        word: "ValidatingWebhookConfiguration",
        kind: &kinds::VALIDATING_WEBHOOKS,
        say: Say::Refuse,
    },
];

impl Configuration {
    /// Its hooks, reached so.
    #[must_use]
    pub fn hooks(&self, reached: &Reached<'_>) -> Tree {
        let hooks = HOOKS.iter().filter(|hook| hook.say == self.say);
        Tree::list(hooks.map(|hook| hook.registration(reached)))
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
