use muster_api::meta;
use muster_tree::{Tree, tree};

use super::super::OwnerState;
use super::{JobSetAction, Played, jobs, spec};

/// Shows: 762-40.
#[test]
fn from_birth_to_completion() {
    let mut played = Played::new(&spec(&[jobs("a", 2), jobs("b", 1)], &tree!({})));
    played.settle();
    assert_eq!(played.names("job"), ["s-a-0", "s-a-1", "s-b-0"]);
    assert_eq!(played.names("service"), ["s"]);
    assert_eq!(played.counts("a"), [0; 5]);
    for job in ["s-a-0", "s-a-1", "s-b-0"] {
        played.ready(job);
    }
    played.settle();
    assert_eq!((played.counts("a"), played.counts("b")), ([2, 0, 0, 2, 0], [1, 0, 0, 1, 0]));
    played.succeed("s-a-0");
    played.settle();
    assert_eq!((played.counts("a"), played.terminal()), ([1, 1, 0, 1, 0], ""));
    played.succeed("s-a-1");
    played.succeed("s-b-0");
    played.settle();
    assert_eq!((played.counts("a"), played.terminal()), ([0, 2, 0, 0, 0], "Completed"));
    assert_eq!(played.conditions(), ["Completed True AllJobsCompleted"]);
    assert_eq!(played.reasons(), ["AllJobsCompleted"]);
    assert_eq!(played.restarts(), (0, 0));
    assert!(played.steps().is_empty(), "a steady world writes nothing");
}

#[test]
fn what_stands_on_jobs_and_pods() {
    let grouped = |name: &str, group: &str, replicas| jobs(name, replicas).with(&["groupName"], group);
    let all = [grouped("a", "x", 2), grouped("b", "y", 1), grouped("c", "x", 2)];
    let mut played = Played::new(&spec(
        &all,
        &tree!({"coordinator": {"replicatedJob": "b"}, "network": {"subdomain": "net"}}),
    ));
    played.settle();
    let job = played.one("job", "s-c-1");
    let want = [
        ("jobset-name", "s"),
        ("jobset-uid", "set-uid"),
        ("replicatedjob-name", "c"),
        ("replicatedjob-replicas", "2"),
        ("global-replicas", "5"),
        ("job-index", "1"),
        ("job-global-index", "4"),
        ("group-name", "x"),
        ("group-replicas", "4"),
        ("job-group-index", "3"),
        ("restart-attempt", "0"),
        ("coordinator", "s-b-0-0.net"),
    ];
    for place in [&["metadata"][..], &["spec", "template", "metadata"]] {
        for kind in ["labels", "annotations"] {
            let all = job.at(place).and_then(|it| it.get(kind)).cloned().unwrap_or_default();
            for (key, value) in want {
                assert_eq!(
                    all.str_at(&[&format!("jobset.sigs.k8s.io/{key}")]),
                    value,
                    "{place:?} {kind} {key}"
                );
            }
            assert_eq!(all.str_at(&["jobset.sigs.k8s.io/job-key"]).len(), 40);
            assert!(all.get("jobset.sigs.k8s.io/job-restart-attempt").is_none(), "only with the gate");
        }
    }
    assert_eq!(job.str_at(&["spec", "template", "spec", "subdomain"]), "net");
    assert_eq!(job.bool_at(&["spec", "suspend"]), Some(false), "always told");
    let owner = meta::controller_of(job).unwrap();
    assert_eq!(
        (
            owner.api_version.as_str(),
            owner.kind.as_str(),
            owner.name.as_str(),
            owner.uid.as_str(),
            owner.block_owner_deletion
        ),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "s", "set-uid", true)
    );
}

#[test]
fn our_labels_override_those_of_the_user() {
    let label = "jobset.sigs.k8s.io/jobset-name";
    let own =
        tree!({"labels": {"team": "red"}, "annotations": {"note": "x"}}).with(&["labels", label], "mine");
    let job = jobs("a", 1)
        .with(&["template", "metadata"], own.clone())
        .with(&["template", "spec", "template", "metadata"], own);
    let mut played = Played::new(&spec(&[job], &tree!({})));
    played.settle();
    let job = played.one("job", "s-a-0");
    for place in [&["metadata"][..], &["spec", "template", "metadata"]] {
        let it = job.at(place).unwrap();
        assert_eq!(
            (
                it.str_at(&["labels", "team"]),
                it.str_at(&["annotations", "note"]),
                it.str_at(&["labels", label])
            ),
            ("red", "x", "s")
        );
    }
}

#[test]
fn success_policies() {
    let targets = |names: &[&str]| Tree::list(names.iter().copied());
    let cases = [
        ("all of all", "All", targets(&[]), vec!["s-a-0", "s-a-1"], ""),
        ("all of one", "All", targets(&["a"]), vec!["s-a-0", "s-a-1"], "Completed"),
        ("all of one, half of it", "All", targets(&["a"]), vec!["s-a-0"], ""),
        ("any of all", "Any", targets(&[]), vec!["s-b-0"], "Completed"),
        ("any of one, another", "Any", targets(&["a"]), vec!["s-b-0"], ""),
        ("any of one", "Any", targets(&["a"]), vec!["s-a-1"], "Completed"),
        ("all of both", "All", targets(&["b", "a"]), vec!["s-a-0", "s-a-1", "s-b-0"], "Completed"),
    ];
    for (says, operator, targets, done, want) in cases {
        let policy = tree!({"successPolicy": {"operator": operator, "targetReplicatedJobs": targets}});
        let mut played = Played::new(&spec(&[jobs("a", 2), jobs("b", 1)], &policy));
        played.settle();
        done.iter().for_each(|job| played.succeed(job));
        played.settle();
        assert_eq!(played.terminal(), want, "{says}");
        let left = if want.is_empty() { 3 } else { done.len() };
        assert_eq!(played.names("job").len(), left, "{says}: active Jobs of a finished JobSet go");
    }
}

#[test]
fn dependencies() {
    let after = |name: &str, on: &str, status: &str| {
        jobs(name, 2).with(&["dependsOn"], Tree::list([tree!({"name": on, "status": status})]))
    };
    let mut played = Played::new(&spec(
        &[jobs("a", 2), after("b", "a", "Ready"), after("c", "b", "Complete")],
        &tree!({}),
    ));
    played.settle();
    assert_eq!(played.names("job"), ["s-a-0", "s-a-1"]);
    played.ready("s-a-0");
    played.settle();
    assert_eq!(played.names("job").len(), 2, "one of two is not enough");
    played.succeed("s-a-1");
    played.settle();
    assert_eq!(played.names("job"), ["s-a-0", "s-a-1", "s-b-0", "s-b-1"], "ready or done");
    played.ready("s-b-0");
    played.ready("s-b-1");
    played.settle();
    assert_eq!(played.names("job").len(), 4, "ready is not complete");
    played.succeed("s-b-0");
    played.succeed("s-b-1");
    played.settle();
    assert_eq!(played.names("job").len(), 6);
}

#[test]
fn in_order() {
    let policy = tree!({"startupPolicy": {"startupPolicyOrder": "InOrder"}});
    let mut played = Played::new(&spec(&[jobs("a", 1), jobs("b", 1)], &policy));
    played.settle();
    assert_eq!(played.names("job"), ["s-a-0"]);
    assert_eq!(played.conditions(), ["StartupPolicyInProgress True InOrderStartupPolicyInProgress"]);
    played.ready("s-a-0");
    played.settle();
    assert_eq!(played.names("job"), ["s-a-0", "s-b-0"]);
    played.ready("s-b-0");
    played.settle();
    assert_eq!(
        played.conditions(),
        [
            "StartupPolicyInProgress False InOrderStartupPolicyInProgress",
            "StartupPolicyCompleted True InOrderStartupPolicyCompleted"
        ]
    );
}

#[test]
fn jobs_of_another_owner_are_left_alone() {
    let foreign = tree!({"managedBy": "kueue.x-k8s.io/multikueue"});
    assert!(Played::new(&spec(&[jobs("a", 1)], &foreign)).steps().is_empty());
    let own = tree!({"managedBy": "jobset.sigs.k8s.io/jobset-controller"});
    assert!(!Played::new(&spec(&[jobs("a", 1)], &own)).steps().is_empty());
    let mut deleted = Played::new(&spec(&[jobs("a", 1)], &tree!({})));
    deleted.set = deleted.set.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert!(deleted.steps().is_empty());
}

#[test]
fn jobs_of_another_owner_are_reported_and_waited_for() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({})));
    played.put(
        "job",
        &tree!({"metadata": {"name": "s-a-0", "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u", "controller": true}]}}),
    );
    played.pass();
    assert_eq!(played.names("job"), ["s-a-0", "s-a-1"], "the other one is made");
    assert_eq!(
        played.said,
        [(
            "JobCreationFailed".into(),
            "job \"s-a-0\" creation failed with error: a job of this name is controlled by CronJob c (u)"
                .to_owned()
        )]
    );
    played.gone("s-a-0");
    played.settle();
    assert_eq!(meta::controller_of(played.one("job", "s-a-0")).unwrap().uid, "set-uid");
}

/// Shows: 572-44.
#[test]
fn names_that_differ_in_dots_do_not_adopt() {
    let mut played = Played::named("a.b", &spec(&[jobs("w", 1)], &tree!({})));
    let owner = |name: &str| tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "uid": "other", "controller": true});
    played.put(
        "service",
        &tree!({"metadata": {"name": "a-b"}})
            .with(&["metadata", "ownerReferences"], Tree::list([owner("a-b")])),
    );
    played.settle();
    assert_eq!(played.names("job").len(), 0);
    assert_eq!(played.reasons()[0], "NameConflict");
    assert!(played.said[0].1.contains("a-b") && played.said[0].1.contains("a.b"), "{:?}", played.said);
    played.objects.clear();
    played.settle();
    assert_eq!(played.names("job"), ["a-b-w-0"]);
    assert_eq!(
        played.one("job", "a-b-w-0").str_at(&["metadata", "labels", "jobset.sigs.k8s.io/jobset-name"]),
        "a.b"
    );
    // Any other Service of the name is used as it is.
    let mut played = Played::new(&spec(&[jobs("w", 1)], &tree!({})));
    played.put("service", &tree!({"metadata": {"name": "s"}}));
    played.settle();
    assert_eq!(played.names("job").len(), 1);
}

#[test]
fn edited_labels_are_read_from_annotations_or_reported() {
    let attempt = ["metadata", "labels", "jobset.sigs.k8s.io/restart-attempt"];
    let mut played = Played::new(&spec(&[jobs("a", 1)], &tree!({})));
    played.settle();
    let edited = played.one("job", "s-a-0").with(&attempt, "many");
    played.objects.insert(("job", "s-a-0".into()), edited.clone());
    played.settle();
    assert!(played.said.is_empty(), "the annotation says the same");
    let note = ["metadata", "annotations", "jobset.sigs.k8s.io/restart-attempt"];
    played.objects.insert(("job", "s-a-0".into()), edited.with(&note, "many"));
    played.settle();
    assert_eq!(played.reasons()[0], "JobLabelsInvalid");
    assert!(played.said[0].1.contains("s-a-0") && played.said[0].1.contains("\"many\""), "{:?}", played.said);
    assert_eq!(played.names("job").len(), 1, "nothing is deleted for it");
}

/// A Job with unreadable labels does not affect the others.
#[test]
fn the_others_go_on_beside_an_unreadable_job() {
    let unread = tree!({"metadata": {"labels": {"jobset.sigs.k8s.io/restart-attempt": "many"},
        "annotations": {"jobset.sigs.k8s.io/restart-attempt": "many"}}});
    let policy = tree!({"failurePolicy": {"maxRestarts": 1}});
    let mut played = Played::new(&spec(&[jobs("a", 3)], &policy));
    played.settle();
    played.change("job", "s-a-0", &unread);
    ["s-a-1", "s-a-2"].iter().for_each(|job| played.ready(job));
    played.settle();
    assert_eq!(played.counts("a"), [2, 0, 0, 2, 0], "counted");
    let suspended = |played: &Played, job: &str| played.one("job", job).bool_at(&["spec", "suspend"]);
    played.set = played.set.with(&["spec", "suspend"], true);
    played.settle();
    for job in ["s-a-0", "s-a-1", "s-a-2"] {
        assert_eq!(suspended(&played, job), Some(true), "{job}: nothing runs in a suspended set");
    }
    played.set = played.set.with(&["spec", "suspend"], false);
    played.settle();
    assert_eq!(suspended(&played, "s-a-1"), Some(false), "resumed");
    let uid = |played: &Played, job: &str| meta::uid(played.one("job", job));
    let before = ["s-a-0", "s-a-1", "s-a-2"].map(|job| uid(&played, job));
    played.fail("s-a-2");
    played.settle();
    let is_new = ["s-a-0", "s-a-1", "s-a-2"].map(|job| !before.contains(&uid(&played, job)));
    assert_eq!((played.restarts(), is_new), ((1, 1), [false, true, true]), "restarted");
    played.fail("s-a-1");
    played.settle();
    assert_eq!((played.terminal(), played.names("job")), ("Failed", vec!["s-a-1".to_owned()]), "ended");
}

#[test]
fn finished_ones_go_when_their_time_has_come() {
    let cases = [
        ("at once", 0, OwnerState::None, 0, true),
        ("not yet", 60, OwnerState::None, 59, false),
        ("now", 60, OwnerState::None, 60, true),
        ("whoever owns it has seen the end", 0, OwnerState::Notified, 0, true),
        ("it has not", 0, OwnerState::NotNotified, 1000, false),
        ("it cannot be seen, and may still be", 0, OwnerState::Unknown, 59, false),
        ("it cannot be seen for long", 0, OwnerState::Unknown, 60, true),
    ];
    for (says, ttl, parent, later, want) in cases {
        let mut played = Played::new(&spec(&[jobs("a", 1)], &tree!({"ttlSecondsAfterFinished": ttl})));
        played.parent = OwnerState::NotNotified;
        played.settle();
        played.succeed("s-a-0");
        played.settle();
        let since =
            played.set.items_at(&["status", "conditions"])[0].str_at(&["lastTransitionTime"]).to_owned();
        let since = muster_api::time::Time::parse(&since).unwrap();
        (played.parent, played.now) = (parent, since + std::time::Duration::from_secs(later));
        assert_eq!(played.steps().contains(&JobSetAction::DeleteJobSet), want, "{says}");
    }
}

#[test]
fn updates_of_counts_are_rate_limited() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({})));
    played.settle();
    played.ready("s-a-0");
    played.told_at = Some(played.now);
    let at = played.now + std::time::Duration::from_secs(1);
    assert_eq!(played.steps(), [JobSetAction::RequeueAt(at)]);
    played.fail("s-a-1");
    assert!(matches!(played.steps()[0], JobSetAction::UpdateStatus(_)), "an end does not wait");
}

#[test]
fn exclusive_places() {
    let topology = "alpha.jobset.sigs.k8s.io/exclusive-topology";
    let selector = "alpha.jobset.sigs.k8s.io/node-selector";
    let own = jobs("own", 1).with(&["template", "metadata", "annotations", topology], "rack");
    let mut played = Played::new(&spec(&[jobs("a", 1), own], &tree!({})));
    played.set =
        played.set.with(&["metadata", "annotations"], Tree::map([(topology, "zone"), (selector, "true")]));
    played.settle();
    let notes = |job: &str| {
        played.one("job", job).at(&["spec", "template", "metadata", "annotations"]).unwrap().clone()
    };
    assert_eq!((notes("s-a-0").str_at(&[topology]), notes("s-a-0").str_at(&[selector])), ("zone", "true"));
    assert_eq!(
        (notes("s-own-0").str_at(&[topology]), notes("s-own-0").str_at(&[selector])),
        ("rack", "true"),
        "each goes over the JobSet's for itself"
    );
    let pod = played.one("job", "s-a-0").at(&["spec", "template", "spec"]).unwrap();
    assert_eq!(pod.str_at(&["nodeSelector", "alpha.jobset.sigs.k8s.io/namespaced-job"]), "n_s-a-0");
    assert_eq!(
        pod.items_at(&["tolerations"])[0],
        tree!({"key": "alpha.jobset.sigs.k8s.io/no-schedule", "operator": "Exists", "effect": "NoSchedule"})
    );
}

/// A failed request drops the actions after it, so creates come last.
#[test]
fn creates_follow_the_status_update() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({"suspend": true})));
    let words = |played: &Played| -> Vec<&'static str> {
        let word = |it: &JobSetAction| match it {
            JobSetAction::UpdateStatus(_) => "write",
            JobSetAction::CreateService(_) => "service",
            JobSetAction::CreateJobs(_) => "jobs",
            JobSetAction::PatchJobs(_) => "change",
            JobSetAction::EmitEvent(..) => "note",
            JobSetAction::RequeueAt(_) => "again",
            _ => "other",
        };
        played.steps().iter().map(word).collect()
    };
    assert_eq!(words(&played), ["write", "note", "service", "jobs"]);
    played.hold_until = Some(played.now + std::time::Duration::from_secs(1));
    assert_eq!(words(&played), ["write", "note", "again"], "nothing is made a moment after a refusal");
    played.hold_until = None;
    played.set = played.set.with(&["spec", "suspend"], false);
    played.pass();
    played.gone("s-a-0");
    played.set = played.set.with(&["spec", "suspend"], true);
    assert_eq!(words(&played), ["change", "write", "note", "jobs"], "running Jobs are suspended first");
}

#[test]
fn many_jobs_are_created_in_batches() {
    let huge = tree!({"startupPolicy": {"startupPolicyOrder": "AnyOrder"}});
    let mut played = Played::new(&spec(&[jobs("a", u32::MAX), jobs("b", u32::MAX)], &huge));
    let steps = played.steps();
    assert!(steps.contains(&JobSetAction::RequeueAt(played.now)));
    assert!(steps.iter().any(|it| matches!(it, JobSetAction::CreateJobs(jobs) if jobs.len() == 1000)));
    played.pass();
    assert_eq!(
        played.one("job", "s-a-999").str_at(&["metadata", "labels", "jobset.sigs.k8s.io/global-replicas"]),
        "8589934590"
    );
}
