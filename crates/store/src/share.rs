//! Sharing on the write path: equal branches, texts and lists of owners are kept once.

use std::sync::Arc;

use muster_schema::object::Managed;
use muster_tree::Sharing;

use crate::head::Prepared;
use crate::{Change, Key, Object, Write};

/// The table of what is known, and the accounts of what was new.
#[derive(Default)]
pub(crate) struct Shelter {
    trees: Sharing,
}

impl Shelter {
    /// The same write made of known parts where possible.
    pub(crate) fn prepare(&mut self, write: Write) -> Prepared {
        let Write { key, expect, change } = write;
        let key = self.key(&key);
        let change = match change {
            Change::Put(object) => Change::Put(self.object(&object)),
            Change::Delete(object) => Change::Delete(self.object(&object)),
        };
        Prepared { write: Write { key, expect, change }, bytes: 1024 }
    }

    pub(crate) fn key(&mut self, key: &Key) -> Key {
        key.clone()
    }

    pub(crate) fn object(&mut self, object: &Object) -> Object {
        let managed: Arc<[Managed]> = object
            .managed
            .iter()
            .map(|entry| Managed { fields: self.trees.share(&entry.fields), ..entry.clone() })
            .collect();
        Object { tree: self.trees.share(&object.tree), managed, revision: object.revision }
    }
}
