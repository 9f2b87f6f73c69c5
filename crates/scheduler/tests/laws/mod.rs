//! Laws: never over capacity, and what is kept up to date change by change equals what is found afresh.

mod gangs;

use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_scheduler::{GroupReadiness, GroupSpec, Pod, Scheduler, SchedulingPolicy};
use muster_tree::{Tree, tree};
use proptest::prelude::*;

use crate::build::{node, on, pod};

#[derive(Debug, Clone)]
enum Step {
    Node(u8, u8),
    NodeGone(u8),
    Pod(u8, u8),
    Bind(u8),
    Leave(u8),
    Gone(u8),
    Fail(u8),
    Decide(u8),
    Namespace(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6u8, 0..4u8).prop_map(|(name, shape)| Step::Node(name, shape)),
        (0..6u8).prop_map(Step::NodeGone),
        (0..30u8, 0..10u8).prop_map(|(name, shape)| Step::Pod(name, shape)),
        (0..30u8, 0..10u8).prop_map(|(name, shape)| Step::Pod(name, shape)),
        (0..30u8, 0..10u8).prop_map(|(name, shape)| Step::Pod(name, shape)),
        (0..30u8).prop_map(Step::Bind),
        (0..30u8).prop_map(Step::Leave),
        (0..30u8).prop_map(Step::Gone),
        (0..30u8).prop_map(Step::Fail),
        (1..20u8).prop_map(Step::Decide),
        (1..20u8).prop_map(Step::Decide),
        (0..2u8).prop_map(Step::Namespace),
    ]
}

/// All nodes have the same allocatable: an updated node never shrinks.
fn node_shape(shape: u8) -> Tree {
    match shape {
        0 => tree!({"labels": {"zone": "x"}}),
        1 => tree!({"labels": {"zone": "y", "disk": "ssd"}}),
        2 => tree!({"labels": {"zone": "x"}, "taints": [{"key": "k", "effect": "PreferNoSchedule"}]}),
        _ => tree!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
    }
}

fn pod_shape(shape: u8) -> Tree {
    match shape {
        0 => tree!({"asks": {"cpu": "1"}}),
        1 => tree!({"asks": {"cpu": "2", "memory": "1Gi"}, "labels": {"app": "db"}}),
        2 => {
            tree!({"labels": {"app": "web"}, "near": [{"key": "zone", "app": "db", "namespaceSelector": {"matchLabels": {"team": "red"}}}]})
        }
        3 => tree!({"labels": {"app": "db"}, "far": [{"key": "kubernetes.io/hostname", "app": "db"}]}),
        4 => {
            tree!({"labels": {"app": "w"}, "spread": [{"key": "zone", "app": "w"}, {"key": "zone", "app": "db", "soft": true}]})
        }
        5 => tree!({"ports": [{"hostPort": 80}], "spec": {"nodeSelector": {"zone": "x"}}}),
        6 => tree!({"like": [{"weight": 3, "key": "zone", "app": "web"}], "asks": {"memory": "3Gi"}}),
        7 => tree!({"priority": 5, "asks": {"cpu": "3"}}),
        8 => {
            tree!({"spec": {"tolerations": [{"operator": "Exists"}]}, "asks": {"cpu": "1", "example.com/gpu": 0}})
        }
        _ => {
            tree!({"labels": {"app": "w", "rev": "1"}, "asks": {"cpu": "1"}, "dislike": [{"weight": 9, "key": "zone", "app": "w", "matchLabelKeys": ["rev"]}]})
        }
    }
}

#[derive(Default)]
struct Model {
    scheduler: Scheduler,
    nodes: BTreeMap<u8, u8>,
    pods: BTreeMap<u8, Pod>,
    red: bool,
}

impl Model {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Node(name, shape) => {
                self.nodes.insert(*name, *shape);
                self.scheduler.update_node(node(&format!("n{name}"), &node_shape(*shape)));
            }
            Step::NodeGone(name) => {
                self.nodes.remove(name);
                self.scheduler.delete_node(&format!("n{name}").into());
            }
            Step::Pod(name, shape) => {
                let fresh = pod(&format!("p{name}"), &pod_shape(*shape), i64::from(*name));
                if self.pods.get(name).is_none_or(|old| old.node.is_empty()) {
                    self.tell(*name, fresh);
                }
            }
            Step::Bind(name) => {
                let Some(pod) = self.pods.get(name).cloned() else { return };
                if let Some(node) = self.scheduler.node_of(&pod.key).cloned() {
                    self.tell(*name, on(pod, &node));
                }
            }
            Step::Leave(name) => {
                if let Some(pod) = self.pods.get(name).cloned() {
                    self.tell(*name, Pod { deleting: true, schedulable: false, ..pod });
                }
            }
            Step::Gone(name) => {
                if let Some(pod) = self.pods.remove(name) {
                    self.scheduler.delete_pod(&pod.key);
                }
            }
            Step::Fail(name) => {
                if let Some(pod) = self.pods.get(name) {
                    self.scheduler.binding_failed(&pod.key, Time(1));
                }
            }
            Step::Decide(max) => {
                self.scheduler.schedule(usize::from(*max), Time(1));
            }
            Step::Namespace(red) => {
                self.red = *red == 1;
                self.tell_namespace(None);
            }
        }
    }

    fn tell(&mut self, name: u8, pod: Pod) {
        self.scheduler.update_pod(&pod);
        self.pods.insert(name, pod);
    }

    fn tell_namespace(&mut self, other: Option<&mut Scheduler>) {
        let labels = vec![("team".into(), if self.red { "red".into() } else { "blue".into() })];
        other.unwrap_or(&mut self.scheduler).update_namespace(&"ns".into(), &labels);
    }

    /// A scheduler that receives the same objects at once.
    fn afresh(&mut self) -> Scheduler {
        let mut fresh = Scheduler::default();
        self.tell_namespace(Some(&mut fresh));
        for pod in self.pods.values() {
            let node = self.scheduler.node_of(&pod.key).cloned().unwrap_or_default();
            fresh.update_pod(&on(pod.clone(), &node));
        }
        for (name, shape) in &self.nodes {
            fresh.update_node(node(&format!("n{name}"), &node_shape(*shape)));
        }
        fresh
    }

    fn check(&mut self) {
        assert_eq!(self.scheduler.overfull(), [], "never over capacity");
        let kept = self.scheduler.dump();
        for line in self.afresh().dump() {
            assert!(kept.contains(&line), "found afresh, but not kept:\n{line}\nkept:\n{}", kept.join("\n"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_kept_equals_what_is_found_afresh(steps in prop::collection::vec(step(), 1..80)) {
        let mut model = Model::default();
        model.tell_namespace(None);
        for step in &steps {
            model.take(step);
            model.check();
        }
    }

    #[test]
    fn a_failed_group_leaves_no_trace(
        steps in prop::collection::vec(step(), 1..40),
        shapes in prop::collection::vec(0..10u8, 1..6),
    ) {
        let mut model = Model::default();
        steps.iter().for_each(|step| model.take(step));
        model.scheduler.schedule(1000, Time(1));
        let key = ("ns".into(), "gang".into());
        // One more than there are: it cannot be had.
        let policy = SchedulingPolicy::Gang { min: shapes.len() + 1 };
        model.scheduler.update_group(&key, GroupReadiness::Ready(GroupSpec::of(policy)));
        for (n, shape) in shapes.iter().enumerate() {
            let member = pod(&format!("m{n}"), &pod_shape(*shape), 99);
            model.scheduler.update_pod(&Pod { group: Some(key.clone()), ..member });
        }
        let impossible = tree!({"asks": {"cpu": "99"}});
        let lines = |scheduler: &Scheduler| scheduler.dump();
        model.scheduler.update_pod(&Pod { group: Some(key.clone()), ..pod("huge", &impossible, 99) });
        model.scheduler.schedule(0, Time(1));
        let before = lines(&model.scheduler);
        model.scheduler.schedule(1000, Time(1));
        prop_assert_eq!(lines(&model.scheduler), before);
    }
}
