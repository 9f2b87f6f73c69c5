//! Pods that run as processes have the token of their service account where clients look for it.
//!
//! Simulated pods do not: nobody reads it there, and pods of one template share their spec without it.

use muster_store::Key;
use muster_tree::{Text, Tree, tree};

use super::{AdmissionRequest, Hook, Operation, Verdict};

/// Where clients look.
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The name of the volume.
const VOLUME: &str = "kube-api-access-local";
/// How such names begin: tools know them by it.
const VOLUME_PREFIX: &str = "kube-api-access-";
/// How long a token is good, as a real server asks.
const SECONDS: i64 = 3607;

/// The step.
pub struct TokenVolume;

impl Hook for TokenVolume {
    fn name(&self) -> &str {
        "ServiceAccount"
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let (Operation::Create, true, Some(pod)) =
            (request.operation, request.is("", "pods"), request.object)
        else {
            return Verdict::allow();
        };
        match wants_token(pod, request) {
            true => Verdict::change(with_token(pod)),
            false => Verdict::allow(),
        }
    }
}

/// The pod decides, then its account; who says nothing wants it.
fn wants_token(pod: &Tree, request: &AdmissionRequest<'_>) -> bool {
    let key = Key {
        resource: Text::from("serviceaccounts"),
        namespace: request.namespace.clone(),
        name: pod.text_at(&["spec", "serviceAccountName"]),
    };
    let account = || request.look.newest(&key)?.tree.bool_at(&["automountServiceAccountToken"]);
    pod.bool_at(&["spec", "automountServiceAccountToken"]).or_else(account) != Some(false)
}

fn with_token(pod: &Tree) -> Tree {
    let before = pod.clone();
    // A copy of another pod, as `kubectl debug --copy-to` makes it, has the volume already.
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
    fn a_container_that_has_something_there_keeps_it() {
        let pod = tree!({"spec": {"containers": [{"name": "a"},
            {"name": "b", "volumeMounts": [{"name": "own", "mountPath": PLACE}]}], "volumes": [{"name": "own"}]}});
        let made = with_token(&pod);
        let mounts =
            |at: usize| made.items_at(&["spec", "containers"])[at].items_at(&["volumeMounts"]).to_vec();
        assert_eq!(mounts(0)[0].str_at(&["name"]), VOLUME);
        assert_eq!((mounts(1).len(), mounts(1)[0].str_at(&["name"])), (1, "own"));
        assert_eq!(made.items_at(&["spec", "volumes"]).len(), 2);
        let own = tree!({"spec": {"containers": [{"volumeMounts": [{"mountPath": PLACE}]}]}});
        assert_eq!(with_token(&own), own, "nobody needs a volume that is nowhere");
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
