//! Scenarios of TrainJobs as they stand in the YAML files.

use std::path::Path;

use muster_tree::{Tree, from_tree};
use serde::Deserialize;

use super::words;
use crate::jobsets::Place;
use crate::jobsets::scenario::devices;
use crate::played::{self, Header, Scenario};

/// The word that stands for no runtime at all.
const NONE: &str = "none";

/// A TrainJob, its runtime, and what happens, as it is written.
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
    /// So many devices that all nodes reach, of the class `gpu-{ns}`.
    #[serde(default)]
    devices: usize,
    /// Manifests that are created next.
    #[serde(default)]
    objects: Vec<Tree>,
    /// The runtime `r` of the namespace, or `{ns}` of the cluster; a plain one when absent.
    #[serde(default)]
    runtime: Tree,
    /// The TrainJob `tj`; none when absent.
    #[serde(default)]
    job: Tree,
    /// Steps, in few words or in all.
    steps: Vec<Tree>,
}

fn read(written: Written) -> Result<Scenario, String> {
    let runtime = match &written.runtime {
        Tree::Text(word) if word == NONE => None,
        Tree::Null => Some(words::runtime(&Tree::empty_map())?),
        said => Some(words::runtime(said)?),
    };
    let job = if written.job.is_map() { Some(words::train_job(&written.job)?) } else { None };
    let Written { name, because, place, steps, objects, .. } = written;
    let all = devices(written.devices).into_iter().chain(objects).chain(runtime).chain(job);
    Scenario::read(Header { name, place, because }, all.collect(), &steps, words::step)
}

/// The scenario that a text describes.
pub fn written(text: &str) -> Result<Scenario, String> {
    let tree = Tree::parse_yaml(text).map_err(|e| e.to_string())?;
    read(from_tree(&tree).map_err(|e| e.to_string())?)
}

/// Reads all scenarios of a folder.
pub fn load(folder: &Path) -> Result<Vec<Scenario>, String> {
    played::load(folder, |it: &Written| it.name.clone(), read)
}
