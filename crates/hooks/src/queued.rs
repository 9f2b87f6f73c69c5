//! Jobs and pods that are put into queues: whether they are taken in, and what they may say.
//!
//! Whoever asks is either the server itself or a webhook of ours; both bring a way to look at other objects.
//!
//! # Invariants
//!
//! - Others are looked at only where the answer depends on them.
//! - What cannot be looked at is a refusal, never a guess.

use std::cell::RefCell;

use muster_api::gang::Gangs;
use muster_api::kinds::{JOBS, JOBSETS};
use muster_api::meta::{self, Owner};
use muster_api::queue::words::{annotations, finalizers, labels};
use muster_api::selector::Selector;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_queue::jobs::admit::{self, Changed};
use muster_queue::jobs::ancestors::{self, Above, Ancestor, Managed};
use muster_queue::jobs::plan::queue_of;
use muster_queue::jobs::{batch, jobset, trainjob};
use muster_queue::kinds::admission::Answer;
use muster_queue::pods::admit::{self as taking, Ancestry, Live};
use muster_queue::pods::check::{self, Caller};
use muster_tree::Tree;

/// What is taken in.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Which kinds are managed.
    pub managed: Managed,
    /// The namespaces whose jobs and pods are managed.
    pub namespaces: Selector,
    /// Which pods, besides.
    pub pods: taking::Settings,
}

/// What can be put into a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// A Job.
    Job,
    /// A JobSet.
    JobSet,
    /// A TrainJob.
    TrainJob,
    /// A pod.
    Pod,
}

impl Queued {
    /// What objects of this resource are.
    #[must_use]
    pub fn of(group: &str, plural: &str) -> Option<Queued> {
        match (group, plural) {
            ("", "pods") => Some(Queued::Pod),
            it if it == (&*JOBS.group, &*JOBS.plural) => Some(Queued::Job),
            it if it == (&*JOBSETS.group, &*JOBSETS.plural) => Some(Queued::JobSet),
            it if it == (&*TRAIN_JOBS.group, &*TRAIN_JOBS.plural) => Some(Queued::TrainJob),
            _ => None,
        }
    }

    fn suspend(self) -> &'static [&'static str] {
        match self {
            Queued::JobSet => jobset::NAMED.suspend,
            Queued::TrainJob => trainjob::NAMED.suspend,
            Queued::Job | Queued::Pod => batch::NAMED.suspend,
        }
    }

    fn integration(self) -> &'static str {
        match self {
            Queued::Job => batch::NAMED.integration,
            Queued::JobSet => jobset::NAMED.integration,
            Queued::TrainJob => trainjob::NAMED.integration,
            Queued::Pod => "pod",
        }
    }

    /// The webhook that says so in a cluster, without the letter of its stage.
    pub(crate) fn webhook(self) -> &'static str {
        match self {
            Queued::Job => "job.kb.io",
            Queued::JobSet => "jobset.kb.io",
            Queued::TrainJob => "trainjob.kb.io",
            Queued::Pod => "pod.kb.io",
        }
    }

    /// Whether such objects are managed at all.
    #[must_use]
    pub fn is_managed(self, settings: &Settings) -> bool {
        settings.managed.enabled.contains(self.integration())
    }
}

/// What surrounds an object that is written: an error is why nobody knows.
pub trait Around {
    /// Its namespace.
    ///
    /// # Errors
    /// It could not be read, or is not there.
    fn namespace(&self) -> Result<Tree, String>;
    /// An owner, which is in the same namespace.
    ///
    /// # Errors
    /// It could not be read.
    fn owner(&self, owner: &Owner) -> Result<Option<Tree>, String>;
    /// Whether the namespace has a queue for those that name none.
    ///
    /// # Errors
    /// It could not be read.
    fn has_default_queue(&self) -> Result<bool, String>;
    /// Whether there is a class of priority for those that name none.
    ///
    /// # Errors
    /// It could not be read.
    fn has_default_class(&self) -> Result<bool, String>;
    /// Whether whoever writes may let pods go: we ourselves, and whoever could admit them as well.
    ///
    /// # Errors
    /// Nobody tells.
    fn may_release(&self) -> Result<bool, String>;
    /// Whether whoever writes makes objects for owners of this kind: its controllers, who write its status as well.
    ///
    /// # Errors
    /// Nobody tells.
    fn acts_for(&self, owner: &Owner) -> Result<bool, String>;
    /// How pods name their gang; `None` where there are none.
    ///
    /// # Errors
    /// It could not be found out.
    fn gangs(&self) -> Result<Option<Gangs>, String>;
}

/// What is asked about a write.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// What it is.
    pub queued: Queued,
    /// The object as it would be.
    pub object: &'a Tree,
    /// The object as it is; absent on create.
    pub old: Option<&'a Tree>,
    /// What surrounds it.
    pub around: &'a dyn Around,
    /// What is taken in.
    pub settings: &'a Settings,
}

/// Something new that may be taken in.
#[must_use]
pub fn take_in(asked: &Asked<'_>) -> Answer {
    let looks = Looks::new(asked);
    let Asked { queued, object, settings, .. } = *asked;
    if is_elsewhere(queued, object) {
        return Answer::default();
    }
    let waits = !queue_of(object).is_empty() || settings.managed.without_queue;
    let parented = meta::annotation(object, annotations::SUSPENDING_PARENT).is_some();
    // Whoever has no business with queues costs one look.
    if !waits && !parented && !looks.has_default_queue() {
        return looks.or_refused(Answer::default());
    }
    let answer = match queued {
        Queued::Pod => match taking::admit(object, &looks, &settings.pods) {
            taking::Verdict::LeftAlone => Answer::default(),
            taking::Verdict::TakenIn(pod) => changed(pod, object),
            taking::Verdict::Refused(why) => refused(why),
        },
        Queued::Job | Queued::JobSet | Queued::TrainJob => filled_in(asked, &looks),
    };
    looks.or_refused(answer)
}

fn filled_in(asked: &Asked<'_>, looks: &Looks<'_>) -> Answer {
    let Asked { queued, object, settings, .. } = *asked;
    let ancestor = match looks.ancestor() {
        Ok(ancestor) => ancestor,
        Err(why) => return refused(why),
    };
    let around = admit::Around {
        is_selected: looks.noted(asked.around.namespace()).is_some_and(|it| settings.namespaces.selects(&it)),
        has_default_queue: queue_of(object).is_empty() && looks.has_default_queue(),
        has_default_class: looks.has_default_priority(),
        without_queue: settings.managed.without_queue,
        has_managed_owner: ancestor.is_some(),
    };
    let filled = admit::filled_in(object, queued.suspend(), around);
    let has_entry = queued == Queued::TrainJob && admit::is_taken_in(&filled, around);
    changed(if has_entry { trainjob::with_entry(&filled) } else { filled }, object)
}

/// Whether something may be created, or changed as it would be.
#[must_use]
pub fn judge(asked: &Asked<'_>) -> Answer {
    let Asked { queued, object, old, .. } = *asked;
    let looks = Looks::new(asked);
    // Who is queued in the stead of a Job has its share by what it made of it.
    let grows = queued == Queued::Job && old.is_some_and(|old| admit::asks_for_more(old, object));
    if let Some(why) = grows.then(|| looks.ancestor().err()).flatten() {
        return refused(why);
    }
    if !is_keyed(object) && !old.is_some_and(is_keyed) || is_elsewhere(queued, object) {
        return Answer::default();
    }
    // It matters only to those who change where they wait.
    let moves = old.is_some_and(|old| meta::label(old, labels::QUEUE) != meta::label(object, labels::QUEUE));
    let default_queue = moves && looks.has_default_queue();
    let answer = match queued {
        Queued::Pod => judge_pod(asked, &looks, default_queue),
        Queued::Job | Queued::JobSet | Queued::TrainJob => judge_job(asked, &looks, default_queue),
    };
    looks.or_refused(answer)
}

/// Whether somebody else runs it, and queues it there. Who does never changes.
fn is_elsewhere(queued: Queued, object: &Tree) -> bool {
    queued == Queued::TrainJob && trainjob::is_elsewhere(object)
}

fn is_keyed(it: &Tree) -> bool {
    [labels::QUEUE, labels::MANAGED, labels::POD_GROUP_NAME].iter().any(|key| meta::label(it, key).is_some())
        || [labels::POD_GROUP_NAME, annotations::SUSPENDING_PARENT]
            .iter()
            .any(|key| meta::annotation(it, key).is_some())
        || meta::has_finalizer(it, finalizers::POD)
}

fn judge_pod(asked: &Asked<'_>, looks: &Looks<'_>, default_queue: bool) -> Answer {
    let owner = meta::controller(asked.object);
    let check = |caller: Caller| {
        check::check(&check::Asked {
            pod: asked.object,
            old: asked.old,
            caller,
            owner_enabled: owner
                .as_ref()
                .is_some_and(|it| asked.settings.managed.is_enabled(it.group(), &it.kind)),
            default_queue,
        })
    };
    let (mut answer, other) = (check(Caller::MayRelease), check(Caller::Other));
    // Who writes is asked about only where it matters: seldom.
    if answer != other && looks.noted(asked.around.may_release()) != Some(true) {
        answer = other;
    }
    Answer { problems: answer.problems, warnings: answer.warnings, ..Answer::default() }
}

fn judge_job(asked: &Asked<'_>, looks: &Looks<'_>, has_default_queue: bool) -> Answer {
    let Asked { queued, object, old, .. } = *asked;
    let mut problems = admit::check_queue_words(object);
    // A Job that runs with fewer pods than it asked for has what its annotations said of all of them.
    let sizes = [annotations::JOB_MIN_PARALLELISM, annotations::JOB_COMPLETIONS_EQUAL_PARALLELISM];
    let same =
        |old: &Tree| sizes.iter().all(|key| meta::annotation(old, key) == meta::annotation(object, key));
    if queued == Queued::Job && !old.is_some_and(same) {
        problems.extend(admit::check_job(object));
    }
    if let Some(old) = old {
        let is_suspended = object.bool_at(queued.suspend()) == Some(true);
        let changed = Changed { old, new: object, is_suspended, has_default_queue };
        problems.extend(admit::check_queue_change(&changed));
        if queued == Queued::Job {
            problems.extend(admit::check_job_change(old, object));
        }
        if queued == Queued::TrainJob {
            let is_queue = || looks.noted(asked.around.may_release()) == Some(true);
            problems.extend(trainjob::check_patches(old, object, is_queue));
        }
    }
    Answer { problems, ..Answer::default() }
}

fn changed(new: Tree, old: &Tree) -> Answer {
    Answer { changed: (new != *old).then_some(new), ..Answer::default() }
}

fn refused(why: String) -> Answer {
    Answer { refused: Some(why), ..Answer::default() }
}

/// Looks at what surrounds an object, and notes what could not be seen.
struct Looks<'a> {
    asked: &'a Asked<'a>,
    unseen: RefCell<Option<String>>,
}

impl<'a> Looks<'a> {
    fn new(asked: &'a Asked<'a>) -> Looks<'a> {
        Looks { asked, unseen: RefCell::default() }
    }

    fn noted<T>(&self, seen: Result<T, String>) -> Option<T> {
        match seen {
            Ok(seen) => Some(seen),
            Err(why) => {
                self.unseen.borrow_mut().get_or_insert(why);
                None
            }
        }
    }

    /// The answer, unless it was made without having seen all that counts.
    fn or_refused(self, answer: Answer) -> Answer {
        self.unseen.into_inner().map_or(answer, refused)
    }

    /// Who is queued in its stead. Anybody can write down an owner: only those are believed who make what it has.
    fn ancestor(&self) -> Result<Option<Ancestor>, String> {
        let found = self.named_ancestor()?;
        let owner = meta::controller(self.asked.object).filter(|_| found.is_some());
        match owner {
            Some(owner) if !self.asked.around.acts_for(&owner)? => Err(format!(
                "{} {} is queued with all that is made for it: only its controller makes something for it",
                owner.kind, owner.name
            )),
            _ => Ok(found),
        }
    }

    fn named_ancestor(&self) -> Result<Option<Ancestor>, String> {
        let Asked { object, around, settings, .. } = self.asked;
        let look = |owner: &Owner| {
            let found = around.owner(owner)?;
            Ok(found.map(|it| Above {
                uid: meta::uid(&it),
                queue: queue_of(&it),
                controller: meta::controller(&it),
            }))
        };
        let controller = meta::controller(object);
        ancestors::find(&meta::uid(object), controller.as_ref(), &settings.managed, look)
            .map_err(|lost| lost.to_string())
    }
}

impl Live for Looks<'_> {
    fn namespace(&self) -> Result<Tree, String> {
        self.asked.around.namespace()
    }

    fn ancestry(&self) -> Ancestry {
        match self.ancestor() {
            Ok(None) => Ancestry::Unmanaged,
            Ok(Some(_)) => Ancestry::Managed,
            Err(why) => Ancestry::Unknown(why),
        }
    }

    fn has_default_queue(&self) -> bool {
        self.noted(self.asked.around.has_default_queue()) == Some(true)
    }

    fn has_default_priority(&self) -> bool {
        self.noted(self.asked.around.has_default_class()) == Some(true)
    }

    fn gangs(&self) -> Option<Gangs> {
        self.noted(self.asked.around.gangs()).flatten()
    }
}

#[cfg(test)]
mod tests;
