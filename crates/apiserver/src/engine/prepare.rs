//! What all writes have in common: who asks for what, and the steps that an object passes on its way in.

use std::sync::Arc;

use muster_api::time::Time;
use muster_schema::error::FieldError;
use muster_schema::node::NodeId;
use muster_schema::object::{Managed, Object};
use muster_schema::{table, zero};
use muster_store::{Change, Expect, Key, Write};
use muster_tree::{Text, Tree, tree};

use super::metadata_check;
use super::write::{Answer, Guard, Plan, Prepared, Shows};
use super::{Engine, OBJECT_BYTES_MAX, Place};
use crate::admission::{AdmissionRequest, Operation};
use crate::kinds::{Cx, Errors, Look, quantity};
use crate::request::{Shown, WriteAct, WriteReply, WriteRequest};
use crate::status::Status;
use muster_schema::apply::{self, Writer};
use muster_schema::structure;

/// One write that is being prepared.
pub(super) struct Ask<'a> {
    pub engine: &'a Engine,
    pub request: &'a WriteRequest,
    pub guard: &'a Guard,
    pub place: Place,
    pub now: Time,
}

impl<'a> Ask<'a> {
    pub fn new(engine: &'a Engine, request: &'a WriteRequest, guard: &'a Guard) -> Result<Self, Status> {
        let place = engine.place(&request.target)?;
        Ok(Self { engine, request, guard, place, now: engine.inner.clock.now() })
    }

    pub fn prepare(&self) -> Result<Prepared, Status> {
        if let Some(answer) = self.review()? {
            return Ok(Prepared::Answer(answer));
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

    pub fn cx(&self) -> Cx<'_> {
        Cx {
            resource: &self.place.resource,
            version: self.place.version,
            subresource: &self.request.target.subresource,
            now: self.now,
            entropy: &*self.engine.inner.entropy,
            look: self.engine,
            user: &self.request.user,
        }
    }

    /// `change` done to what of a wire form is news to the live object (wire form, too). The rest has been through it
    /// before and would come out as it is (or as an older version of this program left it); the definition of a custom kind may
    /// have changed since.
    pub fn on_news(&self, tree: &Tree, live: Option<&Tree>, change: impl FnOnce(&Tree) -> Tree) -> Tree {
        match live.filter(|_| !self.place.resource.custom) {
            Some(live) => tree.except_shared(live, change),
            None => change(tree),
        }
    }

    /// The wire form with defaults, turned into the storage form; `live` is the wire form of what it replaces.
    pub fn defaulted(&self, wire: &Tree, live: Option<&Tree>) -> Tree {
        let resource = &self.place.resource;
        let schema = &resource.versions[self.place.version].schema;
        let wire = if resource.custom {
            wire.clone()
        } else {
            self.on_news(wire, live, |news| plain(schema.id, news))
        };
        let wire = resource.strategy.default_first(wire);
        let wire = self.on_news(&wire, live, |news| structure::default(schema.view(), news));
        let stored = resource.strategy.to_storage(resource, &wire, self.place.version);
        let stored = resource.strategy.default(stored);
        self.engine.inner.options.gangs.without_fields(resource, stored, live)
    }

    /// The (storage) tree with the zero values that built-in kinds show; `live` is the wire form of what it replaces.
    pub fn written(&self, tree: Tree, live: Option<&Tree>) -> Tree {
        let resource = &self.place.resource;
        if resource.custom || resource.strategy.wire_has_zeros(resource, self.place.version) {
            return tree;
        }
        let id = resource.versions[self.place.version].schema.id;
        let wire = resource.strategy.to_wire(resource, &tree, self.place.version);
        let shown = self.on_news(&wire, live, |news| zero::written(table::builtin(), id, news));
        if shown.same_branch(&wire) {
            return tree;
        }
        resource.strategy.to_storage(resource, &shown, self.place.version)
    }

    pub fn writer(&self) -> Writer {
        // Who scales is remembered without a time, as the real server does it.
        let timeless = self.request.target.subresource == "scale";
        let time = if timeless { Text::new() } else { Text::from(self.now.to_seconds_text()) };
        Writer {
            manager: self.request.options.field_manager.clone(),
            api_version: self.place.resource.api_version(self.place.version),
            subresource: self.request.target.subresource.clone(),
            time,
        }
    }

    /// Fields that this endpoint cannot own.
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

    /// The live object in the version of the request.
    pub fn wire(&self, object: &Object) -> Object {
        let resource = &self.place.resource;
        let tree = resource.strategy.to_wire(resource, &object.tree, self.place.version);
        Object { tree, ..object.clone() }
    }

    /// Who owns what after an update to this (storage) tree; `said` is what the body says of ownership.
    pub fn owned(&self, live: Option<&Object>, new: &Tree, said: Option<&Tree>) -> Arc<[Managed]> {
        let resource = &self.place.resource;
        let view = resource.versions[self.place.version].schema.view();
        let new = resource.strategy.to_wire(resource, new, self.place.version);
        let live = live.map(|object| {
            let managed = apply::of_request(said, &object.managed, &self.request.target.subresource);
            Object { managed, ..self.wire(object) }
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
            look: self.engine,
            now: self.now,
        }
    }

    /// What mutating admission makes of an object.
    pub fn mutated(
        &self,
        operation: Operation,
        tree: Tree,
        old: Option<&Tree>,
        warnings: &mut Vec<String>,
    ) -> Result<Tree, Status> {
        let chain = self.engine.chain();
        chain.mutate(tree, &self.admission(operation, None, old), warnings)
    }

    /// Whether validating admission lets it pass.
    pub fn admitted(
        &self,
        operation: Operation,
        tree: Option<&Tree>,
        old: Option<&Tree>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        self.engine.chain().validate(&self.admission(operation, tree, old), warnings)
    }

    /// Refuses an object with errors.
    pub fn check_errors(&self, name: &str, errors: &Errors) -> Result<(), Status> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(self.place.resource.named_kind(name), errors))
    }

    /// Checks by schema and rules, which only custom resources have.
    pub fn check_custom(&self, new: &Tree, old: Option<&Tree>, errors: &mut Errors) {
        let resource = &self.place.resource;
        if !resource.custom {
            return;
        }
        let wire = |tree: &Tree| resource.strategy.to_wire(resource, tree, self.place.version);
        let old = old.map(wire);
        resource.strategy.validate_custom(self.place.version, &wire(new), old.as_ref(), errors);
        if self.request.target.subresource == "status" {
            errors.iter_mut().for_each(speak_of_status);
        }
    }

    pub fn check_meta_new(&self, tree: &Tree, errors: &mut Errors) {
        metadata_check::check_new(tree, self.place.resource.strategy.name_rule(), errors);
    }

    /// Refuses what is too large to store.
    pub fn check_size(&self, tree: &Tree) -> Result<(), Status> {
        if is_surely_small(tree) || tree.to_json_bytes().len() <= OBJECT_BYTES_MAX {
            return Ok(());
        }
        let message = format!("Request is too large: an object may have at most {OBJECT_BYTES_MAX} bytes");
        Err(Status::new(413, "RequestEntityTooLarge", message))
    }

    /// The plan of one put, or its answer when this is a dry run.
    pub fn put(
        &self,
        key: Key,
        expect: Expect,
        object: Object,
        code: u16,
        warnings: Vec<String>,
    ) -> Prepared {
        let resource = &self.place.resource;
        let object = if self.request.options.dry_run {
            object
        } else {
            Object { tree: resource.strategy.kept(resource, &object.tree, self.place.version), ..object }
        };
        let writes = vec![Write { key, expect, change: Change::Put(object) }];
        self.plan(writes, Answer { code, shows: Shows::First, warnings })
    }

    /// The plan of these writes, or its answer when this is a dry run.
    pub fn plan(&self, writes: Vec<Write>, answer: Answer) -> Prepared {
        if !self.request.options.dry_run {
            return Prepared::Writes(Plan { writes, answer });
        }
        let objects: Vec<Object> = writes
            .into_iter()
            .map(|write| {
                let revision = if let Expect::Revision(n) = write.expect { n } else { 0 };
                match write.change {
                    Change::Put(object) | Change::Delete(object) => Object { revision, ..object },
                }
            })
            .collect();
        let code = answer.code;
        match self.engine.answer(answer, &objects) {
            Ok(reply) => Prepared::Answer(reply),
            Err(status) => {
                Prepared::Answer(WriteReply { code, shown: Shown::Status(status), warnings: Vec::new() })
            }
        }
    }

    /// The newest state of the object that the request names.
    pub fn live(&self) -> Option<Object> {
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

/// Where only the status is written, the sentences about values take it for the whole body; the paths do not.
fn speak_of_status(error: &mut FieldError) {
    if let Some(below) = error.detail.strip_prefix("status.").filter(|rest| rest.contains(" in body ")) {
        error.detail = below.to_owned();
    }
}

/// A built-in object without what means nothing, its amounts in their one form.
fn plain(id: NodeId, wire: &Tree) -> Tree {
    let table = table::builtin();
    quantity::canonical(table, id, &zero::absent(table, id, wire))
}

/// A cheap bound, so that ordinary objects are not encoded only to be counted.
fn is_surely_small(tree: &Tree) -> bool {
    fn count(tree: &Tree, left: &mut usize) {
        let cost = match tree {
            // Every byte of a text may need six in JSON.
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
