//! The eviction subresource: deletes a pod if its PodDisruptionBudget allows it.

use muster_schema::object::StoredObject;
use muster_schema::selector::Labels;
use muster_store::{ExpectedRevision, Key, Mutation, Write};
use muster_tree::{Text, Tree};

use super::metadata::is_deleting;
use super::prepare::WriteContext;
use super::subresources::success;
use super::write::{PreparedWrite, WritePlan};
use crate::kinds::ObjectLister;
use crate::request::{DeleteOptions, ReplyObject, RequestBody, WriteReply};
use crate::status::Status;

const BUDGETS: &str = "poddisruptionbudgets.policy";

impl WriteContext<'_> {
    pub(super) fn evict(&self, body: &RequestBody) -> Result<PreparedWrite, Status> {
        let body = self.decoded_part(body)?;
        let live = self.live().ok_or_else(|| self.not_found())?;
        let budget_write = if is_protected(&live.tree) { self.consume_budget(&live.tree)? } else { None };
        Ok(match self.delete_live(&live, &options(&body.tree))? {
            PreparedWrite::Writes(plan) => {
                // One transaction: a crash cannot consume the budget without deleting the pod.
                let writes = plan.writes.into_iter().chain(budget_write).collect();
                PreparedWrite::Writes(WritePlan { writes, answer: success(201) })
            }
            PreparedWrite::Answer(reply) => {
                let shown = ReplyObject::Status(Status::new(201, "", ""));
                PreparedWrite::Answer(WriteReply { code: 201, shown, ..reply })
            }
        })
    }

    /// Consumes one allowed disruption of the budget that covers a pod; nothing when no budget does.
    fn consume_budget(&self, pod: &Tree) -> Result<Option<Write>, Status> {
        let budgets = self.engine.in_namespace(BUDGETS, &self.request.target.namespace);
        let labels = pod.at(&["metadata", "labels"]);
        let covers = |budget: &&StoredObject| {
            Labels::of_selector(budget.tree.at(&["spec", "selector"]))
                .is_some_and(|wanted| wanted.matches(labels))
        };
        let covering: Vec<&StoredObject> = budgets.iter().filter(covers).collect();
        let budget = match covering[..] {
            [] => return Ok(None),
            [one] => one,
            _ => {
                let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Status::new(500, "", why));
            }
        };
        let name = budget.tree.text_at(&["metadata", "name"]);
        let number = |path: &[&str]| budget.tree.int_at(path).unwrap_or(0);
        if !is_ready(pod) && may_evict_unready(&budget.tree) {
            return Ok(None);
        }
        // `disruptionsAllowed` of an older spec must not be used.
        if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
            return Err(unprocessed(&name));
        }
        let left = budget.tree.int_at(&["status", "disruptionsAllowed"]).unwrap_or(0);
        if left <= 0 {
            return Err(blocked(&budget.tree, &name));
        }
        let stamp = self.now.to_seconds_text();
        let tree = budget
            .tree
            .with(&["status", "disruptionsAllowed"], left - 1)
            // `disruptedPods` lets the controller count the pod as gone before it sees the delete.
            .with(&["status", "disruptedPods", &self.request.target.name], stamp);
        let namespace = self.request.target.namespace.clone();
        let key = Key { resource: Text::from(BUDGETS), namespace, name };
        let change = Mutation::Put(StoredObject { tree, ..budget.clone() });
        Ok(Some(Write { key, expect: ExpectedRevision::Revision(budget.revision), change }))
    }
}

/// Terminated, pending and deleting pods need no budget.
fn is_protected(pod: &Tree) -> bool {
    !is_deleting(pod) && !matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed" | "Pending")
}

fn is_ready(pod: &Tree) -> bool {
    let conditions = pod.items_at(&["status", "conditions"]);
    conditions.iter().any(|c| c.str_at(&["type"]) == "Ready" && c.str_at(&["status"]) == "True")
}

/// Whether an unready pod may be evicted without consuming the budget.
fn may_evict_unready(budget: &Tree) -> bool {
    let number = |key: &str| budget.int_at(&["status", key]).unwrap_or(0);
    let (current, desired) = (number("currentHealthy"), number("desiredHealthy"));
    budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
        || (current >= desired && desired > 0)
}

/// 429: the controller has not observed the newest spec of the budget.
fn unprocessed(name: &str) -> Status {
    let why = format!("The disruption budget {name} is still being processed by the server.");
    let mut status = violating(why);
    status.details.retry_after_seconds = Some(10);
    status
}

fn blocked(budget: &Tree, name: &str) -> Status {
    let number = |key: &str| budget.int_at(&["status", key]).unwrap_or(0);
    let (current, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let conditions = budget.items_at(&["status", "conditions"]);
    let condition = conditions.iter().find(|c| c.str_at(&["type"]) == "DisruptionAllowed");
    let condition_text = condition
        .filter(|c| c.str_at(&["status"]) == "False")
        .map(|c| (c.str_at(&["reason"]), c.str_at(&["message"])));
    violating(match condition_text.filter(|(_, message)| !message.is_empty()) {
        Some(("SyncFailed", message)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
            )
        }
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        Some((reason, message)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
            )
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    })
}

fn violating(why: String) -> Status {
    let words = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut status = Status::new(429, "TooManyRequests", words);
    status.details.causes = vec![("DisruptionBudget".to_owned(), why, String::new())];
    status
}

fn options(body: &Tree) -> DeleteOptions {
    let options = body.get("deleteOptions").unwrap_or(&Tree::Null);
    let precondition = |key: &str| options.at(&["preconditions", key]).and_then(Tree::as_text).cloned();
    DeleteOptions {
        grace_secs: options.int_at(&["gracePeriodSeconds"]),
        propagation: options.text_at(&["propagationPolicy"]),
        orphan_dependents: options.bool_at(&["orphanDependents"]),
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
    }
}
