//! Which changes of an existing JobSet are immutable.

use muster_trainer::build::{BuildRequest, build, immutability};
use muster_tree::{Tree, tree};

use super::case;

/// The JobSet of the runtime `rich`, with this patch of its pods.
fn patched(pods: &Tree) -> Tree {
    let patch = tree!({"manager": "a.io/a", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
        {"name": "node", "template": {"spec": {"template": pods}}}]}}}});
    let built =
        case::build(&tree!({"runtime": "rich", "spec": {"suspend": true}, "patches": [patch]})).unwrap();
    built.jobset().unwrap().clone()
}

/// As an API server stores it, with its defaults.
fn stored(jobset: &Tree) -> Tree {
    let jobs = jobset.at(&["spec", "replicatedJobs"]).unwrap().map_items(|_, job| {
        job.with(&["groupName"], "default")
            .with(&["template", "spec", "completionMode"], "Indexed")
            .with(&["template", "spec", "template", "spec", "restartPolicy"], "OnFailure")
    });
    jobset.with(&["spec", "replicatedJobs"], jobs).with(&["status", "restarts"], 0)
}

#[test]
fn where_pods_run_may_change_and_what_they_are_may_not() {
    let live = stored(&patched(&tree!({})));
    for pods in [
        tree!({}),
        tree!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}),
        tree!({"spec": {"nodeSelector": {"zone": "a"}}}),
        tree!({"spec": {"tolerations": [{"operator": "Exists"}]}}),
        tree!({"spec": {"schedulingGates": [{"name": "a.io/b"}]}}),
    ] {
        assert!(immutability::immutable_changes(&live, &patched(&pods)).is_empty(), "{pods}");
    }
    for pods in [
        tree!({"spec": {"serviceAccountName": "sa"}}),
        tree!({"spec": {"securityContext": {"fsGroup": 1}}}),
        tree!({"spec": {"terminationGracePeriodSeconds": 5}}),
        tree!({"spec": {"volumes": [{"name": "new", "emptyDir": {}}]}}),
        tree!({"spec": {"affinity": {"podAffinity": {"x": []}}}}),
        tree!({"spec": {"containers": [{"name": "side", "env": [{"name": "A", "value": "1"}]}]}}),
    ] {
        assert_eq!(immutability::immutable_changes(&live, &patched(&pods)), ["node"], "{pods}");
    }
    // A field that the live JobSet already has is no change.
    let with_account = tree!({"spec": {"serviceAccountName": "sa"}});
    assert!(
        immutability::immutable_changes(&stored(&patched(&with_account)), &patched(&with_account)).is_empty()
    );
    let fewer = live.with(&["spec", "replicatedJobs"], tree!([]));
    assert_eq!(
        immutability::immutable_changes(&fewer, &patched(&tree!({}))).len(),
        3,
        "no replicatedJob comes later"
    );
}

#[test]
fn what_is_kept_of_a_runtime_as_text_builds_the_same() {
    for name in ["torch", "rich", "mpi", "flux", "torchtune-qwen2.5-1.5b", "gang"] {
        let case = tree!({"runtime": name, "trainer": {"numNodes": 2}});
        let (job, runtime) = (case::train_job(&case), case::runtime(&case));
        let kept = Tree::parse_yaml(&runtime.to_yaml()).unwrap();
        assert_eq!(
            build(&BuildRequest::new(&job, &kept)),
            build(&BuildRequest::new(&job, &runtime)),
            "{name}"
        );
    }
}
