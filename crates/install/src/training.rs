//! Manifests of TrainJobs besides their CRDs: the shipped runtimes, and the version ConfigMap that clients read.
//!
//! # Guarantees
//!
//! - The runtime for local processes is not installed: pods of a cluster need images.
//! - The shipped runtimes pass our own validation; a test checks it.

use muster_api::train::consts::CLUSTER_TRAINING_RUNTIME;
use muster_trainer::kinds::bundled_runtimes::{
    CACHE_ACCOUNT, DATA_CACHE_RUNTIME, LOCAL_RUNTIME, VERSION, VERSION_CONFIG_MAP, bundled_runtimes,
    version_config_map,
};
use muster_tree::{Tree, tree};

use crate::names::TRAINING_NAMESPACE;
use crate::rbac_objects::{RBAC, role};
use crate::{Options, with_labels};

/// The namespace of the data cache's ServiceAccount, as Trainer installs it; for TrainJobs in other namespaces it has to
/// be copied.
const CACHE_NAMESPACE: &str = "default";
/// The group of all authenticated users.
const AUTHENTICATED_GROUP: &str = "system:authenticated";

/// The version ConfigMap, its namespace, and RBAC to read it.
pub(crate) fn version_objects(options: &Options) -> Vec<Tree> {
    if !options.training {
        return Vec::new();
    }
    let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TRAINING_NAMESPACE}});
    let space = (options.namespace != TRAINING_NAMESPACE).then(|| with_labels(&space, "namespace"));
    let map = with_labels(&version_config_map(TRAINING_NAMESPACE, VERSION), "training");
    let rules = tree!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": [VERSION_CONFIG_MAP]}]);
    let there = [role("Role", VERSION_CONFIG_MAP, rules), version_role_binding()];
    let there = there.map(|it| it.with(&["metadata", "namespace"], TRAINING_NAMESPACE));
    space.into_iter().chain([map]).chain(there).collect()
}

/// Allows all authenticated users to read it.
fn version_role_binding() -> Tree {
    let binding = tree!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": {"name": VERSION_CONFIG_MAP},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": VERSION_CONFIG_MAP},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": AUTHENTICATED_GROUP}],
    });
    with_labels(&binding, "rbac")
}

/// The shipped runtimes, if they are enabled.
pub(crate) fn runtimes(options: &Options) -> Vec<Tree> {
    if !options.training || !options.runtimes {
        return Vec::new();
    }
    let all = bundled_runtimes(&options.runtime_registry).into_iter();
    let wanted = all.filter(|it| {
        !is_named(it, LOCAL_RUNTIME) && (options.data_cache || !is_named(it, DATA_CACHE_RUNTIME))
    });
    wanted.map(|it| with_labels(&it, "runtime")).collect()
}

/// The ServiceAccount and RBAC of the data cache's initializer, if it is enabled.
pub(crate) fn cache_rbac(options: &Options) -> Vec<Tree> {
    let wanted = options.training && options.runtimes && options.data_cache;
    let all = if wanted { cache_account() } else { Vec::new() };
    all.iter().map(|it| with_labels(it, "rbac")).collect()
}

/// The ServiceAccount and RBAC of the initializer, which creates the data cache. TrainJobs in another namespace need a
/// copy of the ServiceAccount and its binding.
#[must_use]
pub fn cache_account() -> Vec<Tree> {
    let reads = ["create", "get", "list", "watch"];
    let all = ["create", "delete", "get", "list", "watch"];
    let rules = tree!([
        {"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["leaderworkersets"], "verbs": Tree::list(reads)},
        {"apiGroups": [""], "resources": ["services"], "verbs": Tree::list(reads)},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": Tree::list(all)},
    ]);
    let version = format!("{RBAC}/v1");
    let named = tree!({"name": CACHE_ACCOUNT, "namespace": CACHE_NAMESPACE});
    vec![
        tree!({"apiVersion": version.as_str(), "kind": "ClusterRole", "metadata": {"name": CACHE_ACCOUNT}, "rules": rules}),
        tree!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": (named.clone())}),
        tree!({
            "apiVersion": version.as_str(),
            "kind": "RoleBinding",
            "metadata": (named.clone()),
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": CACHE_ACCOUNT},
            "subjects": [(named.with(&["kind"], "ServiceAccount"))],
        }),
    ]
}

fn is_named(runtime: &Tree, name: &str) -> bool {
    runtime.str_at(&["metadata", "name"]) == name
}

/// Whether an object is a ClusterTrainingRuntime.
#[must_use]
pub fn is_runtime(object: &Tree) -> bool {
    object.str_at(&["kind"]) == CLUSTER_TRAINING_RUNTIME
}

#[cfg(test)]
mod tests {
    use muster_api::time::Time;
    use muster_api::train::RuntimeKind;
    use muster_api::train::consts::labels;
    use muster_trainer::kinds::admission::{TrainingLister, TrainingReview, validate};

    use super::*;
    use crate::manifests;

    /// A lister that fails: validating a runtime needs no lookups.
    struct Dark;

    impl TrainingLister for Dark {
        fn runtime(&self, _: RuntimeKind, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Err("dark".to_owned())
        }

        fn config_map(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Err("dark".to_owned())
        }

        fn jobset(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Err("dark".to_owned())
        }

        fn has_priority_class(&self, _: &str) -> Result<bool, String> {
            Err("dark".to_owned())
        }
    }

    #[test]
    fn what_is_shipped_is_for_clusters_and_passes() {
        let all = runtimes(&Options::default());
        let names: Vec<&str> = all.iter().map(|it| it.str_at(&["metadata", "name"])).collect();
        let want = [
            "torch-distributed",
            "jax-distributed",
            "xgboost-distributed",
            "deepspeed-distributed",
            "mlx-distributed",
            "torchtune-llama3.2-1b",
            "torchtune-llama3.2-3b",
            "torchtune-qwen2.5-1.5b",
        ];
        assert_eq!(names.len(), want.len(), "{names:?}");
        assert!(want.iter().all(|it| names.contains(it)), "{names:?}");
        for runtime in &all {
            let asked = TrainingReview {
                namespace: &"".into(),
                object: runtime,
                old: None,
                live: &Dark,
                now: Time(0),
            };
            let answer = validate(CLUSTER_TRAINING_RUNTIME, &asked);
            assert_eq!((answer.refused, answer.warnings), (None, Vec::new()), "{runtime}");
            assert_ne!(runtime.str_at(&["metadata", "labels", labels::FRAMEWORK]), "", "clients show it");
        }
    }

    #[test]
    fn runtimes_can_be_left_out_and_come_from_a_registry() {
        let without = manifests(&Options { runtimes: false, ..Options::default() });
        assert!(!without.iter().any(is_runtime));
        let mirrored = Options { runtime_registry: "mirror.example".to_owned(), ..Options::default() };
        let text: String = runtimes(&mirrored).iter().map(Tree::to_json).collect();
        assert!(text.contains(r#""image":"mirror.example/"#), "{text}");
    }

    #[test]
    fn a_data_cache_comes_on_request_with_its_account() {
        let of_cache = |options: &Options| {
            let all = manifests(options).into_iter();
            let named = all
                .filter(|it| [DATA_CACHE_RUNTIME, CACHE_ACCOUNT].contains(&it.str_at(&["metadata", "name"])));
            named.map(|it| it.str_at(&["kind"]).to_owned()).collect::<Vec<_>>()
        };
        let with = Options { data_cache: true, ..Options::default() };
        let want = [CLUSTER_TRAINING_RUNTIME, "ClusterRole", "ServiceAccount", "RoleBinding"];
        assert_eq!(of_cache(&with), want);
        for none in [
            Options::default(),
            Options { runtimes: false, ..with.clone() },
            Options { training: false, ..with.clone() },
        ] {
            assert_eq!(of_cache(&none), Vec::<String>::new());
        }
        let all = runtimes(&with);
        let runtime = all.iter().find(|it| is_named(it, DATA_CACHE_RUNTIME)).unwrap();
        for job in runtime.items_at(&["spec", "template", "spec", "replicatedJobs"]) {
            let pod = job.at(&["template", "spec", "template", "spec"]).unwrap();
            let env = pod.items_at(&["containers"])[0].items_at(&["env"]);
            let var = env.iter().find(|it| it.str_at(&["name"]) == "TRAIN_JOB_NAME").expect("both are told");
            let field = var.str_at(&["valueFrom", "fieldRef", "fieldPath"]);
            assert_eq!(field, "metadata.labels['jobset.sigs.k8s.io/jobset-name']");
        }
    }

    #[test]
    fn without_training_nothing_of_it_is_there() {
        let without = manifests(&Options { training: false, data_cache: true, ..Options::default() });
        for object in &without {
            let (kind, name) = (object.str_at(&["kind"]), object.str_at(&["metadata", "name"]));
            let of_it = ["trainer", "training", "trainjob", "kubeflow"].iter().any(|it| name.contains(it));
            assert!(!of_it && !is_runtime(object), "{kind} {name}");
        }
        let with = manifests(&Options::default());
        let other = |it: &&Tree| it.str_at(&["kind"]) != "ClusterRole" && !with.contains(it);
        assert_eq!(without.iter().find(other), None, "but for what it may do, the operator is the same");
    }

    #[test]
    fn clients_find_out_which_version_this_is() {
        let all = version_objects(&Options::default());
        let kinds: Vec<&str> = all.iter().map(|it| it.str_at(&["kind"])).collect();
        assert_eq!(kinds, ["Namespace", "ConfigMap", "Role", "RoleBinding"]);
        assert_eq!(all[1].str_at(&["data", "kubeflow_trainer_version"]), VERSION);
        let at_home = Options { namespace: TRAINING_NAMESPACE.to_owned(), ..Options::default() };
        assert_eq!(version_objects(&at_home).len(), 3, "the namespace is there already");
    }
}
