//! Kinds with a pod template: apps, CronJobs, PodTemplates.

use muster_schema::error::FieldError;
use muster_schema::selector::Labels;
use muster_tree::{Tree, tree};

use super::field_path::FieldPath;
use super::{
    FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, affinity_check, job_check, pod_check,
    pod_defaults,
};
use crate::status::Status;

/// The strategy of kinds with a pod template.
#[derive(Debug)]
pub(super) struct TemplateStrategy {
    /// The path of the template.
    pub template: &'static [&'static str],
    /// Whether `spec.selector` must match the template's labels.
    pub selects: bool,
    pub generation: GenerationRule,
    /// Whether new objects get an empty status.
    pub status: bool,
}

impl TemplateStrategy {
    fn spec_path(&self) -> Vec<&'static str> {
        self.template.iter().copied().chain(["spec"]).collect()
    }
}

impl ResourceStrategy for TemplateStrategy {
    fn default(&self, tree: Tree) -> Tree {
        let path = self.spec_path();
        let tree = match tree.at(&path) {
            Some(spec) => {
                let spec = pod_defaults::spec(spec);
                tree.with(&path, spec)
            }
            None => tree,
        };
        match tree.str_at(&["kind"]) {
            "Deployment" => {
                rolling(tree, "strategy", &[("maxSurge", "25%".into()), ("maxUnavailable", "25%".into())])
            }
            "StatefulSet" => {
                rolling(tree, "updateStrategy", &[("maxUnavailable", 1.into()), ("partition", 0.into())])
            }
            "DaemonSet" => {
                let tree = counted(tree);
                rolling(tree, "updateStrategy", &[("maxSurge", 0.into()), ("maxUnavailable", 1.into())])
            }
            _ => tree,
        }
    }

    fn prepare_create(&self, tree: Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        let tree = if is_daemon(&tree) { tree.with(&TEMPLATE_GENERATION, "1") } else { tree };
        Ok(if self.status { tree.with_key("status", tree!({})) } else { tree })
    }

    fn prepare_update(&self, new: Tree, old: &Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        if !is_daemon(&new) {
            return Ok(new);
        }
        let before: i64 = old.str_at(&TEMPLATE_GENERATION).parse().unwrap_or(0);
        // Pods of older templates are found by this number; the controller itself uses ControllerRevisions.
        let changed = new.at(self.template) != old.at(self.template);
        Ok(new.with(&TEMPLATE_GENERATION, (before + i64::from(changed)).to_string()))
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let place = self.template.join(".");
        let root = FieldPath::Root(&place);
        let template = new.at(self.template).unwrap_or(&Tree::Null);
        job_check::metadata(template, &root, errors);
        pod_check::spec(template.get("spec").unwrap_or(&Tree::Null), &root.field("spec"), errors);
        if self.selects {
            selector(new, template, errors);
            let word = template.str_at(&["spec", "restartPolicy"]);
            if !matches!(word, "" | "Always") {
                errors.push(FieldError::not_supported("spec.template.spec.restartPolicy", word, ["Always"]));
            }
        }
        FieldPath::Root("spec.replicas").not_negative(new.int_at(&["spec", "replicas"]), errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        if new.get("spec") == old.get("spec") && new.get("template") == old.get("template") {
            return;
        }
        self.validate_create(new, cx, errors);
        if self.selects {
            let of = |tree: &Tree| tree.at(&["spec", "selector"]).cloned();
            FieldPath::Root("spec.selector").immutable(of(new).as_ref(), of(old).as_ref(), errors);
        }
    }

    fn warnings(&self, new: &Tree, old: Option<&Tree>) -> Vec<String> {
        let path = self.spec_path();
        let changed = old.is_none_or(|old| old.at(&path) != new.at(&path));
        if changed { pod_check::warnings(new.at(&path), &path.join(".")) } else { Vec::new() }
    }

    fn returns_deleted_object(&self) -> bool {
        self.template == ["template"]
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        if self.selects { &["status.replicas"] } else { &[] }
    }

    fn field(&self, tree: &Tree, path: &str) -> String {
        match path {
            "status.replicas" => tree.int_at(&["status", "replicas"]).unwrap_or(0).to_string(),
            _ => super::field_text(tree, path),
        }
    }

    fn generation(&self) -> GenerationRule {
        self.generation
    }
}

/// The annotation that counts template changes of a DaemonSet.
const TEMPLATE_GENERATION: [&str; 3] =
    ["metadata", "annotations", "deprecated.daemonset.template.generation"];

fn is_daemon(tree: &Tree) -> bool {
    tree.str_at(&["kind"]) == "DaemonSet"
}

fn counted(tree: Tree) -> Tree {
    if tree.at(&TEMPLATE_GENERATION).is_some() { tree } else { tree.with(&TEMPLATE_GENERATION, "0") }
}

/// Defaults the parameters of a rolling update.
fn rolling(tree: Tree, key: &str, defaults: &[(&str, Tree)]) -> Tree {
    if tree.str_at(&["spec", key, "type"]) != "RollingUpdate" {
        return tree;
    }
    let bounds = tree.at(&["spec", key, "rollingUpdate"]).cloned().unwrap_or_else(Tree::empty_map);
    let bounds = defaults.iter().fold(bounds, |bounds, (name, value)| {
        if bounds.get(name).is_some() { bounds } else { bounds.with_key(name, value.clone()) }
    });
    tree.with(&["spec", key, "rollingUpdate"], bounds)
}

fn selector(new: &Tree, template: &Tree, errors: &mut FieldErrors) {
    let at = FieldPath::Root("spec.selector");
    let labels = template.at(&["metadata", "labels"]);
    let Some(selector) = new.at(&["spec", "selector"]).filter(|selector| !selector.is_null()) else {
        at.required(errors);
        let shown = labels.cloned().unwrap_or(Tree::Null);
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", shown, why));
        return;
    };
    affinity_check::selector(Some(selector), &at, errors);
    if selector.is_empty() {
        // The message names deployments for every kind, as upstream.
        errors.push(FieldError::invalid(at, selector.clone(), "empty selector is invalid for deployment"));
        return;
    }
    if Labels::of_selector(Some(selector)).is_some_and(|wanted| !wanted.matches(labels)) {
        let shown = labels.cloned().unwrap_or(Tree::Null);
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", shown, why));
    }
}

/// A strategy with small deviations from the generic behavior.
#[derive(Debug, Clone, Copy)]
pub(super) struct SimpleStrategy {
    pub names: super::NameRule,
    pub create_on_update: bool,
    pub returns_deleted: bool,
    pub generation: GenerationRule,
}

pub(super) const SIMPLE: SimpleStrategy = SimpleStrategy {
    names: super::NameRule::Subdomain,
    create_on_update: false,
    returns_deleted: false,
    generation: GenerationRule::None,
};

impl ResourceStrategy for SimpleStrategy {
    fn name_rule(&self) -> super::NameRule {
        self.names
    }

    fn allow_create_on_update(&self) -> bool {
        self.create_on_update
    }

    fn returns_deleted_object(&self) -> bool {
        self.returns_deleted
    }

    fn generation(&self) -> GenerationRule {
        self.generation
    }
}
