//! Builds the JobSets, volume claims and PodDisruptionBudgets of gang scenarios.

use muster_tree::{Tree, tree};

use super::scenario::{GangJobSet, GangReplicatedJob};
use super::scenario_run::GangScenarioRun;

/// Annotation that requests gang scheduling for a JobSet.
const GANG: &str = "scheduling.muster.dev/gang";

impl GangScenarioRun<'_> {
    pub(super) fn set(&self, set: &GangJobSet) -> Result<(), String> {
        let jobs: Vec<Tree> = set.jobs.iter().map(|(name, jobs)| self.replicated(name, jobs)).collect();
        let spec = tree!({"replicatedJobs": Tree::list(jobs)});
        let notes = Tree::map(set.gang.iter().map(|word| (GANG, word.as_str())));
        let object = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": set.name.as_str(), "annotations": notes},
            "spec": if set.spec.is_map() { spec.merge(&set.spec) } else { spec }});
        let path = format!("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets", self.space);
        // Retried: the API server may not have discovered the JobSet webhooks yet.
        self.poll_until(|| Ok(self.make(&path, &object)))
    }

    fn replicated(&self, name: &str, jobs: &GangReplicatedJob) -> Tree {
        let cpu = jobs.cpu.to_string();
        let container = tree!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu.as_str()}}});
        let pod = tree!({"metadata": {"annotations": sim_annotations(jobs.runs_secs, jobs.exit)},
            "spec": self.pod_spec(&container)});
        let job = tree!({"backoffLimit": 0, "completionMode": "Indexed", "parallelism": jobs.pods,
            "completions": jobs.pods, "template": pod});
        let made = tree!({"name": name, "replicas": jobs.replicas, "template": {"spec": job}});
        let Some(first) = &jobs.after else { return made };
        made.with(&["dependsOn"], tree!([{"name": first.as_str(), "status": "Ready"}]))
    }

    /// The volume and the claim reference each other, so that the binder has no choice.
    pub(super) fn claim(&self, name: &str) -> Result<(), String> {
        let volume = format!("{}-{name}", self.space);
        let modes = tree!(["ReadWriteOncePod"]);
        let claimed = tree!({"namespace": self.space.as_str(), "name": name});
        let made = tree!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume.as_str()},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": modes.clone(), "claimRef": claimed,
                "hostPath": {"path": "/nowhere"}}});
        self.make("/api/v1/persistentvolumes", &made)?;
        let claim = tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"accessModes": modes, "storageClassName": "", "volumeName": volume,
                "resources": {"requests": {"storage": "1Gi"}}}});
        self.make(&format!("/api/v1/namespaces/{}/persistentvolumeclaims", self.space), &claim)
    }

    /// Writes the budget's status, which no disruption controller does here.
    pub(super) fn budget(&self, pods: &[String]) -> Result<(), String> {
        let name = pods.join("-");
        let one =
            tree!({"key": "app", "operator": "In", "values": Tree::list(pods.iter().map(String::as_str))});
        let budget = tree!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name.as_str()},
            "spec": {"maxUnavailable": 0, "selector": {"matchExpressions": [one]}}});
        let all = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", self.space);
        self.make(&all, &budget)?;
        let count = i64::try_from(pods.len()).map_err(|e| e.to_string())?;
        let counted = tree!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": count,
            "desiredHealthy": count, "expectedPods": count});
        self.patch(&format!("{all}/{name}/status"), &tree!({"status": counted}))
    }
}

/// Annotations that set how long a simulated pod runs and its exit code.
pub(super) fn sim_annotations(runs_secs: Option<u32>, exit: u8) -> Tree {
    let runs = runs_secs.unwrap_or(100_000).to_string();
    Tree::map([("muster.dev/sim-run-seconds", runs), ("muster.dev/sim-exit-code", exit.to_string())])
}
