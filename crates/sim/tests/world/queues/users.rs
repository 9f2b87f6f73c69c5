//! What users do.

use std::time::Duration;

use muster_api::client::{ApiObject, DeletionPropagation, Kind, RequestVerb};
use muster_api::kinds::{CONFIG_MAPS, JOBS, JOBSETS, NAMESPACES as NAMESPACE_KIND, NODES, PODS};
use muster_api::meta;
use muster_api::pod::PodFacts;
use muster_api::queue::consts::labels;
use muster_api::queue::kinds;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS};
use muster_api::train::snapshot_name;
use muster_sim::Faults;
use muster_tree::{Text, Tree, tree};

use super::Town;
use super::made::{self, CLASSES, COHORTS, FLAVORS, NAMESPACES, QUEUES, Queue, Quota, one};

impl Town<'_> {
    /// Creates the queues and everything they need.
    pub fn settle_down(&mut self) {
        let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACES[1]}});
        self.world.create(&NAMESPACE_KIND, &space).unwrap();
        for name in FLAVORS {
            self.world.create(&kinds::RESOURCE_FLAVORS, &made::flavor(name)).unwrap();
        }
        for (name, value) in CLASSES {
            self.world.create(&kinds::PRIORITY_CLASSES, &made::class(name, value)).unwrap();
        }
        for runtime in made::runtimes().iter().filter(|_| self.kind.train > 0) {
            self.world.create(&CLUSTER_TRAINING_RUNTIMES, runtime).unwrap();
        }
        for (name, parent) in COHORTS.into_iter().zip([Some("top"), Some("top"), None]) {
            if self.dice.one_in(2) {
                self.world.create(&kinds::COHORTS, &made::cohort(name, parent, &self.dice)).unwrap();
            }
        }
        for name in QUEUES {
            let queue = Queue::thrown(name, &self.dice, self.kind.preempts);
            self.world.create(&kinds::CLUSTER_QUEUES, &queue.tree()).unwrap();
            self.queues.insert(name, queue);
            for namespace in NAMESPACES {
                self.world.create(&kinds::LOCAL_QUEUES, &made::local_queue(namespace, name)).unwrap();
            }
        }
    }

    /// What happens in a round.
    pub fn act(&mut self, faults: Faults) {
        for _ in 0..1 + self.dice.below(2) {
            self.submit();
        }
        match self.dice.below(10) {
            0 => self.toggle_workload(),
            1 => self.delete_some(&kinds::WORKLOADS, "Workloads deleted"),
            2 => self.delete_some(&PODS, "pods deleted"),
            3 => self.delete_some(&JOBS, "Jobs deleted"),
            4 => self.delete_some(&JOBSETS, "JobSets deleted"),
            5 => self.spoil(),
            6 => self.replace(),
            7 => self.lose_node(),
            _ => self.come_one(),
        }
        if self.kind.train > 0 && self.dice.one_in(2) {
            self.disturb_training();
        }
        if self.kind.edits && self.dice.one_in(2) {
            self.edit();
        }
        if self.dice.one_in(8) && faults != Faults::none() {
            self.change_leader(faults);
        }
    }

    fn did(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    fn submit(&mut self) {
        self.born += 1;
        let name = format!("w{}", self.born);
        let total = self.kind.mix.iter().sum::<usize>() + self.kind.train;
        let mut thrown = self.dice.below(total);
        let which = self.kind.mix.iter().position(|share| match thrown.checked_sub(*share) {
            Some(left) => {
                thrown = left;
                false
            }
            None => true,
        });
        let (kind, object, what) = match which {
            None => (&TRAIN_JOBS, made::train_job(&name, &self.dice), "TrainJobs made"),
            Some(0) => (&JOBS, made::job(&name, &self.dice), "Jobs made"),
            Some(1) => (&JOBSETS, made::job_set(&name, &self.dice), "JobSets made"),
            Some(2) => (&PODS, made::pod(&name, &self.dice), "pods made"),
            Some(_) => return self.submit_group(&name),
        };
        self.world.create(kind, &object).unwrap();
        self.did(what);
    }

    /// The first pods of a group come now, the others later.
    fn submit_group(&mut self, name: &str) {
        let group = made::group(name, &self.dice);
        let (now, later) = group.pods.split_at(1 + self.dice.below(group.pods.len()));
        for pod in now {
            self.world.create(&PODS, pod).unwrap();
        }
        self.later.extend(later.iter().cloned());
        if let Some(workload) = &group.prebuilt {
            self.world.create(&kinds::WORKLOADS, workload).unwrap();
        }
        self.groups.push(group);
        self.did("groups made");
    }

    /// A user suspends a TrainJob, deletes it, or removes the stored snapshot of its runtime.
    fn disturb_training(&mut self) {
        let Some(one) = self.any(&TRAIN_JOBS) else { return };
        match self.dice.below(3) {
            0 => {
                self.world
                    .send(&TRAIN_JOBS, &one.tree, RequestVerb::MergePatch(tree!({"spec": {"suspend": true}})))
                    .unwrap();
                self.did("TrainJobs suspended by hand");
            }
            1 => {
                self.delete(&TRAIN_JOBS, &one.tree);
                self.did("TrainJobs deleted");
            }
            _ => {
                let kept = snapshot_name(&meta::name(&one.tree));
                if let Some(kept) = self.find(&CONFIG_MAPS, &meta::namespace(&one.tree), &kept) {
                    self.delete(&CONFIG_MAPS, &kept.tree);
                    self.did("runtimes that were kept deleted");
                }
            }
        }
    }

    /// Creates a missing pod of a group.
    fn come_one(&mut self) {
        if !self.later.is_empty() {
            let pod = self.later.remove(0);
            self.world.create(&PODS, &pod).unwrap();
            self.did("pods of groups that came later");
        }
    }

    /// All of them come.
    pub fn come_all(&mut self) {
        while !self.later.is_empty() {
            self.come_one();
        }
    }

    /// A user creates another pod of a group, whether it needs one or not.
    fn replace(&mut self) {
        if self.groups.is_empty() {
            return;
        }
        self.born += 1;
        let group = &self.groups[self.dice.below(self.groups.len())];
        let pod = &group.pods[self.dice.below(group.pods.len())];
        let again = made::again(pod, &Text::from(format!("r{}", self.born)));
        self.world.create(&PODS, &again).unwrap();
        self.did("replacements made");
    }

    fn any(&self, kind: &Kind) -> Option<ApiObject> {
        let all = self.world.list(kind);
        (!all.is_empty()).then(|| all[self.dice.below(all.len())].clone())
    }

    fn delete(&mut self, kind: &Kind, object: &Tree) {
        let cascade = if self.dice.one_in(3) {
            DeletionPropagation::Foreground
        } else {
            DeletionPropagation::Background
        };
        self.world
            .send(kind, object, RequestVerb::Delete { propagation_policy: cascade, grace_secs: None })
            .unwrap();
    }

    fn delete_some(&mut self, kind: &Kind, what: &'static str) {
        let Some(one) = self.any(kind) else { return };
        // A Job of a JobSet, and a pod of a Job, is not theirs to delete; a whole group is sometimes deleted at once.
        let group = meta::label(&one.tree, labels::POD_GROUP_NAME).map(Text::from);
        self.delete(kind, &one.tree);
        self.did(what);
        if let Some(group) = group.filter(|_| *kind == PODS && self.dice.one_in(2)) {
            for pod in self.world.list(&PODS) {
                if meta::label(&pod.tree, labels::POD_GROUP_NAME) == Some(group.as_str()) {
                    self.delete(&PODS, &pod.tree);
                }
            }
            self.did("groups deleted");
        }
    }

    fn toggle_workload(&mut self) {
        let Some(one) = self.any(&kinds::WORKLOADS) else { return };
        let active = one.tree.bool_at(&["spec", "active"]) == Some(false);
        let patch = tree!({"spec": {"active": active}});
        self.world.send(&kinds::WORKLOADS, &one.tree, RequestVerb::MergePatch(patch)).unwrap();
        self.did(if active { "Workloads activated" } else { "Workloads deactivated" });
    }

    /// Lets a pod that runs, or will, fail.
    fn spoil(&mut self) {
        let mut pods = self.world.list(&PODS);
        pods.retain(|it| {
            meta::deletion_timestamp(&it.tree).is_none() && !PodFacts::of(&it.tree).phase.is_terminal()
        });
        if pods.is_empty() {
            return;
        }
        let pod = pods[self.dice.below(pods.len())].clone();
        let notes = tree!({"muster.dev/sim-run-seconds": "0", "muster.dev/sim-exit-code": "1"});
        let patch = tree!({"metadata": {"annotations": notes}});
        self.world.send(&PODS, &pod.tree, RequestVerb::MergePatch(patch)).unwrap();
        self.did("pods spoiled");
    }

    fn lose_node(&mut self) {
        if self.world.list(&NODES).len() > 1
            && let Some(node) = self.any(&NODES)
        {
            self.world
                .send(
                    &NODES,
                    &node.tree,
                    RequestVerb::Delete {
                        propagation_policy: DeletionPropagation::Background,
                        grace_secs: None,
                    },
                )
                .unwrap();
            self.did("nodes lost");
        }
    }

    /// No leader for a while, in which users continue.
    fn change_leader(&mut self, faults: Faults) {
        self.world.lose_leadership();
        self.submit();
        self.run(faults, Duration::from_secs(1 + self.dice.next() % 5));
        if self.kind.edits {
            self.edit();
        }
        self.world.acquire_leadership();
        self.did("changes of the lead");
    }

    /// Changes something of queues.
    fn edit(&mut self) {
        let name = one(&self.dice, &QUEUES);
        match self.dice.below(12) {
            0..4 => self.change(name, "quotas changed", |town, queue| {
                queue.quotas[town.dice.below(2)] = Quota::thrown(&town.dice);
            }),
            4 => self.change(name, "cohorts of queues changed", |town, queue| {
                queue.cohort = one(&town.dice, &[Some("left"), Some("right"), Some("top"), None]);
            }),
            5 => self.change(name, "queues stopped or started", |town, queue| {
                queue.stop = one(&town.dice, &["None", "None", "Hold", "HoldAndDrain"]);
            }),
            6 => self.stop_local(name),
            7 => self.make_or_delete(&kinds::CLUSTER_QUEUES, &self.queues[name].tree(), "ClusterQueues"),
            8 => {
                let local = made::local_queue(one(&self.dice, &NAMESPACES), name);
                self.make_or_delete(&kinds::LOCAL_QUEUES, &local, "LocalQueues");
            }
            9 => self.edit_cohort(),
            10 => self.make_or_delete(&kinds::RESOURCE_FLAVORS, &made::flavor(FLAVORS[1]), "flavors"),
            _ => self.edit_class(),
        }
    }

    fn change(&mut self, name: &'static str, what: &'static str, how: impl Fn(&Self, &mut Queue)) {
        let mut queue = self.queues[name].clone();
        how(self, &mut queue);
        let patch = queue.patch();
        let there = self.find(&kinds::CLUSTER_QUEUES, "", name);
        self.queues.insert(name, queue);
        if let Some(there) = there {
            self.world.send(&kinds::CLUSTER_QUEUES, &there.tree, RequestVerb::MergePatch(patch)).unwrap();
            self.did(what);
        }
    }

    fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Option<ApiObject> {
        let mut all = self.world.list(kind).into_iter();
        all.find(|it| meta::namespace(&it.tree) == *namespace && meta::name(&it.tree) == *name)
    }

    fn stop_local(&mut self, name: &str) {
        let namespace = one(&self.dice, &NAMESPACES);
        if let Some(there) = self.find(&kinds::LOCAL_QUEUES, namespace, name) {
            let stop = one(&self.dice, &["None", "None", "Hold", "HoldAndDrain"]);
            let patch = tree!({"spec": {"stopPolicy": stop}});
            self.world.send(&kinds::LOCAL_QUEUES, &there.tree, RequestVerb::MergePatch(patch)).unwrap();
            self.did("LocalQueues stopped or started");
        }
    }

    /// Deletes an existing object, or creates a missing one.
    fn make_or_delete(&mut self, kind: &Kind, object: &Tree, what: &'static str) {
        match self.find(kind, &meta::namespace(object), &meta::name(object)) {
            Some(there) => self.delete(kind, &there.tree),
            None => drop(self.world.create(kind, object).unwrap()),
        }
        self.did(what);
    }

    fn edit_cohort(&mut self) {
        let name = one(&self.dice, &COHORTS);
        // Sometimes the cohorts form a cycle.
        let parent = one(&self.dice, &[Some("top"), Some("left"), None]);
        let parent = parent.filter(|it| *it != name);
        let cohort = made::cohort(name, parent, &self.dice);
        match self.find(&kinds::COHORTS, "", name) {
            Some(there) if self.dice.one_in(2) => self.delete(&kinds::COHORTS, &there.tree),
            Some(there) => {
                let above = cohort.at(&["spec", "parentName"]).cloned().unwrap_or(Tree::Null);
                let patch = cohort.with(&["spec", "parentName"], above);
                self.world.send(&kinds::COHORTS, &there.tree, RequestVerb::MergePatch(patch)).unwrap();
            }
            None => drop(self.world.create(&kinds::COHORTS, &cohort).unwrap()),
        }
        self.did("Cohorts changed");
    }

    fn edit_class(&mut self) {
        let (name, _) = one(&self.dice, &CLASSES);
        let value = one(&self.dice, &[1, 10, 100, 1000]);
        if let Some(there) = self.find(&kinds::PRIORITY_CLASSES, "", name) {
            self.world
                .send(&kinds::PRIORITY_CLASSES, &there.tree, RequestVerb::MergePatch(tree!({"value": value})))
                .unwrap();
            self.did("classes of priority changed");
        }
    }

    /// All objects exist, with enough quota for all Workloads.
    pub fn give_plenty(&mut self) {
        for name in FLAVORS {
            self.make(&kinds::RESOURCE_FLAVORS, &made::flavor(name), &tree!({}));
        }
        for cohort in self.world.list(&kinds::COHORTS) {
            let patch = tree!({"spec": {"parentName": null}});
            self.world.send(&kinds::COHORTS, &cohort.tree, RequestVerb::MergePatch(patch)).unwrap();
        }
        for name in QUEUES {
            let plenty = Quota { nominal: 1000, borrowing: None, lending: None };
            let queue =
                Queue { quotas: [plenty; 2], stop: "None", cohort: None, ..self.queues[name].clone() };
            let queue = Queue { counts_pods: false, ..queue };
            self.make(&kinds::CLUSTER_QUEUES, &queue.tree(), &queue.patch());
            for namespace in NAMESPACES {
                let local = made::local_queue(namespace, name).with(&["spec", "stopPolicy"], "None");
                self.make(&kinds::LOCAL_QUEUES, &local, &local);
            }
        }
        for one in self.world.list(&kinds::WORKLOADS) {
            let patch = tree!({"spec": {"active": true}});
            self.world.send(&kinds::WORKLOADS, &one.tree, RequestVerb::MergePatch(patch)).unwrap();
        }
    }

    /// Creates or updates an object. A terminating object in use stays terminating.
    fn make(&mut self, kind: &Kind, object: &Tree, patch: &Tree) {
        let Some(there) = self.find(kind, &meta::namespace(object), &meta::name(object)) else {
            self.world.create(kind, object).unwrap();
            return;
        };
        self.world.send(kind, &there.tree, RequestVerb::MergePatch(patch.clone())).unwrap();
    }

    /// Deletes everything that waits or runs.
    pub fn clear_away(&mut self) {
        let training = (self.kind.train > 0).then_some(&TRAIN_JOBS);
        for kind in training.into_iter().chain([&JOBSETS, &JOBS, &PODS, &kinds::WORKLOADS]) {
            for one in self.world.list(kind) {
                // What went with another that was deleted before it.
                if self.find(kind, &meta::namespace(&one.tree), &meta::name(&one.tree)).is_some() {
                    self.delete(kind, &one.tree);
                }
            }
        }
    }

    pub fn take_queues_away(&mut self) {
        for kind in [&kinds::LOCAL_QUEUES, &kinds::CLUSTER_QUEUES, &kinds::COHORTS, &kinds::RESOURCE_FLAVORS]
        {
            for one in self.world.list(kind) {
                self.delete(kind, &one.tree);
            }
        }
    }
}
