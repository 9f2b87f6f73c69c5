//! Pods that change hands.

use super::*;

const SELECTOR: fn() -> Tree = || tree!({"selector": {"matchLabels": {"app": "a"}}});

fn labelled(job: &Tree, name: &str, app: &str) -> Tree {
    pod(job, name, "Running", None).with(meta_path::LABELS, tree!({"app": app}))
}

/// Sentence, Job, its pods, orphans, steps.
type Hands<'a> = (&'a str, &'a Tree, &'a [&'a Tree], &'a [&'a Tree], &'a [&'a str]);

#[test]
fn pods_change_hands() {
    let plain = begun(SELECTOR());
    let deleting = plain.with(meta_path::DELETED, at(1).to_seconds_text());
    let finished = plain.with(path::STATUS, tree!({"conditions": [{"type": "Complete", "status": "True"}]}));
    let foreign = begun(SELECTOR().with(&["managedBy"], "example.com/other"));
    let gone = |pod: &Tree| pod.with(meta_path::DELETED, at(1).to_seconds_text());
    let (mine, strange) = (labelled(&plain, "mine", "a"), labelled(&plain, "strange", "b"));
    let cases: [Hands<'_>; 9] = [
        ("an orphan that is selected is adopted", &plain, &[], &[&mine], &["adopt mine", "again 0"]),
        (
            "an orphan that is not selected is no concern",
            &plain,
            &[&mine, &labelled(&plain, "too", "a")],
            &[&strange],
            &["write"],
        ),
        (
            "an orphan that is going is left alone",
            &plain,
            &[&mine, &labelled(&plain, "too", "a")],
            &[&gone(&mine)],
            &["write"],
        ),
        (
            "an own pod that is not selected any more is let go",
            &plain,
            &[&strange],
            &[],
            &["let go strange", "again 0"],
        ),
        ("both at once", &plain, &[&strange], &[&mine], &["let go strange", "adopt mine", "again 0"]),
        ("a Job that is being deleted takes nothing", &deleting, &[], &[&mine], &["write"]),
        ("and gives nothing", &deleting, &[&strange], &[], &["write"]),
        ("a finished Job takes nothing", &finished, &[], &[&mine], &[]),
        ("a Job of another controller takes nothing", &foreign, &[&strange], &[&mine], &[]),
    ];
    for (says, job, own, orphans, want) in cases {
        let facts = JobFacts::of(job);
        let read = |pods: &[&Tree]| pods.iter().map(|pod| JobPod::of(pod, &facts)).collect::<Vec<_>>();
        let decision = decide(&facts, &read(own), &read(orphans), &BackoffRecord::default(), at(0));
        assert_eq!(short(&decision.steps), want, "{says}");
    }
}

#[test]
fn a_success_that_is_adopted_counts() {
    let job = begun(SELECTOR().with(&["completions"], 1));
    let done = labelled(&job, "done", "a").with(pod_path::PHASE, "Succeeded");
    let steps = look(&job, &[done], at(0));
    assert_eq!(condition_types(&written(&steps)), ["SuccessCriteriaMet"]);
}

#[test]
fn a_pod_whose_finalizer_somebody_took_away_is_not_counted() {
    let job = begun(tree!({"completions": 1, "parallelism": 1}));
    let done = pod(&job, "done", "Succeeded", None).without(meta_path::FINALIZERS);
    assert_eq!(short(&look(&job, &[done], at(0))), ["create 1 []", "write"], "it is done again");
}
