//! Deserialises `tests/trains/*.yaml`.

use std::path::Path;

use muster_tree::{Tree, from_tree};
use serde::Deserialize;

use super::shorthand;
use crate::jobsets::Environment;
use crate::jobsets::scenario::devices;
use crate::scenario_runner::{self, ScenarioHeader, StepScenario};

/// Value of `runtime` for no runtime.
const NONE: &str = "none";

/// A scenario as written.
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
    /// Number of devices reachable from all nodes, of the DeviceClass `gpu-{ns}`.
    #[serde(default)]
    devices: usize,
    /// Manifests to create after the devices.
    #[serde(default)]
    objects: Vec<Tree>,
    /// The TrainingRuntime `r`, or the ClusterTrainingRuntime `{ns}`; a minimal one when absent.
    #[serde(default)]
    runtime: Tree,
    #[serde(default)]
    job: Tree,
    /// Steps, in shorthand or in full.
    steps: Vec<Tree>,
}

fn read(written: Written) -> Result<StepScenario, String> {
    let runtime = match &written.runtime {
        Tree::Text(word) if word == NONE => None,
        Tree::Null => Some(shorthand::runtime(&Tree::empty_map())?),
        said => Some(shorthand::runtime(said)?),
    };
    let job = if written.job.is_map() { Some(shorthand::train_job(&written.job)?) } else { None };
    let Written { name, because, place, steps, objects, .. } = written;
    let all = devices(written.devices).into_iter().chain(objects).chain(runtime).chain(job);
    StepScenario::read(ScenarioHeader { name, place, because }, all.collect(), &steps, shorthand::step)
}

pub fn written(text: &str) -> Result<StepScenario, String> {
    let tree = Tree::parse_yaml(text).map_err(|e| e.to_string())?;
    read(from_tree(&tree).map_err(|e| e.to_string())?)
}

pub fn load(folder: &Path) -> Result<Vec<StepScenario>, String> {
    scenario_runner::load(folder, |it: &Written| it.name.clone(), read)
}
