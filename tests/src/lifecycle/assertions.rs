//! Evaluates the assertions of steps once.

use std::time::Duration;

use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::namespace_snapshot::without_clocks;
use super::objects::{self, ResourceKind};
use super::scenario::{ExactValue, ExpectedEvent, MinimumInterval, RememberedObject, ScenarioStep};
use super::scenario_run::{ScenarioRun, has_at_least};
use crate::differential::HttpAnswer;

/// Kinds whose events come from their own controllers.
const SET: &str = "JobSet";
const TRAINING: &str = "TrainJob";

/// Metadata that explains why an object still exists.
const LIFECYCLE: [&str; 4] = ["deletionTimestamp", "finalizers", "ownerReferences", "generation"];

/// `Err` is the observed state while the assertion does not hold.
pub type PollOutcome = Result<(), String>;

impl ScenarioRun<'_> {
    /// Evaluates a step; `None` for a step that is no assertion. The outer error is a failed request or an invalid step.
    pub(super) fn poll(&self, step: &ScenarioStep) -> Result<Option<PollOutcome>, String> {
        let look = match step {
            ScenarioStep::Until(step) => {
                let (path, has) = self.target(step, "has")?;
                self.object(&path, |answer| answer.code == 200 && has_at_least(&answer.body, &has))?
            }
            ScenarioStep::Gone(step) => {
                self.object(&self.target(step, "")?.0, |answer| answer.code == 404)?
            }
            ScenarioStep::Pods { count, has } => self.counted("Pod", *count, has)?,
            ScenarioStep::Count { kind, count, has } => self.counted(kind, *count, has)?,
            ScenarioStep::Exact(exact) => self.exact(exact)?,
            ScenarioStep::Apart(apart) => self.apart(apart)?,
            ScenarioStep::Event(expected) => self.event(expected)?,
            ScenarioStep::Same(known) => self.remembered_object(known, |(uid, _), is| uid == is.0)?,
            ScenarioStep::Renewed(known) => self.remembered_object(known, |(uid, _), is| uid != is.0)?,
            ScenarioStep::Untouched(known) => {
                self.remembered_object(known, |was, is| was.0 == is.0 && was.1 == is.1)?
            }
            _ => return Ok(None),
        };
        Ok(Some(look))
    }

    fn object(&self, path: &str, good: impl Fn(&HttpAnswer) -> bool) -> Result<PollOutcome, String> {
        let answer = self.plane.get(path)?;
        if good(&answer) {
            return Ok(Ok(()));
        }
        Ok(Err(summary(&answer).to_json()))
    }

    fn counted(&self, kind: &str, count: usize, has: &Tree) -> Result<PollOutcome, String> {
        let has = objects::with_namespace(has, self.namespace);
        let all = self.plane.get(&ResourceKind::of(kind)?.path(self.namespace))?.body;
        let those: Vec<&Tree> = all.items_at(&["items"]).iter().filter(|it| has_at_least(it, &has)).collect();
        if those.len() == count {
            return Ok(Ok(()));
        }
        let named = |all: &[&Tree]| -> Vec<String> {
            all.iter().map(|it| it.str_at(&["metadata", "name"]).to_owned()).collect()
        };
        let all: Vec<&Tree> = all.items_at(&["items"]).iter().collect();
        Ok(Err(format!("{:?} of {:?}", named(&those), named(&all))))
    }

    fn exact(&self, exact: &ExactValue) -> Result<PollOutcome, String> {
        let body = self.plane.get(&self.path_of(&exact.kind, &exact.name)?)?.body;
        let there = value_at(&body, &exact.at).map(without_clocks).unwrap_or_default();
        Ok(if there == self.filled(&exact.is) { Ok(()) } else { Err(there.to_json()) })
    }

    /// Compares whole seconds, as timestamps on the wire have them.
    fn apart(&self, apart: &MinimumInterval) -> Result<PollOutcome, String> {
        let body = self.plane.get(&self.path_of(&apart.kind, &apart.name)?)?.body;
        let [from, to] = [&apart.from, &apart.to].map(|at| Time::of(value_at(&body, at)));
        let (Some(from), Some(to)) = (from, to) else { return Ok(Err(body.to_json())) };
        let least = from + Duration::from_secs(apart.seconds.unsigned_abs());
        if to < least {
            return Err(format!("{to:?} is less than {} seconds after {from:?}", apart.seconds));
        }
        Ok(Ok(()))
    }

    /// Lists events with the field selectors that clients use.
    fn event(&self, expected: &ExpectedEvent) -> Result<PollOutcome, String> {
        let kind = if expected.kind.is_empty() { self.subject.0 } else { &expected.kind };
        let named = self.filled(&Tree::from(expected.name.as_str()));
        let name = match named.as_str() {
            Some("") | None => self.subject.1.to_owned(),
            Some(name) => self.resolve_name(kind, name)?,
        };
        let selector =
            format!("regarding.kind%3D{kind},regarding.name%3D{name},reason%3D{}", expected.reason);
        let path =
            format!("/apis/events.k8s.io/v1/namespaces/{}/events?fieldSelector={selector}", self.namespace);
        let all = self.plane.get(&path)?.body;
        let fill = |text: &str| text.replace("{ns}", self.namespace);
        let good = |event: &&Tree| {
            let note = event.str_at(&["note"]);
            (expected.class.is_empty() || expected.class == event.str_at(&["type"]))
                && (expected.note.is_empty() || fill(&expected.note) == note)
                && expected.says.iter().all(|words| note.contains(&fill(words)))
                && is_by_the_controller(self.subject.0, event)
        };
        let good = all.items_at(&["items"]).iter().filter(good);
        let times: i64 = good.map(|event| event.int_at(&["series", "count"]).unwrap_or(1)).sum();
        let enough = expected.times.map_or(times > 0, |wanted| wanted == times);
        Ok(if enough { Ok(()) } else { Err(format!("the event exists {times} times: {}", all.to_json())) })
    }

    fn remembered_object(
        &self,
        known: &RememberedObject,
        fits: impl Fn(&(String, String), (&str, &str)) -> bool,
    ) -> Result<PollOutcome, String> {
        let was = self.remembered.borrow().get(&known.r#as).cloned();
        let was = was.ok_or_else(|| format!("nothing is remembered as {:?}", known.r#as))?;
        let body = self.plane.get(&self.path_of(&known.kind, &known.name)?)?.body;
        let is = (body.str_at(&["metadata", "uid"]), body.str_at(&["metadata", "resourceVersion"]));
        let good = !is.0.is_empty() && fits(&was, is);
        Ok(if good { Ok(()) } else { Err(body.to_json()) })
    }
}

/// Returns the value at a path of an object.
fn value_at<'a>(body: &'a Tree, at: &[Tree]) -> Option<&'a Tree> {
    at.iter().try_fold(body, |tree, key| match key {
        Tree::Int(n) => usize::try_from(*n).ok().and_then(|n| tree.items().get(n)),
        key if tree.is_list() => {
            let is_it = |item: &&Tree| ["name", "type"].iter().any(|field| item.get(field) == Some(key));
            tree.items().iter().find(is_it)
        }
        key => tree.get(key.as_str().unwrap_or_default()),
    })
}

/// Events about JobSets and TrainJobs come from their controllers; in all other dialects they come from queueing controllers.
fn is_by_the_controller(subject: &str, event: &Tree) -> bool {
    let is = |key: &str| event.str_at(&[key]);
    match subject {
        SET => is("action") == "Reconciling" && is("reportingController") == "jobset",
        TRAINING => {
            is("action") == "Reconciling" && is("reportingController") == "trainer-trainjob-controller"
        }
        _ => is("reportingController").starts_with("kueue-"),
    }
}

/// Reduces an object to its status and lifecycle metadata; returns any other answer whole.
fn summary(answer: &HttpAnswer) -> Tree {
    if answer.code != 200 {
        return answer.body.clone();
    }
    let metadata =
        LIFECYCLE.iter().filter_map(|key| Some((*key, answer.body.at(&["metadata", key])?.clone())));
    let metadata = Tree::map(metadata);
    tree!({"metadata": metadata, "status": answer.body.at(&["status"]).cloned().unwrap_or_default()})
}
