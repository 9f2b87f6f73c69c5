//! Input that the embedded control plane stores and does not act on.
//!
//! Such input is never ignored silently: the API server answers a write with a `Warning` header, objects that need a
//! missing controller get an event, and the reference documentation prints this table.
//!
//! # Guarantees
//!
//! - A row covers one resource, or every resource if `plural` is empty.
//! - A row is removed in the change that implements what it describes.

use muster_tree::Tree;

use crate::meta;
use crate::queue::consts::{annotations, labels};

/// Input that is stored and has no effect on the embedded control plane.
#[derive(Debug, Clone, Copy)]
pub struct UnsupportedFeature {
    /// API group of the resource.
    pub group: &'static str,
    /// Plural name of the resource; empty for all resources except [`QUEUED`].
    pub plural: &'static str,
    /// Which writes of the resource are affected.
    pub input: Input,
    /// What happens or does not, and the alternative.
    pub effect: &'static str,
}

/// Which writes of a resource are unsupported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Every object: its controller does not run.
    Controller,
    /// Every object: a policy that is not enforced.
    Rule,
    /// Objects with a value at this path.
    Field(&'static [&'static str]),
    /// Objects with this label.
    Label(&'static str),
    /// Objects with this annotation, on themselves or on a pod template.
    Annotation(&'static str),
    /// Writes through this subresource.
    Subresource(&'static str),
}

/// Resources that the queue label enqueues.
pub const QUEUED: [(&str, &str); 4] =
    [("", "pods"), ("batch", "jobs"), ("jobset.x-k8s.io", "jobsets"), ("trainer.kubeflow.org", "trainjobs")];

const NO_PODS: &str = "no controller creates its pods here; use a Job, a JobSet or a TrainJob";
const NOT_CALLED: &str = "it is stored, and no webhook is called";
const NOT_EVALUATED: &str = "it is stored, and not evaluated";
const NO_RIGHTS: &str = "it is stored, and not enforced: every authenticated client may do everything";
const NO_TOPOLOGY: &str = "topology-aware scheduling is not implemented; with a queue label the Workload is held, without one it has no effect";
const NO_ELASTIC: &str = "elastic jobs are not implemented; a change of the size needs a new admission";

/// Builds a row of [`TABLE`].
const fn row(
    group: &'static str,
    plural: &'static str,
    input: Input,
    effect: &'static str,
) -> UnsupportedFeature {
    UnsupportedFeature { group, plural, input, effect }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// All unsupported input of the embedded control plane.
pub const TABLE: &[UnsupportedFeature] = &[
    row("", "replicationcontrollers", Input::Controller, NO_PODS),
    row("apps", "deployments", Input::Controller, NO_PODS),
    row("apps", "replicasets", Input::Controller, NO_PODS),
    row("apps", "statefulsets", Input::Controller, NO_PODS),
    row("apps", "daemonsets", Input::Controller, NO_PODS),
    row("batch", "cronjobs", Input::Controller, "no controller creates its Jobs here; create the Job itself"),
    row("networking.k8s.io", "ingresses", Input::Controller, "no ingress controller runs here"),
    row("networking.k8s.io", "networkpolicies", Input::Rule, "it is stored, and not enforced"),
    row(ADMISSION, "mutatingwebhookconfigurations", Input::Rule, NOT_CALLED),
    row(ADMISSION, "validatingwebhookconfigurations", Input::Rule, NOT_CALLED),
    row(ADMISSION, "mutatingadmissionpolicies", Input::Rule, NOT_EVALUATED),
    row(ADMISSION, "mutatingadmissionpolicybindings", Input::Rule, NOT_EVALUATED),
    row(ADMISSION, "validatingadmissionpolicies", Input::Rule, NOT_EVALUATED),
    row(ADMISSION, "validatingadmissionpolicybindings", Input::Rule, NOT_EVALUATED),
    row(RBAC, "roles", Input::Rule, NO_RIGHTS),
    row(RBAC, "rolebindings", Input::Rule, NO_RIGHTS),
    row(RBAC, "clusterroles", Input::Rule, NO_RIGHTS),
    row(RBAC, "clusterrolebindings", Input::Rule, NO_RIGHTS),
    row("node.k8s.io", "runtimeclasses", Input::Rule, "its handler is not used: nodes run all pods alike"),
    row("", "pods", Input::Field(&["spec", "runtimeClassName"]), "the handler of a RuntimeClass is not used"),
    row(
        "",
        "pods",
        Input::Subresource("ephemeralcontainers"),
        "ephemeral containers are stored, and not started",
    ),
    row("", "pods", Input::Annotation(annotations::TOPOLOGY_REQUIRED), NO_TOPOLOGY),
    row("", "pods", Input::Annotation(annotations::TOPOLOGY_PREFERRED), NO_TOPOLOGY),
    row("batch", "jobs", Input::Annotation(annotations::TOPOLOGY_REQUIRED), NO_TOPOLOGY),
    row("batch", "jobs", Input::Annotation(annotations::TOPOLOGY_PREFERRED), NO_TOPOLOGY),
    row("batch", "jobs", Input::Annotation(annotations::ELASTIC_JOB), NO_ELASTIC),
    row("jobset.x-k8s.io", "jobsets", Input::Annotation(annotations::TOPOLOGY_REQUIRED), NO_TOPOLOGY),
    row("jobset.x-k8s.io", "jobsets", Input::Annotation(annotations::TOPOLOGY_PREFERRED), NO_TOPOLOGY),
    row("jobset.x-k8s.io", "jobsets", Input::Annotation(annotations::ELASTIC_JOB), NO_ELASTIC),
    row(
        "kueue.x-k8s.io",
        "clusterqueues",
        Input::Field(&["spec", "admissionScope"]),
        "admission fair sharing is not implemented; Workloads are ordered by priority and time",
    ),
    row(
        "kueue.x-k8s.io",
        "resourceflavors",
        Input::Field(&["spec", "topologyName"]),
        "topology-aware scheduling is not implemented; pods are not placed by the topology",
    ),
    row(
        "",
        "",
        Input::Label(labels::QUEUE),
        "objects of this kind are not queued; label a Job, JobSet, TrainJob or Pod",
    ),
];

impl UnsupportedFeature {
    /// Returns whether a write of this object has such input. `subresource` is empty for the main resource.
    #[must_use]
    pub fn matches_object(&self, object: &Tree, subresource: &str) -> bool {
        match self.input {
            Input::Subresource(name) => subresource == name,
            // All other rows cover writes of the main resource only.
            _ if !subresource.is_empty() => false,
            Input::Controller | Input::Rule => true,
            Input::Field(path) => object.at(path).is_some(),
            Input::Label(key) => meta::label(object, key).is_some(),
            Input::Annotation(key) => has_annotation(object, key),
        }
    }

    /// Returns whether the row covers this resource.
    #[must_use]
    pub fn matches_resource(&self, group: &str, plural: &str) -> bool {
        if self.plural.is_empty() {
            !QUEUED.contains(&(group, plural))
        } else {
            (self.group, self.plural) == (group, plural)
        }
    }

    /// The text of the `Warning` header.
    #[must_use]
    pub fn warning(&self, kind: &str) -> String {
        format!("{}: {}", self.subject(kind), self.effect)
    }

    /// Names the input: `Deployment`, `metadata.labels[kueue.x-k8s.io/queue-name] of a ConfigMap`.
    #[must_use]
    pub fn subject(&self, kind: &str) -> String {
        match self.input {
            Input::Controller | Input::Rule => kind.to_owned(),
            Input::Field(path) => format!("{} of a {kind}", path.join(".")),
            Input::Label(key) => format!("metadata.labels[{key}] of a {kind}"),
            Input::Annotation(key) => format!("annotation {key} of a {kind}"),
            Input::Subresource(name) => format!("{kind}/{name}"),
        }
    }
}

/// Returns whether the object, or a pod template of a Job or JobSet, has this annotation.
fn has_annotation(object: &Tree, key: &str) -> bool {
    let template =
        |it: &Tree| it.at(&["spec", "template"]).is_some_and(|pod| meta::annotation(pod, key).is_some());
    let jobs = object.items_at(&["spec", "replicatedJobs"]);
    meta::annotation(object, key).is_some()
        || template(object)
        || jobs
            .iter()
            .filter_map(|job| job.at(&["template"]))
            .any(|job| meta::annotation(job, key).is_some() || template(job))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn warned(group: &str, plural: &str, object: &Tree) -> usize {
        TABLE
            .iter()
            .filter(|row| row.matches_resource(group, plural) && row.matches_object(object, ""))
            .count()
    }

    #[test]
    fn a_queue_label_counts_on_kinds_that_are_not_queued() {
        let labelled = tree!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}});
        assert_eq!(warned("", "configmaps", &labelled), 1);
        assert_eq!(warned("batch", "jobs", &labelled), 0);
        assert_eq!(warned("apps", "deployments", &labelled), 2, "its controller and its label");
        assert_eq!(warned("", "configmaps", &tree!({"metadata": {}})), 0);
    }

    #[test]
    fn annotations_of_pod_templates_count() {
        let pod = tree!({"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}});
        let job = tree!({"spec": {"template": pod.clone()}});
        let set = tree!({"spec": {"replicatedJobs": [{"name": "w", "template": job.clone()}]}});
        assert_eq!(warned("", "pods", &pod), 1);
        assert_eq!(warned("batch", "jobs", &job), 1);
        assert_eq!(warned("jobset.x-k8s.io", "jobsets", &set), 1);
        assert_eq!(warned("batch", "jobs", &tree!({"spec": {"template": {"metadata": {}}}})), 0);
    }
}
