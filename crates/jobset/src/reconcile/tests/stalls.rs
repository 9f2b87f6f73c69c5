//! The `Stalled` condition.

use std::time::Duration;

use muster_tree::{Tree, tree};

use super::{JobSetAction, Played, jobs, spec};

/// The condition: status, reason, message.
fn stalled(played: &Played) -> Option<[String; 3]> {
    let mut all = played.set.items_at(&["status", "conditions"]).iter();
    let found = all.find(|it| it.str_at(&["type"]) == "Stalled")?;
    Some(["status", "reason", "message"].map(|key| found.str_at(&[key]).to_owned()))
}

fn since(played: &Played) -> String {
    let mut all = played.set.items_at(&["status", "conditions"]).iter();
    let found = all.find(|it| it.str_at(&["type"]) == "Stalled");
    found.map(|it| it.str_at(&["lastTransitionTime"]).to_owned()).unwrap_or_default()
}

fn want(status: &str, reason: &str, message: &str) -> Option<[String; 3]> {
    Some([status, reason, message].map(str::to_owned))
}

fn progressing() -> Option<[String; 3]> {
    want("False", "Progressing", "nothing is in the way of the jobset")
}

#[test]
fn a_jobset_in_progress_has_no_stalled_condition() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({})));
    played.settle();
    played.fail("s-a-0");
    played.settle();
    assert_eq!(stalled(&played), None);
}

#[test]
fn a_refused_creation() {
    let words = "job \"s-a-0\" creation failed with error: exceeded quota";
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({})));
    played.refused = Some(("JobCreationFailed".to_owned(), words.to_owned()));
    played.hold_until = Some(played.now + Duration::from_secs(30));
    played.pass();
    assert_eq!(stalled(&played), want("True", "JobCreationFailed", words));
    let first = since(&played);
    assert!(!first.is_empty());
    // It is tried again, and refused again: the condition is as old as the first refusal.
    (played.refused, played.hold_until) = (None, None);
    played.pass();
    assert_eq!((stalled(&played), since(&played)), (want("True", "JobCreationFailed", words), first));
    played.settle();
    assert_eq!(stalled(&played), progressing(), "made");
}

#[test]
fn unreadable_labels() {
    let value = |value: &str| {
        let key = "jobset.sigs.k8s.io/restart-attempt";
        let map = || Tree::map([(key, value)]);
        tree!({"metadata": {"labels": map(), "annotations": map()}})
    };
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({})));
    played.settle();
    played.change("job", "s-a-0", &value("many"));
    played.settle();
    let [status, reason, message] = stalled(&played).unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "JobLabelsInvalid"));
    assert!(message.contains("job \"s-a-0\": label jobset.sigs.k8s.io/restart-attempt"), "{message}");
    played.change("job", "s-a-0", &value("0"));
    played.settle();
    assert_eq!(stalled(&played), progressing());
}

#[test]
fn a_job_that_does_not_go() {
    let policy = tree!({"failurePolicy": {"maxRestarts": 1}});
    let mut played = Played::new(&spec(&[jobs("a", 2)], &policy));
    played.settle();
    played.lingers = true;
    played.fail("s-a-0");
    played.settle();
    let deleted = played.now;
    for job in ["s-a-0", "s-a-1"] {
        let at = deleted.to_seconds_text();
        played.change("job", job, &tree!({"metadata": {"deletionTimestamp": at}}));
    }
    played.gone("s-a-0");
    let due = deleted + Duration::from_secs(90);
    assert!(played.steps().contains(&JobSetAction::RequeueAt(due)), "30 s for its pods, and 60 more");
    played.settle();
    assert_eq!(stalled(&played), None, "that it takes a while is usual");
    played.now = due;
    played.pass();
    let at = deleted.to_seconds_text();
    let words = |why: &str| format!("job \"s-a-1\" was deleted at {at} and is still there: {why}");
    assert_eq!(stalled(&played), want("True", "JobTerminating", &words("what it owns is not gone")));
    played.change(
        "job",
        "s-a-1",
        &tree!({"metadata": {"finalizers": ["foregroundDeletion", "example.com/hold"]}}),
    );
    played.pass();
    assert_eq!(
        stalled(&played),
        want("True", "JobTerminating", &words("its finalizers are example.com/hold"))
    );
    played.remains = Some(("pod".into(), "s-a-1-0-x".into()));
    played.pass();
    assert_eq!(stalled(&played), want("True", "JobTerminating", &words("pod s-a-1-0-x of it is not gone")));
    played.gone("s-a-1");
    played.settle();
    assert_eq!(stalled(&played), progressing());
}

#[test]
fn a_claim_that_does_not_exist() {
    let pod = ["template", "spec", "template", "spec"];
    let job = jobs("a", 1)
        .with(&[&pod[..], &["volumes"]].concat(), tree!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "e", "emptyDir": {}}]))
        .with(&[&pod[..], &["resourceClaims"]].concat(), tree!([{"name": "c", "resourceClaimName": "gpu"}, {"name": "t", "resourceClaimTemplateName": "x"}]));
    let mut played = Played::new(&spec(&[job, jobs("b", 1)], &tree!({})));
    played.settle();
    let words = |kind: &str| format!("{kind}, which pods of replicatedJob a name, does not exist");
    let first = format!("{} (and 1 more)", words("PersistentVolumeClaim data"));
    assert_eq!(stalled(&played), want("True", "ClaimNotFound", &first));
    assert!(
        played.steps().iter().any(|it| matches!(it, JobSetAction::RequeueAt(_))),
        "claims that others make are looked for"
    );
    played.put("volume", &tree!({"metadata": {"name": "data"}}));
    played.settle();
    assert_eq!(stalled(&played), want("True", "ClaimNotFound", &words("ResourceClaim gpu")));
    played.put("claim", &tree!({"metadata": {"name": "gpu"}}));
    played.settle();
    assert_eq!(stalled(&played), progressing());
}

#[test]
fn a_finished_set_is_not_stalled() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({})));
    played.put("job", &tree!({"metadata": {"name": "s-a-1"}}));
    played.settle();
    assert_eq!(stalled(&played).unwrap()[..2], ["True", "JobCreationFailed"]);
    played.fail("s-a-0");
    played.settle();
    assert_eq!((played.terminal(), stalled(&played)), ("Failed", progressing()));
}
