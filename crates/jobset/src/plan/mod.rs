//! What a JobSet needs next.

mod claims;
mod draft;
mod failure;
mod gangs;
mod in_place;
mod stall;
mod startup;
mod success;
mod suspend;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::event::Severity;
use muster_api::jobset::{JobSetFacts, JobSetStatus, ReplicatedJob, Strategy, names};
use muster_api::meta::Owner;
use muster_api::paths::condition;
use muster_api::port::{Kind, Object, Uid};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::Gates;
use crate::build::{self, Builder};
use crate::children::{Child, Ref, Sorted};
use crate::gangs::Groups;
use draft::{Draft, Said};

/// How long until a look at what only others can mend.
const RETRY: Duration = Duration::from_secs(10);
/// How many Jobs are ready or active is told at most this often.
const COUNTS_EVERY: Duration = Duration::from_secs(1);
/// Jobs made in one go: a set may ask for more than fit in memory.
const JOBS_PER_LOOK_MAX: usize = 1000;
/// How long a finished JobSet waits for an owner that cannot be seen.
const PARENT_WAIT: Duration = Duration::from_secs(60);

/// Reasons of events that are no reasons of conditions.
pub mod reasons {
    /// A Job could not be made.
    pub const JOB_CREATION_FAILED: &str = "JobCreationFailed";
    /// The Service could not be made.
    pub const SERVICE_CREATION_FAILED: &str = "HeadlessServiceCreationFailed";
    /// A name that only a DNS label fits is another's.
    pub const NAME_CONFLICT: &str = "NameConflict";
    /// A volume claim was made.
    pub const CLAIM_CREATED: &str = "SuccessfulCreatePVC";
    /// A volume claim could not be made.
    pub const CLAIM_FAILED: &str = "FailedCreatePVC";
    /// A device claim was made.
    pub const DEVICE_CLAIM_CREATED: &str = "SuccessfulCreateResourceClaim";
    /// A device claim could not be made.
    pub const DEVICE_CLAIM_FAILED: &str = "ResourceClaimCreationFailed";
    /// A pod template has a claim of its own instead.
    pub const DEVICE_CLAIM_OVERRIDDEN: &str = "ResourceClaimOverridden";
    /// Device claims are switched off.
    pub const DEVICE_CLAIMS_DISABLED: &str = "ResourceClaimTemplatesDisabled";
    /// The labels of a Job were changed and cannot be understood.
    pub const LABELS_UNREADABLE: &str = "JobLabelsInvalid";
    /// A deleted Job does not go.
    pub const JOB_TERMINATING: &str = "JobTerminating";
    /// Pods name a claim that does not exist.
    pub const CLAIM_NOT_FOUND: &str = "ClaimNotFound";
    /// A rule needs a feature that is switched off.
    pub const ACTION_DISABLED: &str = "FailurePolicyActionDisabled";
}

/// An object that has a name we want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its UID.
    pub uid: Uid,
    /// Who controls it.
    pub controller: Option<Owner>,
    /// The JobSet that its label names.
    pub jobset: Option<Text>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// What a JobSet that ends has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// Nobody.
    None,
    /// An owner that knows of its end, so that it may go.
    Knows,
    /// An owner that does not know yet.
    Waits,
    /// An owner that cannot be seen.
    Unseen,
}

/// A pod of a JobSet that restarts in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPlacePod {
    /// The most restarts of its containers.
    pub restarts: u32,
    /// Whether it failed.
    pub failed: bool,
    /// The attempt it says it is in, as it is written.
    pub attempt: Option<Text>,
}

/// Other objects of the namespace.
pub trait Around {
    /// The Job of this name.
    fn job(&self, name: &Text) -> Option<Held>;
    /// The Service of this name.
    fn service(&self, name: &Text) -> Option<Held>;
    /// The volume claim of this name.
    fn volume_claim(&self, name: &Text) -> Option<Held>;
    /// The device claim of this name.
    fn device_claim(&self, name: &Text) -> Option<Held>;
    /// The Workload of this name.
    fn workload(&self, name: &Text) -> Option<Held>;
    /// The PodGroup of this name.
    fn group(&self, name: &Text) -> Option<Held>;
    /// The pods of the JobSet.
    fn pods(&self) -> Vec<InPlacePod>;
    /// Kind and name of an object that a Job owns and waits for, if one is known.
    fn remains(&self, job: &Uid) -> Option<(Text, Text)>;
    /// The owner of the JobSet, if it must be told of the end.
    fn parent(&self) -> Parent;
}

/// Everything one decision may look at, read at a single instant.
pub struct Observed<'a> {
    /// The JobSet.
    pub set: &'a JobSetFacts,
    /// The Jobs it controls.
    pub children: &'a [Child<'a>],
    /// Other objects.
    pub around: &'a dyn Around,
    /// Switches.
    pub gates: Gates,
    /// How device claims are called where they are served.
    pub claims: Option<&'a Kind>,
    /// Its gangs, where they are served.
    pub groups: Option<&'a Groups<'a>>,
    /// When its status was written last, if that is remembered.
    pub told_at: Option<Time>,
    /// Until when nothing is made: the last try was refused.
    pub hold_until: Option<Time>,
    /// Reason and message of that refusal.
    pub refused: Option<(&'a str, &'a str)>,
    /// The instant of the reading.
    pub now: Time,
}

/// A created object and what is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The object.
    pub object: Tree,
    /// Reason and message of the event, when it was made.
    pub told: Option<(&'static str, String)>,
}

/// One step towards the spec.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Makes the Service.
    CreateService(Tree),
    /// Makes volume claims.
    CreateVolumeClaims(Vec<Made>),
    /// Makes device claims.
    CreateClaims(Vec<Made>),
    /// Deletes device claims.
    DeleteClaims(Vec<Ref>),
    /// Makes Workloads or groups.
    CreateGangs(Kind, Vec<Made>),
    /// Merge patch of a Workload or a group, if it is what it was.
    Resize(Kind, Box<Object>, Tree),
    /// Deletes groups.
    DeleteGroups(Kind, Vec<Ref>),
    /// Makes Jobs.
    CreateJobs(Vec<Tree>),
    /// Deletes Jobs, what they own first.
    DeleteJobs(Vec<Ref>),
    /// Takes the start off suspended Jobs, so that their templates may change.
    ClearStarts(Vec<Ref>),
    /// Merge patches of Jobs.
    Change(Vec<(Ref, Tree)>),
    /// Writes the status.
    Write(Box<JobSetStatus>),
    /// Notes an event.
    Note(Severity, Text, String),
    /// Notes an event, once for each generation of the JobSet.
    NoteOnce(Severity, Text, String),
    /// Deletes the JobSet, what it owns first.
    DeleteSet,
    /// Looks again at this time.
    LookAgain(Time),
}

/// Decides what a JobSet needs next: the steps that bring it closer to its spec.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Vec<Action> {
    if seen.set.deleting || seen.set.foreign {
        return Vec::new();
    }
    Pass::new(seen, Sorted::of(seen.set, seen.children, seen.gates)).run()
}

/// One pass.
struct Pass<'a> {
    seen: &'a Observed<'a>,
    sorted: Sorted<'a>,
    builder: Builder<'a>,
    /// The replicatedJobs by name.
    jobs: BTreeMap<&'a str, &'a ReplicatedJob>,
    steps: Vec<Action>,
    /// What keeps the JobSet from making progress: reasons and messages.
    stalls: Vec<(Text, String)>,
    /// What is made, after the status was told: a refusal must not keep the rest from being done.
    creates: Vec<Action>,
}

impl<'a> Pass<'a> {
    fn new(seen: &'a Observed<'a>, sorted: Sorted<'a>) -> Pass<'a> {
        Pass {
            builder: Builder::new(seen.set, seen.gates),
            seen,
            sorted,
            jobs: seen.set.jobs.iter().map(|it| (it.name.as_str(), it)).collect(),
            steps: Vec::new(),
            stalls: Vec::new(),
            creates: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<Action> {
        let mut draft = Draft::new(self.seen, &self.sorted);
        self.lay_out_gangs();
        self.release_claims();
        if self.seen.set.status.ended().is_some() {
            self.delete(&self.sorted.running().collect::<Vec<_>>());
            let told = self.tell(draft);
            self.expire(told);
            return self.steps;
        }
        self.unreadable();
        self.lingering();
        self.delete(&self.sorted.previous.clone());
        draft.all_ready();
        if !self.sorted.failed.is_empty() {
            failure::decide(self.seen, &self.sorted, &mut draft);
        } else if success::is_met(self.seen.set, &self.sorted) {
            draft.complete();
        } else {
            self.go_on(&mut draft);
        }
        self.tell(draft);
        self.make();
        self.steps
    }

    /// The JobSet neither failed nor is complete.
    fn go_on(&mut self, draft: &mut Draft<'_>) {
        let may_create = self.service() & self.volumes();
        self.resize_gangs();
        if self.seen.gates.elastic {
            self.resize();
        }
        startup::create(self, draft, may_create);
        self.claims(draft);
        self.absent_claims();
        if self.seen.set.suspend {
            self.suspend(draft);
        } else {
            self.resume(draft);
        }
        if self.seen.set.strategy() == Strategy::InPlace && self.seen.gates.in_place_restart {
            in_place::sync(self.seen, draft);
        }
    }

    /// Says which Jobs are left out because their labels cannot be read.
    fn unreadable(&mut self) {
        let Some((_, why)) = self.sorted.unreadable.first() else { return };
        let more = match self.sorted.unreadable.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more jobs)"),
        };
        let message = format!("{why}{more}");
        self.wait(reasons::LABELS_UNREADABLE, message);
    }

    /// Makes what is missing, unless the last try was refused a moment ago.
    fn make(&mut self) {
        match self.seen.hold_until.filter(|until| *until > self.seen.now && !self.creates.is_empty()) {
            Some(until) => self.steps.push(Action::LookAgain(until)),
            None => self.steps.append(&mut self.creates),
        }
    }

    /// Deletes Jobs that nobody deletes yet.
    fn delete(&mut self, jobs: &[&Child<'_>]) {
        let all: Vec<Ref> = jobs.iter().filter(|it| !it.deleting).map(|it| it.this.clone()).collect();
        if !all.is_empty() {
            self.steps.push(Action::DeleteJobs(all));
        }
    }

    /// The status, if it differs, and what it has to say; whether it is written. Mere counts wait for more of their kind.
    fn tell(&mut self, mut draft: Draft<'_>) -> bool {
        let old = &self.seen.set.status;
        for (reason, message) in std::mem::take(&mut draft.complaints) {
            self.wait(reason, message);
        }
        let is_held = self.seen.hold_until.is_some_and(|until| until > self.seen.now);
        if let Some((reason, message)) = self.seen.refused.filter(|_| is_held && !self.creates.is_empty()) {
            self.stalls.push((reason.into(), message.to_owned()));
        }
        draft.stalled(&self.stalls, !self.creates.is_empty());
        let due = self.seen.told_at.map(|at| at + COUNTS_EVERY).filter(|at| *at > self.seen.now);
        let (status, said) = (in_order(&draft.status), draft.said);
        match due {
            _ if status == in_order(old) => return false,
            Some(at) if without_counts(&status) == without_counts(old) => {
                self.steps.push(Action::LookAgain(at));
                return false;
            }
            _ => self.steps.push(Action::Write(Box::new(status))),
        }
        let notes = said.into_iter();
        self.steps
            .extend(notes.map(|Said { severity, reason, message }| Action::Note(severity, reason, message)));
        true
    }

    /// A finished JobSet goes when its time has come, and whoever owns it has seen the end.
    fn expire(&mut self, told: bool) {
        let (Some(ttl), Some(end)) = (self.seen.set.ttl_secs, self.seen.set.status.ended()) else { return };
        let Some(since) = Time::of(end.at(condition::SINCE)) else { return };
        let at = since + Duration::from_secs(ttl.into());
        let at = match self.seen.around.parent() {
            Parent::None | Parent::Knows => at,
            Parent::Unseen => at.max(since + PARENT_WAIT),
            Parent::Waits => at.max(self.seen.now + PARENT_WAIT),
        };
        // What was written a moment ago is another state than the one that was seen.
        let now = at <= self.seen.now && !told;
        self.steps.push(if now { Action::DeleteSet } else { Action::LookAgain(at.max(self.seen.now)) });
    }

    /// Makes the Service if it is missing; whether Jobs may be made.
    fn service(&mut self) -> bool {
        let network = &self.seen.set.network;
        if !network.hostnames {
            return true;
        }
        match self.seen.around.service(&network.subdomain) {
            None => {
                self.creates.push(Action::CreateService(self.builder.service()));
                true
            }
            Some(held) => !self.is_conflict("service", &network.subdomain, &held),
        }
    }

    /// Whether an object that has our name belongs to a JobSet whose name differs from ours in dots alone: told, and
    /// waited for.
    fn is_conflict(&mut self, what: &str, name: &str, held: &Held) -> bool {
        let set = self.seen.set;
        let Some(other) = held.controller.as_ref().filter(|owner| owner.uid != set.uid) else { return false };
        let met = other.kind == "JobSet"
            && other.name != set.name
            && names::dashed(&other.name) == names::dashed(&set.name);
        if met {
            let message = format!(
                "{what} {name} of jobset {} has the name that jobset {} needs: delete or rename one of them",
                other.name, set.name
            );
            self.wait(reasons::NAME_CONFLICT, message);
        }
        met
    }

    /// Tells what only others can mend, and looks again later.
    fn wait(&mut self, reason: &str, message: String) {
        self.stalls.push((reason.into(), message.clone()));
        self.steps.push(Action::NoteOnce(Severity::Warning, reason.into(), message));
        self.steps.push(Action::LookAgain(self.seen.now + RETRY));
    }

    /// Makes active Jobs as wide as their templates say.
    fn resize(&mut self) {
        let patch = |child: &&Child<'_>| {
            let of = self.jobs.get(child.group?)?;
            Some((child.this.clone(), build::resize(child.tree, of)?))
        };
        let all: Vec<(Ref, Tree)> = self.sorted.active.iter().filter_map(patch).collect();
        if !all.is_empty() {
            self.steps.push(Action::Change(all));
        }
    }
}

/// A status without what changes with every Job.
fn without_counts(status: &JobSetStatus) -> JobSetStatus {
    let mut status = status.clone();
    for it in &mut status.jobs {
        (it.ready, it.succeeded, it.failed, it.active, it.suspended) = (0, 0, 0, 0, 0);
    }
    in_order(&status)
}

/// A status whose replicatedJobs stand in order of their names: their order means nothing.
fn in_order(status: &JobSetStatus) -> JobSetStatus {
    let mut status = status.clone();
    status.jobs.sort_by(|a, b| a.name.cmp(&b.name));
    status
}
