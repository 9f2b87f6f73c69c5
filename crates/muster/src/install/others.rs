//! Another controller of JobSets, queues or TrainJobs on the same cluster: both would make the Jobs of every JobSet and
//! the JobSet of every TrainJob, or give away the same quota.

use std::fmt;
use std::time::Duration;

use muster_api::kinds;
use muster_api::port::{Act, Guard, Object, Refusal};
use muster_tree::{Tree, tree};

use super::apply::Done;
use super::plane::{Plane, call_on, itself};
use super::{InstallError, Rivals};

/// What somebody else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    JobSets,
    Queues,
    Training,
}

/// Labels of their Deployments, as their manifests and charts set them.
const LABELS: [(Does, &[(&str, &str)]); 6] = [
    (Does::JobSets, &[(PART_OF, "jobset")]),
    (Does::JobSets, &[(NAME, "jobset")]),
    (Does::Queues, &[(PART_OF, "kueue")]),
    (Does::Queues, &[(NAME, "kueue")]),
    (Does::Training, &[(PART_OF, "kubeflow"), (NAME, "trainer")]),
    (Does::Training, &[(NAME, "kubeflow-trainer")]),
];
const PART_OF: &str = "app.kubernetes.io/part-of";
const NAME: &str = "app.kubernetes.io/name";

impl Rivals {
    /// Whether who does this is in our way.
    fn minds(self, does: Does) -> bool {
        match does {
            Does::JobSets => true,
            Does::Queues => self.queues,
            Does::Training => self.training,
        }
    }
}
/// How often it is looked whether its pods are gone, and how long apart.
const GONE_TRIES: u32 = 240;
const GONE_PAUSE: Duration = Duration::from_millis(500);

/// A Deployment of it that is to have pods.
pub struct Other(Object);

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = |key: &str| self.0.tree.text_at(&["metadata", key]);
        write!(f, "deployment.apps/{} in namespace {}", meta("name"), meta("namespace"))
    }
}

/// Those that run, where they would be in our way.
///
/// # Errors
/// The server does not tell.
pub async fn running(plane: &impl Plane, rivals: Rivals) -> Result<Vec<Other>, InstallError> {
    let mut all: Vec<Object> = Vec::new();
    for (_, labels) in LABELS.into_iter().filter(|it| rivals.minds(it.0)) {
        let found = plane.labelled(&kinds::DEPLOYMENTS, labels).await;
        let found = found.map_err(|why| InstallError::refused("deployments of other controllers", &why))?;
        all.extend(found);
    }
    all.sort_by_key(|one| one.tree.text_at(&["metadata", "uid"]));
    all.dedup_by_key(|one| one.tree.text_at(&["metadata", "uid"]));
    let runs = |one: &Object| one.tree.int_at(&["spec", "replicas"]) != Some(0);
    Ok(all.into_iter().filter(runs).map(Other).collect())
}

/// Has them end, and waits until they have: whoever is still at work would not know of us.
///
/// # Errors
/// The server refuses, or they stay.
pub async fn stop(plane: &impl Plane, all: &[Other], tell: &dyn Fn(&Done)) -> Result<(), InstallError> {
    for other in all {
        let refused = |why: Refusal| InstallError::refused(&other.to_string(), &why);
        let tree = &other.0.tree;
        let scale = Act::Merge(tree!({"spec": {"replicas": 0}}));
        let mut seen =
            plane.perform(&call_on(&kinds::DEPLOYMENTS, tree, itself(tree), scale)).await.map_err(refused)?;
        let mut tries = 0;
        while has_pods(&seen.tree) {
            if tries == GONE_TRIES {
                return Err(InstallError::StillThere(other.to_string()));
            }
            tries += 1;
            tokio::time::sleep(GONE_PAUSE).await;
            let look = call_on(&kinds::DEPLOYMENTS, tree, Guard::default(), Act::Get);
            seen = plane.perform(&look).await.map_err(refused)?;
        }
        tell(&stopped(tree));
    }
    Ok(())
}

fn has_pods(deployment: &Tree) -> bool {
    deployment.int_at(&["status", "replicas"]).unwrap_or(0) > 0
}

fn stopped(tree: &Tree) -> Done {
    let was = tree.int_at(&["spec", "replicas"]).unwrap_or(1);
    let back = format!("replicas were {was}: this many bring it back");
    Done { note: Some(back), ..Done::of(&tree.with(&["kind"], "Deployment"), "stopped") }
}
