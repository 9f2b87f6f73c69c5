//! Adds the projected ServiceAccount token volume to pods that run as processes.
//!
//! Not for simulated pods: nothing reads the token there, and without the volume pods of one template share their
//! spec.

use muster_store::Key;
use muster_tree::{Text, Tree, tree};

use super::{AdmissionDecision, AdmissionPlugin, AdmissionRequest, Operation};

/// The mount path that client libraries read.
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-local";
/// The prefix by which tools recognize such volumes.
const VOLUME_PREFIX: &str = "kube-api-access-";
/// Requested lifetime in seconds, as in kube-apiserver.
const SECONDS: i64 = 3607;

pub struct TokenVolume;

impl AdmissionPlugin for TokenVolume {
    fn name(&self) -> &str {
        "ServiceAccount"
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let (Operation::Create, true, Some(pod)) =
            (request.operation, request.is("", "pods"), request.object)
        else {
            return AdmissionDecision::allow();
        };
        match wants_token(pod, request) {
            true => AdmissionDecision::change(with_token(pod)),
            false => AdmissionDecision::allow(),
        }
    }
}

/// `automountServiceAccountToken` of the pod, then of its ServiceAccount; the default is true.
fn wants_token(pod: &Tree, request: &AdmissionRequest<'_>) -> bool {
    let key = Key {
        resource: Text::from("serviceaccounts"),
        namespace: request.namespace.clone(),
        name: pod.text_at(&["spec", "serviceAccountName"]),
    };
    let account = || request.lister.newest(&key)?.tree.bool_at(&["automountServiceAccountToken"]);
    pod.bool_at(&["spec", "automountServiceAccountToken"]).or_else(account) != Some(false)
}

fn with_token(pod: &Tree) -> Tree {
    let before = pod.clone();
    // A copy of a pod (`kubectl debug --copy-to`) already has the volume.
    let volumes = pod.items_at(&["spec", "volumes"]).iter().map(|it| it.str_at(&["name"]).to_owned());
    let there = volumes.into_iter().find(|name| name.starts_with(VOLUME_PREFIX));
    let name = there.as_deref().unwrap_or(VOLUME);
    let mount = tree!({"name": name, "mountPath": PLACE, "readOnly": true});
    let mut used = false;
    let pod = ["containers", "initContainers"].iter().fold(pod.clone(), |pod, list| {
        let Some(containers) = pod.at(&["spec", list]) else { return pod };
        let containers = containers.map_items(|_, container| {
            let mounts = container.items_at(&["volumeMounts"]);
            if mounts.iter().any(|it| it.str_at(&["mountPath"]) == PLACE) {
                return container.clone();
            }
            used = true;
            container.with(&["volumeMounts"], Tree::list(mounts.iter().cloned().chain([mount.clone()])))
        });
        pod.with(&["spec", list], containers)
    });
    if !used {
        return before;
    }
    if there.is_some() {
        return pod;
    }
    let volume = tree!({"name": VOLUME, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}});
    let volumes = pod.items_at(&["spec", "volumes"]).iter().cloned().chain([volume]);
    pod.with(&["spec", "volumes"], Tree::list(volumes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_with_an_own_mount_keeps_it() {
        let pod = tree!({"spec": {"containers": [{"name": "a"},
            {"name": "b", "volumeMounts": [{"name": "own", "mountPath": PLACE}]}], "volumes": [{"name": "own"}]}});
        let made = with_token(&pod);
        let mounts =
            |at: usize| made.items_at(&["spec", "containers"])[at].items_at(&["volumeMounts"]).to_vec();
        assert_eq!(mounts(0)[0].str_at(&["name"]), VOLUME);
        assert_eq!((mounts(1).len(), mounts(1)[0].str_at(&["name"])), (1, "own"));
        assert_eq!(made.items_at(&["spec", "volumes"]).len(), 2);
        let own = tree!({"spec": {"containers": [{"volumeMounts": [{"mountPath": PLACE}]}]}});
        assert_eq!(with_token(&own), own, "a volume without a mount is not added");
        let copy =
            tree!({"spec": {"containers": [{"name": "a"}], "volumes": [{"name": "kube-api-access-x7k2p"}]}});
        let copy = with_token(&copy);
        let mounted = copy.items_at(&["spec", "containers"])[0].items_at(&["volumeMounts"])[0].clone();
        assert_eq!(
            mounted.str_at(&["name"]),
            "kube-api-access-x7k2p",
            "the volume of the pod that was copied"
        );
        assert_eq!(copy.items_at(&["spec", "volumes"]).len(), 1);
    }
}
