//! What a step waits for, looked at once.

use std::time::Duration;

use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::act::{Stage, has_at_least};
use super::life::{Apart, Exact, Happening, Known, Told};
use super::objects::{self, Sort};
use super::whole::without_clocks;
use crate::differential::Answer;

/// Kinds with controllers of their own.
const SET: &str = "JobSet";
const TRAINING: &str = "TrainJob";

/// Metadata that says why an object is still there.
const LIFECYCLE: [&str; 4] = ["deletionTimestamp", "finalizers", "ownerReferences", "generation"];

/// Whether it is so; what is there instead otherwise.
pub type Look = Result<(), String>;

impl Stage<'_> {
    /// Whether what a step waits for is so. `None` for a step that waits for nothing. The outer error is that of a
    /// server that does not answer, or of a step that means nothing.
    pub(super) fn look(&self, step: &Happening) -> Result<Option<Look>, String> {
        let look = match step {
            Happening::Until(step) => {
                let (path, has) = self.about(step, "has")?;
                self.one(&path, |answer| answer.code == 200 && has_at_least(&answer.body, &has))?
            }
            Happening::Gone(step) => self.one(&self.about(step, "")?.0, |answer| answer.code == 404)?,
            Happening::Pods { count, has } => self.counted("Pod", *count, has)?,
            Happening::Count { kind, count, has } => self.counted(kind, *count, has)?,
            Happening::Exact(exact) => self.exact(exact)?,
            Happening::Apart(apart) => self.apart(apart)?,
            Happening::Event(told) => self.told(told)?,
            Happening::Same(known) => self.known(known, |(uid, _), is| uid == is.0)?,
            Happening::Renewed(known) => self.known(known, |(uid, _), is| uid != is.0)?,
            Happening::Untouched(known) => self.known(known, |was, is| was.0 == is.0 && was.1 == is.1)?,
            _ => return Ok(None),
        };
        Ok(Some(look))
    }

    fn one(&self, path: &str, good: impl Fn(&Answer) -> bool) -> Result<Look, String> {
        let answer = self.plane.get(path)?;
        if good(&answer) {
            return Ok(Ok(()));
        }
        Ok(Err(summary(&answer).to_json()))
    }

    fn counted(&self, kind: &str, count: usize, has: &Tree) -> Result<Look, String> {
        let has = objects::filled(has, self.namespace);
        let all = self.plane.get(&Sort::of(kind)?.path(self.namespace))?.body;
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

    fn exact(&self, exact: &Exact) -> Result<Look, String> {
        let body = self.plane.get(&self.path_of(&exact.kind, &exact.name)?)?.body;
        let there = found(&body, &exact.at).map(without_clocks).unwrap_or_default();
        Ok(if there == self.filled(&exact.is) { Ok(()) } else { Err(there.to_json()) })
    }

    /// Times on the wire have whole seconds, of which decisions are made.
    fn apart(&self, apart: &Apart) -> Result<Look, String> {
        let body = self.plane.get(&self.path_of(&apart.kind, &apart.name)?)?.body;
        let [from, to] = [&apart.from, &apart.to].map(|at| Time::of(found(&body, at)));
        let (Some(from), Some(to)) = (from, to) else { return Ok(Err(body.to_json())) };
        let least = from + Duration::from_secs(apart.seconds.unsigned_abs());
        if to < least {
            return Err(format!("{to:?} is less than {} seconds after {from:?}", apart.seconds));
        }
        Ok(Ok(()))
    }

    /// Events are asked for with the selectors that clients use, of the object that the step is about.
    fn told(&self, told: &Told) -> Result<Look, String> {
        let kind = if told.kind.is_empty() { self.subject.0 } else { &told.kind };
        let named = self.filled(&Tree::from(told.name.as_str()));
        let name = match named.as_str() {
            Some("") | None => self.subject.1.to_owned(),
            Some(name) => self.meant(kind, name)?,
        };
        let selector = format!("regarding.kind%3D{kind},regarding.name%3D{name},reason%3D{}", told.reason);
        let path =
            format!("/apis/events.k8s.io/v1/namespaces/{}/events?fieldSelector={selector}", self.namespace);
        let all = self.plane.get(&path)?.body;
        let fill = |text: &str| text.replace("{ns}", self.namespace);
        let good = |event: &&Tree| {
            let note = event.str_at(&["note"]);
            (told.class.is_empty() || told.class == event.str_at(&["type"]))
                && (told.note.is_empty() || fill(&told.note) == note)
                && told.says.iter().all(|words| note.contains(&fill(words)))
                && is_by_the_teller(self.subject.0, event)
        };
        let good = all.items_at(&["items"]).iter().filter(good);
        let times: i64 = good.map(|event| event.int_at(&["series", "count"]).unwrap_or(1)).sum();
        let enough = told.times.map_or(times > 0, |wanted| wanted == times);
        Ok(if enough { Ok(()) } else { Err(format!("told {times} times: {}", all.to_json())) })
    }

    fn known(
        &self,
        known: &Known,
        fits: impl Fn(&(String, String), (&str, &str)) -> bool,
    ) -> Result<Look, String> {
        let was = self.remembered.borrow().get(&known.r#as).cloned();
        let was = was.ok_or_else(|| format!("nothing is kept in mind as {:?}", known.r#as))?;
        let body = self.plane.get(&self.path_of(&known.kind, &known.name)?)?.body;
        let is = (body.str_at(&["metadata", "uid"]), body.str_at(&["metadata", "resourceVersion"]));
        let good = !is.0.is_empty() && fits(&was, is);
        Ok(if good { Ok(()) } else { Err(body.to_json()) })
    }
}

/// What is at a place of an object.
fn found<'a>(body: &'a Tree, at: &[Tree]) -> Option<&'a Tree> {
    at.iter().try_fold(body, |tree, key| match key {
        Tree::Int(n) => usize::try_from(*n).ok().and_then(|n| tree.items().get(n)),
        key if tree.is_list() => {
            let is_it = |item: &&Tree| ["name", "type"].iter().any(|field| item.get(field) == Some(key));
            tree.items().iter().find(is_it)
        }
        key => tree.get(key.as_str().unwrap_or_default()),
    })
}

/// JobSets and TrainJobs have tellers of their own; where scenarios are about anything else, queues tell, of JobSets too.
fn is_by_the_teller(subject: &str, event: &Tree) -> bool {
    let is = |key: &str| event.str_at(&[key]);
    match subject {
        SET => is("action") == "Reconciling" && is("reportingController") == "jobset",
        TRAINING => {
            is("action") == "Reconciling" && is("reportingController") == "trainer-trainjob-controller"
        }
        _ => is("reportingController").starts_with("kueue-"),
    }
}

/// The status of an object and the metadata that says why it is still there; any other answer whole.
fn summary(answer: &Answer) -> Tree {
    if answer.code != 200 {
        return answer.body.clone();
    }
    let metadata =
        LIFECYCLE.iter().filter_map(|key| Some((*key, answer.body.at(&["metadata", key])?.clone())));
    let metadata = Tree::map(metadata);
    tree!({"metadata": metadata, "status": answer.body.at(&["status"]).cloned().unwrap_or_default()})
}
