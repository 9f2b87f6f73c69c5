//! OpenAPI v3: the index and one document per served group and version.
//!
//! kubectl uses these to explain fields, to build patches, and to detect server-side validation.
//!
//! # Invariants
//!
//! - Every served group version has a document; without one kubectl rejects to create its objects.
//! - The hash in the index is that of the document's bytes, so that clients may cache a document forever.
//! - Documents are cached compressed, until one of their resources changes.
//!
//! # Deliberately absent
//!
//! Descriptions of built-in kinds (the schema table has none; CRDs have theirs) and the protobuf form. OpenAPI v2 has
//! no definitions: kubectl falls back to it for unknown kinds (`kind: List`) and then leaves validation to the
//! server.

mod paths;
mod schema;
#[cfg(test)]
mod tests;
pub mod v2;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use muster_tree::{Text, Tree, tree};

use crate::discovery;
use crate::registry::{Registry, Resource};
use schema::Components;

/// The components every operation refers to.
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// A document of one group and version.
#[derive(Debug, Clone)]
pub struct OpenApiDocument {
    /// The hash of the document's bytes.
    pub hash: Text,
    /// Gzip: most clients accept it as is.
    pub gzip: Bytes,
}

impl OpenApiDocument {
    #[must_use]
    pub fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        GzDecoder::new(&*self.gzip).read_to_end(&mut plain).expect("we compressed it ourselves");
        plain
    }
}

/// Builds documents on demand and caches the latest of each group version.
#[derive(Debug, Default)]
pub struct OpenApiCache {
    kept: Mutex<BTreeMap<(Text, Text), Kept>>,
}

#[derive(Debug)]
struct Kept {
    /// The source resources; the registry replaces them when their CRD changes.
    from: Vec<Arc<Resource>>,
    document: OpenApiDocument,
}

impl OpenApiCache {
    /// The response of `GET /openapi/v3`.
    #[must_use]
    pub fn index(&self, registry: &Registry) -> Tree {
        let all = discovery::served_group_versions(registry.all());
        let paths = all.into_iter().filter_map(|(group, version)| {
            let document = self.document(registry, &group, &version)?;
            let path = base(&group, &version);
            let url = format!("/openapi/v3{path}?hash={}", document.hash);
            Some((path.trim_start_matches('/').to_owned(), tree!({"serverRelativeURL": url})))
        });
        tree!({"paths": Tree::map(paths)})
    }

    /// The document of a group and version; `None` when nothing is served there.
    #[must_use]
    pub fn document(&self, registry: &Registry, group: &str, version: &str) -> Option<OpenApiDocument> {
        let from = described(registry, group, version);
        if from.is_empty() {
            return None;
        }
        let key = (Text::from(group), Text::from(version));
        // Held while building: concurrent requests for one document build it once.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Pointer comparison: the registry keeps the Arc of unchanged resources.
        if let Some(found) = kept.get(&key).filter(|found| is_same(&found.from, &from)) {
            return Some(found.document.clone());
        }
        let document = compress(&make(&from, group, version));
        kept.insert(key, Kept { from, document: document.clone() });
        Some(document)
    }
}

/// `/api/v1` for the core group, `/apis/batch/v1` for others.
fn base(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// The resources that the document of this group and version describes.
fn described(registry: &Registry, group: &str, version: &str) -> Vec<Arc<Resource>> {
    let all = registry.all().iter();
    all.filter(|r| r.group == group && r.served_version(version).is_some()).cloned().collect()
}

fn is_same(a: &[Arc<Resource>], b: &[Arc<Resource>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

fn compress(document: &Tree) -> OpenApiDocument {
    let plain = document.to_json();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(plain.as_bytes()).expect("writing to memory never fails");
    let gzip = gzip.finish().expect("writing to memory never fails");
    OpenApiDocument { hash: discovery::hash(plain.as_bytes()).into(), gzip: gzip.into() }
}

/// The document of these resources.
fn make(resources: &[Arc<Resource>], group: &str, version: &str) -> Tree {
    let mut components = Components::default();
    // Referenced by every operation or custom resource.
    for name in [DELETE_OPTIONS, STATUS, OBJECT_META, LIST_META] {
        components.want(name);
    }
    let mut all = Vec::new();
    for (resource, version) in discovery::served_at(resources, group, version) {
        all.extend(paths::of(resource, version, &base(group, &version.name), &mut components));
    }
    tree!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.37"},
        "paths": Tree::map(all),
        "components": {"schemas": components.into_tree()},
    })
}
