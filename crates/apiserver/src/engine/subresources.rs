//! Writes of subresources that are not a part of the object: binding, eviction, token, finalize.

use muster_schema::object::StoredObject;
use muster_store::ExpectedRevision;
use muster_tree::{Tree, tree};

use super::ApiEngine;
use super::VersionedResource;
use super::metadata::is_deleting;
use super::prepare::WriteContext;
use super::update::uid_differs;
use super::write::{PreparedWrite, ReplyPlan, ReplySource};
use crate::request::{RequestBody, WriteAct};
use crate::status::{Status, StatusObject};

impl WriteContext<'_> {
    pub fn subresource(&self) -> Result<PreparedWrite, Status> {
        match (self.request.target.subresource.as_str(), &self.request.act) {
            ("binding", WriteAct::Create(body)) => self.bind(body),
            ("eviction", WriteAct::Create(body)) => self.evict(body),
            ("token", WriteAct::Create(body)) => self.issue_token(body),
            ("finalize", WriteAct::Update(body)) => self.finalize(body),
            ("scale", WriteAct::Update(_) | WriteAct::Patch(_)) => self.scale(),
            ("ephemeralcontainers" | "resize", WriteAct::Update(_) | WriteAct::Patch(_)) => self.update(),
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// Binds a pod to a node. A bound pod cannot be bound again.
    fn bind(&self, body: &RequestBody) -> Result<PreparedWrite, Status> {
        let body = self.decoded_part(body)?;
        let name = self.request.target.name.as_str();
        if body.tree.str_at(&["metadata", "name"]) != name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        let live = self.live().ok_or_else(|| self.not_found())?;
        self.check_storage_preconditions(&live)?;
        let node = body.tree.text_at(&["target", "name"]);
        let named = StatusObject { group: "", resource: "pods/binding", name };
        if node.is_empty() {
            return Err(Status::new(500, "", "target.name: Required value"));
        }
        let refuse = |why: String| Err(Status::conflict(named, &why));
        let uid = body.tree.str_at(&["metadata", "uid"]);
        let live_uid = live.tree.str_at(&["metadata", "uid"]);
        if !uid.is_empty() && uid != live_uid {
            return Err(Status::conflict(self.place.resource.named(name), &uid_differs(uid, live_uid)));
        }
        if is_deleting(&live.tree) {
            return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let bound = live.tree.str_at(&["spec", "nodeName"]);
        if !bound.is_empty() {
            return refuse(format!("pod {name} is already assigned to node {bound:?}"));
        }
        // A gated pod must not be bound: queueing controllers rely on the gate.
        if !live.tree.items_at(&["spec", "schedulingGates"]).is_empty() {
            return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        let annotations = body.tree.at(&["metadata", "annotations"]).cloned().unwrap_or_else(Tree::empty_map);
        let mut tree = live.tree.with(&["spec", "nodeName"], node);
        if !annotations.is_empty() {
            let all = live.tree.at(&["metadata", "annotations"]).unwrap_or(&Tree::Null).merge(&annotations);
            tree = tree.with(&["metadata", "annotations"], all);
        }
        let tree = scheduled(&tree, self.now);
        let new = StoredObject { tree, ..live.clone() };
        let write = muster_store::Write {
            key: self.key(),
            expect: ExpectedRevision::Revision(live.revision),
            change: muster_store::Mutation::Put(new),
        };
        Ok(self.plan(vec![write], success(201)))
    }

    /// Replaces `spec.finalizers` of a Namespace; removing the last one deletes it.
    fn finalize(&self, body: &RequestBody) -> Result<PreparedWrite, Status> {
        let desired = self.decode_update(body)?;
        let live = self.live().ok_or_else(|| self.not_found())?;
        self.check_storage_preconditions(&live)?;
        let version = desired.tree.str_at(&["metadata", "resourceVersion"]);
        if !version.is_empty() && version != live.revision.to_string() {
            return Err(Status::stale_resource_version(self.place.resource.named(&self.request.target.name)));
        }
        let finalizers = desired.tree.items_at(&["spec", "finalizers"]);
        let finalizers = (!finalizers.is_empty()).then(|| Tree::list(finalizers.to_vec()));
        let tree = live.tree.with_option(&["spec", "finalizers"], finalizers);
        Ok(self.plan_change(&live, StoredObject { tree, ..live.clone() }, desired.warnings))
    }
}

/// The reply of subresources without an object.
pub(super) fn success(code: u16) -> ReplyPlan {
    ReplyPlan { code, source: ReplySource::Status(Status::new(code, "", "")), warnings: Vec::new() }
}

/// Sets the PodScheduled condition.
fn scheduled(pod: &Tree, now: muster_api::time::Time) -> Tree {
    let old = pod.items_at(&["status", "conditions"]);
    let before = old.iter().find(|c| c.str_at(&["type"]) == "PodScheduled");
    if before.is_some_and(|c| c.str_at(&["status"]) == "True") {
        return pod.clone();
    }
    let condition = tree!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": now.to_seconds_text(),
    });
    let others = old.iter().filter(|c| c.str_at(&["type"]) != "PodScheduled").cloned();
    let all = Tree::list(others.chain([condition]).collect::<Vec<_>>());
    pod.with(&["status", "conditions"], all)
}

impl ApiEngine {
    /// The Scale of an object.
    pub(super) fn scale_of(&self, place: &VersionedResource, object: &StoredObject) -> Result<Tree, Status> {
        super::scale::shown(place, object)
    }
}

impl WriteContext<'_> {
    fn scale(&self) -> Result<PreparedWrite, Status> {
        super::scale_write::prepare(self)
    }
}
