//! Revisions, snapshots, watch history and durable commits.
//!
//! A write is prepared by somebody else against the newest state of its key, then accepted here under a short lock
//! and made durable by the commit thread; readers and watchers see durable state only.
//!
//! # Invariants
//!
//! - Revisions are contiguous, never go back and never repeat, also over a crash.
//! - An acknowledged write is durable (Events aside: their writers do not wait).
//! - A transaction becomes visible as a whole: the published revision moves once, past its last record.
//! - Watch cursors deliver every change of their resource once, in revision order, or say that they were overtaken.
//!
//! # Deliberately absent
//!
//! What objects mean. Keys are text, values are [`Object`]s, no field is looked at. And any async runtime.

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
pub use disk::{DiskAct, DiskFaults, FolderLock};
pub use muster_schema::object::Object;
pub use options::*;
pub use store::Store;
