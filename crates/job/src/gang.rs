//! The gang of a Job: the Workload that says how its pods are placed, and the PodGroup that they join.
//!
//! # Invariants
//!
//! - Workload, then PodGroup, then pods; each is made when the one before it was seen.
//! - They are made for a Job that never started: one that was there before stays as it is.
//! - What is another's is not used, and when it cannot be told which is ours, none is.
//! - The size of a gang is changed before its pods are.

use muster_api::condition;
use muster_api::event::Severity;
use muster_api::gang_make::{
    self, Form, Gangs, JobAsks, Maker, Makes, Member, Need, NewGroup, Policy, Template, Wish, names, words,
};
use muster_api::meta;
use muster_api::port::{Kind, Object};
use muster_api::words::conditions as kinds;
use muster_tree::{Text, Tree};

use crate::picture::{Picture, number};
use crate::pods::Change;
use crate::{Action, Observed};

/// Everything that may concern the gang of a Job.
pub struct Groups<'a> {
    /// How gangs are written here.
    pub gangs: Gangs,
    /// What the Job asks for.
    pub asks: &'a JobAsks,
    /// The Workloads that are the Job's, or its owner's where the owner made it.
    pub workloads: Vec<&'a Object>,
    /// The PodGroups that the Job controls.
    pub groups: Vec<&'a Object>,
    /// Whether a name is in use.
    pub taken: &'a dyn Fn(&Kind, &Text) -> bool,
}

/// What has to be done about a gang.
#[derive(Debug, PartialEq)]
pub enum Gang {
    /// Nothing: each pod for itself.
    Plain,
    /// This, before anything else.
    First(Vec<Action>),
    /// Its pods join; this before pods come or go.
    Joined(Member, Vec<Action>),
}

/// Decides what has to be done about the gang of a Job whose pods are going to change so.
pub fn decide(seen: &Observed<'_>, picture: &Picture<'_>, change: &Change) -> Gang {
    let Some(groups) = seen.groups.filter(|_| !seen.job.deleting) else { return Gang::Plain };
    let Some(kind) = groups.gangs.form.groups() else { return Gang::Plain };
    let look = Look { seen, groups, kind, size: size(picture, change) };
    match &groups.asks.makes {
        Makes::Nothing => Gang::Plain,
        Makes::Both => look.both(),
        Makes::Group { template, parent, .. } => look.group_only(template, parent),
    }
}

/// How many pods there are at once: as the spec says, and as there can still be.
struct Size {
    whole: u32,
    room: u32,
    creates: bool,
}

fn size(picture: &Picture<'_>, change: &Change) -> Size {
    let job = picture.job;
    let failed = picture.failed_indexes.as_ref().map_or(0, crate::indexes::Indexes::len);
    let (whole, room) = match job.completions {
        None if picture.succeeded > 0 => (job.parallelism, number(picture.active.len())),
        None => (job.parallelism, job.parallelism),
        Some(all) => {
            let left = all.saturating_sub(picture.succeeded).saturating_sub(failed);
            (job.parallelism.min(all), job.parallelism.min(left))
        }
    };
    Size { whole, room, creates: change.creates().is_some() }
}

struct Look<'a> {
    seen: &'a Observed<'a>,
    groups: &'a Groups<'a>,
    kind: &'a Kind,
    size: Size,
}

impl Look<'_> {
    /// A Job that stands for itself.
    fn both(&self) -> Gang {
        let template = match self.template() {
            Ok(Some(template)) => template,
            Ok(None) => return Gang::Plain,
            Err(why) => {
                let message = format!("Failed to compile Workload for Job {}: {why}", self.maker().name);
                return Gang::First(vec![warning(words::COMPILATION_FAILED, message)]);
            }
        };
        let workload = match self.groups.workloads[..] {
            [] if self.is_new() => return Gang::First(self.make_workload(&template)),
            [one] => one,
            _ => return Gang::Plain,
        };
        let Some(found) = Template::find(&workload.tree, &template.name) else { return Gang::Plain };
        self.group_of(workload, &found, self.asked())
    }

    /// A Job whose owner made the Workload.
    fn group_only(&self, template: &Text, parent: &Text) -> Gang {
        let found = match self.groups.workloads[..] {
            [] => None,
            [one] => Template::find(&one.tree, template).map(|found| (one, found)),
            _ => return Gang::Plain,
        };
        let Some((workload, mut found)) = found else {
            if !self.is_new() {
                return Gang::Plain;
            }
            let message = format!(
                "Job {} waits for a Workload of its owner with the template {template:?}: none is there yet",
                self.maker().name,
                template = template.as_str()
            );
            return Gang::First(vec![warning(words::COMPILATION_FAILED, message)]);
        };
        if !parent.is_empty() && self.groups.gangs.form == Form::Released {
            found.more = found.more.with(&["parentCompositePodGroupName"], parent);
        }
        // Its owner says how large the gang is.
        let asked = match found.policy {
            Policy::Gang { min } => Some(min),
            Policy::Basic => None,
        };
        self.group_of(workload, &found, asked)
    }

    /// The group of a Workload that is there, and its size.
    fn group_of(&self, workload: &Object, template: &Template, asked: Option<u32>) -> Gang {
        let name = meta::name(&workload.tree);
        let ours: Vec<&&Object> =
            self.groups.groups.iter().filter(|it| gang_make::workload_of(&it.tree) == name).collect();
        let group = match ours[..] {
            [] if self.is_new() => return Gang::First(self.make_group(workload, template)),
            [one] => *one,
            _ => return Gang::Plain,
        };
        let uid = meta::uid(&group.tree);
        let member = Member {
            workload: name,
            template: template.name.clone(),
            group: meta::name(&group.tree),
            group_uid: Some(uid),
        };
        Gang::Joined(member, self.resize(workload, group, template, asked))
    }

    fn resize(
        &self,
        workload: &Object,
        group: &Object,
        template: &Template,
        asked: Option<u32>,
    ) -> Vec<Action> {
        let (Policy::Gang { min: old }, Some(asked)) = (template.policy, asked) else { return Vec::new() };
        if !gang_make::is_elastic(self.groups.gangs.form) {
            return Vec::new();
        }
        let own = matches!(self.groups.asks.makes, Makes::Both);
        let new = if own { self.need(asked).change(old).unwrap_or(old) } else { asked };
        let template = gang_make::resize_template(&workload.tree, &template.name, new).filter(|_| own);
        let template = template.map(|patch| self.patch(self.groups.gangs.form.workloads(), workload, patch));
        let inline = gang_make::resize_group(&group.tree, new);
        let inline = inline.map(|patch| self.patch(self.kind, group, patch));
        template.into_iter().chain(inline).collect()
    }

    fn patch(&self, kind: &Kind, object: &Object, patch: Tree) -> Action {
        Action::Resize { kind: kind.clone(), object: Box::new(object.clone()), patch }
    }

    fn make_workload(&self, template: &Template) -> Vec<Action> {
        let form = self.groups.gangs.form;
        let maker = self.maker();
        let wanted = names::job_workload(&maker.name, &maker.uid);
        let (name, told) = self.free(form.workloads(), words::WORKLOAD_KIND, wanted);
        let made = gang_make::workload(form, maker, &name, std::slice::from_ref(template));
        let message = format!("Created Workload {name} for Job {}", maker.name);
        let lowered = self.lowered();
        let make = Action::Make {
            kind: form.workloads().clone(),
            object: Box::new(made),
            told: (words::WORKLOAD_CREATED, message),
        };
        told.into_iter().chain(lowered).chain([make]).collect()
    }

    fn make_group(&self, workload: &Object, template: &Template) -> Vec<Action> {
        let maker = self.maker();
        let of = meta::name(&workload.tree);
        let wanted = names::job_group(&of, &template.name, &maker.uid);
        let (name, told) = self.free(self.kind, words::GROUP_KIND, wanted);
        let own = matches!(self.groups.asks.makes, Makes::Both);
        let uid = meta::uid(&workload.tree);
        let new = NewGroup {
            name: &name,
            workload: &of,
            workload_uid: own.then_some(&uid),
            template,
            labels: Tree::empty_map(),
        };
        let made = gang_make::group(self.groups.gangs.form, maker, &new);
        let message = format!("Created PodGroup {name} for Job {}", maker.name);
        let make = Action::Make {
            kind: self.kind.clone(),
            object: Box::new(made),
            told: (words::GROUP_CREATED, message),
        };
        told.into_iter().chain([make]).collect()
    }

    /// A name that is nobody's, and what is told when that is not the one that was wanted.
    fn free(&self, kind: &Kind, word: &str, wanted: Text) -> (Text, Option<Action>) {
        if !(self.groups.taken)(kind, &wanted) {
            return (wanted, None);
        }
        let other = names::hashed(&wanted, &self.maker().uid);
        let message = format!("{word} {wanted} is another's: {other} is made instead");
        (other, Some(warning(words::NAME_CONFLICT, message)))
    }

    /// What the Job says of its gang; `None` where such Jobs have none.
    fn template(&self) -> Result<Option<Template>, &'static str> {
        let asks = self.groups.asks;
        let form = self.groups.gangs.form;
        let name = names::job_template(&asks.maker.name);
        let policy = match asks.wish? {
            _ if form == Form::Earlier && !self.is_eligible() => return Ok(None),
            Wish::Basic if form == Form::Earlier => Policy::Gang { min: self.size.whole },
            Wish::Basic => Policy::Basic,
            Wish::Gang { min } => {
                let asked = min.unwrap_or(self.size.whole);
                Policy::Gang { min: asked.min(self.size.whole).max(1) }
            }
        };
        let mut more = asks.more.clone();
        // There a pod of another priority than its group would never be placed.
        if gang_make::is_inline(form) && !asks.priority_class.is_empty() {
            more = more.with(&["priorityClassName"], &asks.priority_class);
        }
        Ok(Some(Template { name, policy, more }))
    }

    /// The Jobs that 1.36 made groups for.
    fn is_eligible(&self) -> bool {
        let job = self.seen.job;
        job.mode == muster_api::job::Mode::Indexed
            && job.parallelism > 1
            && job.completions == Some(job.parallelism)
    }

    fn asked(&self) -> Option<u32> {
        match self.groups.asks.wish {
            Ok(Wish::Gang { min }) => Some(min.unwrap_or(self.size.whole).min(self.size.whole)),
            _ => None,
        }
    }

    fn need(&self, asked: u32) -> Need {
        Need { asked, room: self.size.room, waiting: self.size.creates }
    }

    /// More pods were asked for than there will be: such a gang would never start.
    fn lowered(&self) -> Option<Action> {
        let Ok(Wish::Gang { min: Some(min) }) = self.groups.asks.wish else { return None };
        let whole = self.size.whole;
        let message =
            format!("minCount {min} is more than the {whole} pods that run at once: {whole} are enough");
        (min > whole).then(|| warning(words::MIN_COUNT_LOWERED, message))
    }

    fn maker(&self) -> &Maker {
        &self.groups.asks.maker
    }

    /// Whether the Job never started. Each sign alone has gaps: pods may be gone, and suspending clears the start.
    fn is_new(&self) -> bool {
        let status = &self.seen.job.status;
        self.seen.pods.is_empty()
            && status.start_time.is_none()
            && status.succeeded == 0
            && status.failed == 0
            && condition::find(&status.conditions, kinds::SUSPENDED).is_none()
    }
}

fn warning(reason: &str, message: String) -> Action {
    Action::Note(Severity::Warning, reason.into(), message)
}
