//! The claim controller: makes claims from templates for pods, and ends reservations that nobody needs.
//!
//! - A pod that names a template gets a claim of its own; the pod's status says which.
//! - A reservation for a pod that is gone, has ended or was replaced is removed. With the last one go the devices, and
//!   then the finalizer that protected them.
//! - A claim that was made for a pod is deleted when the pod has ended.
//!
//! # Invariants
//!
//! - A made claim's name comes from the pod's UID, so that a repeated create meets itself.
//! - Nothing is reserved for pods without a node: that is the scheduler's business.
//! - No reservation is removed because of a pod that we merely have not heard of.

mod index;
mod release;

use muster_api::event::{About, Event, Severity};
use muster_api::paths::{pod as path, resource_claim as claim_path};
use muster_api::port::{Act, Call, Guard, Kind, Object, Part};
use muster_api::suffix::suffix;
use muster_api::time::Time;
use muster_api::words::{managers, reasons};
use muster_api::{claim, kinds, meta};
use muster_tree::{Text, Tree};

use self::index::Index;
use self::release::Releases;
use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// The claim controller.
#[derive(Debug, Default)]
pub struct Claims {
    index: Index,
    releases: Releases,
}

impl Controller for Claims {
    fn name(&self) -> &'static str {
        "resourceclaim"
    }

    fn kinds(&self) -> Vec<Kind> {
        let all = [&kinds::PODS, &kinds::RESOURCE_CLAIMS, &kinds::RESOURCE_CLAIM_TEMPLATES];
        all.map(Clone::clone).to_vec()
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        let keys = match &seen.key.kind {
            kind if *kind == kinds::PODS => self.pod_wakes(seen),
            kind if *kind == kinds::RESOURCE_CLAIMS => {
                let mut keys = self.index.users(seen.key);
                let owner = claim::made_for(&seen.newest().tree);
                keys.extend(owner.map(|(pod, ..)| Key::new(&kinds::PODS, &seen.key.namespace, &pod)));
                if seen.after.is_some() {
                    keys.push(seen.key.clone());
                } else {
                    self.releases.forget(seen.key);
                }
                keys
            }
            kind if *kind == kinds::RESOURCE_CLAIM_TEMPLATES => self.index.users(seen.key),
            _ => Vec::new(),
        };
        keys.into_iter().map(Wake::from).collect()
    }

    fn plan(&mut self, key: &Key, caches: &Caches, _now: Time) -> Plan {
        let Some(object) = caches.find(key) else {
            return Plan::nothing();
        };
        if key.kind == kinds::RESOURCE_CLAIMS {
            return self.releases.plan(key, object, caches);
        }
        if meta::deleting(&object.tree).is_some() || claim::is_done(&object.tree) {
            return Plan::nothing();
        }
        provide(object, caches)
    }
}

impl Claims {
    fn pod_wakes(&mut self, seen: &Seen<'_>) -> Vec<Key> {
        let before = seen.before.map(|pod| claim::named(&pod.tree)).unwrap_or_default();
        let after = seen.after.map(|pod| claim::named(&pod.tree)).unwrap_or_default();
        if before.is_empty() && after.is_empty() {
            return Vec::new();
        }
        self.index.change(seen.key, &before, &after);
        if seen.after.is_some_and(|pod| !claim::is_done(&pod.tree)) {
            return vec![seen.key.clone()];
        }
        // Its claims are of no more use to it.
        let named = if after.is_empty() { before } else { after };
        let claims = named.into_iter().filter_map(|it| it.claim);
        claims.map(|name| Key::new(&kinds::RESOURCE_CLAIMS, &seen.key.namespace, &name)).collect()
    }
}

/// Makes the claims that a pod lacks, and says in its status which they are; reserves those that it uses already.
fn provide(pod: &Object, caches: &Caches) -> Plan {
    let named = claim::named(&pod.tree);
    let (mut creates, mut names, mut news) = (Vec::new(), Vec::new(), false);
    for it in named.iter().filter(|it| !it.template.is_empty()) {
        if let Some(name) = it.claim.as_ref().filter(|name| is_own(pod, name, caches)) {
            names.push((it.within.clone(), name.clone()));
            continue;
        }
        news = true;
        match orphan(pod, &it.within, caches) {
            Some(name) => names.push((it.within.clone(), name)),
            None => match make(pod, it, caches) {
                Ok(call) => {
                    names.push((it.within.clone(), call.on.name.clone()));
                    creates.push(call);
                }
                Err(why) => return Plan::of(vec![Step::Note(complaint(pod, &it.within, &why))]),
            },
        }
    }
    let mut steps = Vec::new();
    if !creates.is_empty() {
        steps.push(Step::Each(creates));
    }
    if news {
        names.sort();
        let act = Act::Apply { body: claim::made_names(&pod.tree, &names), force: true };
        let on = meta::target(&kinds::PODS, &pod.tree, Part::Status);
        let guard = Guard { uid: Some(meta::uid(&pod.tree)), revision: None };
        steps.push(Step::One(Call { by: managers::CLAIMS.clone(), on, guard, act }));
    }
    steps.extend(reserve(pod, &named, caches));
    Plan::of(steps)
}

fn is_own(pod: &Object, name: &Text, caches: &Caches) -> bool {
    let found = caches.get(&kinds::RESOURCE_CLAIMS, &meta::namespace(&pod.tree), name);
    let uid = meta::uid(&pod.tree);
    found.is_some_and(|it| meta::controller(&it.tree).is_some_and(|owner| owner.uid == uid))
}

/// A claim that was made for the pod, of which its status says nothing.
fn orphan(pod: &Object, within: &Text, caches: &Caches) -> Option<Text> {
    let uid = meta::uid(&pod.tree);
    let mut made = caches.owned_by(&uid).filter(|(key, _)| key.kind == kinds::RESOURCE_CLAIMS);
    let ours = |it: &Object| {
        claim::made_for(&it.tree).is_some_and(|(_, owner, name)| owner == uid && name == *within)
    };
    made.find(|(_, it)| ours(it)).map(|(key, _)| key.name.clone())
}

/// The create of a claim, under the first name of the pod's that is free.
fn make(pod: &Object, it: &claim::Named, caches: &Caches) -> Result<Call, String> {
    let namespace = meta::namespace(&pod.tree);
    let template = caches.get(&kinds::RESOURCE_CLAIM_TEMPLATES, &namespace, &it.template);
    let Some(template) = template else {
        let name = &it.template;
        return Err(format!(
            "resource claim template \"{name}\": resourceclaimtemplate.resource.k8s.io \"{name}\" not found"
        ));
    };
    let base = claim::name_base(&meta::name(&pod.tree), &it.within);
    let seed = format!("{}/{}", meta::uid(&pod.tree), it.within);
    let mut names = (0..).map(|n| Text::from(format!("{base}{}", suffix(&seed, None, n))));
    let free = |name: &Text| caches.get(&kinds::RESOURCE_CLAIMS, &namespace, name).is_none();
    let name = names.find(free).expect("not every name is taken");
    let made = claim::from_template(&template.tree, &pod.tree, &it.within, &name);
    let key = Key::new(&kinds::RESOURCE_CLAIMS, &namespace, &name);
    Ok(Call {
        by: managers::CLAIMS.clone(),
        on: key.target(Part::Main),
        guard: Guard::default(),
        act: Act::Create(made),
    })
}

/// A pod that has its node but not its reservation, because it was not our scheduler that placed it.
fn reserve(pod: &Object, named: &[claim::Named], caches: &Caches) -> Option<Step> {
    if pod.tree.str_at(path::NODE_NAME).is_empty() {
        return None;
    }
    let uid = meta::uid(&pod.tree);
    let mut claims = named.iter().filter_map(|it| {
        caches.get(&kinds::RESOURCE_CLAIMS, &meta::namespace(&pod.tree), it.claim.as_ref()?)
    });
    let lacking = claims.find(|it| {
        let reserved = claim::consumers(&it.tree).iter().any(|consumer| consumer.uid == uid);
        it.tree.at(claim_path::ALLOCATION).is_some() && !reserved && meta::deleting(&it.tree).is_none()
    })?;
    let act = Act::Merge(claim::reservation(&lacking.tree, &pod.tree, None, Time::default()));
    Some(Step::One(write(lacking, Part::Status, act)))
}

/// A write that means this revision of a claim.
fn write(claim: &Object, part: Part, act: Act) -> Call {
    Call {
        by: managers::CLAIMS.clone(),
        on: meta::target(&kinds::RESOURCE_CLAIMS, &claim.tree, part),
        guard: Guard { uid: Some(meta::uid(&claim.tree)), revision: Some(claim.revision) },
        act,
    }
}

fn complaint(pod: &Object, within: &Text, why: &str) -> Event {
    Event {
        action: Text::new(),
        by: managers::CLAIM_EVENTS.clone(),
        about: About::of(&kinds::PODS, "Pod", &pod.tree),
        severity: Severity::Warning,
        reason: reasons::FAILED_CLAIM_CREATION.into(),
        message: format!("PodResourceClaim {within}: {why}").into(),
    }
}

/// Whether a claim says nothing of devices.
fn is_bare(claim: &Tree) -> bool {
    claim.at(claim_path::ALLOCATION).is_none() && claim.items_at(claim_path::RESERVED_FOR).is_empty()
}

#[cfg(test)]
mod tests;
