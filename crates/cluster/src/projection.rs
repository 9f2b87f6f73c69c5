//! Projections of watches: some kinds have many objects, large ones, or secret ones, and the control loop needs few of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderValue;
use muster_api::client::{ApiObject, Kind};
use muster_tree::Tree;

/// What a watch in all namespaces keeps of a kind.
#[derive(Debug, Clone, Copy, Default)]
pub enum Projection {
    #[default]
    Full,
    /// The metadata of each object: the server sends nothing else, so no Secret data is received.
    MetadataOnly,
    /// The listed objects for which the predicate holds: the others are dropped page by page. Watch events of other objects
    /// are still delivered.
    Filtered(fn(&Tree) -> bool),
}

/// Projections by kind; `Full` for other kinds.
pub type Projections = Arc<BTreeMap<Kind, Projection>>;

/// `Accept` headers for metadata only, or full objects where a server does not support that: of a list, and of a watch.
const LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);
const WATCH: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");

impl Projection {
    /// The `Accept` header, if it is not the default.
    pub(crate) fn accept(self, is_watch: bool) -> Option<HeaderValue> {
        match self {
            Projection::MetadataOnly => Some(if is_watch { WATCH } else { LIST }),
            Projection::Full | Projection::Filtered(_) => None,
        }
    }

    fn takes(self, object: &ApiObject) -> bool {
        match self {
            Projection::Filtered(holds) => holds(&object.tree),
            Projection::Full | Projection::MetadataOnly => true,
        }
    }
}

#[derive(Default)]
pub struct ListBuilder {
    taken: Vec<ApiObject>,
    /// The newest object that was dropped: its `resourceVersion` tells the cache how new the list is.
    newest: Option<ApiObject>,
}

impl ListBuilder {
    pub fn add(&mut self, share: Projection, object: ApiObject) {
        if share.takes(&object) {
            self.taken.push(object);
        } else if self.newest.as_ref().is_none_or(|it| it.revision < object.revision) {
            self.newest = Some(object);
        }
    }

    pub fn finish(self) -> Vec<ApiObject> {
        let ListBuilder { mut taken, newest } = self;
        taken.extend(newest);
        taken
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn object(name: &str, revision: u64) -> ApiObject {
        ApiObject { tree: tree!({"metadata": {"name": name}}), revision }
    }

    #[test]
    fn of_a_list_only_few_stay_and_it_is_as_new_as_it_was() {
        let ours = Projection::Filtered(|it| it.str_at(&["metadata", "name"]).starts_with("ours"));
        for (says, share, revisions, want) in [
            ("everything", Projection::Full, [1, 2, 3], vec!["ours-a", "b", "c"]),
            ("metadata of everything", Projection::MetadataOnly, [1, 2, 3], vec!["ours-a", "b", "c"]),
            ("ours, and the newest", ours, [1, 2, 3], vec!["ours-a", "c"]),
            ("ours, and the newest, wherever it stands", ours, [1, 3, 2], vec!["ours-a", "b"]),
        ] {
            let mut listing = ListBuilder::default();
            for (name, revision) in ["ours-a", "b", "c"].iter().zip(revisions) {
                listing.add(share, object(name, revision));
            }
            let names: Vec<String> =
                listing.finish().iter().map(|it| it.tree.str_at(&["metadata", "name"]).to_owned()).collect();
            assert_eq!(names, want, "{says}");
        }
        assert!(ListBuilder::default().finish().is_empty());
    }

    #[test]
    fn only_metadata_is_asked_for_in_other_words() {
        assert!(
            Projection::Full.accept(true).is_none() && Projection::Filtered(|_| true).accept(false).is_none()
        );
        let [watch, list] = [true, false].map(|is_watch| Projection::MetadataOnly.accept(is_watch).unwrap());
        assert!(watch.to_str().unwrap().contains("as=PartialObjectMetadata;"));
        assert!(list.to_str().unwrap().contains("as=PartialObjectMetadataList;"));
    }
}
