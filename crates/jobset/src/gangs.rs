//! Gang scheduling of JobSets: the Workload, its pod group templates, and the PodGroups of a restart attempt.
//!
//! # Invariants
//!
//! - Gangs are opt-in by annotation. No gang is created that cannot fill: with `InOrder` or `dependsOn` the JobSet is not
//!   one gang, and finished pods are not counted in `minCount`.
//! - A PodGroup is identified by its labels, not by its name: the name may belong to another object.
//! - Existing Jobs keep the PodGroup they reference; if it was deleted it is created again under that name.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::ApiObject;
use muster_api::consts::jobset as words;
use muster_api::gang_objects::{
    self, GangOwner, GangSupport, MinCountUpdate, NewPodGroup, PodGroupMember, PodGroupTemplate,
    TEMPLATES_MAX, TemplatePolicy, consts as gang_words, names,
};
use muster_api::jobset::{JobSetFacts, ReplicatedJob};
use muster_api::meta;
use muster_api::paths::job as job_path;
use muster_tree::{Text, Tree};

use crate::child_jobs::{ChildJob, ChildJobs};
use crate::reconcile::{ChildLister, ExistingObject};

/// Name of the template if the whole JobSet is one gang.
const ALL: &str = "all";
const PRIORITY_CLASS: &str = "priorityClassName";

/// Which pods form one gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangScope {
    AllReplicas,
    /// The pods of each replicatedJob.
    PerReplicatedJob,
    /// The pods of each Job.
    PerJob,
}

impl GangScope {
    pub const WORDS: [&'static str; 3] = ["AllReplicas", "PerReplicatedJob", "PerJob"];

    #[must_use]
    pub fn of(word: &str) -> Option<GangScope> {
        match word {
            "AllReplicas" => Some(GangScope::AllReplicas),
            "PerReplicatedJob" => Some(GangScope::PerReplicatedJob),
            "PerJob" => Some(GangScope::PerJob),
            _ => None,
        }
    }
}

/// Reason and message of a warning event about the annotation.
pub type GangEvent = (&'static str, String);

/// The gang scope of a JobSet, with warning events.
#[must_use]
pub fn resolve_scope(set: &JobSetFacts, is_served: bool) -> (Option<GangScope>, Vec<GangEvent>) {
    let Some(word) = &set.gang else { return (None, Vec::new()) };
    let key = gang_words::GANG;
    let Some(wish) = GangScope::of(word) else {
        let all = GangScope::WORDS.join(", ");
        return (None, vec![(gang_words::GANG_IGNORED, format!("{key}: {word} is none of {all}"))]);
    };
    if !is_served {
        let message = format!("{key}: PodGroups are not served here, pods are placed one by one");
        return (None, vec![(gang_words::GANG_IGNORED, message)]);
    }
    let mut told = Vec::new();
    let many = set.jobs.iter().filter(|it| is_member(it)).count();
    let is_ordered =
        set.jobs.len() > 1 && (set.in_order || set.jobs.iter().any(|it| !it.depends_on.is_empty()));
    // With ordered startup later Jobs do not exist until earlier ones are ready: one gang over all would never fill.
    let split = wish == GangScope::AllReplicas && is_ordered;
    if split {
        let message = format!(
            "{key}: {word} would wait for pods that come only after others run: each replicatedJob is a gang of its own"
        );
        told.push((gang_words::GANG_SPLIT, message));
    }
    let wish = if split { GangScope::PerReplicatedJob } else { wish };
    if wish == GangScope::AllReplicas || many <= TEMPLATES_MAX {
        return ((many > 0).then_some(wish), told);
    }
    let instead = if is_ordered { "pods are placed one by one" } else { "all are one gang" };
    let message = format!(
        "{key}: a Workload has {TEMPLATES_MAX} templates, and these are {many} replicatedJobs: {instead}"
    );
    told.push((gang_words::TOO_MANY_JOBS, message));
    ((!is_ordered).then_some(GangScope::AllReplicas), told)
}

/// Whether a replicatedJob has pods and its template references no PodGroup of its own.
fn is_member(of: &ReplicatedJob) -> bool {
    let marked = of.template.at(job_path::TEMPLATE).is_some_and(gang_objects::names_group);
    of.replicas > 0 && of.pods() > 0 && !marked
}

/// The existing Workloads and PodGroups of a JobSet.
pub struct GangObjects<'a> {
    /// The served API form.
    pub gangs: GangSupport,
    /// The Workloads with a controller owner reference to the JobSet.
    pub workloads: Vec<&'a ApiObject>,
    /// The PodGroups with a controller owner reference to it.
    pub groups: Vec<&'a ApiObject>,
}

/// The identity of a PodGroup: replicatedJob (empty for all), Job index, and restart attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GangSlot {
    pub job: Text,
    pub index: Option<u32>,
    pub attempt: u32,
}

impl GangSlot {
    fn labels(&self, set: &JobSetFacts) -> Tree {
        let mut all = vec![
            (words::NAME, set.name.clone()),
            (words::RESTART_ATTEMPT, Text::from(self.attempt.to_string())),
        ];
        all.extend((!self.job.is_empty()).then(|| (words::GROUP, self.job.clone())));
        all.extend(self.index.map(|index| (words::JOB_INDEX, Text::from(index.to_string()))));
        Tree::map(all)
    }

    fn of(group: &Tree) -> Option<GangSlot> {
        let number = |key: &str| meta::label(group, key).map(str::parse::<u32>);
        Some(GangSlot {
            job: meta::label(group, words::GROUP).unwrap_or_default().into(),
            index: number(words::JOB_INDEX).transpose().ok()?,
            attempt: number(words::RESTART_ATTEMPT)?.ok()?,
        })
    }
}

/// Whether a wanted object can be created.
#[derive(Debug, Clone, PartialEq)]
pub enum Creation {
    /// It exists, or is not wanted.
    NotNeeded,
    /// Create this object; with a warning if its name had to be changed.
    Create(Box<Tree>, Option<String>),
    /// Its name is taken by another object, with a message, or by a terminating one.
    Blocked(Option<String>),
}

/// The gangs of a JobSet.
pub struct GangLayout<'a> {
    set: &'a JobSetFacts,
    around: &'a dyn ChildLister,
    gangs: GangSupport,
    together: GangScope,
    workload: Option<&'a ApiObject>,
    groups: BTreeMap<GangSlot, &'a ApiObject>,
    /// The PodGroup that existing Jobs reference; `None` if they were created without one.
    named: BTreeMap<GangSlot, Option<Text>>,
}

impl<'a> GangLayout<'a> {
    /// Computes the gangs for the existing Jobs.
    #[must_use]
    pub fn new(
        set: &'a JobSetFacts,
        together: GangScope,
        seen: &GangObjects<'a>,
        around: &'a dyn ChildLister,
        sorted: &ChildJobs<'_>,
    ) -> GangLayout<'a> {
        let groups = seen.groups.iter().filter_map(|it| Some((GangSlot::of(&it.tree)?, *it)));
        let mut layout = GangLayout {
            set,
            around,
            gangs: seen.gangs,
            together,
            workload: seen.workloads.iter().copied().min_by_key(|it| meta::name(&it.tree)),
            groups: groups.collect(),
            named: BTreeMap::new(),
        };
        for child in sorted.present() {
            let Some(place) = layout.slot_of(child) else { continue };
            let name = group_of(child);
            let known = layout.named.entry(place).or_default();
            *known = name.or_else(|| known.take());
        }
        layout
    }

    #[must_use]
    pub fn gangs(&self) -> GangSupport {
        self.gangs
    }

    /// The identity of the PodGroup of a Job.
    #[must_use]
    pub fn slot(&self, of: &ReplicatedJob, index: u32) -> GangSlot {
        let status = &self.set.status;
        let alone = status.job(&of.name).and_then(|it| it.restarts.get(index as usize)).copied();
        match self.together {
            GangScope::AllReplicas => GangSlot { job: Text::new(), index: None, attempt: status.restarts },
            GangScope::PerReplicatedJob => {
                GangSlot { job: of.name.clone(), index: None, attempt: status.restarts }
            }
            // A Job that restarts alone is a new attempt, too.
            GangScope::PerJob => GangSlot {
                job: of.name.clone(),
                index: Some(index),
                attempt: status.restarts.saturating_add(alone.unwrap_or(0)),
            },
        }
    }

    fn slot_of(&self, child: &ChildJob<'_>) -> Option<GangSlot> {
        let of = self.set.job(child.group?).filter(|of| is_member(of))?;
        Some(self.slot(of, child.index()?))
    }

    /// The gang reference for the pods of a new Job.
    #[must_use]
    pub fn member(&self, of: &ReplicatedJob, index: u32) -> Option<PodGroupMember> {
        if !is_member(of) {
            return None;
        }
        let place = self.slot(of, index);
        let (group, template) = (self.name(&place)?, template_name(&place).into());
        Some(PodGroupMember { workload: self.workload_name(), template, group, group_uid: None })
    }

    /// The name of a PodGroup; `None` if its Jobs were created without one.
    fn name(&self, place: &GangSlot) -> Option<Text> {
        match (self.groups.get(place), self.named.get(place)) {
            (Some(group), _) => Some(meta::name(&group.tree)),
            (None, Some(named)) => named.clone(),
            (None, None) => {
                let plain = names::set_group(&self.set.name, &place.job, place.index, place.attempt);
                let held = self.around.group(&plain).filter(|held| !self.is_terminating(held));
                Some(if held.is_some() { names::hashed(&plain, &self.set.uid) } else { plain })
            }
        }
    }

    fn workload_name(&self) -> Text {
        if let Some(workload) = self.workload {
            return meta::name(&workload.tree);
        }
        let held = self.around.workload(&self.set.name).filter(|held| !self.is_terminating(held));
        if held.is_some() { names::hashed(&self.set.name, &self.set.uid) } else { self.set.name.clone() }
    }

    /// Whether an object is terminating, or belongs to a deleted JobSet of the same name: its name will be free.
    fn is_terminating(&self, held: &ExistingObject) -> bool {
        let earlier = held.controller.as_ref().is_some_and(|owner| {
            owner.kind == words::KIND && owner.name == self.set.name && owner.uid != self.set.uid
        });
        held.deleting || earlier
    }

    /// The Workload to create, if any.
    #[must_use]
    pub fn make_workload(&self) -> Creation {
        if self.workload.is_some() {
            return Creation::NotNeeded;
        }
        let name = self.workload_name();
        let (form, held) = (self.gangs.api, self.around.workload(&name));
        self.make(held.as_ref(), gang_words::WORKLOAD_KIND, &self.set.name, &name, || {
            gang_objects::workload(form, &self.maker(), &name, &self.templates())
        })
    }

    /// The PodGroup to create, if any; its Workload must exist.
    #[must_use]
    pub fn make_group(&self, place: &GangSlot) -> Creation {
        let (Some(name), Some(workload)) = (self.name(place), self.workload) else {
            return Creation::NotNeeded;
        };
        if self.groups.contains_key(place) || self.gangs.api.groups().is_none() {
            return Creation::NotNeeded;
        }
        let plain = names::set_group(&self.set.name, &place.job, place.index, place.attempt);
        let (of, uid) = (meta::name(&workload.tree), meta::uid(&workload.tree));
        let template = self.template(template_name(place));
        let held = self.around.group(&name);
        self.make(held.as_ref(), gang_words::GROUP_KIND, &plain, &name, || {
            let labels = place.labels(self.set);
            let new = NewPodGroup {
                name: &name,
                workload: &of,
                workload_uid: Some(&uid),
                template: &template,
                labels,
            };
            gang_objects::group(self.gangs.api, &self.maker(), &new)
        })
    }

    fn make(
        &self,
        held: Option<&ExistingObject>,
        word: &str,
        plain: &Text,
        name: &Text,
        object: impl FnOnce() -> Tree,
    ) -> Creation {
        match held {
            None => {
                let conflict =
                    (plain != name).then(|| format!("{word} {plain} is another's: {name} is made instead"));
                Creation::Create(Box::new(object()), conflict)
            }
            Some(held) if self.is_terminating(held) => Creation::Blocked(None),
            Some(_) => Creation::Blocked(Some(format!("{word} {name} is another's: delete or rename it"))),
        }
    }

    fn maker(&self) -> GangOwner {
        let set = self.set;
        GangOwner {
            api_version: words::API_VERSION.into(),
            kind: words::KIND,
            namespace: set.namespace.clone(),
            name: set.name.clone(),
            uid: set.uid.clone(),
        }
    }

    /// The pod group templates of the Workload. The API requires equal priority classes, so different ones are dropped.
    fn templates(&self) -> Vec<PodGroupTemplate> {
        let mut all: Vec<PodGroupTemplate> = self.template_names().map(|name| self.template(name)).collect();
        let classes: BTreeSet<&str> = all.iter().map(|it| it.passthrough.str_at(&[PRIORITY_CLASS])).collect();
        if classes.len() > 1 {
            all.iter_mut().for_each(|it| it.passthrough = it.passthrough.without_key(PRIORITY_CLASS));
        }
        all
    }

    fn template_names(&self) -> impl Iterator<Item = &str> {
        let one = (self.together == GangScope::AllReplicas).then_some(ALL);
        let each = self.set.jobs.iter().filter(move |it| one.is_none() && is_member(it));
        one.into_iter().chain(each.map(|it| it.name.as_str()))
    }

    fn template(&self, name: &str) -> PodGroupTemplate {
        let classes: BTreeSet<&str> = self.jobs(name).map(priority_class).collect();
        let class = classes.first().filter(|it| classes.len() == 1 && !it.is_empty());
        let class = class.filter(|_| gang_objects::is_inline(self.gangs.api)).map(|it| Tree::from(*it));
        PodGroupTemplate {
            passthrough: Tree::empty_map().with_option(&[PRIORITY_CLASS], class),
            ..PodGroupTemplate::new(name, TemplatePolicy::Gang { min: self.whole(name) })
        }
    }

    /// The replicatedJobs of a template.
    fn jobs<'b>(&'b self, template: &'b str) -> impl Iterator<Item = &'b ReplicatedJob> {
        let all = self.together == GangScope::AllReplicas;
        self.set.jobs.iter().filter(move |it| is_member(it) && (all || it.name == template))
    }

    /// The number of pods of a gang of this template.
    fn whole(&self, template: &str) -> u32 {
        let one = |of: &ReplicatedJob| match self.together {
            GangScope::PerJob => of.pods(),
            _ => of.pods().saturating_mul(of.replicas),
        };
        let sum = self.jobs(template).map(one).fold(0, u32::saturating_add);
        sum.clamp(1, i32::MAX.unsigned_abs())
    }

    /// The merge patches of the Workload (`true`) and the PodGroups (`false`) before Jobs are resized.
    #[must_use]
    pub fn resizes(&self, sorted: &ChildJobs<'_>) -> Vec<(&'a ApiObject, bool, Tree)> {
        let Some(workload) = self.workload.filter(|_| gang_objects::is_elastic(self.gangs.api)) else {
            return Vec::new();
        };
        let (mut tree, mut patch, mut sizes) = (workload.tree.clone(), None, BTreeMap::new());
        for name in self.template_names() {
            let Some(TemplatePolicy::Gang { min: old }) =
                PodGroupTemplate::find(&tree, name).map(|it| it.policy)
            else {
                continue;
            };
            let new = self.need(name, sorted).new_min_count(old).unwrap_or(old);
            sizes.insert(name, new);
            if let Some(next) = gang_objects::resize_template(&tree, name, new) {
                tree = tree.merge(&next);
                patch = Some(next);
            }
        }
        let groups = self.groups.iter().filter_map(|(place, group)| {
            let min = sizes.get(template_name(place)).filter(|_| self.is_current(place))?;
            Some((*group, false, gang_objects::resize_group(&group.tree, *min)?))
        });
        patch.map(|patch| (workload, true, patch)).into_iter().chain(groups).collect()
    }

    /// The pods that a gang of this template still needs after some Jobs finished.
    fn need(&self, template: &str, sorted: &ChildJobs<'_>) -> MinCountUpdate {
        let whole = self.whole(template);
        let (mut room, mut least, mut waiting) = (u64::from(whole), whole, false);
        for child in sorted.present() {
            let Some(of) = child.group.and_then(|name| self.jobs(template).find(|it| it.name == name)) else {
                continue;
            };
            let left = left(of, child);
            let waits = child.ended.is_none() && !child.suspend && child.active > child.ready();
            waiting |= waits;
            room = room.saturating_sub(u64::from(of.pods() - left));
            least = if waits { least.min(left.max(1)) } else { least };
        }
        let room = match self.together {
            GangScope::PerJob => least,
            _ => u32::try_from(room).unwrap_or(whole),
        };
        MinCountUpdate { requested: whole, possible: room, waiting }
    }

    /// PodGroups that no Job references and no new Job will: those of earlier attempts and of removed Jobs.
    #[must_use]
    pub fn orphaned(&self, children: &[ChildJob<'_>]) -> Vec<&'a ApiObject> {
        let named: BTreeSet<Text> = children.iter().filter_map(group_of).collect();
        let over = self.set.status.terminal_condition().is_some() && self.together == GangScope::PerJob;
        let stays = |place: &GangSlot, group: &ApiObject| {
            let comes_again = self.is_current(place) && !over;
            comes_again
                || meta::deletion_timestamp(&group.tree).is_some()
                || named.contains(&meta::name(&group.tree))
        };
        self.groups.iter().filter(|(place, group)| !stays(place, group)).map(|(_, group)| *group).collect()
    }

    /// Whether Jobs of the current attempt use this PodGroup.
    fn is_current(&self, place: &GangSlot) -> bool {
        let index = place.index.unwrap_or(0);
        let all = self.set.jobs.iter().filter(|of| is_member(of) && index < of.replicas);
        all.into_iter().any(|of| self.slot(of, index) == *place)
    }

    /// The PodGroups that active Jobs reference.
    pub fn active_slots<'b>(&'b self, sorted: &'b ChildJobs<'_>) -> impl Iterator<Item = GangSlot> + 'b {
        let places = sorted.active.iter().filter_map(|child| self.slot_of(child));
        places.filter(|place| self.named.get(place).is_some_and(Option::is_some))
    }
}

fn template_name(place: &GangSlot) -> &str {
    if place.job.is_empty() { ALL } else { &place.job }
}

fn group_of(child: &ChildJob<'_>) -> Option<Text> {
    gang_objects::group_of(child.tree.at(job_path::TEMPLATE)?)
}

fn priority_class(of: &ReplicatedJob) -> &str {
    of.template.at(job_path::TEMPLATE).map_or("", |it| it.str_at(&["spec", PRIORITY_CLASS]))
}

/// The pods that a Job may still run at once.
fn left(of: &ReplicatedJob, child: &ChildJob<'_>) -> u32 {
    match of.completions {
        _ if child.ended.is_some() => 0,
        Some(all) => of.pods().min(all.saturating_sub(child.succeeded)),
        None if child.succeeded > 0 => of.pods().min(child.active),
        None => of.pods(),
    }
}
