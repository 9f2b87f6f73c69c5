//! Deletes an object: at once, after its grace period, or when its finalizers are removed.

use muster_schema::error::FieldError;
use muster_schema::object::StoredObject;
use muster_store::{ExpectedRevision, Mutation, Write};
use muster_tree::Tree;

use super::metadata::{is_deleting, is_same, mark_deleting};
use super::prepare::WriteContext;
use super::quota_usage::with_writes;
use super::write::{PreparedWrite, ReplyPlan, ReplySource};
use crate::admission::Operation;
use crate::kinds::Propagation;
use crate::request::{DeleteOptions, ReplyObject, WriteReply};
use crate::status::{Status, StatusDetails, StatusObject};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl WriteContext<'_> {
    pub fn delete(&self, options: &DeleteOptions) -> Result<PreparedWrite, Status> {
        check_options(options)?;
        let warnings = self.orphan_warning(options).into_iter().collect();
        let live = self.live().ok_or_else(|| Status { warnings, ..self.not_found() })?;
        self.delete_live(&live, options)
    }

    /// Deletes, marks as deleting, or shortens the grace period of this object.
    pub fn delete_live(&self, live: &StoredObject, options: &DeleteOptions) -> Result<PreparedWrite, Status> {
        self.check_preconditions(live, options)?;
        let mut warnings = Vec::new();
        self.run_validating(Operation::Delete, None, Some(&live.tree), &mut warnings)?;
        let resource = &self.place.resource;
        let tree = with_gc_finalizers(&live.tree, options, resource.strategy.default_propagation());
        warnings.extend(self.orphan_warning(options));
        if let Some(tree) = resource.strategy.begin_deletion(&tree, self.now) {
            return Ok(self.store_deleting(live, tree, options, warnings));
        }
        let grace = resource.strategy.grace_period_secs(&live.tree, options.grace_secs).unwrap_or(0);
        let held = !tree.items_at(&["metadata", "finalizers"]).is_empty();
        // A repeated delete may only shorten the grace period, and removes the object when that has become 0.
        if is_deleting(&live.tree) {
            let before = live.tree.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
            let requested =
                resource.strategy.grace_period_secs(&live.tree, options.grace_secs.or(Some(before)));
            // A grace period can be shortened, never extended.
            let shorter = requested.unwrap_or(0) < before;
            return Ok(match (shorter, held) {
                (_, false) if before == 0 || requested.unwrap_or(0) == 0 => {
                    let tree = if before > 0 { mark_deleting(&tree, self.now, 0) } else { tree };
                    self.remove_object(live, tree, warnings)?
                }
                (true, _) => {
                    let tree = self.shorten_grace_period(&tree, before - requested.unwrap_or(0));
                    self.store_deleting(live, tree, options, warnings)
                }
                _ => self.store_deleting(live, tree, options, warnings),
            });
        }
        if grace > 0 || held {
            return Ok(self.store_deleting(live, mark_deleting(&tree, self.now, grace), options, warnings));
        }
        // Kinds with graceful deletion report the deadline even when it is now.
        let graceful = resource.strategy.grace_period_secs(&live.tree, options.grace_secs).is_some();
        let tree = if graceful { mark_deleting(&tree, self.now, 0) } else { tree };
        self.remove_object(live, tree, warnings)
    }

    /// Moves the deletion deadline `secs` earlier.
    fn shorten_grace_period(&self, tree: &Tree, secs: i64) -> Tree {
        let at = muster_api::time::Time::of(tree.at(&["metadata", "deletionTimestamp"])).unwrap_or(self.now);
        let at = muster_api::time::Time(at.0 - secs * 1_000_000);
        let before = tree.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        tree.with(&["metadata", "deletionTimestamp"], at.to_seconds_text())
            .with(&["metadata", "deletionGracePeriodSeconds"], before - secs)
    }

    /// Stores the object with its deletion mark.
    fn store_deleting(
        &self,
        live: &StoredObject,
        tree: Tree,
        options: &DeleteOptions,
        warnings: Vec<String>,
    ) -> PreparedWrite {
        let code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
        let new = StoredObject { tree, ..live.clone() };
        if is_same(&new, live) {
            return PreparedWrite::Answer(WriteReply {
                code,
                shown: ReplyObject::Object(live.clone()),
                warnings,
            });
        }
        self.put(self.key_of(live), ExpectedRevision::Revision(live.revision), new, code, warnings)
    }

    fn remove_object(
        &self,
        live: &StoredObject,
        tree: Tree,
        warnings: Vec<String>,
    ) -> Result<PreparedWrite, Status> {
        let resource = &self.place.resource;
        let shows = if resource.strategy.returns_deleted_object() {
            ReplySource::First
        } else {
            ReplySource::Status(self.success(live))
        };
        let last = StoredObject { tree, ..live.clone() };
        let expect = ExpectedRevision::Revision(live.revision);
        let writes = vec![Write { key: self.key_of(live), expect, change: Mutation::Delete(last) }];
        let removal = self.plan(writes, ReplyPlan { code: 200, source: shows, warnings });
        Ok(with_writes(removal, self.quota_writes(Operation::Delete, None, Some(&live.tree))?))
    }

    fn success(&self, live: &StoredObject) -> Status {
        let resource = &self.place.resource;
        let details = StatusDetails {
            name: live.tree.str_at(&["metadata", "name"]).to_owned(),
            group: resource.group.to_string(),
            kind: resource.plural.to_string(),
            uid: live.tree.str_at(&["metadata", "uid"]).to_owned(),
            ..StatusDetails::default()
        };
        Status { details, ..Status::new(200, "", "") }
    }

    fn key_of(&self, live: &StoredObject) -> muster_store::Key {
        let meta = |key| live.tree.text_at(&["metadata", key]);
        self.place.resource.key(&meta("namespace"), &meta("name"))
    }

    fn check_preconditions(&self, live: &StoredObject, options: &DeleteOptions) -> Result<(), Status> {
        self.check_storage_preconditions(live)?;
        let named = self.place.resource.named_kind(live.tree.str_at(&["metadata", "name"]));
        let uid = live.tree.str_at(&["metadata", "uid"]);
        if let Some(want) = options.uid.as_ref().filter(|want| want.as_str() != uid) {
            return Err(Status::conflict(
                named,
                &format!(
                    "the UID in the precondition ({want}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
                ),
            ));
        }
        let revision = live.revision.to_string();
        if let Some(want) = options.resource_version.as_ref().filter(|want| want.as_str() != revision) {
            return Err(Status::conflict(
                named,
                &format!(
                    "the ResourceVersion in the precondition ({want}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
                ),
            ));
        }
        Ok(())
    }

    fn orphan_warning(&self, options: &DeleteOptions) -> Option<String> {
        let silent = options.orphan_dependents.is_none() && options.propagation.is_empty();
        // ReplicationControllers orphan by default, too, but kube-apiserver warns for Jobs only.
        let is_job = self.place.resource.plural == "jobs";
        let orphans = self.place.resource.strategy.default_propagation() == Propagation::Orphan;
        (silent && is_job && orphans).then(|| ORPHAN_WARNING.to_owned())
    }
}

const ORPHAN_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

pub(super) fn check_options(options: &DeleteOptions) -> Result<(), Status> {
    let policy = options.propagation.as_str();
    let error = if !policy.is_empty() && options.orphan_dependents.is_some() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        Some(FieldError::invalid("propagationPolicy", policy, why))
    } else if !matches!(policy, "" | "Background" | "Foreground" | "Orphan") {
        let all = ["Foreground", "Background", "Orphan", "nil"];
        Some(FieldError::not_supported("propagationPolicy", policy, all))
    } else {
        None
    };
    let on = StatusObject { group: "meta.k8s.io", resource: "DeleteOptions", name: "" };
    error.map_or(Ok(()), |error| Err(Status::invalid(on, &[error])))
}

/// Sets the finalizers by which the garbage collector orphans or deletes dependents.
fn with_gc_finalizers(tree: &Tree, options: &DeleteOptions, default: Propagation) -> Tree {
    let old = tree.items_at(&["metadata", "finalizers"]);
    let has = |name: &str| old.iter().any(|f| f.as_str() == Some(name));
    let wanted = match (options.propagation.as_str(), options.orphan_dependents) {
        // An explicit policy wins over finalizers that are set already; without one those stay.
        ("Orphan", _) | ("", Some(true)) => Some(ORPHAN),
        ("Foreground", _) => Some(FOREGROUND),
        ("Background", _) | ("", Some(false)) => None,
        _ if has(ORPHAN) => Some(ORPHAN),
        _ if has(FOREGROUND) => Some(FOREGROUND),
        _ => (default == Propagation::Orphan).then_some(ORPHAN),
    };
    let others = old.iter().filter(|f| !matches!(f.as_str(), Some(ORPHAN | FOREGROUND))).cloned();
    let new: Vec<Tree> = others.chain(wanted.map(Tree::from)).collect();
    if new == old {
        return tree.clone();
    }
    let new = (!new.is_empty()).then(|| Tree::list(new));
    tree.with_option(&["metadata", "finalizers"], new)
}
