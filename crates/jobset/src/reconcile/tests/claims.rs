use muster_api::client::Kind;
use muster_api::meta;
use muster_tree::{Tree, tree};

use super::{JobSetAction, Played, jobs, spec};
use crate::FeatureGates;

fn template(name: &str, more: &Tree) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}}).merge(more)
}

fn with(job: &Tree, templates: &[Tree]) -> Tree {
    job.with(&["resourceClaimTemplates"], Tree::list(templates.iter().cloned()))
}

fn containers(job: &Tree) -> Tree {
    let pod = tree!({"initContainers": [{"name": "setup"}], "containers": [
        {"name": "worker", "resources": {"claims": [{"name": "own"}]}}, {"name": "helper"}]});
    job.with(&["template", "spec", "template", "spec"], pod)
}

/// Shows: 762-06, 762-07, 762-08, 762-09, 762-11, 762-55.
#[test]
fn a_claim_for_each_job_and_template() {
    let labelled = tree!({"metadata": {"labels": {"a": "1", "b": "1"}, "annotations": {"n": "1"}},
        "spec": {"metadata": {"labels": {"b": "2"}, "annotations": {"m": "2"}}}});
    let job = with(&jobs("job", 3), &[template("imex-channel", &labelled), template("more", &tree!({}))]);
    let mut played = Played::named("gpu-training-jobset", &spec(&[job], &tree!({})));
    played.settle();
    assert_eq!(played.names("claim").len(), 6);
    let claim = played.one("claim", "gpu-training-jobset-job-0-imex-channel");
    let job = played.one("job", "gpu-training-jobset-job-0");
    let owner = meta::controller_of(claim).unwrap();
    assert_eq!(
        (
            owner.api_version.as_str(),
            owner.kind.as_str(),
            owner.name.as_str(),
            &owner.uid,
            owner.block_owner_deletion
        ),
        ("batch/v1", "Job", "gpu-training-jobset-job-0", &meta::uid(job), true)
    );
    let labels = claim.at(&["metadata", "labels"]).unwrap();
    assert_eq!((labels.str_at(&["a"]), labels.str_at(&["b"])), ("1", "2"));
    for (key, value) in [
        ("jobset-name", "gpu-training-jobset"),
        ("jobset-uid", "set-uid"),
        ("replicatedjob-name", "job"),
        ("job-index", "0"),
        ("restart-attempt", "0"),
        ("resource-claim-template", "imex-channel"),
    ] {
        assert_eq!(labels.str_at(&[&format!("jobset.sigs.k8s.io/{key}")]), value, "{key}");
    }
    assert_eq!(claim.at(&["metadata", "annotations"]), Some(&tree!({"n": "1", "m": "2"})));
    let names = job.at(&["spec", "template", "spec", "resourceClaims"]).unwrap();
    assert_eq!(
        *names,
        Tree::list([
            tree!({"name": "imex-channel", "resourceClaimName": "gpu-training-jobset-job-0-imex-channel"}),
            tree!({"name": "more", "resourceClaimName": "gpu-training-jobset-job-0-more"}),
        ])
    );
    assert!(played.said.contains(&(
        "SuccessfulCreateResourceClaim".into(),
        "Created ResourceClaim gpu-training-jobset-job-2-more".to_owned()
    )));
}

/// Shows: 762-03, 762-04, 762-05, 762-45.
#[test]
fn shapes_of_devices() {
    let flat = tree!({"name": "r", "deviceClassName": "gpu", "count": 2});
    let exact = tree!({"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}});
    let first = tree!({"name": "r", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]});
    let rest = tree!({"constraints": [{"requests": ["r"], "matchAttribute": "a/b"}], "config": [{"requests": ["r"]}]});
    let devices = |request: &Tree| rest.with(&["requests"], Tree::list([request.clone()]));
    let cases = [
        ("flat, today", &flat, "v1", &exact),
        ("exact, today", &exact, "v1", &exact),
        ("alternatives, today", &first, "v1", &first),
        ("flat, a year ago", &flat, "v1beta2", &exact),
        ("flat, long ago", &flat, "v1beta1", &flat),
        ("exact, long ago", &exact, "v1beta1", &flat),
        ("alternatives, long ago", &first, "v1beta1", &first),
    ];
    for (says, asked, version, want) in cases {
        for long in [false, true] {
            let path: &[&str] = if long { &["spec", "spec", "devices"] } else { &["spec", "devices"] };
            let entry = tree!({"metadata": {"name": "c"}}).with(path, devices(asked));
            let mut played = Played::new(&spec(&[with(&jobs("a", 1), &[entry])], &tree!({})));
            played.claims = Some(Kind {
                group: "resource.k8s.io".into(),
                version: version.into(),
                plural: "resourceclaims".into(),
            });
            played.settle();
            let claim = played.one("claim", "s-a-0-c");
            assert_eq!(claim.at(&["spec", "devices"]), Some(&devices(want)), "{says}");
            assert_eq!(claim.str_at(&["apiVersion"]), format!("resource.k8s.io/{version}"));
        }
    }
}

/// Shows: 762-12, 762-13, 762-14, 762-15, 762-17.
#[test]
fn claim_names_in_the_pod_template() {
    let names = |list: &[&str]| tree!({"containers": Tree::list(list.iter().copied())});
    let cases = [
        ("nobody", tree!({}), [0, 0, 0]),
        ("an empty list is none", names(&[]), [0, 0, 0]),
        ("one", names(&["worker"]), [0, 1, 0]),
        ("an init container", names(&["setup", "helper"]), [1, 0, 1]),
        ("all", names(&["*"]), [1, 1, 1]),
    ];
    for (says, more, want) in cases {
        let mut played =
            Played::new(&spec(&[with(&containers(&jobs("a", 1)), &[template("c", &more)])], &tree!({})));
        played.settle();
        let pod = played.one("job", "s-a-0").at(&["spec", "template", "spec"]).unwrap();
        let all = pod.items_at(&["initContainers"]).iter().chain(pod.items_at(&["containers"]));
        let found: Vec<usize> = all
            .map(|it| {
                it.items_at(&["resources", "claims"]).iter().filter(|it| it.str_at(&["name"]) == "c").count()
            })
            .collect();
        assert_eq!(found, want, "{says}");
        assert_eq!(
            pod.items_at(&["containers"])[0].items_at(&["resources", "claims"])[0].str_at(&["name"]),
            "own",
            "{says}"
        );
    }
    let mut played = Played::new(&spec(
        &[with(&containers(&jobs("a", 1)), &[template("own", &names(&["*"]))])],
        &tree!({}),
    ));
    played.settle();
    let worker = &played.one("job", "s-a-0").items_at(&["spec", "template", "spec", "containers"])[0];
    assert_eq!(
        worker.items_at(&["resources", "claims"]).len(),
        1,
        "what the user wrote is not written twice"
    );
}

/// Shows: 762-19, 762-20, 762-22.
#[test]
fn claims_go_when_their_job_ends() {
    for (policy, left) in [("", 0), ("OnJobCompletion", 0), ("OnJobDeletion", 1)] {
        for failed in [false, true] {
            let more = if policy.is_empty() { tree!({}) } else { tree!({"deletionPolicy": policy}) };
            let mut played =
                Played::new(&spec(&[with(&jobs("a", 1), &[template("c", &more)]), jobs("b", 1)], &tree!({})));
            played.settle();
            if failed {
                played.fail("s-a-0");
            } else {
                played.succeed("s-a-0");
            }
            played.settle();
            assert_eq!(played.names("claim").len(), left, "{policy:?} failed: {failed}");
        }
    }
}

/// Shows: 762-18.
#[test]
fn suspended_jobs_make_none_and_keep_theirs() {
    let mut played =
        Played::new(&spec(&[with(&jobs("a", 1), &[template("c", &tree!({}))])], &tree!({"suspend": true})));
    played.settle();
    assert_eq!(played.names("claim").len(), 0);
    played.set = played.set.with(&["spec", "suspend"], false);
    played.settle();
    assert_eq!(played.names("claim").len(), 1);
    played.set = played.set.with(&["spec", "suspend"], true);
    played.settle();
    assert_eq!(played.names("claim").len(), 1);
}

/// Shows: 762-25, 762-26.
#[test]
fn restarts_bring_new_claims() {
    let rule = tree!({"name": "r", "action": "RestartJob"});
    for (single, changed) in [(false, 2), (true, 1)] {
        let rules = if single { Tree::list([rule.clone()]) } else { Tree::empty_list() };
        let policy = tree!({"failurePolicy": {"maxRestarts": 1, "rules": rules}});
        let mut played = Played::new(&spec(&[with(&jobs("a", 2), &[template("c", &tree!({}))])], &policy));
        played.gates = FeatureGates { restart_job: true, ..FeatureGates::default() };
        played.settle();
        let uids = |played: &Played| played.all("claim").map(meta::uid).collect::<Vec<_>>();
        let before = uids(&played);
        played.fail("s-a-0");
        played.settle();
        let after = uids(&played);
        assert_eq!(
            (after.len(), after.iter().filter(|it| !before.contains(it)).count()),
            (2, changed),
            "single: {single}"
        );
    }
}

/// Shows: 762-27, 762-29.
#[test]
fn the_pods_own_claim_wins() {
    let own = tree!({"name": "c", "resourceClaimTemplateName": "mine"});
    let job = jobs("a", 1)
        .with(&["template", "spec", "template", "spec", "resourceClaims"], Tree::list([own.clone()]));
    let mut played =
        Played::new(&spec(&[with(&job, &[template("c", &tree!({"containers": ["*"]}))])], &tree!({})));
    played.settle();
    assert_eq!(played.names("claim").len(), 0);
    let pod = played.one("job", "s-a-0").at(&["spec", "template", "spec"]).unwrap();
    assert_eq!(pod.items_at(&["resourceClaims"]), [own]);
    assert_eq!(pod.items_at(&["containers"])[0].at(&["resources"]), None);
    assert_eq!(
        played.said[0],
        (
            "ResourceClaimOverridden".into(),
            "pod template of replicatedJob a overrides resourceClaimTemplate c".to_owned()
        )
    );
}

/// Shows: 762-41, 762-46, 762-48, 762-49.
#[test]
fn what_is_in_the_way() {
    let set =
        || Played::new(&spec(&[with(&jobs("a", 1), &[template("c", &tree!({}))]), jobs("b", 1)], &tree!({})));
    let mut off = set();
    off.gates = FeatureGates { claim_templates: false, ..FeatureGates::default() };
    off.settle();
    assert_eq!(
        (off.names("job"), off.reasons()[0]),
        (vec!["s-b-0".to_owned()], "ResourceClaimTemplatesDisabled")
    );
    let mut absent = set();
    absent.claims = None;
    absent.settle();
    assert_eq!(
        (absent.names("job"), absent.reasons()[0]),
        (vec!["s-b-0".to_owned()], "ResourceClaimCreationFailed")
    );
    assert!(absent.said[0].1.contains("resource.k8s.io is not served by this cluster"));
    let mut strange = set();
    strange.put("claim", &tree!({"metadata": {"name": "s-a-0-c"}}));
    let before = strange.one("claim", "s-a-0-c").clone();
    strange.settle();
    assert_eq!(*strange.one("claim", "s-a-0-c"), before);
    assert_eq!(strange.names("job"), ["s-b-0"], "its Job is not created");
    assert!(
        strange.said.iter().any(|(reason, words)| reason == "ResourceClaimCreationFailed"
            && words.contains("ResourceClaim s-a-0-c exists and is not owned by Job s-a-0")),
        "{:?}",
        strange.said
    );
    let mut deleted = set();
    deleted.settle();
    let uid = meta::uid(deleted.one("claim", "s-a-0-c"));
    deleted.change("claim", "s-a-0-c", &tree!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    deleted.settle();
    assert_eq!(meta::uid(deleted.one("claim", "s-a-0-c")), uid, "one in use waits for its pods");
    assert!(
        deleted.steps().iter().any(|it| matches!(it, JobSetAction::RequeueAt(_))),
        "and is looked for, whoever tells of its end"
    );
    deleted.objects.remove(&("claim", "s-a-0-c".into()));
    deleted.settle();
    assert_ne!(meta::uid(deleted.one("claim", "s-a-0-c")), uid);
}

fn is_suspended(played: &Played, job: &str) -> bool {
    played.one("job", job).bool_at(&["spec", "suspend"]) == Some(true)
}

/// Shows: 762-48.
#[test]
fn a_job_runs_with_claims_of_its_own_or_not_at_all() {
    let claim = || tree!({"metadata": {"name": "s-a-0-c"}});
    let other =
        tree!([{"apiVersion": "batch/v1", "kind": "Job", "name": "s-a", "uid": "other", "controller": true}]);
    let theirs = claim().with(&["metadata", "ownerReferences"], other);
    let mut played = Played::new(&spec(&[with(&jobs("a", 1), &[template("c", &tree!({}))])], &tree!({})));
    played.pass();
    assert!(is_suspended(&played, "s-a-0"), "created, and waits for its claim");
    // Another JobSet created a claim of this name first.
    played.put("claim", &theirs);
    played.settle();
    assert!(is_suspended(&played, "s-a-0"));
    assert!(
        played.said.last().unwrap().1.contains("it is controlled by Job s-a (other)"),
        "{:?}",
        played.said
    );
    played.objects.remove(&("claim", "s-a-0-c".into()));
    played.settle();
    assert!(!is_suspended(&played, "s-a-0"), "its own");
    // The claim is deleted, and another owner creates one of the name before the JobSet does.
    played.objects.remove(&("claim", "s-a-0-c".into()));
    played.put("claim", &claim());
    played.settle();
    assert!(is_suspended(&played, "s-a-0"));
    assert_eq!(meta::controller_of(played.one("claim", "s-a-0-c")), None, "never adopted");
}

/// The claim of an earlier Job of the same name is garbage collected with it and causes no stall.
#[test]
fn a_leftover_claim_is_waited_for() {
    let mut played = Played::new(&spec(&[with(&jobs("a", 1), &[template("c", &tree!({}))])], &tree!({})));
    played.settle();
    played.said.clear();
    played.objects.remove(&("job", "s-a-0".into()));
    played.settle();
    assert_eq!((played.names("job").len(), played.said.len()), (0, 0), "{:?}", played.said);
    assert!(played.steps().iter().any(|it| matches!(it, JobSetAction::RequeueAt(_))));
    played.objects.remove(&("claim", "s-a-0-c".into()));
    played.settle();
    assert!(!is_suspended(&played, "s-a-0"));
}

/// A runtime of TrainJobs brings a claim for each Job beside claims of single pods.
///
/// Shows: 762-44.
#[test]
fn a_trainjob_brings_its_claims() {
    let own = tree!({"name": "gpu", "resourceClaimTemplateName": "gpu"});
    let job = jobs("node", 1)
        .with(&["template", "spec", "template", "spec", "resourceClaims"], Tree::list([own.clone()]));
    let mut played =
        Played::named("fine-tune", &spec(&[with(&job, &[template("channel", &tree!({}))])], &tree!({})));
    let owner = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "fine-tune", "uid": "t", "controller": true});
    played.set = played.set.with(&["metadata", "ownerReferences"], Tree::list([owner]));
    played.settle();
    assert_eq!(played.names("claim"), ["fine-tune-node-0-channel"]);
    let names =
        played.one("job", "fine-tune-node-0").items_at(&["spec", "template", "spec", "resourceClaims"]);
    assert_eq!(
        (names[0].clone(), names[1].str_at(&["resourceClaimName"])),
        (own, "fine-tune-node-0-channel")
    );
    played.succeed("fine-tune-node-0");
    played.settle();
    assert!(played.names("claim").is_empty());
}
