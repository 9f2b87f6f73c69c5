//! Exclusive placement: mutation and validation of pods of JobSets with an exclusive topology.
//!
//! The leader pod of a Job (completion index 0) gets affinity to its own Job and anti-affinity to others, so it is
//! scheduled into a free topology domain. Follower pods get a node selector for the domain of the leader, and are
//! rejected until the leader is scheduled.
//!
//! # Guarantees
//!
//! - A pod of no JobSet costs one annotation lookup.
//! - Mutation is idempotent.

use muster_api::consts::jobset as words;
use muster_api::meta;
use muster_api::paths::{meta as meta_path, pod as pod_path};
use muster_schema::selector::label_value_problems;
use muster_tree::{Tree, tree};

use super::{AdmissionContext, Answer, leader};

/// Mutates a new pod of a JobSet: priority label, and affinity or node selector for exclusive placement.
#[must_use]
pub fn mutate_pod(asked: &AdmissionContext<'_>) -> Answer {
    let pod = asked.object;
    if asked.old.is_some() || !is_ours(pod) {
        return Answer::default();
    }
    let labelled = with_priority_label(pod);
    let placed = match topology(pod) {
        None => Ok(labelled),
        Some(topology) if leader::is_leader(pod) => Ok(with_exclusive_affinity(&labelled, topology)),
        Some(topology) => follow_leader(asked, &labelled, topology),
    };
    match placed {
        Ok(placed) => Answer { changed: (placed != *pod).then_some(placed), ..Answer::default() },
        Err(why) => Answer { refused: Some(why), ..Answer::default() },
    }
}

/// Rejects a new follower pod that does not select the topology domain of its leader.
#[must_use]
pub fn validate_pod(asked: &AdmissionContext<'_>) -> Answer {
    let pod = asked.object;
    if asked.old.is_some() || !is_ours(pod) || leader::is_leader(pod) {
        return Answer::default();
    }
    let refused = topology(pod).and_then(|topology| check_follower(asked, topology).err());
    Answer { refused, ..Answer::default() }
}

/// Whether it is a pod of a JobSet without the `nodeSelector` strategy.
fn is_ours(pod: &Tree) -> bool {
    pod.at(meta_path::ANNOTATIONS)
        .is_some_and(|all| all.get(words::NAME).is_some() && all.get(words::NODE_SELECTOR).is_none())
}

fn topology(pod: &Tree) -> Option<&str> {
    meta::annotation(pod, words::EXCLUSIVE_TOPOLOGY)
}

/// Adds the priority label: anti-affinity applies among pods of one priority, so that a higher priority can preempt. A
/// label value cannot begin with a minus, so a negative priority gets no label; the API server would reject the pod.
fn with_priority_label(pod: &Tree) -> Tree {
    let priority = pod.int_at(pod_path::PRIORITY).map(|priority| priority.to_string());
    let Some(priority) = priority.filter(|it| label_value_problems(it).is_empty()) else {
        return pod.clone();
    };
    pod.with(&[meta_path::LABELS, &[words::PRIORITY]].concat(), priority)
}

/// The leader pod: affinity to its own Job, anti-affinity to all others.
fn with_exclusive_affinity(pod: &Tree, topology: &str) -> Tree {
    let own = meta::label(pod, words::JOB_KEY).unwrap_or_default();
    let priority = meta::label(pod, words::PRIORITY).unwrap_or_default();
    let term = |expressions: Tree| tree!({"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology, "namespaceSelector": {}});
    let with = term(tree!([{"key": words::JOB_KEY, "operator": "In", "values": [own]}]));
    let without = term(tree!([
        {"key": words::JOB_KEY, "operator": "Exists"},
        {"key": words::JOB_KEY, "operator": "NotIn", "values": [own]},
        {"key": words::PRIORITY, "operator": "In", "values": [priority]}]));
    appended(&appended(pod, pod_path::POD_AFFINITY, with), pod_path::ANTI_AFFINITY, without)
}

fn appended(pod: &Tree, path: &[&str], term: Tree) -> Tree {
    let terms = pod.items_at(path);
    match terms.contains(&term) {
        true => pod.clone(),
        false => pod.with(path, Tree::list(terms.iter().cloned().chain([term]))),
    }
}

/// A follower pod: node selector for the domain of the leader. While the leader is not scheduled the pod is unchanged,
/// and validation rejects it.
fn follow_leader(asked: &AdmissionContext<'_>, pod: &Tree, topology: &str) -> Result<Tree, String> {
    let node = leader::find(asked).map(|leader| leader.text_at(pod_path::NODE_NAME)).unwrap_or_default();
    if node.is_empty() {
        return Ok(pod.clone());
    }
    let Some(found) = asked.live.node(&node)? else {
        return Err(format!("node {node} of the leader pod does not exist"));
    };
    let Some(place) = meta::label(&found, topology) else {
        return Err(format!("node {node} of the leader pod does not have the topology label: {topology}"));
    };
    Ok(pod.with(&[pod_path::NODE_SELECTOR, &[topology]].concat(), place))
}

/// Validates a follower pod.
fn check_follower(asked: &AdmissionContext<'_>, topology: &str) -> Result<(), String> {
    let Some(selector) = asked.object.at(pod_path::NODE_SELECTOR).filter(|it| it.is_map()) else {
        return Err("follower pod node selector not set".to_owned());
    };
    if selector.get(topology).is_none() {
        return Err(format!(
            "follower pod node selector for topology domain not found. missing selector: {topology}"
        ));
    }
    match leader::find(asked)?.str_at(pod_path::NODE_NAME) {
        "" => Err(
            "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::consts::labels::COMPLETION_INDEX;
    use muster_api::jobset::names::job_key;

    use super::*;
    use crate::admission::testing::{FakeLister, asked};

    const RACK: &str = "example.com/rack";

    /// A pod of the Job `s-t-w-0` of the JobSet `s.t`.
    fn pod(index: &str) -> Tree {
        let key = job_key("n", "s-t-w-0");
        let mut notes = Tree::map([(words::NAME, "s.t"), (words::GROUP, "w"), (words::JOB_INDEX, "0")]);
        notes =
            notes.with_key(words::EXCLUSIVE_TOPOLOGY, RACK.into()).with_key(COMPLETION_INDEX, index.into());
        tree!({"metadata": {"name": (format!("s-t-w-0-{index}-abcde")), "annotations": notes,
            "labels": (Tree::map([(words::JOB_KEY, key)])),
            "ownerReferences": [{"kind": "Job", "name": "s-t-w-0", "uid": "u", "controller": true}]}, "spec": {}})
    }

    fn noted(pod: &Tree, key: &str) -> Tree {
        pod.with(&[meta_path::ANNOTATIONS, &[key]].concat(), "x")
    }

    /// A leader on a node of rack `r`.
    fn world() -> FakeLister {
        let node = tree!({"metadata": {"name": "node", "labels": (Tree::map([(RACK, "r")]))}});
        FakeLister {
            pods: vec![pod("0").with(pod_path::NODE_NAME, "node"), pod("1")],
            nodes: [("node".to_owned(), node)].into(),
            ..FakeLister::default()
        }
    }

    fn mutated(pod: &Tree, live: &FakeLister) -> Result<Tree, String> {
        let answer = mutate_pod(&asked(pod, None, live));
        answer.refused.map_or_else(|| Ok(answer.changed.unwrap_or_else(|| pod.clone())), Err)
    }

    fn refusal(pod: &Tree, live: &FakeLister) -> String {
        validate_pod(&asked(pod, None, live)).refused.unwrap_or_default()
    }

    #[test]
    fn other_pods_are_not_modified() {
        let stranger = tree!({"metadata": {"name": "p"}, "spec": {"priority": 5}});
        let placed = noted(&pod("1"), words::NODE_SELECTOR).with(pod_path::PRIORITY, 5);
        let nobody = FakeLister { broken: Some("nobody may look"), ..FakeLister::default() };
        for pod in [stranger, placed] {
            assert_eq!(mutate_pod(&asked(&pod, None, &nobody)), Answer::default());
            assert_eq!(validate_pod(&asked(&pod, None, &nobody)), Answer::default());
        }
        let ours = pod("1");
        assert_eq!(mutate_pod(&asked(&ours, Some(&ours), &nobody)), Answer::default(), "a change");
        assert_eq!(validate_pod(&asked(&ours, Some(&ours), &nobody)), Answer::default(), "a change");
    }

    #[test]
    fn priority_is_a_label_where_it_can_be_one() {
        let shared = pod("3").without(&[meta_path::ANNOTATIONS, &[words::EXCLUSIVE_TOPOLOGY]].concat());
        for (priority, want) in [(7, Some("7")), (0, Some("0")), (-7, None), (i64::from(i32::MIN), None)] {
            let made = mutated(&shared.with(pod_path::PRIORITY, priority), &FakeLister::default()).unwrap();
            assert_eq!(meta::label(&made, words::PRIORITY), want, "{priority}");
        }
        assert_eq!(mutated(&shared, &FakeLister::default()).unwrap(), shared);
        assert_eq!(refusal(&shared, &FakeLister::default()), "", "it has no place to itself");
    }

    #[test]
    fn the_leader_gets_affinity_to_its_job_and_anti_affinity_to_others() {
        let own = pod("0").with(&[pod_path::POD_AFFINITY].concat(), tree!([{"topologyKey": "mine"}]));
        let made = mutated(&own.with(pod_path::PRIORITY, 9), &FakeLister::default()).unwrap();
        let key = job_key("n", "s-t-w-0");
        let with = &made.items_at(pod_path::POD_AFFINITY)[1];
        assert_eq!(made.items_at(pod_path::POD_AFFINITY).len(), 2, "the user's own stays");
        assert_eq!(
            *with,
            tree!({"labelSelector": {"matchExpressions": [{"key": words::JOB_KEY, "operator": "In", "values": [(key.clone())]}]},
                "topologyKey": RACK, "namespaceSelector": {}})
        );
        assert_eq!(
            made.items_at(pod_path::ANTI_AFFINITY),
            [tree!({"labelSelector": {"matchExpressions": [
                    {"key": words::JOB_KEY, "operator": "Exists"},
                    {"key": words::JOB_KEY, "operator": "NotIn", "values": [key]},
                    {"key": words::PRIORITY, "operator": "In", "values": ["9"]}]},
                "topologyKey": RACK, "namespaceSelector": {}})]
        );
        assert_eq!(mutated(&made, &FakeLister::default()).unwrap(), made, "once is enough");
        assert_eq!(refusal(&made, &FakeLister::default()), "");
    }

    #[test]
    fn without_a_priority_label_the_value_is_empty() {
        for pod in [pod("0"), pod("0").with(pod_path::PRIORITY, -10)] {
            let made = mutated(&pod, &FakeLister::default()).unwrap();
            assert!(
                made.to_json()
                    .contains(r#""key":"jobset.sigs.k8s.io/priority","operator":"In","values":[""]"#)
            );
        }
    }

    #[test]
    fn followers_get_the_topology_domain_of_the_leader() {
        let made = mutated(&pod("1"), &world()).unwrap();
        assert_eq!(made.at(pod_path::NODE_SELECTOR), Some(&Tree::map([(RACK, "r")])));
        assert_eq!(refusal(&made, &world()), "");
    }

    /// Problems with the leader pod or its node.
    fn troubles() -> Vec<(&'static str, FakeLister, &'static str)> {
        let with_first = |change: &dyn Fn(&Tree) -> Tree| {
            let mut world = world();
            world.pods[0] = change(&world.pods[0]);
            world
        };
        let mut two = world();
        two.pods.push(pod("0").with(meta_path::NAME, "s-t-w-0-0-other"));
        let none = FakeLister { pods: Vec::new(), ..world() };
        let gone = "expected 1 leader pod (s-t-w-0-0), but got 0. this is an expected, transient error";
        vec![
            ("it is not there", none, gone),
            ("two are there", two, "expected 1 leader pod (s-t-w-0-0), but got 2. this is an expected"),
            ("it goes", with_first(&|pod| pod.with(meta_path::DELETED, "2026-01-01T00:00:00Z")), gone),
            ("it failed", with_first(&|pod| pod.with(pod_path::PHASE, "Failed")), gone),
            ("it is done", with_first(&|pod| pod.with(pod_path::PHASE, "Succeeded")), gone),
            (
                "it is another Job's",
                with_first(&|pod| pod.with(meta_path::OWNERS, tree!([{"uid": "v", "controller": true}]))),
                "belongs to another Job",
            ),
            (
                "it has no node",
                with_first(&|pod| pod.without(pod_path::NODE_NAME)),
                "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error",
            ),
        ]
    }

    #[test]
    fn without_a_leader_pod_followers_are_rejected() {
        for (says, live, words) in troubles() {
            assert_eq!(mutated(&pod("1"), &live).unwrap(), pod("1"), "{says}");
            assert_eq!(refusal(&pod("1"), &live), "follower pod node selector not set", "{says}");
            let placed = pod("1").with(pod_path::NODE_SELECTOR, Tree::map([(RACK, "r")]));
            assert!(refusal(&placed, &live).contains(words), "{says}: {}", refusal(&placed, &live));
        }
    }

    #[test]
    fn the_node_selector_must_have_the_topology_key() {
        let elsewhere = pod("1").with(pod_path::NODE_SELECTOR, tree!({"other": "x"}));
        assert_eq!(
            refusal(&elsewhere, &world()),
            "follower pod node selector for topology domain not found. missing selector: example.com/rack"
        );
    }

    #[test]
    fn an_unknown_topology_domain_is_an_error() {
        let without = FakeLister { nodes: [].into(), ..world() };
        assert_eq!(
            mutated(&pod("1"), &without),
            Err("node node of the leader pod does not exist".to_owned())
        );
        let bare = FakeLister { nodes: [("node".to_owned(), tree!({}))].into(), ..world() };
        let why = mutated(&pod("1"), &bare).unwrap_err();
        assert!(why.contains("does not have the topology label: example.com/rack"), "{why}");
    }
}
