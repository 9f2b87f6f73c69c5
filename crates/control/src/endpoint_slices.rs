//! The EndpointSlice controller: the endpoints of Services.
//!
//! # Guarantees
//!
//! - A pod stays in its slice; new pods fill slices with room. So a change of one pod writes one slice.
//! - A slice holds at most [`ENDPOINTS_MAX`] endpoints, all with the same ports.
//! - A Service with a selector has at least one slice, maybe an empty one.
//!
//! # Deliberately absent
//!
//! IPv6 and topology hints: pods here have one IPv4 address. The annotation with the time of the last trigger, which
//! only feeds a latency metric of others.

use std::collections::BTreeMap;

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
    Uid,
};
use muster_api::consts::{labels, managers};
use muster_api::endpoint_slice::{self, ENDPOINTS_MAX, Ports};
use muster_api::kinds;
use muster_api::meta;
use muster_api::name_suffix::suffix;
use muster_api::paths::meta as meta_path;
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// The EndpointSlice controller.
#[derive(Debug, Default)]
pub struct EndpointSliceController;

impl Controller for EndpointSliceController {
    fn name(&self) -> &'static str {
        "endpointslice"
    }

    fn kinds(&self) -> Vec<Kind> {
        [&kinds::SERVICES, &kinds::PODS, &kinds::NODES, &kinds::ENDPOINT_SLICES].map(Clone::clone).into()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let service = |name: &Text| ObjectKey::new(&kinds::SERVICES, &seen.key.namespace, name).into();
        match &seen.key.kind {
            kind if *kind == kinds::SERVICES => vec![seen.key.clone().into()],
            kind if *kind == kinds::ENDPOINT_SLICES => {
                endpoint_slice::service(&seen.latest().tree).map(|name| service(&name)).into_iter().collect()
            }
            kind if *kind == kinds::PODS
                && endpoint_slice::is_news(seen.old.map(|b| &b.tree), seen.new.map(|a| &a.tree)) =>
            {
                let states: Vec<&ApiObject> = seen.old.into_iter().chain(seen.new).collect();
                let services = caches.in_namespace(&kinds::SERVICES, &seen.key.namespace);
                let behind = services
                    .filter(|it| states.iter().any(|pod| endpoint_slice::selects(&it.tree, &pod.tree)));
                behind.map(|it| service(&meta::name(&it.tree))).collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, _now: Time) -> Reconciled {
        let Some(service) = caches.find(key) else {
            return Reconciled::done();
        };
        if !endpoint_slice::has_selector(&service.tree) || meta::deletion_timestamp(&service.tree).is_some() {
            return Reconciled::done();
        }
        let ours = |it: &&ApiObject| endpoint_slice::service(&it.tree).as_ref() == Some(&key.name);
        let there: Vec<&ApiObject> =
            caches.in_namespace(&kinds::ENDPOINT_SLICES, &key.namespace).filter(ours).collect();
        let wanted = wanted(service, caches);
        let calls = changes(service, &there, wanted);
        if calls.is_empty() {
            Reconciled::done()
        } else {
            Reconciled::with_steps(vec![Step::Parallel(calls)])
        }
    }
}

type Endpoints = BTreeMap<Uid, Tree>;

/// The desired endpoints, by their ports.
fn wanted(service: &ApiObject, caches: &Caches) -> BTreeMap<Ports, Endpoints> {
    let mut wanted: BTreeMap<Ports, Endpoints> = BTreeMap::new();
    let pods = caches
        .in_namespace(&kinds::PODS, &meta::namespace(&service.tree).clone())
        .cloned()
        .collect::<Vec<_>>();
    for pod in pods.iter().filter(|pod| endpoint_slice::selects(&service.tree, &pod.tree)) {
        let node = caches.get(&kinds::NODES, &Text::new(), &endpoint_slice::node(&pod.tree));
        let zone = node.and_then(|node| meta::label(&node.tree, labels::ZONE));
        if let Some(endpoint) = endpoint_slice::endpoint(&service.tree, &pod.tree, zone) {
            let ports = endpoint_slice::ports(&service.tree, &pod.tree);
            wanted.entry(ports).or_default().insert(meta::uid(&pod.tree), endpoint);
        }
    }
    wanted
}

/// The requests from the existing to the desired slices.
fn changes(
    service: &ApiObject,
    there: &[&ApiObject],
    mut wanted: BTreeMap<Ports, Endpoints>,
) -> Vec<ApiRequest> {
    // First each slice keeps its endpoints that are still desired.
    let mut kept: Vec<(&ApiObject, Ports, Vec<Tree>)> = Vec::new();
    for it in there {
        let ports = endpoint_slice::ports_of(&it.tree);
        let mut of_ports = wanted.get_mut(&ports);
        let held = endpoint_slice::endpoints(&it.tree).iter();
        let keep = held.filter_map(|e| of_ports.as_mut()?.remove(&endpoint_slice::pod(e))).collect();
        kept.push((it, ports, keep));
    }
    // Then new endpoints fill slices with room.
    let mut fresh: Vec<(Ports, Vec<Tree>)> = Vec::new();
    for (ports, endpoints) in wanted {
        let mut rest: Vec<Tree> = endpoints.into_values().collect();
        for (_, _, keep) in kept.iter_mut().filter(|(_, p, _)| *p == ports) {
            let room = ENDPOINTS_MAX.saturating_sub(keep.len()).min(rest.len());
            keep.extend(rest.drain(..room));
        }
        fresh.extend(rest.chunks(ENDPOINTS_MAX).map(|chunk| (ports.clone(), chunk.to_vec())));
    }
    // A Service keeps one slice, even an empty one.
    let filled = fresh.len() + kept.iter().filter(|(_, _, keep)| !keep.is_empty()).count();
    if filled == 0 && kept.is_empty() {
        fresh.push((endpoint_slice::no_ports(), Vec::new()));
    }
    let spared = if filled == 0 { kept.first().map(|(it, ..)| meta::uid(&it.tree)) } else { None };
    let mut calls = Vec::new();
    for (it, ports, keep) in kept {
        if keep.is_empty() && spared.as_ref() != Some(&meta::uid(&it.tree)) {
            let on = meta::target(&kinds::ENDPOINT_SLICES, &it.tree, Subresource::Main);
            calls.push(ApiRequest::delete(
                managers::SLICES.clone(),
                on,
                meta::uid(&it.tree),
                DeletionPropagation::Background,
            ));
        } else {
            calls.extend(update(service, it, &ports, keep));
        }
    }
    calls.extend(creates(service, there, fresh));
    calls
}

fn update(service: &ApiObject, it: &ApiObject, ports: &Ports, endpoints: Vec<Tree>) -> Option<ApiRequest> {
    let made = endpoint_slice::made(&service.tree, &meta::name(&it.tree), ports, endpoints);
    let same = |key: &str| made.get(key).unwrap_or(&Tree::Null) == it.tree.get(key).unwrap_or(&Tree::Null);
    let same_labels = made.at(meta_path::LABELS) == it.tree.at(meta_path::LABELS);
    if endpoint_slice::endpoints(&made) == endpoint_slice::endpoints(&it.tree)
        && same("addressType")
        && same_labels
    {
        return None;
    }
    Some(ApiRequest {
        field_manager: managers::SLICES.clone(),
        target: meta::target(&kinds::ENDPOINT_SLICES, &it.tree, Subresource::Main),
        preconditions: Preconditions { uid: Some(meta::uid(&it.tree)), revision: Some(it.revision) },
        verb: RequestVerb::MergePatch(endpoint_slice::update(&made)),
    })
}

/// New slices. Their names are derived from the Service and the first free numbers, so that a retried create is idempotent.
fn creates(service: &ApiObject, there: &[&ApiObject], fresh: Vec<(Ports, Vec<Tree>)>) -> Vec<ApiRequest> {
    let (name, uid) = (meta::name(&service.tree), meta::uid(&service.tree));
    let names = (0..).map(|n| Text::from(format!("{name}-{}", suffix(&uid, None, n))));
    let free = names.filter(|name| !there.iter().any(|it| meta::name(&it.tree) == *name));
    let each = fresh.into_iter().zip(free).map(|((ports, endpoints), name)| ApiRequest {
        field_manager: managers::SLICES.clone(),
        target: RequestTarget {
            kind: kinds::ENDPOINT_SLICES.clone(),
            namespace: meta::namespace(&service.tree),
            name: name.clone(),
            subresource: Subresource::Main,
        },
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(endpoint_slice::made(&service.tree, &name, &ports, endpoints)),
    });
    each.collect()
}
