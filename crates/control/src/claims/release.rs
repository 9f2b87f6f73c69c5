//! How claims are given back: stale reservations first, then the devices, then the finalizer, then the claim.

use std::collections::BTreeSet;

use muster_api::paths::resource_claim as path;
use muster_api::port::{Act, Call, Cascade, Guard, Object, Part, Uid};
use muster_api::words::{finalizers, managers};
use muster_api::{claim, kinds, meta};
use muster_tree::Text;

use super::{is_bare, write};
use crate::cache::Caches;
use crate::plan::{Key, Plan, Step, Want};

/// Claims whose devices we gave back and whose finalizer is still there. Only these lose it while they are not being
/// deleted: of others, the scheduler may be about to give them devices.
#[derive(Debug, Default)]
pub(super) struct Releases(BTreeSet<Key>);

/// What is known of a consumer.
enum Consumer {
    Here,
    Stale,
    /// We have not heard of it: that has to be looked at.
    Unknown(Text),
}

impl Releases {
    /// A claim is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// What a claim needs.
    pub(super) fn plan(&mut self, key: &Key, object: &Object, caches: &Caches) -> Plan {
        let consumers = claim::consumers(&object.tree);
        let state = |it: &claim::Consumer| consumer(it, &key.namespace, caches);
        let all: Vec<(Uid, Consumer)> = consumers.iter().map(|it| (it.uid.clone(), state(it))).collect();
        if all.iter().any(|(_, it)| !matches!(it, Consumer::Here)) {
            return self.remove(key, object, &all);
        }
        if !all.is_empty() {
            self.0.remove(key);
            return Plan::nothing();
        }
        let protected = meta::has_finalizer(&object.tree, finalizers::CLAIM_PROTECTION);
        let deleting = meta::deleting(&object.tree).is_some();
        if protected && deleting && !is_bare(&object.tree) {
            return Plan::of(vec![Step::One(write(object, Part::Status, Act::Merge(claim::deallocation())))]);
        }
        if protected && is_bare(&object.tree) && (deleting || self.0.contains(key)) {
            let act = Act::Merge(meta::without_finalizer(&object.tree, finalizers::CLAIM_PROTECTION));
            return Plan::of(vec![Step::One(write(object, Part::Main, act))]);
        }
        if object.tree.at(path::ALLOCATION).is_some() || !protected {
            self.0.remove(key);
        }
        if !deleting && is_over(object, caches) {
            return Plan::of(vec![Step::One(delete(object))]);
        }
        Plan::nothing()
    }

    /// Removes stale reservations, after a look at those of which we know nothing.
    fn remove(&mut self, key: &Key, object: &Object, all: &[(Uid, Consumer)]) -> Plan {
        let mut steps = Vec::new();
        for (uid, it) in all {
            if let Consumer::Unknown(name) = it {
                let on = Key::new(&kinds::PODS, &key.namespace, name).target(Part::Main);
                let call = Call { by: managers::CLAIMS.clone(), on, guard: Guard::default(), act: Act::Get };
                steps.push(Step::Look(call, Want::Gone(uid.clone())));
            }
        }
        let stays = |uid: &Uid| all.iter().any(|(it, state)| it == uid && matches!(state, Consumer::Here));
        let act = Act::Merge(claim::without_consumers(&object.tree, stays));
        steps.push(Step::One(write(object, Part::Status, act)));
        self.0.insert(key.clone());
        Plan::of(steps)
    }
}

fn consumer(it: &claim::Consumer, namespace: &Text, caches: &Caches) -> Consumer {
    // What we do not understand is left alone.
    let Some(name) = &it.pod else { return Consumer::Here };
    match caches.get(&kinds::PODS, namespace, name) {
        None => Consumer::Unknown(name.clone()),
        Some(pod) if meta::uid(&pod.tree) != it.uid || claim::is_done(&pod.tree) => Consumer::Stale,
        Some(_) => Consumer::Here,
    }
}

/// Whether the pod that a claim was made for will not need it. When the pod itself is gone the garbage collector sees
/// to it.
fn is_over(object: &Object, caches: &Caches) -> bool {
    let Some((name, uid, _)) = claim::made_for(&object.tree) else { return false };
    let pod = caches.get(&kinds::PODS, &meta::namespace(&object.tree), &name);
    pod.is_some_and(|pod| meta::uid(&pod.tree) != uid || claim::is_done(&pod.tree))
}

fn delete(object: &Object) -> Call {
    let on = meta::target(&kinds::RESOURCE_CLAIMS, &object.tree, Part::Main);
    Call::delete(managers::CLAIMS.clone(), on, meta::uid(&object.tree), Cascade::Background)
}
