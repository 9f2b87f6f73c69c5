//! A kubelet played by hand, so that a test can say how each pod ends, and a ledger of what it did.

use std::collections::BTreeMap;

use muster_api::condition::Wanted;
use muster_api::kinds;
use muster_api::meta;
use muster_api::pod::{self, Phase, PodFacts};
use muster_api::pod_status::{self, Addresses, Doing};
use muster_api::port::{Act, Cascade, Object, Part, Uid};
use muster_api::time::Time;
use muster_sim::{Dice, World};
use muster_tree::Text;

/// How a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Not yet.
    Later,
    /// With 0.
    Good,
    /// With another code.
    Bad(i64),
    /// With another code, because its node goes away.
    Disrupted,
}

/// What a test is told about a pod before it says how it ends.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Completion index.
    pub index: Option<u32>,
    /// How many pods of its index have ended before it.
    pub ended_before: usize,
    /// How often the kubelet has looked.
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
    pub fn act(&mut self, world: &mut World, dice: &Dice, ends: fn(Asked) -> End) {
        self.round += 1;
        for pod in world.all(&kinds::PODS) {
            let facts = PodFacts::of(&pod.tree);
            self.pods.entry(facts.uid.clone()).or_insert((facts.index, None));
            if dice.once_in(3) {
                continue;
            }
            if facts.deleting.is_some() {
                self.end_deleted(world, &pod, &facts);
            } else if facts.node.is_empty() && facts.phase == Phase::Pending {
                let body = pod::binding(&facts.namespace, &facts.name, &facts.uid, &"node".into());
                world.call_part(&kinds::PODS, &pod.tree, Part::Binding, Act::Create(body)).unwrap();
            } else if facts.phase == Phase::Pending {
                show(world, &pod, &Doing::Running { since: world.now(), restarts: 0 });
            } else if facts.phase == Phase::Running {
                let ended_before =
                    self.pods.values().filter(|(index, end)| *index == facts.index && end.is_some()).count();
                let asked = Asked { index: facts.index, ended_before, round: self.round };
                self.end(world, &pod, &facts, ends(asked));
            }
        }
    }

    /// Pods that came and went between two looks were there all the same.
    pub fn take_in_missed(&mut self, world: &mut World) {
        for (_, record) in world.records().iter().filter(|(_, record)| record.key.resource == "pods") {
            let facts = PodFacts::of(&record.shown().tree);
            self.pods.entry(facts.uid).or_insert((facts.index, None));
        }
    }

    /// The first pod that runs or may run.
    pub fn active(world: &World) -> Option<Object> {
        world.all(&kinds::PODS).into_iter().find(|pod| PodFacts::of(&pod.tree).active())
    }

    /// Deletes a pod as a user would.
    pub fn delete(&mut self, world: &mut World, pod: &Object) {
        self.deleted.push(meta::uid(&pod.tree));
        delete(world, pod, None);
    }

    fn end(&mut self, world: &mut World, pod: &Object, facts: &PodFacts, end: End) {
        let code = match end {
            End::Later => return,
            End::Good => 0,
            End::Bad(code) => code,
            End::Disrupted => 137,
        };
        if end == End::Disrupted {
            let wanted = Wanted {
                kind: "DisruptionTarget",
                holds: true,
                reason: "DeletionByTaintManager",
                message: "gone",
            };
            let patch = pod::condition_patch(&pod.tree, &wanted, world.now());
            world.call_part(&kinds::PODS, &pod.tree, Part::Status, Act::Strategic(patch)).unwrap();
        }
        let pod = world.all(&kinds::PODS).into_iter().find(|one| meta::uid(&one.tree) == facts.uid).unwrap();
        show(world, &pod, &ended(world.now(), code));
        self.pods.insert(facts.uid.clone(), (facts.index, Some(end)));
    }

    /// A pod that was deleted ends, and then goes.
    fn end_deleted(&mut self, world: &mut World, pod: &Object, facts: &PodFacts) {
        if !facts.phase.ended() {
            show(world, pod, &ended(world.now(), 143));
        } else if meta::grace_secs(&pod.tree) > 0 {
            delete(world, pod, Some(0));
        }
    }
}

fn ended(now: Time, code: i64) -> Doing {
    Doing::Ended { since: now, until: now, code, restarts: 0 }
}

fn show(world: &mut World, pod: &Object, doing: &Doing) {
    let addresses = Addresses { host: Text::from("10.0.0.1"), pod: Text::from("10.1.0.1") };
    let patch = pod_status::patch(&pod.tree, &addresses, doing, world.now());
    world.call_part(&kinds::PODS, &pod.tree, Part::Status, Act::Strategic(patch)).unwrap();
}

fn delete(world: &mut World, pod: &Object, grace_secs: Option<u32>) {
    let act = Act::Delete { cascade: Cascade::Background, grace_secs };
    world.call(&kinds::PODS, &pod.tree, act).unwrap();
}
