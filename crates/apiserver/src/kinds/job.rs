//! Jobs: defaults, the generated selector, and immutability.

use std::collections::BTreeSet;

use muster_tree::{Tree, tree};

use super::field_path::FieldPath;
use super::{
    FieldErrors, GenerationRule, Propagation, ResourceStrategy, StrategyContext, job_check, job_status,
    job_update, job_warnings, pod_defaults,
};
use crate::status::Status;

#[derive(Debug)]
pub(super) struct Job;

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

const BACKOFF_LIMIT: i64 = 6;
/// Default `backoffLimit` with `backoffLimitPerIndex`: effectively unlimited, the per-index limit counts.
const BACKOFF_LIMIT_PER_INDEX: i64 = i32::MAX as i64;

impl ResourceStrategy for Job {
    fn default_before_schema(&self, tree: Tree) -> Tree {
        let spec = tree.get("spec").unwrap_or(&Tree::Null);
        // Completions unset but parallelism set is a work queue Job; with neither the Job has one pod.
        if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
            return tree.with(&["spec", "completions"], 1);
        }
        tree
    }

    fn default(&self, tree: Tree) -> Tree {
        let spec = tree.get("spec").unwrap_or(&Tree::Null);
        let limit =
            if spec.get("backoffLimitPerIndex").is_some() { BACKOFF_LIMIT_PER_INDEX } else { BACKOFF_LIMIT };
        // A pod failure policy needs the final state of a pod before it is replaced.
        let replace = if spec.get("podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
        let mut new = spec.clone();
        for (key, value) in
            [("backoffLimit", Tree::from(limit)), ("podReplacementPolicy", Tree::from(replace))]
        {
            if new.get(key).is_none() {
                new = new.with_key(key, value);
            }
        }
        if let Some(template) = new.at(&["template", "spec"]) {
            new = new.with(&["template", "spec"], pod_defaults::spec(template));
        }
        with_template_labels(tree.with_key("spec", new))
    }

    fn prepare_create(&self, tree: Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        let tree = tree.with_key("status", tree!({}));
        if tree.bool_at(&["spec", "manualSelector"]) == Some(true) {
            return Ok(with_template_labels(tree));
        }
        // Labels that were defaulted from the template follow it.
        let labels = [&["metadata", "labels"][..], &["spec", "template", "metadata", "labels"]]
            .map(|path| tree.at(path));
        let borrowed = matches!(labels, [Some(own), Some(pods)] if own.same_branch(pods));
        let tree = if borrowed { tree.without(&["metadata", "labels"]) } else { tree };
        Ok(with_template_labels(with_selector(&tree)))
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        // Generated labels are added after the Job's labels are defaulted from the template: they are not validated
        // as the Job's own, as upstream.
        if generated_labels_only(new) {
            errors.retain(|error| error.path != "metadata.labels");
        }
        job_check::job(new, errors);
        let mut seen = BTreeSet::new();
        // The Job's and the template's labels are often the same map: report its errors once.
        errors.retain(|error| seen.insert(error.to_string()));
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        if new.get("spec") == old.get("spec") {
            return;
        }
        let (spec, root) = (new.get("spec").unwrap_or(&Tree::Null), FieldPath::Root("spec"));
        job_check::spec(spec, &root, errors);
        job_check::selecting(spec, &root, errors);
        job_update::check(new, old, errors);
    }

    fn validate_status(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        job_status::check(new, old, errors);
    }

    fn warnings(&self, new: &Tree, old: Option<&Tree>) -> Vec<String> {
        let mut all = if old.is_none() { job_warnings::name(new) } else { Vec::new() };
        if old.is_none_or(|old| old.get("spec") != new.get("spec")) {
            all.extend(job_warnings::spec(new.get("spec").unwrap_or(&Tree::Null), "spec"));
        }
        all
    }

    fn default_propagation(&self) -> Propagation {
        Propagation::Orphan
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn field(&self, tree: &Tree, path: &str) -> String {
        match path {
            "status.successful" => tree.int_at(&["status", "succeeded"]).unwrap_or(0).to_string(),
            _ => super::field_text(tree, path),
        }
    }

    fn generation(&self) -> GenerationRule {
        GenerationRule::Spec
    }
}

fn with_template_labels(tree: Tree) -> Tree {
    let labels = tree.at(&["spec", "template", "metadata", "labels"]).cloned().unwrap_or(Tree::Null);
    let has_own = !tree.entries_at(&["metadata", "labels"]).is_empty();
    if has_own || labels.entries().is_empty() { tree } else { tree.with(&["metadata", "labels"], labels) }
}

/// Whether the Job has no labels except the generated ones.
fn generated_labels_only(job: &Tree) -> bool {
    let of_template = job.at(&["spec", "template", "metadata", "labels"]);
    let own = job_check::own_labels(job.str_at(&["metadata", "name"]), job.str_at(&["metadata", "uid"]));
    job.at(&["metadata", "labels"]) == of_template && of_template == Some(&own)
}

/// Generates the selector and pod labels by which the Job owns its pods.
fn with_selector(tree: &Tree) -> Tree {
    let (name, uid) = (tree.text_at(&["metadata", "name"]), tree.text_at(&["metadata", "uid"]));
    let labels =
        tree.at(&["spec", "template", "metadata", "labels"]).cloned().unwrap_or_else(Tree::empty_map);
    // Labels that the client set are kept here, and rejected in validation.
    let labels = job_check::own_labels(&name, &uid).entries().iter().fold(labels, |labels, (key, value)| {
        if labels.get(key).is_some() { labels } else { labels.with_key(key, value.clone()) }
    });
    let tree = tree.with(&["spec", "template", "metadata", "labels"], labels);
    if tree.at(&["spec", "selector", "matchLabels", UID_LABEL]).is_some() {
        return tree;
    }
    tree.with(&["spec", "selector", "matchLabels", UID_LABEL], uid)
}
