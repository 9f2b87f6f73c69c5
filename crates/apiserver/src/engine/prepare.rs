//! Preparation of writes: the steps that all of them share.

use std::sync::Arc;

use muster_api::time::Time;
use muster_schema::error::FieldError;
use muster_schema::node::NodeId;
use muster_schema::object::{Managed, StoredObject};
use muster_schema::{table, zero};
use muster_store::{ExpectedRevision, Key, Mutation, Write};
use muster_tree::{Text, Tree, tree};

use super::metadata_check;
use super::write::{PreparedWrite, ReplyPlan, ReplySource, StoragePreconditions, WritePlan};
use super::{ApiEngine, OBJECT_BYTES_MAX, VersionedResource};
use crate::admission::{AdmissionRequest, Operation};
use crate::kinds::{FieldErrors, ObjectLister, StrategyContext, quantity};
use crate::request::{ReplyObject, WriteAct, WriteReply, WriteRequest};
use crate::status::Status;
use muster_schema::apply::{self, Writer};
use muster_schema::structure;

/// A write that is being prepared.
pub(super) struct WriteContext<'a> {
    pub engine: &'a ApiEngine,
    pub request: &'a WriteRequest,
    pub preconditions: &'a StoragePreconditions,
    pub place: VersionedResource,
    pub now: Time,
}

impl<'a> WriteContext<'a> {
    pub fn new(
        engine: &'a ApiEngine,
        request: &'a WriteRequest,
        guard: &'a StoragePreconditions,
    ) -> Result<Self, Status> {
        let place = engine.resolve(&request.target)?;
        Ok(Self { engine, request, preconditions: guard, place, now: engine.inner.clock.now() })
    }

    pub fn prepare(&self) -> Result<PreparedWrite, Status> {
        if let Some(answer) = self.review()? {
            return Ok(PreparedWrite::Answer(answer));
        }
        self.check_verb()?;
        match (self.request.target.subresource.as_str(), &self.request.act) {
            ("" | "status", WriteAct::Update(_) | WriteAct::Patch(_)) => self.update(),
            ("", WriteAct::Create(body)) => self.create(body),
            ("", WriteAct::Delete(options)) => self.delete(options),
            ("", WriteAct::DeleteCollection(..)) => Err(Status::method_not_allowed()),
            _ => self.subresource(),
        }
    }

    fn check_verb(&self) -> Result<(), Status> {
        let target = &self.request.target;
        let verb = match &self.request.act {
            WriteAct::Create(_) => "create",
            WriteAct::Update(_) => "update",
            WriteAct::Patch(_) => "patch",
            WriteAct::Delete(_) => "delete",
            WriteAct::DeleteCollection(..) => "deletecollection",
        };
        let has = if target.subresource.is_empty() {
            self.place.resource.allows(self.place.version, verb)
        } else {
            let sub = self.place.resource.subresource(self.place.version, &target.subresource);
            sub.ok_or_else(Status::unknown_path)?.verbs.iter().any(|v| v == verb)
        };
        if has { Ok(()) } else { Err(Status::method_not_allowed()) }
    }

    pub fn strategy_context(&self) -> StrategyContext<'_> {
        StrategyContext {
            resource: &self.place.resource,
            version: self.place.version,
            subresource: &self.request.target.subresource,
            now: self.now,
            entropy: &*self.engine.inner.entropy,
            lister: self.engine,
            user: &self.request.user,
        }
    }

    /// Applies `change` only to those parts of a wire form that differ from the live object's. The rest passed it
    /// before and would come out unchanged (or as an older version of this program left it). Custom resources are
    /// always processed whole: their CRD may have changed since.
    pub fn map_changed(&self, tree: &Tree, live: Option<&Tree>, change: impl FnOnce(&Tree) -> Tree) -> Tree {
        match live.filter(|_| !self.place.resource.custom) {
            Some(live) => tree.except_shared(live, change),
            None => change(tree),
        }
    }

    /// Defaults the wire form and converts it to the storage form; `live` is the wire form of the object it replaces.
    pub fn defaulted(&self, wire: &Tree, live: Option<&Tree>) -> Tree {
        let resource = &self.place.resource;
        let schema = &resource.versions[self.place.version].schema;
        let wire = if resource.custom {
            wire.clone()
        } else {
            self.map_changed(wire, live, |news| plain(schema.id, news))
        };
        // Order as in kube-apiserver: conditional defaults, schema defaults, conversion, then defaults that need the
        // storage form.
        let wire = resource.strategy.default_before_schema(wire);
        let wire = self.map_changed(&wire, live, |news| structure::default(schema.view(), news));
        let stored = resource.strategy.to_storage(resource, &wire, self.place.version);
        let stored = resource.strategy.default(stored);
        self.engine.inner.options.gangs.without_fields(resource, stored, live)
    }

    /// Adds the zero values that Go types serialize to the (storage) tree; `live` is the wire form of the object it
    /// replaces.
    pub fn with_zero_values(&self, tree: Tree, live: Option<&Tree>) -> Tree {
        let resource = &self.place.resource;
        if resource.custom || resource.strategy.wire_has_zeros(resource, self.place.version) {
            return tree;
        }
        let id = resource.versions[self.place.version].schema.id;
        let wire = resource.strategy.to_wire(resource, &tree, self.place.version);
        let shown = self.map_changed(&wire, live, |news| zero::written(table::builtin(), id, news));
        if shown.same_branch(&wire) {
            return tree;
        }
        resource.strategy.to_storage(resource, &shown, self.place.version)
    }

    pub fn writer(&self) -> Writer {
        // kube-apiserver records no time for managers of `scale`.
        let timeless = self.request.target.subresource == "scale";
        let time = if timeless { Text::new() } else { Text::from(self.now.to_seconds_text()) };
        Writer {
            manager: self.request.options.field_manager.clone(),
            api_version: self.place.resource.api_version(self.place.version),
            subresource: self.request.target.subresource.clone(),
            time,
        }
    }

    /// Fields that requests through this endpoint cannot own.
    pub fn ignored(&self) -> Tree {
        let has_status = self.place.resource.has_status(self.place.version);
        match self.request.target.subresource.as_str() {
            "status" if self.place.resource.strategy.status_keeps_metadata() => {
                tree!({"f:spec": {}, "f:metadata": {}})
            }
            "status" => match self.kept_by_status() {
                Some(key) => {
                    tree!({"f:spec": {}}).with(&["f:metadata", &format!("f:{key}")], Tree::empty_map())
                }
                None => tree!({"f:spec": {}}),
            },
            _ if has_status => tree!({"f:status": {}}),
            _ => Tree::empty_map(),
        }
    }

    /// The object in the request's version.
    pub fn wire(&self, object: &StoredObject) -> StoredObject {
        let resource = &self.place.resource;
        let tree = resource.strategy.to_wire(resource, &object.tree, self.place.version);
        StoredObject { tree, ..object.clone() }
    }

    /// Field ownership after an update to this (storage) tree; `said` are the managedFields of the body.
    pub fn owned(&self, live: Option<&StoredObject>, new: &Tree, said: Option<&Tree>) -> Arc<[Managed]> {
        let resource = &self.place.resource;
        let view = resource.versions[self.place.version].schema.view();
        let new = resource.strategy.to_wire(resource, new, self.place.version);
        let live = live.map(|object| {
            let managed = apply::of_request(said, &object.managed, &self.request.target.subresource);
            StoredObject { managed, ..self.wire(object) }
        });
        apply::update(view, live.as_ref(), &new, &self.writer(), &self.ignored())
    }

    fn admission<'b>(
        &'b self,
        operation: Operation,
        object: Option<&'b Tree>,
        old: Option<&'b Tree>,
    ) -> AdmissionRequest<'b> {
        let target = &self.request.target;
        AdmissionRequest {
            resource: &self.place.resource,
            version: self.place.version,
            operation,
            namespace: &target.namespace,
            name: &target.name,
            subresource: &target.subresource,
            object,
            old,
            user: &self.request.user,
            dry_run: self.request.options.dry_run,
            lister: self.engine,
            now: self.now,
        }
    }

    pub fn run_mutating(
        &self,
        operation: Operation,
        tree: Tree,
        old: Option<&Tree>,
        warnings: &mut Vec<String>,
    ) -> Result<Tree, Status> {
        let chain = self.engine.chain();
        chain.mutate(tree, &self.admission(operation, None, old), warnings)
    }

    pub fn run_validating(
        &self,
        operation: Operation,
        tree: Option<&Tree>,
        old: Option<&Tree>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        self.engine.chain().validate(&self.admission(operation, tree, old), warnings)
    }

    /// 422 if there are errors.
    pub fn check_errors(&self, name: &str, errors: &FieldErrors) -> Result<(), Status> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(self.place.resource.named_kind(name), errors))
    }

    /// Validates a custom resource by schema and CEL rules.
    pub fn check_custom(&self, new: &Tree, old: Option<&Tree>, errors: &mut FieldErrors) {
        let resource = &self.place.resource;
        if !resource.custom {
            return;
        }
        let wire = |tree: &Tree| resource.strategy.to_wire(resource, tree, self.place.version);
        let old = old.map(wire);
        resource.strategy.validate_custom(self.place.version, &wire(new), old.as_ref(), errors);
        if self.request.target.subresource == "status" {
            errors.iter_mut().for_each(relative_to_status);
        }
    }

    pub fn check_meta_new(&self, tree: &Tree, errors: &mut FieldErrors) {
        metadata_check::check_new(tree, self.place.resource.strategy.name_rule(), errors);
    }

    /// Rejects objects that are too large to store.
    pub fn check_size(&self, tree: &Tree) -> Result<(), Status> {
        if is_surely_small(tree) || tree.to_json_bytes().len() <= OBJECT_BYTES_MAX {
            return Ok(());
        }
        let message = format!("Request is too large: an object may have at most {OBJECT_BYTES_MAX} bytes");
        Err(Status::new(413, "RequestEntityTooLarge", message))
    }

    /// Plans one put, or answers a dry run.
    pub fn put(
        &self,
        key: Key,
        expect: ExpectedRevision,
        object: StoredObject,
        code: u16,
        warnings: Vec<String>,
    ) -> PreparedWrite {
        let resource = &self.place.resource;
        let object = if self.request.options.dry_run {
            object
        } else {
            // A dry run returns the object as written, not as pruned for storage.
            StoredObject {
                tree: resource.strategy.prune_for_storage(resource, &object.tree, self.place.version),
                ..object
            }
        };
        let writes = vec![Write { key, expect, change: Mutation::Put(object) }];
        self.plan(writes, ReplyPlan { code, source: ReplySource::First, warnings })
    }

    /// Plans these writes, or answers a dry run.
    pub fn plan(&self, writes: Vec<Write>, answer: ReplyPlan) -> PreparedWrite {
        if !self.request.options.dry_run {
            return PreparedWrite::Writes(WritePlan { writes, answer });
        }
        let objects: Vec<StoredObject> = writes
            .into_iter()
            .map(|write| {
                let revision = if let ExpectedRevision::Revision(n) = write.expect { n } else { 0 };
                match write.change {
                    Mutation::Put(object) | Mutation::Delete(object) => StoredObject { revision, ..object },
                }
            })
            .collect();
        let code = answer.code;
        match self.engine.answer(answer, &objects) {
            Ok(reply) => PreparedWrite::Answer(reply),
            Err(status) => PreparedWrite::Answer(WriteReply {
                code,
                shown: ReplyObject::Status(status),
                warnings: Vec::new(),
            }),
        }
    }

    /// The newest state of the request's object, pending writes included.
    pub fn live(&self) -> Option<StoredObject> {
        self.engine.newest(&self.key())
    }

    pub fn key(&self) -> Key {
        let target = &self.request.target;
        self.place.resource.key(&target.namespace, &target.name)
    }

    pub fn not_found(&self) -> Status {
        Status::not_found(self.place.resource.named(&self.request.target.name))
    }
}

/// For status writes kube-apiserver's CEL and schema messages are relative to `status`; the paths are not.
fn relative_to_status(error: &mut FieldError) {
    if let Some(below) = error.detail.strip_prefix("status.").filter(|rest| rest.contains(" in body ")) {
        error.detail = below.to_owned();
    }
}

/// Drops empty values that Go omits, and canonicalizes quantities.
fn plain(id: NodeId, wire: &Tree) -> Tree {
    let table = table::builtin();
    quantity::canonical(table, id, &zero::absent(table, id, wire))
}

/// An upper bound of the JSON size, so that ordinary objects are not serialized just to be measured.
fn is_surely_small(tree: &Tree) -> bool {
    fn count(tree: &Tree, left: &mut usize) {
        let cost = match tree {
            // One byte of text takes at most six in JSON (\u00XX).
            Tree::Text(text) => text.len() * 6 + 2,
            Tree::List(_) | Tree::Map(_) => 2,
            _ => 24,
        };
        *left = left.saturating_sub(cost + 1);
        for item in tree.items() {
            count(item, left);
        }
        for (key, value) in tree.entries() {
            *left = left.saturating_sub(key.len() * 6 + 3);
            count(value, left);
        }
    }
    let mut left = OBJECT_BYTES_MAX;
    count(tree, &mut left);
    left > 0
}
