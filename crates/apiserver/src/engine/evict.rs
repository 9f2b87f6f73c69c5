//! Eviction: deleting a pod the polite way, as far as its disruption budget allows.

use muster_schema::object::Object;
use muster_schema::selector::Labels;
use muster_store::{Change, Expect, Key, Write};
use muster_tree::{Text, Tree};

use super::metadata::is_doomed;
use super::prepare::Ask;
use super::subresources::success;
use super::write::{Plan, Prepared};
use crate::kinds::Look;
use crate::request::{Body, DeleteOptions, Shown, WriteReply};
use crate::status::Status;

const BUDGETS: &str = "poddisruptionbudgets.policy";

impl Ask<'_> {
    pub(super) fn evict(&self, body: &Body) -> Result<Prepared, Status> {
        let body = self.decoded_part(body)?;
        let live = self.live().ok_or_else(|| self.not_found())?;
        let spent = if is_protected(&live.tree) { self.spend_budget(&live.tree)? } else { None };
        Ok(match self.delete_live(&live, &options(&body.tree))? {
            Prepared::Writes(plan) => {
                let writes = plan.writes.into_iter().chain(spent).collect();
                Prepared::Writes(Plan { writes, answer: success(201) })
            }
            Prepared::Answer(reply) => {
                let shown = Shown::Status(Status::new(201, "", ""));
                Prepared::Answer(WriteReply { code: 201, shown, ..reply })
            }
        })
    }

    /// One disruption less in the budget that covers a pod; nothing when none does.
    fn spend_budget(&self, pod: &Tree) -> Result<Option<Write>, Status> {
        let budgets = self.engine.in_namespace(BUDGETS, &self.request.target.namespace);
        let labels = pod.at(&["metadata", "labels"]);
        let covers = |budget: &&Object| {
            Labels::of_selector(budget.tree.at(&["spec", "selector"]))
                .is_some_and(|wanted| wanted.matches(labels))
        };
        let covering: Vec<&Object> = budgets.iter().filter(covers).collect();
        let budget = match covering[..] {
            [] => return Ok(None),
            [one] => one,
            _ => {
                return Err(Status::internal(
                    "this pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let name = budget.tree.text_at(&["metadata", "name"]);
        let left = budget.tree.int_at(&["status", "disruptionsAllowed"]).unwrap_or(0);
        if left <= 0 {
            return Err(blocked(&budget.tree, &name));
        }
        let stamp = self.now.to_seconds_text();
        let tree = budget
            .tree
            .with(&["status", "disruptionsAllowed"], left - 1)
            .with(&["status", "disruptedPods", &self.request.target.name], stamp);
        let namespace = self.request.target.namespace.clone();
        let key = Key { resource: Text::from(BUDGETS), namespace, name };
        let change = Change::Put(Object { tree, ..budget.clone() });
        Ok(Some(Write { key, expect: Expect::Revision(budget.revision), change }))
    }
}

/// Pods that are over or on their way out need no budget.
fn is_protected(pod: &Tree) -> bool {
    !is_doomed(pod) && !matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed" | "Pending")
}

fn blocked(budget: &Tree, name: &str) -> Status {
    let healthy = |key: &str| budget.int_at(&["status", key]).unwrap_or(0);
    let why = format!(
        "The disruption budget {name} needs {} healthy pods and has {} currently",
        healthy("desiredHealthy"),
        healthy("currentHealthy")
    );
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
