//! Admission of TrainJobs and training runtimes.

use muster_api::kinds::JOBSETS;
use muster_api::train::RuntimeKind;
use muster_api::train::consts::GROUP;
use muster_apiserver::admission::{AdmissionDecision, AdmissionPlugin, AdmissionRequest, Operation};
use muster_apiserver::kinds::ObjectLister;
use muster_store::Key;
use muster_trainer::kinds::admission::{
    Answer, TrainingLister, TrainingReview, TrainingWebhookType, mutate, validate, webhook_name,
};
use muster_tree::{Text, Tree};

use super::verdict;

/// The admission plugin for TrainJobs and training runtimes.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrainJobAdmission;

impl TrainJobAdmission {
    /// The name of the plugin.
    pub const NAME: &str = "trainer";
}

impl AdmissionPlugin for TrainJobAdmission {
    fn name(&self) -> &str {
        TrainJobAdmission::NAME
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        ask(request, TrainingWebhookType::Mutating, mutate)
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        ask(request, TrainingWebhookType::Validating, validate)
    }
}

/// Runs a mutating or validating function. Subresources are skipped: admission must not block the status of a running TrainJob.
fn ask(
    request: &AdmissionRequest<'_>,
    question: TrainingWebhookType,
    answer: fn(&str, &TrainingReview<'_>) -> Answer,
) -> AdmissionDecision {
    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    let ours = request.resource.group == GROUP && request.subresource.is_empty();
    let (true, Some(object)) = (writes && ours, request.object) else { return AdmissionDecision::allow() };
    let kind = &request.resource.kind;
    let asked = TrainingReview {
        namespace: request.namespace,
        object,
        old: request.old,
        live: &StoreLister(request.lister),
        now: request.now,
    };
    verdict(answer(kind, &asked), request, object, &webhook_name(question, kind))
}

/// Reads other objects from the store of this process: a read never fails.
struct StoreLister<'a>(&'a dyn ObjectLister);

impl StoreLister<'_> {
    fn one(&self, resource: impl Into<Text>, namespace: &str, name: &str) -> Option<Tree> {
        let key = Key { resource: resource.into(), namespace: Text::from(namespace), name: Text::from(name) };
        self.0.newest(&key).map(|object| object.tree)
    }
}

impl TrainingLister for StoreLister<'_> {
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        let namespace = match kind {
            RuntimeKind::Namespaced => namespace,
            RuntimeKind::Cluster => "",
        };
        Ok(self.one(format!("{}.{GROUP}", kind.kind().plural), namespace, name))
    }

    fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        Ok(self.one("configmaps", namespace, name))
    }

    fn jobset(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        Ok(self.one(format!("{}.{}", JOBSETS.plural, JOBSETS.group), namespace, name))
    }

    fn has_priority_class(&self, name: &str) -> Result<bool, String> {
        Ok(self.one("priorityclasses.scheduling.k8s.io", "", name).is_some())
    }
}
