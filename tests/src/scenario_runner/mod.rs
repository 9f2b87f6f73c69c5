//! Runs scenarios in shorthand, in parallel on one control plane: the embedded server, or a real one with an installed operator; or each
//! on a simulated control plane of its own ([`simulated`](crate::simulated)).
//!
//! Scenarios consist of the steps of [`lifecycle`](crate::lifecycle). A dialect has a shorthand for most of them and expands it here.
//!
//! # Invariants
//!
//! - Each scenario has a namespace of its own; cluster-scoped objects have the name of that namespace in theirs.

mod environment;

use std::path::Path;

use muster_tree::{Tree, from_tree};
use serde::de::DeserializeOwned;

pub use environment::ScenarioEnvironment;

use crate::control_plane::ControlPlane;
use crate::jobsets::Environment;
use crate::lifecycle::ScenarioStep;
use crate::lifecycle::objects::DefaultObject;
use crate::lifecycle::scenario_run::ScenarioRun;
use crate::yaml_documents;

/// Name and environment of a scenario.
#[derive(Debug, Clone, Default)]
pub struct ScenarioHeader {
    /// What it proves, as a sentence.
    pub name: String,
    /// The only environment that can run it; all when absent.
    pub place: Option<Environment>,
    /// Why only that environment can run it.
    pub because: String,
}

/// A scenario with expanded steps. `{ns}` is the namespace of the scenario.
#[derive(Debug, Clone)]
pub struct StepScenario {
    /// File name without number and extension.
    pub file: String,
    /// What it proves, as a sentence.
    pub name: String,
    /// Why only one environment can run it.
    pub because: String,
    place: Option<Environment>,
    objects: Vec<Tree>,
    /// Actions and assertions, in order.
    pub steps: Vec<ScenarioStep>,
}

impl StepScenario {
    /// Builds a scenario from objects and from steps that `word` expands.
    ///
    /// # Errors
    /// An invalid step.
    pub fn read(
        header: ScenarioHeader,
        objects: Vec<Tree>,
        steps: &[Tree],
        word: impl Fn(&Tree) -> Result<Vec<Tree>, String>,
    ) -> Result<StepScenario, String> {
        let ScenarioHeader { name, place, because } = header;
        if place.is_some() == because.is_empty() {
            return Err("`where` and `because` require each other".to_owned());
        }
        let mut all = Vec::new();
        for short in steps {
            for step in word(short)? {
                all.push(from_tree(&step).map_err(|e| format!("{e}, in {}", step.to_json()))?);
            }
        }
        Ok(StepScenario { file: String::new(), name, because, place, objects, steps: all })
    }

    /// Whether the scenario runs in this environment.
    #[must_use]
    pub fn is_for(&self, place: Environment) -> bool {
        place.runs_on(self.place)
    }

    /// Objects to create first.
    #[must_use]
    pub fn objects(&self) -> &[Tree] {
        &self.objects
    }
}

/// Reads all scenarios of a directory in file name order. A file is a stream of YAML documents, one scenario each.
///
/// # Errors
/// An invalid scenario, with its name.
pub fn load<T: DeserializeOwned>(
    folder: &Path,
    name: impl Fn(&T) -> String,
    read: impl Fn(T) -> Result<StepScenario, String>,
) -> Result<Vec<StepScenario>, String> {
    let named = |(file, written): (String, T)| {
        let name = name(&written);
        let scenario = read(written).map_err(|why| format!("{name:?}: {why}"))?;
        Ok(StepScenario { file, ..scenario })
    };
    yaml_documents::load_with_files(folder)?.into_iter().map(named).collect()
}

/// A scenario dialect: its default object and namespace prefix.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// Object on which steps act by default.
    pub subject: DefaultObject,
    /// Prefix of namespace names.
    pub space: &'static str,
}

/// Runs a scenario in this namespace, which may exist already.
pub(crate) fn run_scenario(
    plane: &dyn ControlPlane,
    theme: Dialect,
    scenario: &StepScenario,
    namespace: &str,
) -> Result<(), String> {
    let stage = ScenarioRun::new(plane, namespace, theme.subject)?;
    stage.run(scenario.objects(), &scenario.steps)
}

/// Returns the scenarios that do not run on a real server, with the reasons.
#[must_use]
pub fn skipped_on_real(scenarios: &[StepScenario]) -> Vec<String> {
    let absent = scenarios.iter().filter(|it| !it.is_for(Environment::Real));
    absent.map(|it| format!("{:?}: {}", it.name, it.because)).collect()
}
