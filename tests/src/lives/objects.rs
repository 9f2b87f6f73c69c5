//! Which objects a life may be made of, where they are, and what of their manifests goes without saying.

use muster_tree::{Text, Tree, tree};

use super::sets;

/// Whether objects of a kind live in the namespace of the life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// They do.
    Namespace,
    /// They have none; those of a life are known by their names.
    Cluster,
}

/// One kind of objects.
#[derive(Debug, Clone, Copy)]
pub struct Sort {
    /// `kind`.
    pub kind: &'static str,
    /// `apiVersion`.
    pub api_version: &'static str,
    /// How paths spell it.
    pub plural: &'static str,
    /// Where it lives.
    pub scope: Scope,
}

const fn namespaced(kind: &'static str, api_version: &'static str, plural: &'static str) -> Sort {
    Sort { kind, api_version, plural, scope: Scope::Namespace }
}

const fn everywhere(kind: &'static str, api_version: &'static str, plural: &'static str) -> Sort {
    Sort { kind, api_version, plural, scope: Scope::Cluster }
}

/// All kinds that a life may name.
pub const SORTS: [Sort; 25] = [
    namespaced("Pod", "v1", "pods"),
    namespaced("Event", "v1", "events"),
    namespaced("Job", "batch/v1", "jobs"),
    namespaced("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
    everywhere("PersistentVolume", "v1", "persistentvolumes"),
    everywhere("StorageClass", "storage.k8s.io/v1", "storageclasses"),
    everywhere("CSINode", "storage.k8s.io/v1", "csinodes"),
    everywhere("Node", "v1", "nodes"),
    everywhere("Namespace", "v1", "namespaces"),
    namespaced("ResourceClaim", "resource.k8s.io/v1", "resourceclaims"),
    namespaced("ResourceClaimTemplate", "resource.k8s.io/v1", "resourceclaimtemplates"),
    everywhere("DeviceClass", "resource.k8s.io/v1", "deviceclasses"),
    everywhere("ResourceSlice", "resource.k8s.io/v1", "resourceslices"),
    namespaced("JobSet", "jobset.x-k8s.io/v1alpha2", "jobsets"),
    namespaced("Service", "v1", "services"),
    namespaced("ResourceQuota", "v1", "resourcequotas"),
    everywhere("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses"),
    everywhere("ResourceFlavor", QUEUES, "resourceflavors"),
    everywhere("ClusterQueue", QUEUES, "clusterqueues"),
    everywhere("Cohort", QUEUES, "cohorts"),
    everywhere("WorkloadPriorityClass", QUEUES, "workloadpriorityclasses"),
    everywhere("AdmissionCheck", QUEUES, "admissionchecks"),
    namespaced("LocalQueue", QUEUES, "localqueues"),
    namespaced("Workload", QUEUES, "workloads"),
    namespaced("ReplicaSet", "apps/v1", "replicasets"),
];
/// Kinds that lives do not compare, but that scenarios name. Where several groups have one of the same name, the group stands
/// behind it.
const MORE: [Sort; 11] = [
    namespaced("TrainJob", TRAINING, "trainjobs"),
    namespaced("TrainingRuntime", TRAINING, "trainingruntimes"),
    everywhere("ClusterTrainingRuntime", TRAINING, "clustertrainingruntimes"),
    namespaced("ConfigMap", "v1", "configmaps"),
    namespaced("Secret", "v1", "secrets"),
    namespaced("PodGroup.scheduling.x-k8s.io", "scheduling.x-k8s.io/v1alpha1", "podgroups"),
    namespaced("PodGroup.scheduling.volcano.sh", "scheduling.volcano.sh/v1beta1", "podgroups"),
    namespaced("PodGroup.v1alpha1", "scheduling.k8s.io/v1alpha1", "podgroups"),
    namespaced("PodGroup.v1beta1", "scheduling.k8s.io/v1beta1", "podgroups"),
    namespaced("Workload.v1alpha1", "scheduling.k8s.io/v1alpha1", "workloads"),
    namespaced("Workload.v1beta1", "scheduling.k8s.io/v1beta1", "workloads"),
];
/// The version of all kinds of training.
const TRAINING: &str = "trainer.kubeflow.org/v1alpha1";
/// The version of all kinds of queues.
const QUEUES: &str = "kueue.x-k8s.io/v1beta2";

impl Sort {
    /// The kind of this name.
    pub fn of(kind: &str) -> Result<&'static Sort, String> {
        SORTS
            .iter()
            .chain(&MORE)
            .find(|sort| sort.kind == kind)
            .ok_or_else(|| format!("no life can name the kind {kind:?}"))
    }

    /// The path of all objects of the kind that a life in this namespace may see.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        let root = if self.api_version == "v1" { "/api" } else { "/apis" };
        let space = match self.scope {
            Scope::Namespace => format!("namespaces/{namespace}/"),
            Scope::Cluster => String::new(),
        };
        format!("{root}/{}/{space}{}", self.api_version, self.plural)
    }
}

/// The object that steps are about which name none.
pub type Subject = (&'static str, &'static str);

/// Where an object is that a step names by kind and name; the subject when it names none.
pub fn place(step: &Tree, subject: Subject, namespace: &str) -> Result<String, String> {
    let (kind, name) =
        if names_object(step) { (step.str_at(&["kind"]), step.str_at(&["name"])) } else { subject };
    Ok(format!("{}/{name}", Sort::of(kind)?.path(namespace)))
}

/// Whether a step names the object it is about.
#[must_use]
pub fn names_object(step: &Tree) -> bool {
    step.get("kind").is_some()
}

/// A manifest with all that goes without saying: its version, of a Pod one container that runs for long, and of a JobSet
/// what `sets` fills in.
pub fn whole(manifest: &Tree) -> Result<(Tree, &'static Sort), String> {
    let sort = Sort::of(manifest.str_at(&["kind"]))?;
    let plain = tree!({"apiVersion": sort.api_version});
    let plain = match sort.kind {
        "Pod" => plain.merge(&tree!({"metadata": {"annotations": {"muster.dev/sim-run-seconds": "600"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}})),
        "JobSet" => return Ok((plain.merge(&sets::whole(manifest)?), sort)),
        _ => plain,
    };
    Ok((plain.merge(manifest), sort))
}

/// A tree of a life with its namespace filled in.
#[must_use]
pub fn filled(tree: &Tree, namespace: &str) -> Tree {
    replaced(tree, "{ns}", namespace)
}

/// A tree with one text in place of another, wherever it is.
#[must_use]
pub fn replaced(tree: &Tree, from: &str, to: &str) -> Tree {
    rewritten(tree, &|text| Tree::from(text.replace(from, to)))
}

/// A tree in which `{letters:N}` at the end of a text stands for so many letters, `{words:N}` for a list of so many words, and
/// `{named:N}` for one of so many objects that have nothing but a name of their own.
#[must_use]
pub fn grown(tree: &Tree) -> Tree {
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

/// A tree with something else in place of every text.
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
    fn where_objects_are() {
        for (step, want) in [
            (tree!({"kind": "Pod", "name": "a"}), "/api/v1/namespaces/n/pods/a"),
            (tree!({"kind": "PersistentVolume", "name": "pv-n"}), "/api/v1/persistentvolumes/pv-n"),
            (tree!({"kind": "StorageClass", "name": "c"}), "/apis/storage.k8s.io/v1/storageclasses/c"),
            (tree!({"status": {}}), "/apis/batch/v1/namespaces/n/jobs/a"),
        ] {
            assert_eq!(place(&step, ("Job", "a"), "n").as_deref(), Ok(want));
        }
        assert!(place(&tree!({"kind": "Odd", "name": "a"}), ("Job", "a"), "n").is_err());
    }

    #[test]
    fn long_values_are_written_short() {
        let tree = tree!({"text": "s3://{letters:3}", "list": "{words:2}", "env": "{named:2}", "plain": "{letters}"});
        let want = tree!({"text": "s3://aaa", "list": ["a", "a"], "env": [{"name": "n0"}, {"name": "n1"}], "plain": "{letters}"});
        assert_eq!(grown(&tree), want);
    }

    #[test]
    fn the_namespace_is_filled_in_everywhere() {
        let tree = tree!({"name": "pv-{ns}", "list": ["{ns}", 1]});
        assert_eq!(filled(&tree, "n"), tree!({"name": "pv-n", "list": ["n", 1]}));
    }
}
