//! What a patch makes of a live object.

use muster_schema::error::FieldError;
use muster_schema::json_patch;
use muster_schema::object::Object;
use muster_schema::patch::PatchError;
use muster_schema::spelled::{json_word, spelled};
use muster_schema::strategic;
use muster_tree::{Tree, tree};

use super::create::Newcomer;
use super::decode::{Decoded, Expected, check_kind, fit, in_one, judge, of_kind};
use super::metadata::stripped;
use super::prepare::Ask;
use super::update::Wish;
use super::write::Prepared;
use crate::request::{Body, FieldValidation, Patch, Twice, WriteOptions};
use crate::status::{Named, Status};
use muster_schema::apply;

impl Ask<'_> {
    /// The object that the patch asks for.
    pub fn patched(&self, live: &Object, patch: &Patch) -> Result<Wish, Status> {
        let (tree, mut wrong) = match patch {
            Patch::Apply { body, force } => return self.applied(live, body, *force),
            Patch::Json(body) => self.by_operations(live, body)?,
            Patch::Merge(body) => (self.merged(live, body)?, texts(&body.duplicates)),
            Patch::Strategic(body) => (self.strategic(live, body)?, texts(&body.duplicates)),
        };
        // A strategic patch that leads nowhere is quoted itself, of the others what they lead to.
        let quoted = || match patch {
            Patch::Strategic(body) => spelled(&body.tree),
            _ => tree.to_json(),
        };
        let expected = Expected::at(&self.place);
        let tree = match patch {
            Patch::Strategic(_) => of_kind(&expected, &tree),
            _ => check_kind(&expected, &tree).map_err(|why| misfit(quoted(), &why)).map(|()| tree.clone())?,
        };
        let mut found = Ok(Vec::new());
        let fitting = self.on_news(&tree, Some(&self.wire(live).tree), |news| match fit(&expected, news) {
            Ok((fitting, unknown)) => {
                found = Ok(unknown);
                fitting
            }
            Err(why) => {
                found = Err(why);
                news.clone()
            }
        });
        let unknown = found.map_err(|why| misfit(quoted(), &why))?;
        wrong.extend(unknown);
        let warnings = judge(&wrong, &self.request.options).map_err(|why| misfit(quoted(), &why))?;
        self.check_place(&fitting).map_err(|refused| refused.warned(&warnings))?;
        if fitting.str_at(&["metadata", "name"]).is_empty() {
            return Err(self.nameless().warned(&warnings));
        }
        Ok(Wish { tree: of_kind(&expected, &fitting), managed: None, warnings })
    }

    /// What JSON patch operations make of the object, and which of their keys are odd.
    fn by_operations(&self, live: &Object, body: &Body) -> Result<(Tree, Vec<String>), Status> {
        let whole = self.place.resource.present(live, self.place.version);
        let unknown = json_patch::check(&body.tree).map_err(|e| refused(&e))?;
        let unknown = unknown.iter().map(|path| format!("json patch unknown field {path:?}"));
        let twice = body.duplicates.iter().map(|twice| format!("json patch {twice}"));
        let tree = json_patch::apply(&whole, &body.tree).map_err(|e| refused(&e))?;
        Ok((tree, unknown.chain(twice).collect()))
    }

    fn merged(&self, live: &Object, body: &Body) -> Result<Tree, Status> {
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

    fn strategic(&self, live: &Object, body: &Body) -> Result<Tree, Status> {
        let resource = &self.place.resource;
        if resource.custom {
            return Err(Status::new(415, "UnsupportedMediaType", STRATEGIC_CUSTOM));
        }
        let view = resource.versions[self.place.version].schema.view();
        strategic::merge(view, &self.whole(live, &body.tree), &body.tree).map_err(|e| refused(&e))
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
        self.check_applied_kind(&body.tree, &resource.api_version(self.place.version), &resource.kind)?;
        self.check_place(&body.tree)?;
        let view = resource.versions[self.place.version].schema.view();
        apply::check(view, &body.tree).map_err(|why| {
            let version = &resource.versions[self.place.version].name;
            self.untyped(&body.tree, &resource.group, version, &why)
        })?;
        let warnings = judge_applied(&body.duplicates, &self.request.options)?;
        Ok(Decoded { tree: body.tree.clone(), warnings })
    }

    /// What is applied says what it is, and nothing about owners.
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

    /// 500 about a configuration whose fields cannot be told apart.
    pub fn untyped(&self, applied: &Tree, group: &str, version: &str, why: &str) -> Status {
        let place = |key| applied.str_at(&["metadata", key]);
        let (namespace, name, kind) = (place("namespace"), place("name"), applied.str_at(&["kind"]));
        let words = format!("{namespace}/{name}; {group}/{version}, Kind={kind}");
        Status::new(500, "", format!("failed to create typed patch object ({words}): {why}"))
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
        let uid = decoded.tree.str_at(&["metadata", "uid"]);
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Status::conflict(named, &why));
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
        let tree = self.defaulted(&made.tree, None);
        self.create_new(Newcomer { tree, managed: made.managed, warnings: decoded.warnings })
    }
}

/// Lists replace lists, and what they hold comes without `null`s in maps, as if it were merged into nothing.
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

/// The answer to a patch that cannot be applied.
pub(super) fn refused(error: &PatchError) -> Status {
    let text = error.to_string();
    match error {
        PatchError::Malformed(_) => Status::bad_request(text),
        PatchError::Unfit(why) => {
            tracing::debug!(why, "a patch does not fit");
            Status::general(422, "Invalid", text)
        }
        PatchError::TooLarge(_) => Status::new(413, "RequestEntityTooLarge", text),
        PatchError::Confused(_) => Status::new(500, "", text),
    }
}

pub(super) fn texts(twice: &[Twice]) -> Vec<String> {
    twice.iter().map(ToString::to_string).collect()
}

/// What the mode of field validation makes of keys that stood twice in an applied configuration.
fn judge_applied(twice: &[Twice], options: &WriteOptions) -> Result<Vec<String>, Status> {
    match options.field_validation {
        FieldValidation::Strict if !twice.is_empty() => {
            let why = in_one(twice).join(", ");
            Err(Status::bad_request(format!(
                "error strict decoding patch: error converting YAML to JSON: {why}"
            )))
        }
        FieldValidation::Warn => Ok(texts(twice)),
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

/// 422 about a patch whose result does not fit the schema.
pub(super) fn misfit(quoted: String, why: &str) -> Status {
    let error = FieldError::invalid("patch", quoted, why);
    Status::invalid(Named { group: "", resource: "", name: "" }, &[error])
}
