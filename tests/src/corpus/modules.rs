//! Where the CRDs come from: the published Go modules of the projects.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tree::Tree;

use crate::documents;

/// A module and its folder of CRDs.
const MODULES: [(&str, &str); 3] = [
    ("sigs.k8s.io/jobset@v0.10.1", "config/components/crd/bases"),
    ("sigs.k8s.io/kueue@v0.15.0", "config/components/crd/bases"),
    ("github.com/kubeflow/trainer/v2@v2.1.0", "manifests/base/crds"),
];

/// A CustomResourceDefinition as published.
#[derive(Debug, Clone)]
pub struct Crd {
    /// The object.
    pub tree: Tree,
}

impl Crd {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.tree.str_at(&["spec", "names", "kind"])
    }

    /// Its own name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.tree.str_at(&["metadata", "name"])
    }

    /// Its group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.tree.str_at(&["spec", "group"])
    }

    /// Its versions, as they stand in it.
    #[must_use]
    pub fn versions(&self) -> &[Tree] {
        self.tree.items_at(&["spec", "versions"])
    }

    /// The same with another stored version.
    #[must_use]
    pub fn storing(&self, version: &str) -> Crd {
        let versions = self.versions().iter().map(|v| v.with(&["storage"], v.str_at(&["name"]) == version));
        Crd { tree: self.tree.with(&["spec", "versions"], Tree::list(versions.collect::<Vec<_>>())) }
    }

    /// The path of its objects in a version.
    #[must_use]
    pub fn objects(&self, version: &str, namespace: &str) -> String {
        let plural = self.tree.str_at(&["spec", "names", "plural"]);
        let namespaced = self.tree.str_at(&["spec", "scope"]) == "Namespaced";
        let place = if namespaced { format!("namespaces/{namespace}/") } else { String::new() };
        format!("/apis/{}/{version}/{place}{plural}", self.group())
    }
}

/// All CRDs of all modules, or why they cannot be had.
pub fn crds() -> Result<Vec<Crd>, String> {
    let mut all = Vec::new();
    for (module, crds) in MODULES {
        let found = definitions(&folder(module)?.join(crds))?;
        all.extend(found.into_iter().map(|tree| Crd { tree }));
    }
    Ok(all)
}

/// The definition of JobSets as upstream publishes it.
pub fn jobset_definition() -> Result<Tree, String> {
    let (module, crds) = MODULES[0];
    definitions(&folder(module)?.join(crds))?.into_iter().next().ok_or_else(|| format!("{module} has no CRD"))
}

/// The documents in the YAML files of a folder of a published module.
pub fn documents_of(module: &str, place: &str) -> Result<Vec<Tree>, String> {
    let all = documents::read(&folder(module)?.join(place))?;
    Ok(all.into_iter().map(|(_, document)| document).collect())
}

/// The folder in which Go keeps a module, downloaded if it has to be.
fn folder(module: &str) -> Result<PathBuf, String> {
    let mut go = Command::new("go");
    // Away from the workspace: a module of its own there would be asked about its dependencies.
    go.current_dir(std::env::temp_dir()).args(["mod", "download", "-json", module]);
    let output = go.output().map_err(|e| format!("{module}: there is no Go to find it with: {e}"))?;
    let answer = Tree::parse(&output.stdout).unwrap_or_default();
    let folder = answer.str_at(&["Dir"]);
    if folder.is_empty() {
        return Err(format!("{module}: go mod download: {}", answer.str_at(&["Error"])));
    }
    Ok(PathBuf::from(folder))
}

/// The definitions in the YAML files of a folder, in order of file names; other documents are passed over.
fn definitions(folder: &Path) -> Result<Vec<Tree>, String> {
    let all = documents::read(folder)?.into_iter().map(|(_, document)| document);
    Ok(all.filter(|tree| tree.str_at(&["kind"]) == "CustomResourceDefinition").collect())
}
