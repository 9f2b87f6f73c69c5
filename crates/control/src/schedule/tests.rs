//! Gangs as the controller carries them out, one look after another.

use muster_api::client::{RequestTarget, RequestVerb, WatchChange};
use muster_api::gang::{COSCHEDULING_GROUPS, RELEASED_GROUPS};
use muster_tree::{Tree, tree};

use super::*;
use crate::controller::Step;

/// A scheduler and what it has seen.
struct Bench {
    it: SchedulerController,
    caches: Caches,
    revision: u64,
    now: Time,
}

impl Bench {
    fn new(it: SchedulerController) -> Bench {
        let mut caches = Caches::default();
        it.kinds().iter().chain(&it.kinds_if_served()).for_each(|kind| caches.add_kind(kind));
        let mut bench = Bench { it, caches, revision: 0, now: Time(1_000_000) };
        for name in ["n0", "n1"] {
            let room = tree!({"cpu": "4", "pods": "10"});
            bench.put(
                &kinds::NODES,
                tree!({"metadata": {"name": name, "uid": name},
                "status": {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}}),
            );
        }
        bench
    }

    fn hear(&mut self, kind: &Kind, change: WatchChange) -> Vec<ReconcileRequest> {
        let Some(change) = self.caches.apply_watch_change(kind, change) else { return Vec::new() };
        self.it.map_event(&change.event(), &self.caches)
    }

    fn put(&mut self, kind: &Kind, tree: Tree) -> Vec<ReconcileRequest> {
        self.revision += 1;
        self.hear(kind, WatchChange::Applied(ApiObject { tree, revision: self.revision }))
    }

    fn gone(&mut self, kind: &Kind, name: &str) -> Vec<ReconcileRequest> {
        self.revision += 1;
        let object = self.caches.get(kind, &"ns".into(), &name.into()).expect("it is there").clone();
        self.hear(kind, WatchChange::Deleted(ApiObject { revision: self.revision, ..object }))
    }

    fn pod(&self, name: &str) -> Tree {
        self.caches.get(&kinds::PODS, &"ns".into(), &name.into()).expect("it is there").tree.clone()
    }

    /// Decides about everybody; the keys to look at.
    fn decide(&mut self) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        while self.it.scheduler.has_pending() {
            keys.extend(self.plan(&decide_key()).enqueue);
        }
        keys
    }

    fn plan(&mut self, key: &ObjectKey) -> Reconciled {
        self.it.reconcile(key, &self.caches, self.now)
    }

    fn binding(&mut self) -> Reconciled {
        self.plan(&binding::key_of(&("ns".into(), "g".into())))
    }

    fn on(&self, name: &str) -> bool {
        self.it.scheduler.node_of(&("ns".into(), name.into())).is_some()
    }

    fn later(&mut self, secs: u64) {
        self.now = self.now + Duration::from_secs(secs);
    }
}

fn named(name: &str, rest: &Tree) -> Tree {
    tree!({"metadata": {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": "1970-01-01T00:00:00Z"}})
        .merge(rest)
}

fn workload(min: i64) -> Tree {
    workload_of(&gang_of(min))
}

fn workload_of(policy: &Tree) -> Tree {
    named("w", &tree!({"spec": {"podGroupTemplates": [{"name": "t", "policy": policy.clone()}]}}))
}

fn group() -> Tree {
    let spec = tree!({"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}});
    named("g", &tree!({"metadata": {"generation": 1}, "spec": spec}))
}

fn member(name: &str) -> Tree {
    let spec = tree!({"schedulerName": "default-scheduler", "workloadRef": {"name": "w", "podGroupName": "g"},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    named(name, &tree!({"spec": spec, "status": {"phase": "Pending"}}))
}

/// A gang of three, all of them there.
fn three(it: SchedulerController) -> Bench {
    let mut bench = Bench::new(it);
    bench.put(&kinds::WORKLOADS, workload(3));
    bench.put(&kinds::POD_GROUPS, group());
    ["a", "b", "c"].iter().for_each(|name| {
        bench.put(&kinds::PODS, member(name));
    });
    bench
}

fn bindings(plan: &Reconciled) -> Vec<&ApiRequest> {
    let of = |step: &'_ Step| matches!(step, Step::Transaction(_));
    let together = plan.steps.iter().find(|step| of(step));
    match together {
        Some(Step::Transaction(calls)) => calls.iter().collect(),
        _ => Vec::new(),
    }
}

fn refusal() -> ApiError {
    ApiError::NotFound("gone".to_owned())
}

/// Shows: 5832-37.
#[test]
fn a_gang_is_bound_by_calls_that_happen_together() {
    let mut bench = three(SchedulerController::default());
    let keys = bench.decide();
    assert!(keys.contains(&binding::key_of(&("ns".into(), "g".into()))), "{keys:?}");
    let plan = bench.binding();
    assert_eq!(bindings(&plan).len(), 3);
    let notes = plan.steps.iter().filter(|step| matches!(step, Step::Event(_))).count();
    assert_eq!((plan.steps.len(), notes), (4, 3), "all in one step, then what is told of each");
    assert!(matches!(plan.steps[0], Step::Transaction(_)), "told when it is done");
    for name in ["a", "b", "c"] {
        let node = bench.it.scheduler.node_of(&("ns".into(), name.into())).cloned().expect("placed");
        let wakes = bench.put(&kinds::PODS, member(name).with(&["spec", "nodeName"], node));
        assert!(
            wakes
                .iter()
                .any(|wake| wake.key.kind == kinds::POD_GROUPS && wake.after == groups::STATUS_BATCH_PERIOD)
        );
    }
    assert_eq!(bench.binding(), Reconciled::done(), "all have arrived");
    assert!(bench.it.bindings.group_of(&("ns".into(), "a".into())).is_none(), "and are forgotten");
}

#[test]
fn what_happened_unheard_is_told_when_it_is_seen() {
    let mut bench = three(SchedulerController::default());
    bench.decide();
    let plan = bench.binding();
    let call = bindings(&plan)[0].clone();
    let key = binding::key_of(&("ns".into(), "g".into()));
    bench.it.on_request_error(&key, &call, &ApiError::Indeterminate("lost".to_owned()), &bench.caches);
    for name in ["a", "b", "c"] {
        let node = bench.it.scheduler.node_of(&("ns".into(), name.into())).cloned().expect("still meant");
        bench.put(&kinds::PODS, member(name).with(&["spec", "nodeName"], node));
    }
    let told = bench.binding();
    assert_eq!(told.steps.len(), 3);
    assert!(told.steps.iter().all(|step| matches!(step, Step::Event(_))));
}

#[test]
fn one_that_cannot_be_bound_takes_all_back_where_all_or_none_happen() {
    for (it, stay) in [(SchedulerController::default(), false), (cluster(), true)] {
        let mut bench = three(it);
        bench.decide();
        let plan = bench.binding();
        let failed = bindings(&plan)[1].clone();
        let key = binding::key_of(&("ns".into(), "g".into()));
        bench.it.on_request_error(&key, &failed, &refusal(), &bench.caches);
        assert_eq!((bench.on("a"), bench.on("b"), bench.on("c")), (stay, false, stay));
        if stay {
            // Two are bound; the third is an additional one.
            for name in ["a", "c"] {
                let node = bench.it.scheduler.node_of(&("ns".into(), name.into())).cloned().expect("meant");
                bench.put(&kinds::PODS, member(name).with(&["spec", "nodeName"], node));
            }
        }
        bench.later(20);
        bench.plan(&decide_key());
        bench.decide();
        let again = bench.binding();
        assert_eq!(bindings(&again).len(), if stay { 1 } else { 3 }, "{again:?}");
    }
}

/// The same beside another scheduler, for pods that ask for none.
fn cluster() -> SchedulerController {
    SchedulerController { has_transactions: false, ..SchedulerController::default() }
}

#[test]
fn a_pod_that_goes_before_it_is_bound_takes_the_others_back() {
    let mut bench = three(SchedulerController::default());
    bench.decide();
    bench.gone(&kinds::PODS, "b");
    assert_eq!(bindings(&bench.binding()).len(), 0);
    assert!(!bench.on("a") && !bench.on("c"), "two are not enough");
}

/// A gang of three, all of them there, of which `b` needs a volume that is made when its node is known.
fn three_and_a_volume(policy: &Tree) -> Bench {
    let mut bench = three(SchedulerController::default());
    bench.put(&kinds::WORKLOADS, workload_of(policy));
    bench.put(
        &kinds::STORAGE_CLASSES,
        tree!({"metadata": {"name": "s", "uid": "s"}, "provisioner": "p",
        "volumeBindingMode": "WaitForFirstConsumer"}),
    );
    bench.put(&kinds::PERSISTENT_VOLUME_CLAIMS, claim());
    let volumes = tree!([{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]);
    bench.put(&kinds::PODS, member("b").with(&["spec", "volumes"], volumes));
    bench.decide();
    assert!(["a", "b", "c"].iter().all(|name| bench.on(name)), "all have places");
    bench
}

fn claim() -> Tree {
    let spec = tree!({"storageClassName": "s", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1"}}});
    named("v", &tree!({"spec": spec, "status": {"phase": "Pending"}}))
}

fn gang_of(min: i64) -> Tree {
    tree!({"gang": {"minCount": min}})
}

/// The names of the pods that a plan binds.
fn bound_by(plan: &Reconciled) -> Vec<&str> {
    bindings(plan).into_iter().map(|call| call.target.name.as_str()).collect()
}

/// What a plan writes before others can be bound.
fn errands_of(plan: &Reconciled) -> Vec<&ApiRequest> {
    let each = plan.steps.iter().filter_map(|step| match step {
        Step::Parallel(calls) => Some(calls),
        _ => None,
    });
    each.flatten().collect()
}

impl Bench {
    /// These pods are bound to the nodes that were decided.
    fn arrive(&mut self, names: &[&str]) {
        for name in names {
            let node = self.it.scheduler.node_of(&("ns".into(), (*name).into())).cloned().expect("placed");
            let pod = self.pod(name).with(&["spec", "nodeName"], node);
            self.put(&kinds::PODS, pod);
        }
    }
}

#[test]
fn nobody_sees_less_than_enough_when_one_goes_and_another_comes() {
    let mut bench = three(SchedulerController::default());
    bench.decide();
    bench.put(&kinds::PODS, member("d"));
    bench.decide();
    bench.gone(&kinds::PODS, "b");
    let plan = bench.binding();
    assert_eq!(bound_by(&plan), ["a", "c", "d"], "who came later is needed now, and bound with them");
}

/// Shows: 5832-34.
#[test]
fn those_who_are_ready_go_as_soon_as_they_are_enough() {
    let mut bench = three_and_a_volume(&gang_of(3));
    let plan = bench.binding();
    assert_eq!(bound_by(&plan).len(), 0, "two are not enough: {plan:?}");
    assert_eq!(errands_of(&plan).len(), 1, "the volume first: {plan:?}");
    bench.put(&kinds::PODS, member("d"));
    bench.decide();
    assert_eq!(bound_by(&bench.binding()), ["a", "c", "d"], "three are");
    bench.arrive(&["a", "c", "d"]);
    assert_eq!(bound_by(&bench.binding()).len(), 0, "one still waits");
    bench.later(601);
    bench.binding();
    assert!(!bench.on("b"), "its volume never came");
    assert!(["a", "c", "d"].iter().all(|name| bench.on(name)));
}

#[test]
fn a_gang_that_is_too_few_without_its_volume_is_given_back_whole() {
    let mut bench = three_and_a_volume(&gang_of(3));
    bench.binding();
    bench.later(601);
    assert_eq!(bound_by(&bench.binding()).len(), 0);
    assert!(["a", "b", "c"].iter().all(|name| !bench.on(name)));
}

#[test]
fn pods_above_the_least_and_pods_of_loose_groups_do_not_wait_for_others() {
    for policy in [gang_of(2), tree!({"basic": {}})] {
        let mut bench = three_and_a_volume(&policy);
        let plan = bench.binding();
        assert_eq!(bound_by(&plan), ["a", "c"], "{policy}");
        assert_eq!(errands_of(&plan).len(), 1, "{policy}: and the volume is asked for");
        bench.arrive(&["a", "c"]);
        // Its volume is made: it follows.
        let there = tree!({"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}});
        bench.put(
            &kinds::PERSISTENT_VOLUMES,
            tree!({"metadata": {"name": "pv", "uid": "pv"}, "spec": {"storageClassName": "s",
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"},
                "claimRef": {"namespace": "ns", "name": "v", "uid": "v"}}, "status": {"phase": "Bound"}}),
        );
        bench.put(&kinds::PERSISTENT_VOLUME_CLAIMS, claim().merge(&there));
        assert_eq!(bound_by(&bench.binding()), ["b"], "{policy}");
    }
}

#[test]
fn who_cannot_have_its_volume_goes_back_alone_if_there_are_enough_without() {
    for (min, stay) in [(2, true), (3, false)] {
        // Its volume shall be made elsewhere.
        let mut bench = three_and_a_volume(&gang_of(min));
        let elsewhere = tree!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n7"}}});
        bench.put(&kinds::PERSISTENT_VOLUME_CLAIMS, claim().merge(&elsewhere));
        let plan = bench.binding();
        assert_eq!(bound_by(&plan).len(), if stay { 2 } else { 0 });
        assert_eq!((bench.on("a"), bench.on("b"), bench.on("c")), (stay, false, stay));
        // The server does not let us ask for it.
        let mut bench = three_and_a_volume(&gang_of(min));
        let plan = bench.binding();
        let asked = errands_of(&plan)[0].clone();
        let key = binding::key_of(&("ns".into(), "g".into()));
        bench.it.on_request_error(&key, &asked, &refusal(), &bench.caches);
        assert_eq!((bench.on("a"), bench.on("b"), bench.on("c")), (stay, false, stay));
    }
}

#[test]
fn one_more_that_cannot_be_bound_does_not_keep_the_others() {
    let mut bench = three(SchedulerController::default());
    bench.put(&kinds::WORKLOADS, workload(2));
    bench.decide();
    let plan = bench.binding();
    let failed = bindings(&plan)[1].clone();
    let key = binding::key_of(&("ns".into(), "g".into()));
    bench.it.on_request_error(&key, &failed, &refusal(), &bench.caches);
    assert_eq!(bound_by(&bench.binding()), ["a", "c"]);
    assert!(!bench.on("b"));
}

#[test]
fn what_is_refused_of_a_group_is_not_refused_of_its_namesake() {
    let mut bench = three(SchedulerController::default());
    bench.put(&kinds::PODS, member("g").without(&["spec", "workloadRef"]));
    bench.decide();
    let pod = ObjectKey::new(&kinds::PODS, &"ns".into(), &"g".into());
    assert_eq!(bench.plan(&pod).steps.len(), 2, "it is bound, and that is told");
    let call = ApiRequest {
        field_manager: managers::SCHEDULER.clone(),
        target: status_key().target(Subresource::Status),
        preconditions: muster_api::client::Preconditions::default(),
        verb: RequestVerb::MergePatch(tree!({})),
    };
    bench.it.on_request_error(&status_key(), &call, &refusal(), &bench.caches);
    assert!(bench.on("g") && bench.it.decisions.contains_key(&("ns".into(), "g".into())));
}

#[test]
fn members_that_wait_for_volumes_give_their_places_back_when_the_time_of_the_group_is_over() {
    let mut bench = three_and_a_volume(&gang_of(3));
    let limit =
        tree!({"metadata": {"annotations": {"scheduling.muster.dev/schedule-timeout-seconds": "60"}}});
    bench.put(&kinds::POD_GROUPS, group().merge(&limit));
    bench.binding();
    bench.later(59);
    bench.plan(&decide_key());
    assert!(bench.on("a"), "there is time");
    bench.later(1);
    let keys = bench.plan(&decide_key()).enqueue;
    assert!(["a", "b", "c"].iter().all(|name| !bench.on(name)));
    assert!(keys.contains(&binding::key_of(&("ns".into(), "g".into()))), "{keys:?}");
    assert_eq!(bench.binding(), Reconciled { enqueue: vec![decide_key()], ..Reconciled::done() });
    assert_eq!(reason(&said(&mut bench).expect("something to say")), "SchedulingTimeout");
}

#[test]
fn members_are_not_judged_again_when_nothing_of_their_group_changed() {
    let mut bench = three(SchedulerController::default());
    let before = bench.it.groups.rechecks;
    let status = tree!({"status": {"scheduledPods": 1}});
    bench.put(&kinds::POD_GROUPS, group().merge(&status));
    assert_eq!(bench.it.groups.rechecks, before, "our own words");
    let limit =
        tree!({"metadata": {"annotations": {"scheduling.muster.dev/schedule-timeout-seconds": "60"}}});
    bench.put(&kinds::POD_GROUPS, group().merge(&limit));
    assert_eq!(bench.it.groups.rechecks, before + 1);
}

/// Shows: 5832-58.
#[test]
fn where_groups_do_not_count_pods_are_alone() {
    let mut bench = three(
        SchedulerController::default()
            .gangs(GangApi::Proposal, EnabledMarkers { groups: false, ..EnabledMarkers::default() }),
    );
    assert!(!bench.it.kinds().contains(&kinds::POD_GROUPS), "nothing is asked for");
    let keys = bench.decide();
    let mut pods: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
    pods.sort_unstable();
    assert_eq!(pods, ["a", "b", "c"]);
    assert!(keys.iter().all(|key| key.kind == kinds::PODS));
}

/// Shows: 5832-41.
#[test]
fn each_form_is_followed_by_its_own_kinds() {
    for (form, want) in [
        (GangApi::Proposal, vec![&kinds::POD_GROUPS, &kinds::WORKLOADS]),
        (GangApi::Released, vec![&RELEASED_GROUPS]),
        (GangApi::Legacy, vec![&kinds::WORKLOADS]),
    ] {
        let all = SchedulerController::default().gangs(form, EnabledMarkers::default()).kinds();
        let found: Vec<&Kind> = all.iter().filter(|kind| kind.group.starts_with("scheduling.")).collect();
        assert_eq!(found, want, "{form:?}");
    }
    assert!(
        SchedulerController::beside_another()
            .kinds()
            .iter()
            .all(|kind| !kind.group.starts_with("scheduling."))
    );
    assert!(SchedulerController::default().kinds_if_served().contains(&COSCHEDULING_GROUPS));
}

fn status_key() -> ObjectKey {
    ObjectKey::new(&kinds::POD_GROUPS, &"ns".into(), &"g".into())
}

/// What is written to the status of the group, after what was decided was gathered.
fn said(bench: &mut Bench) -> Option<Tree> {
    let looks = (0..3).find_map(|_| {
        bench.later(5);
        bench.plan(&status_key()).steps.pop()
    });
    let step = looks?;
    let Step::Request(ApiRequest {
        target: RequestTarget { subresource: Subresource::Status, .. },
        verb: RequestVerb::MergePatch(patch),
        ..
    }) = step
    else {
        panic!("one merge of the status");
    };
    Some(patch)
}

fn reason(patch: &Tree) -> &str {
    patch.items_at(&["status", "conditions"])[0].str_at(&["reason"])
}

/// Shows: 5832-25, 5832-31, 5832-32, 5832-42.
#[test]
fn what_is_missing_is_said_and_its_coming_is_enough() {
    let mut bench = three(SchedulerController::default());
    bench.gone(&kinds::WORKLOADS, "w");
    bench.decide();
    assert_eq!(reason(&said(&mut bench).expect("something to say")), "WaitingForWorkload");
    bench.put(&kinds::WORKLOADS, workload(4));
    bench.decide();
    assert_eq!(reason(&said(&mut bench).expect("something to say")), "WaitingForPods");
    assert!(!bench.it.scheduler.has_pending() && bench.it.scheduler.requeue_at().is_none(), "nothing polls");
    bench.put(&kinds::WORKLOADS, workload(3));
    assert!(bench.it.scheduler.has_pending(), "the change is enough");
    bench.decide();
    assert!(bench.on("a"));
    bench.gone(&kinds::POD_GROUPS, "g");
    assert_eq!(said(&mut bench), None, "there is nobody to tell");
}

/// Shows: 5832-22, 5832-26.
#[test]
fn a_group_that_was_whole_for_a_moment_says_so() {
    let mut bench = three(SchedulerController::default());
    bench.decide();
    for name in ["a", "b", "c"] {
        bench.put(&kinds::PODS, member(name).with(&["spec", "nodeName"], "n"));
    }
    bench.gone(&kinds::PODS, "a");
    let patch = said(&mut bench).expect("something to say");
    assert_eq!(reason(&patch), "MinCountSatisfied", "it lost one before that was said");
    assert_eq!(patch.int_at(&["status", "scheduledPods"]), Some(2));
}

#[test]
fn groups_of_other_schedulers_are_left_alone() {
    let mut bench = Bench::new(SchedulerController::default());
    bench.put(&kinds::WORKLOADS, workload(3));
    bench.put(&kinds::POD_GROUPS, group());
    assert_eq!(said(&mut bench), None, "nobody knows whose it is");
    bench.put(&kinds::PODS, member("a").with(&["spec", "schedulerName"], "another"));
    assert_eq!(said(&mut bench), None, "it is another's");
    bench.put(&kinds::PODS, member("b"));
    assert!(said(&mut bench).is_some());
}

#[test]
fn groups_of_others_count_where_they_are_served() {
    let label = tree!({"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "c"}}});
    let mut bench = Bench::new(SchedulerController::default());
    for name in ["a", "b"] {
        bench.put(&kinds::PODS, member(name).without(&["spec", "workloadRef"]).merge(&label));
    }
    bench.decide();
    let open = bench.it.decisions.get(&("ns".into(), "a".into()));
    assert!(
        matches!(open, Some(PodDecision::Unschedulable { message, held_since: Some(_), .. }) if message.contains("\"c\"")),
        "{open:?}"
    );
    bench.put(&COSCHEDULING_GROUPS, named("c", &tree!({"spec": {"minMember": 2}})));
    bench.decide();
    assert!(bench.on("a") && bench.on("b"));
    // Where nobody serves them, the label is a label.
    let mut bare = Bench::new(SchedulerController::default());
    bare.caches.remove_kind(&COSCHEDULING_GROUPS);
    bare.put(&kinds::PODS, member("a").without(&["spec", "workloadRef"]).merge(&label));
    bare.decide();
    assert!(bare.on("a"));
}

#[test]
fn a_namesake_belongs_where_it_says() {
    let mut bench = three(SchedulerController::default());
    let alone = member("a").without(&["spec", "workloadRef"]).with(&["metadata", "uid"], "other");
    bench.put(&kinds::PODS, alone);
    bench.decide();
    assert!(bench.on("a") && !bench.on("b"), "two are left of three");
    assert_eq!(bench.pod("a").str_at(&["metadata", "uid"]), "other");
}
