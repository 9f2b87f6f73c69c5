//! Requests and answers below HTTP: what the engine is asked and what it says.

use std::collections::BTreeMap;
use std::fmt;

use muster_schema::object::Object;
use muster_tree::{Text, Tree};

use crate::status::Status;

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// User name, e.g. `muster-admin` or `system:serviceaccount:ns:name`.
    pub name: Text,
    /// UID; empty when unknown.
    pub uid: Text,
    /// Groups.
    pub groups: Vec<Text>,
    /// What else is known of him, by keys that only authorizers understand.
    pub extra: BTreeMap<Text, Vec<Text>>,
}

/// What a request is about: the parsed path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// API group; empty for core.
    pub group: Text,
    /// Version in the path.
    pub version: Text,
    /// Plural resource.
    pub resource: Text,
    /// Namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: Text,
    /// Object name; empty for collections.
    pub name: Text,
    /// Subresource; empty for the object itself.
    pub subresource: Text,
}

/// `fieldValidation`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown and duplicate fields are refused.
    Strict,
    /// They are warned about.
    #[default]
    Warn,
    /// They are dropped in silence.
    Ignore,
}

/// Options of every write.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// `fieldManager`, already defaulted from the user agent; empty only for apply without one.
    pub field_manager: Text,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// `dryRun=All`.
    pub dry_run: bool,
}

/// A decoded body.
#[derive(Debug, Clone)]
pub struct Body {
    /// The object.
    pub tree: Tree,
    /// Keys that stood twice in the text.
    pub duplicates: Vec<Twice>,
}

/// A key that stood twice in its map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Twice {
    /// In JSON, by its path.
    Field(String),
    /// In YAML, by its line and name.
    Line(u64, Text),
}

/// As messages tell of it.
impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Twice::Field(path) => write!(f, "duplicate field {path:?}"),
            Twice::Line(line, key) => write!(f, "line {line}: key {:?} already set in map", key.as_str()),
        }
    }
}

/// The kind of a patch and its content.
#[derive(Debug, Clone)]
pub enum Patch {
    /// RFC 6902: a list of operations.
    Json(Body),
    /// RFC 7396.
    Merge(Body),
    /// Strategic merge.
    Strategic(Body),
    /// Server-side apply.
    Apply {
        /// The applied configuration.
        body: Body,
        /// `force`.
        force: bool,
    },
}

/// `DeleteOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`.
    pub grace_secs: Option<i64>,
    /// `propagationPolicy`; empty when not given.
    pub propagation: Text,
    /// Legacy `orphanDependents`.
    pub orphan_dependents: Option<bool>,
    /// `preconditions.uid`.
    pub uid: Option<Text>,
    /// `preconditions.resourceVersion`.
    pub resource_version: Option<Text>,
}

/// What a write does.
#[derive(Debug, Clone)]
pub enum WriteAct {
    /// POST.
    Create(Body),
    /// PUT.
    Update(Body),
    /// PATCH.
    Patch(Patch),
    /// DELETE of one object.
    Delete(DeleteOptions),
    /// DELETE of a collection.
    DeleteCollection(DeleteOptions, ListOptions),
}

/// A write.
#[derive(Debug, Clone)]
pub struct WriteRequest {
    /// What it is about.
    pub target: Target,
    /// What it does.
    pub act: WriteAct,
    /// Its options.
    pub options: WriteOptions,
    /// Who asks.
    pub user: User,
}

/// The answer to a write.
#[derive(Debug, Clone)]
pub struct WriteReply {
    /// 200, 201 or 202.
    pub code: u16,
    /// What to show.
    pub shown: Shown,
    /// `Warning` headers.
    pub warnings: Vec<String>,
}

/// What an answer shows.
#[derive(Debug, Clone)]
pub enum Shown {
    /// An object of the target's resource, in storage form: [`crate::registry::Resource::present`] makes the wire form.
    Object(Object),
    /// Several of them, at this revision.
    Objects(Vec<Object>, u64),
    /// Something that is not stored (a review, a scale, a token), already in wire form.
    Tree(Tree),
    /// A `Status`, e.g. the success of a delete.
    Status(Status),
}

/// `ListOptions` as sent: the engine judges combinations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `labelSelector`.
    pub label_selector: Text,
    /// `fieldSelector`.
    pub field_selector: Text,
    /// `resourceVersion`.
    pub resource_version: Text,
    /// `resourceVersionMatch`.
    pub resource_version_match: Text,
    /// `limit`; 0 for none.
    pub limit: usize,
    /// `continue`.
    pub continue_token: Text,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
    /// `allowWatchBookmarks`.
    pub allow_bookmarks: bool,
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct ListReply {
    /// The objects, in storage form.
    pub objects: Vec<Object>,
    /// Revision of the snapshot.
    pub revision: u64,
    /// `metadata.continue`; empty on the last page.
    pub continue_token: Text,
    /// `metadata.remainingItemCount`.
    pub remaining: Option<usize>,
}

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// `ADDED`.
    Added,
    /// `MODIFIED`.
    Modified,
    /// `DELETED`.
    Deleted,
    /// `BOOKMARK`: only the revision of the object counts.
    Bookmark,
    /// A `BOOKMARK` that ends the initial events of a streaming list.
    InitialEventsEnd,
}

/// One event of a watch, selector transitions already applied.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// Its type.
    pub kind: EventType,
    /// The object in storage form; its revision is the event's.
    pub object: Object,
}
