//! Scenarios of queues as they stand in the YAML files.

use std::path::Path;

use muster_tree::{Tree, from_tree, tree};
use serde::Deserialize;

use super::words;
use crate::documents;
use crate::jobsets::Place;
use crate::lives::Happening;

/// The processors of a queue that says nothing else.
const QUOTA: i64 = 10;

/// What happens to pods that wait, and what is to be seen of it. `{ns}` stands for the namespace of the scenario, which is the
/// name of its ClusterQueue and its flavor, too; the LocalQueue is called `q`.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it shows, as a sentence.
    pub name: String,
    /// Why it is played on one plane alone, if it is.
    pub because: String,
    place: Option<Place>,
    objects: Vec<Tree>,
    /// What happens, in order.
    pub steps: Vec<Happening>,
}

/// The same as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    /// The ids of `docs/requirements` that it shows; `cargo xtask requirements` reads them.
    #[serde(default, rename = "shows")]
    _shows: Vec<String>,
    /// The only plane that has what it needs; both when absent.
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

impl Scenario {
    /// Whether it is played there.
    #[must_use]
    pub fn is_for(&self, place: Place) -> bool {
        self.place.is_none_or(|only| only == place)
    }

    /// What is created first.
    #[must_use]
    pub fn objects(&self) -> Vec<Tree> {
        self.objects.clone()
    }

    fn read(written: Written) -> Result<Scenario, String> {
        if written.place.is_some() == written.because.is_empty() {
            return Err("`where` and `because` come together".to_owned());
        }
        let mut steps = Vec::new();
        for short in &written.steps {
            for step in words::step(short)? {
                steps.push(from_tree(&step).map_err(|e| format!("{e}, in {}", step.to_json()))?);
            }
        }
        let more = written.objects.iter().map(words::manifests).collect::<Result<Vec<_>, _>>()?;
        let objects = queues(&written).into_iter().chain(more.concat()).collect();
        let Written { name, because, place, .. } = written;
        Ok(Scenario { name, because, place, objects, steps })
    }
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

/// Reads all scenarios of a folder, in order of file names. A file is a stream of YAML documents, one scenario each.
pub fn load(folder: &Path) -> Result<Vec<Scenario>, String> {
    let all: Vec<Written> = documents::load(folder)?;
    let read = |it: Written| {
        let name = it.name.clone();
        Scenario::read(it).map_err(|why| format!("{name:?}: {why}"))
    };
    all.into_iter().map(read).collect()
}
