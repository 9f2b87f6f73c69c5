use std::path::Path;

use muster_tree::{Tree, tree};
use serde::Deserialize;

use super::patch;
use super::rng::SeededRng;
use super::shape::ValueShape;
use crate::differential::{RequestScenario, RequestStep};
use crate::yaml_documents;

/// Requests of a sequence, without the create at the start and the read at the end.
const STEPS: usize = 14;
const MANAGERS: [&str; 3] = ["one", "two", "three"];
const NAME: &str = "x";

/// A kind to generate requests for, from `tests/random/*.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomKind {
    /// Path of the collection.
    pub path: String,
    pub base: Tree,
    /// Fields that may be set on create.
    pub create: ValueShape,
    /// Fields that may be changed later; the server rejects some changes.
    pub change: ValueShape,
    /// Fields of the status.
    #[serde(default)]
    pub status: Option<ValueShape>,
    /// CRD, if it is no built-in kind.
    #[serde(default)]
    pub definition: Option<Tree>,
}

/// Reads the kinds of a directory in file name order.
pub fn kinds(folder: &Path) -> Result<Vec<RandomKind>, String> {
    yaml_documents::load(folder)
}

impl RandomKind {
    #[must_use]
    pub fn name(&self) -> &str {
        self.base.str_at(&["kind"])
    }

    /// Generates the sequence of a seed.
    #[must_use]
    pub fn sequence(&self, seed: u64) -> RequestScenario {
        let mut rng = SeededRng::new(seed);
        let mut steps = vec![self.creation(&mut rng)];
        for _ in 0..STEPS {
            steps.push(self.request(&mut rng));
        }
        steps.push(step("GET", &self.object(), "", None));
        RequestScenario {
            name: format!("random {} of seed {seed}", self.name()),
            steps,
            ..RequestScenario::default()
        }
    }

    /// Adds the steps that create and delete the CRD, if the kind has one.
    #[must_use]
    pub fn self_contained(&self, scenario: &RequestScenario) -> RequestScenario {
        let Some(definition) = &self.definition else { return scenario.clone() };
        let (crds, name) = (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition.str_at(&["metadata", "name"]),
        );
        let mut all = self.definition_steps();
        all.extend(scenario.steps.iter().cloned());
        all.push(RequestStep { code_only: true, ..step("DELETE", &format!("{crds}/{name}"), "", None) });
        all.push(RequestStep { until: Some(404), ..step("GET", &self.path, "", None) });
        RequestScenario { steps: all, ..scenario.clone() }
    }

    /// Returns the requests that create the CRD and wait until it is served.
    #[must_use]
    pub fn definition_steps(&self) -> Vec<RequestStep> {
        let Some(definition) = &self.definition else { return Vec::new() };
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let make = step("POST", crds, "", Some(definition.clone()));
        let served = RequestStep { until: Some(200), ..step("GET", &self.path, "", None) };
        vec![RequestStep { code_only: true, ..make }, RequestStep { code_only: true, ..served }]
    }

    fn object(&self) -> String {
        format!("{}/{NAME}", self.path)
    }

    fn identity(&self) -> Tree {
        let (version, kind) = (self.base.str_at(&["apiVersion"]), self.name());
        tree!({"apiVersion": version, "kind": kind, "metadata": {"name": NAME}})
    }

    /// Generates a complete object: the base merged with a value of the shape.
    fn whole(&self, shape: &ValueShape, rng: &mut SeededRng) -> Tree {
        self.base.merge(&shape.value(rng)).merge(&self.identity())
    }

    fn creation(&self, rng: &mut SeededRng) -> RequestStep {
        let body = self.whole(&self.create, rng);
        if rng.percent(35) {
            let call = format!("{}?{}", self.object(), applying(rng));
            return step("PATCH", &call, "apply", Some(body));
        }
        step("POST", &format!("{}?{}", self.path, writing(rng)), "", Some(body))
    }

    fn request(&self, rng: &mut SeededRng) -> RequestStep {
        match rng.below(100) {
            // With the default policy a Job waits for the garbage collector, and either server's may be faster.
            0..4 => step("DELETE", &format!("{}?propagationPolicy=Background", self.object()), "", None),
            4..12 => self.creation(rng),
            12..20 => {
                let body = self.whole(self.any(rng), rng);
                step("PUT", &format!("{}?{}", self.object(), writing(rng)), "", Some(body))
            }
            20..34 => match &self.status {
                Some(shape) => self.status_request(&tree_of_status(shape), rng),
                None => self.patch(&self.object(), self.any(rng), rng),
            },
            34..62 => self.apply(self.any(rng), rng),
            _ => self.patch(&self.object(), self.any(rng), rng),
        }
    }

    /// Mostly mutable fields; sometimes any, which the server rejects.
    fn any(&self, rng: &mut SeededRng) -> &ValueShape {
        if rng.percent(20) { &self.create } else { &self.change }
    }

    fn apply(&self, shape: &ValueShape, rng: &mut SeededRng) -> RequestStep {
        let body =
            if rng.percent(35) { self.whole(shape, rng) } else { shape.value(rng).merge(&self.identity()) };
        step("PATCH", &format!("{}?{}", self.object(), applying(rng)), "apply", Some(body))
    }

    fn status_request(&self, shape: &ValueShape, rng: &mut SeededRng) -> RequestStep {
        let path = format!("{}/status", self.object());
        if rng.percent(40) {
            let body = shape.value(rng).merge(&self.identity());
            return step("PATCH", &format!("{path}?{}", applying(rng)), "apply", Some(body));
        }
        self.patch(&path, shape, rng)
    }

    fn patch(&self, path: &str, shape: &ValueShape, rng: &mut SeededRng) -> RequestStep {
        // Custom resources have no strategic merge patch, so few requests try it.
        let strategic = if self.definition.is_some() { 3 } else { 45 };
        let (kind, body) = match rng.below(100) {
            n if n < strategic => ("strategic", patch::strategic(shape, rng)),
            n if n < 75 => ("merge", patch::merge(shape, rng)),
            _ => ("jsonpatch", patch::json(shape, rng)),
        };
        step("PATCH", &format!("{path}?{}", writing(rng)), kind, Some(body))
    }
}

fn tree_of_status(shape: &ValueShape) -> ValueShape {
    ValueShape::Fields([("status".to_owned(), shape.clone())].into())
}

fn step(method: &str, path: &str, kind: &str, body: Option<Tree>) -> RequestStep {
    RequestStep { call: format!("{method} {path}"), kind: kind.to_owned(), body, ..RequestStep::default() }
}

/// Query of a write other than apply.
fn writing(rng: &mut SeededRng) -> String {
    let rare = match rng.below(100) {
        0..6 => "&dryRun=All",
        6..12 => "&fieldValidation=Strict",
        _ => "",
    };
    format!("fieldManager={}{rare}", rng.pick(&MANAGERS))
}

fn applying(rng: &mut SeededRng) -> String {
    let force = if rng.percent(40) { "&force=true" } else { "" };
    format!("{}{force}", writing(rng))
}
