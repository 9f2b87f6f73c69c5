//! Equivalence of Workloads and jobs.

use muster_api::queue::WorkloadFacts;
use muster_queue::jobs::equivalence::{ComparedJob, is_workload_of};
use muster_tree::{Tree, tree};

use super::{cases, flavor, part, pod_sets, says};

#[test]
fn workload_equivalence() {
    for case in cases(include_str!("same.yaml")) {
        let usual = tree!([{"name": "main", "count": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]);
        let sets = |key: &str| case.get(key).cloned().unwrap_or_else(|| usual.clone());
        let seconds = |key: &str| case.get(key).cloned().unwrap_or_default();
        let owner = case.get("owner").and_then(Tree::as_str).unwrap_or("j/u");
        let (name, uid) = owner.split_once('/').unwrap();
        let job_labels = Tree::empty_map()
            .with_option(&["kueue.x-k8s.io/max-exec-time-seconds"], case.get("jobSeconds").cloned());
        let job = tree!({"metadata": {"name": "j", "uid": "u", "labels": job_labels}});
        let condition = |it: &Tree| tree!({"type": it, "status": "True"});
        let conditions = Tree::list(part(&case, "is").items().iter().map(condition));
        let workload = tree!({"metadata": {"name": "wl", "ownerReferences": [
                {"kind": "Job", "name": name, "uid": uid, "controller": true}]},
            "spec": {"podSets": sets("workload"), "maximumExecutionTimeSeconds": seconds("seconds"), "queueName": "lq"},
            "status": {"conditions": conditions, "admission": part(&case, "admission")}});
        let pod_sets = pod_sets(&sets("job"));
        let is_suspended = case.bool_at(&["suspended"]) == Some(true);
        let compared = ComparedJob { object: &job, pod_sets: &pod_sets, is_suspended };
        let got = is_workload_of(&compared, &WorkloadFacts::of(&workload), &flavor);
        assert_eq!(got, case.bool_at(&["same"]) == Some(true), "{}", says(&case));
    }
}
