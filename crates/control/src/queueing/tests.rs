//! Queues as the controller runs them, one look after another, with crashes between any two writes.

mod arrivals;
mod trainjobs;

use std::collections::BTreeSet;

use muster_api::client::{ApiObject, RequestVerb, Subresource, WatchBatch, WatchChange};
use muster_api::event::EventType;
use muster_api::kinds::{POD_GROUPS, WORKLOADS};
use muster_queue::reconcilers::explanation::{EstimateBasis, Explanation, ExplanationState};
use muster_queue::reconcilers::metrics::{MetricSample, MetricValue};
use muster_queue::reconcilers::status_rate_limit::{BURST, UPDATE_INTERVAL};
use muster_tree::tree;

use super::visibility_query::{VisibilityQuery, VisibilityQueryError, VisibilityResult};
use super::*;
use crate::controller::Step;
use crate::{ControlLoop, RuntimeInput, RuntimeOptions};

const CPU: i64 = 2;

/// A controller with its caches, and a minimal API server.
struct Bench {
    it: QueueController,
    caches: Caches,
    revision: u64,
    writes: usize,
    notes: Vec<Event>,
    due: BTreeSet<ObjectKey>,
    /// What is to be looked at later.
    later: BTreeSet<(Time, ObjectKey)>,
    now: Time,
}

fn settings() -> QueueControllerConfig {
    let managed = ManagedKinds {
        enabled: ["batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob", "pod"]
            .map(Text::from)
            .into(),
        ..ManagedKinds::default()
    };
    QueueControllerConfig {
        managed,
        namespaces: LabelSelector::of(Some(&tree!({}))),
        ..QueueControllerConfig::default()
    }
}

fn controller() -> QueueController {
    QueueController::new(settings()).gangs(Some(GangSupport::default()))
}

/// A namespace, and a queue with room for two pods of a processor each.
fn queue() -> Vec<(&'static Kind, Tree)> {
    let quota = tree!({"name": "cpu", "nominalQuota": CPU});
    let group = tree!({"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]});
    let spec = tree!({"namespaceSelector": {}, "resourceGroups": [group]});
    let local = tree!({"spec": {"clusterQueue": "cq"}});
    vec![
        (&NAMESPACES, object("ns", "", &tree!({}))),
        (&kinds::RESOURCE_FLAVORS, object("f", "", &tree!({}))),
        (&kinds::CLUSTER_QUEUES, object("cq", "", &tree!({"spec": spec}))),
        (&kinds::LOCAL_QUEUES, object("lq", "ns", &local)),
    ]
}

impl Bench {
    /// Nothing at all.
    fn empty() -> Bench {
        let mut caches = Caches::default();
        let it = controller();
        it.kinds().iter().for_each(|kind| caches.add_kind(kind));
        let now = Time(1_000_000);
        let (due, later) = (BTreeSet::new(), BTreeSet::new());
        Bench { it, caches, revision: 0, writes: 0, notes: Vec::new(), due, later, now }
    }

    /// One queue with room for two pods of a processor each.
    fn new() -> Bench {
        let mut bench = Bench::empty();
        queue().into_iter().for_each(|(kind, tree)| bench.put(kind, tree));
        bench
    }

    fn put(&mut self, kind: &Kind, tree: Tree) {
        self.revision += 1;
        let object = ApiObject { tree, revision: self.revision };
        if let Some(change) = self.caches.apply_watch_change(kind, WatchChange::Applied(object)) {
            let wakes = self.it.map_event(&change.event(), &self.caches);
            self.due.extend(wakes.into_iter().map(|wake| wake.key));
        }
    }

    /// Gives the Workload `w` a priority.
    fn prioritize(&mut self, priority: i64) {
        let old = self.caches.get(&kinds::WORKLOADS, &"ns".into(), &"w".into()).expect("it is there");
        let new = old.tree.with(&["spec", "priority"], priority);
        self.put(&kinds::WORKLOADS, new);
    }

    /// The priority of the Workload `w` in the end.
    fn settled_priority(&mut self) -> i64 {
        self.settle(None);
        let it = self.caches.get(&kinds::WORKLOADS, &"ns".into(), &"w".into()).expect("it is there");
        WorkloadFacts::of(&it.tree).priority
    }

    /// The controller is lost, and another begins with what there is.
    fn crash(&mut self) {
        self.it = controller();
        self.due.clear();
        self.later.clear();
        for kind in self.it.kinds() {
            for object in self.caches.all(&kind).cloned().collect::<Vec<_>>() {
                let key = ObjectKey::of(&kind, &object.tree);
                let seen = WatchEvent { key: &key, old: None, new: Some(&object) };
                let wakes = self.it.map_event(&seen, &self.caches);
                self.due.extend(wakes.into_iter().map(|wake| wake.key));
            }
        }
    }

    /// Looks at everything that is due until nothing is; it crashes before the write of this number.
    fn settle(&mut self, crash_before: Option<usize>) {
        for _ in 0..10_000 {
            self.never_too_many();
            let Some(key) = self.due.pop_first().or_else(|| self.pass_time()) else { return };
            self.look_at(key, crash_before);
        }
        panic!("it never comes to rest");
    }

    fn look_at(&mut self, key: ObjectKey, crash_before: Option<usize>) {
        let plan = self.it.reconcile(&key, &self.caches, self.now);
        self.later.extend(plan.requeue_at.map(|at| (at, key)));
        self.due.extend(plan.enqueue);
        for step in plan.steps {
            let calls = match step {
                Step::Request(call) => vec![call],
                Step::Parallel(calls) | Step::Transaction(calls) => calls,
                Step::ParallelWithEvents(told) => told.into_iter().map(|(call, _)| call).collect(),
                Step::Precondition(..) => Vec::new(),
                Step::Event(event) => {
                    self.notes.push(event);
                    Vec::new()
                }
            };
            for call in calls {
                if crash_before == Some(self.writes) {
                    self.writes += 1;
                    self.crash();
                    break;
                }
                self.writes += 1;
                self.perform(call);
            }
        }
    }

    /// Time passes until something is to be looked at again.
    fn pass_time(&mut self) -> Option<ObjectKey> {
        let (at, key) = self.later.pop_first()?;
        self.now = self.now.max(at);
        Some(key)
    }

    fn perform(&mut self, call: ApiRequest) {
        let kind = call.target.kind.clone();
        let old = self.caches.get(&kind, &call.target.namespace, &call.target.name).cloned();
        if call.preconditions.revision.is_some_and(|at| old.as_ref().is_none_or(|it| it.revision != at)) {
            self.due.insert(ObjectKey::new(&kind, &call.target.namespace, &call.target.name));
            return;
        }
        match (call.verb, old) {
            (RequestVerb::Create(tree), None) => {
                let uid = format!("{}-uid", call.target.name);
                self.put(
                    &kind,
                    tree.merge(
                        &tree!({"metadata": {"uid": uid, "creationTimestamp": "1970-01-01T00:00:01Z"}}),
                    ),
                );
            }
            (RequestVerb::MergePatch(patch), Some(old)) => self.put(&kind, old.tree.merge(&patch)),
            (RequestVerb::Apply { body, .. }, Some(old)) => {
                assert_eq!(call.target.subresource, Subresource::Status, "only statuses are applied");
                let status = body.at(&["status"]).cloned().unwrap_or_default();
                self.put(&kind, old.tree.with(&["status"], status));
            }
            _ => {}
        }
    }

    fn job(&mut self, name: &str) {
        self.put(&JOBS, job(name, &tree!({})));
    }

    /// A pod as admission makes it, of a group of two that is placed together.
    fn member(&mut self, name: &str) {
        let requests = tree!({"cpu": "1"});
        let meta = tree!({"finalizers": ["kueue.x-k8s.io/managed"],
            "labels": {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/pod-group-name": "g"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2", "kueue.x-k8s.io/role-hash": "h", "scheduling.muster.dev/gang": "true"}});
        let spec = tree!({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}], "workloadRef": {"name": "g", "podGroupName": "g"},
            "containers": [{"name": "c", "resources": {"requests": requests}}]});
        self.put(
            &PODS,
            object(name, "ns", &tree!({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})),
        );
    }

    /// Members of the gang that may start.
    fn opened(&self) -> usize {
        let open = |pod: &Tree| {
            pod.items_at(&["spec", "schedulingGates"]).is_empty()
                && pod.at(&["spec", "workloadRef"]).is_some()
        };
        self.caches.all(&PODS).filter(|it| open(&it.tree)).count()
    }

    fn end(&mut self, name: &str) {
        let job = self.caches.get(&JOBS, &"ns".into(), &name.into()).expect("it is there").tree.clone();
        let done =
            tree!({"status": {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": CPU}});
        self.put(&JOBS, job.merge(&done));
    }

    fn running(&self) -> Vec<String> {
        let ended = |job: &Tree| !job.items_at(&["status", "conditions"]).is_empty();
        let all = self.caches.all(&JOBS).chain(self.caches.all(&TRAIN_JOBS)).map(|it| &it.tree);
        let all = all.filter(|job| job.bool_at(&["spec", "suspend"]) == Some(false) && !ended(job));
        // What is below another is counted with it.
        let all = all.filter(|job| meta::controller_of(job).is_none());
        all.map(|job| meta::name(job).to_string()).collect()
    }

    fn never_too_many(&self) {
        let gang = self.caches.get(&POD_GROUPS, &"ns".into(), &"g".into());
        assert!(gang.is_some() || self.opened() == 0, "a gate was opened before there was a gang");
        assert!(self.running().len() <= 1, "there is room for one: {:?}", self.running());
    }
}

fn object(name: &str, namespace: &str, rest: &Tree) -> Tree {
    tree!({"metadata": {"name": name, "uid": format!("{name}-uid"), "creationTimestamp": "1970-01-01T00:00:01Z"}})
        .merge(&if namespace.is_empty() { tree!({}) } else { tree!({"metadata": {"namespace": namespace}}) })
        .merge(rest)
}

/// A Job of two pods of a processor each.
fn job(name: &str, rest: &Tree) -> Tree {
    let spec = tree!({"suspend": true, "parallelism": CPU, "completions": CPU, "template": template()});
    let label = tree!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}, "spec": spec});
    object(name, "ns", &label.merge(rest))
}

fn template() -> Tree {
    tree!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
}

/// Two Jobs and room for one: one after the other. How many writes that took.
fn one_after_the_other(crash_before: Option<usize>) -> usize {
    let mut bench = Bench::new();
    bench.job("a");
    bench.job("b");
    bench.settle(crash_before);
    let first = bench.running();
    assert_eq!(first.len(), 1, "crash before {crash_before:?}: one runs");
    bench.end(&first[0]);
    bench.settle(crash_before);
    let second = bench.running();
    assert_eq!(second.len(), 1, "crash before {crash_before:?}: then the other");
    assert_ne!(first, second);
    bench.end(&second[0]);
    bench.settle(crash_before);
    let finished = bench.caches.all(&kinds::WORKLOADS).map(|it| WorkloadFacts::of(&it.tree));
    assert_eq!(finished.filter(WorkloadFacts::is_finished).count(), 2, "crash before {crash_before:?}");
    let queue = bench.caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), &"cq".into()).expect("it is there");
    assert_eq!(
        queue.tree.int_at(&["status", "admittedWorkloads"]).unwrap_or(0),
        0,
        "nothing is held any more"
    );
    bench.writes
}

#[test]
fn jobs_run_one_after_the_other_whenever_it_crashes() {
    let writes = one_after_the_other(None);
    assert!(writes > 10, "there was something to do: {writes}");
    for n in 0..writes {
        one_after_the_other(Some(n));
    }
}

/// A group that asks for it has its gang before its gates are opened. How many writes that took.
fn placed_together(crash_before: Option<usize>) -> usize {
    let mut bench = Bench::new();
    bench.member("a");
    bench.member("b");
    bench.settle(crash_before);
    assert_eq!(bench.opened(), 2, "crash before {crash_before:?}");
    let find =
        |kind: &Kind| bench.caches.get(kind, &"ns".into(), &"g".into()).expect("it is there").tree.clone();
    let template = find(&WORKLOADS).items_at(&["spec", "podGroupTemplates"])[0].clone();
    assert_eq!(template.int_at(&["policy", "gang", "minCount"]), Some(2));
    let owners: Vec<Uid> = meta::owner_references(&find(&POD_GROUPS)).map(|it| it.uid).collect();
    assert_eq!(owners, ["a-uid", "b-uid"], "both pods keep it");
    bench.writes
}

#[test]
fn a_gang_is_there_before_its_gates_are_opened() {
    for n in 0..placed_together(None) {
        placed_together(Some(n));
    }
}

/// All controllers of a control loop get the events of all watched kinds.
#[test]
fn what_others_follow_is_none_of_our_business() {
    let services = &muster_api::kinds::SERVICES;
    let mut bench = Bench::new();
    bench.caches.add_kind(services);
    bench.put(services, object("net", "ns", &tree!({})));
    assert!(bench.due.iter().all(|key| key.kind != *services), "{:?}", bench.due);
}

/// What is asked of a bench, and answered at once.
fn asked(bench: &mut Bench, question: VisibilityQuery) -> VisibilityResult {
    let (tell, told) = std::sync::mpsc::channel();
    let desk = bench.it.settings.visibility.clone();
    desk.query(question, Box::new(move |answer| tell.send(answer).unwrap())).expect("it is open");
    bench.it.reconcile(&visibility_key(), &bench.caches, bench.now);
    told.try_recv().expect("whoever asks is answered in the next turn")
}

fn explained(answer: VisibilityResult) -> Explanation {
    let VisibilityResult::Explanation(pending) = answer else { panic!("{answer:?}") };
    *pending
}

#[test]
fn whoever_asks_is_answered_between_two_keys() {
    let mut bench = Bench::new();
    let desk = bench.it.settings.visibility.clone();
    let never = Box::new(|_| panic!("nobody answers"));
    assert_eq!(
        desk.query(VisibilityQuery::ClusterQueuePending("cq".into()), never),
        Err(VisibilityQueryError::NotRunning)
    );
    let (ring, rung) = std::sync::mpsc::channel();
    bench.it.set_trigger(std::sync::Arc::new(move |key| ring.send(key).unwrap()));
    for name in ["a", "b", "c"] {
        bench.job(name);
    }
    bench.settle(None);
    let VisibilityResult::Pending(all) = asked(&mut bench, VisibilityQuery::ClusterQueuePending("cq".into()))
    else {
        panic!()
    };
    assert_eq!(rung.try_recv(), Ok(visibility_key()));
    let places: Vec<usize> = all.iter().map(|it| it.position_in_local_queue).collect();
    assert_eq!(places, [0, 1]);
    let second = all[1].key.clone();
    let why = explained(asked(&mut bench, VisibilityQuery::Explain(second.namespace, second.name)));
    assert_eq!((why.state, why.reason.as_str()), (ExplanationState::Pending, "WaitingForQuota"), "{why:#?}");
    assert_eq!(why.position.map(|it| it.in_cluster_queue), Some(1));
    assert_eq!(why.sets[0].flavors[0].resources[0].shortfall(), CPU * 1000, "shared with the one before it");
    assert_eq!((why.holders.len(), why.no_estimate.is_empty()), (1, false));
    assert!(matches!(
        asked(&mut bench, VisibilityQuery::Explain("ns".into(), "nobody".into())),
        VisibilityResult::NotFound
    ));
    let service = tree!({"apiVersion": "v1", "kind": "Service"});
    assert!(matches!(
        asked(&mut bench, VisibilityQuery::DryRun("ns".into(), service)),
        VisibilityResult::Invalid(_)
    ));
    drop(bench);
    assert!(!desk.is_open(), "nobody answers after the end");
}

/// Many questions do not keep the loop from its work: some are answered, then it is others' turn.
#[test]
fn only_so_many_are_answered_between_two_keys() {
    use super::visibility_query::{OWNERS_MAX, QUERIES_MAX, QUERIES_PER_RECONCILE_MAX};
    let mut bench = Bench::new();
    bench.it.set_trigger(std::sync::Arc::new(|_| {}));
    let (tell, told) = std::sync::mpsc::channel();
    let ask = |bench: &Bench, n: usize| {
        let tell = tell.clone();
        let reply = Box::new(move |_| tell.send(n).unwrap());
        bench.it.settings.visibility.query(VisibilityQuery::ClusterQueuePending("cq".into()), reply)
    };
    assert!((0..QUERIES_MAX).all(|n| ask(&bench, n).is_ok()));
    assert_eq!(ask(&bench, QUERIES_MAX), Err(VisibilityQueryError::TooManyQueries));
    let mut turns = 0;
    loop {
        let plan = bench.it.reconcile(&visibility_key(), &bench.caches, bench.now);
        turns += 1;
        assert_eq!(told.try_iter().count(), QUERIES_PER_RECONCILE_MAX);
        if plan.enqueue.is_empty() {
            break;
        }
        assert_eq!(plan.enqueue, [visibility_key()], "the others are not forgotten");
    }
    assert_eq!(turns, QUERIES_MAX / QUERIES_PER_RECONCILE_MAX);
    let nobody = || muster_queue::engine::workload::NamespacedName::new("ns", "nobody");
    let many = std::iter::repeat_with(nobody).take(OWNERS_MAX + 1).collect();
    let VisibilityResult::Owners(owners) = asked(&mut bench, VisibilityQuery::Owners(many)) else { panic!() };
    assert_eq!(owners.len(), OWNERS_MAX);
}

#[test]
fn those_who_run_must_end_by_their_limits() {
    let mut bench = Bench::new();
    bench.it.set_trigger(std::sync::Arc::new(|_| {}));
    bench.job("a");
    bench.settle(None);
    let running = bench.caches.all(&kinds::WORKLOADS).next().expect("it is there").tree.clone();
    bench.put(&kinds::WORKLOADS, running.with(&["spec", "maximumExecutionTimeSeconds"], 100));
    bench.job("b");
    bench.settle(None);
    let waits = bench.caches.all(&kinds::WORKLOADS).map(|it| WorkloadFacts::of(&it.tree));
    let waits = waits.into_iter().find(|it| !it.has_quota()).expect("one waits");
    let why = explained(asked(&mut bench, VisibilityQuery::Explain("ns".into(), waits.name)));
    let estimate = why.estimate.expect("there is a limit");
    assert_eq!(estimate.basis, EstimateBasis::RunTimeLimits);
    assert!(estimate.wait.as_secs() <= 100, "{estimate:?}");
}

#[test]
fn a_job_is_told_once_why_it_waits() {
    let mut bench = Bench::new();
    bench.job("a");
    bench.job("b");
    bench.settle(None);
    bench.it.engine.requeue_all_inadmissible();
    bench.due.insert(decide_key());
    bench.settle(None);
    let waits = |it: &&Event| it.regarding.kind == "Job" && it.reason == "WaitingForQuota";
    let told: Vec<&Event> = bench.notes.iter().filter(waits).collect();
    assert_eq!(told.len(), 1, "{:#?}", bench.notes);
    assert!(told[0].message.contains("insufficient unused quota for cpu in flavor f"), "{}", told[0].message);
}

/// Status updates of many pending Workloads are rate-limited, and unneeded ones are not sent.
#[test]
fn many_who_wait_take_turns_to_be_told_why() {
    let mut bench = Bench::new();
    let many = usize::try_from(BURST).unwrap() + 10;
    (0..=many).for_each(|n| bench.job(&format!("job-{n:02}")));
    let told = |bench: &Bench| {
        let about = |it: &&Event| it.regarding.kind == "Workload" && it.reason == "WaitingForQuota";
        bench.notes.iter().filter(about).count()
    };
    let began = bench.now;
    while let Some(key) = bench.due.pop_first() {
        bench.look_at(key, None);
    }
    assert_eq!((bench.now, told(&bench)), (began, many - 9), "at once");
    bench.settle(None);
    assert_eq!(told(&bench), many, "all but the one that runs");
    assert!(bench.now.since(began) >= UPDATE_INTERVAL * 9, "one after another");
    let unsaid = |it: &&ApiObject| {
        let conditions = it.tree.items_at(&["status", "conditions"]);
        conditions.iter().any(|it| it.str_at(&["reason"]) == "PendingEvaluation")
    };
    assert_eq!(bench.caches.all(&kinds::WORKLOADS).filter(unsaid).count(), 0);
}

fn pod(name: &str, marks: &Tree, phase: &str) -> Tree {
    object(name, "ns", &tree!({"status": {"phase": phase}}).merge(&tree!({"metadata": marks.clone()})))
}

/// Of pods only those are kept that are queued, and of those that ended only the ones that still count.
///
/// Shows: 976-67.
#[test]
fn pods_of_nobody_we_know_are_not_kept() {
    let queued = tree!({"labels": {"kueue.x-k8s.io/managed": "true"}});
    let held = queued.merge(&tree!({"finalizers": ["kueue.x-k8s.io/managed"]}));
    let none = tree!({});
    let mut it =
        ControlLoop::new(vec![Box::new(QueueController::new(settings()))], &[], RuntimeOptions::default());
    let mut revision = 0;
    let mut put = |tree: Tree| {
        revision += 1;
        ApiObject { tree, revision }
    };
    let list = vec![
        put(pod("runs", &held, "Running")),
        put(pod("ended", &held, "Failed")),
        put(pod("let-go", &queued, "Succeeded")),
        put(pod("other", &none, "Running")),
        put(pod("over", &none, "Succeeded")),
    ];
    it.observe(RuntimeInput::Watched(PODS.clone(), WatchBatch::Restarted(list)), Time(0));
    let kept = |it: &ControlLoop| -> Vec<String> {
        it.caches().all(&PODS).map(|pod| meta::name(&pod.tree).to_string()).collect()
    };
    assert_eq!(kept(&it), ["ended", "runs"], "a list");
    let changes = vec![
        WatchChange::Applied(put(pod("ended", &queued, "Failed"))),
        WatchChange::Applied(put(pod("other", &queued, "Running"))),
        WatchChange::Applied(put(pod("late", &none, "Pending"))),
    ];
    it.observe(RuntimeInput::Watched(PODS.clone(), WatchBatch::Changes(changes)), Time(0));
    assert_eq!(kept(&it), ["other", "runs"], "one is let go, and one is queued after all");
}

impl Bench {
    /// The number of ungated pods in the metrics.
    fn counted_open(&self) -> u64 {
        let samples = self.it.recorder.numbers().samples();
        let found = samples.iter().find(|it| it.name == "kueue_pod_scheduling_gate_removal_seconds");
        match found.map(|it| &it.value) {
            Some(MetricValue::Spans(spans)) => spans.count(),
            _ => 0,
        }
    }

    /// All metrics of a ClusterQueue, by name.
    fn told_of(&self, queue: &str) -> Vec<String> {
        let samples = self.it.recorder.numbers().samples();
        let its = |it: &&MetricSample| it.labels.iter().any(|(_, value)| value.as_str() == queue);
        samples.iter().filter(its).map(|it| it.name.clone()).collect()
    }

    fn gone(&mut self, kind: &Kind, namespace: &str, name: &str) {
        let old = self.caches.get(kind, &namespace.into(), &name.into()).expect("it is there").clone();
        if let Some(change) = self.caches.apply_watch_change(kind, WatchChange::Deleted(old)) {
            let wakes = self.it.map_event(&change.event(), &self.caches);
            self.due.extend(wakes.into_iter().map(|wake| wake.key));
        }
    }
}

/// A gate counts as removed when it is: not when that is planned, and not when it is refused.
#[test]
fn a_pod_that_is_let_go_counts_when_that_is_seen() {
    let mut bench = Bench::new();
    bench.member("a");
    bench.member("b");
    let group = pods::key_of(&muster_queue::pods::reconciler::PodReconcileKey::Group {
        namespace: "ns".into(),
        name: "g".into(),
    });
    bench.settle(None);
    assert_eq!((bench.opened(), bench.counted_open()), (2, 2));
    let gates = tree!([{"name": "kueue.x-k8s.io/admission"}]);
    let open = bench.caches.get(&PODS, &"ns".into(), &"a".into()).expect("it is there").tree.clone();
    bench.it.pods = pods::Pods::default();
    bench.member("b");
    bench.put(&PODS, open.with(&["spec", "schedulingGates"], gates));
    let plan = bench.it.reconcile(&group, &bench.caches, bench.now);
    let told = plan
        .steps
        .iter()
        .find_map(|step| if let Step::ParallelWithEvents(told) = step { Some(told) } else { None });
    let told = told.unwrap_or_else(|| panic!("they are let go again: {:?}", plan.steps));
    assert_eq!(bench.counted_open(), 2, "it is only planned");
    let why = ApiError::Invalid("no".to_owned());
    bench.it.on_request_error(&group, &told[0].0, &why, &bench.caches);
    bench.put(&PODS, open);
    assert_eq!(bench.counted_open(), 2, "what was refused is not counted, whoever did it instead");
}

#[test]
fn a_queue_that_is_gone_is_not_told_of_when_its_last_ones_end() {
    let mut bench = Bench::new();
    bench.it.initial_requests(&Caches::default(), Time(0));
    bench.job("a");
    bench.settle(None);
    assert!(
        bench.told_of("cq").contains(&"kueue_admitted_workloads_total".to_owned()),
        "{:?}",
        bench.told_of("cq")
    );
    bench.gone(&kinds::LOCAL_QUEUES, "ns", "lq");
    bench.gone(&kinds::CLUSTER_QUEUES, "", "cq");
    bench.end("a");
    bench.settle(None);
    let ended = bench.caches.all(&kinds::WORKLOADS).map(|it| WorkloadFacts::of(&it.tree));
    assert_eq!(ended.filter(WorkloadFacts::is_finished).count(), 1, "it ended");
    assert_eq!((bench.told_of("cq"), bench.told_of("lq")), (Vec::new(), Vec::new()));
}

#[test]
fn a_job_that_cannot_be_queued_is_told_once_a_minute() {
    let mut bench = Bench::new();
    bench.job("a");
    let job = bench.caches.get(&JOBS, &"ns".into(), &"a".into()).expect("it is there").tree.clone();
    bench.put(&JOBS, job.with(&["metadata", "labels", "kueue.x-k8s.io/priority-class"], "none"));
    let key = ObjectKey::new(&JOBS, &"ns".into(), &"a".into());
    let mut told = Vec::new();
    for secs in [0, 1, 59, 60] {
        let now = bench.now + std::time::Duration::from_secs(secs);
        let plan = bench.it.reconcile(&key, &bench.caches, now);
        told.push(plan.steps.iter().filter(|step| matches!(step, Step::Event(_))).count());
    }
    assert_eq!(told, [1, 0, 0, 1]);
}

#[test]
fn a_priority_that_a_user_writes_stays_until_its_class_changes() {
    let mut bench = Bench::new();
    let class = |value: i64| object("high", "", &tree!({"value": value}));
    let reference = tree!({"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"});
    let pods = tree!({"name": "main", "count": 1, "template": {"spec": {"containers": []}}});
    let spec = tree!({"queueName": "none", "priority": 3, "priorityClassRef": reference, "podSets": [pods]});
    bench.put(&kinds::PRIORITY_CLASSES, class(10));
    bench.settle(None);
    bench.put(&kinds::WORKLOADS, object("w", "ns", &tree!({"spec": spec})));
    assert_eq!(bench.settled_priority(), 3, "a user's own Workload");
    bench.put(&kinds::PRIORITY_CLASSES, class(20));
    assert_eq!(bench.settled_priority(), 20, "another value");
    bench.prioritize(5);
    assert_eq!(bench.settled_priority(), 5, "what a user writes stays");
    bench.put(&kinds::PRIORITY_CLASSES, class(20).with(&["description"], "the same value"));
    assert_eq!(bench.settled_priority(), 5, "the class has the value that it had");
    bench.crash();
    assert_eq!(bench.settled_priority(), 20, "a new leader sees the class for the first time");
    // The first of two values is written, and that is seen, after the second one is.
    bench.put(&kinds::PRIORITY_CLASSES, class(30));
    let key = ObjectKey::new(&kinds::PRIORITY_CLASSES, &Text::new(), &"high".into());
    bench.look_at(key, None);
    let workload = ObjectKey::new(&kinds::WORKLOADS, &"ns".into(), &"w".into());
    let written = bench.it.reconcile(&workload, &bench.caches, bench.now);
    assert_eq!(written.steps.len(), 1, "{:?}", written.steps);
    bench.put(&kinds::PRIORITY_CLASSES, class(40));
    bench.prioritize(30);
    assert_eq!(bench.settled_priority(), 40, "the last one counts");
}

/// The status of a LocalQueue is computed when it may be written, however often its Workloads change.
#[test]
fn a_queue_whose_numbers_were_just_told_is_not_counted() {
    let mut bench = Bench::new();
    bench.job("a");
    bench.settle(None);
    for (kind, namespace, name) in [(&kinds::LOCAL_QUEUES, "ns", "lq"), (&kinds::CLUSTER_QUEUES, "", "cq")] {
        let key = ObjectKey::new(kind, &namespace.into(), &name.into());
        let told = bench.now;
        bench.it.status_written_at.insert(key.clone(), told);
        let plan = bench.it.reconcile(&key, &bench.caches, told);
        assert!(plan.steps.is_empty() && plan.requeue_at > Some(told), "{name}: {plan:?}");
    }
}

/// A pod by itself that is gone lets its Workload go, which is found by the pod's name.
#[test]
fn the_workload_of_a_pod_that_is_gone_is_found() {
    let mut bench = Bench::new();
    bench.member("a");
    let pod = bench.caches.get(&PODS, &"ns".into(), &"a".into()).expect("it is there").tree.clone();
    let alone = ["labels", "annotations"].iter().fold(pod, |pod, of| {
        let kept = pod.at(&["metadata", of]).cloned().unwrap_or_default();
        let kept =
            kept.entries().iter().filter(|(key, _)| !key.contains("pod-group") && !key.contains("gang"));
        pod.with(&["metadata", of], Tree::map(kept.cloned().collect::<Vec<_>>()))
    });
    bench.put(&PODS, alone.without(&["spec", "workloadRef"]));
    bench.settle(None);
    let held = |bench: &Bench| -> Vec<usize> {
        let all = bench.caches.all(&kinds::WORKLOADS);
        all.map(|it| it.tree.items_at(&["metadata", "finalizers"]).len()).collect()
    };
    assert_eq!(held(&bench), [1], "it has a Workload");
    bench.gone(&PODS, "ns", "a");
    bench.settle(None);
    assert_eq!(held(&bench), [0], "nothing keeps it any more");
}

/// A failed creation is reported to the owner once, however often it is retried.
#[test]
fn whoever_gets_no_workload_is_told_why() {
    let mut bench = Bench::new();
    bench.job("j");
    bench.member("a");
    bench.member("b");
    let job = ObjectKey::new(&JOBS, &"ns".into(), &"j".into());
    let group = pods::key_of(&muster_queue::pods::reconciler::PodReconcileKey::Group {
        namespace: "ns".into(),
        name: "g".into(),
    });
    let full = || ApiError::Forbidden("quota is used up".to_owned());
    let mut refused = Vec::new();
    for (key, about) in [(&job, "Job j"), (&group, "Pod a")] {
        let plan = bench.it.reconcile(key, &bench.caches, bench.now);
        let create = plan.steps.into_iter().find_map(|step| match step {
            Step::Request(call) if matches!(call.verb, RequestVerb::Create(_)) => Some(call),
            _ => None,
        });
        let create = create.expect("a Workload is made");
        let mut told = |why: ApiError| {
            let event = bench.it.on_request_error(key, &create, &why, &bench.caches)?;
            assert_eq!(event.event_type, EventType::Warning);
            Some(format!(
                "{} {}: {}: {}",
                event.regarding.kind, event.regarding.name, event.reason, event.message
            ))
        };
        assert_eq!(told(ApiError::Indeterminate("lost".to_owned())), None, "it may have been made");
        assert_eq!(told(ApiError::AlreadyExists("there".to_owned())), None, "somebody was quicker");
        let leaving = ApiError::Forbidden("no new content because it is being terminated".to_owned());
        assert_eq!(told(leaving), None, "all of it goes");
        let want = format!(
            "{about}: ErrWorkloadCompose: Failed to create Workload {}: quota is used up",
            create.target.name
        );
        assert_eq!(told(full()), Some(want));
        assert_eq!(told(full()), None, "the same words once");
        assert!(told(ApiError::Invalid("spec: wrong".to_owned())).is_some(), "other words are news");
        assert!(told(full()).is_some(), "and so are the first ones after them");
        refused.push((key, create));
    }
    bench.settle(None);
    assert_eq!(bench.caches.count(&kinds::WORKLOADS), 2, "both are made at last");
    for (key, create) in refused {
        assert!(
            bench.it.on_request_error(key, &create, &full(), &bench.caches).is_some(),
            "it had one meanwhile"
        );
    }
}
