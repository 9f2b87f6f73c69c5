//! The gang of a Job: the Workload with the pod group template, and the PodGroup that its pods join.
//!
//! # Guarantees
//!
//! - The order is Workload, PodGroup, pods; each is created when the one before it is in the cache.
//! - A gang is created only for a Job that never started: a Job from before the feature keeps running without one.
//! - An object with another owner is not used. If several objects could be the Job's, none is used.
//! - The size of a gang is patched before its pods are created or deleted.

use muster_api::client::{ApiObject, Kind};
use muster_api::condition;
use muster_api::consts::conditions as kinds;
use muster_api::event::EventType;
use muster_api::gang_objects::{
    self, GangApi, GangOwner, GangRequest, GangSupport, JobGang, MinCountUpdate, NewPodGroup,
    ObjectsToCreate, PodGroupMember, PodGroupTemplate, TemplatePolicy, consts, names,
};
use muster_api::meta;
use muster_tree::{Text, Tree};

use crate::pods::PodChanges;
use crate::sync_context::{SyncContext, number};
use crate::{JobAction, JobSnapshot};

/// The objects of the gang of a Job, and how to write them.
pub struct JobGangSnapshot<'a> {
    /// The API form of gangs on this server.
    pub gangs: GangSupport,
    /// The gang that the Job asks for.
    pub asks: &'a JobGang,
    /// Workloads that the Job controls, or its owner where the owner created it.
    pub workloads: Vec<&'a ApiObject>,
    /// The PodGroups that the Job controls.
    pub groups: Vec<&'a ApiObject>,
    /// Whether a name is in use.
    pub name_in_use: &'a dyn Fn(&Kind, &Text) -> bool,
}

/// How a Job proceeds with its gang.
#[derive(Debug, PartialEq)]
pub enum JobGangDecision {
    /// No gang: pods are created and placed one by one.
    NoGang,
    /// These steps come first; pods are created in a later reconciliation.
    CreateFirst(Vec<JobAction>),
    /// New pods join this gang; these steps come before pods are created or deleted.
    Join(PodGroupMember, Vec<JobAction>),
}

/// Reconciles the gang of a Job with the pods that are about to change.
pub fn decide(snapshot: &JobSnapshot<'_>, ctx: &SyncContext<'_>, change: &PodChanges) -> JobGangDecision {
    let Some(groups) = snapshot.groups.filter(|_| !snapshot.job.deleting) else {
        return JobGangDecision::NoGang;
    };
    let Some(kind) = groups.gangs.api.groups() else { return JobGangDecision::NoGang };
    let reconciler = GangReconciler { snapshot, groups, kind, size: size(ctx, change) };
    match &groups.asks.objects {
        ObjectsToCreate::Nothing => JobGangDecision::NoGang,
        ObjectsToCreate::Both => reconciler.both(),
        ObjectsToCreate::Group { template, parent, .. } => reconciler.group_only(template, parent),
    }
}

/// Pods at a time: `whole` as the spec says, `room` as can still run, `creates` whether any is about to be created.
struct Size {
    whole: u32,
    room: u32,
    creates: bool,
}

fn size(ctx: &SyncContext<'_>, change: &PodChanges) -> Size {
    let job = ctx.job;
    let failed = ctx.failed_indexes.as_ref().map_or(0, crate::index_set::IndexSet::len);
    let (whole, room) = match job.completions {
        None if ctx.succeeded > 0 => (job.parallelism, number(ctx.active.len())),
        None => (job.parallelism, job.parallelism),
        Some(all) => {
            let left = all.saturating_sub(ctx.succeeded).saturating_sub(failed);
            (job.parallelism.min(all), job.parallelism.min(left))
        }
    };
    Size { whole, room, creates: change.creates().is_some() }
}

struct GangReconciler<'a> {
    snapshot: &'a JobSnapshot<'a>,
    groups: &'a JobGangSnapshot<'a>,
    kind: &'a Kind,
    size: Size,
}

impl GangReconciler<'_> {
    /// A Job without an owner that creates gangs.
    fn both(&self) -> JobGangDecision {
        let template = match self.template() {
            Ok(Some(template)) => template,
            Ok(None) => return JobGangDecision::NoGang,
            Err(why) => {
                let message = format!("Failed to compile Workload for Job {}: {why}", self.maker().name);
                return JobGangDecision::CreateFirst(vec![warning(consts::COMPILATION_FAILED, message)]);
            }
        };
        let workload = match self.groups.workloads[..] {
            [] if self.is_new() => return JobGangDecision::CreateFirst(self.make_workload(&template)),
            [one] => one,
            _ => return JobGangDecision::NoGang,
        };
        let Some(found) = PodGroupTemplate::find(&workload.tree, &template.name) else {
            return JobGangDecision::NoGang;
        };
        self.group_of(workload, &found, self.asked())
    }

    /// A Job whose owner creates the Workload.
    fn group_only(&self, template: &Text, parent: &Text) -> JobGangDecision {
        let found = match self.groups.workloads[..] {
            [] => None,
            [one] => PodGroupTemplate::find(&one.tree, template).map(|found| (one, found)),
            _ => return JobGangDecision::NoGang,
        };
        let Some((workload, mut found)) = found else {
            if !self.is_new() {
                return JobGangDecision::NoGang;
            }
            let message = format!(
                "Job {} waits for a Workload of its owner with the template {template:?}: none is there yet",
                self.maker().name,
                template = template.as_str()
            );
            return JobGangDecision::CreateFirst(vec![warning(consts::COMPILATION_FAILED, message)]);
        };
        if !parent.is_empty() && self.groups.gangs.api == GangApi::Released {
            found.passthrough = found.passthrough.with(&["parentCompositePodGroupName"], parent);
        }
        // The owner decides the size of the gang.
        let asked = match found.policy {
            TemplatePolicy::Gang { min } => Some(min),
            TemplatePolicy::Basic => None,
        };
        self.group_of(workload, &found, asked)
    }

    /// Joins, or creates, the PodGroup of an existing Workload.
    fn group_of(
        &self,
        workload: &ApiObject,
        template: &PodGroupTemplate,
        asked: Option<u32>,
    ) -> JobGangDecision {
        let name = meta::name(&workload.tree);
        let ours: Vec<&&ApiObject> =
            self.groups.groups.iter().filter(|it| gang_objects::workload_of(&it.tree) == name).collect();
        let group = match ours[..] {
            [] if self.is_new() => return JobGangDecision::CreateFirst(self.make_group(workload, template)),
            [one] => *one,
            _ => return JobGangDecision::NoGang,
        };
        let uid = meta::uid(&group.tree);
        let member = PodGroupMember {
            workload: name,
            template: template.name.clone(),
            group: meta::name(&group.tree),
            group_uid: Some(uid),
        };
        JobGangDecision::Join(member, self.resize(workload, group, template, asked))
    }

    fn resize(
        &self,
        workload: &ApiObject,
        group: &ApiObject,
        template: &PodGroupTemplate,
        asked: Option<u32>,
    ) -> Vec<JobAction> {
        let (TemplatePolicy::Gang { min: old }, Some(asked)) = (template.policy, asked) else {
            return Vec::new();
        };
        if !gang_objects::is_elastic(self.groups.gangs.api) {
            return Vec::new();
        }
        let own = matches!(self.groups.asks.objects, ObjectsToCreate::Both);
        let new = if own { self.need(asked).new_min_count(old).unwrap_or(old) } else { asked };
        let template = gang_objects::resize_template(&workload.tree, &template.name, new).filter(|_| own);
        let template = template.map(|patch| self.patch(self.groups.gangs.api.workloads(), workload, patch));
        let inline = gang_objects::resize_group(&group.tree, new);
        let inline = inline.map(|patch| self.patch(self.kind, group, patch));
        template.into_iter().chain(inline).collect()
    }

    fn patch(&self, kind: &Kind, object: &ApiObject, patch: Tree) -> JobAction {
        JobAction::ResizeGang { kind: kind.clone(), object: Box::new(object.clone()), patch }
    }

    fn make_workload(&self, template: &PodGroupTemplate) -> Vec<JobAction> {
        let form = self.groups.gangs.api;
        let maker = self.maker();
        let wanted = names::job_workload(&maker.name, &maker.uid);
        let (name, conflict) = self.free_name(form.workloads(), consts::WORKLOAD_KIND, wanted);
        let made = gang_objects::workload(form, maker, &name, std::slice::from_ref(template));
        let message = format!("Created Workload {name} for Job {}", maker.name);
        let lowered = self.lowered();
        let make = JobAction::CreateGangObject {
            kind: form.workloads().clone(),
            object: Box::new(made),
            event: (consts::WORKLOAD_CREATED, message),
        };
        conflict.into_iter().chain(lowered).chain([make]).collect()
    }

    fn make_group(&self, workload: &ApiObject, template: &PodGroupTemplate) -> Vec<JobAction> {
        let maker = self.maker();
        let of = meta::name(&workload.tree);
        let wanted = names::job_group(&of, &template.name, &maker.uid);
        let (name, conflict) = self.free_name(self.kind, consts::GROUP_KIND, wanted);
        let own = matches!(self.groups.asks.objects, ObjectsToCreate::Both);
        let uid = meta::uid(&workload.tree);
        let new = NewPodGroup {
            name: &name,
            workload: &of,
            workload_uid: own.then_some(&uid),
            template,
            labels: Tree::empty_map(),
        };
        let made = gang_objects::group(self.groups.gangs.api, maker, &new);
        let message = format!("Created PodGroup {name} for Job {}", maker.name);
        let make = JobAction::CreateGangObject {
            kind: self.kind.clone(),
            object: Box::new(made),
            event: (consts::GROUP_CREATED, message),
        };
        conflict.into_iter().chain([make]).collect()
    }

    /// A free name, and the event if it is not the wanted one.
    fn free_name(&self, kind: &Kind, word: &str, wanted: Text) -> (Text, Option<JobAction>) {
        if !(self.groups.name_in_use)(kind, &wanted) {
            return (wanted, None);
        }
        let other = names::hashed(&wanted, &self.maker().uid);
        let message = format!("{word} {wanted} is another's: {other} is made instead");
        (other, Some(warning(consts::NAME_CONFLICT, message)))
    }

    /// The pod group template of the Job; `None` where such Jobs have no gang.
    fn template(&self) -> Result<Option<PodGroupTemplate>, &'static str> {
        let asks = self.groups.asks;
        let form = self.groups.gangs.api;
        let name = names::job_template(&asks.owner.name);
        let policy = match asks.policy? {
            _ if form == GangApi::Earlier && !self.is_eligible() => return Ok(None),
            GangRequest::Basic if form == GangApi::Earlier => TemplatePolicy::Gang { min: self.size.whole },
            GangRequest::Basic => TemplatePolicy::Basic,
            GangRequest::Gang { min } => {
                let asked = min.unwrap_or(self.size.whole);
                TemplatePolicy::Gang { min: asked.min(self.size.whole).max(1) }
            }
        };
        let mut more = asks.passthrough.clone();
        // In the inline form a pod with another priority than its PodGroup would never be placed.
        if gang_objects::is_inline(form) && !asks.priority_class.is_empty() {
            more = more.with(&["priorityClassName"], &asks.priority_class);
        }
        Ok(Some(PodGroupTemplate { name, policy, passthrough: more }))
    }

    /// The Jobs that Kubernetes 1.36 creates PodGroups for.
    fn is_eligible(&self) -> bool {
        let job = self.snapshot.job;
        job.mode == muster_api::job::CompletionMode::Indexed
            && job.parallelism > 1
            && job.completions == Some(job.parallelism)
    }

    fn asked(&self) -> Option<u32> {
        match self.groups.asks.policy {
            Ok(GangRequest::Gang { min }) => Some(min.unwrap_or(self.size.whole).min(self.size.whole)),
            _ => None,
        }
    }

    fn need(&self, asked: u32) -> MinCountUpdate {
        MinCountUpdate { requested: asked, possible: self.size.room, waiting: self.size.creates }
    }

    /// The event that `minCount` was lowered: a gang that needs more pods than run at once would never start.
    fn lowered(&self) -> Option<JobAction> {
        let Ok(GangRequest::Gang { min: Some(min) }) = self.groups.asks.policy else { return None };
        let whole = self.size.whole;
        let message =
            format!("minCount {min} is more than the {whole} pods that run at once: {whole} are enough");
        (min > whole).then(|| warning(consts::MIN_COUNT_LOWERED, message))
    }

    fn maker(&self) -> &GangOwner {
        &self.groups.asks.owner
    }

    /// Whether the Job never started. Each sign alone has gaps: pods may be deleted, and suspending clears the start time.
    fn is_new(&self) -> bool {
        let status = &self.snapshot.job.status;
        self.snapshot.pods.is_empty()
            && status.start_time.is_none()
            && status.succeeded == 0
            && status.failed == 0
            && condition::find(&status.conditions, kinds::SUSPENDED).is_none()
    }
}

fn warning(reason: &str, message: String) -> JobAction {
    JobAction::Event(EventType::Warning, reason.into(), message)
}
