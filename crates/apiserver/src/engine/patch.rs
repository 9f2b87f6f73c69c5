//! What a patch makes of a live object.

use muster_schema::error::FieldError;
use muster_schema::json_patch;
use muster_schema::object::Object;
use muster_schema::patch::PatchError;
use muster_schema::strategic;
use muster_tree::{Tree, tree};

use super::create::Newcomer;
use super::decode::{Decoded, duplicates, fit, judge};
use super::metadata::stripped;
use super::prepare::Ask;
use super::update::Wish;
use super::write::Prepared;
use crate::request::{Body, Patch};
use crate::status::{Named, Status};
use muster_schema::apply;

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
            Patch::Merge(body) if !body.tree.is_map() => {
                let word = body.tree.type_word();
                let why = format!(
                    "error decoding patch: json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
                );
                return Err(Status::bad_request(why));
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
        let merged = merged.map_err(|found| conflicts(&found))?;
        // What the body says about its own identity is checked like that of any update.
        let meta = &["metadata", "resourceVersion"][..];
        let tree = merged.tree.with_option(meta, decoded.tree.at(meta).cloned());
        Ok(Wish { tree, managed: Some(merged.managed), warnings: decoded.warnings })
    }

    fn decode_applied(&self, body: &Body) -> Result<Decoded, Status> {
        if self.request.options.field_manager.is_empty() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            let on = Named { group: "meta.k8s.io", resource: "PatchOptions", name: "" };
            return Err(Status::invalid(on, &[error]));
        }
        let resource = &self.place.resource;
        let (version, kind) = (body.tree.str_at(&["apiVersion"]), body.tree.str_at(&["kind"]));
        if version != resource.api_version(self.place.version).as_str() || kind != resource.kind.as_str() {
            let slash = if version.contains('/') { "" } else { "/" };
            return Err(Status::bad_request(format!("invalid object type: {slash}{version}, Kind={kind}")));
        }
        if !body.tree.items_at(&["metadata", "managedFields"]).is_empty() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        self.check_place(&body.tree)?;
        let view = resource.versions[self.place.version].schema.view();
        apply::check(view, &body.tree).map_err(|why| {
            let place = |key| body.tree.str_at(&["metadata", key]);
            let (namespace, name) = (place("namespace"), place("name"));
            let (group, version) = (&resource.group, &resource.versions[self.place.version].name);
            let words = format!("{namespace}/{name}; {group}/{version}, Kind={kind}");
            Status::new(500, "", format!("failed to create typed patch object ({words}): {why}"))
        })?;
        let warnings =
            judge(&duplicates(&body.duplicates), &self.request.options).map_err(Status::bad_request)?;
        Ok(Decoded { tree: body.tree.clone(), warnings })
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
        if decoded.tree.str_at(&["metadata", "name"]).is_empty() {
            return Err(self.nameless());
        }
        let applied = stripped(&decoded.tree);
        let nothing = Object::new(tree!({
            "apiVersion": decoded.tree.text_at(&["apiVersion"]), "kind": decoded.tree.text_at(&["kind"]), "metadata": {},
        }));
        let view = self.place.resource.versions[self.place.version].schema.view();
        let made = apply::apply(view, &nothing, &applied, &self.writer(), *force, &self.ignored());
        let made = made.map_err(|found| conflicts(&found))?;
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
}

fn conflicts(conflicts: &[apply::Conflict]) -> Status {
    let cause = |conflict: &apply::Conflict| {
        ("FieldManagerConflict".to_owned(), conflict.message(), conflict.path.clone())
    };
    let mut status = Status::new(409, "Conflict", apply::message(conflicts));
    status.details.causes = conflicts.iter().map(cause).collect();
    status
}

const STRATEGIC_CUSTOM: &str = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// 422 about a patch whose result does not fit the schema.
fn misfit(tree: &Tree, why: &str) -> Status {
    let error = FieldError::invalid("patch", tree.to_json(), why);
    Status::invalid(Named { group: "", resource: "", name: "" }, &[error])
}
