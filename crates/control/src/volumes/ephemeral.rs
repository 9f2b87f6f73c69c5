//! Generic ephemeral volumes: PersistentVolumeClaims created from a template in the pod and owned by it.

use muster_api::client::{ApiError, ApiObject, ApiRequest, Preconditions, RequestVerb, Subresource};
use muster_api::consts::managers;
use muster_api::event::{Event, EventType};
use muster_api::paths::{pod as pod_path, pod_volume};
use muster_api::pod;
use muster_api::{kinds, meta, volume};
use muster_tree::{Text, Tree};

use super::note;
use crate::cache::Caches;
use crate::controller::{ObjectKey, Reconciled, Step};

/// Creates the missing claims of a pod.
pub fn plan(it: &ApiObject, caches: &Caches) -> Reconciled {
    if meta::deletion_timestamp(&it.tree).is_some() {
        return Reconciled::done();
    }
    let namespace = meta::namespace(&it.tree);
    for used in pod::volume_claims(&it.tree) {
        let Some(of) = used.ephemeral_volume else { continue };
        match caches.get(&kinds::PERSISTENT_VOLUME_CLAIMS, &namespace, &used.claim) {
            None => return Reconciled::with_steps(create(it, &used.claim, &of)),
            Some(claim) if owner(claim) == Some(meta::uid(&it.tree)) => {}
            Some(_) => {
                let name = meta::name(&it.tree);
                let claim = &used.claim;
                let why = format!(
                    "PVC {namespace}/{claim} was not created for pod {namespace}/{name} (pod is not owner)"
                );
                return Reconciled::with_steps(vec![Step::Event(failed(it, &of, &why))]);
            }
        }
    }
    Reconciled::done()
}

/// The event about a claim that could not be created.
pub fn refused(it: &ApiObject, call: &ApiRequest, why: &ApiError) -> Option<Event> {
    let of = pod::volume_claims(&it.tree).find(|used| used.claim == call.target.name)?.ephemeral_volume?;
    let words = matches!(why, ApiError::Invalid(_) | ApiError::Forbidden(_)).then(|| why.message())?;
    Some(failed(it, &of, &format!("create PVC {}: {words}", call.target.name)))
}

fn owner(claim: &ApiObject) -> Option<Text> {
    meta::controller_of(&claim.tree).map(|owner| owner.uid)
}

fn create(it: &ApiObject, claim: &Text, of: &Text) -> Vec<Step> {
    let volumes = it.tree.items_at(pod_path::VOLUMES).iter();
    let template = volumes
        .filter(|volume| volume.str_at(pod_volume::NAME) == of)
        .find_map(|it| it.at(pod_volume::TEMPLATE));
    let made = volume::claim_for(&it.tree, claim, template.unwrap_or(&Tree::Null));
    let on = ObjectKey::new(&kinds::PERSISTENT_VOLUME_CLAIMS, &meta::namespace(&it.tree), claim)
        .target(Subresource::Main);
    let call = ApiRequest {
        field_manager: managers::EPHEMERAL.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(made),
    };
    vec![Step::Request(call)]
}

fn failed(it: &ApiObject, of: &Text, why: &str) -> Event {
    let words = format!("ephemeral volume {of}: {why}");
    match note(&managers::EPHEMERAL, &kinds::PODS, it, EventType::Warning, "FailedBinding", words) {
        Step::Event(event) => event,
        _ => unreachable!("a note is a note"),
    }
}
