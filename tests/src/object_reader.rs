//! Reads objects by the arguments of `kubectl get`, without starting kubectl for each poll.
//!
//! A waiting test polls ten times a second, and a kubectl costs 60 ms of CPU time: a few waiting tests would keep a core busy. The tests
//! of kubectl cover its compatibility with the server.
//!
//! # Guarantees
//!
//! - Lists are as kubectl prints them: each item has kind and apiVersion.
//! - For arguments that it does not support it returns `None`, and the caller runs kubectl.

use std::fmt::Write as _;

use muster_tree::Tree;

use crate::differential::ApiClient;

/// Names of a kind, API path of its version, plural, and whether it is namespaced.
type Kind = (&'static [&'static str], &'static str, &'static str, bool);
const KINDS: [Kind; 16] = [
    (&["pod", "pods"], "/api/v1", "pods", true),
    (&["configmap"], "/api/v1", "configmaps", true),
    (&["secret"], "/api/v1", "secrets", true),
    (&["events"], "/api/v1", "events", true),
    (&["job", "jobs"], "/apis/batch/v1", "jobs", true),
    (&["jobset"], "/apis/jobset.x-k8s.io/v1alpha2", "jobsets", true),
    (&["trainjob"], "/apis/trainer.kubeflow.org/v1alpha1", "trainjobs", true),
    (&["trainingruntime"], "/apis/trainer.kubeflow.org/v1alpha1", "trainingruntimes", true),
    (&["clustertrainingruntime"], "/apis/trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", false),
    (&["workloads.kueue.x-k8s.io"], "/apis/kueue.x-k8s.io/v1beta2", "workloads", true),
    (&["clusterqueues.kueue.x-k8s.io"], "/apis/kueue.x-k8s.io/v1beta2", "clusterqueues", false),
    (&["localqueues.v1beta1.kueue.x-k8s.io"], "/apis/kueue.x-k8s.io/v1beta1", "localqueues", true),
    (&["clusterrole"], "/apis/rbac.authorization.k8s.io/v1", "clusterroles", false),
    (&["crd"], "/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", false),
    (
        &["mutatingwebhookconfiguration"],
        "/apis/admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        false,
    ),
    (&["podgroups.scheduling.x-k8s.io"], "/apis/scheduling.x-k8s.io/v1alpha1", "podgroups", true),
];

/// Returns what `kubectl get --output json` prints for these arguments, or its error; `None` for unsupported arguments.
#[must_use]
pub fn get(server: &ApiClient, words: &[&str]) -> Option<Result<Tree, String>> {
    let path = path(words)?;
    Some(server.get(&path).and_then(|answer| match answer.code {
        200 => Ok(with_kinds(&answer.body)),
        _ => {
            let (reason, message) = (answer.body.str_at(&["reason"]), answer.body.str_at(&["message"]));
            Err(format!("Error from server ({reason}): {message}"))
        }
    }))
}

/// Translates the arguments to an API path.
fn path(words: &[&str]) -> Option<String> {
    let (mut named, mut query) = (Vec::new(), Vec::new());
    let (mut namespace, mut everywhere) = ("default", false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "-n" | "--namespace" => namespace = words.next()?,
            "--all-namespaces" => everywhere = true,
            "-l" | "--selector" => query.push(("labelSelector", *words.next()?)),
            "--field-selector" => query.push(("fieldSelector", *words.next()?)),
            flag if flag.starts_with('-') => return None,
            name => named.push(name),
        }
    }
    let (kind, name) = match named[..] {
        [one] => one.split_once('/').map_or((one, None), |(kind, name)| (kind, Some(name))),
        [kind, name] => (kind, Some(name)),
        _ => return None,
    };
    let (_, group, plural, namespaced) = KINDS.iter().find(|it| it.0.contains(&kind))?;
    let mut path = (*group).to_owned();
    if *namespaced && !everywhere {
        write!(path, "/namespaces/{namespace}").ok()?;
    }
    write!(path, "/{plural}").ok()?;
    if let Some(name) = name {
        write!(path, "/{name}").ok()?;
    }
    for (at, (key, value)) in query.iter().enumerate() {
        let value = value.replace('/', "%2F").replace('=', "%3D").replace(',', "%2C").replace(' ', "%20");
        write!(path, "{}{key}={value}", if at == 0 { '?' } else { '&' }).ok()?;
    }
    Some(path)
}

/// Adds kind and apiVersion to the items of a list.
fn with_kinds(read: &Tree) -> Tree {
    let Some(kind) = read.str_at(&["kind"]).strip_suffix("List") else { return read.clone() };
    let (kind, version) = (kind.to_owned(), read.str_at(&["apiVersion"]).to_owned());
    let Some(items) = read.get("items") else { return read.clone() };
    let items =
        items.map_items(|_, it| it.with(&["kind"], kind.as_str()).with(&["apiVersion"], version.as_str()));
    read.with(&["items"], items)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn kubectl_arguments_become_paths() {
        for (words, want) in [
            (&["pods"][..], Some("/api/v1/namespaces/default/pods")),
            (&["pod", "a", "-n", "b"], Some("/api/v1/namespaces/b/pods/a")),
            (&["job/a"], Some("/apis/batch/v1/namespaces/default/jobs/a")),
            (&["crd", "c"], Some("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/c")),
            (
                &["workloads.kueue.x-k8s.io", "--all-namespaces"],
                Some("/apis/kueue.x-k8s.io/v1beta2/workloads"),
            ),
            (
                &["pods", "--selector", "a/b=c"],
                Some("/api/v1/namespaces/default/pods?labelSelector=a%2Fb%3Dc"),
            ),
            (&["pods", "--as", "tenant"], None),
            (&["jobs,pods"], None),
            (&["unknown", "a"], None),
        ] {
            assert_eq!(path(words).as_deref(), want, "{words:?}");
        }
    }

    #[test]
    fn list_items_have_their_kind() {
        let list = tree!({"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]});
        let want = tree!({"metadata": {"name": "a"}, "kind": "Pod", "apiVersion": "v1"});
        assert_eq!(with_kinds(&list).items_at(&["items"]), [want]);
        let pod = tree!({"kind": "Pod", "metadata": {"name": "a"}});
        assert_eq!(with_kinds(&pod), pod);
    }
}
