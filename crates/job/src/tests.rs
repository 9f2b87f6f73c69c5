//! What a Job needs next, as tables.

use std::collections::BTreeSet;

use muster_api::job::pod_of;
use muster_api::paths::{job as path, meta as meta_path, pod as pod_path};
use muster_tree::{Tree, tree};

use super::*;

fn at(secs: i64) -> Time {
    Time(1_700_000_000_000_000 + secs * 1_000_000)
}

fn job(spec: Tree) -> Tree {
    let base = tree!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 1, "template": {"spec": {"restartPolicy": "Never"}}}});
    base.merge(&tree!({"spec": spec}))
}

/// A Job that has begun.
fn begun(spec: Tree) -> Tree {
    job(spec).with(path::STATUS, tree!({"startTime": at(0).to_seconds_text(), "uncountedTerminatedPods": {}}))
}

fn pod(job: &Tree, name: &str, phase: &str, index: Option<u32>) -> Tree {
    let made = pod_of(job, &NewPod { index, suffix: "x".into() });
    let stamp = at(1).to_seconds_text();
    made.with(meta_path::NAME, name)
        .with(meta_path::UID, format!("uid-{name}"))
        .with(meta_path::CREATED, stamp)
        .with(pod_path::PHASE, phase)
        .with(pod_path::NODE_NAME, "n")
}

fn look(job: &Tree, pods: &[Tree], now: Time) -> Vec<Action> {
    let facts = JobFacts::of(job);
    let pods: Vec<PodFacts> = pods.iter().map(PodFacts::of).collect();
    let names: BTreeSet<Text> = pods.iter().map(|pod| pod.name.clone()).collect();
    plan(&Observed { job: &facts, pods: &pods, taken: &|name| names.contains(name), now })
}

/// The actions in short: what, and how many.
fn short(steps: &[Action]) -> Vec<String> {
    let words = |step: &Action| match step {
        Action::Create(pods) => {
            let indexes: Vec<String> =
                pods.iter().filter_map(|pod| pod.index).map(|i| i.to_string()).collect();
            format!("create {} [{}]", pods.len(), indexes.join(","))
        }
        Action::Delete(pods) => format!("delete {}", names(pods)),
        Action::Discard(pods) => format!("discard {}", names(pods)),
        Action::Release(pods) => format!("release {}", names(pods)),
        Action::Write(_) => "write".to_owned(),
        Action::Note(_, reason, _) => format!("note {reason}"),
        Action::LookAgain(time) => format!("again {}", (time.0 - at(0).0) / 1_000_000),
        Action::DeleteJob => "delete job".to_owned(),
    };
    steps.iter().map(words).collect()
}

fn names(pods: &[PodRef]) -> String {
    pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>().join(",")
}

fn written(steps: &[Action]) -> Tree {
    let status = steps.iter().find_map(|step| match step {
        Action::Write(status) => Some(status.tree(&Tree::Null)),
        _ => None,
    });
    status.unwrap_or_else(|| panic!("no status in {steps:?}"))
}

fn condition_types(status: &Tree) -> Vec<&str> {
    status.items_at(&["conditions"]).iter().map(|c| c.str_at(&["type"])).collect()
}

struct Case {
    says: &'static str,
    job: Tree,
    /// Name, phase, index.
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
    let Action::Create(pods) = &first[0] else { panic!("{first:?}") };
    assert_ne!(pods[0].suffix, pods[1].suffix);
}

/// Runs a Job by hand: applies what the actions say to the trees, as the shell and the server would.
struct World {
    job: Tree,
    pods: Vec<Tree>,
    now: Time,
}

impl World {
    fn look(&mut self) -> Vec<Action> {
        let steps = look(&self.job, &self.pods, self.now);
        for step in &steps {
            self.apply(step);
        }
        steps
    }

    fn apply(&mut self, step: &Action) {
        match step {
            Action::Create(new) => {
                let count = self.pods.len();
                let names = new.iter().enumerate().map(|(n, _)| format!("p{}", count + n));
                let made: Vec<Tree> = names.map(|name| pod(&self.job, &name, "Running", None)).collect();
                self.pods.extend(made);
            }
            Action::Write(status) => self.job = self.job.with(path::STATUS, status.tree(&Tree::Null)),
            Action::Release(pods) => {
                let released = |pod: &Tree| pods.iter().any(|one| one.uid == muster_api::meta::uid(pod));
                for pod in self.pods.iter_mut().filter(|pod| released(pod)) {
                    *pod = pod.without(meta_path::FINALIZERS);
                }
            }
            Action::Delete(pods) => {
                self.pods.retain(|pod| !pods.iter().any(|one| one.uid == muster_api::meta::uid(pod)));
            }
            _ => {}
        }
    }

    fn set_phase(&mut self, at: usize, phase: &str) {
        self.pods[at] = self.pods[at].with(pod_path::PHASE, phase);
    }

    fn status(&self) -> &Tree {
        self.job.at(path::STATUS).unwrap()
    }
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
