//! Matches claims with volumes: the reserved volume, or the smallest available one.

use muster_api::node::NodeFacts;

use super::facts::{ClaimFacts, VolumeFacts};

/// The caller of the match: the PV controller or the scheduler.
#[derive(Debug, Clone, Copy)]
pub enum VolumeSearch<'a> {
    /// The PV controller, for any node. A claim with `WaitForFirstConsumer` only gets a volume reserved for it.
    Anywhere {
        /// The claim has `WaitForFirstConsumer`.
        waits: bool,
    },
    /// The scheduler, for a pod on this node.
    Node(&'a NodeFacts),
}

/// The volume for a claim: the one whose `claimRef` names it, else the smallest available one.
#[must_use]
pub fn find_matching_volume<'a>(
    claim: &ClaimFacts,
    volumes: impl Iterator<Item = &'a VolumeFacts>,
    from: VolumeSearch<'_>,
) -> Option<&'a VolumeFacts> {
    let mut smallest: Option<&VolumeFacts> = None;
    for volume in volumes.filter(|it| will_do(claim, it)) {
        if volume.is_for(claim) {
            match from {
                // A reserved volume that the node cannot use excludes all others.
                VolumeSearch::Node(node) => return volume.reaches(node).then_some(volume),
                VolumeSearch::Anywhere { .. } if has_access_modes(claim, volume) => return Some(volume),
                VolumeSearch::Anywhere { .. } => continue,
            }
        }
        let order = |it: &VolumeFacts| match from {
            // The fewest access modes, then the smallest.
            VolumeSearch::Anywhere { .. } => (it.modes.len(), it.size),
            VolumeSearch::Node(_) => (0, it.size),
        };
        if is_free(claim, volume, from) && smallest.is_none_or(|best| order(volume) < order(best)) {
            smallest = Some(volume);
        }
    }
    smallest
}

/// What even a reserved volume must satisfy.
fn will_do(claim: &ClaimFacts, volume: &VolumeFacts) -> bool {
    (volume.reserved.is_none() || volume.is_for(claim))
        && volume.size >= claim.size
        && volume.mode == claim.mode
        && volume.attributes == claim.attributes
        && !volume.deleting
}

fn is_free(claim: &ClaimFacts, volume: &VolumeFacts, from: VolumeSearch<'_>) -> bool {
    let reached = match from {
        VolumeSearch::Anywhere { waits } => !waits,
        VolumeSearch::Node(node) => volume.reaches(node),
    };
    reached
        && volume.available
        && volume.class == claim.class()
        && claim.selector.as_ref().is_none_or(|selector| selector.matches_labels(&volume.labels))
        && has_access_modes(claim, volume)
}

/// Whether a volume has all access modes of a claim.
#[must_use]
pub fn has_access_modes(claim: &ClaimFacts, volume: &VolumeFacts) -> bool {
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
        let node = muster_api::node::simulated_node(&"n".into(), &tree!({"cpu": "1"}));
        let node = NodeFacts::of(&node);
        let elsewhere = tree!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["m"]}]}]}}}});
        let mine =
            tree!({"spec": {"claimRef": {"namespace": "ns", "name": "data"}}, "status": {"phase": "Bound"}});
        let others = tree!({"spec": {"claimRef": {"namespace": "ns", "name": "other"}}});
        let was_mine = tree!({"spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "old"}}});
        let no = tree!({});
        // Name of the case, volumes (name, size, patch), patch of the claim, for a node, expected volume.
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
            let from =
                if from_node { VolumeSearch::Node(&node) } else { VolumeSearch::Anywhere { waits: false } };
            let found = find_matching_volume(&claim(&change), volumes.iter(), from)
                .map(|it| it.name.as_str())
                .unwrap_or_default();
            assert_eq!(found, want, "{says}");
        }
    }

    #[test]
    fn a_wait_for_first_consumer_claim_only_gets_a_reserved_volume() {
        let free = volume("a", "3Gi", &tree!({}));
        let mine = volume(
            "b",
            "3Gi",
            &tree!({"spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "u"}}}),
        );
        let waits = VolumeSearch::Anywhere { waits: true };
        assert_eq!(find_matching_volume(&claim(&tree!({})), [&free].into_iter(), waits), None);
        assert_eq!(find_matching_volume(&claim(&tree!({})), [&free, &mine].into_iter(), waits), Some(&mine));
    }
}
