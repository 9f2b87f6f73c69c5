//! Reads the CRDs from the published Go modules of the projects.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tree::Tree;

use crate::yaml_documents;

/// Module and its directory of CRDs.
const MODULES: [(&str, &str); 3] = [
    ("sigs.k8s.io/jobset@v0.10.1", "config/components/crd/bases"),
    ("sigs.k8s.io/kueue@v0.15.0", "config/components/crd/bases"),
    ("github.com/kubeflow/trainer/v2@v2.1.0", "manifests/base/crds"),
];

/// A CustomResourceDefinition as published.
#[derive(Debug, Clone)]
pub struct Crd {
    pub tree: Tree,
}

impl Crd {
    #[must_use]
    pub fn kind(&self) -> &str {
        self.tree.str_at(&["spec", "names", "kind"])
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.tree.str_at(&["metadata", "name"])
    }

    #[must_use]
    pub fn group(&self) -> &str {
        self.tree.str_at(&["spec", "group"])
    }

    #[must_use]
    pub fn versions(&self) -> &[Tree] {
        self.tree.items_at(&["spec", "versions"])
    }

    /// Returns the CRD with another storage version.
    #[must_use]
    pub fn with_storage_version(&self, version: &str) -> Crd {
        let versions = self.versions().iter().map(|v| v.with(&["storage"], v.str_at(&["name"]) == version));
        Crd { tree: self.tree.with(&["spec", "versions"], Tree::list(versions.collect::<Vec<_>>())) }
    }

    #[must_use]
    pub fn collection_path(&self, version: &str, namespace: &str) -> String {
        let plural = self.tree.str_at(&["spec", "names", "plural"]);
        let namespaced = self.tree.str_at(&["spec", "scope"]) == "Namespaced";
        let place = if namespaced { format!("namespaces/{namespace}/") } else { String::new() };
        format!("/apis/{}/{version}/{place}{plural}", self.group())
    }
}

/// Reads the CRDs of all modules; fails without Go or without access to the modules.
pub fn crds() -> Result<Vec<Crd>, String> {
    let mut all = Vec::new();
    for (module, crds) in MODULES {
        let found = crds_in(&module_directory(module)?.join(crds))?;
        all.extend(found.into_iter().map(|tree| Crd { tree }));
    }
    Ok(all)
}

/// Reads the JobSet CRD as upstream publishes it.
pub fn jobset_crd() -> Result<Tree, String> {
    let (module, crds) = MODULES[0];
    crds_in(&module_directory(module)?.join(crds))?
        .into_iter()
        .next()
        .ok_or_else(|| format!("{module} has no CRD"))
}

/// Reads the YAML documents in a directory of a published module.
pub fn documents_of(module: &str, place: &str) -> Result<Vec<Tree>, String> {
    let all = yaml_documents::read(&module_directory(module)?.join(place))?;
    Ok(all.into_iter().map(|(_, document)| document).collect())
}

/// Returns the directory of a module in the Go module cache, downloading it if needed.
fn module_directory(module: &str) -> Result<PathBuf, String> {
    let mut go = Command::new("go");
    // Outside the workspace: a go.mod in a parent directory would change how Go resolves the module.
    go.current_dir(std::env::temp_dir()).args(["mod", "download", "-json", module]);
    let output = go.output().map_err(|e| format!("{module}: Go is not installed: {e}"))?;
    let answer = Tree::parse(&output.stdout).unwrap_or_default();
    let folder = answer.str_at(&["Dir"]);
    if folder.is_empty() {
        return Err(format!("{module}: go mod download: {}", answer.str_at(&["Error"])));
    }
    Ok(PathBuf::from(folder))
}

/// Reads the CRDs in the YAML files of a directory, in file name order; other documents are ignored.
fn crds_in(folder: &Path) -> Result<Vec<Tree>, String> {
    let all = yaml_documents::read(folder)?.into_iter().map(|(_, document)| document);
    Ok(all.filter(|tree| tree.str_at(&["kind"]) == "CustomResourceDefinition").collect())
}
