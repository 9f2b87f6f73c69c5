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

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::event::{Event, Severity};
use muster_api::jobset::JobSetFacts;
use muster_api::meta::{self, Owner};
use muster_api::port::{Act, Call, Kind, Object, Refusal, Uid};
use muster_api::time::Time;
use muster_api::words::NAMESPACE_TERMINATING;
use muster_api::words::jobset as words;
use muster_api::{kinds, paths};
pub use muster_jobset::Gates;
use muster_jobset::children::Child;
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
/// Other changes of Jobs are looked at together within this time.
const CHANGES_TOGETHER: Duration = Duration::from_millis(200);

/// The JobSet controller.
#[derive(Debug)]
pub struct JobSets {
    gates: Gates,
    /// How device claims are called where they are served.
    claims: Option<Kind>,
    /// When the status of each was written last.
    told: BTreeMap<Uid, Time>,
    /// What was noted once, by generation.
    noted: BTreeMap<Uid, (i64, BTreeSet<(Text, String)>)>,
    /// JobSets whose last try to make a Job was refused, and told.
    complained: BTreeSet<Key>,
    numbers: Numbers,
}

impl JobSets {
    /// With these switches, where device claims are served as `claims` (or not at all).
    #[must_use]
    pub fn new(gates: Gates, claims: Option<Kind>) -> JobSets {
        JobSets {
            gates,
            claims,
            told: BTreeMap::new(),
            noted: BTreeMap::new(),
            complained: BTreeSet::new(),
            numbers: Numbers::default(),
        }
    }

    fn plan_set(&mut self, key: &Key, set: &Object, caches: &Caches, now: Time) -> Plan {
        let facts = JobSetFacts::of(&set.tree);
        let children: Vec<Child<'_>> = caches
            .owned_by(&facts.uid)
            .filter(|(key, job)| is_child(key, job, &facts.uid))
            .map(|(_, job)| Child::of(&job.tree))
            .collect();
        let around = Namespace { set: &set.tree, facts: &facts, caches, claims: self.claims.as_ref() };
        let steps = plan(&Observed {
            set: &facts,
            children: &children,
            around: &around,
            gates: self.gates,
            claims: self.claims.as_ref(),
            told_at: self.told.get(&facts.uid).copied(),
            now,
        });
        self.complained.remove(key);
        let mut plan = Plan::nothing();
        for action in steps {
            match action {
                Action::LookAgain(at) => plan = plan.again(at),
                Action::NoteOnce(_, reason, message) if !self.is_new(&facts, &reason, &message) => {}
                Action::NoteOnce(severity, reason, message) => {
                    plan.steps.extend(calls::steps(
                        set,
                        self.claims.as_ref(),
                        Action::Note(severity, reason, message),
                    ));
                }
                other => {
                    if let Action::Write(status) = &other {
                        self.told.insert(facts.uid.clone(), now);
                        self.numbers.wrote(&facts, status, now);
                    }
                    plan.steps.extend(calls::steps(set, self.claims.as_ref(), other));
                }
            }
        }
        plan
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
        if self.gates.in_place_restart {
            all.push(kinds::PODS.clone());
        }
        all
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let object = &seen.newest().tree;
        let kind = &seen.key.kind;
        if *kind == kinds::JOBSETS {
            if seen.after.is_none() {
                self.forget(object);
                self.complained.remove(seen.key);
            }
            return vec![seen.key.clone().into()];
        }
        if *kind == kinds::JOBS {
            return set_of(object).map(|owner| job_wake(seen, &owner)).into_iter().collect();
        }
        if *kind == kinds::SERVICES {
            return set_of(object).map(|owner| key_of(seen, &owner.name).into()).into_iter().collect();
        }
        if *kind == kinds::CLAIMS || (*kind == kinds::PODS && self.gates.in_place_restart) {
            // A volume that is kept has no owner: the label says whose it is.
            return meta::label(object, words::NAME)
                .map(|name| Wake { key: key_of(seen, &name.into()), after: ENDS_TOGETHER })
                .into_iter()
                .collect();
        }
        if self.claims.as_ref() == Some(kind) {
            let job = meta::controller(object).filter(is_job);
            let job = job.and_then(|owner| caches.by_uid(&owner.uid)).and_then(|(_, job)| set_of(&job.tree));
            return job.map(|owner| key_of(seen, &owner.name).into()).into_iter().collect();
        }
        Vec::new()
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
        let (words, name) = (why.words(), &call.on.name);
        let (reason, message) = match &call.on.kind {
            kind if *kind == kinds::JOBS => {
                if matches!(why, Refusal::AlreadyExists(_)) || !self.complained.insert(key.clone()) {
                    return None;
                }
                (
                    reasons::JOB_CREATION_FAILED,
                    format!("job {:?} creation failed with error: {words}", name.as_str()),
                )
            }
            kind if *kind == kinds::SERVICES => (reasons::SERVICE_CREATION_FAILED, words),
            // Somebody was quicker: the next look tells whose it is.
            _ if matches!(why, Refusal::AlreadyExists(_)) => return None,
            kind if *kind == kinds::CLAIMS => {
                (reasons::CLAIM_FAILED, format!("Failed to create PVC {name}: {words}"))
            }
            _ => (reasons::DEVICE_CLAIM_FAILED, format!("Failed to create ResourceClaim {name}: {words}")),
        };
        // A namespace that goes takes the JobSet along soon: not worth a note.
        let told = !message.contains(NAMESPACE_TERMINATING);
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

fn is_job(owner: &Owner) -> bool {
    owner.kind == "Job" && owner.group() == kinds::JOBS.group
}

fn is_child(key: &Key, job: &Object, set: &Uid) -> bool {
    key.kind == kinds::JOBS && meta::controller(&job.tree).is_some_and(|owner| owner.uid == *set)
}

/// Wakes the JobSet of a Job: soon when a Job came, went or ended, later when it merely has other pods.
fn job_wake(seen: &Seen<'_>, owner: &Owner) -> Wake {
    let key = key_of(seen, &owner.name);
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
    Wake { key, after: if same { CHANGES_TOGETHER } else { ENDS_TOGETHER } }
}
