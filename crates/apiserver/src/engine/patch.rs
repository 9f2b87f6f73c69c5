//! Applies patches: JSON, merge, strategic merge and server-side apply.

use muster_schema::error::FieldError;
use muster_schema::json_patch;
use muster_schema::object::StoredObject;
use muster_schema::patch::PatchError;
use muster_schema::spelled::{json_word, spelled};
use muster_schema::strategic;
use muster_tree::{Tree, tree};

use super::create::NewObject;
use super::decode::{
    DecodedBody, ExpectedKind, apply_field_validation, check_and_prune, check_kind, duplicate_messages,
    with_expected_kind,
};
use super::metadata::without_transient_fields;
use super::prepare::WriteContext;
use super::update::UpdatedObject;
use super::write::PreparedWrite;
use crate::request::{DuplicateKey, FieldValidation, Patch, RequestBody, WriteOptions};
use crate::status::{Status, StatusObject};
use muster_schema::apply;

impl WriteContext<'_> {
    pub fn apply_patch(&self, live: &StoredObject, patch: &Patch) -> Result<UpdatedObject, Status> {
        let (tree, mut wrong) = match patch {
            Patch::Apply { body, force } => return self.applied(live, body, *force),
            Patch::Json(body) => self.by_operations(live, body)?,
            Patch::Merge(body) => (self.merged(live, body)?, duplicate_texts(&body.duplicates)),
            Patch::Strategic(body) => (self.strategic(live, body)?, duplicate_texts(&body.duplicates)),
        };
        // Error messages quote a strategic patch itself, and of other patches their result.
        let quoted = || match patch {
            Patch::Strategic(body) => spelled(&body.tree),
            _ => tree.to_json(),
        };
        let expected = ExpectedKind::at(&self.place);
        let tree = match patch {
            // kube-apiserver ignores apiVersion and kind of a strategic merge patch's result.
            Patch::Strategic(_) => with_expected_kind(&expected, &tree),
            _ => check_kind(&expected, &tree)
                .map_err(|why| invalid_patch_result(quoted(), &why))
                .map(|()| tree.clone())?,
        };
        let mut found = Ok(Vec::new());
        let fitting = self.map_changed(&tree, Some(&self.wire(live).tree), |news| {
            match check_and_prune(&expected, news) {
                Ok((fitting, unknown)) => {
                    found = Ok(unknown);
                    fitting
                }
                Err(why) => {
                    found = Err(why);
                    news.clone()
                }
            }
        });
        let unknown = found.map_err(|why| invalid_patch_result(quoted(), &why))?;
        wrong.extend(unknown);
        let warnings = apply_field_validation(&wrong, &self.request.options)
            .map_err(|why| invalid_patch_result(quoted(), &why))?;
        self.check_place(&fitting).map_err(|refused| refused.with_warnings(&warnings))?;
        if fitting.str_at(&["metadata", "name"]).is_empty() {
            return Err(self.missing_name().with_warnings(&warnings));
        }
        Ok(UpdatedObject { tree: with_expected_kind(&expected, &fitting), managed: None, warnings })
    }

    /// Applies JSON patch operations; also returns warnings about unknown and duplicate keys.
    fn by_operations(&self, live: &StoredObject, body: &RequestBody) -> Result<(Tree, Vec<String>), Status> {
        let whole = self.place.resource.present(live, self.place.version);
        let unknown = json_patch::check(&body.tree).map_err(|e| patch_error(&e))?;
        let unknown = unknown.iter().map(|path| format!("json patch unknown field {path:?}"));
        let twice = body.duplicates.iter().map(|twice| format!("json patch {twice}"));
        let tree = json_patch::apply(&whole, &body.tree).map_err(|e| patch_error(&e))?;
        Ok((tree, unknown.chain(twice).collect()))
    }

    fn merged(&self, live: &StoredObject, body: &RequestBody) -> Result<Tree, Status> {
        match &body.tree {
            Tree::Map(_) => Ok(self.whole(live, &body.tree).merge(&without_nulls_in_lists(&body.tree))),
            Tree::Null => Err(Status::bad_request("Invalid JSON Patch")),
            other => {
                let (word, wanted) = (json_word(other), "Go value of type map[string]interface {}");
                Err(Status::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {word} into {wanted}"
                )))
            }
        }
    }

    fn strategic(&self, live: &StoredObject, body: &RequestBody) -> Result<Tree, Status> {
        let resource = &self.place.resource;
        if resource.custom {
            return Err(Status::new(415, "UnsupportedMediaType", STRATEGIC_CUSTOM));
        }
        let view = resource.versions[self.place.version].schema.view();
        strategic::merge(view, &self.whole(live, &body.tree), &body.tree).map_err(|e| patch_error(&e))
    }

    /// The object that a patch is applied to. managedFields are serialized only for patches that touch them.
    fn whole(&self, live: &StoredObject, patch: &Tree) -> Tree {
        // Serializing managedFields costs as much as the object itself.
        if patch.at(&["metadata", "managedFields"]).is_some() {
            return self.place.resource.present(live, self.place.version);
        }
        self.wire(live).tree
    }

    fn applied(&self, live: &StoredObject, body: &RequestBody, force: bool) -> Result<UpdatedObject, Status> {
        let decoded = self.decode_applied(body)?;
        let applied = without_transient_fields(&decoded.tree);
        let view = self.place.resource.versions[self.place.version].schema.view();
        let merged = apply::apply(view, &self.wire(live), &applied, &self.writer(), force, &self.ignored());
        let merged = merged.map_err(|found| conflicts(&found))?;
        // The body's resourceVersion is checked like that of any update.
        let meta = &["metadata", "resourceVersion"][..];
        let tree = merged.tree.with_option(meta, decoded.tree.at(meta).cloned());
        Ok(UpdatedObject { tree, managed: Some(merged.managed), warnings: decoded.warnings })
    }

    fn decode_applied(&self, body: &RequestBody) -> Result<DecodedBody, Status> {
        if self.request.options.field_manager.is_empty() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            let on = StatusObject { group: "meta.k8s.io", resource: "PatchOptions", name: "" };
            return Err(Status::invalid(on, &[error]));
        }
        let resource = &self.place.resource;
        self.check_applied_kind(&body.tree, &resource.api_version(self.place.version), &resource.kind)?;
        self.check_place(&body.tree)?;
        let view = resource.versions[self.place.version].schema.view();
        apply::check(view, &body.tree).map_err(|why| {
            let version = &resource.versions[self.place.version].name;
            self.untyped(&body.tree, &resource.group, version, &why)
        })?;
        let warnings = apply_field_validation_of_apply(&body.duplicates, &self.request.options)?;
        Ok(DecodedBody { tree: body.tree.clone(), warnings })
    }

    /// An applied configuration must have the right apiVersion and kind, and no managedFields.
    pub fn check_applied_kind(&self, applied: &Tree, want: &str, want_kind: &str) -> Result<(), Status> {
        let (version, kind) = (applied.str_at(&["apiVersion"]), applied.str_at(&["kind"]));
        if version != want || kind != want_kind {
            let slash = if version.contains('/') { "" } else { "/" };
            return Err(Status::bad_request(format!("invalid object type: {slash}{version}, Kind={kind}")));
        }
        if applied.at(&["metadata", "managedFields"]).is_some_and(|managed| !managed.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        Ok(())
    }

    /// 500 for a configuration that cannot be converted to typed fields.
    pub fn untyped(&self, applied: &Tree, group: &str, version: &str, why: &str) -> Status {
        let place = |key| applied.str_at(&["metadata", key]);
        let (namespace, name, kind) = (place("namespace"), place("name"), applied.str_at(&["kind"]));
        let words = format!("{namespace}/{name}; {group}/{version}, Kind={kind}");
        Status::new(500, "", format!("failed to create typed patch object ({words}): {why}"))
    }

    /// Only apply creates a missing object.
    pub fn create_by_patch(&self, patch: &Patch) -> Result<PreparedWrite, Status> {
        let Patch::Apply { body, force } = patch else {
            return Err(self.not_found());
        };
        if !self.request.target.subresource.is_empty() {
            return Err(self.not_found());
        }
        let decoded = self.decode_applied(body)?;
        let named = self.place.resource.named(&self.request.target.name);
        let uid = decoded.tree.str_at(&["metadata", "uid"]);
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Status::conflict(named, &why));
        }
        if decoded.tree.str_at(&["metadata", "name"]).is_empty() {
            return Err(self.missing_name());
        }
        let applied = without_transient_fields(&decoded.tree);
        let nothing = StoredObject::new(tree!({
            "apiVersion": decoded.tree.text_at(&["apiVersion"]), "kind": decoded.tree.text_at(&["kind"]), "metadata": {},
        }));
        let view = self.place.resource.versions[self.place.version].schema.view();
        let made = apply::apply(view, &nothing, &applied, &self.writer(), *force, &self.ignored());
        let made = made.map_err(|found| conflicts(&found))?;
        let tree = self.defaulted(&made.tree, None);
        self.create_new(NewObject { tree, managed: made.managed, warnings: decoded.warnings })
    }
}

/// Lists are replaced, and nulls in maps inside them are dropped, as when merged into nothing (RFC 7396).
fn without_nulls_in_lists(patch: &Tree) -> Tree {
    fn pruned(value: &Tree) -> Tree {
        match value {
            Tree::Map(_) => value.map_entries(|_, v| (!v.is_null()).then(|| pruned(v))),
            Tree::List(_) => value.map_items(|_, v| pruned(v)),
            _ => value.clone(),
        }
    }
    match patch {
        Tree::Map(_) => patch.map_entries(|_, v| Some(without_nulls_in_lists(v))),
        list => pruned(list),
    }
}

/// The error of a patch that cannot be applied.
pub(super) fn patch_error(error: &PatchError) -> Status {
    let text = error.to_string();
    match error {
        PatchError::Malformed(_) => Status::bad_request(text),
        PatchError::Unfit(why) => {
            tracing::debug!(error = why, "patch cannot be applied");
            Status::general(422, "Invalid", text)
        }
        PatchError::TooLarge(_) => Status::new(413, "RequestEntityTooLarge", text),
        PatchError::Confused(_) => Status::new(500, "", text),
    }
}

pub(super) fn duplicate_texts(twice: &[DuplicateKey]) -> Vec<String> {
    twice.iter().map(ToString::to_string).collect()
}

/// Applies `fieldValidation` to duplicate keys of an applied configuration.
fn apply_field_validation_of_apply(
    twice: &[DuplicateKey],
    options: &WriteOptions,
) -> Result<Vec<String>, Status> {
    match options.field_validation {
        FieldValidation::Strict if !twice.is_empty() => {
            let why = duplicate_messages(twice).join(", ");
            Err(Status::bad_request(format!(
                "error strict decoding patch: error converting YAML to JSON: {why}"
            )))
        }
        FieldValidation::Warn => Ok(duplicate_texts(twice)),
        _ => Ok(Vec::new()),
    }
}

pub(super) fn conflicts(conflicts: &[apply::Conflict]) -> Status {
    let cause = |conflict: &apply::Conflict| {
        ("FieldManagerConflict".to_owned(), conflict.message(), conflict.path.clone())
    };
    let mut status = Status::new(409, "Conflict", apply::message(conflicts));
    status.details.causes = conflicts.iter().map(cause).collect();
    status
}

const STRATEGIC_CUSTOM: &str = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// 422 for a patch with a result that does not match the schema.
pub(super) fn invalid_patch_result(quoted: String, why: &str) -> Status {
    let error = FieldError::invalid("patch", quoted, why);
    Status::invalid(StatusObject { group: "", resource: "", name: "" }, &[error])
}
