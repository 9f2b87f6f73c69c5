//! Roles and their bindings: stored and checked here, enforced elsewhere.

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::at::At;
use super::{Cx, Errors, NameRule, Strategy};

/// What roles and bindings do differently.
#[derive(Debug)]
pub(super) struct Rbac;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Strategy for Rbac {
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn default(&self, tree: Tree) -> Tree {
        let Some(subjects) = tree.get("subjects") else {
            return tree;
        };
        // Users and groups belong to this group, service accounts to none.
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

    fn validate_create(&self, new: &Tree, _cx: &Cx<'_>, errors: &mut Errors) {
        let list = At::Root("rules");
        for (i, rule) in new.items_at(&["rules"]).iter().enumerate() {
            let at = list.item(i);
            if rule.items_at(&["verbs"]).is_empty() {
                at.field("verbs").required(errors);
            }
            if !rule.items_at(&["nonResourceURLs"]).is_empty() {
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

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        self.validate_create(new, cx, errors);
        At::Root("roleRef").immutable(new.get("roleRef"), old.get("roleRef"), errors);
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}
