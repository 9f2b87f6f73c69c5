//! The leader pod of a Job (completion index 0), which its followers are placed with.

use muster_api::consts::{jobset as words, labels};
use muster_api::jobset::names;
use muster_api::meta;
use muster_api::paths::{meta as meta_path, pod as pod_path};
use muster_tree::{Text, Tree};

use super::AdmissionContext;

/// Whether this pod is the leader of its Job.
pub(super) fn is_leader(pod: &Tree) -> bool {
    meta::annotation(pod, labels::COMPLETION_INDEX) == Some("0")
}

/// Finds the leader pod of a follower.
///
/// # Errors
/// There is none, there are several, or it belongs to an earlier Job of the same name. All of these are transient.
pub(super) fn find(asked: &AdmissionContext<'_>) -> Result<Tree, String> {
    let follower = asked.object;
    let said = |key: &str| meta::annotation(follower, key).unwrap_or_default();
    let job =
        format!("{}-{}-{}", names::dns_label(said(words::NAME)), said(words::GROUP), said(words::JOB_INDEX));
    let name = format!("{job}-0");
    let key = names::job_key(asked.namespace, &job);
    let pods = asked.live.first_pods(asked.namespace, &name, &key)?;
    let mut leaders: Vec<Tree> =
        pods.into_iter().filter(|pod| is_named(pod, &name) && is_alive(pod)).collect();
    let count = leaders.len();
    let (Some(leader), 1) = (leaders.pop(), count) else {
        return Err(format!(
            "expected 1 leader pod ({name}), but got {count}. this is an expected, transient error"
        ));
    };
    if owner(&leader) == owner(follower) {
        return Ok(leader);
    }
    Err(format!("leader pod {} belongs to another Job of the same name", meta::name(&leader)))
}

/// Whether this is the name and a suffix.
fn is_named(pod: &Tree, name: &str) -> bool {
    pod.str_at(meta_path::NAME).rsplit_once('-').is_some_and(|(front, _)| front == name)
}

fn is_alive(pod: &Tree) -> bool {
    meta::deletion_timestamp(pod).is_none() && !matches!(pod.str_at(pod_path::PHASE), "Failed" | "Succeeded")
}

fn owner(pod: &Tree) -> Option<Text> {
    meta::controller_of(pod).map(|owner| owner.uid)
}
