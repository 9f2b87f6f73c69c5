//! Updates and patches of objects and their status.

use std::sync::Arc;

use muster_schema::error::{FieldError, Problem};
use muster_schema::object::{Managed, StoredObject};
use muster_store::{ExpectedRevision, Mutation, Write};
use muster_tree::Tree;

use super::create::NewObject;
use super::metadata::{
    self, is_same, keep_server_metadata, next_generation, strip_server_metadata, without_transient_fields,
};
use super::metadata_check;
use super::prepare::WriteContext;
use super::quota_usage::with_writes;
use super::write::{PreparedWrite, ReplyPlan, ReplySource};
use crate::admission::Operation;
use crate::kinds::FieldErrors;
use crate::request::{ReplyObject, RequestBody, WriteAct, WriteReply};
use crate::status::Status;

/// The requested state of an object: wire form, matching the schema, with the metadata that the client sent.
pub(super) struct UpdatedObject {
    pub tree: Tree,
    /// Field ownership, when already computed (apply).
    pub managed: Option<Arc<[Managed]>>,
    pub warnings: Vec<String>,
}

impl WriteContext<'_> {
    pub fn update(&self) -> Result<PreparedWrite, Status> {
        let Some(live) = self.live() else {
            return self.update_missing();
        };
        self.check_storage_preconditions(&live)?;
        let desired = match &self.request.act {
            WriteAct::Update(body) => self.decode_update(body)?,
            WriteAct::Patch(patch) => self.apply_patch(&live, patch)?,
            _ => return Err(Status::method_not_allowed()),
        };
        let warnings = desired.warnings.clone();
        self.update_live(&live, desired).map_err(|refused| refused.with_warnings(&warnings))
    }

    /// Completes an update of the live object.
    pub fn update_live(&self, live: &StoredObject, desired: UpdatedObject) -> Result<PreparedWrite, Status> {
        self.check_versions(live, &desired.tree)?;
        let resource = &self.place.resource;
        let mut warnings = desired.warnings;
        let said = desired.tree.at(&["metadata", "managedFields"]);
        let live_wire = self.wire(live).tree;
        let tree = self.defaulted(&without_transient_fields(&desired.tree), Some(&live_wire));
        let tree = self.with_zero_values(self.merged_parts(tree, &live.tree), Some(&live_wire));
        // Taken before admission: only what plugins changed is processed again below.
        let settled = resource.strategy.to_wire(resource, &tree, self.place.version);
        let managed = match desired.managed {
            Some(managed) => managed,
            None => self.owned(Some(live), &tree, said),
        };
        let tree = self.run_mutating(Operation::Update, tree, Some(&live.tree), &mut warnings)?;
        let tree = keep_server_metadata(&tree, &live.tree);
        let tree = self.with_zero_values(self.prepared(tree, &live.tree)?, Some(&settled));
        // Reuse the stored tree when nothing changed: later comparisons are then by pointer.
        let tree = if tree == live.tree { live.tree.clone() } else { tree };
        self.check_update(&tree, &live.tree)?;
        self.run_validating(Operation::Update, Some(&tree), Some(&live.tree), &mut warnings)?;
        let after = (!self.completes_deletion(&tree)).then_some(&tree);
        let charges = self.quota_writes(Operation::Update, after, Some(&live.tree))?;
        self.check_size(&tree)?;
        if self.request.target.subresource != "status" {
            warnings.extend(resource.strategy.warnings(&tree, Some(&live.tree)));
        }
        let changed =
            self.plan_change(live, StoredObject { tree, managed, revision: live.revision }, warnings);
        Ok(with_writes(changed, charges))
    }

    /// Takes the fields that the endpoint may change from the request, the others from the live object.
    fn merged_parts(&self, desired: Tree, old: &Tree) -> Tree {
        let resource = &self.place.resource;
        let desired = resource.strategy.restore_unrepresentable(resource, desired, old, self.place.version);
        if self.request.target.subresource != "status" {
            let guarded = resource.has_status(self.place.version);
            return if guarded {
                desired.with_option(&["status"], old.get("status").cloned())
            } else {
                desired
            };
        }
        let tree = old.with_option(&["status"], desired.get("status").cloned());
        match desired.get("metadata") {
            Some(meta) if !resource.strategy.status_keeps_metadata() => {
                let tree = tree.with_key("metadata", meta.clone());
                match self.kept_by_status() {
                    Some(key) => tree.with_option(&["metadata", key], old.at(&["metadata", key]).cloned()),
                    None => tree,
                }
            }
            _ => tree,
        }
    }

    /// The metadata field that status updates of this kind ignore.
    pub fn kept_by_status(&self) -> Option<&'static str> {
        match (self.place.resource.group.as_str(), self.place.resource.plural.as_str()) {
            ("apps", "deployments") => Some("labels"),
            ("", "pods") => Some("ownerReferences"),
            _ => None,
        }
    }

    fn prepared(&self, tree: Tree, old: &Tree) -> Result<Tree, Status> {
        let strategy = &self.place.resource.strategy;
        let cx = self.strategy_context();
        if self.request.target.subresource == "status" {
            return Ok(strategy.prepare_status(tree, old, &cx));
        }
        let tree = strategy.prepare_update(tree, old, &cx)?;
        let wishes = metadata::desired_state_changed(strategy.generation(), &tree, old);
        Ok(if wishes { next_generation(&tree) } else { tree })
    }

    fn check_update(&self, new: &Tree, old: &Tree) -> Result<(), Status> {
        if new.same_branch(old) {
            return Ok(());
        }
        let mut errors = FieldErrors::new();
        let cx = self.strategy_context();
        let strategy = &self.place.resource.strategy;
        metadata_check::check_changed(new, old, &mut errors);
        if self.place.resource.custom {
            // kube-apiserver validates finalizers of custom resources twice and reports the error twice.
            let again: Vec<_> = errors.iter().filter(|e| e.path == "metadata.finalizers").cloned().collect();
            errors.extend(again.into_iter().filter(|e| e.problem == Problem::Forbidden));
        }
        self.check_custom(new, Some(old), &mut errors);
        if self.request.target.subresource == "status" {
            strategy.validate_status(new, old, &cx, &mut errors);
        } else {
            strategy.validate_update(new, old, &cx, &mut errors);
        }
        self.check_errors(new.str_at(&["metadata", "name"]), &errors)
    }

    /// Plans the change from `live` to `new`: nothing, a put, or the removal of a deleting object without finalizers.
    pub fn plan_change(
        &self,
        live: &StoredObject,
        new: StoredObject,
        warnings: Vec<String>,
    ) -> PreparedWrite {
        if is_same(&new, live) {
            return PreparedWrite::Answer(WriteReply {
                code: 200,
                shown: ReplyObject::Object(live.clone()),
                warnings,
            });
        }
        let expect = ExpectedRevision::Revision(live.revision);
        if self.completes_deletion(&new.tree) {
            // The reply shows the updated object, though the update itself is never stored.
            let shows = ReplySource::Object(Box::new(new.clone()));
            let writes = vec![Write { key: self.key(), expect, change: Mutation::Delete(new) }];
            return self.plan(writes, ReplyPlan { code: 200, source: shows, warnings });
        }
        self.put(self.key(), expect, new, 200, warnings)
    }

    /// Whether an update removed the last finalizer of a deleting object.
    fn completes_deletion(&self, new: &Tree) -> bool {
        let over = metadata::is_deleting(new)
            && new.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0;
        let free = new.items_at(&["metadata", "finalizers"]).is_empty();
        over && free && !self.place.resource.strategy.holds_deletion(new)
    }

    fn update_missing(&self) -> Result<PreparedWrite, Status> {
        if self.preconditions.uid.is_some() || self.preconditions.revision.is_some() {
            return Err(self.not_found());
        }
        match &self.request.act {
            WriteAct::Update(body) if self.request.target.subresource.is_empty() => {
                self.create_by_update(body)
            }
            WriteAct::Patch(patch) => self.create_by_patch(patch),
            _ => Err(self.not_found()),
        }
    }

    fn create_by_update(&self, body: &RequestBody) -> Result<PreparedWrite, Status> {
        if !self.place.resource.strategy.allow_create_on_update() {
            return Err(self.not_found());
        }
        let desired = self.decode_update(body)?;
        let uid = desired.tree.str_at(&["metadata", "uid"]);
        if !uid.is_empty() {
            let named = self.place.resource.named(&self.request.target.name);
            return Err(Status::conflict(named, &uid_differs(uid, "")));
        }
        let tree = self.defaulted(&strip_server_metadata(&desired.tree), None);
        let managed = self.owned(None, &self.owned_by_client(&desired.tree, tree.clone()), None);
        self.create_new(NewObject { tree, managed, warnings: desired.warnings })
    }

    /// Decodes the body of a PUT.
    pub fn decode_update(&self, body: &RequestBody) -> Result<UpdatedObject, Status> {
        let decoded = self.decoded(body)?;
        if decoded.tree.str_at(&["metadata", "name"]).is_empty() {
            return Err(self.missing_name());
        }
        self.check_place(&decoded.tree)?;
        Ok(UpdatedObject { tree: decoded.tree, managed: None, warnings: decoded.warnings })
    }

    pub fn missing_name(&self) -> Status {
        let name = &self.request.target.name;
        Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))
    }

    pub fn check_storage_preconditions(&self, live: &StoredObject) -> Result<(), Status> {
        let named = self.place.resource.named(&self.request.target.name);
        let uid = live.tree.str_at(&["metadata", "uid"]);
        if let Some(want) = self.preconditions.uid.as_ref().filter(|want| want.as_str() != uid) {
            return Err(Status::conflict(named, &uid_differs(want, uid)));
        }
        match self.preconditions.revision {
            Some(revision) if revision != live.revision => Err(Status::stale_resource_version(named)),
            _ => Ok(()),
        }
    }

    /// UID and resourceVersion of the request must match the live object.
    fn check_versions(&self, live: &StoredObject, desired: &Tree) -> Result<(), Status> {
        let resource = &self.place.resource;
        let name = self.request.target.name.as_str();
        let (uid, want) = (live.tree.str_at(&["metadata", "uid"]), desired.str_at(&["metadata", "uid"]));
        let is_patch = matches!(self.request.act, WriteAct::Patch(_));
        if !want.is_empty() && want != uid {
            if is_patch {
                let error = FieldError::invalid("metadata.uid", want, "field is immutable");
                return Err(Status::invalid(resource.named_kind(name), &[error]));
            }
            return Err(Status::conflict(resource.named(name), &uid_differs(want, uid)));
        }
        let doom = desired.at(&["metadata", "deletionTimestamp"]).filter(|doom| !doom.is_null());
        if let Some(doom) = doom.filter(|doom| live.tree.at(&["metadata", "deletionTimestamp"]) != Some(doom))
        {
            let error = FieldError::invalid("metadata.deletionTimestamp", doom.clone(), "field is immutable");
            return Err(Status::invalid(resource.named_kind(name), &[error]));
        }
        match desired.str_at(&["metadata", "resourceVersion"]) {
            "" | "0" if !is_patch && !resource.strategy.allow_unconditional_update() => {
                let error =
                    FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
                Err(Status::invalid(resource.named(name), &[error]))
            }
            "" | "0" => Ok(()),
            version => match version.parse::<u64>() {
                Ok(version) if version == live.revision => Ok(()),
                Ok(_) => Err(Status::stale_resource_version(resource.named(name))),
                Err(_) => {
                    let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                    Err(Status::new(500, "", why))
                }
            },
        }
    }
}

pub(super) fn uid_differs(want: &str, is: &str) -> String {
    format!("Precondition failed: UID in precondition: {want}, UID in object meta: {is}")
}
