//! A simulated cluster with one TrainJob: reconciles and carries out the steps until none is left.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::meta;
use muster_api::time::Time;
use muster_api::train::{TrainJobFacts, owner_reference, snapshot_name};
use muster_trainer::build::{BuildError, BuiltObjects};
use muster_trainer::controller::{
    ChildLister, DeadlineClock, DesiredObjects, TrainJobSnapshot, TrainJobStep, reconcile, wants_objects,
};
use muster_tree::{Text, Tree, tree};

use super::lines;

/// Maximum number of reconciliations: more than any TrainJob needs to converge.
const PASSES_MAX: usize = 16;

/// When the controller crashes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    Never,
    /// The steps after a write are lost, and so is the memory of the controller.
    AfterEachWrite,
}

/// A cluster without any object.
pub struct NothingThere;

impl ChildLister for NothingThere {
    fn existing(&self, _: &Tree) -> Option<Tree> {
        None
    }

    fn last_applied(&self, _: &Tree) -> Option<Tree> {
        None
    }
}

type Place = (Text, Text);

fn place(object: &Tree) -> Place {
    (meta::kind_name(object), meta::name(object))
}

pub struct World {
    pub job: Option<Tree>,
    /// All other objects, by kind and name.
    objects: BTreeMap<Place, Tree>,
    /// The objects as last applied.
    applied: BTreeMap<Place, Tree>,
    runtime: Option<Tree>,
    clock: DeadlineClock,
    pub now: Time,
    /// Kinds of the objects that are built beside the JobSet.
    extra: Vec<Text>,
    /// The error of the build, if it fails.
    build: Option<String>,
    /// The step that is rejected, in the form of its line.
    refuse: Text,
    /// The number of writes so far.
    pub writes: u64,
    /// The number of JobSets created so far.
    sets: u32,
    lines: Vec<String>,
    told: BTreeSet<String>,
    pub again: Option<Time>,
}

impl ChildLister for World {
    fn existing(&self, object: &Tree) -> Option<Tree> {
        self.objects.get(&place(object)).cloned()
    }

    fn last_applied(&self, object: &Tree) -> Option<Tree> {
        self.applied.get(&place(object)).cloned()
    }
}

impl World {
    /// The cluster of a case: a TrainJob with a running JobSet, unless the case differs.
    pub fn of(case: &Tree) -> World {
        let base = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "train", "namespace": "ns", "uid": "u", "creationTimestamp": lines::at(0.0).to_seconds_text()},
            "spec": {"runtimeRef": {"name": "r"}}});
        let runtime = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
            "metadata": {"name": "r"}, "spec": {"mlPolicy": {"numNodes": 1}}});
        let mut world = World {
            job: Some(base),
            objects: BTreeMap::new(),
            applied: BTreeMap::new(),
            runtime: Some(runtime),
            clock: DeadlineClock::Auto,
            now: lines::at(0.0),
            extra: Vec::new(),
            build: None,
            refuse: Text::new(),
            writes: 0,
            sets: 0,
            lines: Vec::new(),
            told: BTreeSet::new(),
            again: None,
        };
        world.change("job", case.get("job").unwrap_or(&Tree::empty_map()));
        if case.get("new").is_none() {
            let job = world.facts().unwrap();
            let made = DesiredObjects::of(&job, None, world.runtime.as_ref(), |it| world.built(it)).unwrap();
            made.snapshot.iter().chain(&made.built.objects).for_each(|it| world.apply(it));
        }
        world.writes = 0;
        for (what, how) in case.entries().iter().filter(|(key, _)| *key != "job") {
            world.change(what, how);
        }
        world
    }

    /// Applies a change, and reconciles until no step is left.
    pub fn play(&mut self, step: &Tree, crash: Crash) -> Vec<String> {
        self.lines.clear();
        self.told.clear();
        self.change("at", step.get("at").unwrap_or(&Tree::Null));
        self.refuse = step.text_at(&["refuse"]);
        for (what, how) in step.entries_at(&["do"]) {
            self.change(what, how);
        }
        self.settle(crash);
        std::mem::take(&mut self.lines)
    }

    fn change(&mut self, what: &str, how: &Tree) {
        let set = || (Text::from("JobSet"), Text::from("train"));
        match (what, how) {
            ("at", how) => self.now = how.as_float().map_or(self.now, lines::at),
            ("clock", how) => self.clock = DeadlineClock::of(how.as_str().unwrap()).unwrap(),
            ("job", patch) => self.job = self.job.take().map(|it| it.merge(patch)),
            ("conditions", how) => {
                let all: Vec<Tree> = how.as_str().unwrap().lines().map(lines::condition).collect();
                self.change("job", &tree!({"status": {"conditions": Tree::list(all)}}));
            }
            ("jobs", how) => {
                let all: Vec<Tree> = how.items().iter().filter_map(Tree::as_str).map(lines::job).collect();
                self.patch_set(&tree!({"status": {"replicatedJobsStatus": Tree::list(all)}}));
            }
            ("ended", how) => {
                let end = lines::condition(how.as_str().unwrap());
                self.patch_set(&tree!({"status": {"conditions": [end]}}));
            }
            ("jobset", Tree::Null) => drop(self.objects.remove(&set())),
            ("jobset", patch) => self.patch_set(patch),
            ("runtime", Tree::Null) => self.runtime = None,
            ("runtime", patch) => self.runtime = self.runtime.take().map(|it| it.merge(patch)),
            ("snapshot", Tree::Null) => {
                drop(self.objects.remove(&(Text::from("ConfigMap"), snapshot_name("train"))));
            }
            ("snapshot", patch) => {
                let kept = self.objects.get_mut(&(Text::from("ConfigMap"), snapshot_name("train"))).unwrap();
                *kept = kept.merge(patch);
            }
            ("object", patch) => {
                let there = self.objects.get_mut(&place(patch)).unwrap();
                *there = there.merge(patch);
            }
            ("extra", how) => {
                self.extra = how.items().iter().filter_map(|it| it.as_text().cloned()).collect();
            }
            ("build", how) => self.build = how.as_str().map(str::to_owned),
            ("restart", _) => self.applied.clear(),
            ("says" | "new" | "want" | "steps" | "refuse" | "do", _) => {}
            (other, _) => panic!("what is {other}?"),
        }
    }

    fn patch_set(&mut self, patch: &Tree) {
        let set =
            self.objects.get_mut(&(Text::from("JobSet"), Text::from("train"))).expect("there is a JobSet");
        *set = set.merge(patch);
    }

    fn facts(&self) -> Option<TrainJobFacts> {
        self.job.as_ref().map(TrainJobFacts::of)
    }

    /// The stored objects, to compare two clusters.
    pub fn kept(&self) -> (Option<Tree>, BTreeMap<Place, Tree>) {
        (self.job.clone(), self.objects.clone())
    }

    /// A stub of the build: a JobSet that records the number of nodes and the patches.
    fn built(&self, runtime: &Tree) -> Result<BuiltObjects, BuildError> {
        if let Some(why) = &self.build {
            return Err(BuildError::new(why.as_str()));
        }
        let job = self.facts().unwrap();
        let labels = self.job.as_ref().unwrap().items_at(&["spec", "runtimePatches"]);
        let labels = labels.iter().map(|it| (it.text_at(&["manager"]), Tree::from("patched")));
        let metadata = tree!({"name": &job.name, "namespace": &job.namespace, "ownerReferences": [(owner_reference(&job))]});
        let beside = |kind: &Text| tree!({"kind": kind, "metadata": metadata.clone(), "spec": {"suspend": job.suspend}});
        let set = tree!({"kind": "JobSet", "metadata": metadata.with(&["labels"], Tree::map(labels)),
            "spec": {"suspend": job.suspend, "nodes": runtime.at(&["spec", "mlPolicy", "numNodes"]).cloned().unwrap_or_default()}});
        Ok(BuiltObjects { objects: self.extra.iter().map(beside).chain([set]).collect() })
    }

    /// Reconciles until no step is left.
    pub fn settle(&mut self, crash: Crash) {
        for _ in 0..PASSES_MAX {
            let steps = self.plan();
            self.again = steps.iter().find_map(|step| match step {
                TrainJobStep::RequeueAt(at) => Some(*at),
                _ => None,
            });
            let retries = steps.contains(&TrainJobStep::Retry);
            let before = self.writes;
            let refused = self.perform(steps, crash);
            if self.writes == before || refused || self.job.is_none() {
                self.lines.extend(retries.then(|| "retry".to_owned()));
                self.lines.extend(self.again.map(|at| format!("again {}", lines::stamp(at))));
                return;
            }
        }
        panic!("it never rests: {:#?}", self.lines);
    }

    fn plan(&self) -> Vec<TrainJobStep> {
        let Some(job) = &self.job else { return Vec::new() };
        let facts = TrainJobFacts::of(job);
        let kept = self.objects.get(&(Text::from("ConfigMap"), snapshot_name("train")));
        let make = || DesiredObjects::of(&facts, kept, self.runtime.as_ref(), |runtime| self.built(runtime));
        let made = wants_objects(&facts).then(make);
        let jobset = self.objects.get(&(Text::from("JobSet"), Text::from("train")));
        reconcile(
            &TrainJobSnapshot { job, jobset, made: made.as_ref(), around: self, clock: self.clock },
            self.now,
        )
    }

    /// Carries out the steps; returns whether one was rejected.
    fn perform(&mut self, steps: Vec<TrainJobStep>, crash: Crash) -> bool {
        for step in steps {
            let before = self.writes;
            if !self.refuse.is_empty() && lines::refused(&step) == format!("refused {}", self.refuse) {
                self.lines.push(lines::refused(&step));
                return true;
            }
            self.step(step);
            if crash == Crash::AfterEachWrite && self.writes != before {
                self.applied.clear();
                return false;
            }
        }
        false
    }

    fn step(&mut self, step: TrainJobStep) {
        match step {
            // Every reconciliation emits this event again; the first is enough here.
            TrainJobStep::Event(note) => {
                let line = lines::note(&note);
                if self.told.insert(line.clone()) {
                    self.lines.push(line);
                }
            }
            TrainJobStep::UpdateStatus(patch) => {
                let old = self.facts().unwrap().status;
                self.change("job", &patch);
                let new = self.facts().unwrap().status;
                self.lines.extend(lines::changes(&old, &new));
                self.writes += 1;
            }
            TrainJobStep::DeleteJobSet(uid) => {
                let key = (Text::from("JobSet"), Text::from("train"));
                let set = self.objects.get_mut(&key).unwrap();
                assert_eq!(meta::uid(set), uid);
                self.lines.push(format!("delete jobset {uid}"));
                self.writes += 1;
                if meta::has_finalizers(set) {
                    *set = set.with(&["metadata", "deletionTimestamp"], self.now.to_seconds_text());
                } else {
                    self.objects.remove(&key);
                }
            }
            TrainJobStep::DeleteTrainJob { due, .. } => self.delete(due),
            TrainJobStep::Apply(object) => self.apply(&object),
            TrainJobStep::RequeueAt(_) | TrainJobStep::Retry => {}
        }
    }

    fn delete(&mut self, due: Time) {
        self.lines.push(format!("delete job due {}", lines::stamp(due)));
        self.writes += 1;
        let held = self.job.take().filter(meta::has_finalizers);
        self.job = held.map(|job| job.with(&["metadata", "deletionTimestamp"], self.now.to_seconds_text()));
    }

    fn apply(&mut self, object: &Tree) {
        let key = place(object);
        let new = match self.objects.get(&key) {
            // Fields that were applied before and are absent now are removed; here only labels can be.
            Some(there) => there.without(&["metadata", "labels"]).merge(object),
            None if key.0 == "JobSet" => {
                self.sets += 1;
                object.with(&["metadata", "uid"], format!("s{}", self.sets))
            }
            None => object.clone(),
        };
        let suspend = new.bool_at(&["spec", "suspend"]).map(|it| if it { " suspended" } else { "" });
        let nodes = new.int_at(&["spec", "nodes"]).map(|n| format!(" of {n}")).unwrap_or_default();
        let patched: Vec<&str> =
            new.entries_at(&["metadata", "labels"]).iter().map(|(key, _)| key.as_str()).collect();
        let patched = if patched.is_empty() { String::new() } else { format!(" by {}", patched.join(" ")) };
        self.lines.push(format!("apply {} {}{nodes}{patched}{}", key.0, key.1, suspend.unwrap_or_default()));
        self.applied.insert(key.clone(), object.clone());
        if self.objects.insert(key, new.clone()) != Some(new) {
            self.writes += 1;
        }
    }
}
