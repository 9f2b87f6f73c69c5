//! A simulated API server with one Workload and its queues: reconciles until converged.

use std::time::Duration;

use muster_api::queue::{
    Admission, AdmissionStatus, ClusterQueueFacts, LocalQueueFacts, PodSetAssignment, PriorityClassFacts,
    StopPolicy, WorkloadFacts,
};
use muster_api::time::Time;
use muster_queue::reconcilers::admission::{
    self, NewReservation, PendingUpdate, PreemptedReason, PreemptionSide,
};
use muster_queue::reconcilers::event_dedup::EventDeduplicator;
use muster_queue::reconcilers::pending_reason::PendingReason;
use muster_queue::reconcilers::settings::{PodsReadyPolicy, ReasonFormat, ReconcilerSettings};
use muster_queue::reconcilers::transitions::{self, Requeueability};
use muster_queue::reconcilers::workload::{
    Action, ClusterQueueView, WorkloadSnapshot, reconcile, status_update_actions, wake_at,
};
use muster_queue::reconcilers::{StatusBase, StatusUpdate, UpdateContext};
use muster_tree::{Text, Tree, tree};

use super::lines;

/// Bound on the reconciliations until convergence.
const PASSES_MAX: usize = 12;

/// When the controller crashes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    Never,
    /// After each write, before its events are emitted; memory is lost.
    AfterEachWrite,
}

pub struct World {
    pub workload: Tree,
    pub writes: u64,
    is_gone: bool,
    local: Option<Tree>,
    cluster: Option<Tree>,
    class: Option<Tree>,
    settings: ReconcilerSettings,
    told: EventDeduplicator,
    pub now: Time,
    lines: Vec<String>,
}

impl World {
    pub fn of(case: &Tree) -> World {
        let part = |key: &str, base: Tree| match case.get(key) {
            Some(Tree::Null) => None,
            Some(patch) => Some(base.merge(patch)),
            None => Some(base),
        };
        let mut world = World {
            workload: workload(&case.get("workload").cloned().unwrap_or_else(Tree::empty_map)),
            writes: 0,
            is_gone: false,
            local: part(
                "local",
                tree!({"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}),
            ),
            cluster: part("cluster", cluster_queue()),
            class: case.get("class").cloned(),
            settings: settings(case.get("settings").unwrap_or(&Tree::Null)),
            told: EventDeduplicator::default(),
            now: lines::at(0),
            lines: Vec::new(),
        };
        world.now = lines::at(case.int_at(&["at"]).unwrap_or(0));
        world
    }

    /// Applies an event and reconciles until converged.
    pub fn play(&mut self, step: &Tree, crash: Crash) -> Vec<String> {
        self.lines.clear();
        if let Some(secs) = step.int_at(&["at"]) {
            self.now = lines::at(secs);
        }
        for (what, how) in step.entries_at(&["do"]) {
            self.happen(what, how, crash);
        }
        self.settle(crash);
        std::mem::take(&mut self.lines)
    }

    pub fn settle(&mut self, crash: Crash) {
        if self.is_gone {
            return;
        }
        for _ in 0..PASSES_MAX {
            let all = self.plan();
            let wrote = self.perform(&all, crash);
            if !wrote || self.is_gone {
                let again = wake_at(&all).map(|at| format!("again {}", lines::stamp(at)));
                self.lines.extend(again);
                return;
            }
        }
        panic!("it never rests: {:#?}", self.lines);
    }

    fn plan(&self) -> Vec<Action> {
        let (facts, status) = (self.facts(), self.status());
        let local = self.local.as_ref().map(LocalQueueFacts::of);
        let cluster = self.cluster.as_ref().map(ClusterQueueFacts::of);
        let class = self.class.as_ref().map(PriorityClassFacts::of);
        let queue = cluster.as_ref().map(|facts| ClusterQueueView { facts, active: facts.active });
        reconcile(&WorkloadSnapshot {
            workload: &facts,
            status: &status,
            local_queue: local.as_ref(),
            cluster_queue: queue,
            priority_class: class.as_ref(),
            settings: &self.settings,
            now: self.now,
        })
    }

    /// Whether its queues are active.
    pub fn is_running(&self) -> bool {
        let cluster = self.cluster.as_ref().map(ClusterQueueFacts::of);
        let local = self.local.as_ref().map(LocalQueueFacts::of);
        cluster.is_some_and(|it| it.active) && local.is_some_and(|it| it.stop == StopPolicy::None)
    }

    pub fn facts(&self) -> WorkloadFacts {
        WorkloadFacts::of(&self.workload)
    }

    fn status(&self) -> AdmissionStatus {
        AdmissionStatus::of(&self.workload)
    }

    /// Performs actions in order; returns whether one of them wrote.
    fn perform(&mut self, all: &[Action], crash: Crash) -> bool {
        let mut wrote = false;
        for action in all {
            let is_write = self.write(action);
            assert!(!(wrote && is_write), "one pass writes one thing: {all:?}");
            wrote |= is_write;
            if is_write && crash == Crash::AfterEachWrite {
                self.told = EventDeduplicator::default();
                return true;
            }
            match action {
                Action::Note(note) => self.lines.push(lines::note_line(note)),
                Action::RecordMetric(it) => self.lines.push(lines::count_line(it)),
                _ => (),
            }
        }
        wrote
    }

    fn write(&mut self, action: &Action) -> bool {
        let changed = match action {
            Action::Write(status) => {
                self.lines.extend(lines::changes(&self.status(), status));
                let others = self.conditions_of_others();
                let body = status.body();
                let own = body.items_at(&["status", "conditions"]).iter().cloned();
                let conditions = Tree::list(own.chain(others));
                let left = body.at(&["status"]).cloned().unwrap_or_default();
                self.workload.with(&["status"], left.with(&["conditions"], conditions))
            }
            Action::Deactivate => self.said("deactivate", &tree!({"spec": {"active": false}})),
            Action::SetPriority(n) => {
                let words = format!("priority {n}");
                self.said(&words, &tree!({"spec": {"priority": *n}}))
            }
            Action::RemoveFinalizer => {
                self.said("drop finalizer", &tree!({"metadata": {"finalizers": Tree::Null}}))
            }
            Action::Delete => {
                self.lines.push("delete".to_owned());
                self.is_gone = true;
                self.writes += 1;
                return true;
            }
            Action::Note(_) | Action::RecordMetric(_) | Action::RequeueAt(_) => return false,
        };
        assert_ne!(changed, self.workload, "a write that changes nothing: {action:?}");
        self.workload = changed;
        self.writes += 1;
        true
    }

    fn said(&mut self, words: &str, patch: &Tree) -> Tree {
        self.lines.push(words.to_owned());
        self.workload.merge(patch)
    }

    fn conditions_of_others(&self) -> Vec<Tree> {
        let own = muster_api::queue::consts::conditions::OF_ADMISSION;
        let all = self.workload.items_at(&["status", "conditions"]).iter();
        all.filter(|it| !own.contains(&it.str_at(&["type"]))).cloned().collect()
    }

    /// Applies an external event.
    fn happen(&mut self, what: &str, how: &Tree, crash: Crash) {
        let at = UpdateContext { now: self.now, format: self.settings.wording };
        let (facts, status) = (self.facts(), self.status());
        let known = StatusBase { workload: &facts, status: &status };
        let written = match what {
            "reserve" => Some(self.reserve(known, how, at)),
            "refuse" => {
                let why = PendingReason::from_condition_reason(how.str_at(&["why"])).expect("a reason");
                let requests = vec![("main".into(), [("cpu".into(), 1500)].into())];
                let refusal = match why {
                    PendingReason::WaitingForPodsReady => PendingUpdate::waiting_for_pods_ready(requests),
                    _ => {
                        PendingUpdate { reason: why, message: how.str_at(&["message"]).to_owned(), requests }
                    }
                };
                Some(admission::set_pending(known, &refusal, &mut self.told, at))
            }
            "preempt" => self.preempt(known, how, at),
            "release" => {
                let comeback = if how.as_str() == Some("never") {
                    Requeueability::Never
                } else {
                    Requeueability::Possible
                };
                transitions::release_quota(known, comeback, at)
            }
            "ready" => {
                transitions::set_pods_ready(known, how.as_bool() == Some(true), &self.settings, self.now)
            }
            "hold" => transitions::put_on_hold(known, how.as_str().unwrap_or_default(), at),
            "unhold" => transitions::end_hold(known, at),
            "finish" => transitions::finish(known, how.str_at(&["reason"]), how.str_at(&["message"]), at),
            other => {
                self.change(other, how);
                None
            }
        };
        if let Some(written) = written {
            self.perform(&status_update_actions(written), crash);
        }
    }

    fn change(&mut self, what: &str, how: &Tree) {
        match what {
            "check" => {
                let new = lines::check_tree(how.as_str().expect("a check"));
                let all = self.workload.items_at(&["status", "admissionChecks"]).iter();
                let all =
                    all.map(|it| if it.get("name") == new.get("name") { new.clone() } else { it.clone() });
                self.workload = self.workload.with(&["status", "admissionChecks"], Tree::list(all));
            }
            "workload" => self.workload = self.workload.merge(how),
            "local" if how.is_null() => self.local = None,
            "local" => self.local = Some(self.local.clone().unwrap_or_default().merge(how)),
            "cluster" if how.is_null() => self.cluster = None,
            "cluster" => self.cluster = Some(self.cluster.clone().unwrap_or_else(cluster_queue).merge(how)),
            "class" => self.class = Some(how.clone()),
            other => panic!("{other}?"),
        }
    }

    fn reserve(&self, known: StatusBase<'_>, how: &Tree, at: UpdateContext) -> StatusUpdate {
        let queue = ClusterQueueFacts::of(self.cluster.as_ref().expect("a queue"));
        let assignment = PodSetAssignment {
            name: "main".into(),
            flavors: [("cpu".into(), Text::from(how.as_str().unwrap_or("default")))].into(),
            usage: [("cpu".into(), 1500)].into(),
            count: Some(1),
            ..PodSetAssignment::default()
        };
        let admission = Admission { cluster_queue: "cq".into(), assignments: vec![assignment] };
        admission::reserve_quota(
            known,
            &NewReservation { admission, queue: &queue, considered: String::new() },
            at,
        )
    }

    fn preempt(&mut self, known: StatusBase<'_>, how: &Tree, at: UpdateContext) -> Option<StatusUpdate> {
        let why = PreemptedReason::ALL.into_iter().find(|it| it.condition_reason() == how.str_at(&["why"]));
        let other = WorkloadFacts::of(how.at(&["by"]).unwrap_or(&Tree::Null));
        let preemptor = PreemptionSide {
            workload: &other,
            path: how.str_at(&["path"]),
            cluster_queue: "other",
            boost: 5,
        };
        let victim =
            PreemptionSide { workload: known.workload, path: "/all/cq", cluster_queue: "cq", boost: 0 };
        let done = admission::preempt(known, victim, preemptor, why.expect("a reason"), at)?;
        self.lines.push(format!("preemptor {}", lines::note_line(&done.preemptor_event)));
        Some(done.victim)
    }
}

fn workload(case: &Tree) -> Tree {
    let base = tree!({"metadata": {"name": "w", "namespace": "ns", "uid": "wl-uid", "generation": 1,
            "creationTimestamp": lines::at(0).to_seconds_text(), "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": true}]},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": {}}]}});
    let text = |key: &str| case.str_at(&[key]).lines().filter(|it| !it.is_empty()).collect::<Vec<_>>();
    let conditions = Tree::list(text("conditions").into_iter().map(lines::condition_tree));
    let checks = Tree::list(text("checks").into_iter().map(lines::check_tree));
    let mut all = base.merge(&case.without_key("conditions").without_key("checks").without_key("given"));
    if !conditions.is_empty() {
        all = all.with(&["status", "conditions"], conditions);
    }
    if !checks.is_empty() {
        all = all.with(&["status", "admissionChecks"], checks);
    }
    match case.str_at(&["given"]) {
        "" => all,
        flavor => {
            let admission = tree!({"clusterQueue": "cq", "podSetAssignments": [
                {"name": "main", "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": "1500m"}, "count": 1}]});
            all.with(&["status", "admission"], admission)
        }
    }
}

fn cluster_queue() -> Tree {
    let flavor = |name: &str| tree!({"name": name, "resources": [{"name": "cpu", "nominalQuota": "4"}]});
    tree!({"metadata": {"name": "cq", "uid": "cq-uid"},
        "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [(flavor("default")), (flavor("spot"))]}]},
        "status": {"conditions": [(lines::condition_tree("Active=True Ready @0 \"Can admit new workloads\""))]}})
}

fn settings(case: &Tree) -> ReconcilerSettings {
    let secs = |tree: &Tree, key: &str| {
        tree.int_at(&[key]).and_then(|n| u64::try_from(n).ok()).map(Duration::from_secs)
    };
    let ready = case.get("ready").map(|it| PodsReadyPolicy {
        timeout: secs(it, "timeout").unwrap_or(Duration::from_secs(300)),
        recovery_timeout: secs(it, "recovery"),
        backoff_limit: it.int_at(&["limit"]).and_then(|n| u32::try_from(n).ok()),
        backoff_base: secs(it, "base").unwrap_or(Duration::from_secs(60)),
        ..PodsReadyPolicy::default()
    });
    ReconcilerSettings {
        pods_ready: ready,
        delete_finished_after: secs(case, "afterFinished"),
        delete_deactivated_after: None,
        wording: if case.bool_at(&["old"]) == Some(true) {
            ReasonFormat::Legacy
        } else {
            ReasonFormat::Detailed
        },
    }
}
