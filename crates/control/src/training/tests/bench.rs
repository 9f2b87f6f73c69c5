//! The controller in its loop, and a server that does what it is told. Time passes only when nothing is left to do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_api::kinds::{CONFIG_MAPS, JOBSETS, SECRETS};
use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_api::port::{Act, Batch, Call, Change, Kind, Object, Part, Refusal, Uid};
use muster_api::ports::Entropy;
use muster_api::time::Time;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS};
use muster_trainer::kinds::shipped::shipped;
use muster_trainer::life::numbers::{Sample, Value};
use muster_tree::{Text, Tree, tree};

use super::super::{Settings, Training};
use crate::counters::verb;
use crate::plan::{Controller, Key};
use crate::{CallId, Calls, Input, Loop, LoopOptions, Output};

/// More than any life here needs.
const STEPS_MAX: usize = 2_000_000;

/// When it all begins.
pub const BEGIN: Time = Time(1_767_225_600_000_000);

/// No chance at all.
pub struct Nought;

impl Entropy for Nought {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

type Refuses = Box<dyn FnMut(&Call) -> Option<Refusal>>;

pub struct Bench {
    settings: Settings,
    it: Loop,
    wake_at: Option<Time>,
    pending: VecDeque<(CallId, Call)>,
    pub objects: BTreeMap<Key, Object>,
    /// Who owns what.
    owned: BTreeMap<Uid, BTreeSet<Key>>,
    revision: u64,
    pub now: Time,
    /// Calls that were done or refused, Events apart.
    pub calls: Vec<(Time, Call)>,
    /// Reasons and messages of Events, in the order in which they were told.
    pub told: Vec<(Time, String, String)>,
    refuses: Refuses,
    /// Dies before the write of this number.
    pub crash_before: Option<usize>,
    /// Deletions of TrainJobs without a reply, at most.
    pub deletions_most: usize,
}

impl Bench {
    pub fn new(settings: Settings) -> Bench {
        let mut bench = Bench {
            it: begin(&settings),
            settings,
            wake_at: None,
            pending: VecDeque::new(),
            objects: BTreeMap::new(),
            owned: BTreeMap::new(),
            revision: 0,
            now: BEGIN,
            calls: Vec::new(),
            told: Vec::new(),
            refuses: Box::new(|_| None),
            crash_before: None,
            deletions_most: 0,
        };
        for runtime in shipped("") {
            bench.put(&CLUSTER_TRAINING_RUNTIMES, &runtime);
        }
        bench.list();
        bench
    }

    /// A new TrainJob with these fields in its spec.
    pub fn submit(&mut self, name: &str, spec: &Tree) {
        let job = tree!({"metadata": {"name": name, "namespace": "ns"}, "spec": {
            "runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}}});
        self.put(&TRAIN_JOBS, &job.merge(&tree!({"spec": spec})));
    }

    /// Puts an object there, new or changed, as somebody else would.
    pub fn put(&mut self, kind: &Kind, tree: &Tree) {
        let key = Key::of(kind, tree);
        let tree = match self.objects.get(&key) {
            Some(old) => old.tree.merge(tree),
            None => self.born(tree),
        };
        self.store(&key, tree);
    }

    /// The newest state of an object.
    pub fn find(&self, kind: &Kind, name: &str) -> Option<&Tree> {
        let ns = Text::from("ns");
        let namespace = if *kind == CLUSTER_TRAINING_RUNTIMES { Text::new() } else { ns };
        self.objects.get(&Key::new(kind, &namespace, &name.into())).map(|it| &it.tree)
    }

    /// The JobSet of this name ends like this.
    pub fn ends(&mut self, name: &str, how: &str) {
        let since = self.now.to_seconds_text();
        let end = tree!({"type": how, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": since});
        let set = tree!({"metadata": {"name": name, "namespace": "ns"}, "status": {"conditions": [end]}});
        self.put(&JOBSETS, &set);
    }

    /// An object goes, and all that it owns.
    pub fn remove(&mut self, kind: &Kind, name: &str) {
        let key = Key::of(kind, self.find(kind, name).expect("it is there"));
        self.end(&key);
    }

    /// What is refused from now on.
    pub fn refuse(&mut self, refuses: impl FnMut(&Call) -> Option<Refusal> + 'static) {
        self.refuses = Box::new(refuses);
    }

    /// Works until nothing is left to do at this instant.
    pub fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            let deletions =
                self.pending.iter().filter(|(_, call)| word(call) == ("delete", "trainjobs".into())).count();
            self.deletions_most = self.deletions_most.max(deletions);
            if let Some((id, call)) = self.pending.pop_front() {
                if !self.perform(id, &call) {
                    self.crash();
                }
            } else if self.wake_at.is_some_and(|at| at <= self.now) {
                self.wake_at = None;
                self.feed(Input::Tick);
            } else {
                return;
            }
        }
        panic!("it never rests: {:?}", self.calls.iter().rev().take(10).collect::<Vec<_>>());
    }

    /// Works until a call of this verb and kind is about to be done.
    pub fn work_until(&mut self, verb: &str, plural: &str) {
        for _ in 0..STEPS_MAX {
            match self.pending.pop_front() {
                Some((id, call)) if is(&call, verb, plural) => return self.pending.push_front((id, call)),
                Some((id, call)) => assert!(self.perform(id, &call), "nobody dies here"),
                None => {
                    let at = self.wake_at.take().expect("something is still to come");
                    self.now = at.max(self.now);
                    self.feed(Input::Tick);
                }
            }
        }
        panic!("nobody ever does this: {verb} {plural}");
    }

    /// Works, and lets this time pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            match self.wake_at.filter(|at| *at <= end) {
                Some(at) => self.now = at.max(self.now),
                None => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// The controller is lost, and another begins with what there is.
    pub fn crash(&mut self) {
        self.it = begin(&self.settings);
        self.pending.clear();
        self.wake_at = None;
        self.list();
    }

    /// Calls since the last time this was asked, by verb and kind.
    pub fn counted(&mut self) -> Vec<String> {
        let mut counts: BTreeMap<(&str, Text), u64> = BTreeMap::new();
        for (_, call) in std::mem::take(&mut self.calls) {
            *counts.entry(word(&call)).or_default() += 1;
        }
        counts.into_iter().map(|((verb, kind), n)| format!("{verb} {kind} {n}")).collect()
    }

    /// When calls of this verb and kind were made, in seconds since the beginning.
    pub fn times(&self, verb: &str, plural: &str) -> Vec<u64> {
        let is_it = |call: &Call| word(call) == (verb, plural.into());
        self.calls.iter().filter(|(_, call)| is_it(call)).map(|(at, _)| at.since(BEGIN).as_secs()).collect()
    }

    /// The reasons of what was told, in order.
    pub fn reasons(&self) -> Vec<&str> {
        self.told.iter().map(|(_, reason, _)| reason.as_str()).collect()
    }

    /// How often a key was looked at.
    pub fn looks(&self) -> u64 {
        self.it.counters().plans
    }

    /// The controller itself.
    pub fn training(&self) -> &Training {
        self.it.look_into().expect("it can be looked into")
    }

    /// A number that it tells, all labels together; zero where there is none.
    pub fn number(&self, name: &str) -> f64 {
        let of = |sample: Sample| match sample.value {
            Value::Count(count) => f64::from(u32::try_from(count).unwrap()),
            Value::Gauge(value) => value,
            Value::Spans(spans) => f64::from(u32::try_from(spans.count()).unwrap()),
        };
        let all = self.it.told(self.now).training.samples(self.now);
        all.into_iter().filter(|sample| sample.name == name).map(of).sum()
    }

    fn born(&mut self, tree: &Tree) -> Tree {
        let uid = format!("u{}", self.revision + 1);
        let created = self.now.to_seconds_text();
        tree.with(meta_path::UID, uid).with(meta_path::CREATED, created)
    }

    fn store(&mut self, key: &Key, tree: Tree) -> Object {
        self.revision += 1;
        let object = Object { tree, revision: self.revision };
        self.objects.insert(key.clone(), object.clone());
        for owner in meta::owners(&object.tree) {
            self.owned.entry(owner.uid).or_default().insert(key.clone());
        }
        self.feed(Input::Changed(key.kind.clone(), Batch::Changes(vec![Change::Put(object.clone())])));
        object
    }

    fn end(&mut self, key: &Key) -> Option<Object> {
        let gone = self.objects.remove(key)?;
        self.revision += 1;
        let uid = meta::uid(&gone.tree);
        let gone = Object { revision: self.revision, ..gone };
        self.feed(Input::Changed(key.kind.clone(), Batch::Changes(vec![Change::Gone(gone.clone())])));
        let below = self.owned.remove(&uid).unwrap_or_default();
        below.iter().for_each(|key| drop(self.end(key)));
        Some(gone)
    }

    /// Tells all there is.
    fn list(&mut self) {
        let kinds: Vec<Kind> = self.it.caches().kinds().cloned().collect();
        for kind in kinds {
            let all = self.objects.iter().filter(|(key, _)| key.kind == kind).map(|(_, it)| it.clone());
            let all = all.collect();
            self.feed(Input::Changed(kind, Batch::Reset(all)));
        }
    }

    fn feed(&mut self, input: Input) {
        for output in self.it.on(input, self.now) {
            match output {
                Output::Send(id, Calls::One(call)) => self.pending.push_back((id, call)),
                Output::Send(_, calls) => panic!("nothing goes together here: {calls:?}"),
                Output::WakeAt(at) => self.wake_at = Some(self.wake_at.map_or(at, |old| old.min(at))),
                Output::KindsChanged => {}
            }
        }
    }

    /// Does a call; whether the controller lives to hear of it.
    fn perform(&mut self, id: CallId, call: &Call) -> bool {
        if call.on.kind.plural == "events" {
            let (Act::Create(event) | Act::Merge(event)) = &call.act else { panic!("{call:?}") };
            if matches!(call.act, Act::Create(_)) {
                let told =
                    (self.now, event.str_at(&["reason"]).to_owned(), event.str_at(&["message"]).to_owned());
                self.told.push(told);
            }
            let object = Object { tree: event.clone(), revision: 0 };
            self.feed(Input::Replied(id, vec![Ok(object)]));
            return true;
        }
        if self.crash_before == Some(self.calls.len()) {
            self.crash_before = None;
            return false;
        }
        self.calls.push((self.now, call.clone()));
        let result = match (self.refuses)(call) {
            Some(refusal) => Err(refusal),
            None => self.done(call),
        };
        self.feed(Input::Replied(id, vec![result]));
        true
    }

    fn done(&mut self, call: &Call) -> Result<Object, Refusal> {
        let key = Key::new(&call.on.kind, &call.on.namespace, &call.on.name);
        let there = self.objects.get(&key).cloned();
        if let Some(there) = &there {
            call.check(there)?;
        } else if call.guard.uid.is_some() {
            return Err(Refusal::NotFound(call.on.name.to_string()));
        }
        match (&call.act, there) {
            (Act::Get, Some(there)) => Ok(there),
            (Act::Apply { body, .. }, there) => {
                let new = there.as_ref().map_or_else(|| self.born(body), |there| there.tree.merge(body));
                match there {
                    Some(there) if there.tree == new => Ok(there),
                    _ => Ok(self.store(&key, new)),
                }
            }
            (Act::Merge(patch), Some(there)) => {
                let only_status = |it: &Tree| it.entries().iter().all(|(key, _)| key == "status");
                assert_eq!(call.on.part == Part::Status, only_status(patch), "{patch}");
                Ok(self.store(&key, there.tree.merge(patch)))
            }
            (Act::Delete { .. }, Some(there)) if meta::has_finalizers(&there.tree) => {
                let now = self.now.to_seconds_text();
                Ok(self.store(&key, there.tree.with(meta_path::DELETED, now)))
            }
            (Act::Delete { .. }, Some(_)) => Ok(self.end(&key).expect("it is there")),
            (act, _) => panic!("nobody is expected to {act:?}"),
        }
    }
}

fn begin(settings: &Settings) -> Loop {
    let it = Training::new(settings.clone(), Arc::new(Nought));
    let served: Vec<Kind> = it.kinds().into_iter().chain(it.kinds_if_served()).collect();
    Loop::new(vec![Box::new(it)], &served, LoopOptions::default())
}

pub fn word(call: &Call) -> (&'static str, Text) {
    (verb(call), call.on.kind.plural.clone())
}

/// All kinds of what a TrainJob is made into, here.
pub fn made_kinds() -> [&'static Kind; 3] {
    [&JOBSETS, &CONFIG_MAPS, &SECRETS]
}

/// Whether this is a call of that verb about that kind.
pub fn is(call: &Call, verb: &str, plural: &str) -> bool {
    word(call) == (verb, plural.into())
}
