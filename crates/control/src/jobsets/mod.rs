//! Keeps JobSets on their way: which changes concern them, and their plans as calls.
//!
//! # Invariants
//!
//! - What is kept here can be lost: when a status was written last only makes the next one later, and what was noted
//!   only keeps it from being noted again.

mod around;
mod calls;
mod exclusive;
mod numbers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::event::{Event, Severity};
use muster_api::gang_make::{self, Gangs, words as gang_words};
use muster_api::jobset::JobSetFacts;
use muster_api::meta::{self, Owner};
use muster_api::port::{Act, Call, Kind, Object, Refusal, Uid};
use muster_api::time::Time;
use muster_api::train::TrainJobFacts;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_api::words::NAMESPACE_TERMINATING;
use muster_api::words::jobset as words;
use muster_api::{kinds, paths};
pub use muster_jobset::Gates;
use muster_jobset::children::Child;
use muster_jobset::gangs::Groups;
use muster_jobset::plan::{Action, Observed, plan, reasons};
use muster_tree::{Text, Tree};

use self::around::Namespace;
use crate::cache::{Caches, Seen};
use crate::counters::Counters;
use crate::plan::{Controller, Key, Plan, Wake};
pub use exclusive::Exclusive;
pub use numbers::JobSetNumbers;
use numbers::Numbers;

/// Jobs that end, are made or go within this time are looked at together.
const ENDS_TOGETHER: Duration = Duration::from_millis(20);
/// So much longer for each Job of the set.
const PER_JOB: Duration = Duration::from_micros(20);
/// Other changes of Jobs are looked at together within this time.
const CHANGES_TOGETHER: Duration = Duration::from_millis(200);

/// What is remembered of refusals, so that each change of a Job does not try everything again.
#[derive(Debug, Default)]
struct Refused {
    times: u32,
    /// It was refused since the last look.
    is_new: bool,
    /// A Job among it, and that is told.
    is_job_told: bool,
    /// Reason and message of the first of them.
    why: Option<(&'static str, String)>,
    /// When it is tried again; `None` while it is.
    until: Option<Time>,
}

/// The first pause after a refusal, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The JobSet controller.
#[derive(Debug)]
pub struct JobSets {
    gates: Gates,
    /// How device claims are called where they are served.
    claims: Option<Kind>,
    /// How gangs are written where they are served.
    gangs: Option<Gangs>,
    /// When the status of each was written last.
    told: BTreeMap<Uid, Time>,
    /// What was noted once, by generation.
    noted: BTreeMap<Uid, (i64, BTreeSet<(Text, String)>)>,
    /// JobSets whose last try to make something was refused.
    refused: BTreeMap<Key, Refused>,
    numbers: Numbers,
}

impl JobSets {
    /// With these switches, where device claims are served as `claims` (or not at all).
    #[must_use]
    pub fn new(gates: Gates, claims: Option<Kind>) -> JobSets {
        JobSets {
            gates,
            claims,
            gangs: None,
            told: BTreeMap::new(),
            noted: BTreeMap::new(),
            refused: BTreeMap::new(),
            numbers: Numbers::default(),
        }
    }

    /// Where gangs are served and written so.
    #[must_use]
    pub fn gangs(mut self, gangs: Option<Gangs>) -> JobSets {
        self.gangs = gangs;
        self
    }

    fn plan_set(&mut self, key: &Key, set: &Object, caches: &Caches, now: Time) -> Plan {
        let facts = JobSetFacts::of(&set.tree);
        let children: Vec<Child<'_>> = caches
            .owned_by(&facts.uid)
            .filter(|(key, job)| is_child(key, job, &facts.uid))
            .map(|(_, job)| Child::of(&job.tree))
            .collect();
        let hold_until = self.hold(key, now);
        let refused =
            self.refused.get(key).and_then(|it| it.why.as_ref()).map(|(reason, why)| (*reason, &**why));
        let gangs = self.gangs;
        let around = Namespace { set: &set.tree, facts: &facts, caches, claims: self.claims.as_ref(), gangs };
        let groups = gangs.map(|gangs| match facts.gang {
            Some(_) => groups(gangs, &facts.uid, caches),
            None => Groups { gangs, workloads: Vec::new(), groups: Vec::new() },
        });
        let steps = plan(&Observed {
            set: &facts,
            children: &children,
            around: &around,
            gates: self.gates,
            claims: self.claims.as_ref(),
            groups: groups.as_ref(),
            told_at: self.told.get(&facts.uid).copied(),
            hold_until,
            refused,
            now,
        });
        let mut plan = Plan::nothing();
        // First, since a refusal drops what follows, and what was noted once is not noted again.
        let mut once = Vec::new();
        for action in steps {
            match action {
                Action::LookAgain(at) => plan = plan.again(at),
                Action::NoteOnce(_, reason, message) if !self.is_new(&facts, &reason, &message) => {}
                Action::NoteOnce(severity, reason, message) => {
                    once.extend(calls::steps(set, None, Action::Note(severity, reason, message)));
                }
                other => {
                    if matches!(other, Action::Write(_)) {
                        self.told.insert(facts.uid.clone(), now);
                    }
                    plan.steps.extend(calls::steps(set, self.claims.as_ref(), other));
                }
            }
        }
        once.append(&mut plan.steps);
        plan.steps = once;
        plan
    }

    /// Until when nothing is made: a pause that doubles with each refusal.
    fn hold(&mut self, key: &Key, now: Time) -> Option<Time> {
        let refused = self.refused.get_mut(key)?;
        if std::mem::take(&mut refused.is_new) {
            let pause = PAUSE.0.saturating_mul(1 << refused.times.min(16)).min(PAUSE.1);
            refused.times += 1;
            refused.until = Some(now + pause);
            refused.is_job_told = false;
        } else if refused.until.is_none() {
            // Tried again, and not refused since.
            self.refused.remove(key);
            return None;
        } else if refused.until.is_some_and(|until| until <= now) {
            // Tried again now. The count stays until the answer is known: forgotten here, each pause would be the first.
            refused.until = None;
        }
        refused.until
    }

    /// The JobSets that an object concerns: as it is, and as it was.
    fn sets_of(&self, seen: &Seen<'_>, caches: &Caches) -> BTreeSet<Text> {
        let kind = &seen.key.kind;
        let labelled = *kind == kinds::CLAIMS || (*kind == kinds::PODS && self.gates.in_place_restart);
        let is_device_claim = self.claims.as_ref() == Some(kind);
        let mut sets = BTreeSet::new();
        for object in [seen.before, seen.after].into_iter().flatten().map(|it| &it.tree) {
            let owned =
                [&kinds::JOBS, &kinds::SERVICES, &kinds::CLAIMS].contains(&kind) || self.is_gang(kind);
            sets.extend(owned.then(|| set_of(object)).flatten().map(|owner| owner.name));
            // A volume that is kept has no owner, and a claim's Job may be gone: the label says whose it is.
            if labelled || is_device_claim {
                sets.extend(meta::label(object, words::NAME).map(Text::from));
            }
        }
        if *kind == kinds::SERVICES && seen.after.is_none() {
            // Sets that share a domain share the Service of one of them.
            let all = caches.in_namespace(&kinds::JOBSETS, &seen.key.namespace);
            let uses = |set: &&Object| set.tree.str_at(paths::jobset::SUBDOMAIN) == seen.key.name;
            sets.extend(all.filter(uses).map(|set| meta::name(&set.tree)));
        }
        sets
    }

    /// Whether these are Workloads or groups.
    fn is_gang(&self, kind: &Kind) -> bool {
        self.gangs.is_some_and(|gangs| gang_make::kinds(gangs).any(|it| it == kind))
    }

    /// Whether this was not noted yet about this generation.
    fn is_new(&mut self, set: &JobSetFacts, reason: &Text, message: &str) -> bool {
        let (generation, noted) = self.noted.entry(set.uid.clone()).or_default();
        if *generation != set.generation {
            (*generation, *noted) = (set.generation, BTreeSet::new());
        }
        noted.insert((reason.clone(), message.to_owned()))
    }

    fn forget(&mut self, set: &Tree) {
        let uid = meta::uid(set);
        self.told.remove(&uid);
        self.noted.remove(&uid);
        self.numbers.forget(set);
    }
}

impl Controller for JobSets {
    fn name(&self) -> &'static str {
        "jobset"
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut all =
            vec![kinds::JOBSETS.clone(), kinds::JOBS.clone(), kinds::SERVICES.clone(), kinds::CLAIMS.clone()];
        all.extend(self.claims.clone());
        all.extend(self.gangs.into_iter().flat_map(gang_make::kinds).cloned());
        if self.gates.in_place_restart {
            all.push(kinds::PODS.clone());
        }
        all
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        if seen.key.kind == kinds::JOBSETS {
            self.numbers.saw(seen);
            if seen.after.is_none() {
                self.forget(&seen.newest().tree);
                self.refused.remove(seen.key);
            }
            return vec![seen.key.clone().into()];
        }
        if seen.key.kind == TRAIN_JOBS {
            return has_read(seen).then(|| key_of(seen, &seen.key.name).into()).into_iter().collect();
        }
        if self.is_gang(&seen.key.kind) && only_fares(seen) {
            return Vec::new();
        }
        let after = if seen.key.kind == kinds::JOBS { job_pause(seen, caches) } else { ENDS_TOGETHER };
        let sets = self.sets_of(seen, caches);
        sets.iter().map(|set| Wake { key: key_of(seen, set), after }).collect()
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        match caches.find(key) {
            Some(set) if key.kind == kinds::JOBSETS => self.plan_set(key, set, caches, now),
            _ => Plan::nothing(),
        }
    }

    fn tell(&self, counters: &mut Counters) {
        counters.jobsets += self.numbers.told();
    }

    fn refused(&mut self, key: &Key, call: &Call, why: &Refusal, caches: &Caches) -> Option<Event> {
        let set = caches.find(key)?;
        if !matches!(call.act, Act::Create(_)) || matches!(why, Refusal::Unknown(_) | Refusal::Conflict(_)) {
            return None;
        }
        if matches!(why, Refusal::AlreadyExists(_)) {
            // Somebody was quicker: the next look tells whose it is.
            return None;
        }
        let (words, name) = (why.words(), &call.on.name);
        let (reason, message) = match &call.on.kind {
            kind if *kind == kinds::JOBS => {
                let message = format!("job {:?} creation failed with error: {words}", name.as_str());
                (reasons::JOB_CREATION_FAILED, message)
            }
            kind if *kind == kinds::SERVICES => (reasons::SERVICE_CREATION_FAILED, words),
            kind if *kind == kinds::CLAIMS => {
                (reasons::CLAIM_FAILED, format!("Failed to create PVC {name}: {words}"))
            }
            kind if self.gangs.is_some_and(|gangs| gang_make::kinds(gangs).any(|it| it == kind)) => {
                (gang_words::CREATE_FAILED, format!("Failed to create {name}: {words}"))
            }
            _ => (reasons::DEVICE_CLAIM_FAILED, format!("Failed to create ResourceClaim {name}: {words}")),
        };
        let refused = self.refused.entry(key.clone()).or_default();
        if !std::mem::replace(&mut refused.is_new, true) {
            refused.why = Some((reason, message.clone()));
        }
        // One Job stands for all: they mostly are refused for the same reason.
        let is_told =
            reason == reasons::JOB_CREATION_FAILED && std::mem::replace(&mut refused.is_job_told, true);
        // A namespace that goes takes the JobSet along soon: not worth a note.
        let told = !is_told && !message.contains(NAMESPACE_TERMINATING);
        told.then(|| calls::note(&set.tree, Severity::Warning, reason.into(), message))
    }
}

fn key_of(seen: &Seen<'_>, set: &Text) -> Key {
    Key::new(&kinds::JOBSETS, &seen.key.namespace, set)
}

/// The JobSet that controls an object.
fn set_of(object: &Tree) -> Option<Owner> {
    meta::controller(object)
        .filter(|owner| owner.kind == words::KIND && owner.group() == kinds::JOBSETS.group)
}

/// Whether a TrainJob has just read the end of its JobSet, which may go from then on.
fn has_read(seen: &Seen<'_>) -> bool {
    let ended = |it: &Object| TrainJobFacts::of(&it.tree).status.is_finished();
    seen.after.is_some_and(ended) && !seen.before.is_some_and(ended)
}

/// Whether a group merely fares otherwise: how its pods are placed concerns nobody here.
fn only_fares(seen: &Seen<'_>) -> bool {
    let (Some(before), Some(after)) = (seen.before, seen.after) else { return false };
    let [before, after] = [before, after].map(|it| it.tree.without(&["status"]));
    before == after
}

/// The Workloads and groups that a JobSet controls.
fn groups<'a>(gangs: Gangs, set: &Uid, caches: &'a Caches) -> Groups<'a> {
    let of = |kind: &Kind| -> Vec<&'a Object> {
        let all = caches.owned_by(set).filter(|(key, _)| key.kind == *kind).map(|(_, object)| object);
        all.filter(|it| meta::controller(&it.tree).is_some_and(|owner| owner.uid == *set)).collect()
    };
    let (workloads, groups) = (of(gangs.form.workloads()), gangs.form.groups().map(of).unwrap_or_default());
    Groups { gangs, workloads, groups }
}

/// Whether an owner is a Job.
fn is_job(owner: &Owner) -> bool {
    owner.kind == "Job" && owner.group() == kinds::JOBS.group
}

fn is_child(key: &Key, job: &Object, set: &Uid) -> bool {
    key.kind == kinds::JOBS && meta::controller(&job.tree).is_some_and(|owner| owner.uid == *set)
}

/// How long the JobSet of a Job waits for more: less when a Job came, went or ended than when it merely has other pods,
/// and longer the more Jobs there are to look at.
fn job_pause(seen: &Seen<'_>, caches: &Caches) -> Duration {
    let conditions = |job: &Object| {
        job.tree.at(paths::job::STATUS).and_then(|it| it.at(paths::job_status::CONDITIONS)).cloned()
    };
    let same = match (seen.before, seen.after) {
        (Some(before), Some(after)) => {
            conditions(before) == conditions(after)
                && meta::deleting(&before.tree) == meta::deleting(&after.tree)
                && before.tree.at(&["spec"]) == after.tree.at(&["spec"])
                && before.tree.at(paths::meta::LABELS) == after.tree.at(paths::meta::LABELS)
        }
        _ => false,
    };
    if same {
        return CHANGES_TOGETHER;
    }
    let many = set_of(&seen.newest().tree).map_or(0, |owner| caches.owned_count(&owner.uid));
    ENDS_TOGETHER + PER_JOB.saturating_mul(u32::try_from(many).unwrap_or(u32::MAX))
}
