//! Which pods of a JobSet are placed together: its Workload, the templates in it, and the groups of an attempt.
//!
//! # Invariants
//!
//! - Nothing is grouped unless the JobSet asks for it, and no gang is asked for that cannot fill: what starts in order is
//!   not one gang, and what has run for good is not counted.
//! - A group is known by what its labels say, not by its name: names may be another's.
//! - Jobs that are there keep the group they name; one that is lost is made again under that name.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::gang_make::{
    self, Gangs, Maker, Member, Need, NewGroup, Policy, TEMPLATES_MAX, Template, names, words as gang_words,
};
use muster_api::jobset::{JobSetFacts, ReplicatedJob};
use muster_api::meta;
use muster_api::paths::job as job_path;
use muster_api::port::Object;
use muster_api::words::jobset as words;
use muster_tree::{Text, Tree};

use crate::children::{Child, Sorted};
use crate::plan::{Around, Held};

/// The template of a JobSet that is one gang.
const ALL: &str = "all";
const PRIORITY_CLASS: &str = "priorityClassName";

/// Which pods are placed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// All.
    AllReplicas,
    /// Those of each replicatedJob.
    PerReplicatedJob,
    /// Those of each Job.
    PerJob,
}

impl Together {
    /// All words.
    pub const WORDS: [&'static str; 3] = ["AllReplicas", "PerReplicatedJob", "PerJob"];

    /// Reads a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Together> {
        match word {
            "AllReplicas" => Some(Together::AllReplicas),
            "PerReplicatedJob" => Some(Together::PerReplicatedJob),
            "PerJob" => Some(Together::PerJob),
            _ => None,
        }
    }
}

/// What is told about a wish: reason and message.
pub type Told = (&'static str, String);

/// How a JobSet is grouped, and what is to be told about it.
#[must_use]
pub fn together(set: &JobSetFacts, is_served: bool) -> (Option<Together>, Vec<Told>) {
    let Some(word) = &set.gang else { return (None, Vec::new()) };
    let key = gang_words::GANG;
    let Some(wish) = Together::of(word) else {
        let all = Together::WORDS.join(", ");
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
    let split = wish == Together::AllReplicas && is_ordered;
    if split {
        let message = format!(
            "{key}: {word} would wait for pods that come only after others run: each replicatedJob is a gang of its own"
        );
        told.push((gang_words::GANG_SPLIT, message));
    }
    let wish = if split { Together::PerReplicatedJob } else { wish };
    if wish == Together::AllReplicas || many <= TEMPLATES_MAX {
        return ((many > 0).then_some(wish), told);
    }
    let instead = if is_ordered { "pods are placed one by one" } else { "all are one gang" };
    let message = format!(
        "{key}: a Workload has {TEMPLATES_MAX} templates, and these are {many} replicatedJobs: {instead}"
    );
    told.push((gang_words::TOO_MANY_JOBS, message));
    ((!is_ordered).then_some(Together::AllReplicas), told)
}

/// Whether the pods of a replicatedJob take part: there are some, and they have no group of their own.
fn is_member(of: &ReplicatedJob) -> bool {
    let marked = of.template.at(job_path::TEMPLATE).is_some_and(gang_make::is_marked);
    of.replicas > 0 && of.pods() > 0 && !marked
}

/// What there is of Workloads and groups.
pub struct Groups<'a> {
    /// How they are written here.
    pub gangs: Gangs,
    /// The Workloads that the JobSet controls.
    pub workloads: Vec<&'a Object>,
    /// The groups that it controls.
    pub groups: Vec<&'a Object>,
}

/// Where a group stands: of which replicatedJob (empty for all), of which Job of it, and of which attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The replicatedJob.
    pub job: Text,
    /// The Job.
    pub index: Option<u32>,
    /// The attempt.
    pub attempt: u32,
}

impl Place {
    fn labels(&self, set: &JobSetFacts) -> Tree {
        let mut all = vec![
            (words::NAME, set.name.clone()),
            (words::RESTART_ATTEMPT, Text::from(self.attempt.to_string())),
        ];
        all.extend((!self.job.is_empty()).then(|| (words::GROUP, self.job.clone())));
        all.extend(self.index.map(|index| (words::JOB_INDEX, Text::from(index.to_string()))));
        Tree::map(all)
    }

    fn of(group: &Tree) -> Option<Place> {
        let number = |key: &str| meta::label(group, key).map(str::parse::<u32>);
        Some(Place {
            job: meta::label(group, words::GROUP).unwrap_or_default().into(),
            index: number(words::JOB_INDEX).transpose().ok()?,
            attempt: number(words::RESTART_ATTEMPT)?.ok()?,
        })
    }
}

/// Whether an object that is wanted can be made.
#[derive(Debug, Clone, PartialEq)]
pub enum Make {
    /// It is there, or nobody wants it.
    Nothing,
    /// This, and what is told about its name.
    This(Box<Tree>, Option<String>),
    /// Not now: its name is held by something that only others can take away.
    Wait(Option<String>),
}

/// The gangs of a JobSet.
pub struct Layout<'a> {
    set: &'a JobSetFacts,
    around: &'a dyn Around,
    gangs: Gangs,
    together: Together,
    workload: Option<&'a Object>,
    groups: BTreeMap<Place, &'a Object>,
    /// The group that the Jobs of a place name; `None` where they were made without one.
    named: BTreeMap<Place, Option<Text>>,
}

impl<'a> Layout<'a> {
    /// What it is for the Jobs that are there.
    #[must_use]
    pub fn new(
        set: &'a JobSetFacts,
        together: Together,
        seen: &Groups<'a>,
        around: &'a dyn Around,
        sorted: &Sorted<'_>,
    ) -> Layout<'a> {
        let groups = seen.groups.iter().filter_map(|it| Some((Place::of(&it.tree)?, *it)));
        let mut layout = Layout {
            set,
            around,
            gangs: seen.gangs,
            together,
            workload: seen.workloads.iter().copied().min_by_key(|it| meta::name(&it.tree)),
            groups: groups.collect(),
            named: BTreeMap::new(),
        };
        for child in sorted.present() {
            let Some(place) = layout.place_of(child) else { continue };
            let name = group_of(child);
            let known = layout.named.entry(place).or_default();
            *known = name.or_else(|| known.take());
        }
        layout
    }

    /// How gangs are written here.
    #[must_use]
    pub fn gangs(&self) -> Gangs {
        self.gangs
    }

    /// Where the group of a Job stands.
    #[must_use]
    pub fn place(&self, of: &ReplicatedJob, index: u32) -> Place {
        let status = &self.set.status;
        let alone = status.job(&of.name).and_then(|it| it.restarts.get(index as usize)).copied();
        match self.together {
            Together::AllReplicas => Place { job: Text::new(), index: None, attempt: status.restarts },
            Together::PerReplicatedJob => {
                Place { job: of.name.clone(), index: None, attempt: status.restarts }
            }
            // A Job that is made anew by itself begins another attempt, too.
            Together::PerJob => Place {
                job: of.name.clone(),
                index: Some(index),
                attempt: status.restarts.saturating_add(alone.unwrap_or(0)),
            },
        }
    }

    fn place_of(&self, child: &Child<'_>) -> Option<Place> {
        let of = self.set.job(child.group?).filter(|of| is_member(of))?;
        Some(self.place(of, child.index()?))
    }

    /// The group that a new Job joins.
    #[must_use]
    pub fn member(&self, of: &ReplicatedJob, index: u32) -> Option<Member> {
        if !is_member(of) {
            return None;
        }
        let place = self.place(of, index);
        let (group, template) = (self.name(&place)?, template_name(&place).into());
        Some(Member { workload: self.workload_name(), template, group, group_uid: None })
    }

    /// The name of the group at a place; `None` where Jobs are without one.
    fn name(&self, place: &Place) -> Option<Text> {
        match (self.groups.get(place), self.named.get(place)) {
            (Some(group), _) => Some(meta::name(&group.tree)),
            (None, Some(named)) => named.clone(),
            (None, None) => {
                let plain = names::set_group(&self.set.name, &place.job, place.index, place.attempt);
                let held = self.around.group(&plain).filter(|held| !self.goes_soon(held));
                Some(if held.is_some() { names::hashed(&plain, &self.set.uid) } else { plain })
            }
        }
    }

    fn workload_name(&self) -> Text {
        if let Some(workload) = self.workload {
            return meta::name(&workload.tree);
        }
        let held = self.around.workload(&self.set.name).filter(|held| !self.goes_soon(held));
        if held.is_some() { names::hashed(&self.set.name, &self.set.uid) } else { self.set.name.clone() }
    }

    /// Whether an object belongs to an earlier JobSet of this name, or is on its way out: not worth another name.
    fn goes_soon(&self, held: &Held) -> bool {
        let earlier = held.controller.as_ref().is_some_and(|owner| {
            owner.kind == words::KIND && owner.name == self.set.name && owner.uid != self.set.uid
        });
        held.deleting || earlier
    }

    /// The Workload, if it is to be made.
    #[must_use]
    pub fn make_workload(&self) -> Make {
        if self.workload.is_some() {
            return Make::Nothing;
        }
        let name = self.workload_name();
        let (form, held) = (self.gangs.form, self.around.workload(&name));
        self.make(held.as_ref(), gang_words::WORKLOAD_KIND, &self.set.name, &name, || {
            gang_make::workload(form, &self.maker(), &name, &self.templates())
        })
    }

    /// The group at a place, if it is to be made. Its Workload is there.
    #[must_use]
    pub fn make_group(&self, place: &Place) -> Make {
        let (Some(name), Some(workload)) = (self.name(place), self.workload) else { return Make::Nothing };
        if self.groups.contains_key(place) || self.gangs.form.groups().is_none() {
            return Make::Nothing;
        }
        let plain = names::set_group(&self.set.name, &place.job, place.index, place.attempt);
        let (of, uid) = (meta::name(&workload.tree), meta::uid(&workload.tree));
        let template = self.template(template_name(place));
        let held = self.around.group(&name);
        self.make(held.as_ref(), gang_words::GROUP_KIND, &plain, &name, || {
            let labels = place.labels(self.set);
            let new = NewGroup {
                name: &name,
                workload: &of,
                workload_uid: Some(&uid),
                template: &template,
                labels,
            };
            gang_make::group(self.gangs.form, &self.maker(), &new)
        })
    }

    fn make(
        &self,
        held: Option<&Held>,
        word: &str,
        plain: &Text,
        name: &Text,
        object: impl FnOnce() -> Tree,
    ) -> Make {
        match held {
            None => {
                let conflict =
                    (plain != name).then(|| format!("{word} {plain} is another's: {name} is made instead"));
                Make::This(Box::new(object()), conflict)
            }
            Some(held) if self.goes_soon(held) => Make::Wait(None),
            Some(_) => Make::Wait(Some(format!("{word} {name} is another's: delete or rename it"))),
        }
    }

    fn maker(&self) -> Maker {
        let set = self.set;
        Maker {
            api_version: words::API_VERSION.into(),
            kind: words::KIND,
            namespace: set.namespace.clone(),
            name: set.name.clone(),
            uid: set.uid.clone(),
        }
    }

    /// The templates of the Workload. Their priority classes must be the same where they have any.
    fn templates(&self) -> Vec<Template> {
        let mut all: Vec<Template> = self.template_names().map(|name| self.template(name)).collect();
        let classes: BTreeSet<&str> = all.iter().map(|it| it.more.str_at(&[PRIORITY_CLASS])).collect();
        if classes.len() > 1 {
            all.iter_mut().for_each(|it| it.more = it.more.without_key(PRIORITY_CLASS));
        }
        all
    }

    fn template_names(&self) -> impl Iterator<Item = &str> {
        let one = (self.together == Together::AllReplicas).then_some(ALL);
        let each = self.set.jobs.iter().filter(move |it| one.is_none() && is_member(it));
        one.into_iter().chain(each.map(|it| it.name.as_str()))
    }

    fn template(&self, name: &str) -> Template {
        let classes: BTreeSet<&str> = self.jobs(name).map(priority_class).collect();
        let class = classes.first().filter(|it| classes.len() == 1 && !it.is_empty());
        let class = class.filter(|_| gang_make::is_inline(self.gangs.form)).map(|it| Tree::from(*it));
        Template {
            more: Tree::empty_map().with_option(&[PRIORITY_CLASS], class),
            ..Template::new(name, Policy::Gang { min: self.whole(name) })
        }
    }

    /// The replicatedJobs of a template.
    fn jobs<'b>(&'b self, template: &'b str) -> impl Iterator<Item = &'b ReplicatedJob> {
        let all = self.together == Together::AllReplicas;
        self.set.jobs.iter().filter(move |it| is_member(it) && (all || it.name == template))
    }

    /// How many pods a gang of this template has.
    fn whole(&self, template: &str) -> u32 {
        let one = |of: &ReplicatedJob| match self.together {
            Together::PerJob => of.pods(),
            _ => of.pods().saturating_mul(of.replicas),
        };
        let sum = self.jobs(template).map(one).fold(0, u32::saturating_add);
        sum.clamp(1, i32::MAX.unsigned_abs())
    }

    /// What of the Workload and the groups has to change before any pod does: each object, and a merge patch.
    #[must_use]
    pub fn resizes(&self, sorted: &Sorted<'_>) -> Vec<(&'a Object, bool, Tree)> {
        let Some(workload) = self.workload.filter(|_| gang_make::is_elastic(self.gangs.form)) else {
            return Vec::new();
        };
        let (mut tree, mut patch, mut sizes) = (workload.tree.clone(), None, BTreeMap::new());
        for name in self.template_names() {
            let Some(Policy::Gang { min: old }) = Template::find(&tree, name).map(|it| it.policy) else {
                continue;
            };
            let new = self.need(name, sorted).change(old).unwrap_or(old);
            sizes.insert(name, new);
            if let Some(next) = gang_make::resize_template(&tree, name, new) {
                tree = tree.merge(&next);
                patch = Some(next);
            }
        }
        let groups = self.groups.iter().filter_map(|(place, group)| {
            let min = sizes.get(template_name(place)).filter(|_| self.is_current(place))?;
            Some((*group, false, gang_make::resize_group(&group.tree, *min)?))
        });
        patch.map(|patch| (workload, true, patch)).into_iter().chain(groups).collect()
    }

    /// How many pods a gang of this template needs, now that some Jobs have done their work.
    fn need(&self, template: &str, sorted: &Sorted<'_>) -> Need {
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
            Together::PerJob => least,
            _ => u32::try_from(room).unwrap_or(whole),
        };
        Need { asked: whole, room, waiting }
    }

    /// Groups that nobody names and nobody is going to: of attempts that are over, and of Jobs that are gone for good.
    #[must_use]
    pub fn left_over(&self, children: &[Child<'_>]) -> Vec<&'a Object> {
        let named: BTreeSet<Text> = children.iter().filter_map(group_of).collect();
        let over = self.set.status.ended().is_some() && self.together == Together::PerJob;
        let stays = |place: &Place, group: &Object| {
            let comes_again = self.is_current(place) && !over;
            comes_again || meta::deleting(&group.tree).is_some() || named.contains(&meta::name(&group.tree))
        };
        self.groups.iter().filter(|(place, group)| !stays(place, group)).map(|(_, group)| *group).collect()
    }

    /// Whether Jobs of the present attempt would stand there.
    fn is_current(&self, place: &Place) -> bool {
        let index = place.index.unwrap_or(0);
        let all = self.set.jobs.iter().filter(|of| is_member(of) && index < of.replicas);
        all.into_iter().any(|of| self.place(of, index) == *place)
    }

    /// The places of Jobs that are there, have a gang and are not done.
    pub fn in_use<'b>(&'b self, sorted: &'b Sorted<'_>) -> impl Iterator<Item = Place> + 'b {
        let places = sorted.active.iter().filter_map(|child| self.place_of(child));
        places.filter(|place| self.named.get(place).is_some_and(Option::is_some))
    }
}

fn template_name(place: &Place) -> &str {
    if place.job.is_empty() { ALL } else { &place.job }
}

fn group_of(child: &Child<'_>) -> Option<Text> {
    gang_make::group_of(child.tree.at(job_path::TEMPLATE)?)
}

fn priority_class(of: &ReplicatedJob) -> &str {
    of.template.at(job_path::TEMPLATE).map_or("", |it| it.str_at(&["spec", PRIORITY_CLASS]))
}

/// Pods that a Job may still have at once.
fn left(of: &ReplicatedJob, child: &Child<'_>) -> u32 {
    match of.completions {
        _ if child.ended.is_some() => 0,
        Some(all) => of.pods().min(all.saturating_sub(child.succeeded)),
        None if child.succeeded > 0 => of.pods().min(child.active),
        None => of.pods(),
    }
}
