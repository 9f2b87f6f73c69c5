//! Admission of the queue kinds, and of jobs and pods that are submitted to a queue.

use std::sync::Arc;

use muster_api::gang::GangSupport;
use muster_api::meta::OwnerReference;
use muster_api::queue::consts::{DEFAULT, GROUP};
use muster_apiserver::admission::{AdmissionDecision, AdmissionPlugin, AdmissionRequest, Operation};
use muster_queue::kinds::admission::{self, Answer, mutate, validate};
use muster_store::Key;
use muster_tree::{Text, Tree};

use super::queued::{
    QueueReview, QueueWebhookConfig, QueueableKind, RelatedObjects, mutate_queued, validate_queued,
};
use super::verdict;

/// Kinds with children that only our own controllers create.
const OWN_OWNER_KINDS: [(&str, &str); 3] =
    [("batch", "Job"), ("jobset.x-k8s.io", "JobSet"), ("trainer.kubeflow.org", "TrainJob")];
/// The group with all permissions.
const SYSTEM_MASTERS: &str = "system:masters";

/// The admission plugin for queues.
#[derive(Debug, Clone)]
pub struct QueueAdmission {
    settings: Arc<QueueWebhookConfig>,
    gangs: Option<GangSupport>,
}

/// A mutating or validating function.
type QueueKindReview = fn(&str, &admission::WriteReview<'_>) -> Answer;

impl QueueAdmission {
    /// The name of the plugin.
    pub const NAME: &str = "queue";

    #[must_use]
    pub fn new(settings: QueueWebhookConfig) -> QueueAdmission {
        QueueAdmission { settings: Arc::new(settings), gangs: None }
    }

    /// This plugin with the gang API of the server.
    #[must_use]
    pub fn gangs(self, gangs: Option<GangSupport>) -> QueueAdmission {
        QueueAdmission { gangs, ..self }
    }

    fn queued(&self, request: &AdmissionRequest<'_>) -> Option<QueueableKind> {
        let resource = request.resource;
        let is_whole = request.subresource.is_empty() || request.subresource == "resize";
        let queued = QueueableKind::of(&resource.group, &resource.plural).filter(|_| is_whole);
        queued.filter(|it| it.is_managed(&self.settings))
    }

    fn ask(
        &self,
        request: &AdmissionRequest<'_>,
        queued: QueueableKind,
        object: &Tree,
        (decide, letter): (fn(&QueueReview<'_>) -> Answer, &str),
    ) -> AdmissionDecision {
        let around = StoreLister { request, gangs: self.gangs };
        let old = request.old;
        let answer = decide(&QueueReview { queued, object, old, around: &around, settings: &self.settings });
        verdict(answer.denied(), request, object, &format!("{letter}{}", queued.webhook()))
    }
}

impl AdmissionPlugin for QueueAdmission {
    fn name(&self) -> &str {
        QueueAdmission::NAME
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        match (request.operation, self.queued(request), request.object) {
            (Operation::Create, Some(queued), Some(object)) => {
                self.ask(request, queued, object, (mutate_queued, "m"))
            }
            _ if request.subresource.is_empty() => ask(request, mutate, "m"),
            _ => AdmissionDecision::allow(),
        }
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        match (request.operation, self.queued(request), request.object) {
            (Operation::Create | Operation::Update, Some(queued), Some(object)) => {
                self.ask(request, queued, object, (validate_queued, "v"))
            }
            // The status subresource is validated, too: it holds the admission with its quota.
            _ => ask(request, validate, "v"),
        }
    }
}

fn ask(request: &AdmissionRequest<'_>, review: QueueKindReview, letter: &str) -> AdmissionDecision {
    let asks = matches!(request.operation, Operation::Create | Operation::Update);
    let (true, Some(object)) = (asks && request.resource.group == GROUP, request.object) else {
        return AdmissionDecision::allow();
    };
    let answer = review(&request.resource.kind, &admission::WriteReview { object, old: request.old });
    let webhook = format!("{letter}{}.kb.io", request.resource.singular);
    verdict(answer.denied(), request, object, &webhook)
}

/// Reads related objects from the store of this process: a read never fails.
struct StoreLister<'a> {
    request: &'a AdmissionRequest<'a>,
    gangs: Option<GangSupport>,
}

impl StoreLister<'_> {
    fn one(&self, resource: &str, namespace: &Text, name: &str) -> Option<Tree> {
        let key = Key { resource: resource.into(), namespace: namespace.clone(), name: name.into() };
        self.request.lister.newest(&key).map(|object| object.tree)
    }
}

impl RelatedObjects for StoreLister<'_> {
    fn namespace(&self) -> Result<Tree, String> {
        let namespace = self.one("namespaces", &Text::new(), self.request.namespace);
        namespace.ok_or_else(|| format!("namespaces {:?} not found", self.request.namespace.as_str()))
    }

    fn owner(&self, owner: &OwnerReference) -> Result<Option<Tree>, String> {
        let plural = format!("{}s", owner.kind.to_lowercase());
        let group = owner.group();
        let resource = if group.is_empty() { plural } else { format!("{plural}.{group}") };
        Ok(self.one(&resource, self.request.namespace, &owner.name))
    }

    fn has_default_queue(&self) -> Result<bool, String> {
        Ok(self.one("localqueues.kueue.x-k8s.io", self.request.namespace, DEFAULT).is_some())
    }

    fn has_default_class(&self) -> Result<bool, String> {
        Ok(self.one("workloadpriorityclasses.kueue.x-k8s.io", &Text::new(), DEFAULT).is_some())
    }

    fn may_release(&self) -> Result<bool, String> {
        Ok(self.request.user.groups.iter().any(|group| group == SYSTEM_MASTERS))
    }

    /// Our own controllers run as system:masters here. Which user the controllers of other kinds run as is not known.
    fn acts_for(&self, owner: &OwnerReference) -> Result<bool, String> {
        let is_ours = OWN_OWNER_KINDS.contains(&(owner.group(), &owner.kind));
        Ok(!is_ours || self.may_release()?)
    }

    fn gangs(&self) -> Result<Option<GangSupport>, String> {
        Ok(self.gangs)
    }
}
