//! What a patch makes of a live object.

use muster_schema::error::FieldError;
use muster_schema::json_patch;
use muster_schema::object::Object;
use muster_schema::patch::PatchError;
use muster_schema::strategic;
use muster_tree::{Tree, tree};

use super::create::Newcomer;
use super::decode::{decode, fit, judge};
use super::metadata::stripped;
use super::prepare::Ask;
use super::update::Wish;
use super::write::Prepared;
use crate::parts::apply;
use crate::request::{Body, Patch};
use crate::status::{Named, Status};

impl Ask<'_> {
    /// The object that the patch asks for.
    pub fn patched(&self, live: &Object, patch: &Patch) -> Result<Wish, Status> {
        let empty = Vec::new();
        let (tree, duplicates) = match patch {
            Patch::Apply { body, force } => return self.applied(live, body, *force),
            Patch::Json(operations) => {
                let whole = self.place.resource.present(live, self.place.version);
                (json_patch::apply(&whole, operations).map_err(|e| self.bad_patch(&e))?, &empty)
            }
            Patch::Merge(body) => (self.whole(live, &body.tree).merge(&body.tree), &body.duplicates),
            Patch::Strategic(body) => (self.strategic(live, body)?, &body.duplicates),
        };
        self.check_place(&tree)?;
        let (tree, wrong) = fit(&self.place, &tree, duplicates).map_err(|why| misfit(&tree, &why))?;
        let warnings = judge(&wrong, &self.request.options).map_err(|why| misfit(&tree, &why))?;
        Ok(Wish { tree, managed: None, warnings })
    }

    fn strategic(&self, live: &Object, body: &Body) -> Result<Tree, Status> {
        let resource = &self.place.resource;
        if resource.custom {
            return Err(Status::new(415, "UnsupportedMediaType", STRATEGIC_CUSTOM));
        }
        let view = resource.versions[self.place.version].schema.view();
        strategic::merge(view, &self.whole(live, &body.tree), &body.tree).map_err(|e| self.bad_patch(&e))
    }

    /// What a patch is applied to. Field ownership is put together only for patches that look at it.
    fn whole(&self, live: &Object, patch: &Tree) -> Tree {
        if patch.at(&["metadata", "managedFields"]).is_some() {
            return self.place.resource.present(live, self.place.version);
        }
        self.wire(live).tree
    }

    fn applied(&self, live: &Object, body: &Body, force: bool) -> Result<Wish, Status> {
        let decoded = self.decode_applied(body)?;
        let applied = stripped(&decoded.tree);
        let view = self.place.resource.versions[self.place.version].schema.view();
        let merged = apply::apply(view, &self.wire(live), &applied, &self.writer(), force, &self.ignored());
        let merged = merged.map_err(|conflicts| self.conflicts(&conflicts))?;
        // What the body says about its own identity is checked like that of any update.
        let meta = &["metadata", "resourceVersion"][..];
        let tree = merged.tree.with_option(meta, decoded.tree.at(meta).cloned());
        Ok(Wish { tree, managed: Some(merged.managed), warnings: decoded.warnings })
    }

    fn decode_applied(&self, body: &Body) -> Result<super::decode::Decoded, Status> {
        if self.request.options.field_manager.is_empty() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            let on = Named { group: "meta.k8s.io", resource: "PatchOptions", name: "" };
            return Err(Status::invalid(on, &[error]));
        }
        for key in ["apiVersion", "kind"] {
            if body.tree.str_at(&[key]).is_empty() {
                return Err(Status::bad_request(format!(
                    "invalid object type: {key} must be set in the applied body"
                )));
            }
        }
        if !body.tree.items_at(&["metadata", "managedFields"]).is_empty() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let decoded = decode(&self.place, body, &self.request.options)?;
        self.check_place(&decoded.tree)?;
        let name = Tree::from(&self.request.target.name);
        let tree = decoded.tree.with(&["metadata", "name"], name);
        Ok(super::decode::Decoded { tree, ..decoded })
    }

    /// Only apply creates what is missing.
    pub fn create_by_patch(&self, patch: &Patch) -> Result<Prepared, Status> {
        let Patch::Apply { body, force } = patch else {
            return Err(self.not_found());
        };
        if !self.request.target.subresource.is_empty() {
            return Err(self.not_found());
        }
        let decoded = self.decode_applied(body)?;
        let named = self.place.resource.named(&self.request.target.name);
        if !decoded.tree.str_at(&["metadata", "uid"]).is_empty() {
            return Err(Status::conflict(
                named,
                "uid mismatch: the provided object specified uid, and no existing object was found",
            ));
        }
        if !matches!(decoded.tree.str_at(&["metadata", "resourceVersion"]), "" | "0") {
            return Err(Status::not_found(named));
        }
        let applied = stripped(&decoded.tree);
        let nothing = Object::new(tree!({
            "apiVersion": decoded.tree.text_at(&["apiVersion"]), "kind": decoded.tree.text_at(&["kind"]), "metadata": {},
        }));
        let view = self.place.resource.versions[self.place.version].schema.view();
        let made = apply::apply(view, &nothing, &applied, &self.writer(), *force, &self.ignored());
        let made = made.map_err(|conflicts| self.conflicts(&conflicts))?;
        let tree = self.defaulted(&made.tree);
        self.create_new(Newcomer { tree, managed: made.managed, warnings: decoded.warnings })
    }

    fn bad_patch(&self, error: &PatchError) -> Status {
        let text = error.to_string();
        match error {
            PatchError::Malformed(_) => Status::bad_request(text),
            PatchError::Unfit(_) => Status::new(422, "Invalid", text),
            PatchError::TooLarge(_) => Status::new(413, "RequestEntityTooLarge", text),
            PatchError::Confused(_) => Status::new(500, "InternalError", text),
        }
    }

    fn conflicts(&self, conflicts: &[apply::Conflict]) -> Status {
        let count = conflicts.len();
        Status::new(409, "Conflict", format!("Apply failed with {count} conflicts"))
    }
}

const STRATEGIC_CUSTOM: &str = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// 422 about a patch whose result does not fit the schema.
fn misfit(tree: &Tree, why: &str) -> Status {
    let error = FieldError::invalid("patch", tree.to_json(), why);
    Status::invalid(Named { group: "", resource: "", name: "" }, &[error])
}
