//! Queues, flavors and what waits in queues; jobs and pods that are put into one.

use std::sync::Arc;

use muster_api::gang::Gangs;
use muster_api::meta::Owner;
use muster_api::queue::words::{DEFAULT, GROUP};
use muster_apiserver::admission::{AdmissionRequest, Hook, Operation, Verdict};
use muster_queue::kinds::admission::{self, Answer, mutate, validate};
use muster_store::Key;
use muster_tree::{Text, Tree};

use super::queued::{Around, Asked, Queued, Settings, judge, take_in};
use super::verdict;

/// Kinds of which our own controllers make what they have.
const OURS: [(&str, &str); 3] =
    [("batch", "Job"), ("jobset.x-k8s.io", "JobSet"), ("trainer.kubeflow.org", "TrainJob")];
/// Those who may do everything.
const MASTERS: &str = "system:masters";

/// The step.
#[derive(Debug, Clone)]
pub struct Queues {
    settings: Arc<Settings>,
    gangs: Option<Gangs>,
}

/// A question that can be asked about queues.
type Question = fn(&str, &admission::Asked<'_>) -> Answer;

impl Queues {
    /// The name of the step.
    pub const NAME: &str = "queue";

    /// With these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Queues {
        Queues { settings: Arc::new(settings), gangs: None }
    }

    /// Where pods name their gang like this.
    #[must_use]
    pub fn gangs(self, gangs: Option<Gangs>) -> Queues {
        Queues { gangs, ..self }
    }

    fn queued(&self, request: &AdmissionRequest<'_>) -> Option<Queued> {
        let resource = request.resource;
        let is_whole = request.subresource.is_empty() || request.subresource == "resize";
        let queued = Queued::of(&resource.group, &resource.plural).filter(|_| is_whole);
        queued.filter(|it| it.is_managed(&self.settings))
    }

    fn ask(
        &self,
        request: &AdmissionRequest<'_>,
        queued: Queued,
        object: &Tree,
        (decide, letter): (fn(&Asked<'_>) -> Answer, &str),
    ) -> Verdict {
        let around = Surroundings { request, gangs: self.gangs };
        let old = request.old;
        let answer = decide(&Asked { queued, object, old, around: &around, settings: &self.settings });
        verdict(answer.denied(), request, object, &format!("{letter}{}", queued.webhook()))
    }
}

impl Hook for Queues {
    fn name(&self) -> &str {
        Queues::NAME
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        match (request.operation, self.queued(request), request.object) {
            (Operation::Create, Some(queued), Some(object)) => {
                self.ask(request, queued, object, (take_in, "m"))
            }
            _ if request.subresource.is_empty() => ask(request, mutate, "m"),
            _ => Verdict::allow(),
        }
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> Verdict {
        match (request.operation, self.queued(request), request.object) {
            (Operation::Create | Operation::Update, Some(queued), Some(object)) => {
                self.ask(request, queued, object, (judge, "v"))
            }
            // What is written to a status is judged like the rest: shares stand there.
            _ => ask(request, validate, "v"),
        }
    }
}

fn ask(request: &AdmissionRequest<'_>, question: Question, letter: &str) -> Verdict {
    let asks = matches!(request.operation, Operation::Create | Operation::Update);
    let (true, Some(object)) = (asks && request.resource.group == GROUP, request.object) else {
        return Verdict::allow();
    };
    let answer = question(&request.resource.kind, &admission::Asked { object, old: request.old });
    let webhook = format!("{letter}{}.kb.io", request.resource.singular);
    verdict(answer.denied(), request, object, &webhook)
}

/// What surrounds an object that is written, in this process: looking never fails.
struct Surroundings<'a> {
    request: &'a AdmissionRequest<'a>,
    gangs: Option<Gangs>,
}

impl Surroundings<'_> {
    fn one(&self, resource: &str, namespace: &Text, name: &str) -> Option<Tree> {
        let key = Key { resource: resource.into(), namespace: namespace.clone(), name: name.into() };
        self.request.look.newest(&key).map(|object| object.tree)
    }
}

impl Around for Surroundings<'_> {
    fn namespace(&self) -> Result<Tree, String> {
        let namespace = self.one("namespaces", &Text::new(), self.request.namespace);
        namespace.ok_or_else(|| format!("namespaces {:?} not found", self.request.namespace.as_str()))
    }

    fn owner(&self, owner: &Owner) -> Result<Option<Tree>, String> {
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
        Ok(self.request.user.groups.iter().any(|group| group == MASTERS))
    }

    /// Our own controllers are masters here. Whose the kinds of others are is not written anywhere.
    fn acts_for(&self, owner: &Owner) -> Result<bool, String> {
        let is_ours = OURS.contains(&(owner.group(), &owner.kind));
        Ok(!is_ours || self.may_release()?)
    }

    fn gangs(&self) -> Result<Option<Gangs>, String> {
        Ok(self.gangs)
    }
}
