//! JobSets and their pods.
//!
//! What is wrong with fields is refused as the server refuses it for its own kinds; other refusals have the words of
//! a webhook, as they would come from a cluster.

use muster_api::kinds::JOBSETS;
use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_api::port::Kind;
use muster_api::words::jobset as words;
use muster_apiserver::admission::{AdmissionRequest, Hook, Operation, Verdict};
use muster_apiserver::kinds::Look;
use muster_jobset::admission::{
    Answer, Asked, Cause, DryRun, Live, Settings, default_jobset, mutate_pod, validate_jobset, validate_pod,
};
use muster_store::Key;
use muster_tree::{Text, Tree, literal};

use super::verdict;

/// Names of the webhooks that ask the same in a cluster.
const FILL: &str = "mjobset.kb.io";
const JUDGE: &str = "vjobset.kb.io";
const PLACE: &str = "mpod.kb.io";
const HOLD: &str = "vpod.kb.io";

/// The step.
#[derive(Debug, Clone, Copy)]
pub struct JobSets {
    settings: Settings,
}

/// A question that can be asked.
type Question = fn(&Asked<'_>) -> Answer;

impl JobSets {
    /// The name of the step.
    pub const NAME: &str = "jobset";

    /// With these switches.
    #[must_use]
    pub fn new(settings: Settings) -> JobSets {
        JobSets { settings }
    }

    fn ask(&self, request: &AdmissionRequest<'_>, question: Question, webhook: &str) -> Verdict {
        let Some(object) = request.object else { return Verdict::allow() };
        let answer = question(&Asked {
            namespace: request.namespace,
            object,
            old: request.old,
            live: &Around(request.look),
            settings: &self.settings,
        });
        verdict(answer, request, object, webhook)
    }
}

impl Hook for JobSets {
    fn name(&self) -> &str {
        JobSets::NAME
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        match (request.operation, subject(request)) {
            (Operation::Create | Operation::Update, Some(Subject::JobSet)) => {
                self.ask(request, default_jobset, FILL)
            }
            (Operation::Create, Some(Subject::Pod)) => self.ask(request, mutate_pod, PLACE),
            _ => Verdict::allow(),
        }
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> Verdict {
        match (request.operation, subject(request)) {
            (Operation::Create | Operation::Update, Some(Subject::JobSet)) => {
                self.ask(request, validate_jobset, JUDGE)
            }
            (Operation::Create, Some(Subject::Pod)) => self.ask(request, validate_pod, HOLD),
            _ => Verdict::allow(),
        }
    }
}

/// Whom we have a say about.
enum Subject {
    JobSet,
    /// A pod of a JobSet; other pods cost no more than this look at them.
    Pod,
}

fn subject(request: &AdmissionRequest<'_>) -> Option<Subject> {
    if request.is("", "pods") {
        let notes = request.object?.at(meta_path::ANNOTATIONS)?;
        return notes.get(words::NAME).map(|_| Subject::Pod);
    }
    request.is(&JOBSETS.group, &JOBSETS.plural).then_some(Subject::JobSet)
}

/// Other objects, in this process: looking never fails.
struct Around<'a>(&'a dyn Look);

/// Where the store keeps device claims.
const DEVICE_CLAIMS: &str = "resourceclaims.resource.k8s.io";
static PODS: Text = literal!("pods");

impl Around<'_> {
    fn one(&self, resource: Text, namespace: &str, name: &str) -> Option<Tree> {
        let key = Key { resource, namespace: Text::from(namespace), name: Text::from(name) };
        self.0.newest(&key).map(|object| object.tree)
    }
}

impl Live for Around<'_> {
    fn volume_claim(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        Ok(self.one(literal!("persistentvolumeclaims"), namespace, name))
    }

    fn device_claims(&self, namespace: &str, beginning: &str) -> Result<Vec<Tree>, String> {
        let claims = self.0.named(DEVICE_CLAIMS, &Text::from(namespace), beginning);
        Ok(claims.into_iter().map(|claim| claim.tree).collect())
    }

    fn node(&self, name: &str) -> Result<Option<Tree>, String> {
        Ok(self.one(literal!("nodes"), "", name))
    }

    fn first_pods(&self, namespace: &str, beginning: &str, key: &str) -> Result<Vec<Tree>, String> {
        let pods = self.0.named(&PODS, &Text::from(namespace), beginning).into_iter().map(|pod| pod.tree);
        Ok(pods.filter(|pod| meta::label(pod, words::JOB_KEY) == Some(key)).collect())
    }

    fn dry_run(&self, kind: &Kind, object: &Tree) -> DryRun {
        match self.0.validate_new(kind, object) {
            Ok(problems) if problems.is_empty() => DryRun::Valid,
            Ok(problems) => {
                let causes = problems.iter();
                let causes = causes.map(|it| Cause { field: it.path.clone(), message: it.message() });
                DryRun::Invalid(causes.collect())
            }
            Err(status) if status.code == 404 => DryRun::NotServed,
            Err(status) => DryRun::Unknown(status.message),
        }
    }
}
