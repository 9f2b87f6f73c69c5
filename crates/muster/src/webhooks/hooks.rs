//! The hooks there are: under which path and name, about which writes, and who decides.

use muster_api::kinds;
use muster_api::port::Kind;
use muster_api::words::jobset as words;
use muster_jobset::admission::{Answer, Asked, default_jobset, mutate_pod, validate_jobset, validate_pod};
use muster_tree::{Tree, tree};

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
    /// Who decides.
    pub decide: fn(&Asked<'_>) -> Answer,
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
        decide: default_jobset,
    },
    Hook {
        path: "/validate-jobset-x-k8s-io-v1alpha2-jobset",
        name: "vjobset.kb.io",
        say: Say::Refuse,
        kind: &kinds::JOBSETS,
        word: words::KIND,
        operations: &["CREATE", "UPDATE"],
        decide: validate_jobset,
    },
    Hook {
        path: "/mutate--v1-pod",
        name: "mpod.kb.io",
        say: Say::Change,
        kind: &kinds::PODS,
        word: "Pod",
        operations: &["CREATE"],
        decide: mutate_pod,
    },
    Hook {
        path: "/validate--v1-pod",
        name: "vpod.kb.io",
        say: Say::Refuse,
        kind: &kinds::PODS,
        word: "Pod",
        operations: &["CREATE"],
        decide: validate_pod,
    },
];

/// Seconds that the server waits for an answer.
pub const TIMEOUT_SECS: u32 = 10;

impl Hook {
    /// The hook as a configuration lists it, at this address, with the authority (PEM, in base64) that certifies it.
    ///
    /// Whoever cannot be asked counts as a refusal: no JobSet is kept that nobody looked at. Pods are chosen by their
    /// label, so that all others never depend on us.
    pub fn registration(&self, base: &str, authority: &str) -> Tree {
        let Kind { group, version, plural } = self.kind;
        let operations = Tree::list(self.operations.iter().copied());
        let rule = tree!({
            "apiGroups": [group],
            "apiVersions": [version],
            "resources": [plural],
            "operations": operations,
            "scope": "Namespaced",
        });
        let hook = tree!({
            "name": self.name,
            "clientConfig": {"url": format!("{base}{}", self.path), "caBundle": authority},
            "rules": [rule],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": i64::from(TIMEOUT_SECS),
            "admissionReviewVersions": ["v1"],
        });
        if self.kind == &kinds::PODS {
            let ours = tree!({"key": words::NAME, "operator": "Exists"});
            return hook.with(&["objectSelector"], tree!({"matchExpressions": [ours]}));
        }
        hook
    }
}
