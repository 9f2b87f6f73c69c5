//! Requests and replies of the engine.

use std::collections::BTreeMap;
use std::fmt;

use muster_schema::object::StoredObject;
use muster_tree::{Text, Tree};

use crate::status::Status;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// `muster-admin` or `system:serviceaccount:ns:name`, for example.
    pub name: Text,
    /// UID; empty when unknown.
    pub uid: Text,
    pub groups: Vec<Text>,
    /// The `extra` of UserInfo.
    pub extra: BTreeMap<Text, Vec<Text>>,
}

/// The parsed request path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// Empty for the core group.
    pub group: Text,
    pub version: Text,
    pub resource: Text,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub namespace: Text,
    pub name: Text,
    /// Empty for the object itself.
    pub subresource: Text,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown and duplicate fields are rejected.
    Strict,
    /// They are reported as warnings.
    #[default]
    Warn,
    /// They are dropped silently.
    Ignore,
}

#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// `fieldManager`, already defaulted from the user agent; empty only for apply without one.
    pub field_manager: Text,
    pub field_validation: FieldValidation,
    pub dry_run: bool,
}

/// A decoded request body.
#[derive(Debug, Clone)]
pub struct RequestBody {
    pub tree: Tree,
    /// Duplicate keys; the last value of each is in `tree`.
    pub duplicates: Vec<DuplicateKey>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DuplicateKey {
    /// In JSON, by its path.
    Field(String),
    /// In YAML, by its line and name.
    Line(u64, Text),
}

impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DuplicateKey::Field(path) => write!(f, "duplicate field {path:?}"),
            DuplicateKey::Line(line, key) => {
                write!(f, "line {line}: key {:?} already set in map", key.as_str())
            }
        }
    }
}

/// A patch of one of the four types.
#[derive(Debug, Clone)]
pub enum Patch {
    /// RFC 6902: a list of operations.
    Json(RequestBody),
    /// RFC 7396.
    Merge(RequestBody),
    Strategic(RequestBody),
    Apply {
        body: RequestBody,
        force: bool,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`; `None` means the kind's default.
    pub grace_secs: Option<i64>,
    /// `propagationPolicy`; empty when not given.
    pub propagation: Text,
    pub orphan_dependents: Option<bool>,
    pub uid: Option<Text>,
    pub resource_version: Option<Text>,
}

/// The action of a write.
#[derive(Debug, Clone)]
pub enum WriteAct {
    Create(RequestBody),
    Update(RequestBody),
    Patch(Patch),
    Delete(DeleteOptions),
    DeleteCollection(DeleteOptions, ListOptions),
}

#[derive(Debug, Clone)]
pub struct WriteRequest {
    pub target: ResourcePath,
    pub act: WriteAct,
    pub options: WriteOptions,
    pub user: UserInfo,
}

#[derive(Debug, Clone)]
pub struct WriteReply {
    /// 200, 201 or 202.
    pub code: u16,
    pub shown: ReplyObject,
    /// Texts of `Warning` headers.
    pub warnings: Vec<String>,
}

/// The object of a reply.
#[derive(Debug, Clone)]
pub enum ReplyObject {
    /// An object of the target's resource, in storage form: [`crate::registry::Resource::present`] makes the wire form.
    Object(StoredObject),
    /// Several objects, at this revision.
    Objects(Vec<StoredObject>, u64),
    /// An object that is not stored (a review, a Scale, a token), in wire form.
    Tree(Tree),
    /// A `Status`, e.g. the success of a delete.
    Status(Status),
}

/// ListOptions as sent; the engine validates combinations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub label_selector: Text,
    pub field_selector: Text,
    pub resource_version: Text,
    pub resource_version_match: Text,
    /// 0 for no limit.
    pub limit: usize,
    pub continue_token: Text,
    pub send_initial_events: Option<bool>,
    pub allow_bookmarks: bool,
}

#[derive(Debug, Clone)]
pub struct ListReply {
    /// The objects, in storage form.
    pub objects: Vec<StoredObject>,
    /// The revision of the snapshot.
    pub revision: u64,
    /// Empty on the last page.
    pub continue_token: Text,
    pub remaining: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
    /// Only the revision of the object counts.
    Bookmark,
    /// A `BOOKMARK` that ends the initial events of a streaming list.
    InitialEventsEnd,
}

/// One event of a watch, selector transitions already applied.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    pub kind: EventType,
    /// The object in storage form; its revision is the event's.
    pub object: StoredObject,
}
