//! Writes of `/scale`: a write of the Scale becomes a write of the wanted number.
//!
//! # Invariants
//!
//! - Of the object only the wanted number changes, and who owns it.
//! - Whoever owns the number in the object owns `spec.replicas` of the Scale, and the other way round.

use std::sync::Arc;

use muster_schema::error::FieldError;
use muster_schema::node::SchemaRef;
use muster_schema::object::{Managed, Object};
use muster_schema::{apply, fields, json_patch, table};
use muster_store::{Change, Expect, Write};
use muster_tree::{Text, Tree, tree};

use super::decode::{Expected, fit, judge};
use super::patch::{conflicts, misfit, refused, texts};
use super::prepare::Ask;
use super::scale::{paths, refs, shown};
use super::update::uid_differs;
use super::write::{Answer, Prepared, Shows};
use super::{Engine, Place};
use crate::kinds::Errors;
use crate::request::{Body, Patch, Shown, WriteAct, WriteReply};
use crate::status::{Named, Status};

const GROUP: &str = "autoscaling";
const VERSION: &str = "v1";
const KIND: &str = "Scale";

/// A Scale that somebody wants.
struct Wish {
    tree: Tree,
    /// Who owns what of the object, when the wish says (apply).
    managed: Option<Arc<[Managed]>>,
    warnings: Vec<String>,
}

pub(super) fn prepare(ask: &Ask<'_>) -> Result<Prepared, Status> {
    let decoded = match &ask.request.act {
        WriteAct::Update(body) => Some(replaced(ask, body)?),
        _ => None,
    };
    let live = ask.live().ok_or_else(|| ask.not_found())?;
    ask.check_guard(&live)?;
    let before = shown(&ask.place, &live)?;
    let wish = match (&ask.request.act, decoded) {
        (_, Some(wish)) => wish,
        (WriteAct::Patch(patch), None) => patched(ask, &live, &before, patch)?,
        _ => return Err(Status::method_not_allowed()),
    };
    check_uid(ask, &live, &wish)?;
    let version = wish.tree.str_at(&["metadata", "resourceVersion"]);
    if !version.is_empty() && version != live.revision.to_string() {
        return Err(Status::modified(ask.place.resource.named(&ask.request.target.name)));
    }
    scaled(ask, &live, before, wish)
}

/// A Scale that names a UID means that incarnation.
fn check_uid(ask: &Ask<'_>, live: &Object, wish: &Wish) -> Result<(), Status> {
    let (want, is) = (wish.tree.str_at(&["metadata", "uid"]), live.tree.str_at(&["metadata", "uid"]));
    if want.is_empty() || want == is {
        return Ok(());
    }
    let resource = &ask.place.resource;
    let plural = format!("{}/scale", resource.plural);
    let on = Named { group: &resource.group, resource: &plural, name: &ask.request.target.name };
    Err(Status::conflict(on, &uid_differs(want, is)))
}

/// The rest: the object with the wanted number.
fn scaled(ask: &Ask<'_>, live: &Object, before: Tree, wish: Wish) -> Result<Prepared, Status> {
    let wanted = wish.tree.int_at(&["spec", "replicas"]).unwrap_or(0);
    check(ask, wanted)?;
    let paths = paths(&ask.place);
    let same = live.tree.int_at(&refs(&paths.wanted)) == Some(wanted);
    let owners_stay = wish.managed.as_ref().is_none_or(|managed| *managed == live.managed);
    if same && owners_stay {
        let shown = Shown::Tree(before);
        return Ok(Prepared::Answer(WriteReply { code: 200, shown, warnings: wish.warnings }));
    }
    let tree = if same {
        live.tree.clone()
    } else {
        super::metadata::next_generation(&live.tree.with(&refs(&paths.wanted), wanted))
    };
    let mut errors = Errors::new();
    ask.check_custom(&tree, Some(&live.tree), &mut errors);
    ask.place.resource.strategy.validate_update(&tree, &live.tree, &ask.cx(), &mut errors);
    ask.check_errors(&ask.request.target.name, &errors)?;
    let managed = wish.managed.unwrap_or_else(|| ask.owned(Some(live), &tree, None));
    let new = Object { tree, managed, revision: live.revision };
    let write = Write { key: ask.key(), expect: Expect::Revision(live.revision), change: Change::Put(new) };
    let shows = Shows::Made(made, ask.place.clone());
    Ok(ask.plan(vec![write], Answer { code: 200, shows, warnings: wish.warnings }))
}

fn made(_: &Engine, place: &Place, object: &Object) -> Result<Tree, Status> {
    shown(place, object)
}

fn check(ask: &Ask<'_>, wanted: i64) -> Result<(), Status> {
    if wanted >= 0 {
        return Ok(());
    }
    let error = FieldError::invalid("spec.replicas", wanted, "must be greater than or equal to 0");
    let on = Named { group: GROUP, resource: KIND, name: &ask.request.target.name };
    Err(Status::invalid(on, &[error]))
}

fn replaced(ask: &Ask<'_>, body: &Body) -> Result<Wish, Status> {
    let decoded = ask.decoded_part(body)?;
    if decoded.tree.str_at(&["metadata", "name"]).is_empty() {
        return Err(ask.nameless());
    }
    ask.check_place(&decoded.tree)?;
    Ok(Wish { tree: decoded.tree, managed: None, warnings: decoded.warnings })
}

fn patched(ask: &Ask<'_>, live: &Object, before: &Tree, patch: &Patch) -> Result<Wish, Status> {
    let (tree, mut wrong) = match patch {
        Patch::Apply { body, force } => return applied(ask, live, before, body, *force),
        Patch::Json(body) => {
            (json_patch::apply(before, &body.tree).map_err(|e| refused(&e))?, texts(&body.duplicates))
        }
        Patch::Merge(body) | Patch::Strategic(body) => (before.merge(&body.tree), texts(&body.duplicates)),
    };
    let schema = schema()?;
    let quoted = || tree.to_json();
    let (fitting, unknown) = fit(&expected(&schema), &tree).map_err(|why| misfit(quoted(), &why))?;
    wrong.extend(unknown);
    let warnings = judge(&wrong, &ask.request.options).map_err(|why| misfit(quoted(), &why))?;
    ask.check_place(&fitting)?;
    Ok(Wish { tree: fitting, managed: None, warnings })
}

fn schema() -> Result<SchemaRef, Status> {
    let found = table::builtin().root(GROUP, VERSION, KIND);
    found.ok_or_else(|| Status::internal("Scale has no schema"))
}

fn expected(schema: &SchemaRef) -> Expected<'_> {
    Expected { group: GROUP, version: VERSION, kind: KIND, view: schema.view(), custom: false }
}

/// What an applied Scale makes of the object's owners and of its number.
fn applied(ask: &Ask<'_>, live: &Object, before: &Tree, body: &Body, force: bool) -> Result<Wish, Status> {
    ask.check_applied_kind(&body.tree, &format!("{GROUP}/{VERSION}"), KIND)?;
    ask.check_place(&body.tree)?;
    let schema = schema()?;
    apply::check(schema.view(), &body.tree).map_err(|why| ask.untyped(&body.tree, GROUP, VERSION, &why))?;
    let owned = fields::at(&refs(&paths(&ask.place).wanted));
    let scale = Object {
        tree: before.without(&["metadata", "resourceVersion"]),
        managed: live.managed.iter().filter_map(|entry| of_scale(entry, &owned)).collect(),
        revision: live.revision,
    };
    let writer = apply::Writer { api_version: Text::from(format!("{GROUP}/{VERSION}")), ..ask.writer() };
    let ignored = tree!({"f:status": {}});
    let wish = super::metadata::stripped(&body.tree);
    let made = apply::apply(schema.view(), &scale, &wish, &writer, force, &ignored);
    let made = made.map_err(|found| conflicts(&found))?;
    let version = ask.place.resource.api_version(ask.place.version);
    let managed = of_object(&live.managed, &made.managed, &owned, &version);
    let at = &["metadata", "resourceVersion"][..];
    let tree = made.tree.with_option(at, body.tree.at(at).cloned());
    Ok(Wish { tree, managed: Some(managed), warnings: Vec::new() })
}

/// What an owner of the object's number owns of the Scale.
fn of_scale(entry: &Managed, owned: &Tree) -> Option<Managed> {
    fields::contains(&entry.fields, owned).then(|| Managed {
        api_version: Text::from(format!("{GROUP}/{VERSION}")),
        fields: fields::at(&["spec", "replicas"]),
        ..entry.clone()
    })
}

/// The owners of the object once these own the Scale.
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
    fn owning_the_number_is_owning_the_scale() {
        let owned = fields::at(&["spec", "replicas"]);
        let both = tree!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let before = [entry("a", "", both), entry("b", "scale", owned.clone())];
        let scale: Vec<Managed> = before.iter().filter_map(|e| of_scale(e, &owned)).collect();
        assert_eq!(scale.len(), 2);
        assert_eq!((scale[0].api_version.as_str(), &scale[0].fields), ("autoscaling/v1", &owned));
        let version = Text::from("apps/v1");
        assert_eq!(*of_object(&before, &scale, &owned, &version), before, "there and back");
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
