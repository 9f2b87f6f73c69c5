//! Pods of JobSets whose Jobs have places for themselves.
//!
//! The first pod of a Job takes a place that no other Job has. The others follow it there: they are put onto its
//! place when they are created, and refused as long as it has none.
//!
//! # Invariants
//!
//! - A pod of no JobSet costs one look at its annotations.
//! - Doing it twice changes nothing.

use muster_api::meta;
use muster_api::paths::{meta as meta_path, pod as pod_path};
use muster_api::words::jobset as words;
use muster_schema::selector::label_value_problems;
use muster_tree::{Tree, tree};

use super::{Answer, Asked, leader};

/// Labels a new pod of a JobSet, and puts it where its Job has its place.
#[must_use]
pub fn mutate_pod(asked: &Asked<'_>) -> Answer {
    let pod = asked.object;
    if asked.old.is_some() || !is_ours(pod) {
        return Answer::default();
    }
    let labelled = with_priority(pod);
    let placed = match topology(pod) {
        None => Ok(labelled),
        Some(topology) if leader::is_leader(pod) => Ok(apart(&labelled, topology)),
        Some(topology) => following(asked, &labelled, topology),
    };
    match placed {
        Ok(placed) => Answer { changed: (placed != *pod).then_some(placed), ..Answer::default() },
        Err(why) => Answer { refused: Some(why), ..Answer::default() },
    }
}

/// Refuses a new pod that would be elsewhere than the first of its Job.
#[must_use]
pub fn validate_pod(asked: &Asked<'_>) -> Answer {
    let pod = asked.object;
    if asked.old.is_some() || !is_ours(pod) || leader::is_leader(pod) {
        return Answer::default();
    }
    let refused = topology(pod).and_then(|topology| astray(asked, topology).err());
    Answer { refused, ..Answer::default() }
}

/// Whether it is a pod of a JobSet whose nodes nobody labelled beforehand.
fn is_ours(pod: &Tree) -> bool {
    pod.at(meta_path::ANNOTATIONS)
        .is_some_and(|all| all.get(words::NAME).is_some() && all.get(words::NODE_SELECTOR).is_none())
}

fn topology(pod: &Tree) -> Option<&str> {
    meta::annotation(pod, words::EXCLUSIVE_TOPOLOGY)
}

/// Priority as a label: places are apart among pods of one priority, so that others may drive them out. A label cannot
/// begin with a minus, so a priority below zero has none: the server would refuse the pod.
fn with_priority(pod: &Tree) -> Tree {
    let priority = pod.int_at(pod_path::PRIORITY).map(|priority| priority.to_string());
    let Some(priority) = priority.filter(|it| label_value_problems(it).is_empty()) else {
        return pod.clone();
    };
    pod.with(&[meta_path::LABELS, &[words::PRIORITY]].concat(), priority)
}

/// The first pod: with its own Job, and apart from all others.
fn apart(pod: &Tree, topology: &str) -> Tree {
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

/// A later pod: onto the place of the first. When it is not known yet, the pod stays as it is and will be refused.
fn following(asked: &Asked<'_>, pod: &Tree, topology: &str) -> Result<Tree, String> {
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

/// Why a later pod may not be created.
fn astray(asked: &Asked<'_>, topology: &str) -> Result<(), String> {
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
    use muster_api::jobset::names::job_key;
    use muster_api::words::labels::COMPLETION_INDEX;

    use super::*;
    use crate::admission::testing::{Nothing, asked};

    const RACK: &str = "example.com/rack";

    /// A pod of the Job `s-t-w-0` of the set `s.t`.
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
    fn world() -> Nothing {
        let node = tree!({"metadata": {"name": "node", "labels": (Tree::map([(RACK, "r")]))}});
        Nothing {
            pods: vec![pod("0").with(pod_path::NODE_NAME, "node"), pod("1")],
            nodes: [("node".to_owned(), node)].into(),
            ..Nothing::default()
        }
    }

    fn mutated(pod: &Tree, live: &Nothing) -> Result<Tree, String> {
        let answer = mutate_pod(&asked(pod, None, live));
        answer.refused.map_or_else(|| Ok(answer.changed.unwrap_or_else(|| pod.clone())), Err)
    }

    fn refusal(pod: &Tree, live: &Nothing) -> String {
        validate_pod(&asked(pod, None, live)).refused.unwrap_or_default()
    }

    #[test]
    fn others_are_left_alone() {
        let stranger = tree!({"metadata": {"name": "p"}, "spec": {"priority": 5}});
        let placed = noted(&pod("1"), words::NODE_SELECTOR).with(pod_path::PRIORITY, 5);
        let nobody = Nothing { broken: Some("nobody may look"), ..Nothing::default() };
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
            let made = mutated(&shared.with(pod_path::PRIORITY, priority), &Nothing::default()).unwrap();
            assert_eq!(meta::label(&made, words::PRIORITY), want, "{priority}");
        }
        assert_eq!(mutated(&shared, &Nothing::default()).unwrap(), shared);
        assert_eq!(refusal(&shared, &Nothing::default()), "", "it has no place to itself");
    }

    #[test]
    fn the_first_pod_is_with_its_job_and_apart_from_others() {
        let own = pod("0").with(&[pod_path::POD_AFFINITY].concat(), tree!([{"topologyKey": "mine"}]));
        let made = mutated(&own.with(pod_path::PRIORITY, 9), &Nothing::default()).unwrap();
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
        assert_eq!(mutated(&made, &Nothing::default()).unwrap(), made, "once is enough");
        assert_eq!(refusal(&made, &Nothing::default()), "");
    }

    #[test]
    fn without_a_label_of_priority_the_value_is_empty() {
        for pod in [pod("0"), pod("0").with(pod_path::PRIORITY, -10)] {
            let made = mutated(&pod, &Nothing::default()).unwrap();
            assert!(
                made.to_json()
                    .contains(r#""key":"jobset.sigs.k8s.io/priority","operator":"In","values":[""]"#)
            );
        }
    }

    #[test]
    fn later_pods_follow_the_first() {
        let made = mutated(&pod("1"), &world()).unwrap();
        assert_eq!(made.at(pod_path::NODE_SELECTOR), Some(&Tree::map([(RACK, "r")])));
        assert_eq!(refusal(&made, &world()), "");
    }

    /// What is wrong with the first pod, or with where it is.
    fn troubles() -> Vec<(&'static str, Nothing, &'static str)> {
        let with_first = |change: &dyn Fn(&Tree) -> Tree| {
            let mut world = world();
            world.pods[0] = change(&world.pods[0]);
            world
        };
        let mut two = world();
        two.pods.push(pod("0").with(meta_path::NAME, "s-t-w-0-0-other"));
        let none = Nothing { pods: Vec::new(), ..world() };
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
    fn without_a_first_pod_the_others_wait() {
        for (says, live, words) in troubles() {
            assert_eq!(mutated(&pod("1"), &live).unwrap(), pod("1"), "{says}");
            assert_eq!(refusal(&pod("1"), &live), "follower pod node selector not set", "{says}");
            let placed = pod("1").with(pod_path::NODE_SELECTOR, Tree::map([(RACK, "r")]));
            assert!(refusal(&placed, &live).contains(words), "{says}: {}", refusal(&placed, &live));
        }
    }

    #[test]
    fn a_selector_must_name_the_place() {
        let elsewhere = pod("1").with(pod_path::NODE_SELECTOR, tree!({"other": "x"}));
        assert_eq!(
            refusal(&elsewhere, &world()),
            "follower pod node selector for topology domain not found. missing selector: example.com/rack"
        );
    }

    #[test]
    fn a_place_that_cannot_be_told_is_a_refusal() {
        let without = Nothing { nodes: [].into(), ..world() };
        assert_eq!(
            mutated(&pod("1"), &without),
            Err("node node of the leader pod does not exist".to_owned())
        );
        let bare = Nothing { nodes: [("node".to_owned(), tree!({}))].into(), ..world() };
        let why = mutated(&pod("1"), &bare).unwrap_err();
        assert!(why.contains("does not have the topology label: example.com/rack"), "{why}");
    }
}
