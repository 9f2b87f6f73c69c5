//! How much of a kind is taken: some kinds have many objects, large ones, or such as are better not seen, of which a loop
//! has to do with few.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderValue;
use muster_api::port::{Kind, Object};
use muster_tree::Tree;

/// What is taken of a kind that is followed in all namespaces.
#[derive(Debug, Clone, Copy, Default)]
pub enum Share {
    /// Everything.
    #[default]
    Whole,
    /// Of each object its metadata: the rest is never sent, and no Secret is seen.
    Metadata,
    /// Of a list those of which this holds: the others come and go page by page. Changes of others are still told, one
    /// by one.
    Those(fn(&Tree) -> bool),
}

/// What is taken of which kinds; of the others everything.
pub type Shares = Arc<BTreeMap<Kind, Share>>;

/// Metadata alone, or whole objects where a server cannot do that: of a list, and of a watch.
const LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);
const WATCH: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");

impl Share {
    /// What is asked for in place of whole objects.
    pub(crate) fn accept(self, is_watch: bool) -> Option<HeaderValue> {
        match self {
            Share::Metadata => Some(if is_watch { WATCH } else { LIST }),
            Share::Whole | Share::Those(_) => None,
        }
    }

    fn takes(self, object: &Object) -> bool {
        match self {
            Share::Those(holds) => holds(&object.tree),
            Share::Whole | Share::Metadata => true,
        }
    }
}

/// A list as it comes in.
#[derive(Default)]
pub struct Listing {
    taken: Vec<Object>,
    /// The newest of those that were not taken: whoever reads a list has to know how new it is.
    newest: Option<Object>,
}

impl Listing {
    /// One more of it.
    pub fn add(&mut self, share: Share, object: Object) {
        if share.takes(&object) {
            self.taken.push(object);
        } else if self.newest.as_ref().is_none_or(|it| it.revision < object.revision) {
            self.newest = Some(object);
        }
    }

    /// All of it.
    pub fn whole(self) -> Vec<Object> {
        let Listing { mut taken, newest } = self;
        taken.extend(newest);
        taken
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn object(name: &str, revision: u64) -> Object {
        Object { tree: tree!({"metadata": {"name": name}}), revision }
    }

    #[test]
    fn of_a_list_only_few_stay_and_it_is_as_new_as_it_was() {
        let ours = Share::Those(|it| it.str_at(&["metadata", "name"]).starts_with("ours"));
        for (says, share, revisions, want) in [
            ("everything", Share::Whole, [1, 2, 3], vec!["ours-a", "b", "c"]),
            ("metadata of everything", Share::Metadata, [1, 2, 3], vec!["ours-a", "b", "c"]),
            ("ours, and the newest", ours, [1, 2, 3], vec!["ours-a", "c"]),
            ("ours, and the newest, wherever it stands", ours, [1, 3, 2], vec!["ours-a", "b"]),
        ] {
            let mut listing = Listing::default();
            for (name, revision) in ["ours-a", "b", "c"].iter().zip(revisions) {
                listing.add(share, object(name, revision));
            }
            let names: Vec<String> =
                listing.whole().iter().map(|it| it.tree.str_at(&["metadata", "name"]).to_owned()).collect();
            assert_eq!(names, want, "{says}");
        }
        assert!(Listing::default().whole().is_empty());
    }

    #[test]
    fn only_metadata_is_asked_for_in_other_words() {
        assert!(Share::Whole.accept(true).is_none() && Share::Those(|_| true).accept(false).is_none());
        let [watch, list] = [true, false].map(|is_watch| Share::Metadata.accept(is_watch).unwrap());
        assert!(watch.to_str().unwrap().contains("as=PartialObjectMetadata;"));
        assert!(list.to_str().unwrap().contains("as=PartialObjectMetadataList;"));
    }
}
