//! Which volume a claim gets: what is meant for it, or the smallest that will do.

use muster_api::node::NodeFacts;

use super::facts::{ClaimFacts, VolumeFacts};

/// From where a volume is looked for.
#[derive(Debug, Clone, Copy)]
pub enum From<'a> {
    /// By the binder, for any node. Claims that wait for a pod only get what is meant for them.
    Anywhere {
        /// Whether the claim waits for its first pod.
        waits: bool,
    },
    /// By the scheduler, for a pod on this node.
    Node(&'a NodeFacts),
}

/// The best volume for a claim: the one that is meant for it, else the smallest free one.
#[must_use]
pub fn best<'a>(
    claim: &ClaimFacts,
    volumes: impl Iterator<Item = &'a VolumeFacts>,
    from: From<'_>,
) -> Option<&'a VolumeFacts> {
    let mut smallest: Option<&VolumeFacts> = None;
    for volume in volumes.filter(|it| will_do(claim, it)) {
        if volume.is_for(claim) {
            match from {
                // Meant for it, but out of reach: no other will do either.
                From::Node(node) => return volume.reaches(node).then_some(volume),
                From::Anywhere { .. } if has_modes(claim, volume) => return Some(volume),
                From::Anywhere { .. } => continue,
            }
        }
        let order = |it: &VolumeFacts| match from {
            // The fewest ways of use beyond those asked for, then the smallest.
            From::Anywhere { .. } => (it.modes.len(), it.size),
            From::Node(_) => (0, it.size),
        };
        if is_free(claim, volume, from) && smallest.is_none_or(|best| order(volume) < order(best)) {
            smallest = Some(volume);
        }
    }
    smallest
}

/// What even a volume must have that is meant for the claim.
fn will_do(claim: &ClaimFacts, volume: &VolumeFacts) -> bool {
    (volume.reserved.is_none() || volume.is_for(claim))
        && volume.size >= claim.size
        && volume.mode == claim.mode
        && volume.attributes == claim.attributes
        && !volume.deleting
}

fn is_free(claim: &ClaimFacts, volume: &VolumeFacts, from: From<'_>) -> bool {
    let reached = match from {
        From::Anywhere { waits } => !waits,
        From::Node(node) => volume.reaches(node),
    };
    reached
        && volume.available
        && volume.class == claim.class()
        && claim.selector.as_ref().is_none_or(|selector| selector.selects_labels(&volume.labels))
        && has_modes(claim, volume)
}

/// Whether a volume can be used in all the ways that a claim asks for.
#[must_use]
pub fn has_modes(claim: &ClaimFacts, volume: &VolumeFacts) -> bool {
    claim.modes.iter().all(|mode| volume.modes.contains(mode))
}

#[cfg(test)]
mod tests {
    use muster_tree::{Tree, tree};

    use super::*;

    fn volume(name: &str, size: &str, change: &Tree) -> VolumeFacts {
        let tree = tree!({"metadata": {"name": name, "labels": {"tier": "fast"}},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "c"},
            "status": {"phase": "Available"}});
        VolumeFacts::of(&tree.merge(change))
    }

    fn claim(change: &Tree) -> ClaimFacts {
        let tree = tree!({"metadata": {"name": "data", "namespace": "ns", "uid": "u"},
            "spec": {"resources": {"requests": {"storage": "2Gi"}}, "accessModes": ["ReadWriteOnce"], "storageClassName": "c"}});
        ClaimFacts::of(&tree.merge(change))
    }

    #[test]
    fn the_best_volume() {
        let node = muster_api::node::simulated(&"n".into(), &tree!({"cpu": "1"}));
        let node = NodeFacts::of(&node);
        let elsewhere = tree!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["m"]}]}]}}}});
        let mine =
            tree!({"spec": {"claimRef": {"namespace": "ns", "name": "data"}}, "status": {"phase": "Bound"}});
        let others = tree!({"spec": {"claimRef": {"namespace": "ns", "name": "other"}}});
        let was_mine = tree!({"spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "old"}}});
        let no = tree!({});
        // What it says, volumes (name, size, change), change of the claim, from a node, what is found.
        type Case<'a> = (&'a str, Vec<(&'a str, &'a str, &'a Tree)>, Tree, bool, &'a str);
        let cases: Vec<Case<'_>> = vec![
            (
                "the smallest that is large enough",
                vec![("a", "9Gi", &no), ("b", "3Gi", &no), ("c", "1Gi", &no)],
                tree!({}),
                true,
                "b",
            ),
            (
                "what is meant for it, however large",
                vec![("a", "9Gi", &mine), ("b", "3Gi", &no)],
                tree!({}),
                true,
                "a",
            ),
            (
                "what is meant for it is too small",
                vec![("a", "1Gi", &mine), ("b", "3Gi", &no)],
                tree!({}),
                true,
                "b",
            ),
            ("what is meant for others", vec![("a", "3Gi", &others)], tree!({}), true, ""),
            ("what was meant for a namesake", vec![("a", "3Gi", &was_mine)], tree!({}), true, ""),
            ("another class", vec![("a", "3Gi", &no)], tree!({"spec": {"storageClassName": "d"}}), true, ""),
            (
                "a way of use it has not",
                vec![("a", "3Gi", &no)],
                tree!({"spec": {"accessModes": ["ReadWriteMany"]}}),
                true,
                "",
            ),
            (
                "all ways of use must be there",
                vec![("a", "3Gi", &no)],
                tree!({"spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}}),
                true,
                "a",
            ),
            (
                "a selector",
                vec![("a", "3Gi", &no)],
                tree!({"spec": {"selector": {"matchLabels": {"tier": "slow"}}}}),
                true,
                "",
            ),
            ("a block device", vec![("a", "3Gi", &no)], tree!({"spec": {"volumeMode": "Block"}}), true, ""),
            ("out of reach", vec![("a", "3Gi", &elsewhere), ("b", "9Gi", &no)], tree!({}), true, "b"),
            (
                "the binder does not ask for reach",
                vec![("a", "3Gi", &elsewhere), ("b", "9Gi", &no)],
                tree!({}),
                false,
                "a",
            ),
        ];
        for (says, volumes, change, from_node, want) in cases {
            let volumes: Vec<VolumeFacts> =
                volumes.iter().map(|(name, size, change)| volume(name, size, change)).collect();
            let from = if from_node { From::Node(&node) } else { From::Anywhere { waits: false } };
            let found =
                best(&claim(&change), volumes.iter(), from).map(|it| it.name.as_str()).unwrap_or_default();
            assert_eq!(found, want, "{says}");
        }
    }

    #[test]
    fn a_claim_that_waits_for_a_pod_gets_only_what_is_meant_for_it() {
        let free = volume("a", "3Gi", &tree!({}));
        let mine = volume(
            "b",
            "3Gi",
            &tree!({"spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "u"}}}),
        );
        let waits = From::Anywhere { waits: true };
        assert_eq!(best(&claim(&tree!({})), [&free].into_iter(), waits), None);
        assert_eq!(best(&claim(&tree!({})), [&free, &mine].into_iter(), waits), Some(&mine));
    }
}
