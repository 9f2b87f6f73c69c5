//! Scenarios in few words, played side by side on one plane: the embedded server, or a real one with an installed operator;
//! or each on a simulated plane of its own ([`simulated`](crate::simulated)).
//!
//! Scenarios are made of the steps of [`lives`](crate::lives). Who writes them has words of its own for most of these
//! steps, and says here what the words stand for.
//!
//! # Invariants
//!
//! - Each scenario has a namespace of its own; what belongs to no namespace carries the name of that one.

mod planes;

use std::path::Path;

use muster_tree::{Tree, from_tree};
use serde::de::DeserializeOwned;

pub use planes::Playground;

use crate::control_plane::ControlPlane;
use crate::documents;
use crate::jobsets::Place;
use crate::lives::Happening;
use crate::lives::act::Stage;
use crate::lives::objects::Subject;

/// Where a scenario may be played.
#[derive(Debug, Clone, Default)]
pub struct Header {
    /// What it shows, as a sentence.
    pub name: String,
    /// The only plane that has what it needs; all when absent.
    pub place: Option<Place>,
    /// Why it is played on one plane alone, if it is.
    pub because: String,
}

/// What happens, and what is to be seen of it. `{ns}` stands for the namespace of the scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The file it stands in, without number and extension.
    pub file: String,
    /// What it shows, as a sentence.
    pub name: String,
    /// Why it is played on one plane alone, if it is.
    pub because: String,
    place: Option<Place>,
    objects: Vec<Tree>,
    /// What happens, in order.
    pub steps: Vec<Happening>,
}

impl Scenario {
    /// A scenario whose objects are created first, and whose steps are what `word` says of each.
    ///
    /// # Errors
    /// A step that means nothing.
    pub fn read(
        header: Header,
        objects: Vec<Tree>,
        steps: &[Tree],
        word: impl Fn(&Tree) -> Result<Vec<Tree>, String>,
    ) -> Result<Scenario, String> {
        let Header { name, place, because } = header;
        if place.is_some() == because.is_empty() {
            return Err("`where` and `because` come together".to_owned());
        }
        let mut all = Vec::new();
        for short in steps {
            for step in word(short)? {
                all.push(from_tree(&step).map_err(|e| format!("{e}, in {}", step.to_json()))?);
            }
        }
        Ok(Scenario { file: String::new(), name, because, place, objects, steps: all })
    }

    /// Whether it is played there.
    #[must_use]
    pub fn is_for(&self, place: Place) -> bool {
        place.plays(self.place)
    }

    /// What is created first.
    #[must_use]
    pub fn objects(&self) -> &[Tree] {
        &self.objects
    }
}

/// Reads all scenarios of a folder, in order of file names. A file is a stream of YAML documents, one scenario each.
///
/// # Errors
/// What does not fit, with the name of its scenario.
pub fn load<T: DeserializeOwned>(
    folder: &Path,
    name: impl Fn(&T) -> String,
    read: impl Fn(T) -> Result<Scenario, String>,
) -> Result<Vec<Scenario>, String> {
    let named = |(file, written): (String, T)| {
        let name = name(&written);
        let scenario = read(written).map_err(|why| format!("{name:?}: {why}"))?;
        Ok(Scenario { file, ..scenario })
    };
    documents::load_with_files(folder)?.into_iter().map(named).collect()
}

/// Whom scenarios are about, and how the names of their namespaces begin.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    /// The object that steps are about which name none.
    pub subject: Subject,
    /// How the names of namespaces begin.
    pub space: &'static str,
}

/// Plays a scenario in this namespace, which may be there already.
pub(crate) fn play(
    plane: &dyn ControlPlane,
    theme: Theme,
    scenario: &Scenario,
    namespace: &str,
) -> Result<(), String> {
    let stage = Stage::new(plane, namespace, theme.subject)?;
    stage.play(scenario.objects(), &scenario.steps)
}

/// What scenarios are not played on a real plane, with the reasons.
#[must_use]
pub fn left_out(scenarios: &[Scenario]) -> Vec<String> {
    let absent = scenarios.iter().filter(|it| !it.is_for(Place::Real));
    absent.map(|it| format!("{:?}: {}", it.name, it.because)).collect()
}
