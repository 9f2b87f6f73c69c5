//! Results of visibility queries: pending Workloads in order, why a Workload is pending, and a dry run of a manifest.

use std::sync::Arc;
use std::time::Duration;

use muster_api::client::ApiObject;
use muster_api::gang_objects::GangSupport;
use muster_api::meta;
use muster_api::paths::meta as paths;
use muster_api::queue::consts::{DEFAULT, MAIN, conditions, labels};
use muster_api::queue::{LocalQueueFacts, NewPodSet, NewWorkload, PodSet, WorkloadFacts, kinds};
use muster_api::time::Time;
use muster_api::train::consts::{GROUP, TRAIN_JOB};
use muster_queue::engine::assignment_trace::GranularMode;
use muster_queue::engine::decision::RequeueReason;
use muster_queue::engine::explain::{
    AdmissionDryRun, FlavorExplanation, PodSetExplanation, PreemptionBarrier, QuotaConsumer,
    ResourceExplanation, WorkloadExplanation,
};
use muster_queue::engine::flavor_assigner::AssignmentMode;
use muster_queue::engine::preempt::PreemptionReason;
use muster_queue::engine::report::PendingWorkload;
use muster_queue::engine::workload::NamespacedName as WorkloadKey;
use muster_queue::jobs::batch::BatchJob;
use muster_queue::jobs::construct::template_of_pod;
use muster_queue::jobs::generic_job::GenericJob;
use muster_queue::jobs::jobset::QueuedJobSet;
use muster_queue::jobs::priority::{PrioritySources, resolve};
use muster_queue::jobs::reconciler::queue_of;
use muster_queue::jobs::requests::PodEnvironment;
use muster_queue::jobs::trainjob::QueuedTrainJob;
use muster_queue::pods::compose::{ComposeError, compose};
use muster_queue::pods::group::{GroupDeclaration, resolve_group};
use muster_queue::pods::queued_pod::{PodAncestry, QueuedPod};
use muster_queue::reconcilers::explanation::{
    EstimateBasis, Explanation, ExplanationState, FlavorResult, FlavorVerdict, ImpossiblePreemption,
    PodSetVerdict, PotentialVictim, QueuePositions, QuotaHolder, ResourceVerdict, WaitEstimate,
};
use muster_queue::reconcilers::workload::cluster_queue_of;
use muster_tree::{Text, Tree};

use super::jobs::Priorities;
use super::visibility_query::{OWNERS_MAX, VisibilityQuery, VisibilityResult};
use super::{QueueController, engine_input, trainjobs, visibility_key};
use crate::cache::Caches;
use crate::controller::Reconciled;

/// Up to so many pending Workloads are sorted for every query.
const FEW: usize = 1_000;
/// How long the sorted list of a longer queue is reused.
const ORDER_LASTS: Duration = Duration::from_secs(1);
/// The fewest past wait times for an estimate.
const WAITS_MIN: usize = 3;

const NOT_AS_IT_STANDS: &str = "it cannot be admitted as things stand";
const TOO_FEW: &str = "too few workloads were admitted here to tell";
const LONGER: &str = "it has waited longer than the last ones did";

/// The sorted pending Workloads of a queue at some time.
#[derive(Debug)]
pub(super) struct Ordered {
    at: Time,
    all: Arc<Vec<PendingWorkload>>,
}

impl QueueController {
    /// Answers the next batch of queries; the rest follows after the keys that are ready.
    pub(super) fn answer_queries(&mut self, caches: &Caches, now: Time) -> Reconciled {
        let (asked, more) = self.settings.visibility.take_batch();
        for (question, reply) in asked {
            reply(self.answer(question, caches, now));
        }
        Reconciled { enqueue: more.then(visibility_key).into_iter().collect(), ..Reconciled::done() }
    }

    fn answer(&mut self, question: VisibilityQuery, caches: &Caches, now: Time) -> VisibilityResult {
        match question {
            VisibilityQuery::ClusterQueuePending(name) => {
                match caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), &name) {
                    Some(_) => VisibilityResult::Pending(self.ordered(&name, now)),
                    None => VisibilityResult::NotFound,
                }
            }
            VisibilityQuery::LocalQueuePending(namespace, name) => {
                match caches.get(&kinds::LOCAL_QUEUES, &namespace, &name) {
                    Some(it) => VisibilityResult::Pending(
                        self.ordered(&LocalQueueFacts::of(&it.tree).cluster_queue, now),
                    ),
                    None => VisibilityResult::NotFound,
                }
            }
            VisibilityQuery::Owners(all) => {
                VisibilityResult::Owners(all.iter().take(OWNERS_MAX).map(|it| owners(it, caches)).collect())
            }
            VisibilityQuery::Explain(namespace, name) => {
                match caches.get(&kinds::WORKLOADS, &namespace, &name) {
                    Some(it) => VisibilityResult::Explanation(Box::new(self.explained(it, caches, now))),
                    None => VisibilityResult::NotFound,
                }
            }
            VisibilityQuery::DryRun(namespace, manifest) => {
                match self.tried(&namespace, &manifest, caches, now) {
                    Ok(pending) => VisibilityResult::Explanation(Box::new(pending)),
                    Err(words) => VisibilityResult::Invalid(words),
                }
            }
        }
    }

    /// The pending Workloads of a queue in order; a long list is sorted at most once per [`ORDER_LASTS`].
    fn ordered(&mut self, queue: &Text, now: Time) -> Arc<Vec<PendingWorkload>> {
        if let Some(known) = self.orders.get(queue)
            && now.since(known.at) < ORDER_LASTS
        {
            return known.all.clone();
        }
        let all = Arc::new(self.engine.pending_workloads(queue));
        self.orders.retain(|_, it| now.since(it.at) < ORDER_LASTS);
        if all.len() > FEW {
            self.orders.insert(queue.clone(), Ordered { at: now, all: all.clone() });
        }
        all
    }

    /// Why a Workload is pending, or its state if it is not.
    fn explained(&self, object: &ApiObject, caches: &Caches, now: Time) -> Explanation {
        let facts = WorkloadFacts::of(&object.tree);
        let local = caches.get(&kinds::LOCAL_QUEUES, &facts.namespace, &facts.queue);
        let local = local.map(|it| LocalQueueFacts::of(&it.tree));
        let known = Explanation {
            workload: (facts.namespace.clone(), facts.name.clone()),
            local_queue: facts.queue.clone(),
            cluster_queue: cluster_queue_of(&facts, local.as_ref()).unwrap_or_default(),
            ..Explanation::default()
        };
        let Some(why) = self.engine.explain(&engine_input::key_of(&facts.namespace, &facts.name)) else {
            return standing(known, &facts);
        };
        let (estimate, no_estimate) = match self.estimate(&why, &facts, &known.cluster_queue, caches, now) {
            Ok(estimate) => (Some(estimate), ""),
            Err(words) => (None, words),
        };
        let number = |n: Option<usize>| n.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let position = number(why.position_in_local_queue).zip(number(why.position_in_cluster_queue));
        let position = position
            .map(|(in_local_queue, in_cluster_queue)| QueuePositions { in_local_queue, in_cluster_queue });
        let (holders, more_holders) = holders(&why.sets);
        Explanation {
            reason: why.reason.word().into(),
            message: why.message,
            position,
            sets: verdicts(&why.sets, &facts.pod_sets, why.victims),
            holders,
            more_holders,
            impossible_preemptions: why.barriers.iter().map(|it| barred(*it)).collect(),
            evaluated_at: why.evaluated,
            estimate,
            no_estimate,
            ..known
        }
    }

    fn estimate(
        &self,
        why: &WorkloadExplanation,
        facts: &WorkloadFacts,
        queue: &Text,
        caches: &Caches,
        now: Time,
    ) -> Result<WaitEstimate, &'static str> {
        if let Some(at) = facts.requeue.and_then(|it| it.at).filter(|at| *at > now) {
            return Ok(WaitEstimate { wait: at.since(now), basis: EstimateBasis::Backoff });
        }
        match why.reason {
            RequeueReason::WaitingForQuota
            | RequeueReason::WaitingForPreemptedWorkloads
            | RequeueReason::WaitingForPodsReady
            | RequeueReason::PendingEvaluation => {}
            _ => return Err(NOT_AS_IT_STANDS),
        }
        // Workloads ahead of it in the queue would get the freed quota first.
        let is_first = why.position_in_cluster_queue == Some(0);
        if let Some(wait) = limits_end(why, caches, now).filter(|_| is_first) {
            return Ok(WaitEstimate { wait, basis: EstimateBasis::RunTimeLimits });
        }
        let mut past: Vec<Duration> = self.recorder.waits(queue);
        if past.len() < WAITS_MIN {
            return Err(TOO_FEW);
        }
        past.sort_unstable();
        let usual = past[past.len() / 2];
        let waited = facts.created.map(|since| now.since(since)).unwrap_or_default();
        let left = usual.checked_sub(waited).filter(|it| !it.is_zero()).ok_or(LONGER)?;
        let samples = u32::try_from(past.len()).unwrap_or(u32::MAX);
        Ok(WaitEstimate { wait: left, basis: EstimateBasis::PastWaits { samples } })
    }

    /// A dry run of the admission of a manifest; nothing is written.
    fn tried(
        &mut self,
        namespace: &Text,
        manifest: &Tree,
        caches: &Caches,
        now: Time,
    ) -> Result<Explanation, String> {
        let facts = drafted(namespace, manifest, self.gangs, caches)?;
        let limits = engine_input::limits(namespace, caches);
        let around = PodEnvironment {
            limits: &limits,
            runtime_class: &|name| engine_input::runtime_class(name, caches),
        };
        let mut info = engine_input::workload(&facts, &around, &self.settings.accounting);
        info.created = now;
        let trial = self.engine.dry_run(&info);
        let known = Explanation {
            workload: (namespace.clone(), facts.name.clone()),
            local_queue: facts.queue.clone(),
            evaluated_at: Some(now),
            ..Explanation::default()
        };
        Ok(match trial {
            Err((reason, message)) => Explanation {
                state: ExplanationState::WouldWait,
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

/// The state of a Workload that is not pending.
fn standing(known: Explanation, facts: &WorkloadFacts) -> Explanation {
    let (standing, kind) = if facts.is_finished() {
        (ExplanationState::Finished, conditions::FINISHED)
    } else if facts.is_admitted() {
        (ExplanationState::Admitted, conditions::ADMITTED)
    } else if facts.has_quota() {
        (ExplanationState::Reserved, conditions::ADMITTED)
    } else {
        (ExplanationState::Held, conditions::QUOTA_RESERVED)
    };
    let told = facts.condition(kind);
    Explanation {
        state: standing,
        reason: told.map(|it| it.reason.clone()).unwrap_or_default(),
        message: told.map(|it| it.message.to_string()).unwrap_or_default(),
        no_estimate: if standing == ExplanationState::Held { NOT_AS_IT_STANDS } else { "" },
        ..known
    }
}

fn of_trial(known: Explanation, trial: &AdmissionDryRun, sets: &[PodSet]) -> Explanation {
    let standing = match trial.assignment.representative_mode() {
        AssignmentMode::Fit => ExplanationState::WouldStart,
        AssignmentMode::Preempt if !trial.targets.is_empty() => ExplanationState::WouldPreempt,
        AssignmentMode::Preempt | AssignmentMode::NoFit => ExplanationState::WouldWait,
    };
    let reason = trial.assignment.no_fit_reason().map(|it| RequeueReason::from(it).word());
    let reason = reason.filter(|_| standing == ExplanationState::WouldWait).unwrap_or_default();
    let departs = trial.targets.iter().map(|it| PotentialVictim {
        workload: (it.workload.key.namespace.clone(), it.workload.key.name.clone()),
        words: because(it.reason).into(),
    });
    let (holders, more_holders) = holders(&trial.sets);
    Explanation {
        state: standing,
        cluster_queue: trial.queue.clone(),
        reason: reason.into(),
        message: trial.assignment.message(),
        sets: verdicts(&trial.sets, sets, 0),
        holders,
        more_holders,
        impossible_preemptions: trial.barriers.iter().map(|it| barred(*it)).collect(),
        potential_victims: departs.collect(),
        no_estimate: if standing == ExplanationState::WouldWait { TOO_FEW } else { "" },
        ..known
    }
}

fn because(it: PreemptionReason) -> &'static str {
    it.human_readable()
}

/// When enough holders of the quota must have finished, by their `maximumExecutionTimeSeconds`.
fn limits_end(why: &WorkloadExplanation, caches: &Caches, now: Time) -> Option<Duration> {
    let flavors = why.sets.iter().flat_map(|set| &set.flavors).filter(|it| it.unsuitable.is_none());
    flavors.filter_map(|flavor| flavor_ends(flavor, caches, now)).min()
}

fn flavor_ends(flavor: &FlavorExplanation, caches: &Caches, now: Time) -> Option<Duration> {
    let missing = flavor.resources.iter().filter(|it| it.trace.shortfall > 0);
    let ends = missing.map(|it| resource_ends(it, caches)).collect::<Option<Vec<Time>>>()?;
    ends.into_iter().max().map(|at| at.since(now))
}

fn resource_ends(of: &ResourceExplanation, caches: &Caches) -> Option<Time> {
    let mut ends: Vec<(Time, i64)> =
        of.consumers.iter().filter_map(|it| Some((ends_at(&it.key, caches)?, it.amount))).collect();
    ends.sort_unstable();
    let mut freed = 0_i64;
    for (at, amount) in ends {
        freed = freed.saturating_add(amount);
        if freed >= of.trace.shortfall {
            return Some(at);
        }
    }
    None
}

/// When a Workload must have finished at the latest.
fn ends_at(key: &WorkloadKey, caches: &Caches) -> Option<Time> {
    let workload = caches.get(&kinds::WORKLOADS, &key.namespace, &key.name)?;
    let facts = WorkloadFacts::of(&workload.tree);
    let since = facts.condition(conditions::ADMITTED).filter(|it| it.holds)?.since?;
    Some(since + Duration::from_secs(facts.max_exec_secs?.into()))
}

fn verdicts(sets: &[PodSetExplanation], known: &[PodSet], victims: usize) -> Vec<PodSetVerdict> {
    let set = |(at, set): (usize, &PodSetExplanation)| {
        // One that shares another's verdict has sets of its own names.
        let own = known.get(at);
        PodSetVerdict {
            name: own.map_or_else(|| set.name.clone(), |it| it.name.clone()),
            count: own.map_or(0, |it| it.count),
            flavors: set.flavors.iter().map(|it| flavor_verdict(it, victims)).collect(),
        }
    };
    sets.iter().enumerate().map(set).collect()
}

fn flavor_verdict(it: &FlavorExplanation, victims: usize) -> FlavorResult {
    let resources = it.resources.iter().map(|one| ResourceVerdict {
        resource: one.trace.resource.clone(),
        requested: one.trace.requested.saturating_add(one.trace.assumed_by_earlier_pod_sets),
        available: one.trace.available,
        maximum: one.trace.maximum,
    });
    let resources: Vec<ResourceVerdict> = resources.collect();
    FlavorResult { flavor: it.flavor.clone(), verdict: verdict(it, &resources, victims), resources }
}

fn verdict(it: &FlavorExplanation, resources: &[ResourceVerdict], victims: usize) -> FlavorVerdict {
    if let Some(words) = &it.unsuitable {
        return FlavorVerdict::Unsuitable(words.as_str().into());
    }
    if resources.iter().any(|it| it.requested > it.maximum) {
        return FlavorVerdict::TooBig;
    }
    let worst = it.resources.iter().map(|it| it.trace.mode).min().unwrap_or(GranularMode::Fit);
    match worst {
        GranularMode::Fit if it.resources.iter().any(|it| it.trace.borrowing_height > 0) => {
            FlavorVerdict::FitsByBorrowing
        }
        GranularMode::Fit => FlavorVerdict::Fits,
        GranularMode::Preempt | GranularMode::Reclaim if victims > 0 => {
            FlavorVerdict::WaitsForPreempted { victims: u32::try_from(victims).unwrap_or(u32::MAX) }
        }
        GranularMode::NoPreemptionCandidates => FlavorVerdict::NobodyToPreempt,
        GranularMode::Preempt | GranularMode::Reclaim | GranularMode::NoFit => FlavorVerdict::NoRoom,
    }
}

/// The holders of the missing quota, largest first, and how many more there are.
fn holders(sets: &[PodSetExplanation]) -> (Vec<QuotaHolder>, u32) {
    let (mut all, mut more): (Vec<QuotaHolder>, usize) = (Vec::new(), 0);
    for flavor in sets.iter().flat_map(|set| &set.flavors) {
        for it in &flavor.resources {
            more += it.more_consumers;
            all.extend(it.consumers.iter().map(|share| holder(share, &flavor.flavor, &it.trace.resource)));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|it| seen.insert((it.workload.clone(), it.flavor.clone(), it.resource.clone())));
    (all, u32::try_from(more).unwrap_or(u32::MAX))
}

fn holder(share: &QuotaConsumer, flavor: &Text, resource: &Text) -> QuotaHolder {
    QuotaHolder {
        workload: (share.key.namespace.clone(), share.key.name.clone()),
        cluster_queue: share.queue.clone(),
        flavor: flavor.clone(),
        resource: resource.clone(),
        amount: share.amount,
    }
}

fn barred(it: PreemptionBarrier) -> ImpossiblePreemption {
    let (policy, words) = match it {
        PreemptionBarrier::WithinClusterQueueNever => ("preemption.withinClusterQueue", "Never"),
        PreemptionBarrier::WithinClusterQueueNoCandidates => {
            ("preemption.withinClusterQueue", "nobody in the queue may be preempted for this priority")
        }
        PreemptionBarrier::ReclaimWithinCohortNever => ("preemption.reclaimWithinCohort", "Never"),
        PreemptionBarrier::ReclaimWithinCohortNoCandidates => {
            ("preemption.reclaimWithinCohort", "nobody who may be preempted borrows")
        }
        PreemptionBarrier::BorrowWithinCohortNever => ("preemption.borrowWithinCohort", "Never"),
    };
    ImpossiblePreemption { policy, words: words.into() }
}

/// A Workload as it would be made for a manifest.
fn drafted(
    namespace: &Text,
    manifest: &Tree,
    gangs: Option<GangSupport>,
    caches: &Caches,
) -> Result<WorkloadFacts, String> {
    let manifest = manifest.with(&["metadata", "namespace"], namespace);
    let kind = (manifest.str_at(&["apiVersion"]), manifest.str_at(&["kind"]));
    let group = kind.0.split_once('/').map_or("", |(group, _)| group);
    let (job, set, training);
    let work: Option<&dyn GenericJob> = match (group, kind.1) {
        ("kueue.x-k8s.io", "Workload") => return Ok(waiting(WorkloadFacts::of(&manifest))),
        ("batch", "Job") => {
            job = BatchJob::of(&manifest);
            Some(&job)
        }
        ("jobset.x-k8s.io", "JobSet") => {
            set = QueuedJobSet::of(&manifest);
            Some(&set)
        }
        (GROUP, TRAIN_JOB) => {
            training = QueuedTrainJob::of(&manifest, trainjobs::makes(&manifest, gangs, caches), false);
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
    let asked =
        PrioritySources { label, of_job: work.map_or("", |it| it.priority_class()), of_pods: &classes };
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

/// The pod sets of a pod, or of its whole group as far as the annotations of this pod describe it.
fn of_pod(pod: &Tree) -> Result<Vec<PodSet>, String> {
    let member = QueuedPod::of(&ApiObject { tree: pod.clone(), revision: 0 }, PodAncestry::default());
    if let Some(flaw) = member.validation_error {
        return Err(flaw);
    }
    let Some(name) = member.group_metadata.group_name() else {
        let (name, template) = (MAIN.into(), template_of_pod(pod));
        return Ok(vec![PodSet { name, template, count: 1, min_count: None, topology: Tree::Null }]);
    };
    // It stands for all that are like it, whether the group would wait for them or not.
    let group = GroupDeclaration { fast: true, ..resolve_group(name, &[&member], None).group };
    let lacking = |lack: ComposeError| format!("{}: send a Workload with all of its pods", lack.words(name));
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
