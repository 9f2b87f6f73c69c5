//! Interning on the write path: equal branches, strings and lists of managed fields are stored once.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use muster_schema::object::Managed;
use muster_tree::{Sharing, Text, Tree, own_bytes};

use crate::head::Prepared;
use crate::{Key, Mutation, StoredObject, Write};

/// Number of managed-field lists below which they are not swept.
const OWNERS_SWEEP_MIN: usize = 1024;

/// The interning tables of trees and managed-field lists.
pub(crate) struct Interner {
    trees: Sharing,
    owners: HashSet<Owners>,
    owners_sweep_at: usize,
    nobody: Arc<[Managed]>,
}

impl Default for Interner {
    fn default() -> Self {
        Self {
            trees: Sharing::new(),
            owners: HashSet::new(),
            owners_sweep_at: OWNERS_SWEEP_MIN,
            nobody: Arc::from([]),
        }
    }
}

impl Interner {
    /// Interns the objects of a write, and estimates the memory that the watch history will keep alive for it.
    pub(crate) fn prepare(&mut self, write: Write) -> Prepared {
        let Write { key, expect, change } = write;
        let key = self.key(&key);
        let (change, bytes) = match change {
            Mutation::Put(object) => (Mutation::Put(self.object(&object)), 0),
            // The last state is usually the stored one, which only the history references from now on.
            Mutation::Delete(object) => {
                let object = self.object(&object);
                let bytes = own_bytes(&object.tree);
                (Mutation::Delete(object), bytes)
            }
        };
        Prepared { write: Write { key, expect, change }, bytes: bytes + self.trees.take_new_bytes() }
    }

    /// Interns the strings of a key.
    pub(crate) fn key(&mut self, key: &Key) -> Key {
        let Key { resource, namespace, name } = key;
        Key { resource: self.text(resource), namespace: self.text(namespace), name: self.text(name) }
    }

    fn object(&mut self, object: &StoredObject) -> StoredObject {
        let tree = self.trees.share_below(&object.tree);
        StoredObject { tree, managed: self.managed(&object.managed), revision: object.revision }
    }

    fn managed(&mut self, all: &Arc<[Managed]>) -> Arc<[Managed]> {
        if all.is_empty() {
            return self.nobody();
        }
        let shared = all.iter().map(|entry| Managed {
            manager: self.text(&entry.manager),
            applied: entry.applied,
            api_version: self.text(&entry.api_version),
            subresource: self.text(&entry.subresource),
            time: self.text(&entry.time),
            fields: self.trees.share(&entry.fields),
        });
        let shared = shared.collect();
        self.owners(shared)
    }

    /// Interns a string.
    pub(crate) fn text(&mut self, text: &Text) -> Text {
        self.trees.text(text)
    }

    /// Interns a branch with interned children.
    pub(crate) fn branch(&mut self, made: Tree) -> Tree {
        self.trees.branch(made)
    }

    /// The root of an object, which is not interned: no two objects are equal.
    pub(crate) fn own_branch(&mut self, made: Tree) -> Tree {
        made
    }

    /// The empty list of managed fields, shared.
    pub(crate) fn nobody(&self) -> Arc<[Managed]> {
        self.nobody.clone()
    }

    /// Interns a list of managed fields with interned strings and trees.
    pub(crate) fn owners(&mut self, made: Arc<[Managed]>) -> Arc<[Managed]> {
        let made = Owners(made);
        if let Some(known) = self.owners.get(&made) {
            return known.0.clone();
        }
        if self.owners.len() >= self.owners_sweep_at {
            self.owners.retain(|owners| Arc::strong_count(&owners.0) > 1);
            self.owners_sweep_at = (self.owners.len() * 2).max(OWNERS_SWEEP_MIN);
        }
        let shared = made.0.clone();
        self.owners.insert(made);
        shared
    }
}

/// A list of managed fields with interned parts, so that parts are compared by address.
struct Owners(Arc<[Managed]>);

impl Hash for Owners {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for entry in self.0.iter() {
            for text in [&entry.manager, &entry.api_version, &entry.subresource, &entry.time] {
                (text.as_ptr() as usize).hash(state);
            }
            entry.fields.address().hash(state);
        }
    }
}

impl PartialEq for Owners {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &Managed, b: &Managed| {
            Text::ptr_eq(&a.manager, &b.manager)
                && a.applied == b.applied
                && Text::ptr_eq(&a.api_version, &b.api_version)
                && Text::ptr_eq(&a.subresource, &b.subresource)
                && Text::ptr_eq(&a.time, &b.time)
                && a.fields.same_branch(&b.fields)
        };
        self.0.len() == other.0.len() && self.0.iter().zip(other.0.iter()).all(|(a, b)| same(a, b))
    }
}

impl Eq for Owners {}
