//! TrainJobs and their runtimes.

use muster_api::kinds::JOBSETS;
use muster_api::train::RuntimeKind;
use muster_api::train::words::GROUP;
use muster_apiserver::admission::{AdmissionRequest, Hook, Operation, Verdict};
use muster_apiserver::kinds::Look;
use muster_store::Key;
use muster_trainer::kinds::admission::{Answer, Asked, Live, Question, mutate, validate, webhook};
use muster_tree::{Text, Tree};

use super::verdict;

/// The step.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trainings;

impl Trainings {
    /// The name of the step.
    pub const NAME: &str = "trainer";
}

impl Hook for Trainings {
    fn name(&self) -> &str {
        Trainings::NAME
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        ask(request, Question::FillIn, mutate)
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> Verdict {
        ask(request, Question::Judge, validate)
    }
}

/// Statuses are not asked about: what runs is never held up.
fn ask(
    request: &AdmissionRequest<'_>,
    question: Question,
    answer: fn(&str, &Asked<'_>) -> Answer,
) -> Verdict {
    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    let ours = request.resource.group == GROUP && request.subresource.is_empty();
    let (true, Some(object)) = (writes && ours, request.object) else { return Verdict::allow() };
    let kind = &request.resource.kind;
    let asked = Asked {
        namespace: request.namespace,
        object,
        old: request.old,
        live: &Around(request.look),
        now: request.now,
    };
    verdict(answer(kind, &asked), request, object, &webhook(question, kind))
}

/// Other objects, in this process: looking never fails.
struct Around<'a>(&'a dyn Look);

impl Around<'_> {
    fn one(&self, resource: impl Into<Text>, namespace: &str, name: &str) -> Option<Tree> {
        let key = Key { resource: resource.into(), namespace: Text::from(namespace), name: Text::from(name) };
        self.0.newest(&key).map(|object| object.tree)
    }
}

impl Live for Around<'_> {
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
