//! From a body to an object of the expected kind: kind check, types, unknown and duplicate fields.

use muster_tree::Tree;

use super::Place;
use crate::request::{Body, FieldValidation, WriteOptions};
use crate::status::Status;
use muster_schema::structure;

/// A body that fits the schema: pruned, and of the right kind. Wire form.
#[derive(Debug, Clone)]
pub(crate) struct Decoded {
    pub tree: Tree,
    pub warnings: Vec<String>,
}

/// Reads a body as an object of the place's kind.
pub(crate) fn decode(place: &Place, body: &Body, options: &WriteOptions) -> Result<Decoded, Status> {
    let tree = with_kind(place, &body.tree)?;
    let (tree, wrong) = fit(place, &tree, &body.duplicates).map_err(|why| unfit(place, &why))?;
    let warnings = judge(&wrong, options).map_err(|why| unfit(place, &why))?;
    Ok(Decoded { tree, warnings })
}

/// Checks types and drops unknown fields; the second answer tells of unknown and duplicate ones.
pub(crate) fn fit(place: &Place, tree: &Tree, duplicates: &[String]) -> Result<(Tree, Vec<String>), String> {
    let view = place.resource.versions[place.version].schema.view();
    if !place.resource.custom {
        structure::check_types(view, tree)?;
    }
    let mut unknown = Vec::new();
    let tree = structure::prune(view, tree, &mut unknown);
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    Ok((tree, unknown.chain(self::duplicates(duplicates)).collect()))
}

/// Keys that stood twice, as messages tell of them.
pub(crate) fn duplicates(paths: &[String]) -> Vec<String> {
    paths.iter().map(|path| format!("duplicate field {path:?}")).collect()
}

/// What the mode of field validation makes of unknown and duplicate fields.
pub(crate) fn judge(wrong: &[String], options: &WriteOptions) -> Result<Vec<String>, String> {
    match options.field_validation {
        FieldValidation::Strict if !wrong.is_empty() => {
            Err(format!("strict decoding error: {}", wrong.join(", ")))
        }
        FieldValidation::Warn => Ok(wrong.to_vec()),
        _ => Ok(Vec::new()),
    }
}

fn unfit(place: &Place, why: &str) -> Status {
    let resource = &place.resource;
    let (kind, version) = (&resource.kind, &resource.versions[place.version].name);
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

/// The object with `kind` and `apiVersion`, which built-in kinds may leave out.
fn with_kind(place: &Place, tree: &Tree) -> Result<Tree, Status> {
    let resource = &place.resource;
    if !tree.is_map() {
        let (kind, word) = (&resource.kind, tree.type_word());
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): an object is expected, not {word}"
        )));
    }
    let want = resource.api_version(place.version);
    let (kind, version) = (tree.str_at(&["kind"]), tree.str_at(&["apiVersion"]));
    if resource.custom && (kind.is_empty() || version.is_empty()) {
        let word = if kind.is_empty() { "Kind" } else { "apiVersion" };
        return Err(Status::bad_request(format!("Object '{word}' is missing in the body of the request")));
    }
    if !version.is_empty() && version != want.as_str() {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({want})"
        )));
    }
    if !kind.is_empty() && kind != resource.kind.as_str() {
        let short = version.rsplit('/').next().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "{kind} in version {short:?} cannot be handled as a {}: the kind does not match the expected one",
            resource.kind
        )));
    }
    let tree = if kind.is_empty() { tree.with_key("kind", Tree::from(&resource.kind)) } else { tree.clone() };
    Ok(if version.is_empty() { tree.with_key("apiVersion", Tree::from(want)) } else { tree })
}
