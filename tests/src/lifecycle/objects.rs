//! The kinds that scenarios may use, their paths, and the defaults of their manifests.

use muster_tree::{Text, Tree, tree};

use super::jobset_shorthand;

/// Whether a kind is namespaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceScope {
    Namespace,
    /// Cluster-scoped; objects of a scenario have its namespace in their names.
    Cluster,
}

/// A kind of objects.
#[derive(Debug, Clone, Copy)]
pub struct ResourceKind {
    pub kind: &'static str,
    pub api_version: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
    pub scope: ResourceScope,
}

const fn namespaced(kind: &'static str, api_version: &'static str, plural: &'static str) -> ResourceKind {
    ResourceKind { kind, api_version, plural, scope: ResourceScope::Namespace }
}

const fn cluster_scoped(kind: &'static str, api_version: &'static str, plural: &'static str) -> ResourceKind {
    ResourceKind { kind, api_version, plural, scope: ResourceScope::Cluster }
}

/// Kinds that lifecycle scenarios use; all of them are compared.
pub const COMPARED_KINDS: [ResourceKind; 25] = [
    namespaced("Pod", "v1", "pods"),
    namespaced("Event", "v1", "events"),
    namespaced("Job", "batch/v1", "jobs"),
    namespaced("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
    cluster_scoped("PersistentVolume", "v1", "persistentvolumes"),
    cluster_scoped("StorageClass", "storage.k8s.io/v1", "storageclasses"),
    cluster_scoped("CSINode", "storage.k8s.io/v1", "csinodes"),
    cluster_scoped("Node", "v1", "nodes"),
    cluster_scoped("Namespace", "v1", "namespaces"),
    namespaced("ResourceClaim", "resource.k8s.io/v1", "resourceclaims"),
    namespaced("ResourceClaimTemplate", "resource.k8s.io/v1", "resourceclaimtemplates"),
    cluster_scoped("DeviceClass", "resource.k8s.io/v1", "deviceclasses"),
    cluster_scoped("ResourceSlice", "resource.k8s.io/v1", "resourceslices"),
    namespaced("JobSet", "jobset.x-k8s.io/v1alpha2", "jobsets"),
    namespaced("Service", "v1", "services"),
    namespaced("ResourceQuota", "v1", "resourcequotas"),
    cluster_scoped("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses"),
    cluster_scoped("ResourceFlavor", QUEUES, "resourceflavors"),
    cluster_scoped("ClusterQueue", QUEUES, "clusterqueues"),
    cluster_scoped("Cohort", QUEUES, "cohorts"),
    cluster_scoped("WorkloadPriorityClass", QUEUES, "workloadpriorityclasses"),
    cluster_scoped("AdmissionCheck", QUEUES, "admissionchecks"),
    namespaced("LocalQueue", QUEUES, "localqueues"),
    namespaced("Workload", QUEUES, "workloads"),
    namespaced("ReplicaSet", "apps/v1", "replicasets"),
];
/// Further kinds for other dialects. A kind that exists in several groups has its group or version as a suffix.
const OTHER_KINDS: [ResourceKind; 11] = [
    namespaced("TrainJob", TRAINING, "trainjobs"),
    namespaced("TrainingRuntime", TRAINING, "trainingruntimes"),
    cluster_scoped("ClusterTrainingRuntime", TRAINING, "clustertrainingruntimes"),
    namespaced("ConfigMap", "v1", "configmaps"),
    namespaced("Secret", "v1", "secrets"),
    namespaced("PodGroup.scheduling.x-k8s.io", "scheduling.x-k8s.io/v1alpha1", "podgroups"),
    namespaced("PodGroup.scheduling.volcano.sh", "scheduling.volcano.sh/v1beta1", "podgroups"),
    namespaced("PodGroup.v1alpha1", "scheduling.k8s.io/v1alpha1", "podgroups"),
    namespaced("PodGroup.v1beta1", "scheduling.k8s.io/v1beta1", "podgroups"),
    namespaced("Workload.v1alpha1", "scheduling.k8s.io/v1alpha1", "workloads"),
    namespaced("Workload.v1beta1", "scheduling.k8s.io/v1beta1", "workloads"),
];
/// `apiVersion` of Kubeflow Trainer.
const TRAINING: &str = "trainer.kubeflow.org/v1alpha1";
const QUEUES: &str = "kueue.x-k8s.io/v1beta2";

impl ResourceKind {
    /// Returns the kind of this name.
    pub fn of(kind: &str) -> Result<&'static ResourceKind, String> {
        COMPARED_KINDS
            .iter()
            .chain(&OTHER_KINDS)
            .find(|sort| sort.kind == kind)
            .ok_or_else(|| format!("no scenario may use the kind {kind:?}"))
    }

    /// Returns the path of the collection, in this namespace if the kind is namespaced.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        let root = if self.api_version == "v1" { "/api" } else { "/apis" };
        let space = match self.scope {
            ResourceScope::Namespace => format!("namespaces/{namespace}/"),
            ResourceScope::Cluster => String::new(),
        };
        format!("{root}/{}/{space}{}", self.api_version, self.plural)
    }
}

/// Kind and name of the object on which steps act by default.
pub type DefaultObject = (&'static str, &'static str);

/// Returns the path of the object that a step names, or of the subject.
pub fn object_path(step: &Tree, subject: DefaultObject, namespace: &str) -> Result<String, String> {
    let (kind, name) =
        if names_object(step) { (step.str_at(&["kind"]), step.str_at(&["name"])) } else { subject };
    Ok(format!("{}/{name}", ResourceKind::of(kind)?.path(namespace)))
}

#[must_use]
pub fn names_object(step: &Tree) -> bool {
    step.get("kind").is_some()
}

/// Adds the defaults to a manifest: `apiVersion`, one long-running container for a Pod, and the JobSet shorthand.
pub fn complete_manifest(manifest: &Tree) -> Result<(Tree, &'static ResourceKind), String> {
    let sort = ResourceKind::of(manifest.str_at(&["kind"]))?;
    let plain = tree!({"apiVersion": sort.api_version});
    let plain = match sort.kind {
        "Pod" => plain.merge(&tree!({"metadata": {"annotations": {"muster.dev/sim-run-seconds": "600"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}})),
        "JobSet" => return Ok((plain.merge(&jobset_shorthand::complete_jobset(manifest)?), sort)),
        _ => plain,
    };
    Ok((plain.merge(manifest), sort))
}

/// Replaces `{ns}` by the namespace.
#[must_use]
pub fn with_namespace(tree: &Tree, namespace: &str) -> Tree {
    replaced(tree, "{ns}", namespace)
}

/// Replaces a substring in all texts of a tree.
#[must_use]
pub fn replaced(tree: &Tree, from: &str, to: &str) -> Tree {
    rewritten(tree, &|text| Tree::from(text.replace(from, to)))
}

/// Expands `{letters:N}` at the end of a text to N letters, `{words:N}` to a list of N strings, and `{named:N}` to a list of N objects
/// with unique names.
#[must_use]
pub fn expand_placeholders(tree: &Tree) -> Tree {
    rewritten(tree, &|text| {
        let count = |word: &str| text.strip_prefix(word)?.strip_suffix('}')?.parse::<usize>().ok();
        if let Some((before, count)) = text.split_once("{letters:") {
            let count = count.strip_suffix('}').and_then(|it| it.parse().ok());
            return Tree::from(format!("{before}{}", "a".repeat(count.unwrap_or_default())));
        }
        if let Some(count) = count("{words:") {
            return Tree::list(vec![Tree::from("a"); count]);
        }
        let Some(count) = count("{named:") else { return Tree::from(text) };
        Tree::list((0..count).map(|n| tree!({"name": format!("n{n}")})).collect::<Vec<_>>())
    })
}

/// Maps every text of a tree.
fn rewritten(tree: &Tree, text: &dyn Fn(&str) -> Tree) -> Tree {
    let key = |key: &str| text(key).as_text().cloned().unwrap_or_else(|| Text::from(key));
    match tree {
        Tree::Map(_) => {
            let all = tree.entries().iter().map(|(name, value)| (key(name), rewritten(value, text)));
            Tree::map(all.collect::<Vec<_>>())
        }
        Tree::List(_) => tree.map_items(|_, item| rewritten(item, text)),
        Tree::Text(it) => text(it),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_objects() {
        for (step, want) in [
            (tree!({"kind": "Pod", "name": "a"}), "/api/v1/namespaces/n/pods/a"),
            (tree!({"kind": "PersistentVolume", "name": "pv-n"}), "/api/v1/persistentvolumes/pv-n"),
            (tree!({"kind": "StorageClass", "name": "c"}), "/apis/storage.k8s.io/v1/storageclasses/c"),
            (tree!({"status": {}}), "/apis/batch/v1/namespaces/n/jobs/a"),
        ] {
            assert_eq!(object_path(&step, ("Job", "a"), "n").as_deref(), Ok(want));
        }
        assert!(object_path(&tree!({"kind": "Odd", "name": "a"}), ("Job", "a"), "n").is_err());
    }

    #[test]
    fn placeholders_for_long_values_are_expanded() {
        let tree = tree!({"text": "s3://{letters:3}", "list": "{words:2}", "env": "{named:2}", "plain": "{letters}"});
        let want = tree!({"text": "s3://aaa", "list": ["a", "a"], "env": [{"name": "n0"}, {"name": "n1"}], "plain": "{letters}"});
        assert_eq!(expand_placeholders(&tree), want);
    }

    #[test]
    fn the_namespace_is_replaced_everywhere() {
        let tree = tree!({"name": "pv-{ns}", "list": ["{ns}", 1]});
        assert_eq!(with_namespace(&tree, "n"), tree!({"name": "pv-n", "list": ["n", 1]}));
    }
}
