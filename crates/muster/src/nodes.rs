//! Resolves `--sim-nodes` and `--nodes` to the nodes to run.

use std::io;
use std::path::{Path, PathBuf};

use muster_api::meta;
use muster_node::control_plane::NodeSource;
use muster_node::resource_slices;
use muster_node::volume_dirs::DiskVolumeDirs;
use muster_tree::Tree;

use crate::local::LocalNode;
use crate::{secure_fs, settings};

/// The subdirectory of volumes.
const VOLUMES: &str = "volumes";

/// An invalid `--nodes` file.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file is not YAML, or contains other kinds.
    #[error("{path}: {problem}: give Node, ResourceSlice and DeviceClass manifests, separated by `---`", path = path.display())]
    Content { path: PathBuf, problem: String },
}

/// The nodes to run; `local` is the local node, if it was built.
///
/// # Errors
/// The file cannot be read, or contains other kinds.
pub fn read(asked: &settings::NodeSetup, local: Option<LocalNode>) -> Result<NodeSource, NodesError> {
    Ok(match asked {
        settings::NodeSetup::Local => {
            local.map_or(NodeSource::Count(0), |node| NodeSource::Local(node.machine_id, node.controller))
        }
        settings::NodeSetup::Simulated(count) => NodeSource::Count(*count as usize),
        settings::NodeSetup::File(path) => NodeSource::Manifests(read_file(path)?),
    })
}

/// The volume directories below the data directory, or below a temporary one that is removed at the end.
///
/// # Errors
/// The temporary directory cannot be created.
pub fn volume_dirs(place: &settings::StorageLocation) -> io::Result<DiskVolumeDirs> {
    let volumes = node_dir(place)?.join(VOLUMES);
    Ok(match place {
        settings::StorageLocation::Directory(_) => DiskVolumeDirs::lasting(volumes),
        settings::StorageLocation::Ephemeral => DiskVolumeDirs::passing(volumes),
    })
}

/// The directory of pods and volumes.
///
/// # Errors
/// The temporary directory cannot be created.
pub fn node_dir(place: &settings::StorageLocation) -> io::Result<PathBuf> {
    match place {
        // Absolute, because supervisors and the container engine have other working directories.
        settings::StorageLocation::Directory(data) => std::path::absolute(data),
        settings::StorageLocation::Ephemeral => secure_fs::ephemeral_dir(),
    }
}

/// The manifests of a file: Nodes and their devices. Other kinds are an error, because nothing would submit them.
fn read_file(path: &Path) -> Result<Vec<Tree>, NodesError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| NodesError::Read { path: path.into(), source })?;
    let wrong = |problem: String| NodesError::Content { path: path.into(), problem };
    let documents = Tree::parse_yaml_documents(&text).map_err(|error| wrong(error.to_string()))?;
    let items = documents.iter().flat_map(|document| match meta::kind_name(document).as_str() {
        "List" | "NodeList" | "ResourceSliceList" | "DeviceClassList" => {
            document.items_at(&["items"]).to_vec()
        }
        _ => vec![document.clone()],
    });
    let check = |document: Tree| {
        let kind = meta::kind_name(&document);
        if kind != "Node" && resource_slices::kind_of(&document).is_none() {
            return Err(wrong(format!("kind {:?} is not a Node", kind.as_str())));
        }
        if meta::name(&document).is_empty() {
            return Err(wrong(format!("a {kind} has no name")));
        }
        Ok(document)
    };
    let nodes: Vec<Tree> = items.map(check).collect::<Result<_, _>>()?;
    if !nodes.iter().any(|it| meta::kind_name(it) == "Node") {
        return Err(wrong("there is no Node in it".to_owned()));
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for (text, want) in [
            ("kind: Node\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: b}\n", Ok(2)),
            ("kind: List\nitems:\n- kind: Node\n  metadata: {name: a}\n", Ok(1)),
            ("kind: Node\nmetadata: {name: a}\n---\nkind: ResourceSlice\nmetadata: {name: s}\n", Ok(2)),
            ("kind: DeviceClass\nmetadata: {name: c}\n", Err("there is no Node in it")),
            ("kind: ResourceSlice\nmetadata: {}\n", Err("a ResourceSlice has no name")),
            ("kind: Node\nmetadata: {}\n", Err("a Node has no name")),
            ("kind: Pod\nmetadata: {name: a}\n", Err("kind \"Pod\" is not a Node")),
            ("a: [", Err("nodes.yaml")),
            ("# nobody\n", Err("there is no Node in it")),
        ] {
            let path = folder.path().join("nodes.yaml");
            std::fs::write(&path, text).unwrap();
            match (read_file(&path).map(|nodes| nodes.len()), want) {
                (Ok(count), Ok(want)) => assert_eq!(count, want, "{text}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
