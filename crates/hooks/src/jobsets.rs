//! Admission of JobSets and their pods.
//!
//! Field errors are reported as the API server reports them for its own kinds; other rejections have the form of a webhook
//! denial, as on a cluster.

use muster_api::client::Kind;
use muster_api::consts::jobset as words;
use muster_api::kinds::JOBSETS;
use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_apiserver::admission::{AdmissionDecision, AdmissionPlugin, AdmissionRequest, Operation};
use muster_apiserver::kinds::ObjectLister;
use muster_jobset::admission::{
    AdmissionContext, AdmissionSettings, Answer, Cause, DryRun, LiveLister, default_jobset, mutate_pod,
    validate_jobset, validate_pod,
};
use muster_store::Key;
use muster_tree::{Text, Tree, literal};

use super::verdict;

/// Names of the corresponding webhooks on a cluster.
const MUTATING_JOBSET: &str = "mjobset.kb.io";
const VALIDATING_JOBSET: &str = "vjobset.kb.io";
const MUTATING_POD: &str = "mpod.kb.io";
const VALIDATING_POD: &str = "vpod.kb.io";

/// The admission plugin for JobSets.
#[derive(Debug, Clone, Copy)]
pub struct JobSetAdmission {
    settings: AdmissionSettings,
}

/// A mutating or validating function.
type ReviewFn = fn(&AdmissionContext<'_>) -> Answer;

impl JobSetAdmission {
    /// The name of the plugin.
    pub const NAME: &str = "jobset";

    #[must_use]
    pub fn new(settings: AdmissionSettings) -> JobSetAdmission {
        JobSetAdmission { settings }
    }

    fn review(&self, request: &AdmissionRequest<'_>, review: ReviewFn, webhook: &str) -> AdmissionDecision {
        let Some(object) = request.object else { return AdmissionDecision::allow() };
        let answer = review(&AdmissionContext {
            namespace: request.namespace,
            object,
            old: request.old,
            live: &StoreLister(request.lister),
            settings: &self.settings,
        });
        verdict(answer, request, object, webhook)
    }
}

impl AdmissionPlugin for JobSetAdmission {
    fn name(&self) -> &str {
        JobSetAdmission::NAME
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        match (request.operation, subject(request)) {
            (Operation::Create | Operation::Update, Some(Subject::JobSet)) => {
                self.review(request, default_jobset, MUTATING_JOBSET)
            }
            (Operation::Create, Some(Subject::Pod)) => self.review(request, mutate_pod, MUTATING_POD),
            _ => AdmissionDecision::allow(),
        }
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        match (request.operation, subject(request)) {
            (Operation::Create | Operation::Update, Some(Subject::JobSet)) => {
                self.review(request, validate_jobset, VALIDATING_JOBSET)
            }
            (Operation::Create, Some(Subject::Pod)) => self.review(request, validate_pod, VALIDATING_POD),
            _ => AdmissionDecision::allow(),
        }
    }
}

/// What the plugin handles.
enum Subject {
    JobSet,
    /// A pod with the JobSet name annotation; other pods cost one lookup of their annotations.
    Pod,
}

fn subject(request: &AdmissionRequest<'_>) -> Option<Subject> {
    if request.is("", "pods") {
        let notes = request.object?.at(meta_path::ANNOTATIONS)?;
        return notes.get(words::NAME).map(|_| Subject::Pod);
    }
    request.is(&JOBSETS.group, &JOBSETS.plural).then_some(Subject::JobSet)
}

/// Reads other objects from the store of this process: a read never fails.
struct StoreLister<'a>(&'a dyn ObjectLister);

/// The storage resource of ResourceClaims.
const DEVICE_CLAIMS: &str = "resourceclaims.resource.k8s.io";
static PODS: Text = literal!("pods");

impl StoreLister<'_> {
    fn one(&self, resource: Text, namespace: &str, name: &str) -> Option<Tree> {
        let key = Key { resource, namespace: Text::from(namespace), name: Text::from(name) };
        self.0.newest(&key).map(|object| object.tree)
    }
}

impl LiveLister for StoreLister<'_> {
    fn volume_claim(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        Ok(self.one(literal!("persistentvolumeclaims"), namespace, name))
    }

    fn device_claims(&self, namespace: &str, beginning: &str) -> Result<Vec<Tree>, String> {
        let claims = self.0.with_name_prefix(DEVICE_CLAIMS, &Text::from(namespace), beginning);
        Ok(claims.into_iter().map(|claim| claim.tree).collect())
    }

    fn node(&self, name: &str) -> Result<Option<Tree>, String> {
        Ok(self.one(literal!("nodes"), "", name))
    }

    fn first_pods(&self, namespace: &str, beginning: &str, key: &str) -> Result<Vec<Tree>, String> {
        let pods =
            self.0.with_name_prefix(&PODS, &Text::from(namespace), beginning).into_iter().map(|pod| pod.tree);
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
