//! Roles and bindings: stored and validated, not enforced here.

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{FieldErrors, NameRule, ResourceStrategy, StrategyContext, go_format};

#[derive(Debug)]
pub(super) struct Rbac;

const GROUP: &str = "rbac.authorization.k8s.io";

impl ResourceStrategy for Rbac {
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn default(&self, tree: Tree) -> Tree {
        let Some(subjects) = tree.get("subjects") else {
            return tree;
        };
        // Users and Groups are in the RBAC API group, ServiceAccounts in the core group.
        let subjects = subjects.map_items(|_, subject| {
            let named = matches!(subject.str_at(&["kind"]), "User" | "Group");
            if named && subject.str_at(&["apiGroup"]).is_empty() {
                subject.with(&["apiGroup"], GROUP)
            } else {
                subject.clone()
            }
        });
        tree.with_key("subjects", subjects)
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        if let Some(role) = new.get("roleRef") {
            role_ref(role, new.str_at(&["kind"]), errors);
        }
        let list = FieldPath::Root("rules");
        for (i, rule) in new.items_at(&["rules"]).iter().enumerate() {
            let at = list.item(i);
            if rule.items_at(&["verbs"]).is_empty() {
                at.field("verbs").required(errors);
            }
            let urls = rule.items_at(&["nonResourceURLs"]);
            if !urls.is_empty() {
                if new.str_at(&["kind"]) == "Role" {
                    let why = "namespaced rules cannot apply to non-resource URLs";
                    errors.push(FieldError::invalid(
                        at.field("nonResourceURLs"),
                        Tree::list(urls.to_vec()),
                        why,
                    ));
                }
                continue;
            }
            for key in ["apiGroups", "resources"] {
                if rule.items_at(&[key]).is_empty() {
                    errors.push(FieldError::required(
                        at.field(key),
                        format!(
                            "resource rules must supply at least one {}",
                            key.trim_end_matches('s').replace("apiGroup", "api group")
                        ),
                    ));
                }
            }
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        self.validate_create(new, cx, errors);
        if let Some(role) = new.get("roleRef").filter(|role| Some(*role) != old.get("roleRef")) {
            let shown = go_format::typed(role, &go_format::ROLE_REF);
            errors.push(FieldError::invalid_as("roleRef", &shown, "field is immutable"));
        }
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

fn role_ref(role: &Tree, kind: &str, errors: &mut FieldErrors) {
    let at = FieldPath::Root("roleRef");
    let group = role.str_at(&["apiGroup"]);
    if group != GROUP {
        errors.push(FieldError::not_supported(at.field("apiGroup"), group, [GROUP]));
    }
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let of = role.str_at(&["kind"]);
    if !kinds.contains(&of) {
        errors.push(FieldError::not_supported(at.field("kind"), of, kinds.iter().copied()));
    }
    let name = role.str_at(&["name"]);
    if name.is_empty() {
        at.field("name").required(errors);
    } else {
        at.field("name").problems(name, muster_schema::names::path_segment(name), errors);
    }
}
