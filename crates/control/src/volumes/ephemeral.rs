//! Claims that are made for single pods, out of a template in the pod, and that go with it.

use muster_api::event::{Event, Severity};
use muster_api::paths::{pod as pod_path, pod_volume};
use muster_api::pod;
use muster_api::port::{Act, Call, Guard, Object, Part, Refusal};
use muster_api::words::managers;
use muster_api::{kinds, meta, volume};
use muster_tree::{Text, Tree};

use super::note;
use crate::cache::Caches;
use crate::plan::{Key, Plan, Step};

/// Makes the claims that a pod lacks.
pub fn plan(it: &Object, caches: &Caches) -> Plan {
    if meta::deleting(&it.tree).is_some() {
        return Plan::nothing();
    }
    let namespace = meta::namespace(&it.tree);
    for used in pod::claims(&it.tree) {
        let Some(of) = used.made_for else { continue };
        match caches.get(&kinds::CLAIMS, &namespace, &used.claim) {
            None => return Plan::of(create(it, &used.claim, &of)),
            Some(claim) if owner(claim) == Some(meta::uid(&it.tree)) => {}
            Some(_) => {
                let name = meta::name(&it.tree);
                let claim = &used.claim;
                let why = format!(
                    "PVC {namespace}/{claim} was not created for pod {namespace}/{name} (pod is not owner)"
                );
                return Plan::of(vec![Step::Note(failed(it, &of, &why))]);
            }
        }
    }
    Plan::nothing()
}

/// What to note when a claim could not be made.
pub fn refused(it: &Object, call: &Call, why: &Refusal) -> Option<Event> {
    let of = pod::claims(&it.tree).find(|used| used.claim == call.on.name)?.made_for?;
    let words = matches!(why, Refusal::Invalid(_) | Refusal::Forbidden(_)).then(|| why.words())?;
    Some(failed(it, &of, &format!("create PVC {}: {words}", call.on.name)))
}

fn owner(claim: &Object) -> Option<Text> {
    meta::controller(&claim.tree).map(|owner| owner.uid)
}

fn create(it: &Object, claim: &Text, of: &Text) -> Vec<Step> {
    let volumes = it.tree.items_at(pod_path::VOLUMES).iter();
    let template = volumes
        .filter(|volume| volume.str_at(pod_volume::NAME) == of)
        .find_map(|it| it.at(pod_volume::TEMPLATE));
    let made = volume::claim_for(&it.tree, claim, template.unwrap_or(&Tree::Null));
    let on = Key::new(&kinds::CLAIMS, &meta::namespace(&it.tree), claim).target(Part::Main);
    let call = Call { by: managers::EPHEMERAL.clone(), on, guard: Guard::default(), act: Act::Create(made) };
    vec![Step::One(call)]
}

fn failed(it: &Object, of: &Text, why: &str) -> Event {
    let words = format!("ephemeral volume {of}: {why}");
    match note(&managers::EPHEMERAL, &kinds::PODS, it, Severity::Warning, "FailedBinding", words) {
        Step::Note(event) => event,
        _ => unreachable!("a note is a note"),
    }
}
