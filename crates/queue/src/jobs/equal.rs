//! Whether a Workload is still that of its job.
//!
//! A job may be changed while it waits, and what it asks for is fixed once it has a share. What counts is what decides
//! about shares: numbers, containers and tolerations. How a client writes the same thing does not.
//!
//! # Invariants
//!
//! - A job that was started as its Workload says is like it, and so is one that was stopped again.
//! - Nothing that the API server fills in or leaves out makes a difference.

use muster_api::meta;
use muster_api::paths::pod;
use muster_api::quantity;
use muster_api::queue::{FlavorFacts, PodSet, WorkloadFacts};
use muster_schema::node::View;
use muster_schema::table::builtin;
use muster_schema::zero;
use muster_tree::Tree;

use super::construct::max_exec_secs;
use super::infos;

/// The type of what is compared.
const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
/// What of it counts.
const COMPARED: [&[&str]; 2] = [pod::INIT_CONTAINERS, pod::CONTAINERS];

/// A job, as far as comparing goes.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// The object.
    pub object: &'a Tree,
    /// What it asks for now.
    pub pod_sets: &'a [PodSet],
    /// Whether it stands still.
    pub is_suspended: bool,
}

/// Whether a Workload is that of this job: owner, time and pods.
#[must_use]
pub fn is_of(
    job: &Compared<'_>,
    workload: &WorkloadFacts,
    flavor: &dyn Fn(&str) -> Option<FlavorFacts>,
) -> bool {
    let is_owner = workload
        .controller()
        .is_some_and(|it| it.name == meta::name(job.object) && it.uid == meta::uid(job.object));
    is_owner && is_like(job, workload, flavor)
}

/// The same of a Workload that may belong to nobody yet.
#[must_use]
pub fn is_like(
    job: &Compared<'_>,
    workload: &WorkloadFacts,
    flavor: &dyn Fn(&str) -> Option<FlavorFacts>,
) -> bool {
    if workload.max_exec_secs != max_exec_secs(job.object) {
        return false;
    }
    let is_admitted = workload.is_admitted();
    let is_plain = || are_same(job.pod_sets, &workload.pod_sets, is_admitted);
    match running(workload, flavor) {
        Some(sets) => are_same(job.pod_sets, &sets, is_admitted) || (job.is_suspended && is_plain()),
        None => is_plain(),
    }
}

/// The pod sets as they are once the job runs; `None` without a reservation, or when that cannot be told.
fn running(workload: &WorkloadFacts, flavor: &dyn Fn(&str) -> Option<FlavorFacts>) -> Option<Vec<PodSet>> {
    if !workload.has_quota() {
        return None;
    }
    let infos = infos::of_workload(workload, flavor).ok()?;
    let one = |(set, info): (&PodSet, &infos::Info)| {
        let count = if set.min_count.is_some() { info.count } else { set.count };
        Some(PodSet { template: info.put_into(&set.template).ok()?, count, ..set.clone() })
    };
    workload.pod_sets.iter().zip(&infos).map(one).collect()
}

/// Whether pod sets ask for the same. Tolerations may change once a Workload is admitted.
#[must_use]
pub fn are_same(one: &[PodSet], other: &[PodSet], is_admitted: bool) -> bool {
    let same = |(one, other): (&PodSet, &PodSet)| {
        (one.count, one.min_count) == (other.count, other.min_count)
            && COMPARED.iter().all(|path| is_same_at(path, &one.template, &other.template))
            && (is_admitted || is_same_at(pod::TOLERATIONS, &one.template, &other.template))
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// Whether a part of two templates means the same.
fn is_same_at(path: &[&str], one: &Tree, other: &Tree) -> bool {
    let part = |template: &Tree| template.at(path).filter(|it| !it.is_empty()).cloned();
    let (one, other) = (part(one), part(other));
    if one == other {
        return true;
    }
    let (Some(one), Some(other)) = (one, other) else { return false };
    let table = builtin();
    let id = table.component(POD_SPEC).expect("pods are built in").node;
    let key = path.last().copied().unwrap_or_default();
    // Inside a spec of their own they are read as a typed client would read them.
    let [one, other] = [one, other].map(|part| {
        let spec = Tree::map([(key, part)]);
        zero::written(table, id, &zero::absent(table, id, &spec)).get(key).cloned().unwrap_or_default()
    });
    let view = View { schema: &table.schema, id };
    view.below(key).map_or(one == other, |view| is_same(view, &one, &other))
}

/// Whether they are the same but for how quantities are written.
fn is_same(view: View<'_>, one: &Tree, other: &Tree) -> bool {
    if one.same_branch(other) {
        return true;
    }
    match (one, other) {
        _ if view.node().format == "quantity" => value(one) == value(other),
        (Tree::Map(_), Tree::Map(_)) => {
            let keys = one.entries().iter().chain(other.entries()).map(|(key, _)| key);
            let mut each = keys
                .map(|key| (key, one.get(key).unwrap_or(&Tree::Null), other.get(key).unwrap_or(&Tree::Null)));
            each.all(|(key, a, b)| view.below(key).map_or_else(|| a == b, |view| is_same(view, a, b)))
        }
        (Tree::List(_), Tree::List(_)) => {
            let (one, other) = (one.items(), other.items());
            let same =
                |(a, b): (&Tree, &Tree)| view.item().map_or_else(|| a == b, |view| is_same(view, a, b));
            one.len() == other.len() && one.iter().zip(other).all(same)
        }
        _ => one == other,
    }
}

/// A quantity by value, or what stands in its place.
fn value(tree: &Tree) -> Result<i128, &Tree> {
    quantity::nanos(&quantity::text(tree)).ok_or(tree)
}
