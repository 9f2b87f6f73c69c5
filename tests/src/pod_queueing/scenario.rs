//! Deserialises `tests/queues/*.yaml`.

use std::path::Path;

use muster_tree::{Tree, tree};
use serde::Deserialize;

use super::shorthand;
use crate::jobsets::Environment;
use crate::scenario_runner::{self, ScenarioHeader, StepScenario};

/// Default CPU quota of the ClusterQueue.
const QUOTA: i64 = 10;

/// A scenario as written. `{ns}` is the namespace of the scenario, and also the name of its ClusterQueue and ResourceFlavor; the
/// LocalQueue is named `q`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    /// Ids of `docs/requirements` that it covers; `cargo xtask requirements` reads them.
    #[serde(default, rename = "shows")]
    _shows: Vec<String>,
    /// The only environment that can run it; all when absent.
    #[serde(default, rename = "where")]
    place: Option<Environment>,
    #[serde(default)]
    because: String,
    /// CPU quota of the ClusterQueue.
    #[serde(default)]
    quota: Option<i64>,
    /// Merged into the ClusterQueue's spec.
    #[serde(default)]
    queue: Tree,
    /// Spec of the ResourceFlavor.
    #[serde(default)]
    flavor: Tree,
    /// Manifests to create after the queues.
    #[serde(default)]
    objects: Vec<Tree>,
    /// Steps, in shorthand or in full.
    steps: Vec<Tree>,
}

fn read(written: Written) -> Result<StepScenario, String> {
    let more = written.objects.iter().map(shorthand::manifests).collect::<Result<Vec<_>, _>>()?;
    let objects = queues(&written).into_iter().chain(more.concat()).collect();
    let Written { name, because, place, steps, .. } = written;
    StepScenario::read(ScenarioHeader { name, place, because }, objects, &steps, shorthand::step)
}

/// Builds the ResourceFlavor, ClusterQueue and LocalQueue of a scenario.
fn queues(written: &Written) -> Vec<Tree> {
    let or_empty = |tree: &Tree| if tree.is_null() { Tree::empty_map() } else { tree.clone() };
    let flavor =
        tree!({"kind": "ResourceFlavor", "metadata": {"name": "{ns}"}, "spec": or_empty(&written.flavor)});
    let spec =
        tree!({"namespaceSelector": {}, "resourceGroups": shorthand::quota(written.quota.unwrap_or(QUOTA))});
    let spec = spec.merge(&or_empty(&written.queue));
    let cluster = tree!({"kind": "ClusterQueue", "metadata": {"name": "{ns}"}, "spec": spec});
    let local = tree!({"kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "{ns}"}});
    vec![flavor, cluster, local]
}

pub fn load(folder: &Path) -> Result<Vec<StepScenario>, String> {
    scenario_runner::load(folder, |it: &Written| it.name.clone(), read)
}
