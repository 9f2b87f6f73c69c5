//! The CRDs of the `kueue.x-k8s.io` group.
//!
//! Fields are declared once, in `fields`. `cargo xtask crds` inlines Kubernetes types and writes `crds/*.json`,
//! which are installed.
//!
//! # Guarantees
//!
//! - The files equal what [`sources`] generates: a test of `codegen` regenerates and compares them.
//! - Both versions are served; the newer one is stored.
//!
//! # Deliberately absent
//!
//! The conversion webhook: the installer adds it to the CRDs.

use std::sync::OnceLock;

use muster_api::client::Kind;
use muster_api::crd_schema::FieldSchema;
use muster_api::queue::consts::{GROUP, OLD_VERSION, VERSION};
use muster_api::queue::kinds::{self, Scope};
use muster_tree::{Tree, tree};

use super::fields::{self, Version};

/// Name, type, JSON path, and whether it has priority 1 (`-o wide`).
type Column = (&'static str, &'static str, &'static str, bool);

/// The parts of a CRD beside its fields.
struct CrdSource {
    kind: &'static Kind,
    short: &'static [&'static str],
    has_status: bool,
    columns: &'static [Column],
    /// Field `selectableFields` of the CRD version.
    selectable: &'static [&'static str],
    fields: fn(Version) -> FieldSchema,
    text: &'static str,
}

static ALL: [CrdSource; 8] = [
    CrdSource {
        kind: &kinds::RESOURCE_FLAVORS,
        short: &["flavor", "flavors", "rf"],
        has_status: false,
        columns: &[],
        selectable: &[],
        fields: fields::flavor,
        text: include_str!("crds/resourceflavors.json"),
    },
    CrdSource {
        kind: &kinds::CLUSTER_QUEUES,
        short: &["cq"],
        has_status: true,
        columns: &[
            ("Cohort", "string", ".spec.cohortName", false),
            ("Strategy", "string", ".spec.queueingStrategy", true),
            ("Pending Workloads", "integer", ".status.pendingWorkloads", false),
            ("Admitted Workloads", "integer", ".status.admittedWorkloads", true),
        ],
        selectable: &[],
        fields: fields::cluster_queue,
        text: include_str!("crds/clusterqueues.json"),
    },
    CrdSource {
        kind: &kinds::LOCAL_QUEUES,
        short: &["queue", "queues", "lq"],
        has_status: true,
        columns: &[
            ("ClusterQueue", "string", ".spec.clusterQueue", false),
            ("Pending Workloads", "integer", ".status.pendingWorkloads", false),
            ("Admitted Workloads", "integer", ".status.admittedWorkloads", false),
        ],
        selectable: &[],
        fields: fields::local_queue,
        text: include_str!("crds/localqueues.json"),
    },
    CrdSource {
        kind: &kinds::COHORTS,
        short: &["co"],
        has_status: true,
        columns: &[],
        selectable: &[],
        fields: fields::cohort,
        text: include_str!("crds/cohorts.json"),
    },
    CrdSource {
        kind: &kinds::WORKLOADS,
        short: &["kwl", "kueueworkload", "kueueworkloads"],
        has_status: true,
        columns: &[
            ("Queue", "string", ".spec.queueName", false),
            ("Reserved in", "string", ".status.admission.clusterQueue", false),
            ("Admitted", "string", ".status.conditions[?(@.type=='Admitted')].status", false),
            ("Finished", "string", ".status.conditions[?(@.type=='Finished')].status", false),
            ("Age", "date", ".metadata.creationTimestamp", false),
        ],
        selectable: &[".status.admission.clusterQueue"],
        fields: fields::workload,
        text: include_str!("crds/workloads.json"),
    },
    CrdSource {
        kind: &kinds::PRIORITY_CLASSES,
        short: &["wpc"],
        has_status: false,
        columns: &[("Value", "integer", ".value", false)],
        selectable: &[],
        fields: fields::priority_class,
        text: include_str!("crds/workloadpriorityclasses.json"),
    },
    CrdSource {
        kind: &kinds::ADMISSION_CHECKS,
        short: &["ac"],
        has_status: true,
        columns: &[],
        selectable: &[],
        fields: fields::check,
        text: include_str!("crds/admissionchecks.json"),
    },
    CrdSource {
        kind: &kinds::TOPOLOGIES,
        short: &["topo"],
        has_status: false,
        columns: &[],
        selectable: &[],
        fields: fields::topology,
        text: include_str!("crds/topologies.json"),
    },
];

/// All CRDs, ready to be installed.
///
/// # Panics
/// Never: the files are part of the build and covered by a test.
#[must_use]
pub fn definitions() -> Vec<Tree> {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    let parse = |it: &CrdSource| Tree::parse(it.text.as_bytes()).expect("definitions are JSON");
    TREES.get_or_init(|| ALL.iter().map(parse).collect()).clone()
}

/// All CRDs with references to Kubernetes types, and their file names.
#[must_use]
pub fn sources() -> Vec<(String, Tree)> {
    ALL.iter().map(|it| (format!("{}.json", it.kind.plural), it.source())).collect()
}

impl CrdSource {
    fn source(&self) -> Tree {
        let plural = &self.kind.plural;
        let (word, scope) = self.named();
        let scope = match scope {
            Scope::Cluster => "Cluster",
            Scope::Namespaced => "Namespaced",
        };
        tree!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {
                "group": GROUP,
                "names": {
                    "kind": word,
                    "listKind": format!("{word}List"),
                    "plural": plural,
                    "singular": word.to_lowercase(),
                    "shortNames": Tree::list(self.short.iter().copied()),
                },
                "scope": scope,
                "versions": [(self.version(Version::Old)), (self.version(Version::New))],
            },
        })
    }

    /// Plural name and scope.
    fn named(&self) -> (&'static str, Scope) {
        let all = kinds::all().into_iter().find(|(kind, _, _)| *kind == self.kind);
        all.map_or(("", Scope::Cluster), |(_, word, scope)| (word, scope))
    }

    fn version(&self, version: Version) -> Tree {
        let (name, stored) = match version {
            Version::Old => (OLD_VERSION, false),
            Version::New => (VERSION, true),
        };
        let columns = self.columns.iter().map(|it| column(it, version));
        let columns = (!self.columns.is_empty()).then(|| Tree::list(columns));
        let selectable = self.selectable.iter().map(|path| tree!({"jsonPath": *path}));
        // kube-apiserver rejects identical `selectableFields` in all versions: they would belong to the CRD as a
        // whole.
        let selects = version == Version::New && !self.selectable.is_empty();
        let selectable = selects.then(|| Tree::list(selectable));
        let parts = self.has_status.then(|| tree!({"status": {}}));
        tree!({"name": name, "served": true, "storage": stored,
            "schema": {"openAPIV3Schema": (self.fields)(version).tree()}})
        .with_option(&["additionalPrinterColumns"], columns)
        .with_option(&["selectableFields"], selectable)
        .with_option(&["subresources"], parts)
    }
}

fn column((name, kind, path, wide): &Column, version: Version) -> Tree {
    let path = match (version, *path) {
        (Version::Old, ".spec.cohortName") => ".spec.cohort",
        (_, path) => path,
    };
    tree!({"name": *name, "type": *kind, "jsonPath": path})
        .with_option(&["priority"], wide.then(|| Tree::from(1)))
}

#[cfg(test)]
mod tests {
    use muster_schema::crd::compile;
    use muster_schema::rules::Rules;

    use super::*;

    #[test]
    fn schemas_and_their_rules_compile() {
        for definition in definitions() {
            let name = definition.str_at(&["metadata", "name"]);
            for version in definition.items_at(&["spec", "versions"]) {
                let schema = version.at(&["schema", "openAPIV3Schema"]).unwrap();
                let compiled = compile(schema).unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
                Rules::compile(&compiled).unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
            }
        }
    }

    #[test]
    fn crds_equal_their_source_except_schema() {
        let plain = |tree: &Tree| {
            let versions = tree.items_at(&["spec", "versions"]).iter();
            let versions = Tree::list(versions.map(|it| it.without_key("schema")));
            tree.with(&["spec", "versions"], versions)
        };
        for (definition, (file, source)) in definitions().iter().zip(sources()) {
            assert_eq!(plain(definition), plain(&source), "{file}");
        }
    }
}
