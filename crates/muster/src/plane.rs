//! The parts that act on objects: controllers, scheduler and nodes, started over the in-process API.
//!
//! This is the one place where they are wired.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::meta;
use muster_api::ports::Clock;
use muster_apiserver::engine::Engine;
use muster_apiserver::http::health::Check;
use muster_apiserver::local::LocalApi;
use muster_control::run::Shell;
use muster_node::plane::{self, Nodes};
use muster_tree::Tree;

use crate::settings::{self, Settings};

/// Why the parts did not start.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The file of nodes cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file of nodes is not what it should be.
    #[error("{path}: {problem}: give Node manifests, separated by `---`", path = path.display())]
    Nodes {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// No thread.
    #[error("starting the controllers: {0}")]
    Thread(io::Error),
}

/// The running parts.
pub struct Plane {
    engine: Engine,
    shell: Shell,
}

impl Plane {
    /// What `/readyz` waits for.
    #[must_use]
    pub fn check() -> Check {
        Check::pending("controllers")
    }

    /// Starts what the settings choose; `ready` passes when caches are in step.
    ///
    /// # Errors
    /// The nodes cannot be read, or there is no thread.
    pub fn start(
        engine: &Engine,
        clock: &Arc<dyn Clock>,
        settings: &Settings,
        ready: &Check,
    ) -> Result<Plane, PlaneError> {
        tracing::info!(controllers = ?settings.controllers, nodes = ?settings.nodes, gates = ?settings.gates, "starting");
        let nodes = match &settings.nodes {
            settings::Nodes::Local => Nodes::Local,
            settings::Nodes::Simulated(count) => Nodes::Count(*count as usize),
            settings::Nodes::File(path) => Nodes::Manifests(read_nodes(path)?),
        };
        let api = Arc::new(LocalApi::new(engine.clone()));
        let ready = ready.clone();
        let shell =
            plane::start(api, clock.clone(), &settings.controllers, nodes, Box::new(move || ready.pass()))
                .map_err(PlaneError::Thread)?;
        Ok(Plane { engine: engine.clone(), shell })
    }

    /// Stops them; what they were about to do is done again after the next start.
    pub fn stop(self) {
        self.shell.stop();
        tracing::info!(revision = self.engine.revision(), "stopped");
    }
}

/// The Node manifests of a file. Manifests of other kinds are refused: nothing would act on them.
fn read_nodes(path: &Path) -> Result<Vec<Tree>, PlaneError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| PlaneError::Read { path: path.into(), source })?;
    let wrong = |problem: String| PlaneError::Nodes { path: path.into(), problem };
    let documents = Tree::parse_yaml_documents(&text).map_err(|error| wrong(error.to_string()))?;
    let items = documents.iter().flat_map(|document| match meta::kind_word(document).as_str() {
        "List" | "NodeList" => document.items_at(&["items"]).to_vec(),
        _ => vec![document.clone()],
    });
    let check = |document: Tree| match meta::kind_word(&document).as_str() {
        "Node" if !meta::name(&document).is_empty() => Ok(document),
        "Node" => Err(wrong("a Node has no name".to_owned())),
        other => Err(wrong(format!("kind {other:?} is not a Node"))),
    };
    items.map(check).collect()
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
            ("kind: Node\nmetadata: {}\n", Err("a Node has no name")),
            ("kind: Pod\nmetadata: {name: a}\n", Err("kind \"Pod\" is not a Node")),
            ("a: [", Err("nodes.yaml")),
        ] {
            let path = folder.path().join("nodes.yaml");
            std::fs::write(&path, text).unwrap();
            match (read_nodes(&path).map(|nodes| nodes.len()), want) {
                (Ok(count), Ok(want)) => assert_eq!(count, want, "{text}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
