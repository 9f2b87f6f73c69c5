//! Replacing and patching an object, and its status.

use std::sync::Arc;

use muster_schema::error::{FieldError, Problem};
use muster_schema::object::{Managed, Object};
use muster_store::{Change, Expect, Write};
use muster_tree::Tree;

use super::charge::beside;
use super::create::Newcomer;
use super::metadata::{self, anonymous, is_same, kept, next_generation, stripped};
use super::metadata_check;
use super::prepare::Ask;
use super::write::{Answer, Prepared, Shows};
use crate::admission::Operation;
use crate::kinds::Errors;
use crate::request::{Body, Shown, WriteAct, WriteReply};
use crate::status::Status;

/// What a client wants an object to be: wire form, fitting the schema, with whatever metadata it sent.
pub(super) struct Wish {
    pub tree: Tree,
    /// Who owns what, when the wish already says (apply).
    pub managed: Option<Arc<[Managed]>>,
    pub warnings: Vec<String>,
}

impl Ask<'_> {
    pub fn update(&self) -> Result<Prepared, Status> {
        let Some(live) = self.live() else {
            return self.update_missing();
        };
        self.check_guard(&live)?;
        let wish = match &self.request.act {
            WriteAct::Update(body) => self.replaced(body)?,
            WriteAct::Patch(patch) => self.patched(&live, patch)?,
            _ => return Err(Status::method_not_allowed()),
        };
        let warnings = wish.warnings.clone();
        self.update_live(&live, wish).map_err(|refused| refused.warned(&warnings))
    }

    /// The rest of an update: what the wish makes of the live object.
    pub fn update_live(&self, live: &Object, wish: Wish) -> Result<Prepared, Status> {
        self.check_versions(live, &wish.tree)?;
        let resource = &self.place.resource;
        let mut warnings = wish.warnings;
        let said = wish.tree.at(&["metadata", "managedFields"]);
        let live_wire = self.wire(live).tree;
        let tree = self.defaulted(&stripped(&wish.tree), Some(&live_wire));
        let tree = self.written(self.merged_parts(tree, &live.tree), Some(&live_wire));
        let settled = resource.strategy.to_wire(resource, &tree, self.place.version);
        let managed = match wish.managed {
            Some(managed) => managed,
            None => self.owned(Some(live), &tree, said),
        };
        let tree = self.mutated(Operation::Update, tree, Some(&live.tree), &mut warnings)?;
        let tree = kept(&tree, &live.tree);
        let tree = self.written(self.prepared(tree, &live.tree)?, Some(&settled));
        let tree = if tree == live.tree { live.tree.clone() } else { tree };
        self.check_update(&tree, &live.tree)?;
        self.admitted(Operation::Update, Some(&tree), Some(&live.tree), &mut warnings)?;
        let after = (!self.ends_with(&tree)).then_some(&tree);
        let charges = self.charges(Operation::Update, after, Some(&live.tree))?;
        self.check_size(&tree)?;
        if self.request.target.subresource != "status" {
            warnings.extend(resource.strategy.warnings(&tree, Some(&live.tree)));
        }
        let changed = self.changed(live, Object { tree, managed, revision: live.revision }, warnings);
        Ok(beside(changed, charges))
    }

    /// What the endpoint may change comes from the wish, the rest stays.
    fn merged_parts(&self, wish: Tree, old: &Tree) -> Tree {
        let resource = &self.place.resource;
        let wish = resource.strategy.unsaid(resource, wish, old, self.place.version);
        if self.request.target.subresource != "status" {
            let guarded = resource.has_status(self.place.version);
            return if guarded { wish.with_option(&["status"], old.get("status").cloned()) } else { wish };
        }
        let tree = old.with_option(&["status"], wish.get("status").cloned());
        match wish.get("metadata") {
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

    /// The part of `metadata` that the status endpoint of this kind leaves alone.
    pub fn kept_by_status(&self) -> Option<&'static str> {
        match (self.place.resource.group.as_str(), self.place.resource.plural.as_str()) {
            ("apps", "deployments") => Some("labels"),
            ("", "pods") => Some("ownerReferences"),
            _ => None,
        }
    }

    fn prepared(&self, tree: Tree, old: &Tree) -> Result<Tree, Status> {
        let strategy = &self.place.resource.strategy;
        let cx = self.cx();
        if self.request.target.subresource == "status" {
            return Ok(strategy.prepare_status(tree, old, &cx));
        }
        let tree = strategy.prepare_update(tree, old, &cx)?;
        let wishes = metadata::has_new_wish(strategy.generation(), &tree, old);
        Ok(if wishes { next_generation(&tree) } else { tree })
    }

    fn check_update(&self, new: &Tree, old: &Tree) -> Result<(), Status> {
        if new.same_branch(old) {
            return Ok(());
        }
        let mut errors = Errors::new();
        let cx = self.cx();
        let strategy = &self.place.resource.strategy;
        metadata_check::check_changed(new, old, &mut errors);
        if self.place.resource.custom {
            // The real server looks twice at the finalizers of custom resources, and says so twice.
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

    /// The change from `live` to `new`: nothing, a put, or the end of an object that waited for its finalizers.
    pub fn changed(&self, live: &Object, new: Object, warnings: Vec<String>) -> Prepared {
        if is_same(&new, live) {
            return Prepared::Answer(WriteReply { code: 200, shown: Shown::Object(live.clone()), warnings });
        }
        let expect = Expect::Revision(live.revision);
        if self.ends_with(&new.tree) {
            // The answer shows the object as it was updated, and the update itself was never stored.
            let shows = Shows::Object(Box::new(new.clone()));
            let writes = vec![Write { key: self.key(), expect, change: Change::Delete(new) }];
            return self.plan(writes, Answer { code: 200, shows, warnings });
        }
        self.put(self.key(), expect, new, 200, warnings)
    }

    /// Whether an update took away the last thing that kept a deleted object.
    fn ends_with(&self, new: &Tree) -> bool {
        let over = metadata::is_doomed(new)
            && new.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0;
        let free = new.items_at(&["metadata", "finalizers"]).is_empty();
        over && free && !self.place.resource.strategy.is_kept(new)
    }

    fn update_missing(&self) -> Result<Prepared, Status> {
        if self.guard.uid.is_some() || self.guard.revision.is_some() {
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

    fn create_by_update(&self, body: &Body) -> Result<Prepared, Status> {
        if !self.place.resource.strategy.allow_create_on_update() {
            return Err(self.not_found());
        }
        let wish = self.replaced(body)?;
        let uid = wish.tree.str_at(&["metadata", "uid"]);
        if !uid.is_empty() {
            let named = self.place.resource.named(&self.request.target.name);
            return Err(Status::conflict(named, &uid_differs(uid, "")));
        }
        let tree = self.defaulted(&anonymous(&wish.tree), None);
        let managed = self.owned(None, &self.said(&wish.tree, tree.clone()), None);
        self.create_new(Newcomer { tree, managed, warnings: wish.warnings })
    }

    /// The body of a PUT.
    pub fn replaced(&self, body: &Body) -> Result<Wish, Status> {
        let decoded = self.decoded(body)?;
        if decoded.tree.str_at(&["metadata", "name"]).is_empty() {
            return Err(self.nameless());
        }
        self.check_place(&decoded.tree)?;
        Ok(Wish { tree: decoded.tree, managed: None, warnings: decoded.warnings })
    }

    pub fn nameless(&self) -> Status {
        let name = &self.request.target.name;
        Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))
    }

    pub fn check_guard(&self, live: &Object) -> Result<(), Status> {
        let named = self.place.resource.named(&self.request.target.name);
        let uid = live.tree.str_at(&["metadata", "uid"]);
        if let Some(want) = self.guard.uid.as_ref().filter(|want| want.as_str() != uid) {
            return Err(Status::conflict(named, &uid_differs(want, uid)));
        }
        match self.guard.revision {
            Some(revision) if revision != live.revision => Err(Status::modified(named)),
            _ => Ok(()),
        }
    }

    /// The uid and resourceVersion that a wish names must be those of the live object.
    fn check_versions(&self, live: &Object, wish: &Tree) -> Result<(), Status> {
        let resource = &self.place.resource;
        let name = self.request.target.name.as_str();
        let (uid, want) = (live.tree.str_at(&["metadata", "uid"]), wish.str_at(&["metadata", "uid"]));
        let is_patch = matches!(self.request.act, WriteAct::Patch(_));
        if !want.is_empty() && want != uid {
            if is_patch {
                let error = FieldError::invalid("metadata.uid", want, "field is immutable");
                return Err(Status::invalid(resource.named_kind(name), &[error]));
            }
            return Err(Status::conflict(resource.named(name), &uid_differs(want, uid)));
        }
        let doom = wish.at(&["metadata", "deletionTimestamp"]).filter(|doom| !doom.is_null());
        if let Some(doom) = doom.filter(|doom| live.tree.at(&["metadata", "deletionTimestamp"]) != Some(doom))
        {
            let error = FieldError::invalid("metadata.deletionTimestamp", doom.clone(), "field is immutable");
            return Err(Status::invalid(resource.named_kind(name), &[error]));
        }
        match wish.str_at(&["metadata", "resourceVersion"]) {
            "" | "0" if !is_patch && !resource.strategy.allow_unconditional_update() => {
                let error =
                    FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
                Err(Status::invalid(resource.named(name), &[error]))
            }
            "" | "0" => Ok(()),
            version => match version.parse::<u64>() {
                Ok(version) if version == live.revision => Ok(()),
                Ok(_) => Err(Status::modified(resource.named(name))),
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
