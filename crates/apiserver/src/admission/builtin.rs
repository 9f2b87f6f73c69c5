//! The built-in admission plugins.

use std::sync::Arc;

use muster_api::consts::finalizers;
use muster_store::Key;
use muster_tree::{Text, Tree, tree};

use super::limit_ranger::LimitRanger;
use super::priority::Priority;
use super::storage_class::DefaultStorageClass;
use super::unsupported::UnsupportedInput;
use super::{AdmissionDecision, AdmissionPlugin, AdmissionRequest, Operation};
use crate::status::{Status, StatusObject};

/// Names of the built-in plugins in order.
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

/// Adds the protection finalizer to PodGroups.
pub(crate) const GROUP_PROTECTION: &str = "PodGroupProtection";

/// Enforced by `engine::quota_usage`, since it writes the quotas, too.
pub(crate) const QUOTA: &str = "ResourceQuota";

/// Warns about fields without effect.
pub(super) const UNSUPPORTED: &str = "UnsupportedInput";

/// The built-in plugins in order.
pub(super) fn all() -> Vec<Arc<dyn AdmissionPlugin>> {
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

/// Rejects creates in namespaces that are missing or terminating.
struct NamespaceLifecycle;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl AdmissionPlugin for NamespaceLifecycle {
    fn name(&self) -> &str {
        BUILTIN[0]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let creates = request.operation == Operation::Create && request.subresource.is_empty();
        if !creates || !request.resource.namespaced {
            return AdmissionDecision::allow();
        }
        let name = request.namespace;
        let key = Key { resource: Text::from("namespaces"), namespace: Text::new(), name: name.clone() };
        let Some(namespace) = request.lister.newest(&key) else {
            return AdmissionDecision::Deny(Status::not_found(StatusObject {
                group: "",
                resource: "namespaces",
                name,
            }));
        };
        if namespace.tree.at(&["metadata", "deletionTimestamp"]).is_none() {
            return AdmissionDecision::allow();
        }
        let object = request.object.map(|o| o.str_at(&["metadata", "name"])).unwrap_or_default();
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let mut status = Status::forbidden(request.resource.named(object), &why);
        // client-go's `HasStatusCause(err, NamespaceTerminatingCause)` reads this: controllers stop recreating
        // objects.
        let cause = format!("namespace {name} is being terminated");
        status.details.causes =
            vec![("NamespaceTerminating".to_owned(), cause, "metadata.namespace".to_owned())];
        AdmissionDecision::Deny(status)
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let deletes = request.operation == Operation::Delete && request.is("", "namespaces");
        let name = request.old.map(|o| o.str_at(&["metadata", "name"])).unwrap_or_default();
        if deletes && IMMORTAL.contains(&name) {
            let named = StatusObject { group: "", resource: "namespaces", name };
            return AdmissionDecision::Deny(Status::forbidden(named, "this namespace may not be deleted"));
        }
        AdmissionDecision::allow()
    }
}

/// Adds protection finalizers to volumes and claims, so that none in use is removed.
struct InUseProtection;

impl AdmissionPlugin for InUseProtection {
    fn name(&self) -> &str {
        BUILTIN[3]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let finalizer = match request.resource.plural.as_str() {
            "persistentvolumeclaims" => "kubernetes.io/pvc-protection",
            "persistentvolumes" => "kubernetes.io/pv-protection",
            _ => return AdmissionDecision::allow(),
        };
        with_finalizer(request, finalizer)
    }
}

/// Adds a finalizer on create.
fn with_finalizer(request: &AdmissionRequest<'_>, finalizer: &str) -> AdmissionDecision {
    let (Operation::Create, Some(tree)) = (request.operation, request.object) else {
        return AdmissionDecision::allow();
    };
    let has = tree.items_at(&["metadata", "finalizers"]);
    if has.iter().any(|f| f.as_str() == Some(finalizer)) {
        return AdmissionDecision::allow();
    }
    let all = has.iter().cloned().chain([Tree::from(finalizer)]);
    AdmissionDecision::change(tree.with(&["metadata", "finalizers"], Tree::list(all)))
}

/// Adds the protection finalizer: the PodGroup controller removes it when no pod refers to the group.
struct GroupProtection;

impl AdmissionPlugin for GroupProtection {
    fn name(&self) -> &str {
        BUILTIN[7]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        if request.is("scheduling.k8s.io", "podgroups") {
            with_finalizer(request, finalizers::GROUP_PROTECTION)
        } else {
            AdmissionDecision::allow()
        }
    }
}

/// Defaults the ServiceAccount of pods.
struct ServiceAccount;

impl AdmissionPlugin for ServiceAccount {
    fn name(&self) -> &str {
        BUILTIN[4]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let (Operation::Create, true, Some(tree)) =
            (request.operation, request.is("", "pods"), request.object)
        else {
            return AdmissionDecision::allow();
        };
        if !tree.str_at(&["spec", "serviceAccountName"]).is_empty() {
            return AdmissionDecision::allow();
        }
        let tree = tree.with(&["spec", "serviceAccountName"], "default");
        AdmissionDecision::change(tree.with(&["spec", "serviceAccount"], "default"))
    }
}

/// Defaults tolerations, so that pods stay five minutes on a node that is not ready or unreachable.
struct TolerationSeconds;

const UNREADY_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TROUBLE_SECS: i64 = 300;

impl AdmissionPlugin for TolerationSeconds {
    fn name(&self) -> &str {
        BUILTIN[6]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        // On updates, too: a client that replaces the pod may not send them.
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        let (true, true, Some(tree)) = (writes, request.is("", "pods"), request.object) else {
            return AdmissionDecision::allow();
        };
        let has = tree.items_at(&["spec", "tolerations"]);
        let missing = UNREADY_TAINTS.into_iter().filter(|key| !has.iter().any(|t| tolerates(t, key)));
        let added: Vec<Tree> = missing.map(default_toleration).collect();
        if added.is_empty() {
            return AdmissionDecision::allow();
        }
        let all = has.iter().cloned().chain(added);
        AdmissionDecision::change(tree.with(&["spec", "tolerations"], Tree::list(all)))
    }
}

fn tolerates(toleration: &Tree, key: &str) -> bool {
    matches!(toleration.str_at(&["effect"]), "" | "NoExecute")
        && (toleration.str_at(&["key"]).is_empty() || toleration.str_at(&["key"]) == key)
}

fn default_toleration(key: &str) -> Tree {
    tree!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TROUBLE_SECS})
}
