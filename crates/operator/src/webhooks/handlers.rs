//! Dispatches an admission request to the handlers of JobSets, queues and TrainJobs.
//!
//! # Guarantees
//!
//! - Whichever webhook of a path is called, all enabled handlers of that kind run in order. Each is idempotent over its own
//!   result, because the API server may call several webhooks of one path.
//! - A disabled handler admits everything: its webhooks may be installed all the same.

use std::sync::Arc;

use muster_api::client::Kind;
use muster_api::environment::Clock;
use muster_api::gang::GangSupport;
use muster_api::kinds;
use muster_api::meta::OwnerReference;
use muster_api::queue::consts::{DEFAULT, GROUP};
use muster_api::queue::kinds as queues;
use muster_api::train::consts::GROUP as TRAINING;
use muster_hooks::QueueWebhookConfig;
use muster_hooks::queued::{self, QueueableKind, RelatedObjects, mutate_queued, validate_queued};
use muster_install::webhooks::{AdmissionStep, Webhook, WebhookType};
use muster_jobset::admission::{
    AdmissionContext, AdmissionSettings as JobSetSettings, Answer, default_jobset, mutate_pod,
    validate_jobset, validate_pod,
};
use muster_queue::kinds::admission as kueue;
use muster_trainer::kinds::admission as trainer;
use muster_tree::{Text, Tree};

use super::admission_review::ReviewRequest;
use super::live_lister::AdmissionLister;
use crate::ports::SystemClock;

/// The enabled admission handlers and their settings.
#[derive(Debug, Clone, Default)]
pub struct AdmissionHandlers {
    pub jobsets: Option<JobSetSettings>,
    pub queues: Option<Arc<QueueWebhookConfig>>,
    pub training: bool,
}

impl AdmissionHandlers {
    /// Whether the handler of this step is enabled.
    pub fn has(&self, step: AdmissionStep) -> bool {
        match step {
            AdmissionStep::JobSets => self.jobsets.is_some(),
            AdmissionStep::Queues => self.queues.is_some(),
            AdmissionStep::Training => self.training,
        }
    }

    pub fn steps(&self) -> impl Iterator<Item = AdmissionStep> + '_ {
        [AdmissionStep::JobSets, AdmissionStep::Training, AdmissionStep::Queues]
            .into_iter()
            .filter(|it| self.has(*it))
    }

    pub fn is_empty(&self) -> bool {
        self.steps().next().is_none()
    }

    /// Runs all enabled handlers, each over the result of those before, until one rejects.
    pub fn handle(&self, hook: &Webhook, question: &ReviewRequest, look: &dyn AdmissionLister) -> Answer {
        let mut all = Answer::default();
        for step in self.steps() {
            let object = all.changed.clone().unwrap_or_else(|| question.object.clone());
            let next = self.handle_step(step, hook, question, &object, look);
            all = Answer {
                changed: next.changed.or(all.changed),
                warnings: [all.warnings, next.warnings].concat(),
                ..next
            };
            if all.refused.is_some() || !all.problems.is_empty() {
                break;
            }
        }
        all
    }

    /// Runs one handler over what the others made of the object.
    fn handle_step(
        &self,
        step: AdmissionStep,
        hook: &Webhook,
        question: &ReviewRequest,
        object: &Tree,
        look: &dyn AdmissionLister,
    ) -> Answer {
        match (step, &self.jobsets, &self.queues) {
            (AdmissionStep::JobSets, Some(settings), _) => {
                handle_jobsets(hook, question, object, look, settings)
            }
            (AdmissionStep::Queues, _, Some(settings)) => {
                handle_queues(hook, question, object, look, settings)
            }
            (AdmissionStep::Training, ..) => handle_training(hook, question, object, look),
            _ => Answer::default(),
        }
    }
}

fn handle_jobsets(
    hook: &Webhook,
    question: &ReviewRequest,
    object: &Tree,
    look: &dyn AdmissionLister,
    settings: &JobSetSettings,
) -> Answer {
    let decide = match (hook.word, hook.say, &question.old) {
        ("JobSet", WebhookType::Mutating, _) => default_jobset,
        ("JobSet", WebhookType::Validating, _) => validate_jobset,
        ("Pod", WebhookType::Mutating, None) => mutate_pod,
        ("Pod", WebhookType::Validating, None) => validate_pod,
        _ => return Answer::default(),
    };
    decide(&AdmissionContext {
        namespace: &question.namespace,
        object,
        old: question.old.as_ref(),
        live: look.for_jobsets(),
        settings,
    })
}

fn handle_training(
    hook: &Webhook,
    question: &ReviewRequest,
    object: &Tree,
    look: &dyn AdmissionLister,
) -> Answer {
    if hook.kind.group != TRAINING {
        return Answer::default();
    }
    let decide = match hook.say {
        WebhookType::Mutating => trainer::mutate,
        WebhookType::Validating => trainer::validate,
    };
    let asked = trainer::TrainingReview {
        namespace: &question.namespace,
        object,
        old: question.old.as_ref(),
        live: look.for_training(),
        now: SystemClock.now(),
    };
    decide(hook.word, &asked)
}

fn handle_queues(
    hook: &Webhook,
    question: &ReviewRequest,
    object: &Tree,
    look: &dyn AdmissionLister,
    settings: &QueueWebhookConfig,
) -> Answer {
    let old = question.old.as_ref();
    if hook.kind.group == GROUP {
        let asked = kueue::WriteReview { object, old };
        let answer = match hook.say {
            WebhookType::Mutating => kueue::mutate(hook.word, &asked),
            WebhookType::Validating => kueue::validate(hook.word, &asked),
        };
        return answer.denied();
    }
    let queued = QueueableKind::of(&hook.kind.group, &hook.kind.plural).filter(|it| it.is_managed(settings));
    let decide = match (hook.say, old) {
        (WebhookType::Mutating, None) => mutate_queued,
        (WebhookType::Validating, _) => validate_queued,
        (WebhookType::Mutating, Some(_)) => return Answer::default(),
    };
    let around = QueueLookups { question, look };
    queued
        .map(|queued| {
            decide(&queued::QueueReview { queued, object, old, around: &around, settings }).denied()
        })
        .unwrap_or_default()
}

/// Lookups of queue admission for one request.
struct QueueLookups<'a> {
    question: &'a ReviewRequest,
    look: &'a dyn AdmissionLister,
}

impl QueueLookups<'_> {
    fn is_there(&self, kind: &Kind, namespace: &str) -> Result<bool, String> {
        Ok(self.look.one(kind, namespace, DEFAULT)?.is_some())
    }

    fn is_controller_of(&self, group: &str, plural: &str) -> Result<bool, String> {
        let ReviewRequest { user, namespace, .. } = self.question;
        self.look.is_controller_of(user, namespace, (group, plural))
    }
}

impl RelatedObjects for QueueLookups<'_> {
    fn namespace(&self) -> Result<Tree, String> {
        let name = self.question.namespace.as_str();
        let found = self.look.one(&kinds::NAMESPACES, "", name)?;
        found.ok_or_else(|| format!("namespaces {name:?} not found"))
    }

    fn owner(&self, owner: &OwnerReference) -> Result<Option<Tree>, String> {
        let version = owner.api_version.rsplit('/').next().unwrap_or_default();
        let kind = Kind { group: owner.group().into(), version: version.into(), plural: plural(owner) };
        self.look.one(&kind, &self.question.namespace, &owner.name)
    }

    fn has_default_queue(&self) -> Result<bool, String> {
        self.is_there(&queues::LOCAL_QUEUES, &self.question.namespace)
    }

    fn has_default_class(&self) -> Result<bool, String> {
        self.is_there(&queues::PRIORITY_CLASSES, "")
    }

    fn may_release(&self) -> Result<bool, String> {
        self.is_controller_of(GROUP, &queues::WORKLOADS.plural)
    }

    fn acts_for(&self, owner: &OwnerReference) -> Result<bool, String> {
        self.is_controller_of(owner.group(), &plural(owner))
    }

    fn gangs(&self) -> Result<Option<GangSupport>, String> {
        self.look.gangs()
    }
}

/// The resource name of an owner's kind, by the convention that all our owners follow.
fn plural(owner: &OwnerReference) -> Text {
    Text::from(format!("{}s", owner.kind.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use muster_api::gang::{GangApi, GroupMarker};
    use muster_api::train::RuntimeKind;
    use muster_install::webhooks::WEBHOOKS;
    use muster_jobset::admission::{DryRun, LiveLister};
    use muster_queue::jobs::owner_chain::ManagedKinds;
    use muster_tree::tree;

    use super::*;

    /// A cluster with one namespace that has a default LocalQueue, and every Job that is looked up.
    struct Plain;

    impl AdmissionLister for Plain {
        fn one(&self, kind: &Kind, _: &str, name: &str) -> Result<Option<Tree>, String> {
            let queue = tree!({"kueue.x-k8s.io/queue-name": "default"});
            let there = [&kinds::NAMESPACES, &queues::LOCAL_QUEUES, &kinds::JOBS].contains(&kind);
            Ok(there.then(|| tree!({"metadata": {"name": name, "uid": name, "labels": queue}})))
        }

        fn is_controller_of(&self, user: &Tree, _: &str, (_, plural): (&str, &str)) -> Result<bool, String> {
            let name = user.str_at(&["username"]);
            Ok(name == "us" || (name == "job-controller" && plural == "jobs"))
        }

        fn gangs(&self) -> Result<Option<GangSupport>, String> {
            Ok(Some(GangSupport { api: GangApi::Released, marker: GroupMarker::Field }))
        }

        fn for_jobsets(&self) -> &dyn LiveLister {
            self
        }

        fn for_training(&self) -> &dyn trainer::TrainingLister {
            self
        }
    }

    impl trainer::TrainingLister for Plain {
        fn runtime(&self, kind: RuntimeKind, _: &str, name: &str) -> Result<Option<Tree>, String> {
            let job = tree!({"name": "node", "replicas": 1});
            let spec = tree!({"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}});
            let there = kind == RuntimeKind::Cluster && name == "plain";
            Ok(there.then(|| tree!({"metadata": {"name": name}, "spec": spec})))
        }

        fn config_map(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn jobset(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn has_priority_class(&self, _: &str) -> Result<bool, String> {
            Ok(false)
        }
    }

    impl LiveLister for Plain {
        fn volume_claim(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn device_claims(&self, _: &str, _: &str) -> Result<Vec<Tree>, String> {
            Ok(Vec::new())
        }

        fn node(&self, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn first_pods(&self, _: &str, _: &str, _: &str) -> Result<Vec<Tree>, String> {
            Ok(Vec::new())
        }

        fn dry_run(&self, _: &Kind, _: &Tree) -> DryRun {
            DryRun::Valid
        }
    }

    fn deciders() -> AdmissionHandlers {
        let all = muster_queue::kinds::config::QueueConfig::default_for("own");
        let settings = crate::queues::admission(&all);
        assert_ne!(settings.managed, ManagedKinds::default(), "something is managed");
        AdmissionHandlers {
            jobsets: Some(JobSetSettings::default()),
            queues: Some(Arc::new(settings)),
            training: true,
        }
    }

    fn hook(path: &str) -> &'static Webhook {
        WEBHOOKS.iter().find(|hook| hook.path == path).expect("there is such a path")
    }

    fn question(object: &Tree) -> ReviewRequest {
        ReviewRequest { namespace: "n".into(), object: object.clone(), ..ReviewRequest::default() }
    }

    #[test]
    fn a_jobset_is_defaulted_and_queued_in_one_review() {
        let set =
            tree!({"metadata": {"name": "s"}, "spec": {"replicatedJobs": [{"name": "w", "template": {}}]}});
        let change = hook("/mutate-jobset-x-k8s-io-v1alpha2-jobset");
        let made = deciders().handle(change, &question(&set), &Plain).changed.unwrap();
        assert_eq!(made.str_at(&["metadata", "labels", "kueue.x-k8s.io/queue-name"]), "default");
        assert_eq!(made.bool_at(&["spec", "suspend"]), Some(true));
        assert_eq!(made.str_at(&["spec", "successPolicy", "operator"]), "All", "and filled in");
        let again = deciders().handle(change, &question(&made), &Plain).changed;
        assert!(again.is_none_or(|again| again == made), "idempotent");
        let alone = AdmissionHandlers { queues: None, ..deciders() };
        let made = alone.handle(change, &question(&set), &Plain).changed.unwrap();
        assert_eq!(made.at(&["metadata", "labels"]), None, "queue admission is disabled");
        assert_eq!(AdmissionHandlers::default().handle(change, &question(&set), &Plain), Answer::default());
    }

    #[test]
    fn a_trainjob_gets_patch_times_and_is_validated_against_its_runtime() {
        let job = tree!({"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "plain"},
            "runtimePatches": [{"manager": "a.io/b"}], "ttlSecondsAfterFinished": 5}});
        let change = hook("/mutate-trainer-kubeflow-org-v1alpha1-trainjob");
        let judge = hook("/validate-trainer-kubeflow-org-v1alpha1-trainjob");
        let made = deciders().handle(change, &question(&job), &Plain).changed.unwrap();
        let time = made.items_at(&["spec", "runtimePatches"])[0].str_at(&["time"]).to_owned();
        assert!(time.ends_with('Z'), "{time}");
        let said = deciders().handle(judge, &question(&made), &Plain);
        assert_eq!((said.refused, said.warnings.len()), (None, 1), "a short TTL is a warning");
        let lost = job.with(&["spec", "runtimeRef", "name"], "absent");
        let why = deciders().handle(judge, &question(&lost), &Plain).refused.unwrap();
        assert!(why.contains("must be created before the TrainJob is created"), "{why}");
        let off = AdmissionHandlers { training: false, ..deciders() };
        assert_eq!(off.handle(judge, &question(&lost), &Plain), Answer::default(), "the handler is disabled");
    }

    #[test]
    fn a_trainjob_is_queued_and_only_the_queue_writes_its_runtime_patch() {
        let job = tree!({"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "plain"}}});
        let change = hook("/mutate-trainer-kubeflow-org-v1alpha1-trainjob");
        let made = deciders().handle(change, &question(&job), &Plain).changed.unwrap();
        assert_eq!(made.bool_at(&["spec", "suspend"]), Some(true));
        let entry = &made.items_at(&["spec", "runtimePatches"])[0];
        assert_eq!(entry.str_at(&["manager"]), "kueue.x-k8s.io/manager");
        let jobs = tree!({"template": {"spec": {"replicatedJobs": [{"name": "node"}]}}});
        let forged =
            made.with(&["spec", "runtimePatches"], tree!([(entry.with(&["trainingRuntimeSpec"], jobs))]));
        let ask = |user: &str| {
            let user = tree!({"username": user});
            let question = ReviewRequest { old: Some(made.clone()), user, ..question(&forged) };
            let judge = hook("/validate-trainer-kubeflow-org-v1alpha1-trainjob");
            deciders().handle(judge, &question, &Plain).refused
        };
        assert_eq!(ask("us"), None);
        let why = ask("tenant").unwrap();
        assert!(why.contains("only the queue writes the entry"), "{why}");
    }

    #[test]
    fn a_pod_of_a_queued_job_is_created_by_its_controller_only() {
        let owner =
            tree!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true});
        let pod = tree!({"metadata": {"name": "p", "ownerReferences": [(owner.clone())]}, "spec": {}});
        let ask = |user: &str, pod: &Tree| {
            let question = ReviewRequest { user: tree!({"username": user}), ..question(pod) };
            deciders().handle(hook("/mutate--v1-pod"), &question, &Plain)
        };
        assert_eq!(ask("job-controller", &pod), Answer::default(), "it was queued with its Job");
        let why = ask("tenant", &pod).refused.unwrap();
        assert!(why.contains("only its controller makes something for it"), "{why}");
        let namesake = pod.with(&["metadata", "ownerReferences"], tree!([(owner.with(&["uid"], "k"))]));
        let taken = ask("tenant", &namesake).changed.unwrap();
        assert_eq!(taken.str_at(&["metadata", "labels", "kueue.x-k8s.io/queue-name"]), "default");
    }

    #[test]
    fn annotated_pods_reference_their_gang_in_the_api_of_the_cluster() {
        let labels = tree!({"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": "g"});
        let pod = tree!({"metadata": {"name": "p", "labels": labels}, "spec": {}});
        let ask =
            |pod: &Tree| deciders().handle(hook("/mutate--v1-pod"), &question(pod), &Plain).changed.unwrap();
        assert_eq!(ask(&pod).at(&["spec", "schedulingGroup"]), None, "not annotated");
        let asks = pod.with(&["metadata", "annotations", "scheduling.muster.dev/gang"], "true");
        assert_eq!(ask(&asks).str_at(&["spec", "schedulingGroup", "podGroupName"]), "g");
    }

    #[test]
    fn only_the_queue_may_ungate_a_pod() {
        let open =
            tree!({"metadata": {"name": "p", "labels": {"kueue.x-k8s.io/queue-name": "q"}}, "spec": {}});
        let gated = open.with(&["spec", "schedulingGates"], tree!([{"name": "kueue.x-k8s.io/admission"}]));
        let ask = |user: &str| {
            let user = tree!({"username": user});
            let question = ReviewRequest { old: Some(gated.clone()), user, ..question(&open) };
            deciders().handle(hook("/validate--v1-pod"), &question, &Plain).refused
        };
        assert_eq!(ask("us"), None);
        let why = ask("tenant").unwrap();
        assert!(why.contains("only the queue may release this pod"), "{why}");
    }
}
