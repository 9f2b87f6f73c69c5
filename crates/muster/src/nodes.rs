//! Which nodes there shall be: flags and files, read.

use std::io;
use std::path::{Path, PathBuf};

use muster_api::meta;
use muster_node::folders::DiskFolders;
use muster_node::plane::Nodes;
use muster_node::published;
use muster_tree::Tree;

use crate::local::LocalNode;
use crate::{private, settings};

/// The folder of volumes.
const VOLUMES: &str = "volumes";

/// What is wrong with a file of nodes.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// The file of nodes cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file of nodes is not what it should be.
    #[error("{path}: {problem}: give Node, ResourceSlice and DeviceClass manifests, separated by `---`", path = path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The nodes of flags and files; `local` is this machine, where it is one of them.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn read(asked: &settings::Nodes, local: Option<LocalNode>) -> Result<Nodes, NodesError> {
    Ok(match asked {
        settings::Nodes::Local => {
            local.map_or(Nodes::Count(0), |node| Nodes::Local(node.mark, node.controller))
        }
        settings::Nodes::Simulated(count) => Nodes::Count(*count as usize),
        settings::Nodes::File(path) => Nodes::Manifests(read_file(path)?),
    })
}

/// Where volumes of this machine are, beside the data. What is not kept is removed at the end.
///
/// # Errors
/// There is no place for what is not kept.
pub fn folders(place: &settings::Place) -> io::Result<DiskFolders> {
    let volumes = home(place)?.join(VOLUMES);
    Ok(match place {
        settings::Place::Folder(_) => DiskFolders::lasting(volumes),
        settings::Place::Ephemeral => DiskFolders::passing(volumes),
    })
}

/// Where pods and volumes of this machine are.
///
/// # Errors
/// There is no place for what is not kept.
pub fn home(place: &settings::Place) -> io::Result<PathBuf> {
    match place {
        // Others stand in other folders: supervisors, and an engine that is asked to mount a part of it.
        settings::Place::Folder(data) => std::path::absolute(data),
        settings::Place::Ephemeral => private::passing(),
    }
}

/// The manifests of a file: nodes and their devices. Other kinds are refused: nothing would act on them.
fn read_file(path: &Path) -> Result<Vec<Tree>, NodesError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| NodesError::Read { path: path.into(), source })?;
    let wrong = |problem: String| NodesError::Content { path: path.into(), problem };
    let documents = Tree::parse_yaml_documents(&text).map_err(|error| wrong(error.to_string()))?;
    let items = documents.iter().flat_map(|document| match meta::kind_word(document).as_str() {
        "List" | "NodeList" | "ResourceSliceList" | "DeviceClassList" => {
            document.items_at(&["items"]).to_vec()
        }
        _ => vec![document.clone()],
    });
    let check = |document: Tree| {
        let kind = meta::kind_word(&document);
        if kind != "Node" && published::kind_of(&document).is_none() {
            return Err(wrong(format!("kind {:?} is not a Node", kind.as_str())));
        }
        if meta::name(&document).is_empty() {
            return Err(wrong(format!("a {kind} has no name")));
        }
        Ok(document)
    };
    let nodes: Vec<Tree> = items.map(check).collect::<Result<_, _>>()?;
    if !nodes.iter().any(|it| meta::kind_word(it) == "Node") {
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
