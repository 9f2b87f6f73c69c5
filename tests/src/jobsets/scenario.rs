//! Scenarios of JobSets as they stand in the YAML files.

use std::path::Path;

use muster_tree::{Tree, tree};
use serde::Deserialize;

use crate::documents;
use crate::lives::Happening;
use crate::lives::objects::{Scope, Sort, Subject};

/// The object that steps are about which name none.
pub const SUBJECT: Subject = ("JobSet", "js");

/// A JobSet, what is there before it, and what happens. `{ns}` stands for the namespace of the scenario in every text:
/// what has no namespace carries it in its name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file it stands in, without number and extension.
    #[serde(skip)]
    pub file: String,
    /// What it shows, as a sentence.
    pub name: String,
    /// The ids of `docs/requirements` that it shows; `cargo xtask requirements` reads them.
    #[serde(default)]
    pub shows: Vec<String>,
    /// The feature gates it needs.
    #[serde(default)]
    pub gates: Gates,
    /// The only plane that has what it needs; all when absent.
    #[serde(default, rename = "where")]
    pub place: Option<Place>,
    /// Why it is played there alone, if it is.
    #[serde(default)]
    pub because: String,
    /// Why what is left differs by chance and is not compared, if it does.
    #[serde(default)]
    pub chance: String,
    /// So many devices that all nodes reach, of the class `gpu-{ns}`.
    #[serde(default)]
    pub devices: usize,
    /// Manifests that are created first.
    #[serde(default)]
    pub objects: Vec<Tree>,
    /// The JobSet `js`, in few words; none when absent.
    #[serde(default)]
    pub set: Tree,
    /// What happens, in order.
    #[serde(default)]
    pub steps: Vec<Happening>,
}

/// Which gates are on: every plane has one of these sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gates {
    /// As they are when nobody sets any.
    #[default]
    Default,
    /// All of them, those of unfinished features included.
    All,
    /// All but the one of claim templates.
    Claimless,
}

impl Gates {
    /// All sets.
    pub const ALL: [Gates; 3] = [Gates::Default, Gates::All, Gates::Claimless];

    /// The value of `--feature-gates`.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Gates::Default => "",
            Gates::All => "InPlaceRestart=true,RestartJob=true,ElasticJobSet=true",
            Gates::Claimless => {
                "InPlaceRestart=true,RestartJob=true,ElasticJobSet=true,JobSetResourceClaimTemplates=false"
            }
        }
    }
}

/// A plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// `muster up`.
    Embedded,
    /// A real API server with its controllers, `muster node` and `muster operator`.
    Real,
    /// The parts of `muster up` in the simulator, under a virtual clock.
    Simulated,
}

impl Place {
    /// Whether a scenario is played here that names its only plane, or none. What the embedded server can play the simulated
    /// one can play as well.
    #[must_use]
    pub fn plays(self, only: Option<Place>) -> bool {
        match (self, only) {
            (Place::Simulated, Some(Place::Embedded)) => true,
            (_, only) => only.is_none_or(|only| only == self),
        }
    }
}

impl Scenario {
    /// Whether it is played there.
    #[must_use]
    pub fn is_for(&self, place: Place) -> bool {
        place.plays(self.place)
    }

    /// The scenario as it is played a second time on the same plane: what belongs to no namespace and is not named after
    /// one is still there.
    #[must_use]
    pub fn once_more(&self) -> Scenario {
        let stays = |object: &&Tree| {
            let sort = Sort::of(object.str_at(&["kind"]));
            let shared = sort.is_ok_and(|sort| sort.scope == Scope::Cluster);
            !shared || object.str_at(&["metadata", "name"]).contains("{ns}")
        };
        Scenario { objects: self.objects.iter().filter(stays).cloned().collect(), ..self.clone() }
    }

    /// What is created first, the JobSet last.
    #[must_use]
    pub fn objects(&self) -> Vec<Tree> {
        let set = self.set.is_map().then(|| tree!({"kind": "JobSet"}).merge(&self.set));
        devices(self.devices).into_iter().chain(self.objects.iter().cloned()).chain(set).collect()
    }
}

/// So many devices that all nodes reach, of the class `gpu-{ns}`.
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

/// Reads all scenarios of a folder, in order of file names. A file is a stream of YAML documents, one scenario each.
pub fn load(folder: &Path) -> Result<Vec<Scenario>, String> {
    let all = documents::load_with_files(folder)?;
    let all: Vec<Scenario> = all.into_iter().map(|(file, it)| Scenario { file, ..it }).collect();
    match all.iter().find(|it| it.place.is_some() == it.because.is_empty()) {
        Some(odd) => Err(format!("{:?}: `where` and `because` come together", odd.name)),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_made_once() {
        let text = "name: any\nobjects: [{kind: StorageClass, metadata: {name: nfs}}, {kind: StorageClass, metadata: {name: 'c-{ns}'}}, \
            {kind: Pod, metadata: {name: p}}]";
        let scenario: Scenario = muster_tree::from_tree(&Tree::parse_yaml(text).unwrap()).unwrap();
        let again = scenario.once_more().objects();
        let names: Vec<&str> = again.iter().map(|it| it.str_at(&["metadata", "name"])).collect();
        assert_eq!(names, ["c-{ns}", "p"]);
    }

    #[test]
    fn what_the_embedded_server_plays_is_simulated_as_well() {
        let all = [Place::Embedded, Place::Real, Place::Simulated];
        for (only, played) in [
            (None, [true, true, true]),
            (Some(Place::Embedded), [true, false, true]),
            (Some(Place::Real), [false, true, false]),
            (Some(Place::Simulated), [false, false, true]),
        ] {
            assert_eq!(all.map(|place| place.plays(only)), played, "{only:?}");
        }
    }

    #[test]
    fn the_jobset_is_made_last() {
        let text = "name: any\ndevices: 2\nobjects: [{kind: Pod}]\nset: {jobs: []}\nwhere: real\nbecause: a reason\ngates: all";
        let scenario: Scenario = muster_tree::from_tree(&Tree::parse_yaml(text).unwrap()).unwrap();
        let objects = scenario.objects();
        let kinds: Vec<&str> = objects.iter().map(|it| it.str_at(&["kind"])).collect();
        assert_eq!(kinds, ["DeviceClass", "ResourceSlice", "Pod", "JobSet"]);
        assert!(scenario.is_for(Place::Real) && !scenario.is_for(Place::Embedded));
        assert!(!scenario.is_for(Place::Simulated));
        assert_eq!(scenario.gates, Gates::All);
    }
}
