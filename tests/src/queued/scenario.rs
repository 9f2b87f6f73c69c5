//! Scenarios of queues as they stand in the YAML files.

use std::path::Path;

use muster_tree::{Tree, tree};
use serde::Deserialize;

use super::words;
use crate::jobsets::Place;
use crate::played::{self, Header, Scenario};

/// The processors of a queue that says nothing else.
const QUOTA: i64 = 10;

/// What happens to pods that wait, and what is to be seen of it, as it is written. `{ns}` stands for the namespace of the
/// scenario, which is the name of its ClusterQueue and its flavor, too; the LocalQueue is called `q`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    /// The ids of `docs/requirements` that it shows; `cargo xtask requirements` reads them.
    #[serde(default, rename = "shows")]
    _shows: Vec<String>,
    /// The only plane that has what it needs; all when absent.
    #[serde(default, rename = "where")]
    place: Option<Place>,
    #[serde(default)]
    because: String,
    /// Processors of the queue.
    #[serde(default)]
    quota: Option<i64>,
    /// More of the ClusterQueue's spec.
    #[serde(default)]
    queue: Tree,
    /// The flavor's spec.
    #[serde(default)]
    flavor: Tree,
    /// Manifests that are created next.
    #[serde(default)]
    objects: Vec<Tree>,
    /// Steps, in few words or in all.
    steps: Vec<Tree>,
}

fn read(written: Written) -> Result<Scenario, String> {
    let more = written.objects.iter().map(words::manifests).collect::<Result<Vec<_>, _>>()?;
    let objects = queues(&written).into_iter().chain(more.concat()).collect();
    let Written { name, because, place, steps, .. } = written;
    Scenario::read(Header { name, place, because }, objects, &steps, words::step)
}

/// The flavor, the ClusterQueue and the LocalQueue that every scenario has.
fn queues(written: &Written) -> Vec<Tree> {
    let or_empty = |tree: &Tree| if tree.is_null() { Tree::empty_map() } else { tree.clone() };
    let flavor =
        tree!({"kind": "ResourceFlavor", "metadata": {"name": "{ns}"}, "spec": or_empty(&written.flavor)});
    let spec =
        tree!({"namespaceSelector": {}, "resourceGroups": words::quota(written.quota.unwrap_or(QUOTA))});
    let spec = spec.merge(&or_empty(&written.queue));
    let cluster = tree!({"kind": "ClusterQueue", "metadata": {"name": "{ns}"}, "spec": spec});
    let local = tree!({"kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "{ns}"}});
    vec![flavor, cluster, local]
}

/// Reads all scenarios of a folder.
pub fn load(folder: &Path) -> Result<Vec<Scenario>, String> {
    played::load(folder, |it: &Written| it.name.clone(), read)
}
