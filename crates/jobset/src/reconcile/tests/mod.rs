//! Reconciliation without a server: actions are applied to trees until the JobSet converges.

mod basics;
mod claims;
mod failures;
mod gangs;
mod pauses;
mod stalls;
mod volumes;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{ApiObject, Kind, Uid};
use muster_api::consts::jobset as words;
use muster_api::gang_objects::GangSupport;
use muster_api::jobset::JobSetFacts;
use muster_api::kinds;
use muster_api::meta;
use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};

use super::{
    ChildLister, CreatedObject, ExistingObject, InPlacePod, JobSetAction, JobSetSnapshot, OwnerState,
    reconcile,
};
use crate::FeatureGates;
use crate::child_jobs::{ChildJob, ObjectRef};
use crate::gangs::GangObjects;

/// A namespace with one JobSet.
pub struct Played {
    pub set: Tree,
    pub objects: BTreeMap<(&'static str, Text), Tree>,
    pub gates: FeatureGates,
    pub claims: Option<Kind>,
    pub gangs: Option<GangSupport>,
    pub pods: Vec<InPlacePod>,
    pub parent: OwnerState,
    pub now: Time,
    pub told_at: Option<Time>,
    pub hold_until: Option<Time>,
    pub refused: Option<(String, String)>,
    pub remains: Option<(Text, Text)>,
    /// Whether deleted Jobs stay until `gone` is called.
    pub lingers: bool,
    pub said: Vec<(Text, String)>,
    /// All applied actions, abbreviated.
    pub done: Vec<String>,
    made: u32,
}

impl Played {
    /// One with this spec, as admission leaves it.
    pub fn new(spec: &Tree) -> Played {
        Played::named("s", spec)
    }

    pub fn named(name: &str, spec: &Tree) -> Played {
        let set = tree!({"metadata": {"name": name, "namespace": "n", "uid": "set-uid", "generation": 1},
            "spec": tree!({"network": {"enableDNSHostnames": true}}).merge(spec)});
        Played {
            set,
            objects: BTreeMap::new(),
            gates: FeatureGates::default(),
            claims: Some(kinds::RESOURCE_CLAIMS.clone()),
            gangs: Some(GangSupport::default()),
            pods: Vec::new(),
            parent: OwnerState::None,
            now: Time(0),
            told_at: None,
            hold_until: None,
            refused: None,
            remains: None,
            lingers: false,
            said: Vec::new(),
            done: Vec::new(),
            made: 0,
        }
    }

    /// The steps that would be done now.
    pub fn steps(&self) -> Vec<JobSetAction> {
        let facts = JobSetFacts::of(&self.set);
        let children: Vec<ChildJob<'_>> = self
            .all("job")
            .filter(|it| meta::controller_of(it).is_some_and(|owner| owner.uid == facts.uid))
            .map(ChildJob::of)
            .collect();
        let of = |sort| -> Vec<ApiObject> {
            let ours = |it: &&Tree| meta::controller_of(it).is_some_and(|owner| owner.uid == facts.uid);
            self.all(sort).filter(ours).map(|it| ApiObject { tree: it.clone(), revision: 1 }).collect()
        };
        let (workloads, groups) = (of("workload"), of("group"));
        let groups = self.gangs.map(|gangs| GangObjects {
            gangs,
            workloads: workloads.iter().collect(),
            groups: groups.iter().collect(),
        });
        reconcile(&JobSetSnapshot {
            set: &facts,
            children: &children,
            lister: self,
            gates: self.gates,
            claims: self.claims.as_ref(),
            groups: groups.as_ref(),
            status_updated_at: self.told_at,
            create_after: self.hold_until,
            create_error: self.refused.as_ref().map(|(reason, message)| (reason.as_str(), message.as_str())),
            now: self.now,
        })
    }

    pub fn pass(&mut self) {
        self.now = self.now + Duration::from_secs(5);
        for action in self.steps() {
            self.perform(action);
        }
    }

    /// Passes until nothing more happens.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            let before = (self.set.clone(), self.objects.clone());
            self.pass();
            if before == (self.set.clone(), self.objects.clone()) {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.done);
    }

    fn perform(&mut self, action: JobSetAction) {
        match action {
            JobSetAction::CreateService(it) => self.put("service", &it),
            JobSetAction::CreateVolumeClaims(made) => self.make("volume", made),
            JobSetAction::CreateClaims(made) => self.make("claim", made),
            JobSetAction::CreateGangs(kind, made) => self.make(sort(&kind), made),
            JobSetAction::Resize(kind, object, patch) => {
                let name = meta::name(&object.tree);
                self.done.push(format!("~{} {name}", sort(&kind)));
                assert_eq!(*self.one(sort(&kind), &name), object.tree);
                self.change(sort(&kind), &name, &patch);
            }
            JobSetAction::DeleteGroups(_, gone) => gone.into_iter().for_each(|it| {
                self.done.push(format!("-group {}", it.name));
                assert_eq!(meta::uid(self.one("group", &it.name)), it.uid);
                self.objects.remove(&("group", it.name));
            }),
            JobSetAction::CreateJobs(jobs) => jobs.into_iter().for_each(|it| self.put("job", &it)),
            JobSetAction::DeleteJobs(jobs) => jobs.into_iter().for_each(|it| self.delete_job(&it)),
            JobSetAction::DeleteClaims(gone) => gone.into_iter().for_each(|it| {
                self.done.push(format!("-claim {}", it.name));
                self.objects.remove(&("claim", it.name));
            }),
            JobSetAction::ClearStartTimes(jobs) => jobs.into_iter().for_each(|it| {
                self.change("job", &it.name, &tree!({"status": {"startTime": Tree::Null}}));
            }),
            JobSetAction::PatchJobs(jobs) => jobs.into_iter().for_each(|(it, patch)| {
                self.done.push(format!("~job {}", it.name));
                self.change("job", &it.name, &patch);
            }),
            JobSetAction::UpdateStatus(status) => {
                self.done.push("status".to_owned());
                self.set = self.set.with(&["status"], status.tree(&Tree::Null));
                self.told_at = Some(self.now);
            }
            JobSetAction::EmitEvent(_, reason, message) | JobSetAction::EmitEventOnce(_, reason, message) => {
                self.said.push((reason, message));
            }
            JobSetAction::DeleteJobSet => self.done.push("-set".to_owned()),
            JobSetAction::RequeueAt(_) => {}
        }
    }

    fn make(&mut self, sort: &'static str, made: Vec<CreatedObject>) {
        for CreatedObject { object, event: told } in made {
            self.said.extend(told.map(|(reason, message)| (reason.into(), message)));
            self.put(sort, &object);
        }
    }

    /// Puts an object there, with a UID of its own.
    pub fn put(&mut self, sort: &'static str, object: &Tree) {
        self.made += 1;
        let object = object.with(&["metadata", "uid"], format!("{sort}-{}", self.made));
        let name = meta::name(&object);
        self.done.push(format!("+{sort} {name}"));
        assert!(self.objects.insert((sort, name.clone()), object).is_none(), "{sort} {name} was there");
    }

    fn delete_job(&mut self, it: &ObjectRef) {
        self.done.push(format!("-job {}", it.name));
        assert_eq!(meta::uid(self.one("job", &it.name)), it.uid);
        match self.lingers {
            true => self.change(
                "job",
                &it.name,
                &tree!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            ),
            false => self.gone(&it.name.clone()),
        }
    }

    /// Removes a Job with its claims.
    pub fn gone(&mut self, job: &str) {
        let uid = meta::uid(self.one("job", job));
        self.objects.remove(&("job", job.into()));
        self.objects.retain(|_, it| meta::controller_of(it).is_none_or(|owner| owner.uid != uid));
    }

    pub fn change(&mut self, sort: &'static str, name: &str, patch: &Tree) {
        let object = self.objects.get_mut(&(sort, name.into())).unwrap_or_else(|| panic!("no {sort} {name}"));
        *object = object.merge(patch);
    }

    /// A Job of the JobSet ends.
    pub fn end(&mut self, job: &str, kind: &str, reason: &str, message: &str) {
        let at = self.now.to_seconds_text();
        self.change("job", job, &tree!({"status": {"active": Tree::Null, "ready": 0, "conditions": [
            {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at}]}}));
    }

    pub fn fail(&mut self, job: &str) {
        self.end(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }

    pub fn succeed(&mut self, job: &str) {
        self.end(job, "Complete", "CompletionsReached", "");
    }

    /// All pods of a Job are ready.
    pub fn ready(&mut self, job: &str) {
        self.change("job", job, &tree!({"status": {"active": 1, "ready": 1}}));
    }

    pub fn one(&self, sort: &'static str, name: &str) -> &Tree {
        self.objects
            .get(&(sort, name.into()))
            .unwrap_or_else(|| panic!("no {sort} {name} in {:?}", self.names(sort)))
    }

    pub fn all(&self, sort: &'static str) -> impl Iterator<Item = &Tree> {
        self.objects.iter().filter(move |((it, _), _)| *it == sort).map(|(_, object)| object)
    }

    pub fn names(&self, sort: &'static str) -> Vec<String> {
        self.all(sort).map(|it| meta::name(it).to_string()).collect()
    }

    /// The conditions as `type status reason`.
    pub fn conditions(&self) -> Vec<String> {
        let all = self.set.items_at(&["status", "conditions"]).iter();
        all.map(|it| ["type", "status", "reason"].map(|key| it.str_at(&[key]).to_owned()).join(" ")).collect()
    }

    /// Numbers of a replicatedJob: ready, succeeded, failed, active, suspended.
    pub fn counts(&self, name: &str) -> [i64; 5] {
        let all = self.set.items_at(&["status", "replicatedJobsStatus"]);
        let of = all.iter().find(|it| it.str_at(&["name"]) == name).unwrap_or(&Tree::Null);
        ["ready", "succeeded", "failed", "active", "suspended"].map(|key| of.int_at(&[key]).unwrap_or(-1))
    }

    pub fn reasons(&self) -> Vec<&str> {
        self.said.iter().map(|(reason, _)| reason.as_str()).collect()
    }

    pub fn terminal(&self) -> &str {
        self.set.str_at(&["status", "terminalState"])
    }

    pub fn restarts(&self) -> (i64, i64) {
        let number = |key| self.set.int_at(&["status", key]).unwrap_or(0);
        (number("restarts"), number("restartsCountTowardsMax"))
    }

    fn held(&self, sort: &'static str, name: &Text) -> Option<ExistingObject> {
        let it = self.objects.get(&(sort, name.clone()))?;
        Some(ExistingObject {
            uid: meta::uid(it),
            controller: meta::controller_of(it),
            jobset: meta::label(it, words::NAME).map(Text::from),
            deleting: meta::deletion_timestamp(it).is_some(),
        })
    }
}

impl ChildLister for Played {
    fn job(&self, name: &Text) -> Option<ExistingObject> {
        self.held("job", name)
    }
    fn service(&self, name: &Text) -> Option<ExistingObject> {
        self.held("service", name)
    }
    fn volume_claim(&self, name: &Text) -> Option<ExistingObject> {
        self.held("volume", name)
    }
    fn device_claim(&self, name: &Text) -> Option<ExistingObject> {
        self.held("claim", name)
    }
    fn workload(&self, name: &Text) -> Option<ExistingObject> {
        self.held("workload", name)
    }
    fn group(&self, name: &Text) -> Option<ExistingObject> {
        self.held("group", name)
    }
    fn pods(&self) -> Vec<InPlacePod> {
        self.pods.clone()
    }
    fn remaining_dependent(&self, _: &Uid) -> Option<(Text, Text)> {
        self.remains.clone()
    }
    fn owner_state(&self) -> OwnerState {
        self.parent
    }
}

/// What tests call Workloads and groups.
fn sort(kind: &Kind) -> &'static str {
    if kind.plural == "workloads" { "workload" } else { "group" }
}

/// A replicatedJob of plain pods.
pub fn jobs(name: &str, replicas: u32) -> Tree {
    let pod = tree!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}});
    tree!({"name": name, "groupName": "default", "replicas": replicas,
        "template": {"spec": {"completionMode": "Indexed", "parallelism": 1, "completions": 1, "template": pod}}})
}

/// A spec of these replicatedJobs.
pub fn spec(jobs: &[Tree], more: &Tree) -> Tree {
    tree!({"replicatedJobs": Tree::list(jobs.iter().cloned())}).merge(more)
}
