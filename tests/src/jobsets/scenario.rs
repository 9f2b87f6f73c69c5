//! Deserialises `tests/jobsets/*.yaml`.

use std::path::Path;

use muster_tree::{Tree, tree};
use serde::Deserialize;

use crate::lifecycle::ScenarioStep;
use crate::lifecycle::objects::{DefaultObject, ResourceKind, ResourceScope};
use crate::yaml_documents;

/// Default object of steps.
pub const SUBJECT: DefaultObject = ("JobSet", "js");

/// A JobSet, the objects created before it, and steps. `{ns}` is the namespace of the scenario in every text; cluster-scoped objects
/// have it in their names.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSetScenario {
    /// File name without number and extension.
    #[serde(skip)]
    pub file: String,
    /// What it proves, as a sentence.
    pub name: String,
    /// Ids of `docs/requirements` that it covers; `cargo xtask requirements` reads them.
    #[serde(default)]
    pub shows: Vec<String>,
    #[serde(default)]
    pub gates: GateSet,
    /// The only environment that can run it; all when absent.
    #[serde(default, rename = "where")]
    pub place: Option<Environment>,
    /// Why only that environment can run it.
    #[serde(default)]
    pub because: String,
    /// Why the resulting objects are nondeterministic; they are not compared then.
    #[serde(default)]
    pub chance: String,
    /// Number of devices reachable from all nodes, of the DeviceClass `gpu-{ns}`.
    #[serde(default)]
    pub devices: usize,
    /// Objects created before the JobSet.
    #[serde(default)]
    pub objects: Vec<Tree>,
    /// The JobSet `js`, in shorthand; none when absent.
    #[serde(default)]
    pub set: Tree,
    #[serde(default)]
    pub steps: Vec<ScenarioStep>,
}

/// A set of feature gates; each environment runs with one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateSet {
    #[default]
    Default,
    /// All gates, including alpha features.
    All,
    /// All gates except that of resource claim templates.
    Claimless,
}

impl GateSet {
    pub const ALL: [GateSet; 3] = [GateSet::Default, GateSet::All, GateSet::Claimless];

    /// Returns the value of `--feature-gates`.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            GateSet::Default => "",
            GateSet::All => "InPlaceRestart=true,RestartJob=true,ElasticJobSet=true",
            GateSet::Claimless => {
                "InPlaceRestart=true,RestartJob=true,ElasticJobSet=true,JobSetResourceClaimTemplates=false"
            }
        }
    }
}

/// An environment that can run scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    Embedded,
    /// A real API server with its controllers, `muster node` and `muster operator`.
    Real,
    /// The components of `muster up` in the simulator, under a virtual clock.
    Simulated,
}

impl Environment {
    /// Whether a scenario with this restriction runs here. What the embedded server can run, the simulated one can run as well.
    #[must_use]
    pub fn runs_on(self, only: Option<Environment>) -> bool {
        match (self, only) {
            (Environment::Simulated, Some(Environment::Embedded)) => true,
            (_, only) => only.is_none_or(|only| only == self),
        }
    }
}

impl JobSetScenario {
    /// Whether the scenario runs in this environment.
    #[must_use]
    pub fn is_for(&self, place: Environment) -> bool {
        place.runs_on(self.place)
    }

    /// Returns the scenario for a second run on the same server: cluster-scoped objects without the namespace in their name exist already.
    #[must_use]
    pub fn for_rerun(&self) -> JobSetScenario {
        let stays = |object: &&Tree| {
            let sort = ResourceKind::of(object.str_at(&["kind"]));
            let shared = sort.is_ok_and(|sort| sort.scope == ResourceScope::Cluster);
            !shared || object.str_at(&["metadata", "name"]).contains("{ns}")
        };
        JobSetScenario { objects: self.objects.iter().filter(stays).cloned().collect(), ..self.clone() }
    }

    /// Returns the objects to create, the JobSet last.
    #[must_use]
    pub fn objects(&self) -> Vec<Tree> {
        let set = self.set.is_map().then(|| tree!({"kind": "JobSet"}).merge(&self.set));
        devices(self.devices).into_iter().chain(self.objects.iter().cloned()).chain(set).collect()
    }
}

/// Builds a DeviceClass and a ResourceSlice with `count` devices reachable from all nodes.
pub(crate) fn devices(count: usize) -> Vec<Tree> {
    if count == 0 {
        return Vec::new();
    }
    let driver = "{ns}.example.com";
    let expression = format!("device.driver == \"{driver}\"");
    let devices = (0..count).map(|n| tree!({"name": format!("gpu-{n}")})).collect::<Vec<_>>();
    let class = tree!({"kind": "DeviceClass", "metadata": {"name": "gpu-{ns}"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]}});
    let slice = tree!({"kind": "ResourceSlice", "metadata": {"name": "s-{ns}"}, "spec": {"driver": driver,
        "pool": {"name": "s-{ns}", "generation": 1, "resourceSliceCount": 1}, "allNodes": true,
        "devices": Tree::list(devices)}});
    vec![class, slice]
}

/// Reads all scenarios of a directory in file name order. A file is a stream of YAML documents, one scenario each.
pub fn load(folder: &Path) -> Result<Vec<JobSetScenario>, String> {
    let all = yaml_documents::load_with_files(folder)?;
    let all: Vec<JobSetScenario> = all.into_iter().map(|(file, it)| JobSetScenario { file, ..it }).collect();
    match all.iter().find(|it| it.place.is_some() == it.because.is_empty()) {
        Some(odd) => Err(format!("{:?}: `where` and `because` require each other", odd.name)),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_objects_are_created_once() {
        let text = "name: any\nobjects: [{kind: StorageClass, metadata: {name: nfs}}, {kind: StorageClass, metadata: {name: 'c-{ns}'}}, \
            {kind: Pod, metadata: {name: p}}]";
        let scenario: JobSetScenario = muster_tree::from_tree(&Tree::parse_yaml(text).unwrap()).unwrap();
        let again = scenario.for_rerun().objects();
        let names: Vec<&str> = again.iter().map(|it| it.str_at(&["metadata", "name"])).collect();
        assert_eq!(names, ["c-{ns}", "p"]);
    }

    #[test]
    fn embedded_scenarios_run_in_the_simulator_too() {
        let all = [Environment::Embedded, Environment::Real, Environment::Simulated];
        for (only, played) in [
            (None, [true, true, true]),
            (Some(Environment::Embedded), [true, false, true]),
            (Some(Environment::Real), [false, true, false]),
            (Some(Environment::Simulated), [false, false, true]),
        ] {
            assert_eq!(all.map(|place| place.runs_on(only)), played, "{only:?}");
        }
    }

    #[test]
    fn the_jobset_is_created_last() {
        let text = "name: any\ndevices: 2\nobjects: [{kind: Pod}]\nset: {jobs: []}\nwhere: real\nbecause: a reason\ngates: all";
        let scenario: JobSetScenario = muster_tree::from_tree(&Tree::parse_yaml(text).unwrap()).unwrap();
        let objects = scenario.objects();
        let kinds: Vec<&str> = objects.iter().map(|it| it.str_at(&["kind"])).collect();
        assert_eq!(kinds, ["DeviceClass", "ResourceSlice", "Pod", "JobSet"]);
        assert!(scenario.is_for(Environment::Real) && !scenario.is_for(Environment::Embedded));
        assert!(!scenario.is_for(Environment::Simulated));
        assert_eq!(scenario.gates, GateSet::All);
    }
}
