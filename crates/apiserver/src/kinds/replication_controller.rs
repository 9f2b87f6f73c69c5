//! ReplicationControllers. No controller acts on them; they are served because `kubectl apply --prune` and `kubectl
//! cluster-info dump` list them unconditionally and fail without the kind.
//!
//! Unlike other kinds with a template, the selector is a map of labels, may change, and is filled in from the template.

use muster_schema::error::FieldError;
use muster_tree::{Text, Tree};

use super::field_path::FieldPath;
use super::template::TemplateStrategy;
use super::{
    FieldErrors, GenerationRule, Propagation, ResourceStrategy, StrategyContext, job_check, pod_check,
};
use crate::status::Status;

const TEMPLATE: TemplateStrategy = TemplateStrategy {
    template: &["spec", "template"],
    selects: false,
    generation: GenerationRule::Spec,
    status: true,
};
const LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];

#[derive(Debug)]
pub(super) struct ReplicationController;

impl ResourceStrategy for ReplicationController {
    fn default(&self, tree: Tree) -> Tree {
        let tree = TEMPLATE.default(tree);
        let Some(labels) = tree.at(&LABELS).filter(|labels| !labels.is_empty()).cloned() else { return tree };
        [&["spec", "selector"], &["metadata", "labels"]].into_iter().fold(tree, |tree, path| {
            let is_set = tree.at(path).is_some_and(|there| !there.is_empty());
            if is_set { tree } else { tree.with(path, labels.clone()) }
        })
    }

    fn prepare_create(&self, tree: Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        TEMPLATE.prepare_create(tree, cx)
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        FieldPath::Root("spec.minReadySeconds")
            .not_negative(new.int_at(&["spec", "minReadySeconds"]), errors);
        let selector = new.entries_at(&["spec", "selector"]);
        if selector.is_empty() {
            FieldPath::Root("spec.selector").required(errors);
        }
        FieldPath::Root("spec.replicas").not_negative(new.int_at(&["spec", "replicas"]), errors);
        let root = FieldPath::Root("spec.template");
        match new.at(TEMPLATE.template).filter(|template| !template.is_null()) {
            Some(it) => template(it, selector, &root, errors),
            None => root.required(errors),
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        if new.get("spec") != old.get("spec") {
            self.validate_create(new, cx, errors);
        }
    }

    fn warnings(&self, new: &Tree, old: Option<&Tree>) -> Vec<String> {
        TEMPLATE.warnings(new, old)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn field(&self, tree: &Tree, path: &str) -> String {
        TEMPLATE.field(tree, path)
    }

    fn generation(&self) -> GenerationRule {
        GenerationRule::Spec
    }

    /// As for Jobs, the default is to orphan pods.
    fn default_propagation(&self) -> Propagation {
        Propagation::Orphan
    }
}

fn template(template: &Tree, selector: &[(Text, Tree)], root: &FieldPath<'_>, errors: &mut FieldErrors) {
    let labels = template.at(&["metadata", "labels"]);
    if !matches(selector, labels) {
        let shown = labels.cloned().unwrap_or(Tree::Null);
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", shown, why));
    }
    job_check::metadata(template, root, errors);
    let spec = template.get("spec").unwrap_or(&Tree::Null);
    pod_check::spec(spec, &root.field("spec"), errors);
    FieldPath::Root("spec.template.spec.restartPolicy").one_of(
        spec.str_at(&["restartPolicy"]),
        &["Always"],
        errors,
    );
    if spec.get("activeDeadlineSeconds").is_some() {
        let why = "activeDeadlineSeconds in ReplicationController is not Supported";
        errors.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", why));
    }
}

/// Whether the template matches the selector.
fn matches(selector: &[(Text, Tree)], labels: Option<&Tree>) -> bool {
    selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn controller(selector: Tree, labels: Tree) -> Tree {
        let template = tree!({"metadata": {"labels": labels}, "spec": {"containers": []}});
        tree!({"kind": "ReplicationController", "metadata": {"name": "a"}, "spec": {"selector": selector, "template": template}})
    }

    #[test]
    fn labels_and_selector_are_those_of_the_template_unless_they_are_set() {
        let labels = || tree!({"app": "web"});
        let filled = ReplicationController.default(controller(tree!({}), labels()));
        assert_eq!(filled.at(&["spec", "selector"]), Some(&labels()));
        assert_eq!(filled.at(&["metadata", "labels"]), Some(&labels()));
        let own = controller(tree!({"tier": "x"}), labels());
        assert_eq!(ReplicationController.default(own).at(&["spec", "selector"]), Some(&tree!({"tier": "x"})));
        let bare = controller(tree!({}), tree!({}));
        assert_eq!(ReplicationController.default(bare).at(&["metadata", "labels"]), None);
    }

    #[test]
    fn a_selector_is_a_part_of_the_labels() {
        let matched = |selector: &Tree, labels: &Tree| matches(selector.entries(), Some(labels));
        let labels = tree!({"app": "web", "tier": "x"});
        assert!(matched(&tree!({"app": "web"}), &labels) && matched(&tree!({}), &labels));
        assert!(!matched(&tree!({"app": "db"}), &labels) && !matched(&tree!({"no": "web"}), &labels));
        assert!(!matches(tree!({"app": "web"}).entries(), None));
    }
}
