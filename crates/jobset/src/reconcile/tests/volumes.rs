use muster_tree::{Tree, tree};

use super::{Played, jobs, spec};

fn template(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}})
}

fn policies(policies: &[Tree]) -> Tree {
    tree!({"volumeClaimPolicies": Tree::list(policies.iter().cloned())})
}

fn policy(when: &str, templates: &[Tree]) -> Tree {
    tree!({"templates": Tree::list(templates.iter().cloned()), "retentionPolicy": {"whenDeleted": when}})
}

fn mounting(name: &str, replicas: u32, kind: &str, volume: &str) -> Tree {
    let container = Tree::list([tree!({"name": "c", "volumeMounts": [{"name": volume, "mountPath": "/v"}]})]);
    jobs(name, replicas).with(&["template", "spec", "template", "spec", kind], container)
}

/// Shows: 572-06, 572-07, 572-08, 572-10, 572-11, 572-12, 572-13, 572-26, 572-27, 572-28, 572-29, 572-54.
#[test]
fn shared_volumes() {
    let theirs = tree!({"name": "tmp", "emptyDir": {}});
    let all = [
        mounting("a", 2, "containers", "data")
            .with(&["template", "spec", "template", "spec", "volumes"], Tree::list([theirs.clone()])),
        mounting("init", 1, "initContainers", "keep"),
        jobs("none", 1),
    ];
    let noted = template("data").with(&["metadata", "annotations"], tree!({"why": "x"}));
    let more = policies(&[policy("Delete", &[noted]), policy("Retain", &[template("keep")]), tree!({})]);
    let mut played = Played::new(&spec(&all, &more));
    played.settle();
    assert_eq!(played.names("volume"), ["data-s", "keep-s"]);
    let (data, keep) = (played.one("volume", "data-s"), played.one("volume", "keep-s"));
    assert_eq!(data.str_at(&["metadata", "namespace"]), "n");
    assert_eq!(data.at(&["metadata", "annotations"]), Some(&tree!({"why": "x"})));
    assert_eq!(data.at(&["spec"]), template("data").at(&["spec"]));
    let owner = &data.items_at(&["metadata", "ownerReferences"])[0];
    assert_eq!(
        (owner.str_at(&["uid"]), owner.bool_at(&["controller"]), owner.bool_at(&["blockOwnerDeletion"])),
        ("set-uid", Some(true), Some(true))
    );
    assert_eq!(keep.at(&["metadata", "ownerReferences"]), None);
    let volumes = |job: &str| played.one("job", job).at(&["spec", "template", "spec", "volumes"]).cloned();
    let claim =
        |name: &str| tree!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-s")}});
    assert_eq!(volumes("s-a-0"), Some(Tree::list([theirs, claim("data")])));
    assert_eq!(volumes("s-init-0"), Some(Tree::list([claim("keep")])));
    assert_eq!(volumes("s-none-0"), None);
    assert_eq!(
        played.said,
        [
            ("SuccessfulCreatePVC".into(), "Created PVC data-s".to_owned()),
            ("SuccessfulCreatePVC".into(), "Created PVC keep-s".to_owned())
        ]
    );
    let claims = played.done.iter().position(|it| it.starts_with("+volume")).unwrap();
    let first = played.done.iter().position(|it| it.starts_with("+job")).unwrap();
    assert!(claims < first, "volumes come before Jobs: {:?}", played.done);
}

/// Shows: 572-05.
#[test]
fn by_default_the_volume_is_deleted_with_the_jobset() {
    for policy in [tree!({}), tree!({"retentionPolicy": {}})] {
        let policy = policy.with(&["templates"], Tree::list([template("data")]));
        let mut played = Played::new(&spec(&[mounting("a", 1, "containers", "data")], &policies(&[policy])));
        played.settle();
        assert!(!played.one("volume", "data-s").items_at(&["metadata", "ownerReferences"]).is_empty());
    }
}

/// Shows: 572-09, 572-35.
#[test]
fn our_label_wins() {
    let key = "jobset.sigs.k8s.io/jobset-name";
    let labels = tree!({"content-type": "model"}).with(&[key], "mine");
    let policy = policy("Delete", &[template("data").with(&["metadata", "labels"], labels)]);
    let mut played =
        Played::named("a.b", &spec(&[mounting("a", 1, "containers", "data")], &policies(&[policy])));
    played.settle();
    let claim = played.one("volume", "data-a.b");
    assert_eq!(
        (claim.str_at(&["metadata", "labels", key]), claim.str_at(&["metadata", "labels", "content-type"])),
        ("a.b", "model")
    );
}

/// Shows: 572-20, 572-21, 572-42.
#[test]
fn claims_that_are_there() {
    let owned = |uid: &str| {
        tree!({"metadata": {"name": "data-s", "ownerReferences": [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "other", "uid": uid, "controller": true}]}})
    };
    let free = tree!({"metadata": {"name": "data-s"}});
    let going = free.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    let cases = [
        ("nobody's", free, true, ""),
        ("ours", owned("set-uid"), true, ""),
        (
            "another's",
            owned("x"),
            false,
            "Failed to create PVC data-s: it exists and is controlled by JobSet other (x)",
        ),
        ("about to go", going, false, "Failed to create PVC data-s: it is being deleted"),
    ];
    for (says, there, used, words) in cases {
        let more = policies(&[policy("Retain", &[template("data")])]);
        let mut played = Played::new(&spec(&[mounting("a", 1, "containers", "data")], &more));
        played.put("volume", &there);
        let before = played.one("volume", "data-s").clone();
        played.settle();
        assert_eq!(*played.one("volume", "data-s"), before, "{says}: it is never touched");
        assert_eq!(played.names("job").is_empty(), !used, "{says}");
        assert_eq!(played.said.first().map_or("", |(_, it)| it), words, "{says}");
    }
}

/// Shows: 572-18, 572-49.
#[test]
fn suspended_sets_have_theirs_and_finished_ones_make_none() {
    let more = policies(&[policy("Delete", &[template("data")])]).merge(&tree!({"suspend": true}));
    let mut played = Played::new(&spec(&[mounting("a", 1, "containers", "data")], &more));
    played.settle();
    assert_eq!(played.names("volume"), ["data-s"]);
    played.set = played.set.with(&["spec", "suspend"], false);
    played.settle();
    played.succeed("s-a-0");
    played.settle();
    assert_eq!(played.names("volume"), ["data-s"]);
    played.objects.remove(&("volume", "data-s".into()));
    played.settle();
    assert!(played.names("volume").is_empty());
}

/// A runtime of TrainJobs brings the field; the JobSet has the TrainJob's name.
///
/// Shows: 572-57.
#[test]
fn a_trainjob_brings_its_volume() {
    let more = policies(&[policy("Delete", &[template("initializer")])]);
    let mut played = Played::named(
        "fine-tune",
        &spec(
            &[
                mounting("model-initializer", 1, "containers", "initializer"),
                mounting("node", 2, "containers", "initializer"),
            ],
            &more,
        ),
    );
    let owner = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "fine-tune", "uid": "t", "controller": true});
    played.set = played.set.with(&["metadata", "ownerReferences"], Tree::list([owner]));
    played.settle();
    assert_eq!(played.names("volume"), ["initializer-fine-tune"]);
    for job in played.all("job") {
        assert_eq!(
            job.items_at(&["spec", "template", "spec", "volumes"])[0]
                .str_at(&["persistentVolumeClaim", "claimName"]),
            "initializer-fine-tune"
        );
    }
}

/// `a` of `b-s` and `a-b` of `s` have one name: what one JobSet retained is not given to another.
#[test]
fn what_another_set_retained_is_not_mounted() {
    let set = || {
        let more = policies(&[policy("Retain", &[template("a-b")])]);
        Played::new(&spec(&[mounting("w", 1, "containers", "a-b")], &more))
    };
    let label = ["metadata", "labels", "jobset.sigs.k8s.io/jobset-name"];
    let claim = tree!({"metadata": {"name": "a-b-s"}});
    for (owner, jobs) in [("s", 1), ("b-s", 0)] {
        let mut played = set();
        played.put("volume", &claim.with(&label, owner));
        played.settle();
        assert_eq!(played.names("job").len(), jobs, "{owner}");
        let words = "Failed to create PVC a-b-s: it exists and is labelled as that of JobSet b-s";
        assert_eq!(played.said.iter().any(|it| it.1 == words), jobs == 0, "{:?}", played.said);
    }
    let mut prepared = set();
    prepared.put("volume", &claim);
    prepared.settle();
    assert_eq!(prepared.names("job").len(), 1, "what was made by hand is used");
}
