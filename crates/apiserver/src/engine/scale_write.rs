//! Writes of the `scale` subresource become updates of the replica count.
//!
//! # Invariants
//!
//! - Only the replica count of the object and its field ownership change.
//! - A manager of the replica field owns `spec.replicas` of the Scale, and vice versa.

use std::sync::Arc;

use muster_schema::error::FieldError;
use muster_schema::node::SchemaRef;
use muster_schema::object::{Managed, StoredObject};
use muster_schema::{apply, fields, json_patch, table};
use muster_store::{ExpectedRevision, Mutation, Write};
use muster_tree::{Text, Tree, tree};

use super::decode::{ExpectedKind, apply_field_validation, check_and_prune};
use super::patch::{conflicts, duplicate_texts, invalid_patch_result, patch_error};
use super::prepare::WriteContext;
use super::scale::{paths, refs, shown};
use super::update::uid_differs;
use super::write::{PreparedWrite, ReplyPlan, ReplySource};
use super::{ApiEngine, VersionedResource};
use crate::kinds::FieldErrors;
use crate::request::{Patch, ReplyObject, RequestBody, WriteAct, WriteReply};
use crate::status::{Status, StatusObject};

const GROUP: &str = "autoscaling";
const VERSION: &str = "v1";
const KIND: &str = "Scale";

struct DesiredScale {
    tree: Tree,
    /// Field ownership of the object; set by apply only.
    managed: Option<Arc<[Managed]>>,
    warnings: Vec<String>,
}

pub(super) fn prepare(ask: &WriteContext<'_>) -> Result<PreparedWrite, Status> {
    let decoded = match &ask.request.act {
        WriteAct::Update(body) => Some(replaced(ask, body)?),
        _ => None,
    };
    let live = ask.live().ok_or_else(|| ask.not_found())?;
    ask.check_storage_preconditions(&live)?;
    let before = shown(&ask.place, &live)?;
    let desired = match (&ask.request.act, decoded) {
        (_, Some(desired)) => desired,
        (WriteAct::Patch(patch), None) => patched(ask, &live, &before, patch)?,
        _ => return Err(Status::method_not_allowed()),
    };
    check_uid(ask, &live, &desired)?;
    // The Scale's resourceVersion is that of the object.
    let version = desired.tree.str_at(&["metadata", "resourceVersion"]);
    if !version.is_empty() && version != live.revision.to_string() {
        return Err(Status::stale_resource_version(ask.place.resource.named(&ask.request.target.name)));
    }
    scaled(ask, &live, before, desired)
}

/// A UID in the Scale is a precondition.
fn check_uid(ask: &WriteContext<'_>, live: &StoredObject, desired: &DesiredScale) -> Result<(), Status> {
    let (want, is) = (desired.tree.str_at(&["metadata", "uid"]), live.tree.str_at(&["metadata", "uid"]));
    if want.is_empty() || want == is {
        return Ok(());
    }
    let resource = &ask.place.resource;
    let plural = format!("{}/scale", resource.plural);
    let on = StatusObject { group: &resource.group, resource: &plural, name: &ask.request.target.name };
    Err(Status::conflict(on, &uid_differs(want, is)))
}

/// Updates the object with the requested replica count.
fn scaled(
    ask: &WriteContext<'_>,
    live: &StoredObject,
    before: Tree,
    desired: DesiredScale,
) -> Result<PreparedWrite, Status> {
    let wanted = desired.tree.int_at(&["spec", "replicas"]).unwrap_or(0);
    check(ask, wanted)?;
    let paths = paths(&ask.place);
    let same = live.tree.int_at(&refs(&paths.wanted)) == Some(wanted);
    let owners_stay = desired.managed.as_ref().is_none_or(|managed| *managed == live.managed);
    // No write without a change: autoscalers repeat the same Scale.
    if same && owners_stay {
        let shown = ReplyObject::Tree(before);
        return Ok(PreparedWrite::Answer(WriteReply { code: 200, shown, warnings: desired.warnings }));
    }
    let tree = if same {
        live.tree.clone()
    } else {
        super::metadata::next_generation(&live.tree.with(&refs(&paths.wanted), wanted))
    };
    let mut errors = FieldErrors::new();
    ask.check_custom(&tree, Some(&live.tree), &mut errors);
    ask.place.resource.strategy.validate_update(&tree, &live.tree, &ask.strategy_context(), &mut errors);
    ask.check_errors(&ask.request.target.name, &errors)?;
    let managed = desired.managed.unwrap_or_else(|| ask.owned(Some(live), &tree, None));
    let new = StoredObject { tree, managed, revision: live.revision };
    let write = Write {
        key: ask.key(),
        expect: ExpectedRevision::Revision(live.revision),
        change: Mutation::Put(new),
    };
    let shows = ReplySource::Made(made, ask.place.clone());
    Ok(ask.plan(vec![write], ReplyPlan { code: 200, source: shows, warnings: desired.warnings }))
}

fn made(_: &ApiEngine, place: &VersionedResource, object: &StoredObject) -> Result<Tree, Status> {
    shown(place, object)
}

fn check(ask: &WriteContext<'_>, wanted: i64) -> Result<(), Status> {
    if wanted >= 0 {
        return Ok(());
    }
    let error = FieldError::invalid("spec.replicas", wanted, "must be greater than or equal to 0");
    let on = StatusObject { group: GROUP, resource: KIND, name: &ask.request.target.name };
    Err(Status::invalid(on, &[error]))
}

fn replaced(ask: &WriteContext<'_>, body: &RequestBody) -> Result<DesiredScale, Status> {
    let decoded = ask.decoded_part(body)?;
    if decoded.tree.str_at(&["metadata", "name"]).is_empty() {
        return Err(ask.missing_name());
    }
    ask.check_place(&decoded.tree)?;
    Ok(DesiredScale { tree: decoded.tree, managed: None, warnings: decoded.warnings })
}

fn patched(
    ask: &WriteContext<'_>,
    live: &StoredObject,
    before: &Tree,
    patch: &Patch,
) -> Result<DesiredScale, Status> {
    let (tree, mut wrong) = match patch {
        Patch::Apply { body, force } => return applied(ask, live, before, body, *force),
        Patch::Json(body) => (
            json_patch::apply(before, &body.tree).map_err(|e| patch_error(&e))?,
            duplicate_texts(&body.duplicates),
        ),
        Patch::Merge(body) | Patch::Strategic(body) => {
            (before.merge(&body.tree), duplicate_texts(&body.duplicates))
        }
    };
    let schema = schema()?;
    let quoted = || tree.to_json();
    let (fitting, unknown) =
        check_and_prune(&expected(&schema), &tree).map_err(|why| invalid_patch_result(quoted(), &why))?;
    wrong.extend(unknown);
    let warnings = apply_field_validation(&wrong, &ask.request.options)
        .map_err(|why| invalid_patch_result(quoted(), &why))?;
    ask.check_place(&fitting)?;
    Ok(DesiredScale { tree: fitting, managed: None, warnings })
}

fn schema() -> Result<SchemaRef, Status> {
    let found = table::builtin().root(GROUP, VERSION, KIND);
    found.ok_or_else(|| Status::internal("Scale has no schema"))
}

fn expected(schema: &SchemaRef) -> ExpectedKind<'_> {
    ExpectedKind { group: GROUP, version: VERSION, kind: KIND, view: schema.view(), custom: false }
}

/// Server-side apply of a Scale.
fn applied(
    ask: &WriteContext<'_>,
    live: &StoredObject,
    before: &Tree,
    body: &RequestBody,
    force: bool,
) -> Result<DesiredScale, Status> {
    ask.check_applied_kind(&body.tree, &format!("{GROUP}/{VERSION}"), KIND)?;
    ask.check_place(&body.tree)?;
    let schema = schema()?;
    apply::check(schema.view(), &body.tree).map_err(|why| ask.untyped(&body.tree, GROUP, VERSION, &why))?;
    let owned = fields::at(&refs(&paths(&ask.place).wanted));
    let scale = StoredObject {
        tree: before.without(&["metadata", "resourceVersion"]),
        managed: live.managed.iter().filter_map(|entry| of_scale(entry, &owned)).collect(),
        revision: live.revision,
    };
    let writer = apply::Writer { api_version: Text::from(format!("{GROUP}/{VERSION}")), ..ask.writer() };
    let ignored = tree!({"f:status": {}});
    let desired = super::metadata::without_transient_fields(&body.tree);
    let made = apply::apply(schema.view(), &scale, &desired, &writer, force, &ignored);
    let made = made.map_err(|found| conflicts(&found))?;
    let version = ask.place.resource.api_version(ask.place.version);
    let managed = of_object(&live.managed, &made.managed, &owned, &version);
    let at = &["metadata", "resourceVersion"][..];
    let tree = made.tree.with_option(at, body.tree.at(at).cloned());
    Ok(DesiredScale { tree, managed: Some(managed), warnings: Vec::new() })
}

/// Maps an owner of the replica field to an owner of `spec.replicas`.
fn of_scale(entry: &Managed, owned: &Tree) -> Option<Managed> {
    fields::contains(&entry.fields, owned).then(|| Managed {
        api_version: Text::from(format!("{GROUP}/{VERSION}")),
        fields: fields::at(&["spec", "replicas"]),
        ..entry.clone()
    })
}

/// Maps owners of the Scale back to owners of the object.
fn of_object(before: &[Managed], scale: &[Managed], owned: &Tree, version: &Text) -> Arc<[Managed]> {
    let mut all: Vec<Managed> = before.to_vec();
    for entry in &mut all {
        entry.fields = fields::difference(&entry.fields, owned);
    }
    for owner in scale.iter().filter(|owner| !fields::is_empty(&owner.fields)) {
        let is_same = |entry: &&mut Managed| {
            entry.manager == owner.manager
                && entry.applied == owner.applied
                && entry.subresource == owner.subresource
        };
        match all.iter_mut().find(is_same) {
            Some(entry) => entry.fields = fields::union(&entry.fields, owned),
            None => {
                all.push(Managed { api_version: version.clone(), fields: owned.clone(), ..owner.clone() });
            }
        }
    }
    all.retain(|entry| !fields::is_empty(&entry.fields));
    apply::sorted(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, subresource: &str, fields: Tree) -> Managed {
        Managed {
            manager: manager.into(),
            applied: false,
            api_version: "apps/v1".into(),
            subresource: subresource.into(),
            time: Text::new(),
            fields,
        }
    }

    #[test]
    fn the_owner_of_the_replica_field_owns_the_scale() {
        let owned = fields::at(&["spec", "replicas"]);
        let both = tree!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let before = [entry("a", "", both), entry("b", "scale", owned.clone())];
        let scale: Vec<Managed> = before.iter().filter_map(|e| of_scale(e, &owned)).collect();
        assert_eq!(scale.len(), 2);
        assert_eq!((scale[0].api_version.as_str(), &scale[0].fields), ("autoscaling/v1", &owned));
        let version = Text::from("apps/v1");
        assert_eq!(*of_object(&before, &scale, &owned, &version), before, "round trip");
        let taken = [Managed { manager: "c".into(), ..scale[1].clone() }];
        let after = of_object(&before, &taken, &owned, &version);
        let who: Vec<_> = after.iter().map(|e| (e.manager.as_str(), e.fields.to_json())).collect();
        assert_eq!(
            who,
            [
                ("a", r#"{"f:spec":{"f:paused":{}}}"#.to_owned()),
                ("c", r#"{"f:spec":{"f:replicas":{}}}"#.to_owned())
            ]
        );
    }
}
