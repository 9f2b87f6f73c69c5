//! What comes with TrainJobs besides their definitions: the runtimes that are shipped, and the ConfigMap by which
//! clients tell who runs them.
//!
//! # Invariants
//!
//! - Runtimes for processes of one machine are left out: a cluster has images.
//! - What is shipped passes admission as it is: a test asks.

use muster_api::train::words::CLUSTER_TRAINING_RUNTIME;
use muster_trainer::kinds::shipped::{CACHE_ACCOUNT, LOCAL, PUBLIC, VERSION, WITH_CACHE, public, shipped};
use muster_tree::{Tree, tree};

use crate::access::{RBAC, role};
use crate::names::TRAINING_NAMESPACE;
use crate::{Options, labelled};

/// Where TrainJobs with a data cache run unless the account is copied elsewhere, as Trainer installs it.
const CACHE_NAMESPACE: &str = "default";
/// Everybody whom the server knows.
const EVERYBODY: &str = "system:authenticated";

/// Where clients look, and what they find there.
pub(crate) fn told(options: &Options) -> Vec<Tree> {
    if !options.training {
        return Vec::new();
    }
    let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TRAINING_NAMESPACE}});
    let space = (options.namespace != TRAINING_NAMESPACE).then(|| labelled(&space, "namespace"));
    let map = labelled(&public(TRAINING_NAMESPACE, VERSION), "training");
    let rules = tree!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": [PUBLIC]}]);
    let there = [role("Role", PUBLIC, rules), bound()];
    let there = there.map(|it| it.with(&["metadata", "namespace"], TRAINING_NAMESPACE));
    space.into_iter().chain([map]).chain(there).collect()
}

/// Lets everybody read it.
fn bound() -> Tree {
    let binding = tree!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": {"name": PUBLIC},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": PUBLIC},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": EVERYBODY}],
    });
    labelled(&binding, "rbac")
}

/// The runtimes that are shipped, if they are wanted.
pub(crate) fn runtimes(options: &Options) -> Vec<Tree> {
    if !options.training || !options.runtimes {
        return Vec::new();
    }
    let all = shipped(&options.runtime_registry).into_iter();
    let wanted = all.filter(|it| !is_named(it, LOCAL) && (options.data_cache || !is_named(it, WITH_CACHE)));
    wanted.map(|it| labelled(&it, "runtime")).collect()
}

/// The account of the initializer of a data cache, with its rights.
pub(crate) fn cache(options: &Options) -> Vec<Tree> {
    let wanted = options.training && options.runtimes && options.data_cache;
    let all = if wanted { cache_account() } else { Vec::new() };
    all.iter().map(|it| labelled(it, "rbac")).collect()
}

/// The account under which the initializer of a data cache makes the cache, and what it may do. In another namespace
/// TrainJobs need a copy of the account and its binding.
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

/// Whether an object is a runtime of the cluster.
#[must_use]
pub fn is_runtime(object: &Tree) -> bool {
    object.str_at(&["kind"]) == CLUSTER_TRAINING_RUNTIME
}

#[cfg(test)]
mod tests {
    use muster_api::time::Time;
    use muster_api::train::RuntimeKind;
    use muster_api::train::words::labels;
    use muster_trainer::kinds::admission::{Asked, Live, validate};

    use super::*;
    use crate::manifests;

    /// Nothing has to be looked at for a runtime.
    struct Dark;

    impl Live for Dark {
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
            let asked =
                Asked { namespace: &"".into(), object: runtime, old: None, live: &Dark, now: Time(0) };
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
            let named =
                all.filter(|it| [WITH_CACHE, CACHE_ACCOUNT].contains(&it.str_at(&["metadata", "name"])));
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
        let runtime = all.iter().find(|it| is_named(it, WITH_CACHE)).unwrap();
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
        let all = told(&Options::default());
        let kinds: Vec<&str> = all.iter().map(|it| it.str_at(&["kind"])).collect();
        assert_eq!(kinds, ["Namespace", "ConfigMap", "Role", "RoleBinding"]);
        assert_eq!(all[1].str_at(&["data", "kubeflow_trainer_version"]), VERSION);
        let at_home = Options { namespace: TRAINING_NAMESPACE.to_owned(), ..Options::default() };
        assert_eq!(told(&at_home).len(), 3, "the namespace is there already");
    }
}
