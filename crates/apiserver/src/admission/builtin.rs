//! The built-in steps.

use std::sync::Arc;

use muster_store::Key;
use muster_tree::{Text, Tree, tree};

use super::limit_ranger::LimitRanger;
use super::priority::Priority;
use super::storage_class::DefaultStorageClass;
use super::unsupported::UnsupportedInput;
use super::{AdmissionRequest, Hook, Operation, Verdict};
use crate::status::{Named, Status};

/// Names of the built-in steps, in their order.
pub const BUILTIN: [&str; 10] = [
    "NamespaceLifecycle",
    "LimitRanger",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "ServiceAccount",
    "Priority",
    "DefaultTolerationSeconds",
    GROUP_PROTECTION,
    QUOTA,
    UNSUPPORTED,
];

/// The name of the step that protects groups of pods.
pub(crate) const GROUP_PROTECTION: &str = "PodGroupProtection";

/// The name of the step that keeps namespaces within their quotas. It writes them, too: see `engine::charge`.
pub(crate) const QUOTA: &str = "ResourceQuota";

/// The name of the step that warns of input without effect.
pub(super) const UNSUPPORTED: &str = "UnsupportedInput";

/// The built-in steps, in their order.
pub(super) fn all() -> Vec<Arc<dyn Hook>> {
    vec![
        Arc::new(NamespaceLifecycle),
        Arc::new(LimitRanger),
        Arc::new(DefaultStorageClass),
        Arc::new(InUseProtection),
        Arc::new(ServiceAccount),
        Arc::new(Priority),
        Arc::new(TolerationSeconds),
        Arc::new(GroupProtection),
        Arc::new(UnsupportedInput),
    ]
}

/// Nothing is created where there is no namespace, or in one that is going away.
struct NamespaceLifecycle;

/// Namespaces that stay.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Hook for NamespaceLifecycle {
    fn name(&self) -> &str {
        BUILTIN[0]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let creates = request.operation == Operation::Create && request.subresource.is_empty();
        if !creates || !request.resource.namespaced {
            return Verdict::allow();
        }
        let name = request.namespace;
        let key = Key { resource: Text::from("namespaces"), namespace: Text::new(), name: name.clone() };
        let Some(namespace) = request.look.newest(&key) else {
            return Verdict::Deny(Status::not_found(Named { group: "", resource: "namespaces", name }));
        };
        if namespace.tree.at(&["metadata", "deletionTimestamp"]).is_none() {
            return Verdict::allow();
        }
        let object = request.object.map(|o| o.str_at(&["metadata", "name"])).unwrap_or_default();
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let mut status = Status::forbidden(request.resource.named(object), &why);
        let cause = format!("namespace {name} is being terminated");
        status.details.causes =
            vec![("NamespaceTerminating".to_owned(), cause, "metadata.namespace".to_owned())];
        Verdict::Deny(status)
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let deletes = request.operation == Operation::Delete && request.is("", "namespaces");
        let name = request.old.map(|o| o.str_at(&["metadata", "name"])).unwrap_or_default();
        if deletes && IMMORTAL.contains(&name) {
            let named = Named { group: "", resource: "namespaces", name };
            return Verdict::Deny(Status::forbidden(named, "this namespace may not be deleted"));
        }
        Verdict::allow()
    }
}

/// Volumes and claims in use are not pulled away from under their users.
struct InUseProtection;

impl Hook for InUseProtection {
    fn name(&self) -> &str {
        BUILTIN[3]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let finalizer = match request.resource.plural.as_str() {
            "persistentvolumeclaims" => "kubernetes.io/pvc-protection",
            "persistentvolumes" => "kubernetes.io/pv-protection",
            _ => return Verdict::allow(),
        };
        protected(request, finalizer)
    }
}

/// A new object with this finalizer.
fn protected(request: &AdmissionRequest<'_>, finalizer: &str) -> Verdict {
    let (Operation::Create, Some(tree)) = (request.operation, request.object) else {
        return Verdict::allow();
    };
    let has = tree.items_at(&["metadata", "finalizers"]);
    if has.iter().any(|f| f.as_str() == Some(finalizer)) {
        return Verdict::allow();
    }
    let all = has.iter().cloned().chain([Tree::from(finalizer)]);
    Verdict::change(tree.with(&["metadata", "finalizers"], Tree::list(all)))
}

/// Groups of pods stay while pods name them: a controller takes the finalizer away after the last one.
struct GroupProtection;

impl Hook for GroupProtection {
    fn name(&self) -> &str {
        BUILTIN[7]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        if request.is("scheduling.k8s.io", "podgroups") {
            protected(request, "scheduling.k8s.io/podgroup-protection")
        } else {
            Verdict::allow()
        }
    }
}

/// Every pod runs as somebody.
struct ServiceAccount;

impl Hook for ServiceAccount {
    fn name(&self) -> &str {
        BUILTIN[4]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let (Operation::Create, true, Some(tree)) =
            (request.operation, request.is("", "pods"), request.object)
        else {
            return Verdict::allow();
        };
        if !tree.str_at(&["spec", "serviceAccountName"]).is_empty() {
            return Verdict::allow();
        }
        let tree = tree.with(&["spec", "serviceAccountName"], "default");
        Verdict::change(tree.with(&["spec", "serviceAccount"], "default"))
    }
}

/// Pods wait five minutes on a node that is in trouble.
struct TolerationSeconds;

const TROUBLES: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TROUBLE_SECS: i64 = 300;

impl Hook for TolerationSeconds {
    fn name(&self) -> &str {
        BUILTIN[6]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        // Updates too: a client that sends a whole pod does not know of them.
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        let (true, true, Some(tree)) = (writes, request.is("", "pods"), request.object) else {
            return Verdict::allow();
        };
        let has = tree.items_at(&["spec", "tolerations"]);
        let missing = TROUBLES.into_iter().filter(|key| !has.iter().any(|t| tolerates(t, key)));
        let added: Vec<Tree> = missing.map(trouble).collect();
        if added.is_empty() {
            return Verdict::allow();
        }
        let all = has.iter().cloned().chain(added);
        Verdict::change(tree.with(&["spec", "tolerations"], Tree::list(all)))
    }
}

fn tolerates(toleration: &Tree, key: &str) -> bool {
    matches!(toleration.str_at(&["effect"]), "" | "NoExecute")
        && (toleration.str_at(&["key"]).is_empty() || toleration.str_at(&["key"]) == key)
}

fn trouble(key: &str) -> Tree {
    tree!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TROUBLE_SECS})
}
