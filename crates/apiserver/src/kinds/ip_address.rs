//! IPAddresses: the name is an IPv4 or IPv6 address.

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{FieldErrors, NameRule, ResourceStrategy, StrategyContext, ip_check};

#[derive(Debug)]
pub(super) struct IpAddress;

impl ResourceStrategy for IpAddress {
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let name = new.str_at(&["metadata", "name"]);
        if !name.is_empty() {
            ip_check::canonical_address(name, &FieldPath::Root("metadata.name"), errors);
        }
        let at = FieldPath::Root("spec.parentRef");
        let Some(parent) = new.at(&["spec", "parentRef"]) else {
            at.required(errors);
            return;
        };
        let group = parent.str_at(&["group"]);
        if !group.is_empty() {
            at.field("group").problems(group, names::subdomain(group), errors);
        }
        for key in ["resource", "name"] {
            match parent.str_at(&[key]) {
                "" => at.field(key).required(errors),
                text => at.field(key).problems(text, names::path_segment(text), errors),
            }
        }
        let namespace = parent.str_at(&["namespace"]);
        if !namespace.is_empty() {
            at.field("namespace").problems(namespace, names::path_segment(namespace), errors);
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let parent = |tree: &Tree| tree.at(&["spec", "parentRef"]).cloned();
        if parent(new) != parent(old) {
            let shown = parent(new).unwrap_or(Tree::Null);
            errors.push(FieldError::invalid("spec.parentRef", shown, "field is immutable"));
        }
    }
}
