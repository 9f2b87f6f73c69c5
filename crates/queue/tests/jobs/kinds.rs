//! The Job, JobSet and TrainJob integrations.

use muster_queue::jobs::batch::BatchJob;
use muster_queue::jobs::construct::{self, WorkloadParams};
use muster_queue::jobs::generic_job::{GenericJob, JobWrite, StopProgress};
use muster_queue::jobs::podset_info::PodSetInfo;
use muster_queue::jobs::priority::ResolvedPriority;
use muster_queue::jobs::{KINDS, generic_job_of};
use muster_tree::{Text, Tree, tree};

use super::trainjob::training;
use super::{cases, part, says, text};

/// The job behind an object, by kind.
pub fn work(object: &Tree) -> Box<dyn GenericJob + '_> {
    let kind = object.str_at(&["kind"]);
    if kind == "TrainJob" {
        return Box::new(training(object, false));
    }
    let named = KINDS.into_iter().find(|it| it.kind == kind).unwrap();
    generic_job_of(named.group, kind, object).unwrap()
}

/// The state of a job as a tree, without default values.
fn told(work: &dyn GenericJob) -> Tree {
    let sets = work.pod_sets().unwrap();
    let sets = sets.iter().map(|set| {
        Tree::map([(set.name.clone(), Tree::from(set.count))])
            .with_option(&["least"], set.min_count.map(Tree::from))
    });
    let reclaimable = work.reclaimable_pods();
    let reclaimable = Tree::map(reclaimable.into_iter().map(|(name, count)| (name, Tree::from(count))));
    let ended = work.outcome().map(|it| {
        Tree::from(format!("{}: {}", if it.succeeded { "succeeded" } else { "failed" }, it.message))
    });
    let yes = |it: bool| it.then_some(Tree::Bool(true));
    tree!({"sets": Tree::list(sets)})
        .with_option(&["suspended"], yes(work.is_suspended()))
        .with_option(&["active"], yes(work.is_active()))
        .with_option(&["ready"], yes(work.pods_ready()))
        .with_option(&["ended"], ended)
        .with_option(&["reclaimable"], (!reclaimable.is_empty()).then_some(reclaimable))
}

#[test]
fn integrations() {
    for case in cases(include_str!("kinds.yaml")) {
        let kinds = [("job", "Job"), ("jobset", "JobSet"), ("trainjob", "TrainJob")];
        let object = kinds.iter().find_map(|(key, kind)| Some(case.get(key)?.merge(&tree!({"kind": *kind}))));
        let object = object.unwrap();
        assert_eq!(told(&*work(&object)), *part(&case, "want"), "{}", says(&case));
    }
}

fn stopped(work: &dyn GenericJob, infos: &[PodSetInfo]) -> JobWrite {
    match work.stop(Some(infos)) {
        StopProgress::Step(step) => step,
        other => panic!("{other:?}"),
    }
}

#[test]
fn start_requires_matching_pod_sets() {
    let job = tree!({"kind": "Job", "spec": {"suspend": true, "template": {"spec": {}}}});
    let set = tree!({"kind": "JobSet", "spec": {"replicatedJobs": [{"name": "a"}]}});
    let info = |name: &str| PodSetInfo { name: text(name), ..PodSetInfo::default() };
    let why = |object: &Tree, infos: &[PodSetInfo]| work(object).start(infos).unwrap_err().to_string();
    assert!(generic_job_of("apps", "Deployment", &job).is_none());
    assert_eq!(why(&job, &[]), "invalid podset infos: expecting 1 podset, got 0");
    assert_eq!(why(&set, &[info("a"), info("b")]), "invalid podset infos: expecting 1 podset, got 2");
    assert_eq!(why(&set, &[info("b")]), "invalid podset infos: expecting 1 podset, got 1");
    let stop = stopped(&*work(&set), &[]);
    assert_eq!(
        stop.change.patch,
        tree!({"spec": {"suspend": true}}),
        "of another number of sets: it only stops"
    );
}

#[test]
fn job_controller_labels_are_hidden_and_kept() {
    let labels = tree!({"app": "x", "job-name": "j", "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j"});
    let job = tree!({"metadata": {"name": "j", "annotations": {"kueue.x-k8s.io/stopping": "true"}},
        "spec": {"suspend": true, "template": {"metadata": {"labels": &labels}, "spec": {"nodeSelector": {"pool": "x"}}}}});
    let work = BatchJob::of(&job);
    let set = work.pod_sets().unwrap().remove(0);
    assert_eq!(
        set.template.at(&["metadata", "labels"]),
        Some(&tree!({"app": "x", "batch.kubernetes.io/job-name": "j"}))
    );
    let plain = set.template.without(&["spec", "nodeSelector"]);
    let stop = stopped(&work, &[PodSetInfo::of_template(&set.name, set.count, &plain)]);
    let after = job.merge(&stop.change.patch);
    assert!(!stop.emits_event && after.at(&["spec", "template", "metadata", "labels"]) == Some(&labels));
    assert_eq!(after.at(&["spec", "template", "spec", "nodeSelector"]), None);
    assert_eq!(after.at(&["metadata", "annotations", "kueue.x-k8s.io/stopping"]), None);
}

fn making(keys: &[Text]) -> WorkloadParams<'_> {
    WorkloadParams {
        name: text("wl"),
        queue: text("q"),
        pod_sets: Vec::new(),
        priority: ResolvedPriority { class: None, priority: 7 },
        label_keys: keys,
    }
}

#[test]
fn common_workload_fields() {
    let keys = [text("team"), text("missing")];
    let pod = tree!({"metadata": {"name": "p", "namespace": "n", "uid": "u-1",
            "labels": {"team": "a", "other": "b", "kueue.x-k8s.io/max-exec-time-seconds": "60"},
            "annotations": {"provreq.kueue.x-k8s.io/x": "1", "kueue.x-k8s.io/admission-gated-by": "g", "z": "2"}},
        "spec": {"schedulingGates": [{"name": "g"}], "containers": [
            {"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]}]}});
    let one = construct::of_object("v1", "Pod", &pod, making(&keys)).tree();
    let meta = one.get("metadata").unwrap();
    assert_eq!(meta.get("labels"), Some(&tree!({"team": "a", "kueue.x-k8s.io/job-uid": "u-1"})));
    assert_eq!(
        meta.get("annotations"),
        Some(&tree!({"provreq.kueue.x-k8s.io/x": "1", "kueue.x-k8s.io/admission-gated-by": "g"}))
    );
    assert_eq!(meta.get("finalizers"), Some(&tree!(["kueue.x-k8s.io/resource-in-use"])));
    assert_eq!(
        meta.get("ownerReferences"),
        Some(&tree!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1", "controller": true,
            "blockOwnerDeletion": true}]))
    );
    let spec = one.get("spec").unwrap();
    assert_eq!((spec.str_at(&["queueName"]), spec.int_at(&["maximumExecutionTimeSeconds"])), ("q", Some(60)));
    assert_eq!(spec.int_at(&["priority"]), Some(7));
    let gang = tree!({"workloadRef": {"name": "g"}, "schedulingGroup": {"podGroupName": "g"}});
    let template = construct::template_of_pod(&pod.merge(&tree!({"spec": gang})));
    assert_eq!(template, construct::template_of_pod(&pod), "its gang is the scheduler's business");
    assert_eq!(template.get("metadata"), None);
    assert_eq!(template.at(&["spec", "schedulingGates"]), pod.at(&["spec", "schedulingGates"]));
    let env = tree!([{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]);
    assert_eq!(
        template.items_at(&["spec", "containers"])[0].get("env"),
        Some(&env),
        "last value, first place"
    );
}

#[test]
fn group_workload_is_owned_by_all_pods() {
    let keys = [text("team")];
    let pod = |name: &str, team: &str| {
        let labels = if team.is_empty() { Tree::empty_map() } else { tree!({"team": team}) };
        tree!({"metadata": {"name": name, "namespace": "n", "uid": name, "labels": labels}})
    };
    let (a, b, c) = (pod("a", "x"), pod("b", "x"), pod("c", ""));
    let group = construct::of_group(&[&a, &b, &c], making(&keys)).unwrap().tree();
    let owner = |name: &str| tree!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name});
    assert_eq!(
        group.at(&["metadata", "ownerReferences"]),
        Some(&Tree::list(["a", "b", "c"].map(owner))),
        "no controller among them"
    );
    assert_eq!(group.at(&["metadata", "labels"]), Some(&tree!({"team": "x"})), "the union");
    let mark = group.at(&["metadata", "annotations", "kueue.x-k8s.io/is-group-workload"]);
    assert_eq!(mark.and_then(Tree::as_str), Some("true"));
    let why = construct::of_group(&[&a, &pod("d", "y")], making(&keys)).unwrap_err().to_string();
    assert_eq!(why, "constructing workload: pods have different label values: team: x!=y");
}

#[test]
fn invalid_label_uid_is_not_copied() {
    let long = "u".repeat(64);
    for uid in [long.as_str(), "-u", "u/1"] {
        let job = tree!({"metadata": {"name": "j", "uid": uid}});
        let made = construct::of_object("batch/v1", "Job", &job, making(&[])).tree();
        assert_eq!(made.at(&["metadata", "labels"]), None, "{uid}");
    }
}
