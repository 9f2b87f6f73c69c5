//! A small world in which plans are carried out: one job, its Workloads, and hands that play the other parts.

use std::collections::BTreeMap;

use muster_api::meta;
use muster_api::port::Part;
use muster_api::queue::words::finalizers;
use muster_api::queue::{AdmissionStatus, Condition, reclaimable_body};
use muster_api::time::Time;
use muster_queue::jobs::plan::{self, About, Above, Action, Observed, Seen, Settings, plan, prebuilt_of};
use muster_tree::{Text, Tree, tree};

use super::kinds::work;
use super::{Known, flavor, text};

/// The instant of all tests.
pub fn now() -> Time {
    Time::parse("2026-01-01T00:00:00Z").unwrap()
}

/// One job and what belongs to it.
#[derive(Clone)]
pub struct World {
    /// The job; `None` once it is gone.
    pub job: Option<Tree>,
    /// Workloads by name.
    pub workloads: BTreeMap<Text, Tree>,
    /// Events, in order.
    pub events: Vec<String>,
    /// What is configured.
    pub settings: Settings,
    /// What is above the job.
    pub above: Above,
    /// Whether its namespace is managed.
    pub is_selected: bool,
    /// Workloads made so far.
    made: u32,
}

impl World {
    /// A world with this job.
    pub fn of(job: &Tree) -> World {
        World {
            job: Some(job.clone()),
            workloads: BTreeMap::new(),
            events: Vec::new(),
            settings: Settings::default(),
            above: Above::Nothing,
            is_selected: true,
            made: 0,
        }
    }

    /// Puts a Workload there.
    pub fn put(&mut self, workload: &Tree) {
        self.workloads.insert(meta::name(workload), workload.clone());
    }

    /// The job as it is.
    pub fn job(&self) -> &Tree {
        self.job.as_ref().unwrap()
    }

    /// The only Workload.
    pub fn workload(&self) -> &Tree {
        assert_eq!(self.workloads.len(), 1, "{:?}", self.workloads.keys());
        self.workloads.values().next().unwrap()
    }

    /// What is planned now.
    pub fn plan(&self) -> Vec<Action> {
        let Some(job) = &self.job else {
            let all: Vec<Seen<'_>> = self.workloads.values().map(Seen::of).collect();
            return plan::plan_gone(&all, now());
        };
        let job_uid = meta::uid(job);
        let is_own = |it: &&Tree| meta::controller(it).is_some_and(|owner| owner.uid == job_uid);
        let own: Vec<Seen<'_>> = self.workloads.values().filter(is_own).map(Seen::of).collect();
        let prebuilt = prebuilt_of(job).and_then(|name| self.workloads.get(&name)).map(Seen::of);
        let work = work(job);
        plan(&Observed {
            job: &*work,
            is_selected: self.is_selected,
            above: self.above.clone(),
            workloads: &own,
            prebuilt: prebuilt.as_ref(),
            flavor: &flavor,
            classes: &Known,
            settings: &self.settings,
            now: now(),
        })
    }

    /// Plans and does everything until nothing is left to do.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            let steps = self.plan();
            if steps.iter().all(|it| matches!(it, Action::Note(..))) {
                return;
            }
            for step in &steps {
                self.act(step);
            }
        }
        panic!("never settles: {:?}", self.plan());
    }

    /// The same with a crash after each write: what was planned after it is lost.
    pub fn settle_with_crashes(&mut self) {
        for _ in 0..60 {
            let steps = self.plan();
            let Some(step) = steps.iter().find(|it| !matches!(it, Action::Note(..))) else { return };
            self.act(step);
        }
        panic!("never settles: {:?}", self.plan());
    }

    /// The same with every write done twice, the second time on what the first one left, as far as it still can be.
    pub fn settle_twice(&mut self) {
        for _ in 0..20 {
            let steps = self.plan();
            if steps.iter().all(|it| matches!(it, Action::Note(..))) {
                return;
            }
            for step in &steps {
                self.act(step);
                if !matches!(step, Action::Note(..)) {
                    self.act(step);
                }
            }
        }
        panic!("never settles: {:?}", self.plan());
    }

    /// Does one step, as an API server would.
    pub fn act(&mut self, step: &Action) {
        match step {
            Action::CreateWorkload(tree) => self.create(tree),
            Action::PatchWorkload(this, patch) => self.change(&this.name, |it| it.merge(patch)),
            Action::DropFinalizer(this) => {
                self.change(&this.name, |it| it.merge(&meta::without_finalizer(it, finalizers::IN_USE)));
                self.sweep();
            }
            Action::DeleteWorkload(this) => {
                self.change(&this.name, |it| {
                    it.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z")
                });
                self.sweep();
            }
            Action::SetCondition(this, condition) => self.tell(&this.name, condition.clone()),
            Action::SetReclaimable(this, pods) => {
                let body = reclaimable_body(&text("n"), &this.name, pods);
                self.change(&this.name, |it| it.merge(&tree!({"status": body.get("status").unwrap()})));
            }
            Action::ReleaseQuota(this) => self.release(&this.name),
            Action::ChangeJob(change) => {
                let job = self.job();
                let is_allowed = match change.part {
                    Part::Main => may_change(job, &job.merge(&change.patch)),
                    _ => change.patch.get("status").is_some(),
                };
                assert!(is_allowed, "no server takes {} of {job}", change.patch);
                self.job = Some(job.merge(&change.patch));
            }
            Action::Note(about, _, reason, message) => {
                let on = if matches!(about, About::Job) { "" } else { "workload " };
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

    /// Changes a Workload that is there.
    pub fn change(&mut self, name: &Text, change: impl FnOnce(&Tree) -> Tree) {
        if let Some(old) = self.workloads.get(name) {
            let new = change(old);
            self.workloads.insert(name.clone(), new);
        }
    }

    fn sweep(&mut self) {
        self.workloads.retain(|_, it| meta::deleting(it).is_none() || meta::has_finalizers(it));
    }

    /// Sets a condition that admission owns.
    pub fn tell(&mut self, name: &Text, condition: Condition) {
        self.change(name, |it| {
            let mut status = AdmissionStatus::of(it);
            status.set(condition);
            applied(it, &status)
        });
    }

    /// Plays the queue: the Workload gets its share in one flavor, for `count` pods of each set if that is said.
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

    /// Plays the queue: the Workload has to leave.
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

    /// Plays the job's controller: a part of its status.
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

/// The rule of Jobs: templates change only while they stand still, have no start and no active pods; patches of TrainJobs
/// only while those stand still and none of their Jobs is active.
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
