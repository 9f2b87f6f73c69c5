//! The queues of these worlds, and what waits in them.

use muster_api::queue::consts::{API_VERSION, annotations, labels};
use muster_sim::SeededRng;
use muster_tree::{Text, Tree, tree};

/// Flavors, in the order in which they are tried.
pub const FLAVORS: [&str; 2] = ["red", "blue"];
/// ClusterQueues; each has a LocalQueue of its name in each namespace.
pub const QUEUES: [&str; 4] = ["a", "b", "c", "d"];
pub const NAMESPACES: [&str; 2] = ["default", "other"];
/// Cohorts that may have an object.
pub const COHORTS: [&str; 3] = ["left", "right", "top"];
pub const CLASSES: [(&str, i64); 3] = [("low", 1), ("mid", 10), ("high", 100)];

/// Runs that outlast every world.
const FOR_EVER: &str = "1000000";

/// What a ClusterQueue is like.
#[derive(Debug, Clone)]
pub struct Queue {
    pub name: &'static str,
    pub cohort: Option<&'static str>,
    pub quotas: [Quota; 2],
    pub strict: bool,
    pub stop: &'static str,
    /// Policies: within the queue, reclaiming, while borrowing.
    pub preemption: (&'static str, &'static str, &'static str),
    /// Whether pods are counted, too.
    pub counts_pods: bool,
}

/// CPUs of a flavor.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    pub nominal: usize,
    pub borrowing: Option<usize>,
    pub lending: Option<usize>,
}

pub fn one<T: Copy>(dice: &SeededRng, all: &[T]) -> T {
    all[dice.below(all.len())]
}

impl Quota {
    /// As the dice say.
    pub fn thrown(dice: &SeededRng) -> Quota {
        let nominal = dice.below(5);
        let limit = |most: usize| (!dice.one_in(3)).then(|| dice.below(most + 1));
        Quota { nominal, borrowing: limit(3), lending: limit(nominal) }
    }
}

impl Queue {
    /// As the dice say.
    pub fn thrown(name: &'static str, dice: &SeededRng, preempts: bool) -> Queue {
        let preemption = if preempts {
            let reclaim = one(dice, &["Never", "LowerPriority", "Any"]);
            let borrow = if reclaim == "Never" { "Never" } else { one(dice, &["Never", "LowerPriority"]) };
            (one(dice, &["Never", "LowerPriority", "LowerOrNewerEqualPriority"]), reclaim, borrow)
        } else {
            ("Never", "Never", "Never")
        };
        Queue {
            name,
            cohort: one(dice, &[Some("left"), Some("right"), Some("top"), Some("left"), None]),
            quotas: [Quota::thrown(dice), Quota::thrown(dice)],
            strict: dice.one_in(4),
            stop: "None",
            preemption,
            counts_pods: dice.one_in(4),
        }
    }

    fn spec(&self) -> Tree {
        let (within, reclaim, borrow) = self.preemption;
        let flavors = FLAVORS.iter().zip(self.quotas).map(|(flavor, quota)| {
            let cpu = self.quota("cpu", quota);
            let pods = self.counts_pods.then(|| tree!({"name": "pods", "nominalQuota": 6}));
            tree!({"name": *flavor, "resources": Tree::list([cpu].into_iter().chain(pods))})
        });
        let covered = if self.counts_pods { tree!(["cpu", "pods"]) } else { tree!(["cpu"]) };
        let group = tree!({"coveredResources": covered, "flavors": Tree::list(flavors)});
        tree!({"namespaceSelector": {}, "stopPolicy": self.stop, "resourceGroups": [group],
            "queueingStrategy": if self.strict { "StrictFIFO" } else { "BestEffortFIFO" },
            "preemption": {"withinClusterQueue": within, "reclaimWithinCohort": reclaim,
                "borrowWithinCohort": {"policy": borrow}}})
        .with_option(&["cohortName"], self.cohort.map(Tree::from))
    }

    /// The patch that turns another ClusterQueue into this one.
    pub fn patch(&self) -> Tree {
        let spec = self.spec();
        tree!({"spec": if self.cohort.is_none() { spec.with(&["cohortName"], Tree::Null) } else { spec }})
    }

    fn quota(&self, resource: &str, quota: Quota) -> Tree {
        let limit = |limit: Option<usize>| limit.filter(|_| self.cohort.is_some()).map(number);
        tree!({"name": resource, "nominalQuota": number(quota.nominal)})
            .with_option(&["borrowingLimit"], limit(quota.borrowing))
            .with_option(&["lendingLimit"], limit(quota.lending.map(|lent| lent.min(quota.nominal))))
    }

    pub fn tree(&self) -> Tree {
        tree!({"apiVersion": API_VERSION, "kind": "ClusterQueue", "metadata": {"name": self.name}, "spec": (self.spec())})
    }
}

fn number(n: usize) -> Tree {
    Tree::from(i64::try_from(n).expect("a small number"))
}

pub fn flavor(name: &str) -> Tree {
    tree!({"apiVersion": API_VERSION, "kind": "ResourceFlavor", "metadata": {"name": name}})
}

/// A LocalQueue, of a ClusterQueue of the same name.
pub fn local_queue(namespace: &str, name: &str) -> Tree {
    tree!({"apiVersion": API_VERSION, "kind": "LocalQueue", "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": name}})
}

/// A Cohort; it may have something of its own.
pub fn cohort(name: &str, parent: Option<&str>, dice: &SeededRng) -> Tree {
    let quota = tree!({"name": "cpu", "nominalQuota": number(dice.below(3))});
    let group = tree!({"coveredResources": ["cpu"], "flavors": [{"name": FLAVORS[0], "resources": [quota]}]});
    let groups = if dice.one_in(2) { tree!([group]) } else { tree!([]) };
    tree!({"apiVersion": API_VERSION, "kind": "Cohort", "metadata": {"name": name}, "spec": {"resourceGroups": groups}})
        .with_option(&["spec", "parentName"], parent.map(Tree::from))
}

/// A class of priority.
pub fn class(name: &str, value: i64) -> Tree {
    tree!({"apiVersion": API_VERSION, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value})
}

/// The metadata of something that waits in a queue.
fn queued(name: &str, dice: &SeededRng) -> Tree {
    let namespace = if dice.one_in(3) { NAMESPACES[1] } else { NAMESPACES[0] };
    let base = tree!({"metadata": {"name": name, "namespace": namespace,
        "labels": {"kueue.x-k8s.io/queue-name": one(dice, &QUEUES)}}});
    if dice.one_in(3) {
        return base;
    }
    base.with(&["metadata", "labels", labels::PRIORITY_CLASS], one(dice, &CLASSES).0)
}

/// Pods with this CPU request in thousandths and a random run time.
fn pod_spec(milli: usize) -> Tree {
    tree!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [
        {"name": "c", "image": "i", "command": ["true"], "resources": {"requests": {"cpu": cpu(milli)}}}]})
}

/// CPUs in more digits than any number has: what pods cost does not depend on how it is spelled.
fn cpu(milli: usize) -> String {
    format!("{}.{:03}{}", milli / 1000, milli % 1000, "0".repeat(30))
}

fn runs(dice: &SeededRng) -> Tree {
    let secs = one(dice, &["1", "3", "8", "20", FOR_EVER]);
    tree!({"muster.dev/sim-run-seconds": secs})
}

fn milli(dice: &SeededRng) -> usize {
    one(dice, &[500, 1000, 1000, 2000])
}

pub fn job(name: &str, dice: &SeededRng) -> Tree {
    let pods = 1 + dice.below(3);
    let more = dice.below(2);
    let base = tree!({"apiVersion": "batch/v1", "kind": "Job", "spec": {
        "parallelism": number(pods), "completions": number(pods + more), "backoffLimit": 2,
        "template": {"metadata": {"annotations": runs(dice)}, "spec": pod_spec(milli(dice))}}});
    let made = base.merge(&queued(name, dice));
    if pods > 1 && dice.one_in(3) {
        return made.with(&["metadata", "annotations", annotations::JOB_MIN_PARALLELISM], "1");
    }
    made
}

pub fn job_set(name: &str, dice: &SeededRng) -> Tree {
    let part = |name: &str| {
        tree!({"name": name, "replicas": number(1 + dice.below(2)), "template": {"spec": {
            "parallelism": 1, "completions": 1, "backoffLimit": 0,
            "template": {"metadata": {"annotations": runs(dice)}, "spec": pod_spec(milli(dice))}}}})
    };
    let jobs = if dice.one_in(2) { vec![part("x")] } else { vec![part("x"), part("y")] };
    let base = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "spec": {"network": {"enableDNSHostnames": false}, "failurePolicy": {"maxRestarts": 1},
            "replicatedJobs": Tree::list(jobs)}});
    base.merge(&queued(name, dice))
}

/// Runtimes: nodes that train, and nodes that something is fetched for before.
pub fn runtimes() -> [Tree; 2] {
    let step = |name: &str, step: &str, container: &str, after: &[&str]| {
        let pod = pod_spec(500).with(
            &["containers"],
            tree!([{"name": container, "image": "i", "command": ["true"],
            "resources": {"requests": {"cpu": "500m"}}}]),
        );
        let after = after.iter().map(|name| tree!({"name": *name, "status": "Complete"}));
        // The first replicatedJob must not set `dependsOn`.
        let after = Some(Tree::list(after)).filter(|it| !it.is_empty());
        tree!({"name": name, "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}},
            "spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": {"muster.dev/sim-run-seconds": "2"}}, "spec": pod}}}})
        .with_option(&["dependsOn"], after)
    };
    let fetch = "dataset-initializer";
    let runtime = |name: &str, jobs: Vec<Tree>| {
        tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": {"name": name},
            "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"network": {"enableDNSHostnames": false},
                "replicatedJobs": Tree::list(jobs)}}}})
    };
    [
        runtime("nodes", vec![step("node", "trainer", "node", &[])]),
        runtime("steps", vec![step(fetch, fetch, fetch, &[]), step("node", "trainer", "node", &[fetch])]),
    ]
}

pub fn train_job(name: &str, dice: &SeededRng) -> Tree {
    let pod = tree!({"metadata": {"annotations": runs(dice)}});
    let patch = tree!({"manager": "example.com/life", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
        {"name": "node", "template": {"spec": {"template": pod}}}]}}}});
    let base = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {
        "runtimeRef": {"name": one(dice, &["nodes", "steps"])}, "runtimePatches": [patch],
        "trainer": {"numNodes": number(1 + dice.below(2)), "resourcesPerNode": {"requests": {"cpu": cpu(milli(dice))}}}}});
    base.merge(&queued(name, dice))
}

fn pod_of(meta: &Tree, name: &str, milli: usize, runs: &Tree) -> Tree {
    let base = tree!({"apiVersion": "v1", "kind": "Pod", "spec": (pod_spec(milli))}).merge(meta);
    base.merge(&tree!({"metadata": {"name": name, "annotations": (runs.clone())}}))
}

/// A pod by itself.
pub fn pod(name: &str, dice: &SeededRng) -> Tree {
    pod_of(&queued(name, dice), name, milli(dice), &runs(dice))
}

/// The pods of a group, and its Workload if the user creates it.
#[derive(Debug, Clone)]
pub struct Group {
    pub pods: Vec<Tree>,
    pub prebuilt: Option<Tree>,
}

/// A group of one of the ways in which groups say their size.
pub fn group(name: &str, dice: &SeededRng) -> Group {
    let meta = queued(name, dice).with(&["metadata", "labels", labels::POD_GROUP_NAME], name);
    let size = 2 + dice.below(2);
    let noted = |key: &str, value: String| meta.with(&["metadata", "annotations", key], value);
    let (share, runs) = (milli(dice), runs(dice));
    let many = |meta: &Tree, from: usize, count: usize, share: usize| -> Vec<Tree> {
        (from..from + count).map(|n| pod_of(meta, &format!("{name}-{n}"), share, &runs)).collect()
    };
    let role = |meta: &Tree, role: &str| meta.with(&["metadata", "labels", labels::POD_GROUP_ROLE], role);
    let mut prebuilt = None;
    let mut pods = match dice.below(6) {
        0 => many(&noted(annotations::POD_GROUP_TOTAL_COUNT, size.to_string()), 0, size, share),
        1 => {
            // Two roles by their fingerprints.
            let meta = noted(annotations::POD_GROUP_TOTAL_COUNT, (size + 1).to_string());
            [many(&meta, 0, size, share), many(&meta, size, 1, share + 100)].concat()
        }
        2 => many(&noted(annotations::POD_GROUP_COUNT, size.to_string()), 0, size, share),
        3 => {
            let meta = noted(annotations::POD_GROUP_ROLES, "2".to_owned());
            let count = |meta: Tree, n: usize| {
                meta.with(&["metadata", "annotations", annotations::POD_GROUP_ROLE_COUNT], n.to_string())
            };
            let driver = count(role(&meta, "driver"), 1);
            let workers = count(role(&meta, "worker"), size);
            [many(&driver, 0, 1, 500), many(&workers, 1, size, share)].concat()
        }
        4 => {
            let sets = tree!([{"name": "driver", "count": 1},
                {"name": "workers", "count": number(size), "template": {"spec": (pod_spec(share))}}]);
            let driver = role(&noted(annotations::POD_GROUP_SETS, sets.to_json()), "driver");
            [many(&driver, 0, 1, 500), many(&role(&meta, "workers"), 1, size, share)].concat()
        }
        _ => {
            let meta = meta.with(&["metadata", "labels", labels::PREBUILT_WORKLOAD], name);
            prebuilt = Some(workload(name, &meta, size, share));
            many(&meta, 0, size, share)
        }
    };
    if dice.one_in(4) {
        // One too many.
        let extra = pods[pods.len() - 1].with(&["metadata", "name"], format!("{name}-more"));
        pods.push(extra);
    }
    Group { pods, prebuilt }
}

/// A Workload that a user creates for a group.
fn workload(name: &str, meta: &Tree, size: usize, share: usize) -> Tree {
    let (namespace, queue) =
        (meta.text_at(&["metadata", "namespace"]), meta.text_at(&["metadata", "labels", labels::QUEUE]));
    tree!({"apiVersion": API_VERSION, "kind": "Workload", "metadata": {"name": name, "namespace": namespace,
            "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}},
        "spec": {"queueName": queue, "podSets": [
            {"name": "main", "count": number(size), "template": {"spec": (pod_spec(share))}}]}})
}

/// The same pod under another name, as its replacement.
pub fn again(pod: &Tree, name: &Text) -> Tree {
    pod.with(&["metadata", "name"], name)
}
