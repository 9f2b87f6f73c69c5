//! Gangs of Jobs: which Jobs have one, the order of creation, and the size.

use std::collections::BTreeMap;

use muster_api::client::Kind;
use muster_api::gang_objects::{
    self, GangApi, GangSupport, GroupMarker, JobGang, PodGroupMember, PodGroupTemplate, consts, names,
};
use muster_api::meta;

use super::*;

/// A Job played with what its plan makes and changes, one look after the other.
struct Played {
    gangs: Option<GangSupport>,
    job: Tree,
    pods: Vec<Tree>,
    objects: BTreeMap<(Text, Text), ApiObject>,
    now: Time,
    member: Option<PodGroupMember>,
    done: Vec<String>,
}

impl Played {
    fn new(spec: Tree) -> Played {
        Played {
            gangs: Some(GangSupport::default()),
            job: job(spec),
            pods: Vec::new(),
            objects: BTreeMap::new(),
            now: at(0),
            member: None,
            done: Vec::new(),
        }
    }

    fn gang(min: Tree) -> Tree {
        tree!({"scheduling": {"schedulingPolicy": {"gang": min}}})
    }

    fn of(&self, kind: &Kind) -> Vec<&ApiObject> {
        self.objects.iter().filter(|((plural, _), _)| *plural == kind.plural).map(|(_, it)| it).collect()
    }

    fn decide(&self) -> JobReconciliation {
        let facts = JobFacts::of(&self.job);
        let pods: Vec<JobPod> = self.pods.iter().map(|pod| JobPod::of(pod, &facts)).collect();
        let asks = JobGang::of(&self.job);
        let taken =
            |kind: &Kind, name: &Text| self.objects.contains_key(&(kind.plural.clone(), name.clone()));
        let ours =
            |it: &&&ApiObject| meta::controller_of(&it.tree).is_some_and(|owner| owner.uid == facts.uid);
        let groups = self.gangs.map(|gangs| {
            let workloads = self.of(gangs.api.workloads());
            let delegated = matches!(asks.objects, gang_objects::ObjectsToCreate::Group { .. });
            let kept: Vec<&ApiObject> =
                workloads.iter().filter(|it| delegated || ours(it)).copied().collect();
            let groups = gangs.api.groups().map(|kind| self.of(kind)).unwrap_or_default();
            let groups = groups.iter().filter(ours).copied().collect();
            JobGangSnapshot { gangs, asks: &asks, workloads: kept, groups, name_in_use: &taken }
        });
        let names: BTreeSet<Text> = self.pods.iter().map(meta::name).collect();
        reconcile(&JobSnapshot {
            job: &facts,
            pods: &pods,
            orphans: &[],
            backoff_record: &BackoffRecord::default(),
            name_in_use: &|name| names.contains(name),
            groups: groups.as_ref(),
            create_failed: false,
            now: self.now,
        })
    }

    /// One look, of which only the first `most` steps happen.
    fn look(&mut self, most: usize) {
        self.now = self.now + std::time::Duration::from_secs(1);
        let decision = self.decide();
        self.member = decision.member.clone();
        for step in decision.steps.into_iter().take(most) {
            self.done.extend(short(std::slice::from_ref(&step)));
            self.apply(step);
        }
    }

    fn apply(&mut self, step: JobAction) {
        match step {
            JobAction::CreateGangObject { kind, object, .. } => {
                let uid = format!("uid-{}", self.objects.len());
                let key = (kind.plural.clone(), meta::name(&object));
                let object = ApiObject { tree: object.with(meta_path::UID, uid), revision: 1 };
                assert!(self.objects.insert(key, object).is_none(), "made twice");
            }
            JobAction::ResizeGang { kind, object, patch } => {
                let key = (kind.plural.clone(), meta::name(&object.tree));
                let old = self.objects.get_mut(&key).unwrap();
                assert_eq!(*old, *object);
                *old = ApiObject { tree: old.tree.merge(&patch), revision: old.revision + 1 };
            }
            JobAction::CreatePods(new) => {
                for it in new {
                    let name = format!("p{}", self.pods.len());
                    let made = pod(&self.job, &name, "Running", it.index);
                    let member = self.member.as_ref().zip(self.gangs);
                    self.pods
                        .push(member.map_or(made.clone(), |(member, gangs)| member.mark_pod(gangs, &made)));
                }
            }
            JobAction::DeleteUncounted(gone) => {
                self.pods.retain(|pod| !gone.iter().any(|it| it.uid == meta::uid(pod)));
            }
            JobAction::RemoveFinalizer(pods) => {
                for pod in &mut self.pods {
                    if pods.iter().any(|it| it.uid == meta::uid(pod)) {
                        *pod = pod.without(meta_path::FINALIZERS);
                    }
                }
            }
            JobAction::UpdateStatus(status) => {
                self.job = self.job.with(path::STATUS, status.tree(&Tree::Null));
            }
            _ => {}
        }
    }

    fn settle(&mut self) {
        for _ in 0..10 {
            self.look(usize::MAX);
        }
    }

    fn min(&self) -> Option<u32> {
        let workload = self.of(GangApi::Proposal.workloads()).first()?.tree.clone();
        match PodGroupTemplate::find(&workload, &names::job_template("j"))?.policy {
            gang_objects::TemplatePolicy::Gang { min } => Some(min),
            gang_objects::TemplatePolicy::Basic => None,
        }
    }

    fn members(&self) -> usize {
        self.pods.iter().filter(|pod| gang_objects::names_group(pod)).count()
    }

    fn made(&self) -> usize {
        self.objects.len()
    }
}

/// Shows: 5832-44, 5832-50, 5832-52.
#[test]
fn workload_then_group_then_pods() {
    let mut played = Played::new(Played::gang(tree!({})));
    played.settle();
    let workload = names::job_workload("j", "u");
    let group = names::job_group(&workload, "j-pgt-0", "u");
    let pods: Vec<&String> = played.done.iter().filter(|it| !it.starts_with("write")).collect();
    assert_eq!(
        pods,
        [&format!("make Workload {workload}"), &format!("make PodGroup {group}"), &"create 2 []".to_owned()]
    );
    assert_eq!((played.min(), played.members()), (Some(2), 2));
    let before = played.done.len();
    played.settle();
    assert_eq!(played.done.iter().skip(before).filter(|it| *it != "write").count(), 0, "{:?}", played.done);
}

/// Shows: 5832-57, 5832-50.
#[test]
fn who_has_a_gang() {
    let owned = |more: &Tree| {
        let owner = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "s", "controller": true});
        job(tree!({})).with(meta_path::OWNERS, Tree::list([owner])).merge(more)
    };
    let marked = |template: Tree| job(tree!({"template": template}));
    let started = |status: Tree| job(tree!({})).with(path::STATUS, status);
    for (says, gate, job, made) in [
        ("a Job of its own", true, job(tree!({})), 2),
        ("the gate is off", false, job(Played::gang(tree!({}))), 0),
        ("another's Job", true, owned(&tree!({})), 0),
        ("pods with a group", true, marked(tree!({"spec": {"schedulingGroup": {"podGroupName": "g"}}})), 0),
        (
            "pods with a Workload",
            true,
            marked(tree!({"spec": {"workloadRef": {"name": "w", "podGroupName": "g"}}})),
            0,
        ),
        (
            "pods with a mark",
            true,
            marked(tree!({"metadata": {"annotations": {"scheduling.muster.dev/pod-group": "g"}}})),
            0,
        ),
        ("it started", true, started(tree!({"startTime": at(0).to_seconds_text()})), 0),
        ("it has successes", true, started(tree!({"succeeded": 1})), 0),
        ("it has failures", true, started(tree!({"failed": 1})), 0),
        (
            "it was suspended",
            true,
            started(tree!({"conditions": [{"type": "Suspended", "status": "False"}]})),
            0,
        ),
        ("suspended from the beginning", true, job(tree!({"suspend": true})), 2),
    ] {
        let mut played = Played::new(tree!({}));
        (played.job, played.gangs) = (job, played.gangs.filter(|_| gate));
        played.settle();
        assert_eq!(played.made(), made, "{says}");
        let all = if made > 0 { played.pods.len() } else { 0 };
        let joined =
            played.pods.iter().filter(|pod| pod.at(&["spec", "workloadRef", "podGroupName"]).is_some());
        let own = says.starts_with("pods with a Workload");
        assert!(own || joined.count() == all, "{says}");
    }
}

/// Shows: 5832-50, 5832-55.
#[test]
fn how_large_it_is() {
    for (says, spec, min) in [
        ("nothing said", tree!({}), None),
        ("each for itself", tree!({"scheduling": {"schedulingPolicy": {"basic": {}}}}), None),
        ("as wide as the Job", Played::gang(tree!({})), Some(2)),
        ("as was said", Played::gang(tree!({"minCount": 1})), Some(1)),
        (
            "few completions",
            Played::gang(tree!({})).merge(&tree!({"parallelism": 5, "completions": 3})),
            Some(3),
        ),
        ("a work queue", Played::gang(tree!({})).merge(&tree!({"parallelism": 5})), Some(5)),
        ("more than there are", Played::gang(tree!({"minCount": 9})), Some(2)),
        ("no pods yet", Played::gang(tree!({})).merge(&tree!({"parallelism": 0})), Some(1)),
    ] {
        let mut played = Played::new(spec);
        if says == "a work queue" {
            played.job = played.job.without(path::COMPLETIONS);
        }
        played.settle();
        assert_eq!(played.min(), min, "{says}");
        assert_eq!(played.made(), 2, "{says}");
        let told = played.done.iter().any(|it| it == "note MinCountLowered");
        assert_eq!(told, says == "more than there are", "{says}: {:?}", played.done);
    }
}

/// Shows: 5832-54.
#[test]
fn four_to_eight_to_four_under_one_workload() {
    let mut played = Played::new(Played::gang(tree!({})).merge(&tree!({"parallelism": 4, "completions": 8})));
    played.settle();
    let uids = |played: &Played| played.objects.values().map(|it| meta::uid(&it.tree)).collect::<Vec<_>>();
    let (before, running) = (uids(&played), played.pods.clone());
    for (parallelism, min) in [(8, 8), (4, 4)] {
        played.done.clear();
        played.job = played.job.with(path::PARALLELISM, parallelism);
        played.settle();
        assert_eq!((played.min(), played.pods.len()), (Some(min), parallelism as usize));
        assert!(played.done[0].starts_with("resize"), "first: {:?}", played.done);
        assert_eq!(uids(&played), before, "the same objects");
        let untouched = running.iter().all(|pod| played.pods.contains(pod));
        assert!(min == 4 || untouched, "those that run are not touched");
    }
    played.job = played.job.with(path::PARALLELISM, 8);
    played.look(1);
    assert_eq!((played.min(), played.pods.len()), (Some(8), 4), "told before a pod is made");
    assert_eq!(played.members(), 4);
}

/// Pods that come after others have done their work are fewer, and must not wait for those.
///
/// Shows: 5832-55.
#[test]
fn the_last_ones_do_not_wait_for_those_that_are_done() {
    let mut played = Played::new(Played::gang(tree!({})).merge(&tree!({"parallelism": 4, "completions": 5})));
    played.settle();
    assert_eq!((played.min(), played.pods.len()), (Some(4), 4));
    for pod in &mut played.pods {
        *pod = pod.with(pod_path::PHASE, "Succeeded");
    }
    played.done.clear();
    played.settle();
    assert_eq!((played.min(), played.pods.len(), played.members()), (Some(1), 5, 5), "{:?}", played.done);
    let order: Vec<usize> = ["resize", "create"]
        .iter()
        .filter_map(|it| played.done.iter().position(|did| did.starts_with(it)))
        .collect();
    assert!(order.is_sorted() && order.len() == 2, "{:?}", played.done);
}

/// Shows: 5832-44, 5832-53.
#[test]
fn nothing_is_made_twice_whenever_it_dies() {
    for most in [1, 2] {
        let mut played = Played::new(Played::gang(tree!({})));
        for _ in 0..20 {
            played.look(most);
        }
        assert_eq!((played.made(), played.pods.len(), played.members()), (2, 2, 2), "{:?}", played.done);
    }
}

/// Shows: 5832-53.
#[test]
fn a_stranger_is_left_alone() {
    let workload = names::job_workload("j", "u");
    let mut played = Played::new(Played::gang(tree!({})));
    let strange = ApiObject { tree: tree!({"metadata": {"name": &workload}}), revision: 1 };
    played.objects.insert(("workloads".into(), workload.clone()), strange.clone());
    played.settle();
    assert_eq!(played.objects[&("workloads".into(), workload.clone())], strange);
    assert!(played.done.contains(&"note PodGroupNameConflict".to_owned()), "{:?}", played.done);
    assert_eq!((played.made(), played.members()), (3, 2));
    // Two of its own: nobody can tell which one counts.
    let mut torn = Played::new(Played::gang(tree!({})));
    torn.look(usize::MAX);
    let ((plural, _), twin) = torn.objects.iter().next().map(|(key, it)| (key.clone(), it.clone())).unwrap();
    torn.objects.insert((plural, "twin".into()), twin);
    torn.settle();
    assert_eq!((torn.made(), torn.members(), torn.pods.len()), (2, 0, 2));
}

/// Shows: 5832-50.
#[test]
fn an_owner_makes_the_workload_and_the_job_its_group() {
    let owner =
        tree!({"apiVersion": "x.dev/v1", "kind": "Train", "name": "t", "uid": "t", "controller": true});
    let notes = Tree::map([(consts::GROUP_TEMPLATE, "workers")]);
    let mut played = Played::new(tree!({}));
    played.job = played.job.with(meta_path::OWNERS, Tree::list([owner])).with(meta_path::ANNOTATIONS, notes);
    played.settle();
    assert_eq!((played.made(), played.pods.len()), (0, 0), "it waits for its owner");
    assert_eq!(played.done.last().map(String::as_str), Some("note FailedWorkloadCompilation"));
    let train = gang_objects::GangOwner {
        api_version: "x.dev/v1".into(),
        kind: "Train",
        namespace: "ns".into(),
        name: "t".into(),
        uid: "t".into(),
    };
    let templates = [PodGroupTemplate::new("workers", gang_objects::TemplatePolicy::Gang { min: 2 })];
    let workload = gang_objects::workload(GangApi::Proposal, &train, &"t".into(), &templates);
    played.objects.insert(("workloads".into(), "t".into()), ApiObject { tree: workload, revision: 1 });
    played.settle();
    assert_eq!((played.made(), played.members()), (2, 2));
    let group = &played.of(GangApi::Proposal.groups().unwrap())[0].tree;
    assert_eq!(group.str_at(&["spec", "podGroupTemplateRef", "name"]), "workers");
    assert_eq!(meta::controller_of(group).map(|it| it.uid), Some("u".into()));
    assert!(!played.done.iter().any(|it| it.starts_with("resize")), "its owner says how large it is");
}

/// Shows: 5832-54.
#[test]
fn released_groups_carry_their_size_themselves() {
    let mut played = Played::new(Played::gang(tree!({})).merge(&tree!({"parallelism": 4, "completions": 8})));
    played.gangs = Some(GangSupport { api: GangApi::Released, marker: GroupMarker::Field });
    played.settle();
    played.job = played.job.with(path::PARALLELISM, 6);
    // It dies between the two.
    played.look(1);
    played.settle();
    let group = &played.of(GangApi::Released.groups().unwrap())[0].tree;
    let owners: Vec<bool> = meta::owner_references(group).map(|it| it.controller).collect();
    assert_eq!(owners, [true, false]);
    assert_eq!(group.int_at(&["spec", "schedulingPolicy", "gang", "minCount"]), Some(6));
    let template =
        PodGroupTemplate::find(&played.of(GangApi::Released.workloads())[0].tree, "j-pgt-0").unwrap();
    assert_eq!(template.policy, gang_objects::TemplatePolicy::Gang { min: 6 });
    assert!(
        played.pods.iter().all(|pod| meta::owner_references(pod).count() == 2),
        "pods go with their group"
    );
}

#[test]
fn what_cannot_be_said_is_told_and_makes_no_pods() {
    for policy in [tree!({}), tree!({"basic": {}, "gang": {}}), tree!({"gang": {"minCount": 0}})] {
        let mut played = Played::new(tree!({"scheduling": {"schedulingPolicy": policy}}));
        played.look(usize::MAX);
        assert_eq!(played.done, ["note FailedWorkloadCompilation"]);
        assert!(played.pods.is_empty() && played.objects.is_empty());
    }
}
