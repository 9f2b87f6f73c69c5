//! The object store: revisions, snapshots, watch history and durable commits; the role that etcd has for Kubernetes.
//!
//! The caller prepares a write against the newest state of its key. The store accepts it under a short lock, and the
//! commit thread makes it durable; readers and watchers see durable state only.
//!
//! # Guarantees
//!
//! - Revisions are contiguous, never decrease and never repeat, also across a crash.
//! - An acknowledged write is durable, except writes of Events, which are acknowledged at once.
//! - A transaction becomes visible atomically: the published revision advances once, past its last record.
//! - A watch cursor delivers every change of its resource once, in revision order, or fails with [`Expired`].
//!
//! # Deliberately absent
//!
//! The meaning of objects: keys are strings, values are [`StoredObject`]s, and no field is read. Any async runtime.

#![deny(missing_docs)]

mod codec;
mod committer;
mod contract;
pub mod copy;
mod cursor;
mod disk;
mod head;
mod list;
mod options;
mod ring;
mod share;
mod state;
mod store;

pub use contract::*;
pub use cursor::Cursor;
pub use disk::{DirectoryLock, DiskAct, DiskFaults};
pub use muster_schema::object::StoredObject;
pub use options::*;
pub use store::Store;
