//! A simulated API server with one job and its Workloads; it performs actions and plays the other controllers.

use std::collections::BTreeMap;

use muster_api::client::Subresource;
use muster_api::meta;
use muster_api::queue::consts::finalizers;
use muster_api::queue::{AdmissionStatus, Condition, reclaimable_body};
use muster_api::time::Time;
use muster_queue::jobs::reconciler::{
    self, JobAncestry, JobEventObject, JobReconcilerAction, JobReconcilerSettings, QueuedJobSnapshot,
    WorkloadView, prebuilt_of,
};
use muster_tree::{Text, Tree, tree};

use super::kinds::work;
use super::{Known, flavor, text};

pub fn now() -> Time {
    Time::parse("2026-01-01T00:00:00Z").unwrap()
}

#[derive(Clone)]
pub struct World {
    /// None once it is deleted.
    pub job: Option<Tree>,
    pub workloads: BTreeMap<Text, Tree>,
    pub events: Vec<String>,
    pub settings: JobReconcilerSettings,
    pub above: JobAncestry,
    pub is_selected: bool,
    made: u32,
}

impl World {
    pub fn of(job: &Tree) -> World {
        World {
            job: Some(job.clone()),
            workloads: BTreeMap::new(),
            events: Vec::new(),
            settings: JobReconcilerSettings::default(),
            above: JobAncestry::Unmanaged,
            is_selected: true,
            made: 0,
        }
    }

    pub fn put(&mut self, workload: &Tree) {
        self.workloads.insert(meta::name(workload), workload.clone());
    }

    pub fn job(&self) -> &Tree {
        self.job.as_ref().unwrap()
    }

    pub fn workload(&self) -> &Tree {
        assert_eq!(self.workloads.len(), 1, "{:?}", self.workloads.keys());
        self.workloads.values().next().unwrap()
    }

    /// The actions of a reconciliation now.
    pub fn plan(&self) -> Vec<JobReconcilerAction> {
        let Some(job) = &self.job else {
            let all: Vec<WorkloadView<'_>> = self.workloads.values().map(WorkloadView::of).collect();
            return reconciler::reconcile_deleted(&all, now());
        };
        let job_uid = meta::uid(job);
        let is_own = |it: &&Tree| meta::controller_of(it).is_some_and(|owner| owner.uid == job_uid);
        let own: Vec<WorkloadView<'_>> =
            self.workloads.values().filter(is_own).map(WorkloadView::of).collect();
        let prebuilt = prebuilt_of(job).and_then(|name| self.workloads.get(&name)).map(WorkloadView::of);
        let work = work(job);
        reconciler::reconcile(&QueuedJobSnapshot {
            job: &*work,
            is_selected: self.is_selected,
            ancestry: self.above.clone(),
            workloads: &own,
            prebuilt: prebuilt.as_ref(),
            flavor: &flavor,
            classes: &Known,
            settings: &self.settings,
            now: now(),
        })
    }

    pub fn settle(&mut self) {
        for _ in 0..20 {
            let steps = self.plan();
            if steps.iter().all(|it| matches!(it, JobReconcilerAction::Note(..))) {
                return;
            }
            for step in &steps {
                self.act(step);
            }
        }
        panic!("never settles: {:?}", self.plan());
    }

    /// Reconciles with a crash after each write: the remaining actions are lost.
    pub fn settle_with_crashes(&mut self) {
        for _ in 0..60 {
            let steps = self.plan();
            let Some(step) = steps.iter().find(|it| !matches!(it, JobReconcilerAction::Note(..))) else {
                return;
            };
            self.act(step);
        }
        panic!("never settles: {:?}", self.plan());
    }

    /// Reconciles with every write done twice.
    pub fn settle_twice(&mut self) {
        for _ in 0..20 {
            let steps = self.plan();
            if steps.iter().all(|it| matches!(it, JobReconcilerAction::Note(..))) {
                return;
            }
            for step in &steps {
                self.act(step);
                if !matches!(step, JobReconcilerAction::Note(..)) {
                    self.act(step);
                }
            }
        }
        panic!("never settles: {:?}", self.plan());
    }

    /// Performs one action as an API server would.
    pub fn act(&mut self, step: &JobReconcilerAction) {
        match step {
            JobReconcilerAction::CreateWorkload(tree) => self.create(tree),
            JobReconcilerAction::PatchWorkload(this, patch) => self.change(&this.name, |it| it.merge(patch)),
            JobReconcilerAction::RemoveFinalizer(this) => {
                self.change(&this.name, |it| {
                    it.merge(&meta::remove_finalizer_merge_patch(it, finalizers::IN_USE))
                });
                self.sweep();
            }
            JobReconcilerAction::DeleteWorkload(this) => {
                self.change(&this.name, |it| {
                    it.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z")
                });
                self.sweep();
            }
            JobReconcilerAction::SetCondition(this, condition) => self.tell(&this.name, condition.clone()),
            JobReconcilerAction::SetReclaimablePods(this, pods) => {
                let body = reclaimable_body(&text("n"), &this.name, pods);
                self.change(&this.name, |it| it.merge(&tree!({"status": body.get("status").unwrap()})));
            }
            JobReconcilerAction::ReleaseQuota(this) => self.release(&this.name),
            JobReconcilerAction::PatchJob(change) => {
                let job = self.job();
                let is_allowed = match change.part {
                    Subresource::Main => may_change(job, &job.merge(&change.patch)),
                    _ => change.patch.get("status").is_some(),
                };
                assert!(is_allowed, "no server takes {} of {job}", change.patch);
                self.job = Some(job.merge(&change.patch));
            }
            JobReconcilerAction::Note(about, _, reason, message) => {
                let on = if matches!(about, JobEventObject::Job) { "" } else { "workload " };
                self.events.push(format!("{on}{reason}: {message}"));
            }
        }
    }

    fn create(&mut self, tree: &Tree) {
        let name = meta::name(tree);
        if self.workloads.contains_key(&name) {
            return;
        }
        self.made += 1;
        self.workloads.insert(name, tree.with(&["metadata", "uid"], format!("wl-{}", self.made)));
    }

    pub fn change(&mut self, name: &Text, change: impl FnOnce(&Tree) -> Tree) {
        if let Some(old) = self.workloads.get(name) {
            let new = change(old);
            self.workloads.insert(name.clone(), new);
        }
    }

    fn sweep(&mut self) {
        self.workloads.retain(|_, it| meta::deletion_timestamp(it).is_none() || meta::has_finalizers(it));
    }

    pub fn tell(&mut self, name: &Text, condition: Condition) {
        self.change(name, |it| {
            let mut status = AdmissionStatus::of(it);
            status.set(condition);
            applied(it, &status)
        });
    }

    /// Reserves quota in one flavor and admits the Workload, for `count` pods of each set if given.
    pub fn admit(&mut self, flavor: &str, count: Option<u32>) {
        let name = meta::name(self.workload());
        self.change(&name, |it| {
            let set = |set: &Tree| {
                let name = set.text_at(&["name"]);
                let count = count.map_or_else(|| set.get("count").cloned().unwrap(), Tree::from);
                tree!({"name": name, "count": count, "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": "12"}})
            };
            let assignments = Tree::list(it.items_at(&["spec", "podSets"]).iter().map(set));
            it.with(&["status", "admission"], tree!({"clusterQueue": "cq", "podSetAssignments": assignments}))
        });
        for kind in ["QuotaReserved", "Admitted"] {
            self.tell(&name, Condition::new(kind, true, kind, "", now()));
        }
        if self.workload().at(&["status", "conditions"]).is_some_and(|it| it.to_json().contains("Evicted")) {
            self.tell(&name, Condition::new("Evicted", false, "QuotaReserved", "Previously: x", now()));
        }
    }

    pub fn evict(&mut self) {
        let name = meta::name(self.workload());
        self.tell(
            &name,
            Condition::new("Evicted", true, "Preempted", "Preempted to accommodate another", now()),
        );
    }

    fn release(&mut self, name: &Text) {
        self.change(name, |it| {
            let mut status = AdmissionStatus::of(it);
            status.admission = None;
            for kind in ["QuotaReserved", "Admitted"] {
                status.set(Condition::new(kind, false, "Pending", "", now()));
            }
            applied(it, &status)
        });
    }

    /// Merges a status as the job's controller would.
    pub fn status(&mut self, status: &Tree) {
        let job = self.job().merge(&tree!({"status": status}));
        self.job = Some(job);
    }
}

fn applied(workload: &Tree, status: &AdmissionStatus) -> Tree {
    let others = workload.at(&["status", "reclaimablePods"]).cloned();
    let status = status.body().get("status").cloned().unwrap_or_default();
    workload.with(&["status"], status.with_option(&["reclaimablePods"], others))
}

/// Immutability rules: templates of Jobs change only while suspended without `startTime` and active pods, patches
/// of TrainJobs only while suspended without active Jobs.
fn may_change(old: &Tree, new: &Tree) -> bool {
    if old.str_at(&["kind"]) == "TrainJob" {
        let is_active = |it: &Tree| it.int_at(&["active"]).is_some_and(|active| active > 0);
        let is_free = old.bool_at(&["spec", "suspend"]) == Some(true)
            && !old.items_at(&["status", "jobsStatus"]).iter().any(is_active);
        return is_free || old.at(&["spec", "runtimePatches"]) == new.at(&["spec", "runtimePatches"]);
    }
    if old.str_at(&["kind"]) != "Job" {
        let stands = [old, new].iter().any(|it| it.bool_at(&["spec", "suspend"]) == Some(true));
        return stands || old.at(&["spec", "replicatedJobs"]) == new.at(&["spec", "replicatedJobs"]);
    }
    let is_free = old.bool_at(&["spec", "suspend"]) == Some(true)
        && old.at(&["status", "startTime"]).is_none_or(Tree::is_null)
        && old.int_at(&["status", "active"]).unwrap_or(0) == 0;
    is_free || old.at(&["spec", "template"]) == new.at(&["spec", "template"])
}
