//! Pods come and go, are counted, and the Job ends.

use super::*;

struct Case {
    says: &'static str,
    job: Tree,
    pods: &'static [(&'static str, &'static str, Option<u32>)],
    now: i64,
    want: &'static [&'static str],
}

#[test]
fn pods_come_and_go() {
    let none: &[(&str, &str, Option<u32>)] = &[];
    let cases = [
        Case {
            says: "a new Job gets its pods",
            job: job(tree!({})),
            pods: none,
            now: 0,
            want: &["create 2 []", "write"],
        },
        Case {
            says: "no more than parallelism",
            job: job(tree!({"completions": 9})),
            pods: &[("a", "Running", None)],
            now: 0,
            want: &["create 1 []", "write"],
        },
        Case {
            says: "no more than what is still missing",
            job: begun(tree!({"parallelism": 5, "completions": 2})),
            pods: &[("a", "Running", None), ("b", "Succeeded", None)],
            now: 0,
            want: &["write", "release b"],
        },
        Case {
            says: "parallelism 0 is a pause",
            job: begun(tree!({"parallelism": 0})),
            pods: none,
            now: 0,
            want: &["write"],
        },
        Case {
            says: "too many: the pending one goes, uncounted",
            job: begun(tree!({"parallelism": 1})),
            pods: &[("a", "Running", None), ("b", "Pending", None)],
            now: 0,
            want: &["discard b", "write"],
        },
        Case {
            says: "indexed: lowest missing indexes first",
            job: begun(tree!({"completionMode": "Indexed", "completions": 4, "parallelism": 3})),
            pods: &[("a", "Running", Some(1))],
            now: 0,
            want: &["create 2 [0,2]", "write"],
        },
        Case {
            says: "indexed: doubles and strangers to the range are removed",
            job: begun(tree!({"completionMode": "Indexed", "completions": 2, "parallelism": 2})),
            pods: &[("a", "Running", Some(1)), ("b", "Pending", Some(1)), ("c", "Running", Some(7))],
            now: 0,
            want: &["discard c,b", "write"],
        },
        Case {
            says: "a work queue makes no more once one has succeeded",
            job: begun(tree!({"completions": null, "parallelism": 3})),
            pods: &[("a", "Running", None), ("b", "Succeeded", None)],
            now: 0,
            want: &["write", "release b"],
        },
        Case {
            says: "after a failure there is a pause",
            job: begun(tree!({"completions": 3})),
            pods: &[("a", "Failed", None), ("b", "Running", None)],
            now: 5,
            want: &["write", "release a", "again 11"],
        },
        Case {
            says: "after the pause there is a new pod",
            job: begun(tree!({"completions": 3})),
            pods: &[("a", "Failed", None), ("b", "Running", None)],
            now: 11,
            want: &["create 1 []", "write", "release a"],
        },
        Case {
            says: "suspended: pods go, uncounted",
            job: begun(tree!({"suspend": true})),
            pods: &[("a", "Running", None)],
            now: 0,
            want: &["discard a", "write", "note Suspended"],
        },
        Case {
            says: "a deadline is looked at in time",
            job: begun(tree!({"activeDeadlineSeconds": 60})),
            pods: &[("a", "Running", None), ("b", "Running", None)],
            now: 5,
            want: &["write", "again 60"],
        },
        Case {
            says: "past the deadline everything goes",
            job: begun(tree!({"activeDeadlineSeconds": 60})),
            pods: &[("a", "Running", None), ("b", "Succeeded", None)],
            now: 60,
            want: &["write", "delete a", "release a,b"],
        },
        Case {
            says: "managed by somebody else",
            job: job(tree!({"managedBy": "example.com/other"})),
            pods: none,
            now: 0,
            want: &[],
        },
        Case {
            says: "an unknown mode is only noted",
            job: job(tree!({"completionMode": "Odd"})),
            pods: none,
            now: 0,
            want: &["note UnknownCompletionMode"],
        },
    ];
    for case in cases {
        let pods: Vec<Tree> =
            case.pods.iter().map(|(name, phase, index)| pod(&case.job, name, phase, *index)).collect();
        assert_eq!(short(&look(&case.job, &pods, at(case.now))), case.want, "{}", case.says);
    }
}

#[test]
fn the_same_picture_names_the_same_pods() {
    let first = look(&job(tree!({})), &[], at(0));
    assert_eq!(first, look(&job(tree!({})), &[], at(0)));
    let JobAction::CreatePods(pods) = &first[0] else { panic!("{first:?}") };
    assert_ne!(pods[0].suffix, pods[1].suffix);
}

#[test]
fn a_job_runs_to_completion_with_exact_counts() {
    let mut world = World { job: job(tree!({})), pods: vec![], now: at(0) };
    world.look();
    assert_eq!((world.pods.len(), world.status().int_at(&["active"])), (2, Some(2)));
    world.set_phase(0, "Succeeded");
    assert_eq!(short(&world.look()), ["write", "release p0"]);
    assert_eq!(
        world.status().items_at(&["uncountedTerminatedPods", "succeeded"]).len(),
        1,
        "listed before released"
    );
    world.set_phase(1, "Succeeded");
    assert_eq!(short(&world.look()), ["write", "release p1"]);
    assert_eq!(condition_types(world.status()), ["SuccessCriteriaMet"]);
    assert_eq!(short(&world.look()), ["write", "note Completed"]);
    assert_eq!(condition_types(world.status()), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(world.status().int_at(&["succeeded"]), Some(2));
    assert!(world.status().get("active").is_none() && world.status().get("completionTime").is_some());
    assert_eq!(short(&world.look()), Vec::<String>::new(), "a finished Job is left alone");
}

#[test]
fn a_job_fails_beyond_its_limit_and_takes_its_pods_along() {
    let mut world =
        World { job: job(tree!({"completions": 5, "backoffLimit": 0})), pods: vec![], now: at(0) };
    world.look();
    world.set_phase(0, "Failed");
    let steps = world.look();
    assert_eq!(short(&steps), ["write", "delete p1", "release p0,p1"]);
    let status = written(&steps);
    assert_eq!(condition_types(&status), ["FailureTarget"]);
    assert_eq!(status.items_at(&["conditions"])[0].str_at(&["reason"]), "BackoffLimitExceeded");
    assert_eq!(status.items_at(&["uncountedTerminatedPods", "failed"]).len(), 2);
    assert_eq!(short(&world.look()), ["write", "note BackoffLimitExceeded"]);
    assert_eq!(condition_types(world.status()), ["FailureTarget", "Failed"]);
    assert_eq!(world.status().int_at(&["failed"]), Some(2));
}

#[test]
fn resuming_restarts_the_clock() {
    let mut world = World { job: job(tree!({"suspend": true})), pods: vec![], now: at(0) };
    assert_eq!(short(&world.look()), ["write", "note Suspended"]);
    assert!(world.status().get("startTime").is_none());
    world.job = world.job.with(path::SUSPEND, false);
    world.now = at(30);
    assert_eq!(short(&world.look()), ["create 2 []", "write", "note Resumed"]);
    assert_eq!(world.status().str_at(&["startTime"]), at(30).to_seconds_text());
}

#[test]
fn a_finished_job_goes_when_its_time_has_come() {
    let ended = tree!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(100).to_seconds_text()}]});
    let job = job(tree!({"ttlSecondsAfterFinished": 10})).with(path::STATUS, ended);
    assert_eq!(short(&look(&job, &[], at(105))), ["again 110"]);
    assert_eq!(short(&look(&job, &[], at(110))), ["delete job"]);
    let held = pod(&job, "a", "Succeeded", None);
    assert_eq!(short(&look(&job, &[held], at(105))), ["release a", "again 110"]);
}

#[test]
fn restarts_in_place_count_towards_the_limit() {
    let job = begun(tree!({"backoffLimit": 2, "template": {"spec": {"restartPolicy": "OnFailure"}}}));
    let restarted = |n: i64| {
        let status = tree!([{"restartCount": n}]);
        vec![
            pod(&job, "a", "Running", None).with(pod_path::CONTAINER_STATUSES, status),
            pod(&job, "b", "Running", None),
        ]
    };
    assert_eq!(short(&look(&job, &restarted(1), at(0))), ["write"]);
    assert_eq!(short(&look(&job, &restarted(2), at(0))), ["write", "delete a,b", "release a,b"]);
}
