//! The EndpointSlice controller: which pods stand behind a Service.
//!
//! # Invariants
//!
//! - A pod stays in the slice it is in; new ones fill slices that have room. So a change of one pod writes one slice.
//! - A slice holds at most [`ENDPOINTS_MAX`] endpoints, all with the same ports.
//! - A Service with a selector has at least one slice, maybe an empty one.
//!
//! # Deliberately absent
//!
//! IPv6 and topology hints: pods here have one IPv4 address. The annotation with the time of the last trigger, which
//! only feeds a latency metric of others.

use std::collections::BTreeMap;

use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Target, Uid};
use muster_api::slice::{self, ENDPOINTS_MAX, Ports};
use muster_api::suffix::suffix;
use muster_api::time::Time;
use muster_api::words::{labels, managers};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// The EndpointSlice controller.
#[derive(Debug, Default)]
pub struct Slices;

impl Controller for Slices {
    fn name(&self) -> &'static str {
        "endpointslice"
    }

    fn kinds(&self) -> Vec<Kind> {
        [&kinds::SERVICES, &kinds::PODS, &kinds::NODES, &kinds::ENDPOINT_SLICES].map(Clone::clone).into()
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let service = |name: &Text| Key::new(&kinds::SERVICES, &seen.key.namespace, name).into();
        match &seen.key.kind {
            kind if *kind == kinds::SERVICES => vec![seen.key.clone().into()],
            kind if *kind == kinds::ENDPOINT_SLICES => {
                slice::service(&seen.newest().tree).map(|name| service(&name)).into_iter().collect()
            }
            kind if *kind == kinds::PODS
                && slice::is_news(seen.before.map(|b| &b.tree), seen.after.map(|a| &a.tree)) =>
            {
                let states: Vec<&Object> = seen.before.into_iter().chain(seen.after).collect();
                let services = caches.in_namespace(&kinds::SERVICES, &seen.key.namespace);
                let behind =
                    services.filter(|it| states.iter().any(|pod| slice::selects(&it.tree, &pod.tree)));
                behind.map(|it| service(&meta::name(&it.tree))).collect()
            }
            _ => Vec::new(),
        }
    }

    fn plan(&mut self, key: &Key, caches: &Caches, _now: Time) -> Plan {
        let Some(service) = caches.find(key) else {
            return Plan::nothing();
        };
        if !slice::has_selector(&service.tree) || meta::deleting(&service.tree).is_some() {
            return Plan::nothing();
        }
        let ours = |it: &&Object| slice::service(&it.tree).as_ref() == Some(&key.name);
        let there: Vec<&Object> =
            caches.in_namespace(&kinds::ENDPOINT_SLICES, &key.namespace).filter(ours).collect();
        let wanted = wanted(service, caches);
        let calls = changes(service, &there, wanted);
        if calls.is_empty() { Plan::nothing() } else { Plan::of(vec![Step::Each(calls)]) }
    }
}

type Endpoints = BTreeMap<Uid, Tree>;

/// The endpoints that shall be there, by the ports they share.
fn wanted(service: &Object, caches: &Caches) -> BTreeMap<Ports, Endpoints> {
    let mut wanted: BTreeMap<Ports, Endpoints> = BTreeMap::new();
    let pods = caches
        .in_namespace(&kinds::PODS, &meta::namespace(&service.tree).clone())
        .cloned()
        .collect::<Vec<_>>();
    for pod in pods.iter().filter(|pod| slice::selects(&service.tree, &pod.tree)) {
        let node = caches.get(&kinds::NODES, &Text::new(), &slice::node(&pod.tree));
        let zone = node.and_then(|node| meta::label(&node.tree, labels::ZONE));
        if let Some(endpoint) = slice::endpoint(&service.tree, &pod.tree, zone) {
            let ports = slice::ports(&service.tree, &pod.tree);
            wanted.entry(ports).or_default().insert(meta::uid(&pod.tree), endpoint);
        }
    }
    wanted
}

/// The calls that turn what is there into what is wanted.
fn changes(service: &Object, there: &[&Object], mut wanted: BTreeMap<Ports, Endpoints>) -> Vec<Call> {
    // What each slice shall hold: first what it holds and may keep.
    let mut kept: Vec<(&Object, Ports, Vec<Tree>)> = Vec::new();
    for it in there {
        let ports = slice::ports_of(&it.tree);
        let mut of_ports = wanted.get_mut(&ports);
        let held = slice::endpoints(&it.tree).iter();
        let keep = held.filter_map(|e| of_ports.as_mut()?.remove(&slice::pod(e))).collect();
        kept.push((it, ports, keep));
    }
    // Then the rest, where there is room.
    let mut fresh: Vec<(Ports, Vec<Tree>)> = Vec::new();
    for (ports, endpoints) in wanted {
        let mut rest: Vec<Tree> = endpoints.into_values().collect();
        for (_, _, keep) in kept.iter_mut().filter(|(_, p, _)| *p == ports) {
            let room = ENDPOINTS_MAX.saturating_sub(keep.len()).min(rest.len());
            keep.extend(rest.drain(..room));
        }
        fresh.extend(rest.chunks(ENDPOINTS_MAX).map(|chunk| (ports.clone(), chunk.to_vec())));
    }
    // One slice stays, even when it is empty.
    let filled = fresh.len() + kept.iter().filter(|(_, _, keep)| !keep.is_empty()).count();
    if filled == 0 && kept.is_empty() {
        fresh.push((slice::no_ports(), Vec::new()));
    }
    let spared = if filled == 0 { kept.first().map(|(it, ..)| meta::uid(&it.tree)) } else { None };
    let mut calls = Vec::new();
    for (it, ports, keep) in kept {
        if keep.is_empty() && spared.as_ref() != Some(&meta::uid(&it.tree)) {
            let on = meta::target(&kinds::ENDPOINT_SLICES, &it.tree, Part::Main);
            calls.push(Call::delete(managers::SLICES.clone(), on, meta::uid(&it.tree), Cascade::Background));
        } else {
            calls.extend(update(service, it, &ports, keep));
        }
    }
    calls.extend(creates(service, there, fresh));
    calls
}

fn update(service: &Object, it: &Object, ports: &Ports, endpoints: Vec<Tree>) -> Option<Call> {
    let made = slice::made(&service.tree, &meta::name(&it.tree), ports, endpoints);
    let same = |key: &str| made.get(key).unwrap_or(&Tree::Null) == it.tree.get(key).unwrap_or(&Tree::Null);
    let same_labels = made.at(meta_path::LABELS) == it.tree.at(meta_path::LABELS);
    if slice::endpoints(&made) == slice::endpoints(&it.tree) && same("addressType") && same_labels {
        return None;
    }
    Some(Call {
        by: managers::SLICES.clone(),
        on: meta::target(&kinds::ENDPOINT_SLICES, &it.tree, Part::Main),
        guard: Guard { uid: Some(meta::uid(&it.tree)), revision: Some(it.revision) },
        act: Act::Merge(slice::update(&made)),
    })
}

/// New slices; their names come from the Service and the first free numbers, so that a repeated create meets itself.
fn creates(service: &Object, there: &[&Object], fresh: Vec<(Ports, Vec<Tree>)>) -> Vec<Call> {
    let (name, uid) = (meta::name(&service.tree), meta::uid(&service.tree));
    let names = (0..).map(|n| Text::from(format!("{name}-{}", suffix(&uid, None, n))));
    let free = names.filter(|name| !there.iter().any(|it| meta::name(&it.tree) == *name));
    let each = fresh.into_iter().zip(free).map(|((ports, endpoints), name)| Call {
        by: managers::SLICES.clone(),
        on: Target {
            kind: kinds::ENDPOINT_SLICES.clone(),
            namespace: meta::namespace(&service.tree),
            name: name.clone(),
            part: Part::Main,
        },
        guard: Guard::default(),
        act: Act::Create(slice::made(&service.tree, &name, &ports, endpoints)),
    });
    each.collect()
}
