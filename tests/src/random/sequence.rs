//! Random sequences of requests on one object of one kind.

use std::path::Path;

use muster_tree::{Tree, tree};
use serde::Deserialize;

use super::chance::Chance;
use super::patch;
use super::shape::Shape;
use crate::differential::{Scenario, Step};
use crate::documents;

/// How many requests a sequence has, besides the one that creates and the one that reads at the end.
const STEPS: usize = 14;
/// Who writes.
const MANAGERS: [&str; 3] = ["one", "two", "three"];
/// The object's name.
const NAME: &str = "x";

/// A kind to draw requests for, as it stands in `tests/random/*.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// The path of its collection.
    pub path: String,
    /// The smallest object that is accepted.
    pub base: Tree,
    /// What may be set when it is created.
    pub create: Shape,
    /// What may be changed later; some of it is refused.
    pub change: Shape,
    /// What may be set in its status.
    #[serde(default)]
    pub status: Option<Shape>,
    /// Its CRD, where it is no built-in kind.
    #[serde(default)]
    pub definition: Option<Tree>,
}

/// Reads the kinds of a folder, in order of file names.
pub fn kinds(folder: &Path) -> Result<Vec<Kind>, String> {
    documents::load(folder)
}

impl Kind {
    /// The kind's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.base.str_at(&["kind"])
    }

    /// The sequence of a seed.
    #[must_use]
    pub fn sequence(&self, seed: u64) -> Scenario {
        let mut chance = Chance::new(seed);
        let mut steps = vec![self.creation(&mut chance)];
        for _ in 0..STEPS {
            steps.push(self.request(&mut chance));
        }
        steps.push(step("GET", &self.object(), "", None));
        Scenario { name: format!("random {} of seed {seed}", self.name()), steps, ..Scenario::default() }
    }

    /// A scenario that can stand alone: with the CRD, where the kind needs one.
    #[must_use]
    pub fn standing_alone(&self, scenario: &Scenario) -> Scenario {
        let Some(definition) = &self.definition else { return scenario.clone() };
        let (crds, name) = (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition.str_at(&["metadata", "name"]),
        );
        let mut all = self.definition_steps();
        all.extend(scenario.steps.iter().cloned());
        all.push(Step { code_only: true, ..step("DELETE", &format!("{crds}/{name}"), "", None) });
        all.push(Step { until: Some(404), ..step("GET", &self.path, "", None) });
        Scenario { steps: all, ..scenario.clone() }
    }

    /// The requests that make the kind known to a server.
    #[must_use]
    pub fn definition_steps(&self) -> Vec<Step> {
        let Some(definition) = &self.definition else { return Vec::new() };
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let make = step("POST", crds, "", Some(definition.clone()));
        let served = Step { until: Some(200), ..step("GET", &self.path, "", None) };
        vec![Step { code_only: true, ..make }, Step { code_only: true, ..served }]
    }

    fn object(&self) -> String {
        format!("{}/{NAME}", self.path)
    }

    fn identity(&self) -> Tree {
        let (version, kind) = (self.base.str_at(&["apiVersion"]), self.name());
        tree!({"apiVersion": version, "kind": kind, "metadata": {"name": NAME}})
    }

    /// A whole object: the base and what the shape adds to it.
    fn whole(&self, shape: &Shape, chance: &mut Chance) -> Tree {
        self.base.merge(&shape.value(chance)).merge(&self.identity())
    }

    fn creation(&self, chance: &mut Chance) -> Step {
        let body = self.whole(&self.create, chance);
        if chance.percent(35) {
            let call = format!("{}?{}", self.object(), applying(chance));
            return step("PATCH", &call, "apply", Some(body));
        }
        step("POST", &format!("{}?{}", self.path, writing(chance)), "", Some(body))
    }

    fn request(&self, chance: &mut Chance) -> Step {
        match chance.below(100) {
            // Said in full: by default a Job waits for its garbage collector, and either server's may be first.
            0..4 => step("DELETE", &format!("{}?propagationPolicy=Background", self.object()), "", None),
            4..12 => self.creation(chance),
            12..20 => {
                let body = self.whole(self.any(chance), chance);
                step("PUT", &format!("{}?{}", self.object(), writing(chance)), "", Some(body))
            }
            20..34 => match &self.status {
                Some(shape) => self.status_request(&tree_of_status(shape), chance),
                None => self.patch(&self.object(), self.any(chance), chance),
            },
            34..62 => self.apply(self.any(chance), chance),
            _ => self.patch(&self.object(), self.any(chance), chance),
        }
    }

    /// Mostly what may change; now and then anything, which then is refused.
    fn any(&self, chance: &mut Chance) -> &Shape {
        if chance.percent(20) { &self.create } else { &self.change }
    }

    fn apply(&self, shape: &Shape, chance: &mut Chance) -> Step {
        let body = if chance.percent(35) {
            self.whole(shape, chance)
        } else {
            shape.value(chance).merge(&self.identity())
        };
        step("PATCH", &format!("{}?{}", self.object(), applying(chance)), "apply", Some(body))
    }

    fn status_request(&self, shape: &Shape, chance: &mut Chance) -> Step {
        let path = format!("{}/status", self.object());
        if chance.percent(40) {
            let body = shape.value(chance).merge(&self.identity());
            return step("PATCH", &format!("{path}?{}", applying(chance)), "apply", Some(body));
        }
        self.patch(&path, shape, chance)
    }

    fn patch(&self, path: &str, shape: &Shape, chance: &mut Chance) -> Step {
        // Custom resources have no strategic patch: one refusal now and then is enough.
        let strategic = if self.definition.is_some() { 3 } else { 45 };
        let (kind, body) = match chance.below(100) {
            n if n < strategic => ("strategic", patch::strategic(shape, chance)),
            n if n < 75 => ("merge", patch::merge(shape, chance)),
            _ => ("jsonpatch", patch::json(shape, chance)),
        };
        step("PATCH", &format!("{path}?{}", writing(chance)), kind, Some(body))
    }
}

fn tree_of_status(shape: &Shape) -> Shape {
    Shape::Fields([("status".to_owned(), shape.clone())].into())
}

fn step(method: &str, path: &str, kind: &str, body: Option<Tree>) -> Step {
    Step { call: format!("{method} {path}"), kind: kind.to_owned(), body, ..Step::default() }
}

/// The query of a write that is no apply.
fn writing(chance: &mut Chance) -> String {
    let rare = match chance.below(100) {
        0..6 => "&dryRun=All",
        6..12 => "&fieldValidation=Strict",
        _ => "",
    };
    format!("fieldManager={}{rare}", chance.pick(&MANAGERS))
}

fn applying(chance: &mut Chance) -> String {
    let force = if chance.percent(40) { "&force=true" } else { "" };
    format!("{}{force}", writing(chance))
}
