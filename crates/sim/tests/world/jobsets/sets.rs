//! The JobSets of the stories, and what users do to them.

use muster_api::client::{ApiObject, RequestVerb};
use muster_api::pod::PodFacts;
use muster_api::{kinds, meta};
use muster_tree::{Tree, tree};

use super::Stage;
use crate::scenario::find;

/// A JobSet of these replicatedJobs.
pub fn set(name: &str, jobs: &[Tree], more: &Tree) -> Tree {
    let base = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"network": {"enableDNSHostnames": true}, "replicatedJobs": Tree::list(jobs.iter().cloned())}});
    base.merge(&tree!({"spec": more}))
}

/// Jobs of two pods that run for so many seconds; the first failure of a pod is that of its Job.
pub fn jobs(name: &str, replicas: u32, seconds: u32) -> Tree {
    let notes = tree!({"muster.dev/sim-run-seconds": seconds.to_string()});
    tree!({"name": name, "replicas": replicas, "template": {"spec": {
        "parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0,
        "template": {"metadata": {"annotations": notes}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "command": ["true"]}]}}}}})
}

/// The same, when others are ready or complete.
pub fn after(jobs: &Tree, on: &str, status: &str) -> Tree {
    jobs.with(&["dependsOn"], Tree::list([tree!({"name": on, "status": status})]))
}

/// The same, with a volume of each of these names.
pub fn mounting(jobs: &Tree, volumes: &[&str]) -> Tree {
    let mount = |name: &&str| tree!({"name": *name, "mountPath": format!("/{name}")});
    let path = ["template", "spec", "template", "spec", "containers"];
    let with = |_: usize, it: &Tree| it.with(&["volumeMounts"], Tree::list(volumes.iter().map(mount)));
    jobs.with(&path, jobs.at(&path).unwrap().map_items(with))
}

/// The same, with a claim for so many devices that all pods of a Job share.
pub fn claiming(jobs: &Tree, devices: i64, deletion: &str) -> Tree {
    let template = tree!({"metadata": {"name": "gpu"}, "spec": crate::devices::asks(devices), "containers": ["*"],
        "deletionPolicy": deletion});
    jobs.with(&["resourceClaimTemplates"], Tree::list([template]))
}

/// One volume for all Jobs.
pub fn volume(name: &str, when_deleted: &str) -> Tree {
    let spec = tree!({"storageClassName": "local-path", "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}}});
    tree!({"templates": [{"metadata": {"name": name}, "spec": spec}], "retentionPolicy": {"whenDeleted": when_deleted}})
}

pub fn policy(max_restarts: u32, strategy: &str, rules: &[Tree]) -> Tree {
    tree!({"failurePolicy": {"maxRestarts": max_restarts, "restartStrategy": strategy,
        "rules": Tree::list(rules.iter().cloned())}})
}

/// A rule about one replicatedJob.
pub fn rule(action: &str, target: &str) -> Tree {
    tree!({"name": action, "action": action, "targetReplicatedJobs": [target]})
}

impl Stage<'_> {
    /// Creates a JobSet; rejected while the volume of its predecessor exists.
    pub fn create(&mut self, set: &Tree) {
        if let Err(why) = self.world.create(&kinds::JOBSETS, set) {
            assert!(why.to_string().contains("retentionPolicy must be retain when PVC exists"), "{why}");
        }
    }

    /// How long Jobs of this story run.
    pub fn seconds(&self) -> u32 {
        4 + u32::try_from(self.dice.below(16)).unwrap()
    }

    /// Lets one pod fail, now or as soon as it runs.
    pub fn spoil(&mut self) {
        let mut pods = self.world.list(&kinds::PODS);
        pods.retain(|it| {
            meta::deletion_timestamp(&it.tree).is_none() && !PodFacts::of(&it.tree).phase.is_terminal()
        });
        if pods.is_empty() {
            return;
        }
        let pod = &pods[self.dice.below(pods.len())];
        let patch = tree!({"metadata": {"annotations": {"muster.dev/sim-run-seconds": "0", "muster.dev/sim-exit-code": "1"}}});
        self.world.send(&kinds::PODS, &pod.tree, RequestVerb::MergePatch(patch)).unwrap();
    }

    /// Changes the spec of a JobSet.
    pub fn patch(&mut self, name: &str, spec: &Tree) {
        let set = find(self.world, &kinds::JOBSETS, name).expect("the JobSet is there");
        self.world.send(&kinds::JOBSETS, &set.tree, RequestVerb::MergePatch(tree!({"spec": spec}))).unwrap();
    }

    /// Changes what may change in templates of a JobSet that is suspended, and suspends it or lets it go on.
    pub fn retouch(&mut self, name: &str, word: &str, suspend: bool) {
        let ApiObject { tree: set, .. } =
            find(self.world, &kinds::JOBSETS, name).expect("the JobSet is there");
        let toleration = tree!({"key": word, "operator": "Exists"});
        let touched = |_: usize, it: &Tree| {
            let pod = ["template", "spec", "template"];
            let at = |more: &[&'static str]| [&pod[..], more].concat();
            it.with(&at(&["metadata", "labels", "word"]), word)
                .with(&at(&["metadata", "annotations", "word"]), word)
                .with(&at(&["spec", "nodeSelector"]), tree!({"kubernetes.io/os": "linux"}))
                .with(&at(&["spec", "tolerations"]), Tree::list([toleration.clone()]))
        };
        let jobs = set.at(&["spec", "replicatedJobs"]).unwrap().map_items(touched);
        self.patch(name, &tree!({"suspend": suspend, "replicatedJobs": jobs}));
    }
}
