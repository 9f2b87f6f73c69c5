//! Deleting an object: at once, after a grace, or once its finalizers are gone.

use muster_schema::error::FieldError;
use muster_schema::object::Object;
use muster_store::{Change, Expect, Write};
use muster_tree::Tree;

use super::charge::beside;
use super::metadata::{doomed, is_doomed, is_same};
use super::prepare::Ask;
use super::write::{Answer, Prepared, Shows};
use crate::admission::Operation;
use crate::kinds::Propagation;
use crate::request::{DeleteOptions, Shown, WriteReply};
use crate::status::{Details, Named, Status};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl Ask<'_> {
    pub fn delete(&self, options: &DeleteOptions) -> Result<Prepared, Status> {
        check_options(options)?;
        let warnings = self.orphan_warning(options).into_iter().collect();
        let live = self.live().ok_or_else(|| Status { warnings, ..self.not_found() })?;
        self.delete_live(&live, options)
    }

    /// What deleting this object means now.
    pub fn delete_live(&self, live: &Object, options: &DeleteOptions) -> Result<Prepared, Status> {
        self.check_preconditions(live, options)?;
        let mut warnings = Vec::new();
        self.admitted(Operation::Delete, None, Some(&live.tree), &mut warnings)?;
        let resource = &self.place.resource;
        let tree = with_gc_finalizers(&live.tree, options, resource.strategy.default_propagation());
        warnings.extend(self.orphan_warning(options));
        if let Some(tree) = resource.strategy.doom(&tree, self.now) {
            return Ok(self.doomed(live, tree, options, warnings));
        }
        let grace = resource.strategy.grace(&live.tree, options.grace_secs).unwrap_or(0);
        let held = !tree.items_at(&["metadata", "finalizers"]).is_empty();
        if is_doomed(&live.tree) {
            let before = live.tree.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
            let asked = resource.strategy.grace(&live.tree, options.grace_secs.or(Some(before)));
            let shorter = asked.unwrap_or(0) < before;
            return Ok(match (shorter, held) {
                (_, false) if before == 0 || asked.unwrap_or(0) == 0 => {
                    let tree = if before > 0 { doomed(&tree, self.now, 0) } else { tree };
                    self.gone(live, tree, warnings)?
                }
                (true, _) => {
                    let tree = self.sooner(&tree, before - asked.unwrap_or(0));
                    self.doomed(live, tree, options, warnings)
                }
                _ => self.doomed(live, tree, options, warnings),
            });
        }
        if grace > 0 || held {
            return Ok(self.doomed(live, doomed(&tree, self.now, grace), options, warnings));
        }
        // Kinds with grace show the deadline even when it is now.
        let graceful = resource.strategy.grace(&live.tree, options.grace_secs).is_some();
        let tree = if graceful { doomed(&tree, self.now, 0) } else { tree };
        self.gone(live, tree, warnings)
    }

    /// The deadline moved forward by `secs`.
    fn sooner(&self, tree: &Tree, secs: i64) -> Tree {
        let at = muster_api::time::Time::of(tree.at(&["metadata", "deletionTimestamp"])).unwrap_or(self.now);
        let at = muster_api::time::Time(at.0 - secs * 1_000_000);
        let before = tree.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        tree.with(&["metadata", "deletionTimestamp"], at.to_seconds_text())
            .with(&["metadata", "deletionGracePeriodSeconds"], before - secs)
    }

    /// The object stays for a while, marked.
    fn doomed(&self, live: &Object, tree: Tree, options: &DeleteOptions, warnings: Vec<String>) -> Prepared {
        let code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
        let new = Object { tree, ..live.clone() };
        if is_same(&new, live) {
            return Prepared::Answer(WriteReply { code, shown: Shown::Object(live.clone()), warnings });
        }
        self.put(self.key_of(live), Expect::Revision(live.revision), new, code, warnings)
    }

    /// The object goes now.
    fn gone(&self, live: &Object, tree: Tree, warnings: Vec<String>) -> Result<Prepared, Status> {
        let resource = &self.place.resource;
        let shows = if resource.strategy.returns_deleted_object() {
            Shows::First
        } else {
            Shows::Status(self.success(live))
        };
        let last = Object { tree, ..live.clone() };
        let expect = Expect::Revision(live.revision);
        let writes = vec![Write { key: self.key_of(live), expect, change: Change::Delete(last) }];
        let gone = self.plan(writes, Answer { code: 200, shows, warnings });
        Ok(beside(gone, self.charges(Operation::Delete, None, Some(&live.tree))?))
    }

    fn success(&self, live: &Object) -> Status {
        let resource = &self.place.resource;
        let details = Details {
            name: live.tree.str_at(&["metadata", "name"]).to_owned(),
            group: resource.group.to_string(),
            kind: resource.plural.to_string(),
            uid: live.tree.str_at(&["metadata", "uid"]).to_owned(),
            ..Details::default()
        };
        Status { details, ..Status::new(200, "", "") }
    }

    fn key_of(&self, live: &Object) -> muster_store::Key {
        let meta = |key| live.tree.text_at(&["metadata", key]);
        self.place.resource.key(&meta("namespace"), &meta("name"))
    }

    fn check_preconditions(&self, live: &Object, options: &DeleteOptions) -> Result<(), Status> {
        self.check_guard(live)?;
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
        // ReplicationControllers keep their pods, too, and no server says so.
        let is_job = self.place.resource.plural == "jobs";
        let orphans = self.place.resource.strategy.default_propagation() == Propagation::Orphan;
        (silent && is_job && orphans).then(|| ORPHAN_WARNING.to_owned())
    }
}

const ORPHAN_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// Refuses options that make no sense.
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
    let on = Named { group: "meta.k8s.io", resource: "DeleteOptions", name: "" };
    error.map_or(Ok(()), |error| Err(Status::invalid(on, &[error])))
}

/// The object with the finalizers that tell the garbage collector what to do with dependents.
fn with_gc_finalizers(tree: &Tree, options: &DeleteOptions, default: Propagation) -> Tree {
    let old = tree.items_at(&["metadata", "finalizers"]);
    let has = |name: &str| old.iter().any(|f| f.as_str() == Some(name));
    let wanted = match (options.propagation.as_str(), options.orphan_dependents) {
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
