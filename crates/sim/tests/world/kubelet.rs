//! A kubelet played by hand, so that a test can say how each pod ends, and a ledger of what it did.

use std::collections::BTreeMap;

use muster_api::client::{ApiObject, DeletionPropagation, RequestVerb, Subresource, Uid};
use muster_api::condition::DesiredCondition;
use muster_api::kinds;
use muster_api::meta;
use muster_api::pod::{self, PodFacts, PodPhase};
use muster_api::pod_status::{self, PodAddresses, SimulatedContainers};
use muster_api::time::Time;
use muster_sim::{SeededRng, World};
use muster_tree::Text;

/// How a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Later,
    Good,
    Bad(i64),
    /// With another code, because its node is lost.
    Disrupted,
}

/// What a script knows of a pod when it chooses its end.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub index: Option<u32>,
    /// How many pods of its index have ended before it.
    pub ended_before: usize,
    /// Rounds of the kubelet.
    pub round: u32,
}

/// What the kubelet saw and did.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Every pod seen, with its index and how it ended.
    pub pods: BTreeMap<Uid, (Option<u32>, Option<End>)>,
    /// Pods that the test deleted.
    pub deleted: Vec<Uid>,
    round: u32,
}

impl Ledger {
    /// Moves each pod on, or not, as the dice say.
    pub fn act(&mut self, world: &mut World, dice: &SeededRng, ends: fn(Asked) -> End) {
        self.round += 1;
        for pod in world.list(&kinds::PODS) {
            let facts = PodFacts::of(&pod.tree);
            self.pods.entry(facts.uid.clone()).or_insert((facts.index, None));
            if dice.one_in(3) {
                continue;
            }
            if facts.deleting.is_some() {
                self.end_deleted(world, &pod, &facts);
            } else if facts.node.is_empty() && facts.phase == PodPhase::Pending {
                let body = pod::binding(&facts.namespace, &facts.name, &facts.uid, &"node".into());
                world
                    .send_subresource(
                        &kinds::PODS,
                        &pod.tree,
                        Subresource::Binding,
                        RequestVerb::Create(body),
                    )
                    .unwrap();
            } else if facts.phase == PodPhase::Pending {
                show(world, &pod, &SimulatedContainers::Running { since: world.now(), restarts: 0 });
            } else if facts.phase == PodPhase::Running {
                let ended_before =
                    self.pods.values().filter(|(index, end)| *index == facts.index && end.is_some()).count();
                let asked = Asked { index: facts.index, ended_before, round: self.round };
                self.end(world, &pod, &facts, ends(asked));
            }
        }
    }

    /// Counts pods that were created and deleted between two rounds.
    pub fn take_in_missed(&mut self, world: &mut World) {
        for (_, record) in world.records().iter().filter(|(_, record)| record.key.resource == "pods") {
            let facts = PodFacts::of(&record.shown().tree);
            self.pods.entry(facts.uid).or_insert((facts.index, None));
        }
    }

    /// The first pod that runs or may run.
    pub fn active(world: &World) -> Option<ApiObject> {
        world.list(&kinds::PODS).into_iter().find(|pod| PodFacts::of(&pod.tree).is_active())
    }

    /// Deletes a pod as a user would.
    pub fn delete(&mut self, world: &mut World, pod: &ApiObject) {
        self.deleted.push(meta::uid(&pod.tree));
        delete(world, pod, None);
    }

    fn end(&mut self, world: &mut World, pod: &ApiObject, facts: &PodFacts, end: End) {
        let code = match end {
            End::Later => return,
            End::Good => 0,
            End::Bad(code) => code,
            End::Disrupted => 137,
        };
        if end == End::Disrupted {
            let wanted = DesiredCondition {
                condition_type: "DisruptionTarget",
                status: true,
                reason: "DeletionByTaintManager",
                message: "gone",
            };
            let patch = pod::condition_patch(&pod.tree, &wanted, world.now());
            world
                .send_subresource(
                    &kinds::PODS,
                    &pod.tree,
                    Subresource::Status,
                    RequestVerb::StrategicMergePatch(patch),
                )
                .unwrap();
        }
        let pod = world.list(&kinds::PODS).into_iter().find(|one| meta::uid(&one.tree) == facts.uid).unwrap();
        show(world, &pod, &ended(world.now(), code));
        self.pods.insert(facts.uid.clone(), (facts.index, Some(end)));
    }

    /// Terminates a deleted pod, then removes it.
    fn end_deleted(&mut self, world: &mut World, pod: &ApiObject, facts: &PodFacts) {
        if !facts.phase.is_terminal() {
            show(world, pod, &ended(world.now(), 143));
        } else if meta::deletion_grace_secs(&pod.tree) > 0 {
            delete(world, pod, Some(0));
        }
    }
}

fn ended(now: Time, code: i64) -> SimulatedContainers {
    SimulatedContainers::Ended { since: now, until: now, code, restarts: 0 }
}

fn show(world: &mut World, pod: &ApiObject, doing: &SimulatedContainers) {
    let addresses = PodAddresses { host: Text::from("10.0.0.1"), pod: Text::from("10.1.0.1") };
    let patch = pod_status::simulated_patch(&pod.tree, &addresses, doing, world.now());
    world
        .send_subresource(
            &kinds::PODS,
            &pod.tree,
            Subresource::Status,
            RequestVerb::StrategicMergePatch(patch),
        )
        .unwrap();
}

fn delete(world: &mut World, pod: &ApiObject, grace_secs: Option<u32>) {
    let act = RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs };
    world.send(&kinds::PODS, &pod.tree, act).unwrap();
}
