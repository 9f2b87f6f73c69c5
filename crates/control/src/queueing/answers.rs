//! What is answered at the desk: who waits in which order, why somebody waits, and what would become of a manifest.

use std::sync::Arc;
use std::time::Duration;

use muster_api::gang_make::Gangs;
use muster_api::meta;
use muster_api::paths::meta as paths;
use muster_api::port::Object;
use muster_api::queue::words::{DEFAULT, MAIN, conditions, labels};
use muster_api::queue::{LocalQueueFacts, NewPodSet, NewWorkload, PodSet, WorkloadFacts, kinds};
use muster_api::time::Time;
use muster_api::train::words::{GROUP, TRAIN_JOB};
use muster_queue::engine::assign::Mode;
use muster_queue::engine::decision::Reason;
use muster_queue::engine::look::Grade;
use muster_queue::engine::preempt::Because;
use muster_queue::engine::report::Waiting;
use muster_queue::engine::why::{Barrier, FlavorWhy, ResourceWhy, SetWhy, Share, Trial, Why};
use muster_queue::engine::workload::Key as WorkloadKey;
use muster_queue::jobs::batch::BatchJob;
use muster_queue::jobs::construct::template_of_pod;
use muster_queue::jobs::jobset::SetOfJobs;
use muster_queue::jobs::plan::queue_of;
use muster_queue::jobs::priority::{Asked, resolve};
use muster_queue::jobs::requests::Around;
use muster_queue::jobs::trainjob::Training;
use muster_queue::jobs::work::Work;
use muster_queue::life::pending::{
    Barred, Basis, Departure, Estimate, FlavorVerdict, Holder, Pending, Position, ResourceVerdict,
    SetVerdict, Standing, Verdict,
};
use muster_queue::life::workload::cluster_queue_of;
use muster_queue::pods::compose::{Lack, compose};
use muster_queue::pods::group::{Group, agree};
use muster_queue::pods::member::{Above, Member};
use muster_tree::{Text, Tree};

use super::desk::{Answer, OWNERS_MAX, Question};
use super::jobs::Priorities;
use super::{Queueing, answer_key, feed, trainjobs};
use crate::cache::Caches;
use crate::plan::Plan;

/// Up to so many who wait are put in order anew for everyone who asks.
const FEW: usize = 1_000;
/// For how long the order of more is good enough.
const ORDER_LASTS: Duration = Duration::from_secs(1);
/// The fewest waits of the past that tell something.
const WAITS_MIN: usize = 3;

const NOT_AS_IT_STANDS: &str = "it cannot be admitted as things stand";
const TOO_FEW: &str = "too few workloads were admitted here to tell";
const LONGER: &str = "it has waited longer than the last ones did";

/// Who waits in a queue, in order, as it was at some time.
#[derive(Debug)]
pub(super) struct Ordered {
    at: Time,
    all: Arc<Vec<Waiting>>,
}

impl Queueing {
    /// Answers those whose turn it is; the others have theirs after the keys that wait.
    pub(super) fn answer_some(&mut self, caches: &Caches, now: Time) -> Plan {
        let (asked, more) = self.settings.desk.asked();
        for (question, reply) in asked {
            reply(self.answer(question, caches, now));
        }
        Plan { wake: more.then(answer_key).into_iter().collect(), ..Plan::nothing() }
    }

    fn answer(&mut self, question: Question, caches: &Caches, now: Time) -> Answer {
        match question {
            Question::InClusterQueue(name) => match caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), &name) {
                Some(_) => Answer::Waiting(self.ordered(&name, now)),
                None => Answer::NotFound,
            },
            Question::InLocalQueue(namespace, name) => {
                match caches.get(&kinds::LOCAL_QUEUES, &namespace, &name) {
                    Some(it) => {
                        Answer::Waiting(self.ordered(&LocalQueueFacts::of(&it.tree).cluster_queue, now))
                    }
                    None => Answer::NotFound,
                }
            }
            Question::Owners(all) => {
                Answer::Owners(all.iter().take(OWNERS_MAX).map(|it| owners(it, caches)).collect())
            }
            Question::Why(namespace, name) => match caches.get(&kinds::WORKLOADS, &namespace, &name) {
                Some(it) => Answer::Why(Box::new(self.explained(it, caches, now))),
                None => Answer::NotFound,
            },
            Question::Try(namespace, manifest) => match self.tried(&namespace, &manifest, caches, now) {
                Ok(pending) => Answer::Why(Box::new(pending)),
                Err(words) => Answer::Wrong(words),
            },
        }
    }

    /// Who waits in a queue, in order: many are not put in order for each who asks.
    fn ordered(&mut self, queue: &Text, now: Time) -> Arc<Vec<Waiting>> {
        if let Some(known) = self.orders.get(queue)
            && now.since(known.at) < ORDER_LASTS
        {
            return known.all.clone();
        }
        let all = Arc::new(self.engine.pending(queue));
        self.orders.retain(|_, it| now.since(it.at) < ORDER_LASTS);
        if all.len() > FEW {
            self.orders.insert(queue.clone(), Ordered { at: now, all: all.clone() });
        }
        all
    }

    /// Why a Workload waits, or what it does instead.
    fn explained(&self, object: &Object, caches: &Caches, now: Time) -> Pending {
        let facts = WorkloadFacts::of(&object.tree);
        let local = caches.get(&kinds::LOCAL_QUEUES, &facts.namespace, &facts.queue);
        let local = local.map(|it| LocalQueueFacts::of(&it.tree));
        let known = Pending {
            workload: (facts.namespace.clone(), facts.name.clone()),
            local_queue: facts.queue.clone(),
            cluster_queue: cluster_queue_of(&facts, local.as_ref()).unwrap_or_default(),
            ..Pending::default()
        };
        let Some(why) = self.engine.why(&feed::key_of(&facts.namespace, &facts.name)) else {
            return standing(known, &facts);
        };
        let (estimate, no_estimate) = match self.estimate(&why, &facts, &known.cluster_queue, caches, now) {
            Ok(estimate) => (Some(estimate), ""),
            Err(words) => (None, words),
        };
        let number = |n: Option<usize>| n.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let position = number(why.position_in_local_queue).zip(number(why.position_in_cluster_queue));
        let position =
            position.map(|(in_local_queue, in_cluster_queue)| Position { in_local_queue, in_cluster_queue });
        let (holders, more_holders) = holders(&why.sets);
        Pending {
            reason: why.reason.word().into(),
            message: why.message,
            position,
            sets: verdicts(&why.sets, &facts.pod_sets, why.victims),
            holders,
            more_holders,
            barred: why.barriers.iter().map(|it| barred(*it)).collect(),
            evaluated_at: why.evaluated,
            estimate,
            no_estimate,
            ..known
        }
    }

    fn estimate(
        &self,
        why: &Why,
        facts: &WorkloadFacts,
        queue: &Text,
        caches: &Caches,
        now: Time,
    ) -> Result<Estimate, &'static str> {
        if let Some(at) = facts.requeue.and_then(|it| it.at).filter(|at| *at > now) {
            return Ok(Estimate { wait: at.since(now), basis: Basis::Backoff });
        }
        match why.reason {
            Reason::WaitingForQuota
            | Reason::WaitingForPreemptedWorkloads
            | Reason::WaitingForPodsReady
            | Reason::PendingEvaluation => {}
            _ => return Err(NOT_AS_IT_STANDS),
        }
        // Those before it would have what is freed first.
        let is_first = why.position_in_cluster_queue == Some(0);
        if let Some(wait) = limits_end(why, caches, now).filter(|_| is_first) {
            return Ok(Estimate { wait, basis: Basis::RunTimeLimits });
        }
        let mut past: Vec<Duration> = self.counting.waits(queue);
        if past.len() < WAITS_MIN {
            return Err(TOO_FEW);
        }
        past.sort_unstable();
        let usual = past[past.len() / 2];
        let waited = facts.created.map(|since| now.since(since)).unwrap_or_default();
        let left = usual.checked_sub(waited).filter(|it| !it.is_zero()).ok_or(LONGER)?;
        let samples = u32::try_from(past.len()).unwrap_or(u32::MAX);
        Ok(Estimate { wait: left, basis: Basis::PastWaits { samples } })
    }

    /// What would become of a manifest; nothing is written.
    fn tried(
        &mut self,
        namespace: &Text,
        manifest: &Tree,
        caches: &Caches,
        now: Time,
    ) -> Result<Pending, String> {
        let facts = drafted(namespace, manifest, self.gangs, caches)?;
        let limits = feed::limits(namespace, caches);
        let around = Around { limits: &limits, runtime_class: &|name| feed::runtime_class(name, caches) };
        let mut info = feed::workload(&facts, &around, &self.settings.accounting);
        info.created = now;
        let trial = self.engine.try_out(&info);
        let known = Pending {
            workload: (namespace.clone(), facts.name.clone()),
            local_queue: facts.queue.clone(),
            evaluated_at: Some(now),
            ..Pending::default()
        };
        Ok(match trial {
            Err((reason, message)) => Pending {
                standing: Standing::WouldWait,
                reason: reason.word().into(),
                message,
                no_estimate: NOT_AS_IT_STANDS,
                ..known
            },
            Ok(trial) => of_trial(known, &trial, &facts.pod_sets),
        })
    }
}

fn owners(of: &WorkloadKey, caches: &Caches) -> Tree {
    let workload = caches.get(&kinds::WORKLOADS, &of.namespace, &of.name);
    workload.and_then(|it| it.tree.at(paths::OWNERS)).cloned().unwrap_or_default()
}

/// A Workload that does not wait.
fn standing(known: Pending, facts: &WorkloadFacts) -> Pending {
    let (standing, kind) = if facts.is_finished() {
        (Standing::Finished, conditions::FINISHED)
    } else if facts.is_admitted() {
        (Standing::Admitted, conditions::ADMITTED)
    } else if facts.has_quota() {
        (Standing::Reserved, conditions::ADMITTED)
    } else {
        (Standing::Held, conditions::QUOTA_RESERVED)
    };
    let told = facts.condition(kind);
    Pending {
        standing,
        reason: told.map(|it| it.reason.clone()).unwrap_or_default(),
        message: told.map(|it| it.message.to_string()).unwrap_or_default(),
        no_estimate: if standing == Standing::Held { NOT_AS_IT_STANDS } else { "" },
        ..known
    }
}

fn of_trial(known: Pending, trial: &Trial, sets: &[PodSet]) -> Pending {
    let standing = match trial.assignment.mode() {
        Mode::Fit => Standing::WouldStart,
        Mode::Preempt if !trial.targets.is_empty() => Standing::WouldPreempt,
        Mode::Preempt | Mode::NoFit => Standing::WouldWait,
    };
    let reason = trial.assignment.obstacle().map(|it| Reason::from(it).word());
    let reason = reason.filter(|_| standing == Standing::WouldWait).unwrap_or_default();
    let departs = trial.targets.iter().map(|it| Departure {
        workload: (it.holder.key.namespace.clone(), it.holder.key.name.clone()),
        words: because(it.because).into(),
    });
    let (holders, more_holders) = holders(&trial.sets);
    Pending {
        standing,
        cluster_queue: trial.queue.clone(),
        reason: reason.into(),
        message: trial.assignment.message(),
        sets: verdicts(&trial.sets, sets, 0),
        holders,
        more_holders,
        barred: trial.barriers.iter().map(|it| barred(*it)).collect(),
        departs: departs.collect(),
        no_estimate: if standing == Standing::WouldWait { TOO_FEW } else { "" },
        ..known
    }
}

fn because(it: Because) -> &'static str {
    it.words()
}

/// When enough of those who hold the quota must have ended, by their own limits.
fn limits_end(why: &Why, caches: &Caches, now: Time) -> Option<Duration> {
    let flavors = why.sets.iter().flat_map(|set| &set.flavors).filter(|it| it.unsuitable.is_none());
    flavors.filter_map(|flavor| flavor_ends(flavor, caches, now)).min()
}

fn flavor_ends(flavor: &FlavorWhy, caches: &Caches, now: Time) -> Option<Duration> {
    let missing = flavor.resources.iter().filter(|it| it.look.shortfall > 0);
    let ends = missing.map(|it| resource_ends(it, caches)).collect::<Option<Vec<Time>>>()?;
    ends.into_iter().max().map(|at| at.since(now))
}

fn resource_ends(of: &ResourceWhy, caches: &Caches) -> Option<Time> {
    let mut ends: Vec<(Time, i64)> =
        of.holders.iter().filter_map(|it| Some((ends_at(&it.key, caches)?, it.amount))).collect();
    ends.sort_unstable();
    let mut freed = 0_i64;
    for (at, amount) in ends {
        freed = freed.saturating_add(amount);
        if freed >= of.look.shortfall {
            return Some(at);
        }
    }
    None
}

/// When a Workload must have ended at the latest.
fn ends_at(key: &WorkloadKey, caches: &Caches) -> Option<Time> {
    let workload = caches.get(&kinds::WORKLOADS, &key.namespace, &key.name)?;
    let facts = WorkloadFacts::of(&workload.tree);
    let since = facts.condition(conditions::ADMITTED).filter(|it| it.holds)?.since?;
    Some(since + Duration::from_secs(facts.max_exec_secs?.into()))
}

fn verdicts(sets: &[SetWhy], known: &[PodSet], victims: usize) -> Vec<SetVerdict> {
    let set = |(at, set): (usize, &SetWhy)| {
        // One that shares another's verdict has sets of its own names.
        let own = known.get(at);
        SetVerdict {
            name: own.map_or_else(|| set.name.clone(), |it| it.name.clone()),
            count: own.map_or(0, |it| it.count),
            flavors: set.flavors.iter().map(|it| flavor_verdict(it, victims)).collect(),
        }
    };
    sets.iter().enumerate().map(set).collect()
}

fn flavor_verdict(it: &FlavorWhy, victims: usize) -> FlavorVerdict {
    let resources = it.resources.iter().map(|one| ResourceVerdict {
        resource: one.look.resource.clone(),
        requested: one.look.requested.saturating_add(one.look.before),
        available: one.look.available,
        maximum: one.look.maximum,
    });
    let resources: Vec<ResourceVerdict> = resources.collect();
    FlavorVerdict { flavor: it.flavor.clone(), verdict: verdict(it, &resources, victims), resources }
}

fn verdict(it: &FlavorWhy, resources: &[ResourceVerdict], victims: usize) -> Verdict {
    if let Some(words) = &it.unsuitable {
        return Verdict::Unsuitable(words.as_str().into());
    }
    if resources.iter().any(|it| it.requested > it.maximum) {
        return Verdict::TooBig;
    }
    let worst = it.resources.iter().map(|it| it.look.grade).min().unwrap_or(Grade::Fit);
    match worst {
        Grade::Fit if it.resources.iter().any(|it| it.look.height > 0) => Verdict::FitsByBorrowing,
        Grade::Fit => Verdict::Fits,
        Grade::Preempt | Grade::Reclaim if victims > 0 => {
            Verdict::WaitsForPreempted { victims: u32::try_from(victims).unwrap_or(u32::MAX) }
        }
        Grade::NoCandidates => Verdict::NobodyToPreempt,
        Grade::Preempt | Grade::Reclaim | Grade::NoFit => Verdict::NoRoom,
    }
}

/// Who has what is missing, the one with the most first, and how many more there are.
fn holders(sets: &[SetWhy]) -> (Vec<Holder>, u32) {
    let (mut all, mut more): (Vec<Holder>, usize) = (Vec::new(), 0);
    for flavor in sets.iter().flat_map(|set| &set.flavors) {
        for it in &flavor.resources {
            more += it.more_holders;
            all.extend(it.holders.iter().map(|share| holder(share, &flavor.flavor, &it.look.resource)));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|it| seen.insert((it.workload.clone(), it.flavor.clone(), it.resource.clone())));
    (all, u32::try_from(more).unwrap_or(u32::MAX))
}

fn holder(share: &Share, flavor: &Text, resource: &Text) -> Holder {
    Holder {
        workload: (share.key.namespace.clone(), share.key.name.clone()),
        cluster_queue: share.queue.clone(),
        flavor: flavor.clone(),
        resource: resource.clone(),
        amount: share.amount,
    }
}

fn barred(it: Barrier) -> Barred {
    let (policy, words) = match it {
        Barrier::WithinNever => ("preemption.withinClusterQueue", "Never"),
        Barrier::WithinNobodyLower => {
            ("preemption.withinClusterQueue", "nobody in the queue may be preempted for this priority")
        }
        Barrier::ReclaimNever => ("preemption.reclaimWithinCohort", "Never"),
        Barrier::ReclaimNobody => ("preemption.reclaimWithinCohort", "nobody who may be preempted borrows"),
        Barrier::WhileBorrowingNever => ("preemption.borrowWithinCohort", "Never"),
    };
    Barred { policy, words: words.into() }
}

/// A Workload as it would be made for a manifest.
fn drafted(
    namespace: &Text,
    manifest: &Tree,
    gangs: Option<Gangs>,
    caches: &Caches,
) -> Result<WorkloadFacts, String> {
    let manifest = manifest.with(&["metadata", "namespace"], namespace);
    let kind = (manifest.str_at(&["apiVersion"]), manifest.str_at(&["kind"]));
    let group = kind.0.split_once('/').map_or("", |(group, _)| group);
    let (job, set, training);
    let work: Option<&dyn Work> = match (group, kind.1) {
        ("kueue.x-k8s.io", "Workload") => return Ok(waiting(WorkloadFacts::of(&manifest))),
        ("batch", "Job") => {
            job = BatchJob::of(&manifest);
            Some(&job)
        }
        ("jobset.x-k8s.io", "JobSet") => {
            set = SetOfJobs::of(&manifest);
            Some(&set)
        }
        (GROUP, TRAIN_JOB) => {
            training = Training::of(&manifest, trainjobs::makes(&manifest, gangs, caches), false);
            Some(&training)
        }
        ("", "Pod") => None,
        (_, kind) => {
            return Err(format!("a {kind} cannot be tried: send a Workload, Job, JobSet, TrainJob or Pod"));
        }
    };
    let sets = match work {
        Some(work) => work.pod_sets()?,
        None => of_pod(&manifest)?,
    };
    let classes: Vec<Text> =
        sets.iter().map(|it| it.template.text_at(&["spec", "priorityClassName"])).collect();
    let label = meta::label(&manifest, labels::PRIORITY_CLASS).unwrap_or_default();
    let asked = Asked { label, of_job: work.map_or("", |it| it.priority_class()), of_pods: &classes };
    let resolved = resolve(asked, &Priorities(caches))
        .map_err(|missing| format!("there is no priority class {}", missing.0.name))?;
    let tree = NewWorkload {
        namespace: namespace.clone(),
        name: meta::name(&manifest),
        queue: queue(&manifest, namespace, caches)?,
        pod_sets: sets
            .into_iter()
            .map(|it| NewPodSet {
                name: it.name,
                template: it.template,
                count: it.count,
                min_count: it.min_count,
                topology: it.topology,
            })
            .collect(),
        priority: Some(resolved.priority),
        priority_class: resolved.class,
        ..NewWorkload::default()
    };
    Ok(waiting(WorkloadFacts::of(&tree.tree())))
}

/// Whatever the manifest says of its status, it begins without.
fn waiting(facts: WorkloadFacts) -> WorkloadFacts {
    WorkloadFacts {
        conditions: Vec::new(),
        admission: None,
        active: true,
        checks: Vec::new(),
        requeue: None,
        ..facts
    }
}

fn queue(manifest: &Tree, namespace: &Text, caches: &Caches) -> Result<Text, String> {
    let named = queue_of(manifest);
    if !named.is_empty() {
        return Ok(named);
    }
    let default = Text::from(DEFAULT);
    match caches.get(&kinds::LOCAL_QUEUES, namespace, &default) {
        Some(_) => Ok(default),
        None => Err(format!("it names no queue: set the label {}", labels::QUEUE)),
    }
}

/// The sets of a pod, or of its whole group as far as this one tells of it.
fn of_pod(pod: &Tree) -> Result<Vec<PodSet>, String> {
    let member = Member::of(&Object { tree: pod.clone(), revision: 0 }, Above::default());
    if let Some(flaw) = member.flaw {
        return Err(flaw);
    }
    let Some(name) = member.decl.group_name() else {
        let (name, template) = (MAIN.into(), template_of_pod(pod));
        return Ok(vec![PodSet { name, template, count: 1, min_count: None, topology: Tree::Null }]);
    };
    // It stands for all that are like it, whether the group would wait for them or not.
    let group = Group { fast: true, ..agree(name, &[&member], None).group };
    let lacking = |lack: Lack| format!("{}: send a Workload with all of its pods", lack.words(name));
    compose(&group, &[&member]).map_err(lacking)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    /// A pod of the group `g`, with these annotations and this role.
    fn pod(notes: &[(&str, &str)], role: &str) -> Tree {
        let notes = notes.iter().map(|(key, value)| (format!("kueue.x-k8s.io/{key}"), *value));
        let labels = Tree::map([(labels::POD_GROUP_NAME, "g"), (labels::POD_GROUP_ROLE, role)]);
        let labels = if role.is_empty() { labels.without_key(labels::POD_GROUP_ROLE) } else { labels };
        tree!({"metadata": {"name": "p", "labels": labels, "annotations": (Tree::map(notes))},
            "spec": {"containers": [{"name": "c", "image": "i"}]}})
    }

    #[test]
    fn a_pod_stands_for_its_whole_group() {
        let sets = r#"[{"name": "driver", "count": 1}, {"name": "worker", "count": 9, "template": {"spec": {"containers": []}}}]"#;
        let bare = tree!({"metadata": {"name": "p"}, "spec": {"containers": []}});
        for (says, pod, want) in [
            ("by itself", bare, Ok(vec![1])),
            ("a total", pod(&[("pod-group-total-count", "4")], ""), Ok(vec![4])),
            ("equal ones", pod(&[("pod-group-count", "5")], ""), Ok(vec![5])),
            (
                "the only role",
                pod(&[("pod-group-roles", "1"), ("pod-group-role-count", "3")], "w"),
                Ok(vec![3]),
            ),
            (
                "one of several roles",
                pod(&[("pod-group-roles", "2"), ("pod-group-role-count", "3")], "w"),
                Err("waiting for pods of 1 more role(s)"),
            ),
            ("all sets", pod(&[("pod-group-sets", sets)], "driver"), Ok(vec![1, 9])),
            ("nobody says it", pod(&[], ""), Err("should be set")),
        ] {
            let made = of_pod(&pod).map(|all| all.iter().map(|it| it.count).collect::<Vec<_>>());
            match (made, want) {
                (Ok(made), Ok(want)) => assert_eq!(made, want, "{says}"),
                (Err(why), Err(words)) => assert!(why.contains(words), "{says}: {why}"),
                (made, want) => panic!("{says}: {made:?} instead of {want:?}"),
            }
        }
    }
}
