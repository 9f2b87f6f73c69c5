//! Rows of volumes, claims and storage classes.

use muster_tree::{Text, Tree};

use super::cells::{NONE, Row, UNSET, cells, join, words};

const DEFAULT_CLASS: &[&str] = &["metadata", "annotations", "storageclass.kubernetes.io/is-default-class"];

pub(super) fn volume(row: &Row<'_>) -> Vec<Tree> {
    let claim = row.object.at(&["spec", "claimRef"]).map_or(String::new(), |claim| {
        format!("{}/{}", claim.str_at(&["namespace"]), claim.str_at(&["name"]))
    });
    cells![
        row.name(),
        row.text_or(&["spec", "capacity", "storage"], "0"),
        access_modes(row.object.items_at(&["spec", "accessModes"])),
        row.text(&["spec", "persistentVolumeReclaimPolicy"]),
        phase(row),
        claim,
        row.text(&["spec", "storageClassName"]),
        row.text_or(&["spec", "volumeAttributesClassName"], UNSET),
        row.text(&["status", "reason"]),
        row.age(),
        row.text_or(&["spec", "volumeMode"], UNSET),
    ]
}

pub(super) fn claim(row: &Row<'_>) -> Vec<Tree> {
    let volume = row.text(&["spec", "volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        (Text::new(), String::new())
    } else {
        let modes = access_modes(row.object.items_at(&["status", "accessModes"]));
        (row.text_or(&["status", "capacity", "storage"], "0"), modes)
    };
    cells![
        row.name(),
        phase(row),
        volume,
        capacity,
        modes,
        row.text(&["spec", "storageClassName"]),
        row.text_or(&["spec", "volumeAttributesClassName"], UNSET),
        row.age(),
        row.text_or(&["spec", "volumeMode"], UNSET),
    ]
}

fn phase(row: &Row<'_>) -> Text {
    if row.is_deleting() { Text::from("Terminating") } else { row.text(&["status", "phase"]) }
}

/// Access modes in short form, in fixed order, without duplicates.
fn access_modes(modes: &[Tree]) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |word: &str| modes.iter().any(|mode| mode.as_str() == Some(word));
    let words: Vec<&str> = SHORT.iter().filter(|(word, _)| has(word)).map(|(_, short)| *short).collect();
    words.join(",")
}

pub(super) fn storage_class(row: &Row<'_>) -> Vec<Tree> {
    let name = row.name();
    let default = default_class(row.all).is_some_and(|default| default == name);
    cells![
        if default { format!("{name} (default)") } else { name.to_string() },
        row.text(&["provisioner"]),
        row.text_or(&["reclaimPolicy"], "Delete"),
        row.text_or(&["volumeBindingMode"], "Immediate"),
        row.is(&["allowVolumeExpansion"]),
        row.age(),
    ]
}

/// Of several default classes the newest wins, then the first by name.
fn default_class(all: &[Tree]) -> Option<Text> {
    let marked = all.iter().filter(|class| class.str_at(DEFAULT_CLASS) == "true");
    let rank = |class: &&Tree| {
        (
            class.text_at(&["metadata", "creationTimestamp"]),
            std::cmp::Reverse(class.text_at(&["metadata", "name"])),
        )
    };
    marked.max_by_key(rank).map(|class| class.text_at(&["metadata", "name"]))
}

pub(super) fn csi_driver(row: &Row<'_>) -> Vec<Tree> {
    let modes = words(row.object.items_at(&["spec", "volumeLifecycleModes"]));
    let tokens = row.object.at(&["spec", "tokenRequests"]);
    cells![
        row.name(),
        row.object.bool_at(&["spec", "attachRequired"]).unwrap_or(true),
        row.is(&["spec", "podInfoOnMount"]),
        row.is(&["spec", "storageCapacity"]),
        tokens.map_or(UNSET.to_owned(), |all| join(all.items(), "audience")),
        row.is(&["spec", "requiresRepublish"]),
        if modes.is_empty() { NONE.to_owned() } else { modes },
        row.age(),
    ]
}

pub(super) fn csi_node(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.count(&["spec", "drivers"]), row.age()]
}

pub(super) fn volume_attachment(row: &Row<'_>) -> Vec<Tree> {
    cells![
        row.name(),
        row.text(&["spec", "attacher"]),
        row.text(&["spec", "source", "persistentVolumeName"]),
        row.text(&["spec", "nodeName"]),
        row.is(&["status", "attached"]),
        row.age(),
    ]
}

pub(super) fn attributes_class(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.text(&["driverName"]), row.age()]
}
