//! Plain pods and groups of them: their pictures, and their plans as calls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::event::{About, Event, Severity};
use muster_api::gang_make::words as gang_words;
use muster_api::kinds::PODS;
use muster_api::meta::{self, Owner};
use muster_api::paths::{meta as meta_path, pod as pod_path};
use muster_api::pod::Phase;
use muster_api::port::{Act, Call, Cascade, Guard, Object, Part, Refusal};
use muster_api::queue::condition::Condition;
use muster_api::queue::paths::workload as path;
use muster_api::queue::words::{WORKLOAD, conditions, finalizers, labels, managers, reasons};
use muster_api::queue::{AdmissionStatus, FlavorFacts, PriorityRef, WorkloadFacts, condition_body, kinds};
use muster_api::time::Time;
use muster_queue::jobs::ancestors::{self, Above as Looked};
use muster_queue::jobs::plan::{prebuilt_of, queue_of};
use muster_queue::jobs::requests::Around;
use muster_queue::life::steps::{self, Comeback as Back};
use muster_queue::life::{At, Known, Written};
use muster_queue::pods::decl;
use muster_queue::pods::expect::Memory;
use muster_queue::pods::member::{Above, Member, PodRef};
use muster_queue::pods::plan::{
    self, Action, Comeback, Key as PodKey, Note, Picture, SeenWorkload, Topic, WorkloadRef,
};
use muster_tree::{Text, Tree, tree};

use super::jobs::Priorities;
use super::{Queueing, calls, feed};
use crate::cache::{Caches, Seen};
use crate::plan::{Key, Plan, Step, Wake};

/// Where keys of groups live: no namespace is called so.
const GROUPS: &str = "group/";
/// Word of the kind.
const POD: &str = "Pod";

/// What is remembered of pods.
#[derive(Debug, Default)]
pub(super) struct Pods {
    memory: Memory,
    /// Names of the pods of each group.
    groups: BTreeMap<(Text, Text), BTreeSet<Text>>,
    /// Names of the Workloads of each pod by itself.
    singles: BTreeMap<(Text, Text), BTreeSet<Text>>,
    /// What was noted once.
    noted: BTreeSet<(Topic, &'static str, String)>,
}

/// When to look again at what had to wait, should nothing be heard of the calls before it.
const SOON: Duration = Duration::from_millis(500);
/// The most notes that are remembered; with more, the memory starts anew.
const NOTED_MAX: usize = 100_000;

pub(super) fn key_of(of: &PodKey) -> Key {
    match of {
        PodKey::Pod { namespace, name } => Key::new(&PODS, namespace, name),
        PodKey::Group { namespace, name } => {
            Key::new(&PODS, &Text::from(format!("{GROUPS}{namespace}")), name)
        }
    }
}

fn pod_key(key: &Key) -> PodKey {
    let name = key.name.clone();
    match key.namespace.strip_prefix(GROUPS) {
        Some(namespace) => PodKey::Group { namespace: namespace.into(), name },
        None => PodKey::Pod { namespace: key.namespace.clone(), name },
    }
}

impl Pods {
    /// Hears of a pod; the key to look at.
    pub fn hear(&mut self, seen: &Seen<'_>) -> Vec<Wake> {
        let concerns = |it: &Object| {
            meta::label(&it.tree, labels::MANAGED).is_some() || meta::has_finalizer(&it.tree, finalizers::POD)
        };
        if ![seen.before, seen.after].into_iter().flatten().any(concerns) {
            return Vec::new();
        }
        match seen.after {
            Some(pod) => self.memory.saw(pod),
            None => self.memory.gone(&meta::uid(&seen.newest().tree)),
        }
        let group =
            |it: &Object| decl::group_name(&it.tree).map(|(name, _)| (seen.key.namespace.clone(), name));
        let (before, after) = (seen.before.and_then(group), seen.after.and_then(group));
        if let Some(old) = before.filter(|it| Some(it) != after.as_ref())
            && let Some(members) = self.groups.get_mut(&old)
        {
            members.remove(&seen.key.name);
            if members.is_empty() {
                self.groups.remove(&old);
            }
        }
        if let Some(group) = after {
            self.groups.entry(group).or_default().insert(seen.key.name.clone());
        }
        let keys: BTreeSet<Key> = [seen.before, seen.after]
            .into_iter()
            .flatten()
            .map(|it| key_of(&PodKey::of_pod(&it.tree)))
            .collect();
        keys.into_iter().map(Wake::from).collect()
    }

    /// Hears of a Workload: a pod by itself that is gone is known by the Workload it had.
    pub fn hear_workload(&mut self, before: Option<&WorkloadFacts>, after: Option<&WorkloadFacts>) {
        let [old, new] = [before, after].map(|it| it.and_then(pod_of));
        if old == new {
            return;
        }
        if let (Some(pod), Some(it)) = (old, before)
            && let Some(had) = self.singles.get_mut(&pod)
        {
            had.remove(&it.name);
            if had.is_empty() {
                self.singles.remove(&pod);
            }
        }
        if let (Some(pod), Some(it)) = (new, after) {
            self.singles.entry(pod).or_default().insert(it.name.clone());
        }
    }

    /// A call about a pod was refused, or nothing was heard of it.
    pub fn refused(&mut self, call: &Call, why: &Refusal) {
        let Some(uid) = call.guard.uid.as_ref().filter(|_| call.on.kind == PODS) else { return };
        match why {
            Refusal::Unknown(_) | Refusal::Conflict(_) => self.memory.unheard(uid),
            _ => self.memory.refused(uid),
        }
    }

    fn is_news(&mut self, note: &Note) -> bool {
        if self.noted.len() >= NOTED_MAX {
            self.noted.clear();
        }
        self.noted.insert((note.topic.clone(), note.reason, note.message.clone()))
    }
}

/// Whether a pod is queued, or was and is still held by us. One that ended and was let go counts no more.
pub(super) fn concerns(pod: &Tree) -> bool {
    let ended = Phase::of(pod.str_at(pod_path::PHASE)).ended();
    meta::has_finalizer(pod, finalizers::POD) || (meta::label(pod, labels::MANAGED).is_some() && !ended)
}

/// The keys that a change of a Workload concerns.
pub(super) fn concerned(workload: &WorkloadFacts, gone: bool) -> Vec<Key> {
    PodKey::of_workload(workload, gone).iter().map(key_of).collect()
}

impl Queueing {
    /// What the pods of a key need next.
    pub(super) fn plan_pods(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let of = pod_key(key);
        let (namespace, _) = of.names();
        let names: Vec<Text> = match &of {
            PodKey::Pod { name, .. } => vec![name.clone()],
            PodKey::Group { namespace, name } => {
                let group = self.pods.groups.get(&(namespace.clone(), name.clone()));
                group.into_iter().flatten().cloned().collect()
            }
        };
        let objects: Vec<&Object> = names.iter().filter_map(|it| caches.get(&PODS, namespace, it)).collect();
        let members: Vec<Member> =
            objects.iter().map(|it| Member::of(it, self.above_pod(it, caches))).collect();
        let workloads = self.workloads(&of, &objects, caches);
        let flavor = |name: &str| {
            caches
                .get(&kinds::RESOURCE_FLAVORS, &Text::new(), &name.into())
                .map(|it| FlavorFacts::of(&it.tree))
        };
        let retire_at =
            workloads.iter().find_map(|it| steps::deactivated_until(&it.facts, &self.settings.life));
        let limits = feed::limits(namespace, caches);
        let steps = plan::plan(&Picture {
            key: &of,
            pods: &members,
            workloads: &workloads,
            flavor: &flavor,
            openings: &self.pods.memory.openings,
            cleanups: &self.pods.memory.cleanups,
            classes: &Priorities(caches),
            around: &Around { limits: &limits, runtime_class: &|name| feed::runtime_class(name, caches) },
            retire_at,
            settings: &self.settings.pods,
            now,
        });
        let gang = self.gang_of(&of, &objects, &workloads, caches);
        let mut plan = Plan::nothing();
        for action in steps {
            if matches!(action, Action::Open(_)) && !gang.open {
                continue;
            }
            // A plan ends with the first call that is refused, and what is remembered as sent must have been sent: whatever
            // has to be remembered comes first, or waits for the next look.
            if Memory::remembers(&action) && plan.steps.iter().any(|it| !matches!(it, Step::Note(_))) {
                return plan.again(now + SOON);
            }
            if !self.pods.memory.sending(&of, &action) {
                continue;
            }
            if let Action::LookAgain(at) = action {
                plan = plan.again(at);
                continue;
            }
            if let Action::NoteOnce(note) = &action
                && !self.pods.is_news(note)
            {
                continue;
            }
            plan.steps.extend(self.pod_steps(namespace, action, caches, now));
        }
        if let (Some(message), Some(pod)) = (gang.taken, members.first()) {
            let (topic, severity) = (Topic::Pod(pod.this.clone()), Severity::Warning);
            let note = Note { topic, severity, reason: gang_words::NAME_CONFLICT, message };
            let news = self.pods.is_news(&note);
            plan.steps.extend(news.then(|| tell(namespace, note, caches)).flatten());
        }
        // Last: what is refused here must not keep pods from being let go.
        plan.steps.extend(gang.steps);
        plan
    }

    fn workloads(&self, of: &PodKey, pods: &[&Object], caches: &Caches) -> Vec<SeenWorkload> {
        let (namespace, name) = of.names();
        let named = |name: &Text| caches.get(&kinds::WORKLOADS, namespace, name);
        match of {
            PodKey::Group { .. } => named(name).map(SeenWorkload::of).into_iter().collect(),
            PodKey::Pod { .. } => {
                let Some(pod) = pods.first() else {
                    // Whatever the pod had controlled under that name.
                    let had = self.pods.singles.get(&(namespace.clone(), name.clone()));
                    return had.into_iter().flatten().filter_map(named).map(SeenWorkload::of).collect();
                };
                let uid = meta::uid(&pod.tree);
                let owned = caches.owned_by(&uid).filter(|(key, it)| {
                    key.kind == kinds::WORKLOADS
                        && meta::owners(&it.tree).any(|it| it.controller && it.uid == uid)
                });
                let mut all: Vec<SeenWorkload> = owned.map(|(_, it)| SeenWorkload::of(it)).collect();
                let prebuilt = prebuilt_of(&pod.tree).and_then(|name| named(&name)).map(SeenWorkload::of);
                all.extend(prebuilt.filter(|it| all.iter().all(|own| own.facts.uid != it.facts.uid)));
                all
            }
        }
    }

    fn above_pod(&self, pod: &Object, caches: &Caches) -> Above {
        let controller = meta::owners(&pod.tree).find(|it| it.controller);
        let look = |owner: &Owner| {
            let found = caches.by_uid(&owner.uid).map(|(_, it)| it);
            Ok(found.map(|it| Looked {
                uid: meta::uid(&it.tree),
                queue: queue_of(&it.tree),
                controller: meta::owners(&it.tree).find(|it| it.controller),
            }))
        };
        match ancestors::find(&meta::uid(&pod.tree), controller.as_ref(), &self.settings.managed, look) {
            Ok(Some(_)) => Above::Managed,
            // Whoever cannot be seen is not known to be queued.
            Ok(None) | Err(_) => Above::Nobody,
        }
    }

    fn pod_steps(&self, namespace: &Text, action: Action, caches: &Caches, now: Time) -> Vec<Step> {
        let at = self.at(now);
        let workload = |of: &WorkloadRef| {
            caches.get(&kinds::WORKLOADS, namespace, &of.name).filter(|it| meta::uid(&it.tree) == of.uid)
        };
        let patch = |of: &WorkloadRef, make: &dyn Fn(&Tree) -> Tree| {
            let found = workload(of);
            let step = found.map(|it| calls::merge(&kinds::WORKLOADS, it, Part::Main, make(&it.tree)));
            step.into_iter().collect::<Vec<Step>>()
        };
        let written = |of: &WorkloadRef, make: &dyn Fn(Known<'_>) -> Option<Written>| match workload(of) {
            Some(it) => write(it, make),
            None => Vec::new(),
        };
        match action {
            Action::CreateWorkload(tree, note) => {
                let mut steps = vec![calls::create(tree)];
                steps.extend(tell(namespace, note, caches));
                steps
            }
            Action::RewriteWorkload(of, spec) => patch(&of, &|old| {
                old.merge_patch_to(&old.with(&["spec"], spec.clone())).unwrap_or_else(Tree::empty_map)
            }),
            Action::DeleteWorkload(of) => match workload(&of) {
                Some(it) => {
                    let finalizer = calls::drop_finalizer(&kinds::WORKLOADS, it);
                    finalizer.into_iter().chain([calls::delete(it, Cascade::Background)]).collect()
                }
                None => Vec::new(),
            },
            Action::LetWorkloadGo(of) => workload(&of)
                .and_then(|it| calls::drop_finalizer(&kinds::WORKLOADS, it))
                .into_iter()
                .collect(),
            Action::AddOwners(of, owners) => patch(&of, &|old| {
                let all = old.items_at(meta_path::OWNERS).iter().cloned().chain(owners.iter().cloned());
                Tree::Null.with(meta_path::OWNERS, Tree::list(all))
            }),
            Action::ChangeQueue(of, queue) => patch(&of, &|_| Tree::Null.with(path::QUEUE, &queue)),
            Action::ChangePriority(of, resolved) => patch(&of, &|_| {
                Tree::Null
                    .with(path::PRIORITY, resolved.priority)
                    .with_option(path::PRIORITY_CLASS, resolved.class.as_ref().map(PriorityRef::tree))
            }),
            Action::Finish { workload, reason, message } => {
                written(&workload, &|known| steps::finish(known, reason, &message, at))
            }
            Action::TellReady(of, ready) => {
                written(&of, &|known| steps::pods_ready(known, ready, &self.settings.life, now))
            }
            Action::Release(of, comeback) => {
                let back = match comeback {
                    Comeback::Possible => Back::Possible,
                    Comeback::Never => Back::Never,
                };
                written(&of, &|known| steps::release(known, back, at))
            }
            Action::TellWaiting { workload: of, holds, reason, message } => {
                workload(&of).map(|it| tell_waiting(it, holds, &reason, &message, at)).into_iter().collect()
            }
            Action::TellReclaimable(of, pods) => {
                let pods = pods.into_iter().collect();
                workload(&of).map(|it| calls::apply_reclaimable(it, &pods)).into_iter().collect()
            }
            Action::Open(all) => {
                let told = all.into_iter().filter_map(|one| {
                    let pod = caches.get(&PODS, namespace, &one.pod.name)?;
                    let call = change(namespace, &one.pod, Act::Merge(one.patch));
                    Some((call, note_pod(&pod.tree, reasons::STARTED, one.message)))
                });
                vec![Step::EachTold(told.collect())]
            }
            Action::LetGo(pods) => vec![let_go(namespace, &pods, caches)],
            Action::DeletePods(pods) => vec![let_go(namespace, &pods, caches), delete(namespace, &pods)],
            Action::DeleteExcess(pods) => {
                let told = pods.iter().filter_map(|it| {
                    let pod = caches.get(&PODS, namespace, &it.name)?;
                    let event = note_pod(&pod.tree, EXCESS, "Excess pod deleted".to_owned());
                    Some((delete_call(namespace, it), event))
                });
                vec![let_go(namespace, &pods, caches), Step::EachTold(told.collect())]
            }
            Action::Stop { pods, reason, message } => {
                let marks = pods.iter().map(|it| mark(namespace, it, &reason, &message, now));
                let told = pods.iter().filter_map(|it| {
                    let pod = caches.get(&PODS, namespace, &it.name)?;
                    Some((delete_call(namespace, it), note_pod(&pod.tree, STOPPED, message.clone())))
                });
                vec![Step::Each(marks.collect()), Step::EachTold(told.collect())]
            }
            Action::Note(note) | Action::NoteOnce(note) => {
                tell(namespace, note, caches).into_iter().collect()
            }
            Action::LookAgain(_) | Action::Hold(_) => Vec::new(),
        }
    }
}

/// Reasons of events.
const EXCESS: &str = "ExcessPodDeleted";
const STOPPED: &str = "Stopped";

/// The pod, by namespace and name, that a Workload is of.
fn pod_of(workload: &WorkloadFacts) -> Option<(Text, Text)> {
    let pod = workload.controller().filter(|it| it.kind == POD && it.group().is_empty())?;
    Some((workload.namespace.clone(), pod.name.clone()))
}

fn write(workload: &Object, make: &dyn Fn(Known<'_>) -> Option<Written>) -> Vec<Step> {
    let (facts, status) = (WorkloadFacts::of(&workload.tree), AdmissionStatus::of(&workload.tree));
    let Some(written) = make(Known { workload: &facts, status: &status }) else { return Vec::new() };
    let status = written.status.iter().map(|it| calls::apply(workload, it));
    let notes = written.notes.iter().cloned().map(|it| calls::note_workload(workload, it));
    status.chain(notes).collect()
}

fn tell_waiting(workload: &Object, holds: bool, reason: &str, message: &str, at: At) -> Step {
    let (namespace, name) = (meta::namespace(&workload.tree), meta::name(&workload.tree));
    let kind = conditions::WAITING_FOR_REPLACEMENT_PODS;
    let generation = workload.tree.int_at(meta_path::GENERATION).unwrap_or(0);
    let condition = Condition::new(kind, holds, reason, message, at.now).of_generation(generation);
    Step::One(Call {
        by: managers::PODS.clone(),
        on: meta::target(&kinds::WORKLOADS, &workload.tree, Part::Status),
        guard: calls::as_read(workload),
        act: Act::Apply { body: condition_body(&namespace, &name, &condition), force: true },
    })
}

fn change(namespace: &Text, pod: &PodRef, act: Act) -> Call {
    let guard = Guard { uid: Some(pod.uid.clone()), revision: Some(pod.revision) };
    let on = Key::new(&PODS, namespace, &pod.name).target(Part::Main);
    Call { by: managers::KUEUE.clone(), on, guard, act }
}

fn let_go(namespace: &Text, pods: &[PodRef], caches: &Caches) -> Step {
    let calls = pods.iter().filter_map(|it| {
        let pod = caches.get(&PODS, namespace, &it.name)?;
        let patch = meta::without_finalizer(&pod.tree, finalizers::POD);
        Some(change(namespace, it, Act::Merge(patch)))
    });
    Step::Each(calls.collect())
}

fn delete(namespace: &Text, pods: &[PodRef]) -> Step {
    Step::Each(pods.iter().map(|it| delete_call(namespace, it)).collect())
}

fn delete_call(namespace: &Text, pod: &PodRef) -> Call {
    let on = Key::new(&PODS, namespace, &pod.name).target(Part::Main);
    Call::delete(managers::KUEUE.clone(), on, pod.uid.clone(), Cascade::Background)
}

/// Tells a pod that it has to go, before it is deleted.
fn mark(namespace: &Text, pod: &PodRef, reason: &str, message: &str, now: Time) -> Call {
    let condition = Condition::new(conditions::TERMINATION_TARGET, true, reason, message, now);
    let body = tree!({"apiVersion": "v1", "kind": POD,
        "metadata": {"name": &pod.name, "namespace": namespace, "uid": &pod.uid},
        "status": {"conditions": [(condition.tree())]}});
    let on = Key::new(&PODS, namespace, &pod.name).target(Part::Status);
    let guard = Guard { uid: Some(pod.uid.clone()), revision: None };
    Call { by: managers::KUEUE.clone(), on, guard, act: Act::Apply { body, force: true } }
}

fn note_pod(pod: &Tree, reason: &str, message: String) -> Event {
    calls::told_of(About::of(&PODS, POD, pod), Severity::Normal, reason, message)
}

fn tell(namespace: &Text, note: Note, caches: &Caches) -> Option<Step> {
    let about = match &note.topic {
        Topic::Pod(of) => About::of(&PODS, POD, &caches.get(&PODS, namespace, &of.name)?.tree),
        Topic::Workload(of) => {
            About::of(&kinds::WORKLOADS, WORKLOAD, &caches.get(&kinds::WORKLOADS, namespace, &of.name)?.tree)
        }
    };
    Some(Step::Note(calls::told_of(about, note.severity, note.reason, note.message)))
}
