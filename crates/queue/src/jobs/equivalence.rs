//! Whether a Workload is equivalent to its job.
//!
//! A pending job may be changed; the requests of a job with quota are fixed. Compared are the inputs of quota:
//! counts, containers and tolerations, by value rather than by spelling.
//!
//! # Guarantees
//!
//! - A job started as its Workload says is equivalent to it, and so is one that was stopped again.
//! - Defaulting by the API server makes no difference.

use muster_api::meta;
use muster_api::paths::pod;
use muster_api::quantity;
use muster_api::queue::{FlavorFacts, PodSet, WorkloadFacts};
use muster_schema::node::View;
use muster_schema::table::builtin;
use muster_schema::zero;
use muster_tree::Tree;

use super::construct::max_exec_secs;
use super::podset_info;

const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
const COMPARED: [&[&str]; 2] = [pod::INIT_CONTAINERS, pod::CONTAINERS];

/// The compared parts of a job.
#[derive(Debug, Clone, Copy)]
pub struct ComparedJob<'a> {
    pub object: &'a Tree,
    /// Its current pod sets.
    pub pod_sets: &'a [PodSet],
    /// Whether it is suspended.
    pub is_suspended: bool,
}

/// Whether the Workload is controlled by this job and equivalent to it.
#[must_use]
pub fn is_workload_of(
    job: &ComparedJob<'_>,
    workload: &WorkloadFacts,
    flavor: &dyn Fn(&str) -> Option<FlavorFacts>,
) -> bool {
    let is_owner = workload
        .controller()
        .is_some_and(|it| it.name == meta::name(job.object) && it.uid == meta::uid(job.object));
    is_owner && is_equivalent(job, workload, flavor)
}

/// Whether the Workload is equivalent to this job, regardless of its controller.
#[must_use]
pub fn is_equivalent(
    job: &ComparedJob<'_>,
    workload: &WorkloadFacts,
    flavor: &dyn Fn(&str) -> Option<FlavorFacts>,
) -> bool {
    // The maximum execution time is part of the Workload, so a changed label needs a new one.
    if workload.max_exec_secs != max_exec_secs(job.object) {
        return false;
    }
    let is_admitted = workload.is_admitted();
    let is_plain = || are_pod_sets_equivalent(job.pod_sets, &workload.pod_sets, is_admitted);
    match running(workload, flavor) {
        Some(sets) => {
            are_pod_sets_equivalent(job.pod_sets, &sets, is_admitted) || (job.is_suspended && is_plain())
        }
        None => is_plain(),
    }
}

/// The pod sets with their PodSetInfo applied; None without a reservation, or if it cannot be computed.
fn running(workload: &WorkloadFacts, flavor: &dyn Fn(&str) -> Option<FlavorFacts>) -> Option<Vec<PodSet>> {
    if !workload.has_quota() {
        return None;
    }
    let infos = podset_info::of_workload(workload, flavor).ok()?;
    let one = |(set, info): (&PodSet, &podset_info::PodSetInfo)| {
        let count = if set.min_count.is_some() { info.count } else { set.count };
        Some(PodSet { template: info.merge_into(&set.template).ok()?, count, ..set.clone() })
    };
    workload.pod_sets.iter().zip(&infos).map(one).collect()
}

/// Whether pod sets are equivalent. Tolerations may differ once the Workload is admitted.
#[must_use]
pub fn are_pod_sets_equivalent(one: &[PodSet], other: &[PodSet], is_admitted: bool) -> bool {
    let same = |(one, other): (&PodSet, &PodSet)| {
        (one.count, one.min_count) == (other.count, other.min_count)
            && COMPARED.iter().all(|path| is_same_at(path, &one.template, &other.template))
            && (is_admitted || is_same_at(pod::TOLERATIONS, &one.template, &other.template))
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// Whether a field of two templates is equivalent.
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
    // Normalizes both through the typed schema, as a typed client would decode them.
    let [one, other] = [one, other].map(|part| {
        let spec = Tree::map([(key, part)]);
        zero::written(table, id, &zero::absent(table, id, &spec)).get(key).cloned().unwrap_or_default()
    });
    let view = View { schema: &table.schema, id };
    view.below(key).map_or(one == other, |view| is_same(view, &one, &other))
}

/// Equality up to the spelling of quantities.
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

/// A quantity by value; an invalid one as it is.
fn value(tree: &Tree) -> Result<i128, &Tree> {
    quantity::nanos(&quantity::text(tree)).ok_or(tree)
}
