//! The pod sets of a TrainJob for its Workload, from the JobSet that it is built into.

use std::sync::OnceLock;

use muster_api::jobset::{JobSetFacts, ReplicatedJob};
use muster_api::paths::{jobset, pod, replicated_job};
use muster_api::queue::PodSet;
use muster_schema::node::SchemaRef;
use muster_schema::{structure, table};
use muster_tree::{Text, Tree};

/// One pod set per replicatedJob, with the template as an API server would default it.
#[must_use]
pub(super) fn of(jobset: &Tree) -> Vec<PodSet> {
    let jobs = JobSetFacts::of(jobset).jobs;
    jobs.iter().zip(jobset.items_at(jobset::JOBS)).map(|(of, tree)| set(of, tree)).collect()
}

fn set(of: &ReplicatedJob, tree: &Tree) -> PodSet {
    let empty = Tree::empty_map();
    PodSet {
        // Pod set names are DNS labels.
        name: Text::from(of.name.to_lowercase()),
        template: filled(tree.at(replicated_job::POD_TEMPLATE).unwrap_or(&empty)),
        count: of.replicas.saturating_mul(of.pods()),
        min_count: None,
        topology: Tree::Null,
    }
}

/// Defaults a pod template; JobSets default `restartPolicy` before the API server does.
fn filled(template: &Tree) -> Tree {
    static SCHEMA: OnceLock<SchemaRef> = OnceLock::new();
    let jobs = SCHEMA.get_or_init(|| table::builtin().root("batch", "v1", "Job").expect("Jobs are built in"));
    let view = jobs.view().at(&["spec", "template"]).expect("Jobs have templates of pods");
    let template = match template.at(pod::RESTART_POLICY) {
        Some(_) => template.clone(),
        None => template.with(pod::RESTART_POLICY, "OnFailure"),
    };
    structure::default(view, &template)
}
