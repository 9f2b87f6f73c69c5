//! Detects other controllers of JobSets, queues or TrainJobs on the cluster. Two controllers would both create the Jobs
//! of every JobSet and the JobSet of every TrainJob, or admit workloads against the same quota.

use std::fmt;
use std::time::Duration;

use muster_api::client::{ApiError, ApiObject, Preconditions, RequestVerb};
use muster_api::kinds;
use muster_tree::{Tree, tree};

use super::apply::AppliedObject;
use super::cluster_client::{InstallClient, request_on, uid_precondition};
use super::{ConflictPolicy, InstallError};

/// The kinds that another controller reconciles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ManagedApi {
    JobSets,
    Queues,
    Training,
}

/// Labels of the Deployments of upstream controllers, as their manifests and Helm charts set them.
const LABELS: [(ManagedApi, &[(&str, &str)]); 6] = [
    (ManagedApi::JobSets, &[(PART_OF, "jobset")]),
    (ManagedApi::JobSets, &[(NAME, "jobset")]),
    (ManagedApi::Queues, &[(PART_OF, "kueue")]),
    (ManagedApi::Queues, &[(NAME, "kueue")]),
    (ManagedApi::Training, &[(PART_OF, "kubeflow"), (NAME, "trainer")]),
    (ManagedApi::Training, &[(NAME, "kubeflow-trainer")]),
];
const PART_OF: &str = "app.kubernetes.io/part-of";
const NAME: &str = "app.kubernetes.io/name";

impl ConflictPolicy {
    /// Whether a controller of these kinds conflicts with ours.
    fn conflicts_with(self, does: ManagedApi) -> bool {
        match does {
            ManagedApi::JobSets => true,
            ManagedApi::Queues => self.queues,
            ManagedApi::Training => self.training,
        }
    }
}
/// The polls until the pods of a scaled-down Deployment must be gone: 240 every 500 ms are 2 minutes.
const GONE_TRIES: u32 = 240;
const GONE_PAUSE: Duration = Duration::from_millis(500);

/// A Deployment of another controller with `spec.replicas` above 0.
pub struct ConflictingDeployment(ApiObject);

impl fmt::Display for ConflictingDeployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = |key: &str| self.0.tree.text_at(&["metadata", key]);
        write!(f, "deployment.apps/{} in namespace {}", meta("name"), meta("namespace"))
    }
}

/// The conflicting Deployments.
///
/// # Errors
/// Deployments cannot be listed.
pub async fn find_running(
    plane: &impl InstallClient,
    rivals: ConflictPolicy,
) -> Result<Vec<ConflictingDeployment>, InstallError> {
    let mut all: Vec<ApiObject> = Vec::new();
    for (_, labels) in LABELS.into_iter().filter(|it| rivals.conflicts_with(it.0)) {
        let found = plane.list_by_labels(&kinds::DEPLOYMENTS, labels).await;
        let found = found.map_err(|why| InstallError::refused("deployments of other controllers", &why))?;
        all.extend(found);
    }
    all.sort_by_key(|one| one.tree.text_at(&["metadata", "uid"]));
    all.dedup_by_key(|one| one.tree.text_at(&["metadata", "uid"]));
    let runs = |one: &ApiObject| one.tree.int_at(&["spec", "replicas"]) != Some(0);
    Ok(all.into_iter().filter(runs).map(ConflictingDeployment).collect())
}

/// Scales the Deployments to zero and waits until their pods are gone: a controller that is still terminating may
/// reconcile, and does not know of ours.
///
/// # Errors
/// The server rejects a request, or pods remain.
pub async fn scale_down(
    plane: &impl InstallClient,
    all: &[ConflictingDeployment],
    tell: &dyn Fn(&AppliedObject),
) -> Result<(), InstallError> {
    for other in all {
        let refused = |why: ApiError| InstallError::refused(&other.to_string(), &why);
        let tree = &other.0.tree;
        let scale = RequestVerb::MergePatch(tree!({"spec": {"replicas": 0}}));
        let mut seen = plane
            .perform(&request_on(&kinds::DEPLOYMENTS, tree, uid_precondition(tree), scale))
            .await
            .map_err(refused)?;
        let mut tries = 0;
        while has_pods(&seen.tree) {
            if tries == GONE_TRIES {
                return Err(InstallError::ConflictRunning(other.to_string()));
            }
            tries += 1;
            tokio::time::sleep(GONE_PAUSE).await;
            let look = request_on(&kinds::DEPLOYMENTS, tree, Preconditions::default(), RequestVerb::Get);
            seen = plane.perform(&look).await.map_err(refused)?;
        }
        tell(&stopped(tree));
    }
    Ok(())
}

fn has_pods(deployment: &Tree) -> bool {
    deployment.int_at(&["status", "replicas"]).unwrap_or(0) > 0
}

fn stopped(tree: &Tree) -> AppliedObject {
    let was = tree.int_at(&["spec", "replicas"]).unwrap_or(1);
    let back = format!("replicas were {was}: this many bring it back");
    AppliedObject { note: Some(back), ..AppliedObject::of(&tree.with(&["kind"], "Deployment"), "stopped") }
}
