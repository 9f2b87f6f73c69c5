//! What the scheduler hears of devices, and what is done about them before a pod is bound.
//!
//! A claim gets its finalizer first, then its devices together with the reservation for the pod, in one write that
//! means one revision of the claim: two writers cannot both succeed. The pod is bound when all its claims say so.

use muster_api::paths::{meta as meta_path, resource_claim as path};
use muster_api::port::{Act, Call, Guard, Kind, Object, Part, Refusal};
use muster_api::time::Time;
use muster_api::words::{finalizers, managers};
use muster_api::{claim, kinds, meta};
use muster_scheduler::Scheduler;
use muster_scheduler::devices::{ClaimKey, Does, Errand, News};
use muster_tree::Text;

use super::{Ready, steps};
use crate::cache::{Caches, Seen};
use crate::plan::{Key, Plan, Step};

/// The kinds it must see.
pub fn kinds() -> Vec<Kind> {
    [&kinds::RESOURCE_CLAIMS, &kinds::RESOURCE_SLICES, &kinds::DEVICE_CLASSES].map(Clone::clone).to_vec()
}

/// Tells the scheduler of a change; the pods whose errands it may concern.
pub fn hear(scheduler: &mut Scheduler, seen: &Seen<'_>, _caches: &Caches) -> Vec<Key> {
    let name = &seen.key.name;
    match &seen.key.kind {
        kind if *kind == kinds::RESOURCE_CLAIMS => return hear_claim(scheduler, seen),
        kind if *kind == kinds::RESOURCE_SLICES => scheduler.devices(|book| match seen.after {
            Some(_) if same_spec(seen) => News::default(),
            Some(slice) => book.slice(&slice.tree),
            None => book.slice_gone(name),
        }),
        kind if *kind == kinds::DEVICE_CLASSES => scheduler.devices(|book| match seen.after {
            Some(_) if same_spec(seen) => News::default(),
            Some(class) => book.class(&class.tree),
            None => book.class_gone(name),
        }),
        _ => {}
    }
    Vec::new()
}

fn same_spec(seen: &Seen<'_>) -> bool {
    let spec = |object: Option<&Object>| object.and_then(|it| it.tree.get("spec")).cloned();
    seen.before.is_some() && spec(seen.before) == spec(seen.after)
}

fn hear_claim(scheduler: &mut Scheduler, seen: &Seen<'_>) -> Vec<Key> {
    let key: ClaimKey = (seen.key.namespace.clone(), seen.key.name.clone());
    let users = scheduler.users_of_claim(&key);
    scheduler.devices(|book| match seen.after {
        Some(claim) => book.claim(claim),
        None => book.claim_gone(&key),
    });
    users.iter().map(|(namespace, name)| Key::new(&kinds::PODS, namespace, name)).collect()
}

/// What is to be done about an errand.
pub fn run(scheduler: &mut Scheduler, pod: &Object, errand: &Errand, caches: &Caches, now: Time) -> Ready {
    let (namespace, name) = &errand.claim;
    let claim = caches.get(&kinds::RESOURCE_CLAIMS, namespace, name);
    let Some(claim) = claim.filter(|it| meta::deleting(&it.tree).is_none()) else { return Ready::Never };
    let allocation = match &errand.does {
        Does::Lost => return Ready::Never,
        Does::Reserve => None,
        Does::Give(_) if !meta::has_finalizer(&claim.tree, finalizers::CLAIM_PROTECTION) => {
            let act = Act::Merge(claim::protection(&claim.tree));
            return after(call(steps::scheduler_of(pod), claim, Part::Main, act));
        }
        Does::Give(allocation) => {
            scheduler.devices(|book| {
                book.sent(&errand.claim, claim.revision);
                News::default()
            });
            Some(allocation)
        }
    };
    let patch = claim::reservation(&claim.tree, &pod.tree, allocation, now);
    after(call(steps::scheduler_of(pod), claim, Part::Status, Act::Merge(patch)))
}

/// A call of an errand was refused, or its answer lost.
pub fn refused(scheduler: &mut Scheduler, call: &Call, why: &Refusal) {
    let writes = call.on.kind == kinds::RESOURCE_CLAIMS && call.on.part == Part::Status;
    // A lost reply may still have done it; and who was overtaken may have been overtaken by a lost call of his own.
    let never = matches!(
        why,
        Refusal::NotFound(_) | Refusal::Invalid(_) | Refusal::Forbidden(_) | Refusal::Busy { .. }
    );
    if writes && never {
        let key = (call.on.namespace.clone(), call.on.name.clone());
        scheduler.devices(|book| book.unsent(&key));
    }
}

/// Gives back devices that keep a refused pod from other nodes and are of no use to anybody else. Where we do not know
/// whether they were given, taking the finalizer away makes sure that they will not be.
pub fn give_back(scheduler: &Scheduler, pod: &Object, caches: &Caches) -> Option<Step> {
    let by = steps::scheduler_of(pod);
    let (namespace, name) = scheduler.useless_claim(&(meta::namespace(&pod.tree), meta::name(&pod.tree)))?;
    let claim = caches.get(&kinds::RESOURCE_CLAIMS, &namespace, &name)?;
    let given = claim.tree.at(path::ALLOCATION).is_some();
    let step = if given {
        call(by, claim, Part::Status, Act::Merge(claim::deallocation()))
    } else {
        let bare = meta::without_finalizer(&claim.tree, finalizers::CLAIM_PROTECTION);
        call(by, claim, Part::Main, Act::Merge(bare))
    };
    Some(Step::One(step))
}

/// Makes sure of claims that nobody waits for any more and of which we do not know whether devices were given to them:
/// a write to them, whichever way it ends, tells.
pub fn make_sure(scheduler: &Scheduler, caches: &Caches) -> Vec<Step> {
    let doubtful = scheduler.doubtful_claims();
    let claims =
        doubtful.iter().filter_map(|(namespace, name)| caches.get(&kinds::RESOURCE_CLAIMS, namespace, name));
    let bare =
        |claim: &Object| Act::Merge(meta::without_finalizer(&claim.tree, finalizers::CLAIM_PROTECTION));
    let touch = claims.map(|claim| call(managers::SCHEDULER.clone(), claim, Part::Main, bare(claim)));
    let touch: Vec<Call> = touch.collect();
    if touch.is_empty() { Vec::new() } else { vec![Step::Each(touch)] }
}

fn after(call: Call) -> Ready {
    Ready::After(Plan::of(vec![Step::One(call)]))
}

fn call(by: Text, claim: &Object, part: Part, act: Act) -> Call {
    debug_assert!(claim.tree.at(meta_path::UID).is_some(), "a claim in a cache was created");
    Call {
        by,
        on: meta::target(&kinds::RESOURCE_CLAIMS, &claim.tree, part),
        guard: Guard { uid: Some(meta::uid(&claim.tree)), revision: Some(claim.revision) },
        act,
    }
}
